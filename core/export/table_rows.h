/* The rows of one table, one after another, for formats that hold tables: csv, sqlite, parquet and
 * arrow. The tables are those of kscope query, with the same columns and cells, and `events`: host
 * and GPU rows in one, with process, thread, device and stream beside them. Tables of events are
 * filtered; the report's own come whole.
 *
 * A row is good until the next one. Memory does not grow with rows. */
#ifndef KS_EXPORT_TABLE_ROWS_H
#define KS_EXPORT_TABLE_ROWS_H

#include "export/row_filter.h"
#include "query/row_table.h"

enum ks_table_group {
    KS_GROUP_EVENTS, /* events, slice, gpu, memory, mark, link: filters choose rows */
    KS_GROUP_NAMES,  /* track, source, string: what ids mean */
    KS_GROUP_REPORT, /* the lists of the report */
};

/* Name of the index-th table, or NULL past the last. A list of the report has its own name, before
 * which SQL puts fact_. */
const char *ks_table_rows_name(size_t index, enum ks_table_group *group);
/* The index of a table by its name, with or without fact_; SIZE_MAX: there is none. */
size_t ks_table_rows_find(const char *name);

/* What is said beside the rows, as key and value. */
enum { KS_TABLE_FACTS = 3, KS_TABLE_FACT_SIZE = 64 };
struct ks_table_fact {
    const char *key;
    char value[KS_TABLE_FACT_SIZE];
};
void ks_table_rows_facts(const struct ks_view *view, const char *table,
                         struct ks_table_fact facts[KS_TABLE_FACTS]);

struct ks_table_rows;

/* `filter` must outlive the rows; it may be NULL when only columns are asked for. */
enum ks_status ks_table_rows_open(const struct ks_view *view, const struct ks_row_filter *filter,
                                  size_t index, struct ks_table_rows **out, struct ks_err *err)
    KS_MUST_CHECK;
void ks_table_rows_close(struct ks_table_rows *rows); /* NULL is fine */

size_t ks_table_rows_column_count(const struct ks_table_rows *rows);
const struct ks_sql_column *ks_table_rows_column(const struct ks_table_rows *rows, size_t column);
/* KS_OK: stands at the next row; KS_END: there is none. */
enum ks_status ks_table_rows_next(struct ks_table_rows *rows, struct ks_err *err) KS_MUST_CHECK;
/* A cell of the row. Text is valid UTF-8, and good until the next cell is asked for. */
enum ks_status ks_table_rows_cell(struct ks_table_rows *rows, size_t column,
                                  struct ks_sql_value *out, struct ks_err *err) KS_MUST_CHECK;

#endif
