/* How many steps of a process had ended at some moments, as its status file tells: two arrays side
 * by side, the oldest moment first. From anybody's file: what does not grow is not used. */
#ifndef KS_READ_STEP_PACE_H
#define KS_READ_STEP_PACE_H

#include "read/json_cursor.h"

enum { KS_STEP_PACE_MAX = KS_LIVE_RATES_MAX + 1 };

struct ks_step_pace {
    size_t count;      /* of moments, once they are settled */
    size_t step_count; /* items taken of each array */
    size_t time_count;
    int64_t steps[KS_STEP_PACE_MAX];
    int64_t time_ns[KS_STEP_PACE_MAX]; /* Unix time */
};

/* Take the array at the cursor; of a longer one its end. */
enum ks_json ks_step_pace_take_steps(struct ks_json_cursor *c, struct ks_step_pace *pace);
enum ks_json ks_step_pace_take_times(struct ks_json_cursor *c, struct ks_step_pace *pace);
/* Keeps the latest moments between which steps and time both grow: before them it was another
 * count, or a clock that was set. None is kept when the arrays are not of one length. */
void ks_step_pace_settle(struct ks_step_pace *pace);
/* Steps a second in the ten seconds before the latest moment, or since the moment before it; NaN
 * with fewer than two moments. */
double ks_step_pace_now(const struct ks_step_pace *pace);
/* Steps a second between each two moments; gives how many. */
size_t ks_step_pace_rates(const struct ks_step_pace *pace, double rates[KS_LIVE_RATES_MAX]);

#endif
