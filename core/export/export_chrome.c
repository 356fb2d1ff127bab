/* Chrome's JSON: the text of the report's only file once more, of which the report knows the part
 * that is wanted.
 *
 * Steps are host spans that follow each other, so their rows are one stretch of time. GPU work runs
 * later: it is wanted when the call that launched it began there, which the link table knows by
 * correlation; GPU annotations when the annotation of the host did, by External id.
 */
#include "base/err.h"
#include "export/export.h"
#include "export/slim.h"
#include "measure/sum.h"

static enum ks_status remember(struct ks_map *ids, int64_t id, struct ks_err *err)
{
    if (id >= 0 && !ks_map_put(ids, 1, (uint64_t)id, NULL)) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep calls: count=%zu", ids->count);
    }
    return KS_OK;
}

static bool is_inside(const struct ks_slim_pick *pick, int64_t ns)
{
    return ns >= pick->from_ns && ns < pick->to_ns;
}

static enum ks_status note_calls(const struct ks_trace *trace, struct ks_slim_pick *pick,
                                 struct ks_err *err)
{
    struct ks_link_scan scan;
    enum ks_status status;
    ks_link_scan_open(&scan, trace,
                      KS_COLUMN_BIT(KS_LINK_COL_start_ns) | KS_COLUMN_BIT(KS_LINK_COL_corr), 0,
                      ks_trace_rows(trace, KS_TABLE_link));
    while ((status = ks_link_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            if (is_inside(pick, scan.col.start_ns[i])) {
                status = remember(&pick->correlations, scan.col.corr[i], err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_link_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status note_annotations(const struct ks_trace *trace, struct ks_slim_pick *pick,
                                       struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    ks_slice_scan_open(&scan, trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_ext_id) |
                           KS_COLUMN_BIT(KS_SLICE_COL_category),
                       0, ks_trace_rows(trace, KS_TABLE_slice));
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            if (scan.col.category[i] == KS_CATEGORY_USER_ANNOTATION &&
                is_inside(pick, scan.col.start_ns[i])) {
                status = remember(&pick->ext_ids, scan.col.ext_id[i], err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status pick_steps(const struct ks_view *view, struct ks_slim_pick *pick,
                                 struct ks_err *err)
{
    const struct ks_facts *facts = view->facts;
    pick->has_time = pick->is_steps = true;
    pick->from_ns = INT64_MAX;
    pick->to_ns = INT64_MIN;
    for (size_t i = 0; i < facts->step_count; i++) {
        const struct ks_step *step = &facts->steps[i];
        int64_t end_ns = ks_sum_add(step->host_start_ns, step->host_ns);
        pick->from_ns = step->host_start_ns < pick->from_ns ? step->host_start_ns : pick->from_ns;
        pick->to_ns = end_ns > pick->to_ns ? end_ns : pick->to_ns;
    }
    KS_TRY(note_calls(view->trace, pick, err));
    return note_annotations(view->trace, pick, err);
}

static enum ks_status fill_pick(const struct ks_view *view, uint32_t index,
                                const struct ks_export_options *options, struct ks_slim_pick *pick,
                                struct ks_err *err)
{
    const struct ks_trace *trace = view->trace;
    pick->keep = options->categories;
    if (options->time_given) {
        pick->has_time = true;
        pick->from_ns = options->time_from_ns;
        pick->to_ns = options->time_to_ns;
    } else if (view->facts->scope.step_range_given) {
        KS_TRY(pick_steps(view, pick, err));
    }
    /* From the trace's clock to that of the file. */
    const struct ks_source *source = ks_trace_source(trace, index);
    int64_t shift_ns = ks_sum_sub(source->base_ns, ks_trace_origin_ns(trace));
    pick->from_ns = ks_sum_sub(pick->from_ns, shift_ns);
    pick->to_ns = ks_sum_sub(pick->to_ns, shift_ns);
    return KS_OK;
}

/* The only file that has a text to hand on: recordings beside it have none. */
static enum ks_status find_source(const struct ks_view *view, uint32_t *index, struct ks_err *err)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < ks_trace_source_count(view->trace); i++) {
        bool is_text = !ks_trace_source(view->trace, i)->is_recording;
        *index = is_text ? i : *index;
        count += is_text;
    }
    if (count == 0) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot export a recording as chrome: it holds no text; --to perfetto "
                       "shows its regions");
    }
    if (count != 1) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot export %u files as one trace: choose one, or its rank by --rank",
                       count);
    }
    if (ks_str_equal(ks_view_path(view, *index), KS_STR("-"))) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot export standard input as chrome: it cannot be read twice; kscope "
                       "convert - does it without choosing steps or times");
    }
    return KS_OK;
}

enum ks_status ks_export_chrome(const struct ks_view *view, const struct ks_export_options *options,
                                const struct ks_log *log, ks_write_cb write, void *user,
                                struct ks_err *err)
{
    uint32_t index = 0;
    KS_TRY(find_source(view, &index, err));
    struct ks_slim slim = {.strict = options->strict, .log = log};
    ks_map_init(&slim.pick.correlations);
    ks_map_init(&slim.pick.ext_ids);
    enum ks_status status = fill_pick(view, index, options, &slim.pick, err);
    if (status == KS_OK) {
        /* Texts of the trace end in NUL. */
        status = ks_slim_write(ks_view_path(view, index).ptr, &slim, write, user, err);
    }
    ks_map_release(&slim.pick.correlations);
    ks_map_release(&slim.pick.ext_ids);
    return status;
}
