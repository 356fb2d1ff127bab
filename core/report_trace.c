#include "report_trace.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#define KS_LOG_DOMAIN "report"
#include "base/log.h"
#include "base/memory_size.h"
#include "base/progress.h"
#include "read/fingerprint.h"
#include "store/kst.h"

enum {
    ROWS_PER_CHUNK_MIN = 256,
    ROWS_PER_CHUNK_MAX = 65536,
    CHUNKS_IN_MEMORY = 64, /* what scans pin at once, and some to work with */
    BYTES_PER_CELL = 8,
    OTHERS_PART = 16, /* of the JSON: strings, facts, windows; a seventeenth was measured */
    OTHERS_LEAST = 32 * 1024 * 1024,
};

/* ------------------------------------------------------------------ memory */

/* Small memory needs small chunks: what scans pin must fit into it. */
static uint32_t rows_per_chunk(const struct ks_report_options *options)
{
    if (options->chunk_rows != 0 || options->chunk_bytes_max == 0) {
        return options->chunk_rows;
    }
    uint32_t rows = ROWS_PER_CHUNK_MAX;
    while (rows > ROWS_PER_CHUNK_MIN &&
           (uint64_t)rows * BYTES_PER_CELL * CHUNKS_IN_MEMORY > options->chunk_bytes_max) {
        rows /= 2;
    }
    return rows;
}

/* What strings, facts and windows of an input of so many bytes (0: unknown) leave of the memory, at
 * most five eighths of it. An eighth in any case: fewer chunks than scans pin would be none. */
static uint64_t memory_for_tables(uint64_t memory, uint64_t bytes)
{
    uint64_t others = bytes / OTHERS_PART + OTHERS_LEAST;
    uint64_t left = memory > others ? memory - others : 0;
    uint64_t most = memory / 8 * 5;
    left = left < memory / 8 ? memory / 8 : left;
    return left < most ? left : most;
}

/* Tables take a quarter of the JSON and, with all that is computed, never as much as it has bytes:
 * an input below the limit needs none, and the faster store. */
uint64_t ks_report_choose_memory(struct ks_report_options *options, uint64_t bytes)
{
    uint64_t memory = options->memory_bytes_max ? options->memory_bytes_max : ks_memory_size() / 2;
    uint64_t for_chunks = memory_for_tables(memory, bytes);
    if (options->chunk_bytes_max != 0) {
        return options->chunk_bytes_max;
    }
    if (bytes == 0 || bytes > memory) {
        options->chunk_bytes_max = for_chunks;
    }
    return for_chunks;
}

/* ------------------------------------------------------------------ sealed traces */

/* The only path, when that file says of itself that it is sealed; else -1. */
static int open_sealed(const struct ks_report_options *options)
{
    const char *path = options->path_count == 1 ? options->paths[0] : "-";
    struct stat info;
    char head[KS_KST_HEADER_SIZE];
    if (strcmp(path, "-") == 0 || stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
        return -1;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && !ks_kst_is_head(head, pread(fd, head, sizeof(head), 0) > 0 ? sizeof(head) : 0)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

bool ks_report_is_sealed(const struct ks_report_options *options)
{
    int fd = open_sealed(options);
    if (fd >= 0) {
        (void)close(fd);
    }
    return fd >= 0;
}

/* What it holds was chosen when it was sealed. */
static enum ks_status check_choice(const struct ks_trace *trace,
                                   const struct ks_report_options *options, struct ks_err *err)
{
    for (uint32_t i = 0; i < ks_trace_source_count(trace); i++) {
        const struct ks_source *source = ks_trace_source(trace, i);
        if (options->run != 0 && source->run != options->run) {
            return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                           "Cannot choose run: asked for %lld, the sealed trace holds %lld",
                           (long long)options->run, (long long)source->run);
        }
        if (options->rank_given && source->rank != options->rank) {
            return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                           "Cannot keep rank %lld alone: the sealed trace holds rank %lld",
                           (long long)options->rank, (long long)source->rank);
        }
    }
    return KS_OK;
}

