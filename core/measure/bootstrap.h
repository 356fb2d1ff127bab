/* How far apart the means of two lists of numbers are, and how sure that is: symmetric bootstrap-t
 * intervals (Hall, "On symmetric bootstrap confidence intervals", J. R. Stat. Soc. B 50, 1988;
 * Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, 12.5) of smoothed draws
 * (Hesterberg, "What teachers should know about the bootstrap", Am. Stat. 69, 2015: noise of
 * s / sqrt(n)). Percentile intervals are too narrow for the four steps that a window often has:
 * of runs that are alike they take 15 % for different where 5 % are promised. Without the
 * noise draws of few values that lie together make intervals of any width.
 *
 * The same numbers give the same interval: draws come from a generator with a fixed seed. Nothing
 * is allocated. What the values share, such as the clock of a GPU in one run and not in the other,
 * no resampling can see. */
#ifndef KS_MEASURE_BOOTSTRAP_H
#define KS_MEASURE_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>

/* Of longer lists the quantile is that of the normal distribution, which it comes to anyway. */
enum { KS_BOOTSTRAP_ROUNDS = 1999, KS_BOOTSTRAP_VALUES_MAX = 10000 };

/* How often an interval holds the true value. At the usual 95 %, six or more of a hundred runs
 * that are compared with themselves are called different in every third try; at this, in one of
 * twelve. */
#define KS_BOOTSTRAP_LEVEL 0.97

/* A value and its interval; NaN: not known. */
struct ks_estimate {
    double value;
    double low;
    double high;
};

struct ks_difference {
    struct ks_estimate change; /* mean of b - mean of a */
    struct ks_estimate ratio;  /* mean of b / mean of a, when both are positive */
};

/* Mean of a list; its interval wants two values. */
struct ks_estimate ks_bootstrap_mean(const double *values, size_t count);
/* Values are finite; intervals want two values on each side. */
struct ks_difference ks_bootstrap_difference(const double *a, size_t a_count, const double *b,
                                             size_t b_count);

#endif
