#include "query/scan_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PLAN_TEXT_SIZE = 512 };

/* ------------------------------------------------------------------ choosing */

struct choice {
    const struct ks_scan_shape *shape;
    sqlite3_index_info *info;
    char text[PLAN_TEXT_SIZE];
    size_t used;
    int count;
    double rows_read; /* estimates */
    double rows_left;
    bool has_track;
    bool is_unique;
};

static const char *sign_of(unsigned char op)
{
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ: return "=";
    case SQLITE_INDEX_CONSTRAINT_GT: return ">";
    case SQLITE_INDEX_CONSTRAINT_GE: return ">=";
    case SQLITE_INDEX_CONSTRAINT_LT: return "<";
    case SQLITE_INDEX_CONSTRAINT_LE: return "<=";
    default: return NULL;
    }
}

static const struct ks_scan_column *column_at(const struct ks_scan_shape *shape, int index)
{
    /* -1 is the rowid, which column 0 shows. */
    size_t at = index < 0 ? 0 : (size_t)index;
    KS_ASSERT(at < shape->column_count);
    return &shape->columns[at];
}

/* Is the constraint of use? Text must be compared byte by byte. */
static bool is_good(const struct choice *choice, int index)
{
    const struct sqlite3_index_constraint *constraint = &choice->info->aConstraint[index];
    const struct ks_scan_column *column = column_at(choice->shape, constraint->iColumn);
    bool is_equality = constraint->op == SQLITE_INDEX_CONSTRAINT_EQ;
    if (!constraint->usable || !sign_of(constraint->op)) {
        return false;
    }
    switch ((enum ks_push)column->push) {
    case KS_PUSH_NONE: return false;
    case KS_PUSH_TIME: return true;
    case KS_PUSH_NAME:
    case KS_PUSH_CATEGORY: {
        const char *collation = sqlite3_vtab_collation(choice->info, index);
        return is_equality && collation && sqlite3_stricmp(collation, "BINARY") == 0;
    }
    case KS_PUSH_ROW:
    case KS_PUSH_TRACK:
    case KS_PUSH_FILTER:
    case KS_PUSH_INDEX: return is_equality;
    }
    return false;
}

/* Rough guesses: SQLite needs them to put the tables of a join in order. */
static void estimate(struct choice *choice, const struct ks_scan_column *column, bool is_equality,
                     size_t lane_count)
{
    static const double few_rows = 4.0;
    switch ((enum ks_push)column->push) {
    case KS_PUSH_NONE: break;
    case KS_PUSH_ROW:
        choice->rows_read = choice->rows_left = 1.0;
        choice->is_unique = true;
        break;
    case KS_PUSH_TRACK:
        choice->rows_read /= lane_count > 0 ? (double)lane_count : 1.0;
        choice->rows_left = fmin(choice->rows_left, choice->rows_read);
        choice->has_track = true;
        break;
    case KS_PUSH_TIME:
        choice->rows_read /= is_equality ? 10000.0 : 5.0;
        choice->rows_left = fmin(choice->rows_left, choice->rows_read);
        break;
    case KS_PUSH_INDEX:
        choice->rows_read = fmin(choice->rows_read, few_rows);
        choice->rows_left = fmin(choice->rows_left, few_rows);
        break;
    case KS_PUSH_NAME:
    case KS_PUSH_FILTER: choice->rows_left /= 50.0; break;
    case KS_PUSH_CATEGORY: choice->rows_left /= 5.0; break;
    }
}

static void take(struct choice *choice, int index, size_t lane_count)
{
    const struct sqlite3_index_constraint *constraint = &choice->info->aConstraint[index];
    const struct ks_scan_column *column = column_at(choice->shape, constraint->iColumn);
    int len = snprintf(choice->text + choice->used, sizeof(choice->text) - choice->used, " %s%s?",
                       column->sql.name, sign_of(constraint->op));
    KS_ASSERT(len > 0 && choice->used + (size_t)len < sizeof(choice->text));
    choice->used += (size_t)len;
    choice->info->aConstraintUsage[index].argvIndex = ++choice->count;
    estimate(choice, column, constraint->op == SQLITE_INDEX_CONSTRAINT_EQ, lane_count);
}

/* Rows come by track, then by start; inside a track by start; so always by number. */
static bool is_in_order(const struct choice *choice)
{
    const sqlite3_index_info *info = choice->info;
    enum ks_push wanted[2] = {KS_PUSH_TRACK, KS_PUSH_TIME};
    if (info->nOrderBy == 0 || info->nOrderBy > 2) {
        return false;
    }
    for (int i = 0; i < info->nOrderBy; i++) {
        enum ks_push push = column_at(choice->shape, info->aOrderBy[i].iColumn)->push;
        bool is_row = push == KS_PUSH_ROW && i == 0 && info->nOrderBy == 1;
        bool is_time = push == KS_PUSH_TIME && i == 0 && info->nOrderBy == 1 && choice->has_track;
        if (info->aOrderBy[i].desc || !(is_row || is_time || push == wanted[i])) {
            return false;
        }
    }
    return true;
}

