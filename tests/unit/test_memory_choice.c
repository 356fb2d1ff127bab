/* Goal: what tables may take leaves room for the rest of a report, and is never nothing. Method:
 * sizes by hand. How much a report takes in truth is measured by `tests/memory`, and of 4 GB by
 * hand (docs/benchmarks.md). */
#include <kscope/kscope.h>

#include "cmocka_all.h"
#include "report_trace.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* What an input of so many bytes may take for its tables, 0: no limit. */
static uint64_t limit_of(uint64_t memory, uint64_t bytes)
{
    struct ks_report_options options = {.memory_bytes_max = memory};
    (void)ks_report_choose_memory(&options, bytes);
    return options.chunk_bytes_max;
}

static void test_input_that_fits(void **state)
{
    (void)state;
    assert_int_equal(limit_of(2 * GIB, 2 * GIB), 0);
    assert_int_equal(limit_of(2 * GIB, 2 * GIB + 1), 2 * GIB / 8 * 5);
}

/* Of 4 GiB a sixteenth and 32 MiB are for strings, facts and windows: 288 MiB. */
static void test_large_input(void **state)
{
    (void)state;
    assert_int_equal(limit_of(GIB, 4 * GIB), GIB / 8 * 5);
    assert_int_equal(limit_of(512 * MIB, 4 * GIB), (512 - 288) * MIB);
    assert_int_equal(limit_of(320 * MIB, 4 * GIB), 320 * MIB / 8); /* not 32: scans need chunks */
    assert_int_equal(limit_of(64 * MIB, 4 * GIB), 64 * MIB / 8);
}

/* Of a compressed input nobody knows the size: it has a limit in any case. */
static void test_unknown_size(void **state)
{
    (void)state;
    assert_int_equal(limit_of(GIB, 0), GIB / 8 * 5);
}

static void test_given_limit(void **state)
{
    (void)state;
    struct ks_report_options options = {.memory_bytes_max = GIB, .chunk_bytes_max = 7 * MIB};
    assert_int_equal(ks_report_choose_memory(&options, 4 * GIB), 7 * MIB);
    assert_int_equal(options.chunk_bytes_max, 7 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_input_that_fits),
        cmocka_unit_test(test_large_input),
        cmocka_unit_test(test_unknown_size),
        cmocka_unit_test(test_given_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
