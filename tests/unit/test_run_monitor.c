/* Goal: of what the monitor wrote, the growth over the run is told. Method: lines by hand. */
#include "read/run_monitor.h"

#include "base/alloc.h"
#include "cmocka_all.h"
#include "read/reader.h"

static bool parse(const char *text, struct ks_run_monitor *out)
{
    size_t len = strlen(text);
    char *copy = ks_alloc(len + KS_WINDOW_PAD, 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    bool is_good = ks_run_monitor_parse((struct ks_str){copy, len}, out);
    ks_free(copy);
    return is_good;
}

#define LINE(periods, throttled, ns)                                                               \
    "{\"time_ns\": 1, \"cgroup_memory_max_bytes\": null, \"cgroup_cpu_quota_us\": 150000, "        \
    "\"cgroup_cpu_period_us\": 100000, \"cgroup_periods\": " periods                               \
    ", \"cgroup_throttled\": " throttled ", \"cgroup_throttled_ns\": " ns ", \"processes\": []}\n"

static void test_growth(void **state)
{
    (void)state;
    struct ks_run_monitor monitor;
    char text[128];
    assert_true(parse(LINE("1000", "900", "7000000000") LINE("1001", "900", "7000000000")
                          LINE("1100", "925", "8500000000"),
                      &monitor));
    assert_int_equal(monitor.period_count, 100);
    assert_int_equal(monitor.throttled_count, 25);
    assert_int_equal(monitor.throttled_ns, 1500000000);
    assert_true(ks_run_monitor_describe(&monitor, text, sizeof(text)));
    assert_string_equal(text, "CPU limit 1.50 cores, held back in 25 % of periods, 1.50 s in all");
}

static void test_nothing_to_say(void **state)
{
    (void)state;
    struct ks_run_monitor monitor;
    char text[128];
    assert_true(parse("{\"cgroup_periods\": 0}\n{\"cgroup_periods\": 0}\n", &monitor));
    assert_false(ks_run_monitor_describe(&monitor, text, sizeof(text)));
}

static void test_bad_text(void **state)
{
    (void)state;
    struct ks_run_monitor monitor;
    assert_false(parse("", &monitor));
    assert_false(parse("\n", &monitor));
    assert_false(parse("\n\n\n", &monitor));
    assert_false(parse(LINE("1", "1", "1"), &monitor)); /* nothing to compare with */
    assert_false(parse(LINE("1", "1", "1") "{\"x\"\n", &monitor));
    assert_true(parse(LINE("1", "1", "1") LINE("2", "1", "1") "{\"cut", &monitor));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_nothing_to_say),
        cmocka_unit_test(test_bad_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
