/* Goal: input.padding fires on padding that takes a part of the step, with bounds that can be
 * checked by hand, and is silent where the masks say little or nothing. Method: three steps that
 * the GPU limits, of 20 kernels of 20 us and an optimizer of 60 us, with 160 us of the host, or
 * of one operator on the CPU. */
#include <string.h>

#include "advise/findings.h"
#include "cmocka_all.h"
#include "replay_fixture.h"

enum { KERNELS = 20, HOST_US = 160, CPU_US = 460, OPTIMIZER_US = 60 };

static struct ks_findings findings;
static int64_t kernel_us = 20;
static int64_t product_us = 410;

/* The optimizer works on single tensors, so that it is found. */
static void model(int64_t at, int64_t corr)
{
    int64_t work_us = kernel_us * KERNELS + OPTIMIZER_US;
    int64_t late = work_us > HOST_US ? at / HOST_US * (work_us - HOST_US) : 0;
    for (int64_t i = 0; i < KERNELS; i++) {
        HOST({1, OP, "aten::addmm", 5 + 4 * i, 3},
             {1, CALL, "cudaLaunchKernel", 6 + 4 * i, 1, .corr = corr + i});
        DEVICE({0, 7, KERNEL, "gemm", late + 8 + kernel_us * i, kernel_us, corr + i});
    }
    HOST({1, NOTE, "Optimizer.step#SGD.step", 90, 64});
    for (int64_t i = 0; i < 10; i++) {
        int64_t launch = corr + KERNELS + i;
        HOST({1, OP, "aten::add_", 92 + 6 * i, 4},
             {1, CALL, "cudaLaunchKernel", 93 + 6 * i, 2, .corr = launch});
        DEVICE({0, 7, KERNEL, "add", late + 8 + kernel_us * KERNELS + 6 * i, 6, launch});
    }
}

static void on_cpu(int64_t at, int64_t corr)
{
    (void)corr;
    HOST({1, OP, "aten::addmm", 5, product_us}, {1, OP, "aten::add", 430, 8});
}

static void judge(layout *add, struct ks_process_use use)
{
    facts_fixture_init(&f, 0, 0);
    f.source->process = use;
    add_steps(add, add == model ? HOST_US : CPU_US);
    facts_fixture_advise(&f, &findings);
}

static const struct ks_check *checked(void)
{
    for (size_t i = 0; i < findings.check_count; i++) {
        if (strcmp(findings.checks[i].rule->id, "input.padding") == 0) {
            return &findings.checks[i];
        }
    }
    return NULL;
}

static void release(void)
{
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

static void expect(layout *add, struct ks_process_use use, int64_t low_us, int64_t high_us)
{
    judge(add, use);
    const struct ks_finding *finding = rule_case(&findings, "input.padding", RULE_FIRES);
    if (finding) {
        assert_in_range(finding->saving_in_trace.low_ns + 2 * US, low_us * US, (low_us + 4) * US);
        assert_in_range(finding->saving_in_trace.high_ns + 2 * US, high_us * US,
                        (high_us + 4) * US);
        assert_non_null(strstr(finding->fix_text, "length"));
    }
    release();
}

static void expect_none(layout *add, struct ks_process_use use, enum ks_check_state state,
                        enum rule_case kind, const char *words)
{
    judge(add, use);
    rule_case(&findings, "input.padding", kind);
    const struct ks_check *check = checked();
    assert_int_equal(check ? (int)check->state : -1, (int)state);
    assert_non_null(strstr(check ? check->reason : "", words));
    release();
}

/* 400 us of each step go with the tokens: high cuts half of them, low leaves 4/3 of the rest. */
static const struct ks_process_use half = {
    .mask_batches = 3, .mask_slots = 1200, .mask_longest = 1200, .mask_tokens = 600};

static void test_gpu(void **state)
{
    (void)state;
    expect(model, half, 133, 200);
    struct ks_process_use use = half;
    use.mask_longest = 700; // padding to the longest of each batch does more
    expect(model, use, 167, 200);
    use.mask_tokens = use.mask_longest = 12;
    expect(model, use, 300, 300); // the host takes 160 us
}

static void test_cpu(void **state)
{
    (void)state;
    expect(on_cpu, half, 93, 200); // 400 us beyond 10 us a call
}

static void test_near(void **state)
{
    (void)state;
    struct ks_process_use use = half;
    use.mask_tokens = 961; // 19.9 %
    expect_none(model, use, KS_CHECK_FINE, RULE_NEAR_MISS, "20 % of the tokens are padding");
    use.mask_tokens = 959;
    expect(model, use, 0, 80);
    product_us = 74; // 0.37 of what is beyond 10 us
    expect(on_cpu, half, 14, 31);
    product_us = 71; // 22.4 of 460 us
    expect_none(on_cpu, half, KS_CHECK_FINE, RULE_NEAR_MISS, "takes little of the step");
    product_us = 410;
    kernel_us = 1; // none gets shorter
    expect_none(model, half, KS_CHECK_FINE, RULE_SILENT, "takes little of the step");
    kernel_us = 20;
}

static void test_unknown(void **state)
{
    (void)state;
    struct ks_process_use use = {.threads = 4};
    expect_none(model, use, KS_CHECK_COULD_NOT, RULE_SILENT, "no batch of padded text");
    use = half;
    use.mask_tokens = INT64_MAX; // more tokens than there is room for
    expect_none(model, use, KS_CHECK_COULD_NOT, RULE_SILENT, "no batch");
    use = half;
    use.mask_slots = 0;
    expect_none(on_cpu, use, KS_CHECK_COULD_NOT, RULE_SILENT, "no batch");
    use = half;
    use.mask_slots = use.mask_longest = INT64_MAX;
    use.mask_tokens = 0;
    expect(model, use, 300, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpu),
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_near),
        cmocka_unit_test(test_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
