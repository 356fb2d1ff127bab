/* The GPU work of a replay: what starts when, and what held it. */
#include <stdlib.h>

#include "analyze/lane_sweep.h"
#include "analyze/replay_model.h"
#include "base/alloc.h"
#include "base/grow.h"
#include "measure/quantile.h"
#include "measure/sum.h"

enum {
    STREAM_GAP_NS_MAX = 5 * 1000, /* work that starts so soon after the last waited for it */
    OTHER_GAP_NS_MAX = 10 * 1000, /* the same of work on another stream */
    OTHER_BEATS_NS = 3 * 1000,    /* ... if it explains the start better by this much */
    LAUNCH_DELAY_NS = 8 * 1000,   /* when no launch meets an empty stream: H100, torch 2.11 */
    STREAM_GAP_NS = 1500,
    LAUNCH_DELAY_PERCENT = 20,
};

struct stream {
    uint32_t track;
    uint32_t last; /* work, KS_REPLAY_NO_WORK: from before the first step */
    bool is_used;
    int64_t end_ns;
    int64_t free_ns;
};

struct work_list {
    struct ks_replay_work *items;
    size_t count;
    size_t capacity;
    struct stream *streams;
    size_t stream_count;
    size_t stream_capacity;
    int64_t last_end_ns;
};

/* ------------------------------------------------------------ collecting */

static enum ks_status stream_of(struct work_list *list, uint32_t track, uint32_t *index,
                                struct ks_err *err)
{
    for (size_t i = 0; i < list->stream_count; i++) {
        if (list->streams[i].track == track) {
            *index = (uint32_t)i;
            return KS_OK;
        }
    }
    KS_TRY(ks_grow(&list->streams, list->stream_count, &list->stream_capacity,
                   sizeof(*list->streams), "streams", err));
    *index = (uint32_t)list->stream_count++;
    list->streams[*index] = (struct stream){
        .track = track, .last = KS_REPLAY_NO_WORK, .free_ns = INT64_MIN, .end_ns = INT64_MIN};
    return KS_OK;
}

/* Work of another stream that ends shortly before this starts; the stream itself and the launch
 * are asked first. */
static void find_other(const struct work_list *list, struct ks_replay_work *work)
{
    int64_t best_ns = OTHER_GAP_NS_MAX;
    for (size_t i = 0; i < list->stream_count; i++) {
        const struct stream *stream = &list->streams[i];
        int64_t gap_ns = ks_sum_sub(work->start_ns, stream->end_ns);
        if (i != work->stream && stream->last != KS_REPLAY_NO_WORK && gap_ns >= 0 &&
            gap_ns < best_ns) {
            best_ns = gap_ns;
            work->other = stream->last;
            work->other_delay_ns = gap_ns;
        }
    }
    int64_t known_ns = work->launch_delay_ns;
    if (!work->is_first && work->stream_delay_ns < known_ns) {
        known_ns = work->stream_delay_ns;
    }
    if (work->other_delay_ns + OTHER_BEATS_NS > known_ns) {
        work->other = KS_REPLAY_NO_WORK;
    }
}

