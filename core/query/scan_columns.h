/* The six tables of events as SQL shows them: names, types, and how a cell comes from the columns
 * of the store. For query/, and for exports that write the same tables. */
#ifndef KS_QUERY_SCAN_COLUMNS_H
#define KS_QUERY_SCAN_COLUMNS_H

#include "query/row_table.h"
#include "store/trace.h"

/* How the number in the store becomes a cell. */
enum ks_shown {
    KS_SHOWN_ROW,    /* number of the row */
    KS_SHOWN_NUMBER, /* as it is; NaN: NULL */
    KS_SHOWN_ID,     /* 0: NULL */
    KS_SHOWN_MINUS,  /* -1: NULL */
    KS_SHOWN_MOMENT, /* KS_TIME_NONE: NULL */
    KS_SHOWN_TEXT,   /* string id; 0: NULL */
    KS_SHOWN_CATEGORY,
    KS_SHOWN_LINK_KIND,
    KS_SHOWN_FLAG,              /* `detail`: the bit */
    KS_SHOWN_TRACK_NUMBER,      /* of the track; -1: NULL */
    KS_SHOWN_COLLECTIVE_TEXT,   /* `detail`: offset in ks_collective */
    KS_SHOWN_COLLECTIVE_NUMBER, /* the same; -1: NULL */
    KS_SHOWN_REGION_TEXT,       /* string id of a region; of other slices: NULL */
    KS_SHOWN_OTHER_TEXT,        /* the other way round */
};

/* What an equality or a bound of a column is good for. */
enum ks_push {
    KS_PUSH_NONE,
    KS_PUSH_ROW,      /* the row itself */
    KS_PUSH_TRACK,    /* a lane */
    KS_PUSH_TIME,     /* a range inside each lane */
    KS_PUSH_FILTER,   /* compared before anything else of the row is read */
    KS_PUSH_NAME,     /* the same for text, by its id */
    KS_PUSH_CATEGORY, /* the same for the word of a category */
    KS_PUSH_INDEX,    /* an index is made when it is asked for often */
};

enum { KS_NO_COLUMN = 0xFF };

struct ks_scan_column {
    struct ks_sql_column sql;
    uint8_t column; /* in the store, or KS_NO_COLUMN */
    uint8_t shown;  /* enum ks_shown */
    uint8_t push;   /* enum ks_push */
    uint8_t detail;
};

struct ks_scan_shape {
    const char *name;
    const char *meaning;
    const struct ks_scan_column *columns;
    size_t column_count;
};

const struct ks_scan_shape *ks_scan_shape(enum ks_table_id table);

/* Which columns of the store must be pinned for the cell. */
uint64_t ks_scan_column_bits(const struct ks_scan_column *column);

/* A number of a pinned column as int64 (a double: its value cut off). `at` counts from the first
 * row that the scan shows. */
int64_t ks_scan_number(enum ks_table_id table, uint8_t column, const void *cells, size_t at);

/* The cell of a row. `cells`: the pinned columns; `row`: its number. */
struct ks_sql_value ks_scan_cell(const struct ks_trace *trace, enum ks_table_id table,
                                 const struct ks_scan_column *column, const void *const *cells,
                                 size_t at, uint64_t row);

#endif
