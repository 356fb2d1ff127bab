/* Goal: attention that cuDNN plans again, and operators that take the host long by themselves, are
 * found from their thresholds on, and nothing else is taken for them. Method: steps of a few rows,
 * and each of them with one thing that keeps it from being a fault. */
#include <string.h>

#include "cmocka_all.h"
#include "replay_fixture.h"

enum { MAIN = 1, BACKWARD = 2, LOADING = 3 };

/* Runs the rules on STEPS steps of `period` us: this one finds something, or nothing. */
static void check_rule(enum rule_case kind, layout *add, int64_t period, const char *id)
{
    facts_fixture_init(&f, 0, 0);
    f.source->record_shapes = true;
    add_steps(add, period);
    run_rule(kind, id);
}

/* ------------------------------------------------------------ attention */

static int64_t plan_us = 40000;
static const char *forward_dims = "[[8, 16, 1, 64], [8, 16, 512, 64], [8, 16, 512, 64]]";

/* The three operators of a layer's attention, which launches at its end. */
static void attend(int64_t at, int64_t corr, int64_t from, int64_t us)
{
    HOST({MAIN, OP, "aten::scaled_dot_product_attention", from, us + 8, .dims = forward_dims},
         {MAIN, OP, "aten::_scaled_dot_product_cudnn_attention", from + 2, us + 4,
          .dims = forward_dims},
         {MAIN, OP, "aten::_cudnn_attention_forward", from + 4, us, .dims = forward_dims},
         {MAIN, CALL, "cuLaunchKernelEx", from + us - 6, 6, .corr = corr});
    DEVICE({0, 7, KERNEL, "cudnn_generated_fort_native_sdpa", from + us, 8, corr});
}

static void planned(int64_t at, int64_t corr)
{
    attend(at, corr, 10, plan_us);
    attend(at, corr + 1, plan_us + 30, 36);
    attend(at, corr + 2, plan_us + 90, 36);
}

static void planned_once(int64_t at, int64_t corr)
{
    int64_t plan = plan_us;
    plan_us = at == 0 ? plan : 36;
    planned(at, corr);
    plan_us = plan;
}

static void planned_and_waiting(int64_t at, int64_t corr)
{
    planned(at, corr);
    HOST({MAIN, CALL, "cudaStreamSynchronize", 100, 10});
}

/* One layer only, and nothing is known of its inputs. */
static void planned_alone(int64_t at, int64_t corr)
{
    const char *dims = forward_dims;
    forward_dims = NULL;
    attend(at, corr, 10, plan_us);
    forward_dims = dims;
}

static void test_plans(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    f.source->record_shapes = true;
    add_steps(planned, 40200);
    facts_fixture_compute(&f, NULL);
    const struct ks_retuning_cost *plans = &f.facts.work.plans;
    assert_true(plans->cost.count > 0.99 && plans->cost.count < 1.01);
    assert_int_equal(plans->cost.host_ns, 40004 * US); /* torch's operator, which holds cuDNN's */
    assert_int_equal(plans->usual_host_ns, 40 * US);
    assert_int_equal(plans->usual_device_ns, plans->cost.device_ns);
    assert_int_equal(plans->shapes, 1);
    assert_int_equal(plans->cost.step_count, STEPS);
    assert_int_equal(f.facts.work.slow.steps_with, 0);
    facts_fixture_release(&f);
}

/* 40 ms of 40.2; low keeps three times 40 us, and takes 0.92 of the saving. */
static void test_plans_rule(void **state)
{
    (void)state;
    check_rule(RULE_FIRES, planned, 40200, "cudnn.retuning");
    check_saving_us(36000, 37000, 39900, 40000);
    assert_string_equal(found.cause, "attention_plans");
    assert_string_equal(found.op, "aten::_scaled_dot_product_cudnn_attention");
    assert_non_null(strstr(found.text, "plans"));
    check_rule(RULE_SILENT, planned, 40200, "host.slow_operator"); /* it has a better name */
    check_rule(RULE_SILENT, planned, 40200, "launch.bound");
    check_rule(RULE_FIRES, planned_alone, 40200, "cudnn.retuning");
    check_rule(RULE_NEAR_MISS, planned_once, 40200, "cudnn.retuning");
    check_rule(RULE_NEAR_MISS, planned_and_waiting, 40200, "cudnn.retuning");
    check_rule(RULE_NEAR_MISS, planned, 900 * 1000, "cudnn.retuning"); /* under 5 % */
    plan_us = 2900; /* torch's operator takes 2.904 ms */
    check_rule(RULE_NEAR_MISS, planned, 3100, "cudnn.retuning");
    check_rule(RULE_FIRES, planned, 3100, "host.slow_operator");
    plan_us = 40000;
}

/* ------------------------------------------------------------ slow operators */

static int64_t own_us = 2000;
static int64_t thread = MAIN;
static const char *slow_name = "mylib::sample";

/* An operator that takes long before it launches, and one that does not. */
static void slow(int64_t at, int64_t corr)
{
    HOST({thread, OP, slow_name, 10, own_us + 10, .dims = "[[128, 1000]]"},
         {thread, CALL, "cudaLaunchKernel", 10 + own_us, 5, .corr = corr},
         {thread, OP, "aten::empty", 15 + own_us, 5}, {MAIN, OP, "aten::mul", 60 + own_us, 20},
         {MAIN, CALL, "cudaLaunchKernel", 65 + own_us, 5, .corr = corr + 1});
    DEVICE({0, 7, KERNEL, "sample", 20 + own_us, 10, corr},
           {0, 7, KERNEL, "mul", 72 + own_us, 10, corr + 1});
}

