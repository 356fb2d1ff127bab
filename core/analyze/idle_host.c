#include "analyze/idle_host.h"

#include <inttypes.h>
#include <stdlib.h>

#include "analyze/lane_sweep.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

/* By priority: where rows of two states are open on a thread, the earlier one counts. */
enum state {
    STATE_ALLOCATOR,
    STATE_SYNC,
    STATE_DATA,
    STATE_COLLECTIVE,
    STATE_WORK, /* an operator or call */
    OPEN_COUNT,
    STATE_HOST_CODE = OPEN_COUNT, /* none is open */
    STATE_UNKNOWN,                /* none was seen yet, or none any more */
    STATE_COUNT,
};

struct tally {
    int64_t ns[STATE_COUNT];
    int64_t nested_rows; /* rows that the recorder wrote inside an operator or call */
    int64_t top_rows;    /* ... and between them */
};

/* Of a thread that launched what waited; most of many threads did not, and have none. */
struct asked {
    struct tally tally;
    struct tally behind; /* of the backers at the thread's now_ns, while it is quiet */
};

/* Times of threads, backers and wakes are on the host's clock, which leaves the stops out. */
struct ks_idle_thread {
    int64_t end_ns[OPEN_COUNT]; /* last end of rows of a state */
    int64_t busy_until_ns;      /* the latest of them */
    int64_t seen_until_ns;      /* last end of any row */
    int64_t sync_op_until_ns;   /* last end of operators that may wait for the device */
    int64_t now_ns;             /* the tally is right up to here */
    struct asked *asked;        /* or NULL */
    uint64_t rows_left;
    bool is_backer;
    bool has_begun;
    bool is_busy;  /* a row of a state is open */
    bool is_alive; /* between its first row and the end of its last */
};

struct ks_idle_backers {
    int64_t end_ns[OPEN_COUNT];
    int64_t seen_until_ns; /* of those that have ended */
    int64_t now_ns;
    size_t alive_count;
    struct tally tally; /* its rows are not counted */
};

/* When a thread turns quiet, or shows its last. */
struct ks_idle_wake {
    int64_t at_ns;
    uint32_t thread;
};

/* ------------------------------------------------------------ the profiler's own time */

