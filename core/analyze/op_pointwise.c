/* Chains of kernels that do little but read and write memory: elementwise operators, copies, norms
 * and reductions that follow each other on a thread with no other work between them. A compiler
 * makes one or a few kernels of a chain, which read what comes from outside of it and write what
 * goes on from it.
 *
 * A trace does not say which tensor is which. An input counts as made inside of the chain when the
 * chain made a tensor of as many elements before; an input from outside counts again at most when
 * it was read before as well. Sizes of one tensor in a chain are mostly equal, so that both bounds
 * lie close together. */
#include "analyze/op_work.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

enum {
    LARGE_MIN = 3, /* two in a row, as a sum and a norm, are in every network */
    TENSORS_MAX = 64,
    WRITTEN_LAST = 3, /* what goes on from a chain is made by one of its last operators */
    NESTED_MAX = 16,  /* stretches of a thread hold one another at most a few deep */
};

/* Less than that takes a kernel no longer than starting it. */
static const double large_bytes = 1 << 20;
/* Kernels that a compiler made moved what lies outside of a chain at 0.8 to 1.6 of the mean rate of
 * those they replaced (H200, docs/rules/fusion.pointwise.md). */
static const double slow_rate = 0.75;

struct chain {
    uint32_t lane;
    const struct ks_step *step;
    struct ks_op_row sum; /* from the first to the last; launches and work */
    uint32_t calls;
    uint32_t large; /* calls that move large_bytes and more */
    uint32_t reductions;
    double bytes;
    double read[2]; /* from outside: at least, at most */
    double written; /* largest of all */
    double last[WRITTEN_LAST];
    double rate;   /* highest of a large call, bytes a ns */
    int64_t width; /* of the tensor before */
    uint32_t ops[KS_CHAIN_OPS_MAX];
    uint32_t op; /* that takes longest */
    int64_t op_ns;
    double kept[2]; /* ns: at least, at most */
    double kept_bytes[2];
};

struct ks_pointwise_parts {
    uint32_t source;
    uint32_t lane;
    uint64_t loose_launches;
    struct chain open; /* calls 0: none */
    int64_t made[TENSORS_MAX];
    size_t made_count;
    struct ks_traffic_tensor seen[TENSORS_MAX];
    size_t seen_count;
    struct chain *chains;
    size_t chain_count;
    size_t chain_capacity;
};

enum ks_status ks_pointwise_create(struct ks_op_work *work, struct ks_err *err)
{
    work->pointwise = ks_new(&work->analyzer->scratch, struct ks_pointwise_parts, 1);
    if (!work->pointwise) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow chains of kernels");
    }
    work->pointwise->source = UINT32_MAX;
    return KS_OK;
}

void ks_pointwise_release(struct ks_op_work *work)
{
    if (work->pointwise) {
        ks_free(work->pointwise->chains);
    }
}

/* ------------------------------------------------------------ one chain */

