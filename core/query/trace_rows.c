#include "query/trace_tables.h"

static struct ks_sql_value unless(int64_t value, int64_t unknown)
{
    return value == unknown ? (struct ks_sql_value){0} : ks_sql_integer(value);
}

static struct ks_sql_value text_of(const struct ks_trace *trace, struct ks_strid id)
{
    return id.v == 0 ? (struct ks_sql_value){0} : ks_sql_text(ks_trace_str(trace, id));
}

/* Ids count from `first`, one a row; `count` rows. */
static bool find_id(const struct ks_sql_value *value, int64_t first, uint64_t count, uint64_t *row)
{
    if (value->integer < first || (uint64_t)(value->integer - first) >= count) {
        return false;
    }
    *row = (uint64_t)(value->integer - first);
    return true;
}

#define KEY(name_, meaning_)                                                                       \
    {                                                                                              \
        name_, KS_SQL_INTEGER, true, meaning_                                                      \
    }
#define INTEGER(name_, meaning_)                                                                   \
    {                                                                                              \
        name_, KS_SQL_INTEGER, false, meaning_                                                     \
    }
#define TEXT(name_, meaning_)                                                                      \
    {                                                                                              \
        name_, KS_SQL_TEXT, false, meaning_                                                        \
    }

/* ------------------------------------------------------------------ track */

enum {
    TRACK_ID,
    TRACK_KIND,
    TRACK_SOURCE,
    TRACK_RANK,
    TRACK_PARENT,
    TRACK_NUMBER,
    TRACK_TEXT,
    TRACK_NAME
};

static const struct ks_sql_column track_columns[] = {
    [TRACK_ID] = KEY("id", "what track_id of the other tables names"),
    [TRACK_KIND] = TEXT("kind", "process, thread, device, stream or async"),
    [TRACK_SOURCE] = INTEGER("source_id", "file it is of"),
    [TRACK_RANK] = INTEGER("rank", "rank of that file"),
    [TRACK_PARENT] = INTEGER("parent_id", "track of the process of a thread, of the device of a "
                                          "stream"),
    [TRACK_NUMBER] = INTEGER("number", "pid, tid, number of the device or of the stream"),
    [TRACK_TEXT] = TEXT("text", "pid or tid, when it is no number"),
    [TRACK_NAME] = TEXT("name", "name of the thread or process"),
};

static uint64_t track_count(const void *user)
{
    uint32_t count = ks_trace_track_count(user); // track 0 is not used
    return count > 0 ? count - 1 : 0;
}

static const char *track_kind(enum ks_track_kind kind)
{
    static const char *const words[] = {
        [KS_TRACK_NONE] = "none",     [KS_TRACK_PROCESS] = "process", [KS_TRACK_THREAD] = "thread",
        [KS_TRACK_DEVICE] = "device", [KS_TRACK_STREAM] = "stream",   [KS_TRACK_ASYNC] = "async",
    };
    KS_ASSERT((size_t)kind < KS_COUNT_OF(words));
    return words[kind];
}

static enum ks_status track_cell(const void *user, uint64_t row, size_t column,
                                 struct ks_text *text, struct ks_sql_value *out, struct ks_err *err)
{
    const struct ks_trace *trace = user;
    const struct ks_track *track = ks_trace_track(trace, (uint32_t)row + 1);
    (void)text;
    (void)err;
    switch (column) {
    case TRACK_ID: *out = ks_sql_integer((int64_t)row + 1); break;
    case TRACK_KIND: *out = ks_sql_text(ks_str_from(track_kind(track->kind))); break;
    case TRACK_SOURCE: *out = ks_sql_integer(track->source); break;
    case TRACK_RANK: *out = unless(ks_trace_source(trace, track->source)->rank, -1); break;
    case TRACK_PARENT: *out = unless(track->parent, 0); break;
    case TRACK_NUMBER: *out = unless(track->number, -1); break;
    case TRACK_TEXT: *out = text_of(trace, track->text); break;
    default: *out = text_of(trace, track->name); break;
    }
    return KS_OK;
}

static bool track_find(const void *user, size_t column, const struct ks_sql_value *value,
                       uint64_t *row)
{
    (void)column;
    return find_id(value, 1, track_count(user), row);
}

/* ------------------------------------------------------------------ source */

