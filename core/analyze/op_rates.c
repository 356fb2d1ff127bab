/* How fast the work of a step goes against what the GPU can do: floating point operations of
 * products, attention and the bytes that other operators move, from the shapes of their inputs
 * (docs/opportunities.md). Each piece of work counts once, for the innermost operator that is known
 * here. */
#include "analyze/op_work.h"

#include "analyze/gpu_peaks.h"
#include "analyze/shapes.h"
#include "base/err.h"
#include "measure/sum.h"

/* FLOPs for each byte from which on a product is limited by its unit, when the GPU is not known.
 * Those of the table lie between 140 and 300 for bf16, and 10 and 40 for fp32. */
static const double ridge_defaults[KS_NUMBER_KINDS] = {200, 100, 20, 400};

enum rate_class {
    RATE_UNSEEN,
    RATE_NONE,
    RATE_PRODUCT,        /* two factors, perhaps the tensor for the result */
    RATE_ADDED_PRODUCT,  /* what is added comes first */
    RATE_ATTENTION,      /* query, key, value */
    RATE_ATTENTION_BACK, /* gradient, query, key, value */
    RATE_CONVOLUTION,
    RATE_MOVE,   /* reads all tensors, writes one as large as the largest */
    RATE_REDUCE, /* reads all tensors, writes little */
    RATE_COPY,   /* reads one of two, writes the other */
};

/* What a call does: known from its name and the shapes and types of its inputs. */
struct piece {
    struct ks_rate *rate; /* what it counts for; NULL: for none */
    double flops;
    double bytes;
};

/* A piece that came before: loops repeat few of them. */
struct known_piece {
    uint32_t name; /* 0: free */
    uint32_t dims;
    uint32_t types;
    struct piece piece;
};

enum { KNOWN_PIECES_BITS = 10 };

struct ks_rate_parts {
    uint8_t *classes; /* by string id */
    struct known_piece *pieces;
    uint32_t lane;    /* of the row that counted last ... */
    int64_t start_ns; /* ... and where it begins */
    struct ks_rate_costs sums;
    double ridges[KS_NUMBER_KINDS]; /* FLOPs for each byte */
};

/* ------------------------------------------------------------ names */

static const struct {
    const char *name;
    enum rate_class class;
} known[] = {
    {"mm", RATE_PRODUCT},
    {"bmm", RATE_PRODUCT},
    {"_scaled_mm", RATE_PRODUCT},
    {"addmm", RATE_ADDED_PRODUCT},
    {"_addmm_activation", RATE_ADDED_PRODUCT},
    {"baddbmm", RATE_ADDED_PRODUCT},
    {"_scaled_dot_product_flash_attention", RATE_ATTENTION},
    {"_scaled_dot_product_efficient_attention", RATE_ATTENTION},
    {"_scaled_dot_product_cudnn_attention", RATE_ATTENTION},
    {"_scaled_dot_product_flash_attention_backward", RATE_ATTENTION_BACK},
    {"_scaled_dot_product_efficient_attention_backward", RATE_ATTENTION_BACK},
    {"_scaled_dot_product_cudnn_attention_backward", RATE_ATTENTION_BACK},
    {"cudnn_convolution", RATE_CONVOLUTION},
    {"convolution_backward", RATE_CONVOLUTION},
    {"add", RATE_MOVE},
    {"add_", RATE_MOVE},
    {"sub", RATE_MOVE},
    {"mul", RATE_MOVE},
    {"mul_", RATE_MOVE},
    {"div", RATE_MOVE},
    {"div_", RATE_MOVE},
    {"pow", RATE_MOVE},
    {"sqrt", RATE_MOVE},
    {"rsqrt", RATE_MOVE},
    {"exp", RATE_MOVE},
    {"neg", RATE_MOVE},
    {"tanh", RATE_MOVE},
    {"sigmoid", RATE_MOVE},
    {"relu", RATE_MOVE},
    {"relu_", RATE_MOVE},
    {"clamp_min", RATE_MOVE},
    {"threshold_backward", RATE_MOVE},
    {"gelu", RATE_MOVE},
    {"gelu_backward", RATE_MOVE},
    {"silu", RATE_MOVE},
    {"silu_backward", RATE_MOVE},
    {"where", RATE_MOVE},
    {"masked_fill", RATE_MOVE},
    {"masked_fill_", RATE_MOVE},
    {"_softmax", RATE_MOVE},
    {"_log_softmax", RATE_MOVE},
    {"_softmax_backward_data", RATE_MOVE},
    {"_log_softmax_backward_data", RATE_MOVE},
    {"native_layer_norm", RATE_MOVE},
    {"native_layer_norm_backward", RATE_MOVE},
    {"native_dropout", RATE_MOVE},
    {"cat", RATE_MOVE},
    {"sum", RATE_REDUCE},
    {"mean", RATE_REDUCE},
    {"amax", RATE_REDUCE},
    {"argmax", RATE_REDUCE},
    {"copy_", RATE_COPY},
};

