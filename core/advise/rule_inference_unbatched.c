/* Rule inference.unbatched: a model gets one input at a time where several are at hand.
 *
 * Claim: a model without a backward pass is called with a batch of one, at least four times, the
 * GPU is idle for half of the step and more, and the calls need not wait for one another: their
 * inputs come out of a tensor that holds several; or inputs that come from the host, or of more
 * than one token, share a step or follow each other without a result read between. One user who
 * waits for each answer is no fault, nor is text that grows token by token.
 *
 * Evidence: shapes of embeddings and convolutions, and what was done directly before
 * (docs/analyses/op_work.md).
 *
 * Saving, per step, of what the step takes without the profiler: all but the share of one of as
 * many calls as could be one (high); or of 8 at most, where the work of the device goes down no
 * further than it filled the multiprocessors (low). The host launches for all of a batch what it
 * launched for one.
 *
 * Without a GPU inputs that come out of a tensor that holds several count, and results that are
 * joined, which nobody waited for one by one; and what operators take however little they compute,
 * 3 us a call at most, must be 5% of the step. Of that all but the share of one of 8 calls goes
 * (low). High: of the whole step all but the share of one, since a batch reads weights once.
 *
 * Silent when: gpu_step.c (without a GPU: cpu_step.c) sees an obstacle, shapes were not recorded,
 * or a source trains.
 */
#include "advise/cpu_step.h"
#include "advise/decode_loop.h"
#include "advise/gpu_step.h"
#include "advise/registry.h"
#include "analyze/what_if.h"

#include <math.h>

enum { SURELY_TOGETHER = 8, CPU_CALL_NS = 3 * 1000 };

static const double idle_share_min = 0.5;
static const double cpu_share_min = 0.05;

/* Part of the multiprocessors that is filled while the device works; 1: unknown. */
static double fill_of(const struct ks_facts *facts)
{
    double fill = ks_gpu_step_fill(facts);
    return fill >= 0 && fill < 1 ? fill : 1;
}

static struct ks_saving saving_of(const struct ks_facts *facts, double low_ns, double high_ns)
{
    double together = (double)facts->work.singles.together;
    double sure = together < SURELY_TOGETHER ? together : SURELY_TOGETHER;
    double work_ns = fill_of(facts) * (double)facts->mean_step.busy_ns;
    double left_ns = fmax(low_ns / sure, work_ns);
    return (struct ks_saving){llround(fmax(low_ns - left_ns, 0)),
                              llround(high_ns * (1 - 1 / together))};
}

/* What a step takes, with the most and the least that recording can have cost. */
static enum ks_status find_saving(const struct ks_facts *facts, struct ks_finding *finding,
                                  struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    struct ks_replay_change change = KS_REPLAY_UNCHANGED;
    double low_ns = 0;
    double high_ns = 0;
    change.cost_factor = mean->cost_high;
    KS_TRY(ks_what_if_step(facts, &change, &low_ns, err));
    change.cost_factor = mean->cost_low;
    KS_TRY(ks_what_if_step(facts, &change, &high_ns, err));
    finding->saving = saving_of(facts, low_ns, high_ns);
    finding->saving_in_trace = saving_of(facts, (double)mean->step_ns, (double)mean->step_ns);
    return KS_OK;
}

/* Shares of the step that go without a GPU: at least, and at most. */
static void find_cpu_shares(const struct ks_facts *facts, double shares[2])
{
    double together = (double)facts->work.singles.together;
    double sure = together < SURELY_TOGETHER ? together : SURELY_TOGETHER;
    double calls = (double)ks_cpu_step_calls_ns(facts, CPU_CALL_NS) / ks_cpu_step_mean_ns(facts);
    shares[0] = (calls < 1 ? calls : 1) * (1 - 1 / sure);
    shares[1] = 1 - 1 / together;
}

