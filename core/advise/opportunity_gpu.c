/* What is worth a try on a GPU: batch.larger, precision.fp8, compile.eager. Thresholds leave out
 * what could not gain 5% of a step. */
#include "advise/opportunities.h"

#include <math.h>

#include "advise/gpu_step.h"

static const double share_min = 0.05;

static const double usable_share = 0.90;
static const double factor_max = 16;
static const double mfu_good = 0.50;
/* Products in fp8 run at twice the rate of bf16, scaling costs some of that. */
static const double fp8_kept = 0.5;
/* One kernel for a chain of three elementwise operators moves a third to a half of the bytes. */
static const double fused_kept = 0.4;

enum { FP8_CAPABILITY_MIN = 9 };

/* ------------------------------------------------------------ a larger batch */

/* The fullest device that belongs to a rank, or NULL. */
static const struct ks_memory_fact *fullest(const struct ks_facts *facts)
{
    const struct ks_memory_fact *found = NULL;
    for (size_t i = 0; i < facts->memory_count; i++) {
        const struct ks_memory_fact *memory = &facts->memory[i];
        bool is_known =
            memory->device >= 0 && memory->total_bytes > 0 && memory->peak_reserved_bytes > 0;
        if (is_known && (!found || memory->peak_reserved_bytes > found->peak_reserved_bytes)) {
            found = memory;
        }
    }
    return found;
}

static bool is_loaded_well(const struct ks_facts *facts)
{
    struct ks_compute_rate rate;
    ks_opportunity_compute_rate(facts, &rate);
    return rate.peak_ns >= mfu_good * (double)facts->mean_step.step_ns;
}

static void find_batch(const struct ks_facts *facts, const struct ks_findings *findings,
                       struct ks_opportunities *out)
{
    const struct ks_memory_fact *memory = fullest(facts);
    if (!memory || ks_opportunities_is_found(findings, "batch.too_small") ||
        ks_opportunities_is_found(findings, "memory.growth") || is_loaded_well(facts)) {
        return;
    }
    double total = (double)memory->total_bytes;
    double peak = (double)memory->peak_reserved_bytes;
    double factor = usable_share * total / peak; // also if all of it grows with the batch
    if (factor < 2) {
        return;
    }
    factor = factor > factor_max ? factor_max : factor;
    struct ks_opportunity found = {
        .id = "batch.larger",
        .title = "There is memory for a larger batch",
        .code = "loader = DataLoader(dataset, batch_size=2 * batch_size, ...)",
        .most_ns = KS_UNKNOWN,
        .evidence = {{"memory", total, "bytes"},
                     {"peak_reserved", peak, "bytes"},
                     {"batch_factor", factor, "number"}},
        .evidence_count = 3,
    };
    found.text = ks_opportunities_text(
        out,
        "The program reserves %.1f of %.1f GiB: a batch %.0f times as large fits. Each launch and "
        "each byte of weights then serves more samples; whether it trains as well is yours to see.",
        peak / 0x1p30, total / 0x1p30, floor(factor));
    ks_opportunities_add(out, &found);
}

/* ------------------------------------------------------------ fp8 */

static void find_fp8(const struct ks_facts *facts, struct ks_opportunities *out)
{
    const struct ks_rate *half = &facts->work.rates.products[KS_NUMBER_HALF];
    const struct ks_rate *fp8 = &facts->work.rates.products[KS_NUMBER_FP8];
    int64_t most_ns = ks_gpu_step_part(half->device_ns, 1 - fp8_kept);
    if (ks_gpu_step_capability(facts) < FP8_CAPABILITY_MIN || fp8->device_ns > 0 ||
        !ks_gpu_step_is_share(&facts->mean_step, half->device_ns, 0.3)) {
        return;
    }
    struct ks_opportunity found = {
        .id = "precision.fp8",
        .title = "Products in fp8 run at twice the rate of bf16",
        .code = "from torchao.float8 import convert_to_float8_training\n"
                "convert_to_float8_training(model)",
        .most_ns = most_ns,
        .evidence = {{"half_products", (double)half->device_ns, "ns"},
                     {"step", (double)facts->mean_step.step_ns, "ns"}},
        .evidence_count = 2,
    };
    found.text = ks_opportunities_text(
        out,
        "Products in bf16 or fp16 take %.2f of %.2f ms a step. This GPU multiplies fp8 at twice "
        "that rate: large linear layers gain, small ones lose to the scaling. Check the loss.",
        (double)half->device_ns / 1e6, (double)facts->mean_step.step_ns / 1e6);
    ks_opportunities_add(out, &found);
}

/* ------------------------------------------------------------ torch.compile */

/* Kernels that a compiler made for this program. */
static bool is_compiled(const struct ks_facts *facts)
{
    for (size_t i = 0; i < facts->kernel_count; i++) {
        struct ks_str name = ks_trace_str(facts->trace, facts->kernels[i].name);
        if (ks_str_starts(name, KS_STR("triton_"))) {
            return true;
        }
    }
    return facts->compiles.compiles > 0 || facts->links.graph_launches > 0;
}

static void find_compile(const struct ks_facts *facts, const struct ks_findings *findings,
                         struct ks_opportunities *out)
{
    static const char *const findings_of_it[] = {"launch.bound", "fusion.pointwise",
                                                 "compile.recompiles", "compile.graph_breaks"};
    for (size_t i = 0; i < KS_COUNT_OF(findings_of_it); i++) {
        if (ks_opportunities_is_found(findings, findings_of_it[i])) {
            return;
        }
    }
    int64_t moves_ns = facts->work.rates.moves.device_ns;
    int64_t most_ns = ks_gpu_step_part(moves_ns, 1 - fused_kept);
    if (is_compiled(facts) || !ks_gpu_step_is_share(&facts->mean_step, most_ns, share_min)) {
        return;
    }
    struct ks_opportunity found = {
        .id = "compile.eager",
        .title = "torch.compile would join kernels that move memory",
        .code = "model = torch.compile(model)",
        .most_ns = most_ns,
        .evidence = {{"moving", (double)moves_ns, "ns"},
                     {"step", (double)facts->mean_step.step_ns, "ns"}},
        .evidence_count = 2,
    };
    found.text = ks_opportunities_text(
        out,
        "The program runs eagerly, and operators that only read and write memory take %.2f of "
        "%.2f ms a step: compiled, those that follow each other become one kernel that moves the "
        "values once.",
        (double)moves_ns / 1e6, (double)facts->mean_step.step_ns / 1e6);
    ks_opportunities_add(out, &found);
}

void ks_opportunity_find_gpu(const struct ks_facts *facts, const struct ks_findings *findings,
                             struct ks_opportunities *out)
{
    find_batch(facts, findings, out);
    find_fp8(facts, out);
    find_compile(facts, findings, out);
}
