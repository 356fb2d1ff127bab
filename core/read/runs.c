#include "read/runs.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "read/reader.h"

/* Times from 1990 on, in ns: smaller ones count from something else than 1970. */
static const int64_t UNIX_TIME_MIN_NS = 631152000000000000;

int64_t ks_rank_from_name(struct ks_str path)
{
    const char *end = path.ptr + path.len;
    const char *name = end;
    while (name > path.ptr && name[-1] != '/') {
        name--;
    }
    for (const char *p = name; end - p > 4; p++) {
        if (memcmp(p, "rank", 4) != 0 || (p > name && isalpha((unsigned char)p[-1]))) {
            continue;
        }
        const char *digits = p + 4;
        digits += digits < end && strchr("-_.", *digits) && *digits;
        int64_t rank = -1;
        for (int n = 0; digits < end && isdigit((unsigned char)*digits) && n < 9; digits++, n++) {
            rank = (rank < 0 ? 0 : rank) * 10 + (*digits - '0');
        }
        if (rank >= 0) {
            return rank;
        }
    }
    return -1;
}

static int64_t abs_start(const struct ks_source *s)
{
    return s->base_ns + s->start_ns;
}

static int64_t abs_end(const struct ks_source *s)
{
    return s->base_ns + s->end_ns;
}

static bool has_time(const struct ks_source *s)
{
    return s->start_ns != KS_TIME_NONE;
}

/* ------------------------------------------------------------ which run */

/* The files of one rank in one run. All pairs of them fit, so that what one says holds for all. */
struct rank_files {
    int64_t pid;      /* 0: none says */
    bool is_absolute; /* those with times have a clock */
    uint32_t *timed;  /* those with times, in order of time; they do not overlap */
    size_t count;
    size_t capacity;
};

struct runs {
    struct ks_trace_builder *builder;
    struct ks_map index; /* (run, rank) -> 1 + index of its files */
    struct rank_files *ranks;
    size_t rank_count;
    size_t rank_capacity;
    int64_t *world_sizes; /* by run: -1, none says */
    size_t run_count;
    size_t run_capacity;
    struct ks_map processes;     /* (run, pid) -> 1: of a source */
    struct ks_map process_ranks; /* (pid) -> 1 + rank that a source with this pid has */
};

static const struct ks_source *timed_source(const struct runs *runs, const struct rank_files *files,
                                            size_t at)
{
    return ks_trace_builder_source(runs->builder, files->timed[at]);
}

/* First of the files that ends after `ns`. */
static size_t find_place(const struct runs *runs, const struct rank_files *files, int64_t ns)
{
    size_t begin = 0;
    size_t end = files->count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (abs_end(timed_source(runs, files, middle)) <= ns) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

/* Files of which just one has a clock cannot be said to follow one another. */
static bool overlaps(const struct runs *runs, const struct rank_files *files,
                     const struct ks_source *s)
{
    if (!has_time(s) || files->count == 0) {
        return false;
    }
    if (files->is_absolute != s->is_absolute) {
        return true;
    }
    size_t place = find_place(runs, files, abs_start(s));
    return place < files->count && abs_start(timed_source(runs, files, place)) < abs_end(s);
}

static struct rank_files *find_rank(const struct runs *runs, size_t run, int64_t rank)
{
    const uint64_t *slot = ks_map_find(&runs->index, run, (uint64_t)rank);
    return slot ? &runs->ranks[*slot - 1] : NULL;
}

/* Can the file be one of the run? */
static bool fits(const struct runs *runs, size_t run, const struct ks_source *s)
{
    int64_t world_size = runs->world_sizes[run];
    if (world_size >= 0 && s->world_size >= 0 && world_size != s->world_size) {
        return false;
    }
    const struct rank_files *files = find_rank(runs, run, s->rank);
    bool is_other_process = files && files->pid != 0 && s->pid != 0 && files->pid != s->pid;
    return !files || (!is_other_process && !overlaps(runs, files, s));
}

/* NULL: out of memory, which `err` says. */
static struct rank_files *add_rank(struct runs *runs, size_t run, int64_t rank, struct ks_err *err)
{
    struct rank_files *files = find_rank(runs, run, rank);
    if (files) {
        return files;
    }
    if (ks_grow(&runs->ranks, runs->rank_count, &runs->rank_capacity, sizeof(*runs->ranks), "runs",
                err) != KS_OK) {
        return NULL;
    }
    uint64_t *slot = ks_map_put(&runs->index, run, (uint64_t)rank, NULL);
    if (!slot) {
        (void)ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep runs: count=%zu",
                      runs->run_count);
        return NULL;
    }
    runs->ranks[runs->rank_count] = (struct rank_files){0};
    *slot = ++runs->rank_count;
    return &runs->ranks[runs->rank_count - 1];
}

