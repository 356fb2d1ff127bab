/* Rule attention.materialized: attention is computed by single operators, and its scores lie in
 * memory.
 *
 * Claim: operators of the program multiply batches of matrices, take a softmax over what that makes
 * and multiply the result again; one fused operator would make the step at least 5% shorter.
 *
 * Evidence: chains of bmm, softmax and bmm whose shapes fit, and the nodes of the backward pass
 * that belong to them (docs/analyses/op_work.md).
 *
 * Saving, per step: replays of the recorded steps in which these chains take a part of their time.
 * A fused kernel computes the products and keeps all else on the chip: on the device it took 0.46
 * to 1.05 of what the products of the chain take in bf16 (cuDNN and flash, causal or not, 512 to
 * 2048 tokens, H100), and 0.9 to 1.5 of it in fp32. On the host it is one operator forward, about
 * as much as both products, and one node backward, about as much as one of two.
 *
 * Silent when: gpu_step.c sees an obstacle, or shapes were not recorded.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"

static const double share_min = 0.05;

/* Of the time of the products: at least and at most. */
static const double fused_half[2] = {0.46, 1.05};
static const double fused_single[2] = {0.9, 1.5};
static const double fused_host[2] = {0.6, 1.1};

static struct ks_replay_shrink shrink(const struct ks_attention_cost *attention, double host,
                                      double device)
{
    return (struct ks_replay_shrink){
        .marks = attention->cost.count > 0 ? (unsigned)KS_REPLAY_ATTENTION : 0u,
        .host_part = ks_gpu_step_kept(host, attention->product_host_ns, attention->cost.host_ns),
        .work_part =
            ks_gpu_step_kept(device, attention->product_device_ns, attention->cost.device_ns)};
}

struct ks_replay_shrink ks_attention_materialized_repair(const struct ks_facts *facts)
{
    const struct ks_attention_cost *attention = &facts->work.attention[KS_ATTENTION_MANUAL];
    const double *device = attention->is_half ? fused_half : fused_single;
    return shrink(attention, (fused_host[0] + fused_host[1]) / 2, (device[0] + device[1]) / 2);
}

static struct ks_replay_change fused(const struct ks_attention_cost *attention, size_t end)
{
    double device = attention->is_half ? fused_half[end] : fused_single[end];
    struct ks_replay_change change = KS_REPLAY_UNCHANGED;
    change.shrinks[0] = shrink(attention, fused_host[end], device);
    return change;
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_attention_cost *attention = &facts->work.attention[KS_ATTENTION_MANUAL];
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_attention_materialized);
    const struct ks_replay_change sure = fused(attention, 1);
    const struct ks_replay_change most = fused(attention, 0);
    KS_TRY(ks_gpu_step_what_if_device(facts, &sure, &most, &finding, err));
    if (!ks_gpu_step_is_worth(facts, &finding, share_min)) {
        check->reason = "attention by one fused operator would save less than 5 % of the step";
        return KS_OK;
    }
    finding.fix_text = ks_findings_text(
        out,
        "Use scaled_dot_product_attention: %.0f times a step scores of [%lld, %lld] for %lld heads "
        "of the batch are written to memory and read again, which with masks, casts and gradients "
        "takes %.2f ms of the GPU; %.2f ms of that are the products. Pass is_causal=True in place "
        "of a causal mask.",
        attention->cost.count, (long long)attention->rows, (long long)attention->columns,
        (long long)attention->batch, (double)attention->cost.device_ns / 1e6,
        (double)attention->product_device_ns / 1e6);
    finding.fix_code = "out = torch.nn.functional.scaled_dot_product_attention(\n"
                       "    q, k, v, is_causal=True)  # [batch, heads, tokens, head_dim]";
    finding.bytes = (int64_t)attention->scores_bytes;
    const struct ks_evidence evidence[] = {
        {"chains_per_step", attention->cost.count, "count"},
        {"attention_on_device", (double)attention->cost.device_ns, "ns"},
        {"products_on_device", (double)attention->product_device_ns, "ns"},
        {"attention_on_host", (double)attention->cost.host_ns, "ns"},
        {"scores", attention->scores_bytes, "bytes"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    ks_gpu_step_set_work(&finding.where, facts, &attention->cost, attention->op);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    if (!ks_gpu_step_can_judge_shapes(facts, check)) {
        return KS_OK;
    }
    if (facts->work.attention[KS_ATTENTION_MANUAL].cost.count > 0) {
        return report(facts, out, check, err);
    }
    check->reason = "no products with a softmax between them were seen";
    return KS_OK;
}

const struct ks_rule ks_rule_attention_materialized = {
    .id = "attention.materialized",
    .title = "Attention writes its scores to memory",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true, /* work on the GPU that hides how slowly the host launches */
    .check = check,
};
