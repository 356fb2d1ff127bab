#include "measure/bootstrap.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static const double NORMAL_QUANTILE = 2.17009037758456; /* of 98.5 % */

struct moments {
    double mean;
    double error2; /* square of the mean's standard error */
};

/* In two passes, as the difference of two large sums would lose what is asked for. */
static struct moments moments_of(const double *values, size_t count)
{
    struct moments m = {0, 0};
    for (size_t i = 0; i < count; i++) {
        m.mean += values[i] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        m.error2 += (values[i] - m.mean) * (values[i] - m.mean);
    }
    m.error2 = count > 1 ? m.error2 / (double)(count - 1) / (double)count : 0;
    return m;
}

/* ------------------------------------------------------------------ drawing */

/* SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static size_t draw_below(uint64_t *state, size_t count)
{
    return (size_t)((draw(state) >> 32) * (uint64_t)count >> 32);
}

/* Noise with mean 0 and standard deviation 1, near to normal: the sum of four even numbers, which
 * has no rounding that depends on a library. */
static double draw_noise(uint64_t *state)
{
    static const double deviation = 37837.227; /* of the sum: 65536 * sqrt(4 / 12) */
    uint64_t bits = draw(state);
    uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
    return ((double)sum - 2.0 * 0xffff) / deviation;
}

/* Moments of as many values drawn with replacement, and smoothed: by how they differ from the mean,
 * so that one pass loses nothing. */
static struct moments resample(const double *values, size_t count, struct moments whole,
                               uint64_t *state)
{
    double noise = sqrt(whole.error2);
    double sum = 0;
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        double off = values[draw_below(state, count)] - whole.mean + noise * draw_noise(state);
        sum += off;
        squares += off * off;
    }
    double n = (double)count;
    double spread = squares - sum * sum / n;
    return (struct moments){whole.mean + sum / n,
                            spread > 0 && count > 1 ? spread / (n - 1) / n : 0};
}

/* ------------------------------------------------------------------ quantiles */

/* Distances of the draws from what was measured, in standard errors of the draw. */
struct studentized {
    double t[KS_BOOTSTRAP_ROUNDS];
    size_t count;
};

/* A draw in which nothing varies, as of values that are all alike, says nothing of t. */
static void note(struct studentized *list, double distance, double error2, double error2_whole)
{
    if (error2 > error2_whole * DBL_EPSILON) {
        list->t[list->count++] = fabs(distance) / sqrt(error2);
    }
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The distance that KS_BOOTSTRAP_LEVEL of the draws keep; NaN without any. */
static double quantile(struct studentized *list)
{
    if (list->count == 0) {
        return (double)NAN;
    }
    qsort(list->t, list->count, sizeof(*list->t), compare);
    size_t rank = (size_t)ceil(KS_BOOTSTRAP_LEVEL * (double)(list->count + 1));
    return list->t[rank < list->count ? rank - 1 : list->count - 1];
}

/* Values that are all alike leave no doubt. */
static struct ks_estimate estimate(double value, double error2, double t)
{
    double reach = error2 > 0 ? t * sqrt(error2) : 0;
    return (struct ks_estimate){value, value - reach, value + reach};
}

static struct ks_estimate unknown(double value)
{
    return (struct ks_estimate){value, (double)NAN, (double)NAN};
}

/* ------------------------------------------------------------------ one list, two lists */

struct ks_estimate ks_bootstrap_mean(const double *values, size_t count)
{
    struct moments whole = moments_of(values, count);
    if (count < 2) {
        return unknown(count > 0 ? whole.mean : (double)NAN);
    }
    if (count > KS_BOOTSTRAP_VALUES_MAX) {
        return estimate(whole.mean, whole.error2, NORMAL_QUANTILE);
    }
    struct studentized list = {.count = 0};
    uint64_t state = count;
    for (int i = 0; i < KS_BOOTSTRAP_ROUNDS; i++) {
        struct moments one = resample(values, count, whole, &state);
        note(&list, one.mean - whole.mean, one.error2, whole.error2);
    }
    return estimate(whole.mean, whole.error2, quantile(&list));
}

/* Relative error of a mean, for the logarithm of a ratio (delta method). */
static double relative2(struct moments m)
{
    return m.error2 / (m.mean * m.mean);
}

static struct ks_estimate as_ratio(double log_ratio, double error2, double t)
{
    struct ks_estimate log_of = estimate(log_ratio, error2, t);
    return (struct ks_estimate){exp(log_of.value), exp(log_of.low), exp(log_of.high)};
}

struct ks_difference ks_bootstrap_difference(const double *a, size_t a_count, const double *b,
                                             size_t b_count)
{
    struct moments of_a = moments_of(a, a_count);
    struct moments of_b = moments_of(b, b_count);
    double change = of_b.mean - of_a.mean;
    bool has_ratio = of_a.mean > 0 && of_b.mean > 0;
    double log_ratio = has_ratio ? log(of_b.mean / of_a.mean) : (double)NAN;
    if (a_count < 2 || b_count < 2) {
        bool is_known = a_count > 0 && b_count > 0;
        return (struct ks_difference){unknown(is_known ? change : (double)NAN),
                                      unknown(is_known ? exp(log_ratio) : (double)NAN)};
    }
    double error2 = of_a.error2 + of_b.error2;
    double log_error2 = has_ratio ? relative2(of_a) + relative2(of_b) : (double)NAN;
    if (a_count > KS_BOOTSTRAP_VALUES_MAX || b_count > KS_BOOTSTRAP_VALUES_MAX) {
        return (struct ks_difference){estimate(change, error2, NORMAL_QUANTILE),
                                      as_ratio(log_ratio, log_error2, NORMAL_QUANTILE)};
    }
    struct studentized of_change = {.count = 0};
    struct studentized of_ratio = {.count = 0};
    uint64_t state = a_count << 32 | b_count;
    for (int i = 0; i < KS_BOOTSTRAP_ROUNDS; i++) {
        struct moments one = resample(a, a_count, of_a, &state);
        struct moments two = resample(b, b_count, of_b, &state);
        note(&of_change, two.mean - one.mean - change, one.error2 + two.error2, error2);
        if (has_ratio && one.mean > 0 && two.mean > 0) {
            note(&of_ratio, log(two.mean / one.mean) - log_ratio, relative2(one) + relative2(two),
                 log_error2);
        }
    }
    return (struct ks_difference){estimate(change, error2, quantile(&of_change)),
                                  as_ratio(log_ratio, log_error2, quantile(&of_ratio))};
}