static enum ks_status add_timed(struct runs *runs, struct rank_files *files, uint32_t index,
                                const struct ks_source *s, struct ks_err *err)
{
    KS_TRY(
        ks_grow(&files->timed, files->count, &files->capacity, sizeof(*files->timed), "runs", err));
    size_t place = find_place(runs, files, abs_start(s));
    memmove(files->timed + place + 1, files->timed + place,
            (files->count - place) * sizeof(*files->timed));
    files->timed[place] = index;
    files->count++;
    files->is_absolute = s->is_absolute;
    return KS_OK;
}

static enum ks_status add_run(struct runs *runs, struct ks_err *err)
{
    KS_TRY(ks_grow(&runs->world_sizes, runs->run_count, &runs->run_capacity,
                   sizeof(*runs->world_sizes), "runs", err));
    runs->world_sizes[runs->run_count++] = -1;
    return KS_OK;
}

/* The first run that it fits into, or a new one. */
static enum ks_status place_source(struct runs *runs, uint32_t index, struct ks_err *err)
{
    struct ks_source *s = ks_trace_builder_source(runs->builder, index);
    size_t run = 0;
    while (run < runs->run_count && !fits(runs, run, s)) {
        run++;
    }
    if (run == runs->run_count) {
        KS_TRY(add_run(runs, err));
    }
    struct rank_files *files = add_rank(runs, run, s->rank, err);
    if (!files) {
        return KS_ERR_NOMEM;
    }
    files->pid = files->pid != 0 ? files->pid : s->pid;
    runs->world_sizes[run] = runs->world_sizes[run] >= 0 ? runs->world_sizes[run] : s->world_size;
    s->run = (int64_t)run + 1;
    return has_time(s) ? add_timed(runs, files, index, s, err) : KS_OK;
}

/* A file for numbering: those of a rank in a run by time, equal times by input order. */
struct cycle {
    const struct ks_source *source;
    uint32_t index;
};

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_bases(const void *left, const void *right)
{
    const struct cycle *a = left;
    const struct cycle *b = right;
    int order = compare_numbers(a->source->base_ns, b->source->base_ns);
    return order ? order : compare_numbers(a->index, b->index);
}

/* ------------------------------------------------------------ recordings beside traces */

static enum ks_status note_process(struct runs *runs, const struct ks_source *s, int64_t pid,
                                   struct ks_err *err)
{
    if (pid == 0) {
        return KS_OK;
    }
    bool is_new = false;
    uint64_t *known = ks_map_put(&runs->processes, (uint64_t)s->run, (uint64_t)pid, NULL);
    uint64_t *rank = ks_map_put(&runs->process_ranks, (uint64_t)pid, 0, &is_new);
    if (!known || !rank) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep runs: count=%zu",
                       runs->run_count);
    }
    *known = 1;
    *rank = is_new ? (uint64_t)(s->rank + 1) : *rank;
    return KS_OK;
}

static bool has_process(const struct runs *runs, size_t run, int64_t pid)
{
    return pid != 0 && ks_map_find(&runs->processes, run + 1, (uint64_t)pid) != NULL;
}

/* Is it of a process of the run, or of a child of one? */
static bool is_related(const struct runs *runs, size_t run, const struct ks_source *s)
{
    return has_process(runs, run, s->pid) || has_process(runs, run, s->parent_pid);
}

/* A process lies beside those of other ranks, and beside traces that do not say whose they are. */
static bool fits_recording(const struct runs *runs, size_t run, const struct ks_source *s)
{
    int64_t world_size = runs->world_sizes[run];
    if (world_size >= 0 && s->world_size >= 0 && world_size != s->world_size) {
        return false;
    }
    const struct rank_files *files = find_rank(runs, run, s->rank);
    return !files || files->pid == 0 || s->pid == 0 || is_related(runs, run, s);
}

