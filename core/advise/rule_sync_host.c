/* Rule sync.host: the program reads values from the GPU inside the step, and waits each time.
 *
 * Claim: operators that read a value (.item(), bool(), boolean masks; not whole tensors by .cpu())
 * synchronise at least once a step, and take at least 3% of it while the GPU runs dry.
 *
 * Evidence: synchronising calls by operator (docs/analyses/syncs.md), host time of the operators.
 *
 * Saving, per step: A is the operators' host time. Low leaves out what the profiler may have added.
 * High is KS_SYNC_READ_FACTOR times A (computing and handling the values), and at most the time in
 * which the GPU idles for reasons of the host: waiting while it works costs nothing by itself.
 *
 * Silent when: step_means.c sees an obstacle (too few steps, no steps, no GPU work).
 */
#include "advise/registry.h"
#include "advise/step_means.h"
#include "base/err.h"

static const double share_min = 0.03;

static int64_t host_idle_ns(const struct ks_step_means *means)
{
    return means->idle_by_cause_ns[KS_IDLE_SYNC] + means->idle_by_cause_ns[KS_IDLE_LAUNCH] +
           means->idle_by_cause_ns[KS_IDLE_HOST_CODE];
}

static void write_place(const struct ks_facts *facts, const struct ks_call_site *site,
                        struct ks_finding *finding)
{
    struct ks_where *where = &finding->where;
    where->op = site->op;
    where->rank = ks_trace_source(facts->trace, site->source)->rank;
    where->rank = where->rank < 0 ? KS_UNKNOWN : where->rank;
    for (size_t i = 0; i < site->step_count && i < KS_FINDING_STEPS_MAX; i++) {
        where->steps[where->step_count++] = site->steps[i];
    }
    ks_findings_set_place(where, facts, site->op, KS_PLACE_SYNC);
}

static enum ks_status report(const struct ks_step_means *means, const struct ks_call_site *site,
                             int64_t read_ns, const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_err *err)
{
    struct ks_finding finding = ks_step_means_finding(&ks_rule_sync_host);
    int64_t idle_ns = host_idle_ns(means);
    int64_t high_ns = ks_step_means_scale(read_ns, KS_SYNC_READ_FACTOR);
    high_ns = high_ns < idle_ns ? high_ns : idle_ns;
    finding.saving =
        (struct ks_saving){ks_step_means_scale(read_ns, means->host_scale_low), high_ns};
    finding.saving_in_trace = (struct ks_saving){read_ns < idle_ns ? read_ns : idle_ns, idle_ns};
    struct ks_str op = ks_trace_str(facts->trace, site->op);
    finding.fix_text = ks_findings_text(
        out,
        "Keep the values on the GPU: %.0f times a step the host waits in %.*s. Add them up in a "
        "tensor, read it once in many steps, and replace branches on tensors by torch.where.",
        site->per_step, (int)op.len, op.ptr);
    finding.fix_code = "total += loss.detach()          # in the step\n"
                       "if step % 100 == 0: print(total.item())";
    finding.evidence[finding.evidence_count++] =
        (struct ks_evidence){"reads_per_step", site->per_step, "count"};
    finding.evidence[finding.evidence_count++] =
        (struct ks_evidence){"reading", (double)read_ns, "ns"};
    finding.evidence[finding.evidence_count++] =
        (struct ks_evidence){"idle_of_host", (double)idle_ns, "ns"};
    write_place(facts, site, &finding);
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
    int64_t read_ns = ks_step_means_sync_ns(facts, &site);
    int64_t idle_ns = host_idle_ns(&means);
    int64_t loss_ns = read_ns < idle_ns ? read_ns : idle_ns;
    if (site && ks_step_means_share(loss_ns, means.step_ns) >= share_min) {
        return report(&means, site, read_ns, facts, out, err);
    }
    check->reason = ks_findings_text(out, "reading values takes %.2f of %.2f ms a step",
                                     (double)loss_ns / 1e6, (double)means.step_ns / 1e6);
    return KS_OK;
}

const struct ks_rule ks_rule_sync_host = {
    .id = "sync.host",
    .title = "The host waits for the GPU to read values",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