enum {
    SOURCE_ID,
    SOURCE_PATH,
    SOURCE_RANK,
    SOURCE_WORLD_SIZE,
    SOURCE_RUN,
    SOURCE_CYCLE,
    SOURCE_HOST,
    SOURCE_PID,
    SOURCE_WORKER,
    SOURCE_ORIGIN,
    SOURCE_BASE,
    SOURCE_EVENTS,
    SOURCE_BYTES,
    SOURCE_FORMAT,
    SOURCE_COMPRESSION,
    SOURCE_BACKEND,
    SOURCE_TORCH,
    SOURCE_CUDA,
    SOURCE_DRIVER,
    SOURCE_TRACE_NAME,
};

static const struct ks_sql_column source_columns[] = {
    [SOURCE_ID] = KEY("id", "what source_id of track names"),
    [SOURCE_PATH] = TEXT("path", "the file"),
    [SOURCE_RANK] = INTEGER("rank", "its rank"),
    [SOURCE_WORLD_SIZE] = INTEGER("world_size", "ranks of the job"),
    [SOURCE_RUN] = INTEGER("run", "run it belongs to, from 1"),
    [SOURCE_CYCLE] = INTEGER("cycle", "window of its rank, from 0"),
    [SOURCE_HOST] = TEXT("host", "name of the machine"),
    [SOURCE_PID] = INTEGER("pid", "process, when kscope run recorded it"),
    [SOURCE_WORKER] = INTEGER("worker", "recordings: number of the DataLoader worker"),
    [SOURCE_ORIGIN] = INTEGER("origin_ns", "Unix time of ts_ns 0; the same for all files"),
    [SOURCE_BASE] = INTEGER("base_ns", "Unix time of time 0 in the file"),
    [SOURCE_EVENTS] = INTEGER("events", "events that were kept"),
    [SOURCE_BYTES] = INTEGER("bytes", "size of its text"),
    [SOURCE_FORMAT] = TEXT("format", "format"),
    [SOURCE_COMPRESSION] = TEXT("compression", "gzip or zstd"),
    [SOURCE_BACKEND] = TEXT("backend", "of torch.distributed"),
    [SOURCE_TORCH] = TEXT("torch", "version of torch"),
    [SOURCE_CUDA] = TEXT("cuda", "version of CUDA"),
    [SOURCE_DRIVER] = TEXT("driver", "version of the driver"),
    [SOURCE_TRACE_NAME] = TEXT("trace_name", "name that the file gives itself"),
};

static uint64_t source_count(const void *user)
{
    return ks_trace_source_count(user);
}

/* Members that are texts, by column; 0 where none is. */
static const size_t source_texts[] = {
    [SOURCE_PATH] = offsetof(struct ks_source, path),
    [SOURCE_HOST] = offsetof(struct ks_source, host_name),
    [SOURCE_FORMAT] = offsetof(struct ks_source, format),
    [SOURCE_COMPRESSION] = offsetof(struct ks_source, compression),
    [SOURCE_BACKEND] = offsetof(struct ks_source, backend),
    [SOURCE_TORCH] = offsetof(struct ks_source, torch_version),
    [SOURCE_CUDA] = offsetof(struct ks_source, cuda_version),
    [SOURCE_DRIVER] = offsetof(struct ks_source, driver_version),
    [SOURCE_TRACE_NAME] = offsetof(struct ks_source, trace_name),
};

static enum ks_status source_cell(const void *user, uint64_t row, size_t column,
                                  struct ks_text *text, struct ks_sql_value *out,
                                  struct ks_err *err)
{
    const struct ks_trace *trace = user;
    const struct ks_source *source = ks_trace_source(trace, (uint32_t)row);
    (void)text;
    (void)err;
    switch (column) {
    case SOURCE_ID: *out = ks_sql_integer((int64_t)row); break;
    case SOURCE_RANK: *out = unless(source->rank, -1); break;
    case SOURCE_WORLD_SIZE: *out = unless(source->world_size, -1); break;
    case SOURCE_RUN: *out = ks_sql_integer(source->run); break;
    case SOURCE_CYCLE: *out = ks_sql_integer(source->cycle); break;
    case SOURCE_PID: *out = unless(source->pid, 0); break;
    case SOURCE_WORKER: *out = unless(source->worker, -1); break;
    case SOURCE_ORIGIN: *out = ks_sql_integer(ks_trace_origin_ns(trace)); break;
    case SOURCE_BASE:
        *out = source->has_base ? ks_sql_integer(source->base_ns) : (struct ks_sql_value){0};
        break;
    case SOURCE_EVENTS: *out = ks_sql_integer((int64_t)source->events); break;
    case SOURCE_BYTES: *out = ks_sql_integer((int64_t)source->bytes); break;
    default: {
        KS_ASSERT(column < KS_COUNT_OF(source_texts));
        const char *member = (const char *)source + source_texts[column];
        *out = text_of(trace, *(const struct ks_strid *)(const void *)member);
        break;
    }
    }
    return KS_OK;
}

