/* Goal: the cost of recording is what docs/analyses/recorder_cost.md says. Method: its worked
 * example, and rows at equal distances on both sides of each limit. */
#include "cmocka_all.h"
#include "facts_fixture.h"

static struct facts_fixture f;

/* `count` operators and annotations in turn, each `distance_ns` after the one before; returns when
 * the next one would start. */
static int64_t add_rows(int64_t tid, int64_t start_ns, size_t count, int64_t distance_ns)
{
    for (size_t i = 0; i < count; i++) {
        const struct host_row row = {tid, i % 2 ? NOTE : OP, "row", start_ns, 10};
        facts_fixture_host(&f, &row, 1);
        start_ns += distance_ns;
    }
    return start_ns;
}

static void test_worked_example(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    int64_t at_ns = add_rows(1, 0, 21, 900);
    at_ns = add_rows(1, at_ns, 80, 3000);
    add_rows(1, at_ns, 1, 0);
    add_rows(2, 0, 100, 3000); // distances do not go from one thread to another
    const struct host_row others[] = {
        {1, PY, "f.py(1): g", 100, 50},
        {1, CALL, "cudaLaunchKernel", 200, 50},
        {3, KS_CATEGORY_OVERHEAD, "Activity Buffer Request", 100, 50},
        {3, KS_CATEGORY_OVERHEAD, "Instrumentation", 120, 10},
        {3, KS_CATEGORY_OVERHEAD, "Resource Flush", 140, 20},
        {3, KS_CATEGORY_OVERHEAD, "Resource Flush", 400, 5},
    };
    facts_fixture_host(&f, others, KS_COUNT_OF(others));
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.row_cost_ns, 925);
    assert_int_equal(f.facts.overhead_ns, 65);
    facts_fixture_release(&f);
}

static void check_cost(size_t distances, int64_t distance_ns, int64_t want_ns)
{
    facts_fixture_init(&f, 0, 0);
    add_rows(1, 0, distances + 1, distance_ns);
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.row_cost_ns, want_ns);
    assert_int_equal(f.facts.overhead_ns, 0);
    facts_fixture_release(&f);
}

static void test_limits(void **state)
{
    (void)state;
    check_cost(0, 1000, 2000);
    check_cost(199, 1000, 2000); // too few
    check_cost(200, 1000, 1025);
    check_cost(200, 1049, 1025);
    check_cost(200, 1050, 1075);
    check_cost(200, 499, 500); // at least 0.5 us
    check_cost(200, 0, 500);
    check_cost(200, 4999, 4975);
    check_cost(200, 5000, 5000); // at most 5 us
    check_cost(200, 1000000, 5000);
}

/* A tenth of the rows is not enough to be the tenth percentile. */
static void test_percentile(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    int64_t at_ns = add_rows(1, 0, 20, 900);
    add_rows(1, at_ns, 181, 3000);
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.row_cost_ns, 3025);
    facts_fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_percentile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
