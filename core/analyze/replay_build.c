/* Replays of all sources, and what they say of steps without the profiler. */
#include "analyze/lane_sweep.h"
#include "analyze/replay_model.h"
#include "analyze/step_lookup.h"
#include "analyze/what_if.h"
#include "base/map.h"

enum { STEPS_MIN = 2 };

/* ------------------------------------------------------------ steps */

/* Index among all steps of the source, so that steps that overlap share work as they do there. */
uint32_t ks_replay_step_at(const struct ks_replay_scope *scope, int64_t ns)
{
    const struct ks_facts *facts = scope->analyzer->facts;
    struct ks_step_range range = facts->step_ranges[scope->source];
    size_t first = (size_t)(scope->steps - facts->steps) - range.begin;
    size_t index = ks_step_lookup(facts->steps + range.begin, range.end - range.begin, ns);
    return index >= first && index - first < scope->step_count ? (uint32_t)(index - first)
                                                               : (uint32_t)scope->step_count;
}

/* Complete steps from `first` on. */
static size_t count_complete(const struct ks_facts *facts, size_t first, size_t end)
{
    size_t count = 0;
    while (first + count < end && facts->steps[first + count].is_complete) {
        count++;
    }
    return count;
}

/* The first complete steps that follow each other; none when there are no two. */
static void choose_steps(struct ks_replay_scope *scope)
{
    const struct ks_facts *facts = scope->analyzer->facts;
    struct ks_step_range range = facts->step_ranges[scope->source];
    size_t first = range.begin;
    size_t count = 0;
    while (first < range.end && (count = count_complete(facts, first, range.end)) < STEPS_MIN) {
        first += count + 1;
    }
    scope->step_count = count < scope->limits.steps ? count : scope->limits.steps;
    if (first >= range.end) {
        scope->step_count = 0;
        return;
    }
    scope->steps = facts->steps + first;
    scope->gpu_end_ns = INT64_MIN;
    for (size_t i = 0; i < scope->step_count; i++) {
        const struct ks_step *step = &scope->steps[i];
        int64_t end_ns = ks_sum_add(step->host_start_ns, step->host_ns);
        scope->end_ns = i == 0 || end_ns > scope->end_ns ? end_ns : scope->end_ns;
        if (step->gpu_end_ns != KS_UNKNOWN && step->gpu_end_ns > scope->gpu_end_ns) {
            scope->gpu_end_ns = step->gpu_end_ns;
        }
    }
    scope->start_ns = scope->steps[0].host_start_ns;
}

/* Steps that an engine marks on the GPU only say nothing of the host. */
static bool is_on_host(const struct ks_step *step)
{
    return step->found_by != KS_STEPS_WINDOW &&
           (step->found_by != KS_STEPS_ENGINE || step->thread != 0);
}

/* ------------------------------------------------------------ one source */

static enum ks_status add_step_thread(struct ks_replay_scope *scope, struct ks_err *err)
{
    struct ks_analyzer *analyzer = scope->analyzer;
    scope->tracks = ks_lane_sweep_tracks(analyzer->trace, scope->source);
    scope->thread_of = ks_new(&analyzer->scratch, uint16_t, (size_t)scope->tracks.count + 1);
    if (!scope->thread_of) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: tracks=%u",
                       scope->tracks.count);
    }
    uint32_t thread = ks_step_lookup_thread(analyzer->facts, scope->source);
    scope->thread_of[ks_track_range_index(&scope->tracks, thread)] = 1;
    scope->thread_count = 1;
    return KS_OK;
}

/* `*made` NULL: there is nothing to replay, or, `*fits` false, too much. */
static enum ks_status try_build(struct ks_replay_scope *scope, struct ks_replay **made, bool *fits,
                                struct ks_err *err)
{
    *made = NULL;
    *fits = true;
    choose_steps(scope);
    if (scope->step_count < STEPS_MIN || !is_on_host(&scope->steps[0])) {
        return KS_OK;
    }
    struct ks_replay *replay = ks_new(&scope->analyzer->facts->arena, struct ks_replay, 1);
    if (!replay) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: count=%zu",
                       scope->step_count);
    }
    replay->step_count = scope->step_count;
    replay->start_ns = scope->start_ns;
    KS_TRY(add_step_thread(scope, err));
    KS_TRY(ks_replay_add_works(scope, replay, fits, err));
    if (replay->work_count == 0) {
        return KS_OK;
    }
    KS_TRY(ks_replay_add_spans(scope, replay, err));
    KS_TRY(ks_replay_add_points(scope, replay, fits, err));
    *made = *fits ? replay : NULL;
    return KS_OK;
}

enum ks_status ks_replay_build(struct ks_analyzer *analyzer, uint32_t source,
                               const struct ks_replay_limits *limits, struct ks_replay **made,
                               struct ks_err *err)
{
    struct ks_arena *arena = &analyzer->facts->arena;
    struct ks_arena_mark mark = ks_arena_mark(arena);
    struct ks_arena_mark scratch_mark = ks_arena_mark(&analyzer->scratch);
    struct ks_replay_limits left = *limits;
    bool fits = false;
    *made = NULL;
    for (; !fits && left.steps >= STEPS_MIN; left.steps /= 2) {
        struct ks_replay_scope scope = {.analyzer = analyzer, .source = source, .limits = left};
        KS_TRY(try_build(&scope, made, &fits, err));
        ks_arena_rewind(&analyzer->scratch, scratch_mark);
        if (!*made) {
            ks_arena_rewind(arena, mark);
        }
    }
    return KS_OK;
}

