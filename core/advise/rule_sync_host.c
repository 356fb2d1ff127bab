/* Rule sync.host: the program reads values from the GPU inside the step, and waits each time.
 *
 * Claim: operators that read a value (.item(), bool(), boolean masks; not whole tensors by .cpu())
 * synchronise at least once a step, and take at least 3% of it while the GPU runs dry.
 *
 * Evidence: synchronising calls by operator (docs/analyses/syncs.md), host time of the operators.
 *
 * Saving, per step: replays of the recorded steps without these operators (low), and without the
 * operator before each, which computes the value, as well (high).
 *
 * Silent when: gpu_step.c sees an obstacle (too few steps, no steps, no GPU work).
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"

static const double share_min = 0.03;

static void write_place(const struct ks_facts *facts, const struct ks_call_site *site,
                        struct ks_finding *finding)
{
    struct ks_where *where = &finding->where;
    where->op = site->op;
    ks_findings_set_rank(where, facts, site->source);
    ks_findings_set_steps(where, site->steps, site->step_count);
    ks_findings_set_place(where, facts, site->op, KS_PLACE_SYNC);
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    const struct ks_step_cost *reads = &mean->reads;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_sync_host);
    int64_t idle_ns = ks_gpu_step_host_idle_ns(mean);
    const unsigned most = KS_REPLAY_READ | KS_REPLAY_READ_PREPARED | KS_REPLAY_BETWEEN;
    KS_TRY(ks_gpu_step_what_if_dropped(facts, KS_REPLAY_READ, most, &finding, err));
    if (!ks_gpu_step_is_gain(&finding, check)) {
        return KS_OK;
    }
    struct ks_str op = ks_trace_str(facts->trace, reads->worst->op);
    finding.fix_text = ks_findings_text(
        out,
        "Keep the values on the GPU: %.0f times a step the host waits for one, mostly in %.*s. Add "
        "them up in a tensor, read it once in many steps, and replace branches on tensors by "
        "torch.where.",
        reads->count, (int)op.len, op.ptr);
    finding.fix_code = "total += loss.detach()          # in the step\n"
                       "if step % 100 == 0: print(total.item())";
    const struct ks_evidence evidence[] = {
        {"reads_per_step", reads->count, "count"},
        {"reading", (double)reads->operator_ns, "ns"},
        {"idle_of_host", (double)idle_ns, "ns"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    write_place(facts, reads->worst, &finding);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    if (!ks_gpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    int64_t idle_ns = ks_gpu_step_host_idle_ns(mean);
    int64_t loss_ns = mean->reads.operator_ns < idle_ns ? mean->reads.operator_ns : idle_ns;
    if (mean->reads.count >= 1 && ks_gpu_step_is_share(mean, loss_ns, share_min)) {
        return report(facts, out, check, err);
    }
    check->reason = ks_findings_text(out, "reading values takes %.2f of %.2f ms a step",
                                     (double)loss_ns / 1e6, (double)mean->step_ns / 1e6);
    return KS_OK;
}

const struct ks_rule ks_rule_sync_host = {
    .id = "sync.host",
    .title = "The host waits for the GPU to read values",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true,
    .check = check,
};