static enum ks_status add_work(struct ks_replay_scope *scope, struct work_list *list,
                               const struct ks_gpu_scan *scan, size_t i, struct ks_err *err)
{
    struct ks_replay_work work = {.launch_ns = scan->col.launch_ns[i],
                                  .start_ns = scan->col.start_ns[i],
                                  .dur_ns = scan->col.dur_ns[i],
                                  .alone_ns = scan->col.dur_ns[i],
                                  .is_collective = scan->col.flags[i] & KS_GPU_COMMUNICATION,
                                  .other = KS_REPLAY_NO_WORK,
                                  .before = KS_REPLAY_NO_WORK,
                                  .launch_lane = scan->col.launch_lane[i]};
    KS_TRY(stream_of(list, scan->col.stream[i], &work.stream, err));
    struct stream *stream = &list->streams[work.stream];
    int64_t end_ns = ks_sum_add(work.start_ns, work.dur_ns);
    bool is_inside = work.launch_ns != KS_TIME_NONE && work.launch_ns >= scope->start_ns &&
                     work.launch_ns < scope->end_ns;
    if (is_inside) {
        work.is_first = !stream->is_used;
        work.launch_delay_ns = ks_sum_sub(work.start_ns, work.launch_ns);
        work.stream_delay_ns = work.is_first ? 0 : ks_sum_sub(work.start_ns, stream->end_ns);
        work.step = ks_replay_step_at(scope, work.launch_ns);
        find_other(list, &work);
        bool is_small = scan->col.category[i] == KS_CATEGORY_MEMCPY && scan->col.bytes[i] >= 0 &&
                        scan->col.bytes[i] <= KS_SMALL_COPY_BYTES_MAX;
        work.copy_mark = is_small ? KS_REPLAY_SMALL_COPY : 0;
        KS_TRY(ks_grow(&list->items, list->count, &list->capacity, sizeof(work), "GPU work", err));
        stream->last = (uint32_t)list->count;
        list->items[list->count++] = work;
        uint16_t *thread = &scope->thread_of[work.launch_lane];
        if (*thread == 0 && scope->thread_count < UINT16_MAX) {
            *thread = (uint16_t)++scope->thread_count;
        }
    } else if (work.launch_ns == KS_TIME_NONE || work.launch_ns < scope->start_ns) {
        stream->free_ns = end_ns > stream->free_ns ? end_ns : stream->free_ns;
    }
    stream->is_used = true;
    stream->end_ns = end_ns > stream->end_ns ? end_ns : stream->end_ns;
    return KS_OK;
}

static enum ks_status scan_lane(struct ks_replay_scope *scope, const struct ks_lane *lane,
                                struct work_list *list, struct ks_err *err)
{
    struct ks_gpu_scan scan;
    enum ks_status status;
    bool is_past = false;
    ks_gpu_scan_open(&scan, scope->analyzer->trace,
                     KS_COLUMN_BIT(KS_GPU_COL_start_ns) | KS_COLUMN_BIT(KS_GPU_COL_dur_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_bytes) | KS_COLUMN_BIT(KS_GPU_COL_launch_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_launch_lane) | KS_COLUMN_BIT(KS_GPU_COL_stream) |
                         KS_COLUMN_BIT(KS_GPU_COL_category) | KS_COLUMN_BIT(KS_GPU_COL_flags),
                     lane->row_begin, lane->row_end);
    while (!is_past && (status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK && !is_past; i++) {
            is_past = scan.col.start_ns[i] > scope->gpu_end_ns;
            if (!is_past && ks_category_is_work(scan.col.category[i])) {
                status = add_work(scope, list, &scan, i, err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_gpu_scan_close(&scan);
    return is_past || status == KS_END ? KS_OK : status;
}

/* ------------------------------------------------------------ delays */

static int64_t at_most(int64_t value, int64_t limit)
{
    return value < limit ? value : limit;
}

/* What a launch takes that meets an empty stream, and a start right behind other work: what held a
 * work in the recording keeps its delay, the other of both gets the usual one if it had more. */
static enum ks_status find_usual(const struct work_list *list, int64_t *launch_ns,
                                 int64_t *stream_ns, struct ks_err *err)
{
    int64_t *values = ks_alloc(2 * list->count + 1, sizeof(*values));
    if (!values) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: works=%zu",
                       list->count);
    }
    int64_t *gaps = values + list->count;
    size_t launch_count = 0;
    size_t gap_count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct ks_replay_work *work = &list->items[i];
        if (work->is_first || work->launch_delay_ns <= work->stream_delay_ns) {
            values[launch_count++] = work->launch_delay_ns;
        } else if (work->stream_delay_ns >= 0 && work->stream_delay_ns < STREAM_GAP_NS_MAX) {
            gaps[gap_count++] = work->stream_delay_ns;
        }
    }
    *launch_ns = launch_count > 0 ? ks_quantile_rank(values, launch_count,
                                                     launch_count * LAUNCH_DELAY_PERCENT / 100)
                                  : LAUNCH_DELAY_NS;
    *stream_ns = gap_count > 0 ? ks_quantile_median(gaps, gap_count) : STREAM_GAP_NS;
    *stream_ns = at_most(*stream_ns, STREAM_GAP_NS);
    ks_free(values);
    return KS_OK;
}

static void settle_delays(struct work_list *list, int64_t launch_ns, int64_t stream_ns)
{
    for (size_t i = 0; i < list->count; i++) {
        struct ks_replay_work *work = &list->items[i];
        bool is_launch_bound = work->is_first || work->launch_delay_ns <= work->stream_delay_ns;
        bool is_other_bound = work->other != KS_REPLAY_NO_WORK;
        if (!is_launch_bound || is_other_bound) {
            work->launch_delay_ns = at_most(work->launch_delay_ns, launch_ns);
        }
        if (is_launch_bound || is_other_bound) {
            work->stream_delay_ns = at_most(work->stream_delay_ns, stream_ns);
        }
    }
}

/* ------------------------------------------------------------ order of launches */

static int compare_works(const void *left, const void *right)
{
    const struct ks_replay_work *a = left;
    const struct ks_replay_work *b = right;
    if (a->launch_ns != b->launch_ns) {
        return a->launch_ns < b->launch_ns ? -1 : 1;
    }
    if (a->launch_lane != b->launch_lane) {
        return a->launch_lane < b->launch_lane ? -1 : 1;
    }
    if (a->start_ns != b->start_ns) {
        return a->start_ns < b->start_ns ? -1 : 1;
    }
    return (int)(a->before > b->before) - (int)(a->before < b->before);
}

/* Puts work in order of launch and keeps `other` true; one launched later cannot be waited for. */
static enum ks_status order_works(struct work_list *list, struct ks_err *err)
{
    uint32_t *place = ks_alloc(list->count + 1, sizeof(*place));
    if (!place) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: works=%zu",
                       list->count);
    }
    for (size_t i = 0; i < list->count; i++) {
        list->items[i].before = (uint32_t)i; /* until all are in place: where it stood */
    }
    qsort(list->items, list->count, sizeof(*list->items), compare_works);
    for (size_t i = 0; i < list->count; i++) {
        place[list->items[i].before] = (uint32_t)i;
    }
    for (size_t i = 0; i < list->stream_count; i++) {
        list->streams[i].last = KS_REPLAY_NO_WORK;
    }
    for (size_t i = 0; i < list->count; i++) {
        struct ks_replay_work *work = &list->items[i];
        if (work->other != KS_REPLAY_NO_WORK) {
            work->other = place[work->other] < i ? place[work->other] : KS_REPLAY_NO_WORK;
        }
        work->before = list->streams[work->stream].last;
        list->streams[work->stream].last = (uint32_t)i;
    }
    ks_free(place);
    return KS_OK;
}

