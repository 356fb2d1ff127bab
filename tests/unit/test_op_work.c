/* Goal: op work finds optimizers, convolutions that try algorithms, attention in single operators
 * and slow products, as docs/analyses/op_work.md defines them; replays make them shorter, and the
 * rules report them from their thresholds on. Method: the page's examples, and each of them with
 * one thing that keeps it from being one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advise/findings.h"
#include "analyze/kernel_layout.h"
#include "analyze/op_work.h"
#include "cmocka_all.h"
#include "replay_fixture.h"

enum { FORWARD = 1, BACKWARD = 2 };

static const struct ks_work_costs *work_of(layout *add, int64_t period)
{
    facts_fixture_init(&f, 0, 0);
    f.source->record_shapes = true;
    add_steps(add, period);
    facts_fixture_compute(&f, NULL);
    return &f.facts.work;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-6;
}

/* ------------------------------------------------------------ rules */

static int64_t found_low_ns, found_high_ns;
static char found_code[256];

static const char *torch_version;

/* Runs the rules on the layout: this one finds something, or nothing. */
static void check_rule(enum rule_case kind, layout *add, int64_t period, int32_t capability,
                       const char *id)
{
    struct ks_err err = {0};
    struct ks_findings findings = {0};
    struct ks_gpu_info gpu = {.compute_major = capability};
    facts_fixture_init(&f, 0, 0);
    f.source->record_shapes = true;
    f.source->gpus = &gpu;
    f.source->gpu_count = 1;
    if (torch_version) {
        assert_int_equal(ks_trace_builder_intern(f.builder, ks_str_from(torch_version),
                                                 &f.source->torch_version, &err),
                         KS_OK);
    }
    add_steps(add, period);
    facts_fixture_advise(&f, &findings);
    const struct ks_finding *finding = rule_case(&findings, id, kind);
    if (finding) {
        found_low_ns = finding->saving.low_ns;
        found_high_ns = finding->saving.high_ns;
        snprintf(found_code, sizeof(found_code), "%s", finding->fix_code);
        assert_non_null(finding->fix_code);
        assert_true(finding->evidence_count >= 3);
        assert_true(found_high_ns <= f.facts.mean_step.step_ns);
    }
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

/* ------------------------------------------------------------ optimizers */

/* `count` launches of `op`, 10 us apart, each with 2 us on the device. */
static void launches(int64_t at, int64_t corr, const char *op, int64_t from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t start = from + 10 * i;
        HOST({FORWARD, OP, op, start, 8},
             {FORWARD, CALL, "cudaLaunchKernel", start + 2, 2, .corr = corr + i});
        DEVICE({0, 7, KERNEL, "elementwise", start + 5, 2, corr + i});
    }
}

/* Eight tensors, two operators each, in 160 of 400 us. */
static void adam_of(int64_t at, int64_t corr, const char *name, int64_t count)
{
    HOST({FORWARD, OP, "aten::mm", 10, 10},
         {FORWARD, CALL, "cudaLaunchKernel", 12, 2, .corr = corr + 500},
         {FORWARD, NOTE, name, 100, 20 * count + 4});
    DEVICE({0, 7, KERNEL, "gemm", 20, 20, corr + 500});
    launches(at, corr, "aten::lerp_", 102, count);
    launches(at, corr + count, "aten::addcdiv_", 102 + 10 * count, count);
}

static void adam(int64_t at, int64_t corr)
{
    adam_of(at, corr, "Optimizer.step#AdamW.step", 8);
}

static void lion(int64_t at, int64_t corr)
{
    adam_of(at, corr, "Optimizer.step#Lion.step", 8);
}

static void rmsprop(int64_t at, int64_t corr)
{
    adam_of(at, corr, "Optimizer.step#RMSprop.step", 8);
}

/* Fewer than eight operators launch: that is next to nothing. */
static void few_tensors(int64_t at, int64_t corr)
{
    HOST({FORWARD, NOTE, "Optimizer.step#AdamW.step", 100, 164});
    launches(at, corr, "aten::lerp_", 102, 7);
}

static void fused_adam(int64_t at, int64_t corr)
{
    HOST({FORWARD, NOTE, "Optimizer.step#AdamW.step", 100, 40});
    launches(at, corr, "aten::_foreach_add_", 102, 1);
    launches(at, corr + 1, "aten::_fused_adamw_", 112, 1);
}

