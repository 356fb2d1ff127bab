/* Tables that SQL sees row by row: what a cell is, and how other stages offer a table of theirs.
 * Descriptions are static; `user` must outlive the query. */
#ifndef KS_QUERY_ROW_TABLE_H
#define KS_QUERY_ROW_TABLE_H

#include "base/text.h"

enum ks_sql_type { KS_SQL_NULL, KS_SQL_INTEGER, KS_SQL_REAL, KS_SQL_TEXT, KS_SQL_BLOB };

struct ks_sql_value {
    enum ks_sql_type type;
    int64_t integer;
    double real;
    struct ks_str text; /* TEXT and BLOB: any bytes */
};

/* The values that mean "unknown" become NULL. */
static inline struct ks_sql_value ks_sql_integer(int64_t value)
{
    return (struct ks_sql_value){.type = KS_SQL_INTEGER, .integer = value};
}
struct ks_sql_value ks_sql_real(double value); /* NaN: NULL */
static inline struct ks_sql_value ks_sql_text(struct ks_str text)
{
    return (struct ks_sql_value){.type = KS_SQL_TEXT, .text = text};
}

struct ks_sql_column {
    const char *name;
    enum ks_sql_type type; /* as declared; a cell may be NULL too */
    bool is_key;           /* `find` knows its values */
    const char *meaning;   /* for the documentation: a phrase */
};

struct ks_row_table {
    const char *name;
    const char *meaning;
    const struct ks_sql_column *columns;
    size_t column_count;
    const void *user;
    uint64_t (*row_count)(const void *user);
    /* Text must live as long as the query, or lie in `text`, which is empty at first. */
    enum ks_status (*cell)(const void *user, uint64_t row, size_t column, struct ks_text *text,
                           struct ks_sql_value *out, struct ks_err *err);
    /* The only row whose key column has this value; false: there is none. NULL: no keys. */
    bool (*find)(const void *user, size_t column, const struct ks_sql_value *value, uint64_t *row);
};

#endif