static double at_most(double value, double most)
{
    return value < most ? value : most;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* What one kernel for all of the chain would read, write and take. */
static void estimate(struct chain *chain)
{
    double device_ns = (double)chain->sum.device_ns;
    double mean = chain->bytes / device_ns;
    double last = 0;
    for (size_t i = 0; i < WRITTEN_LAST; i++) {
        last = larger(last, chain->last[i]);
    }
    chain->kept_bytes[0] = at_most(chain->read[0] + last, chain->bytes);
    chain->kept_bytes[1] = at_most(chain->read[1] + last + chain->written, chain->bytes);
    chain->kept[0] = at_most(chain->kept_bytes[0] / larger(chain->rate, mean), device_ns);
    chain->kept[1] = at_most(chain->kept_bytes[1] / (slow_rate * mean), device_ns);
}

static enum ks_status end_chain(struct ks_pointwise_parts *parts, struct ks_err *err)
{
    struct chain *chain = &parts->open;
    if (chain->large >= LARGE_MIN && chain->sum.device_ns > 0) {
        estimate(chain);
        KS_TRY(ks_grow(&parts->chains, parts->chain_count, &parts->chain_capacity, sizeof(*chain),
                       "chains of kernels", err));
        parts->chains[parts->chain_count++] = *chain;
    }
    *chain = (struct chain){0};
    parts->made_count = parts->seen_count = 0;
    return KS_OK;
}

static bool is_made(const struct ks_pointwise_parts *parts, int64_t elements)
{
    for (size_t i = 0; i < parts->made_count; i++) {
        if (parts->made[i] == elements) {
            return true;
        }
    }
    return false;
}

/* Was it read before? */
static bool see(struct ks_pointwise_parts *parts, const struct ks_traffic_tensor *tensor)
{
    for (size_t i = 0; i < parts->seen_count; i++) {
        if (parts->seen[i].elements == tensor->elements && parts->seen[i].width == tensor->width) {
            return true;
        }
    }
    if (parts->seen_count < TENSORS_MAX) {
        parts->seen[parts->seen_count++] = *tensor;
    }
    return false;
}

/* Bytes of the tensor; those of a list have no type of their own, and count as the one before. */
static double bytes_of(struct chain *chain, const struct ks_traffic_tensor *tensor)
{
    chain->width = tensor->width > 0 ? tensor->width : chain->width;
    return (double)tensor->elements * (double)(chain->width > 0 ? chain->width : 2);
}

static double add_inputs(struct ks_pointwise_parts *parts, const struct ks_traffic *traffic)
{
    struct chain *chain = &parts->open;
    double bytes = 0;
    for (size_t i = 0; i < traffic->input_count; i++) {
        const struct ks_traffic_tensor *input = &traffic->inputs[i];
        double one = bytes_of(chain, input);
        bytes += one;
        if (!is_made(parts, input->elements)) {
            chain->read[0] += see(parts, input) ? 0 : one;
            chain->read[1] += one;
        }
    }
    return bytes;
}

static double add_output(struct ks_pointwise_parts *parts, const struct ks_traffic *traffic)
{
    struct chain *chain = &parts->open;
    double bytes = traffic->output.elements > 0 ? bytes_of(chain, &traffic->output) : 0;
    chain->written = larger(chain->written, bytes);
    chain->last[chain->calls % WRITTEN_LAST] = bytes;
    if (bytes > 0 && !is_made(parts, traffic->output.elements) && parts->made_count < TENSORS_MAX) {
        parts->made[parts->made_count++] = traffic->output.elements;
    }
    return bytes;
}

static void add_call(struct ks_pointwise_parts *parts, const struct ks_op_row *row,
                     const struct ks_traffic *traffic)
{
    struct chain *chain = &parts->open;
    int64_t device_ns = ks_sum_sub(row->device_ns, row->inner_ns);
    double bytes = add_inputs(parts, traffic) + add_output(parts, traffic);
    chain->bytes += bytes;
    if (bytes >= large_bytes) {
        chain->large++;
        chain->rate = larger(chain->rate, device_ns > 0 ? bytes / (double)device_ns : 0);
    }
    chain->reductions += traffic->kind == KS_TRAFFIC_REDUCTION;
    chain->sum.end_ns = row->end_ns;
    chain->sum.launches += row->launches - row->inner_launches;
    chain->sum.device_ns = ks_sum_add(chain->sum.device_ns, device_ns);
    if (chain->calls < KS_CHAIN_OPS_MAX) {
        chain->ops[chain->calls] = row->name;
    }
    if (device_ns > chain->op_ns) {
        chain->op = row->name;
        chain->op_ns = device_ns;
    }
    chain->calls++;
}

/* ------------------------------------------------------------ rows */

/* Not to be fused with what is around: other rules look at it, or a compiler did already. */
static bool is_apart(struct ks_op_work *work, const struct ks_op_walk *walk,
                     const struct ks_op_row *row)
{
    return (row->around & KS_NAME_OPTIMIZER) ||
           ks_op_work_is_inside(work, walk, KS_OP_COMPILED | KS_OP_MATH);
}

static bool goes_on(const struct ks_pointwise_parts *parts, const struct ks_op_row *row,
                    const struct ks_step *step)
{
    const struct chain *chain = &parts->open;
    return chain->calls > 0 && chain->step == step &&
           ks_sum_sub(row->start_ns, chain->sum.end_ns) < KS_REPLAY_GAP_NS_MIN;
}

static enum ks_status take(struct ks_op_work *work, const struct ks_op_walk *walk,
                           const struct ks_op_row *row, const struct ks_traffic *traffic,
                           struct ks_err *err)
{
    struct ks_pointwise_parts *parts = work->pointwise;
    const struct ks_step *step = ks_op_work_step(work, walk, row->start_ns);
    if (!goes_on(parts, row, step)) {
        KS_TRY(end_chain(parts, err));
    }
    if (step) {
        if (parts->open.calls == 0) {
            parts->open = (struct chain){
                .lane = walk->lane, .step = step, .sum = {.start_ns = row->start_ns}};
        }
        add_call(parts, row, traffic);
    }
    return KS_OK;
}

/* Does work lie between the chain and the row that no operator of the thread launched? */
static bool is_cut(struct ks_pointwise_parts *parts, const struct ks_op_walk *walk)
{
    bool is_same = parts->source == walk->source && parts->lane == walk->lane &&
                   parts->loose_launches == walk->loose_launches;
    parts->source = walk->source;
    parts->lane = walk->lane;
    parts->loose_launches = walk->loose_launches;
    return !is_same;
}

enum ks_status ks_pointwise_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                 const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_pointwise_parts *parts = work->pointwise;
    const struct ks_traffic *traffic = NULL;
    if (is_cut(parts, walk)) {
        KS_TRY(end_chain(parts, err));
    }
    if (!row->is_op || row->launches == row->inner_launches) {
        return KS_OK;
    }
    if (ks_op_work_is_inside(work, walk, KS_OP_ACCUMULATE) ||
        ks_op_work_is_weight_cast(work, walk, row)) {
        return KS_OK; /* nothing of the chain goes through it */
    }
    KS_TRY(ks_op_work_traffic(work, row, &traffic, err));
    bool is_ours = traffic && traffic->kind != KS_TRAFFIC_PICK &&
                   traffic->columns < KS_VOCABULARY_MIN && !is_apart(work, walk, row);
    return is_ours ? take(work, walk, row, traffic, err) : end_chain(parts, err);
}

