/* Waiting for the next batch: how long the step's thread sits in the loader's __next__, how much
 * of that time no device works, and what the loader does meanwhile (docs/analyses/inputs.md). */
#include <stdlib.h>

#include "analyze/lane_sweep.h"
#include "analyze/registry.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/quantile.h"
#include "measure/sum.h"

struct interval {
    int64_t start_ns;
    int64_t end_ns;
    size_t step; /* index into the steps of the source */
};

struct intervals {
    struct interval *items;
    size_t count;
    size_t capacity;
};

struct loader {
    struct intervals spans; /* __next__ on the step's thread, merged */
    int64_t span_ns;        /* all of them together */
    struct intervals waits; /* the parts of them inside steps */
    struct intervals steps; /* complete true steps */
    uint32_t thread;
};

static enum ks_status add_interval(struct intervals *list, int64_t start_ns, int64_t end_ns,
                                   size_t step, struct ks_err *err)
{
    KS_TRY(
        ks_grow(&list->items, list->count, &list->capacity, sizeof(*list->items), "batches", err));
    list->items[list->count++] = (struct interval){start_ns, end_ns, step};
    return KS_OK;
}

/* Spans of one thread, which come in order of start; nested ones are part of the outer one. */
static enum ks_status collect_spans(struct ks_analyzer *analyzer, const struct ks_lane *lane,
                                    struct intervals *spans, struct ks_input_fact *fact,
                                    struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    ks_slice_scan_open(&scan, analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_category),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            uint8_t category = scan.col.category[i];
            if (category != KS_CATEGORY_USER_ANNOTATION && category != KS_CATEGORY_CPU_OP) {
                continue;
            }
            uint32_t name = scan.col.name[i];
            unsigned flags = ks_row_names_get(&analyzer->names, name);
            if (!(flags & KS_NAME_LOADER)) {
                continue;
            }
            int64_t start_ns = scan.col.start_ns[i];
            int64_t end_ns = ks_sum_add(start_ns, scan.col.dur_ns[i]);
            struct interval *last = spans->count ? &spans->items[spans->count - 1] : NULL;
            if (last && start_ns < last->end_ns) {
                last->end_ns = end_ns > last->end_ns ? end_ns : last->end_ns;
                continue;
            }
            const struct ks_step *step =
                ks_step_lookup_host(analyzer->facts, fact->source, start_ns);
            fact->batches++;
            fact->step_batches += step && step->is_complete;
            if (!fact->has_loader) {
                fact->has_loader = true;
                fact->name = (struct ks_strid){name};
                fact->is_single_process = flags & KS_NAME_LOADER_SINGLE;
            }
            status = add_interval(spans, start_ns, end_ns, 0, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static int64_t length_of(const struct intervals *list)
{
    int64_t sum_ns = 0;
    for (size_t i = 0; i < list->count; i++) {
        sum_ns = ks_sum_add(sum_ns, list->items[i].end_ns - list->items[i].start_ns);
    }
    return sum_ns;
}

/* The thread that waits is the one that the steps run on; if they name none, the one that spends
 * most time in the loader. */
static enum ks_status find_spans(struct ks_analyzer *analyzer, uint32_t source,
                                 struct loader *loader, struct ks_input_fact *fact,
                                 struct ks_err *err)
{
    struct ks_step_range range = analyzer->facts->step_ranges[source];
    uint32_t wanted = range.begin < range.end ? analyzer->facts->steps[range.begin].thread : 0;
    size_t lane_count = 0;
    const struct ks_lane *lanes =
        ks_lane_sweep_lanes(analyzer->trace, KS_TABLE_slice, source, &lane_count);
    for (size_t i = 0; i < lane_count; i++) {
        const struct ks_track *track = ks_trace_track(analyzer->trace, lanes[i].track);
        if (track->kind != KS_TRACK_THREAD || (wanted != 0 && lanes[i].track != wanted)) {
            continue;
        }
        struct intervals spans = {0};
        struct ks_input_fact mine = {.source = source};
        enum ks_status status = collect_spans(analyzer, &lanes[i], &spans, &mine, err);
        if (status == KS_OK && mine.has_loader &&
            (!fact->has_loader || length_of(&spans) > loader->span_ns)) {
            struct intervals old = loader->spans;
            loader->spans = spans;
            loader->span_ns = length_of(&spans);
            spans = old;
            loader->thread = lanes[i].track;
            *fact = mine;
        }
        ks_free(spans.items);
        KS_TRY(status);
    }
    return KS_OK;
}

/* Cuts the loader's spans at the complete steps. */
static enum ks_status cut_waits(struct ks_analyzer *analyzer, uint32_t source,
                                struct loader *loader, struct ks_input_fact *fact,
                                struct ks_err *err)
{
    struct ks_step_range range = analyzer->facts->step_ranges[source];
    size_t span = 0;
    for (size_t i = range.begin; i < range.end; i++) {
        struct ks_step *step = &analyzer->facts->steps[i];
        int64_t end_ns = step->start_ns + step->dur_ns;
        if (step->is_complete) {
            KS_TRY(add_interval(&loader->steps, step->start_ns, end_ns, i, err));
            fact->step_count++;
            fact->step_ns_total = ks_sum_add(fact->step_ns_total, step->dur_ns);
        }
        while (span < loader->spans.count && loader->spans.items[span].end_ns <= step->start_ns) {
            span++;
        }
        for (size_t at = span; at < loader->spans.count; at++) {
            const struct interval *one = &loader->spans.items[at];
            if (one->start_ns >= end_ns) {
                break;
            }
            int64_t from_ns = one->start_ns > step->start_ns ? one->start_ns : step->start_ns;
            int64_t to_ns = one->end_ns < end_ns ? one->end_ns : end_ns;
            if (to_ns > from_ns) {
                step->input_wait_ns += to_ns - from_ns;
                step->input_idle_ns += to_ns - from_ns;
                KS_TRY(add_interval(&loader->waits, from_ns, to_ns, i, err));
            }
        }
    }
    return KS_OK;
}

/* Length of [start, end) inside the intervals from `*at` on, taken from their steps' idle time
 * when `steps` is given. Calls come in order of start. */
static int64_t overlap(const struct intervals *list, size_t *at, int64_t start_ns, int64_t end_ns,
                       struct ks_step *steps)
{
    int64_t sum_ns = 0;
    while (*at < list->count) {
        const struct interval *one = &list->items[*at];
        int64_t from_ns = start_ns > one->start_ns ? start_ns : one->start_ns;
        int64_t to_ns = end_ns < one->end_ns ? end_ns : one->end_ns;
        if (to_ns > from_ns) {
            sum_ns += to_ns - from_ns;
            if (steps) {
                steps[one->step].input_idle_ns -= to_ns - from_ns;
            }
        }
        if (one->end_ns > end_ns) {
            break;
        }
        ++*at;
    }
    return sum_ns;
}

/* Takes the time in which some device works out of the idle waiting time. */
static enum ks_status subtract_device_time(struct ks_analyzer *analyzer, uint32_t source,
                                           const struct loader *loader, struct ks_input_fact *fact,
                                           struct ks_err *err)
{
    struct ks_lane_sweep sweep;
    KS_TRY(ks_lane_sweep_open(&sweep, analyzer->trace, source, KS_SWEEP_DEVICES, &analyzer->scratch,
                              err));
    enum ks_status status = KS_OK;
    struct ks_sweep_row row;
    int64_t busy_until_ns = INT64_MIN;
    size_t wait = 0;
    size_t step = 0;
    while (status == KS_OK && (status = ks_lane_sweep_next(&sweep, &row, err)) == KS_OK) {
        int64_t from_ns = row.start_ns > busy_until_ns ? row.start_ns : busy_until_ns;
        if (!ks_category_is_work(row.category) || row.end_ns <= from_ns) {
            continue;
        }
        overlap(&loader->waits, &wait, from_ns, row.end_ns, analyzer->facts->steps);
        fact->device_busy_ns = ks_sum_add(
            fact->device_busy_ns, overlap(&loader->steps, &step, from_ns, row.end_ns, NULL));
        busy_until_ns = row.end_ns;
    }
    ks_lane_sweep_close(&sweep);
    return status == KS_END ? KS_OK : status;
}

/* ------------------------------------------------------------ what the loader does */

struct inside {
    size_t wait; /* first wait and first step that end after the current row */
    size_t step;
    int64_t cpu_until_ns;
    int64_t collate_until_ns;
};

static bool holds(const struct intervals *list, size_t *at, int64_t ns)
{
    while (*at < list->count && list->items[*at].end_ns <= ns) {
        ++*at;
    }
    return *at < list->count && list->items[*at].start_ns <= ns;
}

/* Adds the part of [start, end) past `*until_ns`; calls come in order of start. */
static void add_covered(int64_t start_ns, int64_t end_ns, int64_t *until_ns, int64_t *sum_ns)
{
    int64_t from_ns = start_ns > *until_ns ? start_ns : *until_ns;
    if (end_ns > from_ns) {
        *sum_ns = ks_sum_add(*sum_ns, end_ns - from_ns);
        *until_ns = end_ns;
    }
}

static void look_inside(struct ks_analyzer *analyzer, const struct loader *loader,
                        const struct ks_slice_scan *scan, size_t i, struct inside *inside,
                        struct ks_input_fact *fact)
{
    uint8_t category = scan->col.category[i];
    bool is_call = category == KS_CATEGORY_RUNTIME || category == KS_CATEGORY_DRIVER;
    bool is_op = category == KS_CATEGORY_CPU_OP;
    if (!is_op && !is_call && category != KS_CATEGORY_USER_ANNOTATION) {
        return;
    }
    int64_t start_ns = scan->col.start_ns[i];
    if (!holds(&loader->waits, &inside->wait, start_ns)) {
        fact->thread_rows += holds(&loader->steps, &inside->step, start_ns);
        return;
    }
    if (!analyzer->facts->steps[loader->waits.items[inside->wait].step].is_complete) {
        return;
    }
    fact->loader_rows++;
    unsigned flags = ks_row_names_get(&analyzer->names, scan->col.name[i]);
    if (!is_op || (flags & KS_NAME_LOADER)) {
        return;
    }
    int64_t wait_end_ns = loader->waits.items[inside->wait].end_ns;
    int64_t end_ns = ks_sum_add(start_ns, scan->col.dur_ns[i]);
    end_ns = end_ns < wait_end_ns ? end_ns : wait_end_ns;
    add_covered(start_ns, end_ns, &inside->cpu_until_ns, &fact->loader_cpu_ns);
    if (flags & KS_NAME_COLLATE) {
        add_covered(start_ns, end_ns, &inside->collate_until_ns, &fact->collate_ns);
    }
}

static enum ks_status scan_inside(struct ks_analyzer *analyzer, const struct loader *loader,
                                  struct ks_input_fact *fact, struct ks_err *err)
{
    const struct ks_lane *lane =
        ks_trace_lane_find(analyzer->trace, KS_TABLE_slice, loader->thread);
    if (!lane) {
        return KS_OK;
    }
    struct inside inside = {.cpu_until_ns = INT64_MIN, .collate_until_ns = INT64_MIN};
    struct ks_slice_scan scan;
    enum ks_status status;
    ks_slice_scan_open(&scan, analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_category),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            look_inside(analyzer, loader, &scan, i, &inside, fact);
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

/* Quantiles of the wait over complete steps; p95 is the smallest value that 95 % do not exceed. */
static enum ks_status spread_waits(struct ks_analyzer *analyzer, uint32_t source,
                                   struct ks_input_fact *fact, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    struct ks_step_range range = facts->step_ranges[source];
    struct ks_arena_mark mark = ks_arena_mark(&analyzer->scratch);
    int64_t *waits_ns = ks_new(&analyzer->scratch, int64_t, range.end - range.begin + 1);
    if (!waits_ns) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep waits: steps=%zu",
                       (size_t)(range.end - range.begin));
    }
    size_t count = 0;
    for (size_t i = range.begin; i < range.end; i++) {
        if (facts->steps[i].is_complete) {
            waits_ns[count++] = facts->steps[i].input_wait_ns;
            fact->transfer_ns =
                ks_sum_add(fact->transfer_ns, facts->steps[i].phases_ns[KS_PHASE_TRANSFER]);
        }
    }
    fact->wait_ns_median = fact->wait_ns_p95 = fact->wait_ns_max = KS_UNKNOWN;
    if (count > 0) {
        fact->wait_ns_median = ks_quantile_median(waits_ns, count);
        fact->wait_ns_p95 = ks_quantile_rank(waits_ns, count, (95 * count + 99) / 100 - 1);
        fact->wait_ns_max = ks_quantile_rank(waits_ns, count, count - 1);
    }
    ks_arena_rewind(&analyzer->scratch, mark);
    return KS_OK;
}

static enum ks_status input_of_source(struct ks_analyzer *analyzer, uint32_t source,
                                      struct loader *loader, struct ks_input_fact *fact,
                                      struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    KS_TRY(find_spans(analyzer, source, loader, fact, err));
    if (loader->spans.count > 0) {
        fact->first_batch_ns = loader->spans.items[0].end_ns - loader->spans.items[0].start_ns;
    }
    KS_TRY(cut_waits(analyzer, source, loader, fact, err));
    KS_TRY(spread_waits(analyzer, source, fact, err));
    KS_TRY(subtract_device_time(analyzer, source, loader, fact, err));
    if (fact->has_loader) {
        KS_TRY(scan_inside(analyzer, loader, fact, err));
    }
    for (size_t i = facts->step_ranges[source].begin; i < facts->step_ranges[source].end; i++) {
        if (facts->steps[i].is_complete) {
            fact->wait_ns_total = ks_sum_add(fact->wait_ns_total, facts->steps[i].input_wait_ns);
            fact->idle_wait_ns_total =
                ks_sum_add(fact->idle_wait_ns_total, facts->steps[i].input_idle_ns);
        }
    }
    return KS_OK;
}

enum ks_status ks_inputs_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    uint32_t count = ks_trace_source_count(analyzer->trace);
    facts->inputs = ks_new(analyzer->results, struct ks_input_fact, count + 1);
    if (!facts->inputs) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep inputs: sources=%u", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct loader loader = {0};
        facts->inputs[i].source = i;
        enum ks_status status = input_of_source(analyzer, i, &loader, &facts->inputs[i], err);
        ks_free(loader.spans.items);
        ks_free(loader.waits.items);
        ks_free(loader.steps.items);
        KS_TRY(status);
        facts->input_count++;
    }
    return KS_OK;
}
