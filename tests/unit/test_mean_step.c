/* Goal: the mean step is what docs/analyses/mean_step.md says, and rules that read it keep their
 * bounds. Method: the page's example through all analyses; then the rules on mean steps by hand.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "advise/findings.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

static struct facts_fixture f;

enum { STEPS = 3, UNPROFILED = 78000 };

static int64_t period_us = 100;

#define HOST(fixture, ...) FACTS_HOST(fixture, __VA_ARGS__)
#define DEVICE(fixture, ...) FACTS_DEVICE(fixture, __VA_ARGS__)

/* A step of the example, us from its start: gemm launched 10..12, runs 20..50; item 52..72; a copy
 * of 1 MiB launched 80..82, runs 84..96; a copy of 4 bytes 97..99. */
static void add_step(const char *name, int64_t at, int64_t corr)
{
    enum { US = 1000 };
    HOST(&f, {1, NOTE, name, at, period_us * US}, {1, OP, "aten::mm", at + 8 * US, 6 * US},
         {1, CALL, "cudaLaunchKernel", at + 10 * US, 2 * US, .corr = corr},
         {1, OP, "aten::item", at + 52 * US, 20 * US},
         {1, CALL, "cudaMemcpyAsync", at + 54 * US, 2 * US, .corr = corr + 1},
         {1, CALL, "cudaStreamSynchronize", at + 58 * US, 10 * US},
         {1, OP, "aten::to", at + 78 * US, 6 * US},
         {1, CALL, "cudaMemcpyAsync", at + 80 * US, 2 * US, .corr = corr + 2},
         {1, OP, "aten::copy_", at + 90 * US, 5 * US},
         {1, CALL, "cudaMemcpyAsync", at + 91 * US, 2 * US, .corr = corr + 3});
    DEVICE(&f, {0, 7, KERNEL, "gemm", at + 20 * US, 30 * US, corr},
           {0, 7, MEMCPY, "Memcpy DtoH (Device -> Pinned)", at + 60 * US, 2 * US, corr + 1,
            .bytes = 4},
           {0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", at + 84 * US, 12 * US, corr + 2,
            .bytes = 1 << 20},
           {0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", at + 97 * US, 2 * US, corr + 3,
            .bytes = 4});
    /* Neither of them is pageable: a copy of the same size from pinned memory. */
    HOST(&f, {2, OP, "aten::to", at + 80 * US, 4 * US},
         {2, CALL, "cudaMemcpyAsync", at + 81 * US, 1 * US, .corr = corr + 4});
    DEVICE(&f, {0, 8, MEMCPY, "Memcpy HtoD (Pinned -> Device)", at + 85 * US, 10 * US, corr + 4,
                .bytes = 1 << 20});
}

static void build(int64_t unprofiled_ns)
{
    static const char *const names[STEPS] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"};
    facts_fixture_init(&f, 0, 0);
    f.source->unprofiled_step_ns = unprofiled_ns;
    for (int64_t i = 0; i < STEPS; i++) {
        add_step(names[i], i * period_us * 1000, 1 + 5 * i);
    }
    facts_fixture_compute(&f, NULL);
}

static void test_example(void **state)
{
    (void)state;
    build(0);
    const struct ks_mean_step *mean = &f.facts.mean_step;
    assert_null(mean->obstacle);
    assert_int_equal(mean->step_ns, 100000);
    assert_int_equal(mean->busy_ns, 46000);
    assert_int_equal(mean->idle_ns, 54000);
    int64_t sum_ns = 0;
    for (int cause = 0; cause < KS_IDLE_COUNT; cause++) {
        sum_ns += mean->idle_by_cause_ns[cause];
    }
    assert_true(sum_ns >= mean->idle_ns - KS_IDLE_COUNT && sum_ns <= mean->idle_ns);
    assert_true(fabs(mean->launches - 5) < 1e-9);
    assert_true(fabs(mean->reads.count - 1) < 1e-9);
    assert_int_equal(mean->reads.operator_ns, 20000);
    assert_true(fabs(mean->small_copies.count - 1) < 1e-9); /* item's own copy is a read */
    assert_int_equal(mean->small_copies.operator_ns, 5000);
    assert_true(fabs(mean->small_copies.bytes - 4) < 1e-9);
    assert_true(fabs(mean->pageable.count - 1) < 1e-9);
    assert_int_equal(mean->pageable.device_ns, 12000);
    assert_true(fabs(mean->pageable.bytes - (1 << 20)) < 1e-6);
    facts_fixture_release(&f);
}

/* Five operators that cost 3 us each; of what the read costs before it waits, 2 us are there. */
static double example_us(double factor)
{
    double lost_us = 1.5 * factor - 2;
    return 100 - 15 * factor + (lost_us > 0 ? lost_us : 0);
}

