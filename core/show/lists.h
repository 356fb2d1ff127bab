/* The lists of a report and their columns, described once: JSON, tables and sorting all go through
 * here, so that a number is the same everywhere. */
#ifndef KS_SHOW_LISTS_H
#define KS_SHOW_LISTS_H

#include "show/json_writer.h"
#include "show/view.h"

enum ks_cell_kind { KS_CELL_NULL, KS_CELL_INT, KS_CELL_REAL, KS_CELL_BOOL, KS_CELL_TEXT };

struct ks_cell {
    enum ks_cell_kind kind;
    int64_t number; /* INT; BOOL: 0 or 1 */
    double real;
    struct ks_str text;
};

/* How a cell looks on the screen. */
enum ks_cell_unit {
    KS_CELL_PLAIN, /* number without separators, or word; right aligned when a number */
    KS_CELL_COUNT,
    KS_CELL_TIME,
    KS_CELL_BYTES,
    KS_CELL_SHARE,
    KS_CELL_RATE,
    KS_CELL_FLOPS,
    KS_CELL_TIME_CHANGE, /* with a sign, as the next one */
    KS_CELL_BYTES_CHANGE,
    KS_CELL_NAME,   /* takes the width that is left, loses its middle */
    KS_CELL_KERNEL, /* the same for C++ names */
};

enum {
    KS_COLUMN_JSON = 1,
    KS_COLUMN_SCREEN = 2,
    KS_COLUMN_BOTH = 3,
    KS_COLUMN_VARIES = 4, /* on the screen only when its rows differ */
};

/* Type of the member of the row's struct that a column shows, or of what `cell` gives. */
enum ks_field { KS_FIELD_INT, KS_FIELD_REAL, KS_FIELD_BOOL, KS_FIELD_ID, KS_FIELD_TEXT };

struct ks_column {
    const char *key;   /* in JSON, and to sort by; "a.b" nests: neighbours share an object */
    const char *title; /* on the screen */
    enum ks_cell_unit unit;
    unsigned places; /* KS_COLUMN_* */
    enum ks_field field;
    size_t offset;      /* of the member in the row's struct, when `cell` is NULL */
    const char *reason; /* why a cell can be null; NULL: it never is */
    struct ks_cell (*cell)(const struct ks_view *view, size_t row);
    bool (*is_there)(const struct ks_view *view); /* NULL: always */
};

/* A column that shows a member as it is. */
#define KS_COLUMN_OF(type, member) .offset = offsetof(struct type, member)

/* Another name of a column, as torch's key_averages().table(sort_by=...) calls it. */
struct ks_sort_alias {
    const char *name;
    const char *key;
};

enum { KS_LIST_COLUMNS_MAX = 64 };

struct ks_list {
    const char *name;
    const struct ks_column *columns;     /* ends with a NULL key */
    const struct ks_sort_alias *aliases; /* ends with a NULL name; or NULL */
    const char *sort;  /* key that tables are sorted by at first; NULL: order of the facts */
    const char *empty; /* what a table without rows says */
    size_t (*row_count)(const struct ks_view *view);
    const void *(*row)(const struct ks_view *view, size_t row);
    /* More keys of a row in JSON, or NULL. */
    void (*write_more)(const struct ks_view *view, size_t row, struct ks_json *json);
};

/* The index-th list, in the order of help; NULL past the last. */
const struct ks_list *ks_list_at(size_t index);
const struct ks_list *ks_list_find(const char *name);

/* Column that a sort key means: key, alias, or key without its unit; NULL when there is none. */
const struct ks_column *ks_list_sort_column(const struct ks_list *list, const char *key);
/* Name of the index-th sort key, aliases last; NULL past the last. */
const char *ks_list_sort_name(const struct ks_list *list, size_t index);

struct ks_cell ks_list_cell(const struct ks_list *list, const struct ks_column *column,
                            const struct ks_view *view, size_t row);

/* Order of the rows: by the column (amounts from the largest, numbers that are
 * names and texts from the smallest, null last, ties as
 * before), or as they are when `column` is NULL. The array belongs to the caller: ks_free. NULL:
 * out of memory; never NULL for 0 rows. */
uint64_t *ks_list_order(const struct ks_list *list, const struct ks_view *view,
                        const struct ks_column *column) KS_MUST_CHECK;

/* Constructors of cells: the unknown value of each kind becomes null. */
static inline struct ks_cell ks_cell_int(int64_t value)
{
    return (struct ks_cell){.kind = value == KS_UNKNOWN ? KS_CELL_NULL : KS_CELL_INT,
                            .number = value};
}
struct ks_cell ks_cell_real(double value); /* NaN and infinite: null */
static inline struct ks_cell ks_cell_bool(bool value)
{
    return (struct ks_cell){.kind = KS_CELL_BOOL, .number = value};
}
static inline struct ks_cell ks_cell_text(struct ks_str text)
{
    return (struct ks_cell){.kind = KS_CELL_TEXT, .text = text};
}
static inline struct ks_cell ks_cell_word(const char *word)
{
    return word ? ks_cell_text(ks_str_from(word)) : (struct ks_cell){0};
}
/* An empty string is unknown. */
static inline struct ks_cell ks_cell_id(const struct ks_view *view, struct ks_strid id)
{
    return id.v == 0 ? (struct ks_cell){0} : ks_cell_text(ks_view_str(view, id));
}
void ks_cell_write(struct ks_json *json, const char *key, const struct ks_cell *cell);
struct ks_cell ks_cell_ratio(double part, double whole); /* null when whole is 0 */

/* The lists, one file each group. */
extern const struct ks_list ks_list_operators, ks_list_kernels, ks_list_copies, ks_list_links;
extern const struct ks_list ks_list_regions, ks_list_functions, ks_list_samples;
extern const struct ks_list ks_list_counters, ks_list_instants;
extern const struct ks_list ks_list_modules, ks_list_autograd, ks_list_sequences;
extern const struct ks_list ks_list_stacks;
extern const struct ks_list ks_list_steps, ks_list_phases, ks_list_idle;
extern const struct ks_list ks_list_devices, ks_list_streams;
extern const struct ks_list ks_list_syncs, ks_list_copy_sites, ks_list_places;
extern const struct ks_list ks_list_findings, ks_list_inputs;

/* The lists of a comparison: rows are those of view->comparison, which may be NULL. They are no
 * tables of a report. */
extern const struct ks_list ks_list_compare_recording, ks_list_compare_parts;
extern const struct ks_list ks_list_compare_operators, ks_list_compare_kernels;
extern const struct ks_list ks_list_compare_memory, ks_list_compare_findings;

/* The index-th of them; NULL past the last. Their names begin with "compare_". */
const struct ks_list *ks_list_compare_at(size_t index);

/* Called for cells that are null. */
typedef void (*ks_list_null_cb)(void *user, const struct ks_column *column);

/* Writes a row as a JSON object; neighbours "a.x" and "a.y" become a {x, y}. */
void ks_list_write_row(struct ks_json *json, const struct ks_list *list, const char *key,
                       const struct ks_view *view, size_t row, ks_list_null_cb is_null, void *user);

#endif
