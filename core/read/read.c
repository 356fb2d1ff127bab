#include "read/read.h"

#include "base/alloc.h"
#include "base/err.h"
#include "read/folder.h"
#include "read/input.h"
#include "read/reader.h"
#include "read/run_folder.h"
#include "read/runs.h"

#define KS_LOG_DOMAIN "read"

/* A window that the caches hold: each byte is touched twice, once by the copy and once by the
 * parser. It grows only for an item that is larger. */
enum { WINDOW_START = 1024 * 1024, HEAD_SIZE = 256 * 1024 };

static const size_t WINDOW_MAX = (size_t)64 * 1024 * 1024;

/* The window over the input that a reader is fed from. */
struct feed {
    struct ks_input *input;
    char *buf;
    size_t capacity; /* without the padding */
    size_t len;
    int64_t offset; /* of buf in the decompressed input */
    bool at_end;
};

static enum ks_status feed_resize(struct feed *f, size_t capacity, struct ks_err *err)
{
    char *buf = ks_realloc(f->buf, 1, capacity + KS_WINDOW_PAD);
    if (!buf) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read: window of %zu bytes",
                       capacity);
    }
    f->buf = buf;
    f->capacity = capacity;
    return KS_OK;
}

/* Fills the window up to `want` bytes, or to the end of the input. */
static enum ks_status feed_fill(struct feed *f, size_t want, struct ks_err *err)
{
    while (f->len < want && !f->at_end) {
        size_t got;
        KS_TRY(ks_input_read(f->input, f->buf + f->len, want - f->len, &got, err));
        f->len += got;
        f->at_end = got == 0;
    }
    memset(f->buf + f->len, 0, KS_WINDOW_PAD);
    return KS_OK;
}

static void feed_consume(struct feed *f, size_t used)
{
    memmove(f->buf, f->buf + used, f->len - used);
    f->len -= used;
    f->offset += (int64_t)used;
}

/* Makes room for an item that does not fit. */
static enum ks_status feed_grow(struct feed *f, struct ks_err *err)
{
    if (f->capacity >= WINDOW_MAX) {
        return ks_fail(err, KS_ERR_LIMIT, f->offset,
                       "Cannot read: one value is longer than %zu bytes", WINDOW_MAX);
    }
    return feed_resize(f, f->capacity * 2, err);
}

/* Feeds the reader until the input ends or the reader has enough; `*left`: bytes not used. */
static enum ks_status feed_all(struct feed *f, const struct ks_reader *reader, void *state,
                               size_t *left, struct ks_err *err)
{
    for (;;) {
        KS_TRY(feed_fill(f, f->capacity, err));
        struct ks_window window = {f->buf, f->len, f->offset, f->at_end};
        size_t used = 0;
        enum ks_status status = reader->push(state, &window, &used, err);
        if (status != KS_OK && status != KS_END) {
            return status;
        }
        feed_consume(f, used);
        if (f->at_end || status == KS_END) {
            *left = f->len;
            return KS_OK;
        }
        if (used == 0) {
            KS_TRY(feed_grow(f, err));
        }
    }
}

static enum ks_status note_stream(struct feed *f, const struct ks_reader_context *context,
                                  struct ks_err *err)
{
    struct ks_source *s = context->source;
    enum ks_input_damage damage = ks_input_damage(f->input);
    s->bytes = (uint64_t)f->offset + f->len;
    s->counts[KS_STAT_compressed_cut] += damage == KS_INPUT_CUT;
    s->counts[KS_STAT_compressed_damaged] += damage == KS_INPUT_DAMAGED;
    if (context->strict && damage != KS_INPUT_WHOLE) {
        return ks_fail(err, KS_ERR_FORMAT, (int64_t)s->bytes,
                       "Cannot accept damaged input: the compressed stream %s",
                       damage == KS_INPUT_CUT ? "ends early" : "is damaged");
    }
    return KS_OK;
}

