/* Writes a JSON value anew: strict whatever was wrong with it, without the arguments that are to
 * go, and without names when these are to be replaced. Values that need nothing of this are handed
 * on byte for byte by the caller. */
#ifndef KS_EXPORT_REWRITE_H
#define KS_EXPORT_REWRITE_H

#include "base/text.h"
#include "export/event_head.h"
#include "export/sink.h"

struct ks_pseudonyms;

struct ks_rewrite {
    struct ks_sink *sink;
    struct ks_text scratch; /* decoded strings */
    bool drop_args;
    struct ks_pseudonyms *names; /* NULL: names stay */
    int64_t dropped_count;       /* arguments and members that names could hide in */
    enum ks_status status;       /* of what cannot be said otherwise: memory */
    struct ks_err *err;
};

/* The event at the cursor. */
void ks_rewrite_event(struct ks_rewrite *rewrite, struct ks_json_cursor cursor,
                      const struct ks_event_head *head);
/* Any value, strings repaired. */
void ks_rewrite_value(struct ks_rewrite *rewrite, struct ks_json_cursor *cursor);
/* A member of the document, or nothing: false when it is left out.
 * `before` is what is put in front of it. */
bool ks_rewrite_member(struct ks_rewrite *rewrite, const struct ks_json_str *key,
                       struct ks_json_cursor cursor, const char *before);
/* A string in quotes, escaped. */
void ks_rewrite_put_string(struct ks_sink *sink, struct ks_str text);

#endif
