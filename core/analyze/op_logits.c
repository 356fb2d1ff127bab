/* Losses over a large vocabulary: what operators do with logits behind the product that makes them.
 * Tensors whose last dimension is 32768 and more count together by that dimension; they are logits
 * when a logarithm of softmax is taken over it. */
#include "analyze/op_work.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

enum { VOCABULARIES_MAX = 8 };

/* Compiled losses ran at 0.7 to 0.9 of the mean rate of the operators that they replaced. */
static const double slow_rate = 0.65;
/* A fused loss reads the logits once; backward it reads them again and writes their gradient. */
enum { PASSES_FORWARD = 1, PASSES_BACKWARD = 2 };

/* Operators over tensors of as many columns. */
struct vocabulary {
    int64_t columns;
    struct ks_work_cost cost;
    double bytes;
    double rate;                                /* highest of one operator, bytes a ns */
    double elements_forward, elements_backward; /* of softmax */
    double losses;                              /* softmax forward */
    double written_forward;                     /* bytes, outside of the backward pass */
    int64_t width; /* least of a tensor as large, bytes of an element; 0 unknown */
    int64_t rows;  /* of the largest */
    int64_t worst_ns;
    uint32_t op; /* that took longest */
};

struct span {
    struct ks_work_span span;
    size_t vocabulary;
};

struct ks_logits_parts {
    struct vocabulary list[VOCABULARIES_MAX];
    size_t count;
    struct span *spans;
    size_t span_count;
    size_t span_capacity;
};

enum ks_status ks_logits_create(struct ks_op_work *work, struct ks_err *err)
{
    work->logits = ks_new(&work->analyzer->scratch, struct ks_logits_parts, 1);
    return work->logits ? KS_OK : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow losses");
}

void ks_logits_release(struct ks_op_work *work)
{
    if (work->logits) {
        ks_free(work->logits->spans);
    }
}

/* NULL: there are too many. */
static struct vocabulary *find_vocabulary(struct ks_logits_parts *parts, int64_t columns)
{
    for (size_t i = 0; i < parts->count; i++) {
        if (parts->list[i].columns == columns) {
            return &parts->list[i];
        }
    }
    if (parts->count == VOCABULARIES_MAX) {
        return NULL;
    }
    parts->list[parts->count].columns = columns;
    return &parts->list[parts->count++];
}

static void note_size(struct vocabulary *one, const struct ks_traffic *traffic)
{
    int64_t rows = traffic->largest / traffic->columns;
    one->rows = rows > one->rows ? rows : one->rows;
    if (traffic->width_min > 1 && (one->width == 0 || traffic->width_min < one->width)) {
        one->width = traffic->width_min; /* booleans are masks, not logits */
    }
}

static double note_bytes(struct vocabulary *one, const struct ks_traffic *traffic,
                         int64_t device_ns)
{
    double written = ks_traffic_bytes(&traffic->output);
    double bytes = written;
    for (size_t i = 0; i < traffic->input_count; i++) {
        bytes += ks_traffic_bytes(&traffic->inputs[i]);
    }
    one->bytes += bytes;
    if (device_ns > 0 && bytes / (double)device_ns > one->rate) {
        one->rate = bytes / (double)device_ns;
    }
    return written;
}

static void add_row(struct vocabulary *one, const struct ks_op_row *row,
                    const struct ks_traffic *traffic, const struct ks_step *step)
{
    struct ks_op_row own = *row;
    own.device_ns = ks_sum_sub(row->device_ns, row->inner_ns);
    own.launches = row->launches - row->inner_launches;
    ks_op_work_add(&one->cost, &own, step);
    note_size(one, traffic);
    double written = note_bytes(one, traffic, own.device_ns);
    one->written_forward += row->around & KS_NAME_BACKWARD ? 0 : written;
    if (traffic->kind == KS_TRAFFIC_SOFTMAX_LOG) {
        one->losses++;
        one->elements_forward += (double)traffic->largest;
    } else if (traffic->kind == KS_TRAFFIC_SOFTMAX_LOG_BACKWARD) {
        one->elements_backward += (double)traffic->largest;
    }
    if (own.device_ns > one->worst_ns) {
        one->worst_ns = own.device_ns;
        one->op = row->name;
    }
}

