/* One list as a table of text. Columns that say nothing here (all unknown, or times and sizes that
 * are all zero) are left out; the name takes the width that is left; what does not fit goes from
 * the right, and is named below. */
#include "show/report.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/text.h"
#include "show/ink.h"
#include "show/lists.h"
#include "show/plain.h"
#include "show/units.h"

enum {
    ROWS_DEFAULT = 20,
    WIDTH_DEFAULT = 100,
    NAME_WIDTH_MIN = 24,
    WORD_WIDTH_MAX = 40, /* of texts that are no names */
    GAP = 2,
};

struct table {
    const struct ks_view *view;
    const struct ks_report_style *style;
    const struct ks_list *list;
    const struct ks_column *sort; /* NULL: order of the facts */
    uint64_t *order;
    size_t row_total;
    size_t row_count; /* shown */
    const struct ks_column *columns[KS_LIST_COLUMNS_MAX];
    size_t widths[KS_LIST_COLUMNS_MAX];
    size_t column_count;
    size_t column_total; /* before narrowing */
    struct ks_text text; /* one cell */
    bool failed;         /* out of memory */
};

static bool is_name(const struct ks_column *column)
{
    return column->unit == KS_CELL_NAME || column->unit == KS_CELL_KERNEL;
}

/* ------------------------------------------------------------------ cells */

static struct ks_unit_text with_sign(struct ks_unit_text text, int64_t value)
{
    struct ks_unit_text signed_text = text;
    if (value > 0) {
        snprintf(signed_text.text, sizeof(signed_text.text), "+%.30s", text.text);
    }
    return signed_text;
}

static struct ks_unit_text number_text(const struct ks_column *column, const struct ks_cell *cell)
{
    double real = cell->kind == KS_CELL_REAL ? cell->real : (double)cell->number;
    int64_t whole = cell->kind == KS_CELL_REAL ? (int64_t)llround(cell->real) : cell->number;
    struct ks_unit_text plain;
    switch (column->unit) {
    case KS_CELL_COUNT: return ks_units_count(whole);
    case KS_CELL_TIME: return ks_units_time(whole);
    case KS_CELL_BYTES: return ks_units_bytes(whole);
    case KS_CELL_SHARE: return ks_units_share(real);
    case KS_CELL_RATE: return ks_units_rate(real);
    case KS_CELL_TIME_CHANGE: return with_sign(ks_units_time(whole), whole);
    case KS_CELL_BYTES_CHANGE: return with_sign(ks_units_bytes(whole), whole);
    case KS_CELL_FLOPS: return whole ? ks_units_flops(real) : (struct ks_unit_text){"-"};
    default: break;
    }
    if (cell->kind == KS_CELL_REAL) {
        snprintf(plain.text, sizeof(plain.text), "%.6g", real);
    } else {
        snprintf(plain.text, sizeof(plain.text), "%lld", (long long)whole);
    }
    return plain;
}

static void append_cell(struct ks_text *text, const struct ks_column *column,
                        const struct ks_cell *cell, size_t width)
{
    switch (cell->kind) {
    case KS_CELL_NULL: ks_text_append(text, "-", 1); break;
    case KS_CELL_BOOL: ks_text_append_str(text, cell->number ? KS_STR("yes") : KS_STR("no")); break;
    case KS_CELL_TEXT:
        if (column->unit == KS_CELL_KERNEL) {
            ks_plain_append_kernel(text, cell->text, width);
        } else {
            ks_plain_append_fit(text, cell->text, width);
        }
        break;
    case KS_CELL_INT:
    case KS_CELL_REAL: {
        struct ks_unit_text number = number_text(column, cell);
        ks_text_append_str(text, ks_str_from(number.text));
        break;
    }
    }
}

