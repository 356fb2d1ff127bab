/* Rule ranks.straggler: all ranks wait for one, which comes late for a reason of its own.
 *
 * Claim: in at least three quarters of the steps that can be compared the same rank comes last, at
 * least half of the others wait for it for 5% of the step and more, and what its device idles more
 * than theirs because of host code, data, reading values or asking for memory is at least half of
 * that (late_rank.c); and its steps are longer by 5% of the step. Where launching is the reason
 * they are so by 10% also when recording cost most: ranks differ in that cost. A rank that comes
 * late in collectives, but whose steps are no longer, is waited for there and waits elsewhere.
 *
 * Evidence: collectives matched on all ranks (docs/analyses/collectives.md): where one is shortest,
 * nobody was waited for. Durations only, since clocks of ranks differ.
 *
 * Saving, per step: replays of the steps of each rank alone, in which collectives take no longer
 * than on the rank where they are shortest: the late one against the slowest of the others, with
 * the least and the most that recording can have cost (high), and a tenth less (low): hosts differ
 * in that cost, and replays of ranks that wait for each other are off by more than others are.
 *
 * Silent when: fewer than two ranks or steps can be compared, or gpu_step.c sees an obstacle.
 */
#include "advise/gpu_step.h"
#include "advise/late_rank.h"
#include "advise/registry.h"
#include "analyze/what_if.h"

#include <math.h>

static const double doubt = 0.1;
static const double share_min = 0.05;
static const double launching_share_min = 0.10;

/* What a step of the late rank takes more than one of the slowest other rank. */
static enum ks_status find_lag(const struct ks_facts *facts, double cost_factor, int64_t *lag_ns,
                               struct ks_err *err)
{
    struct ks_replay_change change = KS_REPLAY_UNCHANGED;
    double late_ns = 0;
    double others_ns = 0;
    change.cost_factor = cost_factor;
    for (uint32_t i = 0; i < facts->comm.rank_count; i++) {
        double step_ns;
        KS_TRY(ks_what_if_source(facts, i, &change, &step_ns, err));
        if (i == facts->comm.late) {
            late_ns = step_ns;
        } else {
            others_ns = step_ns > others_ns ? step_ns : others_ns;
        }
    }
    *lag_ns = late_ns > others_ns ? llround(late_ns - others_ns) : 0;
    return KS_OK;
}

static void widen(struct ks_saving *saving, int64_t ns)
{
    saving->low_ns = ns < saving->low_ns ? ns : saving->low_ns;
    saving->high_ns = ns > saving->high_ns ? ns : saving->high_ns;
}

static enum ks_status set_savings(const struct ks_facts *facts, struct ks_finding *finding,
                                  struct ks_err *err)
{
    const double costs[] = {facts->mean_step.cost_low, facts->mean_step.cost_high};
    int64_t lag_ns = 0;
    finding->saving = (struct ks_saving){INT64_MAX, 0};
    for (size_t i = 0; i < KS_COUNT_OF(costs); i++) {
        KS_TRY(find_lag(facts, costs[i], &lag_ns, err));
        widen(&finding->saving, lag_ns);
    }
    finding->saving.low_ns -= ks_gpu_step_part(finding->saving.low_ns, doubt);
    KS_TRY(find_lag(facts, 0, &lag_ns, err));
    int64_t waited_ns = facts->comm.late_ns;
    finding->saving_in_trace = (struct ks_saving){lag_ns < waited_ns ? lag_ns : waited_ns,
                                                  lag_ns > waited_ns ? lag_ns : waited_ns};
    return KS_OK;
}

static void write_place(const struct ks_facts *facts, const struct ks_rank_fact *rank,
                        struct ks_finding *finding)
{
    ks_findings_set_source(&finding->where, facts, rank->source);
    if (rank->rank >= 0) {
        finding->ranks[finding->rank_count++] = rank->rank;
    }
}

