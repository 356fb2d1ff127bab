/* Attention whose scores lie in memory: a product of batches of matrices, a softmax over what it
 * made, and a product with that, found by their shapes. Nodes of the backward pass belong to a
 * chain by their sequence numbers: those of the operators between its first and its last. */
#include "analyze/op_work.h"

#include "analyze/shapes.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

enum {
    OUTER_MAX = 64,   /* operators between the first product and the last */
    PRODUCTS_MAX = 4, /* products that may be the first of a chain */
    RECENT_CHAINS = 8,
    MATH_DEPTH_MAX = 8,
    SCORES_MIN = 16,    /* rows and columns: a decoder's step of one token has one row */
    HEAD_DIM_MAX = 256, /* of flash attention */
    HEAD_DIM_STEP = 8,
};

/* An outermost operator that ended. */
struct outer {
    int64_t start_ns;
    int64_t device_ns;
    int64_t seq_min;
    int64_t seq_max;
    uint32_t launches;
};

struct product {
    int64_t outer_ns; /* start of the outermost operator around it */
    int64_t host_ns;
    int64_t device_ns;
    int64_t batch;
    int64_t rows;
    int64_t inner;
    int64_t columns;
    bool is_half;
    bool is_used;
};

struct chain {
    uint32_t lane;
    enum ks_attention_kind kind;
    int64_t seq_min;
    int64_t seq_max;
    const struct ks_step *step;
    struct ks_op_row sum; /* time on the host, launches and work of its rows */
    int64_t product_host_ns;
    int64_t product_device_ns;
    struct product scores;
    uint32_t op;
};

struct ks_attention_parts {
    struct outer outers[OUTER_MAX]; /* the last ones, in a ring */
    size_t outer_count;
    int64_t seq_min; /* inside of the outermost operator that is open */
    int64_t seq_max;
    struct product products[PRODUCTS_MAX];
    size_t product_count;
    struct product scores; /* that a softmax was taken of */
    uint32_t softmax;
    bool is_pending; /* the last product was seen, and belongs to the open operator */
    struct chain pending;
    struct chain *chains;
    size_t chain_count;
    size_t chain_capacity;
    size_t node_chain;   /* 1 + index, of the node of the backward pass that ended last ... */
    int64_t node_end_ns; /* ... on this thread */
    uint32_t lane;
    uint32_t source;
    uint32_t first_lane; /* of the source */
    size_t first_begin;  /* chains of that lane, in order of sequence numbers */
    size_t first_end;
};

enum ks_status ks_attention_create(struct ks_op_work *work, struct ks_err *err)
{
    work->attention = ks_new(&work->analyzer->scratch, struct ks_attention_parts, 1);
    if (!work->attention) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow attention");
    }
    work->attention->source = UINT32_MAX;
    return KS_OK;
}

void ks_attention_release(struct ks_op_work *work)
{
    if (work->attention) {
        ks_free(work->attention->chains);
    }
}

/* ------------------------------------------------------------ threads */

static void forget_outer(struct ks_attention_parts *parts)
{
    parts->seq_min = INT64_MAX;
    parts->seq_max = -1;
    parts->is_pending = false;
}

static void enter_lane(struct ks_attention_parts *parts, const struct ks_op_walk *walk)
{
    if (parts->source == walk->source && parts->lane == walk->lane) {
        return;
    }
    if (parts->source != walk->source) {
        parts->source = walk->source;
        parts->first_lane = walk->lane;
        parts->first_begin = parts->first_end = parts->chain_count;
    }
    parts->lane = walk->lane;
    parts->outer_count = parts->product_count = 0;
    parts->scores = (struct product){0};
    parts->node_chain = 0;
    forget_outer(parts);
}

static const struct ks_op_row *outermost(const struct ks_op_walk *walk, const struct ks_op_row *row)
{
    return row->around & KS_NAME_ATEN ? &walk->open[row->outer] : row;
}

/* Torch calls a product by one or two operators. NULL: none around it is
 * _scaled_dot_product_attention_math. */
static const struct ks_op_row *math_around(struct ks_op_work *work, const struct ks_op_walk *walk)
{
    for (size_t i = 0; i < MATH_DEPTH_MAX && i < walk->open_count; i++) {
        const struct ks_op_row *row = &walk->open[walk->open_count - 1 - i];
        if (ks_op_work_class(work, row->name) & KS_OP_MATH) {
            return row;
        }
    }
    return NULL;
}

static bool is_half(const struct ks_op_work *work, const struct ks_op_row *row)
{
    struct ks_str types = ks_trace_str(work->analyzer->trace, (struct ks_strid){row->types});
    return ks_str_contains(types, KS_STR("BFloat16")) || ks_str_contains(types, KS_STR("Half"));
}