static size_t cell_width(struct table *table, const struct ks_column *column, size_t row)
{
    struct ks_cell cell = ks_list_cell(table->list, column, table->view, row);
    ks_text_reset(&table->text);
    append_cell(&table->text, column, &cell, is_name(column) ? SIZE_MAX : WORD_WIDTH_MAX);
    table->failed = table->failed || table->text.failed;
    return ks_plain_width((struct ks_str){table->text.ptr, table->text.len});
}

/* ------------------------------------------------------------------ choosing columns */

/* Amounts that are all nothing, and values that nobody knows, are noise. */
static bool says_something(const struct table *table, const struct ks_column *column)
{
    bool is_amount = column->unit != KS_CELL_PLAIN && !is_name(column);
    for (size_t i = 0; i < table->row_count; i++) {
        struct ks_cell cell = ks_list_cell(table->list, column, table->view, table->order[i]);
        bool is_zero =
            is_amount && ((cell.kind == KS_CELL_INT && cell.number == 0) ||
                          (cell.kind == KS_CELL_REAL && fpclassify(cell.real) == FP_ZERO));
        if (cell.kind != KS_CELL_NULL && !is_zero) {
            return true;
        }
    }
    return false;
}

static bool is_same(const struct ks_cell *a, const struct ks_cell *b)
{
    return a->kind == b->kind && a->number == b->number && ks_str_equal(a->text, b->text);
}

/* Do the rows differ in this column? Only asked of names, numbers and flags. */
static bool varies(const struct table *table, const struct ks_column *column)
{
    struct ks_cell first = {0};
    for (size_t i = 0; i < table->row_count; i++) {
        struct ks_cell cell = ks_list_cell(table->list, column, table->view, table->order[i]);
        if (i > 0 && !is_same(&first, &cell)) {
            return true;
        }
        first = cell;
    }
    return false;
}

static bool is_wanted(const struct table *table, const struct ks_column *column)
{
    if (column->is_there && !column->is_there(table->view)) {
        return false;
    }
    return column == table->sort ||
           ((column->places & KS_COLUMN_SCREEN) && says_something(table, column) &&
            (!(column->places & KS_COLUMN_VARIES) || varies(table, column)));
}

static void choose_columns(struct table *table)
{
    for (const struct ks_column *column = table->list->columns; column->key; column++) {
        if (is_wanted(table, column)) {
            KS_ASSERT(table->column_count < KS_LIST_COLUMNS_MAX);
            table->columns[table->column_count++] = column;
        }
    }
    table->column_total = table->column_count;
}

static void measure(struct table *table)
{
    for (size_t c = 0; c < table->column_count; c++) {
        size_t width = ks_plain_width(ks_str_from(table->columns[c]->title));
        for (size_t i = 0; i < table->row_count; i++) {
            size_t mine = cell_width(table, table->columns[c], table->order[i]);
            width = mine > width ? mine : width;
        }
        table->widths[c] = width;
    }
}

static size_t total_width(const struct table *table)
{
    size_t total = 0;
    for (size_t c = 0; c < table->column_count; c++) {
        total += table->widths[c] + (c > 0 ? GAP : 0);
    }
    return total;
}

/* Takes the same from each name as long as it is there. Returns what all columns take then. */
static size_t narrow_names(struct table *table, size_t width, size_t names)
{
    size_t total = total_width(table);
    size_t before = SIZE_MAX;
    while (total > width && total < before) {
        before = total;
        for (size_t c = 0; c < table->column_count && total > width; c++) {
            if (!is_name(table->columns[c]) || table->widths[c] <= NAME_WIDTH_MIN) {
                continue;
            }
            size_t spare = table->widths[c] - NAME_WIDTH_MIN;
            size_t share = (total - width + names - 1) / names;
            size_t taken = share < spare ? share : spare;
            table->widths[c] -= taken;
            total -= taken;
        }
    }
    return total;
}

