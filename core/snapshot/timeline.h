/* What a snapshot's trace says about the time before it: how much was held after each event, the
 * peak and who held it, what was allocated meanwhile and never freed.
 *
 * The trace is the end of a longer story: its first events are lost when the ring was full, and it
 * frees what was allocated before it began. So the state at its start comes from the state at its
 * end: what is there and was not allocated in the trace was there before, and so was what is freed
 * without having been allocated. Sizes are those of events, as the program asked for them, without
 * rounding. */
#ifndef KS_SNAPSHOT_TIMELINE_H
#define KS_SNAPSHOT_TIMELINE_H

#include "snapshot/holders.h"

enum { KS_CURVE_POINTS_MAX = 120 };

/* The life of one allocation. Moments are counted in events: moment 0 is before the first event of
 * the device, moment i + 1 after event i. It is held at moments [birth, death). */
struct ks_span {
    uint64_t address;
    int64_t size;
    size_t birth;     /* 0: before the trace */
    size_t requested; /* moment from which on the program has freed it; SIZE_MAX: never */
    size_t death;     /* SIZE_MAX: never */
    size_t block;     /* of the snapshot, at the end of the trace; SIZE_MAX: none */
    uint32_t stack;
};

struct ks_curve_point {
    int64_t time_us;
    int64_t active;
    int64_t reserved;
};

/* Levels at the ends of steps. */
struct ks_step_growth {
    struct ks_strid name; /* of what ends the steps; 0: there are no steps */
    size_t step_count;
    int64_t first;
    int64_t last;
    int64_t per_step; /* (last - first) / (steps - 1) */
    bool is_steady;   /* it grew in each step */
};

struct ks_timeline {
    int32_t device;
    size_t event_count;
    size_t first_event; /* of the snapshot's events */
    int64_t start_us;   /* -1: events have no times */
    int64_t end_us;
    size_t counts[KS_SNAP_ACTION_COUNT];
    int64_t active_start, active_end, active_peak;
    int64_t allocated_start, allocated_end, allocated_peak;
    int64_t reserved_start, reserved_end, reserved_peak;
    bool has_reserved;   /* the trace tells of all segments that the end state has */
    size_t peak_moment;  /* the first one of the highest */
    int64_t peak_us;     /* -1: no times */
    int64_t peak_before; /* of the peak: bytes that were there before the trace began */
    struct ks_holder_list peak_by_stack, peak_by_place;
    int64_t born_bytes; /* allocated in the trace and held at its end */
    size_t born_count;
    struct ks_holder_list born_by_stack, born_by_place;
    struct ks_step_growth growth;
    struct ks_curve_point curve[KS_CURVE_POINTS_MAX];
    size_t curve_count;
    struct ks_span *spans; /* in no order */
    size_t span_count;
};

struct ks_timeline_list {
    struct ks_timeline *items;
    size_t count;
};

/* One for each device that has events. Adds to the snapshot's notes. */
enum ks_status ks_timelines_compute(struct ks_snapshot *snapshot, struct ks_arena *arena,
                                    struct ks_timeline_list *out, struct ks_err *err) KS_MUST_CHECK;

static inline bool ks_span_is_held(const struct ks_span *span, size_t moment)
{
    return span->birth <= moment && moment < span->death;
}

#endif
