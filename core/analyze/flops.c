#include "analyze/flops.h"

#include "analyze/shapes.h"
#include "measure/sum.h"

enum { INPUTS_MAX = 8, CONV_INPUTS = 7 };

struct shapes {
    struct ks_shape items[INPUTS_MAX];
    size_t count; /* inputs that were named, also past INPUTS_MAX */
};

/* ------------------------------------------------------------ texts */

/* One list of numbers per input; what is no such list (a TensorList) counts as an empty one. */
static void read_shapes(struct ks_str text, struct shapes *shapes)
{
    *shapes = (struct shapes){0};
    size_t depth = 0;
    for (size_t i = 0; i < text.len;) {
        if (text.ptr[i] == '[' && depth == 1) {
            struct ks_shape shape;
            size_t at = i;
            bool is_plain = ks_shape_read(text, &at, &shape);
            if (shapes->count < INPUTS_MAX) {
                shapes->items[shapes->count] = is_plain ? shape : (struct ks_shape){0};
            }
            shapes->count++;
            if (is_plain) {
                i = at;
                continue;
            }
        }
        depth += text.ptr[i] == '[';
        depth -= text.ptr[i] == ']' && depth > 0;
        i++;
    }
}

/* The index-th string of a JSON array of strings, without its quotes; false: there is none.
 * Scalars may be written without quotes by other tools. */
static bool array_item(struct ks_str text, size_t index, struct ks_str *item)
{
    size_t i = text.len > 0 && text.ptr[0] == '[' ? 1 : text.len;
    for (size_t at = 0; i < text.len; at++) {
        while (i < text.len && (text.ptr[i] == ' ' || text.ptr[i] == ',' || text.ptr[i] == '\n')) {
            i++;
        }
        if (i >= text.len || text.ptr[i] == ']') {
            return false;
        }
        bool is_quoted = text.ptr[i] == '"';
        size_t first = i += is_quoted;
        while (i < text.len &&
               (is_quoted ? text.ptr[i] != '"' : text.ptr[i] != ',' && text.ptr[i] != ']')) {
            i += text.ptr[i] == '\\' && i + 1 < text.len ? 2 : 1;
        }
        i = i > text.len ? text.len : i;
        *item = (struct ks_str){text.ptr + first, i - first};
        i += is_quoted;
        if (at == index) {
            return true;
        }
    }
    return false;
}

/* Was input `index` a tensor? Without types an empty shape is taken for no tensor, which only
 * matters for tensors of no dimension. */
static bool is_tensor(const struct ks_flops_call *call, const struct shapes *shapes, size_t index)
{
    if (index >= shapes->count || index >= INPUTS_MAX || shapes->items[index].is_too_long) {
        return false;
    }
    struct ks_str type;
    if (call->types.len > 0 && array_item(call->types, index, &type)) {
        return type.len > 0 && !ks_str_equal(type, KS_STR("Scalar")) &&
               !ks_str_equal(type, KS_STR("ScalarList")) &&
               !ks_str_equal(type, KS_STR("TensorList"));
    }
    return shapes->items[index].count > 0;
}

/* ------------------------------------------------------------ formulas */

/* 2 * rows * inner * columns; the batch counts once. */
static int64_t count_matmul(const struct ks_flops_call *call, const struct shapes *shapes,
                            size_t first, bool is_batched)
{
    if (!is_tensor(call, shapes, first) || !is_tensor(call, shapes, first + 1)) {
        return 0;
    }
    const struct ks_shape *left = &shapes->items[first];
    const struct ks_shape *right = &shapes->items[first + 1];
    if (left->count == 0) {
        return 0;
    }
    int64_t inner = left->dims[left->count - 1];
    int64_t batch = is_batched ? left->dims[0] : 1;
    if (inner <= 0 || batch <= 0) {
        return 0;
    }
    int64_t flops = ks_shape_elements(left) / inner / batch;
    return ks_sum_scale(ks_sum_scale(flops, ks_shape_elements(right)), 2);
}

