#include "snapshot/snapshot_compare.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"

static enum ks_status no_memory(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot compare snapshots: no memory");
}

/* ------------------------------------------------------------------ holders */

struct ordered {
    struct ks_holder_change change;
    const struct ks_stack_pool *pool;
};

static int64_t size_of(const struct ks_holder_change *change)
{
    int64_t size = change->after - change->before;
    return size < 0 ? -size : size;
}

static int compare_ordered(const void *left, const void *right)
{
    const struct ks_holder_change *a = &((const struct ordered *)left)->change;
    const struct ks_holder_change *b = &((const struct ordered *)right)->change;
    const struct ks_stack_pool *pool = ((const struct ordered *)left)->pool;
    if (size_of(a) != size_of(b)) {
        return size_of(a) > size_of(b) ? -1 : 1;
    }
    int order = ks_stack_pool_compare_frames(pool, a->place, b->place);
    order = order ? order : ks_stack_pool_compare(pool, a->stack, b->stack);
    return order ? order : (a->device > b->device) - (a->device < b->device);
}

static bool is_changed(const struct ks_holder_change *change)
{
    return change->before != change->after || change->count_before != change->count_after;
}

struct joining {
    struct ordered *items;
    size_t count;
    struct ks_map index; /* (device, stack or place): index + 1 */
    const struct ks_stack_pool *pool;
};

static enum ks_status join(struct joining *j, const struct ks_holder_list *list, bool by_place,
                           bool is_after, struct ks_err *err)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct ks_holder *holder = &list->items[i];
        uint32_t key = by_place ? holder->place : holder->stack;
        uint64_t *index = ks_map_put(&j->index, (uint32_t)holder->device, key, NULL);
        if (!index) {
            return no_memory(err);
        }
        if (*index == 0) {
            *index = ++j->count;
            j->items[j->count - 1] = (struct ordered){
                .change = {.device = holder->device,
                           .stack = holder->stack,
                           .place = holder->place},
                .pool = j->pool,
            };
        }
        struct ks_holder_change *change = &j->items[*index - 1].change;
        *(is_after ? &change->after : &change->before) += holder->bytes;
        *(is_after ? &change->count_after : &change->count_before) += holder->count;
    }
    return KS_OK;
}

static enum ks_status keep_changes(struct joining *j, struct ks_arena *arena,
                                   struct ks_holder_changes *out, struct ks_err *err)
{
    qsort(j->items, j->count, sizeof(*j->items), compare_ordered);
    out->items = ks_new(arena, struct ks_holder_change, j->count + 1);
    if (!out->items) {
        return no_memory(err);
    }
    for (size_t i = 0; i < j->count; i++) {
        if (is_changed(&j->items[i].change)) {
            out->items[out->count++] = j->items[i].change;
        }
    }
    return KS_OK;
}

static enum ks_status compare_lists(const struct ks_stack_pool *pool,
                                    const struct ks_holder_list *before,
                                    const struct ks_holder_list *after, bool by_place,
                                    struct ks_arena *arena, struct ks_holder_changes *out,
                                    struct ks_err *err)
{
    struct joining j = {.pool = pool};
    ks_map_init(&j.index);
    j.items = ks_alloc(before->count + after->count + 1, sizeof(*j.items));
    enum ks_status status = j.items ? join(&j, before, by_place, false, err) : no_memory(err);
    if (status == KS_OK) {
        status = join(&j, after, by_place, true, err);
    }
    if (status == KS_OK) {
        status = keep_changes(&j, arena, out, err);
    }
    ks_map_release(&j.index);
    ks_free(j.items);
    return status;
}

/* ------------------------------------------------------------------ segments */

/* Counts segments of `list` that `other` does not have, as torch.cuda._memory_viz compares. */
static enum ks_status count_only(const struct ks_snapshot *list, const struct ks_snapshot *other,
                                 size_t *count, int64_t *bytes, struct ks_err *err)
{
    struct ks_map there;
    enum ks_status status = KS_OK;
    ks_map_init(&there);
    for (size_t i = 0; i < other->segment_count && status == KS_OK; i++) {
        const struct ks_snap_segment *segment = &other->segments[i];
        if (!ks_map_put(&there, segment->address, (uint64_t)segment->total, NULL)) {
            status = no_memory(err);
        }
    }
    for (size_t i = 0; i < list->segment_count && status == KS_OK; i++) {
        const struct ks_snap_segment *segment = &list->segments[i];
        if (!ks_map_find(&there, segment->address, (uint64_t)segment->total)) {
            (*count)++;
            *bytes += segment->total;
        }
    }
    ks_map_release(&there);
    return status;
}

enum ks_status ks_snapshots_compare(const struct ks_snapshot *before,
                                    const struct ks_holdings *holdings_before,
                                    const struct ks_snapshot *after,
                                    const struct ks_holdings *holdings_after,
                                    struct ks_arena *arena, struct ks_snapshot_comparison *out,
                                    struct ks_err *err)
{
    *out = (struct ks_snapshot_comparison){0};
    KS_ASSERT(before->pool == after->pool);
    KS_TRY(compare_lists(before->pool, &holdings_before->by_stack, &holdings_after->by_stack, false,
                         arena, &out->by_stack, err));
    KS_TRY(compare_lists(before->pool, &holdings_before->by_place, &holdings_after->by_place, true,
                         arena, &out->by_place, err));
    for (size_t i = 0; i < out->by_stack.count; i++) {
        int64_t change = out->by_stack.items[i].after - out->by_stack.items[i].before;
        *(change > 0 ? &out->came : &out->went) += change > 0 ? change : -change;
    }
    KS_TRY(count_only(before, after, &out->segments_only_before, &out->segment_bytes_only_before,
                      err));
    return count_only(after, before, &out->segments_only_after, &out->segment_bytes_only_after,
                      err);
}
