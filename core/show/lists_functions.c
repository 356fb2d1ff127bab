/* Lists of what the function profiler and the stack sampler saw. */
#include "show/lists.h"

#define NO_LINE "a function that is written in C has no line"
#define NO_FILE "the recording does not name it"

/* The line at which a function begins; those of C have none. */
static struct ks_cell line_cell(const struct ks_function_id *id)
{
    return ks_cell_int(id->first_line > 0 ? (int64_t)id->first_line : KS_UNKNOWN);
}

#define FUNCTION_COLUMNS(type, line_of)                                                            \
    {.key = "name",                                                                                \
     .title = "function",                                                                          \
     .unit = KS_CELL_NAME,                                                                         \
     .places = KS_COLUMN_BOTH,                                                                     \
     .field = KS_FIELD_ID,                                                                         \
     KS_COLUMN_OF(type, id.name),                                                                  \
     .reason = "it has no name"},                                                                  \
        {.key = "file",                                                                            \
         .title = "file",                                                                          \
         .unit = KS_CELL_NAME,                                                                     \
         .places = KS_COLUMN_BOTH,                                                                 \
         .field = KS_FIELD_ID,                                                                     \
         KS_COLUMN_OF(type, id.file),                                                              \
         .reason = NO_FILE},                                                                       \
    {                                                                                              \
        .key = "line", .title = "line", .places = KS_COLUMN_BOTH, .cell = line_of,                 \
        .reason = NO_LINE                                                                          \
    }

#define COUNT(type, key_, title_, places_, member)                                                 \
    {                                                                                              \
        .key = key_, .title = title_, .unit = KS_CELL_COUNT, .places = places_,                    \
        KS_COLUMN_OF(type, member)                                                                 \
    }
#define TIME(type, key_, title_, member)                                                           \
    {                                                                                              \
        .key = key_, .title = title_, .unit = KS_CELL_TIME, .places = KS_COLUMN_BOTH,              \
        KS_COLUMN_OF(type, member)                                                                 \
    }
#define SHARE(key_, title_, cell_, reason_)                                                        \
    {                                                                                              \
        .key = key_, .title = title_, .unit = KS_CELL_SHARE, .places = KS_COLUMN_BOTH,             \
        .field = KS_FIELD_REAL, .cell = cell_, .reason = reason_                                   \
    }

/* ------------------------------------------------------------------ functions */

static size_t function_count(const struct ks_view *view)
{
    return view->facts->function_count;
}

static const void *function_row(const struct ks_view *view, size_t row)
{
    return &view->facts->functions[row];
}

static struct ks_cell function_line(const struct ks_view *view, size_t row)
{
    return line_cell(&view->facts->functions[row].id);
}

static struct ks_cell function_share(const struct ks_view *view, size_t row)
{
    return ks_cell_ratio((double)view->facts->functions[row].self_ns,
                         (double)view->facts->function_self_ns);
}

static void write_timed(struct ks_json *json, const char *key, int64_t value,
                        const struct ks_function_edge *edge)
{
    if (edge->is_untimed) {
        ks_json_null(json, key);
    } else {
        ks_json_int(json, key, value);
    }
}

static void write_caller(const struct ks_view *view, const struct ks_function_edge *edge,
                         struct ks_json *json)
{
    struct ks_cell name = ks_cell_id(view, edge->id.name);
    struct ks_cell file = ks_cell_id(view, edge->id.file);
    struct ks_cell line = line_cell(&edge->id);
    ks_json_object_begin(json, NULL);
    ks_cell_write(json, "name", &name);
    ks_cell_write(json, "file", &file);
    ks_cell_write(json, "line", &line);
    ks_json_int(json, "calls", edge->calls);
    write_timed(json, "primitive_calls", edge->primitive_calls, edge);
    write_timed(json, "self_ns", edge->self_ns, edge);
    write_timed(json, "total_ns", edge->total_ns, edge);
    ks_json_object_end(json);
}

static void write_callers(const struct ks_view *view, size_t row, struct ks_json *json)
{
    const struct ks_function_fact *function = &view->facts->functions[row];
    ks_json_array_begin(json, "callers");
    for (size_t i = 0; i < function->edge_count; i++) {
        write_caller(view, &view->facts->function_edges[function->edge_first + i], json);
    }
    ks_json_array_end(json);
}