/* "[1, 1]" among the concrete inputs. */
static bool read_pair(const struct ks_flops_call *call, size_t index, int64_t *pair)
{
    struct ks_str text;
    struct ks_shape list;
    size_t at = 0;
    if (!array_item(call->concrete, index, &text) || text.len == 0 || text.ptr[0] != '[' ||
        !ks_shape_read(text, &at, &list) || list.count != 2) {
        return false;
    }
    pair[0] = list.dims[0];
    pair[1] = list.dims[1];
    return true;
}

static int64_t conv_extent(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                           int64_t dilation)
{
    int64_t padded = ks_sum_add(size, ks_sum_scale(2, padding < 0 ? 0 : padding));
    int64_t covered = ks_sum_scale(dilation < 0 ? 0 : dilation, kernel > 0 ? kernel - 1 : 0);
    int64_t steps = ks_sum_sub(ks_sum_sub(padded, covered), 1);
    return steps < 0 ? 0 : steps / stride + 1;
}

static int64_t count_conv2d(const struct ks_flops_call *call, const struct shapes *shapes)
{
    if (shapes->count < CONV_INPUTS || !is_tensor(call, shapes, 0) || !is_tensor(call, shapes, 1)) {
        return 0;
    }
    const struct ks_shape *input = &shapes->items[0];
    const struct ks_shape *kernel = &shapes->items[1];
    int64_t stride[2];
    int64_t padding[2];
    int64_t dilation[2];
    struct ks_str text;
    int64_t groups = 0;
    size_t at = 0;
    if (input->count != 4 || kernel->count != 4 || !read_pair(call, 3, stride) ||
        !read_pair(call, 4, padding) || !read_pair(call, 5, dilation) ||
        !array_item(call->concrete, 6, &text) || !ks_shape_read_number(text, &at, &groups) ||
        groups <= 0 || stride[0] <= 0 || stride[1] <= 0) {
        return 0;
    }
    int64_t flops = 2;
    flops = ks_sum_scale(flops, input->dims[0]);
    flops = ks_sum_scale(
        flops, conv_extent(input->dims[2], kernel->dims[2], stride[0], padding[0], dilation[0]));
    flops = ks_sum_scale(
        flops, conv_extent(input->dims[3], kernel->dims[3], stride[1], padding[1], dilation[1]));
    flops = ks_sum_scale(flops, ks_sum_scale(kernel->dims[2], kernel->dims[3]));
    flops = ks_sum_scale(flops, input->dims[1]);
    flops = ks_sum_scale(flops, kernel->dims[0]);
    return flops / groups;
}

/* The formulas of torch/csrc/profiler/util.cpp. */
int64_t ks_flops_count(const struct ks_flops_call *call)
{
    struct shapes shapes;
    read_shapes(call->shapes, &shapes);
    if (ks_str_equal(call->name, KS_STR("aten::conv2d"))) {
        return count_conv2d(call, &shapes);
    }
    if (ks_str_equal(call->name, KS_STR("aten::mm"))) {
        return count_matmul(call, &shapes, 0, false);
    }
    if (ks_str_equal(call->name, KS_STR("aten::addmm"))) {
        return count_matmul(call, &shapes, 1, false);
    }
    if (ks_str_equal(call->name, KS_STR("aten::bmm"))) {
        return count_matmul(call, &shapes, 0, true);
    }
    if (ks_str_equal(call->name, KS_STR("aten::baddbmm"))) {
        return count_matmul(call, &shapes, 1, true);
    }
    if (ks_str_equal(call->name, KS_STR("aten::add")) ||
        ks_str_equal(call->name, KS_STR("aten::mul"))) {
        return is_tensor(call, &shapes, 0) ? ks_shape_elements(&shapes.items[0]) : 0;
    }
    return 0;
}