static void write_fix(const struct ks_facts *facts, struct ks_findings *out,
                      const struct ks_late_rank *late, struct ks_finding *finding)
{
    static const struct {
        enum ks_idle_cause cause;
        const char *name;
        const char *what;
        const char *code;
    } causes[] = {
        {KS_IDLE_HOST_CODE, "host_code",
         "code between operators: logging, checkpoints or metrics that only this rank does, or a "
         "slower host. Do it on all ranks in turn, in a thread, or once in many steps",
         "if step % 100 == 0: save()   # not in each step of one rank"},
        {KS_IDLE_DATA, "data",
         "waiting for batches: its storage, its number of workers or its samples differ. Give all "
         "ranks equal shards and as many workers",
         "sampler = DistributedSampler(dataset, drop_last=True)"},
        {KS_IDLE_SYNC, "sync",
         "waiting for values that it reads from its GPU. Print and log from tensors that are read "
         "once in many steps",
         "if step % 100 == 0: print(loss.item())"},
        {KS_IDLE_LAUNCH, "launch",
         "operators of the host: work that only this rank does on the CPU, or a slower, shared or "
         "throttled CPU",
         "import os  # on each host: its cores and its load must be alike\n"
         "print(rank, len(os.sched_getaffinity(0)), os.getloadavg())"},
        {KS_IDLE_ALLOCATOR, "allocator",
         "asking for memory: it holds more than the others, or empties its cache",
         "import os  # first of all, or in the environment of the program\n"
         "os.environ[\"PYTORCH_CUDA_ALLOC_CONF\"] = \"expandable_segments:True\""},
    };
    size_t at = 0;
    while (at + 1 < KS_COUNT_OF(causes) && causes[at].cause != late->cause) {
        at++;
    }
    finding->cause = causes[at].name;
    finding->fix_code = causes[at].code;
    finding->fix_text = ks_findings_text(
        out,
        "Look at rank %lld: in %zu of %zu steps it comes last, others wait %.1f ms a step for it, "
        "and %.1f ms of it are %s.",
        (long long)late->rank->rank, facts->comm.late_steps, facts->comm.steps_compared,
        (double)facts->comm.late_ns / 1e6, (double)late->excess_ns / 1e6, causes[at].what);
}

static enum ks_status report(const struct ks_facts *facts, const struct ks_late_rank *late,
                             struct ks_findings *out, struct ks_check *check, struct ks_err *err)
{
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_ranks_straggler);
    KS_TRY(set_savings(facts, &finding, err));
    bool is_launching = late->cause == KS_IDLE_LAUNCH;
    if (!ks_gpu_step_is_share(&facts->mean_step, finding.saving.high_ns, share_min) ||
        (is_launching &&
         !ks_gpu_step_is_share(&facts->mean_step, finding.saving.low_ns, launching_share_min))) {
        check->reason = ks_findings_text(
            out, "rank %lld comes last in collectives, but its steps are hardly longer",
            (long long)late->rank->rank);
        return KS_OK;
    }
    write_fix(facts, out, late, &finding);
    finding.verify = "kscope report rank*.json  # with the fix: no rank comes last in each step";
    const struct ks_evidence evidence[] = {
        {"waiting_for_it", (double)facts->comm.late_ns, "ns"},
        {"own_excess", (double)late->excess_ns, "ns"},
        {"steps_it_comes_last", (double)facts->comm.late_steps, "count"},
        {"steps_compared", (double)facts->comm.steps_compared, "count"},
        {"collectives_per_step", late->rank->collectives, "count"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    write_place(facts, late->rank, &finding);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    if (!ks_late_rank_can_judge(facts, check)) {
        return KS_OK;
    }
    struct ks_late_rank late = ks_late_rank_find(facts);
    if (late.rank && facts->are_ranks) {
        return report(facts, &late, out, check, err);
    }
    const struct ks_comm_fact *comm = &facts->comm;
    check->reason = ks_findings_text(
        out,
        "rank %lld comes last in %zu of %zu steps, others wait %.2f of %.2f ms for it, of which "
        "%.2f ms are for reasons of its own",
        (long long)comm->ranks[comm->late].rank, comm->late_steps, comm->steps_compared,
        (double)comm->late_ns / 1e6, (double)facts->mean_step.step_ns / 1e6,
        (double)late.excess_ns / 1e6);
    return KS_OK;
}

const struct ks_rule ks_rule_ranks_straggler = {
    .id = "ranks.straggler",
    .title = "All ranks wait for one that comes late",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true, /* while all wait for one, launching faster gains nothing */
    .check = check,
};
