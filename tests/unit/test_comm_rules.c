/* Goal: comm.small_buckets, comm.redundant_sync, comm.exposed and comm.fp32_payload fire on their
 * fault with savings that can be checked by hand, and are silent for what only looks like it.
 * Method: steps by hand in which the autograd engine starts collectives one after the other. */
#include <string.h>

#include "advise/findings.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

enum { STEPS = 3, US = 1000, MIB_OF_FP32 = (1 << 20) / 4 };

static const char *const names[STEPS] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"};

static struct facts_fixture f;
static struct ks_findings findings;

/* What a step does. */
struct plan {
    int64_t passes;      /* forward and backward passes */
    int64_t collectives; /* started by the engine in each pass, or only in the last one */
    int64_t elements;    /* of each */
    int64_t dur;         /* us, on the GPU */
    bool only_last;
    bool in_forward; /* the thread of the steps starts one of the same kind */
    bool is_hidden;  /* a kernel runs all the time */
    size_t ranks;
    const char *kernel; /* NULL: of plain cores */
    int64_t pause;      /* us, behind the optimizer's step */
};

static int64_t corr;

static int64_t free_at; /* us, end of the last collective ... */
static int64_t host_at; /* ... and of the operators of the last pass */

static void add_collective(int64_t rank, int64_t thread, int64_t at, const struct plan *plan)
{
    int64_t start = at + 20 > free_at ? at + 20 : free_at;
    free_at = start + plan->dur;
    const struct host_row rows[] = {
        {thread, OP, "c10d::allreduce_", at * US, 20 * US},
        {thread, CALL, "cudaLaunchKernelExC", (at + 10) * US, 5 * US, .corr = ++corr},
    };
    const struct device_row work = {rank,
                                    17,
                                    KERNEL,
                                    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                                    start * US,
                                    plan->dur * US,
                                    corr,
                                    .collective = "allreduce",
                                    .elements = plan->elements};
    facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    facts_fixture_device(&f, &work, 1);
}

/* A pass begins at `at`: the model for 20 us, which launches a kernel of 10; from 45 on one
 * collective every 25 us, in the engine's thread, which run one behind the other. */
static int64_t add_pass(int64_t rank, int64_t at, const struct plan *plan, bool has_collectives)
{
    const struct host_row rows[] = {
        {1, NOTE, "DistributedDataParallel.forward", at * US, 20 * US},
        {1, OP, "aten::mm", (at + 1) * US, 15 * US},
        {1, CALL, "cudaLaunchKernel", (at + 5) * US, 5 * US, .corr = ++corr},
    };
    const struct device_row kernel = {rank,
                                      7,
                                      KERNEL,
                                      plan->kernel ? plan->kernel : "gemm",
                                      (at + 12) * US,
                                      (plan->is_hidden ? 1990 : 10) * US,
                                      corr};
    facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    facts_fixture_device(&f, &kernel, 1);
    if (plan->in_forward) {
        add_collective(rank, 1, at + 20, plan);
    }
    int64_t begin = at + 45;
    for (int64_t i = 0; i < plan->collectives && has_collectives; i++) {
        add_collective(rank, 2, begin + i * 25, plan);
    }
    int64_t end = begin + (has_collectives ? plan->collectives * 25 : 0) + 25;
    host_at = end;
    return end > free_at ? end : free_at;
}

/* The host waits for all collectives, then the optimizer steps, and the next step begins. */
static int64_t add_step(int64_t i, int64_t rank, int64_t at, const struct plan *plan)
{
    int64_t end = at;
    for (int64_t pass = 0; pass < plan->passes; pass++) {
        end = add_pass(rank, end, plan, !plan->only_last || pass + 1 == plan->passes);
    }
    end = plan->is_hidden && end < at + 2010 ? at + 2010 : end;
    const struct host_row rows[] = {
        {1, NOTE, names[i], at * US, (end + 40 + plan->pause - at) * US},
        {1, CALL, "cudaStreamSynchronize", host_at * US, (end + 10 - host_at) * US},
        {1, NOTE, "Optimizer.step#SGD.step", (end + 10) * US, 30 * US},
    };
    facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    return end + 40 + plan->pause;
}

