#include "store/merge.h"

#include "base/alloc.h"
#include "base/err.h"
#include "store/sort.h"

enum {
    STAGED_MAX = 128, /* rows that are collected before the sink is called */
    DIRECT_MIN = 32,  /* so many rows in a stretch go to the sink from where they are */
};

/* How far a run has been taken. */
struct cursor {
    struct ks_row_head head; /* of the next row */
    struct ks_run *run;      /* runs lie in one array: the lower address was there first */
    char *next;              /* NULL: not pinned yet */
    uint32_t left;
};

struct merger {
    const struct ks_merge *merge;
    struct cursor *heap; /* heap[0] has the smallest row */
    size_t count;
    char *staged;
    size_t staged_count;
};

static inline bool cursor_before(const struct cursor *a, const struct cursor *b)
{
    if (ks_row_head_before(&a->head, &b->head)) {
        return true;
    }
    return !ks_row_head_before(&b->head, &a->head) && a->run < b->run;
}

static void sift_down(struct cursor *heap, size_t count, size_t at)
{
    struct cursor cursor = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count) {
            break;
        }
        if (child + 1 < count && cursor_before(&heap[child + 1], &heap[child])) {
            child++;
        }
        if (!cursor_before(&heap[child], &cursor)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = cursor;
}

/* The second smallest is a child of the root. NULL when there is no other run. */
static const struct cursor *runner_up(const struct merger *m)
{
    if (m->count < 2) {
        return NULL;
    }
    bool is_second = m->count > 2 && cursor_before(&m->heap[2], &m->heap[1]);
    return &m->heap[is_second ? 2 : 1];
}

/* Does the row at `row` of `winner` still come before the head of `other`? */
static bool row_wins(const struct cursor *winner, const struct ks_row_head *row,
                     const struct cursor *other)
{
    if (ks_row_head_before(row, &other->head)) {
        return true;
    }
    return !ks_row_head_before(&other->head, row) && winner->run < other->run;
}

/* Number of rows of the winner that come before the runner-up: at least 1. Whole run first, then
 * steps that double, then halving: cheap for long stretches and for short ones. */
static uint32_t stretch_length(const struct merger *m, const struct cursor *winner)
{
    const struct cursor *other = runner_up(m);
    if (!other || row_wins(winner, &winner->run->last, other)) {
        return winner->left;
    }
    size_t row_size = m->merge->row_size;
    uint32_t in = 0; // this row comes before the runner-up
    uint32_t step = 1;
    while (in + step < winner->left) {
        struct ks_row_head head = ks_row_head_at(winner->next + (in + step) * row_size);
        if (!row_wins(winner, &head, other)) {
            break;
        }
        in += step;
        step *= 2;
    }
    uint32_t out = in + step < winner->left ? in + step : winner->left;
    while (out - in > 1) {
        uint32_t middle = in + (out - in) / 2;
        struct ks_row_head head = ks_row_head_at(winner->next + middle * row_size);
        if (row_wins(winner, &head, other)) {
            in = middle;
        } else {
            out = middle;
        }
    }
    return out;
}

static enum ks_status flush(struct merger *m, struct ks_err *err)
{
    size_t count = m->staged_count;
    m->staged_count = 0;
    return count == 0 ? KS_OK : m->merge->sink(m->merge->user, m->staged, count, err);
}

static enum ks_status emit(struct merger *m, char *rows, uint32_t count, struct ks_err *err)
{
    size_t row_size = m->merge->row_size;
    if (count >= DIRECT_MIN) {
        KS_TRY(flush(m, err));
        return m->merge->sink(m->merge->user, rows, count, err);
    }
    if (m->staged_count + count > STAGED_MAX) {
        KS_TRY(flush(m, err));
    }
    memcpy(m->staged + m->staged_count * row_size, rows, count * row_size);
    m->staged_count += count;
    return KS_OK;
}

/* Takes the stretch at the root and puts its run back into order. */
static enum ks_status take_stretch(struct merger *m, struct ks_err *err)
{
    struct cursor *winner = &m->heap[0];
    struct ks_chunk_pool *pool = m->merge->pool;
    if (!winner->next) {
        KS_TRY(ks_chunk_pin(pool, winner->run->chunk, err));
        winner->next = winner->run->chunk->ptr;
    }
    uint32_t count = stretch_length(m, winner);
    KS_TRY(emit(m, winner->next, count, err));
    winner->next += count * m->merge->row_size;
    winner->left -= count;
    if (winner->left > 0) {
        winner->head = ks_row_head_at(winner->next);
    } else {
        ks_chunk_unpin(pool, winner->run->chunk, false);
        ks_chunk_destroy(pool, winner->run->chunk);
        winner->run->chunk = NULL;
        *winner = m->heap[--m->count];
    }
    if (m->count > 1) {
        sift_down(m->heap, m->count, 0);
    }
    return KS_OK;
}

