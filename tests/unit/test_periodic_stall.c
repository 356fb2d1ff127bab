/* Goal: host.periodic_stall fires when every n-th step is long because of the host, and is silent
 * for long steps that come as they like, for long GPU work and for few steps; a region of a
 * recording that explains the long ones is named. Method: steps by hand. */
#include <stdio.h>
#include <string.h>

#include "advise/findings.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

enum { STEPS = 13, US = 1000, USUAL = 100 };

static struct facts_fixture f;
static struct ks_findings findings;
static int64_t timed_ns; /* what the long steps took more when nothing recorded them */
static int64_t timed_period;

/* A step of 100 us with a kernel of 50, and `code` us of code before it; or a kernel that is longer
 * by that much. */
static int64_t add_step(int64_t i, int64_t at, int64_t code, bool is_gpu)
{
    char name[32];
    int64_t wait = is_gpu ? 0 : code;
    int64_t work = 50 + (is_gpu ? code : 0);
    snprintf(name, sizeof(name), "ProfilerStep#%d", (int)i);
    const struct host_row rows[] = {
        {1, NOTE, name, at * US, (USUAL + code) * US},
        {1, OP, "aten::mm", (at + wait + 5) * US, 20 * US},
        {1, CALL, "cudaLaunchKernel", (at + wait + 10) * US, 5 * US, .corr = i + 1},
        {1, CALL, "cudaStreamSynchronize", (at + wait + 30) * US, (work + 5) * US},
    };
    const struct device_row kernel = {0, 7, KERNEL, "k", (at + wait + 20) * US, work * US, i + 1};
    facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    facts_fixture_device(&f, &kernel, 1);
    return at + USUAL + code;
}

static const char *region; /* that the code of long steps is in; NULL: there is no recording */
static int64_t region_tid = 1;

/* The program's own words, beside the trace: "batch" around each step, and the long ones' code. */
static void add_recording(const char *longer, int64_t steps, int64_t code)
{
    int64_t at = 0;
    facts_fixture_next_rank(&f, -1);
    f.source->is_recording = true;
    for (int64_t i = 0; i < steps; i++) {
        char mark[8];
        snprintf(mark, sizeof(mark), " %d ", (int)i);
        int64_t more = strstr(longer, mark) ? code : 0;
        const struct host_row rows[] = {
            {region_tid, KS_CATEGORY_REGION, "batch", (at + 1) * US, (USUAL + more - 2) * US,
             .types = "training_loop"},
            {region_tid, KS_CATEGORY_REGION, region, (at + 2) * US, (more + 1) * US,
             .types = "checkpoint"},
        };
        facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
        at += USUAL + more;
    }
}

/* Steps named in `longer` (0-based) take `code` us more. */
static const struct ks_finding *build(const char *longer, int64_t steps, int64_t code, bool is_gpu,
                                      enum rule_case kind)
{
    int64_t at = 0;
    facts_fixture_init(&f, 0, 0);
    f.source->unprofiled_stall_ns = timed_ns;
    f.source->unprofiled_period = timed_period;
    for (int64_t i = 0; i < steps; i++) {
        char mark[8];
        snprintf(mark, sizeof(mark), " %d ", (int)i);
        at = add_step(i, at, strstr(longer, mark) ? code : 0, is_gpu);
    }
    if (region) {
        add_recording(longer, steps, code);
    }
    facts_fixture_advise(&f, &findings);
    return rule_case(&findings, "host.periodic_stall", kind);
}

