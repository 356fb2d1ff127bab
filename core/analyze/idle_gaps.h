/* The parts of idle intervals in which the host decides: from the end of the device's work until
 * the launch of the next. They are collected while the devices' rows pass, put in order of time,
 * and divided while the host's rows pass. Memory: one part for each GPU row that ends an idle
 * interval, or for each step. */
#ifndef KS_ANALYZE_IDLE_GAPS_H
#define KS_ANALYZE_IDLE_GAPS_H

#include "analyze/facts.h"

enum { KS_IDLE_SINKS = 3 }; /* a stream, a device and a step may share a part */

struct ks_idle_part {
    int64_t from_ns;
    int64_t until_ns;
    int64_t *sinks[KS_IDLE_SINKS]; /* sums by enum ks_idle_cause that the part adds to; or NULL */
    uint32_t thread;               /* track of the thread that is looked at */
    uint32_t slot; /* parts of one slot do not overlap, and are added in order of time */
};

/* One end of a part. */
struct ks_idle_point {
    int64_t at_ns;
    uint64_t part_and_side; /* 2 * index of the part, + 1 at its end */
};

struct ks_idle_gaps {
    struct ks_idle_part *parts;
    size_t count;
    size_t capacity;
    size_t shared_from; /* parts from here on belong to the current row and may be shared */
    struct ks_idle_point *points;
};

void ks_idle_gaps_release(struct ks_idle_gaps *gaps);
/* The parts that follow come from another GPU row. */
void ks_idle_gaps_next_row(struct ks_idle_gaps *gaps);
/* Adds one with a single sink; an empty one is left out. */
enum ks_status ks_idle_gaps_add(struct ks_idle_gaps *gaps, const struct ks_idle_part *part,
                                struct ks_err *err) KS_MUST_CHECK;
/* Fills `points` with both ends of each part, by time; of equal ones as the parts were added. */
enum ks_status ks_idle_gaps_order(struct ks_idle_gaps *gaps, struct ks_err *err) KS_MUST_CHECK;

#endif
