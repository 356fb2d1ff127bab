#include "analyze/lane_sweep.h"

#include "base/err.h"
#include "measure/sum.h"

struct ks_sweep_cursor {
    uint32_t lane;
    bool is_gpu;
    struct ks_sweep_window *window; /* of `row`; NULL: at the end */
    uint64_t row;
    uint64_t row_end;
};

/* A chunk of rows, which all cursors that stand in it share. */
struct ks_sweep_window {
    size_t users;
    struct ks_sweep_window *next_spare;
    union {
        struct ks_slice_scan slice;
        struct ks_gpu_scan gpu;
    } scan;
};

static const uint64_t slice_columns =
    KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
    KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_category) |
    KS_COLUMN_BIT(KS_SLICE_COL_flags);
static const uint64_t number_columns =
    KS_COLUMN_BIT(KS_SLICE_COL_ext_id) | KS_COLUMN_BIT(KS_SLICE_COL_seq) |
    KS_COLUMN_BIT(KS_SLICE_COL_aux) | KS_COLUMN_BIT(KS_SLICE_COL_dims) |
    KS_COLUMN_BIT(KS_SLICE_COL_types) | KS_COLUMN_BIT(KS_SLICE_COL_concrete);
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

struct ks_track_range ks_lane_sweep_tracks(const struct ks_trace *trace, uint32_t source)
{
    uint32_t ends[2] = {1, 1}; /* first track of the source, and of the next one */
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t end = ks_trace_track_count(trace);
        while (ends[i] < end) {
            uint32_t middle = ends[i] + (end - ends[i]) / 2;
            bool is_before = ks_trace_track(trace, middle)->source < source + i;
            ends[i] = is_before ? middle + 1 : ends[i];
            end = is_before ? end : middle;
        }
    }
    return (struct ks_track_range){ends[0], ends[1] - ends[0]};
}

/* ------------------------------------------------------------ windows */

static struct ks_sweep_window **window_at(struct ks_lane_sweep *sweep,
                                          const struct ks_sweep_cursor *cursor)
{
    struct ks_sweep_windows *windows = &sweep->windows[cursor->is_gpu];
    uint64_t chunk = cursor->row / ks_trace_chunk_rows(sweep->trace);
    KS_ASSERT(chunk >= windows->first_chunk && chunk - windows->first_chunk < windows->count);
    return &windows->list[chunk - windows->first_chunk];
}

static struct ks_sweep_window *take_spare(struct ks_lane_sweep *sweep)
{
    struct ks_sweep_window *window = sweep->spare;
    if (!window) {
        return ks_new(sweep->scratch, struct ks_sweep_window, 1);
    }
    sweep->spare = window->next_spare;
    return window;
}

static void close_window(struct ks_lane_sweep *sweep, struct ks_sweep_window *window, bool is_gpu)
{
    if (is_gpu) {
        ks_gpu_scan_close(&window->scan.gpu);
    } else {
        ks_slice_scan_close(&window->scan.slice);
    }
    window->next_spare = sweep->spare;
    sweep->spare = window;
}

/* Shows the whole chunk that the cursor's row is in. */
static enum ks_status show_chunk(struct ks_lane_sweep *sweep, struct ks_sweep_window *window,
                                 const struct ks_sweep_cursor *cursor, struct ks_err *err)
{
    enum ks_table_id table = cursor->is_gpu ? KS_TABLE_gpu : KS_TABLE_slice;
    uint64_t chunk_rows = ks_trace_chunk_rows(sweep->trace);
    uint64_t begin = cursor->row / chunk_rows * chunk_rows;
    uint64_t end = ks_trace_rows(sweep->trace, table);
    if (cursor->is_gpu) {
        ks_gpu_scan_open(&window->scan.gpu, sweep->trace, gpu_columns, begin, end);
        return ks_gpu_scan_next(&window->scan.gpu, err);
    }
    ks_slice_scan_open(&window->scan.slice, sweep->trace, sweep->slice_columns, begin, end);
    return ks_slice_scan_next(&window->scan.slice, err);
}

static enum ks_status enter_window(struct ks_lane_sweep *sweep, struct ks_sweep_cursor *cursor,
                                   struct ks_err *err)
{
    struct ks_sweep_window **place = window_at(sweep, cursor);
    if (!*place) {
        struct ks_sweep_window *window = take_spare(sweep);
        if (!window) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot merge lanes: count=%zu",
                           sweep->cursor_count);
        }
        enum ks_status status = show_chunk(sweep, window, cursor, err);
        if (status != KS_OK) {
            close_window(sweep, window, cursor->is_gpu);
            return status;
        }
        window->users = 0;
        *place = window;
    }
    cursor->window = *place;
    cursor->window->users++;
    return KS_OK;
}

