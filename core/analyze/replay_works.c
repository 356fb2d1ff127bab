/* The GPU work of a replay, in order of launch. */
#include <string.h>

#include "analyze/kernel_layout.h"
#include "analyze/kernel_precision.h"
#include "analyze/lane_sweep.h"
#include "analyze/replay_model.h"
#include "base/alloc.h"
#include "base/grow.h"
#include "base/sort_runs.h"

/* Beside marks of layouts, which are none of these. */
enum { NAME_KNOWN = 1, NAME_FP32_PRODUCT = 2 };

struct stream {
    bool is_used;    /* some work of the steps was seen */
    int64_t free_ns; /* end of what came before that; KS_TIME_NONE */
};

struct work_list {
    struct ks_replay_scope *scope;
    struct ks_replay_work *items;
    size_t count;
    size_t capacity;
    struct stream *streams;
    size_t stream_count;
    size_t stream_capacity;
    uint32_t *stream_of; /* by track: index + 1, 0 none yet */
    uint8_t *name_bits;  /* by string id: layout and NAME_*, 0 not looked up */
    bool is_counted;     /* the device that is scanned makes steps longer */
};

/* ------------------------------------------------------------ collecting */

static enum ks_status find_stream(struct work_list *list, uint32_t track, uint32_t *index,
                                  struct ks_err *err)
{
    uint32_t *stream = &list->stream_of[ks_track_range_index(&list->scope->tracks, track)];
    if (*stream == 0) {
        KS_TRY(ks_grow(&list->streams, list->stream_count, &list->stream_capacity,
                       sizeof(*list->streams), "streams", err));
        list->streams[list->stream_count++] = (struct stream){.free_ns = KS_TIME_NONE};
        *stream = (uint32_t)list->stream_count;
    }
    *index = *stream - 1;
    return KS_OK;
}

/* Is there room for the thread among those that drive the GPU? */
static bool add_thread(struct ks_replay_scope *scope, uint32_t track)
{
    uint16_t *thread = &scope->thread_of[ks_track_range_index(&scope->tracks, track)];
    if (*thread == 0 && scope->thread_count < UINT16_MAX) {
        *thread = (uint16_t)++scope->thread_count;
    }
    return *thread > 0;
}

static uint8_t copy_mark(const struct ks_gpu_scan *scan, size_t i)
{
    bool is_small = scan->col.category[i] == KS_CATEGORY_MEMCPY && scan->col.bytes[i] >= 0 &&
                    scan->col.bytes[i] <= KS_SMALL_COPY_BYTES_MAX;
    return is_small ? KS_REPLAY_SMALL_COPY : 0;
}

static uint8_t name_bits(struct work_list *list, uint32_t name)
{
    uint8_t *bits = &list->name_bits[name];
    if (*bits == 0) {
        struct ks_str text = ks_trace_str(list->scope->analyzer->trace, (struct ks_strid){name});
        unsigned product = ks_kernel_is_fp32_product(text) ? NAME_FP32_PRODUCT : 0u;
        *bits = (uint8_t)(NAME_KNOWN | product | ks_kernel_layout_marks(text));
    }
    return *bits;
}

/* Marks that the name of the work gives it. */
static uint32_t name_marks(struct work_list *list, const struct ks_gpu_scan *scan, size_t i)
{
    bool is_compute =
        scan->col.category[i] == KS_CATEGORY_KERNEL && !(scan->col.flags[i] & KS_GPU_COMMUNICATION);
    unsigned bits = name_bits(list, scan->col.name[i]);
    unsigned kind = bits & NAME_FP32_PRODUCT ? KS_REPLAY_FP32 : KS_REPLAY_NOT_FP32;
    return (bits & (KS_REPLAY_CONVERSION | KS_REPLAY_NCHW)) | (is_compute ? kind : 0u);
}

static enum ks_status add_work(struct work_list *list, const struct ks_gpu_scan *scan, size_t i,
                               struct ks_err *err)
{
    struct ks_replay_scope *scope = list->scope;
    struct ks_replay_work work = {.launch_ns = scan->col.launch_ns[i],
                                  .corr = scan->col.corr[i],
                                  .start_ns = scan->col.start_ns[i],
                                  .dur_ns = scan->col.dur_ns[i],
                                  .alone_ns = scan->col.dur_ns[i],
                                  .is_collective = scan->col.flags[i] & KS_GPU_COMMUNICATION,
                                  .copy_mark = copy_mark(scan, i),
                                  .shrink_marks = name_marks(list, scan, i),
                                  .launch_lane = scan->col.launch_lane[i]};
    KS_TRY(find_stream(list, scan->col.stream[i], &work.stream, err));
    struct stream *stream = &list->streams[work.stream];
    bool is_early = work.launch_ns == KS_TIME_NONE || work.launch_ns < scope->start_ns;
    if (is_early && !stream->is_used && ks_replay_work_end(&work) > stream->free_ns) {
        stream->free_ns = ks_replay_work_end(&work);
    }
    if (is_early || work.launch_ns >= scope->end_ns || !add_thread(scope, work.launch_lane)) {
        return KS_OK;
    }
    work.step =
        list->is_counted ? ks_replay_step_at(scope, work.launch_ns) : (uint32_t)scope->step_count;
    KS_TRY(ks_grow(&list->items, list->count, &list->capacity, sizeof(work), "GPU work", err));
    list->items[list->count++] = work;
    stream->is_used = true;
    return KS_OK;
}

