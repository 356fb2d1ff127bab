/* Rule cpu.throttled: the control group's limit of CPU time holds the program back.
 *
 * Claim: for at least 5% of the recorded steps the group may not run, because it has used up its
 * share of a period.
 *
 * Evidence: what `kscope run` noted at both ends of the window: nr_throttled and throttled time of
 * cpu.stat, cpu.max. Of another trace: curves of the monitor in a recording of the same process
 * (docs/analyses/throttle_curves.md); threads and workers are not known then, and low divides by
 * all cores.
 *
 * Saving, per step: the kernel adds up the time of all cores on which the group is held back. High
 * takes it as if that was one after the other, but no more than the periods in which it happened;
 * low divides it by the cores that threads and workers use. Both are scaled to the step without the
 * profiler. With a GPU no more than its idle time, and low is nothing.
 *
 * Silent when: the trace does not come from `kscope run` and no monitor was recorded beside it, no
 * group's counters can be read, fewer than two complete steps or none were found.
 */
#include "advise/cpu_step.h"
#include "advise/registry.h"
#include "measure/sum.h"

static const double share_min = 0.05;

static const double period_us = 1000;

/* What curves of the monitor say, in the words of a trace of `kscope run`. */
static struct ks_process_use use_of_curves(const struct ks_throttle_fact *fact)
{
    double periods = (double)fact->window_ns / 1000.0 / period_us;
    return (struct ks_process_use){
        .threads = fact->cores,
        .cores = fact->cores,
        .local_ranks = 1,
        .wall_ns = fact->window_ns,
        .quota_us = (int64_t)(fact->limit_cores * period_us),
        .period_us = (int64_t)period_us,
        .periods = (int64_t)periods,
        .throttled = (int64_t)(fact->periods_share * periods),
        .throttled_ns = (int64_t)(fact->held_cores * (double)fact->window_ns),
    };
}

static bool is_of_curves(const struct ks_facts *facts, uint32_t source)
{
    return facts->sources[source].throttle.window_ns > 0;
}

static struct ks_process_use use_of(const struct ks_facts *facts, uint32_t source)
{
    return is_of_curves(facts, source) ? use_of_curves(&facts->sources[source].throttle)
                                       : ks_trace_source(facts->trace, source)->process;
}

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

static double quota_of(const struct ks_process_use *use)
{
    return (double)use->quota_us / (double)use->period_us;
}

static void write_fix(struct ks_findings *out, const struct ks_process_use *use, bool is_known,
                      struct ks_finding *finding)
{
    static const char start[] = "Allow the container more than %.2f cores (docker run --cpus, "
                                "limits.cpu in Kubernetes), or use fewer threads and workers: ";
    const char *first = ks_findings_text(out, start, quota_of(use));
    double percent = 100.0 * (double)use->throttled / (double)(use->periods > 0 ? use->periods : 1);
    finding->fix_text =
        is_known
            ? ks_findings_text(out,
                               "%s%lld threads of operators and %lld workers use up its time "
                               "in %.0f%% of all periods, and then stand still.",
                               first, (long long)use->threads, (long long)use->workers, percent)
            : ks_findings_text(out,
                               "%sits processes use up its time in %.0f%% of all periods, and "
                               "then stand still.",
                               first, percent);
}

static enum ks_status report(const struct ks_facts *facts, uint32_t source, struct ks_findings *out,
                             struct ks_err *err)
{
    struct ks_process_use copy = use_of(facts, source);
    const struct ks_process_use *use = &copy;
    bool is_known = !is_of_curves(facts, source);
    struct ks_finding finding = ks_cpu_step_finding(&ks_rule_cpu_throttled, facts, source);
    double quota = quota_of(use);
    double high = most_lost(use);
    double low = surely_lost(use);
    ks_cpu_step_set_savings(&finding, facts, source, low < high ? low : high, high);
    finding.group = "cpu.cores";
    long long threads = ks_cpu_step_cores(use);
    write_fix(out, use, is_known, &finding);
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
    /* Curves know nothing of the last two. */
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence) - (is_known ? 0 : 2));
    return ks_findings_add(out, facts, &finding, err);
}

static const char *find_obstacle(const struct ks_facts *facts)
{
    bool has_curves = false;
    for (uint32_t i = 0; i < facts->source_count; i++) {
        has_curves = has_curves || is_of_curves(facts, i);
    }
    return has_curves ? ks_cpu_step_steps_obstacle(facts) : ks_cpu_step_obstacle(facts);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const char *why_not = find_obstacle(facts);
    uint32_t worst = UINT32_MAX;
    bool is_limited = false;
    double most = 0;
    for (uint32_t i = 0; !why_not && i < ks_trace_source_count(facts->trace); i++) {
        struct ks_process_use use = use_of(facts, i);
        if (use.quota_us == 0 || use.period_us == 0 || ks_cpu_step_ns(facts, i) == 0) {
            continue;
        }
        is_limited = true;
        double lost = most_lost(&use);
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