/* Takes width from the names, then whole columns from the right; never the one that sorts. */
static void narrow(struct table *table, size_t width)
{
    size_t names = 0;
    for (size_t c = 0; c < table->column_count; c++) {
        names += is_name(table->columns[c]);
    }
    for (;;) {
        size_t total = narrow_names(table, width, names);
        size_t last = table->column_count;
        while (last > 0 && (table->columns[last - 1] == table->sort)) {
            last--;
        }
        if (total <= width || last <= 1) {
            return;
        }
        for (size_t c = last - 1; c + 1 < table->column_count; c++) {
            table->columns[c] = table->columns[c + 1];
            table->widths[c] = table->widths[c + 1];
        }
        table->column_count--;
        measure(table); /* names may take back what they gave */
    }
}

/* ------------------------------------------------------------------ writing */

static void append_padded(struct ks_text *text, struct ks_str plain, size_t width, bool is_left)
{
    size_t mine = ks_plain_width(plain);
    int pad = mine < width ? (int)(width - mine) : 0;
    if (!is_left) {
        ks_text_printf(text, "%*s", pad, "");
    }
    ks_text_append_str(text, plain);
    if (is_left) {
        ks_text_printf(text, "%*s", pad, "");
    }
}

/* Texts stand left, numbers right. */
static bool is_left(const struct table *table, size_t c)
{
    const struct ks_column *column = table->columns[c];
    if (column->unit != KS_CELL_PLAIN) {
        return is_name(column);
    }
    struct ks_cell cell = {0};
    for (size_t i = 0; i < table->row_count && cell.kind == KS_CELL_NULL; i++) {
        cell = ks_list_cell(table->list, column, table->view, table->order[i]);
    }
    return cell.kind == KS_CELL_TEXT;
}

static void trim_end(struct ks_text *text)
{
    while (text->len > 0 && text->ptr[text->len - 1] == ' ') {
        text->len--;
    }
}

static void append_head(const struct table *table, struct ks_text *out)
{
    ks_ink(out, table->style->colour, KS_INK_STRONG);
    for (size_t c = 0; c < table->column_count; c++) {
        ks_text_printf(out, "%*s", c > 0 ? GAP : 0, "");
        append_padded(out, ks_str_from(table->columns[c]->title), table->widths[c],
                      is_left(table, c));
    }
    trim_end(out);
    ks_ink(out, table->style->colour, KS_INK_END);
    ks_text_append(out, "\n", 1);
}

static void append_row(struct table *table, size_t row, struct ks_text *out)
{
    for (size_t c = 0; c < table->column_count; c++) {
        struct ks_cell cell = ks_list_cell(table->list, table->columns[c], table->view, row);
        ks_text_reset(&table->text);
        append_cell(&table->text, table->columns[c], &cell, table->widths[c]);
        table->failed = table->failed || table->text.failed;
        ks_text_printf(out, "%*s", c > 0 ? GAP : 0, "");
        append_padded(out, (struct ks_str){table->text.ptr, table->text.len}, table->widths[c],
                      is_left(table, c));
    }
    trim_end(out);
    ks_text_append(out, "\n", 1);
}

static void append_foot(const struct table *table, struct ks_text *out)
{
    bool is_cut = table->row_count < table->row_total;
    bool is_narrowed = table->column_count < table->column_total;
    if (!is_cut && !is_narrowed) {
        return;
    }
    ks_ink(out, table->style->colour, KS_INK_FAINT);
    if (is_cut) {
        struct ks_unit_text shown = ks_units_count((int64_t)table->row_count);
        struct ks_unit_text total = ks_units_count((int64_t)table->row_total);
        ks_text_printf(out, "%s of %s rows; --all-rows shows all", shown.text, total.text);
    }
    if (is_narrowed) {
        size_t missing = table->column_total - table->column_count;
        ks_text_printf(out, "%s%zu %s not fit; --width N makes room", is_cut ? ". " : "", missing,
                       missing == 1 ? "column does" : "columns do");
    }
    ks_ink(out, table->style->colour, KS_INK_END);
    ks_text_append(out, "\n", 1);
}

