#include "analyze/forward_ops.h"

#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"

/* Threads that have the same number. Replicas of a model run in some, hostile files in more. */
enum { LANES_MAX = 64 };

void ks_forward_ops_init(struct ks_forward_ops *ops)
{
    *ops = (struct ks_forward_ops){.items = NULL};
    ks_map_init(&ops->by_number);
    ks_map_init(&ops->lane_of);
}

void ks_forward_ops_release(struct ks_forward_ops *ops)
{
    ks_free(ops->items);
    ks_map_release(&ops->by_number);
    ks_map_release(&ops->lane_of);
}

/* The entry of this lane in a list, or KS_FORWARD_NONE. */
static uint32_t find_lane(const struct ks_forward_ops *ops, uint64_t first, uint32_t lane)
{
    uint64_t at = first;
    for (int i = 0; at != 0 && i < LANES_MAX; i++) {
        if (ops->items[at - 1].lane == lane) {
            return (uint32_t)(at - 1);
        }
        at = ops->items[at - 1].next;
    }
    return KS_FORWARD_NONE;
}

enum ks_status ks_forward_ops_note(struct ks_forward_ops *ops, int64_t number,
                                   const struct ks_forward_op *op, uint32_t *index,
                                   struct ks_err *err)
{
    KS_TRY(ks_grow(&ops->items, ops->count, &ops->capacity, sizeof(*ops->items),
                   "operators of autograd", err));
    uint64_t *slot = ks_map_put(&ops->by_number, (uint64_t)number, 0, NULL);
    if (!slot || ops->count >= KS_FORWARD_NONE) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET,
                       "Cannot keep operators of autograd: count=%zu", ops->count);
    }
    uint32_t known = find_lane(ops, *slot, op->lane);
    if (known != KS_FORWARD_NONE) {
        uint32_t next = ops->items[known].next;
        ops->items[known] = *op;
        ops->items[known].next = next;
        *index = known;
        return KS_OK;
    }
    *index = (uint32_t)ops->count++;
    ops->items[*index] = *op;
    ops->items[*index].next = (uint32_t)*slot;
    *slot = (uint64_t)*index + 1;
    return KS_OK;
}

/* "aten::tanh_" makes "TanhBackward0": the same letters before the last "Backward". */
static bool is_maker_by_name(struct ks_str op, struct ks_str node)
{
    static const char tail[] = "Backward";
    size_t end = node.len;
    while (end > 0 && (end + sizeof(tail) - 1 > node.len ||
                       memcmp(node.ptr + end, tail, sizeof(tail) - 1) != 0)) {
        end--;
    }
    size_t a = op.len;
    while (end > 0 && a > 0) {
        if (op.ptr[a - 1] == '_') {
            a--;
        } else if (node.ptr[end - 1] == '_') {
            end--;
        } else if ((op.ptr[a - 1] | 0x20) != (node.ptr[end - 1] | 0x20)) {
            break;
        } else {
            a--;
            end--;
        }
    }
    return (a == 0 || op.ptr[a - 1] == ':') && (end == 0 || strchr(" :", node.ptr[end - 1]));
}

/* Of operators with the same number in several threads, the only one whose name fits the node. */
static uint32_t only_by_name(const struct ks_forward_ops *ops, uint64_t first,
                             const struct ks_trace *trace, struct ks_str node)
{
    uint32_t found = KS_FORWARD_NONE;
    uint64_t at = first;
    for (int i = 0; trace && at != 0 && i < LANES_MAX; i++) {
        const struct ks_forward_op *op = &ops->items[at - 1];
        if (is_maker_by_name(ks_trace_str(trace, (struct ks_strid){op->name}), node)) {
            if (found != KS_FORWARD_NONE) {
                return KS_FORWARD_NONE;
            }
            found = (uint32_t)(at - 1);
        }
        at = op->next;
    }
    return found;
}

static uint32_t latest(const struct ks_forward_ops *ops, uint64_t first)
{
    uint64_t at = first;
    uint32_t best = (uint32_t)(first - 1);
    for (int i = 0; at != 0 && i < LANES_MAX; i++) {
        best = ops->items[at - 1].start_ns > ops->items[best].start_ns ? (uint32_t)(at - 1) : best;
        at = ops->items[at - 1].next;
    }
    return best;
}

enum ks_status ks_forward_ops_find(struct ks_forward_ops *ops, int64_t thread, int64_t number,
                                   const struct ks_trace *trace, struct ks_str node,
                                   uint32_t *index, struct ks_err *err)
{
    *index = KS_FORWARD_NONE;
    const uint64_t *first = ks_map_find(&ops->by_number, (uint64_t)number, 0);
    if (!first) {
        return KS_OK;
    }
    bool is_alone = ops->items[*first - 1].next == 0;
    const uint64_t *lane = ks_map_find(&ops->lane_of, (uint64_t)thread, 0);
    if (lane) {
        *index = find_lane(ops, *first, (uint32_t)*lane);
        return KS_OK;
    }
    uint32_t by_name = is_alone ? KS_FORWARD_NONE : only_by_name(ops, *first, trace, node);
    *index = by_name != KS_FORWARD_NONE ? by_name : latest(ops, *first);
    if (is_alone || by_name != KS_FORWARD_NONE) {
        uint64_t *slot = ks_map_put(&ops->lane_of, (uint64_t)thread, 0, NULL);
        if (!slot) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep threads of autograd");
        }
        *slot = ops->items[*index].lane;
    }
    return KS_OK;
}
