#include "analyze/shapes.h"

#include <string.h>

#include "measure/sum.h"

bool ks_shape_read_number(struct ks_str text, size_t *at, int64_t *value)
{
    bool is_negative = *at < text.len && text.ptr[*at] == '-';
    size_t first = *at + (is_negative ? 1 : 0);
    size_t i = first;
    *value = 0;
    for (; i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9'; i++) {
        *value = ks_sum_add(ks_sum_scale(*value, 10), text.ptr[i] - '0');
    }
    if (i == first) {
        return false;
    }
    *value = is_negative ? -*value : *value;
    *at = i;
    return true;
}

bool ks_shape_read(struct ks_str text, size_t *at, struct ks_shape *shape)
{
    *shape = (struct ks_shape){0};
    for (++*at; *at < text.len && text.ptr[*at] != ']';) {
        int64_t value;
        if (text.ptr[*at] == ' ' || text.ptr[*at] == ',') {
            ++*at;
        } else if (!ks_shape_read_number(text, at, &value)) {
            return false;
        } else if (shape->count < KS_SHAPE_DIMS_MAX) {
            shape->dims[shape->count++] = value;
        } else {
            shape->is_too_long = true;
        }
    }
    if (*at >= text.len) {
        return false;
    }
    ++*at;
    return true;
}

int64_t ks_shape_elements(const struct ks_shape *shape)
{
    int64_t result = 1;
    for (size_t i = 0; i < shape->count; i++) {
        result = ks_sum_scale(result, shape->dims[i] < 0 ? 0 : shape->dims[i]);
    }
    return result;
}

bool ks_shape_equal(const struct ks_shape *a, const struct ks_shape *b)
{
    return a->count == b->count && !a->is_too_long && !b->is_too_long &&
           memcmp(a->dims, b->dims, a->count * sizeof(*a->dims)) == 0;
}

void ks_shapes_read(struct ks_str text, struct ks_shapes *shapes)
{
    shapes->count = 0;
    for (size_t i = 0; i < text.len && shapes->count < KS_SHAPES_MAX;) {
        size_t at = i;
        struct ks_shape shape;
        if (text.ptr[i] != '[' || !ks_shape_read(text, &at, &shape)) {
            i++; /* the brackets of lists */
            continue;
        }
        i = at;
        if (shape.count > 0 && !shape.is_too_long) {
            shapes->items[shapes->count++] = shape;
        }
    }
}

bool ks_shapes_have(const struct ks_shapes *shapes, const struct ks_shape *shape)
{
    for (size_t i = 0; i < shapes->count; i++) {
        if (ks_shape_equal(&shapes->items[i], shape)) {
            return true;
        }
    }
    return false;
}

static bool have_dim(const struct ks_shapes *shapes, int64_t dim)
{
    for (size_t i = 0; i < shapes->count; i++) {
        for (size_t j = 0; j < shapes->items[i].count; j++) {
            if (shapes->items[i].dims[j] == dim) {
                return true;
            }
        }
    }
    return false;
}

bool ks_shapes_lead_to(const struct ks_shapes *shapes, const struct ks_shape *shape,
                       size_t new_dims_max)
{
    int64_t elements = ks_shape_elements(shape);
    for (size_t i = 0; i < shapes->count; i++) {
        if (elements > 1 && ks_shape_elements(&shapes->items[i]) == elements) {
            return true;
        }
    }
    size_t shared = 0;
    size_t added = 0;
    for (size_t i = 0; i < shape->count; i++) {
        bool is_known = shape->dims[i] == 1 || have_dim(shapes, shape->dims[i]);
        shared += is_known && shape->dims[i] > 1;
        added += !is_known;
    }
    return shared > 0 && added <= new_dims_max;
}