static void build_heap(struct merger *m, struct ks_run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (runs[i].chunk) {
            m->heap[m->count++] =
                (struct cursor){.head = runs[i].first, .run = &runs[i], .left = runs[i].rows};
        }
    }
    for (size_t i = m->count / 2; i-- > 0;) {
        sift_down(m->heap, m->count, i);
    }
}

/* One pass over all runs. */
static enum ks_status merge_all(const struct ks_merge *merge, struct ks_run *runs, size_t count,
                                struct ks_err *err)
{
    struct merger m = {.merge = merge};
    m.heap = ks_alloc(count, sizeof(*m.heap));
    m.staged = ks_alloc(STAGED_MAX, merge->row_size);
    enum ks_status status = KS_OK;
    if (!m.heap || !m.staged) {
        status = ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot merge runs: count=%zu", count);
        goto done;
    }
    build_heap(&m, runs, count);
    while (status == KS_OK && m.count > 0) {
        status = take_stretch(&m, err);
    }
    if (status == KS_OK) {
        status = flush(&m, err);
    }
    /* After a failure nobody takes the rest, but nothing may stay pinned. */
    for (size_t i = 0; i < m.count; i++) {
        if (m.heap[i].next) {
            ks_chunk_unpin(merge->pool, m.heap[i].run->chunk, false);
        }
    }
done:
    ks_free(m.heap);
    ks_free(m.staged);
    return status;
}

/* ------------------------------------------------------------------ depth */

/* Heads sorted, equal ones in the order of the runs. */
static enum ks_status sort_heads(const struct ks_run *runs, size_t count, bool of_last,
                                 struct ks_row_head *heads, struct ks_sorter *sorter,
                                 struct ks_err *err)
{
    for (size_t i = 0; i < count; i++) {
        heads[i] = of_last ? runs[i].last : runs[i].first;
    }
    KS_TRY(ks_sorter_reserve(sorter, count, err));
    ks_sorter_order(sorter, (const char *)heads, sizeof(*heads), count);
    return KS_OK;
}

static bool key_before(const struct ks_row_key *a, const struct ks_row_key *b)
{
    return ks_row_key_before(a, b) || (!ks_row_key_before(b, a) && a->index < b->index);
}

/* Walks the begins and ends of all runs in order. A run ends before an equal begin of a later run,
 * as in the merge itself. */
static size_t depth_of(const struct ks_row_key *firsts, const struct ks_row_key *lasts,
                       size_t count)
{
    size_t depth_max = 0;
    size_t ended = 0;
    for (size_t begun = 0; begun < count; begun++) {
        const struct ks_row_key *first = &firsts[begun];
        while (key_before(&lasts[ended], first)) {
            ended++;
        }
        size_t depth = begun + 1 - ended;
        depth_max = depth > depth_max ? depth : depth_max;
    }
    return depth_max;
}

enum ks_status ks_merge_depth(const struct ks_run *runs, size_t count, size_t *depth,
                              struct ks_err *err)
{
    *depth = count;
    if (count < 2) {
        return KS_OK;
    }
    struct ks_sorter firsts;
    struct ks_sorter lasts;
    ks_sorter_init(&firsts);
    ks_sorter_init(&lasts);
    enum ks_status status = KS_OK;
    struct ks_row_head *heads = ks_alloc(count, sizeof(*heads));
    if (!heads) {
        status = ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot merge runs: count=%zu", count);
    }
    if (status == KS_OK) {
        status = sort_heads(runs, count, false, heads, &firsts, err);
    }
    if (status == KS_OK) {
        status = sort_heads(runs, count, true, heads, &lasts, err);
    }
    if (status == KS_OK) {
        *depth = depth_of(firsts.keys, lasts.keys, count);
    }
    ks_free(heads);
    ks_sorter_release(&firsts);
    ks_sorter_release(&lasts);
    return status;
}

/* ------------------------------------------------------------------ several passes */

/* Cuts the merged rows of a pass into runs again. */
struct run_writer {
    const struct ks_merge *merge;
    struct ks_run *runs;
    size_t count;
    size_t capacity;
    uint64_t rows_left; /* still to come in this group */
    uint32_t room;      /* rows that fit in the open run; 0: none is open */
};

