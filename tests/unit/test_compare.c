/* Goal: two runs compare as docs/diff.md says. Method: two small traces by hand, whose steps,
 * operators, kernels and memory are known, and one change at a time. */
#include <math.h>

#include "advise/findings.h"
#include "cmocka_all.h"
#include "compare/comparison.h"
#include "facts_fixture.h"

enum { STEP = 1000, STEPS_MAX = 8 };

/* A run under test: its fixture, and what rules found in it. */
struct run {
    struct facts_fixture f;
    struct ks_findings findings;
    const char *path;
};

static struct run a_run, b_run;
static struct ks_comparison made;

/* How a run is made: step k lasts durs[k], and has two calls of `op` of 100 ns, which launch a
 * kernel of `kernel_ns` each. */
struct recipe {
    int64_t durs[STEPS_MAX];
    const char *op;
    const char *kernel;
    int64_t kernel_ns;
    int64_t device;
};

static void begin(struct run *run)
{
    facts_fixture_init(&run->f, 0, 0);
}

static void add_steps(struct run *run, const struct recipe *recipe)
{
    static const char *const names[] = {"ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5",
                                        "ProfilerStep#6", "ProfilerStep#7", "ProfilerStep#8"};
    int64_t at = 10 * STEP;
    for (int64_t k = 0; k < STEPS_MAX && recipe->durs[k] > 0; k++) {
        FACTS_HOST(&run->f, {1, NOTE, names[k], at, recipe->durs[k]},
                   {1, OP, recipe->op, at + 10, 100, 10 + 2 * k},
                   {1, CALL, "cudaLaunchKernel", at + 20, 10, 10 + 2 * k, 100 + 2 * k},
                   {1, OP, recipe->op, at + 200, 100, 11 + 2 * k},
                   {1, CALL, "cudaLaunchKernel", at + 210, 10, 11 + 2 * k, 101 + 2 * k});
        FACTS_DEVICE(&run->f,
                     {recipe->device, 7, KERNEL, recipe->kernel, at + 40, recipe->kernel_ns,
                      100 + 2 * k, 10 + 2 * k},
                     {recipe->device, 7, KERNEL, recipe->kernel, at + 230, recipe->kernel_ns,
                      101 + 2 * k, 11 + 2 * k});
        at += recipe->durs[k];
    }
    /* Work outside of all steps counts in no mean step. */
    FACTS_HOST(&run->f, {1, OP, recipe->op, 100, 100}, {1, OP, "outside", 300, 100});
}

static struct ks_compare_input input_of(const struct run *run)
{
    return (struct ks_compare_input){run->f.trace, &run->f.facts, &run->findings, &run->path, 1};
}

static void finish(struct run *run)
{
    facts_fixture_advise(&run->f, &run->findings);
}

static void compare_runs(void)
{
    struct ks_err err = {0};
    a_run.path = "before.json";
    b_run.path = "after.json";
    const struct ks_compare_input sides[] = {input_of(&a_run), input_of(&b_run)};
    assert_int_equal(ks_comparison_compute(sides, &made, &err), KS_OK);
}

static void end(void)
{
    ks_comparison_release(&made);
    ks_findings_release(&a_run.findings);
    ks_findings_release(&b_run.findings);
    facts_fixture_release(&a_run.f);
    facts_fixture_release(&b_run.f);
}

static void compare_recipes(const struct recipe *a, const struct recipe *b)
{
    begin(&a_run);
    add_steps(&a_run, a);
    finish(&a_run);
    begin(&b_run);
    add_steps(&b_run, b);
    finish(&b_run);
    compare_runs();
}

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-6;
}

static const struct ks_compare_operator *operator_of(const char *name)
{
    for (size_t i = 0; i < made.operator_count; i++) {
        if (ks_str_equal(made.operators[i].name, ks_str_from(name))) {
            return &made.operators[i];
        }
    }
    return NULL;
}