static bool hand_on(struct ks_text *out, ks_write_cb write, void *user)
{
    bool is_good = out->len == 0 || write(user, out->ptr, out->len);
    ks_text_reset(out);
    return is_good;
}

static enum ks_status write_rows(struct table *table, ks_write_cb write, void *user,
                                 struct ks_err *err)
{
    struct ks_text out;
    ks_text_init(&out);
    if (table->row_total == 0) {
        ks_text_printf(&out, "%s\n", table->list->empty);
    } else {
        append_head(table, &out);
    }
    bool is_good = true;
    for (size_t i = 0; i < table->row_count && is_good && !out.failed; i++) {
        append_row(table, table->order[i], &out);
        is_good = out.failed || hand_on(&out, write, user);
    }
    append_foot(table, &out);
    bool has_failed = out.failed || table->failed;
    is_good = is_good && (has_failed || hand_on(&out, write, user));
    ks_text_release(&out);
    if (has_failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write table: no memory");
    }
    return is_good ? KS_OK
                   : ks_fail(err, KS_ERR_IO, KS_NO_OFFSET,
                             "Cannot write table: the receiver "
                             "stopped");
}

enum ks_status ks_report_write_list(const struct ks_view *view, const struct ks_list *list,
                                    const struct ks_report_style *style, ks_write_cb write,
                                    void *user, struct ks_err *err)
{
    struct table table = {.view = view, .style = style, .list = list};
    const char *sort = style->sort ? style->sort : table.list->sort;
    table.sort = sort ? ks_list_sort_column(table.list, sort) : NULL;
    table.order = ks_list_order(table.list, view, table.sort);
    if (!table.order) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot sort table: no memory");
    }
    size_t limit = style->row_limit ? style->row_limit : ROWS_DEFAULT;
    table.row_total = table.list->row_count(view);
    table.row_count = table.row_total < limit ? table.row_total : limit;
    ks_text_init(&table.text);
    choose_columns(&table);
    measure(&table);
    narrow(&table, style->width ? style->width : WIDTH_DEFAULT);
    enum ks_status status = write_rows(&table, write, user, err);
    ks_text_release(&table.text);
    ks_free(table.order);
    return status;
}

enum ks_status ks_report_write_table(const struct ks_view *view,
                                     const struct ks_report_style *style, ks_write_cb write,
                                     void *user, struct ks_err *err)
{
    KS_TRY(ks_report_check_style(style, err));
    const struct ks_list *list = ks_list_find(style->table ? style->table : "operators");
    return ks_report_write_list(view, list, style, write, user, err);
}

/* ------------------------------------------------------------------ the style */

/* The names as a list in the error message; "..." stands for those that do not fit. */
static void list_names(char *text, size_t size, const char *(*name)(const void *, size_t),
                       const void *of)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; name(of, i); i++) {
        size_t len = strlen(name(of, i));
        if (used + len + sizeof(" ...") + 1 > size) {
            snprintf(text + used, size - used, " ...");
            return;
        }
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", name(of, i));
    }
}

static const char *name_of_list(const void *of, size_t index)
{
    (void)of;
    const struct ks_list *list = ks_list_at(index);
    return list ? list->name : NULL;
}

static const char *name_of_sort(const void *of, size_t index)
{
    return ks_list_sort_name(of, index);
}

enum ks_status ks_report_check_style(const struct ks_report_style *style, struct ks_err *err)
{
    char names[KS_ERR_MESSAGE_SIZE];
    const char *name = style->table ? style->table : "operators";
    const struct ks_list *list = ks_list_find(name);
    if (!list) {
        list_names(names, sizeof(names) - 40, name_of_list, NULL);
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot show table %.20s: there are %s",
                       name, names);
    }
    if (style->sort && !ks_list_sort_column(list, style->sort)) {
        list_names(names, sizeof(names) - 56, name_of_sort, list);
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot sort %s by %.20s: keys are %s",
                       list->name, style->sort, names);
    }
    return KS_OK;
}
