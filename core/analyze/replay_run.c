#include "analyze/replay_model.h"

#include "base/alloc.h"

struct thread {
    uint32_t dropped_depth; /* rows of the operator that is left out and are open */
    bool is_joining;        /* it prepares the next one, which is left out, too */
};

struct run {
    const struct ks_replay *replay;
    struct ks_replay_change change;
    double now_ns;
    double debt_ns; /* cost of recording that is still to be taken out */
    int64_t last_ns;
    uint32_t waiting; /* call that waits, UINT32_MAX none */
    double waiting_since_ns;
    uint32_t loader_depth;
    uint32_t dropping_threads;
    size_t shrink_count;                          /* of the change that are there */
    uint32_t shrink_depth[KS_REPLAY_SHRINKS_MAX]; /* stretches that are open */
    double host_part;                             /* of the host's time that stays in these */
    size_t edge;                                  /* next one */
    uint32_t memory_calls;                        /* open ones that are left out */
    uint32_t op_depth;                            /* operators open on all threads */
    struct thread *threads;
    double *work_end_ns;
    double *stream_free_ns;
    double *step_end_ns;
};

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* ------------------------------------------------------------ time of the host */

static double host_part_of(const struct run *run)
{
    double part = 1;
    for (size_t i = 0; i < run->shrink_count; i++) {
        part *= run->shrink_depth[i] > 0 ? run->change.shrinks[i].host_part : 1;
    }
    return part;
}

static double work_part(const struct run *run, const struct ks_replay_work *work)
{
    double part = work->dur_ns <= KS_REPLAY_SHORT_NS_MAX ? run->change.short_factor : 1;
    for (size_t i = 0; i < run->shrink_count; i++) {
        bool is_marked = work->shrink_marks & run->change.shrinks[i].marks;
        part *= is_marked ? run->change.shrinks[i].work_part : 1;
    }
    return part;
}

/* Part of a stretch between two rows, the second of them `next`, that stays. */
static double part_of(const struct run *run, double passed_ns, const struct ks_replay_point *next)
{
    bool is_before_free = next->kind == KS_REPLAY_CALL_BEGIN &&
                          (next->marks & KS_REPLAY_BEFORE_FREE) && run->op_depth == 0;
    if (run->loader_depth > 0) {
        return 1;
    }
    if (is_before_free && (run->change.drop & KS_REPLAY_BEFORE_FREE)) {
        return 0;
    }
    if (passed_ns < KS_REPLAY_GAP_NS_MIN) {
        return run->change.launch_factor;
    }
    return run->op_depth == 0 && !is_before_free ? run->change.gap_factor : 1;
}

/* `next`: the point that the stretch leads to. */
static void pass_time(struct run *run, int64_t until_ns, const struct ks_replay_point *next)
{
    double passed_ns = (double)ks_sum_sub(until_ns, run->last_ns);
    double part = part_of(run, passed_ns, next);
    run->last_ns = until_ns;
    if (run->dropping_threads > 0 || run->memory_calls > 0) {
        return;
    }
    if (run->waiting == UINT32_MAX) {
        passed_ns *= run->host_part; /* as what recording these rows took, see cost_of */
        double taken_ns = run->debt_ns < passed_ns ? run->debt_ns : passed_ns;
        run->debt_ns -= taken_ns;
        passed_ns -= taken_ns;
        passed_ns *= part;
    }
    run->now_ns += passed_ns;
}

/* ------------------------------------------------------------ GPU work */

/* What is left of `dur_ns` without the tokens that are cut. */
static double cut_tokens(const struct run *run, const struct ks_replay_work *work, double dur_ns)
{
    bool is_of_tokens = !work->is_collective && !(work->shrink_marks & KS_REPLAY_OPTIMIZER);
    if (run->change.token_cut <= 0 || !is_of_tokens || dur_ns <= KS_REPLAY_LEAST_WORK_NS) {
        return dur_ns;
    }
    return later((1 - run->change.token_cut) * dur_ns, KS_REPLAY_LEAST_WORK_NS);
}

