/* A3, A6: how busy each device and stream is, and how much communication computing hides
 * (docs/analyses/devices.md). One pass over the rows of each device in order of start; times are
 * unions, the plain sums are extra. */
#include <math.h>
#include <stdlib.h>

#include "analyze/registry.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

/* Union of intervals that come in order of start. */
struct cover {
    int64_t start_ns; /* first start; KS_UNKNOWN: nothing yet */
    int64_t end_ns;
    int64_t total_ns;
};

static void cover_add(struct cover *cover, int64_t start_ns, int64_t end_ns)
{
    if (cover->start_ns == KS_UNKNOWN) {
        cover->start_ns = start_ns;
        cover->end_ns = start_ns;
    }
    int64_t from_ns = start_ns > cover->end_ns ? start_ns : cover->end_ns;
    if (end_ns > from_ns) {
        cover->total_ns = ks_sum_add(cover->total_ns, end_ns - from_ns);
    }
    /* Also when the row lasts 0 ns: the span ends with it. */
    cover->end_ns = end_ns > cover->end_ns ? end_ns : cover->end_ns;
}

static int64_t cover_span(const struct cover *cover)
{
    return cover->start_ns == KS_UNKNOWN ? 0 : ks_sum_sub(cover->end_ns, cover->start_ns);
}

/* A kernel that runs now, for the sweep of blocks per SM. */
struct running {
    int64_t end_ns;
    uint64_t order; /* of its start: sums of doubles depend on it where ends are the same */
    double blocks_per_sm;
};

struct device_state {
    struct cover busy, compute, comm, memcpy;
    int64_t shared_ns; /* comm and compute both run */
    int64_t shared_until_ns;
    struct running *running; /* binary heap, the earliest end first */
    uint64_t started;
    size_t running_count;
    size_t running_capacity;
    int64_t sm_now_ns;
    double sm_sum;
    double sm_weighted;
    bool has_blocks;
    double occupancy_weighted;
    double occupancy_ns;
    double tensor_ns;
    double compute_sum_ns;
};

struct stream_table {
    uint32_t *index_of; /* by track: 1 + index */
    struct cover *covers;
    size_t capacity;
};

/* ------------------------------------------------------------ SM efficiency */

static void sm_advance(struct device_state *state, int64_t until_ns)
{
    if (until_ns > state->sm_now_ns && state->sm_sum > 0) {
        double share = state->sm_sum < 1 ? state->sm_sum : 1;
        state->sm_weighted += share * (double)(until_ns - state->sm_now_ns);
    }
    state->sm_now_ns = until_ns > state->sm_now_ns ? until_ns : state->sm_now_ns;
}

static bool ends_before(const struct running *a, const struct running *b)
{
    return a->end_ns != b->end_ns ? a->end_ns < b->end_ns : a->order < b->order;
}

