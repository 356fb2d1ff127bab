/* Rule precision.cast_churn: autocast turns the same weights into half precision again and again.
 *
 * Claim: weights and biases in fp32 are cast in each of several forward passes between two steps of
 * the optimizer, or in each forward pass of a program that does not train; casting them once would
 * make the step at least 5% shorter. One cast for each step of the optimizer is what autocast is
 * for, and no fault.
 *
 * Evidence: casts inside of layers, of tensors with the shape of their weight or bias, nodes of the
 * backward pass that belong to them, and forward passes for each step of the optimizer
 * (docs/analyses/op_work.md).
 *
 * Saving, per step: replays of the recorded steps in which of n passes' casts of weights and
 * gradients one part in n stays, and none where nothing is trained (low); in which adding up
 * gradients in half precision moves 6 bytes for a value in place of 12, too (high). Of a program
 * that the host limits high is the casts' share of all launches, at least, as long as the host
 * takes longer than the GPU: recording costs casts, which are many short rows, more than other
 * work, and without autocast the host does not look for casts either. 434 launches in place of 617
 * took 12.0 ms in place of 17.1 (H200).
 *
 * Silent when: gpu_step.c sees an obstacle, or shapes were not recorded.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"

static const double share_min = 0.05;
static const double passes_min = 1.5; /* steps at the ends of the recording have fewer */
static const double accumulated_part = 0.5;

/* Part of the casts that stays; 1: they are needed. */
static double kept_part(const struct ks_cast_cost *cost)
{
    if (!(cost->cost.count > 0)) {
        return 1;
    }
    return !cost->is_training ? 0 : cost->passes >= passes_min ? 1 / cost->passes : 1;
}

static struct ks_replay_shrink shrink(unsigned marks, double host, double work)
{
    return (struct ks_replay_shrink){.marks = marks, .host_part = host, .work_part = work};
}

struct ks_replay_shrink ks_precision_cast_churn_repair(const struct ks_facts *facts)
{
    double kept = kept_part(&facts->work.casts);
    return kept < 1 ? shrink(KS_REPLAY_CAST | KS_REPLAY_GRADIENT_CAST, kept, kept)
                    : (struct ks_replay_shrink){0};
}

/* What the host takes for the launches that go, if each takes as long; what it takes longer than
 * the GPU, at most. */
static int64_t launches_ns(const struct ks_facts *facts, double kept)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    const struct ks_cast_cost *cost = &facts->work.casts;
    int64_t host_ns = ks_gpu_step_real_ns(mean);
    double gone = (1 - kept) * (cost->cost.launches + cost->gradients.launches);
    if (host_ns <= mean->busy_ns || !(mean->launches > 0)) {
        return 0;
    }
    int64_t share_ns = ks_gpu_step_part(host_ns, gone / mean->launches);
    return share_ns < host_ns - mean->busy_ns ? share_ns : host_ns - mean->busy_ns;
}

static enum ks_status find_saving(const struct ks_facts *facts, struct ks_finding *finding,
                                  struct ks_err *err)
{
    double kept = kept_part(&facts->work.casts);
    const struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    struct ks_replay_change sure = before;
    sure.shrinks[0] = shrink(KS_REPLAY_CAST | KS_REPLAY_GRADIENT_CAST, kept, kept);
    struct ks_replay_change most = sure;
    most.shrinks[1] = shrink(KS_REPLAY_ACCUMULATED, 1, accumulated_part);
    KS_TRY(ks_gpu_step_what_if(facts, &before, &sure, &most, finding, err));
    int64_t share_ns = launches_ns(facts, kept);
    finding->saving.high_ns =
        share_ns > finding->saving.high_ns ? share_ns : finding->saving.high_ns;
    return KS_OK;
}

static void write_fix(const struct ks_facts *facts, struct ks_findings *out,
                      struct ks_finding *finding)
{
    const struct ks_cast_cost *cost = &facts->work.casts;
    double casts_ms = (double)cost->cost.device_ns / 1e6 + (double)cost->gradients.device_ns / 1e6;
    double host_ms = (double)cost->cost.host_ns / 1e6 + (double)cost->gradients.host_ns / 1e6;
    if (!cost->is_training) {
        finding->fix_text = ks_findings_text(
            out,
            "Turn the weights into half precision once, before the first batch: autocast does it "
            "%.0f times a step, in %.2f ms of the GPU and %.2f ms of the host.",
            cost->cost.count, casts_ms, host_ms);
        finding->fix_code = "model = model.to(torch.bfloat16)  # and no autocast";
        return;
    }
    finding->fix_text = ks_findings_text(
        out,
        "Keep the weights in bf16, and let the optimizer update a copy in fp32: autocast casts "
        "them "
        "in each of %.1f passes between updates (%.0f casts a step), and their gradients back, in "
        "%.2f ms of the GPU and %.2f ms of the host. One autocast region around all these passes "
        "remembers casts, and sums gradients up in fp32.",
        cost->passes, cost->cost.count, casts_ms, host_ms);
    finding->fix_code = "masters = [p.detach().clone() for p in model.parameters()]  # fp32\n"
                        "model.to(torch.bfloat16)\n"
                        "optimizer = torch.optim.AdamW(masters)\n"
                        "with torch.no_grad():  # behind the step on gradients of the masters\n"
                        "    torch._foreach_copy_(list(model.parameters()), masters)";
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_cast_cost *cost = &facts->work.casts;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_precision_cast_churn);
    KS_TRY(find_saving(facts, &finding, err));
    if (!ks_gpu_step_is_worth(facts, &finding, share_min)) {
        check->reason = ks_findings_text(
            out, "casting weights once would save %.2f to %.2f of %.2f ms a step",
            (double)finding.saving.low_ns / 1e6, (double)finding.saving.high_ns / 1e6,
            (double)facts->mean_step.step_ns / 1e6);
        return KS_OK;
    }
    write_fix(facts, out, &finding);
    const struct ks_evidence evidence[] = {
        {"casts_per_step", cost->cost.count, "count"},
        {"casts_on_device", (double)cost->cost.device_ns, "ns"},
        {"casts_on_host", (double)cost->cost.host_ns, "ns"},
        {"gradient_casts_per_step", cost->gradients.count, "count"},
        {"gradient_casts_on_device", (double)cost->gradients.device_ns, "ns"},
        {"gradient_casts_on_host", (double)cost->gradients.host_ns, "ns"},
        {"passes_per_update", cost->passes, "count"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    ks_gpu_step_set_work(&finding.where, facts, &cost->cost, cost->op);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_cast_cost *cost = &facts->work.casts;
    if (!ks_gpu_step_can_judge_shapes(facts, check)) {
        return KS_OK;
    }
    if (kept_part(cost) < 1) {
        return report(facts, out, check, err);
    }
    check->reason =
        cost->cost.count > 0
            ? ks_findings_text(out, "%.0f casts of weights a step, each once for an update",
                               cost->cost.count)
            : "no weights are cast";
    return KS_OK;
}

const struct ks_rule ks_rule_precision_cast_churn = {
    .id = "precision.cast_churn",
    .title = "Weights are cast to half precision again and again",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true, /* launched by a graph, the casts are still the GPU's */
    .check = check,
};
