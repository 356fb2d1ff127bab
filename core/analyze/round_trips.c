/* Tensors that go to the host and back inside a step (docs/analyses/round_trips.md).
 *
 * trip_walk.c pairs copies between host and device, the devices' rows tell when
 * the next work began and how long none ran meanwhile, and trips of one kind are grouped. */
#include <stdlib.h>

#include "analyze/device_busy.h"
#include "analyze/lane_sweep.h"
#include "analyze/step_lookup.h"
#include "analyze/trip_walk.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "measure/sum.h"

/* What the devices did around a trip. */
struct around {
    struct ks_trip *trip;
    int64_t next_ns;    /* first work after it, or the end of the trip or of the step */
    int64_t busy_ns[2]; /* worked up to the arrival on the host, and up to next_ns */
};

struct state {
    struct ks_analyzer *analyzer;
    struct ks_trips trips;
    struct around *around; /* as the trips; within a source by the end of the trip */
    struct ks_map index;   /* (source and operator, shapes) -> 1 + index of the group */
    struct ks_round_trip *groups;
    size_t group_count;
    size_t group_capacity;
    struct ks_map sites; /* (source and operator, mean bytes) -> 1 + index of the copy site */
};

/* ------------------------------------------------------------ idle time */

static int compare_around(const void *left, const void *right)
{
    const struct ks_trip *a = ((const struct around *)left)->trip;
    const struct ks_trip *b = ((const struct around *)right)->trip;
    if (a->source != b->source) {
        return a->source < b->source ? -1 : 1;
    }
    if (a->up_end_ns != b->up_end_ns) {
        return a->up_end_ns < b->up_end_ns ? -1 : 1;
    }
    return (a > b) - (a < b);
}

static int compare_queries(const void *left, const void *right)
{
    const struct ks_busy_query *a = left;
    const struct ks_busy_query *b = right;
    return (a->ns > b->ns) - (a->ns < b->ns);
}

/* When the devices of a source go on after the trips [begin, end). */
static enum ks_status find_next_work(struct state *state, size_t begin, size_t end,
                                     struct ks_err *err)
{
    struct ks_lane_sweep sweep;
    struct ks_sweep_row row;
    KS_TRY(ks_lane_sweep_open(&sweep, state->analyzer->trace, state->around[begin].trip->source,
                              KS_SWEEP_DEVICES, &state->analyzer->scratch, err));
    enum ks_status status = KS_OK;
    while (begin < end && (status = ks_lane_sweep_next(&sweep, &row, err)) == KS_OK) {
        while (begin < end && ks_category_is_work(row.category) &&
               row.start_ns >= state->around[begin].trip->up_end_ns) {
            state->around[begin++].next_ns = row.start_ns;
        }
    }
    ks_lane_sweep_close(&sweep);
    return status == KS_END ? KS_OK : status;
}

/* What comes only after the step does not wait for the trip. If it is all that comes, and code
 * worked on the tensor that no row shows, then what goes back is as well the next input. */
static void end_with_step(const struct ks_facts *facts, struct around *around)
{
    const struct ks_step *step = &facts->steps[around->trip->step];
    int64_t step_end_ns = ks_sum_add(step->host_start_ns, step->host_ns);
    bool has_next = around->next_ns != INT64_MIN && around->next_ns < step_end_ns;
    around->trip->is_none = around->trip->operators == 0 && !has_next;
    around->next_ns = around->next_ns > step_end_ns ? step_end_ns : around->next_ns;
    if (around->next_ns < around->trip->up_end_ns) {
        around->next_ns = around->trip->up_end_ns;
    }
}

static enum ks_status measure(struct state *state, size_t begin, size_t end, struct ks_err *err)
{
    KS_TRY(find_next_work(state, begin, end, err));
    struct ks_busy_query *queries = ks_alloc(2 * (end - begin), sizeof(*queries));
    if (!queries) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot measure round trips: count=%zu",
                       end - begin);
    }
    size_t count = 0;
    for (size_t i = begin; i < end; i++) {
        struct around *around = &state->around[i];
        end_with_step(state->analyzer->facts, around);
        queries[count++] = (struct ks_busy_query){around->trip->down_end_ns, &around->busy_ns[0]};
        queries[count++] = (struct ks_busy_query){around->next_ns, &around->busy_ns[1]};
    }
    qsort(queries, count, sizeof(*queries), compare_queries);
    enum ks_status status = ks_device_busy_answer(
        state->analyzer, state->around[begin].trip->source, queries, count, err);
    ks_free(queries);
    return status;
}