/* Foreach operators in 200 of 400 us; others launch nothing. */
static void foreach_of(int64_t at, int64_t corr, const char *name)
{
    HOST({FORWARD, NOTE, name, 100, 204}, {FORWARD, OP, "aten::detach", 303, 1});
    launches(at, corr, "aten::_foreach_lerp_", 102, 20);
}

static void foreach_adam(int64_t at, int64_t corr)
{
    foreach_of(at, corr, "Optimizer.step#Adam.step");
}

static void foreach_sgd(int64_t at, int64_t corr)
{
    foreach_of(at, corr, "Optimizer.step#SGD.step");
}

static void foreach_lion(int64_t at, int64_t corr)
{
    foreach_of(at, corr, "Optimizer.step#RMSprop.step");
}

/* A closure computes the loss inside: the optimizer begins behind it. */
static void closure(int64_t at, int64_t corr)
{
    adam(at, corr);
    HOST({FORWARD, OP, "aten::mm", 101, 1, .seq = 7});
}

/* Of 400 us the span takes 164; on the host 0.04 to 0.12 of it stay. */
static void test_optimizer(void **state)
{
    (void)state;
    const struct ks_optimizer_cost *cost = &work_of(adam, 400)->optimizer;
    assert_int_equal(cost->kind, KS_OPTIMIZER_SINGLE);
    assert_true(is_near(cost->tensors, 8));
    assert_true(is_near(cost->cost.count, 1));
    assert_true(is_near(cost->cost.launches, 16));
    assert_int_equal(cost->cost.host_ns, 164 * US);
    assert_int_equal(cost->cost.device_ns, 32 * US);
    assert_int_equal(cost->cost.step_count, STEPS);
    assert_int_equal(f.facts.work.span_count, STEPS);
    facts_fixture_release(&f);
    assert_int_equal(work_of(fused_adam, 400)->optimizer.kind, KS_OPTIMIZER_FUSED);
    assert_int_equal(f.facts.work.span_count, 0);
    facts_fixture_release(&f);
    assert_int_equal(work_of(foreach_adam, 400)->optimizer.kind, KS_OPTIMIZER_FOREACH);
    facts_fixture_release(&f);
    assert_int_equal(work_of(few_tensors, 400)->optimizer.kind, KS_OPTIMIZER_NONE);
    facts_fixture_release(&f);
    cost = &work_of(closure, 400)->optimizer;
    assert_int_equal(cost->kind, KS_OPTIMIZER_SINGLE);
    assert_int_equal(cost->cost.host_ns, 162 * US);
    facts_fixture_release(&f);
}

static void test_optimizer_rule(void **state)
{
    (void)state;
    check_rule(RULE_FIRES, adam, 400, 9, "optimizer.unfused");
    assert_true(found_low_ns >= 50 * US && found_high_ns <= 158 * US);
    assert_non_null(strstr(found_code, "torch.optim.AdamW(model.parameters(), ..., fused=True)"));
    check_rule(RULE_FIRES, lion, 400, 9, "optimizer.unfused");
    assert_null(strstr(found_code, "torch.optim")); /* has none of this name */
    check_rule(RULE_FIRES, rmsprop, 400, 9, "optimizer.unfused");
    assert_non_null(strstr(found_code, "torch.optim.RMSprop(model.parameters(), ..., foreach="));
    check_rule(RULE_FIRES, lion, 400, 9, "optimizer.unfused");
    assert_true(found_high_ns <= 148 * US);
    check_rule(RULE_FIRES, foreach_adam, 400, 9, "optimizer.unfused");
    check_rule(RULE_FIRES, foreach_sgd, 400, 9, "optimizer.unfused");
    torch_version = "2.3.0+cu121";
    check_rule(RULE_FIRES, foreach_sgd, 400, 9, "optimizer.unfused");
    torch_version = "2.2.2"; /* its SGD cannot be fused */
    check_rule(RULE_SILENT, foreach_sgd, 400, 9, "optimizer.unfused");
    torch_version = NULL;
    check_rule(RULE_SILENT, foreach_lion, 400, 9, "optimizer.unfused"); /* none is fused */
    check_rule(RULE_SILENT, fused_adam, 400, 9, "optimizer.unfused");
    check_rule(RULE_NEAR_MISS, few_tensors, 400, 9, "optimizer.unfused");
    /* 164 us, of which recording 16 rows took 43 to 89, less what stays: 0.04 to 0.12 of it. */
    check_rule(RULE_FIRES, adam, 1780, 9, "optimizer.unfused");
    assert_true(found_low_ns > 63 * US && found_low_ns < 67 * US);
    assert_true(found_high_ns > 114 * US && found_high_ns < 117 * US);
    check_rule(RULE_NEAR_MISS, adam, 1790, 9, "optimizer.unfused"); /* just under 5 % */
}

