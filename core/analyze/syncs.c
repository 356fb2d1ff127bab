/* A16: where the host waits for the device, and where copies come from (docs/analyses/syncs.md).
 *
 * One walk over the host rows keeps each waiting or copying call with its cause and place. Calls of
 * a recording without frames take their places from one with frames. Then they are grouped. */
#include <math.h>
#include <stdlib.h>

#include "analyze/call_walk.h"
#include "analyze/device_busy.h"
#include "analyze/place_table.h"
#include "analyze/places.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

enum { NO_STEP = UINT32_MAX, ANY_PLACE = UINT32_MAX - 1 };

/* A call that waits or copies. */
struct kept_call {
    uint32_t source;
    uint32_t lane;
    uint32_t step; /* index into the steps, NO_STEP */
    uint32_t op;
    uint32_t name;
    uint32_t place;
    unsigned kinds;
    int64_t start_ns;
    int64_t end_ns;
    int64_t corr;
    int64_t op_start_ns;
    int64_t op_end_ns;
    int64_t busy_ns[2]; /* how long the devices worked up to its start and to its end */
};

struct sites {
    struct ks_call_site *items;
    size_t count;
    size_t capacity;
    int64_t device;      /* the only one of the source, or KS_UNKNOWN */
    struct ks_map index; /* (operator and call, copy kind and place) of one source -> 1 + index */
    struct ks_map operators; /* (group and thread, start) of the operators that were counted */
};

struct state {
    struct ks_analyzer *analyzer;
    struct ks_call_places places;
    struct ks_place_table table;
    struct kept_call *calls;
    size_t call_count;
    size_t call_capacity;
};

/* ------------------------------------------------------------ collecting */

static enum ks_status note_call(void *user, const struct ks_call *call, struct ks_err *err)
{
    struct state *state = user;
    struct ks_facts *facts = state->analyzer->facts;
    if (!ks_step_lookup_keeps_host(facts, call->source, call->start_ns)) {
        return KS_OK;
    }
    KS_TRY(ks_place_table_note(&state->table, call, err));
    if (!(call->kinds & (KS_CALL_SYNC | KS_CALL_COPY))) {
        return KS_OK;
    }
    const struct ks_step *step = ks_step_lookup_host(facts, call->source, call->start_ns);
    KS_TRY(ks_grow(&state->calls, state->call_count, &state->call_capacity, sizeof(*state->calls),
                   "calls", err));
    state->calls[state->call_count++] =
        (struct kept_call){.source = call->source,
                           .lane = call->lane,
                           .step = step ? (uint32_t)(step - facts->steps) : NO_STEP,
                           .op = call->op,
                           .name = call->name,
                           .place = call->place,
                           .kinds = call->kinds,
                           .start_ns = call->start_ns,
                           .end_ns = call->end_ns,
                           .corr = call->corr,
                           .op_start_ns = call->op_start_ns,
                           .op_end_ns = call->op_end_ns};
    return KS_OK;
}

/* The order of ordinals: calls of one operator and name in one step, by time. */
static int compare_calls(const void *left, const void *right)
{
    const struct kept_call *a = left;
    const struct kept_call *b = right;
    if (a->source != b->source) {
        return a->source < b->source ? -1 : 1;
    }
    if (a->step != b->step) {
        return a->step < b->step ? -1 : 1;
    }
    if (a->op != b->op) {
        return a->op < b->op ? -1 : 1;
    }
    if (a->name != b->name) {
        return a->name < b->name ? -1 : 1;
    }
    if (a->start_ns != b->start_ns) {
        return a->start_ns < b->start_ns ? -1 : 1;
    }
    return (a->lane > b->lane) - (a->lane < b->lane);
}

/* ------------------------------------------------------------ waiting */

static int compare_queries(const void *left, const void *right)
{
    const struct ks_busy_query *a = left;
    const struct ks_busy_query *b = right;
    return (a->ns > b->ns) - (a->ns < b->ns);
}

/* Asks for the calls [begin, end), which are of one source. */
static enum ks_status measure_waits(struct state *state, size_t begin, size_t end,
                                    struct ks_err *err)
{
    struct ks_busy_query *queries = ks_alloc(2 * (end - begin), sizeof(*queries));
    if (!queries) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot measure waits: count=%zu",
                       end - begin);
    }
    size_t count = 0;
    for (size_t i = begin; i < end; i++) {
        struct kept_call *call = &state->calls[i];
        if (call->kinds & KS_CALL_SYNC) {
            queries[count++] = (struct ks_busy_query){call->start_ns, &call->busy_ns[0]};
            queries[count++] = (struct ks_busy_query){call->end_ns, &call->busy_ns[1]};
        }
    }
    qsort(queries, count, sizeof(*queries), compare_queries);
    enum ks_status status =
        ks_device_busy_answer(state->analyzer, state->calls[begin].source, queries, count, err);
    ks_free(queries);
    return status;
}

