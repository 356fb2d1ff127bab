/* Rule copy.many_small: many tiny copies between host and GPU, each with the cost of a call.
 *
 * Claim: at least 20 copies a step of at most 4 KiB on average (values read by .item() are
 * sync.host), whose operators take at least 5% of the step.
 *
 * Evidence: copies by operator (docs/analyses/syncs.md), host time of the operators.
 *
 * Saving, per step: A is the operators' host time. Low leaves out what the profiler may have added,
 * high is KS_SMALL_COPY_FACTOR times A (making the tensors on the host goes too), and at most the
 * time in which the GPU idles for reasons of the host.
 *
 * Silent when: step_means.c sees an obstacle (too few steps, no steps, no GPU work).
 */
#include "advise/registry.h"
#include "advise/step_means.h"
#include "base/err.h"

static const double share_min = 0.05;

static int64_t host_idle_ns(const struct ks_step_means *means)
{
    return means->idle_ns - means->idle_by_cause_ns[KS_IDLE_PROFILER] -
           means->idle_by_cause_ns[KS_IDLE_DATA];
}

static enum ks_status report(const struct ks_step_means *means, const struct ks_call_site *site,
                             int64_t copy_ns, double copies, const struct ks_facts *facts,
                             struct ks_findings *out, struct ks_err *err)
{
    struct ks_finding finding = ks_step_means_finding(&ks_rule_copy_many_small);
    int64_t idle_ns = host_idle_ns(means);
    int64_t high_ns = ks_step_means_scale(copy_ns, KS_SMALL_COPY_FACTOR);
    high_ns = high_ns < idle_ns ? high_ns : idle_ns;
    finding.saving =
        (struct ks_saving){ks_step_means_scale(copy_ns, means->host_scale_low), high_ns};
    finding.saving_in_trace =
        (struct ks_saving){copy_ns < idle_ns ? copy_ns : idle_ns, means->idle_ns};
    struct ks_str op = ks_trace_str(facts->trace, site->op);
    finding.fix_text = ks_findings_text(
        out,
        "Copy once: %.0f copies a step of %.0f bytes each go through %.*s. Put the values into one "
        "tensor, or make and keep them on the GPU.",
        copies, (double)site->bytes / (double)site->count, (int)op.len, op.ptr);
    finding.fix_code = "values = torch.tensor(list_of_numbers).pin_memory()\n"
                       "values = values.to(device, non_blocking=True)  # one copy";
    finding.evidence[finding.evidence_count++] =
        (struct ks_evidence){"copies_per_step", copies, "count"};
    finding.evidence[finding.evidence_count++] =
        (struct ks_evidence){"bytes_per_copy", (double)site->bytes / (double)site->count, "bytes"};
    finding.evidence[finding.evidence_count++] =
        (struct ks_evidence){"copying", (double)copy_ns, "ns"};
    finding.where.op = site->op;
    ks_findings_set_place(&finding.where, facts, site->op, KS_PLACE_COPY);
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
    const struct ks_call_site *site;
    double copies = 0;
    int64_t copy_ns = ks_step_means_small_copy_ns(facts, &site, &copies);
    if (site && ks_step_means_share(copy_ns, means.step_ns) >= share_min) {
        return report(&means, site, copy_ns, copies, facts, out, err);
    }
    check->reason = ks_findings_text(out, "%.1f small copies a step were seen", copies);
    return KS_OK;
}

const struct ks_rule ks_rule_copy_many_small = {
    .id = "copy.many_small",
    .title = "Many tiny copies between host and GPU",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
