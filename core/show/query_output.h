/* Rows of a query as a table, as CSV or as one JSON document, and what tables there are. All write
 * through a callback as rows come, so that results larger than memory pass. */
#ifndef KS_SHOW_QUERY_OUTPUT_H
#define KS_SHOW_QUERY_OUTPUT_H

#include "query/query.h"

/* Runs a prepared query to its end, or to the limit of rows. When it fails behind the first row,
 * what was written is ended properly: JSON then has an `error`. */
enum ks_status ks_query_write_rows(struct ks_query *query, const struct ks_query_style *style,
                                   ks_write_cb write, void *user, struct ks_query_result *result,
                                   struct ks_err *err) KS_MUST_CHECK;

/* All tables and columns as Markdown, the reference part of docs/query.md. */
enum ks_status ks_query_write_schema(const struct ks_query *query, ks_write_cb write, void *user,
                                     struct ks_err *err) KS_MUST_CHECK;

#endif
