/* Step times that `kscope run` notes, in traces and in status files: a JSON array of ns. */
#ifndef KS_READ_STEP_TIMES_H
#define KS_READ_STEP_TIMES_H

#include "read/json_cursor.h"

enum { KS_STEP_TIMES_MAX = 1024 };

struct ks_step_times {
    size_t count;
    int64_t list[KS_STEP_TIMES_MAX]; /* ns, each above 0 */
};

/* Steps into an array; `*more` is false for an empty one, and for what is no array and is stepped
 * over. */
enum ks_json ks_json_open_array(struct ks_json_cursor *c, bool *more);
/* Takes the array at the cursor: what is no time in it, and what is past the limit, is left out. */
enum ks_json ks_step_times_take(struct ks_json_cursor *c, struct ks_step_times *times);
/* The time in the middle, the later of two; 0 without any. Reorders the list. */
int64_t ks_step_times_middle(struct ks_step_times *times);
/* 0 without any. */
int64_t ks_step_times_mean(const struct ks_step_times *times);
/* Half of the distance between the quarters of the list: half of the times lie no further from the
 * middle of these. 0 with fewer than eight. */
int64_t ks_step_times_spread(const struct ks_step_times *times);
/* How much longer than the middle one the long ones last, on average: those of 1.5 times its length
 * and more, but for what exceeds it by less than half as much as the third longest (the second one,
 * when two lie apart and three do not); 0 without any.
 * `*period`: how many steps they lie apart; 0 when fewer than two do, or not evenly. */
int64_t ks_step_times_stall(struct ks_step_times *times, int64_t *period);

#endif
