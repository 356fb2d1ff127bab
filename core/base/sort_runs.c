#include "base/sort_runs.h"

#include <string.h>

#include "base/alloc.h"

struct sorter {
    size_t count;
    size_t size;
    int (*compare)(const void *left, const void *right);
};

/* End of the run that begins at `begin`; `count` or less. */
static size_t run_end(const struct sorter *sorter, const char *items, size_t begin)
{
    size_t end = begin < sorter->count ? begin + 1 : begin;
    while (end < sorter->count &&
           sorter->compare(items + (end - 1) * sorter->size, items + end * sorter->size) <= 0) {
        end++;
    }
    return end;
}

/* Merges [begin, middle) and [middle, end). */
static void merge(const struct sorter *sorter, const char *from, char *to, size_t begin,
                  size_t middle, size_t end)
{
    const size_t size = sorter->size;
    size_t left = begin;
    size_t right = middle;
    size_t at = begin;
    while (left < middle && right < end) {
        bool is_left = sorter->compare(from + left * size, from + right * size) <= 0;
        size_t taken = is_left ? left++ : right++;
        memcpy(to + at++ * size, from + taken * size, size);
    }
    memcpy(to + at * size, from + left * size, (middle - left) * size);
    at += middle - left;
    memcpy(to + at * size, from + right * size, (end - right) * size);
}

/* Merges runs by pairs. True: one is left. */
static bool merge_pairs(const struct sorter *sorter, const char *from, char *to)
{
    size_t runs = 0;
    for (size_t begin = 0; begin < sorter->count; runs++) {
        size_t middle = run_end(sorter, from, begin);
        size_t end = run_end(sorter, from, middle);
        merge(sorter, from, to, begin, middle, end);
        begin = end;
    }
    return runs <= 1;
}

bool ks_sort_runs(void *items, size_t count, size_t size,
                  int (*compare)(const void *left, const void *right))
{
    struct sorter sorter = {count, size, compare};
    if (run_end(&sorter, items, 0) == count) {
        return true;
    }
    char *spare = ks_alloc(count, size);
    if (!spare) {
        return false;
    }
    char *from = items;
    char *to = spare;
    bool is_sorted = false;
    while (!is_sorted) {
        is_sorted = merge_pairs(&sorter, from, to);
        char *sorted = to;
        to = from;
        from = sorted;
    }
    if (from == spare) {
        memcpy(items, spare, count * size);
    }
    ks_free(spare);
    return true;
}
