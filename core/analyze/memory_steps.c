/* What the allocator of a device holds from step to step (docs/analyses/memory_steps.md): the least
 * and the most of each step, whether the least grows, and who allocated what stays.
 *
 * One pass over the memory events; where memory grows a second one, which keeps the allocations of
 * one step, and one over the host rows of that step. */
#include <stdlib.h>
#include <string.h>

#include "analyze/lane_sweep.h"
#include "analyze/registry.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/grow.h"
#include "base/map.h"
#include "measure/quantile.h"
#include "measure/sum.h"

enum {
    GROWING_STEPS_MIN = 3,
    PERIOD_MAX = 4, /* steps of a loop that keeps something in one of them only */
    HELD_MAX = 256,
};

/* Least and most that was allocated in a step. */
struct level {
    int64_t least_bytes;
    int64_t most_bytes;
    bool is_known;
};

struct account {
    struct ks_memory_fact fact;
    struct level *levels; /* one for each step of the source */
    size_t period;        /* it grows every so many steps */
    int64_t last_bytes;
    size_t last_step; /* index the last event was in; the number of steps: none */
    bool is_begun;
};

struct walk {
    struct ks_analyzer *analyzer;
    uint32_t source;
    struct ks_step_range range;
    struct account *accounts;
    size_t count;
    size_t capacity;
};

/* ------------------------------------------------------------ levels */

static int64_t memory_of(const struct ks_source *source, int64_t device)
{
    for (size_t i = 0; i < source->gpu_count; i++) {
        if (source->gpus[i].id == device && source->gpus[i].memory_bytes > 0) {
            return source->gpus[i].memory_bytes;
        }
    }
    return KS_UNKNOWN;
}

static enum ks_status find_account(struct walk *walk, int64_t device, struct account **found,
                                   struct ks_err *err)
{
    for (size_t i = 0; i < walk->count; i++) {
        if (walk->accounts[i].fact.device == device) {
            *found = &walk->accounts[i];
            return KS_OK;
        }
    }
    KS_TRY(ks_grow(&walk->accounts, walk->count, &walk->capacity, sizeof(*walk->accounts),
                   "devices", err));
    size_t steps = walk->range.end - walk->range.begin;
    struct level *levels = ks_new(&walk->analyzer->scratch, struct level, steps + 1);
    if (!levels) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow memory: steps=%zu", steps);
    }
    const struct ks_source *source = ks_trace_source(walk->analyzer->trace, walk->source);
    *found = &walk->accounts[walk->count++];
    **found = (struct account){.fact = {.source = walk->source,
                                        .device = device,
                                        .total_bytes = memory_of(source, device),
                                        .peak_allocated_bytes = KS_UNKNOWN,
                                        .peak_reserved_bytes = KS_UNKNOWN,
                                        .growth_bytes = 0,
                                        .rise_bytes = KS_UNKNOWN},
                               .levels = levels,
                               .last_step = steps};
    return KS_OK;
}

static void widen(struct level *level, int64_t bytes)
{
    level->least_bytes =
        !level->is_known || bytes < level->least_bytes ? bytes : level->least_bytes;
    level->most_bytes = !level->is_known || bytes > level->most_bytes ? bytes : level->most_bytes;
    level->is_known = true;
}

static void raise(int64_t *peak, int64_t bytes)
{
    *peak = *peak == KS_UNKNOWN || bytes > *peak ? bytes : *peak;
}

static enum ks_status note_event(struct walk *walk, const struct ks_memory_scan *scan, size_t i,
                                 struct ks_err *err)
{
    struct account *account = NULL;
    size_t steps = walk->range.end - walk->range.begin;
    if (scan->col.flags[i] & KS_MEMORY_OUT_OF_MEMORY) {
        return KS_OK;
    }
    KS_TRY(find_account(walk, scan->col.device[i], &account, err));
    int64_t bytes = scan->col.allocated[i];
    bytes = bytes >= 0 ? bytes : ks_sum_add(account->last_bytes, scan->col.bytes[i]);
    size_t step = ks_step_lookup(walk->analyzer->facts->steps + walk->range.begin, steps,
                                 scan->col.start_ns[i]);
    if (!account->is_begun) { /* what was there before the first event */
        account->last_bytes = ks_sum_sub(bytes, scan->col.bytes[i]);
        account->is_begun = true;
    }
    if (step < steps) {
        if (step != account->last_step) {
            widen(&account->levels[step], account->last_bytes);
        }
        widen(&account->levels[step], bytes);
        account->last_step = step;
        if (scan->col.bytes[i] > account->fact.largest_bytes) {
            account->fact.largest_bytes = scan->col.bytes[i];
        }
    }
    account->last_bytes = bytes;
    raise(&account->fact.peak_allocated_bytes, bytes);
    if (scan->col.reserved[i] >= 0) {
        raise(&account->fact.peak_reserved_bytes, scan->col.reserved[i]);
    }
    return KS_OK;
}

