/* The text of a Chrome or Kineto trace, item after item, for exports that hand it on: what no
 * column holds is in the text only. Goes over the file in windows, so memory holds one item.
 *
 * Damage is stepped over as the reader does, in a simpler way: an item that breaks the grammar is
 * read once more with quotes that end a string only where JSON goes on, and given up if that does
 * not help, until the next event. In strict mode the first fault is an error with its offset. */
#ifndef KS_EXPORT_TRACE_TEXT_H
#define KS_EXPORT_TRACE_TEXT_H

#include "read/json_cursor.h"

/* A value in the window, good until the callback returns. */
struct ks_text_item {
    struct ks_json_str key;       /* of members of the document; ptr NULL: none */
    struct ks_str text;           /* the value as it stands in the file */
    struct ks_json_cursor cursor; /* at its begin, set up as it was read */
    bool needs_repair;            /* the text is no strict JSON as it stands */
    int64_t offset;
};

struct ks_text_visitor {
    enum ks_status (*begin)(void *user, bool is_object, struct ks_err *err);
    /* A member of the document beside the lists of events. */
    enum ks_status (*member)(void *user, const struct ks_text_item *item, struct ks_err *err);
    enum ks_status (*events_begin)(void *user, struct ks_err *err);
    enum ks_status (*event)(void *user, const struct ks_text_item *item, struct ks_err *err);
    enum ks_status (*events_end)(void *user, struct ks_err *err);
    enum ks_status (*end)(void *user, struct ks_err *err);
};

/* What was wrong; all 0 for a sound file. */
struct ks_text_damage {
    int64_t repaired; /* items, commas and brackets */
    int64_t lost;     /* places where text was left out */
    bool is_cut;      /* the file, or its compressed stream, ends early */
};

struct ks_text_source {
    const char *path;
    bool strict;
    struct ks_progress *progress; /* NULL: nobody asks */
};

/* Errors: those of opening and reading, KS_ERR_FORMAT (no trace; damaged and strict), KS_ERR_LIMIT
 * (an item of more than 64 MiB), those of the visitor. */
enum ks_status ks_trace_text_walk(const struct ks_text_source *source,
                                  const struct ks_text_visitor *visitor, void *user,
                                  struct ks_text_damage *damage, struct ks_err *err) KS_MUST_CHECK;

#endif
