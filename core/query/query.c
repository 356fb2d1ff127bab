#include "query/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/alloc.h"
#include "base/err.h"
#include "query/query_impl.h"
#include "query/scan_columns.h"

enum {
    STEPS_BETWEEN_CHECKS = 1000,          /* of SQLite's machine: some microseconds */
    VALUE_BYTES_MAX = 2 * KS_STR_LEN_MAX, /* the longest name, and something around it */
    SQL_BYTES_MAX = 1000000,
    CACHE_KIB_MAX = 64 * 1024,
    NS_PER_MS = 1000000,
};

/* ------------------------------------------------------------------ stopping */

static int64_t now_ns(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool ks_query_should_stop(struct ks_query *query)
{
    if (query->stop == KS_QUERY_GOES_ON && query->limits.is_cancelled &&
        query->limits.is_cancelled(query->limits.user)) {
        query->stop = KS_QUERY_CANCELLED;
    }
    if (query->stop == KS_QUERY_GOES_ON && query->deadline_ns != INT64_MAX &&
        now_ns() >= query->deadline_ns) {
        query->stop = KS_QUERY_TIME;
    }
    return query->stop != KS_QUERY_GOES_ON;
}

static int on_progress(void *user)
{
    return ks_query_should_stop(user);
}

/* ------------------------------------------------------------------ errors */

/* "... (line 2, column 8)" for a place in the statement, when SQLite knows it. */
static void describe_place(struct ks_str sql, int offset, char *place, size_t size)
{
    place[0] = '\0';
    if (offset < 0 || (size_t)offset > sql.len) {
        return;
    }
    size_t line = 1;
    size_t column = 1;
    for (size_t i = 0; i < (size_t)offset; i++) {
        bool is_end = sql.ptr[i] == '\n';
        bool is_inside = ((unsigned char)sql.ptr[i] & 0xC0) == 0x80; // of a character
        line += is_end;
        column = is_end ? 1 : column + !is_inside;
    }
    snprintf(place, size, " (line %zu, column %zu)", line, column);
}

static enum ks_status fail_stopped(const struct ks_query *query, struct ks_err *err)
{
    if (query->stop == KS_QUERY_CANCELLED) {
        return ks_fail(err, KS_ERR_CANCELLED, KS_NO_OFFSET, "Cannot finish query: interrupted");
    }
    return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET,
                   "Cannot finish query: it took longer than %.10g s",
                   (double)query->limits.ms_max / 1000.0);
}

/* Turns what SQLite says into an error of ours. `sql` is empty when it is not about a place. */
static enum ks_status fail_sqlite(const struct ks_query *query, struct ks_str sql, int code,
                                  struct ks_err *err)
{
    const char *said = query->db ? sqlite3_errmsg(query->db) : sqlite3_errstr(code);
    char place[64];
    if (query->stop != KS_QUERY_GOES_ON) {
        return fail_stopped(query, err);
    }
    if (query->table_err.status != KS_OK) {
        return ks_fail(err, query->table_err.status, KS_NO_OFFSET, "%s", query->table_err.message);
    }
    switch (code & 0xFF) {
    case SQLITE_NOMEM:
        if (query->limits.bytes_max > 0) {
            return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET,
                           "Cannot finish query: it needs more than %" PRIu64 " bytes of memory",
                           query->limits.bytes_max);
        }
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot run query: no memory");
    case SQLITE_TOOBIG:
        return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET,
                       "Cannot run query: %s: limits are %d bytes of a value, %d of the statement",
                       said, VALUE_BYTES_MAX, SQL_BYTES_MAX);
    case SQLITE_IOERR:
    case SQLITE_FULL:
    case SQLITE_CANTOPEN:
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot keep rows of query in a file: %s",
                       said);
    case SQLITE_AUTH:
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot run query: only a SELECT is allowed: %.120s", said);
    default: break;
    }
    describe_place(sql, sql.len > 0 ? sqlite3_error_offset(query->db) : -1, place, sizeof(place));
    return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot run query: %.160s%s", said, place);
}

