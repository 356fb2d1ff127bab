/* Rule comm.fp32_payload: gradients travel in fp32 while the model computes in 16 bits.
 *
 * Claim: at least half of the bytes of gradients are summed up in fp32, tensor cores take at least
 * TENSOR_SHARE_MIN of the compute time, and collectives that take half as long make the step at
 * least 3% shorter.
 *
 * Evidence: collectives of the autograd engine with sizes and types (docs/analyses/collectives.md),
 * kernels that use tensor cores. With autocast parameters stay in fp32, and so do their gradients.
 *
 * Saving, per step: a replay of the recorded steps in which collectives take half of their time,
 * for the part of their bytes that is gradients in fp32 (high); low is half of that, since latency
 * does not shrink, and packing costs a kernel each way.
 *
 * Silent when: gpu_step.c sees an obstacle, the recording of one rank alone was read (waiting for
 * ranks would count as moving), or sizes of collectives were not recorded.
 */
#include "advise/gpu_step.h"
#include "advise/late_rank.h"
#include "advise/registry.h"
#include "advise/shards.h"

static const double share_min = 0.03;
static const double tensor_share_min = 0.2; /* of fp32 models only products by tf32 use them */
static const double part_left = 0.5;

static double tensor_share(const struct ks_facts *facts)
{
    double sum = 0;
    for (size_t i = 0; i < facts->device_count; i++) {
        sum += facts->devices[i].tensor_core_share > 0 ? facts->devices[i].tensor_core_share : 0;
    }
    return facts->device_count > 0 ? sum / (double)facts->device_count : 0;
}

static enum ks_status set_savings(const struct ks_facts *facts, struct ks_finding *finding,
                                  struct ks_err *err)
{
    const struct ks_gradient_fact *gradients = &facts->comm.gradients;
    const struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    double part = gradients->fp32_bytes / gradients->bytes;
    struct ks_replay_change after = before;
    after.collective_factor = 1 - part * (1 - part_left);
    KS_TRY(ks_gpu_step_what_if(facts, &before, &after, &after, finding, err));
    finding->saving.low_ns /= 2;
    finding->saving_in_trace.low_ns /= 2;
    return KS_OK;
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_finding *finding, struct ks_err *err)
{
    const struct ks_gradient_fact *gradients = &facts->comm.gradients;
    finding->fix_text = ks_findings_text(
        out,
        "Send gradients as bf16: %.1f MiB a step are summed up in fp32, while tensor cores compute "
        "in 16 bits. %s halves what travels; sums then have 8 bits of mantissa, so "
        "compare the loss.",
        gradients->fp32_bytes / (1024.0 * 1024.0),
        ks_shards_are_there(facts) ? "The policy below" : "The hook below");
    finding->fix_code =
        ks_shards_are_there(facts)
            ? KS_SHARDS_16_BITS
            : "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
              "model.register_comm_hook(None, default_hooks.bf16_compress_hook)";
    finding->verify = "kscope report rank*.json  # with the fix: collectives move half as much";
    finding->group = ks_rule_comm_exposed.id; /* what travels less is exposed less */
    const struct ks_evidence evidence[] = {
        {"fp32_bytes_per_step", gradients->fp32_bytes, "bytes"},
        {"bytes_per_step", gradients->bytes, "bytes"},
        {"tensor_core_share", tensor_share(facts), "share"},
    };
    ks_finding_show(finding, evidence, KS_COUNT_OF(evidence));
    return ks_findings_add(out, facts, finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_gradient_fact *gradients = &facts->comm.gradients;
    if (!ks_late_rank_can_judge(facts, check)) {
        return KS_OK;
    }
    if (gradients->bytes > 0 && 2 * gradients->fp32_bytes >= gradients->bytes &&
        tensor_share(facts) >= tensor_share_min) {
        struct ks_finding finding = ks_gpu_step_finding(&ks_rule_comm_fp32_payload);
        KS_TRY(set_savings(facts, &finding, err));
        if (ks_gpu_step_is_share(&facts->mean_step, finding.saving.high_ns, share_min)) {
            return report(facts, out, &finding, err);
        }
    }
    check->reason = ks_findings_text(
        out, "%.1f of %.1f MiB of gradients a step are in fp32, and tensor cores take %.0f %%",
        gradients->fp32_bytes / (1024.0 * 1024.0), gradients->bytes / (1024.0 * 1024.0),
        100 * tensor_share(facts));
    return KS_OK;
}

const struct ks_rule ks_rule_comm_fp32_payload = {
    .id = "comm.fp32_payload",
    .title = "Gradients travel in fp32 beside 16-bit compute",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
