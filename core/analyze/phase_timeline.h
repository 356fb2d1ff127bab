/* Which phase of training the host threads of one source are in, moment by moment
 * (docs/analyses/phases.md). Pieces of equal phase are joined, so that their number grows with the
 * changes of phase, not with the rows. Memory comes from ks_alloc. */
#ifndef KS_ANALYZE_PHASE_TIMELINE_H
#define KS_ANALYZE_PHASE_TIMELINE_H

#include "analyze/registry.h"

struct ks_phase_piece {
    int64_t start_ns;
    int64_t end_ns;
    int64_t at_ns; /* start of the operator that it comes from */
    uint32_t lane;
    uint32_t epoch; /* equal: no step and no backward or update starts in between */
    uint8_t code;   /* enum ks_phase, when built */
};

struct ks_phase_pieces {
    struct ks_phase_piece *items; /* in order of time, not overlapping */
    size_t count;
    size_t capacity;
};

struct ks_phase_lane {
    uint32_t track;
    struct ks_phase_pieces pieces;
};

struct ks_phase_timeline {
    struct ks_phase_pieces host; /* what the step's thread is in, or waits for */
    struct ks_phase_lane *lanes; /* each thread by itself: looks up launches */
    size_t lane_count;
};

/* Builds the time line; `timeline` zeroed. Release it also after an error. `names`: flags by string
 * id, which sources share; zeroed before the first. */
enum ks_status ks_phase_timeline_build(struct ks_analyzer *analyzer, uint32_t source,
                                       uint16_t *names, struct ks_phase_timeline *timeline,
                                       struct ks_err *err) KS_MUST_CHECK;
void ks_phase_timeline_release(struct ks_phase_timeline *timeline);

/* Phase of a call that started at `ns` on the thread; KS_PHASE_OTHER when it is in none. */
enum ks_phase ks_phase_timeline_find(const struct ks_phase_timeline *timeline, uint32_t track,
                                     int64_t ns);

#endif