/* ------------------------------------------------------------ replays */

static struct ks_replay_change shrunk(unsigned marks, double host, double device)
{
    struct ks_replay_change change = unchanged;
    change.shrinks[1] = (struct ks_replay_shrink){marks, host, device, false};
    return change;
}

/* A step of 100 us, of which the optimizer takes 10..92. */
static void short_kernels(int64_t at, int64_t corr)
{
    HOST({FORWARD, NOTE, "Optimizer.step#SGD.step", 10, 82});
    launches(at, corr, "aten::mul_", 12, 8);
}

static void test_shrinks(void **state)
{
    (void)state;
    check_layout_under(short_kernels, 100, shrunk(KS_REPLAY_OPTIMIZER, 1, 1), 100);
    check_layout_under(short_kernels, 100, shrunk(KS_REPLAY_OPTIMIZER, 0.5, 1), 59);
    check_layout_under(short_kernels, 100, shrunk(KS_REPLAY_OPTIMIZER, 0, 0), 18);
    check_layout_under(short_kernels, 100, shrunk(KS_REPLAY_ATTENTION, 0, 0), 100);
}

/* The host waits for a kernel of 160 us that the optimizer launches. */
static void long_kernel(int64_t at, int64_t corr)
{
    HOST({FORWARD, NOTE, "Optimizer.step#SGD.step", 5, 100},
         {FORWARD, OP, "aten::_foreach_add_", 20, 9},
         {FORWARD, CALL, "cudaLaunchKernel", 22, 2, .corr = corr},
         {FORWARD, OP, "aten::wait", 150, 45}, {FORWARD, CALL, "cudaStreamSynchronize", 152, 40});
    DEVICE({0, 7, KERNEL, "long", 30, 160, corr});
}

static void test_shrunk_work(void **state)
{
    (void)state;
    check_layout_under(long_kernel, 200, shrunk(KS_REPLAY_OPTIMIZER, 1, 1), 200);
    check_layout_under(long_kernel, 200, shrunk(KS_REPLAY_OPTIMIZER, 1, 0.9), 184);
}

/* ------------------------------------------------------------ convolutions */

static void convolution(int64_t at, int64_t corr, int64_t from, int64_t tries, int64_t syncs)
{
    HOST({FORWARD, OP, "aten::cudnn_convolution", from, 12 * tries + 4 * syncs + 4,
          .dims = "[[32, 3, 64, 64], [64, 3, 3, 3]]"});
    for (int64_t i = 0; i < tries; i++) {
        HOST({FORWARD, CALL, "cudaLaunchKernel", from + 1 + 12 * i, 2, .corr = corr + i});
        DEVICE({0, 7, KERNEL, "conv", from + 4 + 12 * i, 6, corr + i});
    }
    for (int64_t i = 0; i < syncs; i++) {
        HOST({FORWARD, CALL, "cudaEventSynchronize", from + 12 * tries + 4 * i, 3});
    }
}

/* One that tries 16 kernels and waits three times, 208 us, and one of 16 us. */
static void retuned(int64_t at, int64_t corr)
{
    convolution(at, corr, 10, 16, 3);
    convolution(at, corr + 100, 250, 1, 0);
}

static void retuned_once(int64_t at, int64_t corr)
{
    convolution(at, corr, 10, at == 0 ? 16 : 1, at == 0 ? 3 : 0);
    convolution(at, corr + 100, 250, 1, 0);
}

static void waits_twice(int64_t at, int64_t corr)
{
    convolution(at, corr, 10, 16, 2);
}

static void launches_fifteen(int64_t at, int64_t corr)
{
    convolution(at, corr, 10, 15, 3);
}

