/* Rule comm.redundant_sync: gradients are summed up after each micro-batch, not once.
 *
 * Claim: between two steps of the optimizer lie at least two forward passes of
 * DistributedDataParallel, after each of them as many bytes of gradients are summed up as after the
 * others, in more than half of the stretches that have several; and once in place of that saves at
 * least 3% of the step.
 *
 * Evidence: forward passes, optimizer steps, collectives of the autograd engine with sizes
 * (docs/analyses/collectives.md); without a GPU, as many of them after each pass.
 *
 * Saving, per step: replays of the recorded steps without the operators that start collectives, but
 * for the last of the passes: without what they cost the host (low), and without the collectives
 * (high).
 *
 * Without a GPU (gloo): of the time of collectives the part of all passes but the last, and as much
 * of what the thread of the steps waits for a core while other threads of the process run (high);
 * half of that part of it in which the thread of the steps has no operator open, since a wait for
 * another rank moves to the last pass (low).
 *
 * Silent when: gpu_step.c (without a GPU: cpu_step.c) sees an obstacle, sizes of collectives were
 * not recorded, or no optimizer step was.
 */
#include "advise/cpu_step.h"
#include "advise/gpu_step.h"
#include "advise/registry.h"

static const double share_min = 0.03;
static const double waits_sure = 0.5;

/* ------------------------------------------------------------ without a GPU */

/* Mean times of a step: collectives run; of that, the thread of the steps does nothing. */
struct host_collectives {
    double all_ns;
    double waiting_ns;
};

static struct host_collectives add_steps(const struct ks_facts *facts)
{
    struct host_collectives sums = {0};
    double quiet_ns = 0;
    for (size_t i = 0; i < facts->step_count; i++) {
        const struct ks_step *step = &facts->steps[i];
        if (step->is_complete) {
            sums.all_ns += (double)step->breakdown_ns[KS_ROLE_COMMUNICATION];
            sums.waiting_ns += (double)step->idle_ns;
        }
    }
    for (size_t i = 0; i < facts->cpu_count; i++) {
        quiet_ns += (double)(facts->cpus[i].quiet_ns_total + facts->cpus[i].short_ns_total +
                             facts->cpus[i].data_ns_total);
    }
    double count = (double)facts->complete_step_count;
    sums.waiting_ns = sums.waiting_ns > quiet_ns ? sums.waiting_ns - quiet_ns : 0;
    sums.all_ns /= count;
    sums.waiting_ns /= count;
    return sums;
}

/* Share of the time in which the thread of the steps waits for a core that other threads of the
 * process may have: those of collectives add up what they get. */
static double crowding_share(const struct ks_process_use *use)
{
    int64_t others_ns = use->cpu_ns - use->thread_run_ns;
    int64_t ns = use->thread_wait_ns < others_ns ? use->thread_wait_ns : others_ns;
    return use->wall_ns > 0 && ns > 0 ? (double)ns / (double)use->wall_ns : 0;
}

static void set_cpu_savings(const struct ks_facts *facts, double part, struct ks_finding *finding)
{
    struct host_collectives times = add_steps(facts);
    double step_ns = ks_cpu_step_mean_ns(facts);
    double waiting_ns = times.waiting_ns < times.all_ns ? times.waiting_ns : times.all_ns;
    uint32_t source = ks_cpu_step_first_source(facts);
    double most =
        times.all_ns / step_ns + crowding_share(&ks_trace_source(facts->trace, source)->process);
    ks_cpu_step_set_savings(finding, facts, source, part * waits_sure * waiting_ns / step_ns,
                            part * (most < 1 ? most : 1));
}

/* ------------------------------------------------------------ the finding */

static enum ks_status set_savings(const struct ks_facts *facts, struct ks_finding *finding,
                                  struct ks_err *err)
{
    const struct ks_gradient_fact *gradients = &facts->comm.gradients;
    double passes = (double)gradients->micro_batches;
    double part = (passes - 1) / passes;
    if (!facts->has_gpu) {
        set_cpu_savings(facts, part, finding);
        return KS_OK;
    }
    return ks_gpu_step_what_if_fewer_collectives(facts, part, part, finding, err);
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_finding *finding, struct ks_err *err)
{
    const struct ks_gradient_fact *gradients = &facts->comm.gradients;
    long long passes = (long long)gradients->micro_batches;
    bool has_bytes = gradients->bytes > 0;
    const char *size =
        has_bytes ? ks_findings_text(out, "%.1f MiB ", gradients->bytes / (1024.0 * 1024.0)) : "";
    finding->fix_text = ks_findings_text(
        out,
        "Sum up once: the optimizer steps after %lld micro-batches, but gradients are summed up "
        "after each of them, %sin %.0f collectives a step. Run all but the last of %lld under "
        "no_sync().",
        passes, size ? size : "", gradients->count, passes);
    finding->fix_code =
        ks_findings_text(out,
                         "from contextlib import nullcontext\n"
                         "for i, batch in enumerate(micro_batches):\n"
                         "    with model.no_sync() if i < %lld else nullcontext():\n"
                         "        loss_of(model(batch)).backward()",
                         passes - 1);
    finding->verify = "kscope report rank*.json  # with the fix: collectives a step must be fewer";
    const struct ks_evidence evidence[] = {
        {"micro_batches", (double)gradients->micro_batches, "count"},
        {"optimizer_steps_seen", (double)gradients->windows, "count"},
        {"collectives_per_step", gradients->count, "count"},
        {"bytes_per_step", gradients->bytes, "bytes"},
    };
    ks_finding_show(finding, evidence, KS_COUNT_OF(evidence) - (has_bytes ? 0 : 1));
    return ks_findings_add(out, facts, finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_gradient_fact *gradients = &facts->comm.gradients;
    bool can_judge =
        facts->has_gpu ? ks_gpu_step_can_judge(facts, check) : ks_cpu_step_can_judge(facts, check);
    if (!can_judge) {
        return KS_OK;
    }
    if (gradients->windows > gradients->windows_spared) {
        struct ks_finding finding = ks_gpu_step_finding(&ks_rule_comm_redundant_sync);
        KS_TRY(set_savings(facts, &finding, err));
        bool is_worth = facts->has_gpu ? ks_gpu_step_is_share(&facts->mean_step,
                                                              finding.saving.high_ns, share_min)
                                       : ks_cpu_step_is_worth(facts, &finding, share_min);
        if (is_worth) {
            return report(facts, out, &finding, err);
        }
    }
    check->reason = ks_findings_text(
        out, "%zu optimizer steps were seen that follow several synchronised micro-batches",
        gradients->windows);
    return KS_OK;
}

const struct ks_rule ks_rule_comm_redundant_sync = {
    .id = "comm.redundant_sync",
    .title = "Gradients are summed up after each micro-batch",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
