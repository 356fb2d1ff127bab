/* Goal: summaries, slopes and what is said about figures. Method: lists small enough to work out by
 * hand; figures on both sides of each limit. */
#include <kscope/kscope.h>

#include <math.h>
#include <string.h>

#include "cmocka_all.h"

static bool is_near(double got, double wanted)
{
    return fabs(got - wanted) <= 1e-12 * (1 + fabs(wanted));
}

static void test_summary_of_a_list(void **state)
{
    (void)state;
    double values[] = {5, 1, 4, 2, 3};
    struct ks_summary sums = ks_summarize(values, 5);
    assert_true(sums.count == 5 && is_near(sums.total, 15) && is_near(sums.mean, 3));
    assert_true(is_near(sums.std, sqrt(10.0 / 4))); // squares of -2 -1 0 1 2
    assert_true(is_near(sums.min, 1) && is_near(sums.max, 5) && is_near(sums.p50, 3));
    assert_true(is_near(sums.p90, 4.6)); // rank 3.6
    assert_true(is_near(sums.p95, 4.8) && is_near(sums.p99, 4.96));
}

static void test_edges(void **state)
{
    (void)state;
    double one[] = {7};
    struct ks_summary sums = ks_summarize(one, 1);
    assert_true(is_near(sums.mean, 7) && sums.std == 0.0 && is_near(sums.p99, 7));
    sums = ks_summarize(NULL, 0);
    assert_true(sums.count == 0 && sums.mean == 0.0 && sums.max == 0.0);
    double large[] = {1e9 + 1, 1e9 + 2, 1e9 + 3}; // squares of these lose the spread
    assert_true(is_near(ks_summarize(large, 3).std, 1));
}

static void test_slope(void **state)
{
    (void)state;
    double x[] = {0, 1, 2, 5};
    double y[] = {10, 13, 16, 25};
    assert_true(is_near(ks_slope(x, y, 4), 3));
    double same[] = {2, 2, 2};
    assert_true(ks_slope(same, y, 3) == 0.0 && ks_slope(x, y, 1) == 0.0);
    assert_true(ks_slope(x, y, 0) == 0.0);
    double bent[] = {0, 1, 0, 1};
    double at[] = {0, 1, 2, 3};
    assert_true(is_near(ks_slope(at, bent, 4), 0.2)); // sum dx*dy 1, sum dx*dx 5
}

static void collect(void *user, const char *id, const char *sentence)
{
    assert_true(sentence[0] != '\0' && sentence[strlen(sentence) - 1] == '.');
    strcat(user, id);
    strcat(user, " ");
}

static const struct ks_run_figures UNKNOWN = {.batches = (double)NAN,
                                              .batch_s = (double)NAN,
                                              .transform_s = (double)NAN,
                                              .workers = (double)NAN,
                                              .total_s = (double)NAN,
                                              .device_s = (double)NAN,
                                              .memory_percent = (double)NAN,
                                              .gpu_free_share = (double)NAN};

static void check(struct ks_run_figures figures, const char *wanted)
{
    char said[200] = "";
    ks_figures_advise(&figures, collect, said);
    assert_string_equal(said, wanted);
}

static void test_figures(void **state)
{
    (void)state;
    struct ks_run_figures figures = UNKNOWN;
    check(figures, "");
    figures.batch_s = 0.008;
    figures.transform_s = 0.0019;
    check(figures, "");
    figures.batch_s = 0.0082;
    check(figures, "input.starved ");
    figures.transform_s = 0.0083;
    check(figures, "input.starved input.transform ");
    figures.batches = 10; // 0.165 s of loading: the steps say whether that is much
    figures.total_s = 3.4;
    check(figures, "");
    figures.total_s = 3.2;
    check(figures, "input.starved input.transform ");

    figures = UNKNOWN;
    figures.total_s = 10;
    figures.device_s = 4.9;
    check(figures, "");
    figures.device_s = 5.1;
    check(figures, "precision.fp32_matmul ");
    figures.memory_percent = 89;
    figures.gpu_free_share = 0.11;
    check(figures, "precision.fp32_matmul ");
    figures.memory_percent = 91;
    figures.gpu_free_share = 0.09;
    check(figures, "precision.fp32_matmul memory.full memory.gpu_full ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_summary_of_a_list),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_slope),
        cmocka_unit_test(test_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