static enum ks_status measure_all_waits(struct state *state, struct ks_err *err)
{
    for (size_t begin = 0, end; begin < state->call_count; begin = end) {
        end = begin;
        while (end < state->call_count && state->calls[end].source == state->calls[begin].source) {
            end++;
        }
        KS_TRY(measure_waits(state, begin, end, err));
    }
    return KS_OK;
}

/* ------------------------------------------------------------ places of another recording */

/* The order in which they are published. */
static bool place_call_before(const struct ks_place_call *a, const struct ks_place_call *b)
{
    if (a->source != b->source) {
        return a->source < b->source;
    }
    if (a->step != b->step) {
        return a->step < b->step;
    }
    return a->op.v != b->op.v ? a->op.v < b->op.v : a->call.v < b->call.v;
}

/* First of them that does not come before the key. */
static const struct ks_place_call *find_place_call(const struct ks_place_call *begin,
                                                   const struct ks_place_call *end,
                                                   const struct ks_place_call *key)
{
    while (begin < end) {
        const struct ks_place_call *middle = begin + (end - begin) / 2;
        bool is_before = place_call_before(middle, key);
        begin = is_before ? middle + 1 : begin;
        end = is_before ? end : middle;
    }
    return begin;
}

/* Calls of the step with frames that stands for all steps of a source: the first complete one, or
 * the first. */
static void find_framed_calls(const struct ks_facts *framed, uint32_t source,
                              const struct ks_place_call **begin, const struct ks_place_call **end)
{
    struct ks_step_range range = framed->step_ranges[source];
    size_t step = range.begin;
    while (step < range.end && !framed->steps[step].is_complete) {
        step++;
    }
    step = step < range.end ? step : range.begin;
    const struct ks_place_call *calls = framed->place_calls;
    const struct ks_place_call *last = calls + framed->place_call_count;
    struct ks_place_call key = {.source = source, .step = (uint32_t)step};
    *begin = *end = last;
    if (range.begin < range.end) {
        *begin = find_place_call(calls, last, &key);
        key.step++;
        *end = find_place_call(*begin, last, &key);
    }
}

/* Gives the calls [begin, end), which are all of their operator and name in one step, the places of
 * the same calls in the step with frames, when that has as many; else the usual place. */
static void adopt_places(struct state *state, size_t begin, size_t end,
                         const struct ks_place_call *framed_begin,
                         const struct ks_place_call *framed_end)
{
    const struct ks_trace *framed = state->analyzer->framed->trace;
    struct kept_call *calls = &state->calls[begin];
    const struct ks_trace *trace = state->analyzer->trace;
    struct ks_strid op =
        ks_trace_str_find(framed, ks_trace_str(trace, (struct ks_strid){calls->op}));
    struct ks_strid name =
        ks_trace_str_find(framed, ks_trace_str(trace, (struct ks_strid){calls->name}));
    size_t count = 0;
    if (framed_begin < framed_end) {
        struct ks_place_call key = {
            .source = framed_begin->source, .step = framed_begin->step, .op = op, .call = name};
        const struct ks_place_call *call = find_place_call(framed_begin, framed_end, &key);
        for (; call < framed_end && !place_call_before(&key, call); call++) {
            if (count < end - begin) {
                calls[count].place = call->place;
            }
            count++;
        }
    }
    if (count == end - begin) {
        return;
    }
    struct ks_place_match match;
    enum ks_place_kind kind = calls->kinds & KS_CALL_SYNC ? KS_PLACE_SYNC : KS_PLACE_COPY;
    bool found = ks_places_find(state->analyzer->facts, (struct ks_strid){calls->op}, kind, &match);
    for (size_t i = 0; i < end - begin; i++) {
        calls[i].place = found ? (uint32_t)(match.place - state->analyzer->facts->places)
                               : (uint32_t)KS_PLACE_NONE;
    }
}

static bool is_same_run(const struct kept_call *a, const struct kept_call *b)
{
    return a->source == b->source && a->step == b->step && a->op == b->op && a->name == b->name;
}

