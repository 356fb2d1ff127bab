#include "export/speedscope_stacks.h"

#include <stdlib.h>

#include "analyze/function_tree.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"
#include "measure/sum.h"

enum { DEPTH_MAX = 4096 };

/* Call paths or stacks of samples, and the profile that is being written. */
struct stacks {
    const struct ks_row_filter *filter;
    const struct ks_view *view;
    struct ks_json *json;
    struct ks_speedscope_frames *frames;
    struct ks_function_tree tree;
    uint32_t *frame_of; /* by function */
    int64_t sum;        /* of the weights written */
};

/* ------------------------------------------------------------------ names of profiles */

static void append_owner(struct ks_text *title, const struct ks_view *view, uint32_t source)
{
    int64_t rank = ks_trace_source(view->trace, source)->rank;
    if (rank >= 0) {
        ks_text_printf(title, "rank %lld, ", (long long)rank);
    }
}

static void append_number(struct ks_text *title, const struct ks_view *view, const char *word,
                          const struct ks_track *track)
{
    struct ks_str text = ks_view_str(view, track->text);
    if (track->text.v != 0) {
        ks_text_printf(title, "%s %.*s", word, (int)(text.len < 200 ? text.len : 200), text.ptr);
    } else {
        ks_text_printf(title, "%s %lld", word, (long long)track->number);
    }
}

void ks_speedscope_append_title(struct ks_text *title, const struct ks_view *view, uint32_t id)
{
    const struct ks_trace *trace = view->trace;
    const struct ks_track *track = ks_trace_track(trace, id);
    append_owner(title, view, track->source);
    if (track->parent != 0) {
        append_number(title, view, track->kind == KS_TRACK_STREAM ? "GPU" : "pid",
                      ks_trace_track(trace, track->parent));
        ks_text_append_str(title, KS_STR(", "));
    }
    append_number(title, view, track->kind == KS_TRACK_STREAM ? "stream" : "thread", track);
    struct ks_str name = ks_view_str(view, track->name);
    if (name.len > 0) {
        ks_text_printf(title, ": %.*s", (int)(name.len < 200 ? name.len : 200), name.ptr);
    }
}

/* ------------------------------------------------------------------ frames */

void ks_speedscope_frames_init(struct ks_speedscope_frames *frames)
{
    *frames = (struct ks_speedscope_frames){0};
    ks_map_init(&frames->index);
}

void ks_speedscope_frames_release(struct ks_speedscope_frames *frames)
{
    ks_map_release(&frames->index);
    ks_free(frames->list);
}

enum ks_status ks_speedscope_frames_find(struct ks_speedscope_frames *frames,
                                         const struct ks_function_id *id, uint32_t *frame,
                                         struct ks_err *err)
{
    uint64_t place = (uint64_t)id->file.v << 32 | id->first_line;
    KS_TRY(ks_grow(&frames->list, frames->count, &frames->capacity, sizeof(*frames->list), "frames",
                   err));
    uint64_t *at = ks_map_put(&frames->index, id->name.v, place, NULL);
    if (!at) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep frames: count=%zu",
                       frames->count);
    }
    if (*at == 0) {
        frames->list[frames->count] = *id;
        *at = ++frames->count;
    }
    *frame = (uint32_t)*at - 1;
    return KS_OK;
}

void ks_speedscope_frames_write(const struct ks_speedscope_frames *frames,
                                const struct ks_view *view, struct ks_json *json)
{
    ks_json_array_begin(json, "frames");
    for (size_t i = 0; i < frames->count && !json->failed; i++) {
        const struct ks_function_id *id = &frames->list[i];
        ks_json_object_begin(json, NULL);
        ks_json_str(json, "name", ks_view_str(view, id->name));
        if (id->file.v != 0) {
            ks_json_str(json, "file", ks_view_str(view, id->file));
        }
        if (id->first_line > 0) {
            ks_json_int(json, "line", id->first_line);
        }
        ks_json_object_end(json);
    }
    ks_json_array_end(json);
}

/* ------------------------------------------------------------------ profiles */

