/* Lists of what recordings note: counters, with the monitor's curves, and instants. */
#include "show/lists.h"

static const struct ks_mark_fact *instant_of(const struct ks_view *view, size_t row)
{
    return &view->facts->marks[row];
}

static const struct ks_mark_fact *counter_of(const struct ks_view *view, size_t row)
{
    return &view->facts->marks[view->facts->instant_count + row];
}

static const void *instant_row(const struct ks_view *view, size_t row)
{
    return instant_of(view, row);
}

static const void *counter_row(const struct ks_view *view, size_t row)
{
    return counter_of(view, row);
}

static size_t instant_count(const struct ks_view *view)
{
    return view->facts->instant_count;
}

static size_t counter_count(const struct ks_view *view)
{
    return view->facts->mark_count - view->facts->instant_count;
}

static struct ks_cell pid_of(const struct ks_view *view, const struct ks_mark_fact *fact)
{
    int64_t pid = ks_trace_source(view->trace, fact->source)->pid;
    return ks_cell_int(pid > 0 ? pid : KS_UNKNOWN);
}

static struct ks_cell instant_pid(const struct ks_view *view, size_t row)
{
    return pid_of(view, instant_of(view, row));
}

static struct ks_cell counter_pid(const struct ks_view *view, size_t row)
{
    return pid_of(view, counter_of(view, row));
}

static struct ks_cell instant_rank(const struct ks_view *view, size_t row)
{
    return ks_cell_int(ks_view_rank(view, instant_of(view, row)->source));
}

static struct ks_cell counter_rank(const struct ks_view *view, size_t row)
{
    return ks_cell_int(ks_view_rank(view, counter_of(view, row)->source));
}

static struct ks_cell counter_mean(const struct ks_view *view, size_t row)
{
    const struct ks_mark_fact *fact = counter_of(view, row);
    return ks_cell_ratio(fact->sum, (double)fact->number_count);
}

#define NOT_SAID "the file does not say"
#define NO_CATEGORY "the program gave it none"
#define NO_NUMBER "none of its values is a number"

static const struct ks_column counter_columns[] = {
    {.key = "name",
     .title = "counter",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_mark_fact, name),
     .reason = "it has no name"},
    {.key = "series",
     .title = "category",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_mark_fact, series),
     .reason = NO_CATEGORY},
    {.key = "unit",
     .title = "unit",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_mark_fact, unit),
     .reason = "the program gave it none"},
    {.key = "rank",
     .title = "rank",
     .places = KS_COLUMN_BOTH | KS_COLUMN_VARIES,
     .cell = counter_rank,
     .reason = NOT_SAID},
    {.key = "pid",
     .title = "process",
     .places = KS_COLUMN_BOTH | KS_COLUMN_VARIES,
     .cell = counter_pid,
     .reason = NOT_SAID},
    {.key = "count",
     .title = "samples",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_mark_fact, count)},
    {.key = "mean",
     .title = "mean",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_REAL,
     .cell = counter_mean,
     .reason = NO_NUMBER},
    {.key = "min",
     .title = "min",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_REAL,
     KS_COLUMN_OF(ks_mark_fact, min),
     .reason = NO_NUMBER},
    {.key = "max",
     .title = "max",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_REAL,
     KS_COLUMN_OF(ks_mark_fact, max),
     .reason = NO_NUMBER},
    {.key = "last",
     .title = "last",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_REAL,
     KS_COLUMN_OF(ks_mark_fact, last),
     .reason = "its last value is no number"},
    {.key = NULL},
};

const struct ks_list ks_list_counters = {
    .name = "counters",
    .columns = counter_columns,
    .empty = "There is no recording with counters.",
    .row_count = counter_count,
    .row = counter_row,
};

static const struct ks_column instant_columns[] = {
    {.key = "name",
     .title = "instant",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_mark_fact, name),
     .reason = "it has no name"},
    {.key = "category",
     .title = "category",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_mark_fact, series),
     .reason = NO_CATEGORY},
    {.key = "rank",
     .title = "rank",
     .places = KS_COLUMN_BOTH | KS_COLUMN_VARIES,
     .cell = instant_rank,
     .reason = NOT_SAID},
    {.key = "pid",
     .title = "process",
     .places = KS_COLUMN_BOTH | KS_COLUMN_VARIES,
     .cell = instant_pid,
     .reason = NOT_SAID},
    {.key = "count",
     .title = "times",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_mark_fact, count)},
    {.key = "first_ns",
     .title = "first",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_mark_fact, first_ns)},
    {.key = "last_ns",
     .title = "last",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_mark_fact, last_ns)},
    {.key = "last_values",
     .title = "values of the last",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_mark_fact, values),
     .reason = "nothing was attached"},
    {.key = NULL},
};

const struct ks_list ks_list_instants = {
    .name = "instants",
    .columns = instant_columns,
    .empty = "There is no recording with instants.",
    .row_count = instant_count,
    .row = instant_row,
};