static void adopt_all_places(struct state *state)
{
    const struct ks_place_call *framed_begin = NULL;
    const struct ks_place_call *framed_end = NULL;
    for (size_t begin = 0, end; begin < state->call_count; begin = end) {
        uint32_t source = state->calls[begin].source;
        if (begin == 0 || source != state->calls[begin - 1].source) {
            const struct ks_facts *framed = state->analyzer->framed;
            uint32_t twin = ks_places_twin_source(framed->trace, state->analyzer->trace, source);
            find_framed_calls(framed, twin, &framed_begin, &framed_end);
        }
        end = begin;
        while (end < state->call_count && is_same_run(&state->calls[begin], &state->calls[end])) {
            end++;
        }
        adopt_places(state, begin, end, framed_begin, framed_end);
    }
}

/* ------------------------------------------------------------ grouping */

/* The only device of a source, or KS_UNKNOWN. */
static int64_t only_device(const struct ks_facts *facts, uint32_t source)
{
    int64_t device = KS_UNKNOWN;
    size_t count = 0;
    for (size_t i = 0; i < facts->device_count; i++) {
        if (facts->devices[i].source == source) {
            device = facts->devices[i].device;
            count++;
        }
    }
    return count == 1 ? device : KS_UNKNOWN;
}

/* Ids of strings stay below 2^31. */
static uint64_t site_key(uint32_t copy_kind, bool is_small, uint32_t place)
{
    return (uint64_t)copy_kind << 33 | (uint64_t)is_small << 32 | place;
}

static enum ks_status find_site(struct state *state, struct sites *sites,
                                const struct kept_call *call, uint32_t copy_kind, bool is_small,
                                int64_t device, struct ks_call_site **site, struct ks_err *err)
{
    const struct ks_facts *facts = state->analyzer->facts;
    KS_TRY(ks_grow(&sites->items, sites->count, &sites->capacity, sizeof(*sites->items), "calls",
                   err));
    bool added = false;
    uint64_t *slot = ks_map_put(&sites->index, (uint64_t)call->op << 32 | call->name,
                                site_key(copy_kind, is_small, call->place), &added);
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot group calls: count=%zu",
                       sites->count);
    }
    if (added) {
        bool has_place = call->place != KS_PLACE_NONE;
        sites->items[sites->count++] =
            (struct ks_call_site){.source = call->source,
                                  .op = {call->op},
                                  .call = {call->name},
                                  .copy_kind = {copy_kind},
                                  .is_small = is_small,
                                  .place = has_place ? &facts->places[call->place] : NULL,
                                  .device = device,
                                  .bytes = KS_UNKNOWN};
        *slot = sites->count;
    }
    *site = &sites->items[*slot - 1];
    return KS_OK;
}

/* The time of an operator with several calls counts once, at the place of the first. */
static enum ks_status count_operator(struct sites *sites, struct ks_call_site *site,
                                     const struct kept_call *call, bool is_complete,
                                     struct ks_err *err)
{
    bool is_new = false;
    uint64_t *group = ks_map_put(&sites->index, (uint64_t)call->op << 32 | call->name,
                                 site_key(site->copy_kind.v, false, ANY_PLACE), NULL);
    uint64_t number = 0;
    if (group) {
        *group = *group ? *group : sites->count; /* the newest site is the first of its group */
        number = *group;
    }
    if (!group || !ks_map_put(&sites->operators, number << 32 | call->lane,
                              (uint64_t)call->op_start_ns, &is_new)) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot group calls: count=%zu",
                       sites->count);
    }
    int64_t dur_ns = is_new ? ks_sum_sub(call->op_end_ns, call->op_start_ns) : 0;
    site->operator_ns = ks_sum_add(site->operator_ns, dur_ns);
    site->complete_operator_ns = ks_sum_add(site->complete_operator_ns, is_complete ? dur_ns : 0);
    return KS_OK;
}

static enum ks_status count_call(const struct ks_facts *facts, struct sites *sites,
                                 struct ks_call_site *site, const struct kept_call *call,
                                 struct ks_err *err)
{
    site->count++;
    site->total_ns = ks_sum_add(site->total_ns, ks_sum_sub(call->end_ns, call->start_ns));
    const struct ks_step *step = call->step == NO_STEP ? NULL : &facts->steps[call->step];
    KS_TRY(count_operator(sites, site, call, step && step->is_complete, err));
    if (!step) {
        return KS_OK;
    }
    site->complete_count += step->is_complete;
    if (site->last_step == (int64_t)call->step + 1) {
        return KS_OK;
    }
    site->last_step = (int64_t)call->step + 1;
    site->steps_with++;
    if (site->step_count < KS_SITE_STEPS_MAX) {
        site->steps[site->step_count++] = step->number;
    }
    return KS_OK;
}

