#include "show/lists.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

static const struct ks_list *const lists[] = {
    &ks_list_operators,  &ks_list_kernels,   &ks_list_steps,    &ks_list_phases,
    &ks_list_idle,       &ks_list_devices,   &ks_list_streams,  &ks_list_copies,
    &ks_list_copy_sites, &ks_list_syncs,     &ks_list_places,   &ks_list_links,
    &ks_list_findings,   &ks_list_inputs,    &ks_list_regions,  &ks_list_functions,
    &ks_list_samples,    &ks_list_counters,  &ks_list_instants, &ks_list_modules,
    &ks_list_autograd,   &ks_list_sequences, &ks_list_stacks,
};

const struct ks_list *ks_list_at(size_t index)
{
    return index < KS_COUNT_OF(lists) ? lists[index] : NULL;
}

const struct ks_list *ks_list_find(const char *name)
{
    for (size_t i = 0; i < KS_COUNT_OF(lists); i++) {
        if (strcmp(lists[i]->name, name) == 0) {
            return lists[i];
        }
    }
    return NULL;
}

struct ks_cell ks_cell_real(double value)
{
    return (struct ks_cell){.kind = isfinite(value) ? KS_CELL_REAL : KS_CELL_NULL, .real = value};
}

struct ks_cell ks_cell_ratio(double part, double whole)
{
    return whole > 0.0 ? ks_cell_real(part / whole) : (struct ks_cell){0};
}

void ks_cell_write(struct ks_json *json, const char *key, const struct ks_cell *cell)
{
    switch (cell->kind) {
    case KS_CELL_NULL: ks_json_null(json, key); break;
    case KS_CELL_INT: ks_json_int(json, key, cell->number); break;
    case KS_CELL_REAL: ks_json_real(json, key, cell->real); break;
    case KS_CELL_BOOL: ks_json_bool(json, key, cell->number != 0); break;
    case KS_CELL_TEXT: ks_json_str(json, key, cell->text); break;
    }
}

struct ks_cell ks_list_cell(const struct ks_list *list, const struct ks_column *column,
                            const struct ks_view *view, size_t row)
{
    if (column->cell) {
        return column->cell(view, row);
    }
    const char *member = (const char *)list->row(view, row) + column->offset;
    switch (column->field) {
    case KS_FIELD_INT: return ks_cell_int(*(const int64_t *)(const void *)member);
    case KS_FIELD_REAL: return ks_cell_real(*(const double *)(const void *)member);
    case KS_FIELD_BOOL: return ks_cell_bool(*(const bool *)member);
    case KS_FIELD_ID: return ks_cell_id(view, *(const struct ks_strid *)(const void *)member);
    case KS_FIELD_TEXT: {
        struct ks_str text = *(const struct ks_str *)(const void *)member;
        return text.ptr ? ks_cell_text(text) : (struct ks_cell){0};
    }
    }
    return (struct ks_cell){0};
}

/* ------------------------------------------------------------------ rows as JSON */

enum { PARENT_SIZE = 64 };

/* Length of what stands before the dot of a key, 0 without one. */
static size_t parent_len(const char *key)
{
    const char *dot = strchr(key, '.');
    return dot ? (size_t)(dot - key) : 0;
}

static bool is_written(const struct ks_column *column, const struct ks_view *view)
{
    return (column->places & KS_COLUMN_JSON) && (!column->is_there || column->is_there(view));
}

static void write_columns(struct ks_json *json, const struct ks_list *list,
                          const struct ks_view *view, size_t row, ks_list_null_cb is_null,
                          void *user)
{
    const char *open = NULL; /* key whose parent is an open object */
    for (const struct ks_column *column = list->columns; column->key; column++) {
        if (!is_written(column, view)) {
            continue;
        }
        size_t len = parent_len(column->key);
        bool is_same = open && len == parent_len(open) && memcmp(open, column->key, len) == 0;
        if (open && !is_same) {
            ks_json_object_end(json);
            open = NULL;
        }
        if (len > 0 && !open) {
            char parent[PARENT_SIZE];
            snprintf(parent, sizeof(parent), "%.*s", (int)len, column->key);
            ks_json_object_begin(json, parent);
            open = column->key;
        }
        struct ks_cell cell = ks_list_cell(list, column, view, row);
        ks_cell_write(json, len > 0 ? column->key + len + 1 : column->key, &cell);
        if (cell.kind == KS_CELL_NULL && column->reason) {
            is_null(user, column);
        }
    }
    if (open) {
        ks_json_object_end(json);
    }
}

