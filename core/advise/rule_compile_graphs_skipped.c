/* Rule compile.graphs_skipped: compiled code was to be replayed as CUDA graphs, and launches its
 * kernels one by one.
 *
 * Claim: in at least two complete steps compiled graphs launch 8 kernels and more a step and replay
 * no CUDA graph, although the program asked for that, and with a replay the step would be at least
 * 5% shorter.
 *
 * Evidence: compiled graphs with and without cudaGraphLaunch inside (docs/analyses/op_work.md). One
 * of these says that CUDA graphs were asked for: forward passes replay and backward passes do not,
 * or the other way round; Python frames of torch's keeper of CUDA graphs; a count of skipped graphs
 * from the compiler, if `kscope run` asked it.
 *
 * Saving, per step: replays of the recorded steps in which each of these graphs takes the host what
 * a replay takes, which copies inputs and launches once: as long as the shortest that was recorded
 * (high), or as all on average (low). Where none was, 0.15 ms and 0.6 ms (H200, torch 2.11: 0.2 to
 * 0.7 ms in traces). These steps are full of short rows, so that the estimated cost of recording
 * can leave next to nothing of them: high is at least the saving in the trace by the part of the
 * step that is left without the profiler, and low at least 5 us for each kernel, of that (74
 * kernels took 0.6 to 0.77 ms: 8 to 10 us each).
 *
 * It stands for launch.bound and batch.too_small, whose time it is.
 *
 * Silent when: gpu_step.c sees an obstacle, or nothing says that graphs were asked for.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"

enum {
    STEPS_MIN = 2,
    LAUNCHES_MIN = 8,
    REPLAY_NS = 150 * 1000,
    REPLAY_NS_MOST = 600 * 1000,
    KERNEL_NS = 5000
};

static const double share_min = 0.05;

static int64_t skipped_by_compiler(const struct ks_facts *facts)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < ks_trace_source_count(facts->trace); i++) {
        int64_t count = ks_trace_source(facts->trace, i)->compiler.graphs_skipped;
        most = count > most ? count : most;
    }
    return most;
}

static bool are_single(const struct ks_compiled_cost *cost)
{
    return cost->single.step_count >= STEPS_MIN && cost->single.launches >= LAUNCHES_MIN;
}

static bool are_asked_for(const struct ks_facts *facts)
{
    const struct ks_compiled_cost *cost = &facts->work.compiled;
    return cost->is_mixed || cost->has_trees || skipped_by_compiler(facts) > 0;
}

/* What a graph that is replayed takes the host: at least, and on average. */
static struct ks_saving replay_ns(const struct ks_compiled_cost *cost)
{
    if (cost->replays.count <= 0) {
        return (struct ks_saving){REPLAY_NS, REPLAY_NS_MOST};
    }
    return (struct ks_saving){cost->replay_ns_min,
                              (int64_t)((double)cost->replays.host_ns / cost->replays.count)};
}

static struct ks_replay_shrink replayed(const struct ks_compiled_cost *cost, int64_t each_ns)
{
    int64_t kept_ns = ks_gpu_step_part(each_ns, cost->single.count);
    return (struct ks_replay_shrink){.marks = KS_REPLAY_SINGLE,
                                     .host_part =
                                         ks_gpu_step_kept(1, kept_ns, cost->single.host_ns),
                                     .work_part = 1};
}

struct ks_replay_shrink ks_graphs_skipped_repair(const struct ks_facts *facts)
{
    const struct ks_compiled_cost *cost = &facts->work.compiled;
    return are_single(cost) && are_asked_for(facts) ? replayed(cost, replay_ns(cost).low_ns)
                                                    : (struct ks_replay_shrink){0};
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What the steps would save if recording made all of the host slower alike. */
static void raise_saving(const struct ks_facts *facts, struct ks_finding *finding)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    const struct ks_saving *traced = &finding->saving_in_trace;
    double part = mean->step_ns > 0 ? (double)ks_gpu_step_real_ns(mean) / (double)mean->step_ns : 1;
    part = part < 1 ? part : 1;
    int64_t kernels_ns = ks_gpu_step_part(KERNEL_NS, facts->work.compiled.single.launches);
    int64_t low_ns = ks_gpu_step_part(traced->low_ns, part);
    finding->saving.low_ns =
        larger(finding->saving.low_ns, low_ns < kernels_ns ? low_ns : kernels_ns);
    finding->saving.high_ns =
        larger(finding->saving.high_ns, ks_gpu_step_part(traced->high_ns, part));
}

static enum ks_status find_saving(const struct ks_facts *facts, struct ks_finding *finding,
                                  struct ks_err *err)
{
    const struct ks_compiled_cost *cost = &facts->work.compiled;
    const struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    struct ks_replay_change sure = before;
    struct ks_replay_change most = before;
    sure.shrinks[0] = replayed(cost, replay_ns(cost).high_ns);
    most.shrinks[0] = replayed(cost, replay_ns(cost).low_ns);
    KS_TRY(ks_gpu_step_what_if(facts, &before, &sure, &most, finding, err));
    raise_saving(facts, finding);
    return KS_OK;
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_compiled_cost *cost = &facts->work.compiled;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_compile_graphs_skipped);
    KS_TRY(find_saving(facts, &finding, err));
    if (!ks_gpu_step_is_worth(facts, &finding, share_min)) {
        check->reason = "replayed as CUDA graphs the step would not be 5 % shorter";
        return KS_OK;
    }
    finding.group = ks_rule_launch_bound.id;
    finding.fix_text = ks_findings_text(
        out,
        "Find why graphs are skipped: %.1f compiled graphs a step launch %.0f kernels one by one, "
        "which takes the host %.1f ms, while %.1f are replayed. TORCH_LOGS=perf_hints,cudagraphs "
        "names the reason: an input that is written to (return the new value instead), tensors on "
        "the CPU, sizes that change, operators that cannot be captured.",
        cost->single.count, cost->single.launches, (double)cost->single.host_ns / 1e6,
        cost->replays.count);
    finding.fix_code = "torch._logging.set_logs(perf_hints=True, cudagraphs=True)";
    const struct ks_evidence evidence[] = {
        {"graphs_launched_singly", cost->single.count, "count"},
        {"their_launches", cost->single.launches, "count"},
        {"their_host_time", (double)cost->single.host_ns, "ns"},
        {"graphs_replayed", cost->replays.count, "count"},
        {"skipped_by_compiler", (double)skipped_by_compiler(facts), "count"},
    };
    ks_finding_show(&finding, evidence,
                    KS_COUNT_OF(evidence) - (skipped_by_compiler(facts) == 0 ? 1 : 0));
    ks_gpu_step_set_work(&finding.where, facts, &cost->single, (struct ks_strid){0});
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_compiled_cost *cost = &facts->work.compiled;
    if (!ks_gpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    if (!are_single(cost)) {
        check->reason = cost->replays.count > 0 ? "compiled graphs are replayed as CUDA graphs"
                                                : "no compiled graph launches kernels one by one";
        return KS_OK;
    }
    if (are_asked_for(facts)) {
        return report(facts, out, check, err);
    }
    check->reason = "nothing says that compiled graphs were to be CUDA graphs";
    return KS_OK;
}

const struct ks_rule ks_rule_compile_graphs_skipped = {
    .id = "compile.graphs_skipped",
    .title = "Compiled code was to replay CUDA graphs, and does not",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true,
    .check = check,
};
