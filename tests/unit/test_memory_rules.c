/* Goal: memory.growth, memory.allocator_churn and inference.grad_enabled fire on their fault, with
 * numbers that can be checked by hand, and are silent just below their limits. Method: traces by
 * hand, the examples of docs/analyses/memory_steps.md, driver_memory.md and autograd_graph.md. */
#include <stdio.h>
#include <string.h>

#include "advise/findings.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

enum { STEPS = 4, MIB = 1 << 20, US = 1000, PERIOD = 1000 * US };

static struct ks_gpu_info gpu = {.memory_bytes = 1000LL * MIB, .compute_major = 9, .sm_count = 132};

static struct facts_fixture f;
static struct ks_findings findings;

static void start(void)
{
    facts_fixture_init(&f, 0, 0);
}

static void add_step(int64_t step)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "ProfilerStep#%d", (int)step + 1);
    const struct host_row row = {1, NOTE, name, step * PERIOD, PERIOD};
    facts_fixture_host(&f, &row, 1);
}

static const struct ks_finding *compute(const char *id, enum rule_case kind)
{
    facts_fixture_advise(&f, &findings);
    return rule_case(&findings, id, kind);
}

static enum ks_check_state state_of(const char *id)
{
    for (size_t i = 0; i < findings.check_count; i++) {
        if (strcmp(findings.checks[i].rule->id, id) == 0) {
            return findings.checks[i].state;
        }
    }
    fail();
    return KS_CHECK_FINE;
}

