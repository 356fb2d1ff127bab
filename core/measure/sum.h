/* Sums that stop at the ends of int64_t, so that no input can make a total wrap around. */
#ifndef KS_MEASURE_SUM_H
#define KS_MEASURE_SUM_H

#include <stdint.h>

static inline int64_t ks_sum_add(int64_t a, int64_t b)
{
    if (b > 0 && a > INT64_MAX - b) {
        return INT64_MAX;
    }
    if (b < 0 && a < INT64_MIN - b) {
        return INT64_MIN;
    }
    return a + b;
}

static inline int64_t ks_sum_sub(int64_t a, int64_t b)
{
    if (b < 0 && a > INT64_MAX + b) {
        return INT64_MAX;
    }
    if (b > 0 && a < INT64_MIN + b) {
        return INT64_MIN;
    }
    return a - b;
}

/* Product of two numbers that are not negative. */
static inline int64_t ks_sum_scale(int64_t a, int64_t b)
{
    return b != 0 && a > INT64_MAX / b ? INT64_MAX : a * b;
}

#endif
