#include "analyze/step_regions.h"

#include <stdlib.h>

#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

void ks_step_regions_init(struct ks_step_regions *regions, const struct ks_facts *facts)
{
    *regions = (struct ks_step_regions){.facts = facts};
    ks_map_init(&regions->index);
}

void ks_step_regions_release(struct ks_step_regions *regions)
{
    ks_map_release(&regions->index);
    ks_free(regions->list);
}

/* A trace of the recording's process: it is of its rank, and does not name another process. */
static bool is_of_process(const struct ks_source *trace, const struct ks_source *recording)
{
    bool is_other = trace->pid != 0 && recording->pid != 0 && trace->pid != recording->pid;
    return !trace->is_recording && trace->run == recording->run && trace->rank == recording->rank &&
           !is_other;
}

void ks_step_regions_begin(struct ks_step_regions *regions, uint32_t track)
{
    const struct ks_facts *facts = regions->facts;
    const struct ks_track *lane = ks_trace_track(facts->trace, track);
    const struct ks_source *own = ks_trace_source(facts->trace, lane->source);
    regions->tid = lane->number;
    regions->source_count = 0;
    for (uint32_t i = 0; facts->step_ranges && i < ks_trace_source_count(facts->trace); i++) {
        bool has_steps = facts->step_ranges[i].end > facts->step_ranges[i].begin;
        if (has_steps && regions->source_count < KS_STEP_REGION_SOURCES_MAX &&
            is_of_process(ks_trace_source(facts->trace, i), own)) {
            regions->sources[regions->source_count++] = i;
        }
    }
}

static const struct ks_step *find_step(const struct ks_step_regions *regions, int64_t ns)
{
    const struct ks_step *step = NULL;
    for (size_t i = 0; i < regions->source_count && !step; i++) {
        step = ks_step_lookup_host(regions->facts, regions->sources[i], ns);
    }
    bool is_other = step && step->thread != 0 &&
                    ks_trace_track(regions->facts->trace, step->thread)->number != regions->tid;
    return is_other ? NULL : step;
}

enum ks_status ks_step_regions_add(struct ks_step_regions *regions, size_t number,
                                   const struct ks_region_fact *region, int64_t start_ns,
                                   int64_t self_ns, struct ks_err *err)
{
    const struct ks_step *step = regions->tid >= 0 ? find_step(regions, start_ns) : NULL;
    if (!step) {
        return KS_OK;
    }
    size_t index = (size_t)(step - regions->facts->steps);
    KS_TRY(ks_grow(&regions->list, regions->count, &regions->capacity, sizeof(*regions->list),
                   "regions", err));
    uint64_t *at = ks_map_put(&regions->index, index, number, NULL);
    if (!at) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep regions: count=%zu",
                       regions->count);
    }
    if (*at == 0) {
        regions->list[regions->count] = (struct ks_step_region){
            .step = index, .number = number, .name = region->name, .category = region->category};
        *at = ++regions->count;
    }
    struct ks_step_region *row = &regions->list[*at - 1];
    row->calls++;
    row->self_ns = ks_sum_add(row->self_ns, self_ns);
    return KS_OK;
}

static int compare_rows(const void *left, const void *right)
{
    const struct ks_step_region *a = left;
    const struct ks_step_region *b = right;
    int order = (a->step > b->step) - (a->step < b->step);
    return order ? order : (a->number > b->number) - (a->number < b->number);
}

enum ks_status ks_step_regions_publish(struct ks_step_regions *regions, struct ks_facts *facts,
                                       struct ks_err *err)
{
    facts->step_regions = ks_new(&facts->arena, struct ks_step_region, regions->count + 1);
    if (!facts->step_regions) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep regions: count=%zu",
                       regions->count);
    }
    for (size_t i = 0; i < regions->count; i++) {
        facts->step_regions[i] = regions->list[i];
    }
    facts->step_region_count = regions->count;
    qsort(facts->step_regions, facts->step_region_count, sizeof(*facts->step_regions),
          compare_rows);
    return KS_OK;
}
