/* The small tables of a trace as tables of rows: track, source, string, stack and call_path,
 * in this order. */
#ifndef KS_QUERY_TRACE_TABLES_H
#define KS_QUERY_TRACE_TABLES_H

#include "query/row_table.h"
#include "store/trace.h"

enum { KS_TRACE_ROW_TABLES = 5 };

/* The trace must outlive them. */
void ks_trace_rows_tables(const struct ks_trace *trace,
                          struct ks_row_table tables[KS_TRACE_ROW_TABLES]);

#endif