static void test_retuning(void **state)
{
    (void)state;
    const struct ks_retuning_cost *cost = &work_of(retuned, 400)->retuning;
    assert_true(is_near(cost->cost.count, 1));
    assert_true(is_near(cost->cost.launches, 16));
    assert_int_equal(cost->cost.host_ns, 208 * US);
    assert_int_equal(cost->cost.device_ns, 96 * US);
    assert_int_equal(cost->usual_host_ns, 16 * US);
    assert_int_equal(cost->usual_device_ns, 6 * US);
    assert_int_equal(cost->shapes, 1);
    facts_fixture_release(&f);
    assert_true(is_near(work_of(waits_twice, 400)->retuning.cost.count, 0));
    facts_fixture_release(&f);
    assert_true(is_near(work_of(launches_fifteen, 400)->retuning.cost.count, 0));
    facts_fixture_release(&f);
}

/* 192 us and what is lost in waits; low keeps 48 us in place of 16. */
static void test_retuning_rule(void **state)
{
    (void)state;
    check_rule(RULE_FIRES, retuned, 400, 9, "cudnn.retuning");
    assert_true(found_low_ns > 130 * US && found_low_ns < 165 * US);
    assert_true(found_high_ns > 180 * US && found_high_ns < 215 * US);
    check_rule(RULE_NEAR_MISS, retuned_once, 400, 9, "cudnn.retuning"); /* first steps have to */
    check_rule(RULE_NEAR_MISS, waits_twice, 400, 9, "cudnn.retuning");
    check_rule(RULE_SILENT, fused_adam, 400, 9, "cudnn.retuning");
    check_rule(RULE_FIRES, retuned, 3340, 9, "cudnn.retuning");
    check_rule(RULE_NEAR_MISS, retuned, 3370, 9, "cudnn.retuning"); /* under 5 % */
}

/* ------------------------------------------------------------ attention */

#define SCORES "[[8, 4, 64, 64], [], []]"
#define HALF "[\"c10::BFloat16\", \"c10::BFloat16\"]"

static int64_t softmax_us = 30;
static const char *softmax_dims = SCORES;
static const char *last_dims = "[[32, 64, 64], [32, 64, 16]]";
static const char *product_types = HALF;
static const char *around; /* operator around all of it, NULL none */
static const char *around_types;

/* An operator, and in it one that launches `us` of work, both 20 us on the host. */
static void step_of_chain(int64_t at, int64_t corr, const char *outer, const char *inner,
                          const char *dims, int64_t start, int64_t us, int64_t seq)
{
    HOST({FORWARD, OP, outer, start, 20, .seq = seq},
         {FORWARD, OP, inner, start + 1, 18, .dims = dims, .types = product_types, .seq = seq},
         {FORWARD, CALL, "cudaLaunchKernel", start + 3, 2, .corr = corr});
    DEVICE({0, 7, KERNEL, inner, start + 8, us, corr});
}

static void node(int64_t at, int64_t corr, const char *name, int64_t start, int64_t us, int64_t seq)
{
    HOST({BACKWARD, OP, name, start, 20, .seq = seq},
         {BACKWARD, CALL, "cudaLaunchKernel", start + 3, 2, .corr = corr});
    DEVICE({0, 7, KERNEL, "node", start + 8, us, corr});
}

/* Scores, scaled and with a softmax, times values; backward in two nodes 4 us apart, and one of
 * another operator. Work takes 10 us but for the softmax, operators 20 us. */
static void attention(int64_t at, int64_t corr)
{
    int64_t seq = 10 * corr;
    if (around) {
        HOST({FORWARD, OP, around, 18, 210, .types = around_types});
    }
    step_of_chain(at, corr, "aten::matmul", "aten::bmm", "[[32, 64, 16], [32, 16, 64]]", 20, 10,
                  seq);
    step_of_chain(at, corr + 1, "aten::div", "aten::div", "[[8, 4, 64, 64], []]", 60, 10, seq + 1);
    step_of_chain(at, corr + 2, "aten::softmax", "aten::_softmax", softmax_dims, 100, softmax_us,
                  seq + 2);
    step_of_chain(at, corr + 3, "aten::matmul", "aten::bmm", last_dims, 200, 10, seq + 3);
    step_of_chain(at, corr + 4, "aten::linear", "aten::addmm", "[[32, 64], [64, 64]]", 240, 10,
                  seq + 4);
    node(at, corr + 5, "autograd::engine::evaluate_function: AddmmBackward0", 280, 10, seq + 4);
    node(at, corr + 6, "autograd::engine::evaluate_function: BmmBackward0", 310, 10, seq + 3);
    node(at, corr + 7, "autograd::engine::evaluate_function: SoftmaxBackward0", 334, 30, seq + 2);
}

