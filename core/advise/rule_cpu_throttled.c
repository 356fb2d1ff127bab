/* Rule cpu.throttled: the control group's limit of CPU time holds the program back.
 *
 * Claim: for at least 5% of the recorded steps the group may not run, because it has used up its
 * share of a period.
 *
 * Evidence: what `kscope run` noted at both ends of the window: nr_throttled and throttled time of
 * cpu.stat, cpu.max.
 *
 * Saving, per step: the kernel adds up the time of all cores on which the group is held back. High
 * takes it as if that was one after the other, but no more than the periods in which it happened;
 * low divides it by the cores that threads and workers use. Both are scaled to the step without the
 * profiler. With a GPU no more than its idle time, and low is nothing.
 *
 * Silent when: the trace does not come from `kscope run`, no group's counters can be read, fewer
 * than two complete steps or none were found.
 */
#include "advise/cpu_step.h"
#include "advise/registry.h"
#include "measure/sum.h"

static const double share_min = 0.05;

/* Part of the recorded time in which the group is held back: at most, and on all its cores. */
static double most_lost(const struct ks_process_use *use)
{
    int64_t in_periods_ns = ks_sum_scale(ks_sum_scale(use->throttled, use->period_us), 1000);
    int64_t ns = in_periods_ns < use->throttled_ns ? in_periods_ns : use->throttled_ns;
    double share = use->wall_ns > 0 ? (double)ns / (double)use->wall_ns : 0;
    return share > 1 ? 1 : share;
}

static double surely_lost(const struct ks_process_use *use)
{
    int64_t threads = ks_sum_scale(use->local_ranks, ks_sum_add(use->threads, use->workers));
    int64_t cores = threads < use->cores ? threads : use->cores;
    cores = cores > 0 ? cores : 1;
    return (double)use->throttled_ns / (double)cores / (double)use->wall_ns;
}

static enum ks_status report(const struct ks_facts *facts, uint32_t source, struct ks_findings *out,
                             struct ks_err *err)
{
    const struct ks_process_use *use = &ks_trace_source(facts->trace, source)->process;
    struct ks_finding finding = ks_cpu_step_finding(&ks_rule_cpu_throttled, facts, source);
    double quota = (double)use->quota_us / (double)use->period_us;
    double high = most_lost(use);
    double low = surely_lost(use);
    ks_cpu_step_set_savings(&finding, facts, source, low < high ? low : high, high);
    finding.group = "cpu.cores";
    long long threads = ks_cpu_step_cores(use);
    finding.fix_text = ks_findings_text(
        out,
        "Allow the container more than %.2f cores (docker run --cpus, limits.cpu in Kubernetes), "
        "or use fewer threads and workers: %lld threads of operators and %lld workers use up its "
        "time in %.0f%% of all periods, and then stand still.",
        quota, (long long)use->threads, (long long)use->workers,
        100.0 * (double)use->throttled / (double)(use->periods > 0 ? use->periods : 1));
    finding.fix_code = ks_findings_text(out, "torch.set_num_threads(%lld)", threads);
    const struct ks_evidence evidence[] = {
        {"quota_cores", quota, "count"},
        {"periods", (double)use->periods, "count"},
        {"periods_throttled", (double)use->throttled, "count"},
        {"throttled", (double)use->throttled_ns, "ns"},
        {"recorded", (double)use->wall_ns, "ns"},
        {"threads", (double)use->threads, "count"},
        {"workers", (double)use->workers, "count"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const char *why_not = ks_cpu_step_obstacle(facts);
    uint32_t worst = UINT32_MAX;
    bool is_limited = false;
    double most = 0;
    for (uint32_t i = 0; !why_not && i < ks_trace_source_count(facts->trace); i++) {
        const struct ks_process_use *use = &ks_trace_source(facts->trace, i)->process;
        if (use->quota_us == 0 || use->period_us == 0 || ks_cpu_step_ns(facts, i) == 0) {
            continue;
        }
        is_limited = true;
        double lost = most_lost(use);
        worst = lost > most ? i : worst;
        most = lost > most ? lost : most;
    }
    if (worst != UINT32_MAX && most >= share_min) {
        return report(facts, worst, out, err);
    }
    if (why_not) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = why_not;
        return KS_OK;
    }
    check->reason =
        is_limited ? ks_findings_text(out, "the limit of CPU time holds %.1f%% back", 100.0 * most)
                   : "no limit of CPU time was seen";
    return KS_OK;
}

const struct ks_rule ks_rule_cpu_throttled = {
    .id = "cpu.throttled",
    .title = "The limit of CPU time holds the program back",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
