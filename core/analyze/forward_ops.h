/* Operators of a forward pass by the number of the autograd node that they make, so that a node of
 * the backward pass finds its maker (docs/analyses/autograd.md). An operator carries the number
 * that the next node of its thread will get, and so do the operators around it that make none: the
 * last one to start with a number is the maker. Memory: one entry for each number. */
#ifndef KS_ANALYZE_FORWARD_OPS_H
#define KS_ANALYZE_FORWARD_OPS_H

#include "base/err.h"
#include "base/map.h"
#include "store/trace.h"

enum { KS_FORWARD_NONE = UINT32_MAX };

struct ks_forward_op {
    int64_t start_ns;
    int64_t dur_ns;
    int64_t device_ns; /* of all that it called, once it is over */
    uint32_t lane;
    uint32_t name;
    uint32_t dims;
    uint32_t module; /* innermost one around it, KS_FORWARD_NONE */
    uint32_t next;   /* 1 + index of one with this number in another thread */
    bool has_backward;
};

struct ks_forward_ops {
    struct ks_forward_op *items;
    size_t count;
    size_t capacity;
    struct ks_map by_number; /* 1 + index */
    struct ks_map lane_of;   /* Fwd thread id -> lane, once that is known */
};

void ks_forward_ops_init(struct ks_forward_ops *ops);
void ks_forward_ops_release(struct ks_forward_ops *ops);

/* An operator with a number begins; `*index` is its place until another one of its thread takes it
 * over, which has another start or name. */
enum ks_status ks_forward_ops_note(struct ks_forward_ops *ops, int64_t number,
                                   const struct ks_forward_op *op, uint32_t *index,
                                   struct ks_err *err) KS_MUST_CHECK;

/* The maker of a node; KS_FORWARD_NONE: it is not in the trace. `thread` is torch's own number of
 * the forward thread. Which lane that is, the first node tells whose number one lane alone has, or
 * whose name (`node`) fits the operator of one lane alone; before that, the one that began
 * last is taken. */
enum ks_status ks_forward_ops_find(struct ks_forward_ops *ops, int64_t thread, int64_t number,
                                   const struct ks_trace *trace, struct ks_str node,
                                   uint32_t *index, struct ks_err *err) KS_MUST_CHECK;

#endif
