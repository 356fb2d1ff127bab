/* Rule host.slow_operator: one operator takes the host long by itself, and the GPU idles meanwhile.
 *
 * Claim: in at least half of the complete steps, and in two, calls of one operator take the host
 * KS_SLOW_NS_MIN and more each, without the operators inside and without calls that launch, copy,
 * wait or take memory; without that the step would be at least 5% shorter. An operator that only
 * launches takes 5 to 50 us, one that also allocates some 100: a millisecond is another kind of
 * work. It is on the thread of the steps, or of the backward pass. This is the rule for what no
 * other rule knows: what cudnn.retuning, device.round_trip, input.starved, sync.host and
 * compile.recompiles explain is left out.
 *
 * Evidence: exclusive host time of operators (docs/analyses/op_work.md), their inputs, how long the
 * other calls of the same operator take.
 *
 * Saving, per step: replays of the recorded steps in which these calls take what the shorter ones
 * of the operator take, or nothing where it has none (high), and half of the time above that (low):
 * the trace does not say what the operator does, so that its repair is not known.
 *
 * Silent when: gpu_step.c sees an obstacle (too few steps, no steps, no GPU work), or it happens in
 * single steps, as first calls do.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"
#include "measure/sum.h"

enum { STEPS_MIN = 2, DIMS_LEN_MAX = 80 };

static const double share_min = 0.05;
static const double steps_share_min = 0.5;
static const double sure_part = 0.5;

static bool is_there(const struct ks_facts *facts)
{
    const struct ks_slow_cost *slow = &facts->work.slow;
    return facts->compiles.sure_ns < slow->own_ns / 2 && slow->steps_with >= STEPS_MIN &&
           (double)slow->steps_with >= steps_share_min * (double)facts->complete_step_count;
}

/* `part` of what the calls take beyond the usual goes. */
static struct ks_replay_shrink shrink(const struct ks_slow_cost *slow, double part)
{
    int64_t gone_ns = ks_gpu_step_part(ks_sum_sub(slow->own_ns, slow->usual_ns), part);
    return (struct ks_replay_shrink){
        .marks = KS_REPLAY_SLOW,
        .host_part =
            ks_gpu_step_kept(1, ks_sum_sub(slow->cost.host_ns, gone_ns), slow->cost.host_ns),
        .work_part = 1};
}

struct ks_replay_shrink ks_slow_operator_repair(const struct ks_facts *facts)
{
    return is_there(facts) ? shrink(&facts->work.slow, 1) : (struct ks_replay_shrink){0};
}

static enum ks_status find_saving(const struct ks_facts *facts, struct ks_finding *finding,
                                  struct ks_err *err)
{
    const struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    struct ks_replay_change sure = before;
    struct ks_replay_change most = before;
    sure.shrinks[0] = shrink(&facts->work.slow, sure_part);
    most.shrinks[0] = shrink(&facts->work.slow, 1);
    return ks_gpu_step_what_if(facts, &before, &sure, &most, finding, err);
}

static const char *usual_text(const struct ks_slow_cost *slow, struct ks_findings *out)
{
    if (slow->usual_ns == 0 || slow->cost.count <= 0) {
        return "";
    }
    return ks_findings_text(out,
                            " Its other calls take %.0f us: what is made in the long ones, a plan "
                            "or a compiled kernel for new sizes, need not be made again where "
                            "sizes stay the same.",
                            (double)slow->usual_ns / slow->cost.count / 1e3);
}

static void write_fix(const struct ks_facts *facts, struct ks_findings *out,
                      struct ks_finding *finding)
{
    const struct ks_slow_cost *slow = &facts->work.slow;
    struct ks_str name = ks_trace_str(facts->trace, slow->op);
    struct ks_str dims = ks_trace_str(facts->trace, slow->dims);
    int dims_len = (int)(dims.len < DIMS_LEN_MAX ? dims.len : DIMS_LEN_MAX);
    finding->fix_text = ks_findings_text(
        out,
        "Find what %.*s does: it takes the host %.1f ms a step by itself, in %.1f calls of a "
        "millisecond and more%s%.*s%s, while the GPU waits.%s Otherwise move it: to the GPU, into "
        "the loader's workers, or out of the step.",
        (int)name.len, name.ptr, (double)slow->own_ns / 1e6, slow->cost.count,
        dims_len > 0 ? " (inputs " : "", dims_len, dims.ptr, dims_len > 0 ? ")" : "",
        usual_text(slow, out));
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_slow_cost *slow = &facts->work.slow;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_host_slow_operator);
    KS_TRY(find_saving(facts, &finding, err));
    if (!ks_gpu_step_is_worth(facts, &finding, share_min)) {
        check->reason = "without its slowest operator the step would not be 5 % shorter";
        return KS_OK;
    }
    write_fix(facts, out, &finding);
    const struct ks_evidence evidence[] = {
        {"own_host_time", (double)slow->own_ns, "ns"},
        {"slow_calls_per_step", slow->cost.count, "count"},
        {"usual_of_as_many", (double)slow->usual_ns, "ns"},
        {"other_slow_operators", (double)slow->other_ns, "ns"},
        {"different_inputs", (double)slow->shapes, "count"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence) - (slow->shapes == 0 ? 1 : 0));
    ks_gpu_step_set_work(&finding.where, facts, &slow->cost, slow->op);
    ks_findings_set_place(&finding.where, facts, slow->outer, KS_PLACE_OPERATOR);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    if (!ks_gpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    if (is_there(facts)) {
        return report(facts, out, check, err);
    }
    check->reason = facts->work.slow.steps_with > 0
                        ? "operators take the host long in single steps only"
                        : "no operator takes the host a millisecond by itself";
    return KS_OK;
}

const struct ks_rule ks_rule_host_slow_operator = {
    .id = "host.slow_operator",
    .title = "An operator takes the host long by itself, and the GPU waits",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true,
    .check = check,
};