static enum rate_class class_of(struct ks_str name)
{
    struct ks_str aten = KS_STR("aten::");
    if (!ks_str_starts(name, aten)) {
        return RATE_NONE;
    }
    struct ks_str rest = {name.ptr + aten.len, name.len - aten.len};
    for (size_t i = 0; i < KS_COUNT_OF(known); i++) {
        if (ks_str_equal(rest, ks_str_from(known[i].name))) {
            return known[i].class;
        }
    }
    return RATE_NONE;
}

static enum rate_class find_class(struct ks_op_work *work, uint32_t name)
{
    uint8_t *class = &work->rates->classes[name];
    if (*class == RATE_UNSEEN) {
        *class = (uint8_t)class_of(ks_trace_str(work->analyzer->trace, (struct ks_strid){name}));
    }
    return (enum rate_class) * class;
}

/* ------------------------------------------------------------ types and shapes */

/* Inputs of a call that are tensors. */
struct inputs {
    struct ks_shapes shapes;
    double bytes;   /* of all */
    double largest; /* of one, in bytes */
    int size;       /* of an element of the first one; 0 unknown */
    bool is_fp8;
};

static int size_of(struct ks_str type)
{
    static const struct {
        const char *word;
        int size;
    } sizes[] = {
        {"BFloat16", 2}, {"Half", 2},          {"Float8", 1},      {"double", 8},
        {"float", 4},    {"long", 8},          {"int", 4},         {"short", 2},
        {"bool", 1},     {"unsigned char", 1}, {"signed char", 1},
    };
    for (size_t i = 0; i < KS_COUNT_OF(sizes); i++) {
        if (ks_str_contains(type, ks_str_from(sizes[i].word))) {
            return sizes[i].size;
        }
    }
    return 0;
}

/* The next string of a JSON array that names a type of numbers; empty: there is none. */
static struct ks_str next_type(struct ks_str *types)
{
    while (types->len > 0) {
        const char *open = memchr(types->ptr, '"', types->len);
        size_t skipped = open ? (size_t)(open - types->ptr) + 1 : types->len;
        struct ks_str rest = {types->ptr + skipped, types->len - skipped};
        const char *close = rest.len > 0 ? memchr(rest.ptr, '"', rest.len) : NULL;
        size_t len = close ? (size_t)(close - rest.ptr) : rest.len;
        struct ks_str type = {rest.ptr, len};
        size_t taken = close ? len + 1 : len;
        *types = (struct ks_str){rest.ptr + taken, rest.len - taken};
        if (len > 0 && size_of(type) > 0) {
            return type;
        }
    }
    return (struct ks_str){"", 0};
}

/* Shapes without dimensions are left out by ks_shapes_read, types that are no numbers here: of a
 * list of tensors, or a number as a tensor, the pairs no longer fit, and the first type stands
 * for all. */
static bool read_inputs(const struct ks_trace *trace, const struct ks_op_row *row,
                        struct inputs *inputs)
{
    struct ks_str types = ks_trace_str(trace, (struct ks_strid){row->types});
    *inputs = (struct inputs){0};
    ks_shapes_read(ks_trace_str(trace, (struct ks_strid){row->dims}), &inputs->shapes);
    int size = 0;
    for (size_t i = 0; i < inputs->shapes.count; i++) {
        struct ks_str type = next_type(&types);
        size = type.len > 0 ? size_of(type) : size;
        if (i == 0) {
            inputs->size = size;
            inputs->is_fp8 = ks_str_contains(type, KS_STR("Float8"));
        }
        double bytes = (double)ks_shape_elements(&inputs->shapes.items[i]) * size;
        inputs->bytes += bytes;
        inputs->largest = bytes > inputs->largest ? bytes : inputs->largest;
    }
    return inputs->shapes.count > 0 && inputs->size > 0;
}

