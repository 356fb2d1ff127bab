/* Goal: what times, categories and devices keep, at their very ends. Method: one line a case. */
#include "export/row_filter.h"

#include "cmocka_all.h"
#include "facts_fixture.h"

static struct ks_row_filter filter;

static void choose(const struct facts_fixture *fixture, const struct ks_export_options *options)
{
    struct ks_view view = {.trace = fixture->trace, .facts = &fixture->facts};
    assert_int_equal(ks_row_filter_init(&filter, &view, options, NULL), KS_OK);
}

static void check_time(int64_t start_ns, int64_t dur_ns, bool is_kept)
{
    assert_true(ks_row_filter_has_time(&filter, start_ns, dur_ns) == is_kept);
}

static void check_cut(int64_t start_ns, int64_t end_ns, int64_t cut_start_ns, int64_t cut_end_ns)
{
    assert_true(ks_row_filter_clip(&filter, &start_ns, &end_ns));
    assert_int_equal(start_ns, cut_start_ns);
    assert_int_equal(end_ns, cut_end_ns);
}

static void open_trace(struct facts_fixture *fixture)
{
    facts_fixture_init(fixture, 0, 0);
    FACTS_HOST(fixture, {1, OP, "op", 100, 50});
    facts_fixture_compute(fixture, NULL);
}

static void test_times(void **state)
{
    (void)state;
    struct facts_fixture fixture;
    open_trace(&fixture);
    choose(&fixture,
           &(struct ks_export_options){.time_given = true, .time_from_ns = 100, .time_to_ns = 200});
    check_time(50, 50, false);
    check_time(50, 51, true);
    check_time(100, 0, true);
    check_time(199, 0, true);
    check_time(200, 9, false);
    check_time(0, INT64_MAX, true);
    check_cut(50, 300, 100, 200);
    check_cut(120, 130, 120, 130);
    choose(&fixture, &(struct ks_export_options){0});
    check_time(INT64_MIN, 0, true);
    check_time(INT64_MAX, 0, true);
    check_cut(-5, 5, -5, 5);
    facts_fixture_release(&fixture);
}

static void test_categories(void **state)
{
    (void)state;
    struct facts_fixture fixture;
    open_trace(&fixture);
    choose(&fixture, &(struct ks_export_options){.categories = "Operator,,KERNEL"});
    assert_true(ks_row_filter_keeps_slice(&filter, 1, KS_CATEGORY_CPU_OP, 0, 1));
    assert_true(ks_row_filter_has_category(&filter, KS_CATEGORY_KERNEL));
    assert_false(ks_row_filter_keeps_slice(&filter, 1, KS_CATEGORY_RUNTIME, 0, 1));
    assert_false(ks_row_filter_keeps_link(&filter, 1, 0, 1));
    assert_false(ks_row_filter_keeps_moment(&filter, 1, 0));
    choose(&fixture, &(struct ks_export_options){.categories = "cuda_driver"});
    assert_true(ks_row_filter_keeps_link(&filter, 1, 0, 1));
    choose(&fixture, &(struct ks_export_options){0});
    assert_true(ks_row_filter_keeps_moment(&filter, 1, 0));
    facts_fixture_release(&fixture);
}

static void test_unknown_categories(void **state)
{
    (void)state;
    struct ks_view nothing = {0};
    struct ks_err err = {0};
    struct ks_export_options options = {.categories = "kernel,kernels"};
    assert_int_equal(ks_row_filter_init(&filter, &nothing, &options, &err), KS_ERR_USAGE);
    assert_non_null(strstr(err.message, "category kernels:"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_categories),
        cmocka_unit_test(test_unknown_categories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