static void release(void)
{
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

/* ------------------------------------------------------------ memory.growth */

/* Per step: 8 MiB come and go, 64 MiB find no room, `kept[step]` bytes stay, made by aten::relu. */
static const struct ks_finding *grow(const int64_t *kept, size_t steps, enum rule_case kind)
{
    start();
    f.source->gpus = &gpu;
    f.source->gpu_count = 1;
    for (size_t i = 0; i < steps; i++) {
        int64_t at = (int64_t)i * PERIOD;
        add_step((int64_t)i);
        const struct host_row rows[] = {
            {1, OP, "aten::mm", at + 100 * US, 50 * US},
            {1, OP, "aten::relu", at + 200 * US, 50 * US},
            {1, CALL, "cudaLaunchKernel", at + 210 * US, 5 * US, .corr = (int64_t)i + 1}};
        facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
        const struct device_row kernel = {
            0, 7, KERNEL, "k", at + 220 * US, 10 * US, (int64_t)i + 1};
        facts_fixture_device(&f, &kernel, 1);
        const struct memory_row memory[] = {
            {at + 110 * US, 8 * MIB, 0, 1},
            {at + 120 * US, 64 * MIB, 0, 0, KS_MEMORY_OUT_OF_MEMORY},
            {at + 220 * US, kept[i], 0, 100 + i},
            {at + 300 * US, -8 * MIB, 0, 1}};
        facts_fixture_memory(&f, memory, KS_COUNT_OF(memory));
    }
    return compute("memory.growth", kind);
}

/* 2 MiB stay in each of four steps: the least is 0, 2, 4, 6 MiB; 16 MiB at the peak, so that 1000
 * - 16 = 984 MiB hold 492 more steps. */
static void test_growth(void **state)
{
    (void)state;
    static const int64_t kept[STEPS] = {2 * MIB, 2 * MIB, 2 * MIB, 2 * MIB};
    const struct ks_finding *finding = grow(kept, STEPS, RULE_FIRES);
    assert_int_equal(finding->bytes, 2 * MIB);
    assert_int_equal(finding->steps_until_oom, 492);
    assert_int_equal(finding->saving.high_ns, 0);
    assert_string_equal(findings.list[0].rule->id, "memory.growth");
    struct ks_str op = ks_trace_str(f.facts.trace, finding->where.op);
    assert_true(ks_str_equal(op, KS_STR("aten::relu")));
    assert_true(facts_fixture_evidence(finding, "held_of_one_step") == 2 * MIB);
    assert_int_equal(f.facts.memory_count, 1);
    assert_int_equal(f.facts.memory[0].peak_allocated_bytes, 16 * MIB);
    assert_int_equal(f.facts.memory[0].largest_bytes, 8 * MIB);
    release();
}

/* What grows once, not in each step, or by less than half of the usual is no growth. */
static void test_no_growth(void **state)
{
    (void)state;
    static const int64_t level[STEPS] = {0, 0, 0, 0};
    grow(level, STEPS, RULE_SILENT);
    assert_int_equal(state_of("memory.growth"), KS_CHECK_FINE);
    release();
    static const int64_t once[STEPS] = {64 * MIB, 0, 0, 0};
    grow(once, STEPS, RULE_SILENT);
    release();
    static const int64_t uneven[STEPS] = {2 * MIB, 16 * MIB, 7 * MIB, 16 * MIB};
    grow(uneven, STEPS, RULE_NEAR_MISS);
    release();
}

/* 984 MiB in 100,000 steps are 10.3 KiB a step. */
static void test_little_growth(void **state)
{
    (void)state;
    static const int64_t little[STEPS] = {10 << 10, 10 << 10, 10 << 10, 10 << 10};
    grow(little, STEPS, RULE_NEAR_MISS);
    release();
    static const int64_t enough[STEPS] = {11 << 10, 11 << 10, 11 << 10, 11 << 10};
    const struct ks_finding *finding = grow(enough, STEPS, RULE_FIRES);
    assert_true(finding->steps_until_oom > 10000);
    release();
}

/* Every second step keeps 2 MiB: 0, 2, 2, 4, 4, 6 MiB at least, 1 MiB a step. Five steps are
 * too few to tell, and what every fifth keeps is not looked for. */
static void test_growth_of_every_second_step(void **state)
{
    (void)state;
    static const int64_t kept[] = {2 * MIB, 0, 2 * MIB, 0, 2 * MIB, 0};
    const struct ks_finding *finding = grow(kept, KS_COUNT_OF(kept), RULE_FIRES);
    assert_int_equal(finding->bytes, 1 * MIB);
    assert_int_equal(finding->steps_until_oom, 1000 - 14);
    assert_true(facts_fixture_evidence(finding, "held_of_one_step") == 2 * MIB);
    struct ks_str op = ks_trace_str(f.facts.trace, finding->where.op);
    assert_true(ks_str_equal(op, KS_STR("aten::relu")));
    release();
    grow(kept, KS_COUNT_OF(kept) - 1, RULE_NEAR_MISS);
    release();
    static const int64_t fifth[20] = {[0] = MIB, [5] = MIB, [10] = MIB, [15] = MIB};
    grow(fifth, KS_COUNT_OF(fifth), RULE_SILENT);
    release();
    static const int64_t fourth[12] = {[2] = 8 * MIB, [6] = 8 * MIB, [10] = 8 * MIB};
    finding = grow(fourth, KS_COUNT_OF(fourth), RULE_FIRES);
    assert_int_equal(finding->bytes, 2 * MIB);
    /* The step in the middle, the sixth, keeps nothing; the one behind it does. */
    assert_true(facts_fixture_evidence(finding, "held_of_one_step") == 8 * MIB);
    op = ks_trace_str(f.facts.trace, finding->where.op);
    assert_true(ks_str_equal(op, KS_STR("aten::relu")));
    release();
}

static void test_growth_needs_steps_and_events(void **state)
{
    (void)state;
    static const int64_t kept[] = {2 * MIB, 2 * MIB};
    grow(kept, 2, RULE_NEAR_MISS);
    assert_int_equal(state_of("memory.growth"), KS_CHECK_COULD_NOT);
    release();
    start();
    add_step(0);
    compute("memory.growth", RULE_SILENT);
    assert_int_equal(state_of("memory.growth"), KS_CHECK_COULD_NOT);
    release();
}

/* Per step 2 MiB stay on a GPU of 1000 MiB, and 3 MiB on one that has eighty times as much. */
static void test_memory_that_is_full_first(void **state)
{
    (void)state;
    struct ks_gpu_info gpus[] = {gpu, gpu};
    gpus[1].id = 1;
    gpus[1].memory_bytes *= 80;
    start();
    f.source->gpus = gpus;
    f.source->gpu_count = KS_COUNT_OF(gpus);
    for (int64_t i = 0; i < STEPS; i++) {
        add_step(i);
        const struct memory_row memory[] = {{i * PERIOD + 100 * US, 2 * MIB, 0, 100 + (uint64_t)i},
                                            {i * PERIOD + 200 * US, 3 * MIB, 1, 200 + (uint64_t)i}};
        facts_fixture_memory(&f, memory, KS_COUNT_OF(memory));
    }
    const struct ks_finding *finding = compute("memory.growth", RULE_FIRES);
    assert_int_equal(f.facts.memory_count, 2);
    assert_int_equal(finding->where.device, 0);
    assert_int_equal(finding->steps_until_oom, (1000 - 8) / 2);
    release();
}

/* ------------------------------------------------------------ memory.allocator_churn */

static bool are_frees_inside; /* of aten::empty, which begins with them then */

/* Per step of 1000 us: a kernel of 10 us; `code` us of code, then `frees` calls of `us` each
 * outside of operators; the rest of the step in aten::empty, which calls cudaMalloc. */
static const struct ks_finding *churn(int64_t frees, int64_t mallocs, int64_t us, int64_t code,
                                      enum rule_case kind)
{
    int64_t corr = 1;
    int64_t outside = are_frees_inside ? 0 : frees;
    start();
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t at = i * PERIOD;
        add_step(i);
        const struct host_row rows[] = {
            {1, OP, "aten::mm", at, 20 * US},
            {1, CALL, "cudaLaunchKernel", at + 10 * US, 5 * US, .corr = corr},
            {1, OP, "aten::empty", at + (20 + code + outside * us) * US,
             (980 - code - outside * us) * US},
        };
        facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
        for (int64_t call = 0; call < frees; call++) {
            int64_t begin = at + (20 + code + call * us) * US;
            const struct host_row row = {1, CALL, "cudaFree", begin, us * US};
            facts_fixture_host(&f, &row, 1);
        }
        for (int64_t call = 0; call < mallocs; call++) {
            const struct host_row row = {1, CALL, "cudaMalloc", at + (710 + call * us) * US,
                                         us * US};
            facts_fixture_host(&f, &row, 1);
        }
        const struct device_row kernel = {0, 7, KERNEL, "k", at + 30 * US, 10 * US, corr++};
        facts_fixture_device(&f, &kernel, 1);
    }
    return compute("memory.allocator_churn", kind);
}

