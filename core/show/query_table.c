#include "show/query_table.h"

#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "base/err.h"
#include "show/ink.h"
#include "show/json_writer.h"
#include "show/plain.h"

enum { WIDTH_DEFAULT = 100, TEXT_WIDTH_MIN = 12, SAMPLE_ROWS = 200, GAP = 2, BLOB_BYTES_MAX = 16 };

static enum ks_status no_memory(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write table: no memory");
}

enum ks_status ks_query_table_init(struct ks_query_table_text *table, const struct ks_query *query,
                                   const struct ks_query_style *style, struct ks_err *err)
{
    size_t count = ks_query_column_count(query);
    *table = (struct ks_query_table_text){.query = query, .style = style, .column_count = count};
    ks_text_init(&table->cells);
    table->ends = ks_alloc(count * SAMPLE_ROWS + 1, sizeof(*table->ends));
    table->widths = ks_alloc(count + 1, sizeof(*table->widths));
    table->is_left = ks_alloc(count + 1, sizeof(*table->is_left));
    if (!table->ends || !table->widths || !table->is_left) {
        ks_query_table_release(table);
        return no_memory(err);
    }
    return KS_OK;
}

void ks_query_table_release(struct ks_query_table_text *table)
{
    ks_text_release(&table->cells);
    ks_free(table->ends);
    ks_free(table->widths);
    ks_free(table->is_left);
    *table = (struct ks_query_table_text){0};
}

/* ------------------------------------------------------------------ cells */

static void append_blob(struct ks_text *text, struct ks_str bytes)
{
    ks_text_append(text, "x'", 2);
    for (size_t i = 0; i < bytes.len && i < BLOB_BYTES_MAX; i++) {
        ks_text_printf(text, "%02x", (unsigned char)bytes.ptr[i]);
    }
    ks_text_append_str(text, bytes.len > BLOB_BYTES_MAX ? KS_STR("..'") : KS_STR("'"));
}

static void append_real(struct ks_text *text, double real)
{
    char number[KS_JSON_REAL_SIZE];
    ks_json_format_real(real, number);
    ks_text_append_str(text, isinf(real) ? (real > 0 ? KS_STR("Infinity") : KS_STR("-Infinity"))
                                         : ks_str_from(number));
}

/* No text gets wider than a line. */
static size_t line_width(const struct ks_query_table_text *table)
{
    return table->style->width ? table->style->width : WIDTH_DEFAULT;
}

static void append_value(const struct ks_query_table_text *table, struct ks_text *text,
                         const struct ks_sql_value *value)
{
    switch (value->type) {
    case KS_SQL_NULL: ks_text_append(text, "-", 1); break;
    case KS_SQL_INTEGER: ks_text_printf(text, "%" PRId64, value->integer); break;
    case KS_SQL_REAL: append_real(text, value->real); break;
    case KS_SQL_TEXT: ks_plain_append_fit(text, value->text, line_width(table)); break;
    case KS_SQL_BLOB: append_blob(text, value->text); break;
    }
}

/* ------------------------------------------------------------------ lines */

/* A text is made to fit, a number that is too wide pushes the rest aside. */
static void append_cell(const struct ks_query_table_text *table, size_t column, struct ks_str cell,
                        struct ks_text *out)
{
    size_t width = table->widths[column];
    bool is_last = column + 1 == table->column_count;
    ks_text_printf(out, "%*s", column > 0 ? GAP : 0, "");
    if (!table->is_left[column]) {
        size_t own = ks_plain_width(cell);
        ks_text_printf(out, "%*s", (int)(own < width ? width - own : 0), "");
        ks_text_append_str(out, cell);
        return;
    }
    size_t before = out->len;
    ks_plain_append_fit(out, cell, width);
    if (!is_last && !out->failed) {
        size_t own = ks_plain_width((struct ks_str){out->ptr + before, out->len - before});
        ks_text_printf(out, "%*s", (int)(own < width ? width - own : 0), "");
    }
}

