/* The virtual tables slice, gpu, memory, mark and link. A cursor goes through the lanes that the
 * plan leaves, in each through the rows of its range of time, and reads of these only the columns
 * that the statement names. */
#include "base/alloc.h"
#include "base/err.h"
#include "query/query_impl.h"
#include "query/scan_plan.h"

enum { ROWS_BETWEEN_CHECKS = 4096 };

struct scan_table {
    sqlite3_vtab base;
    struct ks_query *query;
    enum ks_table_id table;
};

struct scan_cursor {
    sqlite3_vtab_cursor base;
    struct ks_scan_plan plan;
    const struct ks_lane *lanes; /* still to come */
    size_t lane_count;
    struct ks_value_span listed; /* rows by an index, still to come; then no lanes */
    struct ks_scan scan;
    uint64_t row; /* of the first row that the scan shows */
    size_t at;
    size_t count;
    bool is_open; /* the scan is */
    bool is_done;
};

static struct scan_table *table_of(const struct scan_cursor *cursor)
{
    return (struct scan_table *)cursor->base.pVtab;
}

/* ------------------------------------------------------------------ the table */

static int scan_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                        sqlite3_vtab **out, char **error)
{
    struct ks_query *query = aux;
    (void)db;
    (void)error;
    enum ks_table_id table = KS_TABLE_COUNT;
    for (unsigned i = 0; argc > 2 && i < KS_TABLE_COUNT; i++) {
        table = strcmp(ks_scan_shape((enum ks_table_id)i)->name, argv[2]) == 0 ? i : table;
    }
    if (table == KS_TABLE_COUNT) {
        return SQLITE_ERROR;
    }
    const struct ks_scan_shape *shape = ks_scan_shape(table);
    int code = ks_query_declare(query, shape->name, &shape->columns->sql, sizeof(*shape->columns),
                                shape->column_count);
    if (code != SQLITE_OK) {
        return code;
    }
    struct scan_table *made = ks_alloc(1, sizeof(*made));
    if (!made) {
        return SQLITE_NOMEM;
    }
    made->query = query;
    made->table = table;
    *out = &made->base;
    return SQLITE_OK;
}

/* Of its own, so that the module is no table by its own name. */
static int scan_create(sqlite3 *db, void *aux, int argc, const char *const *argv,
                       sqlite3_vtab **out, char **error)
{
    return scan_connect(db, aux, argc, argv, out, error);
}

static int scan_disconnect(sqlite3_vtab *table)
{
    ks_free(table);
    return SQLITE_OK;
}

static int scan_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct scan_table *table = (const struct scan_table *)base;
    return ks_scan_plan_choose(table->query->trace, table->table, info);
}

/* ------------------------------------------------------------------ moving on */

static int scan_open_cursor(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    (void)table;
    struct scan_cursor *cursor = ks_alloc(1, sizeof(*cursor));
    if (!cursor) {
        return SQLITE_NOMEM;
    }
    *out = &cursor->base;
    return SQLITE_OK;
}

static void close_scan(struct scan_cursor *cursor)
{
    if (cursor->is_open) {
        ks_scan_close(&cursor->scan);
        cursor->is_open = false;
    }
}

static int scan_close_cursor(sqlite3_vtab_cursor *base)
{
    struct scan_cursor *cursor = (struct scan_cursor *)base;
    close_scan(cursor);
    ks_free(cursor);
    return SQLITE_OK;
}

static bool fits(const struct scan_cursor *cursor, enum ks_table_id table)
{
    for (size_t i = 0; i < cursor->plan.filter_count; i++) {
        const struct ks_scan_filter *filter = &cursor->plan.filters[i];
        if (ks_scan_number(table, filter->column, cursor->scan.cols[filter->column], cursor->at) !=
            filter->number) {
            return false;
        }
    }
    return true;
}

static void open_scan(struct scan_cursor *cursor, uint64_t begin, uint64_t end)
{
    const struct scan_table *table = table_of(cursor);
    ks_scan_open(&cursor->scan, table->query->trace, table->table, cursor->plan.columns, begin,
                 end);
    cursor->is_open = true;
    cursor->at = cursor->count = 0;
}

/* Rows of a lane in the range of time. */
static enum ks_status lane_range(const struct scan_cursor *cursor, const struct ks_lane *lane,
                                 uint64_t *begin, uint64_t *end, struct ks_err *err)
{
    const struct scan_table *table = table_of(cursor);
    *begin = lane->row_begin;
    *end = lane->row_end;
    if (cursor->plan.first_ns != INT64_MIN) {
        KS_TRY(ks_trace_row_find(table->query->trace, table->table, lane, cursor->plan.first_ns,
                                 begin, err));
    }
    if (cursor->plan.last_ns != INT64_MAX) {
        KS_TRY(ks_trace_row_find_after(table->query->trace, table->table, lane,
                                       cursor->plan.last_ns, end, err));
    }
    return KS_OK;
}

/* Opens a scan over the next rows that may fit; KS_END: there are no more. */
static enum ks_status next_range(struct scan_cursor *cursor, struct ks_err *err)
{
    if (cursor->listed.count > 0) {
        uint64_t row = cursor->listed.rows->row;
        cursor->listed.rows++;
        cursor->listed.count--;
        open_scan(cursor, row, row + 1);
        return KS_OK;
    }
    while (cursor->lane_count > 0) {
        const struct ks_lane *lane = cursor->lanes++;
        cursor->lane_count--;
        uint64_t begin = 0;
        uint64_t end = 0;
        KS_TRY(lane_range(cursor, lane, &begin, &end, err));
        if (begin < end) {
            open_scan(cursor, begin, end);
            return KS_OK;
        }
        if (ks_query_should_stop(table_of(cursor)->query)) {
            return ks_fail(err, KS_ERR_CANCELLED, KS_NO_OFFSET, "Cannot scan: stopped");
        }
    }
    return KS_END;
}

