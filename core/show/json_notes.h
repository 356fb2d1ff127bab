/* What a JSON document says at its end about what is not in it: why values are null, and how many
 * rows lists would have. */
#ifndef KS_SHOW_JSON_NOTES_H
#define KS_SHOW_JSON_NOTES_H

#include "show/json_writer.h"

enum { KS_JSON_REASONS_MAX = 128, KS_JSON_TRUNCATED_MAX = 16 };

struct ks_json_notes {
    struct ks_json_reason {
        const char *list; /* NULL: the key stands alone */
        const char *key;
        const char *text;
    } reasons[KS_JSON_REASONS_MAX];
    size_t reason_count;
    struct {
        const char *key;
        size_t total;
    } truncated[KS_JSON_TRUNCATED_MAX];
    size_t truncated_count;
};

/* Notes the reason once for each list and key, which are told apart by their addresses. */
void ks_json_notes_add_reason(struct ks_json_notes *notes, const char *list, const char *key,
                              const char *text);
/* Rows to write of `total`, at most `limit` unless that is 0; notes when some are left out. */
size_t ks_json_notes_limit(struct ks_json_notes *notes, size_t limit, const char *key,
                           size_t total);
/* `truncated {key: total}`, when there is any. */
void ks_json_notes_write_truncated(const struct ks_json_notes *notes, struct ks_json *json);

#endif
