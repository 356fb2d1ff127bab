/* The lanes of threads: memory that children inherit, so that a thread's pointer to its lane stays
 * good over a fork. */
#ifndef KS_CAPTURE_SHARED_LANES_H
#define KS_CAPTURE_SHARED_LANES_H

#include "capture/shared/recorder.h"

enum { KS_LANES_MAX = 16384 };

struct ks_lane {
    struct ks_capture_lane window; /* what the thread sees; first, so that one is the other */
    struct ks_wire_slot *slot;     /* open, of `generation`; NULL none */
    uint64_t lost;                 /* events, of this generation */
    uint32_t generation;           /* of the file that number and sequence belong to */
    uint32_t number;               /* in the file; 0 none yet */
    uint32_t sequence;             /* of its next slot */
    uint32_t tid;                  /* 0: nobody's */
    uint32_t dropped_depth;        /* begins that were lost, and whose ends are to come */
};

/* The calling thread's lane, or NULL: it has none yet. */
struct ks_lane *ks_lane_own(void);
/* Takes one for the calling thread, after `close` where it was that of a thread that is gone; NULL:
 * all are taken. Needs the recorder's lock. */
struct ks_lane *ks_lane_take(bool is_tsc, void (*close)(struct ks_lane *lane));
/* The index-th lane that was ever taken, or NULL. */
struct ks_lane *ks_lane_at(uint32_t index);
/* Called when a thread ends that has a lane. */
void ks_lanes_on_thread_end(void (*callback)(struct ks_lane *lane));
/* In a child: only the thread's lane that made it is somebody's. `is_own` says that the caller is
 * this thread; where nobody knows which it is, no lane from before is given out again. */
void ks_lanes_after_fork(bool is_own, bool is_tsc);

#endif