static void read_shapes(const struct ks_op_work *work, const struct ks_op_row *row,
                        struct ks_shapes *shapes)
{
    ks_shapes_read(ks_trace_str(work->analyzer->trace, (struct ks_strid){row->dims}), shapes);
}

/* ------------------------------------------------------------ products and softmax */

/* The last two shapes of bmm and baddbmm are the factors. */
static bool read_product(const struct ks_op_work *work, const struct ks_op_row *row,
                         struct product *product)
{
    struct ks_shapes shapes;
    read_shapes(work, row, &shapes);
    if (shapes.count < 2) {
        return false;
    }
    const struct ks_shape *left = &shapes.items[shapes.count - 2];
    const struct ks_shape *right = &shapes.items[shapes.count - 1];
    if (left->count != 3 || right->count != 3 || left->dims[0] != right->dims[0] ||
        left->dims[2] != right->dims[1]) {
        return false;
    }
    *product = (struct product){.host_ns = ks_sum_sub(row->end_ns, row->start_ns),
                                .device_ns = row->device_ns,
                                .batch = left->dims[0],
                                .rows = left->dims[1],
                                .inner = left->dims[2],
                                .columns = right->dims[2],
                                .is_half = is_half(work, row)};
    return true;
}

static void note_softmax(struct ks_op_work *work, const struct ks_op_row *row)
{
    struct ks_attention_parts *parts = work->attention;
    struct ks_shapes shapes;
    read_shapes(work, row, &shapes);
    if (shapes.count < 1 || shapes.items[0].count < 3) {
        return;
    }
    const struct ks_shape *shape = &shapes.items[0];
    int64_t columns = shape->dims[shape->count - 1];
    int64_t rows = shape->dims[shape->count - 2];
    for (size_t i = parts->product_count; i > 0; i--) {
        const struct product *product = &parts->products[i - 1];
        int64_t elements =
            ks_sum_scale(ks_sum_scale(product->batch, product->rows), product->columns);
        if (product->columns == columns && product->rows == rows && columns >= SCORES_MIN &&
            rows >= SCORES_MIN && elements == ks_shape_elements(shape)) {
            parts->scores = *product;
            parts->scores.is_used = true;
            parts->softmax = row->name;
            return;
        }
    }
}

static void keep_product(struct ks_attention_parts *parts, const struct product *product)
{
    if (parts->product_count == PRODUCTS_MAX) {
        memmove(parts->products, parts->products + 1,
                (PRODUCTS_MAX - 1) * sizeof(*parts->products));
        parts->product_count--;
    }
    parts->products[parts->product_count++] = *product;
}

static void note_product(struct ks_op_work *work, const struct ks_op_walk *walk,
                         const struct ks_op_row *row)
{
    struct ks_attention_parts *parts = work->attention;
    struct product product;
    if (!read_product(work, row, &product)) {
        return;
    }
    product.outer_ns = outermost(walk, row)->start_ns;
    const struct product *scores = &parts->scores;
    if (!scores->is_used || scores->batch != product.batch || scores->rows != product.rows ||
        scores->columns != product.inner) {
        keep_product(parts, &product);
        return;
    }
    const struct ks_op_row *math = math_around(work, walk);
    parts->pending =
        (struct chain){.lane = walk->lane,
                       .kind = math ? KS_ATTENTION_MATH : KS_ATTENTION_MANUAL,
                       .product_host_ns = ks_sum_add(scores->host_ns, product.host_ns),
                       .product_device_ns = ks_sum_add(scores->device_ns, product.device_ns),
                       .scores = *scores,
                       .op = parts->softmax};
    /* It computes in fp32 what it was given in 16 bits, which a fused kernel does not. */
    parts->pending.scores.is_half |= math && is_half(work, math);
    parts->is_pending = true;
    parts->scores.is_used = false;
    parts->product_count = 0;
}

/* ------------------------------------------------------------ chains */

static unsigned marks_of(enum ks_attention_kind kind, bool is_half)
{
    switch (kind) {
    case KS_ATTENTION_MATH: return KS_REPLAY_MATH | (is_half ? KS_REPLAY_FP32_ANYWAY : 0u);
    case KS_ATTENTION_EFFICIENT: return KS_REPLAY_EFFICIENT;
    case KS_ATTENTION_MANUAL:
    case KS_ATTENTION_KINDS: break;
    }
    return KS_REPLAY_ATTENTION;
}

