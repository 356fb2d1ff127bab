/* Rule memory.growth: each step leaves more memory allocated than the one before.
 *
 * Claim: the least that is allocated in a step grows from each of at least three complete steps to
 * the next one, or to the second, third or fourth after it (of three times as many steps), never by
 * less than half of the usual growth, and memory of the device is full within 100,000 steps; where
 * its size is not known, by at least 1 MiB a step.
 *
 * Evidence: allocator events (docs/analyses/memory_steps.md): least of each step, allocations of
 * one step that nobody freed before the recording ended, and the operator that made most of them.
 *
 * Saving: none in time. `bytes` is the growth of a step, `steps_until_oom` what is free at the peak
 * divided by it.
 *
 * Silent when: no allocator events were recorded, fewer than three complete steps hold some, or the
 * steps decode text, where caches of keys and values grow with it: by their kind, or because they
 * grow by aten::cat by as much (kv.concat).
 */
#include "advise/decode_loop.h"
#include "advise/gpu_step.h"
#include "advise/registry.h"
#include "measure/sum.h"

enum {
    STEPS_MIN = 3,
    UNTIL_OOM_MAX = 100 * 1000, /* longer than most programs train */
    GROWTH_MIN = 1 << 20,       /* kept numbers take 512 bytes each; tensors with a graph more */
};

static int64_t steps_until_oom(const struct ks_memory_fact *memory)
{
    if (memory->total_bytes == KS_UNKNOWN || memory->peak_allocated_bytes == KS_UNKNOWN) {
        return KS_UNKNOWN;
    }
    int64_t free_bytes = ks_sum_sub(memory->total_bytes, memory->peak_allocated_bytes);
    return free_bytes > 0 ? free_bytes / memory->growth_bytes : 0;
}

static bool is_growing(const struct ks_memory_fact *memory)
{
    if (memory->growth_bytes <= 0) {
        return false;
    }
    int64_t left = steps_until_oom(memory);
    return left == KS_UNKNOWN ? memory->growth_bytes >= GROWTH_MIN : left < UNTIL_OOM_MAX;
}

static bool is_decoding(const struct ks_facts *facts, uint32_t source)
{
    struct ks_step_range range = facts->step_ranges[source];
    for (size_t i = range.begin; i < range.end; i++) {
        if (facts->steps[i].kind == KS_STEP_DECODE || facts->steps[i].kind == KS_STEP_PREFILL ||
            facts->steps[i].kind == KS_STEP_MIXED) {
            return true;
        }
    }
    return false;
}

static void write_place(const struct ks_facts *facts, const struct ks_memory_fact *memory,
                        struct ks_where *where)
{
    ks_findings_set_source(where, facts, memory->source);
    where->device = memory->device < 0 ? KS_UNKNOWN : memory->device;
    where->op = memory->held_op;
    if (memory->held_op.v != 0) {
        ks_findings_set_place(where, facts, memory->held_op, KS_PLACE_OPERATOR);
    }
}

static const char *describe(const struct ks_facts *facts, struct ks_findings *out,
                            const struct ks_memory_fact *memory)
{
    int64_t left = steps_until_oom(memory);
    const char *until =
        left == KS_UNKNOWN
            ? ""
            : ks_findings_text(out, ", and memory is full in %lld steps", (long long)left);
    struct ks_str op = ks_trace_str(facts->trace, memory->held_op);
    double mib = (double)memory->growth_bytes / (1 << 20);
    const char *who = memory->held_op.v == 0
                          ? ""
                          : ks_findings_text(out, ", mostly results of %.*s", (int)op.len, op.ptr);
    if (!who || !until) {
        return NULL;
    }
    return ks_findings_text(
        out,
        "Keep numbers, not tensors: each step leaves %.1f MiB allocated%s%s. A loss or output that "
        "is kept in a list or added up keeps its whole graph; take .item() or .detach() of it, and "
        "empty lists and caches that outlive the step.",
        mib, who, until);
}

static enum ks_status report(const struct ks_memory_fact *memory, const struct ks_facts *facts,
                             struct ks_findings *out, struct ks_err *err)
{
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_memory_growth);
    finding.bytes = memory->growth_bytes;
    finding.steps_until_oom = steps_until_oom(memory);
    finding.fix_text = describe(facts, out, memory);
    finding.fix_code = "losses.append(loss.item())         # not losses.append(loss)\n"
                       "running += loss.detach()           # not running += loss";
    finding.verify = "kscope run train.py  # with the fix: memory of the steps must stay level";
    const struct ks_evidence evidence[] = {
        {"growth_per_step", (double)memory->growth_bytes, "bytes"},
        {"steps_that_grow", (double)memory->step_count, "count"},
        {"peak_allocated", (double)memory->peak_allocated_bytes, "bytes"},
        {"held_of_one_step", (double)memory->held_bytes, "bytes"},
        {"held_by_operator", (double)memory->held_op_bytes, "bytes"},
        {"device_memory", (double)memory->total_bytes, "bytes"}, /* last: it may be unknown */
    };
    bool is_known = memory->total_bytes != KS_UNKNOWN;
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence) - (is_known ? 0 : 1));
    write_place(facts, memory, &finding.where);
    return ks_findings_add(out, facts, &finding, err);
}

/* Is memory `a` full before `b`? Of memory whose size is not known, that which grows faster. */
static bool is_full_first(const struct ks_memory_fact *a, const struct ks_memory_fact *b)
{
    int64_t left = steps_until_oom(a);
    int64_t other_left = steps_until_oom(b);
    if (left == other_left) {
        return a->growth_bytes > b->growth_bytes;
    }
    return other_left == KS_UNKNOWN || (left != KS_UNKNOWN && left < other_left);
}

/* Memory that is full first; ranks that run the same program grow alike. */
static const struct ks_memory_fact *worst_of(const struct ks_facts *facts)
{
    const struct ks_memory_fact *worst = NULL;
    for (size_t i = 0; i < facts->memory_count; i++) {
        const struct ks_memory_fact *memory = &facts->memory[i];
        bool is_device = memory->device >= 0 || !facts->has_gpu;
        if (is_device && is_growing(memory) && !is_decoding(facts, memory->source) &&
            !ks_decode_loop_explains_growth(facts, memory->growth_bytes) &&
            (!worst || is_full_first(memory, worst))) {
            worst = memory;
        }
    }
    return worst;
}

static int64_t steps_seen(const struct ks_facts *facts)
{
    int64_t most = 0;
    for (size_t i = 0; i < facts->memory_count; i++) {
        most = facts->memory[i].step_count > most ? facts->memory[i].step_count : most;
    }
    return most;
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_memory_fact *worst = worst_of(facts);
    if (worst) {
        return report(worst, facts, out, err);
    }
    if (facts->memory_count == 0) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = "no allocator events were recorded (profile_memory=True records them)";
    } else if (steps_seen(facts) < STEPS_MIN) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = "allocator events are in fewer than three complete steps";
    } else if (facts->work.caches.cost.count > 0) {
        check->reason = "what grows is a cache of keys and values, as far as anything does";
    } else {
        check->reason =
            "what is allocated does not grow from step to step, or too little to matter";
    }
    return KS_OK;
}

const struct ks_rule ks_rule_memory_growth = {
    .id = "memory.growth",
    .title = "Memory grows step after step",
    .impact = KS_IMPACT_MEMORY,
    .check = check,
};