/* Forward 20..220, backward 310..354; products 18 and 18 and half of 20 us. */
static void check_attention(enum ks_attention_kind kind)
{
    const struct ks_attention_cost *cost = &work_of(attention, 400)->attention[kind];
    assert_true(is_near(cost->cost.count, 1));
    assert_true(is_near(cost->cost.launches, 6));
    assert_int_equal(cost->cost.device_ns, (10 + 10 + 30 + 10 + 10 + 30) * US);
    assert_int_equal(cost->product_device_ns, 30 * US);
    assert_int_equal(cost->product_host_ns, 46 * US);
    assert_true(is_near(cost->scores_bytes, 32 * 64 * 64 * 2));
    assert_int_equal(cost->batch, 32);
    assert_int_equal(cost->rows, 64);
    assert_int_equal(cost->columns, 64);
    assert_int_equal(cost->head_dim, 16);
    assert_true(cost->is_half);
    facts_fixture_release(&f);
}

static void check_no_attention(void)
{
    const struct ks_work_costs *work = work_of(attention, 400);
    for (int kind = 0; kind < KS_ATTENTION_KINDS; kind++) {
        assert_true(is_near(work->attention[kind].cost.count, 0));
    }
    facts_fixture_release(&f);
}

static void test_attention(void **state)
{
    (void)state;
    check_attention(KS_ATTENTION_MANUAL);
    const struct ks_attention_cost *cost = &work_of(attention, 400)->attention[KS_ATTENTION_MANUAL];
    assert_int_equal(cost->cost.host_ns, (200 + 44) * US);
    facts_fixture_release(&f);
    around = "aten::_scaled_dot_product_attention_math";
    check_attention(KS_ATTENTION_MATH);
    product_types = "[\"float\", \"float\"]"; /* it computes in fp32, but was given 16 bits */
    around_types = HALF;
    const struct ks_attention_cost *math = &work_of(attention, 400)->attention[KS_ATTENTION_MATH];
    assert_true(math->is_half);
    facts_fixture_release(&f);
    around_types = product_types;
    math = &work_of(attention, 400)->attention[KS_ATTENTION_MATH];
    assert_true(math->cost.count > 0 && !math->is_half);
    facts_fixture_release(&f);
    product_types = HALF;
    around_types = around = NULL;
    softmax_dims = "[[8, 4, 64, 32], [], []]"; /* of something else */
    check_no_attention();
    softmax_dims = "[[4, 4, 64, 64], [], []]";
    check_no_attention();
    softmax_dims = SCORES;
    last_dims = "[[32, 64, 32], [32, 32, 16]]"; /* not of the scores */
    check_no_attention();
    last_dims = "[[32, 64, 64], [32, 64, 16]]";
}

static void test_attention_rules(void **state)
{
    (void)state;
    softmax_us = 60;
    check_rule(RULE_FIRES, attention, 400, 9, "attention.materialized");
    assert_true(found_low_ns > 100 * US && found_high_ns < 260 * US);
    check_rule(RULE_SILENT, attention, 400, 9, "attention.backend");
    check_rule(RULE_FIRES, attention, 3660, 9, "attention.materialized");
    check_rule(RULE_NEAR_MISS, attention, 3700, 9, "attention.materialized"); /* under 5 % */
    around = "aten::_scaled_dot_product_attention_math";
    check_rule(RULE_FIRES, attention, 400, 9, "attention.backend");
    check_rule(RULE_SILENT, attention, 400, 9, "attention.materialized");
    check_rule(RULE_NEAR_MISS, attention, 400, 7, "attention.backend"); /* an old GPU */
    check_rule(RULE_FIRES, attention, 3400, 9, "attention.backend");
    check_rule(RULE_NEAR_MISS, attention, 3460, 9, "attention.backend");
    around = NULL;
    last_dims = "[[32, 64, 32], [32, 32, 16]]";
    check_rule(RULE_SILENT, attention, 400, 9, "attention.materialized");
    last_dims = "[[32, 64, 64], [32, 64, 16]]";
    softmax_us = 30;
}

/* An operator of 20 us, whose work of `us` waits for that before it until `start`. */
static void queued(int64_t at, int64_t corr, const char *name, const char *dims, int64_t host,
                   const char *kernel, int64_t start, int64_t us)
{
    HOST({FORWARD, OP, name, host, 20, .dims = dims, .types = product_types},
         {FORWARD, CALL, "cudaLaunchKernel", host + 3, 2, .corr = corr});
    DEVICE({0, 7, KERNEL, kernel, start, us, corr});
}

