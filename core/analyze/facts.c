#include "analyze/facts.h"

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

static enum ks_status compute_all(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    uint32_t source_count = ks_trace_source_count(facts->trace);
    facts->sources = ks_new(&facts->arena, struct ks_source_fact, source_count + 1);
    if (!facts->sources) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep facts: sources=%u",
                       source_count);
    }
    facts->source_count = source_count;
    KS_TRY(note_what_exists(facts, err));
    const struct ks_analysis *analysis;
    for (size_t i = 0; (analysis = ks_analysis_at(i)) != NULL; i++) {
        struct ks_arena_mark mark = ks_arena_mark(&analyzer->scratch);
        KS_TRY(analysis->compute(analyzer, err));
        ks_arena_rewind(&analyzer->scratch, mark);
    }
    return KS_OK;
}

enum ks_status ks_facts_compute(const struct ks_trace *trace, const struct ks_scope *scope,
                                struct ks_facts *facts, struct ks_err *err)
{
    return ks_facts_compute_with_places(trace, scope, NULL, facts, err);
}

enum ks_status ks_facts_compute_with_places(const struct ks_trace *trace,
                                            const struct ks_scope *scope,
                                            const struct ks_facts *framed, struct ks_facts *facts,
                                            struct ks_err *err)
{
    ks_arena_init(&facts->arena);
    facts->trace = trace;
    facts->scope = *scope;
    struct ks_analyzer analyzer = {.trace = trace, .facts = facts, .framed = framed};
    ks_arena_init(&analyzer.scratch);
    enum ks_status status = ks_row_names_init(&analyzer.names, trace, err);
    if (status == KS_OK) {
        status = compute_all(&analyzer, err);
    }
    ks_row_names_release(&analyzer.names);
    ks_free(analyzer.copies.items);
    ks_arena_release(&analyzer.scratch);
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