/* Adds to the heap, which has room for it. */
static void push_running(struct device_state *state, const struct running *added)
{
    struct running *heap = state->running;
    size_t at = state->running_count++;
    while (at > 0 && ends_before(added, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = *added;
}

/* Takes the earliest end off the heap. */
static void pop_running(struct device_state *state)
{
    struct running *heap = state->running;
    size_t count = --state->running_count;
    struct running moving = heap[count];
    size_t at = 0;
    for (size_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && ends_before(&heap[child + 1], &heap[child])) {
            child++;
        }
        if (!ends_before(&heap[child], &moving)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

/* Ends all kernels that are done by `until_ns`. */
static void sm_retire(struct device_state *state, int64_t until_ns)
{
    while (state->running_count > 0 && state->running[0].end_ns <= until_ns) {
        sm_advance(state, state->running[0].end_ns);
        state->sm_sum -= state->running[0].blocks_per_sm;
        pop_running(state);
        if (state->running_count == 0) {
            state->sm_sum = 0; /* forget rounding */
        }
    }
}

static enum ks_status sm_start(struct device_state *state, int64_t start_ns, int64_t end_ns,
                               double blocks_per_sm, struct ks_err *err)
{
    sm_retire(state, start_ns);
    sm_advance(state, start_ns);
    state->sm_now_ns = start_ns > state->sm_now_ns ? start_ns : state->sm_now_ns;
    if (!(blocks_per_sm > 0) || end_ns <= start_ns) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&state->running, state->running_count, &state->running_capacity,
                   sizeof(*state->running), "running kernels", err));
    push_running(state, &(struct running){end_ns, state->started++, blocks_per_sm});
    state->sm_sum += blocks_per_sm;
    state->has_blocks = true;
    return KS_OK;
}

/* ------------------------------------------------------------ rows */

/* Adds the part of both covers that newly overlaps. Called after one of them grew to `end_ns`
 * by a row that starts at `start_ns`. */
static void note_shared(struct device_state *state, int64_t start_ns)
{
    int64_t from_ns = start_ns > state->shared_until_ns ? start_ns : state->shared_until_ns;
    int64_t to_ns =
        state->comm.end_ns < state->compute.end_ns ? state->comm.end_ns : state->compute.end_ns;
    if (state->comm.start_ns != KS_UNKNOWN && state->compute.start_ns != KS_UNKNOWN &&
        to_ns > from_ns) {
        state->shared_ns = ks_sum_add(state->shared_ns, to_ns - from_ns);
        state->shared_until_ns = to_ns;
    }
}

static void note_kernel(struct ks_analyzer *analyzer, struct ks_device_fact *fact,
                        struct device_state *state, const struct ks_gpu_scan *scan, size_t i)
{
    int64_t start_ns = scan->col.start_ns[i];
    int64_t dur_ns = scan->col.dur_ns[i];
    int64_t end_ns = ks_sum_add(start_ns, dur_ns);
    fact->kernel_sum_ns = ks_sum_add(fact->kernel_sum_ns, dur_ns);
    fact->kernel_count++;
    bool is_comm = scan->col.flags[i] & KS_GPU_COMMUNICATION;
    cover_add(is_comm ? &state->comm : &state->compute, start_ns, end_ns);
    note_shared(state, start_ns);
    double occupancy = (double)scan->col.occupancy[i];
    if (occupancy >= 0) {
        state->occupancy_weighted += occupancy * (double)dur_ns;
        state->occupancy_ns += (double)dur_ns;
    }
    if (!is_comm) {
        bool is_tensor = ks_row_names_is_tensor_core(&analyzer->names, scan->col.name[i]);
        state->compute_sum_ns += (double)dur_ns;
        state->tensor_ns += is_tensor ? (double)dur_ns : 0;
    }
}

static enum ks_status note_stream(struct ks_analyzer *analyzer, struct stream_table *table,
                                  uint32_t track, int64_t start_ns, int64_t end_ns,
                                  struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    if (table->index_of[track] == 0) {
        if (facts->stream_count == table->capacity) {
            return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET, "Cannot keep streams: count=%zu",
                           table->capacity);
        }
        const struct ks_track *stream = ks_trace_track(analyzer->trace, track);
        uint32_t device = stream->parent;
        facts->streams[facts->stream_count] = (struct ks_stream_fact){
            .track = track,
            .source = stream->source,
            .device = device ? ks_trace_track(analyzer->trace, device)->number : KS_UNKNOWN,
            .stream = stream->number};
        table->covers[facts->stream_count] = (struct cover){.start_ns = KS_UNKNOWN};
        table->index_of[track] = (uint32_t)++facts->stream_count;
    }
    size_t index = table->index_of[track] - 1;
    cover_add(&table->covers[index], start_ns, end_ns);
    facts->streams[index].work_count++;
    return KS_OK;
}

static const uint64_t columns =
    KS_COLUMN_BIT(KS_GPU_COL_start_ns) | KS_COLUMN_BIT(KS_GPU_COL_dur_ns) |
    KS_COLUMN_BIT(KS_GPU_COL_launch_ns) | KS_COLUMN_BIT(KS_GPU_COL_stream) |
    KS_COLUMN_BIT(KS_GPU_COL_name) | KS_COLUMN_BIT(KS_GPU_COL_occupancy) |
    KS_COLUMN_BIT(KS_GPU_COL_blocks_per_sm) | KS_COLUMN_BIT(KS_GPU_COL_category) |
    KS_COLUMN_BIT(KS_GPU_COL_flags);

static enum ks_status note_row(struct ks_analyzer *analyzer, struct ks_device_fact *fact,
                               struct device_state *state, struct stream_table *streams,
                               const struct ks_gpu_scan *scan, size_t i, struct ks_err *err)
{
    uint8_t category = scan->col.category[i];
    if (!ks_category_is_work(category) ||
        !ks_step_lookup_keeps_gpu(analyzer->facts, fact->track, scan->col.launch_ns[i])) {
        return KS_OK;
    }
    int64_t start_ns = scan->col.start_ns[i];
    int64_t end_ns = ks_sum_add(start_ns, scan->col.dur_ns[i]);
    fact->work_count++;
    fact->work_sum_ns = ks_sum_add(fact->work_sum_ns, scan->col.dur_ns[i]);
    cover_add(&state->busy, start_ns, end_ns);
    if (category == KS_CATEGORY_MEMCPY) {
        cover_add(&state->memcpy, start_ns, end_ns);
    }
    if (category == KS_CATEGORY_KERNEL) {
        note_kernel(analyzer, fact, state, scan, i);
        KS_TRY(sm_start(state, start_ns, end_ns, (double)scan->col.blocks_per_sm[i], err));
    }
    return note_stream(analyzer, streams, scan->col.stream[i], start_ns, end_ns, err);
}

static void finish_device(struct ks_device_fact *fact, struct device_state *state)
{
    sm_retire(state, INT64_MAX);
    fact->start_ns = state->busy.start_ns;
    fact->span_ns = cover_span(&state->busy);
    fact->busy_ns = state->busy.total_ns;
    fact->idle_ns = fact->span_ns - fact->busy_ns;
    fact->compute_ns = state->compute.total_ns;
    fact->comm_ns = state->comm.total_ns;
    fact->exposed_comm_ns = fact->comm_ns - state->shared_ns;
    fact->memcpy_ns = state->memcpy.total_ns;
    double span_ns = (double)fact->span_ns;
    fact->sm_efficiency =
        state->has_blocks && span_ns > 0 ? state->sm_weighted / span_ns : (double)NAN;
    fact->occupancy =
        state->occupancy_ns > 0 ? state->occupancy_weighted / state->occupancy_ns : (double)NAN;
    fact->tensor_core_share =
        state->compute_sum_ns > 0 ? state->tensor_ns / state->compute_sum_ns : (double)NAN;
}

static struct ks_strid model_name(const struct ks_trace *trace, const struct ks_track *device)
{
    const struct ks_source *source = ks_trace_source(trace, device->source);
    for (size_t i = 0; i < source->gpu_count; i++) {
        if (source->gpus[i].id == device->number) {
            return source->gpus[i].name;
        }
    }
    return (struct ks_strid){0};
}

static enum ks_status use_of_device(struct ks_analyzer *analyzer, const struct ks_lane *lane,
                                    struct stream_table *streams, struct ks_err *err)
{
    const struct ks_track *device = ks_trace_track(analyzer->trace, lane->track);
    struct ks_device_fact fact = {.track = lane->track,
                                  .source = device->source,
                                  .device = device->number,
                                  .name = model_name(analyzer->trace, device)};
    struct device_state state = {.busy.start_ns = KS_UNKNOWN,
                                 .compute.start_ns = KS_UNKNOWN,
                                 .comm.start_ns = KS_UNKNOWN,
                                 .memcpy.start_ns = KS_UNKNOWN,
                                 .shared_until_ns = INT64_MIN,
                                 .sm_now_ns = INT64_MIN};
    struct ks_gpu_scan scan;
    enum ks_status status;
    ks_gpu_scan_open(&scan, analyzer->trace, columns, lane->row_begin, lane->row_end);
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = note_row(analyzer, &fact, &state, streams, &scan, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_gpu_scan_close(&scan);
    if (status == KS_END && fact.work_count > 0) {
        finish_device(&fact, &state);
        analyzer->facts->devices[analyzer->facts->device_count++] = fact;
    }
    ks_free(state.running);
    return status == KS_END ? KS_OK : status;
}

/* Tracks are numbered as they appear in a file; results are in an order that does not depend on
 * it. */
static int compare_devices(const void *left, const void *right)
{
    const struct ks_device_fact *a = left;
    const struct ks_device_fact *b = right;
    if (a->source != b->source) {
        return a->source < b->source ? -1 : 1;
    }
    if (a->device != b->device) {
        return a->device < b->device ? -1 : 1;
    }
    return a->track < b->track ? -1 : a->track > b->track;
}

static int compare_streams(const void *left, const void *right)
{
    const struct ks_stream_fact *a = left;
    const struct ks_stream_fact *b = right;
    if (a->source != b->source) {
        return a->source < b->source ? -1 : 1;
    }
    if (a->device != b->device) {
        return a->device < b->device ? -1 : 1;
    }
    if (a->stream != b->stream) {
        return a->stream < b->stream ? -1 : 1;
    }
    return a->track < b->track ? -1 : a->track > b->track;
}

enum ks_status ks_devices_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    size_t lane_count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(analyzer->trace, KS_TABLE_gpu, &lane_count);
    size_t track_count = ks_trace_track_count(analyzer->trace);
    size_t stream_count = 1; /* track 0: rows without a stream */
    for (uint32_t i = 1; i < track_count; i++) {
        stream_count += ks_trace_track(analyzer->trace, i)->kind == KS_TRACK_STREAM;
    }
    struct stream_table streams = {.index_of =
                                       ks_new(&analyzer->scratch, uint32_t, track_count + 1),
                                   .covers = ks_new(&analyzer->scratch, struct cover, stream_count),
                                   .capacity = stream_count};
    facts->devices = ks_new(&facts->arena, struct ks_device_fact, lane_count + 1);
    facts->streams = ks_new(&facts->arena, struct ks_stream_fact, stream_count);
    if (!streams.index_of || !streams.covers || !facts->devices || !facts->streams) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep devices: count=%zu",
                       lane_count);
    }
    for (size_t i = 0; i < lane_count; i++) {
        KS_TRY(use_of_device(analyzer, &lanes[i], &streams, err));
    }
    for (size_t i = 0; i < facts->stream_count; i++) {
        facts->streams[i].busy_ns = streams.covers[i].total_ns;
        facts->streams[i].gap_ns = cover_span(&streams.covers[i]) - streams.covers[i].total_ns;
    }
    qsort(facts->devices, facts->device_count, sizeof(*facts->devices), compare_devices);
    qsort(facts->streams, facts->stream_count, sizeof(*facts->streams), compare_streams);
    return KS_OK;
}