static enum ks_status measure_all(struct state *state, struct ks_err *err)
{
    size_t count = state->trips.count;
    state->around = ks_alloc(count, sizeof(*state->around));
    if (!state->around) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot measure round trips: count=%zu",
                       count);
    }
    for (size_t i = 0; i < count; i++) {
        state->around[i] = (struct around){.trip = &state->trips.items[i], .next_ns = INT64_MIN};
    }
    qsort(state->around, count, sizeof(*state->around), compare_around);
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = begin;
        while (end < count &&
               state->around[end].trip->source == state->around[begin].trip->source) {
            end++;
        }
        KS_TRY(measure(state, begin, end, err));
    }
    return KS_OK;
}

/* ------------------------------------------------------------ groups */

/* NULL: out of memory, which `err` says. */
static struct ks_round_trip *find_group(struct state *state, const struct ks_trip *trip,
                                        struct ks_err *err)
{
    if (ks_grow(&state->groups, state->group_count, &state->group_capacity, sizeof(*state->groups),
                "round trips", err) != KS_OK) {
        return NULL;
    }
    uint64_t *slot =
        ks_map_put(&state->index, (uint64_t)trip->source << 32 | trip->op, trip->dims, NULL);
    if (!slot) {
        (void)ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot group round trips: count=%zu",
                      state->group_count);
        return NULL;
    }
    if (*slot == 0) {
        state->groups[state->group_count++] = (struct ks_round_trip){
            .source = trip->source, .op = {trip->op}, .shapes = {trip->dims}};
        *slot = state->group_count;
    }
    return &state->groups[*slot - 1];
}

static void add_times(struct ks_round_trip *group, const struct around *around)
{
    const struct ks_trip *trip = around->trip;
    int64_t span_ns = ks_sum_sub(around->next_ns, trip->down_end_ns);
    int64_t busy_ns = around->busy_ns[1] - around->busy_ns[0];
    int64_t idle_ns = ks_sum_sub(ks_sum_sub(span_ns, busy_ns), trip->other_ns);
    group->complete_count++;
    group->operators = ks_sum_add(group->operators, trip->operators);
    group->work_ns = ks_sum_add(group->work_ns, trip->work_ns);
    group->wait_ns = ks_sum_add(group->wait_ns, trip->wait_ns);
    group->idle_ns = ks_sum_add(group->idle_ns, idle_ns < 0 ? 0 : idle_ns);
    group->copy_ns = ks_sum_add(group->copy_ns, trip->copy_ns);
    group->bytes_down = ks_sum_add(group->bytes_down, trip->bytes_down);
    group->bytes_up = ks_sum_add(group->bytes_up, trip->bytes_up);
}

static enum ks_status count_trip(struct state *state, const struct around *around,
                                 struct ks_err *err)
{
    const struct ks_trip *trip = around->trip;
    const struct ks_step *step = &state->analyzer->facts->steps[trip->step];
    struct ks_round_trip *group = find_group(state, trip, err);
    if (!group) {
        return KS_ERR_NOMEM;
    }
    group->count++;
    if (trip->work_op_ns > group->longest_ns || group->count == 1) {
        group->longest_ns = trip->work_op_ns;
        group->longest.v = trip->work_op;
    }
    if (step->is_complete) {
        add_times(group, around);
    }
    bool is_new = group->step_count == 0 || group->steps[group->step_count - 1] != step->number;
    if (is_new && group->step_count < KS_SITE_STEPS_MAX) {
        group->steps[group->step_count++] = step->number;
    }
    return KS_OK;
}

