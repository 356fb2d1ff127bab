/* Convolutions that try algorithms: cuDNN times each on the GPU and waits for it. */
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
};

/* Forward and backward. */
enum { DIRECTIONS = 2 };

struct samples {
    int64_t *items;
    size_t count;
    size_t capacity;
};

struct ks_retuning_parts {
    struct samples host_ns[DIRECTIONS];
    struct samples device_ns[DIRECTIONS];
    struct ks_work_cost costs[DIRECTIONS];
    struct ks_map shapes; /* (shapes, name) seen while trying */
    int64_t longest_ns;
    struct ks_strid op;
};

enum ks_status ks_retuning_create(struct ks_op_work *work, struct ks_err *err)
{
    work->retuning = ks_new(&work->analyzer->scratch, struct ks_retuning_parts, 1);
    if (!work->retuning) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow convolutions");
    }
    ks_map_init(&work->retuning->shapes);
    return KS_OK;
}

void ks_retuning_release(struct ks_op_work *work)
{
    struct ks_retuning_parts *parts = work->retuning;
    if (parts) {
        for (size_t i = 0; i < DIRECTIONS; i++) {
            ks_free(parts->host_ns[i].items);
            ks_free(parts->device_ns[i].items);
        }
        ks_map_release(&parts->shapes);
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

static enum ks_status note_retuned(struct ks_op_work *work, const struct ks_op_walk *walk,
                                   const struct ks_op_row *row, size_t direction,
                                   struct ks_err *err)
{
    struct ks_retuning_parts *parts = work->retuning;
    const struct ks_step *step = ks_op_work_step(work, walk, row->start_ns);
    if (!step) {
        return KS_OK;
    }
    ks_op_work_add(&parts->costs[direction], row, step);
    int64_t host_ns = ks_sum_sub(row->end_ns, row->start_ns);
    if (host_ns > parts->longest_ns) {
        parts->longest_ns = host_ns;
        parts->op = (struct ks_strid){row->name};
    }
    if (row->dims != 0 && !ks_map_put(&parts->shapes, row->name, row->dims, NULL)) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow convolutions");
    }
    const struct ks_work_span span = {walk->lane, KS_REPLAY_RETUNED, row->start_ns, row->end_ns};
    return ks_op_work_add_span(work, &span, err);
}

enum ks_status ks_retuning_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_retuning_parts *parts = work->retuning;
    if (!(ks_op_work_class(work, row->name) & KS_OP_CONVOLUTION) || row->launches == 0) {
        return KS_OK;
    }
    struct ks_str name = ks_trace_str(work->analyzer->trace, (struct ks_strid){row->name});
    size_t direction = ks_str_contains(name, KS_STR("backward"));
    if (row->syncs >= SYNCS_MIN && row->launches >= LAUNCHES_MIN) {
        return note_retuned(work, walk, row, direction, err);
    }
    KS_TRY(add_sample(&parts->host_ns[direction], ks_sum_sub(row->end_ns, row->start_ns), err));
    return add_sample(&parts->device_ns[direction], row->device_ns, err);
}

/* What as many that need not try take. */
static void add_usual(struct ks_op_work *work, size_t direction, struct ks_retuning_cost *cost)
{
    struct ks_retuning_parts *parts = work->retuning;
    struct ks_work_cost *tried = &parts->costs[direction];
    struct samples *host_ns = &parts->host_ns[direction];
    struct samples *device_ns = &parts->device_ns[direction];
    if (tried->count == 0) {
        return;
    }
    int64_t count = (int64_t)tried->count;
    int64_t each_host_ns = USUAL_HOST_NS;
    int64_t each_device_ns =
        (int64_t)((double)tried->device_ns / tried->launches * (double)USUAL_LAUNCHES);
    if (host_ns->count > 0) {
        each_host_ns = ks_quantile_median(host_ns->items, host_ns->count);
        each_device_ns = ks_quantile_median(device_ns->items, device_ns->count);
    }
    cost->usual_host_ns = ks_sum_add(cost->usual_host_ns, ks_sum_scale(each_host_ns, count));
    cost->usual_device_ns = ks_sum_add(cost->usual_device_ns, ks_sum_scale(each_device_ns, count));
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

enum ks_status ks_retuning_publish(struct ks_op_work *work, struct ks_err *err)
{
    (void)err;
    struct ks_retuning_parts *parts = work->retuning;
    struct ks_retuning_cost *cost = &work->analyzer->facts->work.retuning;
    for (size_t i = 0; i < DIRECTIONS; i++) {
        add_usual(work, i, cost);
        join(&cost->cost, &parts->costs[i]);
    }
    cost->usual_host_ns = ks_op_work_mean_ns(work, cost->usual_host_ns);
    cost->usual_device_ns = ks_op_work_mean_ns(work, cost->usual_device_ns);
    ks_op_work_mean(work, &cost->cost);
    cost->shapes = parts->shapes.count;
    cost->op = parts->op;
    return KS_OK;
}
