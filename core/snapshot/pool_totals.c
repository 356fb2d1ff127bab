#include "snapshot/pool_totals.h"

#include <stdlib.h>

#include "base/err.h"

static int compare_ints(int64_t left, int64_t right)
{
    return (left > right) - (left < right);
}

int ks_pool_key_compare(const struct ks_pool_key *left, const struct ks_pool_key *right)
{
    int order = compare_ints(left->device, right->device);
    order = order ? order : compare_ints(left->id[0], right->id[0]);
    order = order ? order : compare_ints(left->id[1], right->id[1]);
    order = order ? order : compare_ints(left->stream, right->stream);
    return order ? order : compare_ints(left->is_small, right->is_small);
}

static int compare_totals(const void *left, const void *right)
{
    const struct ks_pool_totals *a = left;
    const struct ks_pool_totals *b = right;
    return ks_pool_key_compare(&a->key, &b->key);
}

static void add_block(struct ks_pool_totals *totals, const struct ks_snap_block *block)
{
    bool is_active = ks_snap_is_active(block->state);
    bool is_allocated = block->state == KS_SNAP_ACTIVE;
    totals->allocated += is_allocated ? block->size : 0;
    totals->waste += is_allocated ? block->size - block->requested : 0;
    totals->active += is_active ? block->size : 0;
    totals->requested += is_active ? block->requested : 0;
    totals->block_count += is_allocated;
    if (!is_active) {
        totals->free += block->size;
        totals->free_count++;
        totals->free_largest =
            block->size > totals->free_largest ? block->size : totals->free_largest;
    }
}

static struct ks_pool_totals of_segment(const struct ks_snapshot *snapshot,
                                        const struct ks_snap_segment *segment)
{
    struct ks_pool_totals totals = {
        .key = {.device = segment->device,
                .id = {segment->pool[0], segment->pool[1]},
                .stream = segment->stream,
                .is_small = segment->is_small},
        .reserved = segment->total,
        .segment_count = 1,
    };
    for (size_t i = 0; i < segment->block_count; i++) {
        add_block(&totals, &snapshot->blocks[segment->first_block + i]);
    }
    totals.inactive_split = totals.active > 0 ? totals.free : 0;
    totals.segment_free_count = totals.active == 0;
    return totals;
}

static void add_totals(struct ks_pool_totals *to, const struct ks_pool_totals *from)
{
    to->reserved += from->reserved;
    to->allocated += from->allocated;
    to->active += from->active;
    to->requested += from->requested;
    to->waste += from->waste;
    to->free += from->free;
    to->inactive_split += from->inactive_split;
    to->free_count += from->free_count;
    to->block_count += from->block_count;
    to->segment_count += from->segment_count;
    to->segment_free_count += from->segment_free_count;
    to->free_largest =
        from->free_largest > to->free_largest ? from->free_largest : to->free_largest;
}

/* Neighbours of one key become one; gives how many are left. */
static size_t merge(struct ks_pool_totals *list, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && ks_pool_key_compare(&list[kept - 1].key, &list[i].key) == 0) {
            add_totals(&list[kept - 1], &list[i]);
        } else {
            list[kept++] = list[i];
        }
    }
    return kept;
}

static void sum_devices(const struct ks_snapshot *snapshot, struct ks_pool_totals_list *out)
{
    size_t at = 0; /* pools are in the order of devices, too */
    for (size_t i = 0; i < snapshot->device_count; i++) {
        struct ks_pool_totals *device = &out->devices[i];
        device->key.device = snapshot->devices[i];
        for (; at < out->pool_count && out->pools[at].key.device == device->key.device; at++) {
            add_totals(device, &out->pools[at]);
        }
    }
    out->device_count = snapshot->device_count;
}

enum ks_status ks_pool_totals_compute(const struct ks_snapshot *snapshot, struct ks_arena *arena,
                                      struct ks_pool_totals_list *out, struct ks_err *err)
{
    size_t count = snapshot->segment_count;
    *out = (struct ks_pool_totals_list){0};
    out->pools = ks_new(arena, struct ks_pool_totals, count + 1);
    out->devices = ks_new(arena, struct ks_pool_totals, snapshot->device_count + 1);
    if (!out->pools || !out->devices) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot sum up snapshot: no memory");
    }
    for (size_t i = 0; i < count; i++) {
        out->pools[i] = of_segment(snapshot, &snapshot->segments[i]);
    }
    qsort(out->pools, count, sizeof(*out->pools), compare_totals);
    out->pool_count = merge(out->pools, count);
    sum_devices(snapshot, out);
    return KS_OK;
}
