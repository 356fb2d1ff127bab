/* Virtual tables over ks_row_table: rows by number, cells by a callback, keys by another. */
#include "base/alloc.h"
#include "base/err.h"
#include "query/query_impl.h"

struct row_table {
    sqlite3_vtab base;
    struct ks_query *query;
    const struct ks_row_table *rows;
};

struct row_cursor {
    sqlite3_vtab_cursor base;
    uint64_t row;
    uint64_t row_end;
    struct ks_text text;
};

static int row_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                       sqlite3_vtab **out, char **error)
{
    struct ks_query *query = aux;
    (void)db;
    (void)error;
    const struct ks_row_table *rows = NULL;
    for (size_t i = 0; argc > 2 && i < query->table_count; i++) {
        rows = strcmp(query->tables[i].name, argv[2]) == 0 ? &query->tables[i] : rows;
    }
    if (!rows) {
        return SQLITE_ERROR;
    }
    int code = ks_query_declare(query, rows->name, rows->columns, sizeof(*rows->columns),
                                rows->column_count);
    if (code != SQLITE_OK) {
        return code;
    }
    struct row_table *made = ks_alloc(1, sizeof(*made));
    if (!made) {
        return SQLITE_NOMEM;
    }
    made->query = query;
    made->rows = rows;
    *out = &made->base;
    return SQLITE_OK;
}

/* Of its own, so that the module is no table by its own name. */
static int row_create(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
                      char **error)
{
    return row_connect(db, aux, argc, argv, out, error);
}

static int row_disconnect(sqlite3_vtab *table)
{
    ks_free(table);
    return SQLITE_OK;
}

static uint64_t count_of(const struct row_table *table)
{
    return table->query->trace ? table->rows->row_count(table->rows->user) : 0;
}

/* idxNum: 0 all rows, else 1 + the key column whose value is the argument. */
static int row_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct row_table *table = (const struct row_table *)base;
    uint64_t rows = count_of(table);
    info->estimatedRows = (sqlite3_int64)rows + 1;
    info->estimatedCost = 20.0 + 8.0 * (double)rows;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *constraint = &info->aConstraint[i];
        const char *collation = sqlite3_vtab_collation(info, i);
        if (!constraint->usable || constraint->iColumn < 0 ||
            constraint->op != SQLITE_INDEX_CONSTRAINT_EQ ||
            !table->rows->columns[constraint->iColumn].is_key || !collation ||
            sqlite3_stricmp(collation, "BINARY") != 0) {
            continue;
        }
        info->aConstraintUsage[i].argvIndex = 1;
        info->idxNum = 1 + constraint->iColumn;
        info->estimatedRows = 1;
        info->estimatedCost = 2.0;
        info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
        break;
    }
    return SQLITE_OK;
}

static int row_open_cursor(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    (void)table;
    struct row_cursor *cursor = ks_alloc(1, sizeof(*cursor));
    if (!cursor) {
        return SQLITE_NOMEM;
    }
    ks_text_init(&cursor->text);
    *out = &cursor->base;
    return SQLITE_OK;
}

static int row_close_cursor(sqlite3_vtab_cursor *base)
{
    struct row_cursor *cursor = (struct row_cursor *)base;
    ks_text_release(&cursor->text);
    ks_free(cursor);
    return SQLITE_OK;
}

/* A value of another type than the key's is left to SQLite: all rows are looked at. */
static int row_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                      sqlite3_value **argv)
{
    struct row_cursor *cursor = (struct row_cursor *)base;
    const struct row_table *table = (const struct row_table *)base->pVtab;
    (void)text;
    cursor->row = 0;
    cursor->row_end = count_of(table);
    if (number == 0 || argc == 0 || cursor->row_end == 0) {
        return SQLITE_OK;
    }
    size_t column = (size_t)number - 1;
    struct ks_sql_value value = ks_query_argument(argv[0]);
    if (value.type == KS_SQL_NULL) {
        cursor->row_end = 0;
    } else if (value.type == table->rows->columns[column].type) {
        bool is_there = table->rows->find(table->rows->user, column, &value, &cursor->row);
        cursor->row_end = is_there ? cursor->row + 1 : cursor->row;
    }
    return SQLITE_OK;
}

static int row_next(sqlite3_vtab_cursor *base)
{
    ((struct row_cursor *)base)->row++;
    return SQLITE_OK;
}

static int row_eof(sqlite3_vtab_cursor *base)
{
    const struct row_cursor *cursor = (const struct row_cursor *)base;
    return cursor->row >= cursor->row_end;
}

static int row_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int index)
{
    struct row_cursor *cursor = (struct row_cursor *)base;
    struct row_table *table = (struct row_table *)base->pVtab;
    struct ks_err err = {0};
    struct ks_sql_value value = {0};
    ks_text_reset(&cursor->text);
    enum ks_status status = table->rows->cell(table->rows->user, cursor->row, (size_t)index,
                                              &cursor->text, &value, &err);
    if (status == KS_OK && cursor->text.failed) {
        status = ks_fail(&err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot make a cell: no memory");
    }
    if (status != KS_OK) {
        return ks_query_table_fail(table->query, &table->base, &err);
    }
    bool is_own = value.type == KS_SQL_TEXT && value.text.ptr == cursor->text.ptr;
    ks_query_result(context, &value, is_own);
    return SQLITE_OK;
}

static int row_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *row)
{
    *row = (sqlite3_int64)((const struct row_cursor *)base)->row;
    return SQLITE_OK;
}

const sqlite3_module ks_row_module = {
    .iVersion = 1,
    .xCreate = row_create,
    .xConnect = row_connect,
    .xBestIndex = row_best_index,
    .xDisconnect = row_disconnect,
    .xDestroy = row_disconnect,
    .xOpen = row_open_cursor,
    .xClose = row_close_cursor,
    .xFilter = row_filter,
    .xNext = row_next,
    .xEof = row_eof,
    .xColumn = row_column,
    .xRowid = row_rowid,
};
