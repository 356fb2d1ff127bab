/* What the files of this stage share. Internal to query/. */
#ifndef KS_QUERY_QUERY_IMPL_H
#define KS_QUERY_QUERY_IMPL_H

#include <sqlite3.h>

#include "query/query.h"
#include "query/trace_tables.h"
#include "query/value_index.h"

enum { KS_QUERY_TABLES_MAX = 48 };

enum ks_query_stop { KS_QUERY_GOES_ON, KS_QUERY_TIME, KS_QUERY_CANCELLED };

struct ks_query {
    sqlite3 *db;
    sqlite3_stmt *statement;
    const struct ks_trace *trace; /* NULL: schema only */
    struct ks_query_limits limits;
    int64_t deadline_ns;       /* INT64_MAX: none */
    sqlite3_int64 heap_before; /* what the process allowed SQLite before, -1: not changed */
    enum ks_query_stop stop;
    struct ks_err table_err; /* of a virtual table that failed; KS_OK: none did */
    uint64_t rows_visited;
    struct ks_row_table tables[KS_QUERY_TABLES_MAX]; /* those of the trace first */
    size_t table_count;
    struct ks_value_index indexes[KS_VALUE_INDEXES];
};

/* Must the query end now? Remembers why. */
bool ks_query_should_stop(struct ks_query *query);
/* Hands an error of ours to SQLite; gives the code that the method of the table returns. */
int ks_query_table_fail(struct ks_query *query, sqlite3_vtab *table, const struct ks_err *err);
/* Gives a cell to SQLite. Text is copied when `is_short_lived`. */
void ks_query_result(sqlite3_context *context, const struct ks_sql_value *value,
                     bool is_short_lived);
/* NULL, INTEGER, REAL and TEXT as they are. */
struct ks_sql_value ks_query_argument(sqlite3_value *value);
/* Declares a table to SQLite: names and types of columns. */
int ks_query_declare(struct ks_query *query, const char *name, const struct ks_sql_column *columns,
                     size_t stride, size_t count);

/* The modules; `ks_query` is their pAux, the name of a table their only argument. */
extern const sqlite3_module ks_scan_module; /* slice, gpu, memory, mark, link */
extern const sqlite3_module ks_row_module;  /* ks_row_table */

#endif