static void slow_and_quick(int64_t at, int64_t corr)
{
    slow(at, corr);
    HOST({MAIN, OP, slow_name, 150 + own_us, 50},
         {MAIN, CALL, "cudaLaunchKernel", 190 + own_us, 5, .corr = corr + 2});
    DEVICE({0, 7, KERNEL, "sample", 196 + own_us, 10, corr + 2});
}

static void slow_once(int64_t at, int64_t corr)
{
    int64_t own = own_us;
    own_us = at == 0 ? own : 50;
    slow(at, corr);
    own_us = own;
}

static void slow_call(int64_t at, int64_t corr, const char *call)
{
    slow(at, corr);
    HOST({MAIN, CALL, call, 12, own_us - 500});
}

static void waiting(int64_t at, int64_t corr)
{
    slow_call(at, corr, "cudaStreamSynchronize");
}

static void allocating(int64_t at, int64_t corr)
{
    slow_call(at, corr, "cudaMalloc");
}

static void around(int64_t at, int64_t corr, enum ks_category category, const char *name)
{
    HOST({thread, category, name, 5, own_us + 100});
    slow(at, corr);
}

static void loading(int64_t at, int64_t corr)
{
    around(at, corr, NOTE, LOADER);
}

static void compiled(int64_t at, int64_t corr)
{
    around(at, corr, OP, "_compile.compile_inner (dynamo_timed)");
}

static void node(int64_t at, int64_t corr)
{
    around(at, corr, OP, "autograd::engine::evaluate_function: SampleBackward");
}

static void holds_another(int64_t at, int64_t corr)
{
    around(at, corr, OP, "mylib::outer");
}

/* An operator that never ends, and one that lasts for centuries. */
static void damaged(int64_t at, int64_t corr)
{
    slow(at, corr);
    HOST({LOADING, OP, "aten::nan", 1, 0, .flags = KS_SLICE_UNFINISHED},
         {LOADING, OP, "aten::inf", 2, INT64_MAX / 4000});
}

static void test_slow(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    add_steps(slow_and_quick, 2500);
    facts_fixture_compute(&f, NULL);
    const struct ks_slow_cost *cost = &f.facts.work.slow;
    assert_int_equal(cost->own_ns, 2000 * US); /* not the launch, not the operator inside */
    assert_int_equal(cost->cost.host_ns, 2010 * US);
    assert_int_equal(cost->usual_ns, 45 * US);
    assert_int_equal(cost->steps_with, STEPS);
    assert_int_equal(cost->shapes, 1);
    assert_int_equal(cost->other_ns, 0);
    facts_fixture_release(&f);
}

static void test_slow_rule(void **state)
{
    (void)state;
    check_rule(RULE_FIRES, slow, 2200, "host.slow_operator");
    check_saving_us(950, 1010, 1950, 2010);
    assert_string_equal(found.op, "mylib::sample");
    assert_non_null(strstr(found.text, "[[128, 1000]]"));
    assert_null(strstr(found.text, "other calls"));
    check_rule(RULE_FIRES, slow_and_quick, 2500, "host.slow_operator");
    check_saving_us(950, 985, 1900, 1960);
    assert_non_null(strstr(found.text, "other calls take 45 us"));
    check_rule(RULE_FIRES, holds_another, 2200, "host.slow_operator");
    assert_string_equal(found.op, "mylib::sample");
    check_rule(RULE_FIRES, damaged, 2200, "host.slow_operator");
    own_us = 999;
    check_rule(RULE_NEAR_MISS, slow, 1200, "host.slow_operator");
    own_us = 2000;
    check_rule(RULE_FIRES, slow, 29500, "host.slow_operator"); /* 5 % */
    check_rule(RULE_NEAR_MISS, slow, 30500, "host.slow_operator");
}

/* Steps of 2200 us, of which so many are slow. */
static void check_steps(enum rule_case kind, int64_t slow_steps, int64_t steps)
{
    static const char *const names[] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3",
                                        "ProfilerStep#4", "ProfilerStep#5", "ProfilerStep#6",
                                        "ProfilerStep#7", "ProfilerStep#8", "ProfilerStep#9"};
    facts_fixture_init(&f, 0, 0);
    for (int64_t i = 0; i < steps; i++) {
        int64_t at = i * 2200;
        own_us = i < slow_steps ? 2000 : 50;
        HOST({MAIN, NOTE, names[i], 0, 2200});
        slow(at, 1 + i * 1000);
    }
    own_us = 2000;
    run_rule(kind, "host.slow_operator");
}

static void test_slow_in_half(void **state)
{
    (void)state;
    check_steps(RULE_FIRES, 4, 8);
    check_steps(RULE_NEAR_MISS, 4, 9);
}

static void test_others(void **state)
{
    (void)state;
    layout *const known[] = {slow_once, waiting, allocating, loading, compiled};
    for (size_t i = 0; i < KS_COUNT_OF(known); i++) {
        check_rule(RULE_SILENT, known[i], 2200, "host.slow_operator");
    }
    static const char *const names[] = {"aten::nonzero", "aten::item", "Optimizer.step#SGD.step",
                                        "gloo:all_reduce"};
    for (size_t i = 0; i < KS_COUNT_OF(names); i++) {
        slow_name = names[i];
        check_rule(RULE_NEAR_MISS, slow, 2200, "host.slow_operator");
    }
    slow_name = "mylib::sample";
    thread = BACKWARD;
    check_rule(RULE_NEAR_MISS, slow, 2200, "host.slow_operator"); /* nobody waits for it */
    check_rule(RULE_FIRES, node, 2200, "host.slow_operator");
    thread = MAIN;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),        cmocka_unit_test(test_plans_rule),
        cmocka_unit_test(test_slow),         cmocka_unit_test(test_slow_rule),
        cmocka_unit_test(test_slow_in_half), cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
