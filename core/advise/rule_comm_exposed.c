/* Rule comm.exposed: collectives move data while the GPU computes nothing.
 *
 * Claim: collectives that no kernel hides take at least 5% of the step, waiting for ranks that come
 * later apart, and the step gets shorter by that much if collectives take no time.
 *
 * Evidence: collectives matched on all ranks (docs/analyses/collectives.md): one moves data
 * for as long as on the rank where it is shortest; before that, others were waited for.
 *
 * Saving, per step: a replay of the recorded steps in which collectives take no time (high), and
 * one in which they take half of it, which is what fp32 gradients sent as bf16 leave (low: a
 * quarter where they are sent in 16 bits already).
 *
 * What fsdp.exposed_gather explains of it is no ground to come before that rule.
 *
 * Silent when: gpu_step.c sees an obstacle, or the recording of one rank alone was read: waiting
 * and moving look alike then.
 */
#include "advise/gpu_step.h"
#include "advise/late_rank.h"
#include "advise/registry.h"
#include "advise/shards.h"
#include "measure/sum.h"

static const double share_min = 0.05;
static const double sure_part_fp32 = 0.5;
static const double sure_part = 0.25;

/* Mean of all ranks. */
static int64_t exposed_ns(const struct ks_comm_fact *comm)
{
    int64_t sum_ns = 0;
    for (size_t i = 0; i < comm->rank_count; i++) {
        sum_ns += comm->ranks[i].exposed_transfer_ns / (int64_t)comm->rank_count;
    }
    return sum_ns;
}

static bool is_fp32(const struct ks_facts *facts)
{
    const struct ks_gradient_fact *gradients = &facts->comm.gradients;
    return gradients->bytes > 0 && 2 * gradients->fp32_bytes >= gradients->bytes;
}

static enum ks_status set_savings(const struct ks_facts *facts, struct ks_finding *finding,
                                  struct ks_err *err)
{
    const struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    struct ks_replay_change sure = before;
    sure.collective_factor = 1 - (is_fp32(facts) ? sure_part_fp32 : sure_part);
    struct ks_replay_change most = before;
    most.collective_factor = 0;
    return ks_gpu_step_what_if(facts, &before, &sure, &most, finding, err);
}

/* Orders the finding by what collectives of other kinds than those of FSDP are exposed. */
static enum ks_status put_behind_shards(const struct ks_facts *facts, struct ks_finding *finding,
                                        struct ks_err *err)
{
    const struct ks_shard_fact *shards = &facts->comm.shards;
    struct ks_finding gathers;
    bool is_found = false;
    KS_TRY(ks_shards_judge(facts, &gathers, &is_found, err));
    if (is_found) {
        double all = (double)exposed_ns(&facts->comm);
        double sharded =
            (double)ks_sum_add(shards->gathers.exposed_ns, shards->scatters.exposed_ns);
        int64_t middle_ns = finding->saving.low_ns / 2 + finding->saving.high_ns / 2;
        finding->order_ns = 1 + ks_gpu_step_part(middle_ns, 1 - sharded / all);
    }
    return KS_OK;
}

/* Static text. */
static const char *advice_of(const struct ks_facts *facts)
{
    if (ks_shards_are_there(facts)) {
        return is_fp32(facts) ? "Gradients of sharded parameters can travel in 16 bits in place of "
                                "fp32, and less often with set_requires_gradient_sync(False)"
                              : "Gradients of sharded parameters can travel less often with "
                                "set_requires_gradient_sync(False)";
    }
    return is_fp32(facts) ? "Gradients can travel during the backward pass (buckets of 25 MB, no "
                            "find_unused_parameters), in 16 bits in place of fp32, and less often "
                            "with gradient accumulation under no_sync()"
                          : "Gradients can travel during the backward pass (buckets of 25 MB, no "
                            "find_unused_parameters), compressed, and less often with gradient "
                            "accumulation under no_sync()";
}

static const char *code_of(const struct ks_facts *facts)
{
    if (ks_shards_are_there(facts)) {
        return KS_SHARDS_16_BITS;
    }
    return is_fp32(facts)
               ? "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
                 "model.register_comm_hook(None, default_hooks.bf16_compress_hook)"
               : "from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook\n"
                 "state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2)\n"
                 "model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)  # compare the loss";
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_finding *finding, struct ks_err *err)
{
    const struct ks_comm_fact *comm = &facts->comm;
    double exposed_ms = (double)exposed_ns(comm) / 1e6;
    finding->fix_text = ks_findings_text(
        out,
        "Hide or shrink them: collectives move data for %.1f ms a step while nothing is computed. "
        "%s.",
        exposed_ms, advice_of(facts));
    finding->fix_code = code_of(facts);
    finding->verify = "kscope report rank*.json  # with the fix: exposed communication is shorter";
    const struct ks_evidence evidence[] = {
        {"exposed_transfer", (double)exposed_ns(comm), "ns"},
        {"exposed", (double)comm->ranks[0].exposed_ns, "ns"},
        {"collectives", (double)comm->ranks[0].comm_ns, "ns"},
        {"waiting_for_ranks", (double)comm->ranks[0].wait_ns, "ns"},
        {"collectives_per_step", comm->ranks[0].collectives, "count"},
    };
    ks_finding_show(finding, evidence, KS_COUNT_OF(evidence));
    return ks_findings_add(out, facts, finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    if (!ks_late_rank_can_judge(facts, check)) {
        return KS_OK;
    }
    if (ks_gpu_step_is_share(mean, exposed_ns(&facts->comm), share_min)) {
        struct ks_finding finding = ks_gpu_step_finding(&ks_rule_comm_exposed);
        KS_TRY(set_savings(facts, &finding, err));
        KS_TRY(put_behind_shards(facts, &finding, err));
        if (ks_gpu_step_is_share(mean, finding.saving.high_ns, share_min)) {
            return report(facts, out, &finding, err);
        }
    }
    check->reason =
        ks_findings_text(out, "collectives that nothing hides move data for %.2f of %.2f ms a step",
                         (double)exposed_ns(&facts->comm) / 1e6, (double)mean->step_ns / 1e6);
    return KS_OK;
}

const struct ks_rule ks_rule_comm_exposed = {
    .id = "comm.exposed",
    .title = "Collectives move data while nothing is computed",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
