#include "query/value_index.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "query/query_impl.h"

static int compare_rows(const void *left, const void *right)
{
    const struct ks_value_row *a = left;
    const struct ks_value_row *b = right;
    int order = (a->value > b->value) - (a->value < b->value);
    return order != 0 ? order : (a->row > b->row) - (a->row < b->row);
}

/* -1 is no value in the columns that have an index. */
static enum ks_status fill(struct ks_query *query, struct ks_value_index *index, struct ks_err *err)
{
    struct ks_scan scan;
    uint64_t row = 0;
    size_t count = 0;
    uint64_t rows = ks_trace_rows(query->trace, index->table);
    ks_scan_open(&scan, query->trace, index->table, KS_COLUMN_BIT(index->column), 0, rows);
    enum ks_status status;
    while ((status = ks_scan_next(&scan, &row, &count, err)) == KS_OK) {
        const int64_t *values = scan.cols[index->column]; // all indexed columns are int64_t
        for (size_t i = 0; i < count; i++) {
            if (values[i] != -1) {
                index->rows[index->count++] = (struct ks_value_row){values[i], row + i};
            }
        }
        query->rows_visited += count;
        if (ks_query_should_stop(query)) {
            status = ks_fail(err, KS_ERR_CANCELLED, KS_NO_OFFSET, "Cannot make index: stopped");
            break;
        }
    }
    ks_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status make(struct ks_query *query, struct ks_value_index *index, struct ks_err *err)
{
    uint64_t rows = ks_trace_rows(query->trace, index->table);
    index->count = 0;
    index->rows = ks_alloc((size_t)rows + 1, sizeof(*index->rows));
    if (!index->rows) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot make index: rows=%llu",
                       (unsigned long long)rows);
    }
    enum ks_status status = fill(query, index, err);
    if (status != KS_OK) {
        ks_value_index_release(index);
        return status;
    }
    qsort(index->rows, index->count, sizeof(*index->rows), compare_rows);
    index->is_made = true;
    return KS_OK;
}

/* The slot of this column, or a free one; NULL: all are taken. */
static struct ks_value_index *slot_of(struct ks_query *query, enum ks_table_id table,
                                      uint8_t column)
{
    for (size_t i = 0; i < KS_VALUE_INDEXES; i++) {
        struct ks_value_index *index = &query->indexes[i];
        if (!index->is_used) {
            *index = (struct ks_value_index){.table = table, .column = column, .is_used = true};
        }
        if (index->table == table && index->column == column) {
            return index;
        }
    }
    return NULL;
}

/* An index counts against the same limit as what SQLite keeps. */
static bool is_too_large(const struct ks_query *query, enum ks_table_id table)
{
    uint64_t limit = query->limits.bytes_max;
    return limit > 0 && ks_trace_rows(query->trace, table) > limit / sizeof(struct ks_value_row);
}

enum ks_status ks_value_index_find(struct ks_query *query, enum ks_table_id table, uint8_t column,
                                   int64_t value, struct ks_value_span *out, struct ks_err *err)
{
    *out = (struct ks_value_span){0};
    struct ks_value_index *index = slot_of(query, table, column);
    if (!index || is_too_large(query, table)) {
        return KS_OK;
    }
    if (!index->is_made && ++index->lookups < KS_VALUE_LOOKUPS_MIN) {
        return KS_OK;
    }
    if (!index->is_made) {
        KS_TRY(make(query, index, err));
    }
    size_t begin = 0;
    size_t end = index->count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (index->rows[middle].value < value) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    out->rows = index->rows + begin;
    while (begin + out->count < index->count && out->rows[out->count].value == value) {
        out->count++;
    }
    return KS_OK;
}

void ks_value_index_release(struct ks_value_index *index)
{
    ks_free(index->rows);
    index->rows = NULL;
    index->count = 0;
    index->is_made = false;
}
