/* Rows of several lanes (threads and devices) of one source as one stream in order of start time;
 * ties by the order in which the lanes were added. Memory is one open scan a lane. */
#ifndef KS_ANALYZE_LANE_SWEEP_H
#define KS_ANALYZE_LANE_SWEEP_H

#include "store/trace.h"

struct ks_sweep_row {
    int64_t start_ns;
    int64_t end_ns;
    int64_t launch_ns; /* GPU rows; KS_TIME_NONE: unknown, and for host rows */
    uint32_t lane;     /* track of the thread or device */
    uint32_t name;
    uint32_t launch_lane; /* GPU rows: thread that launched them, 0 unknown */
    uint32_t stream;      /* GPU rows: track of the stream */
    enum ks_category category;
    unsigned flags; /* KS_SLICE_* or KS_GPU_* by category */
};

struct ks_sweep_cursor;

/* Lanes of one source in a table; NULL when there is none. */
const struct ks_lane *ks_lane_sweep_lanes(const struct ks_trace *trace, enum ks_table_id table,
                                          uint32_t source, size_t *count);

struct ks_lane_sweep {
    const struct ks_trace *trace;
    uint32_t source;
    struct ks_sweep_cursor *cursors;
    size_t cursor_count;
    size_t cursor_capacity;
    size_t *heap; /* indexes of cursors that have rows, the earliest first */
    size_t heap_count;
};

/* What is taken from `scratch` must live as long as the sweep. */
enum ks_status ks_lane_sweep_init(struct ks_lane_sweep *sweep, const struct ks_trace *trace,
                                  uint32_t source, struct ks_arena *scratch, struct ks_err *err)
    KS_MUST_CHECK;
void ks_lane_sweep_release(struct ks_lane_sweep *sweep);
/* Adds all device lanes, or all thread lanes, of the source; before the first next. */
enum ks_status ks_lane_sweep_add(struct ks_lane_sweep *sweep, enum ks_table_id table,
                                 struct ks_err *err) KS_MUST_CHECK;
/* KS_OK: `*row` is the next one; KS_END: none is left. */
enum ks_status ks_lane_sweep_next(struct ks_lane_sweep *sweep, struct ks_sweep_row *row,
                                  struct ks_err *err) KS_MUST_CHECK;

#endif