static bool source_find(const void *user, size_t column, const struct ks_sql_value *value,
                        uint64_t *row)
{
    (void)column;
    return find_id(value, 0, source_count(user), row);
}

/* ------------------------------------------------------------------ string */

enum { STRING_ID, STRING_TEXT };

static const struct ks_sql_column string_columns[] = {
    [STRING_ID] = KEY("id", "what name_id of the other tables names"),
    [STRING_TEXT] = {"text", KS_SQL_TEXT, true, "the text; each is there once"},
};

static uint64_t string_count(const void *user)
{
    uint32_t count = ks_trace_str_count(user); // id 0 is no text
    return count > 0 ? count - 1 : 0;
}

static enum ks_status string_cell(const void *user, uint64_t row, size_t column,
                                  struct ks_text *text, struct ks_sql_value *out,
                                  struct ks_err *err)
{
    (void)text;
    (void)err;
    *out = column == STRING_ID
               ? ks_sql_integer((int64_t)row + 1)
               : ks_sql_text(ks_trace_str(user, (struct ks_strid){(uint32_t)row + 1}));
    return KS_OK;
}

static bool string_find(const void *user, size_t column, const struct ks_sql_value *value,
                        uint64_t *row)
{
    if (column == STRING_ID) {
        return find_id(value, 1, string_count(user), row);
    }
    struct ks_strid id = ks_trace_str_find(user, value->text);
    *row = id.v - 1;
    return id.v != 0;
}

/* ------------------------------------------------------------------ stack */

enum { STACK_ID, STACK_CALLER, STACK_FUNCTION, STACK_FILE, STACK_FIRST_LINE, STACK_LINE };

static const struct ks_sql_column stack_columns[] = {
    [STACK_ID] = KEY("id", "what stack_id of sample names"),
    [STACK_CALLER] = INTEGER("caller_id", "stack that called this one"),
    [STACK_FUNCTION] = TEXT("function", "qualified name of the function on top"),
    [STACK_FILE] = TEXT("file", "where it is; ~ for a C function"),
    [STACK_FIRST_LINE] = INTEGER("first_line", "line at which it begins"),
    [STACK_LINE] = INTEGER("line", "line that ran"),
};

static uint64_t stack_count(const void *user)
{
    return ks_trace_stack_count(user);
}

static enum ks_status stack_cell(const void *user, uint64_t row, size_t column,
                                 struct ks_text *text, struct ks_sql_value *out, struct ks_err *err)
{
    const struct ks_trace *trace = user;
    const struct ks_stack *stack = ks_trace_stack(trace, (uint32_t)row + 1);
    (void)text;
    (void)err;
    switch (column) {
    case STACK_ID: *out = ks_sql_integer((int64_t)row + 1); break;
    case STACK_CALLER: *out = unless(stack->caller, 0); break;
    case STACK_FUNCTION: *out = text_of(trace, stack->function); break;
    case STACK_FILE: *out = text_of(trace, stack->file); break;
    case STACK_FIRST_LINE: *out = unless(stack->first_line, 0); break;
    default: *out = unless(stack->line, 0); break;
    }
    return KS_OK;
}

static bool stack_find(const void *user, size_t column, const struct ks_sql_value *value,
                       uint64_t *row)
{
    (void)column;
    return find_id(value, 1, stack_count(user), row);
}

/* ------------------------------------------------------------------ call_path */

enum {
    PATH_ID,
    PATH_TRACK,
    PATH_PARENT,
    PATH_FUNCTION,
    PATH_FILE,
    PATH_FIRST_LINE,
    PATH_CALLS,
    PATH_TOTAL,
    PATH_SELF,
    PATH_OPEN,
    PATH_PRIMITIVE,
    PATH_IS_SUM
};

