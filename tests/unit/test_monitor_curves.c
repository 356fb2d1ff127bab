/* Goal: a curve keeps means, extremes and its whole length in memory of fixed size. Method: values
 * whose means are known, many times more than there is room for, and a plain sum beside. */
#include "capture/monitor/curves.h"

#include <math.h>
#include <stdlib.h>

#include "cmocka_all.h"

#define SECOND INT64_C(1000000000)

static struct ks_look look;
static uint32_t series;

static int make_curves(void **state)
{
    struct ks_curves *curves = calloc(1, sizeof(*curves));
    *state = curves;
    series = ks_series_of(KS_METRIC_MEMORY_RSS, 0);
    ks_curves_init(curves);
    return 0;
}

static int free_curves(void **state)
{
    free(*state);
    return 0;
}

static void add(struct ks_curves *curves, int64_t now_ns, double value, double seconds)
{
    look.count = 0;
    look.now_ns = now_ns;
    ks_look_put_of(&look, KS_METRIC_MEMORY_RSS, 0, value, seconds);
    ks_curves_add(curves, &look);
}

static void check_near(double value, double expected)
{
    assert_true(fabs(value - expected) <= 1e-4 * fabs(expected));
}

static void test_empty(void **state)
{
    struct ks_curve_summary summary;
    assert_false(ks_curves_summary(*state, series, 0, INT64_MAX, &summary));
}

/* A gauge: its first value holds for no time, but is all that is known. */
static void test_weights(void **state)
{
    struct ks_curve_summary summary;
    add(*state, 1 * SECOND, 100, 0);
    assert_true(ks_curves_summary(*state, series, 0, INT64_MAX, &summary));
    assert_true(summary.mean == 100.0 && summary.seconds == 0.0);
    add(*state, 2 * SECOND, 10, 0);
    add(*state, 5 * SECOND, 50, 0);
    assert_true(ks_curves_summary(*state, series, 0, INT64_MAX, &summary));
    check_near(summary.mean, (10.0 * 1 + 50.0 * 3) / 4);
    assert_true(summary.min == 10.0 && summary.max == 100.0 && summary.last == 50.0);
    assert_true(ks_curves_summary(*state, series, 1 * SECOND, 2 * SECOND, &summary));
    assert_true(summary.mean == 10.0 && summary.max == 10.0 && summary.last == 10.0);
    assert_false(ks_curves_summary(*state, series, 5 * SECOND, INT64_MAX, &summary));
}

static void add_rest(struct ks_curves *curves, int64_t now_ns, double whole, double rest,
                     double seconds)
{
    look.count = 1;
    look.now_ns = now_ns;
    look.values[0] = (struct ks_look_value){.series = series,
                                            .seconds = (float)seconds,
                                            .value = whole,
                                            .is_rest = true,
                                            .rest = (float)rest};
    ks_curves_add(curves, &look);
}

/* The end of a curve, told anew: its time counts once, and what was like it in a moment is no
 * extreme. */
static void test_rest(void **state)
{
    struct ks_curve_summary summary;
    struct ks_curve_point points[KS_CURVE_POINTS_MAX];
    add(*state, 1 * SECOND, 10, 1);
    add(*state, 2 * SECOND, 20, 1);
    add_rest(*state, 2 * SECOND + SECOND / 4, 28, 60, 0.25);
    assert_true(ks_curves_summary(*state, series, 0, INT64_MAX, &summary));
    check_near(summary.mean, (10 + 20 + 15) / 2.25);
    check_near(summary.seconds, 2.25);
    assert_true(summary.min == 10.0 && summary.max == 28.0 && summary.last == 28.0);
    assert_int_equal(ks_curves_points(*state, series, 0, INT64_MAX, points), 2);
    assert_true(points[1].end_ns == 2 * SECOND + SECOND / 4);
    add(*state, 3 * SECOND, 8, 0.75);
    assert_true(ks_curves_summary(*state, series, 0, INT64_MAX, &summary));
    check_near(summary.mean, (10 + 20 + 15 + 6) / 3.0);
    check_near(summary.seconds, 3);
}

