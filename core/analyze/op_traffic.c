#include "analyze/op_traffic.h"

#include "analyze/shapes.h"
#include "measure/sum.h"

/* ------------------------------------------------------------ names */

struct names {
    enum ks_traffic_kind kind;
    const char *const *names;
    size_t count;
};

static const char *const elements[] = {
    "add",
    "sub",
    "rsub",
    "mul",
    "div",
    "neg",
    "pow",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "sqrt",
    "rsqrt",
    "square",
    "reciprocal",
    "abs",
    "sign",
    "sin",
    "cos",
    "erf",
    "floor",
    "ceil",
    "round",
    "sigmoid",
    "tanh",
    "silu",
    "gelu",
    "relu",
    "elu",
    "mish",
    "leaky_relu",
    "hardswish",
    "hardsigmoid",
    "hardtanh",
    "softplus",
    "threshold",
    "sigmoid_backward",
    "tanh_backward",
    "silu_backward",
    "gelu_backward",
    "threshold_backward",
    "elu_backward",
    "mish_backward",
    "leaky_relu_backward",
    "hardswish_backward",
    "hardsigmoid_backward",
    "hardtanh_backward",
    "softplus_backward",
    "clamp",
    "clamp_min",
    "clamp_max",
    "maximum",
    "minimum",
    "where",
    "masked_fill",
    "lerp",
    "addcmul",
    "addcdiv",
    "native_dropout",
    "native_dropout_backward",
    "_fused_dropout",
    "triu",
    "tril",
};
static const char *const comparisons[] = {"eq",          "ne",         "lt",          "le",
                                          "gt",          "ge",         "logical_not", "logical_and",
                                          "logical_or",  "isnan",      "isinf",       "bitwise_and",
                                          "bitwise_not", "bitwise_or", "isfinite"};
static const char *const fills[] = {"fill", "zero", "bernoulli"};
static const char *const reductions[] = {
    "sum", "mean", "amax", "amin", "var", "std", "norm", "linalg_vector_norm", "prod", "logsumexp"};
static const char *const rows[] = {"native_layer_norm", "native_layer_norm_backward",
                                   "_fused_rms_norm",   "_fused_rms_norm_backward",
                                   "native_group_norm", "native_group_norm_backward",
                                   "_softmax",          "_softmax_backward_data"};
static const char *const picks[] = {
    "nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward",
    "gather",           "scatter",           "scatter_add"};

static bool has_name(const struct names *list, struct ks_str name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (ks_str_equal(name, ks_str_from(list->names[i]))) {
            return true;
        }
    }
    return false;
}

enum ks_traffic_kind ks_traffic_kind_of(struct ks_str name)
{
    static const char *const copies[] = {"copy"};
    static const char *const joins[] = {"cat"};
    static const char *const logs[] = {"_log_softmax"};
    static const char *const backward_logs[] = {"_log_softmax_backward_data"};
    static const struct names known[] = {
        {KS_TRAFFIC_ELEMENTS, elements, KS_COUNT_OF(elements)},
        {KS_TRAFFIC_COMPARISON, comparisons, KS_COUNT_OF(comparisons)},
        {KS_TRAFFIC_COPY, copies, KS_COUNT_OF(copies)},
        {KS_TRAFFIC_FILL, fills, KS_COUNT_OF(fills)},
        {KS_TRAFFIC_JOIN, joins, KS_COUNT_OF(joins)},
        {KS_TRAFFIC_REDUCTION, reductions, KS_COUNT_OF(reductions)},
        {KS_TRAFFIC_ROWS, rows, KS_COUNT_OF(rows)},
        {KS_TRAFFIC_SOFTMAX_LOG, logs, KS_COUNT_OF(logs)},
        {KS_TRAFFIC_SOFTMAX_LOG_BACKWARD, backward_logs, KS_COUNT_OF(backward_logs)},
        {KS_TRAFFIC_PICK, picks, KS_COUNT_OF(picks)},
    };
    if (name.len > 0 && name.ptr[name.len - 1] == '_') {
        name.len--; /* in place */
    }
    for (size_t i = 0; i < KS_COUNT_OF(known); i++) {
        if (has_name(&known[i], name)) {
            return known[i].kind;
        }
    }
    return KS_TRAFFIC_NONE;
}

/* ------------------------------------------------------------ shapes and types */

/* A tensor among the inputs. */
struct input {
    struct ks_shape shape;
    int64_t width; /* 0: inside of a list of tensors, whose types torch does not write */
};

struct inputs {
    struct input items[KS_TRAFFIC_INPUTS_MAX];
    size_t count;
};

static int64_t width_of(struct ks_str type)
{
    static const struct {
        const char *type;
        int64_t width;
    } known[] = {
        {"float", 4}, {"c10::BFloat16", 2}, {"c10::Half", 2},     {"double", 8}, {"long int", 8},
        {"long", 8},  {"int", 4},           {"short int", 2},     {"short", 2},  {"bool", 1},
        {"char", 1},  {"signed char", 1},   {"unsigned char", 1},
    };
    for (size_t i = 0; i < KS_COUNT_OF(known); i++) {
        if (ks_str_equal(type, ks_str_from(known[i].type))) {
            return known[i].width;
        }
    }
    return ks_str_starts(type, KS_STR("c10::Float8")) ? 1 : 0;
}

