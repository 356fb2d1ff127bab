/* What limits a step whose GPU is busy: limit.compute, the rate of its products; limit.bandwidth,
 * the memory that other work moves.
 *
 * Said when the GPU works for at least 80% of the step: below that the host, the loader or other
 * ranks limit it, which findings and the verdict say. What takes half of the
 * busy time or more names the limit, as far as operators have shapes.
 */
#include "advise/opportunities.h"

static const double busy_share_min = 0.80;
static const double part_min = 0.50;

static const char *const kind_names[KS_NUMBER_KINDS] = {"bf16 or fp16", "tf32", "fp32", "fp8"};

static double at_most_one(double share)
{
    return share > 1 ? 1 : share;
}

/* torch counts conv2d forward; each of the two gradients takes as much. */
static double conv_flops(const struct ks_facts *facts)
{
    double flops = 0;
    int64_t forward = 0;
    int64_t backward = 0;
    for (size_t i = 0; i < facts->operator_count; i++) {
        const struct ks_operator_fact *op = &facts->operators[i];
        struct ks_str name = ks_trace_str(facts->trace, op->name);
        if (ks_str_equal(name, KS_STR("aten::conv2d")) && op->flops > 0) {
            flops += (double)op->flops;
            forward += op->calls;
        }
        backward += ks_str_equal(name, KS_STR("aten::convolution_backward")) ? op->calls : 0;
    }
    double gradients = forward > 0 ? 2 * (double)backward / (double)forward : 0;
    gradients = gradients > 2 ? 2 : gradients;
    return facts->step_count > 0 ? flops * (1 + gradients) / (double)facts->step_count : 0;
}

static void add(struct ks_compute_rate *out, enum ks_number_kind kind, double flops,
                int64_t device_ns)
{
    double peak = out->peaks ? out->peaks->tflops[kind] : 0;
    out->flops += flops;
    out->device_ns += device_ns;
    out->peak_ns += peak > 0 ? flops / peak / 1e3 : 0;
    out->is_partial = out->is_partial || (flops > 0 && peak <= 0);
}

void ks_opportunity_compute_rate(const struct ks_facts *facts, struct ks_compute_rate *out)
{
    const struct ks_rate_costs *rates = &facts->work.rates;
    enum ks_number_kind largest = KS_NUMBER_HALF;
    *out = (struct ks_compute_rate){.peaks = ks_gpu_peaks_of(facts->trace)};
    for (int i = 0; i < KS_NUMBER_KINDS; i++) {
        add(out, (enum ks_number_kind)i, rates->products[i].flops, rates->products[i].device_ns);
        largest = rates->products[i].device_ns > rates->products[largest].device_ns
                      ? (enum ks_number_kind)i
                      : largest;
    }
    /* What convolutions are made of is not looked at: as the products are, else as fp32 is. */
    int64_t conv_ns = rates->convolutions.device_ns;
    out->kind = rates->products[largest].device_ns > 0 ? largest : rates->fp32_kind;
    add(out, out->kind, conv_ns > 0 ? conv_flops(facts) : 0, conv_ns);
}

/* ------------------------------------------------------------ sentences */

static void say_compute(const struct ks_facts *facts, const struct ks_compute_rate *rate,
                        struct ks_opportunities *out)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    double while_running = at_most_one(rate->peak_ns / (double)rate->device_ns);
    double of_step = at_most_one(rate->peak_ns / (double)mean->step_ns);
    double of_busy = at_most_one((double)rate->device_ns / (double)mean->busy_ns);
    double peak = rate->peaks->tflops[rate->kind];
    struct ks_opportunity found = {
        .id = "limit.compute",
        .title = "Matrix products limit the step",
        .most_ns = KS_UNKNOWN,
        .evidence = {{"mfu", of_step, "share"},
                     {"of_peak_while_running", while_running, "share"},
                     {"products_of_busy", of_busy, "share"},
                     {"flops_per_step", rate->flops, "count"},
                     {"peak_tflops", peak, "number"},
                     {"products", (double)rate->device_ns, "ns"}},
        .evidence_count = 6,
    };
    found.text = ks_opportunities_text(
        out,
        "Products take %.0f %% of the GPU's time. While they run they reach %.0f %% of what the %s "
        "can do in %s (%.0f TFLOP/s); over the whole step that is %.0f %% (MFU).",
        100 * of_busy, 100 * while_running, rate->peaks->name, kind_names[rate->kind], peak,
        100 * of_step);
    ks_opportunities_add(out, &found);
}

static void say_bandwidth(const struct ks_facts *facts, const struct ks_compute_rate *rate,
                          const struct ks_rate *moved, struct ks_opportunities *out)
{
    double of_busy = at_most_one((double)moved->device_ns / (double)facts->mean_step.busy_ns);
    double gb_per_s = moved->bytes / (double)moved->device_ns;
    double of_peak = at_most_one(gb_per_s / rate->peaks->gb_per_s);
    struct ks_opportunity found = {
        .id = "limit.bandwidth",
        .title = "The bandwidth of the GPU's memory limits the step",
        .most_ns = KS_UNKNOWN,
        .evidence = {{"of_bandwidth", of_peak, "share"},
                     {"moving_of_busy", of_busy, "share"},
                     {"bytes_per_step", moved->bytes, "bytes"},
                     {"peak_gb_per_s", rate->peaks->gb_per_s, "number"},
                     {"moving", (double)moved->device_ns, "ns"}},
        .evidence_count = 5,
    };
    found.text = ks_opportunities_text(
        out,
        "Work that moves memory takes %.0f %% of the GPU's time. "
        "It moves at least %.0f GB/s, %.0f %% of what the %s can (%.0f GB/s): fewer bytes make it "
        "faster, more arithmetic does not.",
        100 * of_busy, gb_per_s, 100 * of_peak, rate->peaks->name, rate->peaks->gb_per_s);
    ks_opportunities_add(out, &found);
}

void ks_opportunity_find_limit(const struct ks_facts *facts, struct ks_opportunities *out)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    const struct ks_rate_costs *rates = &facts->work.rates;
    struct ks_rate moved = rates->moves;
    struct ks_compute_rate rate;
    ks_opportunity_compute_rate(facts, &rate);
    moved.bytes += rates->thin.bytes;
    moved.device_ns += rates->thin.device_ns;
    double busy_ns = (double)mean->busy_ns;
    if (!rate.peaks || busy_ns < busy_share_min * (double)mean->step_ns || busy_ns <= 0) {
        return;
    }
    if ((double)rate.device_ns >= part_min * busy_ns && rate.peak_ns > 0 && !rate.is_partial) {
        say_compute(facts, &rate, out);
    } else if ((double)moved.device_ns >= part_min * busy_ns) {
        say_bandwidth(facts, &rate, &moved, out);
    }
}