/* `cursor->row` is still in the window. */
static void leave_window(struct ks_lane_sweep *sweep, struct ks_sweep_cursor *cursor)
{
    if (--cursor->window->users == 0) {
        *window_at(sweep, cursor) = NULL;
        close_window(sweep, cursor->window, cursor->is_gpu);
    }
    cursor->window = NULL;
}

static int64_t start_of(const struct ks_sweep_cursor *cursor)
{
    const struct ks_sweep_window *window = cursor->window;
    return cursor->is_gpu ? window->scan.gpu.col.start_ns[cursor->row - window->scan.gpu.row]
                          : window->scan.slice.col.start_ns[cursor->row - window->scan.slice.row];
}

/* Moves to the next row. KS_END: there is none. */
static enum ks_status advance(struct ks_lane_sweep *sweep, struct ks_sweep_cursor *cursor,
                              struct ks_err *err)
{
    uint64_t next = cursor->row + 1;
    bool is_over = next == cursor->row_end;
    if (is_over || next % ks_trace_chunk_rows(sweep->trace) == 0) {
        leave_window(sweep, cursor);
        cursor->row = next;
        if (is_over) {
            return KS_END;
        }
        KS_TRY(enter_window(sweep, cursor, err));
    }
    cursor->row = next;
    return KS_OK;
}

/* ------------------------------------------------------------ heap */

/* Four lie in one or two lines of the cache, so that a heap of a million lanes misses half as often
 * as one with two. */
enum { HEAP_CHILDREN = 4 };

static bool comes_before(const struct ks_sweep_next *a, const struct ks_sweep_next *b)
{
    return a->start_ns != b->start_ns ? a->start_ns < b->start_ns : a->cursor < b->cursor;
}

static size_t earliest_child(const struct ks_lane_sweep *sweep, size_t first)
{
    size_t end =
        first + HEAP_CHILDREN < sweep->heap_count ? first + HEAP_CHILDREN : sweep->heap_count;
    size_t earliest = first;
    for (size_t i = first + 1; i < end; i++) {
        earliest = comes_before(&sweep->heap[i], &sweep->heap[earliest]) ? i : earliest;
    }
    return earliest;
}