static const struct ks_finding *build(struct plan plan, const char *id, enum rule_case kind)
{
    facts_fixture_init(&f, 0, 0);
    f.source->rank = 0;
    for (size_t rank = 0; rank < plan.ranks; rank++) {
        int64_t at = 0;
        corr = free_at = 0;
        if (rank > 0) {
            facts_fixture_next_rank(&f, (int64_t)rank);
        }
        for (int64_t i = 0; i < STEPS; i++) {
            at = add_step(i, (int64_t)rank, at, &plan);
        }
    }
    facts_fixture_advise(&f, &findings);
    return rule_case(&findings, id, kind);
}

static void release(void)
{
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

/* ------------------------------------------------------------ comm.small_buckets */

static const struct plan forty_small = {
    .passes = 1, .collectives = 40, .elements = MIB_OF_FP32, .dur = 5, .ranks = 1};

static const struct plan four_passes = {
    .passes = 4, .collectives = 4, .elements = 16 * MIB_OF_FP32, .dur = 40, .ranks = 1};

/* 40 MiB in 40 collectives need 3 buckets (2 of 25 MiB and the first): 37 are too many. Each takes
 * the host 20 us, 740 us together (less what the GPU then is behind), and half as much again at
 * most. */
static void test_small_buckets(void **state)
{
    (void)state;
    const struct ks_finding *finding = build(forty_small, "comm.small_buckets", RULE_FIRES);
    const struct ks_gradient_fact *gradients = &f.facts.comm.gradients;
    assert_true(gradients->small == 40);
    assert_true(gradients->small_bytes == 40.0 * (1 << 20));
    assert_int_equal(gradients->small_transfer_ns, 200 * US);
    assert_true(facts_fixture_evidence(finding, "needed_per_step") == 3);
    assert_in_range(finding->saving_in_trace.low_ns, 700 * US, 740 * US);
    assert_in_range(finding->saving_in_trace.high_ns, 1050 * US, 1115 * US);
    assert_non_null(strstr(finding->fix_code, "bucket_cap_mb=25"));
    release();
}

/* 3 % of the step. */
static void test_few_against_the_step(void **state)
{
    (void)state;
    struct plan plan = forty_small;
    plan.pause = 25000;
    build(plan, "comm.small_buckets", RULE_FIRES);
    release();
    plan.pause = 26500;
    build(plan, "comm.small_buckets", RULE_NEAR_MISS);
    release();
    plan = four_passes;
    plan.pause = 9000;
    build(plan, "comm.redundant_sync", RULE_FIRES);
    release();
    plan.pause = 9250;
    build(plan, "comm.redundant_sync", RULE_NEAR_MISS);
    release();
}

static void test_few_or_other_buckets(void **state)
{
    (void)state;
    static const char id[] = "comm.small_buckets";
    struct plan plan = forty_small;
    plan.collectives = 15;
    build(plan, id, RULE_NEAR_MISS);
    release();
    plan.collectives = 16;
    build(plan, id, RULE_FIRES);
    release();
    plan = forty_small;
    plan.elements = 4 * MIB_OF_FP32 + 1; /* more than 4 MiB each */
    build(plan, id, RULE_NEAR_MISS);
    release();
    plan.elements = 4 * MIB_OF_FP32; /* 160 MiB need 8 of them: 40 are five times as many */
    build(plan, id, RULE_FIRES);
    release();
    plan.elements = 1024; /* statistics of layers */
    build(plan, id, RULE_SILENT);
    release();
    plan = forty_small;
    plan.in_forward = true; /* the group splits tensors, it sums up no gradients */
    build(plan, id, RULE_SILENT);
    assert_true(f.facts.comm.gradients.count == 0);
    release();
}

/* ------------------------------------------------------------ comm.redundant_sync */

/* Three of four times four collectives can go: 12 times 20 us of the host for sure. */
static void test_redundant_sync(void **state)
{
    (void)state;
    const struct ks_finding *finding = build(four_passes, "comm.redundant_sync", RULE_FIRES);
    const struct ks_gradient_fact *gradients = &f.facts.comm.gradients;
    assert_int_equal(gradients->micro_batches, 4);
    assert_int_equal(gradients->windows, 3);
    assert_int_equal(gradients->windows_spared, 0);
    assert_true(finding->saving_in_trace.high_ns >= 12 * 20 * US);
    assert_true(finding->saving_in_trace.high_ns <= 12 * 40 * US + 12 * 20 * US);
    assert_non_null(strstr(finding->fix_code, "i < 3"));
    release();
}

static void test_synchronised_once(void **state)
{
    (void)state;
    struct plan plan = four_passes;
    plan.only_last = true;
    build(plan, "comm.redundant_sync", RULE_SILENT);
    assert_int_equal(f.facts.comm.gradients.windows, 0);
    assert_int_equal(f.facts.comm.gradients.windows_spared, 3);
    release();
    plan = four_passes;
    plan.passes = 1;
    build(plan, "comm.redundant_sync", RULE_SILENT);
    release();
}

/* ------------------------------------------------------------ comm.exposed */

/* Two collectives of 300 us on two ranks, and nothing else to do: all of it can go at most, half of
 * it in 16 bits. */
static void test_exposed(void **state)
{
    (void)state;
    static const struct plan plan = {
        .passes = 1, .collectives = 2, .elements = 64 * MIB_OF_FP32, .dur = 300, .ranks = 2};
    const struct ks_finding *finding = build(plan, "comm.exposed", RULE_FIRES);
    assert_int_equal(f.facts.comm.ranks[1].exposed_transfer_ns, 600 * US);
    assert_true(facts_fixture_evidence(finding, "exposed_transfer") == 600 * US);
    assert_true(finding->saving_in_trace.high_ns <= 600 * US);
    assert_true(finding->saving_in_trace.low_ns >= finding->saving_in_trace.high_ns / 4);
    release();
}

static void test_hidden(void **state)
{
    (void)state;
    struct plan plan = {.passes = 1,
                        .collectives = 2,
                        .elements = 64 * MIB_OF_FP32,
                        .dur = 300,
                        .is_hidden = true,
                        .ranks = 2};
    build(plan, "comm.exposed", RULE_SILENT);
    assert_int_equal(f.facts.comm.ranks[0].exposed_ns, 0);
    release();
    plan =
        (struct plan){.passes = 1, .collectives = 2, .elements = MIB_OF_FP32, .dur = 3, .ranks = 2};
    build(plan, "comm.exposed", RULE_SILENT); /* 6 of 160 us */
    release();
    plan = (struct plan){.passes = 1,
                         .collectives = 2,
                         .elements = MIB_OF_FP32,
                         .dur = 300,
                         .ranks = 2,
                         .pause = 10400}; /* 5 % */
    build(plan, "comm.exposed", RULE_FIRES);
    release();
    plan.pause = 10700;
    build(plan, "comm.exposed", RULE_NEAR_MISS);
    release();
    plan.pause = plan.elements = 0; /* sizes and types are not known: half the bits are no repair */
    assert_non_null(strstr(build(plan, "comm.exposed", RULE_FIRES)->fix_code, "powerSGD"));
    release();
}

/* ------------------------------------------------------------ comm.fp32_payload */

/* Half of what is exposed can go at most where tensor cores compute; in fp32 models precision is
 * wanted. */
static void test_payload(void **state)
{
    (void)state;
    struct plan plan = {.passes = 1,
                        .collectives = 2,
                        .elements = 64 * MIB_OF_FP32,
                        .dur = 300,
                        .ranks = 2,
                        .kernel = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"};
    const struct ks_finding *finding = build(plan, "comm.fp32_payload", RULE_FIRES);
    assert_true(f.facts.comm.gradients.fp32_bytes == 2 * 64.0 * (1 << 20));
    assert_in_range(finding->saving_in_trace.high_ns, 250 * US, 300 * US);
    assert_in_range(finding->saving_in_trace.low_ns, 125 * US, 150 * US);
    assert_string_equal(finding->group, "comm.exposed");
    release();
    plan.kernel = NULL;
    build(plan, "comm.fp32_payload", RULE_SILENT);
    release();
    plan.kernel = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64";
    plan.pause = 9200; /* 3 % */
    build(plan, "comm.fp32_payload", RULE_FIRES);
    release();
    plan.pause = 9400;
    build(plan, "comm.fp32_payload", RULE_NEAR_MISS);
    release();
    plan.pause = 0;
    plan.dur = 3; /* half of 6 us in a step of some 160 */
    build(plan, "comm.fp32_payload", RULE_SILENT);
    release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_buckets),  cmocka_unit_test(test_few_or_other_buckets),
        cmocka_unit_test(test_redundant_sync), cmocka_unit_test(test_synchronised_once),
        cmocka_unit_test(test_exposed),        cmocka_unit_test(test_hidden),
        cmocka_unit_test(test_payload),        cmocka_unit_test(test_few_against_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
