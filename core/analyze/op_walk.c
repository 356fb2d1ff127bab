#include "analyze/op_walk.h"

#include "analyze/lane_sweep.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

struct walker {
    struct ks_op_walk walk;
    ks_op_cb visit;
    void *user;
    struct ks_link_scan links; /* of the lane, one ahead of the rows */
    size_t link;
    bool has_links;
};

/* ------------------------------------------------------------ open rows */

static enum ks_status close_rows(struct walker *w, int64_t now_ns, struct ks_err *err)
{
    struct ks_op_walk *walk = &w->walk;
    while (walk->open_count > 0 && walk->open[walk->open_count - 1].end_ns <= now_ns) {
        const struct ks_op_row row = walk->open[--walk->open_count];
        if (walk->open_count > 0) {
            struct ks_op_row *parent = &walk->open[walk->open_count - 1];
            parent->device_ns = ks_sum_add(parent->device_ns, row.device_ns);
            parent->child_ns = ks_sum_add(parent->child_ns, ks_sum_sub(row.end_ns, row.start_ns));
            parent->launches += row.launches;
            parent->graph_launches += row.graph_launches;
            parent->inner_ns = ks_sum_add(parent->inner_ns, row.device_ns);
            parent->inner_launches += row.launches;
            parent->syncs += row.syncs;
        }
        KS_TRY(w->visit(w->user, walk, &row, err));
    }
    return KS_OK;
}

static enum ks_status open_row(struct walker *w, const struct ks_slice_scan *scan, size_t i,
                               struct ks_err *err)
{
    struct ks_op_walk *walk = &w->walk;
    KS_TRY(ks_grow(&walk->open, walk->open_count, &walk->open_capacity, sizeof(*walk->open),
                   "open operators", err));
    const struct ks_op_row *parent =
        walk->open_count > 0 ? &walk->open[walk->open_count - 1] : NULL;
    bool is_below_aten = parent && (parent->around & KS_NAME_ATEN);
    walk->open[walk->open_count] =
        (struct ks_op_row){.start_ns = scan->col.start_ns[i],
                           .end_ns = ks_sum_add(scan->col.start_ns[i], scan->col.dur_ns[i]),
                           .calls_end_ns = scan->col.start_ns[i],
                           .seq = scan->col.seq[i],
                           .name = scan->col.name[i],
                           .dims = scan->col.dims[i],
                           .types = scan->col.types[i],
                           .flags = ks_row_names_get(&walk->analyzer->names, scan->col.name[i]),
                           .around = parent ? parent->around | parent->flags : 0,
                           .outer = is_below_aten ? parent->outer
                                    : parent      ? (uint32_t)walk->open_count - 1
                                                  : 0,
                           .is_op = scan->col.category[i] == KS_CATEGORY_CPU_OP};
    walk->open_count++;
    return KS_OK;
}

/* ------------------------------------------------------------ launches */

/* Time of the call's work: all of it lies behind each other, as a call launches one piece, or a
 * graph. */
static enum ks_status note_link(struct walker *w, size_t i, struct ks_err *err)
{
    const struct ks_link_cols *col = &w->links.col;
    KS_TRY(close_rows(w, col->start_ns[i], err));
    size_t open = w->walk.open_count;
    w->walk.loose_launches += col->gpu_count[i] > 0 && (open == 0 || !w->walk.open[open - 1].is_op);
    if (open > 0 && col->gpu_count[i] > 0) {
        struct ks_op_row *row = &w->walk.open[open - 1];
        row->device_ns =
            ks_sum_add(row->device_ns, ks_sum_sub(col->gpu_end_ns[i], col->gpu_first_ns[i]));
        row->launches++;
    }
    return KS_OK;
}

/* Calls that begin before `until_ns`. */
static enum ks_status pass_links(struct walker *w, int64_t until_ns, struct ks_err *err)
{
    while (w->has_links) {
        if (w->link == w->links.count) {
            enum ks_status status = ks_link_scan_next(&w->links, err);
            w->has_links = status == KS_OK;
            w->link = 0;
            if (!w->has_links) {
                return status == KS_END ? KS_OK : status;
            }
        }
        for (; w->link < w->links.count; w->link++) {
            if (w->links.col.start_ns[w->link] >= until_ns) {
                return KS_OK;
            }
            KS_TRY(note_link(w, w->link, err));
        }
    }
    return KS_OK;
}

/* ------------------------------------------------------------ lanes */

