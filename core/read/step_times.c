#include "read/step_times.h"

#include <stdlib.h>

#include "read/json_members.h"

enum { SPREAD_MIN = 8 };

enum ks_json ks_json_open_array(struct ks_json_cursor *c, bool *more)
{
    char ch;
    *more = false;
    enum ks_json step = ks_json_peek(c, &ch);
    if (step != KS_JSON_OK || ch != '[') {
        return step == KS_JSON_OK ? ks_json_skip(c) : step;
    }
    c->at++;
    step = ks_json_peek(c, &ch);
    *more = step == KS_JSON_OK && ch != ']';
    c->at += step == KS_JSON_OK && !*more;
    return step;
}

enum ks_json ks_step_times_take(struct ks_json_cursor *c, struct ks_step_times *times)
{
    bool more;
    times->count = 0;
    enum ks_json step = ks_json_open_array(c, &more);
    while (step == KS_JSON_OK && more) {
        int64_t value = 0;
        step = ks_json_take_number(c, &value);
        step = step == KS_JSON_OK ? ks_json_next(c, ']', &more) : step;
        bool is_time = value > 0 && value <= INT64_MAX / KS_STEP_TIMES_MAX; /* all add up */
        if (is_time && times->count < KS_STEP_TIMES_MAX) {
            times->list[times->count++] = value;
        }
    }
    return step;
}

static int compare_int64(const void *a, const void *b)
{
    const int64_t *x = a;
    const int64_t *y = b;
    return (*x > *y) - (*x < *y);
}

int64_t ks_step_times_middle(struct ks_step_times *times)
{
    qsort(times->list, times->count, sizeof(times->list[0]), compare_int64);
    return times->count > 0 ? times->list[times->count / 2] : 0;
}

int64_t ks_step_times_mean(const struct ks_step_times *times)
{
    int64_t sum_ns = 0;
    for (size_t i = 0; i < times->count; i++) {
        sum_ns += times->list[i];
    }
    return times->count > 0 ? sum_ns / (int64_t)times->count : 0;
}

int64_t ks_step_times_spread(const struct ks_step_times *times)
{
    struct ks_step_times sorted = *times;
    if (times->count < SPREAD_MIN) {
        return 0;
    }
    ks_step_times_middle(&sorted);
    size_t quarter = times->count / 4;
    return (sorted.list[times->count - 1 - quarter] - sorted.list[quarter]) / 2;
}

/* From here on, a step is a long one when at least `stalls` are. */
static int64_t long_from(const struct ks_step_times *sorted, int64_t usual_ns, size_t stalls)
{
    int64_t least_ns = sorted->count >= stalls ? sorted->list[sorted->count - stalls] : 0;
    int64_t half_ns = least_ns > usual_ns ? (least_ns - usual_ns) / 2 : 0;
    return usual_ns + (half_ns > usual_ns / 2 ? half_ns : usual_ns / 2);
}

/* Distance of the long steps; 0: fewer than two, or not the same, or next to each other. */
static int64_t period_of(const struct ks_step_times *times, int64_t long_ns)
{
    size_t period = 0;
    size_t last = times->count;
    for (size_t i = 0; i < times->count; i++) {
        if (times->list[i] < long_ns) {
            continue;
        }
        if (last < times->count) {
            if (i - last < 2 || (period > 0 && i - last != period)) {
                return 0;
            }
            period = i - last;
        }
        last = i;
    }
    return (int64_t)period;
}

int64_t ks_step_times_stall(struct ks_step_times *times, int64_t *period)
{
    struct ks_step_times sorted = *times;
    int64_t usual_ns = ks_step_times_middle(&sorted);
    int64_t least_ns = long_from(&sorted, usual_ns, 3);
    *period = period_of(times, least_ns);
    int64_t of_two_ns = long_from(&sorted, usual_ns, 2);
    if (*period == 0 && period_of(times, of_two_ns) > 0) {
        least_ns = of_two_ns; /* the third one is no stall */
        *period = period_of(times, least_ns);
    }
    int64_t excess_ns = 0;
    int64_t count = 0;
    for (size_t i = 0; i < times->count; i++) {
        if (times->list[i] >= least_ns) {
            excess_ns += times->list[i] - usual_ns;
            count++;
        }
    }
    return count > 0 ? excess_ns / count : 0;
}
