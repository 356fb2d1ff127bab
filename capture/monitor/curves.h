/* The curves that the monitor has drawn so far: written to the recording that is on, and kept in a
 * memory of fixed size, from which programs can ask for the latest values and for a summary. A
 * curve that is full goes on with points that stand for twice the time.
 *
 * Any thread may call; a lock is held for microseconds. */
#ifndef KS_CAPTURE_MONITOR_CURVES_H
#define KS_CAPTURE_MONITOR_CURVES_H

#include <pthread.h>

#include "capture/monitor/look.h"

enum {
    KS_CURVE_POINTS_MAX = 1024,
    KS_CURVES_WAITING_MAX = 2 * KS_LOOK_MAX,
};

/* What some values in a row were like. */
struct ks_curve_point {
    int64_t end_ns; /* monotonic, of the last of them */
    float seconds;  /* for which they hold; 0: the first value of something that is no rate */
    float mean, min, max;
};

struct ks_curve {
    uint32_t count;       /* whole points */
    uint32_t point_size;  /* values in a point; 0: there was none ever */
    uint32_t value_count; /* in the point behind the whole ones */
    bool was_paused;      /* nothing was measured between the last value and the next */
    double last;
    int64_t last_ns;
};

struct ks_curves {
    pthread_mutex_t lock;
    uint32_t generation; /* of the recording, which knows what these are called: */
    bool is_written[KS_SERIES_COUNT];
    /* Values that are in no curve yet. Each look touches the end of this list, and not all curves
     * all over the memory, which its caches would have forgotten in between. */
    uint32_t waiting_count;
    struct ks_curves_value {
        int64_t now_ns;
        struct ks_look_value value;
    } waiting[KS_CURVES_WAITING_MAX];
    struct ks_curve list[KS_SERIES_COUNT];
    /* Apart from these, so that curves that are not drawn take no memory. */
    struct ks_curve_point points[KS_SERIES_COUNT][KS_CURVE_POINTS_MAX];
};

/* What a curve was like between two moments. */
struct ks_curve_summary {
    double last, mean, min, max;
    double seconds; /* that the mean is of */
};

/* `curves` is zero: fresh memory of the kernel. */
void ks_curves_init(struct ks_curves *curves);
/* Nothing will be measured for a while: no value holds until the next one. */
void ks_curves_pause(struct ks_curves *curves);
void ks_curves_add(struct ks_curves *curves, const struct ks_look *look);
/* Of the points that end in (from, to]; false when there are none. Means are weighted by time
 * behind `from_ns`, so that of a rate is all that was counted by all of the time. */
bool ks_curves_summary(struct ks_curves *curves, uint32_t series, int64_t from_ns, int64_t to_ns,
                       struct ks_curve_summary *out);
/* Copies the points that end in (from, to] and gives their number. */
uint32_t ks_curves_points(struct ks_curves *curves, uint32_t series, int64_t from_ns, int64_t to_ns,
                          struct ks_curve_point out[KS_CURVE_POINTS_MAX]);

#endif
