/* Calls that take memory of a device from the driver, or give it back, in complete steps
 * (docs/analyses/driver_memory.md). One pass over the host rows. */
#include "analyze/lane_sweep.h"
#include "analyze/registry.h"
#include "analyze/step_lookup.h"
#include "base/err.h"
#include "measure/sum.h"

/* Calls of one step. */
struct tally {
    uint32_t takes;
    uint32_t gives;
};

struct walk {
    struct ks_analyzer *analyzer;
    uint32_t source;
    struct ks_step_range range;
    struct tally *tallies; /* one for each step of all sources */
    int64_t *taken_ns;     /* by string id of the outermost operator */
    int64_t takes;
    int64_t gives;
    int64_t gives_outside;
    int64_t calls_ns;
    int64_t before_ns;

    /* The thread that is read. */
    int64_t op_until_ns; /* the outermost operator ends */
    uint32_t op;
    int64_t row_until_ns; /* the last operator or call ends */
};

static void note_call(struct walk *walk, enum ks_memory_call kind, int64_t start_ns, int64_t dur_ns)
{
    const struct ks_facts *facts = walk->analyzer->facts;
    const struct ks_step *steps = facts->steps + walk->range.begin;
    size_t count = walk->range.end - walk->range.begin;
    size_t step = ks_step_lookup(steps, count, start_ns);
    if (step == count || !steps[step].is_complete) {
        return;
    }
    bool is_inside = start_ns < walk->op_until_ns;
    struct tally *tally = &walk->tallies[walk->range.begin + step];
    walk->calls_ns = ks_sum_add(walk->calls_ns, dur_ns);
    if (kind == KS_MEMORY_CALL_TAKES) {
        tally->takes++;
        walk->takes++;
        walk->taken_ns[is_inside ? walk->op : 0] += dur_ns;
        return;
    }
    tally->gives++;
    walk->gives++;
    walk->gives_outside += !is_inside;
    int64_t since_ns = walk->row_until_ns > steps[step].host_start_ns ? walk->row_until_ns
                                                                      : steps[step].host_start_ns;
    if (!is_inside && since_ns < start_ns) {
        walk->before_ns = ks_sum_add(walk->before_ns, start_ns - since_ns);
    }
}

static void note_row(struct walk *walk, const struct ks_slice_scan *scan, size_t i)
{
    uint8_t category = scan->col.category[i];
    bool is_op = category == KS_CATEGORY_CPU_OP;
    bool is_call = category == KS_CATEGORY_RUNTIME || category == KS_CATEGORY_DRIVER;
    if (!is_op && !is_call) {
        return;
    }
    int64_t start_ns = scan->col.start_ns[i];
    int64_t end_ns = ks_sum_add(start_ns, scan->col.dur_ns[i]);
    if (is_call) {
        enum ks_memory_call kind =
            ks_row_names_memory_call(&walk->analyzer->names, scan->col.name[i]);
        if (kind != KS_MEMORY_CALL_NONE) {
            note_call(walk, kind, start_ns, scan->col.dur_ns[i]);
        }
    } else if (start_ns >= walk->op_until_ns) {
        walk->op_until_ns = end_ns;
        walk->op = scan->col.name[i];
    }
    walk->row_until_ns = end_ns > walk->row_until_ns ? end_ns : walk->row_until_ns;
}

static enum ks_status scan_lane(struct walk *walk, const struct ks_lane *lane, struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    walk->op_until_ns = walk->row_until_ns = INT64_MIN;
    ks_slice_scan_open(&scan, walk->analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_category),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            note_row(walk, &scan, i);
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static void keep(const struct walk *walk, struct ks_facts *facts, size_t name_count)
{
    struct ks_driver_memory *memory = &facts->driver_memory;
    double steps = (double)facts->complete_step_count;
    int64_t most_ns = 0;
    size_t steps_with = 0;
    for (size_t i = 0; i < facts->step_count; i++) {
        steps_with += walk->tallies[i].takes > 0 && walk->tallies[i].gives > 0;
    }
    for (size_t i = 1; i < name_count; i++) {
        if (walk->taken_ns[i] > most_ns) {
            most_ns = walk->taken_ns[i];
            memory->op = (struct ks_strid){(uint32_t)i};
        }
    }
    memory->takes = (double)walk->takes / steps;
    memory->gives = (double)walk->gives / steps;
    memory->gives_outside = (double)walk->gives_outside / steps;
    memory->steps_share = (double)steps_with / steps;
    memory->calls_ns = walk->calls_ns / (int64_t)facts->complete_step_count;
    memory->before_ns = walk->before_ns / (int64_t)facts->complete_step_count;
}

enum ks_status ks_driver_memory_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    size_t name_count = (size_t)ks_trace_str_count(analyzer->trace) + 1;
    struct walk walk = {.analyzer = analyzer};
    if (facts->complete_step_count == 0) {
        return KS_OK;
    }
    walk.tallies = ks_new(&analyzer->scratch, struct tally, facts->step_count + 1);
    walk.taken_ns = ks_new(&analyzer->scratch, int64_t, name_count);
    if (!walk.tallies || !walk.taken_ns) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot look at memory calls: steps=%zu",
                       facts->step_count);
    }
    for (uint32_t source = 0; source < ks_trace_source_count(analyzer->trace); source++) {
        size_t count = 0;
        const struct ks_lane *lanes =
            ks_lane_sweep_lanes(analyzer->trace, KS_TABLE_slice, source, &count);
        walk.source = source;
        walk.range = facts->step_ranges[source];
        for (size_t i = 0; i < count; i++) {
            KS_TRY(scan_lane(&walk, &lanes[i], err));
        }
    }
    keep(&walk, facts, name_count);
    return KS_OK;
}
