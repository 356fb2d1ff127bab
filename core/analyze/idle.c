/* A5: why devices, streams and steps are idle (docs/analyses/idle.md).
 *
 * The rows of a source's devices pass once. Each row that starts after its stream, its device, or
 * all devices had ended their work ends an idle interval. Behind the launch of that row the cause
 * is known at once; the part before it is kept, and idle_host.c divides it by what the launching
 * thread did. A rank without GPU work is judged by the thread of each step alone.
 */
#include "analyze/idle_gaps.h"
#include "analyze/idle_host.h"
#include "analyze/lane_sweep.h"
#include "analyze/registry.h"
#include "analyze/step_lookup.h"
#include "base/err.h"

/* Where the work of a stream, a device, or all devices ends so far. */
struct work_end {
    bool has_begun;
    int64_t end_ns;
};

/* [start, host_until) is for the host to explain, [host_until, end) has one cause. */
struct gap {
    int64_t start_ns;
    int64_t host_until_ns;
    int64_t end_ns;
    uint32_t thread;
    enum ks_idle_cause rest;
};

/* The last collectives of a device that follow each other without a pause. */
struct collectives {
    int64_t start_ns;
    int64_t end_ns;
};

struct idle {
    struct ks_analyzer *analyzer;
    uint32_t *thread_index; /* by track, for idle_host.c */
    uint32_t *fact_index;   /* by track of a device or stream: 1 + index of its facts */
    struct work_end *streams;
    struct work_end *devices;
    struct collectives *collectives; /* by device */
    /* Of the source at hand: */
    uint32_t source;
    struct ks_idle_host host;
    struct ks_idle_gaps gaps;
    struct work_end all;
    size_t step; /* first step that may still hold idle time */
    bool has_work;
};

/* ------------------------------------------------------------ intervals */

/* What a row says about the idle time since `before` ended. */
static struct gap describe(const struct idle *idle, const struct work_end *before,
                           const struct ks_sweep_row *row)
{
    struct gap gap = {before->has_begun ? before->end_ns : INT64_MIN, INT64_MIN, row->start_ns,
                      row->launch_lane, KS_IDLE_UNKNOWN};
    gap.host_until_ns = gap.start_ns;
    if (row->launch_ns == KS_TIME_NONE || !ks_idle_host_has(&idle->host, row->launch_lane)) {
        return gap;
    }
    if (row->launch_ns > gap.start_ns) {
        gap.host_until_ns = row->launch_ns < gap.end_ns ? row->launch_ns : gap.end_ns;
        gap.rest = KS_IDLE_LAUNCH;
        return gap;
    }
    int64_t least_ns = idle->analyzer->facts->sources[idle->source].delay_ns_min;
    bool is_fresh = least_ns != KS_UNKNOWN && gap.start_ns - row->launch_ns < least_ns;
    gap.rest = is_fresh ? KS_IDLE_LAUNCH : KS_IDLE_KERNEL_TO_KERNEL;
    return gap;
}

static void note_end(struct work_end *end, const struct ks_sweep_row *row)
{
    if (!end->has_begun || row->end_ns > end->end_ns) {
        *end = (struct work_end){true, row->end_ns};
    }
}

static bool is_gap(const struct work_end *end, const struct ks_sweep_row *row)
{
    return end->has_begun && row->start_ns > end->end_ns;
}

static enum ks_status add_gap(struct idle *idle, const struct gap *gap, int64_t *cause_ns,
                              size_t slot, struct ks_err *err)
{
    cause_ns[gap->rest] += gap->end_ns - gap->host_until_ns;
    struct ks_idle_part part = {.from_ns = gap->start_ns,
                                .until_ns = gap->host_until_ns,
                                .sinks = {cause_ns},
                                .thread = gap->thread,
                                .slot = (uint32_t)slot};
    return ks_idle_gaps_add(&idle->gaps, &part, err);
}

/* ------------------------------------------------------------ streams */

/* A launched row that waits while a collective runs elsewhere on the device, and starts after it,
 * waits for that one. */
static int64_t collective_wait(const struct collectives *collectives, const struct gap *gap)
{
    if (gap->rest == KS_IDLE_UNKNOWN || collectives->end_ns > gap->end_ns) {
        return 0;
    }
    int64_t from_ns =
        collectives->start_ns > gap->host_until_ns ? collectives->start_ns : gap->host_until_ns;
    return collectives->end_ns > from_ns ? collectives->end_ns - from_ns : 0;
}

static void note_collective(struct collectives *collectives, const struct ks_sweep_row *row)
{
    if (row->category != KS_CATEGORY_KERNEL || !(row->flags & KS_GPU_COMMUNICATION)) {
        return;
    }
    if (row->start_ns > collectives->end_ns) {
        collectives->start_ns = row->start_ns;
    }
    if (row->end_ns > collectives->end_ns) {
        collectives->end_ns = row->end_ns;
    }
}

