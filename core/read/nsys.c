/* What `nsys export --type sqlite` writes of a run under NVIDIA Nsight Systems. Which tables and
 * columns there are differs between its versions, so both are looked up by name; a missing one is
 * unknown. One file may hold several processes, whose devices, streams and correlations have
 * nothing to do with one another: each process with GPU work becomes a source of its own.
 *
 * The first pass over the events finds the processes and which strings are needed; then each
 * source is filled by a pass of its own, because a builder takes one after the other. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "read/nsys_impl.h"

enum { PROCESSES_MAX = 4096, SOURCES_MAX = 64, MEMORY_KIND_BYTES_MAX = 256 };

/* ------------------------------------------------------------------ small things */

enum ks_status nsys_count(struct nsys *n, enum ks_stat stat, int64_t offset, struct ks_err *err)
{
    if (n->to.strict && ks_stat_info(stat)->severity != KS_SEVERITY_INFO) {
        return ks_fail(err, KS_ERR_FORMAT, offset, "Cannot accept damaged input: %s",
                       ks_stat_info(stat)->sentence);
    }
    n->to.source->counts[stat]++;
    return KS_OK;
}

enum ks_status nsys_intern(struct nsys *n, struct ks_str text, struct ks_strid *out,
                           struct ks_err *err)
{
    struct ks_text clean;
    bool is_repaired = false;
    ks_text_init(&clean);
    for (size_t at = 0; at < text.len;) {
        size_t len = ks_utf8_sequence((const unsigned char *)text.ptr + at, text.len - at);
        ks_text_append_str(&clean,
                           len > 0 ? (struct ks_str){text.ptr + at, len} : KS_STR("\xEF\xBF\xBD"));
        is_repaired |= len == 0;
        at += len > 0 ? len : 1;
    }
    enum ks_status status = KS_OK;
    if (clean.failed) {
        status = ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep text: len=%zu", text.len);
    } else if (is_repaired) {
        status = nsys_count(n, KS_STAT_repaired_strings, KS_NO_OFFSET, err);
    }
    if (status == KS_OK) {
        size_t len = clean.len < KS_STR_LEN_MAX ? clean.len : KS_STR_LEN_MAX;
        status = ks_trace_builder_intern(n->to.builder, (struct ks_str){clean.ptr, len}, out, err);
    }
    ks_text_release(&clean);
    return status;
}

bool nsys_string(const struct nsys *n, int64_t id, struct ks_strid *out)
{
    const uint64_t *found = ks_map_find(&n->strings, (uint64_t)id, 0);
    *out = (struct ks_strid){found && *found > 0 ? (uint32_t)(*found - 1) : 0};
    return found && *found > 0;
}

int64_t nsys_pid(int64_t global_id)
{
    return (int64_t)((uint64_t)global_id >> 24 & 0xFFFFFF);
}

int64_t nsys_tid(int64_t global_id)
{
    return global_id & 0xFFFFFF;
}

struct nsys_process *nsys_find_process(const struct nsys *n, int64_t pid)
{
    const uint64_t *found = ks_map_find(&n->process_index, (uint64_t)pid, 0);
    return found ? &n->processes[*found - 1] : NULL;
}

static enum ks_status add_process(struct nsys *n, int64_t pid, struct ks_err *err)
{
    if (n->process_count == PROCESSES_MAX) {
        return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET,
                       "Cannot read database: its events are of more than %d processes",
                       PROCESSES_MAX);
    }
    KS_TRY(ks_grow(&n->processes, n->process_count, &n->process_capacity, sizeof(*n->processes),
                   "processes", err));
    uint64_t *index = ks_map_put(&n->process_index, (uint64_t)pid, 0, NULL);
    if (!index) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep processes: count=%zu",
                       n->process_count);
    }
    n->processes[n->process_count] = (struct nsys_process){.pid = pid};
    *index = ++n->process_count;
    return KS_OK;
}

/* ------------------------------------------------------------------ tables */

