#include "read/step_times.h"

#include <stdlib.h>

#include "read/json_members.h"

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

int64_t ks_step_times_stall(struct ks_step_times *times)
{
    enum { STALLS_MIN = 3 };
    int64_t usual_ns = ks_step_times_middle(times);
    int64_t third_ns = times->count >= STALLS_MIN ? times->list[times->count - STALLS_MIN] : 0;
    int64_t half_ns = third_ns > usual_ns ? (third_ns - usual_ns) / 2 : 0;
    int64_t least_ns = usual_ns + (half_ns > usual_ns / 2 ? half_ns : usual_ns / 2);
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
