/* Rule comm.small_buckets: gradients are summed up in many small collectives.
 *
 * Claim: at least COUNT_MIN collectives a step sum up gradients in 32 KiB to 4 MiB each, at least
 * four times as many as buckets of 25 MiB would need, and merging them saves at least 3% of the
 * step. Smaller ones are statistics of normalisation layers, not buckets.
 *
 * Evidence: collectives of the autograd engine with sizes (docs/analyses/collectives.md).
 *
 * Saving, per step: replays of the recorded steps without the operators that start collectives,
 * their part that is too many; low: the collectives run all the same. High: and half as much host
 * time again, since each collective has its own work before and behind (copies into the bucket,
 * events, futures), and without the collectives.
 *
 * Silent when: gpu_step.c sees an obstacle, or sizes of collectives were not recorded.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"
#include "measure/sum.h"

#include <math.h>

enum { COUNT_MIN = 16, BUCKET_MIB = 25 /* what DistributedDataParallel does unasked */ };

static const double times_min = 4;
static const double share_min = 0.03;
/* A recording with a measured repair: 121 collectives of 83 us of the host each, 10.0 ms a step;
 * five in their place saved 14.5 ms. */
static const double host_extra = 0.5;

/* Buckets that the bytes need, and the first one, which is small so that it starts early. */
static double buckets_needed(const struct ks_gradient_fact *gradients)
{
    return ceil(gradients->small_bytes / (BUCKET_MIB * 1024.0 * 1024.0)) + 1;
}

static enum ks_status set_savings(const struct ks_facts *facts, struct ks_finding *finding,
                                  struct ks_err *err)
{
    const struct ks_gradient_fact *gradients = &facts->comm.gradients;
    double part = (gradients->small - buckets_needed(gradients)) / gradients->count;
    return ks_gpu_step_what_if_fewer_collectives(facts, part, part * (1 + host_extra), finding,
                                                 err);
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_finding *finding, struct ks_err *err)
{
    const struct ks_gradient_fact *gradients = &facts->comm.gradients;
    double mib = gradients->small_bytes / (1024.0 * 1024.0);
    finding->fix_text = ks_findings_text(
        out,
        "Make buckets larger: %.0f collectives a step sum up %.1f MiB of gradients, %.2f MiB each. "
        "Each costs the host and the link a fixed time, whatever it carries; with "
        "bucket_cap_mb=%d about %.0f are left.",
        gradients->small, mib, mib / gradients->small, BUCKET_MIB, buckets_needed(gradients));
    finding->fix_code = ks_findings_text(
        out,
        "model = DistributedDataParallel(model, bucket_cap_mb=%d, gradient_as_bucket_view=True)",
        BUCKET_MIB);
    finding->verify = "kscope report rank*.json  # with the fix: collectives a step must be fewer";
    const struct ks_evidence evidence[] = {
        {"small_per_step", gradients->small, "count"},
        {"bytes_each", gradients->small_bytes / gradients->small, "bytes"},
        {"bytes_per_step", gradients->small_bytes, "bytes"},
        {"needed_per_step", buckets_needed(gradients), "count"},
        {"transfers", (double)gradients->small_transfer_ns, "ns"},
    };
    ks_finding_show(finding, evidence, KS_COUNT_OF(evidence));
    return ks_findings_add(out, facts, finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_gradient_fact *gradients = &facts->comm.gradients;
    if (!ks_gpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    if (gradients->small >= COUNT_MIN &&
        gradients->small >= times_min * buckets_needed(gradients)) {
        struct ks_finding finding = ks_gpu_step_finding(&ks_rule_comm_small_buckets);
        KS_TRY(set_savings(facts, &finding, err));
        if (ks_gpu_step_is_worth(facts, &finding, share_min)) {
            return report(facts, out, &finding, err);
        }
    }
    check->reason = ks_findings_text(out,
                                     "%.1f collectives a step sum up gradients, %.1f of them in "
                                     "32 KiB to 4 MiB",
                                     gradients->count, gradients->small);
    return KS_OK;
}

const struct ks_rule ks_rule_comm_small_buckets = {
    .id = "comm.small_buckets",
    .title = "Gradients are summed up in many small collectives",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
