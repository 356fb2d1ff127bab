#include "show/list_tables.h"

#include <stdio.h>

#include "base/err.h"
#include "show/lists.h"

enum { MEANING_SIZE = 128 };

/* What a table stands for; `user` of the callbacks. */
struct list_table {
    const struct ks_list *list;
    const struct ks_view *view;
    size_t column_count; /* of the list; `more` comes behind them */
};

static const struct list_table *table_of(const void *user)
{
    return user;
}

static uint64_t list_rows(const void *user)
{
    return table_of(user)->list->row_count(table_of(user)->view);
}

static struct ks_sql_value value_of(const struct ks_cell *cell)
{
    switch (cell->kind) {
    case KS_CELL_NULL: break;
    case KS_CELL_INT: return ks_sql_integer(cell->number);
    case KS_CELL_BOOL: return ks_sql_integer(cell->number != 0);
    case KS_CELL_REAL: return ks_sql_real(cell->real);
    case KS_CELL_TEXT: return ks_sql_text(cell->text);
    }
    return (struct ks_sql_value){0};
}

/* Takes the line feeds of the writer out, and the indents behind them: no string of JSON holds
 * a line feed. */
struct flat {
    struct ks_text *text;
    bool is_indent; /* inside one */
};

static bool append_flat(void *user, const char *bytes, size_t size)
{
    struct flat *flat = user;
    for (size_t i = 0; i < size; i++) {
        flat->is_indent = bytes[i] == '\n' || (flat->is_indent && bytes[i] == ' ');
        if (!flat->is_indent) {
            ks_text_append(flat->text, bytes + i, 1);
        }
    }
    return !flat->text->failed;
}

/* What a row of the document holds beyond columns: objects and arrays, as the text of JSON. */
static enum ks_status more_cell(const struct list_table *table, uint64_t row, struct ks_text *text,
                                struct ks_sql_value *out, struct ks_err *err)
{
    struct ks_json json;
    struct flat flat = {.text = text};
    ks_json_init(&json, append_flat, &flat);
    ks_json_object_begin(&json, NULL);
    table->list->write_more(table->view, (size_t)row, &json);
    ks_json_object_end(&json);
    if (ks_json_finish(&json, err) != KS_OK) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot make a cell: no memory");
    }
    *out = ks_sql_text((struct ks_str){text->ptr, text->len});
    return KS_OK;
}

static enum ks_status list_cell(const void *user, uint64_t row, size_t column, struct ks_text *text,
                                struct ks_sql_value *out, struct ks_err *err)
{
    const struct list_table *table = user;
    if (column == table->column_count) {
        return more_cell(table, row, text, out, err);
    }
    const struct ks_column *shown = &table->list->columns[column];
    struct ks_cell cell = {0};
    if (!shown->is_there || shown->is_there(table->view)) {
        cell = ks_list_cell(table->list, shown, table->view, (size_t)row);
    }
    *out = value_of(&cell);
    return KS_OK;
}

/* ------------------------------------------------------------------ describing */

static enum ks_sql_type type_of(const struct ks_column *column)
{
    switch (column->field) {
    case KS_FIELD_INT:
    case KS_FIELD_BOOL: return KS_SQL_INTEGER;
    case KS_FIELD_REAL: return KS_SQL_REAL;
    case KS_FIELD_ID:
    case KS_FIELD_TEXT: return KS_SQL_TEXT;
    }
    return KS_SQL_TEXT;
}

/* "breakdown_ns.kernel" is breakdown_ns_kernel in SQL, where a dot means something else. */
static const char *name_of(struct ks_arena *arena, const char *prefix, const char *key)
{
    size_t len = strlen(prefix) + strlen(key);
    char *name = ks_new(arena, char, len + 1);
    if (name) {
        memcpy(name, prefix, strlen(prefix));
        memcpy(name + strlen(prefix), key, strlen(key));
        for (char *at = name; *at; at++) {
            *at = *at == '.' ? '_' : *at;
        }
    }
    return name;
}

/* Where the report says the same: tables that only regroup the steps are not in the document. */
static const char *meaning_of(struct ks_arena *arena, const struct ks_list *list,
                              const struct ks_column *column)
{
    bool is_steps = list == &ks_list_idle || list == &ks_list_phases;
    size_t prefix = strlen("compare_");
    const char *path = is_steps ? ks_list_steps.name : list->name;
    char text[MEANING_SIZE];
    if (strncmp(list->name, "compare_", prefix) == 0) {
        snprintf(text, sizeof(text), "`%s[].%s` of `kscope diff`", list->name + prefix,
                 column->key);
    } else if (column->places & KS_COLUMN_JSON) {
        snprintf(text, sizeof(text), "`%s%s.%s`", path, list == &ks_list_links ? "" : "[]",
                 column->key);
    } else {
        snprintf(text, sizeof(text), "\"%s\" of `report --table %s`", column->title, list->name);
    }
    return ks_arena_copy(arena, text, strlen(text));
}

static size_t column_count(const struct ks_list *list)
{
    size_t count = 0;
    while (list->columns[count].key) {
        count++;
    }
    return count;
}

/* Fills the columns; `more` is the last when the list has it. False: no memory. */
static bool describe_columns(const struct ks_list *list, size_t count, struct ks_sql_column *out,
                             struct ks_arena *arena)
{
    for (size_t i = 0; i < count; i++) {
        const struct ks_column *column = &list->columns[i];
        out[i] = (struct ks_sql_column){.name = name_of(arena, "", column->key),
                                        .type = type_of(column),
                                        .meaning = meaning_of(arena, list, column)};
        if (!out[i].name || !out[i].meaning) {
            return false;
        }
    }
    if (list->write_more) {
        out[count] = (struct ks_sql_column){
            .name = "more", .type = KS_SQL_TEXT, .meaning = "the rest of the row, as JSON"};
    }
    return true;
}

static bool describe(const struct ks_list *list, const struct ks_view *view, struct ks_arena *arena,
                     struct ks_row_table *out)
{
    size_t count = column_count(list);
    struct list_table *table = ks_new(arena, struct list_table, 1);
    struct ks_sql_column *columns = ks_new(arena, struct ks_sql_column, count + 1);
    const char *name = name_of(arena, "fact_", list->name);
    if (!table || !columns || !name || !describe_columns(list, count, columns, arena)) {
        return false;
    }
    *table = (struct list_table){list, view, count};
    *out = (struct ks_row_table){
        .name = name,
        .meaning = "The list of that name in the report",
        .columns = columns,
        .column_count = count + (list->write_more ? 1 : 0),
        .user = table,
        .row_count = list_rows,
        .cell = list_cell,
    };
    return true;
}

enum ks_status ks_list_tables(const struct ks_view *view, struct ks_arena *arena,
                              const struct ks_row_table **out, size_t *count, struct ks_err *err)
{
    size_t of_report = 0;
    while (ks_list_at(of_report)) {
        of_report++;
    }
    size_t lists = of_report;
    while (ks_list_compare_at(lists - of_report)) {
        lists++;
    }
    struct ks_row_table *tables = ks_new(arena, struct ks_row_table, lists);
    bool is_good = tables != NULL;
    for (size_t i = 0; i < lists && is_good; i++) {
        const struct ks_list *list =
            i < of_report ? ks_list_at(i) : ks_list_compare_at(i - of_report);
        is_good = describe(list, view, arena, &tables[i]);
    }
    if (!is_good) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot describe tables: no memory");
    }
    *out = tables;
    *count = lists;
    return KS_OK;
}