static enum ks_status keep(struct ks_replay_scope *scope, const struct work_list *list,
                           struct ks_replay *replay, struct ks_err *err)
{
    struct ks_arena *arena = &scope->analyzer->facts->arena;
    replay->works = ks_new(arena, struct ks_replay_work, list->count + 1);
    replay->stream_free_ns = ks_new(arena, int64_t, list->stream_count + 1);
    if (!replay->works || !replay->stream_free_ns) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: works=%zu",
                       list->count);
    }
    memcpy(replay->works, list->items, list->count * sizeof(*list->items));
    replay->work_count = list->count;
    replay->stream_count = list->stream_count;
    for (size_t i = 0; i < list->stream_count; i++) {
        int64_t free_ns = list->streams[i].free_ns;
        replay->stream_free_ns[i] = free_ns == INT64_MIN ? scope->start_ns : free_ns;
    }
    return KS_OK;
}

enum ks_status ks_replay_add_works(struct ks_replay_scope *scope, struct ks_replay *replay,
                                   struct ks_err *err)
{
    struct work_list list = {0};
    size_t count = 0;
    const struct ks_lane *lanes =
        ks_lane_sweep_lanes(scope->analyzer->trace, KS_TABLE_gpu, scope->source, &count);
    enum ks_status status = KS_OK;
    for (size_t i = 0; i < count && status == KS_OK; i++) {
        status = scan_lane(scope, &lanes[i], &list, err);
    }
    if (status == KS_OK && list.count > 0) {
        int64_t launch_ns = 0;
        int64_t stream_ns = 0;
        status = find_usual(&list, &launch_ns, &stream_ns, err);
        if (status == KS_OK) {
            settle_delays(&list, launch_ns, stream_ns);
            status = order_works(&list, err);
        }
        if (status == KS_OK) {
            status = keep(scope, &list, replay, err);
        }
    }
    ks_free(list.items);
    ks_free(list.streams);
    return status;
}