/* The run of its process or else of its parent; or the first that it fits into; or a new one. */
static enum ks_status choose_recording_run(struct runs *runs, const struct ks_source *s,
                                           size_t *run, struct ks_err *err)
{
    for (*run = 0; *run < runs->run_count; ++*run) {
        if (is_related(runs, *run, s) && fits_recording(runs, *run, s)) {
            return KS_OK;
        }
    }
    for (*run = 0; *run < runs->run_count; ++*run) {
        if (fits_recording(runs, *run, s)) {
            return KS_OK;
        }
    }
    return add_run(runs, err);
}

/* Without a rank of its own it has that of its process, or of its parent. */
static void adopt_rank(const struct runs *runs, struct ks_source *s)
{
    const uint64_t *rank = ks_map_find(&runs->process_ranks, (uint64_t)s->pid, 0);
    rank = rank ? rank : ks_map_find(&runs->process_ranks, (uint64_t)s->parent_pid, 0);
    if (s->rank < 0 && rank) {
        s->rank = (int64_t)*rank - 1;
    }
}

static enum ks_status place_recording(struct runs *runs, struct ks_source *s, struct ks_err *err)
{
    size_t run = 0;
    adopt_rank(runs, s);
    KS_TRY(choose_recording_run(runs, s, &run, err));
    struct rank_files *files = add_rank(runs, run, s->rank, err);
    if (!files) {
        return KS_ERR_NOMEM;
    }
    files->pid = files->pid != 0 ? files->pid : s->pid;
    runs->world_sizes[run] = runs->world_sizes[run] >= 0 ? runs->world_sizes[run] : s->world_size;
    s->run = (int64_t)run + 1;
    return note_process(runs, s, s->pid, err);
}

/* Parents begin before their children. */
static enum ks_status place_recordings(struct runs *runs, uint32_t count, struct ks_err *err)
{
    struct cycle *list = ks_alloc((size_t)count + 1, sizeof(*list));
    enum ks_status status = KS_OK;
    size_t found = 0;
    if (!list) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep runs: count=%u", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct ks_source *s = ks_trace_builder_source(runs->builder, i);
        if (s->run >= 0 && s->is_recording) {
            list[found++] = (struct cycle){s, i};
        }
    }
    if (found > 1) {
        qsort(list, found, sizeof(*list), compare_bases);
    }
    for (size_t i = 0; i < found && status == KS_OK; i++) {
        status = place_recording(runs, ks_trace_builder_source(runs->builder, list[i].index), err);
    }
    ks_free(list);
    return status;
}

static void describe_source(const struct runs *runs, struct ks_source *s, uint32_t good)
{
    if (s->rank < 0) {
        s->rank = ks_rank_from_name(ks_trace_builder_str(runs->builder, s->path));
        s->counts[KS_STAT_rank_guessed] += s->rank >= 0;
    }
    s->is_absolute = s->has_base || (has_time(s) && s->start_ns >= UNIX_TIME_MIN_NS);
    s->counts[KS_STAT_unaligned_clock] += good > 1 && !s->is_absolute;
}

/* Traces first: recordings go where the traces of their processes are. */
static enum ks_status place_sources(struct runs *runs, struct ks_err *err)
{
    uint32_t count = ks_trace_builder_source_count(runs->builder);
    uint32_t good = 0;
    for (uint32_t i = 0; i < count; i++) {
        good += ks_trace_builder_source(runs->builder, i)->run >= 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct ks_source *s = ks_trace_builder_source(runs->builder, i);
        if (s->run >= 0) {
            describe_source(runs, s, good);
        }
        if (s->run >= 0 && !s->is_recording) {
            KS_TRY(place_source(runs, i, err));
            KS_TRY(note_process(runs, s, s->pid, err));
        }
    }
    return place_recordings(runs, count, err);
}

/* ------------------------------------------------------------ places in time */