int ks_query_table_fail(struct ks_query *query, sqlite3_vtab *table, const struct ks_err *err)
{
    if (query->stop != KS_QUERY_GOES_ON) {
        return SQLITE_INTERRUPT;
    }
    query->table_err = *err;
    sqlite3_free(table->zErrMsg);
    table->zErrMsg = sqlite3_mprintf("%s", err->message);
    return err->status == KS_ERR_NOMEM ? SQLITE_NOMEM : SQLITE_ERROR;
}

/* ------------------------------------------------------------------ cells */

void ks_query_result(sqlite3_context *context, const struct ks_sql_value *value,
                     bool is_short_lived)
{
    switch (value->type) {
    case KS_SQL_INTEGER: sqlite3_result_int64(context, value->integer); break;
    case KS_SQL_REAL: sqlite3_result_double(context, value->real); break;
    case KS_SQL_TEXT:
        sqlite3_result_text64(context, value->text.ptr ? value->text.ptr : "", value->text.len,
                              is_short_lived ? SQLITE_TRANSIENT : SQLITE_STATIC, SQLITE_UTF8);
        break;
    case KS_SQL_NULL:
    case KS_SQL_BLOB: sqlite3_result_null(context); break;
    }
}

struct ks_sql_value ks_query_argument(sqlite3_value *value)
{
    switch (sqlite3_value_type(value)) {
    case SQLITE_INTEGER: return ks_sql_integer(sqlite3_value_int64(value));
    case SQLITE_FLOAT: return ks_sql_real(sqlite3_value_double(value));
    case SQLITE_TEXT: {
        const char *text = (const char *)sqlite3_value_text(value);
        size_t len = (size_t)sqlite3_value_bytes(value);
        return text ? ks_sql_text((struct ks_str){text, len}) : (struct ks_sql_value){0};
    }
    case SQLITE_BLOB: return (struct ks_sql_value){.type = KS_SQL_BLOB};
    default: return (struct ks_sql_value){0};
    }
}

int ks_query_declare(struct ks_query *query, const char *name, const struct ks_sql_column *columns,
                     size_t stride, size_t count)
{
    static const char *const words[] = {
        [KS_SQL_INTEGER] = "INTEGER", [KS_SQL_REAL] = "REAL", [KS_SQL_TEXT] = "TEXT"};
    struct ks_text text;
    ks_text_init(&text);
    ks_text_printf(&text, "CREATE TABLE \"%s\" (", name);
    for (size_t i = 0; i < count; i++) {
        const char *at = (const char *)columns + i * stride;
        const struct ks_sql_column *column = (const struct ks_sql_column *)(const void *)at;
        ks_text_printf(&text, "%s\"%s\" %s", i > 0 ? ", " : "", column->name, words[column->type]);
    }
    ks_text_append(&text, ")", 2); // and the NUL
    int code = text.failed ? SQLITE_NOMEM : sqlite3_declare_vtab(query->db, text.ptr);
    ks_text_release(&text);
    return code;
}

/* ------------------------------------------------------------------ opening */

/* Nothing but reading: what is not named is denied. */
static int authorize(void *user, int action, const char *first, const char *second,
                     const char *database, const char *trigger)
{
    static const char *const functions[] = {"load_extension", "fts3_tokenizer"};
    static const char *const pragmas[] = {"table_info", "table_xinfo", "table_list"};
    (void)user;
    (void)database;
    (void)trigger;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE: return SQLITE_OK;
    case SQLITE_FUNCTION:
        for (size_t i = 0; i < KS_COUNT_OF(functions); i++) {
            if (second && sqlite3_stricmp(second, functions[i]) == 0) {
                return SQLITE_DENY;
            }
        }
        return SQLITE_OK;
    case SQLITE_PRAGMA:
        for (size_t i = 0; i < KS_COUNT_OF(pragmas); i++) {
            if (first && sqlite3_stricmp(first, pragmas[i]) == 0) {
                return SQLITE_OK;
            }
        }
        return SQLITE_DENY;
    default: return SQLITE_DENY;
    }
}

