/* Rule launch.bound: kernels are shorter than their launches, the host's issue rate is the limit.
 *
 * Claim: for at least 10% of the step (profiler apart) the GPU idles while the host is inside
 * operators and launching calls (or between them), in steps of at least LAUNCHES_MIN launches, not
 * counting what reading values, small copies, round trips and long host code explain. A launch
 * costs 5 to 50 us with its operator; more than IDLE_PER_LAUNCH_NS_MAX of idle time for each launch
 * has another cause (compiling, trying algorithms).
 *
 * Evidence: idle time by cause (docs/analyses/idle.md), launches a step.
 *
 * Saving, per step: replays of the recorded steps in which launching takes the host no time, since
 * a graph launches all at once (low), and in which short kernels become part of longer ones (high),
 * both after the repair of what other rules explain.
 *
 * Silent when: gpu_step.c sees an obstacle (too few steps, no steps, no GPU work, no operators).
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"

enum { LAUNCHES_MIN = 20, IDLE_PER_LAUNCH_NS_MAX = 150 * 1000 };

static const double share_min = 0.10;
/* Of many short kernels a fused one keeps the arithmetic, not the trips through memory: nn.LSTM in
 * place of a loop took 1.0 ms of the GPU where it was 7.0. */
static const double fused_part = 0.15;

static enum ks_status find_saving(const struct ks_facts *facts, struct ks_finding *finding,
                                  struct ks_err *err)
{
    const struct ks_replay_change before = ks_gpu_step_repaired(facts);
    struct ks_replay_change sure = before;
    sure.launch_factor = 0;
    struct ks_replay_change most = sure;
    most.short_factor = fused_part;
    return ks_gpu_step_what_if(facts, &before, &sure, &most, finding, err);
}

static enum ks_status report(int64_t idle_ns, const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_finding *finding, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    finding->fix_text = ks_findings_text(
        out,
        "Launch more work at once: torch.compile(mode=\"reduce-overhead\") or CUDA graphs for the "
        "%.0f launches a step, a fused module in place of a loop (nn.LSTM for LSTMCell), fused "
        "optimizers, or a larger batch. The GPU works %.1f of %.1f ms a step.",
        mean->launches, (double)mean->busy_ns / 1e6, (double)mean->step_ns / 1e6);
    finding->fix_code = "model = torch.compile(model, mode=\"reduce-overhead\")";
    const struct ks_evidence evidence[] = {
        {"idle_launching", (double)idle_ns, "ns"},
        {"launches_per_step", mean->launches, "count"},
        {"busy", (double)mean->busy_ns, "ns"},
        {"step", (double)mean->step_ns, "ns"},
    };
    ks_finding_show(finding, evidence, KS_COUNT_OF(evidence));
    return ks_findings_add(out, facts, finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    if (!ks_gpu_step_can_judge_host(facts, check)) {
        return KS_OK;
    }
    int64_t idle_ns = ks_gpu_step_launching_ns(facts);
    if (mean->launches >= LAUNCHES_MIN && ks_gpu_step_is_share(mean, idle_ns, share_min) &&
        (double)idle_ns <= mean->launches * IDLE_PER_LAUNCH_NS_MAX) {
        struct ks_finding finding = ks_gpu_step_finding(&ks_rule_launch_bound);
        KS_TRY(find_saving(facts, &finding, err));
        if (ks_gpu_step_is_worth(facts, &finding, share_min)) {
            return report(idle_ns, facts, out, &finding, err);
        }
    }
    check->reason = ks_findings_text(
        out, "the GPU idles %.2f of %.2f ms a step while the host launches %.0f times",
        (double)mean->idle_by_cause_ns[KS_IDLE_LAUNCH] / 1e6, (double)mean->step_ns / 1e6,
        mean->launches);
    return KS_OK;
}

const struct ks_rule ks_rule_launch_bound = {
    .id = "launch.bound",
    .title = "The host launches more slowly than the GPU works",
    .impact = KS_IMPACT_TIME,
    .wants_graphs = true,
    .check = check,
};
