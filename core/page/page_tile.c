#include "page/page_tile.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"
#include "page/page_level.h"
#include "show/json_writer.h"

enum {
    SPANS_MAX = 40000, /* one by one; about 1.5 MB of text, drawn in some milliseconds */
    FLOWS_MAX = 20000,
    PARTS_MIN = 16,
    PARTS_MAX = 8192,
};

/* A tile under way. Spans are blocks that are not joined until they get too many. */
struct gather {
    const struct ks_page_timeline *t;
    int64_t start_ns;
    int64_t end_ns;
    int64_t resolution_ns; /* of the first joining */
    bool is_wanted[KS_PAGE_TRACKS_MAX];
    struct ks_span_blocks blocks;
    size_t *first_block; /* by track */
    struct ks_page_names names;
    struct ks_page_flow *flows;
    size_t flow_count;
    size_t flow_capacity;
    struct ks_page_level level;
    struct ks_json json;
};

/* ------------------------------------------------------------------ which spans */

static bool is_in(const struct gather *g, int64_t start_ns, int64_t dur_ns, uint8_t depth)
{
    if (start_ns >= g->start_ns) {
        return start_ns < g->end_ns;
    }
    /* Of spans on the last level, which lie on one another, only those that begin here. */
    return ks_sum_add(start_ns, dur_ns) > g->start_ns && depth < KS_SPAN_DEPTH_MAX;
}

static enum ks_status keep(struct gather *g, const struct ks_page_span *span, struct ks_err *err)
{
    if (g->blocks.count == g->blocks.count_max && g->blocks.resolution_ns == 0) {
        g->blocks.resolution_ns = g->resolution_ns / 2; /* which is doubled at once */
    }
    return ks_span_blocks_add(&g->blocks, span, err);
}

static enum ks_status add_steps(struct gather *g, struct ks_err *err)
{
    const struct ks_page_timeline *t = g->t;
    const struct ks_facts *facts = t->view->facts;
    for (size_t i = 0; i < facts->step_count; i++) {
        const struct ks_step *step = &facts->steps[i];
        uint16_t track = ks_page_tracks_steps(&t->tracks, step->source);
        uint8_t depth = t->rows->step_depths[i];
        if (g->is_wanted[track] && is_in(g, step->start_ns, step->dur_ns, depth)) {
            struct ks_page_span span = {step->start_ns, step->dur_ns, step->name.v, track, depth};
            KS_TRY(keep(g, &span, err));
        }
    }
    return KS_OK;
}