static enum ks_number_kind kind_of(const struct ks_rate_parts *parts, const struct inputs *inputs)
{
    return inputs->is_fp8      ? KS_NUMBER_FP8
           : inputs->size == 2 ? KS_NUMBER_HALF
                               : parts->sums.fp32_kind;
}

/* ------------------------------------------------------------ work */

/* What moves a byte for fewer FLOPs than the GPU does meanwhile waits for memory. */
static struct piece piece_of_flops(struct ks_rate_parts *parts, const struct inputs *inputs,
                                   double flops, double bytes)
{
    enum ks_number_kind kind = kind_of(parts, inputs);
    bool is_thin = flops < parts->ridges[kind] * bytes;
    return (struct piece){is_thin ? &parts->sums.thin : &parts->sums.products[kind], flops, bytes};
}

/* [.., rows, inner] x [.., inner, columns] */
static struct piece piece_of_product(struct ks_rate_parts *parts, const struct inputs *inputs,
                                     size_t first)
{
    if (inputs->shapes.count < first + 2) {
        return (struct piece){0};
    }
    const struct ks_shape *left = &inputs->shapes.items[first];
    const struct ks_shape *right = left + 1;
    if (left->count != right->count || left->count < 2 || left->count > 3) {
        return (struct piece){0};
    }
    double inner = (double)left->dims[left->count - 1];
    double columns = (double)right->dims[right->count - 1];
    if (inner <= 0 || inner != (double)right->dims[right->count - 2]) {
        return (struct piece){0};
    }
    double rows = (double)ks_shape_elements(left) / inner;
    double factors = (double)ks_shape_elements(left) + (double)ks_shape_elements(right);
    return piece_of_flops(parts, inputs, 2 * rows * inner * columns,
                          inputs->size * (factors + rows * columns));
}

/* Query [batch, heads, rows, dim], key [batch, heads, columns, dim]: two products forward, five
 * backward. A causal mask leaves out half of it, which the shapes do not tell: the larger number
 * would promise what the GPU did not do, so half counts where rows and columns are as many. */
static struct piece piece_of_attention(struct ks_rate_parts *parts, const struct inputs *inputs,
                                       size_t first, double products)
{
    if (inputs->shapes.count < first + 2) {
        return (struct piece){0};
    }
    const struct ks_shape *query = &inputs->shapes.items[first];
    const struct ks_shape *key = &inputs->shapes.items[first + 1];
    if (query->count != 4 || key->count != 4 || query->dims[3] <= 0) {
        return (struct piece){0};
    }
    double columns = (double)key->dims[2];
    double flops = 2 * products * (double)ks_shape_elements(query) * columns;
    bool is_square = query->dims[2] == key->dims[2];
    return piece_of_flops(parts, inputs, is_square ? flops / 2 : flops, inputs->bytes);
}

static struct piece piece_of(struct ks_rate_parts *parts, enum rate_class class,
                             const struct inputs *inputs)
{
    switch (class) {
    case RATE_PRODUCT: return piece_of_product(parts, inputs, 0);
    case RATE_ADDED_PRODUCT: return piece_of_product(parts, inputs, 1);
    case RATE_ATTENTION: return piece_of_attention(parts, inputs, 0, 2);
    case RATE_ATTENTION_BACK: return piece_of_attention(parts, inputs, 1, 5);
    case RATE_MOVE: return (struct piece){&parts->sums.moves, 0, inputs->bytes + inputs->largest};
    case RATE_REDUCE:
    case RATE_COPY: return (struct piece){&parts->sums.moves, 0, inputs->bytes};
    case RATE_CONVOLUTION: return (struct piece){&parts->sums.convolutions, 0, inputs->bytes};
    case RATE_UNSEEN:
    case RATE_NONE: break;
    }
    return (struct piece){0};
}