static enum ks_status add_chain(struct ks_op_work *work, const struct ks_op_walk *walk,
                                struct chain *chain, struct ks_err *err)
{
    struct ks_attention_parts *parts = work->attention;
    chain->step = ks_op_work_step(work, walk, chain->sum.start_ns);
    if (!chain->step) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&parts->chains, parts->chain_count, &parts->chain_capacity, sizeof(*chain),
                   "attention", err));
    parts->chains[parts->chain_count++] = *chain;
    if (walk->lane == parts->first_lane) {
        parts->first_end = parts->chain_count;
    }
    const struct ks_work_span span = {walk->lane, marks_of(chain->kind, chain->scores.is_half),
                                      chain->sum.start_ns, chain->sum.end_ns};
    return ks_op_work_add_span(work, &span, err);
}

/* The outermost operators from that of the first product on are the chain. */
static enum ks_status end_chain(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_attention_parts *parts = work->attention;
    struct chain *chain = &parts->pending;
    chain->sum.start_ns = INT64_MAX;
    chain->sum.end_ns = row->end_ns;
    chain->seq_min = INT64_MAX;
    chain->seq_max = -1;
    for (size_t i = 0; i < parts->outer_count && i < OUTER_MAX; i++) {
        const struct outer *outer = &parts->outers[i];
        if (outer->start_ns < chain->scores.outer_ns) {
            continue;
        }
        chain->sum.start_ns =
            outer->start_ns < chain->sum.start_ns ? outer->start_ns : chain->sum.start_ns;
        chain->seq_min = outer->seq_min < chain->seq_min ? outer->seq_min : chain->seq_min;
        chain->seq_max = outer->seq_max > chain->seq_max ? outer->seq_max : chain->seq_max;
        chain->sum.device_ns = ks_sum_add(chain->sum.device_ns, outer->device_ns);
        chain->sum.launches += outer->launches;
    }
    bool is_whole = chain->sum.start_ns == chain->scores.outer_ns; /* else it began long before */
    return is_whole ? add_chain(work, walk, chain, err) : KS_OK;
}

static enum ks_status note_outermost(struct ks_op_work *work, const struct ks_op_walk *walk,
                                     const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_attention_parts *parts = work->attention;
    parts->outers[parts->outer_count++ % OUTER_MAX] = (struct outer){.start_ns = row->start_ns,
                                                                     .device_ns = row->device_ns,
                                                                     .seq_min = parts->seq_min,
                                                                     .seq_max = parts->seq_max,
                                                                     .launches = row->launches};
    enum ks_status status = parts->is_pending ? end_chain(work, walk, row, err) : KS_OK;
    forget_outer(parts);
    return status;
}

/* Torch's memory-efficient kernel where its flash kernel can work: in bf16 or fp16, without a mask,
 * for heads of a multiple of 8 up to 256. */
static enum ks_status note_efficient(struct ks_op_work *work, const struct ks_op_walk *walk,
                                     const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_shapes shapes;
    read_shapes(work, row, &shapes);
    const struct ks_shape *query = &shapes.items[0];
    const struct ks_shape *key = &shapes.items[1];
    if (!is_half(work, row) || shapes.count != 3 || query->count != 4 || key->count != 4 ||
        query->dims[3] > HEAD_DIM_MAX || query->dims[3] % HEAD_DIM_STEP != 0) {
        return KS_OK;
    }
    struct chain chain = {.lane = walk->lane,
                          .kind = KS_ATTENTION_EFFICIENT,
                          .seq_min = row->seq,
                          .seq_max = row->seq,
                          .sum = *row,
                          .scores = {.batch = ks_sum_scale(query->dims[0], query->dims[1]),
                                     .rows = query->dims[2],
                                     .inner = query->dims[3],
                                     .columns = key->dims[2],
                                     .is_half = true},
                          .op = row->name};
    return add_chain(work, walk, &chain, err);
}

/* ------------------------------------------------------------ backward */

static bool holds(const struct chain *chain, int64_t seq)
{
    return chain->seq_min <= seq && seq <= chain->seq_max;
}

/* Chain of the forward thread, or one of the last ones of this thread, which computed it again. */
static struct chain *find_chain(struct ks_attention_parts *parts, int64_t seq)
{
    size_t begin = parts->first_begin;
    size_t end = parts->first_end;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        bool is_before = parts->chains[middle].seq_min <= seq;
        begin = is_before ? middle + 1 : begin;
        end = is_before ? end : middle;
    }
    if (begin > parts->first_begin && holds(&parts->chains[begin - 1], seq)) {
        return &parts->chains[begin - 1];
    }
    for (size_t i = parts->chain_count;
         i > parts->first_end && parts->chain_count - i < RECENT_CHAINS; i--) {
        if (parts->chains[i - 1].lane == parts->lane && holds(&parts->chains[i - 1], seq)) {
            return &parts->chains[i - 1];
        }
    }
    return NULL;
}

