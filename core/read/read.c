#include "read/read.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/proc.h"
#include "base/progress.h"
#include "read/feed.h"
#include "read/folder.h"
#include "read/parts.h"
#include "read/read_ahead.h"
#include "read/reader.h"
#include "read/run_clocks.h"
#include "read/run_folder.h"
#include "read/runs.h"
#include "store/kst.h"

#define KS_LOG_DOMAIN "read"

enum { HEAD_SIZE = 256 * 1024 };

/* ---- parts of a large file, read at the same time */

struct reading {
    const struct ks_read_options *options;
    const struct ks_reader_context *context;
    struct ks_feed *feed;
    const struct ks_reader *reader;
    void *state;
    unsigned threads;
    struct ks_parts *parts; /* NULL: none are being read */
    bool had_parts;
};

/* Splits what is left of the input, once, when the reader stands where that can be done. */
static enum ks_status start_parts(struct reading *r, struct ks_err *err)
{
    const struct ks_reader_parts *how = r->reader->parts;
    if (r->had_parts || !how || !how->can_split(r->state)) {
        return KS_OK;
    }
    r->had_parts = true;
    struct ks_parts_plan plan = {
        .how = how,
        .state = r->state,
        .context = r->context,
        .threads = r->threads,
        .window_bytes = r->options->window_bytes,
        .offset = r->feed->offset,
        .progress = r->options->progress,
    };
    plan.fd = ks_input_plain_file(r->feed->input, &plan.end);
    return plan.fd < 0 ? KS_OK : ks_parts_start(&plan, &r->parts, err);
}

/* The reader stands where the first part begins: takes what the parts have read, and goes on
 * behind. */
static enum ks_status take_parts(struct reading *r, struct ks_err *err)
{
    int64_t offset = r->feed->offset;
    enum ks_status status = ks_parts_take(r->parts, &offset, err);
    ks_parts_end(r->parts);
    r->parts = NULL;
    r->reader->parts->stop_at(r->state, INT64_MAX);
    if (status != KS_OK || offset == r->feed->offset) {
        return status;
    }
    KS_TRY(ks_input_seek(r->feed->input, offset, err));
    ks_feed_restart(r->feed, offset);
    return KS_OK;
}

/* Feeds the reader until the input ends or the reader has enough; `*left`: bytes not used. */
static enum ks_status feed_all(struct reading *r, size_t *left, struct ks_err *err)
{
    struct ks_feed *f = r->feed;
    for (;;) {
        KS_TRY(ks_feed_fill(f, f->capacity, err));
        struct ks_window window = {f->buf, f->len, f->offset, f->at_end};
        size_t used = 0;
        enum ks_status status = r->reader->push(r->state, &window, &used, err);
        if (status != KS_OK && status != KS_END) {
            return status;
        }
        ks_feed_consume(f, used);
        if (r->parts && r->reader->parts->has_stopped(r->state)) {
            KS_TRY(take_parts(r, err));
            continue;
        }
        if (f->at_end || status == KS_END) {
            *left = f->len;
            return KS_OK;
        }
        if (used == 0) {
            KS_TRY(ks_feed_grow(f, err));
        }
        KS_TRY(start_parts(r, err));
    }
}

static enum ks_status note_stream(struct ks_feed *f, const struct ks_reader_context *context,
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
    if (ks_kst_is_head(head.ptr, head.len)) {
        return ks_fail(
            err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
            "Cannot read trace: it is a sealed one, which is read from a file, and alone");
    }
    return ks_fail(err, KS_ERR_FORMAT, 0, "Cannot read trace: unknown format");
}

/* A compressed input can only be read from its begin to its end, but by a thread beside the
 * reader's. What fits into the first window is not worth one. */
static enum ks_status start_reading_ahead(struct reading *r, struct ks_err *err)
{
    struct ks_feed *f = r->feed;
    if (r->threads < 2 || f->at_end || ks_input_compression(f->input).len == 0) {
        return KS_OK;
    }
    return ks_read_ahead_start(f->input, f->capacity, &f->ahead, err);
}

static enum ks_status read_with(struct reading *r, struct ks_err *err)
{
    struct ks_feed *f = r->feed;
    KS_TRY(r->reader->open(r->context, (struct ks_str){f->buf, f->len}, &r->state, err));
    size_t left = 0;
    enum ks_status status = start_reading_ahead(r, err);
    if (status == KS_OK) {
        status = feed_all(r, &left, err);
    }
    ks_parts_end(r->parts);
    ks_read_ahead_end(f->ahead);
    f->ahead = NULL;
    if (status == KS_OK) {
        status = note_stream(f, r->context, err);
    }
    if (status == KS_OK) {
        status = r->reader->finish(r->state, f->offset + (int64_t)f->len, (int64_t)left, err);
    }
    r->reader->close(r->state);
    return status;
}