static void test_prediction(void **state)
{
    (void)state;
    build(0);
    const struct ks_mean_step *mean = &f.facts.mean_step;
    assert_true(llabs(mean->predicted_high_ns - llround(1000 * example_us(0.90))) <= 1);
    assert_true(llabs(mean->predicted_ns - llround(1000 * example_us(1.50))) <= 1);
    assert_true(llabs(mean->predicted_low_ns - llround(1000 * example_us(1.85))) <= 1);
    assert_int_equal(mean->unprofiled_ns, 0);
    assert_true(fabs(mean->cost_low - 0.90) < 1e-9);
    assert_true(fabs(mean->cost_high - 1.85) < 1e-9);
    facts_fixture_release(&f);
}

static void check_fit(int64_t unprofiled_ns, double low, double high)
{
    build(unprofiled_ns);
    const struct ks_mean_step *mean = &f.facts.mean_step;
    bool is_ahead = unprofiled_ns < 41400; /* of the device, which works 46 us: no step took that */
    assert_int_equal(mean->unprofiled_ns, is_ahead ? 0 : unprofiled_ns);
    assert_true(fabs(mean->cost_low - low) < 0.004);
    assert_true(fabs(mean->cost_high - high) < 0.004);
    assert_true(llabs(mean->predicted_ns - llround(1000 * example_us(1.50))) <= 1);
    facts_fixture_release(&f);
}

/* Unprofiled steps say how much the rows cost; the prediction is from the trace alone. */
static void test_cost(void **state)
{
    (void)state;
    double factor = (98 - 78) / 13.5;
    assert_true(fabs(example_us(factor) - 1e-3 * UNPROFILED) < 1e-9);
    check_fit(UNPROFILED, factor - 0.2, factor + 0.2);
    check_fit(42000, 2.8, 3); /* shorter than any replay, which the device's 46 us still allow */
    check_fit(41000, 0.9, 1.85);
    check_fit(200000, 0, 0.2);
}

static void check_obstacle(bool has_steps, bool has_gpu, const char *words)
{
    facts_fixture_init(&f, 0, 0);
    for (int64_t i = 0; i < STEPS; i++) {
        if (has_steps) {
            HOST(&f, {1, NOTE, i ? i > 1 ? "ProfilerStep#3" : "ProfilerStep#2" : "ProfilerStep#1",
                      i * 100, 100});
        }
        HOST(&f, {1, OP, "aten::mm", i * 100 + 10, 10},
             {1, CALL, "cudaLaunchKernel", i * 100 + 12, 2, .corr = i + 1});
    }
    if (has_gpu) {
        DEVICE(&f, {0, 7, KERNEL, "gemm", 20, 10, 1}); /* in one step of three */
    }
    facts_fixture_compute(&f, NULL);
    assert_non_null(f.facts.mean_step.obstacle);
    assert_non_null(strstr(f.facts.mean_step.obstacle, words));
    facts_fixture_release(&f);
}

static void test_obstacles(void **state)
{
    (void)state;
    check_obstacle(true, false, "no GPU work");
    check_obstacle(true, true, "less than half");
    check_obstacle(false, true, "complete steps");
}

/* ------------------------------------------------------------ the rules */

/* Runs the rules on the example with another mean step. */
static void run_rules(const struct ks_mean_step *mean, struct ks_findings *findings)
{
    struct ks_err err = {0};
    build(0);
    struct ks_mean_step changed = *mean;
    changed.reads.worst = f.facts.mean_step.reads.worst;
    changed.small_copies.worst = f.facts.mean_step.small_copies.worst;
    changed.pageable.worst = f.facts.mean_step.pageable.worst;
    f.facts.mean_step = changed;
    assert_int_equal(ks_findings_compute(&f.facts, findings, &err), KS_OK);
}

