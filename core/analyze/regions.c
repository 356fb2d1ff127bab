/* R3, R4: time in the regions of the program, by category and name (docs/analyses/regions.md). One
 * pass over the rows of recordings, thread by thread; what is open is a stack. */
#include <stdlib.h>

#include "analyze/registry.h"
#include "analyze/step_regions.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "measure/sum.h"

struct open_region {
    size_t entry;
    int64_t start_ns;
    int64_t end_ns;
    int64_t covered_ns;    /* by its children, up to ... */
    int64_t covered_until; /* ... here */
};

struct entry {
    struct ks_region_fact fact;
    size_t open; /* on the thread that is being read */
};

struct state {
    struct ks_analyzer *analyzer;
    struct ks_map index; /* (category, name) to 1 + index */
    struct entry *entries;
    size_t entry_count;
    size_t entry_capacity;
    struct open_region *open;
    size_t open_count;
    size_t open_capacity;
    struct ks_step_regions steps;
};

static enum ks_status find_entry(struct state *state, uint32_t category, uint32_t name,
                                 size_t *index, struct ks_err *err)
{
    KS_TRY(ks_grow(&state->entries, state->entry_count, &state->entry_capacity,
                   sizeof(*state->entries), "regions", err));
    uint64_t *at = ks_map_put(&state->index, category, name, NULL);
    if (!at) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep regions: count=%zu",
                       state->entry_count);
    }
    if (*at == 0) {
        state->entries[state->entry_count] =
            (struct entry){.fact = {.name = {name}, .category = {category}, .min_ns = INT64_MAX}};
        *at = ++state->entry_count;
    }
    *index = (size_t)*at - 1;
    return KS_OK;
}

/* Its self time is what no child covers; the total counts a region inside of its like once. */
static enum ks_status close_region(struct state *state, struct ks_err *err)
{
    const struct open_region *region = &state->open[--state->open_count];
    struct entry *entry = &state->entries[region->entry];
    struct ks_region_fact *fact = &entry->fact;
    int64_t dur_ns = region->end_ns - region->start_ns;
    fact->calls++;
    fact->all_ns = ks_sum_add(fact->all_ns, dur_ns);
    fact->self_ns = ks_sum_add(fact->self_ns, dur_ns - region->covered_ns);
    fact->min_ns = dur_ns < fact->min_ns ? dur_ns : fact->min_ns;
    fact->max_ns = dur_ns > fact->max_ns ? dur_ns : fact->max_ns;
    if (--entry->open == 0) {
        fact->total_ns = ks_sum_add(fact->total_ns, dur_ns);
    }
    return ks_step_regions_add(&state->steps, region->entry, fact, region->start_ns,
                               dur_ns - region->covered_ns, err);
}

static enum ks_status close_until(struct state *state, int64_t ns, struct ks_err *err)
{
    while (state->open_count > 0 && state->open[state->open_count - 1].end_ns <= ns) {
        KS_TRY(close_region(state, err));
    }
    return KS_OK;
}

/* A child that ends behind its parent covers it up to its end. */
static void cover_parent(struct state *state, int64_t start_ns, int64_t end_ns)
{
    if (state->open_count == 0) {
        return;
    }
    struct open_region *parent = &state->open[state->open_count - 1];
    int64_t from_ns = start_ns > parent->covered_until ? start_ns : parent->covered_until;
    int64_t to_ns = end_ns < parent->end_ns ? end_ns : parent->end_ns;
    if (to_ns > from_ns) {
        parent->covered_ns += to_ns - from_ns;
        parent->covered_until = to_ns;
    }
}

static enum ks_status open_region(struct state *state, const struct ks_slice_scan *scan, size_t i,
                                  struct ks_err *err)
{
    int64_t start_ns = scan->col.start_ns[i];
    int64_t end_ns = start_ns + scan->col.dur_ns[i];
    size_t entry = 0;
    KS_TRY(find_entry(state, scan->col.types[i], scan->col.name[i], &entry, err));
    KS_TRY(ks_grow(&state->open, state->open_count, &state->open_capacity, sizeof(*state->open),
                   "open regions", err));
    KS_TRY(close_until(state, start_ns, err));
    cover_parent(state, start_ns, end_ns);
    state->entries[entry].open++;
    state->open[state->open_count++] = (struct open_region){
        .entry = entry, .start_ns = start_ns, .end_ns = end_ns, .covered_until = start_ns};
    return KS_OK;
}