static int64_t layer_us = 200;

/* Attention with products of 100 us in fp32 and a layer with one of `layer_us`, launched at once;
 * the host waits for all. */
static void fp32_products(int64_t at, int64_t corr)
{
    static const char kernel[] = "cutlass_80_simt_sgemm_64x64";
    HOST({FORWARD, OP, "aten::_scaled_dot_product_attention_math", 18, 70, .types = around_types});
    queued(at, corr, "aten::bmm", "[[32, 64, 16], [32, 16, 64]]", 20, kernel, 150, 100);
    queued(at, corr + 1, "aten::_softmax", SCORES, 42, "softmax", 250, 10);
    queued(at, corr + 2, "aten::bmm", "[[32, 64, 64], [32, 64, 16]]", 64, kernel, 260, 100);
    queued(at, corr + 3, "aten::mm", "[[32, 64], [64, 64]]", 90, kernel, 360, layer_us);
    HOST({FORWARD, CALL, "cudaStreamSynchronize", 115, 247 + layer_us});
}

static void test_fp32_products_of_attention(void **state)
{
    (void)state;
    product_types = around_types = "[\"float\", \"float\"]";
    check_rule(RULE_FIRES, fp32_products, 1000, 9, "precision.fp32_matmul");
    assert_in_range(found_low_ns, 290 * US, 300 * US); /* 3/4 of 400 us */
    around_types = HALF; /* it was given 16 bits already: autocast changes the layer alone */
    check_rule(RULE_FIRES, fp32_products, 1000, 9, "precision.fp32_matmul");
    assert_in_range(found_low_ns, 145 * US, 150 * US);
    layer_us = 80;
    check_rule(RULE_NEAR_MISS, fp32_products, 1000, 9, "precision.fp32_matmul");
    layer_us = 200;
    product_types = HALF;
    around_types = NULL;
}

/* Torch's memory-efficient kernel, 370 us forward and backward of 400, which the host waits for. */
static const char *sdpa_dims;

static void efficient(int64_t at, int64_t corr)
{
    HOST({FORWARD, OP, "aten::scaled_dot_product_attention", 10, 30, .seq = 10 * corr},
         {FORWARD, OP, "aten::_scaled_dot_product_efficient_attention", 11, 28, .dims = sdpa_dims,
          .types = product_types, .seq = 10 * corr},
         {FORWARD, CALL, "cudaLaunchKernel", 15, 2, .corr = corr});
    DEVICE({0, 7, KERNEL, "fmha_cutlassF", 20, 80, corr});
    HOST({BACKWARD, OP,
          "autograd::engine::evaluate_function: ScaledDotProductEfficientAttentionBackward0", 60,
          30, .seq = 10 * corr},
         {BACKWARD, CALL, "cudaLaunchKernel", 65, 2, .corr = corr + 1},
         {FORWARD, OP, "aten::wait", 100, 298}, {FORWARD, CALL, "cudaStreamSynchronize", 102, 294});
    DEVICE({0, 7, KERNEL, "fmha_cutlassB", 100, 290, corr + 1});
}

static void test_efficient(void **state)
{
    (void)state;
    sdpa_dims = "[[8, 4, 128, 64], [8, 4, 128, 64], [8, 4, 128, 64], [], [], [], [], []]";
    const struct ks_attention_cost *cost =
        &work_of(efficient, 400)->attention[KS_ATTENTION_EFFICIENT];
    assert_true(is_near(cost->cost.count, 1));
    assert_int_equal(cost->cost.device_ns, 370 * US);
    assert_int_equal(cost->rows, 128);
    facts_fixture_release(&f);
    check_rule(RULE_FIRES, efficient, 400, 8, "attention.backend");
    product_types = "[\"float\", \"float\"]"; /* no other kernel computes fp32 */
    check_rule(RULE_SILENT, efficient, 400, 8, "attention.backend");
    product_types = HALF; /* a mask */
    sdpa_dims = "[[8, 4, 128, 64], [8, 4, 128, 64], [8, 4, 128, 64], [8, 4, 128, 128], [], []]";
    check_rule(RULE_SILENT, efficient, 400, 8, "attention.backend");
    sdpa_dims = "[[8, 4, 128, 288], [8, 4, 128, 288], [8, 4, 128, 288], [], [], []]";
    check_rule(RULE_SILENT, efficient, 400, 8, "attention.backend");
    sdpa_dims = "[[8, 4, 128, 60], [8, 4, 128, 60], [8, 4, 128, 60], [], [], []]";
    check_rule(RULE_SILENT, efficient, 400, 8, "attention.backend");
    sdpa_dims = "[[8, 4, 128, 64], [8], [8, 4, 128, 64], [], [], []]"; /* damaged */
    check_rule(RULE_SILENT, efficient, 400, 8, "attention.backend");
}