/* The finding of this id has these bounds. */
static void check_rule(const struct ks_mean_step *mean, const char *id, int64_t low_ns,
                       int64_t high_ns)
{
    struct ks_findings findings = {0};
    run_rules(mean, &findings);
    const struct ks_finding *finding = rule_case(&findings, id, RULE_FIRES);
    assert_true(finding->saving.high_ns <= f.facts.mean_step.step_ns);
    assert_int_equal(finding->saving.low_ns, low_ns);
    assert_int_equal(finding->saving.high_ns, high_ns);
    assert_true(finding->evidence_count >= 3);
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

/* There is none. */
static void check_none(const struct ks_mean_step *mean, const char *id, enum rule_case kind)
{
    struct ks_findings findings = {0};
    run_rules(mean, &findings);
    rule_case(&findings, id, kind);
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

/* A step as long as that of the example, in which the GPU idles some us. What is saved comes from
 * replays of the example: its numbers are below. Recording costs nothing there. */
static struct ks_mean_step mean_of(int64_t launch, int64_t code, int64_t sync, double launches)
{
    enum { US = 1000 };
    return (struct ks_mean_step){
        .step_ns = period_us * US,
        .idle_ns = (launch + code + sync) * US,
        .busy_ns = (period_us - launch - code - sync) * US,
        .idle_by_cause_ns = {[KS_IDLE_LAUNCH] = launch * US,
                             [KS_IDLE_HOST_CODE] = code * US,
                             [KS_IDLE_SYNC] = sync * US},
        .launches = launches,
    };
}

/* All launched at once, a step takes 59 us: gemm, the read until 6 us behind it, the copy of 1 MiB,
 * that of 4 bytes; 53.9 us if short work takes 0.15 of its time. Without the read 80, 47 and 44.45
 * us. */
static void test_launch_bound(void **state)
{
    (void)state;
    struct ks_mean_step mean = mean_of(50, 20, 0, 20);
    check_rule(&mean, "launch.bound", 41000, 46100);
    mean.launches = 19; /* too few */
    check_none(&mean, "launch.bound", RULE_NEAR_MISS);
    mean = mean_of(50, 20, 0, 20);
    mean.reads.count = 1; /* 3 x 10 us are explained by reading values */
    mean.reads.operator_ns = 10000;
    check_rule(&mean, "launch.bound", 33000, 35550);
    mean.reads.operator_ns = 20200; /* ... by which less than 10 % are left */
    check_none(&mean, "launch.bound", RULE_NEAR_MISS);
    mean = mean_of(50, 20, 0, 20);
    mean.trips = (struct ks_trip_cost){.count = 1, .idle_ns = 61000}; /* and so are these */
    check_none(&mean, "launch.bound", RULE_SILENT);
    mean = mean_of(9, 0, 0, 20); /* under 10 % */
    check_none(&mean, "launch.bound", RULE_NEAR_MISS);
    mean = mean_of(50, 20, 0, 20); /* more than 150 us idle a launch: something else */
    mean.idle_by_cause_ns[KS_IDLE_LAUNCH] = 4000 * 1000;
    check_none(&mean, "launch.bound", RULE_SILENT);
}

/* 305 us are between the last operator of a step and its end. */
static void test_host_python_gap(void **state)
{
    (void)state;
    struct ks_mean_step mean = mean_of(15, 40, 0, 20);
    check_rule(&mean, "launch.bound", 41000, 46100);
    check_none(&mean, "host.python_gap", RULE_SILENT); /* no stretch is long enough */
    period_us = 400;
    mean = mean_of(10, 300, 0, 20);
    check_rule(&mean, "host.python_gap", 305000, 305000);
    mean = mean_of(100, 99, 0, 20); /* not most of the idle time */
    check_none(&mean, "host.python_gap", RULE_NEAR_MISS);
    mean = mean_of(1, 19, 0, 20); /* under 5 % */
    check_none(&mean, "host.python_gap", RULE_NEAR_MISS);
    period_us = 100;
}

/* The read takes 20 us, 64 from the beginning of the operator before it. */
static void test_sync_host(void **state)
{
    (void)state;
    struct ks_mean_step mean = mean_of(20, 10, 10, 5);
    mean.reads.count = 2;
    mean.reads.operator_ns = 10000;
    check_rule(&mean, "sync.host", 20000, 64000);
    mean.cost_high = 1.85; /* 20.775 and 57.025 us: the bounds stay */
    check_rule(&mean, "sync.host", 20000, 64000);
    mean.cost_low = 1.85;
    check_rule(&mean, "sync.host", 20775, 57025);
    mean.reads.count = 0.5; /* every other step */
    check_none(&mean, "sync.host", RULE_SILENT);
    mean = mean_of(1, 1, 0, 5); /* reading beside a busy GPU costs nothing */
    mean.reads.count = 2;
    mean.reads.operator_ns = 50000;
    check_none(&mean, "sync.host", RULE_SILENT);
    mean = mean_of(20, 10, 10, 5);
    mean.reads.count = 2;
    mean.reads.operator_ns = 2900; /* 3 % of the step are 3 us */
    check_none(&mean, "sync.host", RULE_NEAR_MISS);
    mean.reads.operator_ns = 3000;
    check_rule(&mean, "sync.host", 20000, 64000);
}

/* The copy takes 5 us; the operator before it copies, too, but more. */
static void test_copy_many_small(void **state)
{
    (void)state;
    struct ks_mean_step mean = mean_of(40, 10, 0, 5);
    mean.small_copies = (struct ks_step_cost){.count = 20, .operator_ns = 20000, .bytes = 80};
    check_rule(&mean, "copy.many_small", 5000, 5000);
    mean.small_copies.count = 19;
    check_none(&mean, "copy.many_small", RULE_NEAR_MISS);
    mean.small_copies = (struct ks_step_cost){.count = 20, .operator_ns = 4900, .bytes = 80};
    check_none(&mean, "copy.many_small", RULE_NEAR_MISS);
    mean.small_copies = (struct ks_step_cost){.count = 1, .operator_ns = 1000, .bytes = 4};
    check_none(&mean, "copy.many_small", RULE_SILENT);
}

static void test_copy_pageable(void **state)
{
    (void)state;
    struct ks_mean_step mean = mean_of(4, 0, 0, 5);
    mean.pageable = (struct ks_step_cost){.count = 1, .device_ns = 20000, .bytes = 100000};
    check_rule(&mean, "copy.pageable", 16000, 29000); /* 100 kB at 25 GB/s are 4 us */
    mean.pageable.device_ns = 5000;                   /* 5 % */
    check_rule(&mean, "copy.pageable", 1000, 10250);
    mean.pageable.device_ns = 4900;
    check_none(&mean, "copy.pageable", RULE_NEAR_MISS);
    mean.pageable = (struct ks_step_cost){0};
    check_none(&mean, "copy.pageable", RULE_SILENT);
}

static bool waits = true;

/* Two steps of 100 us in which the GPU computes `fp32` us in plain fp32 and 50 us in all, and the
 * host waits for that, or only works. */
static void check_fp32(const char *kernel, int64_t fp32, int32_t capability, enum rule_case kind)
{
    enum { US = 1000 };
    struct ks_findings findings = {0};
    struct ks_gpu_info gpu = {.compute_major = capability};
    facts_fixture_init(&f, 0, 0);
    f.source->gpus = capability ? &gpu : NULL;
    f.source->gpu_count = capability ? 1 : 0;
    for (int64_t i = 0; i < 2; i++) {
        int64_t at = i * 100 * US;
        HOST(&f, {1, NOTE, i ? "ProfilerStep#2" : "ProfilerStep#1", at, 100 * US},
             {1, CALL, "cudaLaunchKernel", at + 1, 1, .corr = 1 + 2 * i},
             {1, CALL, "cudaLaunchKernel", at + 3, 1, .corr = 2 + 2 * i},
             {1, waits ? CALL : OP, waits ? "cudaStreamSynchronize" : "aten::sort", at + 20 * US,
              80 * US});
        DEVICE(&f, {0, 7, KERNEL, kernel, at + 10 * US, fp32 * US, 1 + 2 * i},
               {0, 7, KERNEL, "softmax", at + 10 * US + fp32 * US, (50 - fp32) * US, 2 + 2 * i});
    }
    facts_fixture_advise(&f, &findings);
    const struct ks_finding *finding = rule_case(&findings, "precision.fp32_matmul", kind);
    if (finding) {
        assert_int_equal(finding->saving.low_ns, fp32 * US * 3 / 4);
        assert_int_equal(finding->saving.high_ns, fp32 * US * 19 / 20 + (50 - fp32) * US / 2);
    }
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

static void test_fp32_matmul(void **state)
{
    (void)state;
    check_fp32("cutlass_80_simt_sgemm_64x64", 40, 9, RULE_FIRES);
    check_fp32("sm80_xmma_gemm_f32f32_f32f32_f32_ffma", 10, 8, RULE_FIRES); /* just 10 % */
    check_fp32("cutlass_80_simt_sgemm_64x64", 9, 9, RULE_NEAR_MISS);
    check_fp32("cutlass_80_simt_sgemm_64x64", 40, 7, RULE_NEAR_MISS); /* no tf32, no bf16 */
    check_fp32("cutlass_80_simt_sgemm_64x64", 40, 0, RULE_SILENT);    /* unknown GPU */
    check_fp32("sm80_xmma_gemm_tf32f32_tf32f32_f32", 40, 9, RULE_SILENT);
    check_fp32("ffma_probe", 40, 9, RULE_SILENT); /* no product */
    waits = false;                                /* the host is the limit */
    check_fp32("cutlass_80_simt_sgemm_64x64", 40, 9, RULE_NEAR_MISS);
    waits = true;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),       cmocka_unit_test(test_prediction),
        cmocka_unit_test(test_cost),          cmocka_unit_test(test_obstacles),
        cmocka_unit_test(test_launch_bound),  cmocka_unit_test(test_host_python_gap),
        cmocka_unit_test(test_sync_host),     cmocka_unit_test(test_copy_many_small),
        cmocka_unit_test(test_copy_pageable), cmocka_unit_test(test_fp32_matmul),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
