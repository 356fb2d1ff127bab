/* Perfetto's own format: spans of threads and streams with their arguments, arrows from launching
 * calls to GPU work, counters of memory and of the trace.
 *
 * The trace is written thread by thread, then device by device, then counters: a reader sorts by
 * time. GPU work names its launch by a flow whose id both sides make of (file, correlation). Of a
 * call that launched a graph the arrow goes through its work one after another.
 */
#include <math.h>
#include <stdio.h>

#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/map.h"
#include "export/export.h"
#include "export/perfetto_tracks.h"
#include "export/row_filter.h"

#define KS_LOG_DOMAIN "export"

enum {
    TRACK_NAME = 2,
    TRACK_COUNTER = 8,
    COUNTER_UNIT = 3,
    COUNTER_UNIT_NAME = 6,
    UNIT_BYTES = 3,
};

struct perfetto {
    const struct ks_view *view;
    struct ks_row_filter filter;
    struct ks_perfetto_out out;
    struct ks_perfetto_lanes *lanes; /* of the device under way: by stream's track and kind */
    size_t lanes_count;
    struct ks_map counters; /* (track, what) -> uuid */
};

/* ------------------------------------------------------------------ flows */

/* Mixes both numbers, so that ids of different files do not meet. */
static uint64_t flow_id(uint32_t source, int64_t corr)
{
    uint64_t mixed = ((uint64_t)corr + 1) * 0x9E3779B97F4A7C15u ^ (uint64_t)source << 32;
    mixed = (mixed ^ mixed >> 31) * 0xBF58476D1CE4E5B9u;
    return (mixed ^ mixed >> 29) | 1;
}

/* The calls of a thread that have a correlation, side by side with its slices. */
struct calls {
    struct ks_link_scan scan;
    size_t at;
    bool is_over;
};

static void calls_open(struct calls *calls, const struct ks_trace *trace, uint32_t track)
{
    const struct ks_lane *lane = ks_trace_lane_find(trace, KS_TABLE_link, track);
    *calls = (struct calls){.is_over = lane == NULL};
    ks_link_scan_open(&calls->scan, trace,
                      KS_COLUMN_BIT(KS_LINK_COL_start_ns) | KS_COLUMN_BIT(KS_LINK_COL_corr) |
                          KS_COLUMN_BIT(KS_LINK_COL_gpu_count),
                      lane ? lane->row_begin : 0, lane ? lane->row_end : 0);
}

