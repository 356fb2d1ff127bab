/* Goal: kernels, copies and launches are counted as the pages say. Method: by hand; the cases are
 * the worked examples of docs/analyses/kernels.md and launches.md. */
#include <math.h>

#include "cmocka_all.h"
#include "facts_fixture.h"

static struct facts_fixture f;

static void check_copy(size_t index, const char *label, int64_t bytes, int64_t timed_bytes,
                       int64_t timed_ns, int64_t zero_calls)
{
    const struct ks_copy_fact *copy = &f.facts.copies[index];
    assert_true(ks_str_equal(ks_copy_label(&f.facts, copy), ks_str_from(label)));
    assert_true(copy->bytes == bytes);
    assert_int_equal(copy->timed_bytes, timed_bytes);
    assert_int_equal(copy->timed_ns, timed_ns);
    assert_int_equal(copy->zero_duration_calls, zero_calls);
}

static void test_kernels_and_copies(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    const struct device_row rows[] = {
        {0, 7, KERNEL, "scale", 0, 10, .occupancy = 0.4},
        {0, 7, KERNEL, "scale", 20, 6},
        {1, 7, KERNEL, "scale", 0, 3, .occupancy = -1},
        {0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", 30, 4, .bytes = 8192},
        {0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", 40, 0, .bytes = 200},
        {1, 7, MEMCPY, "Memcpy DtoH (Device -> Pageable)", 50, 5},
    };
    facts_fixture_device(&f, rows, KS_COUNT_OF(rows));
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.kernel_count, 4);
    const struct ks_kernel_fact *scale = &f.facts.kernels[0];
    assert_int_equal(scale->calls, 2);
    assert_int_equal(scale->total_ns, 16);
    assert_int_equal(scale->min_ns, 6);
    assert_int_equal(scale->max_ns, 10);
    assert_true(fabs(scale->occupancy - 0.4) < 1e-6);
    assert_int_equal(f.facts.copy_count, 2);
    check_copy(0, "DtoH (Device -> Pageable)", KS_UNKNOWN, 0, 0, 0);
    check_copy(1, "HtoD (Pageable -> Device)", 8392, 8192, 4, 1);
    facts_fixture_release(&f);
}

/* Names that come in turn, on many devices, in two categories: each has a row of its own, copies
 * one for all devices. */
static void test_many(void **state)
{
    (void)state;
    enum { DEVICES = 40, ROUNDS = 3, NAMES = 2 };
    facts_fixture_init(&f, 0, 0);
    for (int64_t i = 0; i < (int64_t)DEVICES * ROUNDS; i++) {
        const struct device_row rows[] = {
            {i % DEVICES, 7, KERNEL, "same", 10 * i, 1},
            {i % DEVICES, 7, MEMCPY, "same", 10 * i + 2, 2, .bytes = 100},
            {i % DEVICES, 8, MEMCPY, "Memcpy DtoD", 10 * i + 5, 1, .bytes = 5},
            {i % DEVICES, 7, KERNEL, "other", 10 * i + 7, 1},
        };
        facts_fixture_device(&f, rows, KS_COUNT_OF(rows));
    }
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.kernel_count, 2 * NAMES * DEVICES);
    for (size_t i = 0; i < f.facts.kernel_count; i++) {
        assert_int_equal(f.facts.kernels[i].calls, ROUNDS);
        assert_int_equal(f.facts.kernels[i].device, i % DEVICES);
    }
    assert_int_equal(f.facts.copy_count, 2);
    check_copy(0, "same", 100 * DEVICES * ROUNDS, 100 * DEVICES * ROUNDS, 2 * DEVICES * ROUNDS, 0);
    check_copy(1, "DtoD", 5 * DEVICES * ROUNDS, 5 * DEVICES * ROUNDS, DEVICES * ROUNDS, 0);
    facts_fixture_release(&f);
}

/* A graph launch counts once; a launch without work; work without a launch; work that starts
 * before its launch is in no delay. */
static void test_launches(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    const struct host_row calls[] = {
        {1, CALL, "cudaGraphLaunch", 0, 5, .corr = 1},
        {1, CALL, "cudaLaunchKernel", 10, 5, .corr = 2},
        {1, CALL, "cudaLaunchKernel", 20, 5, .corr = 3},
        {1, CALL, "cudaMemcpyAsync", 30, 5, .corr = 4},
        {1, CALL, "cudaDeviceSynchronize", 40, 5, .corr = 5},
        {1, KS_CATEGORY_DRIVER, "cuLaunchKernel", 50, 5, .corr = 6},
    };
    const struct device_row work[] = {
        {0, 7, KERNEL, "a", 40, 5, 1},     {0, 7, KERNEL, "b", 50, 5, 1},
        {0, 7, KERNEL, "c", 22, 5, 2},     {0, 7, MEMCPY, "Memcpy HtoD", 35, 5, 4},
        {0, 7, KERNEL, "early", 49, 5, 6}, {0, 7, KERNEL, "orphan", 5, 5, 99},
    };
    facts_fixture_host(&f, calls, KS_COUNT_OF(calls));
    facts_fixture_device(&f, work, KS_COUNT_OF(work));
    facts_fixture_compute(&f, NULL);
    const struct ks_link_fact *links = &f.facts.links;
    assert_int_equal(links->launches, 5);
    assert_int_equal(links->graph_launches, 1);
    assert_int_equal(links->kernel_launches, 3);
    assert_int_equal(links->memcpy_launches, 1);
    assert_int_equal(links->linked, 5);
    assert_int_equal(links->orphan_gpu_events, 1);
    assert_int_equal(links->launches_without_work, 1);
    assert_int_equal(links->gpu_before_launch, 1);
    assert_int_equal(links->delay_ns_min, 5);
    assert_int_equal(links->delay_ns_median, 12);
    assert_int_equal(links->delay_ns_max, 40);
    facts_fixture_release(&f);
}

static void test_nothing(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    facts_fixture_compute(&f, NULL);
    assert_true(f.facts.links.delay_ns_median == KS_UNKNOWN);
    assert_int_equal(f.facts.kernel_count + f.facts.device_count + f.facts.operator_count, 0);
    assert_false(f.facts.has_gpu);
    facts_fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_and_copies),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_launches),
        cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