static enum ks_status begin_profile(struct stacks *stacks, uint32_t track, const char *what,
                                    const char *unit, struct ks_err *err)
{
    struct ks_text title;
    ks_text_init(&title);
    ks_text_printf(&title, "%s of ", what);
    ks_speedscope_append_title(&title, stacks->view, track);
    bool has_failed = title.failed;
    if (!has_failed) {
        ks_json_object_begin(stacks->json, NULL);
        ks_json_text(stacks->json, "type", "sampled");
        ks_json_str(stacks->json, "name", (struct ks_str){title.ptr, title.len});
        ks_json_text(stacks->json, "unit", unit);
        ks_json_int(stacks->json, "startValue", 0);
    }
    ks_text_release(&title);
    return has_failed ? ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot name profile: no memory")
                      : KS_OK;
}

static void end_profile(struct stacks *stacks)
{
    ks_json_int(stacks->json, "endValue", stacks->sum);
    ks_json_object_end(stacks->json);
}

/* The outermost frame first. Of a stack deeper than the limit the innermost are there. */
static void write_stack(struct stacks *stacks, uint32_t node)
{
    uint32_t path[DEPTH_MAX];
    size_t depth = 0;
    for (; node != 0 && depth < DEPTH_MAX; node = stacks->tree.caller_of[node]) {
        path[depth++] = stacks->frame_of[stacks->tree.function_of[node]];
    }
    ks_json_array_begin(stacks->json, NULL);
    while (depth > 0) {
        ks_json_int(stacks->json, NULL, path[--depth]);
    }
    ks_json_array_end(stacks->json);
}

static enum ks_status number_frames(struct stacks *stacks, struct ks_err *err)
{
    size_t count = stacks->tree.function_count;
    stacks->frame_of = ks_alloc(count + 1, sizeof(*stacks->frame_of));
    if (!stacks->frame_of) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep frames: count=%zu", count);
    }
    for (size_t i = 0; i < count; i++) {
        KS_TRY(ks_speedscope_frames_find(stacks->frames, &stacks->tree.functions[i],
                                         &stacks->frame_of[i], err));
    }
    return KS_OK;
}

static void release(struct stacks *stacks)
{
    ks_function_tree_release(&stacks->tree);
    ks_free(stacks->frame_of);
}

/* ------------------------------------------------------------------ call paths */

/* Ids of paths with time of their own, those of one thread together. */
struct path_list {
    uint32_t *ids;
    size_t count;
};

static int compare_paths(const void *left, const void *right, void *trace)
{
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;
    uint32_t track_a = ks_trace_call_path(trace, a)->track;
    uint32_t track_b = ks_trace_call_path(trace, b)->track;
    int order = (track_a > track_b) - (track_a < track_b);
    return order ? order : (a > b) - (a < b);
}

static enum ks_status list_paths(const struct ks_trace *trace, struct path_list *list,
                                 struct ks_err *err)
{
    uint32_t count = ks_trace_call_path_count(trace);
    list->ids = ks_alloc((size_t)count + 1, sizeof(*list->ids));
    if (!list->ids) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep call paths: count=%u", count);
    }
    for (uint32_t id = 1; id <= count; id++) {
        list->ids[list->count] = id;
        list->count += ks_call_path_self_ns(ks_trace_call_path(trace, id)) > 0;
    }
    if (list->count > 0) {
        qsort_r(list->ids, list->count, sizeof(*list->ids), compare_paths,
                (void *)(uintptr_t)trace);
    }
    return KS_OK;
}

static enum ks_status write_path_profile(struct stacks *stacks, const uint32_t *ids, size_t count,
                                         struct ks_err *err)
{
    const struct ks_trace *trace = stacks->view->trace;
    uint32_t track = ks_trace_call_path(trace, ids[0])->track;
    KS_TRY(begin_profile(stacks, track, "calls", "nanoseconds", err));
    stacks->sum = 0;
    ks_json_array_begin(stacks->json, "samples");
    for (size_t i = 0; i < count && !stacks->json->failed; i++) {
        write_stack(stacks, ids[i]);
    }
    ks_json_array_end(stacks->json);
    ks_json_array_begin(stacks->json, "weights");
    for (size_t i = 0; i < count; i++) {
        int64_t self_ns = ks_call_path_self_ns(ks_trace_call_path(trace, ids[i]));
        ks_json_int(stacks->json, NULL, self_ns);
        stacks->sum = ks_sum_add(stacks->sum, self_ns);
    }
    ks_json_array_end(stacks->json);
    end_profile(stacks);
    return KS_OK;
}

