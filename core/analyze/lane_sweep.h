/* Rows of several lanes (threads and devices) of one source as one stream in order of start time;
 * ties by the order of lanes. Memory is 56 bytes a lane, and an open scan for each chunk in which
 * some lane stands: a million threads may lie in a few chunks. */
#ifndef KS_ANALYZE_LANE_SWEEP_H
#define KS_ANALYZE_LANE_SWEEP_H

#include "base/arena.h"
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
    /* Columns of host rows, with KS_SWEEP_NUMBERS; else nothing is said: */
    int64_t ext_id, seq, aux;
    uint32_t dims, types, concrete;
};

struct ks_sweep_cursor;
struct ks_sweep_window;

/* Lanes of one source in a table; NULL when there is none. */
const struct ks_lane *ks_lane_sweep_lanes(const struct ks_trace *trace, enum ks_table_id table,
                                          uint32_t source, size_t *count);

/* Tracks of one source, which follow each other. Arrays by track have a place for track 0, too. */
struct ks_track_range {
    uint32_t begin;
    uint32_t count;
};
struct ks_track_range ks_lane_sweep_tracks(const struct ks_trace *trace, uint32_t source);

static inline size_t ks_track_range_index(const struct ks_track_range *range, uint32_t track)
{
    KS_DCHECK(track == 0 || track - range->begin < range->count);
    return track == 0 ? 0 : (size_t)(track - range->begin) + 1;
}

/* Which lanes a sweep has; device lanes come before thread lanes. */
enum {
    KS_SWEEP_DEVICES = 1,
    KS_SWEEP_THREADS = 2,
    KS_SWEEP_NUMBERS = 4, /* rows of threads carry what torch numbers them by, and texts */
};

struct ks_lane_sweep {
    const struct ks_trace *trace;
    uint32_t source;
    struct ks_arena *scratch;
    struct ks_arena_mark mark;
    struct ks_sweep_cursor *cursors;
    size_t cursor_count;
    size_t cursor_capacity;
    struct ks_sweep_next {
        int64_t start_ns;
        size_t cursor; /* index */
    } * heap;          /* of cursors that have rows, the earliest first */
    size_t heap_count;
    struct ks_sweep_windows {
        struct ks_sweep_window **list; /* by chunk from the first on; NULL: no cursor is there */
        uint64_t first_chunk;
        size_t count;
    } windows[2]; /* of threads and of devices */
    struct ks_sweep_window *spare;
    uint64_t slice_columns;
};

/* Opens all lanes of the source that `lanes` (KS_SWEEP_*) asks for; needs no close after an error.
 * Close gives back all that was taken from `scratch` since. */
enum ks_status ks_lane_sweep_open(struct ks_lane_sweep *sweep, const struct ks_trace *trace,
                                  uint32_t source, unsigned lanes, struct ks_arena *scratch,
                                  struct ks_err *err) KS_MUST_CHECK;
void ks_lane_sweep_close(struct ks_lane_sweep *sweep);
/* KS_OK: `*row` is the next one; KS_END: none is left. */
enum ks_status ks_lane_sweep_next(struct ks_lane_sweep *sweep, struct ks_sweep_row *row,
                                  struct ks_err *err) KS_MUST_CHECK;

#endif