static enum ks_status read_sealed(const struct ks_report_options *options, int fd,
                                  struct ks_trace **out, struct ks_err *err)
{
    struct ks_report_options own = *options;
    KS_TRY(ks_kst_open(fd, ks_report_choose_memory(&own, 0), out, NULL, err));
    enum ks_status status = check_choice(*out, options, err);
    if (status != KS_OK) {
        ks_trace_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* ------------------------------------------------------------------ everything else */

static enum ks_status read_files(const struct ks_report_options *options, bool any_run,
                                 struct ks_stacks_list *stacks, struct ks_trace **out,
                                 struct ks_err *err)
{
    struct ks_log log = {options->log, options->log_user, KS_LOG_DEBUG};
    struct ks_read_options read_options = {
        .stacks = stacks,
        .paths = options->paths,
        .path_count = options->path_count,
        .strict = options->strict,
        .run = options->run,
        .window = options->window,
        .any_run = any_run,
        .rank_given = options->rank_given,
        .rank = options->rank,
        .threads = options->threads,
        .log = &log,
        .progress = options->progress,
    };
    struct ks_trace_options trace_options = {
        .chunk_bytes_max = options->chunk_bytes_max,
        .chunk_rows = rows_per_chunk(options),
    };
    struct ks_trace_builder *builder = NULL;
    KS_TRY(ks_trace_builder_create(&trace_options, &builder, err));
    int64_t run = 0;
    ks_progress_enter(options->progress, KS_STAGE_READ);
    enum ks_status status = ks_read_paths(&read_options, builder, &run, err);
    ks_progress_enter(options->progress, KS_STAGE_ANALYZE);
    if (status != KS_OK) {
        ks_trace_builder_destroy(builder);
        return status;
    }
    KS_TRY(ks_trace_builder_seal(builder, run, out, err));
    const struct ks_chunk_pool *pool = ks_trace_pool(*out);
    KS_LOG(&log, KS_LOG_DEBUG, "tables took %llu bytes at most, %llu bytes went to a file",
           (unsigned long long)ks_chunk_pool_bytes_peak(pool),
           (unsigned long long)ks_chunk_pool_bytes_spilled(pool));
    return KS_OK;
}

enum ks_status ks_report_read_trace(const struct ks_report_options *options, bool any_run,
                                    struct ks_stacks_list *stacks, struct ks_trace **out,
                                    struct ks_err *err)
{
    if (options->path_count == 0) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot read traces: no path is given");
    }
    int fd = open_sealed(options);
    return fd >= 0 ? read_sealed(options, fd, out, err)
                   : read_files(options, any_run, stacks, out, err);
}

/* ------------------------------------------------------------------ has it changed? */

static enum ks_status take_both(const struct ks_report_options *options, struct ks_arena *arena,
                                struct ks_fingerprint taken[2], struct ks_err *err)
{
    struct ks_stacks_list stacks = {.arena = arena};
    KS_TRY(ks_stacks_list_add(&stacks, options->stacks_paths, options->stacks_path_count, err));
    struct ks_read_options read = {.paths = options->paths,
                                   .path_count = options->path_count,
                                   .window = options->window,
                                   .stacks = &stacks};
    KS_TRY(ks_fingerprint_take(&read, &taken[0], err));
    if (stacks.count == 0) {
        return KS_OK;
    }
    read = (struct ks_read_options){
        .paths = stacks.paths, .path_count = stacks.count, .any_run = true};
    return ks_fingerprint_take(&read, &taken[1], err);
}

enum ks_status ks_report_input_mark(const struct ks_report_options *options,
                                    char mark[KS_INPUT_MARK_SIZE], struct ks_err *err)
{
    struct ks_fingerprint taken[2] = {0};
    struct ks_arena arena;
    ks_arena_init(&arena);
    enum ks_status status = take_both(options, &arena, taken, err);
    ks_arena_release(&arena);
    (void)snprintf(mark, KS_INPUT_MARK_SIZE, "%016llx%016llx",
                   (unsigned long long)(taken[0].low ^ taken[1].high),
                   (unsigned long long)(taken[0].high ^ taken[1].low));
    return status;
}