/* Points of several values: in the middle of one, and where one has ended. */
static void test_rest_of_long_points(void **state)
{
    enum { VALUES = 2 * KS_CURVE_POINTS_MAX };
    struct ks_curve_summary summary;
    double sum = 0;
    for (int i = 0; i < VALUES; i++) {
        int64_t begin_ns = i * (SECOND + SECOND / 2);
        add(*state, begin_ns + SECOND, i % 10, 1);
        add_rest(*state, begin_ns + SECOND + SECOND / 2, i % 10 * 2.0, i % 10 * 4.0, 0.5);
        sum += i % 10 * 3.0;
    }
    assert_true(ks_curves_summary(*state, series, 0, INT64_MAX, &summary));
    check_near(summary.mean, sum / 1.5 / VALUES);
    check_near(summary.seconds, 1.5 * VALUES);
    assert_true(summary.max == 18.0 && summary.min == 0.0);
}

/* What a value tells of the time before the monitor's own does not count. */
static void test_first_value_of_a_time(void **state)
{
    struct ks_curve_summary summary;
    add(*state, 10 * SECOND, 100, 10);
    add(*state, 13 * SECOND, 20, 3);
    assert_true(ks_curves_summary(*state, series, 9 * SECOND, INT64_MAX, &summary));
    check_near(summary.mean, (100 * 1 + 20 * 3) / 4.0);
    check_near(summary.seconds, 4);
}

/* A rate's mean is the whole by the whole time, whatever the intervals. */
static void test_long(void **state)
{
    enum { VALUES = 20 * KS_CURVE_POINTS_MAX + 77 };
    struct ks_curve_point points[KS_CURVE_POINTS_MAX];
    struct ks_curve_summary summary;
    double total = 0;
    double seconds = 0;
    for (int i = 0; i < VALUES; i++) {
        double interval = 0.1 + 0.01 * (i % 7);
        double value = i == 4321 ? 5000 : i % 100 + 1;
        total += value * interval;
        seconds += interval;
        add(*state, (i + 1) * SECOND, value, interval);
    }
    assert_true(ks_curves_summary(*state, series, 0, INT64_MAX, &summary));
    check_near(summary.mean, total / seconds);
    check_near(summary.seconds, seconds);
    assert_true(summary.min == 1.0 && summary.max == 5000.0);
    assert_true(summary.last == (VALUES - 1) % 100 + 1.0);
    uint32_t count = ks_curves_points(*state, series, 0, INT64_MAX, points);
    assert_in_range(count, KS_CURVE_POINTS_MAX / 2, KS_CURVE_POINTS_MAX);
    for (uint32_t i = 1; i < count; i++) {
        assert_true(points[i].end_ns > points[i - 1].end_ns);
    }
    assert_true(points[count - 1].end_ns == VALUES * SECOND);
}

/* The hour in between belongs to no value, and no point is of both sides of it. */
static void test_pause(void **state)
{
    struct ks_curve_summary summary;
    add(*state, 1 * SECOND, 10, 0);
    add(*state, 2 * SECOND, 10, 0);
    ks_curves_pause(*state);
    add(*state, 3600 * SECOND, 30, 0);
    add(*state, 3601 * SECOND, 30, 0);
    assert_true(ks_curves_summary(*state, series, 0, INT64_MAX, &summary));
    check_near(summary.mean, 20);
    check_near(summary.seconds, 2);
    assert_true(ks_curves_summary(*state, series, 0, 2 * SECOND, &summary));
    assert_true(summary.last == 10.0 && summary.max == 10.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_empty, make_curves, free_curves),
        cmocka_unit_test_setup_teardown(test_weights, make_curves, free_curves),
        cmocka_unit_test_setup_teardown(test_rest, make_curves, free_curves),
        cmocka_unit_test_setup_teardown(test_rest_of_long_points, make_curves, free_curves),
        cmocka_unit_test_setup_teardown(test_first_value_of_a_time, make_curves, free_curves),
        cmocka_unit_test_setup_teardown(test_long, make_curves, free_curves),
        cmocka_unit_test_setup_teardown(test_pause, make_curves, free_curves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