/* ------------------------------------------------------------ ranks */

/* Are the sources the ranks of one job: each with a rank of its own, and a replay? */
static enum ks_status find_ranks(struct ks_facts *facts, struct ks_err *err)
{
    struct ks_map ranks;
    ks_map_init(&ranks);
    uint32_t count = ks_trace_source_count(facts->trace);
    enum ks_status status = KS_OK;
    facts->are_ranks = count > 1;
    for (uint32_t i = 0; i < count && facts->are_ranks; i++) {
        bool is_new = false;
        int64_t rank = ks_trace_source(facts->trace, i)->rank;
        facts->are_ranks = facts->replays[i] && rank >= 0;
        if (facts->are_ranks && !ks_map_put(&ranks, (uint64_t)rank, 0, &is_new)) {
            status =
                ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: sources=%u", count);
            break;
        }
        facts->are_ranks = facts->are_ranks && is_new;
    }
    ks_map_release(&ranks);
    return status;
}

/* The index-th collective from `*at` on, by launch; NULL past the last. */
static struct ks_replay_work *next_collective(struct ks_replay *replay, size_t *at)
{
    while (*at < replay->work_count && !replay->works[*at].is_collective) {
        (*at)++;
    }
    return *at < replay->work_count ? &replay->works[(*at)++] : NULL;
}

static size_t count_collectives(struct ks_replay *replay)
{
    size_t at = 0;
    size_t count = 0;
    while (next_collective(replay, &at)) {
        count++;
    }
    return count;
}

/* A collective ends on all ranks together; where it is the shortest, no other was waited for. */
static enum ks_status find_alone(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    uint32_t source_count = ks_trace_source_count(facts->trace);
    size_t count = count_collectives(facts->replays[0]);
    for (uint32_t i = 1; i < source_count; i++) {
        if (count_collectives(facts->replays[i]) != count) {
            return KS_OK;
        }
    }
    size_t *at = ks_new(&analyzer->scratch, size_t, source_count);
    struct ks_replay_work **works =
        ks_new(&analyzer->scratch, struct ks_replay_work *, source_count);
    if (!at || !works) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: sources=%u",
                       source_count);
    }
    for (size_t n = 0; n < count; n++) {
        int64_t least_ns = INT64_MAX;
        for (uint32_t i = 0; i < source_count; i++) {
            works[i] = next_collective(facts->replays[i], &at[i]);
            KS_ASSERT(works[i] != NULL); /* they were counted */
            least_ns = works[i]->dur_ns < least_ns ? works[i]->dur_ns : least_ns;
        }
        for (uint32_t i = 0; i < source_count; i++) {
            works[i]->alone_ns = least_ns;
        }
    }
    return KS_OK;
}

/* All replays together take no more than some of the largest. */
static struct ks_replay_limits limits_of(uint32_t source_count)
{
    size_t points = (size_t)KS_REPLAY_POINTS_ALL_MAX / (source_count > 0 ? source_count : 1);
    points = points < KS_REPLAY_POINTS_MAX ? points : (size_t)KS_REPLAY_POINTS_MAX;
    return (struct ks_replay_limits){
        .steps = KS_REPLAY_STEPS_MAX, .points = points, .works = points / 4};
}

/* Steps of a source that are enough, by its mean number of row ends in a step. */
static size_t enough_steps(const struct ks_facts *facts, uint32_t source)
{
    size_t count = 0;
    const struct ks_lane *lanes = ks_lane_sweep_lanes(facts->trace, KS_TABLE_slice, source, &count);
    uint64_t points = 0;
    for (size_t i = 0; i < count; i++) {
        points += 2 * (lanes[i].row_end - lanes[i].row_begin);
    }
    struct ks_step_range range = facts->step_ranges[source];
    uint64_t a_step = points / (range.end - range.begin + 1) + 1;
    size_t steps = (size_t)(KS_REPLAY_POINTS_ENOUGH / a_step);
    return steps < STEPS_MIN             ? (size_t)STEPS_MIN
           : steps < KS_REPLAY_STEPS_MAX ? steps
                                         : (size_t)KS_REPLAY_STEPS_MAX;
}

enum ks_status ks_replays_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    uint32_t source_count = ks_trace_source_count(analyzer->trace);
    struct ks_replay_limits limits = limits_of(source_count);
    facts->replays = ks_new(&facts->arena, struct ks_replay *, source_count + 1);
    if (!facts->replays) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: sources=%u",
                       source_count);
    }
    for (uint32_t i = 0; i < source_count && facts->has_gpu; i++) {
        limits.steps = enough_steps(facts, i);
        KS_TRY(ks_replay_build(analyzer, i, &limits, &facts->replays[i], err));
    }
    KS_TRY(find_ranks(facts, err));
    if (facts->are_ranks) {
        KS_TRY(find_alone(analyzer, err));
    }
    return ks_what_if_prepare(facts, err);
}
