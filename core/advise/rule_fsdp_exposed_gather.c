/* Rule fsdp.exposed_gather: compute waits for parameters that FSDP gathers.
 *
 * Claim: all-gathers of sharded parameters move data for at least 5% of the step while no kernel
 * runs, waiting for ranks that come later apart, and hiding them saves as much.
 *
 * Evidence: collectives that FSDP's annotations start (docs/analyses/collectives.md). One unit
 * holds the model when a quarter of what a step gathers comes at once (without sizes: when a step
 * gathers twice at most): nothing can be computed before all of it is there, and no gradient is
 * summed up before all of them are. Otherwise units are there, but gathered too late.
 *
 * Saving, per step: replays of the recorded steps in which gathers (of one unit: and the sums of
 * gradients) are shorter by what compute can hide: no more than there is compute that hides
 * nothing yet (high). Low: gathers alone, those that come first stay (of one unit: a quarter, as of
 * four blocks, and they are hidden by the forward pass alone, a third of compute), and a quarter is
 * lost because compute beside a collective is slower, which takes up to 32 of 132 multiprocessors.
 * No saving is more than the time that is hidden.
 *
 * Silent when: gpu_step.c sees an obstacle, or nothing is sharded. When not all ranks were read,
 * low counts the time that the bytes need on the fastest link, and high the shortest of each gather
 * in all steps.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"
#include "advise/shards.h"
#include "measure/sum.h"

static const double share_min = 0.05;
static const double one_unit_part = 0.25;
static const double one_unit_kept = 0.25;
static const double forward_part = 1.0 / 3.0;
static const double beside_part = 0.75;

static int64_t least(int64_t a, int64_t b)
{
    int64_t ns = a < b ? a : b;
    return ns > 0 ? ns : 0;
}

static bool is_one_unit(const struct ks_shard_cost *gathers)
{
    return gathers->bytes_max > 0 ? (double)gathers->bytes_max >= one_unit_part * gathers->bytes
                                  : gathers->count <= 2;
}

/* Compute of a mean step that hides no collective of these yet. */
static int64_t free_compute_ns(const struct ks_comm_fact *comm)
{
    int64_t sum_ns = 0;
    for (size_t i = 0; i < comm->rank_count; i++) {
        sum_ns = ks_sum_add(sum_ns, comm->ranks[i].compute_ns / (int64_t)comm->rank_count);
    }
    const struct ks_shard_cost *costs[] = {&comm->shards.gathers, &comm->shards.scatters};
    for (size_t i = 0; i < KS_COUNT_OF(costs); i++) {
        sum_ns = ks_sum_sub(sum_ns, ks_sum_sub(costs[i]->transfer_ns, costs[i]->exposed_ns));
    }
    return sum_ns;
}

static int64_t sure_ns(const struct ks_comm_fact *comm)
{
    const struct ks_shard_cost *gathers = &comm->shards.gathers;
    int64_t free_ns = free_compute_ns(comm);
    if (is_one_unit(gathers)) {
        free_ns = ks_gpu_step_part(free_ns, forward_part);
        return least(ks_gpu_step_part(gathers->exposed_sure_ns, 1 - one_unit_kept), free_ns);
    }
    return least(ks_sum_sub(gathers->exposed_sure_ns, gathers->first_ns), free_ns);
}

/* Exposed time that the repair can hide. */
static int64_t hidden_most_ns(const struct ks_comm_fact *comm)
{
    const struct ks_shard_fact *shards = &comm->shards;
    int64_t scatter_ns = is_one_unit(&shards->gathers) ? shards->scatters.exposed_ns : 0;
    return least(ks_sum_add(shards->gathers.exposed_ns, scatter_ns), free_compute_ns(comm));
}

static int64_t hidden_sure_ns(const struct ks_comm_fact *comm)
{
    return ks_gpu_step_part(sure_ns(comm), beside_part);
}

/* Part that stays of what is exposed. */
static double part_left(int64_t hidden_ns, int64_t exposed_ns)
{
    return exposed_ns > 0 ? 1 - (double)least(hidden_ns, exposed_ns) / (double)exposed_ns : 1;
}

static enum ks_status set_savings(const struct ks_facts *facts, struct ks_finding *finding,
                                  struct ks_err *err)
{
    const struct ks_comm_fact *comm = &facts->comm;
    bool is_one = is_one_unit(&comm->shards.gathers);
    int64_t gather_ns = comm->shards.gathers.exposed_ns;
    int64_t all_ns = ks_sum_add(gather_ns, is_one ? comm->shards.scatters.exposed_ns : 0);
    struct ks_replay_change sure = KS_REPLAY_UNCHANGED;
    struct ks_replay_change most = KS_REPLAY_UNCHANGED;
    unsigned all = is_one ? KS_REPLAY_GATHER | KS_REPLAY_SCATTER : KS_REPLAY_GATHER;
    double sure_left = part_left(hidden_sure_ns(comm), gather_ns);
    double least_left = part_left(hidden_most_ns(comm), all_ns);
    sure.shrinks[0] = (struct ks_replay_shrink){KS_REPLAY_GATHER, 1, sure_left, false};
    most.shrinks[0] = (struct ks_replay_shrink){all, 1, least_left, false};
    KS_TRY(ks_gpu_step_what_if_device(facts, &sure, &most, finding, err));
    struct ks_saving *savings[] = {&finding->saving, &finding->saving_in_trace};
    for (size_t i = 0; i < KS_COUNT_OF(savings); i++) {
        savings[i]->high_ns = least(savings[i]->high_ns, hidden_most_ns(comm));
        savings[i]->low_ns = least(savings[i]->low_ns, hidden_sure_ns(comm));
    }
    return KS_OK;
}

