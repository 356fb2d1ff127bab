/* Goal: chains of kernels that move memory, losses over a large vocabulary and casts of weights are
 * found and priced as docs/analyses/op_work.md defines them, and the rules report them from their
 * thresholds on. Method: the page's examples, and each of them with one thing that keeps it from
 * being one. */
#include <math.h>
#include <string.h>

#include "advise/findings.h"
#include "analyze/op_traffic.h"
#include "cmocka_all.h"
#include "replay_fixture.h"

enum { FORWARD = 1, BACKWARD = 2 };

#define FLOAT "[\"float\", \"float\"]"
#define FLOAT_SCALAR "[\"float\", \"Scalar\"]"
#define SQUARE "[1024, 1024]"

static bool has_shapes = true;

static const struct ks_work_costs *work_of(layout *add, int64_t period)
{
    facts_fixture_init(&f, 0, 0);
    f.source->record_shapes = has_shapes;
    add_steps(add, period);
    facts_fixture_compute(&f, NULL);
    return &f.facts.work;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-6 + 1e-9 * fabs(b);
}

static struct ks_saving saving; /* of the finding */
static int64_t finding_bytes;
static enum ks_check_state state;

/* Runs the rules on the layout: this one finds something, or nothing. */
static void check_rule(enum rule_case kind, layout *add, int64_t period, const char *id)
{
    struct ks_err err = {0};
    struct ks_findings findings = {0};
    work_of(add, period);
    assert_int_equal(ks_findings_compute(&f.facts, &findings, &err), KS_OK);
    const struct ks_finding *finding = rule_case(&findings, id, kind);
    if (finding) {
        saving = finding->saving;
        finding_bytes = finding->bytes;
        assert_non_null(finding->fix_text);
        assert_non_null(finding->fix_code);
        assert_true(finding->evidence_count >= 5);
        assert_true(saving.low_ns <= saving.high_ns);
        assert_true(saving.high_ns <= f.facts.mean_step.step_ns);
    }
    for (size_t i = 0; i < findings.check_count; i++) {
        if (strcmp(findings.checks[i].rule->id, id) == 0) {
            state = findings.checks[i].state;
        }
    }
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

/* Damaged input: whatever is found, promises hold. */
static void check_promises(layout *add, int64_t period)
{
    struct ks_err err = {0};
    struct ks_findings findings = {0};
    work_of(add, period);
    assert_int_equal(ks_findings_compute(&f.facts, &findings, &err), KS_OK);
    for (size_t i = 0; i < findings.count; i++) {
        const struct ks_saving *saved = &findings.list[i].saving;
        assert_true(saved->low_ns >= 0 && saved->low_ns <= saved->high_ns);
        assert_true(saved->high_ns <= f.facts.mean_step.step_ns);
    }
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

/* ------------------------------------------------------------ traffic */

static void check_traffic(const char *name, const char *dims, const char *types, double read,
                          double written)
{
    struct ks_traffic traffic;
    ks_traffic_read(ks_traffic_kind_of(ks_str_from(name)), ks_str_from(dims), ks_str_from(types),
                    &traffic);
    double sum = 0;
    for (size_t i = 0; i < traffic.input_count; i++) {
        sum += ks_traffic_bytes(&traffic.inputs[i]);
    }
    assert_true(is_near(sum, read));
    assert_true(is_near(ks_traffic_bytes(&traffic.output), written));
}

static void test_traffic(void **s)
{
    (void)s;
    check_traffic("mul", "[[8, 4], [4]]", FLOAT, 144, 128);
    check_traffic("mul", "[[8, 1], [1, 4]]", FLOAT, 48, 128); /* both stretch */
    check_traffic("mul", "[[8, 4], []]", FLOAT_SCALAR, 128, 128);
    check_traffic("add_", "[[8], [8], []]", "[\"c10::Half\", \"c10::Half\", \"Scalar\"]", 32, 16);
    check_traffic("copy_", "[[8, 4], [8, 4], []]", "[\"c10::BFloat16\", \"float\", \"Scalar\"]",
                  128, 64);
    check_traffic("fill_", "[[8, 4], []]", FLOAT_SCALAR, 0, 128);
    check_traffic("sum", "[[8, 4], [], [], []]", "[\"float\", \"ScalarList\", \"Scalar\", \"\"]",
                  128, 0);
    check_traffic("lt", "[[8, 4], [8, 4]]", FLOAT, 256, 32);
    check_traffic("_softmax", "[[8, 4], [], []]", "[\"float\", \"Scalar\", \"Scalar\"]", 128, 128);
    check_traffic("nll_loss_forward", "[[8, 4], [8]]", "[\"float\", \"long int\"]", 0, 0);
    check_traffic("mul", "[[], []]", FLOAT, 8, 4);
    assert_int_equal(ks_traffic_kind_of(KS_STR("mm")), KS_TRAFFIC_NONE);
    assert_int_equal(ks_traffic_kind_of(KS_STR("")), KS_TRAFFIC_NONE);
    assert_int_equal(ks_traffic_kind_of(KS_STR("_")), KS_TRAFFIC_NONE);

    struct ks_traffic traffic; /* lists have no types */
    ks_traffic_read(KS_TRAFFIC_JOIN, KS_STR("[[[8, 4], [8, 2]], []]"),
                    KS_STR("[\"TensorList\", \"Scalar\"]"), &traffic);
    assert_int_equal(traffic.input_count, 2);
    assert_int_equal(traffic.output.elements, 48);
    assert_int_equal(traffic.output.width, 0);
    assert_int_equal(traffic.columns, 4);
}

static void test_damaged_traffic(void **s)
{
    (void)s;
    check_traffic("mul", "", "", 0, 0);
    check_traffic("mul", "[", "[", 0, 0);
    check_traffic("mul", "[[8, 4", FLOAT, 0, 0);
    check_traffic("mul", "[[8, 4], [[[[", FLOAT, 128, 128);
    check_traffic("mul", "[[8, 4]]", "[\"float", 128, 128);
    check_traffic("mul", "[[8, 4], [8, 4]]", "", 0, 0);
    check_traffic("mul", "[[-8, 4]]", FLOAT, 0, 0);
    check_traffic("mul", "[[9223372036854775807, 9223372036854775807]]", FLOAT,
                  4 * (double)INT64_MAX, 4 * (double)INT64_MAX);
}

/* ------------------------------------------------------------ chains */

/* What differs from the example. */
static struct {
    int64_t product_us; /* before the chain */
    int64_t rows_us;    /* kernel of each of the two large products of rows */
    const char *around; /* row around the chain */
    const char *second; /* second operator */
    const char *dims;   /* of the third */
} chain;

static void reset_chain(void)
{
    chain.product_us = 100;
    chain.rows_us = 100;
    chain.around = "block";
    chain.second = "aten::mean";
    chain.dims = "[" SQUARE ", [1024, 1]]";
}

/* An operator of 8 us with one launch and so much work. */
static void op(int64_t at, int64_t corr, const char *name, int64_t from, const char *dims,
               const char *types)
{
    dims = has_shapes ? dims : NULL;
    HOST({FORWARD, OP, name, from, 8, .dims = dims, .types = types},
         {FORWARD, CALL, "cudaLaunchKernel", from + 2, 2, .corr = corr});
}

static void norm(int64_t at, int64_t corr)
{
    const char *mean_types = "[\"float\", \"ScalarList\", \"Scalar\", \"\"]";
    int64_t gpu = 20 + chain.product_us;
    int64_t wait = chain.product_us + 2 * chain.rows_us + 150;
    op(at, corr, "aten::mm", 10, "[" SQUARE ", " SQUARE "]", FLOAT);
    HOST({FORWARD, NOTE, chain.around, 19, 42});
    op(at, corr + 1, "aten::pow", 20, "[" SQUARE ", []]", FLOAT_SCALAR);
    op(at, corr + 2, chain.second, 30, "[" SQUARE ", [], [], []]", mean_types);
    op(at, corr + 3, "aten::mul", 40, chain.dims, FLOAT);
    op(at, corr + 4, "aten::mul", 50, "[" SQUARE ", [1024]]", FLOAT);
    HOST({FORWARD, OP, "aten::wait", 70, wait - 45},
         {FORWARD, CALL, "cudaStreamSynchronize", 72, wait - 50});
    DEVICE({0, 7, KERNEL, "gemm", 20, chain.product_us, corr},
           {0, 7, KERNEL, "vectorized", gpu, 100, corr + 1},
           {0, 7, KERNEL, "reduce", gpu + 100, 50, corr + 2},
           {0, 7, KERNEL, "elementwise", gpu + 150, chain.rows_us, corr + 3},
           {0, 7, KERNEL, "elementwise", gpu + 150 + chain.rows_us, chain.rows_us, corr + 4});
}

static int64_t norm_period(void)
{
    return chain.product_us + 2 * chain.rows_us + 180;
}

static void check_chain(enum rule_case kind)
{
    check_rule(kind, norm, norm_period(), "fusion.pointwise");
}

static void test_chain(void **s)
{
    (void)s;
    reset_chain();
    const double square = 1024 * 1024 * 4;
    const struct ks_pointwise_cost *cost = &work_of(norm, norm_period())->pointwise;
    assert_true(is_near(cost->cost.count, 1));
    assert_true(is_near(cost->cost.launches, 4));
    assert_int_equal(cost->cost.host_ns, 38 * US);
    assert_int_equal(cost->cost.device_ns, 350 * US);
    assert_true(is_near(cost->bytes, 7 * square + 8192));
    assert_true(is_near(cost->kept_bytes[0], 2 * square + 4096));
    assert_true(is_near(cost->kept_bytes[1], 3 * square + 8192));
    assert_true(is_near(cost->kept_launches, 2));
    assert_int_equal(cost->kept_ns[0] / US, 100); /* as fast as the last */
    assert_int_equal(cost->kept_ns[1] / US, 200); /* 3 / 7 of 350 us, at 0.75 of the rate */
    assert_int_equal(cost->op_count, 4);
    facts_fixture_release(&f);
}

static void test_chain_rule(void **s)
{
    (void)s;
    reset_chain();
    check_chain(RULE_FIRES);
    assert_true(saving.low_ns > 140 * US && saving.low_ns <= 150 * US);
    assert_true(saving.high_ns > 240 * US && saving.high_ns <= 250 * US);
    chain.product_us = 1500; /* 200 of 1880 us */
    check_chain(RULE_FIRES);
    chain.product_us = 1700; /* 200 of 2080 us: less than a tenth */
    check_chain(RULE_NEAR_MISS);
    assert_int_equal(state, KS_CHECK_FINE);
    reset_chain();
    has_shapes = false;
    check_chain(RULE_SILENT);
    assert_int_equal(state, KS_CHECK_COULD_NOT);
    has_shapes = true;
}

/* A chain of 11 us, 7 of them lost, on a GPU that waits for the host: six launches in 58 us. */
static void queued(int64_t at, int64_t corr)
{
    static const char *const names[] = {"aten::pow", "aten::mean", "aten::mul",
                                        "aten::mul", "aten::mul",  "aten::mul"};
    const char *row = "[" SQUARE ", [1024]]";
    op(at, corr, "aten::mm", 2, "[" SQUARE ", " SQUARE "]", FLOAT);
    DEVICE({0, 7, KERNEL, "gemm", 8, 2, corr});
    for (int64_t i = 0; i < 6; i++) {
        op(at, corr + 1 + i, names[i], 12 + 10 * i, i > 2 ? row : chain.dims, FLOAT);
        DEVICE({0, 7, KERNEL, "elementwise", 18 + 10 * i, i == 1 ? 1 : 2, corr + 1 + i});
    }
}

static void test_queued_chain(void **s)
{
    (void)s;
    reset_chain();
    check_rule(RULE_FIRES, queued, 136, "fusion.pointwise"); /* 5.1 % of the step are lost */
    /* Four of six launches stay, or two, of a host that takes 58 / 1.85 or 58 / 0.9 us. */
    assert_true(saving.low_ns > 8 * US && saving.low_ns < 11 * US);
    assert_true(saving.high_ns > 27 * US && saving.high_ns < 43 * US);
    check_rule(RULE_NEAR_MISS, queued, 143, "fusion.pointwise");
}

static void test_no_chain(void **s)
{
    (void)s;
    reset_chain();
    chain.second = "aten::mm"; /* two and two */
    check_chain(RULE_SILENT);
    reset_chain();
    chain.dims = "[[16, 1024], [16, 1]]"; /* three are large yet */
    check_chain(RULE_FIRES);
    chain.second = "aten::cumsum";
    check_chain(RULE_SILENT);
    reset_chain();
    chain.around = "Torch-Compiled Region: 0/0";
    check_chain(RULE_SILENT);
    chain.around = "Optimizer.step#SGD.step";
    check_chain(RULE_SILENT);
    reset_chain();
    chain.dims = "[[1024, 10";
    check_chain(RULE_SILENT);
    chain.dims = "[[9223372036854775807, 9223372036854775807], [1]]";
    check_promises(norm, norm_period());
    reset_chain();
}

/* Work that no operator launched lies in the middle. */
static void norm_and_triton(int64_t at, int64_t corr)
{
    norm(at, corr);
    HOST({FORWARD, CALL, "cuLaunchKernelEx", 39, 1, .corr = corr + 100});
    DEVICE({0, 8, KERNEL, "triton", 45, 1, corr + 100});
}

/* Scores of attention are another rule's. */
static void attention(int64_t at, int64_t corr)
{
    const char *scores = "[[64, 256, 256], []]";
    op(at, corr, "aten::bmm", 10, "[[64, 256, 64], [64, 64, 256]]", FLOAT);
    op(at, corr + 1, "aten::div", 20, scores, FLOAT_SCALAR);
    op(at, corr + 2, "aten::add", 30, "[[64, 256, 256], [64, 256, 256]]", FLOAT);
    op(at, corr + 3, "aten::_softmax", 40, scores, FLOAT_SCALAR);
    op(at, corr + 4, "aten::bmm", 50, "[[64, 256, 256], [64, 256, 64]]", FLOAT);
    HOST({FORWARD, OP, "aten::wait", 70, 350}, {FORWARD, CALL, "cudaStreamSynchronize", 72, 345});
    for (int64_t i = 0; i < 5; i++) {
        DEVICE({0, 7, KERNEL, "kernel", 20 + 80 * i, 80, corr + i});
    }
}

static void test_chain_ends(void **s)
{
    (void)s;
    reset_chain();
    check_rule(RULE_SILENT, norm_and_triton, norm_period(), "fusion.pointwise");
    check_rule(RULE_SILENT, attention, 430, "fusion.pointwise");
    check_rule(RULE_FIRES, attention, 430, "attention.materialized");
}

/* ------------------------------------------------------------ losses */

/* What differs from the example. */
static struct {
    int64_t product_us;
    const char *softmax;
    const char *logits; /* dims of one tensor of logits and something else */
    const char *pair;   /* ... of two */
    bool is_trained;
} loss;

static void reset_loss(void)
{
    loss.product_us = 100;
    loss.softmax = "aten::_log_softmax";
    loss.logits = "[[512, 32768], [512], []]";
    loss.pair = "[[512, 32768], [512, 32768], []]";
    loss.is_trained = true;
}

/* A node of the backward pass around an operator. */
static void node(int64_t at, int64_t corr, const char *name, const char *inner, int64_t from,
                 const char *dims, const char *types)
{
    HOST({BACKWARD, OP, name, from, 10},
         {BACKWARD, OP, inner, from + 1, 8, .dims = has_shapes ? dims : NULL, .types = types},
         {BACKWARD, CALL, "cudaLaunchKernel", from + 3, 2, .corr = corr});
}

static void backward(int64_t at, int64_t corr)
{
    node(at, corr, "autograd::engine::evaluate_function: NllLossBackward0", "aten::fill_", 60,
         loss.logits, FLOAT_SCALAR);
    node(at, corr + 1, "autograd::engine::evaluate_function: LogSoftmaxBackward0",
         "aten::_log_softmax_backward_data", 80, loss.pair, FLOAT);
    node(at, corr + 2, "autograd::engine::evaluate_function: ToCopyBackward0", "aten::copy_", 100,
         loss.pair, "[\"c10::BFloat16\", \"float\", \"Scalar\"]");
}

static void cross_entropy(int64_t at, int64_t corr)
{
    static const int64_t took[] = {30, 40, 5, 20, 60, 30};
    int64_t gpu = 20 + loss.product_us;
    int64_t count = loss.is_trained ? 6 : 3;
    op(at, corr + 9, "aten::mm", 10, "[[512, 256], [256, 32768]]",
       "[\"c10::BFloat16\", \"c10::BFloat16\"]");
    op(at, corr, "aten::copy_", 20, loss.pair, "[\"float\", \"c10::BFloat16\", \"Scalar\"]");
    op(at, corr + 1, loss.softmax, 30, loss.logits, FLOAT_SCALAR);
    op(at, corr + 2, "aten::nll_loss_forward", 40, loss.logits, "[\"float\", \"long int\"]");
    if (loss.is_trained) {
        backward(at, corr + 3);
    }
    HOST({FORWARD, OP, "aten::wait", 120, loss.product_us + 95},
         {FORWARD, CALL, "cudaStreamSynchronize", 122, loss.product_us + 90});
    DEVICE({0, 7, KERNEL, "gemm", 20, loss.product_us, corr + 9});
    for (int64_t i = 0; i < count; i++) {
        DEVICE({0, 7, KERNEL, "kernel", gpu, took[i], corr + i});
        gpu += took[i];
    }
}

static void check_loss(enum rule_case kind)
{
    check_rule(kind, cross_entropy, loss.product_us + 220, "loss.logits");
}

static void test_loss(void **s)
{
    (void)s;
    reset_loss();
    const double logits = 512.0 * 32768 * 2;
    const struct ks_logits_cost *cost = &work_of(cross_entropy, 320)->logits;
    assert_true(is_near(cost->cost.count, 6));
    assert_int_equal(cost->cost.device_ns, 185 * US);
    assert_true(is_near(cost->bytes, 18 * logits));
    assert_true(is_near(cost->kept_bytes, 3 * logits));
    assert_true(is_near(cost->written_bytes, 4 * logits)); /* in fp32: copy and logarithms */
    assert_true(is_near(cost->losses, 1));
    assert_int_equal(cost->kept_ns[0] / US, 30);
    assert_int_equal(cost->kept_ns[1] / US, 47); /* 3 of 18 in 185 us, at 0.65 of that rate */
    assert_int_equal(cost->rows, 512);
    assert_int_equal(cost->columns, 32768);
    facts_fixture_release(&f);
}

static void test_loss_rule(void **s)
{
    (void)s;
    reset_loss();
    check_loss(RULE_FIRES);
    assert_true(saving.low_ns > 134 * US && saving.low_ns <= 138 * US);
    assert_true(saving.high_ns > 150 * US && saving.high_ns <= 155 * US);
    assert_int_equal(finding_bytes, 4LL * 512 * 32768 * 2);
    loss.product_us = 2600; /* 146 of 2820 us */
    check_loss(RULE_FIRES);
    loss.product_us = 2800; /* 146 of 3020 us: under 5 % */
    check_loss(RULE_NEAR_MISS);
    reset_loss();
    loss.is_trained = false; /* of 75 us, one part in seven stays */
    check_loss(RULE_FIRES);
    assert_true(saving.high_ns <= 65 * US);
}

static void test_no_loss(void **s)
{
    (void)s;
    reset_loss();
    loss.softmax = "aten::_softmax"; /* of attention over long sequences, say */
    check_loss(RULE_SILENT);
    reset_loss();
    loss.logits = "[[512, 32767], [512], []]"; /* a vocabulary that is smaller */
    loss.pair = "[[512, 32767], [512, 32767], []]";
    check_loss(RULE_NEAR_MISS);
    reset_loss();
    has_shapes = false;
    check_rule(RULE_SILENT, cross_entropy, 320, "loss.logits");
    has_shapes = true;
    loss.logits = loss.pair = "[[9223372036854775807, 9223372036854775807], [1]]";
    check_promises(cross_entropy, loss.product_us + 220);
    loss.logits = loss.pair = "[[32768";
    check_loss(RULE_SILENT);
}

/* ------------------------------------------------------------ casts */

/* What differs from the example. */
static struct {
    int64_t passes;
    int64_t updates; /* steps of an optimizer behind them */
    int64_t product_us;
    const char *weights; /* types of the layer's input, weight and bias */
    const char *layer;   /* their dims */
    bool is_trained;
} casts;

static void reset_casts(void)
{
    casts.passes = 2;
    casts.updates = 1;
    casts.product_us = 20;
    casts.weights = "[\"float\", \"float\", \"float\"]";
    casts.layer = "[[64, 1024], [1024, 1024], [1024]]";
    casts.is_trained = true;
}

/* aten::to with one launch. */
static void cast_to(int64_t at, int64_t corr, int64_t from, const char *dims, int64_t seq)
{
    const char *types =
        strstr(casts.weights, "BFloat16\", \"c10") ? "[\"c10::BFloat16\"]" : "[\"float\"]";
    HOST({FORWARD, OP, "aten::to", from, 8, .dims = has_shapes ? dims : NULL, .types = types,
          .seq = seq},
         {FORWARD, CALL, "cudaLaunchKernel", from + 2, 2, .corr = corr});
}

static void backward_of(int64_t at, int64_t corr, int64_t seq)
{
    HOST({BACKWARD, OP, "autograd::engine::evaluate_function: AddmmBackward0", 70, 8},
         {BACKWARD, CALL, "cudaLaunchKernel", 72, 2, .corr = corr},
         {BACKWARD, OP, "autograd::engine::evaluate_function: ToCopyBackward0", 80, 8, .seq = seq},
         {BACKWARD, CALL, "cudaLaunchKernel", 82, 2, .corr = corr + 1},
         {BACKWARD, OP, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 90,
          8},
         {BACKWARD, CALL, "cudaLaunchKernel", 92, 2, .corr = corr + 2});
}

/* 134 us of the GPU with a product of 20 us, and 120 of its gradients. */
static int64_t pass(int64_t at, int64_t corr, int64_t gpu)
{
    const int64_t took[] = {50, 2, 2, casts.product_us, 20, 60, 40};
    int64_t count = casts.is_trained ? 7 : 4;
    int64_t seq = 1 + at / 10 + corr;
    HOST({FORWARD, OP, "aten::linear", 10, 50, .dims = has_shapes ? casts.layer : NULL,
          .types = casts.weights});
    cast_to(at, corr, 12, "[[1024, 1024], [], [], [], []]", seq);
    cast_to(at, corr + 1, 22, "[[1024], [], [], [], []]", seq + 1);
    cast_to(at, corr + 2, 32, "[[64, 1024], [], [], [], []]", seq + 2);
    op(at, corr + 3, "aten::addmm", 42, "[[1024], [64, 1024], [1024, 1024]]", FLOAT);
    if (casts.is_trained) {
        backward_of(at, corr + 4, seq);
    }
    for (int64_t i = 0; i < count; i++) {
        DEVICE({0, 7, KERNEL, "kernel", gpu, took[i], corr + i});
        gpu += took[i];
    }
    return gpu;
}

static void autocast(int64_t at, int64_t corr)
{
    int64_t gpu = 20;
    int64_t host = 100 * casts.passes;
    for (int64_t i = 0; i < casts.passes; i++) {
        gpu = pass(at + 100 * i, corr + 10 * i, gpu - (i > 0 ? 100 : 0));
    }
    for (int64_t i = 0; i < casts.updates; i++) {
        HOST({FORWARD, NOTE, "Optimizer.step#SGD.step", host + 10 * i, 8});
    }
    int64_t end = gpu + 100 * (casts.passes - 1);
    HOST({FORWARD, OP, "aten::wait", host + 50, end - host - 45},
         {FORWARD, CALL, "cudaStreamSynchronize", host + 52, end - host - 50});
}

static int64_t autocast_period(void)
{
    int64_t pass_us = 54 + casts.product_us + (casts.is_trained ? 120 : 0);
    return 20 + casts.passes * pass_us + 30;
}

static void check_churn(enum rule_case kind)
{
    check_rule(kind, autocast, autocast_period(), "precision.cast_churn");
}

static void test_casts(void **s)
{
    (void)s;
    reset_casts();
    const struct ks_cast_cost *cost = &work_of(autocast, autocast_period())->casts;
    assert_true(is_near(cost->cost.count, 4)); /* weight and bias, twice */
    assert_int_equal(cost->cost.host_ns, 32 * US);
    assert_int_equal(cost->cost.device_ns, 104 * US);
    assert_true(is_near(cost->gradients.count, 2));
    assert_int_equal(cost->gradients.device_ns, 120 * US);
    assert_true(is_near(cost->accumulated.count, 2));
    assert_int_equal(cost->accumulated.device_ns, 80 * US);
    assert_true(is_near(cost->passes, 2));
    assert_true(cost->is_training);
    facts_fixture_release(&f);
}

static void test_cast_rule(void **s)
{
    (void)s;
    reset_casts();
    check_churn(RULE_FIRES); /* half of 224 us; and half of 80 */
    assert_true(saving.low_ns > 100 * US && saving.low_ns <= 112 * US);
    assert_true(saving.high_ns > 150 * US && saving.high_ns < 153 * US);
    casts.product_us = 1000; /* 132 of 2398 us */
    check_churn(RULE_FIRES);
    casts.product_us = 1200; /* 132 of 2798 us: under 5 % */
    check_churn(RULE_NEAR_MISS);
    assert_int_equal(state, KS_CHECK_FINE);
    reset_casts();
    casts.passes = 3;
    casts.updates = 2; /* 1.5 passes for each */
    check_churn(RULE_FIRES);
    casts.passes = 4;
    casts.updates = 3;
    check_churn(RULE_NEAR_MISS);
    reset_casts();
    casts.is_trained = false;
    casts.updates = 0;
    casts.product_us = 500;
    check_churn(RULE_FIRES); /* all of it: weight and bias, 52 us, twice */
    assert_true(saving.low_ns > 90 * US && saving.high_ns <= 106 * US);
}

static void test_no_churn(void **s)
{
    (void)s;
    reset_casts();
    casts.updates = 2; /* once for each */
    check_churn(RULE_SILENT);
    casts.passes = casts.updates = 1;
    check_churn(RULE_SILENT);
    reset_casts();
    casts.weights = "[\"float\", \"c10::BFloat16\", \"c10::BFloat16\"]";
    check_churn(RULE_SILENT);
    reset_casts();
    casts.layer = "[[64, 1024], [1000, 1024], [1000]]"; /* others are cast */
    check_churn(RULE_SILENT);
    casts.layer = "[[1024, 1024";
    check_churn(RULE_SILENT);
    casts.layer = "[]";
    check_churn(RULE_SILENT);
    reset_casts();
    has_shapes = false;
    check_churn(RULE_SILENT);
    assert_int_equal(state, KS_CHECK_COULD_NOT);
    has_shapes = true;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_traffic),      cmocka_unit_test(test_damaged_traffic),
        cmocka_unit_test(test_chain),        cmocka_unit_test(test_chain_rule),
        cmocka_unit_test(test_queued_chain), cmocka_unit_test(test_no_chain),
        cmocka_unit_test(test_chain_ends),   cmocka_unit_test(test_loss),
        cmocka_unit_test(test_loss_rule),    cmocka_unit_test(test_no_loss),
        cmocka_unit_test(test_casts),        cmocka_unit_test(test_cast_rule),
        cmocka_unit_test(test_no_churn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
