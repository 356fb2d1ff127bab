#include "analyze/facts.h"

#include <pthread.h>

#include "analyze/registry.h"
#include "base/alloc.h"
#include "base/err.h"

static enum ks_status note_what_exists(struct ks_facts *facts, struct ks_err *err)
{
    const struct ks_trace *trace = facts->trace;
    facts->has_memory = ks_trace_rows(trace, KS_TABLE_memory) > 0;
    for (uint32_t i = 0; i < ks_trace_source_count(trace); i++) {
        const struct ks_source *source = ks_trace_source(trace, i);
        facts->has_shapes = facts->has_shapes || source->record_shapes;
        facts->has_memory = facts->has_memory || source->profile_memory;
        facts->running_count += source->is_running;
    }
    struct ks_gpu_scan scan;
    enum ks_status status = KS_OK;
    ks_gpu_scan_open(&scan, trace, KS_COLUMN_BIT(KS_GPU_COL_category), 0,
                     ks_trace_rows(trace, KS_TABLE_gpu));
    while (!facts->has_gpu && (status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && !facts->has_gpu; i++) {
            facts->has_gpu = ks_category_is_work(scan.col.category[i]);
        }
    }
    ks_gpu_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status prepare(struct ks_facts *facts, struct ks_err *err)
{
    uint32_t source_count = ks_trace_source_count(facts->trace);
    facts->sources = ks_new(&facts->arena, struct ks_source_fact, source_count + 1);
    if (!facts->sources) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep facts: sources=%u",
                       source_count);
    }
    facts->source_count = source_count;
    return note_what_exists(facts, err);
}

/* ------------------------------------------------------------------ stages */

static enum ks_status analyzer_init(struct ks_analyzer *analyzer, struct ks_facts *facts,
                                    struct ks_arena *results, const struct ks_facts *framed,
                                    struct ks_err *err)
{
    *analyzer = (struct ks_analyzer){
        .trace = facts->trace, .facts = facts, .results = results, .framed = framed};
    ks_arena_init(&analyzer->scratch);
    return ks_row_names_init(&analyzer->names, facts->trace, err);
}

static void analyzer_release(struct ks_analyzer *analyzer)
{
    ks_row_names_release(&analyzer->names);
    ks_free(analyzer->copies.items);
    ks_device_time_release(&analyzer->device_time);
    ks_arena_release(&analyzer->scratch);
}

static enum ks_status run_stage(struct ks_analyzer *analyzer, enum ks_analysis_stage stage,
                                struct ks_err *err)
{
    const struct ks_analysis *analysis;
    for (size_t i = 0; (analysis = ks_analysis_at(i)) != NULL; i++) {
        if (analysis->stage == stage) {
            struct ks_arena_mark mark = ks_arena_mark(&analyzer->scratch);
            KS_TRY(analysis->compute(analyzer, err));
            ks_arena_rewind(&analyzer->scratch, mark);
        }
    }
    return KS_OK;
}

/* The stage that has a thread, or at least an analyzer of its own. */
struct beside {
    struct ks_analyzer analyzer;
    struct ks_arena results;
    enum ks_status status;
    struct ks_err err;
};

static void *run_beside(void *user)
{
    struct beside *beside = user;
    beside->status = run_stage(&beside->analyzer, KS_STAGE_BESIDE, &beside->err);
    return NULL;
}

/* Both middle stages; without a second thread one after the other. */
static enum ks_status run_both(struct ks_analyzer *analyzer, struct beside *beside,
                               bool uses_two_threads, struct ks_err *err)
{
    pthread_t thread;
    bool is_running = uses_two_threads && pthread_create(&thread, NULL, run_beside, beside) == 0;
    enum ks_status status = run_stage(analyzer, KS_STAGE_MIDDLE, err);
    if (is_running) {
        pthread_join(thread, NULL);
    } else if (status == KS_OK) {
        run_beside(beside);
    }
    ks_arena_adopt(analyzer->results, &beside->results);
    if (status == KS_OK && beside->status != KS_OK) {
        status = beside->status;
        if (err) {
            *err = beside->err;
        }
    }
    return status;
}