static enum ks_status scan_events(struct walk *walk, struct ks_err *err)
{
    size_t count = 0;
    const struct ks_trace *trace = walk->analyzer->trace;
    const struct ks_lane *lanes = ks_lane_sweep_lanes(trace, KS_TABLE_memory, walk->source, &count);
    for (size_t lane = 0; lane < count; lane++) {
        struct ks_memory_scan scan;
        enum ks_status status;
        ks_memory_scan_open(&scan, trace, KS_ALL_COLUMNS, lanes[lane].row_begin,
                            lanes[lane].row_end);
        while ((status = ks_memory_scan_next(&scan, err)) == KS_OK) {
            for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
                status = note_event(walk, &scan, i, err);
            }
            if (status != KS_OK) {
                break;
            }
        }
        ks_memory_scan_close(&scan);
        if (status != KS_END) {
            return status;
        }
    }
    return KS_OK;
}

/* ------------------------------------------------------------ growth */

/* Growth over `period` complete steps, if each holds more than the one so many before, and none
 * grows by less than half of what is usual: what happens once (states of an optimizer) is none. */
static int64_t growth_over(const int64_t *leasts, size_t count, size_t period, int64_t *differences)
{
    int64_t least = INT64_MAX;
    if (count < period * GROWING_STEPS_MIN) {
        return 0;
    }
    for (size_t i = period; i < count; i++) {
        int64_t difference = ks_sum_sub(leasts[i], leasts[i - period]);
        differences[i - period] = difference;
        least = difference < least ? difference : least;
    }
    int64_t usual = ks_quantile_median(differences, count - period);
    return least > 0 && least >= usual / 2 ? usual : 0;
}

/* Growth of one step. An actor and its critic, say, make two steps of which one keeps something. */
static void find_growth(struct account *account, const int64_t *leasts, size_t count,
                        int64_t *differences)
{
    int64_t growth = 0;
    size_t period = 0;
    while (growth == 0 && period < PERIOD_MAX) {
        period++;
        growth = growth_over(leasts, count, period, differences);
    }
    account->period = period;
    account->fact.growth_bytes = growth / (int64_t)period;
}

/* `leasts` and `differences` have room for all steps. */
static void settle_account(const struct walk *walk, struct account *account, int64_t *leasts,
                           int64_t *differences)
{
    const struct ks_step *steps = walk->analyzer->facts->steps + walk->range.begin;
    size_t known = 0;
    int64_t rise_bytes = 0;
    for (size_t i = 0; i < walk->range.end - walk->range.begin; i++) {
        const struct level *level = &account->levels[i];
        if (!steps[i].is_complete || !level->is_known) {
            continue;
        }
        leasts[known++] = level->least_bytes;
        rise_bytes = ks_sum_add(rise_bytes, ks_sum_sub(level->most_bytes, level->least_bytes));
    }
    account->fact.step_count = (int64_t)known;
    account->fact.rise_bytes = known > 0 ? rise_bytes / (int64_t)known : KS_UNKNOWN;
    find_growth(account, leasts, known, differences);
}

/* ------------------------------------------------------------ who allocated what stays */

struct held {
    int64_t start_ns;
    int64_t bytes; /* 0: freed */
    int64_t op_start_ns;
    int64_t op_dur_ns;
    uint32_t op; /* outermost operator of aten, 0 none */
};

struct held_list {
    struct held *items;
    size_t count;
    size_t capacity;
    struct ks_map by_addr; /* (address, device) to 1 + index */
};

static enum ks_status hold(struct held_list *list, const struct ks_memory_scan *scan, size_t i,
                           bool is_in_step, struct ks_err *err)
{
    uint64_t device = (uint64_t)(int64_t)scan->col.device[i];
    if (scan->col.bytes[i] < 0) {
        uint64_t *at = ks_map_find(&list->by_addr, scan->col.addr[i], device);
        if (at && *at > 0) {
            list->items[*at - 1].bytes = 0;
            *at = 0;
        }
        return KS_OK;
    }
    if (!is_in_step) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&list->items, list->count, &list->capacity, sizeof(*list->items), "allocations",
                   err));
    uint64_t *at = ks_map_put(&list->by_addr, scan->col.addr[i], device, NULL);
    if (!at) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep allocations: count=%zu",
                       list->count);
    }
    list->items[list->count++] =
        (struct held){.start_ns = scan->col.start_ns[i], .bytes = scan->col.bytes[i]};
    *at = list->count;
    return KS_OK;
}