static enum ks_status write_paths(struct stacks *stacks, struct path_list *list, struct ks_err *err)
{
    const struct ks_trace *trace = stacks->view->trace;
    size_t begin = 0;
    KS_TRY(ks_function_tree_of_paths(&stacks->tree, trace, err));
    KS_TRY(number_frames(stacks, err));
    KS_TRY(list_paths(trace, list, err));
    while (begin < list->count) {
        uint32_t track = ks_trace_call_path(trace, list->ids[begin])->track;
        size_t end = begin;
        while (end < list->count && ks_trace_call_path(trace, list->ids[end])->track == track) {
            end++;
        }
        KS_TRY(write_path_profile(stacks, list->ids + begin, end - begin, err));
        begin = end;
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ samples */

/* Once for the stacks, and once more for their weights. */
static enum ks_status scan_samples(struct stacks *stacks, const struct ks_lane *lane,
                                   bool is_weights, struct ks_err *err)
{
    struct ks_sample_scan scan;
    enum ks_status status;
    ks_json_array_begin(stacks->json, is_weights ? "weights" : "samples");
    ks_sample_scan_open(&scan, stacks->view->trace,
                        KS_COLUMN_BIT(KS_SAMPLE_COL_start_ns) | KS_COLUMN_BIT(KS_SAMPLE_COL_stack) |
                            KS_COLUMN_BIT(KS_SAMPLE_COL_weight),
                        lane->row_begin, lane->row_end);
    while ((status = ks_sample_scan_next(&scan, err)) == KS_OK && !stacks->json->failed) {
        for (size_t i = 0; i < scan.count; i++) {
            if (!ks_row_filter_keeps_moment(stacks->filter, lane->track, scan.col.start_ns[i])) {
                continue;
            }
            if (is_weights) {
                ks_json_int(stacks->json, NULL, scan.col.weight[i]);
                stacks->sum = ks_sum_add(stacks->sum, scan.col.weight[i]);
            } else {
                write_stack(stacks, scan.col.stack[i]);
            }
        }
    }
    ks_sample_scan_close(&scan);
    ks_json_array_end(stacks->json);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status write_samples(struct stacks *stacks, struct ks_err *err)
{
    const struct ks_trace *trace = stacks->view->trace;
    size_t lane_count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(trace, KS_TABLE_sample, &lane_count);
    KS_TRY(ks_function_tree_of_stacks(&stacks->tree, trace, err));
    KS_TRY(number_frames(stacks, err));
    for (size_t i = 0; i < lane_count && !stacks->json->failed; i++) {
        stacks->sum = 0;
        KS_TRY(begin_profile(stacks, lanes[i].track, "samples", "none", err));
        KS_TRY(scan_samples(stacks, &lanes[i], false, err));
        KS_TRY(scan_samples(stacks, &lanes[i], true, err));
        end_profile(stacks);
    }
    return KS_OK;
}

enum ks_status ks_speedscope_stacks(const struct ks_row_filter *filter, const struct ks_view *view,
                                    struct ks_speedscope_frames *frames, struct ks_json *json,
                                    struct ks_err *err)
{
    struct stacks paths = {.filter = filter, .view = view, .json = json, .frames = frames};
    struct stacks samples = paths;
    struct path_list list = {0};
    enum ks_status status = KS_OK;
    bool has_choice = filter->has_time || filter->has_categories;
    if (ks_trace_call_path_count(view->trace) > 0 && !has_choice) {
        status = write_paths(&paths, &list, err);
    }
    if (status == KS_OK && ks_trace_rows(view->trace, KS_TABLE_sample) > 0) {
        status = write_samples(&samples, err);
    }
    release(&paths);
    release(&samples);
    ks_free(list.ids);
    return status;
}