/* ------------------------------------------------------------ products */

static const char *odd_dims;
static int64_t odd_us = 300;

/* An aligned product of 2 x 1024^3 FLOPs in 20 us, and one of the same size. */
static void products(int64_t at, int64_t corr)
{
    HOST({FORWARD, OP, "aten::mm", 10, 10, .dims = "[[1024, 1024], [1024, 1024]]", .types = HALF},
         {FORWARD, CALL, "cudaLaunchKernel", 12, 2, .corr = corr},
         {FORWARD, OP, "aten::addmm", 30, 10, .dims = odd_dims, .types = product_types},
         {FORWARD, CALL, "cudaLaunchKernel", 32, 2, .corr = corr + 1},
         {FORWARD, OP, "aten::wait", 50, 345}, {FORWARD, CALL, "cudaStreamSynchronize", 52, 340});
    DEVICE({0, 7, KERNEL, "nvjet", 20, 20, corr}, {0, 7, KERNEL, "align1", 41, odd_us, corr + 1});
}

static void test_products(void **state)
{
    (void)state;
    odd_dims = "[[1025], [1024, 1024], [1024, 1025]]";
    const struct ks_product_cost *cost = &work_of(products, 400)->products;
    assert_true(is_near(cost->cost.count, 1));
    assert_int_equal(cost->cost.device_ns, 300 * US);
    assert_true(llabs(cost->aligned_device_ns - 20020) < 50); /* 1025 / 1024 of 20 us */
    assert_int_equal(cost->sizes[2], 1025);
    facts_fixture_release(&f);
    check_rule(RULE_FIRES, products, 400, 9, "matmul.misaligned");
    assert_true(found_low_ns > 250 * US && found_high_ns < 285 * US);
    assert_non_null(strstr(found_code, "# 1025 -> 1088"));
    odd_us = 33; /* as fast as the other, about */
    check_rule(RULE_NEAR_MISS, products, 400, 9, "matmul.misaligned");
    odd_us = 300;
    odd_dims = "[[1024], [1024, 1024], [1024, 1024]]"; /* slow, but not for its sizes */
    check_rule(RULE_SILENT, products, 400, 9, "matmul.misaligned");
    odd_dims = "[[1025], [1024, 1024], [1024, 1025]]";
    product_types = "[\"float\", \"float\", \"float\"]";
    check_rule(RULE_SILENT, products, 400, 9, "matmul.misaligned");
    product_types = HALF;
    check_rule(RULE_FIRES, products, 5480, 9, "matmul.misaligned");
    check_rule(RULE_NEAR_MISS, products, 5510, 9, "matmul.misaligned"); /* under 5 % */
}

/* ------------------------------------------------------------ layouts */

static int64_t converting_us = 40;
static const char *norm = "void at::native::batch_norm_backward_kernel<float>";

/* A wait for 200 us of work, of which some converts and 80 us normalise. */
static void convolutions(int64_t at, int64_t corr)
{
    HOST({FORWARD, OP, "aten::conv2d", 2, 6},
         {FORWARD, CALL, "cudaLaunchKernel", 3, 1, .corr = corr},
         {FORWARD, CALL, "cudaLaunchKernel", 5, 1, .corr = corr + 1},
         {FORWARD, CALL, "cudaLaunchKernel", 7, 1, .corr = corr + 2},
         {FORWARD, OP, "aten::wait", 10, 205}, {FORWARD, CALL, "cudaStreamSynchronize", 12, 200});
    DEVICE(
        {0, 7, KERNEL, "void cudnn::nchwToNhwcKernel<__half>", 8, converting_us, corr},
        {0, 7, KERNEL, norm, 8 + converting_us, 80, corr + 1},
        {0, 7, KERNEL, "sm90_xmma_fprop_nhwc", 88 + converting_us, 120 - converting_us, corr + 2});
}