/* Allocations of the step that nobody frees before the recording ends. */
static enum ks_status collect_held(struct walk *walk, const struct ks_step *step, int64_t device,
                                   struct held_list *list, struct ks_err *err)
{
    size_t count = 0;
    int64_t end_ns = ks_sum_add(step->host_start_ns, step->host_ns);
    const struct ks_trace *trace = walk->analyzer->trace;
    const struct ks_lane *lanes = ks_lane_sweep_lanes(trace, KS_TABLE_memory, walk->source, &count);
    for (size_t lane = 0; lane < count; lane++) {
        struct ks_memory_scan scan;
        enum ks_status status;
        ks_memory_scan_open(&scan, trace, KS_ALL_COLUMNS, lanes[lane].row_begin,
                            lanes[lane].row_end);
        while ((status = ks_memory_scan_next(&scan, err)) == KS_OK) {
            for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
                int64_t at_ns = scan.col.start_ns[i];
                bool is_in_step = at_ns >= step->host_start_ns && at_ns < end_ns;
                bool is_kept = !(scan.col.flags[i] & KS_MEMORY_OUT_OF_MEMORY);
                if (is_kept && scan.col.device[i] == device && at_ns >= step->host_start_ns) {
                    status = hold(list, &scan, i, is_in_step, err);
                }
            }
            if (status != KS_OK) {
                break;
            }
        }
        ks_memory_scan_close(&scan);
        if (status != KS_END) {
            return status;
        }
    }
    return KS_OK;
}

static int compare_held(const void *left, const void *right)
{
    const struct held *a = left;
    const struct held *b = right;
    if (a->bytes != b->bytes) {
        return a->bytes > b->bytes ? -1 : 1;
    }
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

/* The shortest of the outermost operators around the moment: a thread that waits for another one
 * is in a longer one. */
static void note_operator(struct held_list *list, size_t count, int64_t start_ns, int64_t dur_ns,
                          uint32_t name)
{
    for (size_t i = 0; i < count; i++) {
        struct held *held = &list->items[i];
        if (held->start_ns >= start_ns && held->start_ns - start_ns < dur_ns &&
            (held->op == 0 || dur_ns < held->op_dur_ns)) {
            held->op = name;
            held->op_start_ns = start_ns;
            held->op_dur_ns = dur_ns;
        }
    }
}

static enum ks_status find_operators(struct walk *walk, const struct ks_step *step,
                                     struct held_list *list, size_t held_count,
                                     const struct ks_lane *lane, struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    bool is_past = false;
    int64_t until_ns = INT64_MIN; /* the outermost operator ends */
    int64_t end_ns = ks_sum_add(step->host_start_ns, step->host_ns);
    uint64_t row = 0;
    KS_TRY(ks_trace_row_find(walk->analyzer->trace, KS_TABLE_slice, lane, step->host_start_ns, &row,
                             err));
    ks_slice_scan_open(&scan, walk->analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_category),
                       row, lane->row_end);
    while (!is_past && (status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && !is_past; i++) {
            int64_t start_ns = scan.col.start_ns[i];
            uint32_t name = scan.col.name[i];
            is_past = start_ns >= end_ns;
            if (is_past || start_ns < until_ns || scan.col.category[i] != KS_CATEGORY_CPU_OP ||
                !(ks_row_names_get(&walk->analyzer->names, name) & KS_NAME_ATEN)) {
                continue;
            }
            until_ns = ks_sum_add(start_ns, scan.col.dur_ns[i]);
            note_operator(list, held_count, start_ns, scan.col.dur_ns[i], name);
        }
    }
    ks_slice_scan_close(&scan);
    return is_past || status == KS_END ? KS_OK : status;
}

/* The operator with the most bytes; of equals the first in the list, which has an order. */
static void choose_operator(const struct held_list *list, size_t count, struct ks_memory_fact *fact)
{
    for (size_t i = 0; i < count; i++) {
        int64_t bytes = 0;
        for (size_t other = 0; other < count; other++) {
            bool is_same = list->items[other].op == list->items[i].op;
            bytes = ks_sum_add(bytes, is_same ? list->items[other].bytes : 0);
        }
        if (list->items[i].op != 0 && bytes > fact->held_op_bytes) {
            fact->held_op = (struct ks_strid){list->items[i].op};
            fact->held_op_bytes = bytes;
        }
    }
}

