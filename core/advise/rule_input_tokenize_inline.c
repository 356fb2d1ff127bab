/* Rule input.tokenize_inline: the training thread cuts text into tokens between two steps.
 *
 * Claim: of the code that host.python_gap is about, at least half is in functions that tokenize,
 * and without them the step would be at least 5% shorter.
 *
 * Evidence: Python frames of a recording with stacks (docs/analyses/tokenizing.md). Tokenizing
 * inside of the data loader is input.starved.
 *
 * Saving, per step: that of host.python_gap, of the part of its time that tokenizes. P is that part
 * of the recording with stacks, which makes code of many short calls up to twice as slow as other
 * code: high is P, low is P / (P + 2 (1 - P)).
 *
 * Silent when: no recording has Python frames, or steps cannot be judged. Then, and below the half,
 * host.python_gap says that some code is in the way.
 */
#include "advise/cpu_step.h"
#include "advise/gpu_step.h"
#include "advise/registry.h"

static const double part_min = 0.50;
static const double share_min = 0.05;
static const double stacks_factor = 2;

/* Part of the code between operators that tokenizes, 0-1: at least, and at most. */
static void set_parts(const struct ks_tokenize_fact *fact, double parts[2])
{
    parts[1] = fact->code_ns > 0 ? (double)fact->tokenize_ns / (double)fact->code_ns : 0;
    parts[1] = parts[1] > 1 ? 1 : parts[1];
    parts[0] = parts[1] / (parts[1] + stacks_factor * (1 - parts[1]));
}

/* False: there is little code between operators. */
static bool set_cpu_savings(const struct ks_facts *facts, const double parts[2],
                            struct ks_finding *finding)
{
    struct ks_saving gap;
    uint32_t source = 0;
    if (!ks_cpu_step_gap(facts, &gap, &source)) {
        return false;
    }
    *finding = ks_cpu_step_finding(&ks_rule_input_tokenize_inline, facts, source);
    finding->saving = (struct ks_saving){ks_gpu_step_part(gap.low_ns, parts[0]),
                                         ks_gpu_step_part(gap.high_ns, parts[1])};
    finding->saving_in_trace = finding->saving;
    return true;
}

static enum ks_status set_gpu_savings(const struct ks_facts *facts, const double parts[2],
                                      struct ks_finding *finding, struct ks_err *err)
{
    const struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    struct ks_replay_change sure = before;
    struct ks_replay_change most = before;
    sure.gap_factor = 1 - parts[0];
    most.gap_factor = 1 - parts[1];
    return ks_gpu_step_what_if(facts, &before, &sure, &most, finding, err);
}

static enum ks_status add(const struct ks_facts *facts, const double parts[2],
                          struct ks_finding *finding, struct ks_findings *out, struct ks_err *err)
{
    const struct ks_tokenize_fact *fact = &facts->tokenizing;
    bool has_place = fact->file.len > 0;
    finding->fix_text = ks_findings_text(
        out,
        "Cut the text into tokens before training, or in the data loader's workers: %.0f %% of the "
        "code between operators%s%.*s%s does it on the training thread. A fast tokenizer (Rust) "
        "that takes a whole batch is many times as fast as one in Python.",
        100 * parts[1], has_place ? ", in " : "", has_place ? (int)fact->function.len : 0,
        has_place ? fact->function.ptr : "", has_place ? "()," : "");
    finding->fix_code = "dataset = [tokenizer(text) for text in samples]  # once, before training\n"
                        "loader = DataLoader(dataset, batch_size=batch_size)";
    const struct ks_evidence evidence[] = {
        {"tokenizing_of_code", parts[1], "share"},
        {"tokenizing_with_stacks", (double)fact->tokenize_ns, "ns"},
        {"code_with_stacks", (double)fact->code_ns, "ns"},
        {"calls_with_stacks", (double)fact->calls, "count"},
    };
    ks_finding_show(finding, evidence, KS_COUNT_OF(evidence));
    finding->where.file = fact->file;
    finding->where.line = fact->line;
    return ks_findings_add(out, facts, finding, err);
}

static enum ks_status report(const struct ks_facts *facts, const double parts[2],
                             struct ks_findings *out, struct ks_check *check, struct ks_err *err)
{
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_input_tokenize_inline);
    bool is_large = true;
    if (facts->has_gpu) {
        KS_TRY(set_gpu_savings(facts, parts, &finding, err));
        is_large = ks_gpu_step_is_worth(facts, &finding, share_min);
    } else {
        is_large = set_cpu_savings(facts, parts, &finding);
    }
    if (is_large) {
        return add(facts, parts, &finding, out, err);
    }
    check->reason = "text is cut into tokens between operators, but that takes little of the step";
    return KS_OK;
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    double parts[2];
    if (!ks_cpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    if (!facts->tokenizing.is_known) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = "no Python frames were recorded (with_stack=True records them)";
        return KS_OK;
    }
    set_parts(&facts->tokenizing, parts);
    if (parts[1] >= part_min) {
        return report(facts, parts, out, check, err);
    }
    check->reason = ks_findings_text(
        out, "%.0f %% of the code between operators cuts text into tokens", 100 * parts[1]);
    return KS_OK;
}

const struct ks_rule ks_rule_input_tokenize_inline = {
    .id = "input.tokenize_inline",
    .title = "The training thread cuts text into tokens",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
