/* Rule inference.grad_enabled: steps record a graph for a backward pass that never comes.
 *
 * Claim: no row of a backward pass or of an optimizer is in the recording, and operators record at
 * least NODES_MIN nodes of an autograd graph in a complete step. Numbers that do not grow mean that
 * gradients are enabled, but that nothing needs them: that costs nothing.
 *
 * Evidence: sequence numbers of the operators (docs/analyses/autograd_graph.md); with allocator
 * events the memory that a step holds at its peak above its least, less twice the largest
 * allocation, which an operator's input and output need without a graph as well.
 *
 * Saving: none in time that could be told; `bytes` is that memory.
 *
 * Silent when: fewer than two complete steps were recorded, since a recording of a forward pass
 * alone may belong to training, or no steps were found.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"
#include "measure/sum.h"

enum { STEPS_MIN = 2 };

/* Fewer nodes are a compiled region or two, or parts outside of the model; a layer has more. */
static const double nodes_min = 6;

static int64_t held_bytes(const struct ks_facts *facts, uint32_t source, int64_t *peak_bytes)
{
    int64_t most = KS_UNKNOWN;
    *peak_bytes = KS_UNKNOWN;
    for (size_t i = 0; i < facts->memory_count; i++) {
        const struct ks_memory_fact *memory = &facts->memory[i];
        bool is_device = memory->device >= 0 || !facts->has_gpu;
        if (memory->source != source || !is_device || memory->rise_bytes == KS_UNKNOWN) {
            continue;
        }
        int64_t needed = ks_sum_scale(memory->largest_bytes, 2);
        int64_t held = memory->rise_bytes > needed ? memory->rise_bytes - needed : 0;
        if (most == KS_UNKNOWN || held > most) {
            most = held;
            *peak_bytes = memory->peak_allocated_bytes;
        }
    }
    return most;
}

static void write_place(const struct ks_facts *facts, uint32_t source, struct ks_where *where)
{
    ks_findings_set_source(where, facts, source);
    where->op = facts->graphs[source].op;
    ks_findings_set_place(where, facts, where->op, KS_PLACE_OPERATOR);
    ks_findings_set_time_place(where, facts, source, KS_TIME_MODEL); /* where the mode belongs */
}

static const char *describe(struct ks_findings *out, double nodes, int64_t bytes)
{
    static const char advice[] = "Run the model under torch.inference_mode(), or torch.no_grad() "
                                 "where results are used in training later";
    if (bytes == KS_UNKNOWN) {
        return ks_findings_text(
            out,
            "%s: each step records %.0f nodes of a graph, which keeps the "
            "results of all layers until its end, and no backward pass follows.",
            advice, nodes);
    }
    return ks_findings_text(out,
                            "%s: each step records %.0f nodes of a graph, which holds about %.0f "
                            "MiB of results until its end, and no backward pass follows. A larger "
                            "batch then fits.",
                            advice, nodes, (double)bytes / (1 << 20));
}

static enum ks_status report(uint32_t source, const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_err *err)
{
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_inference_grad_enabled);
    double nodes = facts->graphs[source].nodes;
    int64_t peak_bytes = KS_UNKNOWN;
    finding.bytes = held_bytes(facts, source, &peak_bytes);
    finding.fix_text = describe(out, nodes, finding.bytes);
    finding.fix_code = "with torch.inference_mode():\n    output = model(batch)";
    finding.verify = "kscope run infer.py  # with the fix: the finding must be gone";
    const struct ks_evidence evidence[] = {
        {"nodes_per_step", nodes, "count"},
        {"held_by_graph", (double)finding.bytes, "bytes"},
        {"peak_allocated", (double)peak_bytes, "bytes"},
    };
    ks_finding_show(&finding, evidence, finding.bytes == KS_UNKNOWN ? 1 : KS_COUNT_OF(evidence));
    write_place(facts, source, &finding.where);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    uint32_t worst = 0;
    double nodes = 0;
    if (facts->complete_step_count < STEPS_MIN || facts->step_source == KS_STEPS_WINDOW) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = "fewer than two complete steps were recorded";
        return KS_OK;
    }
    for (uint32_t i = 0; i < ks_trace_source_count(facts->trace); i++) {
        if (facts->graphs[i].has_backward) {
            check->reason = "the steps train: their graph is used";
            return KS_OK;
        }
        if (facts->graphs[i].nodes > nodes) {
            nodes = facts->graphs[i].nodes;
            worst = i;
        }
    }
    if (nodes >= nodes_min) {
        return report(worst, facts, out, err);
    }
    check->reason = ks_findings_text(out, "%.1f nodes of a graph a step are recorded", nodes);
    return KS_OK;
}

const struct ks_rule ks_rule_inference_grad_enabled = {
    .id = "inference.grad_enabled",
    .title = "Inference records a graph for a backward pass that never comes",
    .impact = KS_IMPACT_MEMORY,
    .check = check,
};
