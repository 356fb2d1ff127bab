/* What one look found. A value that is not known is not put in: there is no zero that stands for
 * "unknown". */
#ifndef KS_CAPTURE_MONITOR_LOOK_H
#define KS_CAPTURE_MONITOR_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/monitor/metrics.h"

enum { KS_LOOK_MAX = KS_METRIC_SINGLE_COUNT + KS_METRIC_CORES_MAX };

struct ks_look {
    int64_t now_ns; /* monotonic */
    bool is_last;   /* somebody's: what is looked at less often is looked at now, too */
    uint32_t count;
    struct ks_look_value {
        uint32_t series;
        float seconds; /* for which it holds; 0: since the value before */
        double value;
        /* Of a last look that comes soon after another: `value` is of the time of the value before
         * as well, and the `seconds` behind that one were like `rest`. */
        bool is_rest;
        float rest;
    } values[KS_LOOK_MAX];
};

/* A rate over some time. Zero: it is not known. */
struct ks_look_rate {
    double value;
    int64_t ns;
};

/* A count that only grows, as it was seen last. Zero: never. */
struct ks_look_count {
    uint64_t value;
    int64_t seen_ns;
    struct ks_look_rate rate; /* as it was put last */
};

void ks_look_put(struct ks_look *look, enum ks_metric metric, double value);
/* Puts what the count grew by in a second, times `scale`. Nothing at its first sight, and nothing
 * when it went back (a counter that was set anew). */
void ks_look_put_rate(struct ks_look *look, enum ks_metric metric, struct ks_look_count *count,
                      uint64_t value, double scale);
/* The same of one core or device. */
void ks_look_put_of(struct ks_look *look, enum ks_metric metric, uint32_t index, double value,
                    double seconds);
void ks_look_put_rate_of(struct ks_look *look, enum ks_metric metric, uint32_t index,
                         struct ks_look_count *count, uint64_t value, double scale);
/* Puts a rate over the time since `before`, which was put last; in a last look that comes too soon
 * the two as one. Gives what was put. */
struct ks_look_rate ks_look_put_after(struct ks_look *look, enum ks_metric metric, uint32_t index,
                                      struct ks_look_rate before, struct ks_look_rate now);
/* Rates of several devices, which are one metric together. Zero: of none. */
struct ks_look_sum {
    bool is_known;
    double total, max;
    double seconds;
    bool is_rest; /* as in values; these are the rests' */
    double rest_total, rest_max;
};

void ks_look_add_rate(struct ks_look_sum *sum, const struct ks_look *look,
                      struct ks_look_count *count, uint64_t value, double scale);
/* The total, or the highest where that is at most `max`; nothing where there was no rate. */
void ks_look_put_total(struct ks_look *look, enum ks_metric metric, const struct ks_look_sum *sum);
void ks_look_put_highest(struct ks_look *look, enum ks_metric metric, const struct ks_look_sum *sum,
                         double max);
/* Is it time for what is looked at every `period_ns` only? Notes that it is. In a last look it
 * always is. */
bool ks_look_is_due(const struct ks_look *look, int64_t *due_ns, int64_t period_ns);

#endif
