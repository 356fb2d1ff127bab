#include "page/page_timeline.h"

#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

enum {
    PARTS = 4000,        /* pixels of the widest screen */
    BLOCKS_MAX = 120000, /* about half a megabyte, compressed */
    SPANS_MAX = 150000,
};

/* ------------------------------------------------------------------ a span */

/* Does the range, which has not ended before the span starts, hold it? A span of no length is where
 * it begins. Spans on the last level lie on one another, so of them only those that begin in the
 * range: on each other level one at most reaches in from before it, which bounds them, whatever the
 * input. */
static bool holds(const struct ks_exact_range *range, const struct ks_page_span *span)
{
    return span->start_ns >= range->start_ns ||
           (ks_sum_add(span->start_ns, span->dur_ns) > range->start_ns &&
            span->depth < KS_SPAN_DEPTH_MAX);
}

/* Keeps the span for each exact range that holds it. Rows of a track come by start, so ranges that
 * ended before one are over. */
static enum ks_status add_exact(struct ks_page_timeline *t, const struct ks_page_span *span,
                                bool *is_exact, struct ks_err *err)
{
    const struct ks_exact_ranges *ranges = &t->ranges;
    int64_t end_ns = ks_sum_add(span->start_ns, span->dur_ns);
    while (t->range_at < ranges->count && ranges->list[t->range_at].end_ns <= span->start_ns) {
        t->range_at++;
    }
    for (size_t r = t->range_at; r < ranges->count && ranges->list[r].start_ns <= end_ns; r++) {
        if (!holds(&ranges->list[r], span)) {
            continue;
        }
        KS_TRY(ks_grow(&t->spans, t->span_count, &t->span_capacity, sizeof(*t->spans),
                       "spans of the timeline", err));
        t->spans[t->span_count++] = (struct ks_exact_span){*span, (uint16_t)r};
        *is_exact = true;
    }
    return KS_OK;
}

static void add_rest(struct ks_page_timeline *t, bool is_gpu, const struct ks_page_span *span)
{
    int64_t part = ks_sum_sub(span->start_ns, t->start_ns) / t->rest_ns;
    part = part < 0 ? 0 : part < KS_REST_PARTS ? part : KS_REST_PARTS - 1;
    struct ks_rest_block *block = &t->rest[is_gpu][part];
    int64_t end_ns = ks_sum_add(span->start_ns, span->dur_ns);
    bool is_first = block->count++ == 0;
    if (is_first || span->dur_ns > block->longest_ns) {
        block->longest_ns = span->dur_ns;
        block->name = span->name;
    }
    block->start_ns =
        is_first || span->start_ns < block->start_ns ? span->start_ns : block->start_ns;
    block->end_ns = is_first || end_ns > block->end_ns ? end_ns : block->end_ns;
}

/* The span's name is a string id of the trace; its depth is to be found, but for tracks that share
 * one. `*is_exact` becomes true when a range holds it. */
static enum ks_status add_span(struct ks_page_timeline *t, struct ks_page_span *span,
                               bool *is_exact, struct ks_err *err)
{
    struct ks_page_track *track = &t->tracks.list[span->track];
    uint32_t depth = 0;
    track->events++;
    if (ks_page_track_is_rest(track)) {
        add_rest(t, track->kind == KS_PAGE_REST_GPU, span);
        return KS_OK;
    }
    KS_TRY(ks_span_depths_place(&track->depths, span->start_ns,
                                ks_sum_add(span->start_ns, span->dur_ns), &depth, err));
    span->depth = (uint16_t)depth;
    track->depth_max = depth > track->depth_max ? depth : track->depth_max;
    KS_TRY(ks_span_blocks_add(&t->blocks, span, err));
    return add_exact(t, span, is_exact, err);
}

/* Notes where the row lies; spans that were not placed have no depth. */
static void note_row(const struct ks_page_timeline *t, bool is_gpu, size_t lane, uint64_t row,
                     const struct ks_page_span *span)
{
    if (t->rows) {
        ks_page_rows_note(is_gpu ? &t->rows->gpu : &t->rows->slice, lane, row, span->start_ns,
                          ks_sum_add(span->start_ns, span->dur_ns), (uint8_t)span->depth);
    }
}

