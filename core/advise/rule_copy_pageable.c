/* Rule copy.pageable: blocking copies to the GPU from pageable memory.
 *
 * Claim: copies from pageable host memory to the device of at least 64 KiB on average take at least
 * 5% of the step on the device, while no kernel computes.
 *
 * Evidence: copies by operator (docs/analyses/syncs.md), their bytes and time on the device.
 *
 * Saving, per step: D is their time on the device, but no more than copies take while no kernel
 * computes; B are their bytes. Low: pinned memory still needs B / 25 GB/s (PCIe 4 x16; an H100 on
 * PCIe 5 reached 40). High: such a copy may run beside kernels, so all of D goes; a quarter more,
 * since the rate of pageable copies varies; and the time in which the GPU idles for reasons of the
 * host, since a copy that does not block lets the host run ahead.
 * Measured repairs: 29 ms where D was 23 ms, 5.4 ms where it was 3.7 ms.
 *
 * Silent when: gpu_step.c sees an obstacle (too few steps, no steps, no GPU work).
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"

static const double share_min = 0.05;
static const double pinned_bytes_per_ns = 25;
static const double high_factor = 1.25;

/* Time that these copies add to a step: kernels do not hide it. */
static int64_t alone_ns(const struct ks_mean_step *mean)
{
    int64_t device_ns = mean->pageable.device_ns;
    return device_ns < mean->copying_ns ? device_ns : mean->copying_ns;
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    const struct ks_step_cost *copies = &mean->pageable;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_copy_pageable);
    int64_t pinned_ns = (int64_t)(copies->bytes / pinned_bytes_per_ns);
    int64_t low_ns = alone_ns(mean) > pinned_ns ? alone_ns(mean) - pinned_ns : 0;
    int64_t idle_ns = ks_gpu_step_host_idle_ns(mean);
    finding.saving =
        (struct ks_saving){low_ns, ks_gpu_step_part(alone_ns(mean), high_factor) + idle_ns};
    finding.saving_in_trace = (struct ks_saving){low_ns, alone_ns(mean) + idle_ns};
    finding.bytes = (int64_t)copies->bytes;
    finding.fix_text = ks_findings_text(
        out,
        "Copy from pinned memory without blocking: %.0f MB a step come from pageable memory at "
        "%.1f GB/s, and pinned memory reaches 25 GB/s or more beside running kernels.",
        copies->bytes / 1e6, copies->bytes / (double)copies->device_ns);
    finding.fix_code = "DataLoader(dataset, ..., pin_memory=True)\n"
                       "batch = batch.to(device, non_blocking=True)";
    const struct ks_evidence evidence[] = {
        {"copied", copies->bytes, "bytes"},
        {"copying", (double)copies->device_ns, "ns"},
        {"copying_alone", (double)alone_ns(mean), "ns"},
        {"copies_per_step", copies->count, "count"},
        {"step", (double)mean->step_ns, "ns"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    finding.where.op = copies->worst->op;
    ks_findings_set_place(&finding.where, facts, copies->worst->op, KS_PLACE_COPY);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    if (!ks_gpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    int64_t copy_ns = alone_ns(mean);
    if (copy_ns > 0 && ks_gpu_step_is_share(mean, copy_ns, share_min)) {
        return report(facts, out, err);
    }
    check->reason = ks_findings_text(out,
                                     "no kernel hides %.2f of %.2f ms a step of copies from "
                                     "pageable memory",
                                     (double)copy_ns / 1e6, (double)mean->step_ns / 1e6);
    return KS_OK;
}

const struct ks_rule ks_rule_copy_pageable = {
    .id = "copy.pageable",
    .title = "Copies to the GPU from pageable memory",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
