#include "store/trace.h"

#include "base/alloc.h"
#include "base/err.h"
#include "store/kst_impl.h"
#include "store/trace_impl.h"

void ks_trace_destroy(struct ks_trace *trace)
{
    if (!trace) {
        return;
    }
    for (size_t i = 0; i < KS_TABLE_COUNT; i++) {
        ks_table_release(&trace->tables[i]);
    }
    ks_chunk_pool_destroy(trace->pool);
    ks_strpool_destroy(trace->strings);
    ks_arena_release(&trace->arena);
    ks_kst_release(trace->kst);
    ks_free(trace->sources);
    ks_free(trace->tracks);
    ks_free(trace->collectives);
    ks_free(trace->stacks);
    ks_free(trace->call_paths);
    ks_free(trace);
}

static const struct ks_table *table_of(const struct ks_trace *trace, enum ks_table_id table)
{
    KS_ASSERT((unsigned)table < KS_TABLE_COUNT);
    return &trace->tables[table];
}

/* ------------------------------------------------------------------ scans */

void ks_scan_open(struct ks_scan *scan, const struct ks_trace *trace, enum ks_table_id id,
                  uint64_t columns, uint64_t row_begin, uint64_t row_end)
{
    uint64_t rows = table_of(trace, id)->rows;
    KS_ASSERT(row_begin <= row_end && row_end <= rows);
    *scan = (struct ks_scan){
        .trace = trace,
        .table = id,
        .columns = columns,
        .row_next = row_begin,
        .row_end = row_end,
    };
}

void ks_scan_close(struct ks_scan *scan)
{
    size_t column_count = ks_table_layout(scan->table)->column_count;
    for (size_t i = 0; i < column_count; i++) {
        if (scan->pinned[i]) {
            ks_chunk_unpin(scan->trace->pool, scan->pinned[i], false);
            scan->pinned[i] = NULL;
        }
        scan->cols[i] = NULL;
    }
}

enum ks_status ks_scan_next(struct ks_scan *scan, uint64_t *row, size_t *count, struct ks_err *err)
{
    const struct ks_table *table = &scan->trace->tables[scan->table];
    ks_scan_close(scan);
    *row = scan->row_next;
    *count = 0;
    if (scan->row_next == scan->row_end) {
        return KS_END;
    }

    uint64_t chunk = scan->row_next >> table->chunk_shift;
    uint64_t chunk_end = (chunk + 1) << table->chunk_shift;
    uint64_t end = chunk_end < scan->row_end ? chunk_end : scan->row_end;
    size_t in_chunk = (size_t)(scan->row_next & (ks_table_chunk_rows(table) - 1));
    for (size_t i = 0; i < table->layout->column_count; i++) {
        if (scan->columns & KS_COLUMN_BIT(i)) {
            struct ks_chunk *pinned = ks_table_chunk(table, chunk, i);
            KS_TRY(ks_chunk_pin(scan->trace->pool, pinned, err));
            scan->pinned[i] = pinned;
            scan->cols[i] = (const char *)pinned->ptr + in_chunk * table->layout->columns[i].size;
        }
    }
    *count = (size_t)(end - scan->row_next);
    scan->row_next = end;
    return KS_OK;
}

/* clang-format off */
#define KS_SLICE_COLUMN(column, type) scan->col.column = scan->scan.cols[KS_SLICE_COL_##column];
static void show_slice(struct ks_slice_scan *scan)
{
#include "store/tables.def"
}
#define KS_GPU_COLUMN(column, type) scan->col.column = scan->scan.cols[KS_GPU_COL_##column];
static void show_gpu(struct ks_gpu_scan *scan)
{
#include "store/tables.def"
}
#define KS_MEMORY_COLUMN(column, type) scan->col.column = scan->scan.cols[KS_MEMORY_COL_##column];
static void show_memory(struct ks_memory_scan *scan)
{
#include "store/tables.def"
}
#define KS_MARK_COLUMN(column, type) scan->col.column = scan->scan.cols[KS_MARK_COL_##column];
static void show_mark(struct ks_mark_scan *scan)
{
#include "store/tables.def"
}
#define KS_SAMPLE_COLUMN(column, type) scan->col.column = scan->scan.cols[KS_SAMPLE_COL_##column];
static void show_sample(struct ks_sample_scan *scan)
{
#include "store/tables.def"
}
#define KS_LINK_COLUMN(column, type) scan->col.column = scan->scan.cols[KS_LINK_COL_##column];
static void show_link(struct ks_link_scan *scan)
{
#include "store/tables.def"
}
/* clang-format on */

