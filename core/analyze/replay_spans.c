/* The stretches of a replay that a run can make smaller, and marks of the work they launch. */
#include "analyze/replay_model.h"
#include "base/sort_runs.h"

/* Stretches of one thread hold one another at most a few deep: looked at behind the last one that
 * begins before a launch. */
enum { DEPTH_MAX = 16 };

/* Marks of the stretches of the thread that hold the moment. */
static unsigned marks_at(const struct ks_work_costs *work, uint32_t lane, int64_t ns)
{
    size_t begin = 0;
    size_t end = work->span_count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        const struct ks_work_span *span = &work->spans[middle];
        bool is_before = span->lane != lane ? span->lane < lane : span->from_ns <= ns;
        begin = is_before ? middle + 1 : begin;
        end = is_before ? end : middle;
    }
    unsigned marks = 0;
    for (size_t i = 0; i < DEPTH_MAX && begin > i; i++) {
        const struct ks_work_span *span = &work->spans[begin - 1 - i];
        if (span->lane != lane) {
            break;
        }
        marks |= ns < span->until_ns ? span->marks : 0;
    }
    return marks;
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
        one->shrink_marks |= marks_at(work, one->launch_lane, one->launch_ns);
    }
    return KS_OK;
}
