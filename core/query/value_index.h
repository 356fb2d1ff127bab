/* Rows of a table by the value of a column, for joins by correlation or External id: without it
 * each row of one side would look at all rows of the other. Made when a statement asks for a
 * column the third time: until then looking through the column costs less.
 * Internal to query/. */
#ifndef KS_QUERY_VALUE_INDEX_H
#define KS_QUERY_VALUE_INDEX_H

#include "store/trace.h"

enum { KS_VALUE_INDEXES = 8, KS_VALUE_LOOKUPS_MIN = 3 };

struct ks_value_row {
    int64_t value;
    uint64_t row;
};

struct ks_value_span {
    const struct ks_value_row *rows;
    size_t count;
};

struct ks_value_index {
    enum ks_table_id table;
    uint8_t column;
    bool is_used; /* this slot is */
    bool is_made;
    uint32_t lookups;
    struct ks_value_row *rows; /* ascending by value, then by row */
    size_t count;
};

struct ks_query;

/* Counts a lookup of `value`. `out->rows` NULL: there is no index yet, look through the column. */
enum ks_status ks_value_index_find(struct ks_query *query, enum ks_table_id table, uint8_t column,
                                   int64_t value, struct ks_value_span *out, struct ks_err *err)
    KS_MUST_CHECK;
void ks_value_index_release(struct ks_value_index *index);

#endif
