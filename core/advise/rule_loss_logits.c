/* Rule loss.logits: a loss writes and reads the logits of a large vocabulary several times.
 *
 * Claim: operators of the program cast logits of [tokens, vocabulary] with a vocabulary of 32768
 * and more, take their log-softmax and a loss, and go the same way back; a fused loss, which reads
 * them once and once more for their gradient, would make the step at least 5% shorter.
 *
 * Evidence: operators over tensors with this last dimension, behind the product that makes them
 * and before those that take their gradient (docs/analyses/op_work.md).
 *
 * Saving, per step: replays of the recorded steps in which these operators take a part of their
 * time on the device: the bytes of the logits three times (without a backward pass: once), in the
 * type that the product makes. High: at the rate of the fastest of them; low: at 0.65 of their mean
 * rate. Compiled losses ran at 0.86 of that on an H200 (8192 tokens, 50304 words, bf16).
 *
 * Memory: what the operators of the forward pass write for one loss, which a fused loss does not.
 *
 * Silent when: gpu_step.c sees an obstacle, or shapes were not recorded.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"

static const double share_min = 0.05;

static struct ks_replay_change fused(const struct ks_logits_cost *cost, size_t end)
{
    struct ks_replay_change change = KS_REPLAY_UNCHANGED;
    change.shrinks[0] = (struct ks_replay_shrink){
        .marks = KS_REPLAY_LOGITS,
        .host_part = 1,
        .work_part = ks_gpu_step_kept(1, cost->kept_ns[end], cost->cost.device_ns)};
    return change;
}

static void write_fix(const struct ks_facts *facts, struct ks_findings *out,
                      struct ks_finding *finding)
{
    const struct ks_logits_cost *cost = &facts->work.logits;
    finding->bytes = ks_gpu_step_part(1, cost->written_bytes);
    finding->fix_text = ks_findings_text(
        out,
        "Compute the loss without writing the logits again: for logits of [%lld, %lld], casts, "
        "log-softmax and loss take %.2f of %.2f ms and move %.1f GB a step, which a compiled loss "
        "does with %.1f GB; for one loss they make tensors of %.1f GB in the forward pass. A fused "
        "linear cross-entropy, over a few thousand tokens at a time, does not even hold the "
        "logits.",
        (long long)cost->rows, (long long)cost->columns, (double)cost->cost.device_ns / 1e6,
        (double)facts->mean_step.step_ns / 1e6, cost->bytes / 1e9, cost->kept_bytes / 1e9,
        cost->written_bytes / 1e9);
    finding->fix_code = "@torch.compile\n"
                        "def loss_of(hidden, weight, targets):\n"
                        "    return F.cross_entropy(F.linear(hidden, weight).float(), targets)";
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_logits_cost *cost = &facts->work.logits;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_loss_logits);
    const struct ks_replay_change sure = fused(cost, 1);
    const struct ks_replay_change most = fused(cost, 0);
    KS_TRY(ks_gpu_step_what_if_device(facts, &sure, &most, &finding, err));
    if (!ks_gpu_step_is_worth(facts, &finding, share_min)) {
        check->reason = ks_findings_text(
            out, "a fused loss would save %.2f to %.2f of %.2f ms a step",
            (double)finding.saving.low_ns / 1e6, (double)finding.saving.high_ns / 1e6,
            (double)facts->mean_step.step_ns / 1e6);
        return KS_OK;
    }
    write_fix(facts, out, &finding);
    const struct ks_evidence evidence[] = {
        {"tokens", (double)cost->rows, "count"},
        {"vocabulary", (double)cost->columns, "count"},
        {"losses_per_step", cost->losses, "count"},
        {"loss_on_device", (double)cost->cost.device_ns, "ns"},
        {"moved", cost->bytes, "bytes"},
        {"moved_by_fused", cost->kept_bytes, "bytes"},
        {"written_forward", cost->written_bytes, "bytes"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    ks_gpu_step_set_work(&finding.where, facts, &cost->cost, cost->op);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    if (!ks_gpu_step_can_judge_shapes(facts, check)) {
        return KS_OK;
    }
    if (facts->work.logits.cost.count > 0) {
        return report(facts, out, check, err);
    }
    check->reason = "no log-softmax over 32768 columns and more was seen";
    return KS_OK;
}

const struct ks_rule ks_rule_loss_logits = {
    .id = "loss.logits",
    .title = "The loss writes the logits several times",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
