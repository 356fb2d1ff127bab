/* Shapes of tensors, read from the texts that a trace holds: "[[8, 3], [], [[2], [4]]]". */
#ifndef KS_ANALYZE_SHAPES_H
#define KS_ANALYZE_SHAPES_H

#include "base/str.h"

enum { KS_SHAPE_DIMS_MAX = 16, KS_SHAPES_MAX = 8 };

struct ks_shape {
    int64_t dims[KS_SHAPE_DIMS_MAX];
    size_t count;
    bool is_too_long; /* it has more dimensions than there is room for */
};

/* The first shapes of a text that have a dimension at all, those inside lists of tensors, too. */
struct ks_shapes {
    struct ks_shape items[KS_SHAPES_MAX];
    size_t count;
};

/* A number from `*at` on, which moves behind it; false: there is none. */
bool ks_shape_read_number(struct ks_str text, size_t *at, int64_t *value);
/* "[3, 64]" from its '[' at `*at` on, which moves behind it; true when it holds nothing but
 * numbers. */
bool ks_shape_read(struct ks_str text, size_t *at, struct ks_shape *shape);
/* Product of the dimensions. */
int64_t ks_shape_elements(const struct ks_shape *shape);
bool ks_shape_equal(const struct ks_shape *a, const struct ks_shape *b);

void ks_shapes_read(struct ks_str text, struct ks_shapes *shapes);
bool ks_shapes_have(const struct ks_shapes *shapes, const struct ks_shape *shape);
/* Can `shape` be that of a result of inputs of these shapes? It has as many elements as one of
 * them, or their dimensions, at least one of which is larger than 1; and as many as `new_dims_max`
 * that they have not, such as the k of topk. */
bool ks_shapes_lead_to(const struct ks_shapes *shapes, const struct ks_shape *shape,
                       size_t new_dims_max);

#endif
