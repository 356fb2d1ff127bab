/* Goal: numbers for people have three digits and the right unit, also where rounding changes the
 * unit. Method: edge cases by hand. */
#include "show/units.h"

#include "cmocka_all.h"

static void check_time(int64_t ns, const char *expected)
{
    struct ks_unit_text text = ks_units_time(ns);
    assert_string_equal(text.text, expected);
}

static void test_time(void **state)
{
    (void)state;
    check_time(0, "0 ns");
    check_time(1, "1 ns");
    check_time(999, "999 ns");
    check_time(1000, "1.00 us");
    check_time(9994, "9.99 us");
    check_time(9996, "10.0 us");
    check_time(99949, "99.9 us");
    check_time(99951, "100 us");
    check_time(999499, "999 us");
    check_time(999500, "1.00 ms");
    check_time(113000000, "113 ms");
    check_time(1234567890, "1.23 s");
    check_time(999499999999, "999 s");
    check_time(1234000000000, "1,234 s");
    check_time(-113000000, "-113 ms");
    check_time(INT64_MAX, "9,223,372,037 s");
    check_time(INT64_MIN, "-9,223,372,037 s");
}

static void test_bytes_and_rates(void **state)
{
    (void)state;
    assert_string_equal(ks_units_bytes(0).text, "0 B");
    assert_string_equal(ks_units_bytes(999).text, "999 B");
    assert_string_equal(ks_units_bytes(1000).text, "0.98 KiB");
    assert_string_equal(ks_units_bytes(8192).text, "8.00 KiB");
    assert_string_equal(ks_units_bytes(-8192).text, "-8.00 KiB");
    assert_string_equal(ks_units_bytes(80LL << 30).text, "80.0 GiB");
    assert_string_equal(ks_units_rate(2.048e9).text, "2.05 GB/s");
    assert_string_equal(ks_units_rate(3.35e12).text, "3.35 TB/s");
    assert_string_equal(ks_units_flops(0).text, "0");
    assert_string_equal(ks_units_flops(343e9).text, "343 G");
}

static void test_counts(void **state)
{
    (void)state;
    assert_string_equal(ks_units_count(0).text, "0");
    assert_string_equal(ks_units_count(999).text, "999");
    assert_string_equal(ks_units_count(1000).text, "1,000");
    assert_string_equal(ks_units_count(-1234567).text, "-1,234,567");
    assert_string_equal(ks_units_count(INT64_MIN).text, "-9,223,372,036,854,775,808");
}

static void test_shares(void **state)
{
    (void)state;
    assert_string_equal(ks_units_share(0).text, "0 %");
    assert_string_equal(ks_units_share(0.0004).text, "<0.1 %");
    assert_string_equal(ks_units_share(0.0006).text, "0.1 %");
    assert_string_equal(ks_units_share(0.0994).text, "9.9 %");
    assert_string_equal(ks_units_share(0.0996).text, "10 %");
    assert_string_equal(ks_units_share(0.634).text, "63 %");
    assert_string_equal(ks_units_share(1).text, "100 %");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_bytes_and_rates),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
