/* Convolutions that try algorithms: cuDNN times each on the GPU and waits for it; and attention for
 * which cuDNN first makes a plan, on the host alone. */
#include "analyze/op_work.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "measure/quantile.h"
#include "measure/sum.h"

enum {
    SYNCS_MIN = 3,     /* a convolution that is tuned waits for nothing ... */
    LAUNCHES_MIN = 16, /* ... and launches 1 to 13 kernels and sets of memory, conversions too */
    SAMPLES_MAX = 4096,
    USUAL_HOST_NS = 300 * 1000, /* when none was tuned: 0.1 to 0.4 ms in traces */
    USUAL_LAUNCHES = 13,
    /* With its plan at hand attention takes the host 20 to 60 us; a plan took 38 to 70 ms. */
    PLAN_NS_MIN = 3 * 1000 * 1000,
    USUAL_PLANNED_NS = 60 * 1000,
};

/* Forward and backward of both. */
enum kind { CONVOLUTION, CONVOLUTION_BACKWARD, ATTENTION, ATTENTION_BACKWARD, KINDS };

struct samples {
    int64_t *items;
    size_t count;
    size_t capacity;
};

struct ks_retuning_parts {
    struct samples host_ns[KINDS];
    struct samples device_ns[KINDS];
    struct ks_work_cost costs[KINDS];
    struct ks_map shapes[KINDS]; /* (shapes, name) seen while trying */
    int64_t longest_ns[KINDS];
    struct ks_strid ops[KINDS];
    struct ks_strid outer[KINDS]; /* outermost operators of aten around these */
};

enum ks_status ks_retuning_create(struct ks_op_work *work, struct ks_err *err)
{
    work->retuning = ks_new(&work->analyzer->scratch, struct ks_retuning_parts, 1);
    if (!work->retuning) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow convolutions");
    }
    for (size_t i = 0; i < KINDS; i++) {
        ks_map_init(&work->retuning->shapes[i]);
    }
    return KS_OK;
}

void ks_retuning_release(struct ks_op_work *work)
{
    struct ks_retuning_parts *parts = work->retuning;
    if (parts) {
        for (size_t i = 0; i < KINDS; i++) {
            ks_free(parts->host_ns[i].items);
            ks_free(parts->device_ns[i].items);
            ks_map_release(&parts->shapes[i]);
        }
    }
}

static enum ks_status add_sample(struct samples *samples, int64_t ns, struct ks_err *err)
{
    if (samples->count >= SAMPLES_MAX) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&samples->items, samples->count, &samples->capacity, sizeof(ns), "convolutions",
                   err));
    samples->items[samples->count++] = ns;
    return KS_OK;
}

static bool is_attention(enum kind kind)
{
    return kind == ATTENTION || kind == ATTENTION_BACKWARD;
}

static enum ks_status note_retuned(struct ks_op_work *work, const struct ks_op_walk *walk,
                                   const struct ks_op_row *row, enum kind kind, struct ks_err *err)
{
    struct ks_retuning_parts *parts = work->retuning;
    const struct ks_step *step = ks_op_work_step(work, walk, row->start_ns);
    if (!step) {
        return KS_OK;
    }
    ks_op_work_add(&parts->costs[kind], row, step);
    int64_t host_ns = ks_sum_sub(row->end_ns, row->start_ns);
    if (host_ns > parts->longest_ns[kind]) {
        parts->longest_ns[kind] = host_ns;
        parts->ops[kind] = (struct ks_strid){row->name};
        parts->outer[kind] = ks_op_walk_outermost(walk, row);
    }
    if (row->dims != 0 && !ks_map_put(&parts->shapes[kind], row->name, row->dims, NULL)) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow convolutions");
    }
    unsigned mark = is_attention(kind) ? KS_REPLAY_PLANNED : KS_REPLAY_RETUNED;
    const struct ks_work_span span = {walk->lane, mark, row->start_ns, row->end_ns};
    return ks_op_work_add_span(work, &span, err);
}

bool ks_retuning_tries(struct ks_op_work *work, const struct ks_op_row *row)
{
    unsigned class = ks_op_work_class(work, row->name);
    if (class & KS_OP_CUDNN_ATTENTION) {
        return row->syncs == 0 && ks_sum_sub(row->end_ns, row->start_ns) >= PLAN_NS_MIN;
    }
    return (class & KS_OP_CONVOLUTION) && row->syncs >= SYNCS_MIN && row->launches >= LAUNCHES_MIN;
}

