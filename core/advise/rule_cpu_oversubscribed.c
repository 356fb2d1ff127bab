/* Rule cpu.oversubscribed: more threads and workers than cores take the cores from each other.
 *
 * Claim: threads of operators and workers of the loader, of all ranks on the machine, are more than
 * the cores (or the quota) that they may use; the thread of the steps waits for a free core for at
 * least 5% of the time; and either the threads of operators alone are more than the cores, or the
 * program itself is what fills these: it uses at least 60% of them.
 *
 * Evidence: what `kscope run` noted in the window: torch.get_num_threads(), the affinity, cpu.max,
 * workers, the thread's time on a core and waiting for one (schedstat), CPU time of the process and
 * of the workers.
 *
 * Saving, per step, scaled to the step without the profiler. W is the wait for a core, R the
 * running time of the thread, B the rest outside of the loader: blocked in operators, whose other
 * threads may be what waits. With fewer threads, T' for T, a thread has more of the work to do.
 * - low: W - R (T / T' - 1), as if all of R was its part of the work; 0 when workers must go too,
 *   since then batches may come later, and when other programs use the cores as well.
 * - high: W + B. With no more threads than cores, a thread that waits for the others does so
 *   running (libgomp spins), of R up to nine tenths were seen: they go as well.
 * With a GPU no more than its idle time, and low is nothing.
 *
 * Where the trace does not come from `kscope run`, curves of the monitor may tell, in a recording
 * of the same process or alone (crowded_cores.c, docs/analyses/crowd_curves.md). Who waits they do
 * not say, so they have to say more: some thread of the machine waits for a core for at least 25%
 * of the time; the process has more threads than cores, which are pushed off at least 20 times a
 * second on each; it uses at least 60% of the cores, and at least 80% of what all programs use.
 * High is the part of the time that some thread waits, low is 0; of a recording without steps
 * there is no saving, and the finding is a risk.
 *
 * Silent when: neither is there, the kernel does not tell of waiting, fewer than two complete steps
 * were found; or none were, and curves do not tell of three seconds.
 */
#include "advise/cpu_step.h"
#include "advise/crowded_cores.h"
#include "advise/registry.h"
#include "measure/sum.h"

static const double wait_share_min = 0.05;
static const double used_share_min = 0.60;
static const double spinning_part = 0.9;

/* What threads and workers there are of a rank, and should be. */
struct layout {
    int64_t cores; /* of the machine for all ranks */
    int64_t threads, workers;
    int64_t threads_wanted, workers_wanted;
};

static int64_t at_least(int64_t value, int64_t least)
{
    return value < least ? least : value;
}

static struct layout lay_out(const struct ks_process_use *use)
{
    int64_t ranks = at_least(use->local_ranks, 1);
    struct layout layout = {.cores = ks_cpu_step_cores(use),
                            .threads = at_least(use->threads, 1),
                            .workers = use->workers};
    int64_t own = at_least(layout.cores / ranks, 1);
    layout.workers_wanted = layout.workers < own ? layout.workers : at_least(own - 1, 1);
    layout.threads_wanted = at_least(own - layout.workers_wanted, 1);
    if (layout.threads_wanted > layout.threads) {
        layout.threads_wanted = layout.threads;
    }
    return layout;
}

static double share_of(const struct ks_process_use *use, int64_t ns)
{
    return use->wall_ns > 0 ? (double)ns / (double)use->wall_ns : 0;
}

/* Cores that the program keeps busy, all ranks of the machine as this one. */
static double cores_used(const struct ks_process_use *use)
{
    double ranks = (double)at_least(use->local_ranks, 1);
    return ranks * (share_of(use, use->cpu_ns) + share_of(use, use->worker_cpu_ns));
}

static bool is_oversubscribed(const struct ks_process_use *use)
{
    struct layout layout = lay_out(use);
    int64_t each = ks_sum_add(layout.threads, layout.workers);
    return ks_sum_scale(at_least(use->local_ranks, 1), each) > layout.cores;
}

static bool fills_cores(const struct ks_process_use *use)
{
    return cores_used(use) >= used_share_min * (double)ks_cpu_step_cores(use);
}

static bool is_fault(const struct ks_process_use *use)
{
    struct layout layout = lay_out(use);
    int64_t threads = ks_sum_scale(at_least(use->local_ranks, 1), layout.threads);
    bool is_own = threads > layout.cores || fills_cores(use);
    return is_oversubscribed(use) && share_of(use, use->thread_wait_ns) >= wait_share_min && is_own;
}

