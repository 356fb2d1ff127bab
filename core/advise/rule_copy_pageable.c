/* Rule copy.pageable: blocking copies to the GPU from pageable memory.
 *
 * Claim: copies from pageable host memory to the device of at least 64 KiB on average take at least
 * 5% of the step on the device.
 *
 * Evidence: copies by operator (docs/analyses/syncs.md), their bytes and time on the device.
 *
 * Saving, per step: D is their time on the device, B their bytes. Low: pinned memory still needs
 * B / PINNED_BYTES_PER_S (25 GB/s: PCIe 4 x16; an H100 on PCIe 5 reached 40). High: such a copy may
 * run beside kernels, so all of D goes, and a quarter more, since the staging copy of the driver
 * varies: 23 ms under the profiler were 29 ms without it on an H100 host.
 *
 * Silent when: step_means.c sees an obstacle (too few steps, no steps, no GPU work).
 */
#include "advise/registry.h"
#include "advise/step_means.h"
#include "base/err.h"
#include "measure/sum.h"

enum { COPY_BYTES_MIN = 64 * 1024 };

static const double share_min = 0.05;
static const double pinned_bytes_per_ns = 25;
static const double high_factor = 1.25;

struct pageable {
    int64_t device_ns; /* a step */
    double bytes;      /* a step */
    double copies;     /* a step */
    const struct ks_call_site *worst;
};

static struct pageable add_up(const struct ks_facts *facts)
{
    struct pageable sum = {0};
    for (size_t i = 0; i < facts->copy_site_count; i++) {
        const struct ks_call_site *site = &facts->copy_sites[i];
        bool is_upload =
            ks_str_contains(ks_trace_str(facts->trace, site->copy_kind), KS_STR("HtoD"));
        if (!is_upload || !site->is_pageable || !(site->per_step > 0) || site->count <= 0 ||
            site->bytes == KS_UNKNOWN || site->bytes / site->count < COPY_BYTES_MIN) {
            continue;
        }
        double part = site->per_step / (double)site->count;
        sum.device_ns = ks_sum_add(sum.device_ns, ks_step_means_scale(site->device_ns, part));
        sum.bytes += part * (double)site->bytes;
        sum.copies += site->per_step;
        sum.worst = sum.worst && sum.worst->device_ns >= site->device_ns ? sum.worst : site;
    }
    return sum;
}

static enum ks_status report(const struct ks_step_means *means, const struct pageable *sum,
                             const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_err *err)
{
    struct ks_finding finding = ks_step_means_finding(&ks_rule_copy_pageable);
    int64_t pinned_ns = (int64_t)(sum->bytes / pinned_bytes_per_ns);
    finding.saving = (struct ks_saving){sum->device_ns - pinned_ns,
                                        ks_step_means_scale(sum->device_ns, high_factor)};
    finding.saving_in_trace = (struct ks_saving){sum->device_ns - pinned_ns, sum->device_ns};
    finding.bytes = (int64_t)sum->bytes;
    finding.fix_text = ks_findings_text(
        out,
        "Copy from pinned memory without blocking: %.0f MB a step come from pageable memory at "
        "%.1f GB/s, and pinned memory reaches 25 GB/s or more beside running kernels.",
        sum->bytes / 1e6, sum->device_ns > 0 ? sum->bytes / (double)sum->device_ns : 0.0);
    finding.fix_code = "DataLoader(dataset, ..., pin_memory=True)\n"
                       "batch = batch.to(device, non_blocking=True)";
    finding.evidence[finding.evidence_count++] =
        (struct ks_evidence){"copied", sum->bytes, "bytes"};
    finding.evidence[finding.evidence_count++] =
        (struct ks_evidence){"copying", (double)sum->device_ns, "ns"};
    finding.evidence[finding.evidence_count++] =
        (struct ks_evidence){"copies_per_step", sum->copies, "count"};
    finding.evidence[finding.evidence_count++] =
        (struct ks_evidence){"step", (double)means->step_ns, "ns"};
    finding.where.op = sum->worst->op;
    ks_findings_set_place(&finding.where, facts, sum->worst->op, KS_PLACE_COPY);
    if (!finding.fix_text) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write finding");
    }
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    struct ks_step_means means;
    check->reason = ks_step_means_compute(facts, &means);
    if (check->reason) {
        check->state = KS_CHECK_COULD_NOT;
        return KS_OK;
    }
    struct pageable sum = add_up(facts);
    if (sum.worst && ks_step_means_share(sum.device_ns, means.step_ns) >= share_min) {
        return report(&means, &sum, facts, out, err);
    }
    check->reason = ks_findings_text(out, "copies from pageable memory take %.2f of %.2f ms a step",
                                     (double)sum.device_ns / 1e6, (double)means.step_ns / 1e6);
    return KS_OK;
}

const struct ks_rule ks_rule_copy_pageable = {
    .id = "copy.pageable",
    .title = "Copies to the GPU from pageable memory",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