/* ------------------------------------------------------------------ the host */

static enum ks_status scan_thread(struct ks_page_timeline *t, const struct ks_lane *lanes,
                                  size_t index, struct ks_err *err)
{
    const struct ks_lane *lane = &lanes[index];
    struct ks_slice_scan scan;
    enum ks_status status;
    uint16_t place = ks_page_tracks_host(&t->tracks, lane->track);
    uint32_t source = ks_trace_track(t->view->trace, lane->track)->source;
    t->range_at = 0;
    ks_slice_scan_open(&scan, t->view->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            struct ks_page_span span = {.start_ns = scan.col.start_ns[i],
                                        .dur_ns = scan.col.dur_ns[i],
                                        .name = scan.col.name[i],
                                        .track = place,
                                        .depth = KS_PAGE_ROW_HIDDEN};
            bool is_exact = false;
            if (ks_step_lookup_keeps_host(t->view->facts, source, span.start_ns)) {
                status = add_span(t, &span, &is_exact, err);
            }
            note_row(t, false, index, scan.row + i, &span);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status scan_threads(struct ks_page_timeline *t, struct ks_err *err)
{
    size_t count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(t->view->trace, KS_TABLE_slice, &count);
    for (size_t i = 0; i < count; i++) {
        KS_TRY(scan_thread(t, lanes, i, err));
    }
    return KS_OK;
}

static enum ks_status add_steps(struct ks_page_timeline *t, struct ks_err *err)
{
    const struct ks_facts *facts = t->view->facts;
    for (size_t i = 0; i < facts->step_count; i++) {
        const struct ks_step *step = &facts->steps[i];
        bool is_exact = false;
        bool is_first = i == 0 || step->source != facts->steps[i - 1].source;
        t->range_at = is_first ? 0 : t->range_at;
        struct ks_page_span span = {.start_ns = step->start_ns,
                                    .dur_ns = step->dur_ns,
                                    .name = step->name.v,
                                    .track = ks_page_tracks_steps(&t->tracks, step->source)};
        KS_TRY(add_span(t, &span, &is_exact, err));
        if (t->rows) {
            t->rows->step_depths[i] = (uint8_t)span.depth;
        }
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ devices */

static const uint64_t gpu_columns =
    KS_COLUMN_BIT(KS_GPU_COL_lane) | KS_COLUMN_BIT(KS_GPU_COL_start_ns) |
    KS_COLUMN_BIT(KS_GPU_COL_dur_ns) | KS_COLUMN_BIT(KS_GPU_COL_launch_ns) |
    KS_COLUMN_BIT(KS_GPU_COL_launch_lane) | KS_COLUMN_BIT(KS_GPU_COL_stream) |
    KS_COLUMN_BIT(KS_GPU_COL_name) | KS_COLUMN_BIT(KS_GPU_COL_category);

bool ks_page_timeline_flow(const struct ks_page_timeline *timeline, const struct ks_gpu_cols *col,
                           size_t i, uint16_t track, struct ks_page_flow *flow)
{
    const struct ks_page_tracks *tracks = &timeline->tracks;
    if (col->launch_ns[i] == KS_TIME_NONE ||
        !ks_page_tracks_has_host(tracks, col->launch_lane[i]) ||
        !ks_category_is_work((enum ks_category)col->category[i])) {
        return false;
    }
    uint16_t from = ks_page_tracks_host(tracks, col->launch_lane[i]);
    *flow = (struct ks_page_flow){col->launch_ns[i], col->start_ns[i], from, track};
    return !ks_page_track_is_rest(&tracks->list[from]);
}

static enum ks_status add_flow(struct ks_page_timeline *t, const struct ks_gpu_cols *col, size_t i,
                               uint16_t to, struct ks_err *err)
{
    struct ks_page_flow flow;
    if (!ks_page_timeline_flow(t, col, i, to, &flow)) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&t->flows, t->flow_count, &t->flow_capacity, sizeof(*t->flows), "flows", err));
    t->flows[t->flow_count++] = flow;
    return KS_OK;
}

static enum ks_status add_gpu(struct ks_page_timeline *t, size_t lane,
                              const struct ks_gpu_scan *scan, size_t i, struct ks_err *err)
{
    const struct ks_gpu_cols *col = &scan->col;
    enum ks_category category = (enum ks_category)col->category[i];
    uint32_t stream = col->stream[i] != 0 ? col->stream[i] : col->lane[i];
    bool is_exact = false;
    struct ks_page_span span = {
        .start_ns = col->start_ns[i],
        .dur_ns = col->dur_ns[i],
        .name = col->name[i],
        .track = ks_page_tracks_gpu(&t->tracks, stream, ks_page_tracks_gpu_kind(category)),
        .depth = KS_PAGE_ROW_HIDDEN};
    if (ks_row_filter_keeps_gpu(&t->filter, col->lane[i], category, col->start_ns[i],
                                col->dur_ns[i], col->launch_ns[i])) {
        KS_TRY(add_span(t, &span, &is_exact, err));
    }
    note_row(t, true, lane, scan->row + i, &span);
    return is_exact ? add_flow(t, col, i, span.track, err) : KS_OK;
}

/* All streams of a device come together in time, so one place in the ranges serves them all. */
static enum ks_status scan_device(struct ks_page_timeline *t, const struct ks_lane *lanes,
                                  size_t index, struct ks_err *err)
{
    const struct ks_lane *lane = &lanes[index];
    struct ks_gpu_scan scan;
    enum ks_status status;
    t->range_at = 0;
    ks_gpu_scan_open(&scan, t->view->trace, gpu_columns, lane->row_begin, lane->row_end);
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = add_gpu(t, index, &scan, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_gpu_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status scan_devices(struct ks_page_timeline *t, struct ks_err *err)
{
    size_t count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(t->view->trace, KS_TABLE_gpu, &count);
    for (size_t i = 0; i < count; i++) {
        KS_TRY(scan_device(t, lanes, i, err));
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ names */

/* From string ids of the trace to places in the list, in the order in which the page needs them. */
static enum ks_status name_of(struct ks_page_timeline *t, uint32_t *name, struct ks_err *err)
{
    struct ks_str text = ks_view_str(t->view, (struct ks_strid){*name});
    return ks_page_names_find(&t->names, *name, text.len > 0 ? text : KS_STR("(no name)"), name,
                              err);
}

static enum ks_status set_names(struct ks_page_timeline *t, struct ks_err *err)
{
    for (size_t i = 0; i < t->blocks.count; i++) {
        KS_TRY(name_of(t, &t->blocks.list[i].name, err));
    }
    for (size_t r = 0; r < KS_COUNT_OF(t->rest); r++) {
        for (size_t i = 0; i < KS_REST_PARTS; i++) {
            if (t->rest[r][i].count > 0) {
                KS_TRY(name_of(t, &t->rest[r][i].name, err));
            }
        }
    }
    for (size_t i = 0; i < t->span_count; i++) {
        KS_TRY(name_of(t, &t->spans[i].span.name, err));
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ all of it */

static void widen(struct ks_page_timeline *t, int64_t start_ns, int64_t end_ns)
{
    t->start_ns = start_ns < t->start_ns ? start_ns : t->start_ns;
    t->end_ns = end_ns > t->end_ns ? end_ns : t->end_ns;
}

/* Only what is drawn counts: of marks counters, not the instants at which a profiler ended. */
static enum ks_status widen_by_counters(struct ks_page_timeline *t, struct ks_err *err)
{
    struct ks_mark_scan scan;
    enum ks_status status;
    ks_mark_scan_open(&scan, t->view->trace,
                      KS_COLUMN_BIT(KS_MARK_COL_start_ns) | KS_COLUMN_BIT(KS_MARK_COL_flags), 0,
                      ks_trace_rows(t->view->trace, KS_TABLE_mark));
    while ((status = ks_mark_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            if (scan.col.flags[i] & KS_MARK_COUNTER) {
                widen(t, scan.col.start_ns[i], scan.col.start_ns[i]);
            }
        }
    }
    ks_mark_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status widen_by_memory(struct ks_page_timeline *t, struct ks_err *err)
{
    struct ks_memory_scan scan;
    enum ks_status status;
    ks_memory_scan_open(&scan, t->view->trace, KS_COLUMN_BIT(KS_MEMORY_COL_start_ns), 0,
                        ks_trace_rows(t->view->trace, KS_TABLE_memory));
    while ((status = ks_memory_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            widen(t, scan.col.start_ns[i], scan.col.start_ns[i]);
        }
    }
    ks_memory_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

/* Steps may end behind all rows, and a recording may have curves alone. */
static enum ks_status find_span(struct ks_page_timeline *t, struct ks_err *err)
{
    const struct ks_facts *facts = t->view->facts;
    const struct ks_trace *trace = t->view->trace;
    t->start_ns = INT64_MAX;
    t->end_ns = INT64_MIN;
    if (ks_trace_rows(trace, KS_TABLE_slice) > 0 || ks_trace_rows(trace, KS_TABLE_gpu) > 0) {
        ks_trace_span(trace, &t->start_ns, &t->end_ns);
    }
    for (size_t i = 0; i < facts->step_count; i++) {
        widen(t, facts->steps[i].start_ns,
              ks_sum_add(facts->steps[i].start_ns, facts->steps[i].dur_ns));
    }
    KS_TRY(widen_by_counters(t, err));
    KS_TRY(widen_by_memory(t, err));
    if (t->start_ns > t->end_ns) {
        t->start_ns = t->end_ns = 0;
    }
    t->rest_ns = ks_sum_sub(t->end_ns, t->start_ns) / KS_REST_PARTS + 1;
    return KS_OK;
}

static enum ks_status gather(struct ks_page_timeline *t, struct ks_err *err)
{
    const struct ks_export_options all = {0};
    KS_TRY(ks_row_filter_init(&t->filter, t->view, &all, err));
    KS_TRY(ks_page_tracks_init(&t->tracks, t->view, err));
    KS_TRY(ks_exact_ranges_choose(&t->ranges, t->view, &t->tracks, SPANS_MAX, err));
    t->blocks = (struct ks_span_blocks){
        .count_max = BLOCKS_MAX, .origin_ns = t->start_ns, .track_count = t->tracks.count};
    KS_TRY(ks_span_blocks_init(&t->blocks, ks_sum_sub(t->end_ns, t->start_ns), PARTS, err));
    t->first_block = ks_alloc(t->tracks.count + 1, sizeof(*t->first_block));
    t->rest[0] = ks_alloc(KS_REST_PARTS, sizeof(*t->rest[0]));
    t->rest[1] = ks_alloc(KS_REST_PARTS, sizeof(*t->rest[1]));
    if (!t->first_block || !t->rest[0] || !t->rest[1]) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep the timeline: no memory");
    }
    KS_TRY(add_steps(t, err));
    KS_TRY(scan_threads(t, err));
    KS_TRY(scan_devices(t, err));
    KS_TRY(ks_span_blocks_seal(&t->blocks, t->first_block, err));
    KS_TRY(set_names(t, err));
    return ks_page_curves_add_counters(&t->counters, t->view, &t->filter, err);
}

enum ks_status ks_page_timeline_init(struct ks_page_timeline *timeline, const struct ks_view *view,
                                     struct ks_page_rows *rows, struct ks_err *err)
{
    *timeline = (struct ks_page_timeline){.view = view, .rows = rows};
    ks_page_names_init(&timeline->names, true);
    KS_TRY(find_span(timeline, err));
    ks_page_curves_init(&timeline->counters, timeline->start_ns, timeline->end_ns);
    return gather(timeline, err);
}

void ks_page_timeline_release(struct ks_page_timeline *timeline)
{
    ks_page_tracks_release(&timeline->tracks);
    ks_page_names_release(&timeline->names);
    ks_span_blocks_release(&timeline->blocks);
    ks_page_curves_release(&timeline->counters);
    ks_free(timeline->first_block);
    ks_free(timeline->rest[0]);
    ks_free(timeline->rest[1]);
    ks_free(timeline->spans);
    ks_free(timeline->flows);
}

size_t ks_page_timeline_size(const struct ks_page_timeline *timeline)
{
    return timeline->blocks.count + timeline->span_count + timeline->flow_count +
           timeline->counters.point_count + timeline->names.cost;
}
