/* Goal: a healthy run is told what limits it, in the shares that docs/opportunities.md computes,
 * and what is worth a try from each threshold on. Method: the page's example of steps of 400 us,
 * and the same with one thing that keeps it from being one. */
#include "advise/opportunities.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmocka_all.h"
#include "facts_fixture.h"

enum { STEPS = 4, STEP_NS = 400 * 1000, US = 1000 };

static const char *const names[] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3",
                                    "ProfilerStep#4"};

static const char bf16[] = "[\"c10::BFloat16\", \"c10::BFloat16\"]";
static const char square[] = "[[4096, 4096], [4096, 4096]]";

static struct facts_fixture f;
static struct ks_opportunities found;

/* An operator of a step, with its work on the GPU. */
struct work {
    const char *name;
    const char *dims;
    const char *types;
    int64_t dur_us;
    const char *kernel; /* NULL: of tensor cores */
    bool is_wrapped;    /* in an operator of the same shapes */
};

struct plan {
    const char *gpu;
    int32_t capability;
    struct work works[3];
    size_t work_count;
    int64_t total_bytes, reserved_bytes, rise_bytes; /* 0: no memory events */
};

static void add_memory(const struct plan *plan, int64_t at)
{
    const struct memory_row rows[] = {
        {at + 10, plan->rise_bytes, 0, 0x1000, 0},
        {at + 20, -plan->rise_bytes, 0, 0x1000, 0},
    };
    if (plan->rise_bytes > 0) {
        facts_fixture_memory(&f, rows, KS_COUNT_OF(rows));
    }
}

static void add_step(const struct plan *plan, int64_t index)
{
    int64_t at = index * STEP_NS;
    int64_t device_at = at + 20 * US;
    FACTS_HOST(&f, {1, NOTE, names[index], at, STEP_NS});
    for (size_t i = 0; i < plan->work_count; i++) {
        const struct work *work = &plan->works[i];
        int64_t start = at + (10 + 5 * (int64_t)i) * US;
        int64_t corr = 10 * index + (int64_t)i + 1;
        if (work->is_wrapped) {
            FACTS_HOST(&f, {1, OP, work->name, start - 100, 4 * US + 200, .dims = work->dims,
                            .types = work->types});
        }
        FACTS_HOST(&f, {1, OP, work->name, start, 4 * US, .dims = work->dims, .types = work->types},
                   {1, CALL, "cudaLaunchKernel", start + US, 2 * US, .corr = corr});
        FACTS_DEVICE(&f, {0, 7, KERNEL, work->kernel ? work->kernel : "nvjet_hsh_128x256",
                          device_at, work->dur_us * US, corr});
        device_at += work->dur_us * US;
    }
    add_memory(plan, at);
}

static void look(const struct plan *plan)
{
    struct ks_err err = {0};
    struct ks_findings findings = {0};
    struct ks_gpu_info gpu = {.compute_major = plan->capability, .memory_bytes = plan->total_bytes};
    facts_fixture_init(&f, 0, 0);
    f.source->record_shapes = true;
    assert_int_equal(ks_trace_builder_intern(f.builder, ks_str_from(plan->gpu), &gpu.name, &err),
                     KS_OK);
    f.source->gpus = &gpu;
    f.source->gpu_count = 1;
    for (int64_t i = 0; i < STEPS; i++) {
        add_step(plan, i);
    }
    facts_fixture_compute(&f, NULL);
    assert_null(f.facts.mean_step.obstacle);
    if (plan->reserved_bytes > 0) {
        f.facts.memory[0].peak_reserved_bytes = plan->reserved_bytes;
    }
    found = (struct ks_opportunities){0};
    assert_int_equal(ks_opportunities_compute(&f.facts, &findings, &found, &err), KS_OK);
}

static const struct ks_opportunity *find(const char *id)
{
    for (size_t i = 0; i < found.count; i++) {
        if (strcmp(found.list[i].id, id) == 0) {
            return &found.list[i];
        }
    }
    return NULL;
}

static double value_of(const struct ks_opportunity *opportunity, const char *name)
{
    for (size_t i = 0; i < opportunity->evidence_count; i++) {
        if (strcmp(opportunity->evidence[i].name, name) == 0) {
            return opportunity->evidence[i].value;
        }
    }
    fail_msg("no evidence %s", name);
    return 0;
}

static void check_share(const char *id, const char *name, double expected)
{
    const struct ks_opportunity *opportunity = find(id);
    double value = opportunity ? value_of(opportunity, name) : -1;
    if (fabs(value - expected) > 0.002) {
        fail_msg("%s of %s: %g, not %g", name, id, value, expected);
    }
}

static void check_most(const char *id, int64_t most_ns)
{
    const struct ks_opportunity *opportunity = find(id);
    assert_int_equal(opportunity ? opportunity->most_ns : -1, most_ns);
}

static void done(void)
{
    ks_opportunities_release(&found);
    facts_fixture_release(&f);
}