static void set_limits(sqlite3 *db)
{
    static const struct {
        int id;
        int value;
    } limits[] = {
        {SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX},
        {SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES_MAX},
        {SQLITE_LIMIT_COLUMN, 1000},
        {SQLITE_LIMIT_EXPR_DEPTH, 500},
        {SQLITE_LIMIT_COMPOUND_SELECT, 200},
        {SQLITE_LIMIT_VDBE_OP, 1000000},
        {SQLITE_LIMIT_FUNCTION_ARG, 100},
        {SQLITE_LIMIT_ATTACHED, 0},
        {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000},
        {SQLITE_LIMIT_VARIABLE_NUMBER, 9},
        {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
        {SQLITE_LIMIT_WORKER_THREADS, 0},
    };
    static const struct {
        int id;
        int value;
    } switches[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},      {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_DQS_DML, 0},        {SQLITE_DBCONFIG_DQS_DDL, 0},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
        {SQLITE_DBCONFIG_ENABLE_FKEY, 0},    {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
    };
    for (size_t i = 0; i < KS_COUNT_OF(limits); i++) {
        sqlite3_limit(db, limits[i].id, limits[i].value);
    }
    for (size_t i = 0; i < KS_COUNT_OF(switches); i++) {
        (void)sqlite3_db_config(db, switches[i].id, switches[i].value, NULL);
    }
}

static int make_table(struct ks_query *query, const char *module, const char *name)
{
    char text[160];
    int len = snprintf(text, sizeof(text), "CREATE VIRTUAL TABLE \"%s\" USING %s(%s)", name, module,
                       name);
    KS_ASSERT(len > 0 && (size_t)len < sizeof(text));
    return sqlite3_exec(query->db, text, NULL, NULL, NULL);
}

/* The tables stand in the schema, so that sqlite_schema lists them. */
static int make_tables(struct ks_query *query)
{
    int code = sqlite3_create_module(query->db, "ks_scan", &ks_scan_module, query);
    if (code == SQLITE_OK) {
        code = sqlite3_create_module(query->db, "ks_rows", &ks_row_module, query);
    }
    for (unsigned i = 0; i < KS_TABLE_COUNT && code == SQLITE_OK; i++) {
        code = make_table(query, "ks_scan", ks_scan_shape((enum ks_table_id)i)->name);
    }
    for (size_t i = 0; i < query->table_count && code == SQLITE_OK; i++) {
        code = make_table(query, "ks_rows", query->tables[i].name);
    }
    return code;
}

/* Sorts and temporary tables use memory up to this, then files. */
static int set_cache(struct ks_query *query)
{
    uint64_t limit = query->limits.bytes_max;
    uint64_t kib = limit == 0 || limit / 4096 > CACHE_KIB_MAX ? CACHE_KIB_MAX : limit / 4096;
    char text[64];
    snprintf(text, sizeof(text), "PRAGMA cache_size = -%llu", (unsigned long long)kib);
    return sqlite3_exec(query->db, text, NULL, NULL, NULL);
}

/* Table-valued functions that queries may use: SQLite declares their columns when they are first
 * named, which the authorizer would take for a change. One that this SQLite lacks stays unknown. */
static int know_functions(struct ks_query *query)
{
    static const char *const statements[] = {
        "SELECT 1 FROM json_each('[]')",
        "SELECT 1 FROM json_tree('[]')",
        "SELECT 1 FROM pragma_table_info('slice')",
        "SELECT 1 FROM pragma_table_list",
    };
    int code = SQLITE_OK;
    for (size_t i = 0; i < KS_COUNT_OF(statements) && code != SQLITE_NOMEM; i++) {
        sqlite3_stmt *statement = NULL;
        code = sqlite3_prepare_v2(query->db, statements[i], -1, &statement, NULL) & 0xFF;
        (void)sqlite3_finalize(statement);
    }
    return code == SQLITE_NOMEM ? code : SQLITE_OK;
}

static int open_database(struct ks_query *query)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_MEMORY;
    int code = sqlite3_open_v2(":memory:", &query->db, flags, NULL);
    if (code != SQLITE_OK) {
        return code;
    }
    sqlite3_extended_result_codes(query->db, 1);
    set_limits(query->db);
    code = set_cache(query);
    if (code == SQLITE_OK) {
        code = make_tables(query);
    }
    if (code == SQLITE_OK) {
        code = know_functions(query);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_set_authorizer(query->db, authorize, query);
    }
    sqlite3_progress_handler(query->db, STEPS_BETWEEN_CHECKS, on_progress, query);
    return code;
}

