#include "analyze/curve_reading.h"

#include <math.h>

#include "measure/sum.h"

void ks_curve_reading_init(struct ks_curve_reading *reading, const struct ks_trace *trace,
                           const char *const *names, size_t count, int64_t from_ns, int64_t to_ns)
{
    KS_ASSERT(count <= KS_CURVES_MAX);
    *reading = (struct ks_curve_reading){
        .curve_count = count,
        .core_name = ks_trace_str_find(trace, KS_STR("cpu.core")).v,
        .core_ns = KS_TIME_NONE,
        .from_ns = from_ns,
        .to_ns = to_ns,
    };
    for (size_t i = 0; i < count; i++) {
        reading->curves[i].name = ks_trace_str_find(trace, ks_str_from(names[i])).v;
    }
}

static void note_value(const struct ks_curve_reading *reading, struct ks_curve_sum *curve,
                       int64_t ns, double value)
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

static void note_core(struct ks_curve_reading *reading, int64_t ns)
{
    reading->core_count = reading->core_ns == ns ? reading->core_count + 1 : 1;
    reading->core_ns = ns;
    reading->cores = reading->core_count > reading->cores ? reading->core_count : reading->cores;
}

static void note_row(struct ks_curve_reading *reading, uint32_t name, int64_t ns, double value)
{
    for (size_t k = 0; k < reading->curve_count; k++) {
        if (name == reading->curves[k].name) {
            note_value(reading, &reading->curves[k], ns, value);
        }
    }
    if (name == reading->core_name) {
        note_core(reading, ns);
    }
}

enum ks_status ks_curve_reading_take(struct ks_curve_reading *reading, const struct ks_trace *trace,
                                     const struct ks_lane *lane, struct ks_err *err)
{
    struct ks_mark_scan scan;
    enum ks_status status;
    ks_mark_scan_open(&scan, trace,
                      KS_COLUMN_BIT(KS_MARK_COL_start_ns) | KS_COLUMN_BIT(KS_MARK_COL_name) |
                          KS_COLUMN_BIT(KS_MARK_COL_value),
                      lane->row_begin, lane->row_end);
    while ((status = ks_mark_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            note_row(reading, scan.col.name[i], scan.col.start_ns[i], scan.col.value[i]);
        }
    }
    ks_mark_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

bool ks_curve_reading_mean(const struct ks_curve_reading *reading, size_t curve, double *mean)
{
    const struct ks_curve_sum *sum = &reading->curves[curve];
    int64_t window_ns = ks_sum_sub(reading->to_ns, reading->from_ns);
    if (sum->covered_ns == 0 || sum->covered_ns < window_ns / 2) {
        return false;
    }
    *mean = sum->sum / (double)sum->covered_ns;
    return true;
}

bool ks_curves_are_of(const struct ks_source *trace, const struct ks_source *recording)
{
    bool is_other = trace->pid != 0 && recording->pid != 0 && trace->pid != recording->pid;
    return trace->run == recording->run && trace->rank == recording->rank && !is_other;
}

size_t ks_curve_lanes(const struct ks_trace *trace, const struct ks_lane **list)
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
