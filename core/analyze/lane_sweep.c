#include "analyze/lane_sweep.h"

#include "base/err.h"
#include "measure/sum.h"

struct ks_sweep_cursor {
    uint32_t lane;
    bool is_gpu;
    size_t index; /* of the current row in the open scan */
    int64_t start_ns;
    union {
        struct ks_slice_scan slice;
        struct ks_gpu_scan gpu;
    } scan;
};

static const uint64_t slice_columns =
    KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
    KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_category) |
    KS_COLUMN_BIT(KS_SLICE_COL_flags);
static const uint64_t gpu_columns =
    KS_COLUMN_BIT(KS_GPU_COL_start_ns) | KS_COLUMN_BIT(KS_GPU_COL_dur_ns) |
    KS_COLUMN_BIT(KS_GPU_COL_name) | KS_COLUMN_BIT(KS_GPU_COL_launch_ns) |
    KS_COLUMN_BIT(KS_GPU_COL_launch_lane) | KS_COLUMN_BIT(KS_GPU_COL_stream) |
    KS_COLUMN_BIT(KS_GPU_COL_category) | KS_COLUMN_BIT(KS_GPU_COL_flags);

/* First lane of a source from `source` on. Lanes ascend by track, and the tracks of a source are
 * made while its file is read, so that those of one source follow each other. */
static size_t first_lane(const struct ks_trace *trace, const struct ks_lane *lanes, size_t count,
                         uint32_t source)
{
    size_t begin = 0;
    while (begin < count) {
        size_t middle = begin + (count - begin) / 2;
        if (ks_trace_track(trace, lanes[middle].track)->source < source) {
            begin = middle + 1;
        } else {
            count = middle;
        }
    }
    return begin;
}

const struct ks_lane *ks_lane_sweep_lanes(const struct ks_trace *trace, enum ks_table_id table,
                                          uint32_t source, size_t *count)
{
    size_t all = 0;
    const struct ks_lane *lanes = ks_trace_lanes(trace, table, &all);
    size_t begin = first_lane(trace, lanes, all, source);
    *count = first_lane(trace, lanes, all, source + 1) - begin;
    return *count > 0 ? lanes + begin : NULL;
}

/* Opens the next stretch of rows of a cursor. */
static enum ks_status refill(struct ks_sweep_cursor *cursor, struct ks_err *err)
{
    cursor->index = 0;
    if (cursor->is_gpu) {
        KS_TRY(ks_gpu_scan_next(&cursor->scan.gpu, err));
        cursor->start_ns = cursor->scan.gpu.col.start_ns[0];
    } else {
        KS_TRY(ks_slice_scan_next(&cursor->scan.slice, err));
        cursor->start_ns = cursor->scan.slice.col.start_ns[0];
    }
    return KS_OK;
}

static bool comes_before(const struct ks_lane_sweep *sweep, size_t a, size_t b)
{
    int64_t left = sweep->cursors[a].start_ns;
    int64_t right = sweep->cursors[b].start_ns;
    return left != right ? left < right : a < b;
}

static void sink(struct ks_lane_sweep *sweep, size_t at)
{
    size_t moving = sweep->heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= sweep->heap_count) {
            break;
        }
        if (child + 1 < sweep->heap_count &&
            comes_before(sweep, sweep->heap[child + 1], sweep->heap[child])) {
            child++;
        }
        if (!comes_before(sweep, sweep->heap[child], moving)) {
            break;
        }
        sweep->heap[at] = sweep->heap[child];
        at = child;
    }
    sweep->heap[at] = moving;
}

