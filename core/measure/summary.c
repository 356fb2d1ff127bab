/* Mean, spread, quantiles and slope of numbers that a program took. */
#include <math.h>
#include <stdlib.h>

#include <kscope/kscope.h>

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Between the two values beside the rank `share` * (count - 1), by how near they are. */
static double quantile(const double *sorted, size_t count, double share)
{
    double rank = share * (double)(count - 1);
    size_t below = (size_t)rank;
    double part = rank - (double)below;
    size_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (sorted[above] - sorted[below]) * part;
}

/* In two passes: the difference of two large sums would lose what is asked for. */
static double spread(const double *values, size_t count, double mean)
{
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        squares += (values[i] - mean) * (values[i] - mean);
    }
    return count > 1 ? sqrt(squares / (double)(count - 1)) : 0;
}

struct ks_summary ks_summarize(double *values, size_t count)
{
    struct ks_summary out = {.count = count};
    if (count == 0) {
        return out;
    }
    qsort(values, count, sizeof(*values), compare);
    for (size_t i = 0; i < count; i++) {
        out.total += values[i];
    }
    out.mean = out.total / (double)count;
    out.std = spread(values, count, out.mean);
    out.min = values[0];
    out.max = values[count - 1];
    out.p50 = quantile(values, count, 0.50);
    out.p90 = quantile(values, count, 0.90);
    out.p95 = quantile(values, count, 0.95);
    out.p99 = quantile(values, count, 0.99);
    return out;
}

double ks_slope(const double *x, const double *y, size_t count)
{
    double mean_x = 0;
    double mean_y = 0;
    for (size_t i = 0; i < count; i++) {
        mean_x += x[i] / (double)count;
        mean_y += y[i] / (double)count;
    }
    double together = 0;
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        together += (x[i] - mean_x) * (y[i] - mean_y);
        squares += (x[i] - mean_x) * (x[i] - mean_x);
    }
    return squares > 0 ? together / squares : 0;
}
