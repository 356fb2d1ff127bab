/* Sorts the rows of one run by (lane, start, longest first, order, arrival). An adaptive merge
 * sort over keys: traces come as a few sorted stretches, so stretches are found and merged, and the
 * wide rows move only once, at the end. Buffers are kept for the next run. Internal to store/. */
#ifndef KS_STORE_SORT_H
#define KS_STORE_SORT_H

#include "store/table.h"

struct ks_row_key {
    struct ks_row_head head;
    uint32_t index; /* of the row, before */
};

static inline bool ks_row_key_before(const struct ks_row_key *a, const struct ks_row_key *b)
{
    return ks_row_head_before(&a->head, &b->head);
}

struct ks_sorter {
    struct ks_row_key *keys;
    struct ks_row_key *spare;
    uint32_t *stretches; /* begin of each sorted stretch */
    size_t capacity;     /* rows */
};

void ks_sorter_init(struct ks_sorter *sorter);
void ks_sorter_release(struct ks_sorter *sorter);
enum ks_status ks_sorter_reserve(struct ks_sorter *sorter, size_t count, struct ks_err *err)
    KS_MUST_CHECK;
/* Puts the keys of the `count` rows into order, in sorter->keys; `count` has been reserved. */
void ks_sorter_order(struct ks_sorter *sorter, const char *rows, size_t row_size, size_t count);
/* Writes the `count` rows to `out` in order. */
void ks_sorter_sort(struct ks_sorter *sorter, const char *rows, size_t row_size, size_t count,
                    char *out);

#endif
