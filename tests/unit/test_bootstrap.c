/* Goal: intervals of means and of their differences are as wide as they promise, and the same each
 * time. Method: properties that hold whatever is drawn; lists of which the truth is known, of which
 * at least 96 in 100 intervals hold it. An independent twin is tests/oracle/test_compare_oracle.py.
 */
#include "measure/bootstrap.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "cmocka_all.h"
#include "numbers.h"

enum { ROUNDS = 400, LONG = KS_BOOTSTRAP_VALUES_MAX + 1 };

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(1.0, fabs(a));
}

static bool is_same(const struct ks_estimate *a, const struct ks_estimate *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* About normal, by the sum of twelve even numbers. */
static double draw(struct numbers *numbers, double mean, double spread)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        sum += (double)numbers_below(numbers, 1000000) / 1e6;
    }
    return mean + spread * sum;
}

static void test_few_values(void **state)
{
    (void)state;
    const double one[] = {7};
    struct ks_estimate mean = ks_bootstrap_mean(one, 1);
    assert_true(is_near(mean.value, 7) && isnan(mean.low) && isnan(mean.high));
    assert_true(isnan(ks_bootstrap_mean(one, 0).value));
    const double two[] = {1, 3};
    struct ks_difference d = ks_bootstrap_difference(one, 1, two, 2);
    assert_true(is_near(d.change.value, -5) && isnan(d.change.low));
    assert_true(is_near(d.ratio.value, 2.0 / 7) && isnan(d.ratio.high));
    assert_true(isnan(ks_bootstrap_difference(one, 0, two, 2).change.value));
}

static void test_what_is_alike_leaves_no_doubt(void **state)
{
    (void)state;
    const double a[] = {4, 4, 4};
    const double b[] = {6, 6, 6, 6};
    struct ks_difference d = ks_bootstrap_difference(a, 3, b, 4);
    assert_true(is_near(d.change.low, 2) && is_near(d.change.high, 2));
    assert_true(is_near(d.ratio.low, 1.5) && is_near(d.ratio.high, 1.5));
}

static void test_no_ratio_without_positive_means(void **state)
{
    (void)state;
    const double a[] = {0, 0, 0};
    const double b[] = {1, 2, 3};
    struct ks_difference d = ks_bootstrap_difference(a, 3, b, 3);
    assert_true(isnan(d.ratio.value) && isnan(d.ratio.low) && is_near(d.change.value, 2));
    assert_true(d.change.low < 2 && d.change.high > 2);
}

/* Twice the same; the other way round it is the mirror image but for what is drawn; a shift of both
 * changes no difference, a factor no ratio. */
static void test_properties(void **state)
{
    (void)state;
    const double a[] = {10.5, 11, 12.25, 10};
    const double b[] = {20, 24.5, 21};
    double a_moved[4];
    double b_moved[3];
    struct ks_difference d = ks_bootstrap_difference(a, 4, b, 3);
    struct ks_difference again = ks_bootstrap_difference(a, 4, b, 3);
    assert_true(is_same(&d.change, &again.change) && is_same(&d.ratio, &again.ratio));
    for (size_t i = 0; i < 4; i++) {
        a_moved[i] = a[i] + 1024;
    }
    for (size_t i = 0; i < 3; i++) {
        b_moved[i] = b[i] + 1024;
    }
    struct ks_difference moved = ks_bootstrap_difference(a_moved, 4, b_moved, 3);
    assert_true(is_near(moved.change.low, d.change.low));
    for (size_t i = 0; i < 4; i++) {
        a_moved[i] = a[i] * 8;
    }
    for (size_t i = 0; i < 3; i++) {
        b_moved[i] = b[i] * 8;
    }
    struct ks_difference scaled = ks_bootstrap_difference(a_moved, 4, b_moved, 3);
    assert_true(is_near(scaled.ratio.high, d.ratio.high));
    assert_true(is_near(scaled.change.high, 8 * d.change.high));
    assert_true(d.change.low > 0 && d.ratio.low > 1);
}

/* Few values that lie together and one that does not: no interval of ten times the spread. */
static void test_stays_reasonable(void **state)
{
    (void)state;
    const double values[] = {9.70, 9.05, 9.05, 9.02};
    struct ks_estimate mean = ks_bootstrap_mean(values, 4);
    assert_true(mean.low > 7 && mean.high < 12);
}

static void check_coverage(size_t count, double spread_a, double spread_b)
{
    struct numbers numbers = {count};
    double a[32];
    double b[32];
    int held_change = 0;
    int held_ratio = 0;
    int held_mean = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < count; i++) {
            a[i] = draw(&numbers, 100, spread_a);
            b[i] = draw(&numbers, 130, spread_b);
        }
        struct ks_difference d = ks_bootstrap_difference(a, count, b, count);
        struct ks_estimate mean = ks_bootstrap_mean(a, count);
        held_change += d.change.low <= 30 && d.change.high >= 30;
        held_ratio += d.ratio.low <= 1.3 && d.ratio.high >= 1.3;
        held_mean += mean.low <= 100 && mean.high >= 100;
    }
    int least = ROUNDS * 96 / 100 - 8; // two standard deviations of the count
    assert_true(held_change >= least && held_ratio >= least && held_mean >= least);
    assert_true(held_change < ROUNDS ||
                count < 6); // an interval that holds everything says nothing
}

static void test_coverage(void **state)
{
    (void)state;
    check_coverage(3, 4, 4);
    check_coverage(4, 2, 9);
    check_coverage(8, 5, 5);
    check_coverage(25, 5, 10);
}

static void test_many_values(void **state)
{
    (void)state;
    static double a[LONG];
    struct numbers numbers = {1};
    double squares = 0;
    for (size_t i = 0; i < LONG; i++) {
        a[i] = draw(&numbers, 50, 10);
    }
    struct ks_estimate mean = ks_bootstrap_mean(a, LONG);
    for (size_t i = 0; i < LONG; i++) {
        squares += (a[i] - mean.value) * (a[i] - mean.value);
    }
    double error = sqrt(squares / (LONG - 1) / LONG);
    assert_true(is_near(mean.high, mean.value + 2.17009037758456 * error));
    struct ks_estimate drawn = ks_bootstrap_mean(a, LONG - 1);
    assert_true(fabs(drawn.high - mean.high) < 0.2 * error);
    struct ks_difference d = ks_bootstrap_difference(a, LONG, a, LONG);
    assert_true(d.change.low < 0 && d.change.high > 0 && d.ratio.low < 1 && d.ratio.high > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_values),
        cmocka_unit_test(test_what_is_alike_leaves_no_doubt),
        cmocka_unit_test(test_no_ratio_without_positive_means),
        cmocka_unit_test(test_properties),
        cmocka_unit_test(test_stays_reasonable),
        cmocka_unit_test(test_coverage),
        cmocka_unit_test(test_many_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
