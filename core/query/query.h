/* One SQL statement over a sealed trace. SQLite compiles and runs it; the columns are its virtual
 * tables, so nothing is copied before it is asked for.
 *
 * A query may be opened without a trace: then all tables are empty, and statements can only be
 * checked. What runs is one SELECT: nothing can be written, attached or loaded.
 * Trace and tables must outlive the query, which belongs to one thread. */
#ifndef KS_QUERY_QUERY_H
#define KS_QUERY_QUERY_H

#include "query/row_table.h"
#include "store/trace.h"

struct ks_query;

/* Zero means no limit. */
struct ks_query_limits {
    uint64_t bytes_max; /* of all that SQLite keeps; holds for the whole process meanwhile */
    int64_t ms_max;     /* from prepare on */
    bool (*is_cancelled)(void *user); /* asked now and then; NULL: never */
    void *user;
};

enum ks_status ks_query_open(const struct ks_trace *trace, const struct ks_row_table *more,
                             size_t more_count, const struct ks_query_limits *limits,
                             struct ks_query **out, struct ks_err *err) KS_MUST_CHECK;
void ks_query_close(struct ks_query *query); /* NULL is fine */

/* Compiles the statement. KS_ERR_USAGE: it is no single SELECT that fits the tables; the message
 * says where. Otherwise as step. Ends the statement before it. */
enum ks_status ks_query_prepare(struct ks_query *query, struct ks_str sql, struct ks_err *err)
    KS_MUST_CHECK;
/* KS_OK: there is a row; KS_END: no more. KS_ERR_LIMIT: time, memory or the size of a value;
 * KS_ERR_CANCELLED; KS_ERR_USAGE: what SQL calls an error while running, as integer overflow. */
enum ks_status ks_query_step(struct ks_query *query, struct ks_err *err) KS_MUST_CHECK;

size_t ks_query_column_count(const struct ks_query *query);
const char *ks_query_column_name(const struct ks_query *query, size_t column);
/* Of the current row. KS_ERR_NOMEM. Text is good until the next step. */
enum ks_status ks_query_value(const struct ks_query *query, size_t column, struct ks_sql_value *out,
                              struct ks_err *err) KS_MUST_CHECK;

/* Rows of slice, gpu, memory, mark and link that were looked at: shows what constraints spared. */
uint64_t ks_query_rows_visited(const struct ks_query *query);

/* The index-th table, for documentation; false past the last. */
struct ks_query_table {
    const char *name;
    const char *meaning;
    size_t column_count;
};
bool ks_query_table_at(const struct ks_query *query, size_t index, struct ks_query_table *out);
const struct ks_sql_column *ks_query_table_column(const struct ks_query *query, size_t index,
                                                  size_t column);

#endif
