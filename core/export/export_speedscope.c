/* Speedscope's own JSON: one evented profile for each thread, then one for each GPU stream, all on
 * the same axis in ns; then sampled ones of what was counted and sampled (speedscope_stacks.c).
 *
 * Its reader wants events in order of time and frames that nest. Where two spans overlap without
 * nesting, the smaller part is given up: a row that ends a little late ends with the row around it;
 * otherwise the earlier row ends when the later begins, on streams always, so that their busy time
 * stays whole. What is cut is counted and said in the log. Rows that overlap freely (b/e events)
 * are left out.
 *
 * Frames are numbered in order of appearance, which is known only behind the last profile: the
 * table of frames comes at the end of the document.
 */
#include "base/alloc.h"
#include "base/err.h"
#include "base/text.h"
#include "export/export.h"
#include "export/row_filter.h"
#include "export/speedscope_stacks.h"
#include "measure/sum.h"
#include "show/json_writer.h"

#define KS_LOG_DOMAIN "export"

enum { STREAMS_MAX = 256, DEPTH_MAX = 4096 };

struct open_frame {
    int64_t end_ns;
    uint32_t frame;
};

struct speedscope {
    const struct ks_view *view;
    struct ks_row_filter filter;
    struct ks_json json;
    struct ks_speedscope_frames frames;
    struct open_frame open[DEPTH_MAX];
    size_t open_count;
    bool is_profile_open;
    bool is_stream;   /* of the profile under way */
    int64_t start_ns; /* of all profiles */
    int64_t end_ns;
    int64_t cut_count;
    int64_t left_out_count;
};

/* ------------------------------------------------------------------ profiles */

/* The profile begins with its first row, so that threads without rows have none. */
static enum ks_status begin_profile(struct speedscope *out, uint32_t track, struct ks_err *err)
{
    if (out->is_profile_open) {
        return KS_OK;
    }
    struct ks_text title;
    ks_text_init(&title);
    ks_speedscope_append_title(&title, out->view, track);
    bool has_failed = title.failed;
    if (!has_failed) {
        ks_json_object_begin(&out->json, NULL);
        ks_json_text(&out->json, "type", "evented");
        ks_json_str(&out->json, "name", (struct ks_str){title.ptr, title.len});
        ks_json_text(&out->json, "unit", "nanoseconds");
        ks_json_int(&out->json, "startValue", out->start_ns);
        ks_json_int(&out->json, "endValue", out->end_ns);
        ks_json_array_begin(&out->json, "events");
        out->is_profile_open = true;
    }
    ks_text_release(&title);
    return has_failed ? ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot name profile: no memory")
                      : KS_OK;
}

static void write_event(struct speedscope *out, const char *type, uint32_t frame, int64_t at_ns)
{
    ks_json_object_begin(&out->json, NULL);
    ks_json_text(&out->json, "type", type);
    ks_json_int(&out->json, "frame", frame);
    ks_json_int(&out->json, "at", at_ns);
    ks_json_object_end(&out->json);
}

static void close_top(struct speedscope *out, int64_t at_ns)
{
    write_event(out, "C", out->open[--out->open_count].frame, at_ns);
}

static void end_profile(struct speedscope *out)
{
    while (out->open_count > 0) {
        close_top(out, out->open[out->open_count - 1].end_ns);
    }
    if (out->is_profile_open) {
        ks_json_array_end(&out->json);
        ks_json_object_end(&out->json);
    }
    out->is_profile_open = false;
}

/* Makes the open frames hold [start, end) and gives the end that is left of it. */
static int64_t make_nest(struct speedscope *out, int64_t start_ns, int64_t end_ns)
{
    while (out->open_count > 0) {
        const struct open_frame *top = &out->open[out->open_count - 1];
        if (top->end_ns <= start_ns) {
            close_top(out, top->end_ns);
            continue;
        }
        if (end_ns <= top->end_ns) {
            break;
        }
        out->cut_count++;
        bool is_late = end_ns - top->end_ns <= top->end_ns - start_ns;
        if (is_late && !out->is_stream) {
            end_ns = top->end_ns;
            break;
        }
        close_top(out, start_ns);
    }
    return end_ns;
}

static enum ks_status add_row(struct speedscope *out, uint32_t track, uint32_t name,
                              int64_t start_ns, int64_t dur_ns, struct ks_err *err)
{
    int64_t end_ns = ks_sum_add(start_ns, dur_ns);
    (void)ks_row_filter_clip(&out->filter, &start_ns, &end_ns); // something is left
    KS_TRY(begin_profile(out, track, err));
    end_ns = make_nest(out, start_ns, end_ns);
    if (out->open_count == DEPTH_MAX) {
        out->left_out_count++;
        return KS_OK;
    }
    uint32_t frame = 0;
    struct ks_function_id id = {.name = {name}};
    KS_TRY(ks_speedscope_frames_find(&out->frames, &id, &frame, err));
    write_event(out, "O", frame, start_ns);
    out->open[out->open_count++] = (struct open_frame){end_ns, frame};
    return KS_OK;
}

/* ------------------------------------------------------------------ threads */

/* Kept, and no span of the recording. */
static bool is_host_row(const struct speedscope *out, const struct ks_slice_scan *scan, size_t i,
                        uint32_t track)
{
    enum ks_category category = (enum ks_category)scan->col.category[i];
    return category != KS_CATEGORY_TRACE &&
           ks_row_filter_keeps_slice(&out->filter, track, category, scan->col.start_ns[i],
                                     scan->col.dur_ns[i]);
}