static const struct ks_sql_column path_columns[] = {
    [PATH_ID] = KEY("id", "what parent_id names"),
    [PATH_TRACK] = INTEGER("track_id", "track of the thread"),
    [PATH_PARENT] = INTEGER("parent_id", "path of the function that called"),
    [PATH_FUNCTION] = TEXT("function", "qualified name"),
    [PATH_FILE] = TEXT("file", "where it is; ~ for a C function"),
    [PATH_FIRST_LINE] = INTEGER("first_line", "line at which it begins"),
    [PATH_CALLS] = INTEGER("calls", "calls that began"),
    [PATH_TOTAL] = INTEGER("total_ns", "time of calls that returned, with what they called"),
    [PATH_SELF] = INTEGER("self_ns", "of it, without what they called"),
    [PATH_OPEN] = INTEGER("open_calls", "calls that had not returned when the recording ended"),
    [PATH_PRIMITIVE] = INTEGER("primitive_calls", "of sums: calls that are not recursive"),
    [PATH_IS_SUM] = INTEGER("is_sum", "1: of a profile without paths; a row without parent_id is "
                                      "all of a function, one with it what that caller called"),
};

static uint64_t path_count(const void *user)
{
    return ks_trace_call_path_count(user);
}

/* Children of a call that is open have returned before it. */
static int64_t own_ns(const struct ks_call_path *path)
{
    return path->total_ns > path->child_ns ? path->total_ns - path->child_ns : 0;
}

static enum ks_status path_cell(const void *user, uint64_t row, size_t column, struct ks_text *text,
                                struct ks_sql_value *out, struct ks_err *err)
{
    const struct ks_trace *trace = user;
    const struct ks_call_path *path = ks_trace_call_path(trace, (uint32_t)row + 1);
    bool is_timed = path->kind != KS_CALL_COUNT;
    (void)text;
    (void)err;
    switch (column) {
    case PATH_ID: *out = ks_sql_integer((int64_t)row + 1); break;
    case PATH_TRACK: *out = ks_sql_integer(path->track); break;
    case PATH_PARENT: *out = unless(path->parent, 0); break;
    case PATH_FUNCTION: *out = text_of(trace, path->function); break;
    case PATH_FILE: *out = text_of(trace, path->file); break;
    case PATH_FIRST_LINE: *out = unless(path->first_line, 0); break;
    case PATH_CALLS: *out = ks_sql_integer(path->calls); break;
    case PATH_TOTAL:
        *out =
            is_timed ? ks_sql_integer(path->total_ns) : (struct ks_sql_value){.type = KS_SQL_NULL};
        break;
    case PATH_SELF:
        *out = is_timed ? ks_sql_integer(own_ns(path)) : (struct ks_sql_value){.type = KS_SQL_NULL};
        break;
    case PATH_OPEN: *out = ks_sql_integer(path->open); break;
    case PATH_PRIMITIVE:
        *out = path->kind == KS_CALL_SUM ? ks_sql_integer(path->calls - path->recursive_calls)
                                         : (struct ks_sql_value){.type = KS_SQL_NULL};
        break;
    default: *out = ks_sql_integer(path->kind != KS_CALL_PATH); break;
    }
    return KS_OK;
}

static bool path_find(const void *user, size_t column, const struct ks_sql_value *value,
                      uint64_t *row)
{
    (void)column;
    return find_id(value, 1, path_count(user), row);
}

void ks_trace_rows_tables(const struct ks_trace *trace,
                          struct ks_row_table tables[KS_TRACE_ROW_TABLES])
{
    tables[0] = (struct ks_row_table){"track",       "Threads, processes, devices and streams",
                                      track_columns, KS_COUNT_OF(track_columns),
                                      trace,         track_count,
                                      track_cell,    track_find};
    tables[1] = (struct ks_row_table){"source",       "The files that were read",
                                      source_columns, KS_COUNT_OF(source_columns),
                                      trace,          source_count,
                                      source_cell,    source_find};
    tables[2] =
        (struct ks_row_table){"string", "Texts by id", string_columns, KS_COUNT_OF(string_columns),
                              trace,    string_count,  string_cell,    string_find};
    tables[3] = (struct ks_row_table){"stack",       "Stacks that samples saw",
                                      stack_columns, KS_COUNT_OF(stack_columns),
                                      trace,         stack_count,
                                      stack_cell,    stack_find};
    tables[4] = (struct ks_row_table){"call_path",  "Functions by who called them, as counted",
                                      path_columns, KS_COUNT_OF(path_columns),
                                      trace,        path_count,
                                      path_cell,    path_find};
}
