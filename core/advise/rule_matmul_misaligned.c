/* Rule matmul.misaligned: sizes that are no multiples of 8 keep matrix products from the fast
 * kernels.
 *
 * Claim: products in bf16 or fp16 with a size that is no multiple of 8 run at less than 0.6 of the
 * rate of the other large products of the same trace; padded, the step would be at least 5%
 * shorter. Tensor cores read 16 bytes at a time, which rows of other sizes do not allow.
 *
 * Evidence: shapes, types and device time of aten::mm, addmm, bmm and baddbmm
 * (docs/analyses/op_work.md).
 *
 * Saving, per step: replays of the recorded steps in which these products take what the others need
 * for as much arithmetic (high), or 1.6 times that (low). Padded to multiples of 64, products of M
 * 4096 and 8192 took 0.13 to 0.20 of the time of odd sizes and 0.32 to 0.34 of that of multiples of
 * 2 and 4 (H100, bf16).
 *
 * Silent when: gpu_step.c sees an obstacle, shapes were not recorded, or no large aligned product
 * is there to compare with.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"
#include "measure/sum.h"

enum { ALIGNED = 8, PADDED = 64 };

static const double share_min = 0.05;
static const double aligned_at_most = 1.6;

static struct ks_replay_change aligned(const struct ks_product_cost *products, double factor)
{
    struct ks_replay_change change = KS_REPLAY_UNCHANGED;
    change.shrinks[0] =
        (struct ks_replay_shrink){.marks = KS_REPLAY_MISALIGNED,
                                  .host_part = 1,
                                  .work_part = ks_gpu_step_kept(factor, products->aligned_device_ns,
                                                                products->cost.device_ns)};
    return change;
}

/* The first size that is no multiple of 8. */
static int64_t odd_size(const int64_t sizes[3])
{
    size_t at = 0;
    while (at < 2 && sizes[at] % ALIGNED == 0) {
        at++;
    }
    return sizes[at];
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_product_cost *products = &facts->work.products;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_matmul_misaligned);
    const struct ks_replay_change sure = aligned(products, aligned_at_most);
    const struct ks_replay_change most = aligned(products, 1);
    KS_TRY(ks_gpu_step_what_if_device(facts, &sure, &most, &finding, err));
    if (!ks_gpu_step_is_worth(facts, &finding, share_min)) {
        check->reason = "aligned products would save less than 5 % of the step";
        return KS_OK;
    }
    const int64_t *sizes = products->sizes;
    finding.fix_text = ks_findings_text(
        out,
        "Make the sizes multiples of 8, better of 64: products like [%lld, %lld] x [%lld, %lld] "
        "take %.2f ms a step where aligned ones of this trace would take %.2f ms. Pad the "
        "vocabulary or the hidden size of the layer; padded classes never win when their bias is "
        "very low.",
        (long long)sizes[0], (long long)sizes[1], (long long)sizes[1], (long long)sizes[2],
        (double)products->cost.device_ns / 1e6, (double)products->aligned_device_ns / 1e6);
    int64_t odd = odd_size(sizes);
    finding.fix_code = ks_findings_text(out, "size = (size + %d) // %d * %d  # %lld -> %lld",
                                        PADDED - 1, PADDED, PADDED, (long long)odd,
                                        (long long)ks_sum_add(odd, PADDED - 1) / PADDED * PADDED);
    const struct ks_evidence evidence[] = {
        {"products_per_step", products->cost.count, "count"},
        {"misaligned_on_device", (double)products->cost.device_ns, "ns"},
        {"aligned_would_take", (double)products->aligned_device_ns, "ns"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    ks_gpu_step_set_work(&finding.where, facts, &products->cost, products->op);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    if (!ks_gpu_step_can_judge_shapes(facts, check)) {
        return KS_OK;
    }
    if (facts->work.products.cost.device_ns > 0) {
        return report(facts, out, check, err);
    }
    check->reason = "no large product is slow for its sizes";
    return KS_OK;
}

const struct ks_rule ks_rule_matmul_misaligned = {
    .id = "matmul.misaligned",
    .title = "Matrix sizes that are no multiples of 8",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