/* Stands at the first row that fits, from where the cursor is; KS_END: there is none. */
static enum ks_status find_row(struct scan_cursor *cursor, struct ks_err *err)
{
    struct scan_table *table = table_of(cursor);
    for (;;) {
        for (; cursor->at < cursor->count; cursor->at++) {
            if (++table->query->rows_visited % ROWS_BETWEEN_CHECKS == 0 &&
                ks_query_should_stop(table->query)) {
                return ks_fail(err, KS_ERR_CANCELLED, KS_NO_OFFSET, "Cannot scan: stopped");
            }
            if (fits(cursor, table->table)) {
                return KS_OK;
            }
        }
        enum ks_status status = KS_END;
        if (cursor->is_open) {
            status = ks_scan_next(&cursor->scan, &cursor->row, &cursor->count, err);
            cursor->at = 0;
        }
        if (status == KS_END) {
            close_scan(cursor);
            status = next_range(cursor, err);
        }
        if (status != KS_OK) {
            return status;
        }
    }
}

static int move(struct scan_cursor *cursor)
{
    struct ks_err err = {0};
    struct scan_table *table = table_of(cursor);
    enum ks_status status = find_row(cursor, &err);
    cursor->is_done = status != KS_OK;
    if (status == KS_OK || status == KS_END) {
        return SQLITE_OK;
    }
    close_scan(cursor);
    return ks_query_table_fail(table->query, &table->base, &err);
}

static int scan_next_row(sqlite3_vtab_cursor *base)
{
    struct scan_cursor *cursor = (struct scan_cursor *)base;
    cursor->at++;
    return move(cursor);
}

/* ------------------------------------------------------------------ starting */

/* One row by its number. */
static void start_at_row(struct scan_cursor *cursor, uint64_t rows)
{
    if (cursor->plan.row < rows) {
        open_scan(cursor, cursor->plan.row, cursor->plan.row + 1);
    }
}

static void start_in_lanes(struct scan_cursor *cursor)
{
    const struct scan_table *table = table_of(cursor);
    const struct ks_trace *trace = table->query->trace;
    if (cursor->plan.has_track) {
        cursor->lanes = ks_trace_lane_find(trace, table->table, cursor->plan.track);
        cursor->lane_count = cursor->lanes ? 1 : 0;
    } else {
        cursor->lanes = ks_trace_lanes(trace, table->table, &cursor->lane_count);
    }
}

static enum ks_status start(struct scan_cursor *cursor, struct ks_err *err)
{
    const struct scan_table *table = table_of(cursor);
    if (cursor->plan.has_row) {
        start_at_row(cursor, ks_trace_rows(table->query->trace, table->table));
        return KS_OK;
    }
    if (cursor->plan.has_index) {
        KS_TRY(ks_value_index_find(table->query, table->table, cursor->plan.indexed.column,
                                   cursor->plan.indexed.number, &cursor->listed, err));
        if (cursor->listed.rows) {
            return KS_OK;
        }
    }
    start_in_lanes(cursor);
    return KS_OK;
}

static int scan_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                       sqlite3_value **argv)
{
    struct scan_cursor *cursor = (struct scan_cursor *)base;
    struct scan_table *table = table_of(cursor);
    (void)number;
    close_scan(cursor);
    *cursor = (struct scan_cursor){.base = *base, .is_done = true};
    if (!table->query->trace) {
        return SQLITE_OK;
    }
    ks_scan_plan_read(table->query->trace, table->table, text, argc, argv, &cursor->plan);
    if (cursor->plan.is_empty) {
        return SQLITE_OK;
    }
    struct ks_err err = {0};
    if (start(cursor, &err) != KS_OK) {
        return ks_query_table_fail(table->query, &table->base, &err);
    }
    return move(cursor);
}

/* ------------------------------------------------------------------ a row */

static int scan_eof(sqlite3_vtab_cursor *base)
{
    return ((const struct scan_cursor *)base)->is_done;
}

static int scan_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int index)
{
    const struct scan_cursor *cursor = (const struct scan_cursor *)base;
    const struct scan_table *table = table_of(cursor);
    const struct ks_scan_column *column = &ks_scan_shape(table->table)->columns[index];
    if (column->column != KS_NO_COLUMN && !cursor->scan.cols[column->column]) {
        sqlite3_result_error(context, "a column was asked for that the plan does not name", -1);
        return SQLITE_OK;
    }
    struct ks_sql_value value =
        ks_scan_cell(table->query->trace, table->table, column, cursor->scan.cols, cursor->at,
                     cursor->row + cursor->at);
    ks_query_result(context, &value, false);
    return SQLITE_OK;
}

static int scan_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *row)
{
    const struct scan_cursor *cursor = (const struct scan_cursor *)base;
    *row = (sqlite3_int64)(cursor->row + cursor->at);
    return SQLITE_OK;
}

const sqlite3_module ks_scan_module = {
    .iVersion = 1,
    .xCreate = scan_create,
    .xConnect = scan_connect,
    .xBestIndex = scan_best_index,
    .xDisconnect = scan_disconnect,
    .xDestroy = scan_disconnect,
    .xOpen = scan_open_cursor,
    .xClose = scan_close_cursor,
    .xFilter = scan_filter,
    .xNext = scan_next_row,
    .xEof = scan_eof,
    .xColumn = scan_column,
    .xRowid = scan_rowid,
};
