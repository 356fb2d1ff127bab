/* Rule memory.allocator_churn: memory goes back to the driver and is asked for again, step after
 * step.
 *
 * Claim: at least half of the complete steps both take memory of the device from the driver and
 * give some back (a step that only takes some grows), on average once a step and more, and these
 * calls take at least 3% of the step, code of the program directly before it frees memory included.
 *
 * Evidence: calls (docs/analyses/driver_memory.md); of those that give memory back, how many come
 * from the program itself (empty_cache) and how many from operators, which do it when the next
 * request would not fit.
 *
 * Saving, per step: replays of the recorded steps without these calls and half of the code directly
 * before the program frees memory, which mostly collects garbage (low), and without all of that
 * code and with calls_extra of the calls on top, since what follows them gets slower, too (high).
 *
 * Silent when: gpu_step.c sees an obstacle (too few steps, no steps, no GPU work), or the GPU is
 * the limit all the same.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"
#include "measure/sum.h"

static const double share_min = 0.03;
static const double steps_share_min = 0.5;
static const double calls_min = 1.0;
/* A recording with a measured repair: the calls took 1.3 ms of a step of 7.4 ms in the trace, where
 * the repair saved 3.2 ms, and 1.9 of 4.7 ms without the profiler. New memory is mapped when it is
 * first used, and the driver's work takes the caches of the host. */
static const double calls_extra = 0.5;
static const double calls_extra_in_trace = 1.5;
/* From here on memory counts as nearly full. */
static const double full_share = 0.85;

static bool is_nearly_full(const struct ks_facts *facts)
{
    for (size_t i = 0; i < facts->memory_count; i++) {
        const struct ks_memory_fact *memory = &facts->memory[i];
        if (memory->total_bytes != KS_UNKNOWN && memory->peak_reserved_bytes != KS_UNKNOWN &&
            (double)memory->peak_reserved_bytes > full_share * (double)memory->total_bytes) {
            return true;
        }
    }
    return false;
}

static void write_fix(const struct ks_facts *facts, struct ks_findings *out,
                      struct ks_finding *finding)
{
    const struct ks_driver_memory *memory = &facts->driver_memory;
    double ms = (double)memory->calls_ns / 1e6;
    if (2 * memory->gives_outside >= memory->gives) {
        finding->fix_text = ks_findings_text(
            out,
            "Leave out torch.cuda.empty_cache() (and gc.collect()) in the step: the allocator then "
            "keeps its memory for the next step. %.0f calls a step give memory back and %.0f ask "
            "for it again, %.2f ms together.",
            memory->gives, memory->takes, ms);
        finding->fix_code = "torch.cuda.empty_cache()  # behind the loop, not in each step";
        return;
    }
    finding->fix_text = ks_findings_text(
        out,
        "Make room: %.0f times a step the allocator gives cached memory back to find %.0f pieces "
        "that fit (%.2f ms)%s. Segments that can grow end fragmentation; sizes that do not change "
        "from step to step, a smaller batch or checkpointing leave more free.",
        memory->gives, memory->takes, ms,
        is_nearly_full(facts) ? ", and memory is nearly full" : "");
    finding->fix_code = "import os  # first of all, or in the environment of the program\n"
                        "os.environ[\"PYTORCH_CUDA_ALLOC_CONF\"] = \"expandable_segments:True\"";
}

/* Half of what the second has more than the first. */
static void add_half(struct ks_saving *saving, const struct ks_saving *more)
{
    int64_t more_ns = more->high_ns > saving->high_ns ? more->high_ns - saving->high_ns : 0;
    saving->low_ns = ks_sum_add(saving->low_ns, more_ns / 2);
    saving->high_ns = ks_sum_add(saving->high_ns, more_ns);
}

static enum ks_status set_savings(const struct ks_facts *facts, struct ks_finding *finding,
                                  struct ks_err *err)
{
    const struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    struct ks_replay_change sure = before;
    sure.drop = KS_REPLAY_MEMORY;
    struct ks_replay_change most = before;
    most.drop = KS_REPLAY_MEMORY | KS_REPLAY_BEFORE_FREE;
    struct ks_finding more = *finding;
    KS_TRY(ks_gpu_step_what_if(facts, &before, &sure, &sure, finding, err));
    KS_TRY(ks_gpu_step_what_if(facts, &before, &most, &most, &more, err));
    add_half(&finding->saving, &more.saving);
    add_half(&finding->saving_in_trace, &more.saving_in_trace);
    int64_t calls_ns = facts->driver_memory.calls_ns;
    struct ks_saving *saving = &finding->saving;
    struct ks_saving *in_trace = &finding->saving_in_trace;
    if (saving->high_ns > 0) {
        saving->high_ns = ks_sum_add(saving->high_ns, ks_gpu_step_part(calls_ns, calls_extra));
        in_trace->high_ns =
            ks_sum_add(in_trace->high_ns, ks_gpu_step_part(calls_ns, calls_extra_in_trace));
    }
    return KS_OK;
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_driver_memory *memory = &facts->driver_memory;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_memory_allocator_churn);
    KS_TRY(set_savings(facts, &finding, err));
    if (!ks_gpu_step_is_gain(&finding, check)) {
        return KS_OK;
    }
    write_fix(facts, out, &finding);
    const struct ks_evidence evidence[] = {
        {"takes_per_step", memory->takes, "count"},
        {"gives_per_step", memory->gives, "count"},
        {"gives_outside_operators", memory->gives_outside, "count"},
        {"calls", (double)memory->calls_ns, "ns"},
        {"before_giving", (double)memory->before_ns, "ns"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    finding.where.op = memory->op;
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_driver_memory *memory = &facts->driver_memory;
    if (!ks_gpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    bool is_steady = memory->takes >= calls_min && memory->gives >= calls_min &&
                     memory->steps_share >= steps_share_min;
    if (is_steady &&
        ks_gpu_step_is_share(&facts->mean_step, memory->calls_ns + memory->before_ns, share_min)) {
        return report(facts, out, check, err);
    }
    check->reason = ks_findings_text(
        out, "%.1f calls a step take memory from the driver and %.1f give some back, in %.2f ms",
        memory->takes, memory->gives, (double)memory->calls_ns / 1e6);
    return KS_OK;
}

const struct ks_rule ks_rule_memory_allocator_churn = {
    .id = "memory.allocator_churn",
    .title = "Memory goes back to the driver and is taken again in each step",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true, /* a graph cannot be captured over calls that free memory */
    .check = check,
};