/* The page's example. */
static const struct plan example = {
    .gpu = "NVIDIA H100 80GB HBM3",
    .capability = 9,
    .works = {{"aten::mm", square, bf16, 300, NULL, false},
              {"aten::add", square, bf16, 30, "vectorized_elementwise_kernel", false}},
    .work_count = 2,
};

static void test_compute(void **state)
{
    (void)state;
    look(&example);
    assert_null(find("limit.bandwidth"));
    check_share("limit.compute", "of_peak_while_running", 0.463);
    check_share("limit.compute", "mfu", 0.347);
    check_share("limit.compute", "products_of_busy", 0.909);
    assert_string_equal(found.list[0].id, "limit.compute");
    done();
    struct plan wrapped = example; // the work counts once
    wrapped.works[0].is_wrapped = true;
    look(&wrapped);
    check_share("limit.compute", "mfu", 0.347);
    done();
}

/* Products [rows, 8] x [8, 16] of more shapes than are remembered, each in 16 and then in 32 bits:
 * small ones are limited by the memory, whose bytes tell the types apart. */
static void test_many_shapes(void **state)
{
    (void)state;
    enum { SHAPES = 3000, EACH_NS = 2 * US };
    static const char fp32[] = "[\"float\", \"float\"]";
    double flops = 0;
    double bytes = 0;
    facts_fixture_init(&f, 0, 0);
    f.source->record_shapes = true;
    for (int64_t step = 0; step < 2; step++) {
        int64_t at = step * 2 * SHAPES * EACH_NS;
        FACTS_HOST(&f, {1, NOTE, names[step], at, 2 * SHAPES * EACH_NS});
        for (int64_t i = 0; i < 2 * SHAPES; i++) {
            int64_t rows = 1 + i / 2;
            int64_t start = at + i * EACH_NS;
            int64_t corr = 2 * SHAPES * step + i + 1;
            char dims[64];
            (void)snprintf(dims, sizeof(dims), "[[%d, 8], [8, 16]]", (int)rows);
            FACTS_HOST(&f,
                       {1, OP, "aten::mm", start, EACH_NS - 100, .dims = dims,
                        .types = i % 2 == 0 ? bf16 : fp32},
                       {1, CALL, "cudaLaunchKernel", start + 100, 100, .corr = corr});
            FACTS_DEVICE(&f, {0, 7, KERNEL, "nvjet_hsh_128x256", start + 300, US, corr});
            flops += 2.0 * (double)rows * 8 * 16 / 2;
            bytes += (i % 2 == 0 ? 2.0 : 4.0) * (double)(rows * 8 + 8 * 16 + rows * 16) / 2;
        }
    }
    facts_fixture_compute(&f, NULL);
    const struct ks_rate *thin = &f.facts.work.rates.thin;
    assert_float_equal(thin->flops, flops, 1);
    assert_float_equal(thin->bytes, bytes, 1);
    assert_int_equal(thin->device_ns, 2 * SHAPES * US);
    facts_fixture_release(&f);
}

static void test_bandwidth(void **state)
{
    (void)state;
    struct plan plan = example;
    plan.works[0] = (struct work){"aten::add", square, bf16, 320, "elementwise", false};
    plan.work_count = 1;
    look(&plan);
    assert_null(find("limit.compute"));
    check_share("limit.bandwidth", "of_bandwidth", 0.094);
    check_share("limit.bandwidth", "moving_of_busy", 1);
    done();
    /* One row of a token through a weight: 2 FLOPs for each 2 bytes. */
    plan.works[0] =
        (struct work){"aten::mm", "[[1, 16384], [16384, 16384]]", bf16, 320, NULL, false};
    look(&plan);
    assert_null(find("limit.compute"));
    check_share("limit.bandwidth", "of_bandwidth", 0.5006);
    assert_null(find("precision.fp8"));
    done();
}

static void test_no_limit(void **state)
{
    (void)state;
    struct plan plan = example;
    plan.works[0].dur_us = 280; // the GPU works for 310 of 400 us
    look(&plan);
    assert_null(find("limit.compute"));
    done();
    plan = example;
    plan.gpu = "NVIDIA GeForce 9800"; // not in the table
    look(&plan);
    assert_null(find("limit.compute"));
    done();
    plan = example;
    plan.works[0].dims = NULL; // no shapes
    look(&plan);
    assert_null(find("limit.compute"));
    assert_null(find("limit.bandwidth"));
    done();
    plan = example;
    plan.works[0].dims = "[[4096, 9223372036854775807], [9223372036854775807, 4096]]";
    look(&plan); // absurd numbers end at the peak
    check_share("limit.compute", "mfu", 1);
    done();
}

static void test_fp8(void **state)
{
    (void)state;
    struct plan plan = example;
    look(&plan);
    check_most("precision.fp8", 150 * US);
    done();
    plan.capability = 8;
    look(&plan);
    assert_null(find("precision.fp8"));
    done();
    plan = example;
    plan.works[0].dur_us = 119; // 30 % of the step are 120 us
    look(&plan);
    assert_null(find("precision.fp8"));
    done();
}