int ks_scan_plan_choose(const struct ks_trace *trace, enum ks_table_id table,
                        sqlite3_index_info *info)
{
    size_t lane_count = 0;
    if (trace) {
        (void)ks_trace_lanes(trace, table, &lane_count);
    }
    double rows = trace ? (double)ks_trace_rows(trace, table) : 0.0;
    struct choice choice = {ks_scan_shape(table), info, .rows_read = rows, .rows_left = rows};
    choice.used = (size_t)snprintf(choice.text, sizeof(choice.text), "%llx",
                                   (unsigned long long)info->colUsed);
    for (int i = 0; i < info->nConstraint && choice.count < KS_PLAN_FILTERS_MAX; i++) {
        if (is_good(&choice, i)) {
            take(&choice, i, lane_count);
        }
    }
    info->idxStr = sqlite3_mprintf("%s", choice.text);
    if (!info->idxStr) {
        return SQLITE_NOMEM;
    }
    info->needToFreeIdxStr = 1;
    info->orderByConsumed = is_in_order(&choice);
    info->estimatedRows = (sqlite3_int64)choice.rows_left + 1;
    /* Looking at a row is cheap, handing it over is not; and each call has its own cost. */
    info->estimatedCost = 20.0 + choice.rows_read + 8.0 * choice.rows_left;
    info->idxFlags = choice.is_unique ? SQLITE_INDEX_SCAN_UNIQUE : 0;
    return SQLITE_OK;
}

/* ------------------------------------------------------------------ reading it */

enum comparison { EQUAL, ABOVE, AT_LEAST, BELOW, AT_MOST };

/* Reads "column=?", and steps over it. */
static const struct ks_scan_column *read_item(const struct ks_scan_shape *shape, const char **text,
                                              enum comparison *comparison)
{
    const char *start = *text + strspn(*text, " ");
    size_t len = strcspn(start, "<>=");
    const char *sign = start + len;
    bool has_equal = sign[1] == '=';
    *comparison = sign[0] == '='   ? EQUAL
                  : sign[0] == '>' ? (has_equal ? AT_LEAST : ABOVE)
                                   : (has_equal ? AT_MOST : BELOW);
    *text = strchr(sign, '?') + 1;
    for (size_t i = 0; i < shape->column_count; i++) {
        const char *name = shape->columns[i].sql.name;
        if (strncmp(name, start, len) == 0 && name[len] == '\0') {
            return &shape->columns[i];
        }
    }
    KS_ASSERT(false);
    return NULL;
}

static void raise_first(struct ks_scan_plan *plan, int64_t ns)
{
    plan->first_ns = ns > plan->first_ns ? ns : plan->first_ns;
}

static void lower_last(struct ks_scan_plan *plan, int64_t ns)
{
    plan->last_ns = ns < plan->last_ns ? ns : plan->last_ns;
}

/* Whole numbers on either side of a real; what lies outside int64 becomes its end, and `*out` says
 * on which side (-1, 1), or 0. */
static int64_t whole(double value, int *out)
{
    static const double end = 9223372036854775808.0; // 2^63
    *out = value >= end ? 1 : value < -end ? -1 : 0;
    return *out > 0 ? INT64_MAX : *out < 0 ? INT64_MIN : (int64_t)value;
}

static void bound_by_integer(struct ks_scan_plan *plan, enum comparison comparison, int64_t ns)
{
    bool is_beyond =
        (comparison == ABOVE && ns == INT64_MAX) || (comparison == BELOW && ns == INT64_MIN);
    if (is_beyond) {
        plan->is_empty = true;
        return;
    }
    switch (comparison) {
    case EQUAL:
        raise_first(plan, ns);
        lower_last(plan, ns);
        break;
    case ABOVE: raise_first(plan, ns + 1); break;
    case AT_LEAST: raise_first(plan, ns); break;
    case BELOW: lower_last(plan, ns - 1); break;
    case AT_MOST: lower_last(plan, ns); break;
    }
}

/* A start is above 1.5 when it is at least 2, and below it when it is at most 1. */
static void bound_by_real(struct ks_scan_plan *plan, enum comparison comparison, double value)
{
    bool is_lower = comparison == ABOVE || comparison == AT_LEAST;
    bool is_whole = floor(value) == value;
    int out = 0;
    if (comparison == EQUAL && !is_whole) {
        plan->is_empty = true;
        return;
    }
    int64_t ns = whole(is_lower ? ceil(value) : floor(value), &out);
    if (out == 0) {
        enum comparison rounded = is_lower ? AT_LEAST : AT_MOST;
        bound_by_integer(plan, is_whole ? comparison : rounded, ns);
    } else {
        bool is_empty = comparison == EQUAL || (is_lower ? out > 0 : out < 0);
        plan->is_empty = plan->is_empty || is_empty;
    }
}

