#include "export/column_batch.h"

#include "base/alloc.h"
#include "base/err.h"

enum { VALID_BYTES = KS_BATCH_ROWS_MAX / 8 };

static bool init_column(struct ks_batch_column *column, const struct ks_table_rows *rows,
                        size_t index)
{
    const struct ks_sql_column *described = ks_table_rows_column(rows, index);
    *column = (struct ks_batch_column){
        .name = described->name,
        .meaning = described->meaning,
        .index = index,
        .type = described->type,
        .cells = ks_alloc(KS_BATCH_ROWS_MAX, sizeof(*column->cells)),
        .valid = ks_alloc(VALID_BYTES, 1),
    };
    return column->cells && column->valid;
}

enum ks_status ks_column_batch_init(struct ks_column_batch *batch, const struct ks_table_rows *rows,
                                    ptrdiff_t only, struct ks_err *err)
{
    *batch = (struct ks_column_batch){0};
    bool is_all = only == KS_BATCH_ALL_COLUMNS;
    size_t count = is_all ? ks_table_rows_column_count(rows) : 1;
    batch->columns = ks_alloc(count, sizeof(*batch->columns));
    batch->column_count = batch->columns ? count : 0;
    bool is_good = batch->columns != NULL;
    for (size_t i = 0; i < count && is_good; i++) {
        is_good = init_column(&batch->columns[i], rows, is_all ? i : (size_t)only);
    }
    return is_good
               ? KS_OK
               : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep columns: count=%zu", count);
}

void ks_column_batch_release(struct ks_column_batch *batch)
{
    for (size_t i = 0; i < batch->column_count; i++) {
        ks_strpool_destroy(batch->columns[i].pool);
        ks_free(batch->columns[i].valid);
        ks_free(batch->columns[i].cells);
    }
    ks_free(batch->columns);
    *batch = (struct ks_column_batch){0};
}

static enum ks_status empty(struct ks_column_batch *batch, struct ks_err *err)
{
    batch->row_count = 0;
    for (size_t i = 0; i < batch->column_count; i++) {
        struct ks_batch_column *column = &batch->columns[i];
        memset(column->valid, 0, VALID_BYTES);
        column->null_count = 0;
        column->text_bytes = 0;
        ks_strpool_destroy(column->pool);
        column->pool = NULL;
        if (column->type == KS_SQL_TEXT) {
            KS_TRY(ks_strpool_create(&column->pool, err));
        }
    }
    return KS_OK;
}

/* Cells are of the column's type, or NULL; a whole number may stand in a column of reals. */
static enum ks_status put_cell(struct ks_batch_column *column, size_t row,
                               const struct ks_sql_value *value, struct ks_err *err)
{
    bool has_value = value->type == column->type ||
                     (value->type == KS_SQL_INTEGER && column->type == KS_SQL_REAL);
    column->cells[row] = 0;
    if (!has_value) {
        column->null_count++;
        return KS_OK;
    }
    if (column->type == KS_SQL_TEXT) {
        struct ks_strid id;
        KS_TRY(ks_strpool_intern(column->pool, value->text, &id, err));
        column->cells[row] = id.v;
        column->text_bytes += value->text.len;
    } else if (column->type == KS_SQL_INTEGER) {
        column->cells[row] = (uint64_t)value->integer;
    } else {
        double real = value->type == KS_SQL_REAL ? value->real : (double)value->integer;
        memcpy(&column->cells[row], &real, sizeof(real));
    }
    column->valid[row / 8] |= (uint8_t)(1u << row % 8);
    return KS_OK;
}

static enum ks_status put_row(struct ks_column_batch *batch, struct ks_table_rows *rows,
                              size_t *text_bytes, struct ks_err *err)
{
    *text_bytes = 0;
    for (size_t i = 0; i < batch->column_count; i++) {
        struct ks_sql_value value;
        KS_TRY(ks_table_rows_cell(rows, batch->columns[i].index, &value, err));
        KS_TRY(put_cell(&batch->columns[i], batch->row_count, &value, err));
        *text_bytes += batch->columns[i].text_bytes;
    }
    batch->row_count++;
    return KS_OK;
}

enum ks_status ks_column_batch_fill(struct ks_column_batch *batch, struct ks_table_rows *rows,
                                    struct ks_err *err)
{
    KS_TRY(empty(batch, err));
    size_t text_bytes = 0;
    while (batch->row_count < KS_BATCH_ROWS_MAX && text_bytes < KS_BATCH_TEXT_MAX) {
        enum ks_status status = ks_table_rows_next(rows, err);
        if (status == KS_END) {
            break;
        }
        KS_TRY(status);
        KS_TRY(put_row(batch, rows, &text_bytes, err));
    }
    return batch->row_count > 0 ? KS_OK : KS_END;
}