static void test_compile(void **state)
{
    (void)state;
    struct plan plan = example; // 0.6 * 30 us of 400 us is less than 5 %
    look(&plan);
    assert_null(find("compile.eager"));
    done();
    plan.works[1].dur_us = 34;
    look(&plan);
    check_most("compile.eager", 20400);
    done();
    plan.works[1].kernel = "triton_poi_fused_add_0";
    look(&plan);
    assert_null(find("compile.eager"));
    done();
}

static void test_batch(void **state)
{
    (void)state;
    const int64_t gib = (int64_t)1 << 30;
    struct plan plan = example;
    plan.total_bytes = 80 * gib;
    plan.rise_bytes = 2 * gib;
    plan.reserved_bytes = 36 * gib;
    look(&plan); // 0.9 * 80 / 36
    check_share("batch.larger", "batch_factor", 2);
    done();
    plan.reserved_bytes = 37 * gib;
    look(&plan);
    assert_null(find("batch.larger"));
    done();
    plan.reserved_bytes = gib;
    look(&plan);
    check_share("batch.larger", "batch_factor", 16);
    done();
    plan.works[0].dur_us = 180; // products at half of the peak over the step: nothing to gain
    plan.works[0].dims = "[[4096, 8192], [8192, 4096]]";
    look(&plan);
    assert_null(find("batch.larger"));
    done();
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *row; /* NULL: none */
    } cases[] = {
        {"NVIDIA H100 80GB HBM3", "H100 SXM"},
        {"NVIDIA H100 PCIe", "H100 PCIe"},
        {"NVIDIA H100 NVL", "H100 NVL"},
        {"NVIDIA H200", "H200"},
        {"NVIDIA A100-SXM4-40GB", "A100 40GB"},
        {"NVIDIA A100-SXM4-80GB", "A100 80GB SXM"},
        {"NVIDIA A100 80GB PCIe", "A100 80GB PCIe"},
        {"NVIDIA L40S", "L40S"},
        {"NVIDIA L40", "L40"},
        {"NVIDIA L4", "L4"},
        {"Tesla T4", "T4"},
        {"Tesla V100-SXM2-16GB", "V100"},
        {"NVIDIA GeForce RTX 4090", "RTX 4090"},
        {"NVIDIA GeForce RTX 4090 D", NULL},
        {"NVIDIA GeForce RTX 4090 Laptop GPU", NULL},
        {"NVIDIA A100-SXM4-40GB MIG 1g.5gb", NULL},
        {"NVIDIA GH200 480GB", NULL},
        {"NVIDIA H20", NULL},
        {"NVIDIA A10G", NULL},
        {"NVIDIA RTX A4000", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < KS_COUNT_OF(cases); i++) {
        const struct ks_gpu_peaks *peaks = ks_gpu_peaks_find(ks_str_from(cases[i].name));
        assert_true((peaks != NULL) == (cases[i].row != NULL));
        if (peaks) {
            assert_string_equal(peaks->name, cases[i].row);
        }
    }
}

/* ------------------------------------------------------------ without a GPU */

static void look_at_cpu(const char *op, int64_t op_us, const char *other, int64_t other_us)
{
    struct ks_err err = {0};
    struct ks_findings findings = {0};
    facts_fixture_init(&f, 0, 0);
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t at = i * STEP_NS;
        FACTS_HOST(&f, {1, NOTE, names[i], at, STEP_NS}, {1, OP, op, at + US, op_us * US},
                   {1, OP, other, at + (2 + op_us) * US, other_us * US});
    }
    facts_fixture_compute(&f, NULL);
    found = (struct ks_opportunities){0};
    assert_int_equal(ks_opportunities_compute(&f.facts, &findings, &found, &err), KS_OK);
}

static void test_cpu(void **state)
{
    (void)state;
    look_at_cpu("aten::mkldnn_convolution", 30, "aten::index", 70);
    check_share("precision.bf16", "share_of_operators", 0.3);
    check_share("layout.channels_last", "share_of_operators", 0.3);
    assert_null(find("compile.eager"));
    done();
    look_at_cpu("aten::addmm", 29, "aten::index", 71);
    assert_int_equal(found.count, 0);
    done();
    look_at_cpu("aten::add", 20, "aten::index", 80);
    check_share("compile.eager", "share_of_operators", 0.2);
    done();
    look_at_cpu("aten::add", 19, "aten::index", 81);
    assert_int_equal(found.count, 0);
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compute),   cmocka_unit_test(test_many_shapes),
        cmocka_unit_test(test_bandwidth), cmocka_unit_test(test_no_limit),
        cmocka_unit_test(test_fp8),       cmocka_unit_test(test_compile),
        cmocka_unit_test(test_batch),     cmocka_unit_test(test_names),
        cmocka_unit_test(test_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