static void explain(struct ks_findings *out, const struct ks_shard_cost *gathers,
                    struct ks_finding *finding)
{
    double exposed_ms = (double)gathers->exposed_ns / 1e6;
    bool is_fp32 = gathers->bytes > 0 && 2 * gathers->fp32_bytes >= gathers->bytes;
    const char *halve = is_fp32 ? " They travel in fp32: MixedPrecisionPolicy(param_dtype="
                                  "torch.bfloat16) halves what is gathered."
                                : "";
    if (is_one_unit(gathers)) {
        finding->fix_text = ks_findings_text(
            out,
            "Shard block by block: %.1f MiB of parameters come in %.0f all-gathers a step, and for "
            "%.1f ms nothing can be computed before they are there. Call fully_shard on each "
            "block, "
            "then on the model (FSDP1: auto_wrap_policy), so that the next block is gathered, and "
            "gradients are summed up, while one computes. Blocks should compute for longer than "
            "the host needs to start them.%s",
            gathers->bytes / (1024.0 * 1024.0), gathers->count, exposed_ms, halve);
        finding->fix_code = "from torch.distributed.fsdp import fully_shard\n"
                            "for block in blocks:  # layers of the model\n"
                            "    fully_shard(block)\n"
                            "fully_shard(model)";
    } else {
        finding->fix_text = ks_findings_text(
            out,
            "Gather earlier: %.0f all-gathers a step bring parameters together, and compute waits "
            "for them for %.1f ms. Let each block start the gather of the one behind it "
            "(set_modules_to_forward_prefetch and set_modules_to_backward_prefetch; FSDP1: "
            "forward_prefetch=True, backward_prefetch=BackwardPrefetch.BACKWARD_PRE). Where a "
            "gather "
            "takes longer than the compute that could hide it, give each step more compute.%s",
            gathers->count, exposed_ms, halve);
        finding->fix_code =
            "from torch.distributed.fsdp import FSDPModule\n"
            "units = [unit for unit in model.modules() if isinstance(unit, FSDPModule)]\n"
            "for unit, following in zip(units[1:], units[2:]):  # the first is the whole model\n"
            "    unit.set_modules_to_forward_prefetch([following])\n"
            "    following.set_modules_to_backward_prefetch([unit])";
    }
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_finding *finding, struct ks_err *err)
{
    const struct ks_shard_fact *shards = &facts->comm.shards;
    explain(out, &shards->gathers, finding);
    finding->verify = "kscope report rank*.json  # with the fix: gathers run beside kernels";
    finding->group = ks_rule_comm_exposed.id; /* it names why these are exposed */
    const struct ks_evidence evidence[] = {
        {"exposed_gathers", (double)shards->gathers.exposed_ns, "ns"},
        {"gathers", (double)shards->gathers.transfer_ns, "ns"},
        {"gathers_per_step", shards->gathers.count, "count"},
        {"gathered_per_step", shards->gathers.bytes, "bytes"},
        {"largest_gather", (double)shards->gathers.bytes_max, "bytes"},
        {"exposed_gradient_sums", (double)shards->scatters.exposed_ns, "ns"},
        {"compute_that_hides_none", (double)free_compute_ns(&facts->comm), "ns"},
    };
    ks_finding_show(finding, evidence, KS_COUNT_OF(evidence));
    return ks_findings_add(out, facts, finding, err);
}

enum ks_status ks_shards_judge(const struct ks_facts *facts, struct ks_finding *finding,
                               bool *is_found, struct ks_err *err)
{
    const struct ks_shard_cost *gathers = &facts->comm.shards.gathers;
    *is_found = false;
    *finding = ks_gpu_step_finding(&ks_rule_fsdp_exposed_gather);
    if (!facts->mean_step.obstacle &&
        ks_gpu_step_is_share(&facts->mean_step, gathers->exposed_ns, share_min)) {
        KS_TRY(set_savings(facts, finding, err));
        *is_found = ks_gpu_step_is_worth(facts, finding, share_min);
    }
    return KS_OK;
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_shard_cost *gathers = &facts->comm.shards.gathers;
    struct ks_finding finding;
    bool is_found = false;
    if (!ks_gpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    KS_TRY(ks_shards_judge(facts, &finding, &is_found, err));
    if (is_found) {
        return report(facts, out, &finding, err);
    }
    check->reason = ks_findings_text(
        out, "%.1f all-gathers of sharded parameters move data for %.2f of %.2f ms a step alone",
        gathers->count, (double)gathers->exposed_ns / 1e6, (double)facts->mean_step.step_ns / 1e6);
    return KS_OK;
}

const struct ks_rule ks_rule_fsdp_exposed_gather = {
    .id = "fsdp.exposed_gather",
    .title = "Compute waits for parameters that are gathered",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
