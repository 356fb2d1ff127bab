/* Rule cudnn.retuning: convolutions try all their algorithms again and again, since the sizes of
 * the images change.
 *
 * Claim: in at least two complete steps convolutions wait for the device (3 times and more) and
 * launch 16 and more pieces of work, which one that knows its algorithm never does; without this
 * the step would be at least 5% shorter. With torch.backends.cudnn.benchmark each new size is timed
 * with each algorithm.
 *
 * Evidence: convolutions with such calls inside (docs/analyses/op_work.md), their sizes.
 *
 * Saving, per step: replays of the recorded steps in which these convolutions take what others of
 * their direction take (high), or three times as long (low), and wait for nothing. Trying makes
 * hundreds of calls into the driver, each of which tracing makes slower: the low end is 0.92 of
 * that (a step that tries took 654 ms in the trace and 624 ms without the profiler).
 *
 * Silent when: gpu_step.c sees an obstacle, or it was seen in one step only: the first steps of a
 * program, and of an image size, have to try.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"

enum { STEPS_MIN = 2 };

static const double share_min = 0.05;
/* The sizes of a step that tries can be larger than those of the others. */
static const double usual_at_most = 3.0;

static const double unprofiled_part = 0.92;

static struct ks_replay_change tuned(const struct ks_retuning_cost *retuning, double factor)
{
    struct ks_replay_change change = KS_REPLAY_UNCHANGED;
    change.shrinks[0] = (struct ks_replay_shrink){
        .marks = KS_REPLAY_RETUNED,
        .host_part = ks_gpu_step_kept(factor, retuning->usual_host_ns, retuning->cost.host_ns),
        .work_part = ks_gpu_step_kept(factor, retuning->usual_device_ns, retuning->cost.device_ns),
        .drops_waits = true};
    return change;
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_retuning_cost *retuning = &facts->work.retuning;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_cudnn_retuning);
    const struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    const struct ks_replay_change sure = tuned(retuning, usual_at_most);
    const struct ks_replay_change most = tuned(retuning, 1);
    KS_TRY(ks_gpu_step_what_if(facts, &before, &sure, &most, &finding, err));
    finding.saving.low_ns = ks_gpu_step_part(finding.saving.low_ns, unprofiled_part);
    if (!ks_gpu_step_is_worth(facts, &finding, share_min)) {
        check->reason = "convolutions that try algorithms take less than 5 % of the step";
        return KS_OK;
    }
    finding.fix_text = ks_findings_text(
        out,
        "Do not tune for sizes that change: %.1f convolutions a step try their algorithms, which "
        "takes %.1f ms%s. Turn cuDNN's benchmark off, or give the network few sizes: resize, pad "
        "or bucket the images.",
        retuning->cost.count, (double)retuning->cost.host_ns / 1e6,
        retuning->shapes > 1 ? ks_findings_text(out, ", for %zu different inputs", retuning->shapes)
                             : "");
    finding.fix_code = "torch.backends.cudnn.benchmark = False";
    const struct ks_evidence evidence[] = {
        {"tries_per_step", retuning->cost.count, "count"},
        {"trying_on_host", (double)retuning->cost.host_ns, "ns"},
        {"trying_on_device", (double)retuning->cost.device_ns, "ns"},
        {"usual_on_host", (double)retuning->usual_host_ns, "ns"},
        {"different_inputs", (double)retuning->shapes, "count"},
    };
    ks_finding_show(&finding, evidence,
                    retuning->shapes > 0 ? KS_COUNT_OF(evidence) : KS_COUNT_OF(evidence) - 1);
    ks_gpu_step_set_work(&finding.where, facts, &retuning->cost, retuning->op);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    if (!ks_gpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    const struct ks_work_cost *cost = &facts->work.retuning.cost;
    if (cost->step_count >= STEPS_MIN) {
        return report(facts, out, check, err);
    }
    check->reason = cost->step_count > 0
                        ? "convolutions try algorithms in one step only, as first steps do"
                        : "no convolution tries algorithms";
    return KS_OK;
}

const struct ks_rule ks_rule_cudnn_retuning = {
    .id = "cudnn.retuning",
    .title = "cuDNN tries algorithms again for each new size",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true,
    .check = check,
};
