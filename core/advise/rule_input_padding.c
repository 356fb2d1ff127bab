/* Rule input.padding: the model computes tokens that are only padding.
 *
 * Claim: at least 20% of the tokens that the loader hands over are padding, and without them the
 * step would be at least 5% shorter.
 *
 * Evidence: attention masks of the batches of the window, or token ids that end with a value that
 * occurs nowhere else, as `kscope run` counted them: their elements, those that are left if each
 * batch ends with its longest row, and those that are no padding. A trace alone cannot tell padding
 * from text.
 *
 * Saving, per step: GPU work outside of optimizers and collectives takes time with the tokens.
 * High: a replay of the recorded steps in which the part of the padding goes. Low: one in which
 * batches keep a quarter of padding, or, if that is less, are padded to their longest row: random
 * texts that are sorted in groups of 50 batches keep under a tenth. Without a GPU: what operators
 * take beyond 10 us a call, outside of the loader and the optimizer; low is 0.7 of it, since
 * reading weights takes its time for any number of tokens. Attention gains more than its share of
 * tokens: not counted.
 *
 * Silent when: no batch with a mask in host memory was seen, or gpu_step.c or cpu_step.c sees an
 * obstacle.
 */
#include "advise/cpu_step.h"
#include "advise/gpu_step.h"
#include "advise/registry.h"
#include "measure/sum.h"

enum { CALL_NS = 10 * 1000 };

static const double padding_min = 0.20;
static const double share_min = 0.05;
static const double sorted_fill = 0.75;
static const double cpu_part_sure = 0.70;

/* Masks of all ranks together. */
struct masks {
    double batches;
    double slots;
    double longest;
    double tokens;
    uint32_t source; /* that has most padding */
};

static bool add_source(struct masks *masks, const struct ks_process_use *use)
{
    if (use->mask_batches <= 0 || use->mask_slots <= 0 || use->mask_longest > use->mask_slots ||
        use->mask_tokens > use->mask_longest) {
        return false;
    }
    masks->batches += (double)use->mask_batches;
    masks->slots += (double)use->mask_slots;
    masks->longest += (double)use->mask_longest;
    masks->tokens += (double)use->mask_tokens;
    return true;
}

static struct masks add_up(const struct ks_facts *facts)
{
    struct masks masks = {0};
    int64_t most = -1;
    for (uint32_t i = 0; i < ks_trace_source_count(facts->trace); i++) {
        const struct ks_process_use *use = &ks_trace_source(facts->trace, i)->process;
        if (add_source(&masks, use) && use->mask_slots - use->mask_tokens > most) {
            most = use->mask_slots - use->mask_tokens;
            masks.source = i;
        }
    }
    return masks;
}

/* Part of the tokens that goes: at least, and at most. */
static void set_cuts(const struct masks *masks, double cuts[2])
{
    double sorted = masks->tokens / sorted_fill;
    double kept = sorted < masks->longest ? sorted : masks->longest;
    cuts[0] = 1 - kept / masks->slots;
    cuts[1] = 1 - masks->tokens / masks->slots;
}

/* ------------------------------------------------------------ savings */

static enum ks_status set_gpu_savings(const struct ks_facts *facts, const double cuts[2],
                                      struct ks_finding *finding, struct ks_err *err)
{
    struct ks_replay_change sure = KS_REPLAY_UNCHANGED;
    struct ks_replay_change most = KS_REPLAY_UNCHANGED;
    sure.token_cut = cuts[0];
    most.token_cut = cuts[1];
    return ks_gpu_step_what_if_device(facts, &sure, &most, finding, err);
}

/* Time of a mean step that lies outside of the loader and the optimizer. */
static int64_t model_ns(const struct ks_facts *facts)
{
    int64_t ns = 0;
    for (size_t i = 0; i < facts->step_count; i++) {
        const struct ks_step *step = &facts->steps[i];
        if (step->is_complete) {
            ns = ks_sum_add(ns, step->dur_ns - step->phases_ns[KS_PHASE_DATA] -
                                    step->phases_ns[KS_PHASE_OPTIMIZER]);
        }
    }
    return ns / (int64_t)facts->complete_step_count;
}

