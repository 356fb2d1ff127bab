/* What the allocators of two runs held at most, by device and rank. Windows of one rank are several
 * sources: the largest peak counts. */
#include <stdlib.h>

#include "base/err.h"
#include "base/map.h"
#include "compare/compare_impl.h"

/* The ranks of a run are told apart only when both have several: one run without a rank, and one
 * whose only rank is 0, are the same to a device. */
static bool has_several_ranks(const struct ks_compare_input *side)
{
    int64_t first = KS_UNKNOWN;
    for (uint32_t i = 0; i < ks_trace_source_count(side->trace); i++) {
        int64_t rank = ks_trace_source(side->trace, i)->rank;
        if (rank >= 0 && first != KS_UNKNOWN && rank != first) {
            return true;
        }
        first = rank >= 0 ? rank : first;
    }
    return false;
}

static const struct ks_compare_memory nothing = {
    .a_allocated = KS_UNKNOWN,
    .b_allocated = KS_UNKNOWN,
    .a_reserved = KS_UNKNOWN,
    .b_reserved = KS_UNKNOWN,
    .a_growth = KS_UNKNOWN,
    .b_growth = KS_UNKNOWN,
};

/* The row of a device, a new one when there is none; NULL: no memory. */
static struct ks_compare_memory *find(struct ks_comparison *out, struct ks_map *index, int64_t rank,
                                      int64_t device)
{
    uint64_t *slot = ks_map_put(index, (uint64_t)rank, (uint64_t)device, NULL);
    if (!slot) {
        return NULL;
    }
    if (*slot == 0) {
        struct ks_compare_memory *row = &out->memory[out->memory_count];
        *row = nothing;
        row->rank = rank;
        row->device = device;
        *slot = ++out->memory_count;
    }
    return &out->memory[*slot - 1];
}

static void raise_to(int64_t *most, int64_t value)
{
    *most = value > *most ? value : *most; // unknown is the least of all
}

static enum ks_status take(struct ks_comparison *out, struct ks_map *index,
                           const struct ks_compare_input *side, bool is_a, bool by_rank,
                           struct ks_err *err)
{
    for (size_t i = 0; i < side->facts->memory_count; i++) {
        const struct ks_memory_fact *fact = &side->facts->memory[i];
        int64_t rank = ks_trace_source(side->trace, fact->source)->rank;
        struct ks_compare_memory *row = find(out, index, by_rank ? rank : KS_UNKNOWN, fact->device);
        if (!row) {
            return ks_compare_no_memory(err);
        }
        raise_to(is_a ? &row->a_allocated : &row->b_allocated, fact->peak_allocated_bytes);
        raise_to(is_a ? &row->a_reserved : &row->b_reserved, fact->peak_reserved_bytes);
        if (fact->step_count > 0) {
            raise_to(is_a ? &row->a_growth : &row->b_growth, fact->growth_bytes);
        }
        row->is_in_a = row->is_in_a || is_a;
        row->is_in_b = row->is_in_b || !is_a;
    }
    return KS_OK;
}

static int64_t change_of(int64_t a, int64_t b)
{
    return a == KS_UNKNOWN || b == KS_UNKNOWN ? KS_UNKNOWN : b - a;
}

static int compare_rows(const void *left, const void *right)
{
    const struct ks_compare_memory *a = left;
    const struct ks_compare_memory *b = right;
    if (a->rank != b->rank) {
        return a->rank < b->rank ? -1 : 1;
    }
    return a->device < b->device ? -1 : a->device > b->device;
}

enum ks_status ks_compare_memory(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                                 struct ks_comparison *out, struct ks_err *err)
{
    const struct ks_compare_input *a = &sides[KS_COMPARE_A];
    const struct ks_compare_input *b = &sides[KS_COMPARE_B];
    bool by_rank = has_several_ranks(a) && has_several_ranks(b);
    size_t count = a->facts->memory_count + b->facts->memory_count;
    out->memory = ks_new(&out->arena, struct ks_compare_memory, count + 1);
    if (!out->memory) {
        return ks_compare_no_memory(err);
    }
    struct ks_map index;
    ks_map_init(&index);
    enum ks_status status = take(out, &index, a, true, by_rank, err);
    if (status == KS_OK) {
        status = take(out, &index, b, false, by_rank, err);
    }
    ks_map_release(&index);
    KS_TRY(status);
    for (size_t i = 0; i < out->memory_count; i++) {
        struct ks_compare_memory *row = &out->memory[i];
        row->state = !row->is_in_a   ? KS_COMPARE_NEW
                     : !row->is_in_b ? KS_COMPARE_GONE
                                     : KS_COMPARE_BOTH;
        row->allocated_change = change_of(row->a_allocated, row->b_allocated);
        row->reserved_change = change_of(row->a_reserved, row->b_reserved);
    }
    qsort(out->memory, out->memory_count, sizeof(*out->memory), compare_rows);
    return KS_OK;
}