#define DEFINE_SCAN(table)                                                                         \
    void ks_##table##_scan_open(struct ks_##table##_scan *scan, const struct ks_trace *trace,      \
                                uint64_t columns, uint64_t row_begin, uint64_t row_end)            \
    {                                                                                              \
        *scan = (struct ks_##table##_scan){0};                                                     \
        ks_scan_open(&scan->scan, trace, KS_TABLE_##table, columns, row_begin, row_end);           \
    }                                                                                              \
    enum ks_status ks_##table##_scan_next(struct ks_##table##_scan *scan, struct ks_err *err)      \
    {                                                                                              \
        enum ks_status status = ks_scan_next(&scan->scan, &scan->row, &scan->count, err);          \
        show_##table(scan);                                                                        \
        return status;                                                                             \
    }                                                                                              \
    void ks_##table##_scan_close(struct ks_##table##_scan *scan)                                   \
    {                                                                                              \
        ks_scan_close(&scan->scan);                                                                \
        show_##table(scan);                                                                        \
    }

KS_TABLE_LIST(DEFINE_SCAN)

    uint32_t ks_trace_chunk_rows(const struct ks_trace *trace)
{
    return ks_table_chunk_rows(&trace->tables[0]); /* the same in all */
}

/* ------------------------------------------------------------------ lanes, tracks, sources */

uint64_t ks_trace_rows(const struct ks_trace *trace, enum ks_table_id table)
{
    return table_of(trace, table)->rows;
}

const struct ks_lane *ks_trace_lanes(const struct ks_trace *trace, enum ks_table_id table,
                                     size_t *count)
{
    *count = table_of(trace, table)->lane_count;
    return table_of(trace, table)->lanes;
}

const struct ks_lane *ks_trace_lane_find(const struct ks_trace *trace, enum ks_table_id table,
                                         uint32_t track)
{
    size_t begin = 0;
    size_t end = 0;
    const struct ks_lane *lanes = ks_trace_lanes(trace, table, &end);
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (lanes[middle].track == track) {
            return &lanes[middle];
        }
        if (lanes[middle].track < track) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return NULL;
}

const struct ks_track *ks_trace_track(const struct ks_trace *trace, uint32_t track)
{
    KS_ASSERT(track > 0 && track < trace->track_count);
    return &trace->tracks[track];
}

uint32_t ks_trace_track_count(const struct ks_trace *trace)
{
    return trace->track_count;
}

const struct ks_source *ks_trace_source(const struct ks_trace *trace, uint32_t source)
{
    KS_ASSERT(source < trace->source_count);
    return trace->sources[source];
}

uint32_t ks_trace_source_count(const struct ks_trace *trace)
{
    return trace->source_count;
}

const struct ks_collective *ks_trace_collective(const struct ks_trace *trace, uint32_t id)
{
    KS_ASSERT(id >= 1 && id <= trace->collective_count);
    return &trace->collectives[id - 1];
}

const struct ks_stack *ks_trace_stack(const struct ks_trace *trace, uint32_t id)
{
    KS_ASSERT(id >= 1 && id <= trace->stack_count);
    return &trace->stacks[id - 1];
}

uint32_t ks_trace_stack_count(const struct ks_trace *trace)
{
    return trace->stack_count;
}

const struct ks_call_path *ks_trace_call_path(const struct ks_trace *trace, uint32_t id)
{
    KS_ASSERT(id >= 1 && id <= trace->call_path_count);
    return &trace->call_paths[id - 1];
}

uint32_t ks_trace_call_path_count(const struct ks_trace *trace)
{
    return trace->call_path_count;
}

struct ks_str ks_trace_str(const struct ks_trace *trace, struct ks_strid id)
{
    return ks_strpool_get(trace->strings, id);
}

struct ks_strid ks_trace_str_find(const struct ks_trace *trace, struct ks_str text)
{
    return ks_strpool_find(trace->strings, text);
}

uint32_t ks_trace_str_count(const struct ks_trace *trace)
{
    return ks_strpool_count(trace->strings);
}

int64_t ks_trace_origin_ns(const struct ks_trace *trace)
{
    return trace->origin_ns;
}

void ks_trace_span(const struct ks_trace *trace, int64_t *start_ns, int64_t *end_ns)
{
    *start_ns = trace->start_ns;
    *end_ns = trace->end_ns;
}

const struct ks_chunk_pool *ks_trace_pool(const struct ks_trace *trace)
{
    return trace->pool;
}

/* ------------------------------------------------------------------ search by time */

/* All tables begin with the same columns. */
_Static_assert((int)KS_SLICE_COL_start_ns == (int)KS_MEMORY_COL_start_ns &&
                   (int)KS_GPU_COL_start_ns == (int)KS_MEMORY_COL_start_ns &&
                   (int)KS_MARK_COL_start_ns == (int)KS_MEMORY_COL_start_ns &&
                   (int)KS_LINK_COL_start_ns == (int)KS_MEMORY_COL_start_ns,
               "start_ns has the same number in all tables");

/* The first starts of the chunks say which one chunk must be looked into. */
enum ks_status ks_trace_row_find(const struct ks_trace *trace, enum ks_table_id id,
                                 const struct ks_lane *lane, int64_t ns, uint64_t *row,
                                 struct ks_err *err)
{
    const struct ks_table *table = table_of(trace, id);
    uint64_t chunk = lane->row_begin >> table->chunk_shift;
    uint64_t out = ((lane->row_end - 1) >> table->chunk_shift) + 1;
    while (out - chunk > 1) {
        uint64_t middle = chunk + (out - chunk) / 2;
        if (table->chunk_starts[middle] < ns) {
            chunk = middle;
        } else {
            out = middle;
        }
    }

    uint64_t chunk_begin = chunk << table->chunk_shift;
    uint64_t chunk_end = (chunk + 1) << table->chunk_shift;
    uint64_t begin = lane->row_begin > chunk_begin ? lane->row_begin : chunk_begin;
    uint64_t end = lane->row_end < chunk_end ? lane->row_end : chunk_end;
    struct ks_chunk *pinned = ks_table_chunk(table, chunk, KS_MEMORY_COL_start_ns);
    KS_TRY(ks_chunk_pin(trace->pool, pinned, err));
    const int64_t *start_ns = pinned->ptr;
    while (begin < end) {
        uint64_t middle = begin + (end - begin) / 2;
        if (start_ns[middle - chunk_begin] < ns) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    ks_chunk_unpin(trace->pool, pinned, false);
    *row = begin;
    return KS_OK;
}

enum ks_status ks_trace_row_find_after(const struct ks_trace *trace, enum ks_table_id id,
                                       const struct ks_lane *lane, int64_t ns, uint64_t *row,
                                       struct ks_err *err)
{
    if (ns == INT64_MAX) {
        *row = lane->row_end;
        return KS_OK;
    }
    return ks_trace_row_find(trace, id, lane, ns + 1, row, err);
}

/* ------------------------------------------------------------------ memory */

/* Both running sums after the rows before `row`; 0 at the begin of the lane. */
static enum ks_status sums_before(const struct ks_trace *trace, const struct ks_lane *lane,
                                  uint64_t row, uint64_t *host, uint64_t *device,
                                  struct ks_err *err)
{
    *host = 0;
    *device = 0;
    if (row == lane->row_begin) {
        return KS_OK;
    }
    struct ks_memory_scan scan;
    uint64_t columns =
        KS_COLUMN_BIT(KS_MEMORY_COL_host_sum) | KS_COLUMN_BIT(KS_MEMORY_COL_device_sum);
    ks_memory_scan_open(&scan, trace, columns, row - 1, row);
    enum ks_status status = ks_memory_scan_next(&scan, err);
    if (status == KS_OK) {
        *host = (uint64_t)scan.col.host_sum[0];
        *device = (uint64_t)scan.col.device_sum[0];
    }
    ks_memory_scan_close(&scan);
    return status;
}

enum ks_status ks_trace_memory_between(const struct ks_trace *trace, uint32_t process_track,
                                       int64_t first_ns, int64_t last_ns, int64_t *host_bytes,
                                       int64_t *device_bytes, struct ks_err *err)
{
    *host_bytes = 0;
    *device_bytes = 0;
    const struct ks_lane *lane = ks_trace_lane_find(trace, KS_TABLE_memory, process_track);
    if (!lane || last_ns < first_ns) {
        return KS_OK;
    }
    uint64_t begin = 0;
    uint64_t end = 0;
    KS_TRY(ks_trace_row_find(trace, KS_TABLE_memory, lane, first_ns, &begin, err));
    KS_TRY(ks_trace_row_find_after(trace, KS_TABLE_memory, lane, last_ns, &end, err));
    if (begin == end) {
        return KS_OK;
    }
    uint64_t host[2];
    uint64_t device[2];
    KS_TRY(sums_before(trace, lane, begin, &host[0], &device[0], err));
    KS_TRY(sums_before(trace, lane, end, &host[1], &device[1], err));
    /* Unsigned: a sum that wrapped around still gives the right difference. */
    *host_bytes = (int64_t)(host[1] - host[0]);
    *device_bytes = (int64_t)(device[1] - device[0]);
    return KS_OK;
}
