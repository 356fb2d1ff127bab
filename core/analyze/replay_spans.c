/* The stretches of a replay that a run can make smaller, and marks of the work they launch. */
#include "analyze/replay_model.h"
#include "base/sort_runs.h"

/* Passes of one thread lie behind one another. */
static bool is_in_pass(const struct ks_work_costs *work, const struct ks_replay_work *one)
{
    size_t begin = 0;
    size_t end = work->pass_count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        const struct ks_work_span *pass = &work->passes[middle];
        bool is_before = pass->lane != one->launch_lane ? pass->lane < one->launch_lane
                                                        : pass->from_ns <= one->launch_ns;
        begin = is_before ? middle + 1 : begin;
        end = is_before ? end : middle;
    }
    return begin > 0 && work->passes[begin - 1].lane == one->launch_lane &&
           one->launch_ns < work->passes[begin - 1].until_ns;
}

static int compare_edges(const void *left, const void *right)
{
    const struct ks_replay_edge *a = left;
    const struct ks_replay_edge *b = right;
    if (a->at_ns != b->at_ns) {
        return a->at_ns < b->at_ns ? -1 : 1;
    }
    return (int)a->is_begin - (int)b->is_begin;
}

/* Stretches that are empty, or reach out of the replayed steps, are none. */
static bool is_inside(const struct ks_replay_scope *scope, const struct ks_work_span *span)
{
    return scope->thread_of[span->lane] > 0 && span->from_ns >= scope->start_ns &&
           span->until_ns <= scope->end_ns && span->from_ns < span->until_ns;
}

enum ks_status ks_replay_add_spans(const struct ks_replay_scope *scope, struct ks_replay *replay,
                                   struct ks_err *err)
{
    struct ks_facts *facts = scope->analyzer->facts;
    const struct ks_work_costs *work = &facts->work;
    size_t count = 0;
    for (size_t i = 0; i < work->span_count; i++) {
        count += is_inside(scope, &work->spans[i]);
    }
    replay->edges = ks_new(&facts->arena, struct ks_replay_edge, 2 * count + 1);
    if (!replay->edges) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: spans=%zu", count);
    }
    for (size_t i = 0; i < work->span_count; i++) {
        const struct ks_work_span *span = &work->spans[i];
        if (is_inside(scope, span)) {
            replay->edges[replay->edge_count++] =
                (struct ks_replay_edge){span->from_ns, span->marks, true};
            replay->edges[replay->edge_count++] =
                (struct ks_replay_edge){span->until_ns, span->marks, false};
        }
    }
    if (!ks_sort_runs(replay->edges, replay->edge_count, sizeof(*replay->edges), compare_edges)) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: spans=%zu", count);
    }
    for (size_t i = 0; i < replay->work_count; i++) {
        struct ks_replay_work *one = &replay->works[i];
        one->shrink_marks |= ks_work_costs_marks(work, one->launch_lane, one->launch_ns);
        if (one->shrink_marks & KS_REPLAY_FP32_ANYWAY) {
            one->shrink_marks &= ~(uint32_t)(KS_REPLAY_FP32 | KS_REPLAY_NOT_FP32);
        }
        one->shrink_marks |= is_in_pass(work, one) ? KS_REPLAY_PREFIX : 0u;
    }
    return KS_OK;
}
