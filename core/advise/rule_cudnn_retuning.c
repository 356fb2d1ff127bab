/* Rule cudnn.retuning: cuDNN decides again and again how to compute something, since sizes change:
 * convolutions try all their algorithms, or attention has a plan made.
 *
 * Claim: in at least two complete steps convolutions wait for the device (3 times and more) and
 * launch 16 and more pieces of work, which one that knows its algorithm never does; without this
 * the step would be at least 5% shorter. With torch.backends.cudnn.benchmark each new size is timed
 * with each algorithm. Or, in as many steps: cuDNN's attention takes the host 3 ms and more and
 * waits for nothing, where one that has its plan takes some 40 us. It makes one for each new shape,
 * so for each token of a text that grows; the other layers of the step find it.
 *
 * Evidence: operators with such calls inside (docs/analyses/op_work.md), their sizes.
 *
 * Saving, per step: replays of the recorded steps in which these operators take what others of
 * their direction take (high), or three times as long (low), and convolutions wait for nothing.
 * Trying makes hundreds of calls into the driver, each of which tracing makes slower: the low end
 * is 0.92 of that (a step that tries took 654 ms in the trace and 624 ms without the profiler; one
 * that makes a plan 43.7 and 40.5).
 *
 * Silent when: gpu_step.c sees an obstacle, or it was seen in one step only: the first steps of a
 * program, and of a size, have to.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"

enum { STEPS_MIN = 2 };

static const double share_min = 0.05;
/* The sizes of a step that tries can be larger than those of the others. */
static const double usual_at_most = 3.0;

static const double unprofiled_part = 0.92;

/* One of the two ways in which cuDNN decides. */
struct fault {
    const struct ks_retuning_cost *cost;
    unsigned mark;
    const char *cause;
    const char *title;
    const char *fix_code;
    const char *(*write_fix)(struct ks_findings *out, const struct ks_retuning_cost *cost);
};

static const char *inputs_text(struct ks_findings *out, const struct ks_retuning_cost *cost)
{
    return cost->shapes > 1 ? ks_findings_text(out, ", for %zu different inputs", cost->shapes)
                            : "";
}

static const char *write_convolutions(struct ks_findings *out, const struct ks_retuning_cost *cost)
{
    return ks_findings_text(
        out,
        "Do not tune for sizes that change: %.1f convolutions a step try their algorithms, which "
        "takes %.1f ms%s. Turn cuDNN's benchmark off, or give the network few sizes: resize, pad "
        "or bucket the images.",
        cost->cost.count, (double)cost->cost.host_ns / 1e6, inputs_text(out, cost));
}

static const char *write_attention(struct ks_findings *out, const struct ks_retuning_cost *cost)
{
    return ks_findings_text(
        out,
        "Take attention that needs no plan: cuDNN makes %.1f plans a step, which takes the host "
        "%.1f ms%s, since each new length is another shape. Choose flash or memory-efficient "
        "attention, or pad keys and values to few lengths (a cache of fixed size, with a mask).",
        cost->cost.count, (double)cost->cost.host_ns / 1e6, inputs_text(out, cost));
}

static struct ks_replay_shrink tuned(const struct fault *fault, double factor)
{
    const struct ks_retuning_cost *cost = fault->cost;
    return (struct ks_replay_shrink){
        .marks = fault->mark,
        .host_part = ks_gpu_step_kept(factor, cost->usual_host_ns, cost->cost.host_ns),
        .work_part = ks_gpu_step_kept(factor, cost->usual_device_ns, cost->cost.device_ns),
        .drops_waits = true};
}

static enum ks_status find_saving(const struct ks_facts *facts, const struct fault *fault,
                                  struct ks_finding *finding, struct ks_err *err)
{
    const struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    struct ks_replay_change sure = before;
    struct ks_replay_change most = before;
    sure.shrinks[0] = tuned(fault, usual_at_most);
    most.shrinks[0] = tuned(fault, 1);
    KS_TRY(ks_gpu_step_what_if(facts, &before, &sure, &most, finding, err));
    finding->saving.low_ns = ks_gpu_step_part(finding->saving.low_ns, unprofiled_part);
    return KS_OK;
}

/* Adds the finding when it is worth it. */
static enum ks_status report(const struct ks_facts *facts, const struct fault *fault,
                             struct ks_findings *out, struct ks_err *err)
{
    const struct ks_retuning_cost *cost = fault->cost;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_cudnn_retuning);
    KS_TRY(find_saving(facts, fault, &finding, err));
    if (!ks_gpu_step_is_worth(facts, &finding, share_min)) {
        return KS_OK;
    }
    finding.cause = fault->cause;
    finding.title = fault->title;
    finding.fix_text = fault->write_fix(out, cost);
    finding.fix_code = fault->fix_code;
    const struct ks_evidence evidence[] = {
        {"tries_per_step", cost->cost.count, "count"},
        {"trying_on_host", (double)cost->cost.host_ns, "ns"},
        {"trying_on_device", (double)cost->cost.device_ns, "ns"},
        {"usual_on_host", (double)cost->usual_host_ns, "ns"},
        {"different_inputs", (double)cost->shapes, "count"},
    };
    ks_finding_show(&finding, evidence,
                    cost->shapes > 0 ? KS_COUNT_OF(evidence) : KS_COUNT_OF(evidence) - 1);
    ks_gpu_step_set_work(&finding.where, facts, &cost->cost, cost->op);
    ks_findings_set_place(&finding.where, facts, cost->outer, KS_PLACE_OPERATOR);
    return ks_findings_add(out, facts, &finding, err);
}

struct ks_replay_shrink ks_cudnn_plans_repair(const struct ks_facts *facts)
{
    const struct fault plans = {.cost = &facts->work.plans, .mark = KS_REPLAY_PLANNED};
    bool is_there = facts->work.plans.cost.step_count >= STEPS_MIN;
    return is_there ? tuned(&plans, 1) : (struct ks_replay_shrink){0};
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct fault faults[] = {
        {&facts->work.retuning, KS_REPLAY_RETUNED, NULL, NULL,
         "torch.backends.cudnn.benchmark = False", write_convolutions},
        {&facts->work.plans, KS_REPLAY_PLANNED, "attention_plans",
         "cuDNN plans attention again for each new length",
         "from torch.nn.attention import SDPBackend, sdpa_kernel\n\n"
         "with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):\n"
         "    output = model(batch)\n"
         "torch.backends.cuda.enable_cudnn_sdp(False)  # or this, for the whole program",
         write_attention},
    };
    if (!ks_gpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    check->reason = "no convolution tries algorithms, no attention is planned";
    for (size_t i = 0; i < KS_COUNT_OF(faults); i++) {
        size_t steps = faults[i].cost->cost.step_count;
        if (steps >= STEPS_MIN) {
            check->reason = "what cuDNN tries and plans takes less than 5 % of the step";
            KS_TRY(report(facts, &faults[i], out, err));
        } else if (steps > 0) {
            check->reason = "cuDNN tries algorithms, or plans, in one step only, as first steps do";
        }
    }
    return KS_OK;
}

const struct ks_rule ks_rule_cudnn_retuning = {
    .id = "cudnn.retuning",
    .title = "cuDNN tries algorithms again for each new size",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true,
    .check = check,
};