static void sink(struct ks_lane_sweep *sweep, size_t at)
{
    struct ks_sweep_next *heap = sweep->heap;
    struct ks_sweep_next moving = heap[at];
    while (HEAP_CHILDREN * at + 1 < sweep->heap_count) {
        size_t child = earliest_child(sweep, HEAP_CHILDREN * at + 1);
        if (!comes_before(&heap[child], &moving)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static void push(struct ks_lane_sweep *sweep, const struct ks_sweep_next *next)
{
    struct ks_sweep_next *heap = sweep->heap;
    size_t at = sweep->heap_count++;
    while (at > 0 && comes_before(next, &heap[(at - 1) / HEAP_CHILDREN])) {
        heap[at] = heap[(at - 1) / HEAP_CHILDREN];
        at = (at - 1) / HEAP_CHILDREN;
    }
    heap[at] = *next;
}

/* ------------------------------------------------------------ opening */

static enum ks_status add_lane(struct ks_lane_sweep *sweep, enum ks_table_id table,
                               const struct ks_lane *lane, struct ks_err *err)
{
    KS_ASSERT(sweep->cursor_count < sweep->cursor_capacity && lane->row_begin < lane->row_end);
    struct ks_sweep_cursor *cursor = &sweep->cursors[sweep->cursor_count];
    *cursor = (struct ks_sweep_cursor){.lane = lane->track,
                                       .is_gpu = table == KS_TABLE_gpu,
                                       .row = lane->row_begin,
                                       .row_end = lane->row_end};
    KS_TRY(enter_window(sweep, cursor, err));
    push(sweep, &(struct ks_sweep_next){start_of(cursor), sweep->cursor_count++});
    return KS_OK;
}

static enum ks_status add_windows(struct ks_lane_sweep *sweep, enum ks_table_id table,
                                  struct ks_err *err)
{
    size_t count = 0;
    const struct ks_lane *lanes = ks_lane_sweep_lanes(sweep->trace, table, sweep->source, &count);
    if (count == 0) {
        return KS_OK;
    }
    struct ks_sweep_windows *windows = &sweep->windows[table == KS_TABLE_gpu];
    uint64_t chunk_rows = ks_trace_chunk_rows(sweep->trace);
    windows->first_chunk = lanes[0].row_begin / chunk_rows;
    windows->count =
        (size_t)((lanes[count - 1].row_end - 1) / chunk_rows - windows->first_chunk) + 1;
    windows->list = ks_new(sweep->scratch, struct ks_sweep_window *, windows->count);
    return windows->list ? KS_OK
                         : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET,
                                   "Cannot merge lanes: chunks=%zu", windows->count);
}

static enum ks_status add_lanes(struct ks_lane_sweep *sweep, enum ks_table_id table,
                                struct ks_err *err)
{
    enum ks_track_kind wanted = table == KS_TABLE_gpu ? KS_TRACK_DEVICE : KS_TRACK_THREAD;
    size_t count = 0;
    const struct ks_lane *lanes = ks_lane_sweep_lanes(sweep->trace, table, sweep->source, &count);
    KS_TRY(add_windows(sweep, table, err));
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
    sweep->heap = ks_new(sweep->scratch, struct ks_sweep_next, slices + gpus + 1);
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
    sweep->slice_columns = slice_columns | (lanes & KS_SWEEP_NUMBERS ? number_columns : 0);
    enum ks_status status = open_lanes(sweep, lanes, err);
    if (status != KS_OK) {
        ks_lane_sweep_close(sweep);
    }
    return status;
}

void ks_lane_sweep_close(struct ks_lane_sweep *sweep)
{
    for (size_t i = 0; i < sweep->cursor_count; i++) {
        if (sweep->cursors[i].window) {
            leave_window(sweep, &sweep->cursors[i]);
        }
    }
    ks_arena_rewind(sweep->scratch, sweep->mark);
    *sweep = (struct ks_lane_sweep){0};
}

/* Member by member: most sweeps do not ask for the numbers, which are as large as the rest. */
static void show_gpu(const struct ks_sweep_cursor *cursor, struct ks_sweep_row *row)
{
    size_t i = (size_t)(cursor->row - cursor->window->scan.gpu.row);
    const struct ks_gpu_cols *col = &cursor->window->scan.gpu.col;
    row->start_ns = col->start_ns[i];
    row->end_ns = ks_sum_add(col->start_ns[i], col->dur_ns[i]);
    row->launch_ns = col->launch_ns[i];
    row->lane = cursor->lane;
    row->name = col->name[i];
    row->launch_lane = col->launch_lane[i];
    row->stream = col->stream[i];
    row->category = col->category[i];
    row->flags = col->flags[i];
}

static void show_slice(const struct ks_sweep_cursor *cursor, struct ks_sweep_row *row)
{
    size_t i = (size_t)(cursor->row - cursor->window->scan.slice.row);
    const struct ks_slice_cols *col = &cursor->window->scan.slice.col;
    row->start_ns = col->start_ns[i];
    row->end_ns = ks_sum_add(col->start_ns[i], col->dur_ns[i]);
    row->launch_ns = KS_TIME_NONE;
    row->lane = cursor->lane;
    row->name = col->name[i];
    row->launch_lane = 0;
    row->stream = 0;
    row->category = col->category[i];
    row->flags = col->flags[i];
    if (col->ext_id) {
        row->ext_id = col->ext_id[i];
        row->seq = col->seq[i];
        row->aux = col->aux[i];
        row->dims = col->dims[i];
        row->types = col->types[i];
        row->concrete = col->concrete[i];
    }
}

enum ks_status ks_lane_sweep_next(struct ks_lane_sweep *sweep, struct ks_sweep_row *row,
                                  struct ks_err *err)
{
    if (sweep->heap_count == 0) {
        return KS_END;
    }
    struct ks_sweep_cursor *cursor = &sweep->cursors[sweep->heap[0].cursor];
    if (cursor->is_gpu) {
        show_gpu(cursor, row);
    } else {
        show_slice(cursor, row);
    }
    enum ks_status status = advance(sweep, cursor, err);
    if (status == KS_OK) {
        sweep->heap[0].start_ns = start_of(cursor);
    } else if (status == KS_END) {
        sweep->heap[0] = sweep->heap[--sweep->heap_count];
        status = KS_OK;
    }
    if (sweep->heap_count > 1) {
        sink(sweep, 0);
    }
    return status;
}