static void launch(struct run *run, uint32_t index)
{
    const struct ks_replay_work *work = &run->replay->works[index];
    double start_ns = run->now_ns + (double)work->launch_delay_ns;
    double part = work_part(run, work);
    if (!work->is_first) {
        start_ns = later(start_ns,
                         run->stream_free_ns[work->stream] + part * (double)work->stream_delay_ns);
    }
    if (work->other != KS_REPLAY_NO_WORK) {
        start_ns = later(start_ns, run->work_end_ns[work->other] + (double)work->other_delay_ns);
    }
    int64_t dur_ns = run->change.waits_for_ranks ? work->dur_ns : work->alone_ns;
    part *= work->is_collective ? run->change.collective_factor : 1;
    run->work_end_ns[index] = start_ns + part * cut_tokens(run, work, (double)dur_ns);
    double *free_ns = &run->stream_free_ns[work->stream];
    *free_ns = later(*free_ns, run->work_end_ns[index]);
    if (work->step < run->replay->step_count) {
        double *step_end_ns = &run->step_end_ns[work->step];
        *step_end_ns = later(*step_end_ns, run->work_end_ns[index]);
    }
}

static bool waits(const struct run *run)
{
    for (size_t i = 0; i < run->shrink_count; i++) {
        if (run->shrink_depth[i] > 0 && run->change.shrinks[i].drops_waits) {
            return false;
        }
    }
    return run->waiting == UINT32_MAX;
}

static void begin_call(struct run *run, uint32_t index, bool is_dropped)
{
    const struct ks_replay_call *call = &run->replay->calls[index];
    run->memory_calls += call->is_memory && (run->change.drop & KS_REPLAY_MEMORY);
    for (uint32_t i = call->work_begin; i < call->work_end; i++) {
        const struct ks_replay_work *work = &run->replay->works[i];
        bool is_left_out = is_dropped && !(run->change.keeps_collectives && work->is_collective);
        if (is_left_out || work_part(run, work) <= 0) {
            /* what comes behind it on its stream finds the stream free */
            run->work_end_ns[i] = run->stream_free_ns[work->stream];
        } else {
            launch(run, i);
        }
    }
    if (call->awaited != KS_REPLAY_NO_WORK && !is_dropped && waits(run)) {
        run->waiting = index;
        run->waiting_since_ns = run->now_ns;
    }
}

static void end_call(struct run *run, uint32_t index)
{
    const struct ks_replay_call *call = &run->replay->calls[index];
    run->memory_calls -= call->is_memory && (run->change.drop & KS_REPLAY_MEMORY);
    if (run->waiting != index) {
        return;
    }
    double end_ns = later(run->waiting_since_ns + run->host_part * (double)call->own_ns,
                          run->work_end_ns[call->awaited] + (double)call->tail_ns);
    run->now_ns = end_ns;
    run->waiting = UINT32_MAX;
}

/* ------------------------------------------------------------ points */

static double cost_of(const struct run *run, const struct ks_replay_point *point)
{
    return point->cost_ns * run->change.cost_factor * run->host_part;
}

/* True: an operator begins that is left out. Between two that belong together time stands still. */
static bool begin_drop(struct run *run, struct thread *thread, const struct ks_replay_point *point)
{
    if (point->kind != KS_REPLAY_ROW_BEGIN || !point->is_op) {
        return false;
    }
    bool is_dropped = point->marks & run->change.drop;
    run->dropping_threads += is_dropped && !thread->is_joining;
    run->dropping_threads -= !is_dropped && thread->is_joining;
    thread->is_joining = false;
    if (is_dropped) {
        thread->dropped_depth = 1;
        run->debt_ns += cost_of(run, point);
    }
    return is_dropped;
}

/* True: the point lies in an operator that is left out. What recording this operator itself took
 * lies before its beginning and behind its end. */
static bool drop(struct run *run, const struct ks_replay_point *point)
{
    struct thread *thread = &run->threads[point->thread];
    bool is_begin = point->kind == KS_REPLAY_ROW_BEGIN;
    if (thread->dropped_depth == 0) {
        return begin_drop(run, thread, point);
    }
    if (is_begin) {
        thread->dropped_depth++;
    } else if (point->kind == KS_REPLAY_ROW_END && --thread->dropped_depth == 0) {
        thread->is_joining = point->joins_next && (run->change.drop & KS_REPLAY_BETWEEN);
        run->dropping_threads -= !thread->is_joining;
        run->debt_ns += cost_of(run, point);
    }
    return point->kind != KS_REPLAY_STEP_END;
}

