/* Goal: input.starved fires when a step waits for its batch, with a saving that holds, and stays
 * silent otherwise; findings come out in order. Method: small traces by hand; the first is the
 * worked example of docs/analyses/inputs.md and docs/rules/input.starved.md. */
#include <string.h>

#include "advise/findings.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

#define MS *(int64_t)1000000

static const char single[] = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
static const char several[] = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
static const char *const steps[] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"};

static struct facts_fixture f;
static struct ks_findings findings;

static void compute(void)
{
    facts_fixture_advise(&f, &findings);
    assert_true(findings.check_count >= 1); /* its check is the first */
}

static void release(void)
{
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

static int64_t unprofiled_ns, unprofiled_mean_ns;
static const struct ks_process_use *process; /* NULL: nothing is known of it */

/* Three steps of 100 ms: `wait` ms in the loader, of which `op` ms in one operator, then an
 * operator; on a GPU, where none takes that long, an annotation, and a kernel of 5 ms runs from the
 * start of the step, so that it overlaps the wait. */
static void build(const char *loader, int64_t wait, int64_t op, const char *op_name, bool has_gpu)
{
    facts_fixture_init(&f, 0, 0);
    f.source->unprofiled_step_ns = unprofiled_ns;
    f.source->unprofiled_mean_ns = unprofiled_mean_ns;
    f.source->process = process ? *process : f.source->process;
    for (int64_t i = 0; i < 3; i++) {
        int64_t at = i * 100 MS;
        const struct host_row rows[] = {
            {1, NOTE, steps[i], at, 100 MS},
            {1, CALL, "cudaLaunchKernel", at, 1000, .corr = i + 1},
            {1, NOTE, loader, at + 1 MS, wait MS},
            {1, OP, op_name, at + 2 MS, op MS},
            {1, has_gpu ? NOTE : OP, "aten::mm", at + (wait + 1) MS, (99 - wait) MS},
        };
        facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
        const struct device_row kernel = {0, 7, KERNEL, "k", at + 1 MS, 5 MS, i + 1};
        facts_fixture_device(&f, &kernel, has_gpu ? 1 : 0);
    }
    compute();
}

/* Waits of 10, 40 and 20 ms. */
static void test_spread_of_waits(void **state)
{
    (void)state;
    static const int64_t waits_ms[] = {10, 40, 20};
    facts_fixture_init(&f, 0, 0);
    for (size_t i = 0; i < KS_COUNT_OF(waits_ms); i++) {
        int64_t at = (int64_t)i * 100 MS;
        const struct host_row rows[] = {
            {1, NOTE, steps[i], at, 100 MS},
            {1, NOTE, single, at + 1 MS, waits_ms[i] MS},
        };
        facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    }
    compute();
    const struct ks_input_fact *input = &f.facts.inputs[0];
    assert_int_equal(input->wait_ns_median, 20 MS);
    assert_int_equal(input->wait_ns_p95, 40 MS);
    assert_int_equal(input->wait_ns_max, 40 MS);
    assert_int_equal(input->first_batch_ns, 10 MS);
    release();
}

/* Beside it, what a GPU's step does under its annotation is code between operators: more than half
 * of the idle time that is none of the data's. */
static const struct ks_finding *only_finding(const char *cause)
{
    assert_int_equal(findings.count, f.facts.has_gpu ? 2 : 1);
    if (f.facts.has_gpu) {
        rule_case(&findings, "host.python_gap", RULE_FIRES);
    }
    assert_int_equal(findings.checks[0].state, KS_CHECK_FOUND);
    const struct ks_finding *finding = rule_case(&findings, "input.starved", RULE_FIRES);
    assert_true(cause ? finding->cause && strcmp(finding->cause, cause) == 0 : !finding->cause);
    assert_true(finding->saving.low_ns <= finding->saving.high_ns);
    assert_non_null(finding->fix_code);
    assert_int_equal(finding->where.step_count, 3);
    return finding;
}

/* Waiting 60 of 100 ms, 5 of them while the GPU works: 55 ms can go. Two workers need 30 ms for a
 * batch, less than the other 40 ms, so that all goes but handing over 0.2 ms and recording two
 * rows (2 us each: too few rows to estimate). */
static void test_gpu(void **state)
{
    (void)state;
    build(single, 60, 1, "aten::rand", true);
    const struct ks_input_fact *input = &f.facts.inputs[0];
    assert_int_equal(input->batches, 3);
    assert_int_equal(input->wait_ns_total, 180 MS);
    assert_int_equal(input->idle_wait_ns_total, 165 MS);
    assert_int_equal(input->loader_cpu_ns, 3 MS);
    assert_int_equal(input->step_batches, 3);
    assert_int_equal(input->step_ns_total, 300 MS);
    assert_int_equal(input->first_batch_ns, 60 MS);
    assert_int_equal(input->wait_ns_median, 60 MS);
    assert_int_equal(input->wait_ns_p95, 60 MS);
    assert_int_equal(input->wait_ns_max, 60 MS);
    assert_int_equal(input->transfer_ns, 0);
    assert_int_equal(input->loader_rows, 6);
    const struct ks_finding *finding = only_finding("storage");
    assert_true(finding->saving.high_ns == 55 MS);
    assert_true(finding->saving.low_ns == 55 MS - 200000 - 2 * 2000);
    assert_int_equal(finding->confidence, KS_CONFIDENCE_HIGH);
    assert_true(strstr(finding->fix_code, "num_workers=min(3,") != NULL);
    assert_true(strstr(finding->fix_code, "pin_memory") != NULL);
    assert_true(finding->share > 0.54 && finding->share < 0.56);
    release();
}

/* The step of test_gpu took other times without the profiler: the recorded rest is 40 ms, and the
 * GPU works for 5. */
static void check_unprofiled(int64_t middle_ms, int64_t mean_ms, int64_t low_ms, int64_t high_ms)
{
    unprofiled_ns = middle_ms MS;
    unprofiled_mean_ns = mean_ms MS;
    build(single, 60, 1, "aten::rand", true);
    const struct ks_finding *finding = rule_case(&findings, "input.starved", RULE_FIRES);
    assert_int_equal(finding->saving.low_ns, low_ms MS);
    assert_int_equal(finding->saving.high_ns, high_ms MS);
    assert_int_equal(finding->saving_in_trace.high_ns, 55 MS);
    release();
    unprofiled_ns = unprofiled_mean_ns = 0;
}

static void test_unprofiled(void **state)
{
    (void)state;
    check_unprofiled(50, 50, 10, 45); /* 50 - 40; 50 - 5 */
    check_unprofiled(30, 80, 40, 55); /* long steps count, too; no more than the wait */
}

/* Waiting 80 ms beside 20 ms of work: two workers still need 40 ms for a batch, so that 60 ms go
 * for sure, and on a CPU run the 50 ms of operators may go on competing for cores. */
static void test_cpu(void **state)
{
    (void)state;
    build(single, 80, 50, "aten::rand", false);
    const struct ks_finding *finding = only_finding("decode");
    assert_true(finding->saving.high_ns == 80 MS);
    assert_true(finding->saving.low_ns > 9 MS && finding->saving.low_ns < 10 MS);
    assert_int_equal(finding->confidence, KS_CONFIDENCE_LOW);
    assert_true(strstr(finding->fix_code, "pin_memory") == NULL);
    release();
}

static void test_causes(void **state)
{
    (void)state;
    build(single, 80, 50, "aten::stack", true);
    only_finding("collate");
    release();
    build(several, 60, 1, "aten::rand", true);
    only_finding(NULL);
    release();
    build(several, 60, 50, "aten::empty", true);
    only_finding("ipc");
    release();
}

static void check_silent(enum ks_check_state state, const char *word)
{
    assert_int_equal(findings.count, 0);
    rule_case(&findings, "input.starved", RULE_SILENT);
    assert_int_equal(findings.checks[0].state, state);
    assert_non_null(strstr(findings.checks[0].reason, word));
    release();
}

static void test_silent(void **state)
{
    (void)state;
    build(single, 4, 1, "aten::rand", false); // 4 % of the step
    check_silent(KS_CHECK_FINE, "4.00 of 100.00 ms");
    build("something else", 1, 1, "aten::rand", false);
    check_silent(KS_CHECK_COULD_NOT, "no data loader");

    facts_fixture_init(&f, 0, 0);
    const struct host_row one[] = {{1, NOTE, steps[0], 0, 100}, {1, NOTE, single, 0, 80}};
    facts_fixture_host(&f, one, KS_COUNT_OF(one));
    compute();
    check_silent(KS_CHECK_COULD_NOT, "fewer than two");

    facts_fixture_init(&f, 0, 0); // GPU rows in one of three steps: cannot tell
    for (int64_t i = 0; i < 3; i++) {
        const struct host_row rows[] = {{1, NOTE, steps[i], i * 100, 100},
                                        {1, NOTE, single, i * 100, 80},
                                        {1, CALL, "cudaLaunchKernel", i * 100, 5, .corr = i + 1}};
        facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    }
    const struct device_row kernel = {0, 7, KERNEL, "k", 10, 5, 1};
    facts_fixture_device(&f, &kernel, 1);
    compute();
    check_silent(KS_CHECK_COULD_NOT, "less than half");
}

/* The first batch alone is late: workers start. Waits are 90, 1 and 1 ms; besides that the first
 * step takes `starting` ms more than the 99 of the others, a third of which is that of a step. */
static void check_worker_start(int64_t starting, int64_t high_ns)
{
    facts_fixture_init(&f, 0, 0);
    for (int64_t i = 0; i < 3; i++) {
        int64_t dur_ns = i == 0 ? (90 + 99 + starting) MS : 100 MS;
        int64_t at = i == 0 ? 0 : (189 + starting + (i - 1) * 100) MS;
        const struct host_row rows[] = {{1, NOTE, steps[i], at, dur_ns},
                                        {1, NOTE, several, at, i == 0 ? 90 MS : 1 MS},
                                        {1, OP, "aten::mm", at, dur_ns}};
        facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    }
    compute();
    const struct ks_finding *finding = only_finding("worker_start");
    assert_int_equal(finding->saving.high_ns, high_ns);
    assert_int_equal(finding->saving_in_trace.high_ns, high_ns);
    release();
}

static void test_worker_start(void **state)
{
    (void)state;
    check_worker_start(0, 92 MS / 3);
    check_worker_start(30, 92 MS / 3 + 10 MS);
}

/* In 300 ms the training thread waits 60 for a core, and workers use it for 45: 15 ms a step go
 * beside the wait of 60. Where the training thread does not receive, nothing is known of that. */
static void test_crowding(void **state)
{
    (void)state;
    const struct ks_process_use use = {
        .wall_ns = 300 MS, .thread_wait_ns = 60 MS, .worker_cpu_ns = 45 MS, .workers = 1};
    process = &use;
    build(several, 60, 50, "aten::empty", false);
    assert_int_equal(only_finding("ipc")->saving.high_ns, 75 MS);
    release();
    build(several, 60, 1, "aten::empty", false);
    assert_int_equal(only_finding("storage")->saving.high_ns, 60 MS);
    release();
    process = NULL;
}

/* Two ranks: the worse one is told, both are named. */
static void test_ranks(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    f.source->rank = 0;
    for (int64_t rank = 0; rank < 2; rank++) {
        for (int64_t i = 0; i < 3; i++) {
            int64_t wait = 30 + 20 * rank;
            int64_t at = i * 100 MS;
            const struct host_row rows[] = {{1, NOTE, steps[i], at, 100 MS},
                                            {1, NOTE, single, at, wait MS},
                                            {1, OP, "aten::mm", at + wait MS, (100 - wait) MS}};
            facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
        }
        if (rank == 0) {
            facts_fixture_next_rank(&f, 1);
        }
    }
    compute();
    assert_int_equal(findings.count, 1);
    assert_int_equal(findings.list[0].where.rank, 1);
    assert_int_equal(findings.list[0].rank_count, 2);
    release();
}

/* Three steps of 100 ms with these waits, in the training process. */
static void build_waits(const int64_t waits_ns[3])
{
    facts_fixture_init(&f, 0, 0);
    for (int64_t i = 0; i < 3; i++) {
        const struct host_row rows[] = {
            {1, NOTE, steps[i], i * 100 MS, 100 MS},
            {1, NOTE, single, i * 100 MS, waits_ns[i]},
            {1, OP, "aten::mm", i * 100 MS + waits_ns[i], 100 MS - waits_ns[i]}};
        facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    }
    compute();
}

/* From 5 % of the step on; waits of a loader in the training process from a millisecond on. */
static void test_short_waits(void **state)
{
    (void)state;
    build_waits((const int64_t[]){4900000, 4900000, 4900000});
    rule_case(&findings, "input.starved", RULE_NEAR_MISS);
    release();
    build_waits((const int64_t[]){5 MS, 5 MS, 5 MS});
    rule_case(&findings, "input.starved", RULE_FIRES);
    release();
    build_waits((const int64_t[]){990000, 60 MS, 990000});
    rule_case(&findings, "input.starved", RULE_NEAR_MISS);
    release();
    build_waits((const int64_t[]){1 MS, 60 MS, 1 MS});
    rule_case(&findings, "input.starved", RULE_FIRES);
    release();
}

/* One pause of 60 ms among waits of half a millisecond is no matter of workers; among waits of
 * 10 ms the low bound is theirs and the high one still the mean. */
static void test_one_pause(void **state)
{
    (void)state;
    build_waits((const int64_t[]){500000, 60 MS, 500000});
    assert_int_equal(findings.count, 0);
    release();
    build_waits((const int64_t[]){10 MS, 61 MS, 10 MS});
    assert_int_equal(findings.count, 1);
    assert_true(findings.list[0].saving.high_ns == 27 MS);
    assert_true(findings.list[0].saving.low_ns < 10 MS && findings.list[0].saving.low_ns > 9 MS);
    release();
}

/* ------------------------------------------------------------------ order of findings */

static const struct ks_rule time_rule = {.id = "b.time", .title = "t", .impact = KS_IMPACT_TIME};
static const struct ks_rule risk_rule = {.id = "a.risk", .title = "r", .impact = KS_IMPACT_RISK};

static void test_add(void **state)
{
    (void)state;
    struct ks_err err = {0};
    build("none", 1, 1, "aten::rand", false);
    static const struct {
        int64_t low, high;
        enum ks_confidence confidence;
    } cases[] = {
        {10, 15, KS_CONFIDENCE_HIGH},   {10, 16, KS_CONFIDENCE_MEDIUM},
        {10, 30, KS_CONFIDENCE_MEDIUM}, {10, 31, KS_CONFIDENCE_LOW},
        {0, 5, KS_CONFIDENCE_LOW},      {90, 200, KS_CONFIDENCE_HIGH},
    };
    for (size_t i = 0; i < KS_COUNT_OF(cases); i++) {
        struct ks_finding finding = {.rule = i == 0 ? &risk_rule : &time_rule,
                                     .saving = {cases[i].low MS, cases[i].high MS}};
        assert_int_equal(ks_findings_add(&findings, &f.facts, &finding, &err), KS_OK);
        assert_int_equal(findings.list[i].confidence, cases[i].confidence);
    }
    assert_true(findings.list[5].saving.high_ns == 100 MS); // no more than the step
    assert_string_equal(findings.list[5].title, "t");
    assert_string_equal(findings.list[5].group, "b.time");
    assert_string_equal(ks_findings_text(&findings, "%d %s", 3, "x"), "3 x");
    release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpu),          cmocka_unit_test(test_spread_of_waits),
        cmocka_unit_test(test_cpu),          cmocka_unit_test(test_unprofiled),
        cmocka_unit_test(test_causes),       cmocka_unit_test(test_silent),
        cmocka_unit_test(test_worker_start), cmocka_unit_test(test_crowding),
        cmocka_unit_test(test_ranks),        cmocka_unit_test(test_one_pause),
        cmocka_unit_test(test_add),          cmocka_unit_test(test_short_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
