/* A database of SQLite: the tables of kscope query, filled, so that its statements run on both; a
 * view `events` with the columns of that table; and what the file is of, in `kinetoscope`.
 *
 * The library writes the file itself, so it must be one that can be written anywhere in. It is new
 * and nobody else's, and no use when it is not whole: no journal, no locks, no waiting for the
 * disk, one transaction. When times or categories are chosen the lists of the report stay away:
 * their numbers are of whole steps.
 */
#include <sqlite3.h>

#include "base/err.h"
#include "base/text.h"
#include "export/export.h"
#include "export/table_rows.h"

static const char settings[] = "PRAGMA page_size = 16384;"
                               "PRAGMA journal_mode = OFF;"
                               "PRAGMA synchronous = OFF;"
                               "PRAGMA cache_size = -16384;" /* KiB */
                               "PRAGMA user_version = 1;"
                               "BEGIN";

static const char events_view[] =
    "CREATE VIEW events AS "
    "SELECT t.source_id, t.rank, p.number AS pid, t.number AS tid, NULL AS device, "
    "NULL AS stream, e.ts_ns, e.dur_ns, e.name, e.category, e.external_id, e.correlation, "
    "e.sequence, e.input_shapes, NULL AS bytes "
    "FROM slice e JOIN track t ON t.id = e.track_id LEFT JOIN track p ON p.id = t.parent_id "
    "UNION ALL "
    "SELECT t.source_id, t.rank, NULL, NULL, e.device, e.stream, e.ts_ns, e.dur_ns, e.name, "
    "e.category, e.external_id, e.correlation, NULL, NULL, e.bytes "
    "FROM gpu e JOIN track t ON t.id = e.track_id";

struct database {
    const struct ks_view *view;
    sqlite3 *db;
    struct ks_text sql;
    bool has_failed;
};

/* ------------------------------------------------------------------ statements */

static enum ks_status fail_memory(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write database: no memory");
}

static enum ks_status check(struct database *out, int code, struct ks_err *err)
{
    int kind = code & 0xFF;
    if (kind == SQLITE_OK || kind == SQLITE_ROW || kind == SQLITE_DONE) {
        return KS_OK;
    }
    out->has_failed = true;
    switch (kind) {
    case SQLITE_NOMEM: return fail_memory(err);
    case SQLITE_TOOBIG:
        return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET, "Cannot write database: %s",
                       sqlite3_errstr(code));
    default:
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot write database: %s",
                       out->db ? sqlite3_errmsg(out->db) : sqlite3_errstr(code));
    }
}

static enum ks_status run(struct database *out, const char *sql, struct ks_err *err)
{
    return check(out, sqlite3_exec(out->db, sql, NULL, NULL, NULL), err);
}

/* Ends the text of a statement, and gives it. */
static enum ks_status end_sql(struct database *out, const char **sql, struct ks_err *err)
{
    ks_text_append(&out->sql, ")", 2); // and the NUL
    *sql = out->sql.ptr;
    return out->sql.failed ? fail_memory(err) : KS_OK;
}

/* ------------------------------------------------------------------ a table */

/* The lists of the report have a prefix in SQL. */
static void begin_sql(struct database *out, const char *verb, size_t index)
{
    enum ks_table_group group;
    const char *name = ks_table_rows_name(index, &group);
    ks_text_reset(&out->sql);
    ks_text_printf(&out->sql, "%s \"%s%s\"", verb, group == KS_GROUP_REPORT ? "fact_" : "", name);
}

static enum ks_status create_table(struct database *out, size_t index,
                                   const struct ks_table_rows *rows, struct ks_err *err)
{
    static const char *const words[] = {
        [KS_SQL_INTEGER] = "INTEGER", [KS_SQL_REAL] = "REAL", [KS_SQL_TEXT] = "TEXT"};
    const char *sql = NULL;
    begin_sql(out, "CREATE TABLE", index);
    for (size_t i = 0; i < ks_table_rows_column_count(rows); i++) {
        const struct ks_sql_column *column = ks_table_rows_column(rows, i);
        bool is_key = i == 0 && strcmp(column->name, "id") == 0;
        ks_text_printf(&out->sql, "%s\"%s\" %s%s", i > 0 ? ", " : " (", column->name,
                       words[column->type], is_key ? " PRIMARY KEY" : "");
    }
    KS_TRY(end_sql(out, &sql, err));
    return run(out, sql, err);
}

static enum ks_status prepare_insert(struct database *out, size_t index, size_t columns,
                                     sqlite3_stmt **statement, struct ks_err *err)
{
    const char *sql = NULL;
    begin_sql(out, "INSERT INTO", index);
    for (size_t i = 0; i < columns; i++) {
        ks_text_printf(&out->sql, "%s?", i > 0 ? ", " : " VALUES (");
    }
    KS_TRY(end_sql(out, &sql, err));
    return check(out, sqlite3_prepare_v2(out->db, sql, -1, statement, NULL), err);
}