static const struct ks_compare_setup *setup_of(const char *what)
{
    for (size_t i = 0; i < made.setup_count; i++) {
        if (strcmp(made.setups[i].what, what) == 0) {
            return &made.setups[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------ steps */

static void check_verdict(const struct recipe *a, const struct recipe *b,
                          enum ks_step_verdict verdict, enum ks_compare_reason reason)
{
    compare_recipes(a, b);
    assert_int_equal(made.verdict, verdict);
    assert_int_equal(made.reason, reason);
    end();
}

#define RUN(...)                                                                                   \
    &(const struct recipe)                                                                         \
    {                                                                                              \
        .durs = {__VA_ARGS__}, .op = "op", .kernel = "k", .kernel_ns = 10                          \
    }

static void test_verdicts(void **state)
{
    (void)state;
    const struct recipe *slow = RUN(2000, 2010, 1990, 2005);
    const struct recipe *fast = RUN(1500, 1490, 1505, 1500);
    check_verdict(slow, fast, KS_STEP_VERDICT_FASTER, KS_COMPARE_SURE);
    check_verdict(fast, slow, KS_STEP_VERDICT_SLOWER, KS_COMPARE_SURE);
    check_verdict(slow, slow, KS_STEP_VERDICT_NO_DIFFERENCE, KS_COMPARE_ALIKE);
    check_verdict(RUN(2000, 2000, 2000), RUN(2010, 2010, 2010), KS_STEP_VERDICT_NO_DIFFERENCE,
                  KS_COMPARE_SMALL);
    check_verdict(RUN(2000, 2000, 2000), RUN(2030, 2030, 2030), KS_STEP_VERDICT_SLOWER,
                  KS_COMPARE_SURE);
    check_verdict(RUN(2000, 1000, 3000), RUN(1500, 2500, 1800), KS_STEP_VERDICT_CANNOT_TELL,
                  KS_COMPARE_NOISY);
    check_verdict(RUN(2000, 2000), fast, KS_STEP_VERDICT_CANNOT_TELL, KS_COMPARE_FEW_STEPS);
    check_verdict(slow, RUN(1500, 1500), KS_STEP_VERDICT_CANNOT_TELL, KS_COMPARE_FEW_STEPS);
}

static void test_step_times(void **state)
{
    (void)state;
    compare_recipes(RUN(2000, 2600, 2000), RUN(1000, 1000, 1400, 1000));
    const struct ks_compare_times *a = &made.runs[KS_COMPARE_A].times;
    const struct ks_compare_times *b = &made.runs[KS_COMPARE_B].times;
    assert_int_equal(a->count, 3);
    assert_true(is_near(a->mean.value, 2200) && is_near(b->mean.value, 1100));
    assert_int_equal(a->median_ns, 2000);
    assert_int_equal(b->max_ns, 1400);
    assert_int_equal(b->min_ns, 1000);
    assert_true(is_near(b->std_ns, 200));
    assert_int_equal(a->numbers[2], 5);
    assert_true(is_near(a->list[1], 2600));
    assert_true(is_near(made.step.change.value, -1100) && is_near(made.step.ratio.value, 0.5));
    assert_true(a->unprofiled_ns == KS_UNKNOWN);
    end();
}

/* Without a step the recording is none: no numbers of steps, no crash. */
static void test_no_steps(void **state)
{
    (void)state;
    begin(&a_run);
    finish(&a_run);
    begin(&b_run);
    FACTS_HOST(&b_run.f, {1, OP, "op", 0, 100});
    finish(&b_run);
    compare_runs();
    assert_int_equal(made.verdict, KS_STEP_VERDICT_CANNOT_TELL);
    assert_int_equal(made.reason, KS_COMPARE_NO_STEPS);
    end();
}

/* Ranks that share a step make one value of it, and their parts weigh as much as their steps. */
static void test_ranks_share_steps(void **state)
{
    (void)state;
    begin(&a_run);
    facts_fixture_next_rank(&a_run.f, 0);
    FACTS_HOST(&a_run.f, {1, NOTE, "ProfilerStep#1", 1000, 100},
               {1, NOTE, "ProfilerStep#2", 1100, 200}, {1, NOTE, "ProfilerStep#3", 1300, 300});
    facts_fixture_next_rank(&a_run.f, 1);
    FACTS_HOST(&a_run.f, {1, NOTE, "ProfilerStep#1", 1000, 200},
               {1, NOTE, "ProfilerStep#2", 1200, 200}, {1, NOTE, "ProfilerStep#3", 1400, 100});
    finish(&a_run);
    begin(&b_run);
    add_steps(&b_run, RUN(1000, 1000, 1000));
    finish(&b_run);
    compare_runs();
    const struct ks_compare_times *a = &made.runs[KS_COMPARE_A].times;
    assert_int_equal(a->count, 3);
    assert_true(is_near(a->list[0], 150) && is_near(a->list[1], 200) && is_near(a->list[2], 200));
    assert_int_equal(made.runs[KS_COMPARE_A].ranks, 2);
    double sum = 0;
    for (size_t i = 0; i < made.part_count; i++) {
        sum += made.parts[i].group == KS_COMPARE_BREAKDOWN ? made.parts[i].a_ns : 0;
    }
    assert_true(is_near(sum, a->mean.value));
    const struct ks_compare_setup *ranks = setup_of("ranks");
    assert_true(ranks && ks_str_equal(ranks->a, KS_STR("2")) &&
                ks_str_equal(ranks->b, KS_STR("1")));
    end();
}

/* ------------------------------------------------------------ operators and kernels */

static void test_work(void **state)
{
    (void)state;
    const struct recipe before = {{2000, 2000, 2000}, "shared", "old_kernel", 50, 0};
    const struct recipe after = {{1000, 1000, 1000, 1000}, "shared", "new_kernel", 20, 0};
    compare_recipes(&before, &after);
    const struct ks_compare_operator *shared = operator_of("shared");
    assert_int_equal(shared->state, KS_COMPARE_BOTH);
    /* Two calls in each of the steps; those outside of steps are left out. */
    assert_true(is_near(shared->a.calls, 2) && is_near(shared->b.calls, 2));
    assert_true(is_near(shared->a.host_ns, 180) && is_near(shared->b.host_ns, 180));
    assert_true(is_near(shared->a.device_ns, 100) && is_near(shared->b.device_ns, 40));
    assert_true(is_near(shared->host_change_ns, 0) && is_near(shared->device_change_ns, -60));
    assert_null(operator_of("outside"));
    assert_int_equal(operator_of("ProfilerStep*")->state, KS_COMPARE_BOTH);
    assert_int_equal(made.kernel_count, 2);
    const struct ks_compare_kernel *gone = &made.kernels[0]; // 100 ns went, 40 ns came
    assert_true(ks_str_equal(gone->name, KS_STR("old_kernel")));
    assert_int_equal(gone->state, KS_COMPARE_GONE);
    assert_true(is_near(gone->change_ns, -100) && isnan(gone->b.calls));
    assert_int_equal(made.kernels[1].state, KS_COMPARE_NEW);
    assert_true(is_near(made.kernels[1].change_ns, 40) && isnan(made.kernels[1].a.device_ns));
    assert_int_equal(made.kernels[1].device, 0);
    end();
}

/* The same kernel on another device is the same kernel: devices are told apart only where both runs
 * used them. */
static void test_other_device(void **state)
{
    (void)state;
    const struct recipe before = {{2000, 2000, 2000}, "op", "k", 50, 0};
    const struct recipe after = {{2000, 2000, 2000}, "op", "k", 70, 3};
    compare_recipes(&before, &after);
    assert_int_equal(made.kernel_count, 1);
    assert_int_equal(made.kernels[0].state, KS_COMPARE_BOTH);
    assert_true(made.kernels[0].device == KS_UNKNOWN);
    assert_true(is_near(made.kernels[0].change_ns, 40));
    end();
}

/* ------------------------------------------------------------ memory, setups, findings */

static void test_memory(void **state)
{
    (void)state;
    static struct ks_memory_fact of_a[] = {
        {.device = 0, .peak_allocated_bytes = 4096, .peak_reserved_bytes = KS_UNKNOWN},
        {.device = 0, .peak_allocated_bytes = 512, .peak_reserved_bytes = KS_UNKNOWN},
    };
    static struct ks_memory_fact of_b[] = {
        {.device = 0,
         .peak_allocated_bytes = 1024,
         .peak_reserved_bytes = 2048,
         .step_count = 3,
         .growth_bytes = 7},
        {.device = -1, .peak_allocated_bytes = 512, .peak_reserved_bytes = 0},
    };
    begin(&a_run);
    add_steps(&a_run, RUN(1000, 1000, 1000));
    finish(&a_run);
    begin(&b_run);
    add_steps(&b_run, RUN(1000, 1000, 1000));
    finish(&b_run);
    a_run.f.facts.memory = of_a; // the analysis has tests of its own
    a_run.f.facts.memory_count = KS_COUNT_OF(of_a);
    b_run.f.facts.memory = of_b;
    b_run.f.facts.memory_count = KS_COUNT_OF(of_b);
    compare_runs();
    assert_int_equal(made.memory_count, 2);
    assert_int_equal(made.memory[0].device, -1);
    assert_int_equal(made.memory[0].state, KS_COMPARE_NEW);
    const struct ks_compare_memory *gpu = &made.memory[1];
    assert_int_equal(gpu->state, KS_COMPARE_BOTH);
    assert_true(gpu->a_allocated == 4096 && gpu->b_allocated == 1024); // the highest of each side
    assert_int_equal(gpu->allocated_change, -3072);
    assert_true(gpu->a_reserved == KS_UNKNOWN && gpu->reserved_change == KS_UNKNOWN);
    assert_true(gpu->a_growth == KS_UNKNOWN && gpu->b_growth == 7);
    end();
}

static void test_setups(void **state)
{
    (void)state;
    struct ks_err err = {0};
    begin(&a_run);
    a_run.f.source->with_stack = true;
    assert_int_equal(ks_trace_builder_intern(a_run.f.builder, KS_STR("2.10.0"),
                                             &a_run.f.source->torch_version, &err),
                     KS_OK);
    add_steps(&a_run, RUN(1000, 1000, 1000));
    finish(&a_run);
    begin(&b_run);
    FACTS_HOST(&b_run.f, {1, NOTE, "ProfilerStep#1", 0, 1000},
               {1, NOTE, "ProfilerStep#2", 1000, 1000}, {1, NOTE, "ProfilerStep#3", 2000, 1000},
               {1, NOTE, "ProfilerStep#4", 3000, 1000});
    finish(&b_run);
    compare_runs();
    const struct ks_compare_setup *torch = setup_of("torch");
    assert_true(torch && ks_str_equal(torch->a, KS_STR("2.10.0")) && !torch->b.ptr);
    const struct ks_compare_setup *stacks = setup_of("with_stack");
    assert_true(stacks && ks_str_equal(stacks->a, KS_STR("yes")));
    const struct ks_compare_setup *device = setup_of("device");
    assert_true(device && ks_str_equal(device->a, KS_STR("GPU")) &&
                ks_str_equal(device->b, KS_STR("CPU")));
    assert_true(setup_of("steps") != NULL);
    assert_null(setup_of("record_shapes"));
    assert_int_equal(made.runs[KS_COMPARE_A].path_count, 1);
    end();
}

/* Findings by hand, as rules would add them. */
static void find(struct run *run, const struct ks_rule *rule, const char *file, int64_t line,
                 int64_t saving_ns)
{
    struct ks_err err = {0};
    const struct ks_finding finding = {
        .rule = rule,
        .impact = KS_IMPACT_TIME,
        .saving = {saving_ns, 2 * saving_ns},
        .where = {.file = ks_str_from(file), .line = line, .rank = KS_UNKNOWN},
    };
    assert_int_equal(ks_findings_add(&run->findings, &run->f.facts, &finding, &err), KS_OK);
}

static void check_finding(size_t index, enum ks_compare_state state, const char *id, int64_t line,
                          int64_t a_low_ns, int64_t b_low_ns)
{
    const struct ks_compare_finding *finding = &made.findings[index];
    assert_int_equal(finding->state, state);
    assert_true(ks_str_equal(finding->id, ks_str_from(id)));
    assert_int_equal(finding->line, line);
    assert_true(finding->a.low_ns == a_low_ns && finding->b.low_ns == b_low_ns);
}

static void test_findings(void **state)
{
    (void)state;
    static const struct ks_rule sync = {.id = "sync.host", .title = "waits"};
    static const struct ks_rule copy = {.id = "copy.pageable", .title = "copies"};
    static const struct ks_rule fp32 = {.id = "precision.fp32_matmul", .title = "slow"};
    begin(&a_run);
    add_steps(&a_run, RUN(1000, 1000, 1000));
    finish(&a_run);
    begin(&b_run);
    add_steps(&b_run, RUN(1000, 1000, 1000));
    finish(&b_run);
    a_run.findings.count = b_run.findings.count = 0; // what our rules say is another test's matter
    find(&a_run, &sync, "train.py", 10, 100);
    find(&a_run, &sync, "train.py", 20, 80);
    find(&a_run, &copy, "", KS_UNKNOWN, 50);
    find(&b_run, &fp32, "", KS_UNKNOWN, 70);
    find(&b_run, &sync, "train.py", 20, 60);
    find(&b_run, &sync, "train.py", 12, 40);
    compare_runs();
    assert_int_equal(made.finding_count, 4);
    check_finding(0, KS_COMPARE_GONE, "copy.pageable", KS_UNKNOWN, 50, KS_UNKNOWN);
    check_finding(1, KS_COMPARE_NEW, "precision.fp32_matmul", KS_UNKNOWN, KS_UNKNOWN, 70);
    check_finding(2, KS_COMPARE_BOTH, "sync.host", 20, 80, 60);  // the same place
    check_finding(3, KS_COMPARE_BOTH, "sync.host", 12, 100, 40); // what is left of the rule
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdicts), cmocka_unit_test(test_step_times),
        cmocka_unit_test(test_no_steps), cmocka_unit_test(test_ranks_share_steps),
        cmocka_unit_test(test_work),     cmocka_unit_test(test_other_device),
        cmocka_unit_test(test_memory),   cmocka_unit_test(test_setups),
        cmocka_unit_test(test_findings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