static const struct piece *find_piece(struct ks_op_work *work, enum rate_class class,
                                      const struct ks_op_row *row)
{
    struct ks_rate_parts *parts = work->rates;
    uint32_t mixed = (row->name * 31 + row->dims) * 31 + row->types;
    struct known_piece *known_piece =
        &parts->pieces[mixed * UINT32_C(0x9E3779B1) >> (32 - KNOWN_PIECES_BITS)];
    bool is_it = known_piece->name == row->name && known_piece->dims == row->dims &&
                 known_piece->types == row->types;
    if (!is_it) {
        struct inputs inputs;
        bool is_known = read_inputs(work->analyzer->trace, row, &inputs);
        *known_piece = (struct known_piece){row->name, row->dims, row->types, {0}};
        known_piece->piece = is_known ? piece_of(parts, class, &inputs) : (struct piece){0};
    }
    return &known_piece->piece;
}

/* ------------------------------------------------------------ the part */

/* Products in fp32 run on tensor cores when these take more time than the plain kernels. */
static enum ks_number_kind kind_of_fp32(const struct ks_facts *facts)
{
    double tensor_ns = 0;
    double plain_ns = 0;
    for (size_t i = 0; i < facts->kernel_count; i++) {
        const struct ks_kernel_fact *kernel = &facts->kernels[i];
        struct ks_str name = ks_trace_str(facts->trace, kernel->name);
        bool is_plain = ks_str_contains(name, KS_STR("sgemm")) ||
                        ks_str_contains(name, KS_STR("ffma")) ||
                        ks_str_contains(name, KS_STR("simt"));
        tensor_ns += kernel->is_tensor_core ? (double)kernel->total_ns : 0;
        plain_ns += is_plain ? (double)kernel->total_ns : 0;
    }
    return tensor_ns > plain_ns ? KS_NUMBER_TF32 : KS_NUMBER_FP32;
}

enum ks_status ks_rates_create(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_analyzer *analyzer = work->analyzer;
    const struct ks_gpu_peaks *peaks = ks_gpu_peaks_of(analyzer->trace);
    work->rates = ks_new(&analyzer->scratch, struct ks_rate_parts, 1);
    uint8_t *classes =
        ks_new(&analyzer->scratch, uint8_t, (size_t)ks_trace_str_count(analyzer->trace) + 1);
    struct known_piece *pieces =
        ks_new(&analyzer->scratch, struct known_piece, (size_t)1 << KNOWN_PIECES_BITS);
    if (!work->rates || !classes || !pieces) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow rates of work");
    }
    work->rates->classes = classes;
    work->rates->pieces = pieces;
    work->rates->lane = UINT32_MAX;
    work->rates->sums.fp32_kind = kind_of_fp32(analyzer->facts);
    for (size_t i = 0; i < KS_NUMBER_KINDS; i++) {
        bool is_known = peaks && peaks->tflops[i] > 0;
        work->rates->ridges[i] =
            is_known ? 1e3 * peaks->tflops[i] / peaks->gb_per_s : ridge_defaults[i];
    }
    return KS_OK;
}

enum ks_status ks_rates_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                             const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_rate_parts *parts = work->rates;
    (void)err;
    if (row->device_ns <= 0 || row->dims == 0) {
        return KS_OK;
    }
    enum rate_class class = find_class(work, row->name);
    /* Rows inside come first: one of them has counted this work already. */
    bool is_counted = parts->lane == walk->lane && parts->start_ns >= row->start_ns;
    if (class == RATE_NONE || is_counted || !ks_op_work_step(work, walk, row->start_ns)) {
        return KS_OK;
    }
    const struct piece *piece = find_piece(work, class, row);
    if (piece->rate) {
        piece->rate->flops += piece->flops;
        piece->rate->bytes += piece->bytes;
        piece->rate->device_ns = ks_sum_add(piece->rate->device_ns, row->device_ns);
        parts->lane = walk->lane;
        parts->start_ns = row->start_ns;
    }
    return KS_OK;
}

static void divide(const struct ks_op_work *work, struct ks_rate *rate)
{
    double steps = (double)work->analyzer->facts->complete_step_count;
    rate->flops /= steps;
    rate->bytes /= steps;
    rate->device_ns = ks_op_work_mean_ns(work, rate->device_ns);
}

enum ks_status ks_rates_publish(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_rate_costs *rates = &work->analyzer->facts->work.rates;
    (void)err;
    *rates = work->rates->sums;
    for (size_t i = 0; i < KS_COUNT_OF(rates->products); i++) {
        divide(work, &rates->products[i]);
    }
    divide(work, &rates->thin);
    divide(work, &rates->convolutions);
    divide(work, &rates->moves);
    return KS_OK;
}
