/* What curves of the monitor in a recording say of threads that take the cores from each other
 * (docs/analyses/crowd_curves.md): while the steps of a trace of the same process ran, or in all of
 * a recording beside which no trace has steps. Not for traces that say it themselves. */
#include "analyze/curve_reading.h"
#include "analyze/registry.h"
#include "base/err.h"
#include "measure/sum.h"

enum { CURVES = 6 };

/* The last one is there where a control group is limited. */
enum curve {
    CURVE_WAITING,
    CURVE_USED,
    CURVE_MACHINE,
    CURVE_THREADS,
    CURVE_PREEMPTIONS,
    CURVE_LIMIT
};

static const char *const names[CURVES] = {
    "pressure.cpu", "cpu.process",     "cpu.machine",
    "cpu.threads",  "cpu.preemptions", "cgroup.cpu_limit",
};

/* Alone, a few seconds say little: pressure is read once a second. */
static const int64_t alone_ns_min = 3 * INT64_C(1000000000);

static int64_t whole_cores(const struct ks_curve_reading *reading, double limit_cores)
{
    int64_t limit = limit_cores < 1.0 ? 1 : (int64_t)limit_cores;
    return limit_cores > 0.0 && limit < reading->cores ? limit : reading->cores;
}

static void take_reading(const struct ks_curve_reading *reading, struct ks_crowd_fact *fact)
{
    double means[CURVES] = {0};
    for (size_t i = 0; i < CURVES; i++) {
        if (!ks_curve_reading_mean(reading, i, &means[i]) && i != CURVE_LIMIT) {
            return;
        }
    }
    if (reading->cores == 0) {
        return;
    }
    double waiting = means[CURVE_WAITING] / 100.0;
    *fact = (struct ks_crowd_fact){
        .window_ns = reading->to_ns - reading->from_ns,
        .cores = whole_cores(reading, means[CURVE_LIMIT] / 100.0),
        .threads = means[CURVE_THREADS],
        .used_cores = means[CURVE_USED] / 100.0,
        .machine_cores = means[CURVE_MACHINE] / 100.0 * (double)reading->cores,
        .preemptions_per_s = means[CURVE_PREEMPTIONS],
        .waiting_share = waiting < 1.0 ? waiting : 1.0,
    };
}

struct curve_lanes {
    const struct ks_lane **list;
    size_t count;
};

/* The first recording of its process that tells; a child's, of the same rank, has no monitor. */
static enum ks_status read_steps(struct ks_analyzer *analyzer, uint32_t source,
                                 const struct curve_lanes *lanes, struct ks_err *err)
{
    const struct ks_trace *trace = analyzer->trace;
    const struct ks_facts *facts = analyzer->facts;
    struct ks_crowd_fact *fact = &analyzer->facts->sources[source].crowd;
    struct ks_step_range range = facts->step_ranges[source];
    const struct ks_step *last = &facts->steps[range.end - 1];
    for (size_t i = 0; i < lanes->count && fact->window_ns == 0; i++) {
        uint32_t recording = ks_trace_track(trace, lanes->list[i]->track)->source;
        if (!ks_curves_are_of(ks_trace_source(trace, source), ks_trace_source(trace, recording))) {
            continue;
        }
        struct ks_curve_reading reading;
        ks_curve_reading_init(&reading, trace, names, CURVES, facts->steps[range.begin].start_ns,
                              ks_sum_add(last->start_ns, last->dur_ns));
        KS_TRY(ks_curve_reading_take(&reading, trace, lanes->list[i], err));
        take_reading(&reading, fact);
    }
    return KS_OK;
}

/* All that a recording tells. */
static enum ks_status read_alone(struct ks_analyzer *analyzer, const struct ks_lane *lane,
                                 struct ks_err *err)
{
    const struct ks_trace *trace = analyzer->trace;
    uint32_t source = ks_trace_track(trace, lane->track)->source;
    const struct ks_source *recording = ks_trace_source(trace, source);
    int64_t shift_ns = ks_sum_sub(recording->base_ns, ks_trace_origin_ns(trace));
    int64_t from_ns = ks_sum_add(recording->start_ns, shift_ns);
    int64_t to_ns = ks_sum_add(recording->end_ns, shift_ns);
    struct ks_curve_reading reading;
    if (recording->start_ns == KS_TIME_NONE || to_ns - from_ns < alone_ns_min) {
        return KS_OK;
    }
    ks_curve_reading_init(&reading, trace, names, CURVES, from_ns, to_ns);
    KS_TRY(ks_curve_reading_take(&reading, trace, lane, err));
    struct ks_crowd_fact *fact = &analyzer->facts->sources[source].crowd;
    take_reading(&reading, fact);
    fact->is_alone = fact->window_ns > 0;
    return KS_OK;
}

static enum ks_status read_all(struct ks_analyzer *analyzer, const struct curve_lanes *lanes,
                               struct ks_err *err)
{
    const struct ks_facts *facts = analyzer->facts;
    for (size_t i = 0; i < lanes->count && facts->step_count == 0; i++) {
        KS_TRY(read_alone(analyzer, lanes->list[i], err));
    }
    for (uint32_t i = 0; i < facts->source_count && facts->step_count > 0; i++) {
        const struct ks_source *source = ks_trace_source(analyzer->trace, i);
        bool has_steps = facts->step_ranges[i].end > facts->step_ranges[i].begin;
        if (has_steps && !source->is_recording && source->process.wall_ns == 0) {
            KS_TRY(read_steps(analyzer, i, lanes, err));
        }
    }
    return KS_OK;
}

enum ks_status ks_crowd_curves_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    size_t lane_count = 0;
    (void)ks_trace_lanes(analyzer->trace, KS_TABLE_mark, &lane_count);
    bool is_known = ks_trace_str_find(analyzer->trace, ks_str_from(names[CURVE_WAITING])).v != 0;
    if (lane_count == 0 || !is_known) {
        return KS_OK;
    }
    struct curve_lanes lanes = {ks_new(&analyzer->scratch, const struct ks_lane *, lane_count), 0};
    if (!lanes.list) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read curves: count=%zu",
                       lane_count);
    }
    lanes.count = ks_curve_lanes(analyzer->trace, lanes.list);
    return read_all(analyzer, &lanes, err);
}