static size_t first_copy(const struct state *state, const struct kept_call *call)
{
    size_t begin = 0;
    size_t end = state->analyzer->copies.count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        const struct ks_gpu_copy *copy = &state->analyzer->copies.items[middle];
        bool is_before = copy->launch_lane != call->lane     ? copy->launch_lane < call->lane
                         : copy->launch_ns != call->start_ns ? copy->launch_ns < call->start_ns
                                                             : copy->corr < call->corr;
        if (is_before) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

static enum ks_status group_copies(struct state *state, struct sites *sites,
                                   const struct kept_call *call, struct ks_err *err)
{
    const struct ks_trace *trace = state->analyzer->trace;
    for (size_t i = first_copy(state, call); i < state->analyzer->copies.count; i++) {
        const struct ks_gpu_copy *copy = &state->analyzer->copies.items[i];
        if (copy->launch_lane != call->lane || copy->launch_ns != call->start_ns ||
            copy->corr != call->corr) {
            break;
        }
        struct ks_call_site *site = NULL;
        int64_t device = ks_trace_track(trace, copy->device)->number;
        bool is_small = copy->bytes >= 0 && copy->bytes <= KS_SMALL_COPY_BYTES_MAX;
        KS_TRY(find_site(state, sites, call, copy->kind, is_small, device, &site, err));
        site->device = site->device == device ? device : KS_UNKNOWN;
        site->is_pageable =
            ks_str_contains(ks_trace_str(trace, site->copy_kind), KS_STR("Pageable"));
        site->device_ns = ks_sum_add(site->device_ns, copy->dur_ns);
        if (copy->bytes >= 0) {
            site->bytes = ks_sum_add(site->bytes == KS_UNKNOWN ? 0 : site->bytes, copy->bytes);
        }
        KS_TRY(count_call(state->analyzer->facts, sites, site, call, err));
    }
    return KS_OK;
}

static enum ks_status group_sync(struct state *state, struct sites *sites,
                                 const struct kept_call *call, struct ks_err *err)
{
    struct ks_call_site *site = NULL;
    KS_TRY(find_site(state, sites, call, 0, false, sites->device, &site, err));
    site->wait_ns = ks_sum_add(site->wait_ns, call->busy_ns[1] - call->busy_ns[0]);
    return count_call(state->analyzer->facts, sites, site, call, err);
}

static int64_t weight(const struct ks_call_site *site)
{
    return site->copy_kind.v ? site->device_ns : site->wait_ns;
}

static int compare_sites(const void *left, const void *right, void *trace)
{
    const struct ks_call_site *a = left;
    const struct ks_call_site *b = right;
    bool is_outside = a->steps_with == 0; /* of all steps: what starts and ends a recording */
    if (is_outside != (b->steps_with == 0)) {
        return is_outside ? 1 : -1;
    }
    if (weight(a) != weight(b)) {
        return weight(a) > weight(b) ? -1 : 1;
    }
    if (a->total_ns != b->total_ns) {
        return a->total_ns > b->total_ns ? -1 : 1;
    }
    if (a->source != b->source) {
        return a->source < b->source ? -1 : 1;
    }
    const struct ks_strid left_ids[] = {a->op, a->call, a->copy_kind};
    const struct ks_strid right_ids[] = {b->op, b->call, b->copy_kind};
    for (size_t i = 0; i < KS_COUNT_OF(left_ids); i++) {
        int order =
            ks_str_compare(ks_trace_str(trace, left_ids[i]), ks_trace_str(trace, right_ids[i]));
        if (order) {
            return order;
        }
    }
    return ks_place_compare(a->place, b->place);
}

/* Complete steps of a source. */
static int64_t complete_steps(const struct ks_facts *facts, uint32_t source)
{
    int64_t count = 0;
    for (size_t i = facts->step_ranges[source].begin; i < facts->step_ranges[source].end; i++) {
        count += facts->steps[i].is_complete;
    }
    return count;
}

static enum ks_status publish(struct ks_facts *facts, const struct sites *sites,
                              struct ks_call_site **out, size_t *count, struct ks_err *err)
{
    *out = ks_new(&facts->arena, struct ks_call_site, sites->count + 1);
    if (!*out) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep calls: count=%zu",
                       sites->count);
    }
    int64_t steps = 0;
    for (size_t i = 0; i < sites->count; i++) { /* those of a source follow each other */
        (*out)[i] = sites->items[i];
        if (i == 0 || sites->items[i].source != sites->items[i - 1].source) {
            steps = complete_steps(facts, sites->items[i].source);
        }
        (*out)[i].per_step =
            steps > 0 ? (double)sites->items[i].complete_count / (double)steps : (double)NAN;
    }
    *count = sites->count;
    qsort_r(*out, *count, sizeof(**out), compare_sites, (void *)(uintptr_t)facts->trace);
    return KS_OK;
}

