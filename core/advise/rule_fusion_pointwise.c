/* Rule fusion.pointwise: kernels that do little but read and write memory follow each other, where
 * a compiler would make one of them.
 *
 * Claim: in chains of elementwise kernels, copies, norms and reductions with no other work between
 * them, of which at least 3 move 1 MiB and more, at least 5% of the step goes into reading what the
 * chain itself has just written, and fusing them would make the step at least 10% shorter. Where
 * torch's own fused operators are used, what is left are pairs, as a sum and a norm: a compiler
 * makes one of those too, but that is no fault.
 *
 * Evidence: operators that launch work, by name, shapes and types (docs/analyses/op_work.md): what
 * they read and write, and what of it lies outside of the chain.
 *
 * Saving, per step: replays of the recorded steps in which chains take a part of their time. On the
 * device, high: what has to be read and written at the rate of the chain's fastest kernel; low:
 * what may have to be, at 0.75 of the mean rate of the chain. On the host, high: as many launches
 * as chains and reductions in them; low: twice that, as a compiled function has guards, and makes
 * two kernels of some.
 *
 * Silent when: gpu_step.c sees an obstacle, or shapes were not recorded. Chains of an optimizer, of
 * attention in single operators and over a large vocabulary are other rules'.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"

static const double device_share_min = 0.05;
static const double share_min = 0.10;
static const double host_most = 2;

static double part(double kept, double all)
{
    return all > 0 && kept < all ? kept / all : 1;
}

static struct ks_replay_shrink shrink(const struct ks_pointwise_cost *cost, double host,
                                      double kept_ns)
{
    return (struct ks_replay_shrink){.marks = KS_REPLAY_POINTWISE,
                                     .host_part =
                                         part(host * cost->kept_launches, cost->cost.launches),
                                     .work_part = part(kept_ns, (double)cost->cost.device_ns)};
}

static struct ks_replay_change fused(const struct ks_pointwise_cost *cost, size_t end)
{
    struct ks_replay_change change = KS_REPLAY_UNCHANGED;
    change.shrinks[0] = shrink(cost, end == 0 ? 1 : host_most, (double)cost->kept_ns[end]);
    return change;
}

static bool is_share(const struct ks_facts *facts)
{
    const struct ks_pointwise_cost *cost = &facts->work.pointwise;
    int64_t lost_ns = cost->cost.device_ns - cost->kept_ns[1];
    return lost_ns > 0 && ks_gpu_step_is_share(&facts->mean_step, lost_ns, device_share_min);
}

struct ks_replay_shrink ks_fusion_pointwise_repair(const struct ks_facts *facts)
{
    const struct ks_pointwise_cost *cost = &facts->work.pointwise;
    return is_share(facts) ? shrink(cost, (1 + host_most) / 2,
                                    (double)cost->kept_ns[0] / 2 + (double)cost->kept_ns[1] / 2)
                           : (struct ks_replay_shrink){0};
}

/* "copy_, pow, mean ..." */
static const char *list_ops(const struct ks_facts *facts, struct ks_findings *out)
{
    const struct ks_pointwise_cost *cost = &facts->work.pointwise;
    const char *text = "";
    for (size_t i = 0; i < cost->op_count && text; i++) {
        struct ks_str name = ks_trace_str(facts->trace, cost->ops[i]);
        struct ks_str aten = KS_STR("aten::");
        size_t skipped = ks_str_starts(name, aten) ? aten.len : 0;
        text = ks_findings_text(out, "%s%s%.*s", text, i > 0 ? ", " : "", (int)(name.len - skipped),
                                name.ptr + skipped);
    }
    return text && cost->length > (double)cost->op_count ? ks_findings_text(out, "%s ...", text)
                                                         : text;
}

static void write_fix(const struct ks_facts *facts, struct ks_findings *out,
                      struct ks_finding *finding)
{
    const struct ks_pointwise_cost *cost = &facts->work.pointwise;
    const char *ops = list_ops(facts, out);
    finding->fix_text = ks_findings_text(
        out,
        "Let a compiler make one kernel of each chain: %.0f chains a step (%.0f kernels) take %.2f "
        "of %.2f ms. They read and write %.2f GB, which one kernel for each could do with %.2f to "
        "%.2f GB. The one that loses most has %.0f kernels: %s. Fused modules (nn.RMSNorm) do it "
        "without a compiler.",
        cost->cost.count, cost->cost.launches, (double)cost->cost.device_ns / 1e6,
        (double)facts->mean_step.step_ns / 1e6, cost->bytes / 1e9, cost->kept_bytes[0] / 1e9,
        cost->kept_bytes[1] / 1e9, cost->length, ops ? ops : "");
    finding->fix_code = "model = torch.compile(model)";
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_pointwise_cost *cost = &facts->work.pointwise;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_fusion_pointwise);
    const struct ks_replay_change sure = fused(cost, 1);
    const struct ks_replay_change most = fused(cost, 0);
    KS_TRY(ks_gpu_step_what_if_device(facts, &sure, &most, &finding, err));
    if (!ks_gpu_step_is_worth(facts, &finding, share_min)) {
        check->reason = ks_findings_text(
            out, "fusing chains of kernels would save %.2f to %.2f of %.2f ms a step",
            (double)finding.saving.low_ns / 1e6, (double)finding.saving.high_ns / 1e6,
            (double)facts->mean_step.step_ns / 1e6);
        return KS_OK;
    }
    write_fix(facts, out, &finding);
    const struct ks_evidence evidence[] = {
        {"chains_per_step", cost->cost.count, "count"},
        {"kernels_per_step", cost->cost.launches, "count"},
        {"chains_on_device", (double)cost->cost.device_ns, "ns"},
        {"chains_on_host", (double)cost->cost.host_ns, "ns"},
        {"moved", cost->bytes, "bytes"},
        {"moved_by_fused_at_least", cost->kept_bytes[0], "bytes"},
        {"moved_by_fused_at_most", cost->kept_bytes[1], "bytes"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    ks_gpu_step_set_work(&finding.where, facts, &cost->cost, cost->op);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_pointwise_cost *cost = &facts->work.pointwise;
    if (!ks_gpu_step_can_judge_shapes(facts, check)) {
        return KS_OK;
    }
    if (is_share(facts)) {
        return report(facts, out, check, err);
    }
    check->reason = ks_findings_text(
        out, "chains of kernels that move memory take the GPU %.2f ms a step, fused %.2f at most",
        (double)cost->cost.device_ns / 1e6, (double)cost->kept_ns[1] / 1e6);
    return KS_OK;
}

const struct ks_rule ks_rule_fusion_pointwise = {
    .id = "fusion.pointwise",
    .title = "Kernels read again what the one before them wrote",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true, /* work on the GPU that hides how slowly the host launches */
    .check = check,
};
