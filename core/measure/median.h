/* Medians of few numbers that come one after another, and what spoils them: an interval that holds
 * for any distribution, how long the start was different, values far from the rest.
 *
 * The interval is by order statistics: the median lies between the k-th smallest and the k-th
 * largest of n values except when fewer than k lie on one side of it, of which the binomial
 * distribution knows the chance (David and Nagaraja, "Order Statistics", 2003, 7.1). It is where a
 * percentile bootstrap of the median ends with endlessly many draws, to one order statistic (Efron,
 * "Bootstrap methods: another look at the jackknife", Ann. Stat. 7, 1979, 3), but is never too
 * narrow, and needs no draws. */
#ifndef KS_MEASURE_MEDIAN_H
#define KS_MEASURE_MEDIAN_H

#include <stddef.h>

#include "measure/bootstrap.h"

/* Of more values the chances below would be less than a double can hold. */
enum { KS_MEDIAN_VALUES_MAX = 1000, KS_WARM_UP_LEAST = 8 };

/* The median of `count` <= KS_MEDIAN_VALUES_MAX finite values, and an interval that holds it with
 * at least the chance `level` (0 to 1). Without values all is NaN; where so few values cannot
 * reach the level, low and high are. Reorders `values`. */
struct ks_estimate ks_median_estimate(double *values, size_t count, double level);

/* The fewest values of which the interval is known at this level. */
size_t ks_median_least_count(double level);

/* How many values at the start are left out, so that the mean of the rest is known best: the d of
 * at most half of the values that makes sum((x - mean)^2) / (count - d)^2 of the rest least (MSER;
 * White, "An effective truncation heuristic for bias reduction in simulation output", Simulation
 * 69, 1997). A start that does not at least halve that, as chance alone can, stays; fewer than
 * KS_WARM_UP_LEAST values have none. */
size_t ks_median_warm_up(const double *values, size_t count);

/* How many values are further from the median than five times 1.4826 of the median distance, which
 * is the standard deviation where values are normal. `scratch` has room for `count`. */
size_t ks_median_outliers(const double *values, size_t count, double *scratch);

#endif