enum ks_status ks_query_open(const struct ks_trace *trace, const struct ks_row_table *more,
                             size_t more_count, const struct ks_query_limits *limits,
                             struct ks_query **out, struct ks_err *err)
{
    *out = NULL;
    KS_ASSERT(more_count + KS_TRACE_ROW_TABLES <= KS_QUERY_TABLES_MAX);
    struct ks_query *query = ks_alloc(1, sizeof(*query));
    if (!query) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot open query: no memory");
    }
    query->trace = trace;
    query->limits = *limits;
    query->deadline_ns = INT64_MAX;
    query->heap_before = -1;
    ks_trace_rows_tables(trace, query->tables);
    query->table_count = KS_TRACE_ROW_TABLES;
    for (size_t i = 0; i < more_count; i++) {
        query->tables[query->table_count++] = more[i];
    }
    if (limits->bytes_max > 0) {
        int64_t bytes = limits->bytes_max < INT64_MAX ? (int64_t)limits->bytes_max : INT64_MAX;
        query->heap_before = sqlite3_hard_heap_limit64(bytes);
    }
    int code = open_database(query);
    if (code != SQLITE_OK) {
        enum ks_status status = fail_sqlite(query, (struct ks_str){0}, code, err);
        ks_query_close(query);
        return status;
    }
    *out = query;
    return KS_OK;
}

void ks_query_close(struct ks_query *query)
{
    if (!query) {
        return;
    }
    (void)sqlite3_finalize(query->statement);
    (void)sqlite3_close(query->db);
    if (query->heap_before >= 0) {
        (void)sqlite3_hard_heap_limit64(query->heap_before);
    }
    for (size_t i = 0; i < KS_VALUE_INDEXES; i++) {
        ks_value_index_release(&query->indexes[i]);
    }
    ks_free(query);
}

/* ------------------------------------------------------------------ running */

/* Behind the statement there may be blanks, comments and semicolons. */
static enum ks_status check_tail(struct ks_query *query, struct ks_str sql, const char *tail,
                                 struct ks_err *err)
{
    const char *end = sql.ptr + sql.len;
    while (tail < end) {
        sqlite3_stmt *more = NULL;
        const char *rest = end;
        int code = sqlite3_prepare_v2(query->db, tail, (int)(end - tail), &more, &rest);
        bool is_statement = more != NULL;
        (void)sqlite3_finalize(more);
        if (is_statement || code != SQLITE_OK) {
            char place[64];
            tail += strspn(tail, " \t\r\n"); // some text that is not blank follows
            describe_place(sql, (int)(tail - sql.ptr), place, sizeof(place));
            return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                           "Cannot run query: there is more behind the first statement%s", place);
        }
        if (rest <= tail) {
            break;
        }
        tail = rest;
    }
    return KS_OK;
}

static enum ks_status check_statement(const struct ks_query *query, struct ks_err *err)
{
    if (!query->statement) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot run query: it is empty");
    }
    if (sqlite3_bind_parameter_count(query->statement) > 0) {
        return ks_fail(
            err, KS_ERR_USAGE, KS_NO_OFFSET,
            "Cannot run query: it has a parameter (?, :name, @name or $name), and nothing "
            "gives it a value");
    }
    if (!sqlite3_stmt_readonly(query->statement) || sqlite3_column_count(query->statement) == 0) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot run query: only a SELECT is "
                       "allowed");
    }
    return KS_OK;
}