static enum ks_status scan_lane(struct work_list *list, const struct ks_lane *lane,
                                struct ks_err *err)
{
    const struct ks_replay_scope *scope = list->scope;
    struct ks_gpu_scan scan;
    enum ks_status status;
    bool is_past = false;
    ks_gpu_scan_open(&scan, scope->analyzer->trace,
                     KS_COLUMN_BIT(KS_GPU_COL_start_ns) | KS_COLUMN_BIT(KS_GPU_COL_dur_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_corr) | KS_COLUMN_BIT(KS_GPU_COL_name) |
                         KS_COLUMN_BIT(KS_GPU_COL_bytes) | KS_COLUMN_BIT(KS_GPU_COL_launch_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_launch_lane) | KS_COLUMN_BIT(KS_GPU_COL_stream) |
                         KS_COLUMN_BIT(KS_GPU_COL_category) | KS_COLUMN_BIT(KS_GPU_COL_flags),
                     lane->row_begin, lane->row_end);
    while (!is_past && (status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK && !is_past; i++) {
            is_past = scan.col.start_ns[i] > scope->gpu_end_ns || list->count > scope->limits.works;
            if (!is_past && ks_category_is_work(scan.col.category[i])) {
                status = add_work(list, &scan, i, err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_gpu_scan_close(&scan);
    return is_past || status == KS_END ? KS_OK : status;
}

static enum ks_status scan_lanes(struct work_list *list, struct ks_err *err)
{
    const struct ks_replay_scope *scope = list->scope;
    const struct ks_scope *kept = &scope->analyzer->facts->scope;
    const struct ks_trace *trace = scope->analyzer->trace;
    size_t count = 0;
    const struct ks_lane *lanes = ks_lane_sweep_lanes(trace, KS_TABLE_gpu, scope->source, &count);
    for (size_t i = 0; i < count; i++) {
        list->is_counted =
            !kept->device_given || ks_trace_track(trace, lanes[i].track)->number == kept->device;
        KS_TRY(scan_lane(list, &lanes[i], err));
    }
    return KS_OK;
}

/* ------------------------------------------------------------ order of launches */

static int compare_int64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* Until all are in place, `before` says where a work stood. */
static int compare_works(const void *left, const void *right)
{
    const struct ks_replay_work *a = left;
    const struct ks_replay_work *b = right;
    int order = compare_int64(a->launch_ns, b->launch_ns);
    order = order ? order : compare_int64(a->launch_lane, b->launch_lane);
    order = order ? order : compare_int64(a->corr, b->corr);
    order = order ? order : compare_int64(a->start_ns, b->start_ns);
    return order ? order : compare_int64(a->before, b->before);
}

static bool order_works(struct work_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        list->items[i].before = (uint32_t)i;
    }
    return ks_sort_runs(list->items, list->count, sizeof(*list->items), compare_works);
}

static enum ks_status keep(struct work_list *list, struct ks_replay *replay, struct ks_err *err)
{
    struct ks_arena *arena = &list->scope->analyzer->facts->arena;
    replay->works = ks_new(arena, struct ks_replay_work, list->count + 1);
    replay->stream_free_ns = ks_new(arena, int64_t, list->stream_count + 1);
    if (!replay->works || !replay->stream_free_ns || !order_works(list)) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: works=%zu",
                       list->count);
    }
    memcpy(replay->works, list->items, list->count * sizeof(*list->items));
    replay->work_count = list->count;
    replay->stream_count = list->stream_count;
    for (size_t i = 0; i < list->stream_count; i++) {
        replay->stream_free_ns[i] = list->streams[i].free_ns;
    }
    return ks_replay_find_delays(replay->works, replay->work_count, replay->stream_free_ns,
                                 replay->stream_count, err);
}

enum ks_status ks_replay_add_works(struct ks_replay_scope *scope, struct ks_replay *replay,
                                   bool *fits, struct ks_err *err)
{
    struct work_list list = {.scope = scope};
    size_t track_count = (size_t)scope->tracks.count + 1;
    list.stream_of = ks_alloc(track_count, sizeof(*list.stream_of));
    size_t name_count = (size_t)ks_trace_str_count(scope->analyzer->trace) + 1;
    list.name_bits = ks_alloc(name_count, sizeof(*list.name_bits));
    enum ks_status status = list.stream_of && list.name_bits
                                ? scan_lanes(&list, err)
                                : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET,
                                          "Cannot replay steps: tracks=%zu", track_count);
    *fits = list.count <= scope->limits.works;
    if (status == KS_OK && list.count > 0 && *fits) {
        status = keep(&list, replay, err);
    }
    ks_free(list.stream_of);
    ks_free(list.name_bits);
    ks_free(list.items);
    ks_free(list.streams);
    return status;
}
