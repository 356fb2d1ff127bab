/* A table as CSV. A list of the report has the columns that JSON shows, with their keys as the
 * header; a table of events has those of SQL.
 *
 * RFC 4180 with CRLF. A value that is not known is an empty field, an empty text is "". Numbers are
 * those of the JSON document, digit for digit. Text that a spreadsheet would run as a formula gets
 * an apostrophe in front, since traces come from anywhere and people double-click such files.
 */
#include "base/err.h"
#include "base/text.h"
#include "export/export.h"
#include "export/sink.h"
#include "export/table_rows.h"
#include "show/lists.h"

/* What makes a spreadsheet take a cell for a formula: the list of OWASP. */
static bool is_formula(struct ks_str text)
{
    return text.len > 0 && memchr("=+-@\t\r", text.ptr[0], 6) != NULL;
}

static bool needs_quotes(struct ks_str text)
{
    if (text.len == 0) {
        return true; /* an empty field is an unknown value */
    }
    for (size_t i = 0; i < text.len; i++) {
        if (memchr(",\"\r\n", text.ptr[i], 4)) {
            return true;
        }
    }
    return text.ptr[0] == ' ' || text.ptr[text.len - 1] == ' '; /* some readers trim them */
}

/* Bytes that are no UTF-8, and controls that readers stumble over, become U+FFFD. */
static void put_bytes(struct ks_sink *sink, struct ks_str text)
{
    const unsigned char *bytes = (const unsigned char *)text.ptr;
    for (size_t i = 0; i < text.len;) {
        size_t len = ks_utf8_sequence(bytes + i, text.len - i);
        bool is_control = bytes[i] < 0x20 && !memchr("\t\r\n", bytes[i], 3);
        if (len == 0 || is_control || bytes[i] == 0x7f) {
            ks_sink_text(sink, "\xEF\xBF\xBD");
            i++;
            continue;
        }
        if (bytes[i] == '"') {
            ks_sink_text(sink, "\"");
        }
        ks_sink_put(sink, text.ptr + i, len);
        i += len;
    }
}

static void put_string(struct ks_sink *sink, struct ks_str text)
{
    bool is_quoted = needs_quotes(text);
    ks_sink_text(sink, is_quoted ? "\"" : "");
    ks_sink_text(sink, is_formula(text) ? "'" : "");
    put_bytes(sink, text);
    ks_sink_text(sink, is_quoted ? "\"" : "");
}

static void put_cell(struct ks_sink *sink, const struct ks_cell *cell)
{
    char real[KS_JSON_REAL_SIZE];
    switch (cell->kind) {
    case KS_CELL_NULL: break;
    case KS_CELL_INT: ks_sink_int(sink, cell->number); break;
    case KS_CELL_REAL:
        ks_json_format_real(cell->real, real);
        ks_sink_text(sink, real);
        break;
    case KS_CELL_BOOL: ks_sink_text(sink, cell->number ? "true" : "false"); break;
    case KS_CELL_TEXT: put_string(sink, cell->text); break;
    }
}

static size_t choose_columns(const struct ks_list *list, const struct ks_view *view,
                             const struct ks_column **columns)
{
    size_t count = 0;
    for (const struct ks_column *column = list->columns; column->key; column++) {
        if ((column->places & KS_COLUMN_JSON) && (!column->is_there || column->is_there(view))) {
            KS_ASSERT(count < KS_LIST_COLUMNS_MAX);
            columns[count++] = column;
        }
    }
    return count;
}

static void put_list(struct ks_sink *sink, const struct ks_list *list, const struct ks_view *view)
{
    const struct ks_column *columns[KS_LIST_COLUMNS_MAX];
    size_t column_count = choose_columns(list, view, columns);
    for (size_t c = 0; c < column_count; c++) {
        ks_sink_text(sink, c > 0 ? "," : "");
        ks_sink_text(sink, columns[c]->key);
    }
    ks_sink_text(sink, "\r\n");
    size_t row_count = list->row_count(view);
    for (size_t row = 0; row < row_count && !sink->failed; row++) {
        for (size_t c = 0; c < column_count; c++) {
            ks_sink_text(sink, c > 0 ? "," : "");
            struct ks_cell cell = ks_list_cell(list, columns[c], view, row);
            put_cell(sink, &cell);
        }
        ks_sink_text(sink, "\r\n");
    }
}

/* ------------------------------------------------------------------ events */

static struct ks_cell cell_of(const struct ks_sql_value *value)
{
    switch (value->type) {
    case KS_SQL_NULL:
    case KS_SQL_BLOB: break;
    case KS_SQL_INTEGER: return (struct ks_cell){.kind = KS_CELL_INT, .number = value->integer};
    case KS_SQL_REAL: return ks_cell_real(value->real);
    case KS_SQL_TEXT: return ks_cell_text(value->text);
    }
    return (struct ks_cell){0};
}

static enum ks_status put_rows(struct ks_sink *sink, struct ks_table_rows *rows, struct ks_err *err)
{
    size_t count = ks_table_rows_column_count(rows);
    for (size_t c = 0; c < count; c++) {
        ks_sink_text(sink, c > 0 ? "," : "");
        ks_sink_text(sink, ks_table_rows_column(rows, c)->name);
    }
    ks_sink_text(sink, "\r\n");
    enum ks_status status = KS_OK;
    while (!sink->failed && (status = ks_table_rows_next(rows, err)) == KS_OK) {
        for (size_t c = 0; c < count; c++) {
            struct ks_sql_value value;
            KS_TRY(ks_table_rows_cell(rows, c, &value, err));
            struct ks_cell cell = cell_of(&value);
            ks_sink_text(sink, c > 0 ? "," : "");
            put_cell(sink, &cell);
        }
        ks_sink_text(sink, "\r\n");
    }
    return status == KS_END ? KS_OK : status;
}

static enum ks_status put_table(struct ks_sink *sink, const struct ks_view *view,
                                const struct ks_export_options *options, struct ks_err *err)
{
    struct ks_row_filter filter;
    struct ks_table_rows *rows = NULL;
    KS_TRY(ks_row_filter_init(&filter, view, options, err));
    enum ks_status status =
        ks_table_rows_open(view, &filter, ks_table_rows_find(options->table), &rows, err);
    if (status == KS_OK) {
        status = put_rows(sink, rows, err);
    }
    ks_table_rows_close(rows);
    return status;
}

enum ks_status ks_export_csv(const struct ks_view *view, const struct ks_export_options *options,
                             ks_write_cb write, void *user, struct ks_err *err)
{
    const struct ks_list *list = ks_list_find(options->table ? options->table : "operators");
    struct ks_sink sink;
    ks_sink_init(&sink, write, user);
    if (list) {
        put_list(&sink, list, view);
    } else {
        KS_TRY(put_table(&sink, view, options, err));
    }
    return ks_sink_finish(&sink, err);
}
