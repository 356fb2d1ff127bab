/* Rule launch.bound: kernels are shorter than their launches, the host's issue rate is the limit.
 *
 * Claim: for at least 10% of the step the GPU idles while the host is inside operators and
 * launching calls (or between them), in steps of at least KERNELS_MIN launches, after the time that
 * reading values, small copies and long host code explain is taken out. A launch costs 5 to 50 us
 * with its operator; more than IDLE_PER_LAUNCH_NS_MAX of idle time for each launch has another
 * cause (compiling, trying algorithms).
 *
 * Evidence: idle time by cause (docs/analyses/idle.md), launches a step.
 *
 * Saving, per step: high is that idle time; a graph or a fused kernel launches all of it at once.
 * Low takes out what the profiler may have added (step_means.c). In the trace the profiler's own
 * part goes as well.
 *
 * Silent when: step_means.c sees an obstacle (too few steps, no steps, no GPU work).
 */
#include "advise/registry.h"
#include "advise/step_means.h"
#include "base/err.h"

enum { KERNELS_MIN = 20, IDLE_PER_LAUNCH_NS_MAX = 150 * 1000 };

static const double share_min = 0.10;

/* What other rules explain of the same time, at most. */
static int64_t explained_ns(const struct ks_facts *facts, const struct ks_step_means *means)
{
    const struct ks_call_site *site;
    double copies = 0;
    return ks_step_means_scale(ks_step_means_sync_ns(facts, &site), KS_SYNC_READ_FACTOR) +
           ks_step_means_scale(ks_step_means_small_copy_ns(facts, &site, &copies),
                               KS_SMALL_COPY_FACTOR) +
           ks_step_means_host_code_ns(means);
}

static double launches_per_step(const struct ks_facts *facts)
{
    return facts->step_count ? (double)facts->links.launches / (double)facts->step_count : 0;
}

static enum ks_status report(const struct ks_step_means *means, int64_t amount_ns,
                             const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_err *err)
{
    struct ks_finding finding = ks_step_means_finding(&ks_rule_launch_bound);
    finding.saving = (struct ks_saving){ks_step_means_scale(amount_ns, means->host_scale_low),
                                        ks_step_means_scale(amount_ns, means->host_scale_high)};
    finding.saving_in_trace =
        (struct ks_saving){amount_ns / 2, amount_ns + means->idle_by_cause_ns[KS_IDLE_PROFILER]};
    finding.fix_text = ks_findings_text(
        out,
        "Launch more work at once: torch.compile(mode=\"reduce-overhead\") or CUDA graphs for the "
        "%.0f launches a step, a fused module in place of a loop (nn.LSTM for LSTMCell), fused "
        "optimizers, or a larger batch. The GPU works %.1f of %.1f ms a step.",
        launches_per_step(facts), (double)means->busy_ns / 1e6, (double)means->step_ns / 1e6);
    finding.fix_code = "model = torch.compile(model, mode=\"reduce-overhead\")";
    finding.evidence[finding.evidence_count++] =
        (struct ks_evidence){"idle_launching", (double)amount_ns, "ns"};
    finding.evidence[finding.evidence_count++] =
        (struct ks_evidence){"launches_per_step", launches_per_step(facts), "count"};
    finding.evidence[finding.evidence_count++] =
        (struct ks_evidence){"busy", (double)means->busy_ns, "ns"};
    finding.evidence[finding.evidence_count++] =
        (struct ks_evidence){"step", (double)means->step_ns, "ns"};
    if (!finding.fix_text) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write finding");
    }
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    struct ks_step_means means;
    check->reason = ks_step_means_compute(facts, &means);
    if (check->reason) {
        check->state = KS_CHECK_COULD_NOT;
        return KS_OK;
    }
    int64_t amount_ns = means.idle_by_cause_ns[KS_IDLE_LAUNCH] +
                        means.idle_by_cause_ns[KS_IDLE_HOST_CODE] - explained_ns(facts, &means);
    double launches = launches_per_step(facts);
    if (launches >= KERNELS_MIN && (double)amount_ns <= launches * IDLE_PER_LAUNCH_NS_MAX &&
        ks_step_means_share(amount_ns, means.step_ns) >= share_min) {
        return report(&means, amount_ns, facts, out, err);
    }
    check->reason = ks_findings_text(
        out, "the GPU idles %.2f of %.2f ms a step while the host launches %.0f times",
        (double)means.idle_by_cause_ns[KS_IDLE_LAUNCH] / 1e6, (double)means.step_ns / 1e6,
        launches_per_step(facts));
    return KS_OK;
}

const struct ks_rule ks_rule_launch_bound = {
    .id = "launch.bound",
    .title = "The host launches more slowly than the GPU works",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