/* Sites that copy to the host, by operator and mean size. */
static enum ks_status index_sites(struct state *state, struct ks_err *err)
{
    const struct ks_facts *facts = state->analyzer->facts;
    for (size_t i = 0; i < facts->copy_site_count; i++) {
        const struct ks_call_site *site = &facts->copy_sites[i];
        if (!ks_str_contains(ks_trace_str(facts->trace, site->copy_kind), KS_STR("DtoH"))) {
            continue;
        }
        bool is_new = false;
        uint64_t *slot = ks_map_put(&state->sites, (uint64_t)site->source << 32 | site->op.v,
                                    (uint64_t)(site->bytes / site->count), &is_new);
        if (!slot) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot group round trips: sites=%zu",
                           facts->copy_site_count);
        }
        *slot = is_new ? i + 1 : 0; /* 0: several */
    }
    return KS_OK;
}

/* The copies to the host of this operator and size, when all of them have one place. */
static const struct ks_call_site *find_site(const struct state *state,
                                            const struct ks_round_trip *group)
{
    if (group->complete_count == 0) {
        return NULL;
    }
    const uint64_t *slot = ks_map_find(&state->sites, (uint64_t)group->source << 32 | group->op.v,
                                       (uint64_t)(group->bytes_down / group->complete_count));
    return slot && *slot ? &state->analyzer->facts->copy_sites[*slot - 1] : NULL;
}

static int compare_groups(const void *left, const void *right, void *trace)
{
    const struct ks_round_trip *a = left;
    const struct ks_round_trip *b = right;
    if (a->idle_ns != b->idle_ns) {
        return a->idle_ns > b->idle_ns ? -1 : 1;
    }
    if (a->source != b->source) {
        return a->source < b->source ? -1 : 1;
    }
    int order = ks_str_compare(ks_trace_str(trace, a->op), ks_trace_str(trace, b->op));
    return order ? order
                 : ks_str_compare(ks_trace_str(trace, a->shapes), ks_trace_str(trace, b->shapes));
}

static enum ks_status publish_spans(struct state *state, struct ks_err *err)
{
    struct ks_facts *facts = state->analyzer->facts;
    facts->trip_spans = ks_new(&facts->arena, struct ks_trip_span, state->trips.count);
    if (!facts->trip_spans) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep round trips: count=%zu",
                       state->trips.count);
    }
    for (size_t i = 0; i < state->trips.count; i++) {
        const struct ks_trip *trip = &state->trips.items[i];
        if (!trip->is_none) {
            facts->trip_spans[facts->trip_span_count++] =
                (struct ks_trip_span){trip->lane, trip->host_from_ns, trip->host_until_ns};
        }
    }
    return KS_OK;
}

static enum ks_status publish(struct state *state, struct ks_err *err)
{
    struct ks_facts *facts = state->analyzer->facts;
    KS_TRY(publish_spans(state, err));
    KS_TRY(index_sites(state, err));
    for (size_t i = 0; i < state->trips.count; i++) {
        if (!state->around[i].trip->is_none) {
            KS_TRY(count_trip(state, &state->around[i], err));
        }
    }
    facts->round_trips = ks_new(&facts->arena, struct ks_round_trip, state->group_count);
    if (!facts->round_trips) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep round trips: count=%zu",
                       state->group_count);
    }
    for (size_t i = 0; i < state->group_count; i++) {
        facts->round_trips[i] = state->groups[i];
        facts->round_trips[i].site = find_site(state, &state->groups[i]);
    }
    facts->round_trip_count = state->group_count;
    qsort_r(facts->round_trips, facts->round_trip_count, sizeof(*facts->round_trips),
            compare_groups, (void *)(uintptr_t)facts->trace);
    return KS_OK;
}

static enum ks_status run(struct state *state, struct ks_err *err)
{
    KS_TRY(ks_trip_walk(state->analyzer, &state->trips, err));
    if (state->trips.count == 0) {
        return KS_OK;
    }
    KS_TRY(measure_all(state, err));
    return publish(state, err);
}

enum ks_status ks_round_trips_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct state state = {.analyzer = analyzer};
    ks_map_init(&state.index);
    ks_map_init(&state.sites);
    enum ks_status status = run(&state, err);
    ks_map_release(&state.index);
    ks_map_release(&state.sites);
    ks_free(state.trips.items);
    ks_free(state.around);
    ks_free(state.groups);
    return status;
}
