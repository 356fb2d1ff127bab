/* What curves of the monitor in a recording say of the limit of CPU time while the steps of a trace
 * ran (docs/analyses/throttle_curves.md). Only for traces that do not say it themselves. */
#include <math.h>

#include "analyze/registry.h"
#include "base/err.h"
#include "measure/sum.h"

enum { CURVES = 3 };

/* In percent of a core, of periods, and of a core again. */
enum curve { CURVE_LIMIT, CURVE_PERIODS, CURVE_HELD };

static const char *const names[CURVES] = {"cgroup.cpu_limit", "cgroup.throttled_periods",
                                          "cgroup.throttled"};

/* A value stands for the time since the one before it. */
struct curve_sum {
    uint32_t name; /* string id, 0: nothing has it */
    int64_t last_ns;
    bool has_last;
    int64_t covered_ns; /* of the window */
    double sum;         /* value * ns */
};

struct reading {
    struct curve_sum curves[CURVES];
    uint32_t core_name;
    int64_t core_ns; /* of the look whose cores are being counted */
    int64_t core_count;
    int64_t cores;
    int64_t from_ns, to_ns; /* the window */
};

static void note_value(struct reading *reading, struct curve_sum *curve, int64_t ns, double value)
{
    int64_t from_ns = curve->last_ns > reading->from_ns ? curve->last_ns : reading->from_ns;
    int64_t to_ns = ns < reading->to_ns ? ns : reading->to_ns;
    if (curve->has_last && to_ns > from_ns && isfinite(value) && value >= 0.0) {
        curve->covered_ns = ks_sum_add(curve->covered_ns, to_ns - from_ns);
        curve->sum += value * (double)(to_ns - from_ns);
    }
    curve->last_ns = ns;
    curve->has_last = true;
}

static void note_core(struct reading *reading, int64_t ns)
{
    reading->core_count = reading->core_ns == ns ? reading->core_count + 1 : 1;
    reading->core_ns = ns;
    reading->cores = reading->core_count > reading->cores ? reading->core_count : reading->cores;
}

static enum ks_status read_lane(const struct ks_trace *trace, const struct ks_lane *lane,
                                struct reading *reading, struct ks_err *err)
{
    struct ks_mark_scan scan;
    enum ks_status status;
    ks_mark_scan_open(&scan, trace,
                      KS_COLUMN_BIT(KS_MARK_COL_start_ns) | KS_COLUMN_BIT(KS_MARK_COL_name) |
                          KS_COLUMN_BIT(KS_MARK_COL_value),
                      lane->row_begin, lane->row_end);
    while ((status = ks_mark_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            uint32_t name = scan.col.name[i];
            for (size_t k = 0; k < CURVES; k++) {
                if (name == reading->curves[k].name) {
                    note_value(reading, &reading->curves[k], scan.col.start_ns[i],
                               scan.col.value[i]);
                }
            }
            if (name == reading->core_name) {
                note_core(reading, scan.col.start_ns[i]);
            }
        }
    }
    ks_mark_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

/* Curves that tell of less than half of the window tell nothing. */
static void take_reading(const struct reading *reading, struct ks_throttle_fact *fact)
{
    double means[CURVES];
    for (size_t i = 0; i < CURVES; i++) {
        const struct curve_sum *curve = &reading->curves[i];
        if (curve->covered_ns < (reading->to_ns - reading->from_ns) / 2 || curve->covered_ns == 0) {
            return;
        }
        means[i] = curve->sum / (double)curve->covered_ns / 100.0;
    }
    *fact = (struct ks_throttle_fact){
        .window_ns = reading->to_ns - reading->from_ns,
        .cores = reading->cores,
        .limit_cores = means[CURVE_LIMIT],
        .periods_share = means[CURVE_PERIODS] < 1.0 ? means[CURVE_PERIODS] : 1.0,
        .held_cores = means[CURVE_HELD],
    };
}

static bool is_of_process(const struct ks_source *trace, const struct ks_source *recording)
{
    bool is_other = trace->pid != 0 && recording->pid != 0 && trace->pid != recording->pid;
    return trace->run == recording->run && trace->rank == recording->rank && !is_other;
}

static struct reading begin_reading(const struct ks_facts *facts, uint32_t source)
{
    struct ks_step_range range = facts->step_ranges[source];
    const struct ks_step *last = &facts->steps[range.end - 1];
    struct reading reading = {
        .core_name = ks_trace_str_find(facts->trace, KS_STR("cpu.core")).v,
        .from_ns = facts->steps[range.begin].start_ns,
        .to_ns = ks_sum_add(last->start_ns, last->dur_ns),
        .core_ns = KS_TIME_NONE,
    };
    for (size_t i = 0; i < CURVES; i++) {
        reading.curves[i].name = ks_trace_str_find(facts->trace, ks_str_from(names[i])).v;
    }
    return reading;
}

/* The first recording of its process that tells; a child's, of the same rank, has no monitor. */
static enum ks_status read_source(struct ks_analyzer *analyzer, uint32_t source,
                                  const struct ks_lane *const *lanes, size_t count,
                                  struct ks_err *err)
{
    const struct ks_trace *trace = analyzer->trace;
    struct ks_throttle_fact *fact = &analyzer->facts->sources[source].throttle;
    for (size_t i = 0; i < count && fact->window_ns == 0; i++) {
        uint32_t recording = ks_trace_track(trace, lanes[i]->track)->source;
        if (!is_of_process(ks_trace_source(trace, source), ks_trace_source(trace, recording))) {
            continue;
        }
        struct reading reading = begin_reading(analyzer->facts, source);
        KS_TRY(read_lane(trace, lanes[i], &reading, err));
        take_reading(&reading, fact);
    }
    return KS_OK;
}

/* Lanes of marks of recordings, if some curve of theirs can tell at all. */
static size_t list_lanes(const struct ks_trace *trace, const struct ks_lane **list)
{
    size_t count = 0;
    size_t lane_count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(trace, KS_TABLE_mark, &lane_count);
    for (size_t i = 0; i < lane_count; i++) {
        uint32_t source = ks_trace_track(trace, lanes[i].track)->source;
        if (ks_trace_source(trace, source)->is_recording) {
            list[count++] = &lanes[i];
        }
    }
    return count;
}

enum ks_status ks_throttle_curves_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    const struct ks_facts *facts = analyzer->facts;
    size_t lane_count = 0;
    (void)ks_trace_lanes(analyzer->trace, KS_TABLE_mark, &lane_count);
    bool is_limited = ks_trace_str_find(analyzer->trace, ks_str_from(names[CURVE_LIMIT])).v != 0;
    if (lane_count == 0 || !is_limited || facts->step_count == 0) {
        return KS_OK;
    }
    const struct ks_lane **lanes = ks_new(&analyzer->scratch, const struct ks_lane *, lane_count);
    if (!lanes) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read curves: count=%zu",
                       lane_count);
    }
    size_t count = list_lanes(analyzer->trace, lanes);
    for (uint32_t i = 0; i < facts->source_count && count > 0; i++) {
        const struct ks_source *source = ks_trace_source(analyzer->trace, i);
        bool has_steps = facts->step_ranges[i].end > facts->step_ranges[i].begin;
        if (has_steps && !source->is_recording && source->process.wall_ns == 0) {
            KS_TRY(read_source(analyzer, i, lanes, count, err));
        }
    }
    return KS_OK;
}