static enum ks_status find_holder_in(struct walk *walk, const struct ks_step *step,
                                     struct ks_memory_fact *fact, struct held_list *list,
                                     struct ks_err *err)
{
    KS_TRY(collect_held(walk, step, fact->device, list, err));
    if (list->count == 0) {
        return KS_OK;
    }
    qsort(list->items, list->count, sizeof(*list->items), compare_held);
    size_t held_count = 0;
    for (size_t i = 0; i < list->count && list->items[i].bytes > 0; i++) {
        fact->held_bytes = ks_sum_add(fact->held_bytes, list->items[i].bytes);
        held_count += held_count < HELD_MAX;
    }
    size_t count = 0;
    const struct ks_lane *lanes =
        ks_lane_sweep_lanes(walk->analyzer->trace, KS_TABLE_slice, walk->source, &count);
    for (size_t i = 0; i < count; i++) {
        KS_TRY(find_operators(walk, step, list, held_count, &lanes[i], err));
    }
    choose_operator(list, held_count, fact);
    return KS_OK;
}

static enum ks_status find_holder_of(struct walk *walk, size_t step, struct ks_memory_fact *fact,
                                     struct ks_err *err)
{
    struct held_list list = {0};
    ks_map_init(&list.by_addr);
    enum ks_status status =
        find_holder_in(walk, &walk->analyzer->facts->steps[step], fact, &list, err);
    ks_map_release(&list.by_addr);
    ks_free(list.items);
    return status;
}

/* Of what a step in the middle allocates, that stays which nobody frees until the end: what a step
 * holds until the next one is gone by then, and what only the first one makes was made before. Of
 * the steps of a period the one that holds most. */
static enum ks_status find_holder(struct walk *walk, struct account *account, struct ks_err *err)
{
    size_t middle = walk->range.begin + (walk->range.end - walk->range.begin - 1) / 2;
    struct ks_memory_fact most = account->fact;
    for (size_t i = 0; i < account->period && middle + i < walk->range.end; i++) {
        struct ks_memory_fact fact = account->fact;
        KS_TRY(find_holder_of(walk, middle + i, &fact, err));
        most = fact.held_bytes > most.held_bytes ? fact : most;
    }
    account->fact = most;
    return KS_OK;
}

/* ------------------------------------------------------------ sources */

static enum ks_status memory_of_source(struct walk *walk, struct ks_err *err)
{
    struct ks_arena *scratch = &walk->analyzer->scratch;
    KS_TRY(scan_events(walk, err));
    size_t steps = walk->range.end - walk->range.begin;
    int64_t *leasts = ks_new(scratch, int64_t, steps + 1);
    int64_t *differences = ks_new(scratch, int64_t, steps + 1);
    if (!leasts || !differences) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow memory: steps=%zu", steps);
    }
    for (size_t i = 0; i < walk->count; i++) {
        settle_account(walk, &walk->accounts[i], leasts, differences);
        if (walk->accounts[i].fact.growth_bytes > 0) {
            KS_TRY(find_holder(walk, &walk->accounts[i], err));
        }
    }
    return KS_OK;
}

static enum ks_status keep(const struct walk *walk, struct ks_memory_fact **facts, size_t *count,
                           size_t *capacity, struct ks_err *err)
{
    for (size_t i = 0; i < walk->count; i++) {
        KS_TRY(ks_grow(facts, *count, capacity, sizeof(**facts), "devices", err));
        (*facts)[(*count)++] = walk->accounts[i].fact;
    }
    return KS_OK;
}

static enum ks_status compute_all(struct ks_analyzer *analyzer, struct ks_memory_fact **found,
                                  size_t *count, struct ks_err *err)
{
    size_t capacity = 0;
    for (uint32_t i = 0; i < ks_trace_source_count(analyzer->trace); i++) {
        struct ks_arena_mark mark = ks_arena_mark(&analyzer->scratch);
        struct walk walk = {
            .analyzer = analyzer, .source = i, .range = analyzer->facts->step_ranges[i]};
        enum ks_status status = memory_of_source(&walk, err);
        if (status == KS_OK) {
            status = keep(&walk, found, count, &capacity, err);
        }
        ks_free(walk.accounts);
        ks_arena_rewind(&analyzer->scratch, mark);
        KS_TRY(status);
    }
    return KS_OK;
}

enum ks_status ks_memory_steps_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    struct ks_memory_fact *found = NULL;
    size_t count = 0;
    enum ks_status status = compute_all(analyzer, &found, &count, err);
    if (status == KS_OK && count > 0) {
        facts->memory = ks_new(analyzer->results, struct ks_memory_fact, count);
        if (facts->memory) {
            memcpy(facts->memory, found, count * sizeof(*found));
            facts->memory_count = count;
        } else {
            status =
                ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep memory: count=%zu", count);
        }
    }
    ks_free(found);
    return status;
}