/* Two calls of each kind, 50 us: 200 us go, and half as much again at most. */
static void test_churn(void **state)
{
    (void)state;
    const struct ks_finding *finding = churn(2, 2, 50, 0, RULE_FIRES);
    assert_int_equal(finding->saving_in_trace.low_ns, 200 * US);
    assert_int_equal(finding->saving_in_trace.high_ns, 500 * US);
    assert_in_range(finding->saving.low_ns, 190 * US, 200 * US);
    assert_in_range(finding->saving.high_ns, 295 * US, 300 * US);
    assert_true(facts_fixture_evidence(finding, "gives_outside_operators") == 2);
    assert_non_null(strstr(finding->fix_text, "empty_cache"));
    struct ks_str op = ks_trace_str(f.facts.trace, finding->where.op);
    assert_true(ks_str_equal(op, KS_STR("aten::empty")));
    release();
}

/* 300 us of code directly before freeing belong to it, half of them for sure, and are no
 * host.python_gap. */
static void test_churn_collects_garbage(void **state)
{
    (void)state;
    const struct ks_finding *finding = churn(2, 2, 50, 300, RULE_FIRES);
    assert_int_equal(finding->saving_in_trace.low_ns, 350 * US);
    assert_int_equal(finding->saving_in_trace.high_ns, 800 * US);
    assert_true(facts_fixture_evidence(finding, "before_giving") == 300 * US);
    assert_null(facts_fixture_finding(&findings, "host.python_gap"));
    release();
}

/* The allocator gives memory back itself when what it has does not fit. */
static void test_churn_of_the_allocator(void **state)
{
    (void)state;
    are_frees_inside = true;
    const struct ks_finding *finding = churn(2, 2, 50, 0, RULE_FIRES);
    assert_true(facts_fixture_evidence(finding, "gives_outside_operators") == 0);
    assert_non_null(strstr(finding->fix_code, "expandable_segments"));
    release();
    are_frees_inside = false;
}