static void write_fix(const struct ks_facts *facts, struct ks_findings *out,
                      struct ks_finding *finding)
{
    const struct ks_single_cost *singles = &facts->work.singles;
    const char *why = singles->are_taken ? "they lie in one tensor"
                      : facts->has_gpu   ? "none of them needs the result of another"
                                         : "their results are joined";
    const char *gpu = facts->has_gpu ? ks_findings_text(out, "The GPU works %.2f of %.2f ms. ",
                                                        (double)facts->mean_step.busy_ns / 1e6,
                                                        (double)facts->mean_step.step_ns / 1e6)
                                     : "";
    finding->fix_text = ks_findings_text(
        out,
        "Give the model many inputs at once: %.1f times a step it gets one, though %s, and %lld "
        "could go together. %sSort texts by length and pad them to the longest of their batch.",
        singles->calls, why, (long long)singles->together, gpu ? gpu : "");
    finding->fix_code = "batch = tokenizer(texts, padding=True, return_tensors=\"pt\")\n"
                        "scores = model(**batch.to(device))  # not once for each text";
}

static void finish(const struct ks_facts *facts, struct ks_findings *out,
                   struct ks_finding *finding)
{
    const struct ks_single_cost *singles = &facts->work.singles;
    write_fix(facts, out, finding);
    finding->verify = "kscope run infer.py  # with the fix: the finding must be gone";
    ks_findings_set_steps(&finding->where, singles->steps, singles->step_count);
    finding->where.op = singles->op;
    ks_findings_set_place(&finding->where, facts, singles->op, KS_PLACE_OPERATOR);
}

/* Worth it in any case: of two inputs that could go together half of the step can go. */
static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_err *err)
{
    const struct ks_single_cost *singles = &facts->work.singles;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_inference_unbatched);
    KS_TRY(find_saving(facts, &finding, err));
    /* More work for each launch is what these would say, too. */
    finding.group = ks_rule_launch_bound.id;
    const struct ks_evidence evidence[] = {
        {"calls_per_step", singles->calls, "count"},
        {"could_go_together", (double)singles->together, "count"},
        {"busy", (double)facts->mean_step.busy_ns, "ns"},
        {"step", (double)facts->mean_step.step_ns, "ns"},
        {"filled", fill_of(facts), "share"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    finish(facts, out, &finding);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status report_on_cpu(const struct ks_facts *facts, struct ks_findings *out,
                                    struct ks_check *check, struct ks_err *err)
{
    const struct ks_single_cost *singles = &facts->work.singles;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_inference_unbatched);
    double shares[2];
    find_cpu_shares(facts, shares);
    if (shares[0] < cpu_share_min) {
        check->reason = "one input at a time keeps operators at work for long";
        return KS_OK;
    }
    ks_cpu_step_set_savings(&finding, facts, ks_cpu_step_first_source(facts), shares[0], shares[1]);
    const struct ks_evidence evidence[] = {
        {"calls_per_step", singles->calls, "count"},
        {"could_go_together", (double)singles->together, "count"},
        {"calling", (double)ks_cpu_step_calls_ns(facts, CPU_CALL_NS), "ns"},
        {"step", ks_cpu_step_mean_ns(facts), "ns"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    finish(facts, out, &finding);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    bool can_judge = facts->has_gpu ? ks_gpu_step_can_judge_shapes(facts, check)
                                    : ks_cpu_step_can_judge_shapes(facts, check);
    if (!can_judge || !ks_decode_loop_can_be(facts, check)) {
        return KS_OK;
    }
    if (facts->work.singles.together < 2 || facts->work.prefixes.passes > 0) {
        check->reason = "no model gets one input at a time that need not wait for the one before";
        return KS_OK;
    }
    if (!facts->has_gpu) {
        return report_on_cpu(facts, out, check, err);
    }
    if (!ks_gpu_step_is_share(&facts->mean_step, facts->mean_step.idle_ns, idle_share_min)) {
        check->reason = "one input at a time keeps the GPU at work for half of the step";
        return KS_OK;
    }
    return report(facts, out, err);
}

const struct ks_rule ks_rule_inference_unbatched = {
    .id = "inference.unbatched",
    .title = "The model gets one input at a time",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