/* Text that is no UTF-8: told apart so that the message can say it. */
static enum ks_status refuse_head(struct ks_str head, enum ks_input_damage damage,
                                  struct ks_err *err)
{
    if (head.len == 0 && damage != KS_INPUT_WHOLE) {
        return ks_fail(err, KS_ERR_FORMAT, 0,
                       "Cannot read trace: nothing of the compressed stream can be read");
    }
    if (head.len == 0) {
        return ks_fail(err, KS_ERR_FORMAT, 0, "Cannot read trace: the file is empty");
    }
    if (ks_str_starts(head, KS_STR("\xFF\xFE")) || ks_str_starts(head, KS_STR("\xFE\xFF"))) {
        return ks_fail(err, KS_ERR_UNSUPPORTED, 0,
                       "Cannot read trace: it is UTF-16 text; convert it to UTF-8");
    }
    return ks_fail(err, KS_ERR_FORMAT, 0, "Cannot read trace: unknown format");
}

static enum ks_status read_with(struct feed *f, const struct ks_reader *reader,
                                const struct ks_reader_context *context, struct ks_err *err)
{
    void *state = NULL;
    KS_TRY(reader->open(context, (struct ks_str){f->buf, f->len}, &state, err));
    size_t left = 0;
    enum ks_status status = feed_all(f, reader, state, &left, err);
    if (status == KS_OK) {
        status = note_stream(f, context, err);
    }
    if (status == KS_OK) {
        status = reader->finish(state, f->offset + (int64_t)f->len, (int64_t)left, err);
    }
    reader->close(state);
    return status;
}

static enum ks_status read_source(struct feed *f, const struct ks_reader_context *context,
                                  struct ks_err *err)
{
    struct ks_source *s = context->source;
    KS_TRY(feed_fill(f, HEAD_SIZE, err));
    const struct ks_reader *reader = ks_reader_find((struct ks_str){f->buf, f->len});
    if (!reader) {
        return refuse_head((struct ks_str){f->buf, f->len}, ks_input_damage(f->input), err);
    }
    KS_TRY(ks_trace_builder_intern(context->builder, ks_str_from(reader->name), &s->format, err));
    KS_TRY(ks_trace_builder_intern(context->builder, ks_input_compression(f->input),
                                   &s->compression, err));
    KS_TRY(read_with(f, reader, context, err));
    KS_LOG(context->log, KS_LOG_DEBUG, "read %llu bytes, %llu events", (unsigned long long)s->bytes,
           (unsigned long long)s->events);
    return KS_OK;
}

static enum ks_status read_file(const struct ks_read_options *options, const char *path,
                                struct ks_trace_builder *builder, struct ks_err *err)
{
    struct ks_reader_context context = {
        .builder = builder, .strict = options->strict, .log = options->log};
    struct feed f = {0};
    KS_TRY(ks_input_open(path, &f.input, err));
    enum ks_status status =
        ks_trace_builder_source_open(builder, ks_str_from(path), &context.source, err);
    if (status == KS_OK) {
        status = feed_resize(&f, WINDOW_START, err);
        if (status == KS_OK) {
            status = read_source(&f, &context, err);
        }
        context.source->run = status == KS_OK ? 0 : -1; // -1: left out of every run
        enum ks_status closed =
            ks_trace_builder_source_close(builder, status == KS_OK ? err : NULL);
        status = status == KS_OK ? closed : status;
    }
    ks_free(f.buf);
    ks_input_close(f.input);
    return status;
}

static bool is_not_a_trace(enum ks_status status)
{
    return status == KS_ERR_FORMAT || status == KS_ERR_UNSUPPORTED || status == KS_ERR_IO;
}

/* Reads all files; those found in folders may turn out to be no traces, unless all do. */
static enum ks_status read_files(const struct ks_read_options *options,
                                 const struct ks_file_list *files, struct ks_trace_builder *builder,
                                 struct ks_err *err)
{
    size_t read_count = 0;
    struct ks_err first = {0};
    for (size_t i = 0; i < files->count; i++) {
        struct ks_err local = {0};
        const struct ks_file_entry *file = &files->list[i];
        enum ks_status status = read_file(options, file->path, builder, &local);
        if (status == KS_OK) {
            read_count++;
            continue;
        }
        ks_err_prefix(&local, file->path);
        bool may_leave_out = !file->is_given && !options->strict && is_not_a_trace(status);
        if (!may_leave_out) {
            if (err) {
                *err = local;
            }
            return status;
        }
        KS_LOG(options->log, KS_LOG_WARN, "left out %s", local.message);
        first = first.status == KS_OK ? local : first;
    }
    if (read_count == 0) {
        if (err) {
            *err = first;
        }
        return first.status == KS_OK ? KS_ERR_FORMAT : first.status;
    }
    return KS_OK;
}

