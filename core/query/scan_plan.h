/* Which rows of a table of events a statement needs: chosen by xBestIndex, told to xFilter as text
 * that EXPLAIN QUERY PLAN shows, turned into lanes, a range of time and cells to compare.
 *
 * SQLite compares every constraint again, so a plan may be generous and never too narrow.
 * Internal to query/. */
#ifndef KS_QUERY_SCAN_PLAN_H
#define KS_QUERY_SCAN_PLAN_H

#include <sqlite3.h>

#include "query/scan_columns.h"

enum { KS_PLAN_FILTERS_MAX = 8 };

/* Rows whose column of the store has this number. */
struct ks_scan_filter {
    uint8_t column;
    int64_t number;
};

struct ks_scan_plan {
    uint64_t columns; /* of the store, to pin */
    bool is_empty;    /* no row can fit */
    bool has_row;
    uint64_t row;
    bool has_track;
    uint32_t track;
    int64_t first_ns; /* both included */
    int64_t last_ns;
    struct ks_scan_filter filters[KS_PLAN_FILTERS_MAX];
    size_t filter_count;
    bool has_index; /* `indexed` holds for all rows that fit, and is a filter too */
    struct ks_scan_filter indexed;
};

/* xBestIndex. */
int ks_scan_plan_choose(const struct ks_trace *trace, enum ks_table_id table,
                        sqlite3_index_info *info);
/* xFilter. `text` is what choose wrote. */
void ks_scan_plan_read(const struct ks_trace *trace, enum ks_table_id table, const char *text,
                       int count, sqlite3_value **values, struct ks_scan_plan *plan);

#endif
