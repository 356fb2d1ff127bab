#include "export/table_rows.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/err.h"
#include "query/scan_columns.h"
#include "query/trace_tables.h"
#include "show/list_tables.h"
#include "show/lists.h"

/* ------------------------------------------------------------------ names */

enum { EVENTS_INDEX, SCANS_BEGIN, NAMES_BEGIN = SCANS_BEGIN + KS_TABLE_COUNT };
enum { LISTS_BEGIN = NAMES_BEGIN + KS_TRACE_ROW_TABLES };
#define FACT_PREFIX "fact_"

static const char *const names[LISTS_BEGIN] = {"events", "slice",  "gpu",   "memory",
                                               "mark",   "sample", "link",  "track",
                                               "source", "string", "stack", "call_path"};

const char *ks_table_rows_name(size_t index, enum ks_table_group *group)
{
    if (index < LISTS_BEGIN) {
        *group = index < NAMES_BEGIN ? KS_GROUP_EVENTS : KS_GROUP_NAMES;
        return names[index];
    }
    *group = KS_GROUP_REPORT;
    const struct ks_list *list = ks_list_at(index - LISTS_BEGIN);
    return list ? list->name : NULL;
}

size_t ks_table_rows_find(const char *name)
{
    enum ks_table_group group;
    const char *found;
    bool is_fact = strncmp(name, FACT_PREFIX, sizeof(FACT_PREFIX) - 1) == 0;
    for (size_t i = 0; (found = ks_table_rows_name(i, &group)) != NULL; i++) {
        bool has_prefix = is_fact && group == KS_GROUP_REPORT;
        if (strcmp(found, name + (has_prefix ? sizeof(FACT_PREFIX) - 1 : 0)) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

void ks_table_rows_facts(const struct ks_view *view, const char *table,
                         struct ks_table_fact facts[KS_TABLE_FACTS])
{
    facts[0].key = "kinetoscope.version";
    facts[1].key = "kinetoscope.table";
    facts[2].key = "kinetoscope.origin_ns"; // Unix time of ts_ns 0
    (void)snprintf(facts[0].value, KS_TABLE_FACT_SIZE, "%s", ks_version());
    (void)snprintf(facts[1].value, KS_TABLE_FACT_SIZE, "%s", table);
    (void)snprintf(facts[2].value, KS_TABLE_FACT_SIZE, "%" PRId64, ks_trace_origin_ns(view->trace));
}

/* ------------------------------------------------------------------ events */

/* Columns of `events` that come from the track of the row; the rest by their names from slice or
 * gpu, NULL where the other one has none. */
enum { EVENT_SOURCE, EVENT_RANK, EVENT_PID, EVENT_TID, EVENT_TRACK_COLUMNS };

static const struct ks_sql_column event_columns[] = {
    [EVENT_SOURCE] = {"source_id", KS_SQL_INTEGER, false, "file it is of"},
    [EVENT_RANK] = {"rank", KS_SQL_INTEGER, false, "rank of that file"},
    [EVENT_PID] = {"pid", KS_SQL_INTEGER, false, "process; host rows only"},
    [EVENT_TID] = {"tid", KS_SQL_INTEGER, false, "thread; host rows only"},
    {"device", KS_SQL_INTEGER, false, "number of the device; GPU rows only"},
    {"stream", KS_SQL_INTEGER, false, "number of the stream; GPU rows only"},
    {"ts_ns", KS_SQL_INTEGER, false, "start, counted from the origin of the trace"},
    {"dur_ns", KS_SQL_INTEGER, false, "duration"},
    {"name", KS_SQL_TEXT, false, "name"},
    {"category", KS_SQL_TEXT, false, "kind of event, as torch names it today"},
    {"external_id", KS_SQL_INTEGER, false, "External id"},
    {"correlation", KS_SQL_INTEGER, false, "joins a launching call with its GPU work"},
    {"sequence", KS_SQL_INTEGER, false, "Sequence number of autograd; host rows only"},
    {"input_shapes", KS_SQL_TEXT, false, "shapes of the inputs; host rows only"},
    {"bytes", KS_SQL_INTEGER, false, "size of a copy or set; GPU rows only"},
};

enum { EVENT_COLUMNS = KS_COUNT_OF(event_columns) };

/* ------------------------------------------------------------------ opening */

struct ks_table_rows {
    const struct ks_view *view;
    const struct ks_row_filter *filter;
    size_t column_count;
    struct ks_text text; /* of a cell */
    struct ks_text clean;
    /* Tables of events. */
    bool is_scan;
    bool is_events;
    enum ks_table_id table;
    const struct ks_scan_shape *shape;
    const struct ks_scan_column *shown[EVENT_COLUMNS]; /* of `events`, in the table at hand */
    struct ks_scan scan;
    uint64_t first_row; /* that the scan shows */
    size_t at;
    size_t count;
    /* All others. */
    struct ks_arena arena;
    struct ks_row_table trace_tables[KS_TRACE_ROW_TABLES];
    const struct ks_row_table *list;
    uint64_t row;
    uint64_t row_count;
    bool is_open; /* a row is at hand */
};

static const struct ks_scan_column *shape_column(const struct ks_scan_shape *shape,
                                                 const char *name)
{
    for (size_t i = 0; i < shape->column_count; i++) {
        if (strcmp(shape->columns[i].sql.name, name) == 0) {
            return &shape->columns[i];
        }
    }
    return NULL;
}

static uint64_t filter_columns(enum ks_table_id table)
{
    static const uint64_t columns[KS_TABLE_COUNT] = {
        [KS_TABLE_slice] = KS_COLUMN_BIT(KS_SLICE_COL_lane) | KS_COLUMN_BIT(KS_SLICE_COL_start_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_category),
        [KS_TABLE_gpu] = KS_COLUMN_BIT(KS_GPU_COL_lane) | KS_COLUMN_BIT(KS_GPU_COL_start_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_dur_ns) | KS_COLUMN_BIT(KS_GPU_COL_category) |
                         KS_COLUMN_BIT(KS_GPU_COL_launch_ns),
        [KS_TABLE_memory] = KS_COLUMN_BIT(KS_MEMORY_COL_lane) |
                            KS_COLUMN_BIT(KS_MEMORY_COL_start_ns) |
                            KS_COLUMN_BIT(KS_MEMORY_COL_device),
        [KS_TABLE_mark] = KS_COLUMN_BIT(KS_MARK_COL_lane) | KS_COLUMN_BIT(KS_MARK_COL_start_ns),
        [KS_TABLE_sample] =
            KS_COLUMN_BIT(KS_SAMPLE_COL_lane) | KS_COLUMN_BIT(KS_SAMPLE_COL_start_ns),
        [KS_TABLE_link] = KS_COLUMN_BIT(KS_LINK_COL_lane) | KS_COLUMN_BIT(KS_LINK_COL_start_ns) |
                          KS_COLUMN_BIT(KS_LINK_COL_dur_ns),
    };
    return columns[table];
}

static void begin_scan(struct ks_table_rows *rows, enum ks_table_id table)
{
    const struct ks_trace *trace = rows->view->trace;
    uint64_t columns = filter_columns(table);
    rows->is_scan = true;
    rows->table = table;
    rows->shape = ks_scan_shape(table);
    for (size_t i = 0; i < rows->shape->column_count; i++) {
        columns |= rows->is_events ? 0 : ks_scan_column_bits(&rows->shape->columns[i]);
    }
    for (size_t i = 0; rows->is_events && i < EVENT_COLUMNS; i++) {
        rows->shown[i] =
            i < EVENT_TRACK_COLUMNS ? NULL : shape_column(rows->shape, event_columns[i].name);
        columns |= rows->shown[i] ? ks_scan_column_bits(rows->shown[i]) : 0;
    }
    rows->at = rows->count = 0;
    ks_scan_open(&rows->scan, trace, table, columns, 0, ks_trace_rows(trace, table));
}

static enum ks_status open_list(struct ks_table_rows *rows, size_t index, struct ks_err *err)
{
    if (index < LISTS_BEGIN) {
        ks_trace_rows_tables(rows->view->trace, rows->trace_tables);
        rows->list = &rows->trace_tables[index - NAMES_BEGIN];
    } else {
        const struct ks_row_table *lists = NULL;
        size_t count = 0;
        KS_TRY(ks_list_tables(rows->view, &rows->arena, &lists, &count, err));
        rows->list = &lists[index - LISTS_BEGIN];
    }
    KS_ASSERT(ks_table_rows_find(rows->list->name) == index);
    rows->column_count = rows->list->column_count;
    rows->row_count = rows->list->row_count(rows->list->user);
    return KS_OK;
}

enum ks_status ks_table_rows_open(const struct ks_view *view, const struct ks_row_filter *filter,
                                  size_t index, struct ks_table_rows **out, struct ks_err *err)
{
    struct ks_table_rows *rows = ks_alloc(1, sizeof(*rows));
    *out = rows;
    if (!rows) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot start a table: no memory");
    }
    rows->view = view;
    rows->filter = filter;
    ks_text_init(&rows->text);
    ks_text_init(&rows->clean);
    ks_arena_init(&rows->arena);
    if (index >= NAMES_BEGIN) {
        return open_list(rows, index, err);
    }
    rows->is_events = index == EVENTS_INDEX;
    begin_scan(rows, rows->is_events ? KS_TABLE_slice : (enum ks_table_id)(index - SCANS_BEGIN));
    rows->column_count = rows->is_events ? EVENT_COLUMNS : rows->shape->column_count;
    return KS_OK;
}

void ks_table_rows_close(struct ks_table_rows *rows)
{
    if (!rows) {
        return;
    }
    if (rows->is_scan) {
        ks_scan_close(&rows->scan);
    }
    ks_arena_release(&rows->arena);
    ks_text_release(&rows->clean);
    ks_text_release(&rows->text);
    ks_free(rows);
}

size_t ks_table_rows_column_count(const struct ks_table_rows *rows)
{
    return rows->column_count;
}

const struct ks_sql_column *ks_table_rows_column(const struct ks_table_rows *rows, size_t column)
{
    KS_ASSERT(column < rows->column_count);
    if (rows->is_events) {
        return &event_columns[column];
    }
    return rows->is_scan ? &rows->shape->columns[column].sql : &rows->list->columns[column];
}

/* ------------------------------------------------------------------ rows */

static int64_t number(const struct ks_table_rows *rows, uint8_t column)
{
    return ks_scan_number(rows->table, column, rows->scan.cols[column], rows->at);
}

static bool is_kept(const struct ks_table_rows *rows)
{
    const struct ks_row_filter *filter = rows->filter;
    switch (rows->table) {
    case KS_TABLE_slice:
        return ks_row_filter_keeps_slice(filter, (uint32_t)number(rows, KS_SLICE_COL_lane),
                                         (enum ks_category)number(rows, KS_SLICE_COL_category),
                                         number(rows, KS_SLICE_COL_start_ns),
                                         number(rows, KS_SLICE_COL_dur_ns));
    case KS_TABLE_gpu:
        return ks_row_filter_keeps_gpu(
            filter, (uint32_t)number(rows, KS_GPU_COL_lane),
            (enum ks_category)number(rows, KS_GPU_COL_category), number(rows, KS_GPU_COL_start_ns),
            number(rows, KS_GPU_COL_dur_ns), number(rows, KS_GPU_COL_launch_ns));
    case KS_TABLE_memory:
        return ks_row_filter_keeps_memory(filter, (uint32_t)number(rows, KS_MEMORY_COL_lane),
                                          number(rows, KS_MEMORY_COL_start_ns),
                                          number(rows, KS_MEMORY_COL_device));
    case KS_TABLE_mark:
        return ks_row_filter_keeps_moment(filter, (uint32_t)number(rows, KS_MARK_COL_lane),
                                          number(rows, KS_MARK_COL_start_ns));
    case KS_TABLE_sample:
        return ks_row_filter_keeps_moment(filter, (uint32_t)number(rows, KS_SAMPLE_COL_lane),
                                          number(rows, KS_SAMPLE_COL_start_ns));
    case KS_TABLE_link:
        return ks_row_filter_keeps_link(filter, (uint32_t)number(rows, KS_LINK_COL_lane),
                                        number(rows, KS_LINK_COL_start_ns),
                                        number(rows, KS_LINK_COL_dur_ns));
    case KS_TABLE_COUNT: break;
    }
    return false;
}

static enum ks_status next_scanned(struct ks_table_rows *rows, struct ks_err *err)
{
    rows->at += rows->is_open;
    rows->is_open = true;
    for (;;) {
        for (; rows->at < rows->count; rows->at++) {
            if (is_kept(rows)) {
                return KS_OK;
            }
        }
        enum ks_status status = ks_scan_next(&rows->scan, &rows->first_row, &rows->count, err);
        rows->at = 0;
        if (status == KS_END && rows->is_events && rows->table == KS_TABLE_slice) {
            ks_scan_close(&rows->scan);
            begin_scan(rows, KS_TABLE_gpu);
        } else if (status != KS_OK) {
            rows->count = 0;
            return status;
        }
    }
}

enum ks_status ks_table_rows_next(struct ks_table_rows *rows, struct ks_err *err)
{
    if (rows->is_scan) {
        return next_scanned(rows, err);
    }
    rows->row += rows->is_open;
    rows->is_open = true;
    return rows->row < rows->row_count ? KS_OK : KS_END;
}

/* ------------------------------------------------------------------ cells */

static struct ks_sql_value unless(int64_t value, int64_t unknown)
{
    return value == unknown ? (struct ks_sql_value){0} : ks_sql_integer(value);
}

static struct ks_sql_value track_cell(const struct ks_table_rows *rows, size_t column)
{
    const struct ks_trace *trace = rows->view->trace;
    bool is_host = rows->table == KS_TABLE_slice;
    uint8_t lane = is_host ? KS_SLICE_COL_lane : KS_GPU_COL_lane;
    const struct ks_track *track = ks_trace_track(trace, (uint32_t)number(rows, lane));
    switch (column) {
    case EVENT_SOURCE: return ks_sql_integer(track->source);
    case EVENT_RANK: return unless(ks_trace_source(trace, track->source)->rank, -1);
    case EVENT_PID:
        return !is_host || track->parent == 0
                   ? (struct ks_sql_value){0}
                   : unless(ks_trace_track(trace, track->parent)->number, -1);
    default: return is_host ? unless(track->number, -1) : (struct ks_sql_value){0};
    }
}

static struct ks_sql_value scan_cell(const struct ks_table_rows *rows, size_t column)
{
    if (rows->is_events && column < EVENT_TRACK_COLUMNS) {
        return track_cell(rows, column);
    }
    const struct ks_scan_column *shown =
        rows->is_events ? rows->shown[column] : &rows->shape->columns[column];
    return shown ? ks_scan_cell(rows->view->trace, rows->table, shown, rows->scan.cols, rows->at,
                                rows->first_row + rows->at)
                 : (struct ks_sql_value){0};
}

static bool is_utf8(struct ks_str text)
{
    const unsigned char *bytes = (const unsigned char *)text.ptr;
    for (size_t i = 0; i < text.len;) {
        size_t len = bytes[i] < 0x80 ? 1 : ks_utf8_sequence(bytes + i, text.len - i);
        if (len == 0) {
            return false;
        }
        i += len;
    }
    return true;
}

/* Names of files may hold any bytes: those that are no UTF-8 become U+FFFD. */
static enum ks_status clean_text(struct ks_table_rows *rows, struct ks_str *text,
                                 struct ks_err *err)
{
    if (is_utf8(*text)) {
        return KS_OK;
    }
    const unsigned char *bytes = (const unsigned char *)text->ptr;
    ks_text_reset(&rows->clean);
    for (size_t i = 0; i < text->len;) {
        size_t len = ks_utf8_sequence(bytes + i, text->len - i);
        ks_text_append_str(&rows->clean,
                           len == 0 ? KS_STR("\xEF\xBF\xBD") : (struct ks_str){text->ptr + i, len});
        i += len == 0 ? 1 : len;
    }
    *text = (struct ks_str){rows->clean.ptr, rows->clean.len};
    return rows->clean.failed
               ? ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot make a cell: no memory")
               : KS_OK;
}

enum ks_status ks_table_rows_cell(struct ks_table_rows *rows, size_t column,
                                  struct ks_sql_value *out, struct ks_err *err)
{
    KS_DCHECK(column < rows->column_count);
    if (rows->is_scan) {
        *out = scan_cell(rows, column);
    } else {
        *out = (struct ks_sql_value){0};
        ks_text_reset(&rows->text);
        KS_TRY(rows->list->cell(rows->list->user, rows->row, column, &rows->text, out, err));
    }
    return out->type == KS_SQL_TEXT ? clean_text(rows, &out->text, err) : KS_OK;
}