static enum ks_status run_stages(struct ks_analyzer *analyzer, bool uses_two_threads,
                                 struct ks_err *err)
{
    struct beside beside = {.status = KS_OK};
    ks_arena_init(&beside.results);
    KS_TRY(run_stage(analyzer, KS_STAGE_FIRST, err));
    enum ks_status status =
        analyzer_init(&beside.analyzer, analyzer->facts, &beside.results, analyzer->framed, err);
    if (status == KS_OK) {
        status = run_both(analyzer, &beside, uses_two_threads, err);
    }
    analyzer_release(&beside.analyzer);
    KS_TRY(status);
    return run_stage(analyzer, KS_STAGE_LAST, err);
}

enum ks_status ks_facts_compute(const struct ks_trace *trace, const struct ks_scope *scope,
                                struct ks_facts *facts, struct ks_err *err)
{
    const struct ks_facts_help none = {0};
    return ks_facts_compute_with(trace, scope, &none, facts, err);
}

enum ks_status ks_facts_compute_with(const struct ks_trace *trace, const struct ks_scope *scope,
                                     const struct ks_facts_help *help, struct ks_facts *facts,
                                     struct ks_err *err)
{
    ks_arena_init(&facts->arena);
    facts->trace = trace;
    facts->scope = *scope;
    KS_TRY(prepare(facts, err));
    struct ks_analyzer analyzer;
    enum ks_status status = analyzer_init(&analyzer, facts, &facts->arena, help->framed, err);
    if (status == KS_OK) {
        status = run_stages(&analyzer, help->uses_two_threads, err);
    }
    analyzer_release(&analyzer);
    return status;
}

/* ------------------------------------------------------------------ steps that count */

bool ks_step_counts(const struct ks_facts *facts, const struct ks_step *step)
{
    return step->is_complete || facts->complete_step_count == 0;
}

/* The steps that count, as if no others had been kept. */
static enum ks_status keep_counting(const struct ks_facts *facts, struct ks_facts *out,
                                    struct ks_err *err)
{
    out->steps = ks_new(&out->arena, struct ks_step, facts->step_count + 1);
    out->step_ranges = ks_new(&out->arena, struct ks_step_range, facts->source_count + 1);
    if (!out->steps || !out->step_ranges) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep steps: count=%zu",
                       facts->step_count);
    }
    for (size_t source = 0; facts->step_ranges && source < facts->source_count; source++) {
        struct ks_step_range range = facts->step_ranges[source];
        out->step_ranges[source].begin = out->step_count;
        for (size_t i = range.begin; i < range.end; i++) {
            if (ks_step_counts(facts, &facts->steps[i])) {
                out->steps[out->step_count++] = facts->steps[i];
            }
        }
        out->step_ranges[source].end = out->step_count;
    }
    return KS_OK;
}

enum ks_status ks_facts_count_work(const struct ks_facts *facts, bool group_by_shape,
                                   struct ks_facts *out, struct ks_err *err)
{
    ks_arena_init(&out->arena);
    out->trace = facts->trace;
    out->scope = facts->scope;
    out->scope.group_by_shape = group_by_shape;
    out->scope.group_by_stack = 0;
    out->scope.step_range_given = true; // rows outside of the kept steps count nowhere
    out->source_count = facts->source_count;
    out->has_memory = facts->has_memory;
    out->has_shapes = facts->has_shapes;
    KS_TRY(keep_counting(facts, out, err));
    struct ks_analyzer analyzer;
    enum ks_status status = analyzer_init(&analyzer, out, &out->arena, NULL, err);
    if (status == KS_OK) {
        status = ks_kernels_compute(&analyzer, err);
    }
    if (status == KS_OK) {
        status = ks_operators_compute(&analyzer, err);
    }
    analyzer_release(&analyzer);
    return status;
}

void ks_facts_release(struct ks_facts *facts)
{
    ks_arena_release(&facts->arena);
    *facts = (struct ks_facts){0};
}

struct ks_str ks_operator_label(const struct ks_facts *facts, const struct ks_operator_fact *op)
{
    return op->is_folded_step ? KS_STR("ProfilerStep*") : ks_trace_str(facts->trace, op->name);
}

struct ks_str ks_copy_label(const struct ks_facts *facts, const struct ks_copy_fact *copy)
{
    struct ks_str name = ks_trace_str(facts->trace, copy->kind);
    struct ks_str prefix = KS_STR("Memcpy ");
    if (ks_str_starts(name, prefix)) {
        return (struct ks_str){name.ptr + prefix.len, name.len - prefix.len};
    }
    return name;
}