void ks_list_write_row(struct ks_json *json, const struct ks_list *list, const char *key,
                       const struct ks_view *view, size_t row, ks_list_null_cb is_null, void *user)
{
    ks_json_object_begin(json, key);
    write_columns(json, list, view, row, is_null, user);
    if (list->write_more) {
        list->write_more(view, row, json);
    }
    ks_json_object_end(json);
}

/* ------------------------------------------------------------------ sort keys */

/* "dur" means "dur_ns". */
static bool key_means(const char *key, const char *word)
{
    size_t len = strlen(word);
    return strncmp(key, word, len) == 0 && (!key[len] || strcmp(key + len, "_ns") == 0);
}

const struct ks_column *ks_list_sort_column(const struct ks_list *list, const char *key)
{
    const char *wanted = key;
    for (const struct ks_sort_alias *alias = list->aliases; alias && alias->name; alias++) {
        if (strcmp(alias->name, key) == 0) {
            wanted = alias->key;
        }
    }
    for (const struct ks_column *column = list->columns; column->key; column++) {
        if (strcmp(column->key, wanted) == 0) {
            return column;
        }
    }
    for (const struct ks_column *column = list->columns; column->key; column++) {
        if (key_means(column->key, wanted)) {
            return column;
        }
    }
    return NULL;
}

const char *ks_list_sort_name(const struct ks_list *list, size_t index)
{
    for (const struct ks_column *column = list->columns; column->key; column++) {
        if (index-- == 0) {
            return column->key;
        }
    }
    for (const struct ks_sort_alias *alias = list->aliases; alias && alias->name; alias++) {
        if (index-- == 0) {
            return alias->name;
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ sorting */

struct sort_row {
    struct ks_cell cell;
    uint64_t index;
    bool is_name; /* a number that names something */
};

static int compare_values(const struct sort_row *a, const struct sort_row *b)
{
    if (a->cell.kind == KS_CELL_TEXT) {
        return ks_str_compare(a->cell.text, b->cell.text);
    }
    if (a->cell.kind == KS_CELL_REAL) { /* never NaN */
        return (a->cell.real < b->cell.real) - (a->cell.real > b->cell.real);
    }
    int order = (a->cell.number < b->cell.number) - (a->cell.number > b->cell.number);
    return a->is_name ? -order : order;
}

static int compare_rows(const void *left, const void *right)
{
    const struct sort_row *a = left;
    const struct sort_row *b = right;
    int order = 0;
    if (a->cell.kind == b->cell.kind && a->cell.kind != KS_CELL_NULL) {
        order = compare_values(a, b);
    } else if (a->cell.kind != b->cell.kind) {
        order = a->cell.kind == KS_CELL_NULL ? 1 : -1;
    }
    return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

uint64_t *ks_list_order(const struct ks_list *list, const struct ks_view *view,
                        const struct ks_column *column)
{
    size_t count = list->row_count(view);
    uint64_t *order = ks_alloc(count + 1, sizeof(*order));
    struct sort_row *rows = column ? ks_alloc(count + 1, sizeof(*rows)) : NULL;
    if (!order || (column && !rows)) {
        ks_free(order);
        ks_free(rows);
        return NULL;
    }
    for (size_t i = 0; rows && i < count; i++) {
        rows[i] = (struct sort_row){ks_list_cell(list, column, view, i), i,
                                    column->unit == KS_CELL_PLAIN};
    }
    if (rows) {
        qsort(rows, count, sizeof(*rows), compare_rows);
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = rows ? rows[i].index : i;
    }
    ks_free(rows);
    return order;
}