enum ks_status ks_logits_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                              const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_logits_parts *parts = work->logits;
    const struct ks_traffic *traffic = NULL;
    KS_TRY(ks_op_work_traffic(work, row, &traffic, err));
    if (!traffic || traffic->columns < KS_VOCABULARY_MIN ||
        ks_op_work_is_inside(work, walk, KS_OP_COMPILED)) {
        return KS_OK;
    }
    const struct ks_step *step = ks_op_work_step(work, walk, row->start_ns);
    struct vocabulary *one = step ? find_vocabulary(parts, traffic->columns) : NULL;
    if (!one) {
        return KS_OK;
    }
    add_row(one, row, traffic, step);
    KS_TRY(ks_grow(&parts->spans, parts->span_count, &parts->span_capacity, sizeof(*parts->spans),
                   "losses", err));
    parts->spans[parts->span_count++] =
        (struct span){.span = {walk->lane, KS_REPLAY_LOGITS, row->start_ns, row->end_ns},
                      .vocabulary = (size_t)(one - parts->list)};
    return KS_OK;
}

/* The one that takes the device longest, NULL: none is one of logits. */
static const struct vocabulary *find_worst(const struct ks_logits_parts *parts)
{
    const struct vocabulary *worst = NULL;
    for (size_t i = 0; i < parts->count; i++) {
        const struct vocabulary *one = &parts->list[i];
        bool is_loss = one->losses > 0 && one->cost.device_ns > 0 && one->bytes > 0;
        if (is_loss && (!worst || one->cost.device_ns > worst->cost.device_ns)) {
            worst = one;
        }
    }
    return worst;
}

static int64_t kept_ns(const struct vocabulary *one, double kept_bytes, double rate)
{
    double ns = kept_bytes / rate;
    return ns < (double)one->cost.device_ns ? (int64_t)ns : one->cost.device_ns;
}

static void describe(const struct ks_op_work *work, const struct vocabulary *one,
                     struct ks_logits_cost *cost)
{
    double steps = (double)work->analyzer->facts->complete_step_count;
    double mean_rate = one->bytes / (double)one->cost.device_ns;
    double kept_bytes =
        (PASSES_FORWARD * one->elements_forward + PASSES_BACKWARD * one->elements_backward) *
        (double)(one->width > 0 ? one->width : 2);
    kept_bytes = kept_bytes < one->bytes ? kept_bytes : one->bytes;
    cost->cost = one->cost;
    cost->kept_ns[0] = kept_ns(one, kept_bytes, one->rate > mean_rate ? one->rate : mean_rate);
    cost->kept_ns[1] = kept_ns(one, kept_bytes, slow_rate * mean_rate);
    cost->bytes = one->bytes / steps;
    cost->kept_bytes = kept_bytes / steps;
    cost->losses = one->losses / steps;
    cost->written_bytes = one->written_forward / one->losses;
    cost->is_training = one->elements_backward > 0;
    cost->rows = one->rows;
    cost->columns = one->columns;
    cost->op = (struct ks_strid){one->op};
    ks_op_work_mean(work, &cost->cost);
    for (size_t i = 0; i < KS_COUNT_OF(cost->kept_ns); i++) {
        cost->kept_ns[i] = ks_op_work_mean_ns(work, cost->kept_ns[i]);
    }
}

enum ks_status ks_logits_publish(struct ks_op_work *work, struct ks_err *err)
{
    const struct ks_logits_parts *parts = work->logits;
    const struct vocabulary *worst = find_worst(parts);
    if (!worst) {
        return KS_OK;
    }
    describe(work, worst, &work->analyzer->facts->work.logits);
    for (size_t i = 0; i < parts->span_count; i++) {
        if (&parts->list[parts->spans[i].vocabulary] == worst) {
            KS_TRY(ks_op_work_add_span(work, &parts->spans[i].span, err));
        }
    }
    return KS_OK;
}
