/* Rule copy.many_small: many tiny copies between host and GPU, each with the cost of a call.
 *
 * Claim: at least 20 copies a step of at most 64 KiB (values read by .item() are
 * sync.host), whose operators take at least 5% of the step.
 *
 * Evidence: copies by operator (docs/analyses/syncs.md), host time of the operators.
 *
 * Saving, per step: replays of the recorded steps without these operators (low), and without the
 * host operators before each, which make the small tensor, as well (high).
 *
 * Silent when: gpu_step.c sees an obstacle (too few steps, no steps, no GPU work).
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"

static const double share_min = 0.05;

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    const struct ks_step_cost *copies = &mean->small_copies;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_copy_many_small);
    const unsigned most = KS_REPLAY_SMALL_COPY | KS_REPLAY_SMALL_PREPARED | KS_REPLAY_BETWEEN;
    KS_TRY(ks_gpu_step_what_if_dropped(facts, KS_REPLAY_SMALL_COPY, most, &finding, err));
    if (!ks_gpu_step_is_gain(&finding, check)) {
        return KS_OK;
    }
    struct ks_str op = ks_trace_str(facts->trace, copies->worst->op);
    finding.fix_text = ks_findings_text(
        out,
        "Copy once: %.0f copies a step of %.0f bytes each go mostly through %.*s. Put the values "
        "into one tensor, or make and keep them on the GPU.",
        copies->count, copies->bytes / copies->count, (int)op.len, op.ptr);
    finding.fix_code = "values = torch.tensor(list_of_numbers).pin_memory()\n"
                       "values = values.to(device, non_blocking=True)  # one copy";
    const struct ks_evidence evidence[] = {
        {"copies_per_step", copies->count, "count"},
        {"bytes_per_copy", copies->bytes / copies->count, "bytes"},
        {"copying", (double)copies->operator_ns, "ns"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    finding.where.op = copies->worst->op;
    ks_findings_set_place(&finding.where, facts, copies->worst->op, KS_PLACE_COPY);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    if (!ks_gpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    bool is_many = ks_gpu_step_small_copies_high_ns(mean) > 0;
    if (is_many && ks_gpu_step_is_share(mean, mean->small_copies.operator_ns, share_min)) {
        return report(facts, out, check, err);
    }
    check->reason =
        ks_findings_text(out, "%.1f small copies a step were seen", mean->small_copies.count);
    return KS_OK;
}

const struct ks_rule ks_rule_copy_many_small = {
    .id = "copy.many_small",
    .title = "Many tiny copies between host and GPU",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true,
    .check = check,
};