static void test_layout_names(void **state)
{
    (void)state;
    assert_int_equal(ks_kernel_layout_marks(KS_STR("cudnn::ops::nhwcToNchwKernel<half>")),
                     KS_REPLAY_CONVERSION);
    assert_int_equal(ks_kernel_layout_marks(KS_STR("cudnn::bn_fw_tr_1C11_kernel_NCHW<float>")),
                     KS_REPLAY_NCHW);
    assert_int_equal(ks_kernel_layout_marks(KS_STR("batch_norm_backward_channels_last_kernel")), 0);
    assert_int_equal(ks_kernel_layout_marks(KS_STR("sm90_xmma_fprop_nhwckrsc_nhwc")), 0);
}

/* What comes first then waits for its own launch, up to 2 us. */
static void check_bounds(int64_t low_ns, int64_t high_ns)
{
    assert_true(found_low_ns <= low_ns && found_low_ns >= low_ns - 2 * US);
    assert_true(found_high_ns <= high_ns && found_high_ns >= high_ns - 2 * US);
}

/* Low: 40 us and 0.32 of 80; high: 40 us and 0.76 of 80. */
static void test_layout_rule(void **state)
{
    (void)state;
    check_rule(RULE_FIRES, convolutions, 220, 9, "layout.transposes");
    check_bounds(40 * US + 25600, 40 * US + 60800);
    norm = "void at::native::batch_norm_backward_channels_last_kernel<float>";
    check_rule(RULE_FIRES, convolutions, 220, 9, "layout.transposes");
    check_bounds(40 * US, 40 * US);
    converting_us = 11; /* under 5 % without what else is faster */
    check_rule(RULE_NEAR_MISS, convolutions, 220, 9, "layout.transposes");
    norm = "void at::native::batch_norm_backward_kernel<float>";
    check_rule(RULE_FIRES, convolutions, 220, 9, "layout.transposes");
    check_rule(RULE_SILENT, fused_adam, 400, 9, "layout.transposes");
    converting_us = 6; /* under 3 %: hardly any conversions */
    check_rule(RULE_NEAR_MISS, convolutions, 220, 9, "layout.transposes");
    converting_us = 40;
}

/* ------------------------------------------------------------ small batches */

static double fill = 0.5;
static int64_t kernel_us = 4;
static int64_t launch_us = 15;

/* 20 launches of 4 us each, 15 us apart. */
static void small_kernels(int64_t at, int64_t corr)
{
    for (int64_t i = 0; i < 20; i++) {
        int64_t start = 10 + launch_us * i;
        HOST({FORWARD, OP, "aten::mul", start, launch_us - 1},
             {FORWARD, CALL, "cudaLaunchKernel", start + 2, 2, .corr = corr + i});
        DEVICE({0, 7, KERNEL, "mul", start + 5, kernel_us, corr + i, .blocks_per_sm = fill});
    }
}

static void test_batch_rule(void **state)
{
    (void)state;
    check_rule(RULE_FIRES, small_kernels, 320, 9, "batch.too_small");
    assert_non_null(strstr(found_code, "batch_size=4 *")); /* the GPU works 80 of 320 us */
    check_rule(RULE_FIRES, small_kernels, 320, 9, "launch.bound");
    fill = 0.9;
    check_rule(RULE_NEAR_MISS, small_kernels, 320, 9, "batch.too_small");
    fill = 0.5;
    kernel_us = 8; /* as long as it may not be */
    check_rule(RULE_NEAR_MISS, small_kernels, 320, 9, "batch.too_small");
    kernel_us = 4;
    launch_us = 7; /* the GPU works 80 us of a step, and the host launches meanwhile */
    check_rule(RULE_FIRES, small_kernels, 170, 9, "batch.too_small");
    check_rule(RULE_NEAR_MISS, small_kernels, 164, 9, "batch.too_small"); /* idle for 49 % */
    launch_us = 15;
    fill = 0; /* unknown */
    check_rule(RULE_SILENT, small_kernels, 320, 9, "batch.too_small");
    fill = 0.5;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimizer),
        cmocka_unit_test(test_optimizer_rule),
        cmocka_unit_test(test_shrinks),
        cmocka_unit_test(test_shrunk_work),
        cmocka_unit_test(test_retuning),
        cmocka_unit_test(test_retuning_rule),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_rules),
        cmocka_unit_test(test_fp32_products_of_attention),
        cmocka_unit_test(test_efficient),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_layout_names),
        cmocka_unit_test(test_layout_rule),
        cmocka_unit_test(test_batch_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
