#include "export/host_stacks.h"

#include "analyze/device_time.h"
#include "analyze/row_names.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"
#include "export/folded_stacks.h"
#include "measure/sum.h"

enum { SEARCH_MAX = 4096, COMPACT_DEPTH = 64, DEPTH_MAX = KS_FOLDED_DEPTH_MAX };

struct open_row {
    int64_t start_ns;
    int64_t end_ns;
    int64_t covered_ns; /* union of the children */
    int64_t covered_until_ns;
    uint32_t node;
    uint32_t depth;
    bool has_node;   /* of its own: the stack is not too deep */
    bool is_nested;  /* it and all rows below it lie in one another */
    bool is_counted; /* its own time is asked for */
};

struct folder {
    const struct ks_facts *facts;
    enum ks_export_weight weight;
    bool wants_device;
    struct ks_row_filter filter;
    struct ks_row_names names;
    struct ks_device_time device_time;
    struct ks_host_stacks *stacks;
    uint32_t *clean_of; /* by string id of the trace: 1 + id in the pool; 0: not known yet */
    struct ks_text scratch;
    struct open_row *open;
    size_t open_count;
    size_t open_capacity;
    size_t compact_at;
    uint32_t source;
};

/* ------------------------------------------------------------------ names */

static enum ks_status clean_name(struct folder *folder, uint32_t name, uint32_t *clean,
                                 struct ks_err *err)
{
    if (folder->clean_of[name] == 0) {
        bool is_step = ks_row_names_get(&folder->names, name) & KS_NAME_PROFILER_STEP;
        struct ks_str text = ks_trace_str(folder->facts->trace, (struct ks_strid){name});
        ks_text_reset(&folder->scratch);
        ks_folded_append_name(&folder->scratch, is_step ? KS_STR("ProfilerStep*") : text);
        if (folder->scratch.failed) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep a name: no memory");
        }
        struct ks_strid id;
        struct ks_str plain = {folder->scratch.ptr, folder->scratch.len};
        KS_TRY(ks_strpool_intern(folder->stacks->pool, plain, &id, err));
        folder->clean_of[name] = id.v + 1;
    }
    *clean = folder->clean_of[name] - 1;
    return KS_OK;
}

/* ------------------------------------------------------------------ open rows */

static void close_row(struct folder *folder, const struct open_row *row)
{
    if (row->is_counted) {
        int64_t own_ns = ks_sum_sub(row->end_ns, row->start_ns) - row->covered_ns;
        struct ks_stack_node *node = &folder->stacks->tree.nodes[row->node];
        node->value = ks_sum_add(node->value, own_ns);
        node->calls += row->has_node;
    }
}

/* Puts a row on top of the first `at`. */
static void stack_row(struct folder *folder, size_t at, struct open_row row)
{
    const struct open_row *below = at > 0 ? &folder->open[at - 1] : NULL;
    row.is_nested = !below || (below->is_nested && row.end_ns <= below->end_ns);
    folder->open[at] = row;
}

/* Closes what ended before `ns`, also below rows that are still open. */
static void compact(struct folder *folder, int64_t ns)
{
    size_t kept = 0;
    for (size_t i = 0; i < folder->open_count; i++) {
        if (folder->open[i].end_ns <= ns) {
            close_row(folder, &folder->open[i]);
        } else {
            stack_row(folder, kept++, folder->open[i]);
        }
    }
    folder->open_count = kept;
    folder->compact_at = 2 * kept > COMPACT_DEPTH ? 2 * kept : COMPACT_DEPTH;
}

/* The smallest open row that holds [start, end), or NULL. While all open rows nest, that is the
 * top; else rows below are looked at until they started too early to be smaller. */
static struct open_row *find_parent(struct folder *folder, int64_t start_ns, int64_t end_ns)
{
    struct open_row *best = NULL;
    int64_t best_ns = INT64_MAX;
    size_t searched = 0;
    for (size_t i = folder->open_count; i > 0 && searched < SEARCH_MAX; i--, searched++) {
        struct open_row *row = &folder->open[i - 1];
        int64_t dur_ns = ks_sum_sub(row->end_ns, row->start_ns);
        if (row->end_ns >= end_ns && row->start_ns <= start_ns && dur_ns < best_ns) {
            best = row;
            best_ns = dur_ns;
            if (row->is_nested) {
                break;
            }
        }
        if (best && ks_sum_sub(end_ns, row->start_ns) > best_ns) {
            break;
        }
    }
    return best;
}

