/* Counters and instants of recordings, a row for each name and category of a process
 * (docs/analyses/marks.md). One pass over their rows. */
#include <math.h>
#include <stdlib.h>

#include "analyze/registry.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "measure/sum.h"

struct state {
    struct ks_analyzer *analyzer;
    struct ks_map index; /* (source and kind, name and series) to 1 + index */
    struct ks_mark_fact *facts;
    size_t count;
    size_t capacity;
};

static enum ks_status find_fact(struct state *state, const struct ks_mark_fact *new, size_t *index,
                                struct ks_err *err)
{
    KS_TRY(ks_grow(&state->facts, state->count, &state->capacity, sizeof(*state->facts), "counters",
                   err));
    uint64_t *at = ks_map_put(&state->index, (uint64_t) new->source << 1 | new->is_counter,
                              (uint64_t) new->name.v << 32 | new->series.v, NULL);
    if (!at) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep counters: count=%zu",
                       state->count);
    }
    if (*at == 0) {
        state->facts[state->count] = *new;
        *at = ++state->count;
    }
    *index = (size_t)*at - 1;
    return KS_OK;
}

/* A value that is no number counts as one that there was, and for nothing else. */
static void note_value(struct ks_mark_fact *fact, double value)
{
    if (isnan(value)) {
        return;
    }
    fact->number_count++;
    fact->sum += value;
    fact->min = fmin(fact->min, value); // of NaN and a number it is the number
    fact->max = fmax(fact->max, value);
}

static enum ks_status note_row(struct state *state, uint32_t source,
                               const struct ks_mark_scan *scan, size_t i, struct ks_err *err)
{
    const struct ks_mark_fact new = {
        .name = {scan->col.name[i]},
        .series = {scan->col.series[i]},
        .source = source,
        .is_counter = scan->col.flags[i] & KS_MARK_COUNTER,
        .first_ns = INT64_MAX,
        .last_ns = INT64_MIN,
        .min = (double)NAN,
        .max = (double)NAN,
    };
    size_t index = 0;
    KS_TRY(find_fact(state, &new, &index, err));
    struct ks_mark_fact *fact = &state->facts[index];
    int64_t ns = scan->col.start_ns[i];
    fact->count++;
    fact->first_ns = ns < fact->first_ns ? ns : fact->first_ns;
    note_value(fact, scan->col.value[i]);
    if (ns >= fact->last_ns) {
        fact->last_ns = ns;
        fact->last = scan->col.value[i];
        fact->unit.v = scan->col.unit[i];
        fact->values.v = scan->col.values[i];
    }
    return KS_OK;
}

static enum ks_status read_lane(struct state *state, const struct ks_lane *lane, struct ks_err *err)
{
    const struct ks_trace *trace = state->analyzer->trace;
    uint32_t source = ks_trace_track(trace, lane->track)->source;
    struct ks_mark_scan scan;
    enum ks_status status;
    ks_mark_scan_open(&scan, trace, KS_ALL_COLUMNS, lane->row_begin, lane->row_end);
    while ((status = ks_mark_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = note_row(state, source, &scan, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_mark_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

/* Instants first, then by process, name and category. */
static int compare_facts(const void *left, const void *right, void *trace)
{
    const struct ks_mark_fact *a = left;
    const struct ks_mark_fact *b = right;
    if (a->is_counter != b->is_counter) {
        return a->is_counter ? 1 : -1;
    }
    if (a->source != b->source) {
        return a->source < b->source ? -1 : 1;
    }
    int order = ks_str_compare(ks_trace_str(trace, a->name), ks_trace_str(trace, b->name));
    return order != 0
               ? order
               : ks_str_compare(ks_trace_str(trace, a->series), ks_trace_str(trace, b->series));
}

static enum ks_status publish(struct state *state, struct ks_err *err)
{
    struct ks_facts *facts = state->analyzer->facts;
    facts->marks = ks_new(&facts->arena, struct ks_mark_fact, state->count + 1);
    if (!facts->marks) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep counters: count=%zu",
                       state->count);
    }
    if (state->count > 0) {
        memcpy(facts->marks, state->facts, state->count * sizeof(*facts->marks));
    }
    facts->mark_count = state->count;
    qsort_r(facts->marks, facts->mark_count, sizeof(*facts->marks), compare_facts,
            (void *)(uintptr_t)state->analyzer->trace);
    while (facts->instant_count < facts->mark_count &&
           !facts->marks[facts->instant_count].is_counter) {
        facts->instant_count++;
    }
    return KS_OK;
}

enum ks_status ks_marks_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct state state = {.analyzer = analyzer};
    size_t lane_count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(analyzer->trace, KS_TABLE_mark, &lane_count);
    enum ks_status status = KS_OK;
    ks_map_init(&state.index);
    for (size_t i = 0; i < lane_count && status == KS_OK; i++) {
        uint32_t source = ks_trace_track(analyzer->trace, lanes[i].track)->source;
        if (ks_trace_source(analyzer->trace, source)->is_recording) {
            status = read_lane(&state, &lanes[i], err);
        }
    }
    if (status == KS_OK) {
        status = publish(&state, err);
    }
    ks_map_release(&state.index);
    ks_free(state.facts);
    return status;
}
