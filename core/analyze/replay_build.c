/* Replays of all sources, and what they say of steps without the profiler. */
#include "analyze/lane_sweep.h"
#include "analyze/replay_model.h"
#include "analyze/step_lookup.h"
#include "measure/sum.h"

enum { STEPS_MIN = 2 };

uint32_t ks_replay_step_at(const struct ks_replay_scope *scope, int64_t ns)
{
    return (uint32_t)ks_step_lookup(scope->steps, scope->step_count, ns);
}

/* The first complete steps that follow each other. */
static void choose_steps(struct ks_replay_scope *scope, size_t count_max)
{
    const struct ks_facts *facts = scope->analyzer->facts;
    struct ks_step_range range = facts->step_ranges[scope->source];
    size_t first = range.begin;
    while (first < range.end && !facts->steps[first].is_complete) {
        first++;
    }
    size_t count = 0;
    scope->steps = facts->steps + first;
    scope->gpu_end_ns = INT64_MIN;
    while (first + count < range.end && count < count_max && scope->steps[count].is_complete) {
        int64_t gpu_end_ns = scope->steps[count].gpu_end_ns;
        scope->gpu_end_ns = gpu_end_ns > scope->gpu_end_ns ? gpu_end_ns : scope->gpu_end_ns;
        count++;
    }
    scope->step_count = count;
    if (count > 0) {
        const struct ks_step *last = &scope->steps[count - 1];
        scope->start_ns = scope->steps[0].host_start_ns;
        scope->end_ns = ks_sum_add(last->host_start_ns, last->host_ns);
    }
}

static enum ks_status add_thread(struct ks_replay_scope *scope, struct ks_err *err)
{
    struct ks_analyzer *analyzer = scope->analyzer;
    uint32_t track_count = ks_trace_track_count(analyzer->trace);
    scope->thread_of = ks_new(&analyzer->scratch, uint16_t, track_count + 1);
    if (!scope->thread_of) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: tracks=%u",
                       track_count);
    }
    scope->thread_of[ks_step_lookup_thread(analyzer->facts, scope->source)] = 1;
    scope->thread_count = 1;
    return KS_OK;
}

/* `*made` NULL: the source has nothing to replay. */
static enum ks_status build(struct ks_analyzer *analyzer, uint32_t source, struct ks_replay **made,
                            struct ks_err *err)
{
    struct ks_arena *arena = &analyzer->facts->arena;
    struct ks_arena_mark mark = ks_arena_mark(arena);
    *made = NULL;
    for (size_t count = KS_REPLAY_STEPS_MAX; count >= STEPS_MIN; count /= 2) {
        struct ks_replay_scope scope = {.analyzer = analyzer, .source = source};
        struct ks_replay *replay = ks_new(arena, struct ks_replay, 1);
        choose_steps(&scope, count);
        if (!replay || scope.step_count < STEPS_MIN) {
            return replay ? KS_OK : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps");
        }
        replay->step_count = scope.step_count;
        replay->start_ns = scope.start_ns;
        KS_TRY(add_thread(&scope, err));
        KS_TRY(ks_replay_add_works(&scope, replay, err));
        if (replay->work_count == 0) {
            return KS_OK;
        }
        KS_TRY(ks_replay_add_points(&scope, replay, err));
        if (replay->point_count < KS_REPLAY_POINTS_MAX) {
            *made = replay;
            return KS_OK;
        }
        ks_arena_rewind(arena, mark);
    }
    return KS_OK;
}

/* ------------------------------------------------------------ ranks */

/* Are the sources the ranks of one job? */
static bool are_ranks(const struct ks_facts *facts)
{
    uint32_t count = ks_trace_source_count(facts->trace);
    for (uint32_t i = 0; i < count; i++) {
        int64_t rank = ks_trace_source(facts->trace, i)->rank;
        for (uint32_t other = 0; other < i; other++) {
            if (rank < 0 || rank == ks_trace_source(facts->trace, other)->rank) {
                return false;
            }
        }
        if (!facts->replays[i]) {
            return false;
        }
    }
    return count > 1;
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
            least_ns = works[i]->dur_ns < least_ns ? works[i]->dur_ns : least_ns;
        }
        for (uint32_t i = 0; i < source_count; i++) {
            works[i]->alone_ns = least_ns;
        }
    }
    return KS_OK;
}

enum ks_status ks_replays_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    uint32_t source_count = ks_trace_source_count(analyzer->trace);
    facts->replays = ks_new(&facts->arena, struct ks_replay *, source_count + 1);
    if (!facts->replays) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: sources=%u",
                       source_count);
    }
    bool has_steps = facts->has_gpu && facts->step_source != KS_STEPS_WINDOW;
    for (uint32_t i = 0; i < source_count && has_steps; i++) {
        struct ks_arena_mark mark = ks_arena_mark(&analyzer->scratch);
        KS_TRY(build(analyzer, i, &facts->replays[i], err));
        ks_arena_rewind(&analyzer->scratch, mark);
    }
    facts->are_ranks = are_ranks(facts);
    return facts->are_ranks ? find_alone(analyzer, err) : KS_OK;
}
