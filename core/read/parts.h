/* Reads one large plain file on several threads. The file is cut into ranges of equal size; the
 * reader itself goes on with the first, each other one is a part with a thread, a window and a
 * builder of its own. A part guesses where its first item begins; it counts only when the one
 * before it ended exactly there, and is thrown away otherwise. So the rows, their order and all ids
 * are the same for any number of threads. */
#ifndef KS_READ_PARTS_H
#define KS_READ_PARTS_H

#include "read/reader.h"

struct ks_parts;

struct ks_parts_plan {
    const struct ks_reader_parts *how;
    void *state; /* the reader; stays the caller's */
    const struct ks_reader_context *context;
    unsigned threads;    /* the caller's thread among them */
    size_t window_bytes; /* of each part, 0: as usual; a range holds many windows */
    int fd;
    int64_t offset; /* of the first byte that is not read yet */
    int64_t end;    /* of the file */
    struct ks_progress *progress;
};

/* `*out` NULL: the rest is too small, or no thread could be had. Else the reader has been told
 * where to stop. */
enum ks_status ks_parts_start(const struct ks_parts_plan *plan, struct ks_parts **out,
                              struct ks_err *err) KS_MUST_CHECK;
/* The reader has stopped at `*offset`: hands it the parts that begin there, one after the other,
 * and moves `*offset` behind them. An error of a part is the one that reading in one go would have
 * met. */
enum ks_status ks_parts_take(struct ks_parts *parts, int64_t *offset, struct ks_err *err)
    KS_MUST_CHECK;
/* Stops what still runs; NULL is fine. */
void ks_parts_end(struct ks_parts *parts);

#endif