static const struct ks_column function_columns[] = {
    FUNCTION_COLUMNS(ks_function_fact, function_line),
    COUNT(ks_function_fact, "calls", "calls", KS_COLUMN_BOTH, calls),
    COUNT(ks_function_fact, "open_calls", "open", KS_COLUMN_JSON, open_calls),
    TIME(ks_function_fact, "self_ns", "self", self_ns),
    SHARE("self_share", "share", function_share, "no function took time"),
    TIME(ks_function_fact, "total_ns", "total", total_ns),
    COUNT(ks_function_fact, "primitive_calls", "primitive", KS_COLUMN_BOTH, primitive_calls),
    {.key = NULL},
};

const struct ks_list ks_list_functions = {
    .name = "functions",
    .columns = function_columns,
    .empty = "There is no recording or profile that counted calls of functions.",
    .row_count = function_count,
    .row = function_row,
    .write_more = write_callers,
};

/* ------------------------------------------------------------------ samples */

static size_t sample_count(const struct ks_view *view)
{
    return view->facts->sample_count;
}

static const void *sample_row(const struct ks_view *view, size_t row)
{
    return &view->facts->samples[row];
}

static const struct ks_track *sample_track(const struct ks_view *view, size_t row)
{
    return ks_trace_track(view->trace, view->facts->samples[row].track);
}

static struct ks_cell sample_rank(const struct ks_view *view, size_t row)
{
    return ks_cell_int(ks_view_rank(view, sample_track(view, row)->source));
}

static struct ks_cell sample_pid(const struct ks_view *view, size_t row)
{
    int64_t pid = ks_trace_source(view->trace, sample_track(view, row)->source)->pid;
    return ks_cell_int(pid > 0 ? pid : KS_UNKNOWN);
}

static struct ks_cell sample_tid(const struct ks_view *view, size_t row)
{
    return ks_cell_int(sample_track(view, row)->number);
}

static struct ks_cell sample_thread(const struct ks_view *view, size_t row)
{
    return ks_cell_id(view, sample_track(view, row)->name);
}

static struct ks_cell sample_line(const struct ks_view *view, size_t row)
{
    return line_cell(&view->facts->samples[row].id);
}

static struct ks_cell share_of(int64_t part, int64_t whole)
{
    return ks_cell_ratio((double)part, (double)whole);
}

static struct ks_cell sample_self(const struct ks_view *view, size_t row)
{
    const struct ks_sample_fact *sample = &view->facts->samples[row];
    return share_of(sample->self_looks, sample->thread_looks);
}

static struct ks_cell sample_total(const struct ks_view *view, size_t row)
{
    const struct ks_sample_fact *sample = &view->facts->samples[row];
    return share_of(sample->total_looks, sample->thread_looks);
}

static struct ks_cell sample_running(const struct ks_view *view, size_t row)
{
    const struct ks_sample_fact *sample = &view->facts->samples[row];
    return share_of(sample->running_looks, sample->self_looks);
}

#define NO_SAMPLES "the thread has no samples"

static const struct ks_column sample_columns[] = {
    {.key = "rank",
     .title = "rank",
     .places = KS_COLUMN_BOTH | KS_COLUMN_VARIES,
     .cell = sample_rank,
     .reason = "the file does not name its rank"},
    {.key = "pid",
     .title = "pid",
     .places = KS_COLUMN_BOTH | KS_COLUMN_VARIES,
     .cell = sample_pid,
     .reason = "the file does not name its process"},
    {.key = "tid", .title = "tid", .places = KS_COLUMN_BOTH | KS_COLUMN_VARIES, .cell = sample_tid},
    {.key = "thread",
     .title = "thread",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     .cell = sample_thread,
     .reason = "the thread has no name"},
    FUNCTION_COLUMNS(ks_sample_fact, sample_line),
    COUNT(ks_sample_fact, "self_samples", "self", KS_COLUMN_JSON, self_looks),
    COUNT(ks_sample_fact, "total_samples", "total", KS_COLUMN_JSON, total_looks),
    SHARE("self_share", "self", sample_self, NO_SAMPLES),
    SHARE("total_share", "total", sample_total, NO_SAMPLES),
    SHARE("running_share", "running", sample_running, "it was never the innermost one"),
    {.key = NULL},
};

const struct ks_list ks_list_samples = {
    .name = "samples",
    .columns = sample_columns,
    .empty = "There is no recording with samples of stacks.",
    .row_count = sample_count,
    .row = sample_row,
};