/* The next text in quotes from `*at` on, which moves behind it; empty: there is none. */
static struct ks_str next_type(struct ks_str types, size_t *at)
{
    while (*at < types.len && types.ptr[*at] != '"') {
        ++*at;
    }
    size_t first = *at < types.len ? ++*at : *at;
    while (*at < types.len && types.ptr[*at] != '"') {
        ++*at;
    }
    struct ks_str type = {types.ptr + first, *at - first};
    *at += *at < types.len;
    return type;
}

/* Keeps the shapes up to the end of the input that begins at `*at`. */
static void read_input(struct ks_str dims, size_t *at, struct ks_str type, struct inputs *inputs)
{
    size_t depth = 0;
    int64_t width = width_of(type);
    bool is_list = ks_str_equal(type, KS_STR("TensorList"));
    do {
        size_t next = *at;
        struct ks_shape shape;
        if (dims.ptr[*at] == '[' && ks_shape_read(dims, &next, &shape)) {
            bool is_tensor = (width > 0 || is_list) && !shape.is_too_long;
            if (is_tensor && inputs->count < KS_TRAFFIC_INPUTS_MAX) {
                inputs->items[inputs->count++] = (struct input){shape, width};
            }
            *at = next;
            continue;
        }
        depth += dims.ptr[*at] == '[';
        depth -= dims.ptr[*at] == ']' && depth > 0;
        ++*at;
    } while (depth > 0 && *at < dims.len);
}

static void read_inputs(struct ks_str dims, struct ks_str types, struct inputs *inputs)
{
    size_t type_at = 0;
    inputs->count = 0;
    for (size_t at = 1; at < dims.len;) { /* behind the bracket of the whole */
        if (dims.ptr[at] == '[') {
            read_input(dims, &at, next_type(types, &type_at), inputs);
        } else {
            at++;
        }
    }
}

/* ------------------------------------------------------------ what is written */

/* Elements of the result of inputs that stretch to each other's shape. */
static int64_t stretched(const struct inputs *inputs)
{
    struct ks_shape result = {0};
    for (size_t i = 0; i < inputs->count; i++) {
        const struct ks_shape *shape = &inputs->items[i].shape;
        result.count = shape->count > result.count ? shape->count : result.count;
        for (size_t k = 0; k < shape->count; k++) { /* from the last dimension on */
            int64_t *dim = &result.dims[KS_SHAPE_DIMS_MAX - 1 - k];
            int64_t one = shape->dims[shape->count - 1 - k];
            *dim = one > *dim ? one : *dim;
        }
    }
    int64_t count = 1;
    for (size_t k = 0; k < result.count; k++) {
        count = ks_sum_scale(count, result.dims[KS_SHAPE_DIMS_MAX - 1 - k]);
    }
    return inputs->count > 0 ? count : 0;
}

static int64_t widest(const struct inputs *inputs)
{
    int64_t width = 0;
    for (size_t i = 0; i < inputs->count; i++) {
        width = inputs->items[i].width > width ? inputs->items[i].width : width;
    }
    return width;
}

static struct ks_traffic_tensor output_of(enum ks_traffic_kind kind, const struct inputs *inputs)
{
    const struct input *first = &inputs->items[0];
    struct ks_traffic_tensor output = {0};
    switch (kind) {
    case KS_TRAFFIC_ELEMENTS: return (struct ks_traffic_tensor){stretched(inputs), widest(inputs)};
    case KS_TRAFFIC_COMPARISON: return (struct ks_traffic_tensor){stretched(inputs), 1};
    case KS_TRAFFIC_COPY:
    case KS_TRAFFIC_FILL:
    case KS_TRAFFIC_ROWS:
    case KS_TRAFFIC_SOFTMAX_LOG:
    case KS_TRAFFIC_SOFTMAX_LOG_BACKWARD:
        return (struct ks_traffic_tensor){ks_shape_elements(&first->shape), first->width};
    case KS_TRAFFIC_JOIN:
        output.width = first->width;
        for (size_t i = 0; i < inputs->count; i++) {
            output.elements =
                ks_sum_add(output.elements, ks_shape_elements(&inputs->items[i].shape));
        }
        return output;
    case KS_TRAFFIC_NONE:
    case KS_TRAFFIC_REDUCTION:
    case KS_TRAFFIC_PICK: break;
    }
    return output;
}

static void note_largest(struct ks_traffic *traffic, const struct input *input)
{
    int64_t count = ks_shape_elements(&input->shape);
    if (count > traffic->largest && input->shape.count > 0) {
        traffic->largest = count;
        traffic->columns = input->shape.dims[input->shape.count - 1];
        traffic->width_min = input->width;
    } else if (count == traffic->largest && input->width < traffic->width_min) {
        traffic->width_min = input->width;
    }
}

void ks_traffic_read(enum ks_traffic_kind kind, struct ks_str dims, struct ks_str types,
                     struct ks_traffic *traffic)
{
    struct inputs inputs;
    read_inputs(dims, types, &inputs);
    *traffic = (struct ks_traffic){.kind = kind};
    if (inputs.count == 0) {
        return;
    }
    traffic->output = output_of(kind, &inputs);
    for (size_t i = 0; i < inputs.count; i++) {
        const struct input *input = &inputs.items[i];
        bool is_written = i == 0 && (kind == KS_TRAFFIC_COPY || kind == KS_TRAFFIC_FILL);
        note_largest(traffic, input);
        if (!is_written && kind != KS_TRAFFIC_PICK) {
            traffic->inputs[traffic->input_count++] =
                (struct ks_traffic_tensor){ks_shape_elements(&input->shape), input->width};
        }
    }
}