enum ks_status ks_query_prepare(struct ks_query *query, struct ks_str sql, struct ks_err *err)
{
    (void)sqlite3_finalize(query->statement);
    query->statement = NULL;
    query->stop = KS_QUERY_GOES_ON;
    query->table_err = (struct ks_err){0};
    if (query->limits.ms_max > 0) {
        int64_t start_ns = now_ns();
        query->deadline_ns = query->limits.ms_max < (INT64_MAX - start_ns) / NS_PER_MS
                                 ? start_ns + query->limits.ms_max * NS_PER_MS
                                 : INT64_MAX;
    }
    if (sql.len > SQL_BYTES_MAX) {
        return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET,
                       "Cannot run query: the statement has %zu bytes, the limit is %d", sql.len,
                       SQL_BYTES_MAX);
    }
    const char *nul = sql.len > 0 ? memchr(sql.ptr, '\0', sql.len) : NULL;
    if (nul) {
        return ks_fail(err, KS_ERR_USAGE, nul - sql.ptr,
                       "Cannot run query: a NUL byte stands in the statement");
    }
    const char *tail = sql.ptr + sql.len;
    int code = sqlite3_prepare_v2(query->db, sql.ptr, (int)sql.len, &query->statement, &tail);
    if (code != SQLITE_OK) {
        return fail_sqlite(query, sql, code, err);
    }
    KS_TRY(check_statement(query, err));
    return check_tail(query, sql, tail, err);
}

enum ks_status ks_query_step(struct ks_query *query, struct ks_err *err)
{
    KS_ASSERT(query->statement);
    if (ks_query_should_stop(query)) {
        return fail_stopped(query, err);
    }
    int code = sqlite3_step(query->statement);
    if (code == SQLITE_ROW) {
        return KS_OK;
    }
    return code == SQLITE_DONE ? KS_END : fail_sqlite(query, (struct ks_str){0}, code, err);
}

size_t ks_query_column_count(const struct ks_query *query)
{
    return (size_t)sqlite3_column_count(query->statement);
}

const char *ks_query_column_name(const struct ks_query *query, size_t column)
{
    const char *name = sqlite3_column_name(query->statement, (int)column);
    return name ? name : ""; // NULL: no memory
}

enum ks_status ks_query_value(const struct ks_query *query, size_t column, struct ks_sql_value *out,
                              struct ks_err *err)
{
    int index = (int)column;
    *out = (struct ks_sql_value){0};
    switch (sqlite3_column_type(query->statement, index)) {
    case SQLITE_INTEGER:
        *out = ks_sql_integer(sqlite3_column_int64(query->statement, index));
        break;
    case SQLITE_FLOAT: *out = ks_sql_real(sqlite3_column_double(query->statement, index)); break;
    case SQLITE_TEXT:
        out->type = KS_SQL_TEXT;
        out->text.ptr = (const char *)sqlite3_column_text(query->statement, index);
        break;
    case SQLITE_BLOB:
        out->type = KS_SQL_BLOB;
        out->text.ptr = sqlite3_column_blob(query->statement, index);
        break;
    default: break;
    }
    bool has_bytes = out->type == KS_SQL_TEXT || out->type == KS_SQL_BLOB;
    out->text.len = has_bytes ? (size_t)sqlite3_column_bytes(query->statement, index) : 0;
    if (has_bytes && !out->text.ptr && (sqlite3_errcode(query->db) & 0xFF) == SQLITE_NOMEM) {
        return fail_sqlite(query, (struct ks_str){0}, SQLITE_NOMEM, err);
    }
    return KS_OK;
}

uint64_t ks_query_rows_visited(const struct ks_query *query)
{
    return query->rows_visited;
}

/* ------------------------------------------------------------------ documentation */

bool ks_query_table_at(const struct ks_query *query, size_t index, struct ks_query_table *out)
{
    if (index < KS_TABLE_COUNT) {
        const struct ks_scan_shape *shape = ks_scan_shape((enum ks_table_id)index);
        *out = (struct ks_query_table){shape->name, shape->meaning, shape->column_count};
        return true;
    }
    index -= KS_TABLE_COUNT;
    if (index >= query->table_count) {
        return false;
    }
    const struct ks_row_table *table = &query->tables[index];
    *out = (struct ks_query_table){table->name, table->meaning, table->column_count};
    return true;
}

const struct ks_sql_column *ks_query_table_column(const struct ks_query *query, size_t index,
                                                  size_t column)
{
    return index < KS_TABLE_COUNT ? &ks_scan_shape((enum ks_table_id)index)->columns[column].sql
                                  : &query->tables[index - KS_TABLE_COUNT].columns[column];
}