/* Earliest start of the files with a clock, by run. */
static void find_first(const struct runs *runs, int64_t *first_ns)
{
    for (size_t run = 0; run < runs->run_count; run++) {
        first_ns[run] = KS_TIME_NONE;
    }
    for (uint32_t i = 0; i < ks_trace_builder_source_count(runs->builder); i++) {
        const struct ks_source *s = ks_trace_builder_source(runs->builder, i);
        if (s->run < 0 || !s->is_absolute || !has_time(s)) {
            continue;
        }
        int64_t *first = &first_ns[s->run - 1];
        *first = *first == KS_TIME_NONE || abs_start(s) < *first ? abs_start(s) : *first;
    }
}

/* A file without a clock cannot be put beside one that has one: it is shown as starting with the
 * earliest of them. Its counter unaligned_clock says so. */
static void place_unaligned(struct ks_source *s, int64_t first_ns)
{
    bool has_room = has_time(s) && first_ns <= KS_TIME_MAX_NS - (s->end_ns - s->start_ns);
    if (!s->is_absolute && has_room && first_ns != KS_TIME_NONE) {
        s->base_ns = first_ns - s->start_ns;
    }
}

static int compare_cycles(const void *left, const void *right)
{
    const struct cycle *a = left;
    const struct cycle *b = right;
    int order = compare_numbers(a->source->run, b->source->run);
    order = order ? order : compare_numbers(a->source->rank, b->source->rank);
    order = order ? order : compare_numbers(abs_start(a->source), abs_start(b->source));
    return order ? order : compare_numbers(a->index, b->index);
}

static bool is_same_rank(const struct ks_source *a, const struct ks_source *b)
{
    return a->run == b->run && a->rank == b->rank;
}

/* `cycles`: room for one of each source. */
static void number_cycles(struct ks_trace_builder *builder, struct cycle *cycles)
{
    size_t count = 0;
    for (uint32_t i = 0; i < ks_trace_builder_source_count(builder); i++) {
        struct ks_source *s = ks_trace_builder_source(builder, i);
        if (s->run >= 0) {
            s->cycle = 0;
        }
        if (s->run >= 0 && has_time(s) && !s->is_recording) {
            cycles[count++] = (struct cycle){s, i};
        }
    }
    if (count > 1) {
        qsort(cycles, count, sizeof(*cycles), compare_cycles);
    }
    for (size_t i = 1; i < count; i++) {
        const struct ks_source *before = cycles[i - 1].source;
        if (is_same_rank(before, cycles[i].source)) {
            ks_trace_builder_source(builder, cycles[i].index)->cycle = before->cycle + 1;
        }
    }
}

static enum ks_status place_in_time(const struct runs *runs, struct ks_err *err)
{
    uint32_t count = ks_trace_builder_source_count(runs->builder);
    int64_t *first_ns = ks_alloc(runs->run_count + 1, sizeof(*first_ns));
    struct cycle *cycles = ks_alloc((size_t)count + 1, sizeof(*cycles));
    enum ks_status status = KS_OK;
    if (first_ns && cycles) {
        find_first(runs, first_ns);
        for (uint32_t i = 0; i < count; i++) {
            struct ks_source *s = ks_trace_builder_source(runs->builder, i);
            if (s->run >= 0) {
                place_unaligned(s, first_ns[s->run - 1]);
            }
        }
        number_cycles(runs->builder, cycles); // by the places that all have now
    } else {
        status = ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep runs: count=%zu",
                         runs->run_count);
    }
    ks_free(first_ns);
    ks_free(cycles);
    return status;
}

enum ks_status ks_runs_assign(struct ks_trace_builder *builder, int64_t *run_count,
                              struct ks_err *err)
{
    struct runs runs = {.builder = builder};
    ks_map_init(&runs.index);
    ks_map_init(&runs.processes);
    ks_map_init(&runs.process_ranks);
    enum ks_status status = place_sources(&runs, err);
    if (status == KS_OK) {
        status = place_in_time(&runs, err);
    }
    *run_count = (int64_t)runs.run_count;
    for (size_t i = 0; i < runs.rank_count; i++) {
        ks_free(runs.ranks[i].timed);
    }
    ks_free(runs.ranks);
    ks_free(runs.world_sizes);
    ks_map_release(&runs.index);
    ks_map_release(&runs.processes);
    ks_map_release(&runs.process_ranks);
    return status;
}
