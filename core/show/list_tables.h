/* The lists of a report as tables of SQL, fact_<list>: the same columns, the same cells. */
#ifndef KS_SHOW_LIST_TABLES_H
#define KS_SHOW_LIST_TABLES_H

#include "base/arena.h"
#include "query/row_table.h"
#include "show/view.h"

/* One table for each list. `view` may lack its trace when only the schema is wanted. Everything
 * lives in `arena`. */
enum ks_status ks_list_tables(const struct ks_view *view, struct ks_arena *arena,
                              const struct ks_row_table **out, size_t *count, struct ks_err *err)
    KS_MUST_CHECK;

#endif