static enum ks_status note_call(struct walker *w, const struct ks_slice_scan *scan, size_t i,
                                struct ks_err *err)
{
    unsigned flags = ks_row_names_get(&w->walk.analyzer->names, scan->col.name[i]);
    if (!(flags &
          (KS_NAME_SYNC | KS_NAME_LAUNCH | KS_NAME_COPY | KS_NAME_MEMSET | KS_NAME_ALLOCATOR))) {
        return KS_OK;
    }
    int64_t start_ns = scan->col.start_ns[i];
    KS_TRY(pass_links(w, start_ns, err));
    KS_TRY(close_rows(w, start_ns, err));
    if (w->walk.open_count == 0) {
        return KS_OK;
    }
    struct ks_op_row *row = &w->walk.open[w->walk.open_count - 1];
    row->syncs += (flags & KS_NAME_SYNC) != 0;
    row->graph_launches += (flags & KS_NAME_GRAPH) != 0;
    /* A call of the driver may lie inside one of the runtime. */
    int64_t from_ns = start_ns > row->calls_end_ns ? start_ns : row->calls_end_ns;
    int64_t end_ns = ks_sum_add(start_ns, scan->col.dur_ns[i]);
    if (end_ns > from_ns) {
        row->calls_ns = ks_sum_add(row->calls_ns, ks_sum_sub(end_ns, from_ns));
        row->calls_end_ns = end_ns;
    }
    return KS_OK;
}

static enum ks_status note_row(struct walker *w, const struct ks_slice_scan *scan, size_t i,
                               struct ks_err *err)
{
    int64_t start_ns = scan->col.start_ns[i];
    switch (scan->col.category[i]) {
    case KS_CATEGORY_CPU_OP:
    case KS_CATEGORY_USER_ANNOTATION:
        if (scan->col.flags[i] & (KS_SLICE_UNFINISHED | KS_SLICE_ASYNC)) {
            return KS_OK;
        }
        KS_TRY(pass_links(w, start_ns, err));
        KS_TRY(close_rows(w, start_ns, err));
        return open_row(w, scan, i, err);
    case KS_CATEGORY_RUNTIME:
    case KS_CATEGORY_DRIVER: return note_call(w, scan, i, err);
    default: return KS_OK;
    }
}

static enum ks_status scan_rows(struct walker *w, const struct ks_lane *lane, struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    ks_slice_scan_open(&scan, w->walk.analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_seq) | KS_COLUMN_BIT(KS_SLICE_COL_name) |
                           KS_COLUMN_BIT(KS_SLICE_COL_dims) | KS_COLUMN_BIT(KS_SLICE_COL_types) |
                           KS_COLUMN_BIT(KS_SLICE_COL_category) | KS_COLUMN_BIT(KS_SLICE_COL_flags),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = note_row(w, &scan, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status walk_lane(struct walker *w, const struct ks_lane *lane, struct ks_err *err)
{
    const struct ks_trace *trace = w->walk.analyzer->trace;
    const struct ks_lane *links = ks_trace_lane_find(trace, KS_TABLE_link, lane->track);
    w->walk.lane = lane->track;
    w->walk.open_count = 0;
    w->walk.loose_launches = 0;
    w->link = 0;
    w->has_links = links != NULL;
    w->links = (struct ks_link_scan){0};
    if (links) {
        ks_link_scan_open(
            &w->links, trace,
            KS_COLUMN_BIT(KS_LINK_COL_start_ns) | KS_COLUMN_BIT(KS_LINK_COL_gpu_first_ns) |
                KS_COLUMN_BIT(KS_LINK_COL_gpu_end_ns) | KS_COLUMN_BIT(KS_LINK_COL_gpu_count),
            links->row_begin, links->row_end);
    }
    enum ks_status status = scan_rows(w, lane, err);
    if (status == KS_OK) {
        status = pass_links(w, INT64_MAX, err);
    }
    if (links) {
        ks_link_scan_close(&w->links);
    }
    return status == KS_OK ? close_rows(w, INT64_MAX, err) : status;
}

enum ks_status ks_op_walk(struct ks_analyzer *analyzer, uint32_t source, ks_op_cb visit, void *user,
                          struct ks_err *err)
{
    struct walker w = {
        .walk = {.analyzer = analyzer, .source = source}, .visit = visit, .user = user};
    size_t count = 0;
    const struct ks_lane *lanes =
        ks_lane_sweep_lanes(analyzer->trace, KS_TABLE_slice, source, &count);
    uint32_t first = ks_step_lookup_thread(analyzer->facts, source);
    enum ks_status status = KS_OK;
    for (int is_first = 1; is_first >= 0; is_first--) {
        for (size_t i = 0; i < count && status == KS_OK; i++) {
            if ((lanes[i].track == first) == (bool)is_first &&
                ks_trace_track(analyzer->trace, lanes[i].track)->kind == KS_TRACK_THREAD) {
                status = walk_lane(&w, &lanes[i], err);
            }
        }
    }
    ks_free(w.walk.open);
    return status;
}
