/* Goal: microsecond text becomes exact nanoseconds. Method: edge cases by hand, then random
 * numbers of nanoseconds written in several ways and read back. */
#include "base/time.h"

#include <inttypes.h>
#include <stdio.h>

#include "cmocka_all.h"
#include "numbers.h"

static void check(const char *text, bool ok, int64_t ns)
{
    int64_t got = 0;
    bool got_ok = ks_time_parse_us(ks_str_from(text), &got);
    if (got_ok != ok || (ok && got != ns)) {
        fail_msg("\"%s\": %d, %" PRId64, text, got_ok, got);
    }
}

static void test_accepted(void **state)
{
    (void)state;
    check("0", true, 0);
    check("-0", true, 0);
    check("7", true, 7000);
    check("5.1", true, 5100);
    check("5.12", true, 5120);
    check("5.123", true, 5123);
    check("5.1234", true, 5123);
    check("5.1235", true, 5124); // half away from zero
    check("-5.1235", true, -5124);
    check("0.0005", true, 1);
    check("0.00049999999999999999", true, 0);
    check("-0.001", true, -1);
    check("1735689600000000.123", true, 1735689600000000123);
    check("1e3", true, 1000000);
    check("1E+3", true, 1000000);
    check("1.5e-3", true, 2);
    check("1.4e-3", true, 1);
    check("123456e-5", true, 1235);
    check("1e-4", true, 0);
    check("5e-4", true, 1);
    check("1e-99999999999999999999", true, 0);
    check("0e99999999999999999999", true, 0);
    check("0.000e5", true, 0);
    check("9223372036854775.807", true, INT64_MAX);
    check("-9223372036854775.807", true, -INT64_MAX);
    check("9.223372036854775807e15", true, INT64_MAX);
    check("0.00000000000000000001e20", true, 1000);
    check("100000000000000000000e-20", true, 1000);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "-",
        "+1",
        ".5",
        "5.",
        "1e",
        "1e+",
        "1e5x",
        "x",
        "1 ",
        " 1",
        "0x10",
        "NaN",
        "inf",
        "1.2.3",
        "--1",
        "01",
        "-01.5",
        "1e9e9",
        "1.e5",
        "1,5",
        "\"1\"",
        "1e999",
        "-1e999",
        "9223372036854775807",
        "9223372036854775.808",
        "-9223372036854775.808",
        "9223372036854775.8075",
        "1e99999999999999999999",
    };
    for (size_t i = 0; i < KS_COUNT_OF(texts); i++) {
        check(texts[i], false, 0);
    }
}

static void check_round_trip(int64_t ns)
{
    char text[64];
    const char *sign = ns < 0 ? "-" : "";
    uint64_t value = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    snprintf(text, sizeof(text), "%s%" PRIu64 ".%03" PRIu64, sign, value / 1000, value % 1000);
    check(text, true, ns);
    snprintf(text, sizeof(text), "%s%" PRIu64 "e-3", sign, value);
    check(text, true, ns);
    snprintf(text, sizeof(text), "%s%" PRIu64 ".%03" PRIu64 "000E0", sign, value / 1000,
             value % 1000);
    check(text, true, ns);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct numbers numbers = {1};
    for (int i = 0; i < 20000; i++) {
        int64_t ns = (int64_t)(numbers_next(&numbers) >> (numbers_below(&numbers, 62) + 1));
        check_round_trip(ns);
        check_round_trip(-ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
