/* Goal: medians, their intervals and trials hold at their edges: none, one or all values alike, the
 * most that are allowed, misuse, no memory. Method: values counted by hand. Numbers in between are
 * compared with scipy's in tests/capture/test_trial.py. */
#include <kscope/kscope_trial.h>
#include <math.h>

#include "base/alloc.h"
#include "cmocka_all.h"
#include "measure/median.h"

static const double LEVEL = 0.95;

static void test_medians_of_few_values(void **state)
{
    (void)state;
    double values[] = {3, 1, 2, 9};
    assert_true(isnan(ks_median_estimate(values, 0, LEVEL).value));
    struct ks_estimate one = ks_median_estimate(values, 1, LEVEL);
    assert_true(one.value == 3 && isnan(one.low) && isnan(one.high));
    struct ks_estimate four = ks_median_estimate(values, 4, LEVEL);
    assert_true(four.value == 2.5 && isnan(four.low));
    /* Of four values the median is outside of them with a chance of 2 / 16. */
    assert_true(ks_median_estimate(values, 4, 0.875).low == 1);
    assert_true(ks_median_estimate(values, 4, 0.875).high == 9);
    assert_true(isnan(ks_median_estimate(values, 4, 0.8751).low));
}

static void test_least_count(void **state)
{
    (void)state;
    assert_int_equal(ks_median_least_count(0.95), 6);
    assert_int_equal(ks_median_least_count(1 - 0.05 / 12), 9);
    assert_int_equal(ks_median_least_count(1), KS_MEDIAN_VALUES_MAX);
}

static void test_the_most_values(void **state)
{
    (void)state;
    static double values[KS_MEDIAN_VALUES_MAX];
    for (int i = 0; i < KS_MEDIAN_VALUES_MAX; i++) {
        values[i] = (i * 7919) % KS_MEDIAN_VALUES_MAX;
    }
    struct ks_estimate median = ks_median_estimate(values, KS_MEDIAN_VALUES_MAX, LEVEL);
    /* scipy.stats.binom: 468 values or fewer lie below with a chance of 2.3 %, 469 with 2.7 %. */
    assert_true(median.value == 499.5 && median.low == 468 && median.high == 531);
}

static void test_warm_up(void **state)
{
    (void)state;
    const double values[] = {90, 50, 10, 11, 10, 11, 10, 11, 10, 11};
    assert_int_equal(ks_median_warm_up(values, 10), 2);
    assert_int_equal(ks_median_warm_up(values + 2, 8), 0);
    assert_int_equal(ks_median_warm_up(values, 3), 0);
    const double alike[] = {5, 5, 5, 5, 5};
    assert_int_equal(ks_median_warm_up(alike, 5), 0);
}

static void test_outliers(void **state)
{
    (void)state;
    double scratch[9];
    const double values[] = {10, 11, 9, 10, 12, 8, 10, 11, 90};
    assert_int_equal(ks_median_outliers(values, 9, scratch), 1);
    assert_int_equal(ks_median_outliers(values, 8, scratch), 0);
    assert_int_equal(ks_median_outliers(values, 0, scratch), 0);
}

static void test_options_out_of_range(void **state)
{
    (void)state;
    const struct ks_trial_options wrong[] = {
        {.variant_count = 0},
        {.variant_count = KS_TRIAL_VARIANTS_MAX + 1},
        {.variant_count = 2, .budget_ns = -1},
        {.variant_count = 2, .rounds_max = KS_TRIAL_ROUNDS_MAX + 1},
        {.variant_count = 2, .tolerance = 1},
        {.variant_count = 2, .tolerance = (double)NAN},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct ks_trial *trial = NULL;
        struct ks_err err;
        assert_int_equal(ks_trial_new(&wrong[i], &trial, &err), KS_ERR_USAGE);
        assert_null(trial);
    }
    ks_trial_free(NULL);
}

static void test_the_turn_stays_until_it_is_used(void **state)
{
    (void)state;
    struct ks_trial *trial = NULL;
    const struct ks_trial_options options = {.variant_count = 2, .rounds_max = 1};
    assert_int_equal(ks_trial_new(&options, &trial, NULL), KS_OK);
    assert_int_equal(ks_trial_add(trial, 0, 1, NULL), KS_ERR_USAGE);
    size_t first;
    size_t again;
    assert_true(ks_trial_next(trial, &first) && ks_trial_next(trial, &again));
    assert_int_equal(first, again);
    assert_int_equal(ks_trial_add(trial, 1 - first, 1, NULL), KS_ERR_USAGE);
    assert_int_equal(ks_trial_add(trial, first, 1, NULL), KS_OK);
    assert_true(ks_trial_next(trial, &again) && again == 1 - first);
    ks_trial_drop(trial, again);
    assert_int_equal(ks_trial_add(trial, again, 1, NULL), KS_ERR_USAGE);
    assert_false(ks_trial_next(trial, &again));
    ks_trial_free(trial);
}

static void test_no_memory(void **state)
{
    (void)state;
    const struct ks_trial_options options = {.variant_count = 3};
    for (int64_t at = 1; at <= 2; at++) {
        struct ks_trial *trial = NULL;
        ks_alloc_fail_at(at, false);
        enum ks_status status = ks_trial_new(&options, &trial, NULL);
        bool has_failed = ks_alloc_calls() >= at && status == KS_ERR_NOMEM;
        ks_alloc_fail_at(0, false);
        assert_true(has_failed || status == KS_OK); /* allocations fail in builds for that only */
        ks_trial_free(trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_medians_of_few_values),
        cmocka_unit_test(test_least_count),
        cmocka_unit_test(test_the_most_values),
        cmocka_unit_test(test_warm_up),
        cmocka_unit_test(test_outliers),
        cmocka_unit_test(test_options_out_of_range),
        cmocka_unit_test(test_the_turn_stays_until_it_is_used),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