/* What operators take in a mean step beyond what any call takes, in the model. */
static int64_t scaling_ns(const struct ks_facts *facts)
{
    int64_t ns = ks_cpu_step_scaling_ns(facts, CALL_NS);
    int64_t model = model_ns(facts);
    return ns < model ? ns : model;
}

static void set_cpu_savings(const struct ks_facts *facts, const struct masks *masks,
                            const double cuts[2], struct ks_finding *finding)
{
    double share = (double)scaling_ns(facts) / ks_cpu_step_mean_ns(facts);
    share = share > 1 ? 1 : share;
    ks_cpu_step_set_savings(finding, facts, masks->source, cpu_part_sure * cuts[0] * share,
                            cuts[1] * share);
}

/* ------------------------------------------------------------ the finding */

static void write_fix(const struct masks *masks, struct ks_findings *out,
                      struct ks_finding *finding)
{
    double padding = 1 - masks->tokens / masks->slots;
    bool is_padded_further = masks->longest < 0.95 * masks->slots;
    finding->fix_text = ks_findings_text(
        out,
        "%s: %.0f %% of the tokens of a batch are padding%s. Sort or bucket the texts by length, "
        "and pad each batch to its longest text (DataCollatorWithPadding, "
        "group_by_length=True), or pack several texts into a row.",
        is_padded_further ? "Pad no further than the longest text of the batch"
                          : "Put texts of like length into a batch",
        100 * padding,
        is_padded_further ? ks_findings_text(out, ", %.0f %% lie behind its longest text",
                                             100 * (1 - masks->longest / masks->slots))
                          : "");
    finding->fix_code = "from functools import partial\n"
                        "samples.sort(key=len)  # or a sampler that draws from buckets of length\n"
                        "collate = partial(nn.utils.rnn.pad_sequence, batch_first=True)\n"
                        "loader = DataLoader(samples, batch_size=batch_size, collate_fn=collate)";
}

static enum ks_status report(const struct masks *masks, const struct ks_facts *facts,
                             struct ks_findings *out, struct ks_check *check, struct ks_err *err)
{
    struct ks_finding finding = ks_cpu_step_finding(&ks_rule_input_padding, facts, masks->source);
    double cuts[2];
    set_cuts(masks, cuts);
    if (facts->has_gpu) {
        KS_TRY(set_gpu_savings(facts, cuts, &finding, err));
    } else {
        set_cpu_savings(facts, masks, cuts, &finding);
    }
    int64_t middle_ns = finding.saving.low_ns / 2 + finding.saving.high_ns / 2;
    if ((double)middle_ns < share_min * ks_cpu_step_mean_ns(facts)) {
        check->reason = ks_findings_text(
            out, "%.0f %% of the tokens are padding, but computing them takes little of the step",
            100 * cuts[1]);
        return KS_OK;
    }
    write_fix(masks, out, &finding);
    const struct ks_evidence evidence[] = {
        {"padding", cuts[1], "share"},
        {"behind_longest", 1 - masks->longest / masks->slots, "share"},
        {"tokens_per_batch", masks->tokens / masks->batches, "count"},
        {"slots_per_batch", masks->slots / masks->batches, "count"},
        {"batches", masks->batches, "count"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    finding.where.op = facts->inputs[masks->source].name;
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    if (!ks_cpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    struct masks masks = add_up(facts);
    if (masks.batches <= 0) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = "no batch of padded text was seen; `kscope run` notes them in DataLoaders";
        return KS_OK;
    }
    double padding = 1 - masks.tokens / masks.slots;
    if (padding >= padding_min) {
        return report(&masks, facts, out, check, err);
    }
    check->reason = ks_findings_text(out, "%.0f %% of the tokens are padding", 100 * padding);
    return KS_OK;
}

const struct ks_rule ks_rule_input_padding = {
    .id = "input.padding",
    .title = "Padding is computed as if it were text",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