/* What comes before the damage is kept. With `strict` its place is the error. */
static enum ks_status note_damage(struct nsys *n, enum ks_status status, struct ks_err *damage,
                                  struct ks_err *err)
{
    bool is_damage = status == KS_ERR_FORMAT || status == KS_ERR_LIMIT;
    if (!is_damage || n->to.strict) {
        if (err) {
            *err = *damage;
        }
        return status;
    }
    n->to.source->counts[KS_STAT_tables_damaged] += n->is_first_pass;
    return KS_OK;
}

/* Damage of the file is told apart from errors of whoever takes the rows. */
static enum ks_status each_row(struct nsys *n, const char *table, const char *const *columns,
                               size_t count, enum nsys_kind kind, nsys_row_cb on_row,
                               struct ks_err *err)
{
    struct ks_rows rows;
    struct ks_err damage = {0};
    enum ks_status taken = KS_OK;
    enum ks_status status = ks_rows_open(&rows, n->database, table, columns, count, &damage);
    while (status == KS_OK && (status = ks_rows_next(&rows, &damage)) == KS_OK) {
        taken = on_row(n, kind, &rows, err);
        status = taken == KS_OK ? KS_OK : KS_END;
    }
    ks_rows_close(&rows);
    if (taken != KS_OK) {
        return taken;
    }
    return status == KS_END ? KS_OK : note_damage(n, status, &damage, err);
}

enum ks_status nsys_each(struct nsys *n, const char *name, const char *const *columns,
                         enum nsys_kind kind, nsys_row_cb on_row, struct ks_err *err)
{
    bool is_plain = false;
    size_t count = 0;
    const char *table = ks_database_find(n->database, name, &is_plain);
    if (!table) {
        return KS_OK;
    }
    if (!is_plain) {
        return n->is_first_pass ? nsys_count(n, KS_STAT_tables_damaged, 0, err) : KS_OK;
    }
    while (count < KS_DATABASE_COLUMNS_MAX && columns[count]) {
        count++;
    }
    return each_row(n, table, columns, count, kind, on_row, err);
}

static enum ks_status each_event(struct nsys *n, nsys_row_cb on_row, struct ks_err *err)
{
    for (int kind = 0; kind < NSYS_KINDS; kind++) {
        KS_TRY(nsys_each(n, nsys_tables[kind].name, nsys_tables[kind].columns, (enum nsys_kind)kind,
                         on_row, err));
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ first pass */

static enum ks_status want_string(struct nsys *n, const struct ks_rows *rows, size_t column,
                                  struct ks_err *err)
{
    int64_t id = 0;
    if (ks_rows_int(rows, column, &id) && !ks_map_put(&n->strings, (uint64_t)id, 0, NULL)) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep names: count=%zu",
                       n->strings.count);
    }
    return KS_OK;
}

/* -1 when the row does not say. */
static int64_t pid_of(const struct ks_rows *rows)
{
    int64_t id = 0;
    return ks_rows_int(rows, NSYS_PROCESS, &id) ? nsys_pid(id) : -1;
}

static enum ks_status look_at_event(struct nsys *n, enum nsys_kind kind, struct ks_rows *rows,
                                    struct ks_err *err)
{
    const struct nsys_table *table = &nsys_tables[kind];
    int64_t pid = pid_of(rows);
    struct nsys_process *process = nsys_find_process(n, pid);
    if (!process) {
        KS_TRY(add_process(n, pid, err));
        process = &n->processes[n->process_count - 1];
    }
    process->has_work |= table->is_work;
    for (size_t i = 0; i < NSYS_NAMES_MAX && table->name_columns[i] > 0; i++) {
        KS_TRY(want_string(n, rows, (size_t)table->name_columns[i], err));
    }
    return KS_OK;
}

static enum ks_status want_first_column(struct nsys *n, enum nsys_kind kind, struct ks_rows *rows,
                                        struct ks_err *err)
{
    (void)kind;
    return want_string(n, rows, 0, err);
}