static void set_savings(const struct ks_facts *facts, uint32_t source,
                        const struct ks_process_use *use, struct ks_finding *finding)
{
    struct layout layout = lay_out(use);
    double wait = share_of(use, use->thread_wait_ns);
    double run = share_of(use, use->thread_run_ns);
    double loading = share_of(use, use->loader_ns - use->loader_cpu_ns);
    double blocked = 1 - wait - run - loading;
    double more_work = (double)layout.threads / (double)layout.threads_wanted - 1;
    double low = wait - run * more_work;
    bool can_spin = layout.threads > 1 && layout.threads <= layout.cores;
    double high = wait + (blocked > 0 ? blocked : 0) + (can_spin ? spinning_part * run : 0);
    bool is_sure = layout.workers_wanted == layout.workers && fills_cores(use);
    low = low < 0 || !is_sure ? 0 : low;
    high = high > 1 ? 1 : high;
    ks_cpu_step_set_savings(finding, facts, source, low, high);
}

static void write_fix(struct ks_findings *out, const struct ks_process_use *use,
                      struct ks_finding *finding)
{
    struct layout layout = lay_out(use);
    finding->fix_text = ks_findings_text(
        out,
        "Use no more threads and workers than cores: %lld rank(s) with %lld threads of operators "
        "and %lld workers each share %lld cores, and the training thread waits %.0f%% of the time "
        "for one.",
        (long long)at_least(use->local_ranks, 1), (long long)layout.threads,
        (long long)layout.workers, (long long)layout.cores,
        100.0 * share_of(use, use->thread_wait_ns));
    finding->fix_code =
        layout.workers_wanted < layout.workers
            ? ks_findings_text(out,
                               "torch.set_num_threads(%lld)\n"
                               "DataLoader(dataset, ..., num_workers=%lld)",
                               (long long)layout.threads_wanted, (long long)layout.workers_wanted)
            : ks_findings_text(out, "torch.set_num_threads(%lld)",
                               (long long)layout.threads_wanted);
}

static enum ks_status report(const struct ks_facts *facts, uint32_t source, struct ks_findings *out,
                             struct ks_err *err)
{
    const struct ks_process_use *use = &ks_trace_source(facts->trace, source)->process;
    struct ks_finding finding = ks_cpu_step_finding(&ks_rule_cpu_oversubscribed, facts, source);
    set_savings(facts, source, use, &finding);
    finding.group = "cpu.cores";
    write_fix(out, use, &finding);
    const struct ks_evidence evidence[] = {
        {"threads", (double)use->threads, "count"},
        {"workers", (double)use->workers, "count"},
        {"local_ranks", (double)at_least(use->local_ranks, 1), "count"},
        {"cores", (double)ks_cpu_step_cores(use), "count"},
        {"cores_used", cores_used(use), "count"},
        {"waiting_for_core", (double)use->thread_wait_ns, "ns"},
        {"running", (double)use->thread_run_ns, "ns"},
        {"recorded", (double)use->wall_ns, "ns"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    return ks_findings_add(out, facts, &finding, err);
}

static void explain(const struct ks_process_use *use, struct ks_findings *out,
                    struct ks_check *check)
{
    if (!use) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = "the kernel does not tell how long threads wait for a core";
        return;
    }
    double wait = 100.0 * share_of(use, use->thread_wait_ns);
    bool is_foreign = is_oversubscribed(use) && wait >= 100.0 * wait_share_min;
    check->reason =
        ks_findings_text(out, "the training thread waits %.1f%% of the time for a core%s", wait,
                         is_foreign ? ", but other programs than this one have the cores" : "");
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_process_use *most = NULL;
    uint32_t most_source = 0;
    check->reason = ks_cpu_step_obstacle(facts);
    if (check->reason && ks_crowded_cores_are_known(facts)) {
        return ks_crowded_cores_check(&ks_rule_cpu_oversubscribed, facts, out, check, err);
    }
    if (check->reason) {
        check->state = KS_CHECK_COULD_NOT;
        return KS_OK;
    }
    for (uint32_t i = 0; i < ks_trace_source_count(facts->trace); i++) {
        const struct ks_process_use *use = &ks_trace_source(facts->trace, i)->process;
        bool is_known = use->thread_run_ns > 0 && use->cores > 0 && ks_cpu_step_ns(facts, i) > 0;
        if (is_known &&
            (!most || share_of(use, use->thread_wait_ns) > share_of(most, most->thread_wait_ns))) {
            most = use;
            most_source = i;
        }
    }
    if (most && is_fault(most)) {
        return report(facts, most_source, out, err);
    }
    explain(most, out, check);
    return KS_OK;
}

const struct ks_rule ks_rule_cpu_oversubscribed = {
    .id = "cpu.oversubscribed",
    .title = "Threads and workers take the cores from each other",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