static void cover(struct open_row *parent, int64_t start_ns, int64_t end_ns)
{
    int64_t from_ns = start_ns > parent->covered_until_ns ? start_ns : parent->covered_until_ns;
    if (end_ns > from_ns) {
        parent->covered_ns += end_ns - from_ns;
        parent->covered_until_ns = end_ns;
    }
}

static enum ks_status open_row(struct folder *folder, struct open_row row, uint32_t name,
                               uint32_t *node, struct ks_err *err)
{
    while (folder->open_count > 0 && folder->open[folder->open_count - 1].end_ns <= row.start_ns) {
        close_row(folder, &folder->open[--folder->open_count]);
    }
    if (folder->open_count >= folder->compact_at) {
        compact(folder, row.start_ns);
    }
    struct open_row *parent = find_parent(folder, row.start_ns, row.end_ns);
    row.node = parent ? parent->node : KS_STACK_ROOT;
    row.depth = parent ? parent->depth + 1 : 1;
    if (parent) {
        cover(parent, row.start_ns, row.end_ns);
    }
    if (row.depth <= DEPTH_MAX) {
        uint32_t clean = 0;
        KS_TRY(clean_name(folder, name, &clean, err));
        KS_TRY(ks_stack_tree_child(&folder->stacks->tree, row.node, clean, &row.node, err));
        row.has_node = true;
    }
    KS_TRY(ks_grow(&folder->open, folder->open_count, &folder->open_capacity, sizeof(*folder->open),
                   "open operators", err));
    stack_row(folder, folder->open_count++, row);
    *node = row.node;
    return KS_OK;
}

/* ------------------------------------------------------------------ rows */

/* GPU time goes to operators and annotations, as in the table of operators. */
static bool has_device_time(struct folder *folder, const struct ks_slice_scan *scan, size_t i)
{
    uint8_t category = scan->col.category[i];
    bool is_operator = category == KS_CATEGORY_NONE || category == KS_CATEGORY_CPU_OP ||
                       category == KS_CATEGORY_OTHER_HOST ||
                       category == KS_CATEGORY_USER_ANNOTATION;
    return is_operator && !(scan->col.flags[i] & KS_SLICE_HIDDEN) &&
           !(ks_row_names_get(&folder->names, scan->col.name[i]) & KS_NAME_DROPPED);
}

static enum ks_status note_row(struct folder *folder, const struct ks_slice_scan *scan, size_t i,
                               struct ks_err *err)
{
    uint8_t category = scan->col.category[i];
    bool is_async = scan->col.flags[i] & KS_SLICE_ASYNC; /* overlaps freely: no self time */
    if (category == KS_CATEGORY_OVERHEAD || category == KS_CATEGORY_TRACE || is_async ||
        !ks_row_filter_has_category(&folder->filter, category)) {
        return KS_OK;
    }
    int64_t start_ns = scan->col.start_ns[i];
    struct open_row row = {.start_ns = start_ns,
                           .end_ns = ks_sum_add(start_ns, scan->col.dur_ns[i]),
                           .covered_until_ns = INT64_MIN,
                           .is_counted =
                               ks_step_lookup_keeps_host(folder->facts, folder->source, start_ns)};
    uint32_t node;
    if (!ks_row_filter_clip(&folder->filter, &row.start_ns, &row.end_ns)) {
        return KS_OK;
    }
    KS_TRY(open_row(folder, row, scan->col.name[i], &node, err));
    /* What an operator launched counts where it begins. */
    row.is_counted &= row.start_ns == start_ns;
    if (folder->wants_device && row.is_counted && has_device_time(folder, scan, i)) {
        int64_t *device_ns = &folder->stacks->tree.nodes[node].device_ns;
        *device_ns =
            ks_sum_add(*device_ns, ks_device_time_find(&folder->device_time, folder->source,
                                                       scan->col.ext_id[i]));
    }
    return KS_OK;
}