static enum ks_status take_string(struct nsys *n, enum nsys_kind kind, struct ks_rows *rows,
                                  struct ks_err *err)
{
    int64_t id = 0;
    struct ks_strid text = {0};
    (void)kind;
    uint64_t *wanted = ks_rows_int(rows, 0, &id) ? ks_map_find(&n->strings, (uint64_t)id, 0) : NULL;
    if (!wanted || *wanted > 0) {
        return KS_OK;
    }
    KS_TRY(nsys_intern(n, ks_rows_text(rows, 1), &text, err));
    *wanted = (uint64_t)text.v + 1;
    return KS_OK;
}

static enum ks_status take_memory_kind(struct nsys *n, enum nsys_kind kind, struct ks_rows *rows,
                                       struct ks_err *err)
{
    int64_t id = 0;
    (void)kind;
    bool is_known =
        ks_rows_int(rows, 0, &id) && id >= 0 && id < (int64_t)KS_COUNT_OF(n->memory_kinds);
    struct ks_str label = ks_rows_text(rows, 1);
    return is_known && label.len > 0 && label.len <= MEMORY_KIND_BYTES_MAX
               ? nsys_intern(n, label, &n->memory_kinds[id], err)
               : KS_OK;
}

static enum ks_status first_pass(struct nsys *n, struct ks_err *err)
{
    static const char *const names[KS_DATABASE_COLUMNS_MAX] = {"nameId"};
    static const char *const strings[KS_DATABASE_COLUMNS_MAX] = {"id", "value"};
    static const char *const kinds[KS_DATABASE_COLUMNS_MAX] = {"id", "label"};
    n->is_first_pass = true;
    KS_TRY(each_event(n, look_at_event, err));
    KS_TRY(nsys_each(n, "ThreadNames", names, NSYS_KINDS, want_first_column, err));
    KS_TRY(nsys_each(n, "StringIds", strings, NSYS_KINDS, take_string, err));
    KS_TRY(nsys_each(n, "ENUM_CUDA_MEM_KIND", kinds, NSYS_KINDS, take_memory_kind, err));
    return KS_OK;
}

/* ------------------------------------------------------------------ sources */

static int compare_processes(const void *left, const void *right)
{
    const struct nsys_process *a = left;
    const struct nsys_process *b = right;
    return (a->pid > b->pid) - (a->pid < b->pid);
}

/* Processes with GPU work get a source each, in the order of their ids; all others lie beside the
 * first. Gives the number of sources. */
static enum ks_status number_sources(struct nsys *n, uint32_t *count, struct ks_err *err)
{
    uint32_t next = 0;
    if (n->process_count > 1) {
        qsort(n->processes, n->process_count, sizeof(*n->processes), compare_processes);
    }
    for (size_t i = 0; i < n->process_count; i++) {
        *ks_map_find(&n->process_index, (uint64_t)n->processes[i].pid, 0) = i + 1;
        n->processes[i].source = n->processes[i].has_work ? next++ : 0;
    }
    *count = next > 0 ? next : 1;
    return next <= SOURCES_MAX
               ? KS_OK
               : ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET,
                         "Cannot read database: more than %d processes have GPU work", SOURCES_MAX);
}

static enum ks_status emit_event(struct nsys *n, enum nsys_kind kind, struct ks_rows *rows,
                                 struct ks_err *err)
{
    const struct nsys_process *process = nsys_find_process(n, pid_of(rows));
    return process && process->source == n->source ? nsys_emit(n, kind, rows, err) : KS_OK;
}

/* The next source is of the same file: what is known of the file holds for it, too. */
static enum ks_status open_next(struct nsys *n, struct ks_err *err)
{
    const struct ks_source *first = n->to.source;
    struct ks_str path = ks_trace_builder_str(n->to.builder, first->path);
    struct ks_source *source = NULL;
    KS_TRY(ks_trace_builder_source_close(n->to.builder, err));
    KS_TRY(ks_trace_builder_source_open(n->to.builder, path, &source, err));
    source->format = first->format;
    source->compression = first->compression;
    source->bytes = first->bytes;
    n->to.source = source;
    n->order = 0;
    return KS_OK;
}

