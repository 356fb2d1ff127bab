/* Steps of optimizers: how torch.optim's own annotations launch their work. */
#include "analyze/op_work.h"
#include "base/err.h"
#include "measure/sum.h"

/* Operators that launch work of their own, so many a step at least. Without a GPU all operators
 * work. */
enum { SINGLE_MIN = 8 };

struct ks_optimizer_parts {
    uint32_t *calls; /* by string id: launching operators in steps of optimizers */
    uint32_t calls_max;
    /* The step that is open, outermost operators only. */
    int64_t begin_ns; /* INT64_MIN: that of the annotation */
    struct ks_op_row inside;
    uint32_t fused, foreach, single;
    /* All of them. */
    struct ks_work_cost costs[KS_OPTIMIZER_SINGLE + 1];
    double operators[KS_OPTIMIZER_SINGLE + 1];
    struct ks_strid names[KS_OPTIMIZER_SINGLE + 1];
};

enum ks_status ks_optimizer_create(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_arena *scratch = &work->analyzer->scratch;
    work->optimizer = ks_new(scratch, struct ks_optimizer_parts, 1);
    uint32_t *calls =
        ks_new(scratch, uint32_t, (size_t)ks_trace_str_count(work->analyzer->trace) + 1);
    if (!work->optimizer || !calls) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow optimizers");
    }
    work->optimizer->calls = calls;
    work->optimizer->begin_ns = INT64_MIN;
    return KS_OK;
}

static void restart(struct ks_optimizer_parts *parts, int64_t begin_ns)
{
    parts->begin_ns = begin_ns;
    parts->inside = (struct ks_op_row){0};
    parts->fused = parts->foreach = parts->single = 0;
}

static void note_inside(struct ks_op_work *work, const struct ks_op_row *row)
{
    struct ks_optimizer_parts *parts = work->optimizer;
    unsigned class = ks_op_work_class(work, row->name);
    parts->inside.launches += row->launches;
    parts->inside.device_ns = ks_sum_add(parts->inside.device_ns, row->device_ns);
    if (parts->begin_ns == INT64_MAX) {
        parts->begin_ns = row->start_ns; /* behind the forward and backward pass of a closure */
    }
    if (row->launches == 0 && work->analyzer->facts->has_gpu) {
        return;
    }
    parts->fused += (class & KS_OP_FUSED_STEP) != 0;
    parts->foreach += (class & KS_OP_FOREACH) != 0;
    if (!(class & (KS_OP_FUSED_STEP | KS_OP_FOREACH))) {
        parts->single++;
        uint32_t calls = ++parts->calls[row->name];
        parts->calls_max = calls > parts->calls_max ? calls : parts->calls_max;
    }
}

static enum ks_optimizer_kind kind_of(const struct ks_optimizer_parts *parts)
{
    if (parts->fused > 0 && parts->single < SINGLE_MIN) {
        return KS_OPTIMIZER_FUSED;
    }
    if (parts->single >= SINGLE_MIN && parts->single > parts->foreach) {
        return KS_OPTIMIZER_SINGLE;
    }
    return parts->foreach > 0 ? KS_OPTIMIZER_FOREACH : KS_OPTIMIZER_NONE;
}

static enum ks_status note_step(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_optimizer_parts *parts = work->optimizer;
    const struct ks_step *step = ks_op_work_step(work, walk, row->start_ns);
    enum ks_optimizer_kind kind = kind_of(parts);
    struct ks_op_row all = parts->inside;
    all.start_ns = parts->begin_ns == INT64_MIN || parts->begin_ns == INT64_MAX ? row->start_ns
                                                                                : parts->begin_ns;
    all.end_ns = row->end_ns;
    double operators = (double)parts->fused + parts->foreach + parts->single;
    restart(parts, INT64_MIN);
    if (!step || kind == KS_OPTIMIZER_NONE) {
        return KS_OK;
    }
    ks_op_work_add(&parts->costs[kind], &all, step);
    parts->operators[kind] += operators;
    parts->names[kind] = (struct ks_strid){row->name};
    const struct ks_work_span span = {walk->lane, KS_REPLAY_OPTIMIZER, all.start_ns, all.end_ns};
    return kind == KS_OPTIMIZER_FUSED ? KS_OK : ks_op_work_add_span(work, &span, err);
}

/* An optimizer works without recording a graph: operators that do record one are a closure's. */
enum ks_status ks_optimizer_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                 const struct ks_op_row *row, struct ks_err *err)
{
    if (row->flags & KS_NAME_OPTIMIZER) {
        return row->around & KS_NAME_OPTIMIZER ? KS_OK : note_step(work, walk, row, err);
    }
    if (!(row->flags & KS_NAME_ATEN) || !(row->around & KS_NAME_OPTIMIZER) ||
        (row->around & KS_NAME_ATEN)) {
        return KS_OK;
    }
    if (row->seq >= 0) {
        restart(work->optimizer, INT64_MAX);
    } else {
        note_inside(work, row);
    }
    return KS_OK;
}

/* Operators that each tensor has once are the rarest of those that are not rare. */
static double count_tensors(const struct ks_op_work *work, double steps)
{
    const struct ks_optimizer_parts *parts = work->optimizer;
    uint32_t least = parts->calls_max;
    for (uint32_t i = 0; i < ks_trace_str_count(work->analyzer->trace); i++) {
        bool is_common = parts->calls[i] > 0 && parts->calls[i] >= parts->calls_max / 4;
        least = is_common && parts->calls[i] < least ? parts->calls[i] : least;
    }
    return steps > 0 ? least / steps : 0;
}

enum ks_status ks_optimizer_publish(struct ks_op_work *work, struct ks_err *err)
{
    (void)err;
    struct ks_optimizer_parts *parts = work->optimizer;
    struct ks_optimizer_cost *cost = &work->analyzer->facts->work.optimizer;
    for (int kind = KS_OPTIMIZER_FUSED; kind <= KS_OPTIMIZER_SINGLE; kind++) {
        if (parts->costs[kind].count > 0 && parts->costs[kind].host_ns > cost->cost.host_ns) {
            cost->kind = (enum ks_optimizer_kind)kind;
            cost->cost = parts->costs[kind];
            cost->operators = parts->operators[kind] / parts->costs[kind].count;
            cost->name = parts->names[kind];
        }
    }
    double steps = cost->cost.count;
    cost->tensors = cost->kind == KS_OPTIMIZER_SINGLE ? count_tensors(work, steps) : 0;
    ks_op_work_mean(work, &cost->cost);
    return KS_OK;
}
