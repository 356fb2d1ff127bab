/* What operators that do little but read and write memory read and write: elementwise ones,
 * copies, reductions, norms and softmax, by the shapes and types of their inputs
 * (docs/analyses/op_work.md).
 * A type or a size that the trace does not say counts as 0. */
#ifndef KS_ANALYZE_OP_TRAFFIC_H
#define KS_ANALYZE_OP_TRAFFIC_H

#include "base/str.h"

enum ks_traffic_kind {
    KS_TRAFFIC_NONE,       /* it computes more than that, or is not known */
    KS_TRAFFIC_ELEMENTS,   /* each element from those of the inputs */
    KS_TRAFFIC_COMPARISON, /* the same, and makes booleans */
    KS_TRAFFIC_COPY,       /* into the first input */
    KS_TRAFFIC_FILL,       /* writes the first input, and reads none */
    KS_TRAFFIC_JOIN,       /* of several tensors */
    KS_TRAFFIC_REDUCTION,  /* what it makes is small beside what it reads */
    KS_TRAFFIC_ROWS,       /* norm or softmax: as many elements as the first input */
    KS_TRAFFIC_SOFTMAX_LOG,
    KS_TRAFFIC_SOFTMAX_LOG_BACKWARD,
    KS_TRAFFIC_PICK, /* reads and writes some elements of its inputs: a loss by its targets */
};

enum { KS_TRAFFIC_INPUTS_MAX = 8 };

struct ks_traffic_tensor {
    int64_t elements;
    int64_t width; /* bytes of an element, 0 unknown */
};

struct ks_traffic {
    enum ks_traffic_kind kind;
    struct ks_traffic_tensor inputs[KS_TRAFFIC_INPUTS_MAX]; /* that it reads */
    size_t input_count;
    struct ks_traffic_tensor output; /* no elements: hardly any */
    int64_t columns;                 /* last dimension of the largest of all inputs ... */
    int64_t largest;                 /* ... and its elements */
    int64_t width_min;               /* of all inputs as large as that; 0 unknown */
};

/* By the name behind "aten::". */
enum ks_traffic_kind ks_traffic_kind_of(struct ks_str name);

/* From the texts that a trace holds, for an operator of this kind. */
void ks_traffic_read(enum ks_traffic_kind kind, struct ks_str dims, struct ks_str types,
                     struct ks_traffic *traffic);

static inline double ks_traffic_bytes(const struct ks_traffic_tensor *tensor)
{
    return (double)tensor->elements * (double)tensor->width;
}

#endif