static void note_point(struct run *run, const struct ks_replay_point *point)
{
    bool is_dropped = drop(run, point);
    run->debt_ns += is_dropped ? 0 : cost_of(run, point);
    if (point->is_op) {
        run->op_depth += point->kind == KS_REPLAY_ROW_BEGIN;
        run->op_depth -= point->kind == KS_REPLAY_ROW_END && run->op_depth > 0;
    }
    switch ((enum ks_replay_kind)point->kind) {
    case KS_REPLAY_ROW_BEGIN:
    case KS_REPLAY_ROW_END: break;
    case KS_REPLAY_LOADER_BEGIN: run->loader_depth++; break;
    case KS_REPLAY_LOADER_END: run->loader_depth -= run->loader_depth > 0; break;
    case KS_REPLAY_CALL_BEGIN: begin_call(run, point->item, is_dropped); break;
    case KS_REPLAY_CALL_END: end_call(run, point->item); break;
    case KS_REPLAY_STEP_END:
        run->step_end_ns[point->item] = later(run->step_end_ns[point->item], run->now_ns);
        break;
    }
}

/* Passes the time up to the edges that lie before the point or there. */
static void pass_edges(struct run *run, const struct ks_replay_point *next)
{
    const struct ks_replay *replay = run->replay;
    for (; run->edge < replay->edge_count; run->edge++) {
        const struct ks_replay_edge *edge = &replay->edges[run->edge];
        if (edge->at_ns > next->at_ns) {
            return;
        }
        for (size_t i = 0; i < run->shrink_count; i++) {
            if (edge->marks & run->change.shrinks[i].marks) {
                pass_time(run, edge->at_ns, next);
                run->shrink_depth[i] += edge->is_begin;
                run->shrink_depth[i] -= !edge->is_begin;
                run->host_part = host_part_of(run);
            }
        }
    }
}

static void walk(struct run *run)
{
    const struct ks_replay *replay = run->replay;
    run->now_ns = 0;
    run->last_ns = replay->start_ns;
    run->waiting = UINT32_MAX;
    for (size_t i = 0; i < replay->stream_count; i++) {
        if (replay->stream_free_ns[i] != KS_TIME_NONE) {
            run->stream_free_ns[i] =
                (double)ks_sum_sub(replay->stream_free_ns[i], replay->start_ns);
        }
    }
    for (size_t i = 0; i < replay->point_count; i++) {
        const struct ks_replay_point *point = &replay->points[i];
        pass_edges(run, point);
        pass_time(run, point->at_ns, point);
        note_point(run, &replay->points[i]);
    }
}

/* Steps lie end to end: none ends before the one before it. */
static double mean_step(const struct run *run)
{
    size_t last = run->replay->step_count - 1;
    double end_ns = run->step_end_ns[0];
    for (size_t i = 1; i <= last; i++) {
        end_ns = later(end_ns, run->step_end_ns[i]);
    }
    return (end_ns - run->step_end_ns[0]) / (double)last;
}

enum ks_status ks_replay_run(const struct ks_replay *replay, const struct ks_replay_change *change,
                             double *step_ns, struct ks_err *err)
{
    struct run run = {.replay = replay, .change = *change, .host_part = 1};
    for (size_t i = 0; i < KS_REPLAY_SHRINKS_MAX; i++) {
        run.shrink_count = change->shrinks[i].marks ? i + 1 : run.shrink_count;
    }
    run.threads = ks_alloc(replay->thread_count, sizeof(*run.threads));
    run.work_end_ns = ks_alloc(replay->work_count + 1, sizeof(double));
    run.stream_free_ns = ks_alloc(replay->stream_count + 1, sizeof(double));
    run.step_end_ns = ks_alloc(replay->step_count, sizeof(double));
    enum ks_status status = KS_OK;
    if (run.threads && run.work_end_ns && run.stream_free_ns && run.step_end_ns) {
        walk(&run);
        *step_ns = mean_step(&run);
    } else {
        status = ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: works=%zu",
                         replay->work_count);
    }
    ks_free(run.threads);
    ks_free(run.work_end_ns);
    ks_free(run.stream_free_ns);
    ks_free(run.step_end_ns);
    return status;
}
