#include "show/json_notes.h"

void ks_json_notes_add_reason(struct ks_json_notes *notes, const char *list, const char *key,
                              const char *text)
{
    for (size_t i = 0; i < notes->reason_count; i++) {
        if (notes->reasons[i].list == list && notes->reasons[i].key == key) {
            return;
        }
    }
    KS_ASSERT(notes->reason_count < KS_JSON_REASONS_MAX);
    notes->reasons[notes->reason_count++] = (struct ks_json_reason){list, key, text};
}

size_t ks_json_notes_limit(struct ks_json_notes *notes, size_t limit, const char *key, size_t total)
{
    if (limit == 0 || total <= limit) {
        return total;
    }
    KS_ASSERT(notes->truncated_count < KS_JSON_TRUNCATED_MAX);
    notes->truncated[notes->truncated_count].key = key;
    notes->truncated[notes->truncated_count++].total = total;
    return limit;
}

void ks_json_notes_write_truncated(const struct ks_json_notes *notes, struct ks_json *json)
{
    if (notes->truncated_count == 0) {
        return;
    }
    ks_json_object_begin(json, "truncated");
    for (size_t i = 0; i < notes->truncated_count; i++) {
        ks_json_int(json, notes->truncated[i].key, (int64_t)notes->truncated[i].total);
    }
    ks_json_object_end(json);
}
