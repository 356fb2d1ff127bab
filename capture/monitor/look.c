#include "capture/monitor/look.h"

#define NS_PER_S 1e9

void ks_look_put_of(struct ks_look *look, enum ks_metric metric, uint32_t index, double value,
                    double seconds)
{
    if (look->count < KS_LOOK_MAX) {
        look->values[look->count++] = (struct ks_look_value){
            .series = ks_series_of(metric, index), .seconds = (float)seconds, .value = value};
    }
}

void ks_look_put(struct ks_look *look, enum ks_metric metric, double value)
{
    ks_look_put_of(look, metric, 0, value, 0);
}

/* In a second, times `scale`; false: not known. */
static bool take_rate(const struct ks_look *look, struct ks_look_count *count, uint64_t value,
                      double scale, double *rate, double *seconds)
{
    int64_t ns = look->now_ns - count->seen_ns;
    bool is_known = count->seen_ns != 0 && ns > 0 && value >= count->value;
    if (is_known) {
        *seconds = (double)ns / NS_PER_S;
        *rate = (double)(value - count->value) * scale / *seconds;
    }
    *count = (struct ks_look_count){.value = value, .seen_ns = look->now_ns};
    return is_known;
}

void ks_look_put_rate_of(struct ks_look *look, enum ks_metric metric, uint32_t index,
                         struct ks_look_count *count, uint64_t value, double scale)
{
    double rate = 0;
    double seconds = 0;
    if (take_rate(look, count, value, scale, &rate, &seconds)) {
        ks_look_put_of(look, metric, index, rate, seconds);
    }
}

void ks_look_add_rate(struct ks_look_sum *sum, const struct ks_look *look,
                      struct ks_look_count *count, uint64_t value, double scale)
{
    double rate = 0;
    if (take_rate(look, count, value, scale, &rate, &sum->seconds)) {
        sum->is_known = true;
        sum->total += rate;
        sum->max = rate > sum->max ? rate : sum->max;
    }
}

void ks_look_put_sum(struct ks_look *look, enum ks_metric metric, const struct ks_look_sum *sum,
                     double value)
{
    if (sum->is_known) {
        ks_look_put_of(look, metric, 0, value, sum->seconds);
    }
}

void ks_look_put_rate(struct ks_look *look, enum ks_metric metric, struct ks_look_count *count,
                      uint64_t value, double scale)
{
    ks_look_put_rate_of(look, metric, 0, count, value, scale);
}

/* A look that comes a little early counts as the one that was meant. */
bool ks_look_is_due(const struct ks_look *look, int64_t *due_ns, int64_t period_ns)
{
    if (look->now_ns < *due_ns - period_ns / 20) {
        return false;
    }
    int64_t next = *due_ns + period_ns;
    *due_ns = next > look->now_ns ? next : look->now_ns + period_ns;
    return true;
}
