/* Rule kv.concat: keys and values of all tokens so far are copied for each new token.
 *
 * Claim: in a loop without a backward pass attention sees a few queries and more keys each time,
 * and aten::cat before it takes long enough to copy all keys; written in place the step would be at
 * least 5% shorter. n tokens cost n^2 / 2 copies of a token that way.
 *
 * Evidence: shapes of attention from token to token, and the cats before it
 * (docs/analyses/op_work.md).
 *
 * Saving, per step: replays of the recorded steps in which these cats take a part of their time. In
 * place, the part of the new tokens is written, by a kernel of 2 to 5 us (an H200's smallest copies
 * took 1.4 to 5 us). On the host a slice and a copy take the place of one cat: 1 to 2 times as
 * long. Where cuDNN's plans for each new length (cudnn.retuning) hide the copies: from nothing to
 * what they take of the steps without plans, of which 5% is enough.
 *
 * Silent when: gpu_step.c sees an obstacle, shapes were not recorded, a source trains, or fewer
 * than two tokens follow the first.
 */
#include "advise/decode_loop.h"
#include "advise/gpu_step.h"
#include "advise/registry.h"

static const double share_min = 0.05;

/* Of a copy in place, at most and at least. */
static const double write_ns[2] = {5000, 2000};
static const double host_parts[2] = {2, 1};

static struct ks_replay_change in_place(const struct ks_cache_cost *caches, size_t end)
{
    double cats_ns = (double)caches->cost.device_ns;
    double kept_ns = caches->cost.count * write_ns[end] + caches->new_part * cats_ns;
    struct ks_replay_change change = KS_REPLAY_UNCHANGED;
    change.shrinks[0] =
        (struct ks_replay_shrink){.marks = KS_REPLAY_CACHE,
                                  .host_part = host_parts[end],
                                  .work_part = kept_ns < cats_ns ? kept_ns / cats_ns : 1};
    return change;
}

/* Lengths that grow make cuDNN plan anew, too, which may hide the copies: what they take behind
 * that repair, in a step that is shorter by it. */
static enum ks_status judge_behind_plans(const struct ks_facts *facts, struct ks_finding *finding,
                                         bool *is_worth, struct ks_err *err)
{
    struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    before.shrinks[1] = ks_cudnn_plans_repair(facts);
    if (before.shrinks[1].marks == 0) {
        return KS_OK;
    }
    struct ks_replay_change sure = in_place(&facts->work.caches, 0);
    struct ks_replay_change most = in_place(&facts->work.caches, 1);
    sure.shrinks[1] = most.shrinks[1] = before.shrinks[1];
    KS_TRY(ks_gpu_step_what_if(facts, &before, &sure, &most, finding, err));
    int64_t rest_ns = facts->mean_step.step_ns - facts->work.plans.cost.host_ns;
    *is_worth = (double)finding->saving.high_ns >= share_min * (double)rest_ns;
    finding->saving.low_ns = finding->saving_in_trace.low_ns = 0; /* as long as they stay */
    return KS_OK;
}

static enum ks_status judge(const struct ks_facts *facts, struct ks_finding *finding,
                            bool *is_worth, struct ks_err *err)
{
    const struct ks_replay_change sure = in_place(&facts->work.caches, 0);
    const struct ks_replay_change most = in_place(&facts->work.caches, 1);
    KS_TRY(ks_gpu_step_what_if_device(facts, &sure, &most, finding, err));
    *is_worth = ks_gpu_step_is_worth(facts, finding, share_min);
    return *is_worth ? KS_OK : judge_behind_plans(facts, finding, is_worth, err);
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_cache_cost *caches = &facts->work.caches;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_kv_concat);
    bool is_worth = false;
    KS_TRY(judge(facts, &finding, &is_worth, err));
    if (!is_worth) {
        check->reason = "keys and values in place would save less than 5 % of the step";
        return KS_OK;
    }
    finding.fix_text = ks_findings_text(
        out,
        "Give keys and values their room from the start and write new tokens into it: %.0f times "
        "a step all %lld tokens are copied for the sake of the new ones, which takes %.2f ms of "
        "the GPU. In Transformers: cache_implementation=\"static\".",
        caches->cost.count, (long long)caches->length, (double)caches->cost.device_ns / 1e6);
    finding.fix_code = "keys = k.new_empty(len(k), heads, length_max, head_dim)  # once a text\n"
                       "keys[:, :, at : at + 1] = k                            # not torch.cat\n"
                       "k = keys[:, :, : at + 1]";
    finding.verify = "kscope run generate.py  # with the fix: the finding must be gone";
    const struct ks_evidence evidence[] = {
        {"cats_per_step", caches->cost.count, "count"},
        {"cats_on_device", (double)caches->cost.device_ns, "ns"},
        {"cats_on_host", (double)caches->cost.host_ns, "ns"},
        {"tokens", (double)caches->length, "count"},
        {"new_tokens", caches->new_part, "share"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    ks_gpu_step_set_work(&finding.where, facts, &caches->cost, caches->op);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    if (!ks_gpu_step_can_judge_shapes(facts, check) || !ks_decode_loop_can_be(facts, check)) {
        return KS_OK;
    }
    if (facts->work.caches.cost.count > 0) {
        return report(facts, out, check, err);
    }
    check->reason = "no aten::cat copies keys that grow from token to token";
    return KS_OK;
}

const struct ks_rule ks_rule_kv_concat = {
    .id = "kv.concat",
    .title = "Keys and values are copied for each new token",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true, /* shapes that grow cannot be captured */
    .check = check,
};
