#include "capture/monitor/look.h"

#define NS_PER_S 1e9
#define NS_PER_MS INT64_C(1000000)

/* Counts of the kernel grow by ticks: over less than this a rate is noise. */
enum { RATE_TIME_MIN_MS = 50 };

static void put_value(struct ks_look *look, const struct ks_look_value *value)
{
    if (look->count < KS_LOOK_MAX) {
        look->values[look->count++] = *value;
    }
}

void ks_look_put_of(struct ks_look *look, enum ks_metric metric, uint32_t index, double value,
                    double seconds)
{
    const struct ks_look_value plain = {
        .series = ks_series_of(metric, index), .seconds = (float)seconds, .value = value};
    put_value(look, &plain);
}

void ks_look_put(struct ks_look *look, enum ks_metric metric, double value)
{
    ks_look_put_of(look, metric, 0, value, 0);
}

/* ------------------------------------------------------------------ rates */

/* What the count grew by in a second, times `scale`, since it was seen last. */
static struct ks_look_rate take_rate(const struct ks_look *look, struct ks_look_count *count,
                                     uint64_t value, double scale)
{
    int64_t ns = look->now_ns - count->seen_ns;
    struct ks_look_rate rate = {0};
    if (count->seen_ns != 0 && ns > 0 && value >= count->value) {
        rate.value = (double)(value - count->value) * scale * NS_PER_S / (double)ns;
        rate.ns = ns;
    }
    count->value = value;
    count->seen_ns = look->now_ns;
    return rate;
}

static struct ks_look_rate join(struct ks_look_rate before, struct ks_look_rate now)
{
    int64_t ns = before.ns + now.ns;
    double share = (double)now.ns / (double)ns;
    return (struct ks_look_rate){.value = before.value + (now.value - before.value) * share,
                                 .ns = ns};
}

/* What is put of `now`. A last look comes when somebody stops, which may be a moment after another
 * look: then it is put as one with what was put `before`. */
static struct ks_look_rate settle(const struct ks_look *look, struct ks_look_rate before,
                                  struct ks_look_rate now)
{
    if (!look->is_last || now.ns == 0) {
        return now;
    }
    if (before.ns > 0) {
        return now.ns < before.ns / 2 ? join(before, now) : now;
    }
    return now.ns < RATE_TIME_MIN_MS * NS_PER_MS ? (struct ks_look_rate){0} : now;
}

struct ks_look_rate ks_look_put_after(struct ks_look *look, enum ks_metric metric, uint32_t index,
                                      struct ks_look_rate before, struct ks_look_rate now)
{
    struct ks_look_rate whole = settle(look, before, now);
    const struct ks_look_value value = {.series = ks_series_of(metric, index),
                                        .seconds = (float)((double)now.ns / NS_PER_S),
                                        .value = whole.value,
                                        .is_rest = whole.ns > now.ns,
                                        .rest = (float)now.value};
    if (whole.ns > 0) {
        put_value(look, &value);
    }
    return whole;
}

void ks_look_put_rate_of(struct ks_look *look, enum ks_metric metric, uint32_t index,
                         struct ks_look_count *count, uint64_t value, double scale)
{
    struct ks_look_rate now = take_rate(look, count, value, scale);
    count->rate = ks_look_put_after(look, metric, index, count->rate, now);
}

void ks_look_put_rate(struct ks_look *look, enum ks_metric metric, struct ks_look_count *count,
                      uint64_t value, double scale)
{
    ks_look_put_rate_of(look, metric, 0, count, value, scale);
}

/* ------------------------------------------------------------------ sums */

static double higher(double a, double b)
{
    return a > b ? a : b;
}

void ks_look_add_rate(struct ks_look_sum *sum, const struct ks_look *look,
                      struct ks_look_count *count, uint64_t value, double scale)
{
    struct ks_look_rate now = take_rate(look, count, value, scale);
    struct ks_look_rate whole = settle(look, count->rate, now);
    count->rate = whole;
    if (whole.ns > 0) {
        sum->is_known = true;
        sum->is_rest |= whole.ns > now.ns;
        sum->seconds = (double)now.ns / NS_PER_S;
        sum->total += whole.value;
        sum->max = higher(sum->max, whole.value);
        sum->rest_total += now.value;
        sum->rest_max = higher(sum->rest_max, now.value);
    }
}

static void put_sum(struct ks_look *look, enum ks_metric metric, const struct ks_look_sum *sum,
                    double value, double rest)
{
    const struct ks_look_value all = {.series = ks_series_of(metric, 0),
                                      .seconds = (float)sum->seconds,
                                      .value = value,
                                      .is_rest = sum->is_rest,
                                      .rest = (float)rest};
    if (sum->is_known) {
        put_value(look, &all);
    }
}

void ks_look_put_total(struct ks_look *look, enum ks_metric metric, const struct ks_look_sum *sum)
{
    put_sum(look, metric, sum, sum->total, sum->rest_total);
}

static double lower(double a, double b)
{
    return a < b ? a : b;
}

void ks_look_put_highest(struct ks_look *look, enum ks_metric metric, const struct ks_look_sum *sum,
                         double max)
{
    put_sum(look, metric, sum, lower(sum->max, max), lower(sum->rest_max, max));
}

/* ------------------------------------------------------------------ less often */

/* A look that comes a little early counts as the one that was meant. */
bool ks_look_is_due(const struct ks_look *look, int64_t *due_ns, int64_t period_ns)
{
    if (look->is_last) { /* others may go on: their next look is a whole period away */
        *due_ns = look->now_ns + period_ns;
        return true;
    }
    if (look->now_ns < *due_ns - period_ns / 20) {
        return false;
    }
    int64_t next = *due_ns + period_ns;
    *due_ns = next > look->now_ns ? next : look->now_ns + period_ns;
    return true;
}