static enum ks_status scan_slices(struct gather *g, uint16_t track, uint64_t row_begin,
                                  uint64_t row_end, struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    const uint8_t *depths = g->t->rows->slice.depths;
    ks_slice_scan_open(&scan, g->t->view->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name),
                       row_begin, row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            uint8_t depth = depths[scan.row + i];
            struct ks_page_span span = {scan.col.start_ns[i], scan.col.dur_ns[i], scan.col.name[i],
                                        track, depth};
            if (depth != KS_PAGE_ROW_HIDDEN && is_in(g, span.start_ns, span.dur_ns, depth)) {
                status = keep(g, &span, err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status add_threads(struct gather *g, struct ks_err *err)
{
    const struct ks_page_table_rows *table = &g->t->rows->slice;
    for (size_t lane = 0; lane < table->lane_count; lane++) {
        uint16_t track = ks_page_tracks_host(&g->t->tracks, table->lanes[lane].track);
        struct ks_page_walk walk = {
            .table = table, .lane = lane, .start_ns = g->start_ns, .end_ns = g->end_ns};
        while (g->is_wanted[track] && ks_page_rows_next(&walk)) {
            KS_TRY(scan_slices(g, track, walk.row_begin, walk.row_end, err));
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

static enum ks_status add_gpu(struct gather *g, const struct ks_gpu_scan *scan, size_t i,
                              struct ks_err *err)
{
    const struct ks_gpu_cols *col = &scan->col;
    uint8_t depth = g->t->rows->gpu.depths[scan->row + i];
    enum ks_category category = (enum ks_category)col->category[i];
    uint32_t stream = col->stream[i] != 0 ? col->stream[i] : col->lane[i];
    uint16_t track = ks_page_tracks_gpu(&g->t->tracks, stream, ks_page_tracks_gpu_kind(category));
    if (depth == KS_PAGE_ROW_HIDDEN || !g->is_wanted[track] ||
        !is_in(g, col->start_ns[i], col->dur_ns[i], depth)) {
        return KS_OK;
    }
    struct ks_page_span span = {col->start_ns[i], col->dur_ns[i], col->name[i], track, depth};
    KS_TRY(keep(g, &span, err));
    struct ks_page_flow flow;
    if (g->flow_count == FLOWS_MAX || !ks_page_timeline_flow(g->t, col, i, track, &flow)) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&g->flows, g->flow_count, &g->flow_capacity, sizeof(*g->flows), "flows", err));
    g->flows[g->flow_count++] = flow;
    return KS_OK;
}

static enum ks_status scan_gpu(struct gather *g, uint64_t row_begin, uint64_t row_end,
                               struct ks_err *err)
{
    struct ks_gpu_scan scan;
    enum ks_status status;
    ks_gpu_scan_open(&scan, g->t->view->trace, gpu_columns, row_begin, row_end);
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = add_gpu(g, &scan, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_gpu_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

/* Is a track of this device wanted? */
static bool wants_device(const struct gather *g, uint32_t device)
{
    const struct ks_page_tracks *tracks = &g->t->tracks;
    for (size_t i = 0; i < tracks->count; i++) {
        const struct ks_page_track *track = &tracks->list[i];
        bool is_gpu = track->kind >= KS_PAGE_STREAM && track->kind <= KS_PAGE_WAITS;
        if (g->is_wanted[i] && is_gpu &&
            (track->track == device ||
             ks_trace_track(g->t->view->trace, track->track)->parent == device)) {
            return true;
        }
    }
    return false;
}

static enum ks_status add_devices(struct gather *g, struct ks_err *err)
{
    const struct ks_page_table_rows *table = &g->t->rows->gpu;
    for (size_t lane = 0; lane < table->lane_count; lane++) {
        struct ks_page_walk walk = {
            .table = table, .lane = lane, .start_ns = g->start_ns, .end_ns = g->end_ns};
        bool is_wanted = wants_device(g, table->lanes[lane].track);
        while (is_wanted && ks_page_rows_next(&walk)) {
            KS_TRY(scan_gpu(g, walk.row_begin, walk.row_end, err));
        }
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ the document */

static enum ks_status set_names(struct gather *g, struct ks_err *err)
{
    for (size_t i = 0; i < g->blocks.count; i++) {
        uint32_t *name = &g->blocks.list[i].name;
        struct ks_str text = ks_view_str(g->t->view, (struct ks_strid){*name});
        KS_TRY(ks_page_names_find(&g->names, *name, text.len > 0 ? text : KS_STR("(no name)"), name,
                                  err));
    }
    return KS_OK;
}

static void write_track(struct gather *g, size_t track)
{
    g->level.count = 0;
    for (size_t i = g->first_block[track]; i < g->first_block[track + 1]; i++) {
        const struct ks_span_block *block = &g->blocks.list[i];
        g->level.rows[g->level.count++] =
            (struct ks_page_row){block->start_ns, ks_sum_sub(block->end_ns, block->start_ns),
                                 block->depth, block->name, block->count};
    }
    ks_json_object_begin(&g->json, NULL);
    ks_json_int(&g->json, "id", (int64_t)track);
    ks_json_array_begin(&g->json, "levels");
    ks_page_level_write(&g->level, &g->json, g->start_ns, g->end_ns, g->blocks.resolution_ns);
    ks_json_array_end(&g->json);
    ks_json_object_end(&g->json);
}

static enum ks_status write_document(struct gather *g, ks_write_cb write, void *user,
                                     struct ks_err *err)
{
    struct ks_json *json = &g->json;
    ks_json_init_for_markup(json, 0, write, user);
    ks_json_object_begin(json, NULL);
    ks_json_int(json, "start_ns", g->start_ns);
    ks_json_int(json, "end_ns", g->end_ns);
    ks_page_names_write(&g->names, json, "strings");
    ks_json_array_begin(json, "tracks");
    for (size_t i = 0; i < g->t->tracks.count; i++) {
        if (g->is_wanted[i]) {
            write_track(g, i);
        }
    }
    ks_json_array_end(json);
    ks_page_flows_write(g->flows, g->flow_count, g->level.column, json);
    ks_json_object_end(json);
    return ks_json_finish(json, err);
}

/* ------------------------------------------------------------------ all of it */

static enum ks_status check(struct gather *g, const struct ks_page_tile *tile, struct ks_err *err)
{
    bool is_good = tile->start_ns < tile->end_ns && tile->track_count > 0 &&
                   tile->parts >= PARTS_MIN && tile->parts <= PARTS_MAX;
    for (size_t i = 0; is_good && i < tile->track_count; i++) {
        uint16_t track = tile->tracks[i];
        is_good = track < g->t->tracks.count && !ks_page_track_is_rest(&g->t->tracks.list[track]);
        if (is_good) {
            g->is_wanted[track] = true;
        }
    }
    return is_good ? KS_OK
                   : ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                             "Cannot show a tile: start=%lld, end=%lld, parts=%u",
                             (long long)tile->start_ns, (long long)tile->end_ns, tile->parts);
}

static enum ks_status gather_spans(struct gather *g, const struct ks_page_tile *tile,
                                   struct ks_err *err)
{
    g->blocks = (struct ks_span_blocks){
        .count_max = SPANS_MAX, .origin_ns = g->t->start_ns, .track_count = g->t->tracks.count};
    KS_TRY(ks_span_blocks_init(&g->blocks, ks_sum_sub(g->end_ns, g->start_ns), tile->parts, err));
    g->resolution_ns = g->blocks.resolution_ns < 2 ? 2 : g->blocks.resolution_ns;
    g->blocks.resolution_ns = 0;
    KS_TRY(add_steps(g, err));
    KS_TRY(add_threads(g, err));
    KS_TRY(add_devices(g, err));
    g->first_block = ks_alloc(g->t->tracks.count + 1, sizeof(*g->first_block));
    g->level.rows = ks_alloc(g->blocks.count + 1, sizeof(*g->level.rows));
    g->level.column = ks_alloc(g->blocks.count + g->flow_count + 1, sizeof(*g->level.column));
    if (!g->first_block || !g->level.rows || !g->level.column) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write a tile: no memory");
    }
    KS_TRY(ks_span_blocks_seal(&g->blocks, g->first_block, err));
    return set_names(g, err);
}

enum ks_status ks_page_tile_write(const struct ks_page_timeline *timeline,
                                  const struct ks_page_tile *tile, ks_write_cb write, void *user,
                                  struct ks_err *err)
{
    struct gather *g = ks_alloc(1, sizeof(*g));
    if (!g) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write a tile: no memory");
    }
    g->t = timeline;
    g->start_ns = tile->start_ns;
    g->end_ns = tile->end_ns;
    ks_page_names_init(&g->names, true);
    enum ks_status status = check(g, tile, err);
    if (status == KS_OK) {
        status = gather_spans(g, tile, err);
    }
    if (status == KS_OK) {
        status = write_document(g, write, user, err);
    }
    ks_page_names_release(&g->names);
    ks_span_blocks_release(&g->blocks);
    ks_free(g->first_block);
    ks_free(g->level.rows);
    ks_free(g->level.column);
    ks_free(g->flows);
    ks_free(g);
    return status;
}
