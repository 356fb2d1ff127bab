/* Rule attention.backend: scaled_dot_product_attention runs a slow kernel where a faster one can
 * work.
 *
 * Claim: on a GPU of compute capability 8.0 or newer it falls back to single operators
 * (_scaled_dot_product_attention_math), or runs the memory-efficient kernel in bf16 or fp16 without
 * a mask and for heads of a multiple of 8 up to 256, where flash attention and cuDNN can work; with
 * those the step would be at least 5% shorter.
 *
 * Evidence: torch's own operators for each backend, their shapes and types, and the nodes of their
 * backward pass (docs/analyses/op_work.md).
 *
 * Saving, per step: replays of the recorded steps in which these operators take a part of their
 * time; of two kinds what takes longer is named. Measured on an H100, forward and backward, 128 to
 * 2048 tokens, of the memory-efficient kernel's time the better of flash and cuDNN took 0.27 to
 * 0.90 in bf16; of the single operators' 0.05 to 0.24, and in fp32 the memory-efficient kernel 0.43
 * to 0.98.
 *
 * Silent when: gpu_step.c sees an obstacle, shapes were not recorded, or the GPU is older or
 * unknown.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"

enum { CAPABILITY_MIN = 8 };

static const double share_min = 0.05;

/* What stays on the device: at least and at most. */
static const double efficient_parts[2] = {0.27, 0.90};
static const double math_half_parts[2] = {0.05, 0.24};
static const double math_single_parts[2] = {0.43, 0.98};
/* Of single operators, on the host: one operator stays of 10 to 20. */
static const double math_host_parts[2] = {0.10, 0.40};

/* Both at once: a program may have some of each. Nothing has the marks of a kind that is not there.
 */
static struct ks_replay_change faster(const struct ks_facts *facts, size_t end)
{
    bool is_half = facts->work.attention[KS_ATTENTION_MATH].is_half;
    struct ks_replay_change change = KS_REPLAY_UNCHANGED;
    change.shrinks[0] = (struct ks_replay_shrink){.marks = KS_REPLAY_MATH,
                                                  .host_part = math_host_parts[end],
                                                  .work_part = is_half ? math_half_parts[end]
                                                                       : math_single_parts[end]};
    change.shrinks[1] = (struct ks_replay_shrink){
        .marks = KS_REPLAY_EFFICIENT, .host_part = 1, .work_part = efficient_parts[end]};
    return change;
}

static void write_fix(const struct ks_attention_cost *attention, enum ks_attention_kind kind,
                      struct ks_findings *out, struct ks_finding *finding)
{
    bool is_math = kind == KS_ATTENTION_MATH;
    const char *cause = !is_math ? "the memory-efficient kernel runs where flash attention can"
                        : attention->is_half
                            ? "it falls back to single operators that write the scores to memory"
                            : "it falls back to single operators, in fp32";
    finding->fix_text = ks_findings_text(
        out,
        "Let a faster kernel compute attention: %s, %.0f times a step for %lld queries, %lld keys "
        "and heads of %lld, which takes %.2f ms of the GPU. Look for sdpa_kernel() and "
        "torch.backends.cuda.enable_*_sdp() in the program, for fp32 inputs, and for masks that "
        "is_causal=True can replace; the code below says what keeps a kernel from working.",
        cause, attention->cost.count, (long long)attention->rows, (long long)attention->columns,
        (long long)attention->head_dim, (double)attention->cost.device_ns / 1e6);
    finding->fix_code = "from torch.nn.attention import SDPBackend, sdpa_kernel\n"
                        "with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):  # warns why not\n"
                        "    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)";
}

static enum ks_status report(enum ks_attention_kind kind, const struct ks_facts *facts,
                             struct ks_findings *out, struct ks_check *check, struct ks_err *err)
{
    const struct ks_attention_cost *attention = &facts->work.attention[kind];
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_attention_backend);
    const struct ks_replay_change sure = faster(facts, 1);
    const struct ks_replay_change most = faster(facts, 0);
    KS_TRY(ks_gpu_step_what_if_device(facts, &sure, &most, &finding, err));
    if (!ks_gpu_step_is_worth(facts, &finding, share_min)) {
        check->reason = "another kernel for attention would save less than 5 % of the step";
        return KS_OK;
    }
    write_fix(attention, kind, out, &finding);
    finding.cause = kind == KS_ATTENTION_MATH ? "math" : "efficient";
    const struct ks_evidence evidence[] = {
        {"calls_per_step", attention->cost.count, "count"},
        {"attention_on_device", (double)attention->cost.device_ns, "ns"},
        {"head_dim", (double)attention->head_dim, "count"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    ks_gpu_step_set_work(&finding.where, facts, &attention->cost, attention->op);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    if (!ks_gpu_step_can_judge_shapes(facts, check)) {
        return KS_OK;
    }
    if (ks_gpu_step_capability(facts) < CAPABILITY_MIN) {
        check->reason = "no GPU of compute capability 8.0 or newer is known";
        return KS_OK;
    }
    const struct ks_work_cost *math = &facts->work.attention[KS_ATTENTION_MATH].cost;
    const struct ks_work_cost *efficient = &facts->work.attention[KS_ATTENTION_EFFICIENT].cost;
    if (math->count > 0 || efficient->count > 0) {
        bool is_math = efficient->count <= 0 || math->device_ns > efficient->device_ns;
        return report(is_math ? KS_ATTENTION_MATH : KS_ATTENTION_EFFICIENT, facts, out, check, err);
    }
    check->reason = "scaled_dot_product_attention runs no kernel that a faster one can replace";
    return KS_OK;
}

const struct ks_rule ks_rule_attention_backend = {
    .id = "attention.backend",
    .title = "scaled_dot_product_attention runs a slow kernel",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