static enum ks_status note_backward(struct ks_op_work *work, const struct ks_op_walk *walk,
                                    const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_attention_parts *parts = work->attention;
    if (row->around & KS_NAME_BACKWARD) {
        return KS_OK;
    }
    struct chain *chain = row->seq >= 0 ? find_chain(parts, row->seq) : NULL;
    size_t number = chain ? (size_t)(chain - parts->chains) + 1 : 0;
    bool goes_on = chain && number == parts->node_chain; /* with what the engine does between */
    int64_t from_ns = goes_on ? parts->node_end_ns : row->start_ns;
    parts->node_chain = number;
    parts->node_end_ns = row->end_ns;
    if (!chain) {
        return KS_OK;
    }
    int64_t host_ns = ks_sum_sub(row->end_ns, row->start_ns);
    chain->sum.end_ns = /* longer by that */
        ks_sum_add(chain->sum.end_ns, ks_sum_sub(row->end_ns, from_ns));
    chain->sum.device_ns = ks_sum_add(chain->sum.device_ns, row->device_ns);
    chain->sum.launches += row->launches;
    if (ks_op_work_class(work, row->name) & KS_OP_PRODUCT_BACKWARD) {
        chain->product_host_ns = ks_sum_add(chain->product_host_ns, host_ns / 2);
        chain->product_device_ns = ks_sum_add(chain->product_device_ns, row->device_ns);
    }
    const struct ks_work_span span = {walk->lane, marks_of(chain->kind, chain->scores.is_half),
                                      from_ns, row->end_ns};
    return ks_op_work_add_span(work, &span, err);
}

/* ------------------------------------------------------------ all rows */

enum ks_status ks_attention_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                 const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_attention_parts *parts = work->attention;
    enter_lane(parts, walk);
    if (row->flags & KS_NAME_BACKWARD) {
        return note_backward(work, walk, row, err);
    }
    if (!(row->flags & KS_NAME_ATEN)) {
        return KS_OK;
    }
    unsigned class = ks_op_work_class(work, row->name);
    if (row->seq >= 0) {
        parts->seq_min = row->seq < parts->seq_min ? row->seq : parts->seq_min;
        parts->seq_max = row->seq > parts->seq_max ? row->seq : parts->seq_max;
    }
    if (class & KS_OP_BATCHED) {
        note_product(work, walk, row);
    } else if (class & KS_OP_SOFTMAX) {
        note_softmax(work, row);
    } else if (class & KS_OP_EFFICIENT) {
        KS_TRY(note_efficient(work, walk, row, err));
    }
    return row->around & KS_NAME_ATEN ? KS_OK : note_outermost(work, walk, row, err);
}

static void add_to(struct ks_attention_cost *cost, const struct chain *chain, int64_t *worst_ns)
{
    ks_op_work_add(&cost->cost, &chain->sum, chain->step);
    cost->product_host_ns = ks_sum_add(cost->product_host_ns, chain->product_host_ns);
    cost->product_device_ns = ks_sum_add(cost->product_device_ns, chain->product_device_ns);
    const struct product *scores = &chain->scores;
    cost->scores_bytes += (double)scores->batch * (double)scores->rows * (double)scores->columns *
                          (scores->is_half ? 2 : 4);
    if (cost->op.v == 0 || chain->sum.device_ns > *worst_ns) {
        *worst_ns = chain->sum.device_ns;
        cost->batch = scores->batch;
        cost->rows = scores->rows;
        cost->columns = scores->columns;
        cost->head_dim = scores->inner;
        cost->is_half = scores->is_half;
        cost->op = (struct ks_strid){chain->op};
    }
}

enum ks_status ks_attention_publish(struct ks_op_work *work, struct ks_err *err)
{
    (void)err;
    const struct ks_attention_parts *parts = work->attention;
    struct ks_facts *facts = work->analyzer->facts;
    int64_t worst_ns[KS_ATTENTION_KINDS] = {0};
    for (size_t i = 0; i < parts->chain_count; i++) {
        const struct chain *chain = &parts->chains[i];
        add_to(&facts->work.attention[chain->kind], chain, &worst_ns[chain->kind]);
    }
    for (int kind = 0; kind < KS_ATTENTION_KINDS; kind++) {
        struct ks_attention_cost *cost = &facts->work.attention[kind];
        ks_op_work_mean(work, &cost->cost);
        cost->product_host_ns = ks_op_work_mean_ns(work, cost->product_host_ns);
        cost->product_device_ns = ks_op_work_mean_ns(work, cost->product_device_ns);
        cost->scores_bytes /= (double)facts->complete_step_count;
    }
    return KS_OK;
}