/* ------------------------------------------------------------ all chains */

/* Do operators of attention lie in the chain, which another rule looks at? `count` spans are
 * sorted. */
static bool is_attention(const struct ks_op_work *work, size_t count, const struct chain *chain)
{
    size_t begin = 0;
    size_t end = count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        const struct ks_work_span *span = &work->spans[middle];
        bool is_before = span->lane != chain->lane ? span->lane < chain->lane
                                                   : span->from_ns < chain->sum.end_ns;
        begin = is_before ? middle + 1 : begin;
        end = is_before ? end : middle;
    }
    for (size_t i = 0; i < NESTED_MAX && begin > i; i++) {
        const struct ks_work_span *span = &work->spans[begin - 1 - i];
        if (span->lane == chain->lane && span->until_ns > chain->sum.start_ns &&
            (span->marks & (KS_REPLAY_ATTENTION | KS_REPLAY_MATH))) {
            return true;
        }
    }
    return false;
}

static enum ks_status add_chain(struct ks_op_work *work, const struct chain *chain,
                                double *worst_ns, struct ks_err *err)
{
    struct ks_pointwise_cost *cost = &work->analyzer->facts->work.pointwise;
    double lost_ns = (double)chain->sum.device_ns - chain->kept[1];
    ks_op_work_add(&cost->cost, &chain->sum, chain->step);
    cost->bytes += chain->bytes;
    cost->kept_launches += 1 + chain->reductions;
    for (size_t i = 0; i < KS_COUNT_OF(cost->kept_ns); i++) {
        cost->kept_ns[i] = ks_sum_add(cost->kept_ns[i], (int64_t)chain->kept[i]);
        cost->kept_bytes[i] += chain->kept_bytes[i];
    }
    if (cost->op.v == 0 || lost_ns > *worst_ns) {
        *worst_ns = lost_ns;
        cost->length = chain->calls;
        cost->op = (struct ks_strid){chain->op};
        cost->op_count = chain->calls < KS_CHAIN_OPS_MAX ? chain->calls : KS_CHAIN_OPS_MAX;
        for (size_t i = 0; i < cost->op_count; i++) {
            cost->ops[i] = (struct ks_strid){chain->ops[i]};
        }
    }
    const struct ks_work_span span = {chain->lane, KS_REPLAY_POINTWISE, chain->sum.start_ns,
                                      chain->sum.end_ns};
    return ks_op_work_add_span(work, &span, err);
}

enum ks_status ks_pointwise_publish(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_pointwise_parts *parts = work->pointwise;
    struct ks_pointwise_cost *cost = &work->analyzer->facts->work.pointwise;
    double steps = (double)work->analyzer->facts->complete_step_count;
    double worst_ns = 0;
    KS_TRY(end_chain(parts, err));
    ks_op_work_sort_spans(work);
    size_t span_count = work->span_count;
    for (size_t i = 0; i < parts->chain_count; i++) {
        if (!is_attention(work, span_count, &parts->chains[i])) {
            KS_TRY(add_chain(work, &parts->chains[i], &worst_ns, err));
        }
    }
    ks_op_work_mean(work, &cost->cost);
    cost->bytes /= steps;
    cost->kept_launches /= steps;
    for (size_t i = 0; i < KS_COUNT_OF(cost->kept_ns); i++) {
        cost->kept_ns[i] = ks_op_work_mean_ns(work, cost->kept_ns[i]);
        cost->kept_bytes[i] /= steps;
    }
    return KS_OK;
}
