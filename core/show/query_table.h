/* Rows of a query as text in columns. Widths come from the first rows; text that does not fit loses
 * its middle, numbers never do. Internal to show/. */
#ifndef KS_SHOW_QUERY_TABLE_H
#define KS_SHOW_QUERY_TABLE_H

#include "base/text.h"
#include "query/query.h"

struct ks_query_table_text {
    const struct ks_query *query;
    const struct ks_query_style *style;
    size_t column_count;
    struct ks_text cells; /* of the first rows, one after the other, until there are widths */
    size_t *ends;         /* of each of them in `cells` */
    size_t row_count;     /* kept */
    size_t *widths;
    bool *is_left;
    bool has_widths;
};

enum ks_status ks_query_table_init(struct ks_query_table_text *table, const struct ks_query *query,
                                   const struct ks_query_style *style, struct ks_err *err)
    KS_MUST_CHECK;
void ks_query_table_release(struct ks_query_table_text *table);
/* Takes the current row; lines that are ready are appended to `out`. */
enum ks_status ks_query_table_row(struct ks_query_table_text *table, struct ks_text *out,
                                  struct ks_err *err) KS_MUST_CHECK;
/* Appends the lines that are still kept. */
enum ks_status ks_query_table_finish(struct ks_query_table_text *table, struct ks_text *out,
                                     struct ks_err *err) KS_MUST_CHECK;

#endif
