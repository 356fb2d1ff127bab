/* Goal: gpu.throttled names what holds clocks down, with a bound that can be checked by hand, and
 * nothing is found in healthy runs, in too few looks, and in lines that say nothing. Method: steps
 * of 100 ms that work for 80 ms, and lines of the monitor by hand. */
#include <stdio.h>
#include <string.h>

#include "advise/findings.h"
#include "base/alloc.h"
#include "cmocka_all.h"
#include "facts_fixture.h"
#include "read/reader.h"
#include "read/run_clocks.h"

enum { MS = 1000 * 1000, LOOKS = 10, PID = 77 };

static struct facts_fixture f;
static struct ks_findings findings;

static void add_text(const char *text, struct ks_source *source)
{
    size_t len = strlen(text);
    char *copy = ks_alloc(len + KS_WINDOW_PAD, 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    ks_run_clocks_add_line((struct ks_str){copy, len}, &source, 1);
    ks_free(copy);
}

static void add_look(struct ks_source *source, int64_t mhz, int64_t reasons, int64_t limit_w)
{
    char text[512];
    snprintf(text, sizeof(text),
             "{\"time_ns\": 1, \"gpus\": [{\"index\": 0, \"busy_percent\": 90, \"sm_mhz\": %lld, "
             "\"sm_mhz_max\": 1980, \"reasons\": %lld, \"temperature_c\": 87, "
             "\"power_mw\": 500000, \"power_limit_mw\": %lld, \"power_default_mw\": 700000, "
             "\"other_processes\": 2, \"pids\": [76, 77]}], \"processes\": [{\"pid\": 77}]}",
             (long long)mhz, (long long)reasons, (long long)limit_w * 1000);
    add_text(text, source);
}

static void begin(void)
{
    facts_fixture_init(&f, 0, 0);
    f.source->pid = PID;
}

/* Three steps with a kernel of 80 ms each. */
static const struct ks_finding *compute(enum rule_case kind)
{
    static const char *const names[] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"};
    ks_run_clocks_finish(&f.source->clocks);
    for (int64_t i = 0; i < 3; i++) {
        int64_t at = i * 100 * MS;
        FACTS_HOST(&f, {1, NOTE, names[i], at, 100 * MS}, {1, OP, "aten::mm", at, 90 * MS},
                   {1, CALL, "cudaLaunchKernel", at + MS, MS, .corr = i + 1});
        FACTS_DEVICE(&f, {0, 7, KERNEL, "gemm", at + 10 * MS, 80 * MS, .corr = i + 1});
    }
    facts_fixture_advise(&f, &findings);
    return rule_case(&findings, "gpu.throttled", kind);
}

static const struct ks_check *check_of_rule(void)
{
    size_t at = 0;
    while (at + 1 < findings.check_count &&
           strcmp(findings.checks[at].rule->id, "gpu.throttled") != 0) {
        at++;
    }
    return &findings.checks[at];
}

static void release(void)
{
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

/* Half of the looks at half of the clock: a quarter of 80 ms is 20 ms. */
static const struct ks_finding *half_held(int64_t reasons, int64_t limit_w, enum rule_case kind)
{
    begin();
    for (int i = 0; i < LOOKS; i++) {
        bool is_held = i % 2;
        add_look(f.source, is_held ? 990 : 1980, is_held ? reasons : 0, limit_w);
    }
    return compute(kind);
}

static void test_causes(void **state)
{
    (void)state;
    static const struct {
        int64_t reasons;
        int64_t limit_w;
        const char *cause;
    } cases[] = {
        {0x20, 700, "heat"},        {0x40, 700, "heat"}, {0x80, 700, "power_brake"},
        {0x08, 700, "hardware"},    {0x48, 700, "heat"}, {0x88, 700, "power_brake"},
        {0x04, 400, "power_limit"}, {0x24, 400, "heat"}, {0x04, 700, NULL},
        {0x02, 700, NULL},          {0x10, 700, NULL},
    };
    for (size_t i = 0; i < KS_COUNT_OF(cases); i++) {
        enum rule_case kind = cases[i].cause ? RULE_FIRES : RULE_SILENT;
        const struct ks_finding *finding = half_held(cases[i].reasons, cases[i].limit_w, kind);
        if (finding) {
            assert_string_equal(finding->cause, cases[i].cause);
            assert_int_equal(finding->saving.low_ns, 0);
            assert_in_range(finding->saving.high_ns, 20 * MS - 200, 20 * MS);
            assert_true(facts_fixture_evidence(finding, "held_back") == 0.5);
            assert_true(facts_fixture_evidence(finding, "clock") == 0.75);
            assert_true(facts_fixture_evidence(finding, "temperature_max") == 87);
        }
        release();
    }
}

static void test_near_miss(void **state)
{
    (void)state;
    for (int64_t mhz = 1856; mhz <= 1857; mhz++) { /* 0.8 of 1 - mhz / 1980: 5.01 and 4.97 % */
        begin();
        for (int i = 0; i < LOOKS; i++) {
            add_look(f.source, mhz, 0x20, 700);
        }
        compute(mhz == 1856 ? RULE_FIRES : RULE_NEAR_MISS);
        release();
    }
    for (int looks = 4; looks <= 5; looks++) {
        begin();
        for (int i = 0; i < looks; i++) {
            add_look(f.source, 990, 0x20, 700);
        }
        compute(looks == 5 ? RULE_FIRES : RULE_NEAR_MISS);
        assert_int_equal(check_of_rule()->state, looks == 5 ? KS_CHECK_FOUND : KS_CHECK_COULD_NOT);
        release();
    }
}

/* What a healthy program on tensor cores looks like. */
static void test_own_limit_of_the_board(void **state)
{
    (void)state;
    half_held(0x04, 700, RULE_SILENT);
    assert_int_equal(check_of_rule()->state, KS_CHECK_FINE);
    assert_non_null(strstr(check_of_rule()->reason, "board's own limit of power takes 25%"));
    release();
}

static void test_lines_that_say_nothing(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "{",
        "{\"gpus\": null}",
        "{\"gpus\": [{\"busy_percent\": 90}]}",
        "{\"gpus\": [{\"busy_percent\": 0, \"sm_mhz\": 1, \"sm_mhz_max\": 2, \"reasons\": 32}]}",
        "{\"gpus\": [{\"busy_percent\": 9, \"sm_mhz\": 1, \"sm_mhz_max\": 2, \"reasons\": 33}]}",
        "{\"gpus\": [{\"busy_percent\": 9, \"sm_mhz\": 0, \"sm_mhz_max\": 0, \"reasons\": 32}]}",
        "{\"gpus\": [{\"busy_percent\": 9, \"sm_mhz\": 1, \"sm_mhz_max\": 9223372036854775807, "
        "\"reasons\": 32}]}",
        "{\"gpus\": [{\"busy_percent\": 9, \"sm_mhz\": 1, \"sm_mhz_max\": 2, \"reasons\": 32, "
        "\"pids\": [78]}]}",
        "{\"gpus\": [{\"busy_percent\": 9, \"sm_mhz\": 1, \"sm_mhz_max\": 2, \"reasons\": 32, ",
    };
    begin();
    for (size_t i = 0; i < KS_COUNT_OF(lines); i++) {
        add_text(lines[i], f.source);
        assert_int_equal(f.source->clocks.looks, 0);
    }
    /* absurd numbers beside good ones are none */
    add_text("{\"gpus\": [{\"busy_percent\": 9, \"sm_mhz\": 3, \"sm_mhz_max\": 2, \"reasons\": 32, "
             "\"power_mw\": 9223372036854775807, \"temperature_c\": -5}, {}]}",
             f.source);
    assert_int_equal(f.source->clocks.looks, 1);
    assert_int_equal(f.source->clocks.mhz, 2);
    assert_int_equal(f.source->clocks.power_mw, 0);
    assert_int_equal(f.source->clocks.lost_ppm[KS_CLOCK_HEAT], 0);
    compute(RULE_SILENT);
    release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_causes),
        cmocka_unit_test(test_near_miss),
        cmocka_unit_test(test_own_limit_of_the_board),
        cmocka_unit_test(test_lines_that_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