static void lift(struct ks_lane_sweep *sweep, size_t at)
{
    size_t moving = sweep->heap[at];
    while (at > 0 && comes_before(sweep, moving, sweep->heap[(at - 1) / 2])) {
        sweep->heap[at] = sweep->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sweep->heap[at] = moving;
}

static enum ks_status add_lane(struct ks_lane_sweep *sweep, enum ks_table_id table,
                               const struct ks_lane *lane, struct ks_err *err)
{
    KS_ASSERT(sweep->cursor_count < sweep->cursor_capacity);
    struct ks_sweep_cursor *cursor = &sweep->cursors[sweep->cursor_count];
    *cursor = (struct ks_sweep_cursor){.lane = lane->track, .is_gpu = table == KS_TABLE_gpu};
    if (cursor->is_gpu) {
        ks_gpu_scan_open(&cursor->scan.gpu, sweep->trace, gpu_columns, lane->row_begin,
                         lane->row_end);
    } else {
        ks_slice_scan_open(&cursor->scan.slice, sweep->trace, slice_columns, lane->row_begin,
                           lane->row_end);
    }
    sweep->cursor_count++;
    enum ks_status status = refill(cursor, err);
    if (status == KS_END) {
        return KS_OK;
    }
    KS_TRY(status);
    sweep->heap[sweep->heap_count] = sweep->cursor_count - 1;
    lift(sweep, sweep->heap_count++);
    return KS_OK;
}

static enum ks_status add_lanes(struct ks_lane_sweep *sweep, enum ks_table_id table,
                                struct ks_err *err)
{
    enum ks_track_kind wanted = table == KS_TABLE_gpu ? KS_TRACK_DEVICE : KS_TRACK_THREAD;
    size_t count = 0;
    const struct ks_lane *lanes = ks_lane_sweep_lanes(sweep->trace, table, sweep->source, &count);
    for (size_t i = 0; i < count; i++) {
        if (ks_trace_track(sweep->trace, lanes[i].track)->kind == wanted) {
            KS_TRY(add_lane(sweep, table, &lanes[i], err));
        }
    }
    return KS_OK;
}

static enum ks_status open_lanes(struct ks_lane_sweep *sweep, unsigned lanes, struct ks_err *err)
{
    size_t slices = 0;
    size_t gpus = 0;
    ks_lane_sweep_lanes(sweep->trace, KS_TABLE_slice, sweep->source, &slices);
    ks_lane_sweep_lanes(sweep->trace, KS_TABLE_gpu, sweep->source, &gpus);
    sweep->cursor_capacity = slices + gpus;
    sweep->cursors = ks_new(sweep->scratch, struct ks_sweep_cursor, slices + gpus + 1);
    sweep->heap = ks_new(sweep->scratch, size_t, slices + gpus + 1);
    if (!sweep->cursors || !sweep->heap) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot merge lanes: count=%zu",
                       slices + gpus);
    }
    if (lanes & KS_SWEEP_DEVICES) {
        KS_TRY(add_lanes(sweep, KS_TABLE_gpu, err));
    }
    return lanes & KS_SWEEP_THREADS ? add_lanes(sweep, KS_TABLE_slice, err) : KS_OK;
}

enum ks_status ks_lane_sweep_open(struct ks_lane_sweep *sweep, const struct ks_trace *trace,
                                  uint32_t source, unsigned lanes, struct ks_arena *scratch,
                                  struct ks_err *err)
{
    *sweep = (struct ks_lane_sweep){
        .trace = trace, .source = source, .scratch = scratch, .mark = ks_arena_mark(scratch)};
    enum ks_status status = open_lanes(sweep, lanes, err);
    if (status != KS_OK) {
        ks_lane_sweep_close(sweep);
    }
    return status;
}

void ks_lane_sweep_close(struct ks_lane_sweep *sweep)
{
    for (size_t i = 0; i < sweep->cursor_count; i++) {
        struct ks_sweep_cursor *cursor = &sweep->cursors[i];
        if (cursor->is_gpu) {
            ks_gpu_scan_close(&cursor->scan.gpu);
        } else {
            ks_slice_scan_close(&cursor->scan.slice);
        }
    }
    ks_arena_rewind(sweep->scratch, sweep->mark);
    *sweep = (struct ks_lane_sweep){0};
}

static void show_row(const struct ks_sweep_cursor *cursor, struct ks_sweep_row *row)
{
    size_t i = cursor->index;
    if (cursor->is_gpu) {
        const struct ks_gpu_cols *col = &cursor->scan.gpu.col;
        *row = (struct ks_sweep_row){.start_ns = col->start_ns[i],
                                     .end_ns = ks_sum_add(col->start_ns[i], col->dur_ns[i]),
                                     .launch_ns = col->launch_ns[i],
                                     .lane = cursor->lane,
                                     .name = col->name[i],
                                     .launch_lane = col->launch_lane[i],
                                     .stream = col->stream[i],
                                     .category = col->category[i],
                                     .flags = col->flags[i]};
    } else {
        const struct ks_slice_cols *col = &cursor->scan.slice.col;
        *row = (struct ks_sweep_row){.start_ns = col->start_ns[i],
                                     .end_ns = ks_sum_add(col->start_ns[i], col->dur_ns[i]),
                                     .launch_ns = KS_TIME_NONE,
                                     .lane = cursor->lane,
                                     .name = col->name[i],
                                     .category = col->category[i],
                                     .flags = col->flags[i]};
    }
}

static enum ks_status advance(struct ks_sweep_cursor *cursor, struct ks_err *err)
{
    cursor->index++;
    if (cursor->is_gpu) {
        if (cursor->index < cursor->scan.gpu.count) {
            cursor->start_ns = cursor->scan.gpu.col.start_ns[cursor->index];
            return KS_OK;
        }
    } else if (cursor->index < cursor->scan.slice.count) {
        cursor->start_ns = cursor->scan.slice.col.start_ns[cursor->index];
        return KS_OK;
    }
    return refill(cursor, err);
}

enum ks_status ks_lane_sweep_next(struct ks_lane_sweep *sweep, struct ks_sweep_row *row,
                                  struct ks_err *err)
{
    if (sweep->heap_count == 0) {
        return KS_END;
    }
    struct ks_sweep_cursor *cursor = &sweep->cursors[sweep->heap[0]];
    show_row(cursor, row);
    enum ks_status status = advance(cursor, err);
    if (status == KS_END) {
        sweep->heap[0] = sweep->heap[--sweep->heap_count];
        status = KS_OK;
    }
    if (sweep->heap_count > 1) {
        sink(sweep, 0);
    }
    return status;
}
