/* Rule host.python_gap: code of the program between operators leaves the GPU idle, or, where no GPU
 * works, holds the training thread up.
 *
 * Claim: the GPU idles for at least 5% of the step while the host runs code outside of operators,
 * and this is more than half of the idle time in which it does not load data. Code that only one
 * rank runs, for which the others wait, is ranks.straggler; code directly before memory is freed is
 * memory.allocator_churn; code most of which cuts text into tokens is input.tokenize_inline; code
 * between iterations of an engine that decodes is serve.host_gap. Without a GPU: for 5% of the
 * step, in the median step too, no operator runs at all in stretches of 200 us and more.
 *
 * Evidence: idle time by cause (docs/analyses/idle.md): host_code against the rest.
 *
 * Saving, per step: a replay of the recorded steps without the stretches of 200 us and more in
 * which no operator is open and no row begins or ends (docs/analyses/replay.md).
 *
 * Without a GPU these stretches, a mean step's (high). Low: those of the median step, if that is
 * less, without what one core of all is kept busy by code that is moved, not removed.
 *
 * Silent when: gpu_step.c sees an obstacle (too few steps, no steps, no GPU work, no operators);
 * without a GPU only the first two.
 */
#include "advise/cpu_step.h"
#include "advise/decode_loop.h"
#include "advise/gpu_step.h"
#include "advise/late_rank.h"
#include "advise/registry.h"
#include "analyze/time_places.h"

static const double share_min = 0.05;

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_host_python_gap);
    int64_t code_ns = mean->idle_by_cause_ns[KS_IDLE_HOST_CODE];
    const struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    struct ks_replay_change after = before;
    after.gap_factor = 0;
    KS_TRY(ks_gpu_step_what_if(facts, &before, &after, &after, &finding, err));
    if (!ks_gpu_step_is_gain(&finding, check)) {
        return KS_OK;
    }
    if (!ks_gpu_step_is_share(mean, finding.saving.high_ns, share_min)) {
        check->reason = "it is in short stretches, or frees memory: other rules look at that";
        return KS_OK;
    }
    finding.fix_text = ks_findings_text(out,
                                        "Move what runs between operators out of the step, into "
                                        "the data loader's workers or behind "
                                        "the launches of the next step: %.1f of %.1f ms a step are "
                                        "Python or other host code during "
                                        "which the GPU has no work.",
                                        (double)code_ns / 1e6, (double)mean->step_ns / 1e6);
    const struct ks_evidence evidence[] = {
        {"idle_host_code", (double)code_ns, "ns"},
        {"idle", (double)mean->idle_ns, "ns"},
        {"step", (double)mean->step_ns, "ns"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    ks_findings_set_time_place(&finding.where, facts, KS_TIME_ANY_SOURCE, KS_TIME_QUIET);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    if (ks_findings_has(out, &ks_rule_input_tokenize_inline)) {
        check->reason = "most of it cuts text into tokens: input.tokenize_inline";
        return KS_OK;
    }
    if (!facts->has_gpu) {
        return ks_cpu_step_find_gap(&ks_rule_host_python_gap, facts, out, check, err);
    }
    if (!ks_gpu_step_can_judge_host(facts, check)) {
        return KS_OK;
    }
    struct ks_late_rank late = ks_late_rank_find(facts);
    if (late.rank && late.cause == KS_IDLE_HOST_CODE) {
        check->reason =
            ks_findings_text(out, "rank %lld has most of it, and the others wait for it",
                             (long long)late.rank->rank);
        return KS_OK;
    }
    if (ks_decode_loop_has_gap(facts)) {
        check->reason = "it lies between iterations of an engine: serve.host_gap";
        return KS_OK;
    }
    if (ks_gpu_step_is_share(mean, ks_gpu_step_host_code_ns(mean), share_min)) {
        return report(facts, out, check, err);
    }
    check->reason = ks_findings_text(
        out, "the GPU idles %.2f of %.2f ms a step while code between operators runs",
        (double)mean->idle_by_cause_ns[KS_IDLE_HOST_CODE] / 1e6, (double)mean->step_ns / 1e6);
    return KS_OK;
}

const struct ks_rule ks_rule_host_python_gap = {
    .id = "host.python_gap",
    .title = "Code between operators leaves the GPU idle",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