static int compare_stops(const void *left, const void *right)
{
    const struct ks_idle_stop *a = left;
    const struct ks_idle_stop *b = right;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static enum ks_status add_stop(struct ks_idle_host *host, int64_t start_ns, int64_t end_ns,
                               struct ks_err *err)
{
    KS_TRY(ks_grow(&host->stops, host->stop_count, &host->stop_capacity, sizeof(*host->stops),
                   "overhead", err));
    host->stops[host->stop_count++] = (struct ks_idle_stop){start_ns, end_ns, 0};
    return KS_OK;
}

static enum ks_status collect_stops(struct ks_idle_host *host, const struct ks_lane *lane,
                                    struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    ks_slice_scan_open(&scan, host->analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_category),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        const uint8_t *at = scan.col.category;
        const uint8_t *end = at + scan.count;
        while (status == KS_OK && at < end &&
               (at = memchr(at, KS_CATEGORY_OVERHEAD, (size_t)(end - at))) != NULL) {
            size_t i = (size_t)(at++ - scan.col.category);
            int64_t start_ns = scan.col.start_ns[i];
            status = add_stop(host, start_ns, ks_sum_add(start_ns, scan.col.dur_ns[i]), err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

/* Makes the stops disjoint. */
static void merge_stops(struct ks_idle_host *host)
{
    struct ks_idle_stop *stops = host->stops;
    size_t kept = 0;
    if (host->stop_count == 0) {
        return;
    }
    qsort(stops, host->stop_count, sizeof(*stops), compare_stops);
    for (size_t i = 1; i < host->stop_count; i++) {
        struct ks_idle_stop *last = &stops[kept];
        if (stops[i].start_ns <= last->end_ns) {
            last->end_ns = stops[i].end_ns > last->end_ns ? stops[i].end_ns : last->end_ns;
        } else {
            int64_t before_ns = last->before_ns + (last->end_ns - last->start_ns);
            stops[++kept] = (struct ks_idle_stop){stops[i].start_ns, stops[i].end_ns, before_ns};
        }
    }
    host->stop_count = kept + 1;
}

/* The host's clock at a moment. */
static int64_t clock_at(const struct ks_idle_host *host, int64_t ns)
{
    size_t begin = 0;
    size_t end = host->stop_count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (host->stops[middle].start_ns < ns) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    if (begin == 0) {
        return ns;
    }
    const struct ks_idle_stop *stop = &host->stops[begin - 1];
    int64_t until_ns = ns < stop->end_ns ? ns : stop->end_ns;
    return ns - stop->before_ns - (until_ns - stop->start_ns);
}

/* ------------------------------------------------------------ wakes */

static void push_wake(struct ks_idle_host *host, int64_t at_ns, const struct ks_idle_thread *thread)
{
    struct ks_idle_wake *heap = host->wakes;
    size_t at = host->wake_count++;
    while (at > 0 && at_ns < heap[(at - 1) / 2].at_ns) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = (struct ks_idle_wake){at_ns, (uint32_t)(thread - host->threads)};
}

static struct ks_idle_thread *pop_wake(struct ks_idle_host *host)
{
    struct ks_idle_wake *heap = host->wakes;
    uint32_t first = heap[0].thread;
    size_t count = --host->wake_count;
    struct ks_idle_wake moving = heap[count];
    size_t at = 0;
    for (size_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && heap[child + 1].at_ns < heap[child].at_ns) {
            child++;
        }
        if (heap[child].at_ns >= moving.at_ns) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
    return &host->threads[first];
}

/* ------------------------------------------------------------ time that passes */

/* Gives the time up to `until_ns` to the states that are open, in their order. */
static void spread(const int64_t *end_ns, int64_t *now_ns, int64_t until_ns, struct tally *tally)
{
    for (int state = 0; state < OPEN_COUNT && *now_ns < until_ns; state++) {
        int64_t to_ns = end_ns[state] < until_ns ? end_ns[state] : until_ns;
        if (to_ns > *now_ns) {
            tally->ns[state] += to_ns - *now_ns;
            *now_ns = to_ns;
        }
    }
}

static void advance_backers(struct ks_idle_backers *backers, int64_t until_ns)
{
    spread(backers->end_ns, &backers->now_ns, until_ns, &backers->tally);
    if (backers->now_ns < until_ns) {
        int64_t alive_until_ns = backers->alive_count > 0 ? until_ns : backers->seen_until_ns;
        alive_until_ns = alive_until_ns < until_ns ? alive_until_ns : until_ns;
        if (alive_until_ns > backers->now_ns) {
            backers->tally.ns[STATE_HOST_CODE] += alive_until_ns - backers->now_ns;
            backers->now_ns = alive_until_ns;
        }
        backers->tally.ns[STATE_UNKNOWN] += until_ns - backers->now_ns;
        backers->now_ns = until_ns;
    }
}

/* Brings the tally up to `until_ns`, before which the thread does not turn quiet or end. */
static void settle(struct ks_idle_host *host, struct ks_idle_thread *thread, int64_t until_ns)
{
    if (thread->is_busy) {
        spread(thread->end_ns, &thread->now_ns, until_ns, &thread->asked->tally);
        return;
    }
    struct ks_idle_backers *backers = host->backers;
    advance_backers(backers, until_ns);
    for (int state = 0; state < STATE_COUNT; state++) {
        int64_t ns = backers->tally.ns[state] - thread->asked->behind.ns[state];
        bool is_own = state == STATE_UNKNOWN && thread->is_alive;
        thread->asked->tally.ns[is_own ? STATE_HOST_CODE : state] += ns;
    }
    thread->asked->behind = backers->tally;
    thread->now_ns = until_ns;
}

/* After its last row: the thread shows something until the last end. */
static void end_thread(struct ks_idle_host *host, struct ks_idle_thread *thread, int64_t now_ns)
{
    if (thread->seen_until_ns > now_ns) {
        push_wake(host, thread->seen_until_ns, thread);
    } else {
        thread->is_alive = false;
    }
}

static void wake(struct ks_idle_host *host, int64_t at_ns)
{
    struct ks_idle_thread *thread = pop_wake(host);
    if (thread->is_busy && thread->busy_until_ns > at_ns) {
        push_wake(host, thread->busy_until_ns, thread);
        return;
    }
    settle(host, thread, at_ns);
    if (!thread->is_busy) {
        thread->is_alive = false;
        return;
    }
    advance_backers(host->backers, at_ns);
    thread->is_busy = false;
    thread->asked->behind = host->backers->tally;
    if (thread->rows_left == 0) {
        end_thread(host, thread, at_ns);
    }
}

static void wake_until(struct ks_idle_host *host, int64_t until_ns)
{
    while (host->wake_count > 0 && host->wakes[0].at_ns <= until_ns) {
        wake(host, host->wakes[0].at_ns);
    }
}

/* ------------------------------------------------------------ rows */

/* OPEN_COUNT: the row is none. */
static enum state state_of(const struct ks_sweep_row *row, unsigned name_flags)
{
    switch (row->category) {
    case KS_CATEGORY_RUNTIME:
    case KS_CATEGORY_DRIVER:
        return name_flags & KS_NAME_ALLOCATOR ? STATE_ALLOCATOR
               : name_flags & KS_NAME_SYNC    ? STATE_SYNC
                                              : STATE_WORK;
    case KS_CATEGORY_NONE:
    case KS_CATEGORY_CPU_OP:
    case KS_CATEGORY_USER_ANNOTATION:
        if (name_flags & KS_NAME_LOADER) {
            return STATE_DATA;
        }
        if (name_flags & (KS_NAME_HOST_COMM | KS_NAME_COMM_WAIT)) {
            return STATE_COLLECTIVE;
        }
        return row->category == KS_CATEGORY_USER_ANNOTATION ||
                       (name_flags & (KS_NAME_STEP | KS_NAME_OPTIMIZER))
                   ? OPEN_COUNT
                   : STATE_WORK;
    default: return OPEN_COUNT;
    }
}

static bool is_call(enum ks_category category)
{
    return category == KS_CATEGORY_RUNTIME || category == KS_CATEGORY_DRIVER;
}

/* Counts a row by what is open on its thread. */
static void count_row(struct ks_idle_thread *thread, int64_t start_ns)
{
    if (thread->busy_until_ns <= start_ns) {
        thread->asked->tally.top_rows++;
        return;
    }
    for (int state = 0; state < STATE_WORK; state++) {
        if (thread->end_ns[state] > start_ns) {
            return;
        }
    }
    thread->asked->tally.nested_rows++;
}

/* Lets a state last until `end_ns`; the tallies are right up to `now_ns`. */
static void open_state(struct ks_idle_host *host, struct ks_idle_thread *thread, enum state state,
                       int64_t now_ns, int64_t end_ns)
{
    if (end_ns <= thread->end_ns[state]) {
        return;
    }
    thread->end_ns[state] = end_ns;
    thread->busy_until_ns = end_ns > thread->busy_until_ns ? end_ns : thread->busy_until_ns;
    if (thread->is_backer && end_ns > host->backers->end_ns[state]) {
        host->backers->end_ns[state] = end_ns;
    }
    if (thread->asked && !thread->is_busy && end_ns > now_ns) {
        thread->is_busy = true;
        push_wake(host, thread->busy_until_ns, thread);
    }
}

/* From its first row of backward() on, a thread stands behind the others. */
static void join_backers(struct ks_idle_host *host, struct ks_idle_thread *thread)
{
    thread->is_backer = true;
    host->backers->alive_count++;
    for (int state = 0; state < OPEN_COUNT; state++) {
        if (thread->end_ns[state] > host->backers->end_ns[state]) {
            host->backers->end_ns[state] = thread->end_ns[state];
        }
    }
}

static void begin_thread(struct ks_idle_host *host, struct ks_idle_thread *thread)
{
    thread->has_begun = true;
    thread->is_alive = true;
    host->backers->alive_count += thread->is_backer;
}

static void end_of_rows(struct ks_idle_host *host, struct ks_idle_thread *thread, int64_t now_ns)
{
    if (thread->is_backer) {
        host->backers->alive_count--;
        if (thread->seen_until_ns > host->backers->seen_until_ns) {
            host->backers->seen_until_ns = thread->seen_until_ns;
        }
    }
    if (thread->asked && !thread->is_busy) {
        end_thread(host, thread, now_ns);
    }
}

/* What a row changes on its thread. */
struct news {
    enum state state;
    int64_t now_ns;
    int64_t end_ns;
    bool is_joining; /* the thread turns out to run backward() */
    bool is_waiting; /* the operator around the row waits for the device from here on */
    bool is_last;
};

static struct news read_row(struct ks_idle_host *host, const struct ks_idle_thread *thread,
                            const struct ks_sweep_row *row, int64_t now_ns, unsigned flags)
{
    return (struct news){
        .state = state_of(row, flags),
        .now_ns = now_ns,
        .end_ns = clock_at(host, row->end_ns),
        .is_joining = (flags & KS_NAME_BACKWARD) && !thread->is_backer,
        .is_waiting = is_call(row->category) && (flags & (KS_NAME_SYNC | KS_NAME_COPY)) &&
                      thread->sync_op_until_ns > now_ns,
        .is_last = thread->rows_left == 1,
    };
}

/* Most rows lie inside others of their state, and change nothing. */
static bool is_change(const struct ks_idle_thread *thread, const struct news *news)
{
    return !thread->has_begun || news->is_last || news->is_joining || news->is_waiting ||
           (news->state != OPEN_COUNT && news->end_ns > thread->end_ns[news->state]);
}

static void apply(struct ks_idle_host *host, struct ks_idle_thread *thread, const struct news *news)
{
    if (thread->is_backer || news->is_joining) {
        advance_backers(host->backers, news->now_ns);
    }
    if (thread->asked) {
        settle(host, thread, news->now_ns);
    }
    if (!thread->has_begun) {
        begin_thread(host, thread);
    }
    if (news->is_joining) {
        join_backers(host, thread);
    }
    if (news->state != OPEN_COUNT) {
        open_state(host, thread, news->state, news->now_ns, news->end_ns);
    }
    if (news->is_waiting) {
        open_state(host, thread, STATE_SYNC, news->now_ns, thread->sync_op_until_ns);
    }
}

static bool is_counted(enum ks_category category)
{
    return is_call(category) || category == KS_CATEGORY_CPU_OP ||
           category == KS_CATEGORY_USER_ANNOTATION;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void note_row(struct ks_idle_host *host, const struct ks_sweep_row *row, int64_t now_ns)
{
    struct ks_idle_thread *thread = &host->threads[host->index_of[row->lane] - 1];
    bool is_named = row->category != KS_CATEGORY_PYTHON;
    unsigned flags = is_named ? ks_row_names_get(&host->analyzer->names, row->name) : 0;
    struct news news = read_row(host, thread, row, now_ns, flags);
    if (thread->asked && is_counted(row->category)) {
        count_row(thread, now_ns);
    }
    if (is_change(thread, &news)) {
        apply(host, thread, &news);
    }
    if (row->category == KS_CATEGORY_CPU_OP && (flags & KS_NAME_SYNC)) {
        thread->sync_op_until_ns = later(thread->sync_op_until_ns, news.end_ns);
    }
    thread->seen_until_ns = later(thread->seen_until_ns, news.end_ns);
    thread->rows_left--;
    if (news.is_last) {
        end_of_rows(host, thread, now_ns);
    }
}

/* ------------------------------------------------------------ parts */

static int64_t at_most(int64_t ns, int64_t most_ns)
{
    return ns < most_ns ? ns : most_ns;
}

/* What the thread did between two tallies. Recording a row costs time where it is written: inside
 * an operator it is taken for launching, between operators for host code. */
static void find_causes(const struct ks_idle_host *host, const struct tally *before,
                        const struct tally *after, int64_t part_ns, int64_t cause_ns[KS_IDLE_COUNT])
{
    int64_t ns[STATE_COUNT];
    int64_t clock_ns = 0;
    for (int state = 0; state < STATE_COUNT; state++) {
        ns[state] = after->ns[state] - before->ns[state];
        clock_ns += ns[state];
    }
    int64_t row_ns = host->analyzer->facts->sources[host->source].row_cost_ns;
    int64_t nested_ns = ks_sum_scale(after->nested_rows - before->nested_rows, row_ns);
    int64_t top_ns = ks_sum_scale(after->top_rows - before->top_rows, row_ns);
    nested_ns = at_most(nested_ns, ns[STATE_WORK]);
    top_ns = at_most(top_ns, ns[STATE_HOST_CODE]);
    cause_ns[KS_IDLE_DATA] = ns[STATE_DATA];
    cause_ns[KS_IDLE_HOST_CODE] = ns[STATE_HOST_CODE] - top_ns;
    cause_ns[KS_IDLE_PROFILER] = part_ns - clock_ns + top_ns;
    cause_ns[KS_IDLE_UNKNOWN] = ns[STATE_UNKNOWN];
    if (host->is_device) {
        return; /* all else is work */
    }
    cause_ns[KS_IDLE_SYNC] = ns[STATE_SYNC];
    cause_ns[KS_IDLE_LAUNCH] = ns[STATE_WORK] - nested_ns;
    cause_ns[KS_IDLE_ALLOCATOR] = ns[STATE_ALLOCATOR];
    cause_ns[KS_IDLE_COLLECTIVE] = ns[STATE_COLLECTIVE];
    cause_ns[KS_IDLE_PROFILER] += nested_ns;
}

static void note_point(struct ks_idle_host *host, const struct ks_idle_part *part, bool is_end,
                       int64_t now_ns, struct tally *slots)
{
    struct ks_idle_thread *thread = &host->threads[host->index_of[part->thread] - 1];
    settle(host, thread, now_ns);
    if (!is_end) {
        slots[part->slot] = thread->asked->tally;
        return;
    }
    int64_t cause_ns[KS_IDLE_COUNT] = {0};
    find_causes(host, &slots[part->slot], &thread->asked->tally, part->until_ns - part->from_ns,
                cause_ns);
    for (size_t sink = 0; sink < KS_IDLE_SINKS && part->sinks[sink]; sink++) {
        for (int cause = 0; cause < KS_IDLE_COUNT; cause++) {
            part->sinks[sink][cause] += cause_ns[cause];
        }
    }
}

static enum ks_status pass_rows(struct ks_idle_host *host, const struct ks_idle_gaps *gaps,
                                struct ks_lane_sweep *sweep, struct tally *slots,
                                struct ks_err *err)
{
    size_t point_count = 2 * gaps->count;
    size_t point = 0;
    struct ks_sweep_row row;
    enum ks_status status = KS_OK;
    while (point < point_count) {
        status = status == KS_END ? KS_END : ks_lane_sweep_next(sweep, &row, err);
        if (status != KS_OK && status != KS_END) {
            return status;
        }
        while (point < point_count &&
               (status == KS_END || gaps->points[point].at_ns <= row.start_ns)) {
            const struct ks_idle_point *at = &gaps->points[point++];
            int64_t now_ns = clock_at(host, at->at_ns);
            wake_until(host, now_ns);
            note_point(host, &gaps->parts[at->part_and_side / 2], at->part_and_side & 1, now_ns,
                       slots);
        }
        if (status == KS_OK) {
            int64_t now_ns = clock_at(host, row.start_ns);
            wake_until(host, now_ns);
            note_row(host, &row, now_ns);
        }
    }
    return KS_OK;
}

/* All clocks start at the first moment that anyone asks about. */
static void start_clocks(struct ks_idle_host *host, int64_t first_ns)
{
    int64_t trace_start_ns = 0;
    int64_t trace_end_ns = 0;
    ks_trace_span(host->analyzer->trace, &trace_start_ns, &trace_end_ns);
    int64_t now_ns = clock_at(host, trace_start_ns < first_ns ? trace_start_ns : first_ns);
    host->backers->now_ns = now_ns;
    for (size_t i = 0; i < host->thread_count; i++) {
        host->threads[i].now_ns = now_ns;
    }
}

static enum ks_status ask(struct ks_idle_host *host, uint32_t track, struct ks_err *err)
{
    struct ks_idle_thread *thread = &host->threads[host->index_of[track] - 1];
    if (!thread->asked) {
        thread->asked = ks_new(&host->analyzer->scratch, struct asked, 1);
    }
    return thread->asked ? KS_OK
                         : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET,
                                   "Cannot divide idle time: track=%" PRIu32, track);
}

enum ks_status ks_idle_host_divide(struct ks_idle_host *host, const struct ks_idle_gaps *gaps,
                                   size_t slot_count, struct ks_err *err)
{
    if (gaps->count == 0) {
        return KS_OK;
    }
    struct ks_arena *scratch = &host->analyzer->scratch;
    struct tally *slots = ks_new(scratch, struct tally, slot_count);
    if (!slots) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot divide idle time: lanes=%zu",
                       slot_count);
    }
    for (size_t i = 0; i < gaps->count; i++) {
        KS_TRY(ask(host, gaps->parts[i].thread, err));
    }
    start_clocks(host, gaps->points[0].at_ns);
    struct ks_lane_sweep sweep;
    KS_TRY(ks_lane_sweep_open(&sweep, host->analyzer->trace, host->source, KS_SWEEP_THREADS,
                              scratch, err));
    enum ks_status status = pass_rows(host, gaps, &sweep, slots, err);
    ks_lane_sweep_close(&sweep);
    return status;
}

/* ------------------------------------------------------------ threads of a source */

static enum ks_status note_thread(struct ks_idle_host *host, const struct ks_lane *lane,
                                  struct ks_err *err)
{
    struct ks_idle_thread *thread = &host->threads[host->thread_count];
    thread->rows_left = lane->row_end - lane->row_begin;
    thread->busy_until_ns = INT64_MIN;
    thread->seen_until_ns = INT64_MIN;
    thread->sync_op_until_ns = INT64_MIN;
    for (int state = 0; state < OPEN_COUNT; state++) {
        thread->end_ns[state] = INT64_MIN;
    }
    host->index_of[lane->track] = (uint32_t)++host->thread_count;
    return collect_stops(host, lane, err);
}

bool ks_idle_host_has(const struct ks_idle_host *host, uint32_t track)
{
    return track != 0 && host->index_of[track] != 0;
}

enum ks_status ks_idle_host_init(struct ks_idle_host *host, struct ks_analyzer *analyzer,
                                 uint32_t source, uint32_t *index_of, struct ks_err *err)
{
    *host = (struct ks_idle_host){.analyzer = analyzer, .source = source, .index_of = index_of};
    size_t count = 0;
    const struct ks_lane *lanes =
        ks_lane_sweep_lanes(analyzer->trace, KS_TABLE_slice, source, &count);
    host->threads = ks_new(&analyzer->scratch, struct ks_idle_thread, count + 1);
    host->backers = ks_new(&analyzer->scratch, struct ks_idle_backers, 1);
    host->wakes = ks_new(&analyzer->scratch, struct ks_idle_wake, count + 1);
    if (!host->threads || !host->backers || !host->wakes) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep threads: count=%zu", count);
    }
    for (size_t i = 0; i < count; i++) {
        if (ks_trace_track(analyzer->trace, lanes[i].track)->kind == KS_TRACK_THREAD) {
            KS_TRY(note_thread(host, &lanes[i], err));
        }
    }
    merge_stops(host);
    host->main_thread = ks_step_lookup_thread(analyzer->facts, source);
    host->backers->seen_until_ns = INT64_MIN;
    for (int state = 0; state < OPEN_COUNT; state++) {
        host->backers->end_ns[state] = INT64_MIN;
    }
    if (ks_idle_host_has(host, host->main_thread)) {
        host->threads[index_of[host->main_thread] - 1].is_backer = true;
    }
    return KS_OK;
}

void ks_idle_host_release(struct ks_idle_host *host)
{
    ks_free(host->stops);
    *host = (struct ks_idle_host){0};
}
