#include "snapshot/holders.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"

static enum ks_status no_memory(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot list holders: no memory");
}

void ks_holders_init(struct ks_holders *holders)
{
    *holders = (struct ks_holders){0};
    ks_map_init(&holders->by_stack);
}

void ks_holders_release(struct ks_holders *holders)
{
    ks_map_release(&holders->by_stack);
    ks_free(holders->items);
}

static void add_to(struct ks_holder *to, const struct ks_holder *from)
{
    to->bytes += from->bytes;
    to->requested += from->requested;
    to->count += from->count;
    to->stack_count += from->stack_count;
}

enum ks_status ks_holders_add(struct ks_holders *holders, const struct ks_stack_pool *pool,
                              const struct ks_holder *holder, struct ks_err *err)
{
    KS_TRY(ks_grow(&holders->items, holders->count, &holders->capacity, sizeof(*holders->items),
                   "holders", err));
    uint64_t device = (uint32_t)holder->device | (uint64_t)holder->category.v << 32;
    uint64_t *index = ks_map_put(&holders->by_stack, device, holder->stack, NULL);
    if (!index) {
        return no_memory(err);
    }
    if (*index == 0) {
        struct ks_holder *added = &holders->items[holders->count];
        *added = *holder;
        added->place = ks_stack_pool_place(pool, holder->stack);
        added->stack_count = 1;
        *index = ++holders->count;
        return KS_OK;
    }
    struct ks_holder *known = &holders->items[*index - 1];
    add_to(known, holder);
    known->stack_count = 1;
    return KS_OK;
}

/* ------------------------------------------------------------------ in order */

struct ordered {
    struct ks_holder holder;
    const struct ks_stack_pool *pool; /* qsort has no room for it elsewhere */
};

static int compare_ordered(const void *left, const void *right)
{
    const struct ordered *a = left;
    const struct ordered *b = right;
    if (a->holder.bytes != b->holder.bytes) {
        return a->holder.bytes > b->holder.bytes ? -1 : 1;
    }
    int order = ks_stack_pool_compare_frames(a->pool, a->holder.place, b->holder.place);
    order = order ? order : ks_stack_pool_compare(a->pool, a->holder.stack, b->holder.stack);
    if (order == 0) {
        order = ks_str_compare(ks_strpool_get(a->pool->strings, a->holder.category),
                               ks_strpool_get(b->pool->strings, b->holder.category));
    }
    return order ? order
                 : (a->holder.device > b->holder.device) - (a->holder.device < b->holder.device);
}

static enum ks_status sort(const struct ks_holder *items, size_t count,
                           const struct ks_stack_pool *pool, struct ks_arena *arena,
                           struct ks_holder_list *out, struct ks_err *err)
{
    struct ordered *ordered = ks_alloc(count + 1, sizeof(*ordered));
    out->items = ks_new(arena, struct ks_holder, count + 1);
    out->count = count;
    if (!ordered || !out->items) {
        ks_free(ordered);
        return no_memory(err);
    }
    for (size_t i = 0; i < count; i++) {
        ordered[i] = (struct ordered){items[i], pool};
    }
    qsort(ordered, count, sizeof(*ordered), compare_ordered);
    for (size_t i = 0; i < count; i++) {
        out->items[i] = ordered[i].holder;
    }
    ks_free(ordered);
    return KS_OK;
}

/* Puts together what has the same key, which `clear` leaves of a holder. */
static enum ks_status regroup(const struct ks_holders *holders, const struct ks_stack_pool *pool,
                              void (*clear)(struct ks_holder *), struct ks_arena *arena,
                              struct ks_holder_list *out, struct ks_err *err)
{
    struct ks_map seen;
    size_t count = 0;
    enum ks_status status = KS_OK;
    struct ks_holder *groups = ks_alloc(holders->count + 1, sizeof(*groups));
    ks_map_init(&seen);
    for (size_t i = 0; groups && i < holders->count; i++) {
        struct ks_holder holder = holders->items[i];
        clear(&holder);
        uint64_t device = (uint32_t)holder.device | (uint64_t)holder.category.v << 32;
        uint64_t *index = ks_map_put(&seen, device, holder.place, NULL);
        if (!index) {
            status = no_memory(err);
            break;
        }
        if (*index == 0) {
            *index = ++count;
            groups[count - 1] = holder;
        } else {
            add_to(&groups[*index - 1], &holder);
        }
    }
    if (status == KS_OK) {
        status = groups ? sort(groups, count, pool, arena, out, err) : no_memory(err);
    }
    ks_map_release(&seen);
    ks_free(groups);
    return status;
}

static void keep_place(struct ks_holder *holder)
{
    holder->stack = 0;
    holder->category = (struct ks_strid){0};
}

static void keep_category(struct ks_holder *holder)
{
    holder->stack = holder->place = 0;
}

enum ks_status ks_holders_list(const struct ks_holders *holders, const struct ks_stack_pool *pool,
                               struct ks_arena *arena, struct ks_holder_list *by_stack,
                               struct ks_holder_list *by_place, struct ks_err *err)
{
    KS_TRY(regroup(holders, pool, keep_place, arena, by_place, err));
    return sort(holders->items, holders->count, pool, arena, by_stack, err);
}

/* ------------------------------------------------------------------ of a snapshot */

enum ks_size_class ks_size_class_of(int64_t bytes)
{
    static const int64_t MIB = (int64_t)1 << 20;
    return bytes <= 512        ? KS_SIZE_TINY
           : bytes <= MIB      ? KS_SIZE_SMALL
           : bytes < 10 * MIB  ? KS_SIZE_MEDIUM
           : bytes < 200 * MIB ? KS_SIZE_LARGE
                               : KS_SIZE_HUGE;
}

static enum ks_status add_blocks(const struct ks_snapshot *snapshot, struct ks_holders *stacks,
                                 struct ks_holders *categories, struct ks_holdings *out,
                                 struct ks_err *err)
{
    for (size_t i = 0; i < snapshot->block_count; i++) {
        const struct ks_snap_block *block = &snapshot->blocks[i];
        if (block->state != KS_SNAP_ACTIVE) {
            continue;
        }
        struct ks_holder holder = {
            .device = snapshot->segments[block->segment].device,
            .stack = block->stack,
            .bytes = block->size,
            .requested = block->requested,
            .count = 1,
        };
        KS_TRY(ks_holders_add(stacks, snapshot->pool, &holder, err));
        if (snapshot->has_categories) {
            holder.stack = 0;
            holder.category = block->category;
            KS_TRY(ks_holders_add(categories, snapshot->pool, &holder, err));
        }
        struct ks_size_total *size = &out->sizes[ks_size_class_of(block->size)];
        size->bytes += block->size;
        size->requested += block->requested;
        size->count++;
    }
    return KS_OK;
}

enum ks_status ks_holdings_compute(const struct ks_snapshot *snapshot, struct ks_arena *arena,
                                   struct ks_holdings *out, struct ks_err *err)
{
    struct ks_holders stacks;
    struct ks_holders categories;
    *out = (struct ks_holdings){0};
    ks_holders_init(&stacks);
    ks_holders_init(&categories);
    enum ks_status status = add_blocks(snapshot, &stacks, &categories, out, err);
    if (status == KS_OK) {
        status =
            ks_holders_list(&stacks, snapshot->pool, arena, &out->by_stack, &out->by_place, err);
    }
    if (status == KS_OK) {
        status = regroup(&categories, snapshot->pool, keep_category, arena, &out->by_category, err);
    }
    ks_holders_release(&stacks);
    ks_holders_release(&categories);
    return status;
}