/* The index of sites is of one source: another begins anew. */
static void next_source(struct sites *sites)
{
    ks_map_release(&sites->index);
    ks_map_release(&sites->operators);
    ks_map_init(&sites->index);
    ks_map_init(&sites->operators);
}

static enum ks_status group(struct state *state, struct sites *syncs, struct sites *copies,
                            struct ks_err *err)
{
    for (size_t i = 0; i < state->call_count; i++) {
        const struct kept_call *call = &state->calls[i];
        if (i == 0 || call->source != call[-1].source) {
            next_source(syncs);
            next_source(copies);
            syncs->device = only_device(state->analyzer->facts, call->source);
        }
        if (call->kinds & KS_CALL_SYNC) {
            KS_TRY(group_sync(state, syncs, call, err));
        }
        if (call->kinds & KS_CALL_COPY) {
            KS_TRY(group_copies(state, copies, call, err));
        }
    }
    struct ks_facts *facts = state->analyzer->facts;
    KS_TRY(publish(facts, syncs, &facts->syncs, &facts->sync_count, err));
    return publish(facts, copies, &facts->copy_sites, &facts->copy_site_count, err);
}

static enum ks_status group_calls(struct state *state, struct ks_err *err)
{
    struct sites syncs = {0};
    struct sites copies = {0};
    ks_map_init(&syncs.index);
    ks_map_init(&syncs.operators);
    ks_map_init(&copies.index);
    ks_map_init(&copies.operators);
    enum ks_status status = group(state, &syncs, &copies, err);
    next_source(&syncs); /* lets go of their maps */
    next_source(&copies);
    ks_free(syncs.items);
    ks_free(copies.items);
    return status;
}

/* ------------------------------------------------------------ all together */

/* Places of the trace's own frames, and the calls that another recording can take them from. */
static enum ks_status publish_places(struct state *state, struct ks_err *err)
{
    struct ks_facts *facts = state->analyzer->facts;
    KS_TRY(ks_place_table_keep(state->places.items, state->places.count, facts, err));
    facts->place_calls = ks_new(&facts->arena, struct ks_place_call, state->call_count + 1);
    if (!facts->place_calls) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep places: count=%zu",
                       state->places.count);
    }
    for (size_t i = 0; i < state->call_count; i++) {
        const struct kept_call *call = &state->calls[i];
        facts->place_calls[i] =
            (struct ks_place_call){call->source, call->step, call->place, {call->op}, {call->name}};
    }
    facts->place_call_count = state->call_count;
    return ks_place_table_publish(&state->table, facts, err);
}

static enum ks_status find_places(struct state *state, struct ks_err *err)
{
    struct ks_facts *facts = state->analyzer->facts;
    const struct ks_facts *framed = state->analyzer->framed;
    if (facts->has_frames || !framed) {
        return publish_places(state, err);
    }
    KS_TRY(ks_place_table_adopt(framed, facts, err));
    adopt_all_places(state);
    return KS_OK;
}

static enum ks_status run(struct state *state, struct ks_err *err)
{
    struct ks_facts *facts = state->analyzer->facts;
    KS_TRY(
        ks_call_walk(state->analyzer, note_call, state, &state->places, &facts->has_frames, err));
    if (state->call_count > 0) {
        qsort(state->calls, state->call_count, sizeof(*state->calls), compare_calls);
    }
    KS_TRY(find_places(state, err));
    KS_TRY(measure_all_waits(state, err));
    return group_calls(state, err);
}

enum ks_status ks_syncs_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct state state = {.analyzer = analyzer};
    ks_place_table_init(&state.table);
    enum ks_status status = run(&state, err);
    ks_place_table_release(&state.table);
    ks_free(state.places.items);
    ks_free(state.calls);
    return status;
}