/* Did the call launch GPU work? Must be asked in the order of slices. */
static enum ks_status calls_ask(struct calls *calls, int64_t start_ns, int64_t corr, bool *launched,
                                struct ks_err *err)
{
    *launched = false;
    while (!calls->is_over) {
        if (calls->at == calls->scan.count) {
            enum ks_status status = ks_link_scan_next(&calls->scan, err);
            calls->at = 0;
            calls->is_over = status == KS_END;
            if (status != KS_OK) {
                return status == KS_END ? KS_OK : status;
            }
        }
        int64_t at_ns = calls->scan.col.start_ns[calls->at];
        bool is_it = at_ns == start_ns && calls->scan.col.corr[calls->at] == corr;
        if (at_ns >= start_ns && !is_it) {
            return KS_OK;
        }
        *launched = is_it && calls->scan.col.gpu_count[calls->at] > 0;
        calls->at++;
        if (is_it) {
            return KS_OK;
        }
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ threads */

static void put_known(struct ks_perfetto_out *out, enum ks_perfetto_arg arg, int64_t value)
{
    if (value >= 0) {
        ks_perfetto_arg_number(out, arg, value);
    }
}

static void put_slice_args(struct ks_perfetto_out *out, const struct ks_slice_cols *col, size_t i)
{
    bool is_python = col->category[i] == KS_CATEGORY_PYTHON;
    bool is_region = col->category[i] == KS_CATEGORY_REGION;
    put_known(out, KS_ARG_EXTERNAL_ID, col->ext_id[i]);
    put_known(out, KS_ARG_CORRELATION, col->corr[i]);
    put_known(out, KS_ARG_SEQUENCE, col->seq[i]);
    ks_perfetto_arg_text(out, KS_ARG_SHAPES, (struct ks_strid){col->dims[i]});
    ks_perfetto_arg_text(out, is_region ? KS_ARG_LABEL : KS_ARG_TYPES,
                         (struct ks_strid){col->types[i]});
    ks_perfetto_arg_text(out,
                         is_python   ? KS_ARG_CALL_FROM
                         : is_region ? KS_ARG_VALUES
                                     : KS_ARG_CONCRETE,
                         (struct ks_strid){col->concrete[i]});
    if (col->flags[i] & KS_SLICE_UNFINISHED) {
        ks_perfetto_arg_number(out, KS_ARG_UNFINISHED, 1);
    }
}

static enum ks_status put_slice(struct perfetto *p, struct ks_perfetto_lanes *lanes,
                                struct calls *calls, const struct ks_slice_scan *scan, size_t i,
                                struct ks_err *err)
{
    const struct ks_slice_cols *col = &scan->col;
    enum ks_category category = (enum ks_category)col->category[i];
    uint32_t track = col->lane[i];
    bool launched = false;
    bool is_left_out = false;
    if (col->corr[i] >= 0) {
        KS_TRY(calls_ask(calls, col->start_ns[i], col->corr[i], &launched, err));
    }
    if (!ks_row_filter_keeps_slice(&p->filter, track, category, col->start_ns[i], col->dur_ns[i])) {
        return KS_OK;
    }
    KS_TRY(ks_perfetto_span_begin(&p->out, lanes, col->start_ns[i], col->dur_ns[i], &is_left_out,
                                  err));
    if (is_left_out) {
        return KS_OK;
    }
    put_slice_args(&p->out, col, i);
    if (launched) {
        uint32_t source = ks_trace_track(p->view->trace, track)->source;
        ks_perfetto_flow(&p->out, flow_id(source, col->corr[i]));
    }
    return ks_perfetto_span_end(&p->out, (struct ks_strid){col->name[i]}, category, err);
}

static enum ks_status scan_thread(struct perfetto *p, const struct ks_lane *lane,
                                  struct ks_perfetto_lanes *lanes, struct calls *calls,
                                  struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    ks_slice_scan_open(&scan, p->view->trace, KS_ALL_COLUMNS, lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = put_slice(p, lanes, calls, &scan, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? ks_perfetto_lanes_close(&p->out, lanes, err) : status;
}

static enum ks_status write_thread(struct perfetto *p, const struct ks_lane *lane,
                                   struct ks_err *err)
{
    struct calls calls;
    struct ks_perfetto_lanes lanes = {.uuid = ks_perfetto_uuid(lane->track, KS_PERFETTO_WORK),
                                      .name = KS_STR("overlapping")};
    calls_open(&calls, p->view->trace, lane->track);
    enum ks_status status = scan_thread(p, lane, &lanes, &calls, err);
    ks_link_scan_close(&calls.scan);
    ks_perfetto_lanes_release(&lanes);
    return status;
}

static enum ks_status write_threads(struct perfetto *p, struct ks_err *err)
{
    size_t count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(p->view->trace, KS_TABLE_slice, &count);
    for (size_t i = 0; i < count; i++) {
        KS_TRY(write_thread(p, &lanes[i], err));
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ streams */

static enum ks_perfetto_kind kind_of(enum ks_category category)
{
    return ks_category_is_work(category)            ? KS_PERFETTO_WORK
           : category == KS_CATEGORY_GPU_ANNOTATION ? KS_PERFETTO_ANNOTATIONS
                                                    : KS_PERFETTO_WAITS;
}

static void put_collective(struct perfetto *p, uint32_t id)
{
    const struct ks_collective *collective = ks_trace_collective(p->view->trace, id);
    ks_perfetto_arg_text(&p->out, KS_ARG_COLLECTIVE, collective->name);
    ks_perfetto_arg_text(&p->out, KS_ARG_GROUP, collective->group);
    ks_perfetto_arg_text(&p->out, KS_ARG_RANKS, collective->ranks);
    ks_perfetto_arg_text(&p->out, KS_ARG_DTYPE, collective->dtype);
    put_known(&p->out, KS_ARG_IN_ELEMENTS, collective->in_elements);
    put_known(&p->out, KS_ARG_OUT_ELEMENTS, collective->out_elements);
    put_known(&p->out, KS_ARG_GROUP_SIZE, collective->group_size);
}

static void put_gpu_args(struct perfetto *p, const struct ks_gpu_cols *col, size_t i)
{
    struct ks_perfetto_out *out = &p->out;
    put_known(out, KS_ARG_EXTERNAL_ID, col->ext_id[i]);
    put_known(out, KS_ARG_CORRELATION, col->corr[i]);
    put_known(out, KS_ARG_BYTES, col->bytes[i]);
    ks_perfetto_arg_text(out, KS_ARG_GRID, (struct ks_strid){col->grid[i]});
    ks_perfetto_arg_text(out, KS_ARG_BLOCK, (struct ks_strid){col->block[i]});
    if (col->registers[i] > 0) {
        ks_perfetto_arg_number(out, KS_ARG_REGISTERS, col->registers[i]);
        ks_perfetto_arg_number(out, KS_ARG_SHARED, col->shared_bytes[i]);
    }
    if (!isnan(col->occupancy[i])) {
        ks_perfetto_arg_real(out, KS_ARG_OCCUPANCY, (double)col->occupancy[i]);
    }
    if (col->collective[i] != 0) {
        put_collective(p, col->collective[i]);
    }
}

static struct ks_perfetto_lanes *lanes_of(struct perfetto *p, uint32_t stream,
                                          enum ks_perfetto_kind kind)
{
    struct ks_perfetto_lanes *lanes = &p->lanes[(size_t)stream * KS_PERFETTO_KINDS + kind];
    lanes->uuid = ks_perfetto_uuid(stream, kind);
    lanes->name = KS_STR("overlapping");
    return lanes;
}

static enum ks_status put_gpu(struct perfetto *p, const struct ks_gpu_scan *scan, size_t i,
                              struct ks_err *err)
{
    const struct ks_gpu_cols *col = &scan->col;
    enum ks_category category = (enum ks_category)col->category[i];
    uint32_t stream = col->stream[i];
    enum ks_perfetto_kind kind = stream != 0 ? kind_of(category) : KS_PERFETTO_WORK;
    bool is_left_out = false;
    if (!ks_row_filter_keeps_gpu(&p->filter, col->lane[i], category, col->start_ns[i],
                                 col->dur_ns[i], col->launch_ns[i])) {
        return KS_OK;
    }
    KS_TRY(ks_perfetto_span_begin(&p->out, lanes_of(p, stream != 0 ? stream : col->lane[i], kind),
                                  col->start_ns[i], col->dur_ns[i], &is_left_out, err));
    if (is_left_out) {
        return KS_OK;
    }
    put_gpu_args(p, col, i);
    if (col->corr[i] >= 0 && ks_category_is_work(category) && col->launch_ns[i] != KS_TIME_NONE) {
        uint32_t source = ks_trace_track(p->view->trace, col->lane[i])->source;
        ks_perfetto_flow(&p->out, flow_id(source, col->corr[i]));
    }
    return ks_perfetto_span_end(&p->out, (struct ks_strid){col->name[i]}, category, err);
}

static enum ks_status scan_devices(struct perfetto *p, struct ks_err *err)
{
    const struct ks_trace *trace = p->view->trace;
    struct ks_gpu_scan scan;
    enum ks_status status;
    ks_gpu_scan_open(&scan, trace, KS_ALL_COLUMNS, 0, ks_trace_rows(trace, KS_TABLE_gpu));
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = put_gpu(p, &scan, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_gpu_scan_close(&scan);
    for (size_t i = 0; i < p->lanes_count && status == KS_END; i++) {
        enum ks_status closed = ks_perfetto_lanes_close(&p->out, &p->lanes[i], err);
        status = closed == KS_OK ? KS_END : closed;
    }
    return status == KS_END ? KS_OK : status;
}

static enum ks_status write_devices(struct perfetto *p, struct ks_err *err)
{
    size_t count = (size_t)ks_trace_track_count(p->view->trace) * KS_PERFETTO_KINDS;
    p->lanes = ks_alloc(count, sizeof(*p->lanes));
    p->lanes_count = p->lanes ? count : 0;
    return p->lanes
               ? scan_devices(p, err)
               : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep tracks: count=%zu", count);
}

/* ------------------------------------------------------------------ counters */

/* Which counter of a track. */
struct counter {
    uint32_t track;
    uint32_t series;
    uint64_t what; /* COUNTER_MARK and the name, or the device of memory */
    bool is_bytes;
    struct ks_strid unit; /* 0: the file says none */
};

enum { COUNTER_MARK = 40, COUNTER_UUID = 60 }; /* bits */

/* The track of a counter, described when it is met for the first time. */
static enum ks_status find_counter(struct perfetto *p, const struct counter *counter,
                                   struct ks_str name, uint64_t *uuid, struct ks_err *err)
{
    bool added = false;
    uint64_t key = (uint64_t)counter->track << 32 | counter->series;
    uint64_t *slot = ks_map_put(&p->counters, key, counter->what, &added);
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep counters: count=%zu",
                       p->counters.count);
    }
    if (!added) {
        *uuid = *slot;
        return KS_OK;
    }
    *uuid = *slot = (uint64_t)1 << COUNTER_UUID | p->counters.count;
    struct ks_proto_out *proto =
        ks_perfetto_track_begin(&p->out, *uuid, ks_perfetto_uuid(counter->track, KS_PERFETTO_WORK));
    ks_proto_text(proto, TRACK_NAME, name);
    ks_proto_begin(proto, TRACK_COUNTER);
    if (counter->is_bytes) {
        ks_proto_number(proto, COUNTER_UNIT, UNIT_BYTES);
    } else if (counter->unit.v != 0) {
        ks_proto_text(proto, COUNTER_UNIT_NAME, ks_view_str(p->view, counter->unit));
    }
    ks_proto_end(proto);
    return ks_perfetto_track_end(&p->out, err);
}

static enum ks_status put_bytes(struct perfetto *p, const struct ks_memory_cols *col, size_t i,
                                bool is_reserved, struct ks_err *err)
{
    char name[64];
    uint64_t uuid = 0;
    int64_t device = col->device[i];
    int64_t bytes = is_reserved ? col->reserved[i] : col->allocated[i];
    const char *word = is_reserved ? "reserved" : "allocated";
    struct counter counter = {
        .track = col->lane[i], .what = (uint64_t)(device + 1) << 1 | is_reserved, .is_bytes = true};
    if (bytes < 0) {
        return KS_OK; // not known
    }
    if (device < 0) {
        (void)snprintf(name, sizeof(name), "host memory, %s", word);
    } else {
        (void)snprintf(name, sizeof(name), "GPU %lld memory, %s", (long long)device, word);
    }
    KS_TRY(find_counter(p, &counter, ks_str_from(name), &uuid, err));
    return ks_perfetto_counter(&p->out, uuid, col->start_ns[i], (double)bytes, err);
}

static enum ks_status put_memory(struct perfetto *p, const struct ks_memory_cols *col, size_t i,
                                 struct ks_err *err)
{
    if (!ks_row_filter_keeps_memory(&p->filter, col->lane[i], col->start_ns[i], col->device[i])) {
        return KS_OK;
    }
    KS_TRY(put_bytes(p, col, i, false, err));
    return put_bytes(p, col, i, true, err);
}

static enum ks_status write_memory(struct perfetto *p, struct ks_err *err)
{
    const struct ks_trace *trace = p->view->trace;
    struct ks_memory_scan scan;
    enum ks_status status;
    ks_memory_scan_open(&scan, trace, KS_ALL_COLUMNS, 0, ks_trace_rows(trace, KS_TABLE_memory));
    while ((status = ks_memory_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = put_memory(p, &scan.col, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_memory_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status put_mark(struct perfetto *p, const struct ks_mark_cols *col, size_t i,
                               struct ks_text *name, struct ks_err *err)
{
    uint32_t track = col->lane[i];
    struct ks_strid id = {col->name[i]};
    if (!ks_row_filter_keeps_moment(&p->filter, track, col->start_ns[i])) {
        return KS_OK;
    }
    if (!(col->flags[i] & KS_MARK_COUNTER)) {
        ks_perfetto_instant_begin(&p->out, ks_perfetto_uuid(track, KS_PERFETTO_WORK),
                                  col->start_ns[i], id);
        ks_perfetto_arg_text(&p->out, KS_ARG_LABEL, (struct ks_strid){col->series[i]});
        ks_perfetto_arg_text(&p->out, KS_ARG_VALUES, (struct ks_strid){col->values[i]});
        return ks_perfetto_instant_end(&p->out, err);
    }
    uint64_t uuid = 0;
    struct counter counter = {.track = track,
                              .series = col->series[i],
                              .what = (uint64_t)1 << COUNTER_MARK | id.v,
                              .unit = {col->unit[i]}};
    ks_text_reset(name);
    ks_text_append_str(name, ks_view_str(p->view, id));
    if (col->series[i] != 0) {
        ks_text_append_str(name, KS_STR(", "));
        ks_text_append_str(name, ks_view_str(p->view, (struct ks_strid){col->series[i]}));
    }
    if (name->failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot name a counter: no memory");
    }
    KS_TRY(find_counter(p, &counter, (struct ks_str){name->ptr, name->len}, &uuid, err));
    return isnan(col->value[i])
               ? KS_OK
               : ks_perfetto_counter(&p->out, uuid, col->start_ns[i], col->value[i], err);
}

static enum ks_status write_marks(struct perfetto *p, struct ks_err *err)
{
    const struct ks_trace *trace = p->view->trace;
    struct ks_mark_scan scan;
    struct ks_text name;
    enum ks_status status;
    ks_text_init(&name);
    ks_mark_scan_open(&scan, trace, KS_ALL_COLUMNS, 0, ks_trace_rows(trace, KS_TABLE_mark));
    while ((status = ks_mark_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = put_mark(p, &scan.col, i, &name, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_mark_scan_close(&scan);
    ks_text_release(&name);
    return status == KS_END ? KS_OK : status;
}

/* ------------------------------------------------------------------ the trace */

static enum ks_status write_trace(struct perfetto *p, struct ks_err *err)
{
    KS_TRY(ks_perfetto_start(&p->out, err));
    KS_TRY(ks_perfetto_describe_tracks(&p->out, p->view, err));
    KS_TRY(write_threads(p, err));
    KS_TRY(write_devices(p, err));
    KS_TRY(write_memory(p, err));
    KS_TRY(write_marks(p, err));
    return ks_perfetto_finish(&p->out, err);
}

enum ks_status ks_export_perfetto(const struct ks_view *view,
                                  const struct ks_export_options *options, const struct ks_log *log,
                                  ks_write_cb write, void *user, struct ks_err *err)
{
    struct perfetto p = {.view = view};
    KS_TRY(ks_row_filter_init(&p.filter, view, options, err));
    ks_map_init(&p.counters);
    enum ks_status status = ks_perfetto_init(&p.out, view->trace, write, user, err);
    if (status == KS_OK) {
        status = write_trace(&p, err);
    }
    if (status == KS_OK && p.out.left_out_count > 0) {
        KS_LOG(log, KS_LOG_WARN, "left out %lld spans that overlap with hundreds of others",
               (long long)p.out.left_out_count);
    }
    for (size_t i = 0; i < p.lanes_count; i++) {
        ks_perfetto_lanes_release(&p.lanes[i]);
    }
    ks_free(p.lanes);
    ks_map_release(&p.counters);
    ks_perfetto_release(&p.out);
    return status;
}
