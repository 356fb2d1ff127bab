/* Goal: compile.recompiles fires when steps compile again and again, says which dimension changes,
 * and is silent for what is normal. Method: small traces; the first is the example of
 * docs/analyses/compiles.md. */
#include <stdio.h>
#include <string.h>

#include "advise/findings.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

enum { STEPS = 4, MS = 1000 * 1000, PERIOD = 1000 * MS };

static const char *const names[STEPS] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3",
                                         "ProfilerStep#4"};
static const char *const ids[STEPS] = {"0/2", "0/3", "0/4", "0/5"};
static const char *const early_ids[STEPS] = {"0/0", "0/1", "1/0", "1/1"};
static const char *const dims[STEPS] = {"[[512, 512], [120, 512]]", "[[512, 512], [128, 512]]",
                                        "[[512, 512], [136, 512]]", "[[512, 512], [144, 512]]"};

static bool is_one_shape; /* what changes is no size */
static struct facts_fixture f;
static struct ks_findings findings;

/* A step of 1000 ms: looking for compiled code until 10, a mark at 10..11, `compile` ms in
 * compile_inner from 12 on, then the compiled function for 30 ms, in which kernels are tuned from
 * 5 to 15 ms, and a kernel. */
static void add_step(int64_t i, const char *id, int64_t compile, bool has_marks)
{
    int64_t at = i * PERIOD;
    int64_t call = at + (12 + compile) * MS;
    char region[64];
    char mark[64];
    snprintf(region, sizeof(region), "Torch-Compiled Region: %s", id);
    snprintf(mark, sizeof(mark), "dynamo_data: compile_id=%s", id);
    const struct host_row rows[] = {
        {1, NOTE, names[i], at, PERIOD},
        {1, OP, "TorchDynamo Cache Lookup", at + 9 * MS, MS},
        {1, OP, region, call, 30 * MS},
        {1, OP, "CompiledFunction", call, 30 * MS, .dims = dims[is_one_shape ? 0 : i]},
        {1, CALL, "cudaLaunchKernel", call + 20 * MS, MS, .corr = i + 1},
        {1, OP, "aten::mm", call + 30 * MS, at + PERIOD - call - 30 * MS},
    };
    facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    const struct host_row marks[] = {
        {1, NOTE, mark, at + 10 * MS, MS},
        {1, OP, "_compile.compile_inner (dynamo_timed)", at + 12 * MS, compile * MS},
        {1, OP, "CachingAutotuner.benchmark_all_configs (dynamo_timed)", call + 5 * MS, 10 * MS},
    };
    facts_fixture_host(&f, marks, has_marks ? KS_COUNT_OF(marks) : 0);
    const struct device_row kernel = {0, 7, KERNEL, "k", call + 22 * MS, MS, i + 1};
    facts_fixture_device(&f, &kernel, 1);
}

static const struct ks_finding *compute(enum rule_case kind)
{
    facts_fixture_advise(&f, &findings);
    return rule_case(&findings, "compile.recompiles", kind);
}

static void release(void)
{
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

/* `compiling` steps of four compile for `compile` ms. */
static const struct ks_finding *build(const char *const *their_ids, int64_t compiling,
                                      int64_t compile, bool has_marks, enum rule_case kind)
{
    facts_fixture_init(&f, 0, 0);
    for (int64_t i = 0; i < STEPS; i++) {
        add_step(i, their_ids[i], i < compiling ? compile : 0, has_marks && i < compiling);
    }
    return compute(kind);
}

/* 10..412 and 10 ms of tuning for sure; with the compiled function around that 10..442. */
static void test_compiles_again(void **state)
{
    (void)state;
    const struct ks_finding *finding = build(ids, STEPS, 400, true, RULE_FIRES);
    const struct ks_compile_fact *compiles = &f.facts.compiles;
    assert_int_equal(compiles->sure_ns, 412 * (int64_t)MS);
    assert_int_equal(compiles->most_ns, 432 * (int64_t)MS);
    assert_int_equal(compiles->attempts_max, 5);
    assert_int_equal(compiles->steps_with, 4);
    assert_true(compiles->compiles == 1);
    assert_int_equal(finding->saving.high_ns, 432 * (int64_t)MS);
    assert_in_range(finding->saving.low_ns, 411 * (int64_t)MS, 412 * (int64_t)MS);
    assert_string_equal(findings.list[0].rule->id, "compile.recompiles");
    assert_non_null(
        strstr(finding->fix_text, "dimension 0 of an input of shape [120, 512] is 128"));
    assert_non_null(strstr(finding->fix_code, "mark_dynamic(x, 0)"));
    assert_int_equal(finding->where.step_count, 4);
    release();
}

/* The first two compilations of a function are normal; so is compiling in one step. */
static void test_first_compilations(void **state)
{
    (void)state;
    build(early_ids, STEPS, 400, true, RULE_NEAR_MISS);
    release();
    build(ids, 1, 400, true, RULE_NEAR_MISS);
    release();
    build(ids, 2, 400, true, RULE_FIRES);
    release();
}

/* 5 % of the step are 50 ms: 12 beside the 38. */
static void test_short_compilations(void **state)
{
    (void)state;
    build(ids, STEPS, 37, true, RULE_NEAR_MISS);
    release();
    build(ids, STEPS, 38, true, RULE_FIRES);
    release();
}

static void test_no_size_changes(void **state)
{
    (void)state;
    is_one_shape = true;
    const struct ks_finding *finding = build(ids, STEPS, 400, true, RULE_FIRES);
    assert_non_null(strstr(finding->fix_text, "names the guard"));
    assert_non_null(strstr(finding->fix_code, "set_logs(recompiles=True)"));
    release();
    is_one_shape = false;
}

/* Without marks, what lies between looking for code and running it counts, and the first run. */
static void test_without_marks(void **state)
{
    (void)state;
    build(ids, STEPS, 400, false, RULE_FIRES);
    assert_int_equal(f.facts.compiles.sure_ns, 402 * (int64_t)MS);
    assert_int_equal(f.facts.compiles.most_ns, 432 * (int64_t)MS);
    assert_int_equal(f.facts.compiles.attempts_max, 5);
    release();
    build(ids, STEPS, 10, false, RULE_SILENT); /* 12 ms: code was there */
    release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compiles_again),     cmocka_unit_test(test_first_compilations),
        cmocka_unit_test(test_short_compilations), cmocka_unit_test(test_without_marks),
        cmocka_unit_test(test_no_size_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