static enum ks_status note_stream(struct idle *idle, const struct ks_sweep_row *row,
                                  const struct collectives *collectives, struct ks_err *err)
{
    size_t index = idle->fact_index[row->stream] - 1;
    struct work_end *end = &idle->streams[index];
    if (is_gap(end, row)) {
        int64_t *cause_ns = idle->analyzer->facts->streams[index].idle_by_cause_ns;
        struct gap gap = describe(idle, end, row);
        int64_t wait_ns = collective_wait(collectives, &gap);
        cause_ns[KS_IDLE_COLLECTIVE] += wait_ns;
        cause_ns[gap.rest] -= wait_ns;
        KS_TRY(add_gap(idle, &gap, cause_ns, index, err));
    }
    note_end(end, row);
    return KS_OK;
}

/* ------------------------------------------------------------ steps */

/* Cuts an interval in which no device works at the true steps of the source. Intervals come in
 * order of time. */
static enum ks_status share_steps(struct idle *idle, const struct gap *gap, size_t slot,
                                  struct ks_err *err)
{
    struct ks_facts *facts = idle->analyzer->facts;
    size_t end = facts->step_ranges[idle->source].end;
    for (; idle->step < end; idle->step++) {
        struct ks_step *step = &facts->steps[idle->step];
        int64_t step_end_ns = step->start_ns + step->dur_ns;
        struct gap mine = *gap;
        mine.start_ns = gap->start_ns > step->start_ns ? gap->start_ns : step->start_ns;
        mine.end_ns = gap->end_ns < step_end_ns ? gap->end_ns : step_end_ns;
        if (mine.start_ns < mine.end_ns) {
            int64_t until_ns = gap->host_until_ns;
            until_ns = until_ns > mine.start_ns ? until_ns : mine.start_ns;
            mine.host_until_ns = until_ns < mine.end_ns ? until_ns : mine.end_ns;
            KS_TRY(add_gap(idle, &mine, step->idle_by_cause_ns, slot, err));
        }
        if (step_end_ns > gap->end_ns) {
            break;
        }
    }
    return KS_OK;
}

/* Behind the last work there is none to prepare: the thread of the steps says what is done. */
static enum ks_status share_tail(struct idle *idle, size_t slot, struct ks_err *err)
{
    bool has_thread = ks_idle_host_has(&idle->host, idle->host.main_thread);
    int64_t start_ns = idle->all.has_begun ? idle->all.end_ns : INT64_MIN;
    struct gap gap = {start_ns, has_thread ? INT64_MAX : start_ns, INT64_MAX,
                      idle->host.main_thread, KS_IDLE_UNKNOWN};
    ks_idle_gaps_next_row(&idle->gaps);
    return share_steps(idle, &gap, slot, err);
}

/* Without GPU work: each step's own thread is what is busy or idle. */
static enum ks_status share_threads(struct idle *idle, size_t slot, struct ks_err *err)
{
    struct ks_facts *facts = idle->analyzer->facts;
    struct ks_step_range range = facts->step_ranges[idle->source];
    idle->host.is_device = true;
    for (size_t i = range.begin; i < range.end; i++) {
        struct ks_step *step = &facts->steps[i];
        uint32_t own = step->thread;
        uint32_t thread = ks_idle_host_has(&idle->host, own) ? own : idle->host.main_thread;
        if (!ks_idle_host_has(&idle->host, thread)) {
            step->idle_by_cause_ns[KS_IDLE_UNKNOWN] = step->dur_ns;
            continue;
        }
        ks_idle_gaps_next_row(&idle->gaps);
        int64_t end_ns = step->start_ns + step->dur_ns;
        struct gap gap = {step->start_ns, end_ns, end_ns, thread, KS_IDLE_UNKNOWN};
        KS_TRY(add_gap(idle, &gap, step->idle_by_cause_ns, slot, err));
    }
    return KS_OK;
}

/* ------------------------------------------------------------ rows */

static enum ks_status note_device(struct idle *idle, const struct ks_sweep_row *row,
                                  struct ks_err *err)
{
    struct ks_facts *facts = idle->analyzer->facts;
    if (!ks_step_lookup_keeps_gpu(facts, row->lane, row->launch_ns)) {
        return KS_OK;
    }
    size_t index = idle->fact_index[row->lane] - 1;
    if (row->stream != 0) {
        KS_TRY(note_stream(idle, row, &idle->collectives[index], err));
    }
    note_collective(&idle->collectives[index], row);
    struct work_end *end = &idle->devices[index];
    if (is_gap(end, row)) {
        struct gap gap = describe(idle, end, row);
        KS_TRY(add_gap(idle, &gap, facts->devices[index].idle_by_cause_ns,
                       facts->stream_count + index, err));
    }
    note_end(end, row);
    return KS_OK;
}

