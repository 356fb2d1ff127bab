#include "read/step_pace.h"

#include <math.h>

#include "read/json_members.h"
#include "read/step_times.h"

static const int64_t NOW_NS = 10000000000LL;
/* Sums and differences of smaller numbers cannot overflow. */
static const int64_t VALUE_MAX = INT64_MAX / 4;

/* What is no number counts as 0, so that the two arrays stay side by side. */
static enum ks_json take_list(struct ks_json_cursor *c, int64_t *list, size_t *count)
{
    bool more;
    *count = 0;
    enum ks_json step = ks_json_open_array(c, &more);
    while (step == KS_JSON_OK && more) {
        int64_t value = 0;
        step = ks_json_take_number(c, &value);
        if (*count == KS_STEP_PACE_MAX) {
            memmove(list, list + 1, (KS_STEP_PACE_MAX - 1) * sizeof(*list));
            *count -= 1;
        }
        list[*count] = value;
        *count += 1;
        step = step == KS_JSON_OK ? ks_json_next(c, ']', &more) : step;
    }
    return step;
}

enum ks_json ks_step_pace_take_steps(struct ks_json_cursor *c, struct ks_step_pace *pace)
{
    return take_list(c, pace->steps, &pace->step_count);
}

enum ks_json ks_step_pace_take_times(struct ks_json_cursor *c, struct ks_step_pace *pace)
{
    return take_list(c, pace->time_ns, &pace->time_count);
}

static bool is_usable(const struct ks_step_pace *pace, size_t i)
{
    return pace->steps[i] > 0 && pace->steps[i] < VALUE_MAX && pace->time_ns[i] > 0 &&
           pace->time_ns[i] < VALUE_MAX;
}

void ks_step_pace_settle(struct ks_step_pace *pace)
{
    size_t end = pace->step_count == pace->time_count ? pace->step_count : 0;
    size_t from = end;
    while (from > 0 && is_usable(pace, from - 1) &&
           (from == end || (pace->steps[from - 1] < pace->steps[from] &&
                            pace->time_ns[from - 1] < pace->time_ns[from]))) {
        from--;
    }
    pace->count = end - from;
    memmove(pace->steps, pace->steps + from, pace->count * sizeof(*pace->steps));
    memmove(pace->time_ns, pace->time_ns + from, pace->count * sizeof(*pace->time_ns));
}

static double rate_between(const struct ks_step_pace *pace, size_t from, size_t to)
{
    double seconds = (double)(pace->time_ns[to] - pace->time_ns[from]) / 1e9;
    return (double)(pace->steps[to] - pace->steps[from]) / seconds;
}

double ks_step_pace_now(const struct ks_step_pace *pace)
{
    if (pace->count < 2) {
        return (double)NAN;
    }
    size_t last = pace->count - 1;
    size_t from = last - 1;
    while (from > 0 && pace->time_ns[last] - pace->time_ns[from - 1] <= NOW_NS) {
        from--;
    }
    return rate_between(pace, from, last);
}

size_t ks_step_pace_rates(const struct ks_step_pace *pace, double rates[KS_LIVE_RATES_MAX])
{
    for (size_t i = 1; i < pace->count; i++) {
        rates[i - 1] = rate_between(pace, i - 1, i);
    }
    return pace->count > 0 ? pace->count - 1 : 0;
}
