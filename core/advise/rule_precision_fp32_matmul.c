/* Rule precision.fp32_matmul: matrix products in fp32 on the plain cores of a GPU that has tensor
 * cores.
 *
 * Claim: kernels of matrix products and convolutions that compute in fp32 without tensor cores take
 * at least 10% of the step, on a GPU of compute capability 8.0 or newer (tf32, bf16), and a step
 * with tensor cores would be at least 5% shorter: where the host limits it, it would not.
 *
 * Evidence: kernels by name: gemm or conv together with simt, sgemm or ffma. Those that attention
 * in single operators makes out of 16 bits are left to attention.backend.
 *
 * Saving, per step: replays of the recorded steps in which these kernels take a part of their
 * time. Peak rates of dense products (vendor's tables, TFLOP/s; fp32, tf32, bf16): A100 19.5, 156,
 * 312; H100 67, 495, 989; L4 30, 60, 121. So tf32 is 2 to 8 times and bf16 4 to 16 times as fast.
 * Low keeps 1/4 of their time (half of the tf32 peak of the large ones), high 1/20 (the bf16 peak)
 * and half of that of other kernels, since what lies between products moves half the bytes.
 * Measured with bf16: 85.6 of 94.8 ms, 101 of 118 ms.
 *
 * Silent when: gpu_step.c sees an obstacle, or no file says what GPU it was.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"
#include "analyze/kernel_precision.h"
#include "measure/sum.h"

static const double share_min = 0.10;
static const double saving_share_min = 0.05;
static const double kept_at_most = 0.25;
static const double kept_at_least = 0.05;
static const double other_kept_at_least = 0.5;

enum { CAPABILITY_MIN = 8 };

static bool is_fp32_product(const struct ks_facts *facts, const struct ks_kernel_fact *kernel)
{
    return kernel->category == KS_CATEGORY_KERNEL &&
           ks_kernel_is_fp32_product(ks_trace_str(facts->trace, kernel->name));
}

/* Of all GPU time, what attention in single operators, which casts what it is given to fp32, spends
 * on products: two forward and four backward. That is attention.backend's. */
static double attention_share(const struct ks_facts *facts)
{
    const struct ks_attention_cost *math = &facts->work.attention[KS_ATTENTION_MATH];
    if (!math->is_half || facts->mean_step.busy_ns <= 0) {
        return 0;
    }
    int64_t products_ns = ks_sum_scale(math->product_device_ns, 3);
    products_ns = products_ns < math->cost.device_ns ? products_ns : math->cost.device_ns;
    return (double)products_ns / (double)facts->mean_step.busy_ns;
}

/* Their part of all GPU time, and the largest of them. */
static double fp32_share(const struct ks_facts *facts, const struct ks_kernel_fact **worst)
{
    int64_t fp32_ns = 0;
    int64_t all_ns = 0;
    *worst = NULL;
    for (size_t i = 0; i < facts->kernel_count; i++) {
        const struct ks_kernel_fact *kernel = &facts->kernels[i];
        all_ns = ks_sum_add(all_ns, kernel->total_ns);
        if (is_fp32_product(facts, kernel)) {
            fp32_ns = ks_sum_add(fp32_ns, kernel->total_ns);
            *worst = *worst ? *worst : kernel; /* kernels come in order of time */
        }
    }
    double share = all_ns > 0 ? (double)fp32_ns / (double)all_ns - attention_share(facts) : 0;
    return share > 0 ? share : 0;
}

static struct ks_replay_change on_tensor_cores(double products, double others)
{
    struct ks_replay_change change = KS_REPLAY_UNCHANGED;
    change.shrinks[0] =
        (struct ks_replay_shrink){.marks = KS_REPLAY_FP32, .host_part = 1, .work_part = products};
    change.shrinks[1] =
        (struct ks_replay_shrink){.marks = KS_REPLAY_NOT_FP32, .host_part = 1, .work_part = others};
    return change;
}

static enum ks_status report(double share, const struct ks_kernel_fact *worst,
                             const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_precision_fp32_matmul);
    int64_t product_ns = ks_gpu_step_part(mean->busy_ns, share);
    const struct ks_replay_change sure = on_tensor_cores(kept_at_most, 1);
    const struct ks_replay_change most = on_tensor_cores(kept_at_least, other_kept_at_least);
    KS_TRY(ks_gpu_step_what_if_device(facts, &sure, &most, &finding, err));
    if (!ks_gpu_step_is_worth(facts, &finding, saving_share_min)) {
        check->reason = ks_findings_text(
            out, "products on tensor cores would save %.2f to %.2f of %.2f ms a step",
            (double)finding.saving.low_ns / 1e6, (double)finding.saving.high_ns / 1e6,
            (double)mean->step_ns / 1e6);
        return KS_OK;
    }
    finding.fix_text = ks_findings_text(out,
                                        "Let tensor cores compute the products: %.1f of %.1f ms a "
                                        "step go into fp32 kernels. bf16 by "
                                        "autocast, or tf32 by the second line if fp32 must stay.",
                                        (double)product_ns / 1e6, (double)mean->step_ns / 1e6);
    finding.fix_code = "with torch.autocast(\"cuda\", dtype=torch.bfloat16): ...\n"
                       "torch.set_float32_matmul_precision(\"high\")";
    const struct ks_evidence evidence[] = {
        {"fp32_products", (double)product_ns, "ns"},
        {"share_of_gpu_time", share, "share"},
        {"busy", (double)mean->busy_ns, "ns"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    finding.where.op = worst->name;
    finding.where.device = worst->device;
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    int32_t capability = ks_gpu_step_capability(facts);
    if (!ks_gpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    if (capability < 0) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = "no file says what GPU it was";
        return KS_OK;
    }
    const struct ks_kernel_fact *worst;
    double share = fp32_share(facts, &worst);
    int64_t product_ns = ks_gpu_step_part(mean->busy_ns, share);
    if (capability >= CAPABILITY_MIN && worst &&
        ks_gpu_step_is_share(mean, product_ns, share_min)) {
        return report(share, worst, facts, out, check, err);
    }
    check->reason =
        ks_findings_text(out, "fp32 products take %.1f %% of the GPU's time", 100 * share);
    return KS_OK;
}

const struct ks_rule ks_rule_precision_fp32_matmul = {
    .id = "precision.fp32_matmul",
    .title = "Matrix products in fp32 without tensor cores",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