static void release(void)
{
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

/* Steps 2, 6 and 10 take 400 us more: 1200 us in the 12 behind the first, 100 us a step. */
static void test_every_fourth(void **state)
{
    (void)state;
    const struct ks_finding *finding = build(" 2  6  10 ", STEPS, 400, false, RULE_FIRES);
    assert_true(facts_fixture_evidence(finding, "period") == 4);
    assert_true(facts_fixture_evidence(finding, "long_steps") == 3);
    assert_true(facts_fixture_evidence(finding, "longer_by") == 400 * US);
    assert_int_equal(finding->where.step_count, 3);
    assert_int_equal(finding->where.steps[1], 6);
    assert_in_range(finding->saving.high_ns, 94 * US, 95 * US); /* the GPU idles no longer */
    assert_int_equal(finding->saving.low_ns, 50 * US);
    release();
}

/* One long step of twelve; behind the window every fourth took 200 us more: 50 us a step. */
static void test_one_and_steps_timed_behind_the_window(void **state)
{
    (void)state;
    assert_null(build(" 6 ", STEPS, 400, false, RULE_NEAR_MISS));
    release();
    timed_ns = 200 * US;
    timed_period = 4;
    const struct ks_finding *finding = build(" 6 ", STEPS, 400, false, RULE_FIRES);
    assert_true(facts_fixture_evidence(finding, "period") == 4);
    assert_true(facts_fixture_evidence(finding, "long_steps") == 1);
    assert_int_equal(finding->where.step_count, 1);
    assert_int_equal(finding->saving.high_ns, 50 * US);
    assert_int_equal(finding->saving.low_ns, 25 * US);
    assert_int_equal(finding->saving_in_trace.high_ns, 100 * US);
    release();
    assert_null(build(" 6  9 ", STEPS, 400, false, RULE_NEAR_MISS)); // three apart, not four
    release();
    timed_ns = timed_period = 0;
}

/* Without the profiler these steps take 200 us more than others, every fourth time. */
static void test_steps_timed_behind_the_window(void **state)
{
    (void)state;
    timed_ns = 200 * US;
    const struct ks_finding *finding = build(" 2  6  10 ", STEPS, 400, false, RULE_FIRES);
    timed_ns = 0;
    assert_int_equal(finding->saving.high_ns, 50 * US);
    assert_int_equal(finding->saving.low_ns, 25 * US);
    assert_in_range(finding->saving_in_trace.high_ns, 94 * US, 95 * US);
    release();
}

static bool has_evidence(const struct ks_finding *finding, const char *name)
{
    bool has = false;
    for (size_t i = 0; i < finding->evidence_count; i++) {
        has = has || strcmp(finding->evidence[i].name, name) == 0;
    }
    return has;
}

/* "batch" has the same time by itself in all steps; what is inside of it has 400 us more. */
static void test_region_to_blame(void **state)
{
    (void)state;
    region = "save";
    const struct ks_finding *finding = build(" 2  6  10 ", STEPS, 400, false, RULE_FIRES);
    assert_true(facts_fixture_evidence(finding, "region_longer_by") == 400 * US);
    assert_non_null(strstr(finding->fix_text, "the region \"save\" (checkpoint), which runs every "
                                              "4 steps: these take"));
    release();
    region_tid = 2; /* another thread does it beside the steps */
    finding = build(" 2  6  10 ", STEPS, 400, false, RULE_FIRES);
    assert_false(has_evidence(finding, "region_longer_by"));
    assert_non_null(strstr(finding->fix_text, "Look at what runs every 4 steps: these take"));
    release();
    region_tid = 1;
    region = NULL;
}

static void test_other_long_steps(void **state)
{
    (void)state;
    build(" 2  5  10 ", STEPS, 400, false, RULE_SILENT); /* not at equal distances */
    release();
    build(" 6  10 ", STEPS, 400, false, RULE_NEAR_MISS); /* twice is chance */
    release();
    build(" 2  6  10 ", STEPS, 49, false, RULE_NEAR_MISS); /* less than 1.5 times as long */
    release();
    build(" 2  6  10 ", STEPS, 50, false, RULE_FIRES);
    release();
    build(" 2  6  10 ", STEPS, 400, true, RULE_SILENT); /* the GPU works: evaluation, other sizes */
    release();
}

static void test_few_steps(void **state)
{
    (void)state;
    build(" 2  4  6 ", 7, 400, false, RULE_NEAR_MISS);
    release();
    build(" 2  4  6 ", 8, 400, false, RULE_FIRES);
    release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_fourth),
        cmocka_unit_test(test_one_and_steps_timed_behind_the_window),
        cmocka_unit_test(test_steps_timed_behind_the_window),
        cmocka_unit_test(test_region_to_blame),
        cmocka_unit_test(test_other_long_steps),
        cmocka_unit_test(test_few_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