static enum ks_status read_lane(struct state *state, const struct ks_lane *lane, struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    ks_slice_scan_open(&scan, state->analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_types) |
                           KS_COLUMN_BIT(KS_SLICE_COL_category),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            if (scan.col.category[i] == KS_CATEGORY_REGION) {
                status = open_region(state, &scan, i, err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? close_until(state, INT64_MAX, err) : status;
}

static int compare_regions(const void *left, const void *right, void *trace)
{
    const struct ks_region_fact *a = left;
    const struct ks_region_fact *b = right;
    if (a->total_ns != b->total_ns) {
        return a->total_ns > b->total_ns ? -1 : 1;
    }
    int order = ks_str_compare(ks_trace_str(trace, a->category), ks_trace_str(trace, b->category));
    return order != 0 ? order
                      : ks_str_compare(ks_trace_str(trace, a->name), ks_trace_str(trace, b->name));
}

/* Regions of one category follow each other here. */
static int compare_categories(const void *left, const void *right, void *trace)
{
    const struct ks_region_fact *a = left;
    const struct ks_region_fact *b = right;
    int order = ks_str_compare(ks_trace_str(trace, a->category), ks_trace_str(trace, b->category));
    return order != 0 ? order : compare_regions(left, right, trace);
}

static void choose_category(struct ks_facts *facts)
{
    int64_t self_ns = 0;
    for (size_t i = 0; i < facts->region_count; i++) {
        const struct ks_region_fact *region = &facts->regions[i];
        bool is_next = i == 0 || region[-1].category.v != region->category.v;
        self_ns = ks_sum_add(is_next ? 0 : self_ns, region->self_ns);
        facts->region_self_ns = ks_sum_add(facts->region_self_ns, region->self_ns);
        if (self_ns > facts->region_category_ns) {
            facts->region_category_ns = self_ns;
            facts->region_category = region->category;
        }
    }
}

static enum ks_status publish(struct state *state, struct ks_err *err)
{
    struct ks_facts *facts = state->analyzer->facts;
    facts->regions = ks_new(&facts->arena, struct ks_region_fact, state->entry_count + 1);
    if (!facts->regions) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep regions: count=%zu",
                       state->entry_count);
    }
    for (size_t i = 0; i < state->entry_count; i++) {
        facts->regions[i] = state->entries[i].fact;
    }
    facts->region_count = state->entry_count;
    qsort_r(facts->regions, facts->region_count, sizeof(*facts->regions), compare_categories,
            (void *)(uintptr_t)state->analyzer->trace);
    choose_category(facts);
    qsort_r(facts->regions, facts->region_count, sizeof(*facts->regions), compare_regions,
            (void *)(uintptr_t)state->analyzer->trace);
    return KS_OK;
}

enum ks_status ks_regions_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct state state = {.analyzer = analyzer};
    size_t lane_count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(analyzer->trace, KS_TABLE_slice, &lane_count);
    enum ks_status status = KS_OK;
    ks_map_init(&state.index);
    ks_step_regions_init(&state.steps, analyzer->facts);
    for (size_t i = 0; i < lane_count && status == KS_OK; i++) {
        uint32_t source = ks_trace_track(analyzer->trace, lanes[i].track)->source;
        if (ks_trace_source(analyzer->trace, source)->is_recording) {
            ks_step_regions_begin(&state.steps, lanes[i].track);
            status = read_lane(&state, &lanes[i], err);
        }
    }
    if (status == KS_OK) {
        status = publish(&state, err);
    }
    if (status == KS_OK) {
        status = ks_step_regions_publish(&state.steps, analyzer->facts, err);
    }
    ks_step_regions_release(&state.steps);
    ks_map_release(&state.index);
    ks_free(state.entries);
    ks_free(state.open);
    return status;
}
