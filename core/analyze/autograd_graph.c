/* Whether steps record a graph for a backward pass, and whether there ever is one
 * (docs/analyses/autograd_graph.md). One pass over the host rows.
 *
 * Where gradients are enabled, an operator carries the number that the next node of the graph gets;
 * the number grows by each node. Autocast converts parameters with gradients enabled also where the
 * program disabled them, so operators that convert do not count. */
#include "analyze/lane_sweep.h"
#include "analyze/registry.h"
#include "analyze/step_lookup.h"
#include "base/err.h"

struct walk {
    struct ks_analyzer *analyzer;
    struct ks_step_range range;
    struct ks_graph_fact *fact;
    uint32_t *nodes_of; /* by string id */
    uint64_t nodes;
    int64_t last; /* number of the thread's last node */
};

static void note_row(struct walk *walk, const struct ks_slice_scan *scan, size_t i)
{
    uint8_t category = scan->col.category[i];
    if (category != KS_CATEGORY_CPU_OP && category != KS_CATEGORY_USER_ANNOTATION) {
        return;
    }
    uint32_t name = scan->col.name[i];
    unsigned flags = ks_row_names_get(&walk->analyzer->names, name);
    int64_t number = scan->col.seq[i];
    if (flags & KS_NAME_TRAINING) {
        walk->fact->has_backward = true;
    }
    if (category != KS_CATEGORY_CPU_OP || number <= walk->last || (flags & KS_NAME_MOVE)) {
        return;
    }
    /* The first number tells that gradients are enabled, the others that nodes were made. */
    bool is_node = walk->last >= 0;
    walk->last = number;
    const struct ks_step *steps = walk->analyzer->facts->steps + walk->range.begin;
    size_t count = walk->range.end - walk->range.begin;
    size_t step = ks_step_lookup(steps, count, scan->col.start_ns[i]);
    if (is_node && step < count && steps[step].is_complete) {
        walk->nodes++;
        walk->nodes_of[name]++;
    }
}

static enum ks_status scan_lane(struct walk *walk, const struct ks_lane *lane, struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    walk->last = -1;
    ks_slice_scan_open(&scan, walk->analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_seq) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_category),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            note_row(walk, &scan, i);
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static void keep(const struct walk *walk, size_t name_count)
{
    const struct ks_facts *facts = walk->analyzer->facts;
    uint64_t steps = 0;
    uint32_t most = 0;
    for (size_t i = walk->range.begin; i < walk->range.end; i++) {
        steps += facts->steps[i].is_complete;
    }
    for (size_t i = 1; i < name_count; i++) {
        if (walk->nodes_of[i] > most) {
            most = walk->nodes_of[i];
            walk->fact->op = (struct ks_strid){(uint32_t)i};
        }
    }
    walk->fact->nodes = steps > 0 ? (double)walk->nodes / (double)steps : 0;
}

static enum ks_status graph_of_source(struct ks_analyzer *analyzer, uint32_t source,
                                      struct ks_err *err)
{
    size_t name_count = (size_t)ks_trace_str_count(analyzer->trace) + 1;
    size_t count = 0;
    const struct ks_lane *lanes =
        ks_lane_sweep_lanes(analyzer->trace, KS_TABLE_slice, source, &count);
    struct walk walk = {.analyzer = analyzer,
                        .range = analyzer->facts->step_ranges[source],
                        .fact = &analyzer->facts->graphs[source],
                        .nodes_of = ks_new(&analyzer->scratch, uint32_t, name_count)};
    if (!walk.nodes_of) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow graphs: names=%zu",
                       name_count);
    }
    for (size_t i = 0; i < count; i++) {
        KS_TRY(scan_lane(&walk, &lanes[i], err));
    }
    keep(&walk, name_count);
    return KS_OK;
}

enum ks_status ks_autograd_graph_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    uint32_t count = ks_trace_source_count(analyzer->trace);
    facts->graphs = ks_new(analyzer->results, struct ks_graph_fact, count + 1);
    if (!facts->graphs) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow graphs: sources=%u", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct ks_arena_mark mark = ks_arena_mark(&analyzer->scratch);
        enum ks_status status = graph_of_source(analyzer, i, err);
        ks_arena_rewind(&analyzer->scratch, mark);
        KS_TRY(status);
    }
    return KS_OK;
}
