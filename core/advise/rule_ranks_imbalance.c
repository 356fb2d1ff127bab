/* Rule ranks.imbalance: ranks have unequal work on their GPUs.
 *
 * Claim: of the mean step at least 5% are compute that the busiest rank of a step has more than the
 * mean of all, counted only where the busiest one comes last in the collectives, and as far as
 * others wait for it. The busiest rank may be another one in each step.
 *
 * Evidence: kernels of each rank and step that are no collectives, waiting in collectives matched
 * on all ranks (docs/analyses/collectives.md).
 *
 * Saving, per step: with equal work all ranks take the mean, so high is that difference; low is
 * half of it, since lengths of samples leave some.
 *
 * Silent when: fewer than two ranks or steps can be compared, or gpu_step.c sees an obstacle.
 */
#include "advise/gpu_step.h"
#include "advise/late_rank.h"
#include "advise/registry.h"

static const double share_min = 0.05;

static void find_extremes(const struct ks_comm_fact *comm, const struct ks_rank_fact **most,
                          const struct ks_rank_fact **least)
{
    *most = *least = &comm->ranks[0];
    for (size_t i = 1; i < comm->rank_count; i++) {
        const struct ks_rank_fact *rank = &comm->ranks[i];
        *most = rank->compute_ns > (*most)->compute_ns ? rank : *most;
        *least = rank->compute_ns < (*least)->compute_ns ? rank : *least;
    }
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_err *err)
{
    const struct ks_comm_fact *comm = &facts->comm;
    const struct ks_rank_fact *most;
    const struct ks_rank_fact *least;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_ranks_imbalance);
    find_extremes(comm, &most, &least);
    finding.saving = (struct ks_saving){comm->uneven_ns / 2, comm->uneven_ns};
    finding.saving_in_trace = finding.saving;
    finding.fix_text = ks_findings_text(
        out,
        "Give each rank as much to do: rank %lld computes %.1f ms a step on average, rank %lld "
        "%.1f, and all wait %.1f ms for the busiest. Sort samples by length into batches of equal "
        "numbers of tokens, or cut the model into stages of equal time; if work is equal, one GPU "
        "is slower.",
        (long long)most->rank, (double)most->compute_ns / 1e6, (long long)least->rank,
        (double)least->compute_ns / 1e6, (double)comm->uneven_ns / 1e6);
    finding.fix_code = "# neighbours in length go to different ranks: about as many tokens each\n"
                       "samples = sorted(samples, key=len)[rank::world_size]";
    finding.verify = "kscope report rank*.json  # with the fix: compute of all ranks is alike";
    const struct ks_evidence evidence[] = {
        {"uneven_compute", (double)comm->uneven_ns, "ns"},
        {"compute_most", (double)most->compute_ns, "ns"},
        {"compute_least", (double)least->compute_ns, "ns"},
        {"waiting_for_last", (double)comm->late_ns, "ns"},
        {"steps_compared", (double)comm->steps_compared, "count"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    finding.where.rank = most->rank < 0 ? KS_UNKNOWN : most->rank;
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    if (!ks_late_rank_can_judge(facts, check)) {
        return KS_OK;
    }
    if (ks_gpu_step_is_share(&facts->mean_step, facts->comm.uneven_ns, share_min)) {
        return report(facts, out, err);
    }
    check->reason = ks_findings_text(
        out, "the busiest rank computes %.2f of %.2f ms a step more than the mean of all",
        (double)facts->comm.uneven_ns / 1e6, (double)facts->mean_step.step_ns / 1e6);
    return KS_OK;
}

const struct ks_rule ks_rule_ranks_imbalance = {
    .id = "ranks.imbalance",
    .title = "Ranks have unequal work",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