/* The window has the begin of the file; the rest of it is the reader's to find. */
static enum ks_status read_whole_file(struct reading *r, const char *path, struct ks_err *err)
{
    struct ks_feed *f = r->feed;
    int64_t size = 0;
    if (ks_input_plain_file(f->input, &size) < 0) {
        return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                       "Cannot read input of format %s: it is read from a plain file, not from a "
                       "pipe or a compressed one",
                       r->reader->name);
    }
    return r->reader->read_file(r->context, path, (struct ks_str){f->buf, f->len}, size, err);
}

static enum ks_status read_source(const struct ks_read_options *options, const char *path,
                                  struct ks_feed *f, const struct ks_reader_context *context,
                                  struct ks_err *err)
{
    struct ks_source *s = context->source;
    struct reading reading = {
        .options = options,
        .context = context,
        .feed = f,
        .threads = options->threads > 0 ? options->threads : ks_processor_count(),
    };
    KS_TRY(ks_feed_fill(f, f->capacity < HEAD_SIZE ? f->capacity : HEAD_SIZE, err));
    reading.reader = ks_reader_find((struct ks_str){f->buf, f->len});
    if (!reading.reader) {
        return refuse_head((struct ks_str){f->buf, f->len}, ks_input_damage(f->input), err);
    }
    KS_TRY(ks_trace_builder_intern(context->builder, ks_str_from(reading.reader->name), &s->format,
                                   err));
    KS_TRY(ks_trace_builder_intern(context->builder, ks_input_compression(f->input),
                                   &s->compression, err));
    KS_TRY(reading.reader->read_file ? read_whole_file(&reading, path, err)
                                     : read_with(&reading, err));
    KS_LOG(context->log, KS_LOG_DEBUG, "read %llu bytes, %llu events", (unsigned long long)s->bytes,
           (unsigned long long)s->events);
    return KS_OK;
}

static enum ks_status read_file(const struct ks_read_options *options, const char *path,
                                struct ks_trace_builder *builder, struct ks_err *err)
{
    struct ks_reader_context context = {
        .builder = builder, .strict = options->strict, .log = options->log};
    struct ks_feed f = {.fd = -1};
    KS_TRY(ks_input_open(path, &f.input, err));
    ks_input_count(f.input, options->progress);
    enum ks_status status =
        ks_trace_builder_source_open(builder, ks_str_from(path), &context.source, err);
    if (status == KS_OK) {
        status = ks_feed_init(&f, options->window_bytes, err);
        if (status == KS_OK) {
            status = read_source(options, path, &f, &context, err);
        }
        context.source->run = status == KS_OK ? 0 : -1; // -1: left out of every run
        enum ks_status closed =
            ks_trace_builder_source_close(builder, status == KS_OK ? err : NULL);
        status = status == KS_OK ? closed : status;
    }
    ks_feed_release(&f);
    ks_input_close(f.input);
    return status;
}

static bool is_not_a_trace(enum ks_status status)
{
    return status == KS_ERR_FORMAT || status == KS_ERR_UNSUPPORTED || status == KS_ERR_IO;
}

static void count_bytes(const struct ks_file_list *files, struct ks_progress *progress)
{
    uint64_t total = 0;
    for (size_t i = 0; progress && i < files->count; i++) {
        uint64_t size = 0;
        if (!ks_input_size(files->list[i].path, &size)) {
            return;
        }
        total += size;
    }
    ks_progress_add_total(progress, total);
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
    KS_TRY(ks_runs_assign(builder, &count, err));
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
    return ks_run_clocks_apply(builder, err);
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

enum ks_status ks_read_list(const struct ks_read_options *options, struct ks_file_list *files,
                            struct ks_arena *arena, struct ks_err *err)
{
    for (size_t i = 0; i < options->path_count; i++) {
        enum ks_status status = ks_file_list_add(files, options->paths[i], arena, err);
        if (status != KS_OK) {
            ks_err_prefix(err, options->paths[i]);
            return status;
        }
    }
    return options->any_run ? KS_OK : choose_files(options, files, arena, err);
}

enum ks_status ks_read_paths(const struct ks_read_options *options,
                             struct ks_trace_builder *builder, int64_t *run, struct ks_err *err)
{
    struct ks_arena arena;
    ks_arena_init(&arena);
    struct ks_file_list files = {0};
    enum ks_status status = ks_read_list(options, &files, &arena, err);
    if (status == KS_OK) {
        count_bytes(&files, options->progress);
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