/* Texts are copied: those of a cell are good only until the next one. */
static int bind(sqlite3_stmt *statement, int at, const struct ks_sql_value *value)
{
    switch (value->type) {
    case KS_SQL_INTEGER: return sqlite3_bind_int64(statement, at, value->integer);
    case KS_SQL_REAL: return sqlite3_bind_double(statement, at, value->real);
    case KS_SQL_TEXT:
        return sqlite3_bind_text64(statement, at, value->text.len > 0 ? value->text.ptr : "",
                                   value->text.len, SQLITE_TRANSIENT, SQLITE_UTF8);
    case KS_SQL_NULL:
    case KS_SQL_BLOB: break;
    }
    return sqlite3_bind_null(statement, at);
}

static enum ks_status insert_rows(struct database *out, sqlite3_stmt *statement,
                                  struct ks_table_rows *rows, struct ks_err *err)
{
    size_t count = ks_table_rows_column_count(rows);
    enum ks_status status;
    while ((status = ks_table_rows_next(rows, err)) == KS_OK) {
        for (size_t i = 0; i < count; i++) {
            struct ks_sql_value value;
            KS_TRY(ks_table_rows_cell(rows, i, &value, err));
            KS_TRY(check(out, bind(statement, (int)i + 1, &value), err));
        }
        KS_TRY(check(out, sqlite3_step(statement), err));
        KS_TRY(check(out, sqlite3_reset(statement), err));
    }
    return status == KS_END ? KS_OK : status;
}

static enum ks_status fill_table(struct database *out, size_t index, struct ks_table_rows *rows,
                                 struct ks_err *err)
{
    sqlite3_stmt *statement = NULL;
    KS_TRY(create_table(out, index, rows, err));
    enum ks_status status =
        prepare_insert(out, index, ks_table_rows_column_count(rows), &statement, err);
    if (status == KS_OK) {
        status = insert_rows(out, statement, rows, err);
    }
    (void)sqlite3_finalize(statement); // its error was seen
    return status;
}

static enum ks_status write_table(struct database *out, const struct ks_row_filter *filter,
                                  size_t index, struct ks_err *err)
{
    struct ks_table_rows *rows = NULL;
    enum ks_status status = ks_table_rows_open(out->view, filter, index, &rows, err);
    if (status == KS_OK) {
        status = fill_table(out, index, rows, err);
    }
    ks_table_rows_close(rows);
    return status;
}

/* ------------------------------------------------------------------ the file */

static enum ks_status write_facts(struct database *out, struct ks_err *err)
{
    struct ks_table_fact facts[KS_TABLE_FACTS];
    KS_TRY(run(out, "CREATE TABLE kinetoscope (key TEXT PRIMARY KEY, value TEXT)", err));
    ks_table_rows_facts(out->view, "", facts);
    for (size_t i = 0; i < KS_TABLE_FACTS; i++) {
        const char *sql = NULL;
        if (facts[i].value[0] == '\0') {
            continue; // all tables are here
        }
        ks_text_reset(&out->sql);
        ks_text_printf(&out->sql, "INSERT INTO kinetoscope VALUES ('%s', '%s'",
                       strchr(facts[i].key, '.') + 1, facts[i].value);
        KS_TRY(end_sql(out, &sql, err));
        KS_TRY(run(out, sql, err));
    }
    return KS_OK;
}

static enum ks_status write_tables(struct database *out, const struct ks_export_options *options,
                                   struct ks_err *err)
{
    struct ks_row_filter filter;
    enum ks_table_group group;
    bool is_whole = !options->time_given && !options->categories;
    size_t view_index = ks_table_rows_find("events");
    KS_TRY(ks_row_filter_init(&filter, out->view, options, err));
    for (size_t i = 0; ks_table_rows_name(i, &group); i++) {
        if (i != view_index && (is_whole || group != KS_GROUP_REPORT)) {
            KS_TRY(write_table(out, &filter, i, err));
        }
    }
    return write_facts(out, err);
}

static enum ks_status write_database(struct database *out, const struct ks_export_options *options,
                                     struct ks_err *err)
{
    KS_TRY(run(out, settings, err));
    KS_TRY(write_tables(out, options, err));
    KS_TRY(run(out, events_view, err));
    return run(out, "COMMIT", err);
}

enum ks_status ks_export_sqlite(const struct ks_view *view, const struct ks_export_options *options,
                                const char *path, bool *is_own, struct ks_err *err)
{
    struct database out = {.view = view};
    int flags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    ks_text_init(&out.sql);
    ks_text_printf(&out.sql, "%s%s", path[0] == '/' ? "" : "./", path); // never "file:..."
    ks_text_append(&out.sql, "", 1);
    enum ks_status status = out.sql.failed ? fail_memory(err) : KS_OK;
    if (status == KS_OK) {
        status = check(&out, sqlite3_open_v2(out.sql.ptr, &out.db, flags, "unix-none"), err);
    }
    if (status == KS_OK) {
        status = write_database(&out, options, err);
    }
    int code = sqlite3_close(out.db);
    if (status == KS_OK && code != SQLITE_OK) {
        out.db = NULL;
        status = check(&out, code, err);
    }
    ks_text_release(&out.sql);
    *is_own = out.has_failed;
    return status;
}
