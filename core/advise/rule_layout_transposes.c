/* Rule layout.transposes: tensors in NCHW are turned into NHWC for each convolution, and back.
 *
 * Claim: kernels that convert between NCHW and NHWC take at least 3% of the step on the device, and
 * a step in NHWC would be at least 5% shorter. Tensor cores compute convolutions in NHWC, so that
 * cuDNN converts what comes in NCHW.
 *
 * Evidence: kernels by name: nchwToNhwc, nhwcToNchw; batch normalisation and pooling in NCHW.
 *
 * Saving, per step: replays of the recorded steps without the conversions, in which kernels that
 * have a faster twin for NHWC take a part of their time. Batch normalisation, forward and backward,
 * took 0.24 to 0.68 of it (H100, bf16, 16 to 128 images, 64 to 2048 channels; least with few
 * channels, of which each has one block). Findings are ordered by the conversions alone: the rest
 * is no cost of converting.
 *
 * Silent when: gpu_step.c sees an obstacle, or hardly any kernel converts.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"
#include "analyze/kernel_layout.h"
#include "measure/sum.h"

static const double conversions_share_min = 0.03;
static const double share_min = 0.05;
static const double nhwc_at_most = 0.68;
static const double nhwc_at_least = 0.24;

struct layout {
    int64_t converting_ns; /* of all recorded kernels */
    int64_t nchw_ns;
    int64_t all_ns;
    const struct ks_kernel_fact *worst; /* that converts */
};

static struct layout add_kernels(const struct ks_facts *facts)
{
    struct layout layout = {0};
    for (size_t i = 0; i < facts->kernel_count; i++) {
        const struct ks_kernel_fact *kernel = &facts->kernels[i];
        unsigned marks = ks_kernel_layout_marks(ks_trace_str(facts->trace, kernel->name));
        layout.all_ns = ks_sum_add(layout.all_ns, kernel->total_ns);
        if (marks & KS_REPLAY_CONVERSION) {
            layout.converting_ns = ks_sum_add(layout.converting_ns, kernel->total_ns);
            layout.worst = layout.worst ? layout.worst : kernel; /* they come in order of time */
        } else if (marks & KS_REPLAY_NCHW) {
            layout.nchw_ns = ks_sum_add(layout.nchw_ns, kernel->total_ns);
        }
    }
    return layout;
}

static struct ks_replay_change in_nhwc(double part)
{
    struct ks_replay_change change = KS_REPLAY_UNCHANGED;
    change.shrinks[0] =
        (struct ks_replay_shrink){.marks = KS_REPLAY_CONVERSION, .host_part = 1, .work_part = 0};
    change.shrinks[1] =
        (struct ks_replay_shrink){.marks = KS_REPLAY_NCHW, .host_part = 1, .work_part = part};
    return change;
}

static enum ks_status find_saving(const struct ks_facts *facts, struct ks_finding *finding,
                                  struct ks_err *err)
{
    const struct ks_replay_change converted = in_nhwc(1);
    const struct ks_replay_change sure = in_nhwc(nhwc_at_most);
    const struct ks_replay_change most = in_nhwc(nhwc_at_least);
    KS_TRY(ks_gpu_step_what_if_device(facts, &converted, &converted, finding, err));
    int64_t order_ns = finding->saving.low_ns / 2 + finding->saving.high_ns / 2;
    KS_TRY(ks_gpu_step_what_if_device(facts, &sure, &most, finding, err));
    finding->order_ns = order_ns > 0 ? order_ns : 1;
    return KS_OK;
}

static enum ks_status report(const struct layout *layout, const struct ks_facts *facts,
                             struct ks_findings *out, struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_layout_transposes);
    KS_TRY(find_saving(facts, &finding, err));
    if (!ks_gpu_step_is_worth(facts, &finding, share_min)) {
        check->reason =
            ks_findings_text(out, "a step in NHWC would save %.2f to %.2f of %.2f ms",
                             (double)finding.saving.low_ns / 1e6,
                             (double)finding.saving.high_ns / 1e6, (double)mean->step_ns / 1e6);
        return KS_OK;
    }
    double all_ns = (double)layout->all_ns;
    int64_t converting_ns = ks_gpu_step_part(mean->busy_ns, (double)layout->converting_ns / all_ns);
    int64_t nchw_ns = ks_gpu_step_part(mean->busy_ns, (double)layout->nchw_ns / all_ns);
    finding.fix_text = ks_findings_text(
        out,
        "Keep images in NHWC from the start: kernels that only turn NCHW into NHWC and back take "
        "%.2f of %.2f ms a step, and %.2f ms of batch normalisation and pooling are faster in "
        "NHWC. Model and input both need memory_format=torch.channels_last.",
        (double)converting_ns / 1e6, (double)mean->step_ns / 1e6, (double)nchw_ns / 1e6);
    finding.fix_code = "model = model.to(memory_format=torch.channels_last)\n"
                       "images = images.to(device, memory_format=torch.channels_last)";
    const struct ks_evidence evidence[] = {
        {"converting", (double)converting_ns, "ns"},
        {"slower_in_nchw", (double)nchw_ns, "ns"},
        {"busy", (double)mean->busy_ns, "ns"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    finding.where.op = layout->worst->name;
    finding.where.device = layout->worst->device;
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    if (!ks_gpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    struct layout layout = add_kernels(facts);
    double share = layout.all_ns > 0 ? (double)layout.converting_ns / (double)layout.all_ns : 0;
    if (ks_gpu_step_is_share(mean, ks_gpu_step_part(mean->busy_ns, share), conversions_share_min)) {
        return report(&layout, facts, out, check, err);
    }
    check->reason = ks_findings_text(
        out, "conversions between NCHW and NHWC take %.1f %% of the GPU's time", 100 * share);
    return KS_OK;
}

const struct ks_rule ks_rule_layout_transposes = {
    .id = "layout.transposes",
    .title = "Convolutions convert between NCHW and NHWC",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
