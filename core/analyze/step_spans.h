/* Host spans of steps while they are searched for, and the ways to find them in a trace that has
 * no ProfilerStep rows. Memory: one entry a step, in the worst case one a GPU row. */
#ifndef KS_ANALYZE_STEP_SPANS_H
#define KS_ANALYZE_STEP_SPANS_H

#include "analyze/registry.h"

struct ks_step_span {
    int64_t start_ns;
    int64_t end_ns;
    int64_t number;
    int64_t tokens; /* KS_UNKNOWN */
    uint32_t name;
    uint32_t thread; /* track, 0 none */
    enum ks_step_kind kind;
    bool is_complete;
};

struct ks_step_spans {
    struct ks_step_span *items;
    size_t count;
    size_t capacity;
};

/* What one scan over a source saw. */
struct ks_step_candidates {
    uint32_t source;
    int64_t start_ns; /* first start and last end of its rows; start > end: it has no row */
    int64_t end_ns;
    struct ks_step_spans profiler, mark, engine, optimizer;
};

enum ks_status ks_step_spans_add(struct ks_step_spans *spans, const struct ks_step_span *span,
                                 struct ks_err *err) KS_MUST_CHECK;
void ks_step_spans_release(struct ks_step_spans *spans);
/* Orders by start, longest first, thread. */
void ks_step_spans_sort(struct ks_step_spans *spans);

/* Kind and tokens of an iteration by the name that vLLM or SGLang gives it. */
void ks_step_spans_describe_engine(struct ks_str name, struct ks_step_span *span);

/* Chooses how the steps of a source are found, in the order of enum ks_step_source, and gives
 * their spans in time order. `*by_gpu_time`: GPU work belongs to a step by its own start, since
 * the spans lie on the device's time line or cover the whole recording. */
enum ks_status ks_step_spans_choose(struct ks_analyzer *analyzer,
                                    struct ks_step_candidates *candidates,
                                    struct ks_step_spans *out, enum ks_step_source *found_by,
                                    bool *by_gpu_time, struct ks_err *err) KS_MUST_CHECK;

#endif
