/* Regions of recordings by the steps of torch.profiler that they begin in: what a step held, in the
 * program's own words. Only of the thread that has the steps. Used by regions.c, which knows the
 * time of each region by itself. */
#ifndef KS_ANALYZE_STEP_REGIONS_H
#define KS_ANALYZE_STEP_REGIONS_H

#include "analyze/facts.h"
#include "base/map.h"

enum { KS_STEP_REGION_SOURCES_MAX = 16 }; /* windows of one rank that are looked into */

struct ks_step_regions {
    const struct ks_facts *facts;
    struct ks_map index; /* (step, number of the region) -> 1 + row */
    struct ks_step_region *list;
    size_t count;
    size_t capacity;
    uint32_t sources[KS_STEP_REGION_SOURCES_MAX]; /* with steps of the lane's process */
    size_t source_count;
    int64_t tid; /* of the lane; -1: of a task, which has no steps */
};

void ks_step_regions_init(struct ks_step_regions *regions, const struct ks_facts *facts);
void ks_step_regions_release(struct ks_step_regions *regions);
/* What is added next is of this track of a recording. */
void ks_step_regions_begin(struct ks_step_regions *regions, uint32_t track);
/* `number` is that of its category and name. */
enum ks_status ks_step_regions_add(struct ks_step_regions *regions, size_t number,
                                   const struct ks_region_fact *region, int64_t start_ns,
                                   int64_t self_ns, struct ks_err *err) KS_MUST_CHECK;
/* Moves all into the facts, by step. */
enum ks_status ks_step_regions_publish(struct ks_step_regions *regions, struct ks_facts *facts,
                                       struct ks_err *err) KS_MUST_CHECK;

#endif