static enum ks_status note_row(struct idle *idle, const struct ks_sweep_row *row, size_t all_slot,
                               struct ks_err *err)
{
    const struct ks_scope *scope = &idle->analyzer->facts->scope;
    if (!ks_category_is_work(row->category)) {
        return KS_OK;
    }
    idle->has_work = true;
    if (scope->device_given &&
        ks_trace_track(idle->analyzer->trace, row->lane)->number != scope->device) {
        return KS_OK;
    }
    ks_idle_gaps_next_row(&idle->gaps);
    KS_TRY(note_device(idle, row, err));
    if (!idle->all.has_begun || is_gap(&idle->all, row)) {
        struct gap gap = describe(idle, &idle->all, row);
        KS_TRY(share_steps(idle, &gap, all_slot, err));
    }
    note_end(&idle->all, row);
    return KS_OK;
}

static enum ks_status pass_rows(struct idle *idle, size_t all_slot, struct ks_err *err)
{
    struct ks_lane_sweep sweep;
    struct ks_sweep_row row;
    KS_TRY(ks_lane_sweep_open(&sweep, idle->analyzer->trace, idle->source, KS_SWEEP_DEVICES,
                              &idle->analyzer->scratch, err));
    enum ks_status status = KS_OK;
    while (status == KS_OK && (status = ks_lane_sweep_next(&sweep, &row, err)) == KS_OK) {
        status = note_row(idle, &row, all_slot, err);
    }
    ks_lane_sweep_close(&sweep);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status collect_and_divide(struct idle *idle, struct ks_err *err)
{
    struct ks_facts *facts = idle->analyzer->facts;
    size_t all_slot = facts->stream_count + facts->device_count;
    KS_TRY(ks_idle_host_init(&idle->host, idle->analyzer, idle->source, idle->thread_index, err));
    KS_TRY(pass_rows(idle, all_slot, err));
    KS_TRY(idle->has_work ? share_tail(idle, all_slot, err) : share_threads(idle, all_slot, err));
    KS_TRY(ks_idle_gaps_order(&idle->gaps, err));
    return ks_idle_host_divide(&idle->host, &idle->gaps, all_slot + 1, err);
}

static enum ks_status idle_of_source(struct idle *idle, uint32_t source, struct ks_err *err)
{
    struct ks_facts *facts = idle->analyzer->facts;
    struct ks_step_range range = facts->step_ranges[source];
    idle->source = source;
    idle->all = (struct work_end){0};
    idle->step = range.begin;
    idle->has_work = false;
    enum ks_status status = collect_and_divide(idle, err);
    ks_idle_host_release(&idle->host);
    ks_idle_gaps_release(&idle->gaps);
    for (size_t i = range.begin; i < range.end; i++) {
        struct ks_step *step = &facts->steps[i];
        for (int cause = 0; cause < KS_IDLE_COUNT; cause++) {
            step->idle_ns += step->idle_by_cause_ns[cause];
        }
    }
    return status;
}

enum ks_status ks_idle_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    struct ks_arena *scratch = &analyzer->scratch;
    size_t track_count = ks_trace_track_count(analyzer->trace);
    struct idle idle = {
        .analyzer = analyzer,
        .thread_index = ks_new(scratch, uint32_t, track_count + 1),
        .fact_index = ks_new(scratch, uint32_t, track_count + 1),
        .streams = ks_new(scratch, struct work_end, facts->stream_count + 1),
        .devices = ks_new(scratch, struct work_end, facts->device_count + 1),
        .collectives = ks_new(scratch, struct collectives, facts->device_count + 1),
    };
    if (!idle.thread_index || !idle.fact_index || !idle.streams || !idle.devices ||
        !idle.collectives) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot look at idle time: tracks=%zu",
                       track_count);
    }
    for (size_t i = 0; i < facts->stream_count; i++) {
        struct ks_stream_fact *stream = &facts->streams[i];
        idle.fact_index[stream->track] = (uint32_t)i + 1;
        if (stream->track == 0) { /* rows of no stream follow no order */
            stream->idle_by_cause_ns[KS_IDLE_UNKNOWN] = stream->gap_ns;
        }
    }
    for (size_t i = 0; i < facts->device_count; i++) {
        idle.fact_index[facts->devices[i].track] = (uint32_t)i + 1;
        idle.collectives[i] = (struct collectives){INT64_MIN, INT64_MIN};
    }
    for (uint32_t i = 0; i < ks_trace_source_count(analyzer->trace); i++) {
        struct ks_arena_mark mark = ks_arena_mark(scratch);
        KS_TRY(idle_of_source(&idle, i, err));
        ks_arena_rewind(scratch, mark);
    }
    return KS_OK;
}
