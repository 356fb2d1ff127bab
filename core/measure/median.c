#include "measure/median.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double middle(const double *sorted, size_t count)
{
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

/* The largest k for which fewer than k of `count` values lie on one given side of the median with a
 * chance of at most `side`. 0: none. */
static size_t order_of(size_t count, double side)
{
    double term = ldexp(1, -(int)count); /* chance of exactly `k` values on that side */
    double below = 0;
    size_t k = 0;
    while (k < count && below + term <= side) {
        below += term;
        term *= (double)(count - k) / (double)(k + 1);
        k++;
    }
    return k;
}

struct ks_estimate ks_median_estimate(double *values, size_t count, double level)
{
    struct ks_estimate estimate = {(double)NAN, (double)NAN, (double)NAN};
    if (count == 0) {
        return estimate;
    }
    qsort(values, count, sizeof(*values), compare);
    estimate.value = middle(values, count);
    size_t k = order_of(count, (1 - level) / 2);
    if (k > 0) {
        estimate.low = values[k - 1];
        estimate.high = values[count - k];
    }
    return estimate;
}

size_t ks_median_least_count(double level)
{
    size_t count = 1;
    while (count < KS_MEDIAN_VALUES_MAX && order_of(count, (1 - level) / 2) == 0) {
        count++;
    }
    return count;
}

/* Squared distance of all values from their mean, over the square of their number. */
static double spread_of(const double *values, size_t count)
{
    double mean = 0;
    for (size_t i = 0; i < count; i++) {
        mean += values[i] / (double)count;
    }
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        squares += (values[i] - mean) * (values[i] - mean);
    }
    return squares / (double)count / (double)count;
}

size_t ks_median_warm_up(const double *values, size_t count)
{
    if (count < KS_WARM_UP_LEAST) {
        return 0;
    }
    size_t best = 0;
    double whole = spread_of(values, count);
    double least = whole;
    for (size_t d = 1; d <= count / 2; d++) {
        double spread = spread_of(values + d, count - d);
        if (spread < least) {
            least = spread;
            best = d;
        }
    }
    return least < whole / 2 ? best : 0;
}

size_t ks_median_outliers(const double *values, size_t count, double *scratch)
{
    if (count == 0) {
        return 0;
    }
    memcpy(scratch, values, count * sizeof(*values));
    qsort(scratch, count, sizeof(*scratch), compare);
    double median = middle(scratch, count);
    for (size_t i = 0; i < count; i++) {
        scratch[i] = fabs(values[i] - median);
    }
    qsort(scratch, count, sizeof(*scratch), compare);
    double reach = 5 * 1.4826 * middle(scratch, count);
    size_t outliers = 0;
    for (size_t i = 0; i < count; i++) {
        outliers += fabs(values[i] - median) > reach;
    }
    return outliers;
}
