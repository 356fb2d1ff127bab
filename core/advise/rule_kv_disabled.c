/* Rule kv.disabled: each new token runs the model over all tokens before it once more.
 *
 * Claim: in a loop without a backward pass the same embedding, or the same attention with as many
 * keys as queries, sees one token more each time, at least four times in a row; with kept keys and
 * values the step would be at least 5% shorter.
 *
 * Evidence: shapes from pass to pass (docs/analyses/op_work.md).
 *
 * Saving, per step: replays of the recorded steps in which the work of these passes takes a part of
 * its time. One token needs a share of 1 / length of the arithmetic, reads weights, keys and values
 * once, at 1 to 3.35 TB/s (GPUs of data centers since the A100), and has as many kernels, of at
 * least 2 to 5 us. The host launches as much, and up to 0.15 more for writing keys and values
 * (recorded: 0.11 more).
 *
 * Silent when: gpu_step.c sees an obstacle, shapes were not recorded, a source trains, or texts are
 * shorter than 16 tokens.
 */
#include "advise/decode_loop.h"
#include "advise/gpu_step.h"
#include "advise/registry.h"

static const double share_min = 0.05;

/* Of one token: at most and at least. */
static const double kernel_ns[2] = {5000, 2000};
static const double bytes_per_ns[2] = {1000, 3350};
static const double host_parts[2] = {1.15, 1};

/* Time of the device that a step with kept keys and values takes. */
static double kept_ns(const struct ks_facts *facts, size_t end)
{
    const struct ks_prefix_cost *prefixes = &facts->work.prefixes;
    double bytes = prefixes->passes * (prefixes->weight_bytes + prefixes->cache_bytes);
    double length = prefixes->length > 0 ? (double)prefixes->length : 1;
    return facts->mean_step.launches * kernel_ns[end] + bytes / bytes_per_ns[end] +
           (double)facts->mean_step.busy_ns / length;
}

static struct ks_replay_change cached(const struct ks_facts *facts, size_t end)
{
    double busy_ns = (double)facts->mean_step.busy_ns;
    double kept = kept_ns(facts, end);
    struct ks_replay_change change = KS_REPLAY_UNCHANGED;
    change.launch_factor = host_parts[end];
    change.shrinks[0] =
        (struct ks_replay_shrink){.marks = KS_REPLAY_PREFIX,
                                  .host_part = 1,
                                  .work_part = busy_ns > 0 && kept < busy_ns ? kept / busy_ns : 1};
    return change;
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_prefix_cost *prefixes = &facts->work.prefixes;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_kv_disabled);
    const struct ks_replay_change sure = cached(facts, 0);
    const struct ks_replay_change most = cached(facts, 1);
    KS_TRY(ks_gpu_step_what_if_device(facts, &sure, &most, &finding, err));
    if (!ks_gpu_step_is_worth(facts, &finding, share_min)) {
        check->reason = "kept keys and values would save less than 5 % of the step";
        return KS_OK;
    }
    finding.fix_text = ks_findings_text(
        out,
        "Keep keys and values of the tokens so far, and run the model over the new one only: %.0f "
        "times a step it runs over all of them, now %lld, of which all but one were seen before. "
        "In Transformers: use_cache=True, and past_key_values handed on in a loop of your own.",
        prefixes->passes, (long long)prefixes->length);
    finding.fix_code = "out = model(token, past_key_values=past, use_cache=True)\n"
                       "past = out.past_key_values";
    finding.verify = "kscope run generate.py  # with the fix: the finding must be gone";
    const struct ks_evidence evidence[] = {
        {"passes_per_step", prefixes->passes, "count"},
        {"tokens", (double)prefixes->length, "count"},
        {"busy", (double)facts->mean_step.busy_ns, "ns"},
        {"one_token_at_least", kept_ns(facts, 1), "ns"},
        {"weights", prefixes->weight_bytes, "bytes"},
        {"keys_and_values", prefixes->cache_bytes, "bytes"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    ks_findings_set_steps(&finding.where, prefixes->steps, prefixes->step_count);
    finding.where.op = prefixes->op;
    ks_findings_set_place(&finding.where, facts, prefixes->op, KS_PLACE_OPERATOR);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    if (!ks_gpu_step_can_judge_shapes(facts, check) || !ks_decode_loop_can_be(facts, check)) {
        return KS_OK;
    }
    if (facts->work.prefixes.passes > 0) {
        return report(facts, out, check, err);
    }
    check->reason = "no forward pass runs over one token more than the one before";
    return KS_OK;
}

const struct ks_rule ks_rule_kv_disabled = {
    .id = "kv.disabled",
    .title = "Each new token runs the model over all tokens before it",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true, /* shapes that grow cannot be captured */
    .check = check,
};