/* Leaves the files of other ranks out of every run. */
static enum ks_status choose_rank(const struct ks_read_options *options,
                                  struct ks_trace_builder *builder, struct ks_err *err)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; options->rank_given && i < ks_trace_builder_source_count(builder); i++) {
        struct ks_source *source = ks_trace_builder_source(builder, i);
        int64_t rank = source->rank >= 0
                           ? source->rank
                           : ks_rank_from_name(ks_trace_builder_str(builder, source->path));
        source->run = rank == options->rank ? source->run : -1;
        kept += source->run >= 0;
    }
    if (options->rank_given && kept == 0) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot keep rank %lld: no file is of it",
                       (long long)options->rank);
    }
    return KS_OK;
}

static void join_runs(struct ks_trace_builder *builder)
{
    for (uint32_t i = 0; i < ks_trace_builder_source_count(builder); i++) {
        struct ks_source *source = ks_trace_builder_source(builder, i);
        source->run = source->run > 0 ? 1 : source->run;
    }
}

static enum ks_status choose_run(const struct ks_read_options *options,
                                 struct ks_trace_builder *builder, int64_t *run, struct ks_err *err)
{
    int64_t count;
    ks_runs_assign(builder, &count);
    if (options->any_run) {
        join_runs(builder);
        count = 1;
    }
    *run = options->run ? options->run : 1;
    if (*run >= 1 && *run <= count && (options->run != 0 || count == 1)) {
        return KS_OK;
    }
    for (uint32_t i = 0; i < ks_trace_builder_source_count(builder); i++) {
        const struct ks_source *s = ks_trace_builder_source(builder, i);
        if (s->run > 0) {
            struct ks_str path = ks_trace_builder_str(builder, s->path);
            KS_LOG(options->log, KS_LOG_WARN, "run %lld: %.*s", (long long)s->run, (int)path.len,
                   path.ptr);
        }
    }
    if (options->run == 0) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot mix runs: the files belong to %lld, choose one with --run N",
                       (long long)count);
    }
    return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                   "Cannot choose run: asked for %lld, the files hold %lld",
                   (long long)options->run, (long long)count);
}

/* What the processes of a run said beside their traces; ranks are known by now. */
static enum ks_status apply_status_files(struct ks_trace_builder *builder, struct ks_err *err)
{
    for (uint32_t i = 0; i < ks_trace_builder_source_count(builder); i++) {
        struct ks_source *source = ks_trace_builder_source(builder, i);
        struct ks_str path = ks_trace_builder_str(builder, source->path);
        KS_TRY(ks_run_folder_apply_status(source, path, err));
    }
    return KS_OK;
}

/* Windows first: the stacks of one window say nothing of another. */
static enum ks_status choose_files(const struct ks_read_options *options,
                                   struct ks_file_list *files, struct ks_arena *arena,
                                   struct ks_err *err)
{
    struct ks_stacks_list unread = {.arena = arena};
    KS_TRY(ks_run_folder_choose(files, options->window, arena, err));
    return ks_stacks_list_take(options->stacks ? options->stacks : &unread, files, err);
}

enum ks_status ks_read_paths(const struct ks_read_options *options,
                             struct ks_trace_builder *builder, int64_t *run, struct ks_err *err)
{
    struct ks_arena arena;
    ks_arena_init(&arena);
    struct ks_file_list files = {0};
    enum ks_status status = KS_OK;
    for (size_t i = 0; i < options->path_count && status == KS_OK; i++) {
        status = ks_file_list_add(&files, options->paths[i], &arena, err);
        if (status != KS_OK) {
            ks_err_prefix(err, options->paths[i]);
        }
    }
    if (status == KS_OK && !options->any_run) {
        status = choose_files(options, &files, &arena, err);
    }
    if (status == KS_OK) {
        status = read_files(options, &files, builder, err);
    }
    if (status == KS_OK) {
        status = choose_rank(options, builder, err);
    }
    if (status == KS_OK) {
        status = choose_run(options, builder, run, err);
    }
    if (status == KS_OK) {
        status = apply_status_files(builder, err);
    }
    ks_arena_release(&arena);
    return status;
}