static enum ks_status open_run(struct run_writer *writer, struct ks_err *err)
{
    if (writer->count == writer->capacity) {
        size_t capacity = writer->capacity == 0 ? 64 : writer->capacity * 2;
        struct ks_run *runs = ks_realloc(writer->runs, capacity, sizeof(*runs));
        if (!runs) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot merge runs: count=%zu",
                           capacity);
        }
        writer->runs = runs;
        writer->capacity = capacity;
    }
    size_t row_size = writer->merge->row_size;
    uint64_t rows = writer->merge->run_bytes / row_size;
    rows = rows < 2 ? 2 : rows;
    rows = rows < writer->rows_left ? rows : writer->rows_left;
    struct ks_run run = {0};
    KS_TRY(ks_chunk_create_raw(writer->merge->pool, (size_t)rows * row_size, &run.chunk, err));
    writer->runs[writer->count++] = run;
    writer->room = (uint32_t)rows;
    return KS_OK;
}

static enum ks_status write_run(void *user, char *rows, size_t count, struct ks_err *err)
{
    struct run_writer *writer = user;
    size_t row_size = writer->merge->row_size;
    while (count > 0) {
        if (writer->room == 0) {
            KS_TRY(open_run(writer, err));
        }
        struct ks_run *run = &writer->runs[writer->count - 1];
        uint32_t n = count < writer->room ? (uint32_t)count : writer->room;
        memcpy((char *)run->chunk->ptr + run->rows * row_size, rows, n * row_size);
        if (run->rows == 0) {
            run->first = ks_row_head_at(rows);
        }
        run->last = ks_row_head_at(rows + (n - 1) * row_size);
        run->rows += n;
        writer->room -= n;
        writer->rows_left -= n;
        if (writer->room == 0) {
            ks_chunk_unpin(writer->merge->pool, run->chunk, true);
        }
        rows += n * row_size;
        count -= n;
    }
    return KS_OK;
}

/* A chain is runs that do not overlap, because one pass wrote them: from begins[i] to the next. */
struct chains {
    struct ks_run *runs;
    size_t run_count;
    size_t *begins;
    size_t count;
};

/* Merges each fan_in chains to one. The new runs replace the old ones, which are all consumed. */
static enum ks_status shorten(const struct ks_merge *merge, struct chains *chains,
                              struct ks_err *err)
{
    struct run_writer writer = {.merge = merge};
    struct ks_merge pass = *merge;
    pass.sink = write_run;
    pass.user = &writer;

    size_t merged = 0;
    for (size_t i = 0; i < chains->count; i += merge->fan_in) {
        size_t next = i + merge->fan_in;
        size_t begin = chains->begins[i];
        size_t end = next < chains->count ? chains->begins[next] : chains->run_count;
        for (size_t r = begin; r < end; r++) {
            writer.rows_left += chains->runs[r].chunk ? chains->runs[r].rows : 0;
        }
        chains->begins[merged++] = writer.count; // never past what has been read of it
        enum ks_status status = merge_all(&pass, chains->runs + begin, end - begin, err);
        if (status != KS_OK) {
            ks_free(writer.runs);
            return status;
        }
    }
    chains->runs = writer.runs;
    chains->run_count = writer.count;
    chains->count = merged;
    return KS_OK;
}

static enum ks_status merge_in_passes(const struct ks_merge *merge, struct ks_run *runs,
                                      size_t count, struct ks_err *err)
{
    struct chains chains = {.runs = runs, .run_count = count, .count = count};
    chains.begins = ks_alloc(count, sizeof(*chains.begins));
    if (!chains.begins) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot merge runs: count=%zu", count);
    }
    for (size_t i = 0; i < count; i++) {
        chains.begins[i] = i;
    }
    enum ks_status status = KS_OK;
    while (status == KS_OK && chains.count > merge->fan_in) {
        struct ks_run *old = chains.runs;
        status = shorten(merge, &chains, err);
        if (status == KS_OK && old != runs) {
            ks_free(old);
        }
    }
    if (status == KS_OK) {
        status = merge_all(merge, chains.runs, chains.run_count, err);
    }
    if (chains.runs != runs) {
        ks_free(chains.runs);
    }
    ks_free(chains.begins);
    return status;
}

enum ks_status ks_merge_runs(const struct ks_merge *merge, struct ks_run *runs, size_t count,
                             struct ks_err *err)
{
    KS_ASSERT(merge->fan_in >= 2);
    if (count > merge->fan_in) {
        size_t depth = 0;
        KS_TRY(ks_merge_depth(runs, count, &depth, err));
        if (depth > merge->fan_in) {
            return merge_in_passes(merge, runs, count, err);
        }
    }
    return merge_all(merge, runs, count, err);
}