/* Only taking is growth; 3 % of the step are 30 us. */
static void test_no_churn(void **state)
{
    (void)state;
    churn(0, 2, 50, 0, RULE_SILENT);
    assert_int_equal(state_of("memory.allocator_churn"), KS_CHECK_FINE);
    release();
    churn(1, 1, 14, 0, RULE_NEAR_MISS);
    release();
    churn(1, 1, 15, 0, RULE_FIRES);
    release();
}

/* ------------------------------------------------------------ inference.grad_enabled */

enum graph { GRAPH_BUILT, GRAPH_LEVEL, GRAPH_CASTS, GRAPH_NONE };

/* `layers` operators a step. */
static const struct ks_finding *infer(int64_t layers, enum graph graph, const char *extra,
                                      enum rule_case kind)
{
    int64_t number = 100;
    start();
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t at = i * PERIOD;
        add_step(i);
        for (int64_t layer = 0; layer < layers; layer++) {
            int64_t seq = graph == GRAPH_NONE ? 0 : number;
            const struct host_row row = {1,
                                         OP,
                                         graph == GRAPH_CASTS ? "aten::to" : "aten::linear",
                                         at + layer * 10 * US,
                                         5 * US,
                                         .seq = seq};
            facts_fixture_host(&f, &row, 1);
            number += graph != GRAPH_LEVEL;
            const struct memory_row memory = {at + (layer * 10 + 1) * US, 4 * MIB, -1,
                                              (uint64_t)layer + 1};
            facts_fixture_memory(&f, &memory, 1);
        }
        const struct memory_row last = {at + 900 * US, -4 * MIB * layers, -1, 99};
        facts_fixture_memory(&f, &last, 1);
    }
    if (extra) {
        const struct host_row row = {1, OP, extra, 950 * US, 5 * US};
        facts_fixture_host(&f, &row, 1);
    }
    return compute("inference.grad_enabled", kind);
}

/* Ten operators a step: 39 of 40 make the number grow. Ten times 4 MiB at the peak, of which 8 are
 * needed anyway. */
static void test_graph(void **state)
{
    (void)state;
    const struct ks_finding *finding = infer(10, GRAPH_BUILT, NULL, RULE_FIRES);
    assert_int_equal(finding->bytes, 32 * MIB);
    assert_true(facts_fixture_evidence(finding, "nodes_per_step") == 9.75);
    assert_int_equal(finding->where.step_count, STEPS);
    release();
}

static void test_no_graph(void **state)
{
    (void)state;
    infer(10, GRAPH_NONE, NULL, RULE_SILENT);
    release();
    infer(10, GRAPH_LEVEL, NULL, RULE_SILENT); /* nothing requires gradients */
    release();
    infer(10, GRAPH_CASTS, NULL, RULE_SILENT); /* autocast under no_grad */
    release();
    infer(6, GRAPH_BUILT, NULL, RULE_NEAR_MISS); /* 5.75 a step */
    release();
    infer(7, GRAPH_BUILT, NULL, RULE_FIRES);
    release();
}

static void test_training_uses_its_graph(void **state)
{
    (void)state;
    infer(10, GRAPH_BUILT, "autograd::engine::evaluate_function: MmBackward0", RULE_SILENT);
    assert_int_equal(state_of("inference.grad_enabled"), KS_CHECK_FINE);
    release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_no_growth),
        cmocka_unit_test(test_little_growth),
        cmocka_unit_test(test_memory_that_is_full_first),
        cmocka_unit_test(test_growth_of_every_second_step),
        cmocka_unit_test(test_growth_needs_steps_and_events),
        cmocka_unit_test(test_churn),
        cmocka_unit_test(test_churn_collects_garbage),
        cmocka_unit_test(test_churn_of_the_allocator),
        cmocka_unit_test(test_no_churn),
        cmocka_unit_test(test_graph),
        cmocka_unit_test(test_no_graph),
        cmocka_unit_test(test_training_uses_its_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
