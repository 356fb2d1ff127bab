#include "store/sort.h"

#include "base/alloc.h"
#include "base/err.h"

/* Shorter stretches are made this long by insertion, which is quicker than merging them. */
enum { STRETCH_MIN = 16 };

void ks_sorter_init(struct ks_sorter *sorter)
{
    *sorter = (struct ks_sorter){0};
}

void ks_sorter_release(struct ks_sorter *sorter)
{
    ks_free(sorter->keys);
    ks_free(sorter->spare);
    ks_free(sorter->stretches);
    *sorter = (struct ks_sorter){0};
}

enum ks_status ks_sorter_reserve(struct ks_sorter *sorter, size_t count, struct ks_err *err)
{
    if (count <= sorter->capacity) {
        return KS_OK;
    }
    KS_ASSERT(count < UINT32_MAX);
    ks_sorter_release(sorter);
    sorter->keys = ks_alloc(count, sizeof(*sorter->keys));
    sorter->spare = ks_alloc(count, sizeof(*sorter->spare));
    sorter->stretches = ks_alloc(count / STRETCH_MIN + 2, sizeof(*sorter->stretches));
    if (!sorter->keys || !sorter->spare || !sorter->stretches) {
        ks_sorter_release(sorter);
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot sort rows: count=%zu", count);
    }
    sorter->capacity = count;
    return KS_OK;
}

static void read_keys(struct ks_row_key *keys, const char *rows, size_t row_size, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        keys[i] = (struct ks_row_key){ks_row_head_at(rows + i * row_size), (uint32_t)i};
    }
}

static void reverse(struct ks_row_key *keys, size_t begin, size_t end)
{
    while (end - begin > 1) {
        struct ks_row_key key = keys[begin];
        keys[begin++] = keys[--end];
        keys[end] = key;
    }
}

/* End of the stretch at `begin`. Only strictly falling ones are turned round: equal keys must keep
 * their order. */
static size_t find_stretch(struct ks_row_key *keys, size_t begin, size_t count)
{
    size_t end = begin + 1;
    if (end == count) {
        return end;
    }
    if (!ks_row_key_before(&keys[end], &keys[begin])) {
        while (end < count && !ks_row_key_before(&keys[end], &keys[end - 1])) {
            end++;
        }
        return end;
    }
    while (end < count && ks_row_key_before(&keys[end], &keys[end - 1])) {
        end++;
    }
    reverse(keys, begin, end);
    return end;
}

/* Takes keys[sorted_end .. end-1] into the sorted keys before them. */
static void insert(struct ks_row_key *keys, size_t begin, size_t sorted_end, size_t end)
{
    for (size_t i = sorted_end; i < end; i++) {
        struct ks_row_key key = keys[i];
        size_t at = i;
        while (at > begin && ks_row_key_before(&key, &keys[at - 1])) {
            keys[at] = keys[at - 1];
            at--;
        }
        keys[at] = key;
    }
}

static size_t cut_stretches(struct ks_sorter *sorter, size_t count)
{
    size_t stretch_count = 0;
    for (size_t begin = 0; begin < count;) {
        size_t end = find_stretch(sorter->keys, begin, count);
        size_t least = count - begin < STRETCH_MIN ? count : begin + STRETCH_MIN;
        if (end < least) {
            insert(sorter->keys, begin, end, least);
            end = least;
        }
        sorter->stretches[stretch_count++] = (uint32_t)begin;
        begin = end;
    }
    return stretch_count;
}

/* Merges keys[begin..middle) and keys[middle..end) into `out`, which starts at the same place. */
static void merge_two(const struct ks_row_key *keys, size_t begin, size_t middle, size_t end,
                      struct ks_row_key *out)
{
    const struct ks_row_key *left = keys + begin;
    const struct ks_row_key *left_end = keys + middle;
    const struct ks_row_key *right = left_end;
    const struct ks_row_key *right_end = keys + end;
    out += begin;
    if (ks_row_key_before(right, left_end - 1)) {
        while (left < left_end && right < right_end) {
            bool is_right = ks_row_key_before(right, left);
            *out++ = *(is_right ? right : left);
            right += is_right;
            left += !is_right;
        }
    }
    size_t left_count = (size_t)(left_end - left);
    memcpy(out, left, left_count * sizeof(*out));
    memcpy(out + left_count, right, (size_t)(right_end - right) * sizeof(*out));
}

/* Merges neighbours until one stretch is left; the result is in sorter->keys. */
static void merge_stretches(struct ks_sorter *sorter, size_t stretch_count, size_t count)
{
    uint32_t *stretches = sorter->stretches;
    while (stretch_count > 1) {
        stretches[stretch_count] = (uint32_t)count;
        size_t merged = 0;
        for (size_t i = 0; i < stretch_count; i += 2) {
            size_t begin = stretches[i];
            size_t middle = stretches[i + 1];
            if (i + 1 == stretch_count) {
                memcpy(sorter->spare + begin, sorter->keys + begin,
                       (middle - begin) * sizeof(*sorter->keys));
            } else {
                merge_two(sorter->keys, begin, middle, stretches[i + 2], sorter->spare);
            }
            stretches[merged++] = (uint32_t)begin;
        }
        stretch_count = merged;
        struct ks_row_key *keys = sorter->keys;
        sorter->keys = sorter->spare;
        sorter->spare = keys;
    }
}

/* The table's own sizes are told apart so that each row is copied without a call. */
static void gather(const struct ks_row_key *keys, const char *rows, size_t row_size, size_t count,
                   char *out)
{
#define GATHER(size)                                                                               \
    for (size_t i = 0; i < count; i++) {                                                           \
        memcpy(out + i * (size), rows + keys[i].index * (size), (size));                           \
    }
    switch (row_size) {
    case sizeof(struct ks_slice_row): GATHER(sizeof(struct ks_slice_row)) break;
    case sizeof(struct ks_gpu_row): GATHER(sizeof(struct ks_gpu_row)) break;
    default: GATHER(row_size) break;
    }
#undef GATHER
}

void ks_sorter_order(struct ks_sorter *sorter, const char *rows, size_t row_size, size_t count)
{
    KS_ASSERT(count <= sorter->capacity);
    read_keys(sorter->keys, rows, row_size, count);
    merge_stretches(sorter, cut_stretches(sorter, count), count);
}

void ks_sorter_sort(struct ks_sorter *sorter, const char *rows, size_t row_size, size_t count,
                    char *out)
{
    ks_sorter_order(sorter, rows, row_size, count);
    gather(sorter->keys, rows, row_size, count, out);
}