/* Processes of one file are the ranks of a run, in whatever order the program numbers them. The
 * source has no pid: that would say that `kscope run` recorded it. */
static void number_rank(struct nsys *n, uint32_t count)
{
    struct ks_source *s = n->to.source;
    n->pid = -1;
    for (size_t i = 0; i < n->process_count; i++) {
        const struct nsys_process *process = &n->processes[i];
        bool is_it = process->source == n->source && (process->has_work || n->process_count == 1);
        n->pid = is_it ? process->pid : n->pid;
    }
    if (count > 1) {
        s->rank = n->source;
        s->world_size = count;
        s->counts[KS_STAT_ranks_by_process]++;
    }
}

static enum ks_status fill_sources(struct nsys *n, uint32_t count, struct ks_err *err)
{
    n->is_first_pass = false;
    for (n->source = 0; n->source < count; n->source++) {
        if (n->source > 0) {
            KS_TRY(open_next(n, err));
        }
        number_rank(n, count);
        KS_TRY(nsys_describe(n, err));
        KS_TRY(each_event(n, emit_event, err));
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ the reader */

static void look_for_events(void *user, const char *name)
{
    bool *has_events = user;
    *has_events |= strncmp(name, "CUPTI_ACTIVITY_KIND_", 20) == 0 ||
                   strncmp(name, "NVTX_EVENTS", 11) == 0 || strcmp(name, "StringIds") == 0;
}

static bool has_event_name(const struct ks_database *database)
{
    bool is_plain = false;
    for (int kind = 0; kind < NSYS_KINDS; kind++) {
        if (ks_database_find(database, nsys_tables[kind].name, &is_plain)) {
            return true;
        }
    }
    return false;
}

static enum ks_status check_is_export(const struct nsys *n, struct ks_err *err)
{
    bool has_events = has_event_name(n->database);
    ks_database_each(n->database, look_for_events, &has_events);
    return has_events ? KS_OK
                      : ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                                "Cannot report on this database: it has no table that nsys export "
                                "writes");
}

static enum ks_status read_database(struct nsys *n, const char *path, int64_t size,
                                    struct ks_err *err)
{
    uint32_t count = 0;
    KS_TRY(check_is_export(n, err));
    if (ks_database_is_written(path)) {
        KS_TRY(nsys_count(n, KS_STAT_database_being_written, KS_NO_OFFSET, err));
    }
    if (ks_database_size(n->database) > size) {
        KS_TRY(nsys_count(n, KS_STAT_unterminated, size, err));
    }
    n->to.source->bytes = (uint64_t)size;
    KS_TRY(first_pass(n, err));
    KS_TRY(number_sources(n, &count, err));
    return fill_sources(n, count, err);
}

/* The caller knows the first source only. */
static void leave_out(struct ks_trace_builder *builder, uint32_t first)
{
    for (uint32_t i = first; i < ks_trace_builder_source_count(builder); i++) {
        ks_trace_builder_source(builder, i)->run = -1;
    }
}

static enum ks_status read_nsys(const struct ks_reader_context *context, const char *path,
                                struct ks_str head, int64_t size, struct ks_err *err)
{
    struct nsys n = {.to = *context};
    uint32_t sources = ks_trace_builder_source_count(context->builder);
    ks_map_init(&n.strings);
    ks_map_init(&n.process_index);
    ks_text_init(&n.scratch);
    enum ks_status status = ks_database_open(path, head, size, &n.database, err);
    if (status == KS_OK) {
        status = read_database(&n, path, size, err);
    }
    if (status != KS_OK) {
        leave_out(context->builder, sources);
    }
    ks_database_close(n.database);
    ks_map_release(&n.strings);
    ks_map_release(&n.process_index);
    ks_text_release(&n.scratch);
    ks_free(n.processes);
    return status;
}

const struct ks_reader ks_reader_nsys = {
    .name = "nsys",
    .sniff = ks_database_is_head,
    .read_file = read_nsys,
};
