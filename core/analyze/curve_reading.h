/* Means of the curves that the system monitor wrote into a recording, over a window of time. A
 * value of a curve stands for the time since the one before it. */
#ifndef KS_ANALYZE_CURVE_READING_H
#define KS_ANALYZE_CURVE_READING_H

#include "store/trace.h"

enum { KS_CURVES_MAX = 8 };

struct ks_curve_sum {
    uint32_t name; /* string id, 0: nothing has it */
    int64_t last_ns;
    bool has_last;
    int64_t covered_ns; /* of the window */
    double sum;         /* value * ns */
};

struct ks_curve_reading {
    struct ks_curve_sum curves[KS_CURVES_MAX];
    size_t curve_count;
    uint32_t core_name;
    int64_t core_ns; /* of the look whose cores are being counted */
    int64_t core_count;
    int64_t cores;          /* the most values of `cpu.core` at one moment; 0: none */
    int64_t from_ns, to_ns; /* the window */
};

/* Of the curves with these names, KS_CURVES_MAX at most. */
void ks_curve_reading_init(struct ks_curve_reading *reading, const struct ks_trace *trace,
                           const char *const *names, size_t count, int64_t from_ns, int64_t to_ns);
/* Reads the marks of a lane. */
enum ks_status ks_curve_reading_take(struct ks_curve_reading *reading, const struct ks_trace *trace,
                                     const struct ks_lane *lane, struct ks_err *err) KS_MUST_CHECK;
/* Weighted by time. False: the curve tells of less than half of the window. */
bool ks_curve_reading_mean(const struct ks_curve_reading *reading, size_t curve, double *mean);

/* Was the recording made by the process of the trace, as far as both say? */
bool ks_curves_are_of(const struct ks_source *trace, const struct ks_source *recording);
/* Puts lanes of marks of recordings into `list`, which has room for all lanes of marks. */
size_t ks_curve_lanes(const struct ks_trace *trace, const struct ks_lane **list);

#endif
