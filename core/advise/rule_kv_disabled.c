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
 * Without a GPU: operators take a part of their time that grows with the tokens, beyond 10 us (low)
 * or 3 us (high) a call, which stay. Of that part 1 / length remains, and reading weights, keys and
 * values at 2 (low) to 20 GB/s (high), what a core of small and of large machines reads. Only the
 * share of the step counts that lies in such passes.
 *
 * Silent when: gpu_step.c (without a GPU: cpu_step.c) sees an obstacle, shapes were not recorded, a
 * source trains, or texts are shorter than 16 tokens.
 */
#include "advise/cpu_step.h"
#include "advise/decode_loop.h"
#include "advise/gpu_step.h"
#include "advise/registry.h"

static const double share_min = 0.05;

/* Of one token: at most and at least. */
static const double kernel_ns[2] = {5000, 2000};
static const double bytes_per_ns[2] = {1000, 3350};
static const double host_parts[2] = {1.15, 1};

static const int64_t cpu_call_ns[2] = {10 * 1000, 3 * 1000};
static const double cpu_bytes_per_ns[2] = {2, 20};

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

/* Share of the time of the complete steps in which passes run. */
static double share_of_passes(const struct ks_facts *facts)
{
    double passes_ns = 0;
    for (size_t i = 0; i < facts->work.pass_count; i++) {
        const struct ks_work_span *pass = &facts->work.passes[i];
        passes_ns += (double)(pass->until_ns - pass->from_ns);
    }
    double share = facts->step_ns_total > 0 ? passes_ns / (double)facts->step_ns_total : 0;
    return share < 1 ? share : 1;
}

/* Share of the step that goes without a GPU. */
static double cpu_share(const struct ks_facts *facts, size_t end)
{
    const struct ks_prefix_cost *prefixes = &facts->work.prefixes;
    double bytes = prefixes->passes * (prefixes->weight_bytes + prefixes->cache_bytes);
    double length = prefixes->length > 0 ? (double)prefixes->length : 1;
    double grows_ns =
        share_of_passes(facts) * (double)ks_cpu_step_scaling_ns(facts, cpu_call_ns[end]);
    double gone_ns = grows_ns * (1 - 1 / length) - bytes / cpu_bytes_per_ns[end];
    return gone_ns > 0 ? gone_ns / ks_cpu_step_mean_ns(facts) : 0;
}

static enum ks_status find_savings(const struct ks_facts *facts, struct ks_finding *finding,
                                   bool *is_worth, struct ks_err *err)
{
    const struct ks_replay_change sure = cached(facts, 0);
    const struct ks_replay_change most = cached(facts, 1);
    if (!facts->has_gpu) {
        ks_cpu_step_set_savings(finding, facts, ks_cpu_step_first_source(facts),
                                cpu_share(facts, 0), cpu_share(facts, 1));
        *is_worth = ks_cpu_step_is_worth(facts, finding, share_min);
        return KS_OK;
    }
    KS_TRY(ks_gpu_step_what_if_device(facts, &sure, &most, finding, err));
    *is_worth = ks_gpu_step_is_worth(facts, finding, share_min);
    return KS_OK;
}

static void show_evidence(const struct ks_facts *facts, struct ks_finding *finding)
{
    const struct ks_prefix_cost *prefixes = &facts->work.prefixes;
    const struct ks_evidence evidence[] = {
        {"passes_per_step", prefixes->passes, "count"},
        {"tokens", (double)prefixes->length, "count"},
        {"weights", prefixes->weight_bytes, "bytes"},
        {"keys_and_values", prefixes->cache_bytes, "bytes"},
    };
    const struct ks_evidence of_gpu[] = {
        {"busy", (double)facts->mean_step.busy_ns, "ns"},
        {"one_token_at_least", kept_ns(facts, 1), "ns"},
    };
    ks_finding_show(finding, evidence, 2);
    ks_finding_show(finding, of_gpu, facts->has_gpu ? KS_COUNT_OF(of_gpu) : 0);
    ks_finding_show(finding, evidence + 2, 2);
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_prefix_cost *prefixes = &facts->work.prefixes;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_kv_disabled);
    bool is_worth = false;
    KS_TRY(find_savings(facts, &finding, &is_worth, err));
    if (!is_worth) {
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
    show_evidence(facts, &finding);
    ks_findings_set_steps(&finding.where, prefixes->steps, prefixes->step_count);
    finding.where.op = prefixes->op;
    ks_findings_set_place(&finding.where, facts, prefixes->op, KS_PLACE_OPERATOR);
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
