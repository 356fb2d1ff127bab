/* Rule compile.graph_breaks: code of a compiled function runs uncompiled, since the compiler could
 * not follow it: operators between its graphs, or all of it.
 *
 * Claim: in at least two complete steps compiled code is entered from inside of compiled code,
 * which only happens where a function was cut in pieces (each piece behind a break is a function of
 * its own), or calls of compiled functions run operators and nothing compiled (a break in a loop
 * gives the whole function up). Without that the step would be at least 5% shorter.
 *
 * Evidence: rows of compiled code that hold others ("Torch-Compiled Region: 0/0" around 1/0), what
 * runs in them outside of graphs, and how long entering takes (docs/analyses/op_work.md). Python
 * frames of torch's wrapper around compiled functions without such a row: of this recording, or of
 * the one with stacks that `kscope run` makes. What the compiler counted, if `kscope run` asked it.
 *
 * Saving, per step: replays of the recorded steps. High: operators between graphs, their backward,
 * and entering take the host no time, as parts of one graph. Low: entering goes, and 0.3 of what
 * operators take: compiled code, too, launches kernels, at 0.5 to 1 times the host time of the
 * operators that it was made of (H200, torch 2.11: 70 of 66 us for a layer of a perceptron, half as
 * long where elementwise operators become one kernel). A function that was given up is found with
 * frames only; there the same parts go of all launching, by its share of operators' time. It stands
 * for launch.bound and batch.too_small, whose time it is.
 *
 * Silent when: gpu_step.c sees an obstacle, or neither rows of compiled code nor frames were
 * recorded (torch before 2.3).
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"

enum { STEPS_MIN = 2 };

static const double share_min = 0.05;
static const double compiled_part = 0.7; /* of the host's time stays, when no graph is replayed */

static bool has_breaks(const struct ks_compiled_cost *cost)
{
    return cost->breaks >= 1 &&
           (cost->glue.step_count >= STEPS_MIN || cost->eager.step_count >= STEPS_MIN);
}

/* Frames of one step are enough: each step calls the function. */
static bool is_skipped(const struct ks_compiled_cost *cost)
{
    return cost->skipped >= 1 && cost->skipped_host_share > 0;
}

void ks_graph_breaks_repair(const struct ks_facts *facts, double host_part,
                            struct ks_replay_change *change, size_t slot)
{
    const struct ks_compiled_cost *cost = &facts->work.compiled;
    if (has_breaks(cost)) {
        change->shrinks[slot] = (struct ks_replay_shrink){
            .marks = KS_REPLAY_EAGER, .host_part = host_part, .work_part = 1};
        change->shrinks[slot + 1] =
            (struct ks_replay_shrink){.marks = KS_REPLAY_GLUE, .host_part = 0, .work_part = 1};
    }
    if (is_skipped(cost)) {
        change->launch_factor *= 1 - cost->skipped_host_share * (1 - host_part);
    }
}

/* The reason that the compiler gives most often, of all ranks; empty when it was not asked. */
static struct ks_str find_reason(const struct ks_facts *facts)
{
    for (uint32_t i = 0; i < ks_trace_source_count(facts->trace); i++) {
        const struct ks_source *source = ks_trace_source(facts->trace, i);
        if (source->graph_break_reason.v != 0) {
            return ks_trace_str(facts->trace, source->graph_break_reason);
        }
    }
    return (struct ks_str){0};
}

static void write_fix(const struct ks_facts *facts, struct ks_findings *out,
                      struct ks_finding *finding)
{
    const struct ks_compiled_cost *cost = &facts->work.compiled;
    struct ks_str reason = find_reason(facts);
    const char *what =
        is_skipped(cost)
            ? ks_findings_text(out,
                               "%.1f calls a step of compiled functions run nothing compiled, and "
                               "make %.0f %% of all launches with their backward (a break in a "
                               "loop gives up all of the function)",
                               cost->skipped, 100 * cost->skipped_share)
            : ks_findings_text(out,
                               "compiled code is entered %.1f times a step from inside of "
                               "compiled functions, and %.1f operators and nodes run between "
                               "graphs",
                               cost->breaks, cost->eager.count);
    finding->fix_text = ks_findings_text(
        out,
        "Let the compiler see whole functions: %s.%s%.*s%s TORCH_LOGS=graph_breaks names each line "
        "and its reason: printing, reading values, code of other libraries. Move that out of the "
        "function, or put what must stay into a custom operator; fullgraph=True then fails where "
        "a break comes back.",
        what ? what : "", reason.len > 0 ? " The compiler says: \"" : "", (int)reason.len,
        reason.ptr ? reason.ptr : "", reason.len > 0 ? "\"." : "");
    finding->fix_code = "torch._logging.set_logs(graph_breaks=True)\n"
                        "model = torch.compile(model, fullgraph=True)";
}

static enum ks_status find_saving(const struct ks_facts *facts, struct ks_finding *finding,
                                  struct ks_err *err)
{
    const struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    struct ks_replay_change sure = before;
    struct ks_replay_change most = before;
    ks_graph_breaks_repair(facts, compiled_part, &sure, 0);
    ks_graph_breaks_repair(facts, 0, &most, 0);
    return ks_gpu_step_what_if(facts, &before, &sure, &most, finding, err);
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_compiled_cost *cost = &facts->work.compiled;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_compile_graph_breaks);
    KS_TRY(find_saving(facts, &finding, err));
    if (!ks_gpu_step_is_worth(facts, &finding, share_min)) {
        check->reason = "without breaks the step would not be 5 % shorter";
        return KS_OK;
    }
    finding.group = ks_rule_launch_bound.id;
    write_fix(facts, out, &finding);
    const struct ks_evidence evidence[] = {
        {"breaks_per_step", cost->breaks, "count"},
        {"operators_between_graphs", cost->eager.count, "count"},
        {"host_between_graphs", (double)cost->eager.host_ns, "ns"},
        {"entering_again", (double)cost->glue.host_ns, "ns"},
    };
    const struct ks_evidence skipped[] = {
        {"calls_run_uncompiled", cost->skipped, "count"},
        {"their_share_of_launches", cost->skipped_share, "share"},
        {"their_share_of_operators", cost->skipped_host_share, "share"},
    };
    bool is_all = is_skipped(cost);
    ks_finding_show(&finding, evidence, has_breaks(cost) ? KS_COUNT_OF(evidence) : 0);
    ks_finding_show(&finding, skipped, is_all ? KS_COUNT_OF(skipped) : 0);
    ks_gpu_step_set_work(&finding.where, facts, &cost->eager,
                         is_all ? cost->skipped_op : cost->eager_op);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_compiled_cost *cost = &facts->work.compiled;
    if (!ks_gpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    if (has_breaks(cost) || is_skipped(cost)) {
        return report(facts, out, check, err);
    }
    check->reason = cost->regions > 0 ? "compiled functions are compiled as a whole"
                                      : "no compiled function was seen";
    return KS_OK;
}

const struct ks_rule ks_rule_compile_graph_breaks = {
    .id = "compile.graph_breaks",
    .title = "Breaks in a compiled function leave code of it uncompiled",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true, /* a graph ends at each break */
    .check = check,
};
