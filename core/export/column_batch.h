/* Some thousand rows of a table, column by column, as formats of columns want them. Memory is
 * bounded: by rows, and by the bytes of their texts. */
#ifndef KS_EXPORT_COLUMN_BATCH_H
#define KS_EXPORT_COLUMN_BATCH_H

#include "export/table_rows.h"
#include "store/strpool.h"

enum { KS_BATCH_ROWS_MAX = 65536, KS_BATCH_TEXT_MAX = 64 * 1024 * 1024 };

struct ks_batch_column {
    const char *name;
    const char *meaning;
    size_t index;          /* in the table */
    enum ks_sql_type type; /* INTEGER, REAL or TEXT */
    uint64_t *cells;       /* int64, bits of a double, or id in the pool; 0 where there is none */
    uint8_t *valid;        /* a bit for each row, lowest first: has it a value? */
    size_t null_count;
    struct ks_strpool *pool; /* TEXT: the texts of this batch */
    size_t text_bytes;       /* TEXT: of all rows together */
};

struct ks_column_batch {
    struct ks_batch_column *columns;
    size_t column_count;
    size_t row_count;
};

enum { KS_BATCH_ALL_COLUMNS = -1 };

/* All columns of the table, or `only` that one, without rows yet. Release it after an error,
 * too. */
enum ks_status ks_column_batch_init(struct ks_column_batch *batch, const struct ks_table_rows *rows,
                                    ptrdiff_t only, struct ks_err *err) KS_MUST_CHECK;
void ks_column_batch_release(struct ks_column_batch *batch);
/* Replaces the rows by the next ones. KS_END: there are none. */
enum ks_status ks_column_batch_fill(struct ks_column_batch *batch, struct ks_table_rows *rows,
                                    struct ks_err *err) KS_MUST_CHECK;

static inline bool ks_batch_column_has(const struct ks_batch_column *column, size_t row)
{
    return (column->valid[row / 8] >> row % 8 & 1) != 0;
}

#endif