enum ks_status ks_retuning_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_retuning_parts *parts = work->retuning;
    unsigned class = ks_op_work_class(work, row->name);
    bool is_planned = class & KS_OP_CUDNN_ATTENTION;
    if (!(class & (KS_OP_CONVOLUTION | KS_OP_CUDNN_ATTENTION)) || row->launches == 0 ||
        /* Torch's operator of attention holds cuDNN's: the outer one counts. */
        (is_planned && ks_op_work_around(work, walk, KS_OP_CUDNN_ATTENTION))) {
        return KS_OK;
    }
    struct ks_str name = ks_trace_str(work->analyzer->trace, (struct ks_strid){row->name});
    bool is_backward = ks_str_contains(name, KS_STR("backward"));
    enum kind kind = (is_planned ? ATTENTION : CONVOLUTION) + is_backward;
    if (ks_retuning_tries(work, row)) {
        return note_retuned(work, walk, row, kind, err);
    }
    KS_TRY(add_sample(&parts->host_ns[kind], ks_sum_sub(row->end_ns, row->start_ns), err));
    return add_sample(&parts->device_ns[kind], row->device_ns, err);
}

/* What as many that need not try take. A plan changes nothing of the work on the device. */
static void add_usual(struct ks_op_work *work, enum kind kind, struct ks_retuning_cost *cost)
{
    struct ks_retuning_parts *parts = work->retuning;
    struct ks_work_cost *tried = &parts->costs[kind];
    struct samples *host_ns = &parts->host_ns[kind];
    struct samples *device_ns = &parts->device_ns[kind];
    if (tried->count == 0) {
        return;
    }
    int64_t count = (int64_t)tried->count;
    int64_t each_host_ns = is_attention(kind) ? USUAL_PLANNED_NS : USUAL_HOST_NS;
    int64_t all_device_ns = ks_sum_scale(
        (int64_t)((double)tried->device_ns / tried->launches * (double)USUAL_LAUNCHES), count);
    if (host_ns->count > 0) {
        each_host_ns = ks_quantile_median(host_ns->items, host_ns->count);
        all_device_ns = ks_sum_scale(ks_quantile_median(device_ns->items, device_ns->count), count);
    }
    all_device_ns = is_attention(kind) ? tried->device_ns : all_device_ns;
    cost->usual_host_ns = ks_sum_add(cost->usual_host_ns, ks_sum_scale(each_host_ns, count));
    cost->usual_device_ns = ks_sum_add(cost->usual_device_ns, all_device_ns);
}

static void join(struct ks_work_cost *all, const struct ks_work_cost *part)
{
    struct ks_work_cost joined = part->step_count > all->step_count ? *part : *all;
    joined.count = all->count + part->count;
    joined.launches = all->launches + part->launches;
    joined.host_ns = ks_sum_add(all->host_ns, part->host_ns);
    joined.device_ns = ks_sum_add(all->device_ns, part->device_ns);
    *all = joined;
}

/* Both directions of one kind of operator. */
static void publish(struct ks_op_work *work, enum kind first, struct ks_retuning_cost *cost)
{
    struct ks_retuning_parts *parts = work->retuning;
    int64_t longest_ns = 0;
    for (enum kind kind = first; kind <= first + 1; kind++) {
        add_usual(work, kind, cost);
        join(&cost->cost, &parts->costs[kind]);
        cost->shapes += parts->shapes[kind].count;
        if (parts->longest_ns[kind] > longest_ns) {
            longest_ns = parts->longest_ns[kind];
            cost->op = parts->ops[kind];
            cost->outer = parts->outer[kind];
        }
    }
    cost->usual_host_ns = ks_op_work_mean_ns(work, cost->usual_host_ns);
    cost->usual_device_ns = ks_op_work_mean_ns(work, cost->usual_device_ns);
    ks_op_work_mean(work, &cost->cost);
}

enum ks_status ks_retuning_publish(struct ks_op_work *work, struct ks_err *err)
{
    (void)err;
    publish(work, CONVOLUTION, &work->analyzer->facts->work.retuning);
    publish(work, ATTENTION, &work->analyzer->facts->work.plans);
    return KS_OK;
}
