/* Order statistics of integers, in place and exact. */
#ifndef KS_MEASURE_QUANTILE_H
#define KS_MEASURE_QUANTILE_H

#include <stddef.h>
#include <stdint.h>

/* The value that would stand at `rank` (0-based, < count) of the sorted list. Reorders `values`. */
int64_t ks_quantile_rank(int64_t *values, size_t count, size_t rank);
/* Median: of an even number the mean of the middle two, rounded down. `count` >= 1. Reorders. */
int64_t ks_quantile_median(int64_t *values, size_t count);

#endif
