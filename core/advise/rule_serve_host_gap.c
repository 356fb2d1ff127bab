/* Rule serve.host_gap: between two iterations of an engine that decodes, the host looks at results
 * while the GPU has nothing to do.
 *
 * Claim: in a loop without a backward pass, whose iterations see one token of each text, the host
 * waits for results, and runs code for at least 5% of the step before it launches the next
 * iteration: scheduling, detokenising, sampling.
 *
 * Evidence: operators that read results and wait for them, and the time from their end to the next
 * operator that launches work (docs/analyses/op_work.md).
 *
 * Saving, per step: replays of the recorded steps without that time, and with all of it but without
 * the reading and its wait, as when the host looks at the results of an iteration while the device
 * computes the next one: low and high are the bounds of both.
 *
 * Silent when: gpu_step.c sees an obstacle, or a source trains. Shapes, or the steps' own kind, say
 * that it decodes.
 */
#include "advise/decode_loop.h"
#include "advise/gpu_step.h"
#include "advise/registry.h"

static const double share_min = 0.05;

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_reading_cost *readings = &facts->work.readings;
    const struct ks_mean_step *mean = &facts->mean_step;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_serve_host_gap);
    const struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    struct ks_replay_change without_gap = before;
    without_gap.shrinks[0] =
        (struct ks_replay_shrink){.marks = KS_REPLAY_READ_GAP, .host_part = 0, .work_part = 1};
    struct ks_replay_change without_wait = before;
    without_wait.shrinks[0] = (struct ks_replay_shrink){
        .marks = KS_REPLAY_READING, .host_part = 0, .work_part = 1, .drops_waits = true};
    KS_TRY(ks_gpu_step_what_if(facts, &before, &without_gap, &without_wait, &finding, err));
    if (!ks_gpu_step_is_worth(facts, &finding, share_min)) {
        check->reason = "looking at results beside the next iteration would save less than 5 %";
        return KS_OK;
    }
    finding.group = ks_rule_host_python_gap.id; /* which leaves this time to us */
    finding.fix_text = ks_findings_text(
        out,
        "Launch the next iteration before looking at the results of this one: %.1f times a step "
        "the host waits for results and then runs its own code for %.2f ms a step, in which the "
        "GPU has no work. Sample on the GPU, copy tokens to pinned memory with non_blocking=True, "
        "and read them behind an event while the next iteration runs.",
        readings->cost.count, (double)readings->gap_ns / 1e6);
    finding.fix_code = "host = tokens.to(\"cpu\", non_blocking=True); event.record()\n"
                       "tokens = model(tokens, cache)       # the next iteration is under way\n"
                       "event.synchronize(); schedule(host.tolist())";
    finding.verify = "kscope run serve.py  # with the fix: the finding must be gone";
    const struct ks_evidence evidence[] = {
        {"readings_per_step", readings->cost.count, "count"},
        {"host_between_iterations", (double)readings->gap_ns, "ns"},
        {"reading_on_host", (double)readings->cost.host_ns, "ns"},
        {"idle", (double)mean->idle_ns, "ns"},
        {"step", (double)mean->step_ns, "ns"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    ks_gpu_step_set_work(&finding.where, facts, &readings->cost, readings->op);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    if (!ks_gpu_step_can_judge(facts, check) || !ks_decode_loop_can_be(facts, check)) {
        return KS_OK;
    }
    if (ks_decode_loop_has_gap(facts)) {
        return report(facts, out, check, err);
    }
    check->reason = ks_findings_text(
        out, "host code between iterations that decode takes %.2f of %.2f ms a step",
        (double)facts->work.readings.gap_ns / 1e6, (double)facts->mean_step.step_ns / 1e6);
    return KS_OK;
}

const struct ks_rule ks_rule_serve_host_gap = {
    .id = "serve.host_gap",
    .title = "The GPU waits for host code between iterations of an engine",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true,
    .check = check,
};