static void append_head(const struct ks_query_table_text *table, struct ks_text *out)
{
    ks_ink(out, table->style->colour, KS_INK_STRONG);
    struct ks_text name;
    ks_text_init(&name);
    for (size_t c = 0; c < table->column_count; c++) {
        ks_text_reset(&name);
        ks_plain_append_fit(&name, ks_str_from(ks_query_column_name(table->query, c)),
                            line_width(table));
        append_cell(table, c, (struct ks_str){name.ptr, name.len}, out);
        out->failed = out->failed || name.failed;
    }
    ks_text_release(&name);
    ks_ink(out, table->style->colour, KS_INK_END);
    ks_text_append(out, "\n", 1);
}

static struct ks_str kept_cell(const struct ks_query_table_text *table, size_t index)
{
    size_t begin = index > 0 ? table->ends[index - 1] : 0;
    return (struct ks_str){table->cells.ptr + begin, table->ends[index] - begin};
}

static void measure(struct ks_query_table_text *table)
{
    struct ks_text name;
    ks_text_init(&name);
    for (size_t c = 0; c < table->column_count; c++) {
        ks_text_reset(&name);
        ks_plain_append_fit(&name, ks_str_from(ks_query_column_name(table->query, c)),
                            line_width(table));
        size_t width = ks_plain_width((struct ks_str){name.ptr, name.len});
        for (size_t i = 0; i < table->row_count; i++) {
            size_t own = ks_plain_width(kept_cell(table, i * table->column_count + c));
            width = own > width ? own : width;
        }
        table->widths[c] = width;
        table->cells.failed = table->cells.failed || name.failed;
    }
    ks_text_release(&name);
}

/* Takes what is too much from the widest texts. */
static void narrow(struct ks_query_table_text *table)
{
    size_t limit = line_width(table);
    size_t total = 0;
    for (size_t c = 0; c < table->column_count; c++) {
        total += table->widths[c] + (c > 0 ? GAP : 0);
    }
    while (total > limit) {
        size_t widest = SIZE_MAX;
        for (size_t c = 0; c < table->column_count; c++) {
            if (table->is_left[c] && table->widths[c] > TEXT_WIDTH_MIN &&
                (widest == SIZE_MAX || table->widths[c] > table->widths[widest])) {
                widest = c;
            }
        }
        if (widest == SIZE_MAX) {
            break;
        }
        table->widths[widest]--;
        total--;
    }
}

static void append_kept(struct ks_query_table_text *table, struct ks_text *out)
{
    if (table->has_widths) {
        return;
    }
    table->has_widths = true;
    measure(table);
    narrow(table);
    append_head(table, out);
    for (size_t i = 0; i < table->row_count; i++) {
        for (size_t c = 0; c < table->column_count; c++) {
            append_cell(table, c, kept_cell(table, i * table->column_count + c), out);
        }
        ks_text_append(out, "\n", 1);
    }
    out->failed = out->failed || table->cells.failed;
    ks_text_reset(&table->cells);
}

/* ------------------------------------------------------------------ rows */

static enum ks_status keep_row(struct ks_query_table_text *table, struct ks_err *err)
{
    for (size_t c = 0; c < table->column_count; c++) {
        struct ks_sql_value value;
        KS_TRY(ks_query_value(table->query, c, &value, err));
        append_value(table, &table->cells, &value);
        table->ends[table->row_count * table->column_count + c] = table->cells.len;
        table->is_left[c] =
            table->is_left[c] || value.type == KS_SQL_TEXT || value.type == KS_SQL_BLOB;
    }
    table->row_count++;
    return table->cells.failed ? no_memory(err) : KS_OK;
}

enum ks_status ks_query_table_row(struct ks_query_table_text *table, struct ks_text *out,
                                  struct ks_err *err)
{
    if (!table->has_widths && table->row_count < SAMPLE_ROWS) {
        return keep_row(table, err);
    }
    append_kept(table, out);
    for (size_t c = 0; c < table->column_count; c++) {
        struct ks_sql_value value;
        KS_TRY(ks_query_value(table->query, c, &value, err));
        ks_text_reset(&table->cells);
        append_value(table, &table->cells, &value);
        append_cell(table, c, (struct ks_str){table->cells.ptr, table->cells.len}, out);
    }
    ks_text_append(out, "\n", 1);
    return out->failed || table->cells.failed ? no_memory(err) : KS_OK;
}

enum ks_status ks_query_table_finish(struct ks_query_table_text *table, struct ks_text *out,
                                     struct ks_err *err)
{
    append_kept(table, out);
    return out->failed ? no_memory(err) : KS_OK;
}
