/* What curves of the monitor in a recording say of the limit of CPU time while the steps of a trace
 * ran (docs/analyses/throttle_curves.md). Only for traces that do not say it themselves. */
#include "analyze/curve_reading.h"
#include "analyze/registry.h"
#include "base/err.h"
#include "measure/sum.h"

enum { CURVES = 3 };

/* In percent of a core, of periods, and of a core again. */
enum curve { CURVE_LIMIT, CURVE_PERIODS, CURVE_HELD };

static const char *const names[CURVES] = {"cgroup.cpu_limit", "cgroup.throttled_periods",
                                          "cgroup.throttled"};

static void take_reading(const struct ks_curve_reading *reading, struct ks_throttle_fact *fact)
{
    double means[CURVES];
    for (size_t i = 0; i < CURVES; i++) {
        if (!ks_curve_reading_mean(reading, i, &means[i])) {
            return;
        }
        means[i] /= 100.0;
    }
    *fact = (struct ks_throttle_fact){
        .window_ns = reading->to_ns - reading->from_ns,
        .cores = reading->cores,
        .limit_cores = means[CURVE_LIMIT],
        .periods_share = means[CURVE_PERIODS] < 1.0 ? means[CURVE_PERIODS] : 1.0,
        .held_cores = means[CURVE_HELD],
    };
}

/* The first recording of its process that tells; a child's, of the same rank, has no monitor. */
static enum ks_status read_source(struct ks_analyzer *analyzer, uint32_t source,
                                  const struct ks_lane *const *lanes, size_t count,
                                  struct ks_err *err)
{
    const struct ks_trace *trace = analyzer->trace;
    const struct ks_facts *facts = analyzer->facts;
    struct ks_throttle_fact *fact = &analyzer->facts->sources[source].throttle;
    struct ks_step_range range = facts->step_ranges[source];
    const struct ks_step *last = &facts->steps[range.end - 1];
    for (size_t i = 0; i < count && fact->window_ns == 0; i++) {
        uint32_t recording = ks_trace_track(trace, lanes[i]->track)->source;
        if (!ks_curves_are_of(ks_trace_source(trace, source), ks_trace_source(trace, recording))) {
            continue;
        }
        struct ks_curve_reading reading;
        ks_curve_reading_init(&reading, trace, names, CURVES, facts->steps[range.begin].start_ns,
                              ks_sum_add(last->start_ns, last->dur_ns));
        KS_TRY(ks_curve_reading_take(&reading, trace, lanes[i], err));
        take_reading(&reading, fact);
    }
    return KS_OK;
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
    size_t count = ks_curve_lanes(analyzer->trace, lanes);
    for (uint32_t i = 0; i < facts->source_count && count > 0; i++) {
        const struct ks_source *source = ks_trace_source(analyzer->trace, i);
        bool has_steps = facts->step_ranges[i].end > facts->step_ranges[i].begin;
        if (has_steps && !source->is_recording && source->process.wall_ns == 0) {
            KS_TRY(read_source(analyzer, i, lanes, count, err));
        }
    }
    return KS_OK;
}
