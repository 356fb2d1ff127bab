/* Goal: order statistics are those of the sorted list, sums stop at the ends. Method: random lists
 * with many equal values against qsort; the edges by hand. */
#include "measure/quantile.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "cmocka_all.h"
#include "measure/sum.h"
#include "numbers.h"

enum { LIST_MAX = 40, ROUNDS = 2000 };

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

static void test_rank(void **state)
{
    (void)state;
    struct numbers numbers = {5};
    for (int round = 0; round < ROUNDS; round++) {
        int64_t list[LIST_MAX];
        int64_t sorted[LIST_MAX];
        size_t count = 1 + (size_t)numbers_below(&numbers, LIST_MAX);
        for (size_t i = 0; i < count; i++) {
            sorted[i] = list[i] = (int64_t)numbers_below(&numbers, 12) - 6;
        }
        qsort(sorted, count, sizeof(*sorted), compare);
        size_t rank = (size_t)numbers_below(&numbers, count);
        assert_true(ks_quantile_rank(list, count, rank) == sorted[rank]);
        int64_t pair = sorted[(count - 1) / 2] + sorted[count / 2];
        int64_t floor_of_half = pair >= 0 ? pair / 2 : (pair - 1) / 2;
        assert_true(ks_quantile_median(list, count) == floor_of_half);
    }
}

static void test_median_does_not_overflow(void **state)
{
    (void)state;
    int64_t list[] = {INT64_MAX, INT64_MAX - 2};
    assert_true(ks_quantile_median(list, 2) == INT64_MAX - 1);
    int64_t ends[] = {INT64_MAX, INT64_MIN};
    assert_true(ks_quantile_median(ends, 2) == -1);
}

static void test_sums(void **state)
{
    (void)state;
    assert_true(ks_sum_add(1, 2) == 3);
    assert_true(ks_sum_add(INT64_MAX, 1) == INT64_MAX);
    assert_true(ks_sum_add(INT64_MIN, -1) == INT64_MIN);
    assert_true(ks_sum_add(INT64_MIN, INT64_MAX) == -1);
    assert_true(ks_sum_sub(INT64_MIN, 1) == INT64_MIN);
    assert_true(ks_sum_sub(INT64_MAX, -1) == INT64_MAX);
    assert_true(ks_sum_sub(0, INT64_MIN) == INT64_MAX);
    assert_true(ks_sum_sub(-1, INT64_MIN) == INT64_MAX);
    assert_true(ks_sum_scale(3, 4) == 12);
    assert_true(ks_sum_scale(INT64_MAX / 2, 3) == INT64_MAX);
    assert_true(ks_sum_scale(INT64_MAX, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rank),
        cmocka_unit_test(test_median_does_not_overflow),
        cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