static const uint64_t columns =
    KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
    KS_COLUMN_BIT(KS_SLICE_COL_ext_id) | KS_COLUMN_BIT(KS_SLICE_COL_name) |
    KS_COLUMN_BIT(KS_SLICE_COL_category) | KS_COLUMN_BIT(KS_SLICE_COL_flags);

static enum ks_status scan_lane(struct folder *folder, const struct ks_lane *lane,
                                struct ks_err *err)
{
    const struct ks_trace *trace = folder->facts->trace;
    folder->source = ks_trace_track(trace, lane->track)->source;
    folder->compact_at = COMPACT_DEPTH;
    struct ks_slice_scan scan;
    enum ks_status status;
    ks_slice_scan_open(&scan, trace, columns, lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = note_row(folder, &scan, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    while (folder->open_count > 0) {
        close_row(folder, &folder->open[--folder->open_count]);
    }
    return status == KS_END ? KS_OK : status;
}

/* Of a recording without spans, what it has is taken. */
static enum ks_export_weight choose_weight(const struct folder *folder)
{
    const struct ks_trace *trace = folder->facts->trace;
    bool has_spans = ks_trace_rows(trace, KS_TABLE_slice) > 0;
    if (folder->weight != KS_EXPORT_SELF_CPU || has_spans) {
        return folder->weight;
    }
    return ks_trace_call_path_count(trace) > 0         ? KS_EXPORT_FUNCTIONS
           : ks_trace_rows(trace, KS_TABLE_sample) > 0 ? KS_EXPORT_SAMPLES
                                                       : KS_EXPORT_SELF_CPU;
}

static enum ks_status scan_lanes(struct folder *folder, struct ks_err *err)
{
    size_t lane_count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(folder->facts->trace, KS_TABLE_slice, &lane_count);
    for (size_t i = 0; i < lane_count; i++) {
        KS_TRY(scan_lane(folder, &lanes[i], err));
    }
    return KS_OK;
}

static enum ks_status fill_tree(struct folder *folder, struct ks_err *err)
{
    switch (choose_weight(folder)) {
    case KS_EXPORT_FUNCTIONS:
        return ks_folded_add_paths(&folder->filter, folder->stacks->pool, &folder->stacks->tree,
                                   err);
    case KS_EXPORT_SAMPLES:
        return ks_folded_add_samples(&folder->filter, folder->stacks->pool, &folder->stacks->tree,
                                     err);
    case KS_EXPORT_DEVICE:
    case KS_EXPORT_SELF_CPU: break;
    }
    if (folder->wants_device) {
        KS_TRY(ks_device_time_init(&folder->device_time, folder->facts, err));
    }
    return scan_lanes(folder, err);
}

static enum ks_status fold(struct folder *folder, struct ks_err *err)
{
    const struct ks_trace *trace = folder->facts->trace;
    size_t names = (size_t)ks_trace_str_count(trace) + 1;
    folder->clean_of = ks_alloc(names, sizeof(uint32_t));
    if (!folder->clean_of) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep names: count=%zu", names);
    }
    KS_TRY(ks_strpool_create(&folder->stacks->pool, err));
    KS_TRY(ks_row_names_init(&folder->names, trace, err));
    KS_TRY(ks_stack_tree_init(&folder->stacks->tree, err));
    return fill_tree(folder, err);
}

enum ks_status ks_host_stacks_init(struct ks_host_stacks *stacks, const struct ks_view *view,
                                   const struct ks_export_options *options, bool wants_device,
                                   struct ks_err *err)
{
    struct folder folder = {.facts = view->facts, .weight = options->weight, .stacks = stacks};
    *stacks = (struct ks_host_stacks){0};
    folder.wants_device = wants_device;
    KS_TRY(ks_row_filter_init(&folder.filter, view, options, err));
    ks_text_init(&folder.scratch);
    enum ks_status status = fold(&folder, err);
    ks_device_time_release(&folder.device_time);
    ks_row_names_release(&folder.names);
    ks_text_release(&folder.scratch);
    ks_free(folder.clean_of);
    ks_free(folder.open);
    return status;
}

void ks_host_stacks_release(struct ks_host_stacks *stacks)
{
    ks_stack_tree_release(&stacks->tree);
    ks_strpool_destroy(stacks->pool);
    stacks->pool = NULL;
}
