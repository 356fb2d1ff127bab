#include "show/view.h"

int64_t ks_view_rank(const struct ks_view *view, uint32_t source)
{
    int64_t rank = ks_trace_source(view->trace, source)->rank;
    return rank < 0 ? KS_UNKNOWN : rank;
}

struct ks_str ks_view_path(const struct ks_view *view, uint32_t source)
{
    return ks_trace_str(view->trace, ks_trace_source(view->trace, source)->path);
}

struct ks_str ks_view_str(const struct ks_view *view, struct ks_strid id)
{
    return ks_trace_str(view->trace, id);
}

bool ks_view_step_counts(const struct ks_view *view, const struct ks_step *step)
{
    return ks_step_counts(view->facts, step);
}

int64_t ks_view_step_ns(const struct ks_view *view)
{
    const struct ks_facts *facts = view->facts;
    int64_t total_ns = 0;
    int64_t count = 0;
    for (size_t i = 0; i < facts->step_count; i++) {
        if (ks_view_step_counts(view, &facts->steps[i])) {
            total_ns += facts->steps[i].dur_ns;
            count++;
        }
    }
    return count > 0 ? total_ns / count : KS_UNKNOWN;
}

const char *ks_view_step_source(enum ks_step_source source)
{
    static const char *const words[] = {
        [KS_STEPS_NONE] = "none",           [KS_STEPS_PROFILER] = "profiler",
        [KS_STEPS_MARK] = "mark",           [KS_STEPS_ENGINE] = "engine",
        [KS_STEPS_OPTIMIZER] = "optimizer", [KS_STEPS_TOP_SPAN] = "span",
        [KS_STEPS_GRAPH] = "graph",         [KS_STEPS_PERIOD] = "period",
        [KS_STEPS_WINDOW] = "window",
    };
    KS_ASSERT((size_t)source < KS_COUNT_OF(words));
    return words[source];
}

const char *ks_view_step_kind(enum ks_step_kind kind)
{
    static const char *const words[] = {"train", "prefill", "decode", "mixed", "other"};
    KS_ASSERT((size_t)kind < KS_COUNT_OF(words));
    return words[kind];
}

const char *ks_view_role(enum ks_role role)
{
    static const char *const words[] = {
        [KS_ROLE_KERNEL] = "kernel",   [KS_ROLE_MEMCPY] = "memcpy",
        [KS_ROLE_MEMSET] = "memset",   [KS_ROLE_COMMUNICATION] = "communication",
        [KS_ROLE_RUNTIME] = "runtime", [KS_ROLE_DATALOADER] = "dataloader",
        [KS_ROLE_CPU] = "cpu",         [KS_ROLE_OTHER] = "other",
    };
    KS_ASSERT((size_t)role < KS_COUNT_OF(words));
    return words[role];
}

const char *ks_view_idle_cause(enum ks_idle_cause cause)
{
    static const char *const words[KS_IDLE_COUNT] = {
        [KS_IDLE_DATA] = "data",
        [KS_IDLE_SYNC] = "sync",
        [KS_IDLE_HOST_CODE] = "host code",
        [KS_IDLE_LAUNCH] = "launch",
        [KS_IDLE_ALLOCATOR] = "allocator",
        [KS_IDLE_COLLECTIVE] = "collective",
        [KS_IDLE_KERNEL_TO_KERNEL] = "kernel gaps",
        [KS_IDLE_PROFILER] = "profiler",
        [KS_IDLE_UNKNOWN] = "unknown",
    };
    KS_ASSERT((size_t)cause < KS_COUNT_OF(words));
    return words[cause];
}

const char *ks_view_status(enum ks_source_status status)
{
    static const char *const words[] = {"ok", "repaired", "truncated"};
    KS_ASSERT((size_t)status < KS_COUNT_OF(words));
    return words[status];
}

const char *ks_view_impact(enum ks_impact impact)
{
    static const char *const words[] = {"time", "memory", "risk"};
    KS_ASSERT((size_t)impact < KS_COUNT_OF(words));
    return words[impact];
}

const char *ks_view_confidence(enum ks_confidence confidence)
{
    static const char *const words[] = {"high", "medium", "low"};
    KS_ASSERT((size_t)confidence < KS_COUNT_OF(words));
    return words[confidence];
}

const char *ks_view_severity(enum ks_severity severity)
{
    static const char *const words[] = {"low", "medium", "high"};
    KS_ASSERT((size_t)severity < KS_COUNT_OF(words));
    return words[severity];
}

const char *ks_view_step_verdict(enum ks_step_verdict verdict)
{
    static const char *const words[] = {"cannot_tell", "no_difference", "faster", "slower"};
    KS_ASSERT((size_t)verdict < KS_COUNT_OF(words));
    return words[verdict];
}

const char *ks_view_compare_state(enum ks_compare_state state)
{
    static const char *const words[] = {"both", "new", "gone"};
    KS_ASSERT((size_t)state < KS_COUNT_OF(words));
    return words[state];
}

const char *ks_view_finding_title(const struct ks_finding *finding)
{
    return finding->title ? finding->title : finding->rule->title;
}
