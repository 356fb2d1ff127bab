/* The contract of an input format. A reader is one file (or a family with one prefix) that turns
 * bytes into rows of a builder; nothing behind the builder knows formats.
 *
 * Bytes come in windows. `push` consumes whole items and says how much it used; the rest comes
 * again with more bytes behind it, so a reader keeps no bytes between calls. Windows are followed
 * by KS_WINDOW_PAD readable zero bytes, so that vector code may read past the end.
 */
#ifndef KS_READ_READER_H
#define KS_READ_READER_H

#include "base/log.h"
#include "store/builder.h"

enum { KS_WINDOW_PAD = 64 };

/* Times that rows may hold, and times with their file's base added: the difference of any two fits
 * in int64. Below zero is room for 4.5 years, above for the year 2257. */
static const int64_t KS_TIME_MIN_NS = -((int64_t)1 << 57);
static const int64_t KS_TIME_MAX_NS = INT64_MAX - ((int64_t)1 << 57);

/* Where a reader puts what it reads, and how it treats damage. */
struct ks_reader_context {
    struct ks_trace_builder *builder;
    struct ks_source *source;
    bool strict; /* damage is an error with its offset instead of a counter */
    const struct ks_log *log;
};

struct ks_window {
    const char *ptr;
    size_t size;
    int64_t offset; /* of ptr in the decompressed input */
    bool is_last;   /* no bytes follow */
};

/* How a list of items is read in several parts at once. A part is a reader, too, but one that knows
 * only whole items without any damage: it stops before everything else, and what it has read until
 * there is taken over when the part before it ended exactly where it began. The reader itself goes
 * on from there, so that a part never has to be right about anything but clean items. */
struct ks_reader_parts {
    /* Does the reader stand in a list that others could go on with? */
    bool (*can_split)(const void *state);
    /* From now on, push stops before the first item that begins at `offset` or behind it. */
    void (*stop_at)(void *state, int64_t offset);
    bool (*has_stopped)(const void *state);
    /* A part beside `state` that ends before the first item at `end` or behind. */
    enum ks_status (*open)(const void *state, const struct ks_reader_context *context, int64_t end,
                           void **part, struct ks_err *err);
    /* First place in the window, `from` or behind it, where an item seems to begin. */
    bool (*find)(void *part, const struct ks_window *window, size_t from, size_t *place);
    /* Like push of a reader. KS_END: the part has come to its end, or to what it does not know. */
    enum ks_status (*push)(void *part, const struct ks_window *window, size_t *used,
                           struct ks_err *err);
    /* Takes over what the part has read. `*is_over`: it did not come to its end. */
    enum ks_status (*take)(void *state, void *part, bool *is_over, struct ks_err *err);
    void (*close)(void *part); /* NULL is fine */
};

struct ks_reader {
    const char *name; /* "kineto-json" */
    /* Does the input start like this format? Looks at content only, never at the file name. */
    bool (*sniff)(struct ks_str head);
    enum ks_status (*open)(const struct ks_reader_context *context, struct ks_str head,
                           void **state, struct ks_err *err);
    /* KS_OK: `*used` bytes are done with (0: more bytes are needed, or all when is_last).
     * KS_END: the document is complete; what follows is not looked at. */
    enum ks_status (*push)(void *state, const struct ks_window *window, size_t *used,
                           struct ks_err *err);
    /* After the last byte: ends open things and checks that something was there. `size`: bytes of
     * the input, the last `left` of which the last push did not use. */
    enum ks_status (*finish)(void *state, int64_t size, int64_t left, struct ks_err *err);
    void (*close)(void *state);          /* NULL is fine */
    const struct ks_reader_parts *parts; /* NULL: this format is read in one go */
    /* For formats whose bytes lie anywhere in the file: reads all of a plain file of `size` bytes,
     * and is all that such a reader has beside name and sniff. It may open further sources behind
     * that of the context, and leaves the last one open. */
    enum ks_status (*read_file)(const struct ks_reader_context *context, const char *path,
                                struct ks_str head, int64_t size, struct ks_err *err);
};

/* First reader that knows the head of the input, or NULL. */
const struct ks_reader *ks_reader_find(struct ks_str head);

/* The readers: one line here, one in registry.c. */
extern const struct ks_reader ks_reader_kineto;          /* Kineto and Chrome JSON */
extern const struct ks_reader ks_reader_execution_trace; /* recognised and named, not read */
extern const struct ks_reader ks_reader_memory_timeline; /* recognised and named, not read */
extern const struct ks_reader ks_reader_recording;       /* what our own recorder writes */
extern const struct ks_reader ks_reader_nsys;            /* what nsys export --type sqlite writes */
extern const struct ks_reader ks_reader_pstats;          /* what cProfile and pstats dump */

#endif
