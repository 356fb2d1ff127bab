/* Rule compile.recompiles: torch.compile compiles again and again.
 *
 * Claim: at least two complete steps compile, and compiling takes at least 5% of the mean step.
 * Where compilations are numbered, one is at least the third of its function: the first two are
 * normal, since the second makes dimensions dynamic that changed. Where they are not, at least half
 * of all steps compile.
 *
 * Evidence: marks of the compiler (docs/analyses/compiles.md), shapes of the compiled function's
 * inputs in two steps.
 *
 * Saving, per step: the time from the first to the last mark of each compilation, less what
 * recording all rows of the step can have cost (low); and the rest of the compiled calls that hold
 * marks, which tune kernels, and short pauses between (high).
 *
 * Silent when: gpu_step.c sees an obstacle (too few steps, no steps, no GPU work; without a GPU the
 * first two), or no mark was recorded.
 */
#include "advise/cpu_step.h"
#include "advise/gpu_step.h"
#include "advise/registry.h"
#include "analyze/shapes.h"

enum { STEPS_MIN = 2, ATTEMPT_MIN = 2 /* counted from 0 */ };

static const double share_min = 0.05;
static const double steps_share_min = 0.5;
static const double cost_without_gpu = 2.0; /* more than recordings on a host with a GPU showed */

/* First input and dimension in which the shapes differ. */
static bool find_dimension(const struct ks_facts *facts, struct ks_shape *before, int64_t *after,
                           size_t *dimension)
{
    const struct ks_compile_fact *compiles = &facts->compiles;
    struct ks_shapes first;
    struct ks_shapes second;
    ks_shapes_read(ks_trace_str(facts->trace, compiles->dims[0]), &first);
    ks_shapes_read(ks_trace_str(facts->trace, compiles->dims[1]), &second);
    for (size_t i = 0; i < first.count && i < second.count; i++) {
        const struct ks_shape *a = &first.items[i];
        const struct ks_shape *b = &second.items[i];
        for (size_t j = 0; j < a->count && a->count == b->count; j++) {
            if (a->dims[j] != b->dims[j]) {
                *before = *a;
                *after = b->dims[j];
                *dimension = j;
                return true;
            }
        }
    }
    return false;
}

static const char *shape_text(struct ks_findings *out, const struct ks_shape *shape)
{
    const char *text = "";
    for (size_t i = 0; i < shape->count && text; i++) {
        text =
            ks_findings_text(out, "%s%s%lld", text, i > 0 ? ", " : "", (long long)shape->dims[i]);
    }
    return text;
}

static void write_fix(const struct ks_facts *facts, struct ks_findings *out,
                      struct ks_finding *finding)
{
    const struct ks_compile_fact *compiles = &facts->compiles;
    struct ks_shape before;
    int64_t after;
    size_t dimension;
    double ms = (double)compiles->most_ns / 1e6;
    if (!find_dimension(facts, &before, &after, &dimension)) {
        finding->fix_text = ks_findings_text(
            out,
            "Find what changes: %.1f compilations a step take %.1f ms. TORCH_LOGS=recompiles names "
            "the guard that fails; mark sizes that change as dynamic, and keep numbers and objects "
            "that change out of the compiled function.",
            compiles->compiles, ms);
        finding->fix_code = "torch._logging.set_logs(recompiles=True)  # as TORCH_LOGS=recompiles\n"
                            "model = torch.compile(model, dynamic=True)";
        return;
    }
    const char *shape = shape_text(out, &before);
    if (!shape) {
        return;
    }
    finding->fix_text = ks_findings_text(
        out,
        "Compile once for all sizes: dimension %zu of an input of shape [%s] is %lld in another "
        "step, and %.1f compilations a step take %.1f ms. Mark it as dynamic, or pad inputs to a "
        "few sizes; TORCH_LOGS=recompiles names each guard that fails.",
        dimension, shape, (long long)after, compiles->compiles, ms);
    finding->fix_code = ks_findings_text(out,
                                         "torch._dynamo.mark_dynamic(x, %zu)  # before the call\n"
                                         "model = torch.compile(model, dynamic=True)",
                                         dimension);
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_err *err)
{
    const struct ks_compile_fact *compiles = &facts->compiles;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_compile_recompiles);
    double cost = facts->has_gpu ? facts->mean_step.cost_high : cost_without_gpu;
    int64_t recording_ns = ks_gpu_step_part(compiles->recording_ns, cost);
    finding.saving = (struct ks_saving){compiles->sure_ns - recording_ns, compiles->most_ns};
    finding.saving_in_trace = (struct ks_saving){compiles->sure_ns, compiles->most_ns};
    write_fix(facts, out, &finding);
    const struct ks_evidence evidence[] = {
        {"compiles_per_step", compiles->compiles, "count"},
        {"steps_that_compile", (double)compiles->steps_with, "count"},
        {"compiling", (double)compiles->sure_ns, "ns"},
        {"compiling_and_tuning", (double)compiles->most_ns, "ns"},
        {"compilations_of_a_function", (double)compiles->attempts_max + 1, "count"}, /* last */
    };
    ks_finding_show(&finding, evidence,
                    KS_COUNT_OF(evidence) - (compiles->attempts_max < 0 ? 1 : 0));
    /* Compiled code is looked for where the program calls it; names of regions change. */
    struct ks_strid lookup = ks_trace_str_find(facts->trace, KS_STR("TorchDynamo Cache Lookup"));
    ks_findings_set_place(&finding.where, facts, lookup, KS_PLACE_OPERATOR);
    ks_findings_set_steps(&finding.where, compiles->steps, compiles->step_count);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_compile_fact *compiles = &facts->compiles;
    double steps_share = facts->complete_step_count > 0
                             ? (double)compiles->steps_with / (double)facts->complete_step_count
                             : 0;
    if (!ks_cpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    bool is_again = compiles->attempts_max < 0 ? steps_share >= steps_share_min
                                               : compiles->attempts_max >= ATTEMPT_MIN;
    if (compiles->steps_with >= STEPS_MIN && is_again &&
        (double)compiles->sure_ns >= share_min * ks_cpu_step_mean_ns(facts)) {
        return report(facts, out, err);
    }
    check->reason =
        ks_findings_text(out, "%zu of %zu steps compile, %.2f ms a step", compiles->steps_with,
                         facts->complete_step_count, (double)compiles->sure_ns / 1e6);
    return KS_OK;
}

const struct ks_rule ks_rule_compile_recompiles = {
    .id = "compile.recompiles",
    .title = "torch.compile compiles again in the steps",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true, /* each compilation needs a graph of its own */
    .check = check,
};