static enum ks_status write_thread(struct speedscope *out, const struct ks_lane *lane,
                                   struct ks_err *err)
{
    const struct ks_trace *trace = out->view->trace;
    struct ks_slice_scan scan;
    enum ks_status status;
    ks_slice_scan_open(&scan, trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_category) |
                           KS_COLUMN_BIT(KS_SLICE_COL_flags),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK && !out->json.failed) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            if (!is_host_row(out, &scan, i, lane->track)) {
                continue;
            }
            if (scan.col.flags[i] & KS_SLICE_ASYNC) {
                out->left_out_count++;
                continue;
            }
            status = add_row(out, lane->track, scan.col.name[i], scan.col.start_ns[i],
                             scan.col.dur_ns[i], err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    end_profile(out);
    return status == KS_END ? KS_OK : status;
}

/* ------------------------------------------------------------------ streams */

static enum ks_status write_stream(struct speedscope *out, const struct ks_lane *lane,
                                   uint32_t stream, struct ks_err *err)
{
    struct ks_gpu_scan scan;
    enum ks_status status;
    ks_gpu_scan_open(&scan, out->view->trace,
                     KS_COLUMN_BIT(KS_GPU_COL_start_ns) | KS_COLUMN_BIT(KS_GPU_COL_dur_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_launch_ns) | KS_COLUMN_BIT(KS_GPU_COL_stream) |
                         KS_COLUMN_BIT(KS_GPU_COL_name) | KS_COLUMN_BIT(KS_GPU_COL_category),
                     lane->row_begin, lane->row_end);
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK && !out->json.failed) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            enum ks_category category = (enum ks_category)scan.col.category[i];
            if (scan.col.stream[i] == stream && ks_category_is_work(category) &&
                ks_row_filter_keeps_gpu(&out->filter, lane->track, category, scan.col.start_ns[i],
                                        scan.col.dur_ns[i], scan.col.launch_ns[i])) {
                status = add_row(out, stream, scan.col.name[i], scan.col.start_ns[i],
                                 scan.col.dur_ns[i], err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_gpu_scan_close(&scan);
    end_profile(out);
    return status == KS_END ? KS_OK : status;
}

/* A scan of the device for each of its streams, of which there are a few; a bound keeps traces
 * that were made up from taking hours. */
static enum ks_status write_streams(struct speedscope *out, struct ks_err *err)
{
    const struct ks_trace *trace = out->view->trace;
    out->is_stream = true;
    uint64_t rows_left = ks_trace_rows(trace, KS_TABLE_gpu) * STREAMS_MAX;
    for (uint32_t id = 1; id < ks_trace_track_count(trace) && !out->json.failed; id++) {
        const struct ks_track *track = ks_trace_track(trace, id);
        const struct ks_lane *lane = track->kind == KS_TRACK_STREAM
                                         ? ks_trace_lane_find(trace, KS_TABLE_gpu, track->parent)
                                         : NULL;
        if (!lane) {
            continue;
        }
        if (lane->row_end - lane->row_begin > rows_left) {
            return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET,
                           "Cannot export streams: devices have more than %d", STREAMS_MAX);
        }
        rows_left -= lane->row_end - lane->row_begin;
        KS_TRY(write_stream(out, lane, id, err));
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ the document */

static enum ks_status write_profiles(struct speedscope *out, struct ks_err *err)
{
    const struct ks_trace *trace = out->view->trace;
    size_t count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(trace, KS_TABLE_slice, &count);
    for (size_t i = 0; i < count && !out->json.failed; i++) {
        KS_TRY(write_thread(out, &lanes[i], err));
    }
    KS_TRY(write_streams(out, err));
    return ks_speedscope_stacks(&out->filter, out->view, &out->frames, &out->json, err);
}

static enum ks_status write_document(struct speedscope *out, struct ks_err *err)
{
    struct ks_json *json = &out->json;
    ks_json_object_begin(json, NULL);
    ks_json_text(json, "$schema", "https://www.speedscope.app/file-format-schema.json");
    ks_json_text(json, "exporter", "kinetoscope");
    ks_json_array_begin(json, "profiles");
    KS_TRY(write_profiles(out, err));
    ks_json_array_end(json);
    ks_json_object_begin(json, "shared");
    ks_speedscope_frames_write(&out->frames, out->view, json);
    ks_json_object_end(json);
    ks_json_object_end(json);
    return ks_json_finish(json, err);
}

static void say_cuts(const struct speedscope *out, const struct ks_log *log)
{
    if (out->cut_count > 0) {
        KS_LOG(log, KS_LOG_WARN, "shortened %lld spans that overlap without nesting",
               (long long)out->cut_count);
    }
    if (out->left_out_count > 0) {
        KS_LOG(log, KS_LOG_WARN, "left out %lld spans that overlap freely or lie too deep",
               (long long)out->left_out_count);
    }
}

enum ks_status ks_export_speedscope(const struct ks_view *view,
                                    const struct ks_export_options *options,
                                    const struct ks_log *log, ks_write_cb write, void *user,
                                    struct ks_err *err)
{
    struct speedscope *out = ks_alloc(1, sizeof(*out));
    if (!out) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot start export: no memory");
    }
    out->view = view;
    ks_speedscope_frames_init(&out->frames);
    ks_json_init(&out->json, write, user);
    ks_trace_span(view->trace, &out->start_ns, &out->end_ns);
    enum ks_status status = ks_row_filter_init(&out->filter, view, options, err);
    (void)ks_row_filter_clip(&out->filter, &out->start_ns, &out->end_ns);
    out->end_ns = out->end_ns > out->start_ns ? out->end_ns : out->start_ns;
    if (status == KS_OK) {
        status = write_document(out, err);
    }
    if (status == KS_OK) {
        say_cuts(out, log);
    }
    ks_speedscope_frames_release(&out->frames);
    ks_free(out);
    return status;
}
