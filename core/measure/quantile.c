#include "measure/quantile.h"

#include "base/compiler.h"

static void swap(int64_t *a, int64_t *b)
{
    int64_t kept = *a;
    *a = *b;
    *b = kept;
}

static int64_t middle_of_three(int64_t a, int64_t b, int64_t c)
{
    if ((a <= b && b <= c) || (c <= b && b <= a)) {
        return b;
    }
    return (b <= a && a <= c) || (c <= a && a <= b) ? a : c;
}

/* Quickselect with a three-way split, so that many equal values stay linear. */
int64_t ks_quantile_rank(int64_t *values, size_t count, size_t rank)
{
    KS_ASSERT(rank < count);
    size_t begin = 0;
    size_t end = count;
    while (end - begin > 1) {
        int64_t pivot =
            middle_of_three(values[begin], values[begin + (end - begin) / 2], values[end - 1]);
        size_t less = begin; /* [begin, less) < pivot, [less, next) == pivot, [more, end) > pivot */
        size_t next = begin;
        size_t more = end;
        while (next < more) {
            if (values[next] < pivot) {
                swap(&values[less++], &values[next++]);
            } else if (values[next] > pivot) {
                swap(&values[next], &values[--more]);
            } else {
                next++;
            }
        }
        if (rank < less) {
            end = less;
        } else if (rank >= more) {
            begin = more;
        } else {
            return pivot;
        }
    }
    return values[begin];
}

int64_t ks_quantile_median(int64_t *values, size_t count)
{
    KS_ASSERT(count > 0);
    int64_t high = ks_quantile_rank(values, count, count / 2);
    if (count % 2 == 1) {
        return high;
    }
    int64_t low = values[0]; /* the largest of the lower half, which now lies before count / 2 */
    for (size_t i = 1; i < count / 2; i++) {
        low = values[i] > low ? values[i] : low;
    }
    /* The floor of the mean without overflow. */
    return (low >> 1) + (high >> 1) + (low & high & 1);
}