static void add_filter(struct ks_scan_plan *plan, const struct ks_scan_column *column,
                       int64_t number)
{
    KS_ASSERT(plan->filter_count < KS_PLAN_FILTERS_MAX);
    plan->filters[plan->filter_count++] = (struct ks_scan_filter){column->column, number};
    plan->columns |= KS_COLUMN_BIT(column->column);
}

static void equal_integer(struct ks_scan_plan *plan, const struct ks_scan_column *column,
                          int64_t number)
{
    switch ((enum ks_push)column->push) {
    case KS_PUSH_ROW:
        plan->is_empty =
            plan->is_empty || number < 0 || (plan->has_row && plan->row != (uint64_t)number);
        plan->has_row = true;
        plan->row = (uint64_t)number;
        break;
    case KS_PUSH_TRACK:
        plan->is_empty = plan->is_empty || number < 0 || number > UINT32_MAX ||
                         (plan->has_track && plan->track != (uint32_t)number);
        plan->has_track = true;
        plan->track = (uint32_t)number;
        break;
    case KS_PUSH_INDEX:
        plan->has_index = true;
        plan->indexed = (struct ks_scan_filter){column->column, number};
        add_filter(plan, column, number);
        break;
    default: add_filter(plan, column, number); break;
    }
}

static void equal_text(const struct ks_trace *trace, struct ks_scan_plan *plan,
                       const struct ks_scan_column *column, struct ks_str text)
{
    if (column->push == KS_PUSH_NAME) {
        struct ks_strid id = ks_trace_str_find(trace, text);
        plan->is_empty = plan->is_empty || id.v == 0;
        add_filter(plan, column, id.v);
        return;
    }
    for (unsigned i = 0; i < KS_CATEGORY_COUNT; i++) {
        if (ks_str_equal(ks_str_from(ks_category_name((enum ks_category)i)), text)) {
            add_filter(plan, column, i);
            return;
        }
    }
    plan->is_empty = true;
}

static bool is_about_text(const struct ks_scan_column *column)
{
    return column->push == KS_PUSH_NAME || column->push == KS_PUSH_CATEGORY;
}

/* Values of another type than the column's are left to SQLite, which knows how to compare them;
 * nothing is equal to NULL, above or below it. */
static void read_value(const struct ks_trace *trace, struct ks_scan_plan *plan,
                       const struct ks_scan_column *column, enum comparison comparison,
                       sqlite3_value *value)
{
    int type = sqlite3_value_type(value);
    if (type == SQLITE_NULL) {
        plan->is_empty = true;
    } else if (is_about_text(column)) {
        const unsigned char *text = type == SQLITE_TEXT ? sqlite3_value_text(value) : NULL;
        if (text) {
            size_t len = (size_t)sqlite3_value_bytes(value);
            equal_text(trace, plan, column, (struct ks_str){(const char *)text, len});
        }
    } else if (type == SQLITE_INTEGER && column->push == KS_PUSH_TIME) {
        bound_by_integer(plan, comparison, sqlite3_value_int64(value));
    } else if (type == SQLITE_INTEGER) {
        equal_integer(plan, column, sqlite3_value_int64(value));
    } else if (type == SQLITE_FLOAT && column->push == KS_PUSH_TIME) {
        bound_by_real(plan, comparison, sqlite3_value_double(value));
    } else if (type == SQLITE_FLOAT) {
        double real = sqlite3_value_double(value);
        int out = 0;
        int64_t number = whole(real, &out);
        if (out == 0 && floor(real) == real) {
            equal_integer(plan, column, number);
        } else {
            plan->is_empty = true;
        }
    }
}

void ks_scan_plan_read(const struct ks_trace *trace, enum ks_table_id table, const char *text,
                       int count, sqlite3_value **values, struct ks_scan_plan *plan)
{
    const struct ks_scan_shape *shape = ks_scan_shape(table);
    *plan = (struct ks_scan_plan){.first_ns = INT64_MIN, .last_ns = INT64_MAX};
    char *rest = NULL;
    uint64_t used = strtoull(text, &rest, 16);
    for (size_t i = 0; i < shape->column_count; i++) {
        /* The last bit stands for all columns from 63 on, of which there are none. */
        plan->columns |= (used >> i & 1) ? ks_scan_column_bits(&shape->columns[i]) : 0;
    }
    const char *at = rest;
    for (int i = 0; i < count; i++) {
        enum comparison comparison = EQUAL;
        const struct ks_scan_column *column = read_item(shape, &at, &comparison);
        read_value(trace, plan, column, comparison, values[i]);
    }
    plan->is_empty = plan->is_empty || plan->first_ns > plan->last_ns;
}
