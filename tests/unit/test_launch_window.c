/* Goal: --steps is read as torch.profiler.schedule means it, and passed on unchanged.
 * Method: one line each. */
#include "launch/window.h"

#include <string.h>

#include "cmocka_all.h"

static void check(const char *text, const char *passed_on, uint32_t repeat)
{
    struct ks_launch_window window;
    char formatted[KS_LAUNCH_WINDOW_TEXT_SIZE];
    assert_int_equal(ks_launch_window_parse(text, &window, NULL), KS_OK);
    ks_launch_window_format(window, formatted);
    assert_string_equal(formatted, passed_on);
    assert_int_equal(window.repeat_count, repeat);
}

static void test_good(void **state)
{
    (void)state;
    check("auto", "auto", 1);
    check("5:1:6", "5:1:6", 1);
    check("0:0:1", "1:0:1", 1); /* a window opens where a step ends */
    check("5:1:6:1", "5:1:6", 1);
    check("5:1:6:3", "5:1:6:3", 3);
    check("5:1:6:0", "5:1:6:0", 0);
    check("1000000:1000000:1000000:1000000", "1000000:1000000:1000000:1000000", 1000000);
}

static void test_bad(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",         "Auto",        "auto:1",          "5",
        "1:2",      "1:2:0",       "1:2:0:4",         "a:b:c",
        "1:2:3:",   "1:2:3:x",     "1:2:3:4:5",       "-1:2:3",
        "+1:2:3",   " 1:2:3",      "1:2:3 ",          "1::3",
        "1:2:3:-1", "1:2:1000001", "1:2:99999999999",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct ks_launch_window window;
        struct ks_err err = {0};
        assert_int_equal(ks_launch_window_parse(texts[i], &window, &err), KS_ERR_USAGE);
        assert_non_null(strstr(err.message, "auto or WAIT:WARMUP:ACTIVE[:REPEAT]"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
