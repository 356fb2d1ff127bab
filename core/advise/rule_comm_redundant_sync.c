/* Rule comm.redundant_sync: gradients are summed up after each micro-batch, not once.
 *
 * Claim: between two steps of the optimizer lie at least two forward passes of
 * DistributedDataParallel, after each of them as many bytes of gradients are summed up as after the
 * others, in more than half of the stretches that have several; and once in place of that saves at
 * least 3% of the step.
 *
 * Evidence: forward passes, optimizer steps, collectives of the autograd engine with sizes
 * (docs/analyses/collectives.md).
 *
 * Saving, per step: replays of the recorded steps without the operators that start collectives, but
 * for the last of the passes: without what they cost the host (low), and without the collectives
 * (high).
 *
 * Silent when: gpu_step.c sees an obstacle, sizes of collectives were not recorded, or no optimizer
 * step was.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"

static const double share_min = 0.03;

static enum ks_status set_savings(const struct ks_facts *facts, struct ks_finding *finding,
                                  struct ks_err *err)
{
    const struct ks_gradient_fact *gradients = &facts->comm.gradients;
    double passes = (double)gradients->micro_batches;
    double part = (passes - 1) / passes;
    return ks_gpu_step_what_if_fewer_collectives(facts, part, part, finding, err);
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_finding *finding, struct ks_err *err)
{
    const struct ks_gradient_fact *gradients = &facts->comm.gradients;
    long long passes = (long long)gradients->micro_batches;
    finding->fix_text = ks_findings_text(
        out,
        "Sum up once: the optimizer steps after %lld micro-batches, but gradients are summed up "
        "after each of them, %.1f MiB a step in %.0f collectives. Run all but the last of %lld "
        "under no_sync().",
        passes, gradients->bytes / (1024.0 * 1024.0), gradients->count, passes);
    finding->fix_code =
        ks_findings_text(out,
                         "from contextlib import nullcontext\n"
                         "for i, batch in enumerate(micro_batches):\n"
                         "    with model.no_sync() if i < %lld else nullcontext():\n"
                         "        loss_of(model(batch)).backward()",
                         passes - 1);
    finding->verify = "kscope report rank*.json  # with the fix: collectives a step must be fewer";
    const struct ks_evidence evidence[] = {
        {"micro_batches", (double)gradients->micro_batches, "count"},
        {"optimizer_steps_seen", (double)gradients->windows, "count"},
        {"collectives_per_step", gradients->count, "count"},
        {"bytes_per_step", gradients->bytes, "bytes"},
    };
    ks_finding_show(finding, evidence, KS_COUNT_OF(evidence));
    return ks_findings_add(out, facts, finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_gradient_fact *gradients = &facts->comm.gradients;
    if (!ks_gpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    if (gradients->windows > gradients->windows_spared) {
        struct ks_finding finding = ks_gpu_step_finding(&ks_rule_comm_redundant_sync);
        KS_TRY(set_savings(facts, &finding, err));
        if (ks_gpu_step_is_share(&facts->mean_step, finding.saving.high_ns, share_min)) {
            return report(facts, out, &finding, err);
        }
    }
    check->reason = ks_findings_text(
        out, "%zu optimizer steps were seen that follow several synchronised micro-batches",
        gradients->windows);
    return KS_OK;
}

const struct ks_rule ks_rule_comm_redundant_sync = {
    .id = "comm.redundant_sync",
    .title = "Gradients are summed up after each micro-batch",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
