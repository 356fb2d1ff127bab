/* Could an allocation of some size be served, and if not, why: for what ran out of memory in the
 * trace, and for a size that somebody asks about. Only what the numbers support is said. */
#ifndef KS_SNAPSHOT_PRESSURE_H
#define KS_SNAPSHOT_PRESSURE_H

#include "snapshot/timeline.h"

enum ks_pressure_verdict {
    KS_PRESSURE_FITS,       /* a free piece is large enough */
    KS_PRESSURE_ELSEWHERE,  /* one is, yet it failed: it belongs to another pool or stream */
    KS_PRESSURE_FRAGMENTED, /* free pieces together are, none alone: expandable segments help */
    KS_PRESSURE_EXPANDABLE, /* the same, though segments are expandable already */
    KS_PRESSURE_LIMITED,    /* the device had enough, yet it failed */
    KS_PRESSURE_SHORT,      /* not even all free memory together is enough */
    KS_PRESSURE_UNKNOWN,    /* the cache alone cannot; what the device has free is not known */
};

struct ks_pressure {
    int32_t device;
    bool is_event; /* ran out of memory in the trace; else somebody asks */
    bool is_exact; /* of the end state; else worked out from the trace, with rounding guessed */
    int64_t asked;
    int64_t device_free; /* -1: not known */
    int64_t time_us;     /* -1: not known */
    uint32_t stack;      /* what asked */
    int64_t reserved;
    int64_t held; /* by blocks, with rounding */
    int64_t free; /* reserved and free */
    int64_t free_largest;
    int64_t free_usable; /* in whole pages of 2 MiB, which can be given another place */
    size_t free_count;
    int64_t missing; /* KS_PRESSURE_SHORT: so much more is needed at least */
    enum ks_pressure_verdict verdict;
};

enum { KS_PRESSURE_EVENTS_MAX = 3 };

struct ks_pressure_list {
    struct ks_pressure *items;
    size_t count;
    size_t event_total; /* how often memory ran out, listed or not */
};

/* One for each of the last KS_PRESSURE_EVENTS_MAX times that memory ran out on a device, in their
 * order, then with `asked` above 0 one for each device. */
enum ks_status ks_pressures_compute(const struct ks_snapshot *snapshot,
                                    const struct ks_timeline_list *timelines, int64_t asked,
                                    struct ks_arena *arena, struct ks_pressure_list *out,
                                    struct ks_err *err) KS_MUST_CHECK;

#endif
