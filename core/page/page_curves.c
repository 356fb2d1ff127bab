#include "page/page_curves.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"
#include "measure/sum.h"
#include "page/page_names.h"
#include "show/json_writer.h"

enum { CURVES_MAX = 64, PARTS = 1500, NAME_LEN_MAX = 200 };

void ks_page_curves_init(struct ks_page_curves *curves, int64_t start_ns, int64_t end_ns)
{
    *curves = (struct ks_page_curves){.start_ns = start_ns};
    curves->part_ns = ks_sum_sub(end_ns, start_ns) / PARTS + 1;
    ks_map_init(&curves->by_key);
}

void ks_page_curves_release(struct ks_page_curves *curves)
{
    ks_map_release(&curves->by_key);
    ks_free(curves->list);
    ks_free(curves->points);
    curves->list = NULL;
    curves->points = NULL;
}

/* ------------------------------------------------------------------ gathering */

/* Its place; CURVES_MAX: there is no room for it. */
static enum ks_status find_curve(struct ks_page_curves *curves, const struct ks_page_curve *curve,
                                 size_t *place, struct ks_err *err)
{
    uint64_t a = (uint64_t)curve->track << 32 | curve->series;
    uint64_t b = (uint64_t)curve->name << 32 | (uint32_t)(curve->device + 1);
    const uint64_t *found = ks_map_find(&curves->by_key, a, b);
    *place = found ? (size_t)*found : CURVES_MAX;
    if (found || curves->count == CURVES_MAX) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&curves->list, curves->count, &curves->capacity, sizeof(*curves->list), "curves",
                   err));
    uint64_t *slot = ks_map_put(&curves->by_key, a, b, NULL);
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep curves: count=%zu",
                       curves->count);
    }
    *slot = *place = curves->count;
    curves->list[curves->count++] = *curve;
    return KS_OK;
}

static int64_t part_of(const struct ks_page_curves *curves, int64_t ns)
{
    int64_t part = ks_sum_sub(ns, curves->start_ns) / curves->part_ns;
    return part < 0 ? -1 : part < PARTS ? part : PARTS; /* beyond the spans: at their ends */
}

static enum ks_status add_sample(struct ks_page_curves *curves, const struct ks_page_curve *curve,
                                 int64_t ns, double value, double second, struct ks_err *err)
{
    size_t place = 0;
    KS_TRY(find_curve(curves, curve, &place, err));
    if (place == CURVES_MAX) {
        curves->left_out++;
        return KS_OK;
    }
    int64_t part = part_of(curves, ns);
    size_t last = curves->list[place].last;
    if (last != 0 && curves->points[last - 1].part == part) {
        struct ks_page_point *point = &curves->points[last - 1];
        point->min = value < point->min ? value : point->min;
        point->max = value > point->max ? value : point->max;
        point->second_max = second > point->second_max ? second : point->second_max;
        return KS_OK;
    }
    KS_TRY(ks_grow(&curves->points, curves->point_count, &curves->point_capacity,
                   sizeof(*curves->points), "points of curves", err));
    curves->points[curves->point_count++] =
        (struct ks_page_point){ns, part, value, value, second, (uint32_t)place};
    curves->list[place].last = curves->point_count;
    return KS_OK;
}

static enum ks_status add_mark(struct ks_page_curves *curves, const struct ks_mark_cols *col,
                               size_t i, struct ks_err *err)
{
    struct ks_page_curve curve = {.track = col->lane[i],
                                  .name = col->name[i],
                                  .series = col->series[i],
                                  .unit = col->unit[i],
                                  .device = -1};
    return add_sample(curves, &curve, col->start_ns[i], col->value[i], -1.0, err);
}

enum ks_status ks_page_curves_add_counters(struct ks_page_curves *curves,
                                           const struct ks_view *view,
                                           const struct ks_row_filter *filter, struct ks_err *err)
{
    struct ks_mark_scan scan;
    enum ks_status status;
    ks_mark_scan_open(&scan, view->trace,
                      KS_COLUMN_BIT(KS_MARK_COL_lane) | KS_COLUMN_BIT(KS_MARK_COL_start_ns) |
                          KS_COLUMN_BIT(KS_MARK_COL_value) | KS_COLUMN_BIT(KS_MARK_COL_name) |
                          KS_COLUMN_BIT(KS_MARK_COL_series) | KS_COLUMN_BIT(KS_MARK_COL_unit) |
                          KS_COLUMN_BIT(KS_MARK_COL_flags),
                      0, ks_trace_rows(view->trace, KS_TABLE_mark));
    while ((status = ks_mark_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            bool is_kept =
                (scan.col.flags[i] & KS_MARK_COUNTER) && isfinite(scan.col.value[i]) &&
                ks_row_filter_keeps_moment(filter, scan.col.lane[i], scan.col.start_ns[i]);
            status = is_kept ? add_mark(curves, &scan.col, i, err) : KS_OK;
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_mark_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status add_event(struct ks_page_curves *curves, const struct ks_memory_cols *col,
                                size_t i, struct ks_err *err)
{
    struct ks_page_curve curve = {.track = col->lane[i], .device = col->device[i]};
    return add_sample(curves, &curve, col->start_ns[i], (double)col->allocated[i],
                      (double)col->reserved[i], err);
}

enum ks_status ks_page_curves_add_memory(struct ks_page_curves *curves, const struct ks_view *view,
                                         const struct ks_row_filter *filter, struct ks_err *err)
{
    struct ks_memory_scan scan;
    enum ks_status status;
    ks_memory_scan_open(&scan, view->trace,
                        KS_COLUMN_BIT(KS_MEMORY_COL_lane) | KS_COLUMN_BIT(KS_MEMORY_COL_start_ns) |
                            KS_COLUMN_BIT(KS_MEMORY_COL_allocated) |
                            KS_COLUMN_BIT(KS_MEMORY_COL_reserved) |
                            KS_COLUMN_BIT(KS_MEMORY_COL_device),
                        0, ks_trace_rows(view->trace, KS_TABLE_memory));
    while ((status = ks_memory_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            const struct ks_memory_cols *col = &scan.col;
            bool is_kept =
                col->allocated[i] >= 0 &&
                ks_row_filter_keeps_memory(filter, col->lane[i], col->start_ns[i], col->device[i]);
            status = is_kept ? add_event(curves, col, i, err) : KS_OK;
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_memory_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

/* ------------------------------------------------------------------ writing */

enum column { COLUMN_MIN, COLUMN_MAX, COLUMN_SECOND };

static void write_times(const struct ks_page_curves *curves, size_t curve, struct ks_json *json)
{
    int64_t before_ns = 0;
    ks_json_array_begin(json, "ts");
    for (size_t i = 0; i < curves->point_count; i++) {
        if (curves->points[i].curve == curve) {
            ks_json_int(json, NULL, curves->points[i].start_ns - before_ns);
            before_ns = curves->points[i].start_ns;
        }
    }
    ks_json_array_end(json);
}

static void write_value(struct ks_json *json, const struct ks_page_point *point, enum column column)
{
    if (column == COLUMN_SECOND && point->second_max < 0) {
        ks_json_null(json, NULL);
        return;
    }
    ks_json_real(json, NULL,
                 column == COLUMN_MIN   ? point->min
                 : column == COLUMN_MAX ? point->max
                                        : point->second_max);
}

static void write_column(const struct ks_page_curves *curves, size_t curve, enum column column,
                         struct ks_json *json, const char *key)
{
    ks_json_array_begin(json, key);
    for (size_t i = 0; i < curves->point_count; i++) {
        if (curves->points[i].curve == curve) {
            write_value(json, &curves->points[i], column);
        }
    }
    ks_json_array_end(json);
}

static void write_rank(const struct ks_view *view, uint32_t track, struct ks_json *json)
{
    int64_t rank = ks_view_rank(view, ks_trace_track(view->trace, track)->source);
    if (rank != KS_UNKNOWN) {
        ks_json_int(json, "rank", rank);
    } else {
        ks_json_null(json, "rank");
    }
}

static void append_cut(struct ks_text *text, struct ks_arena *arena, struct ks_str name)
{
    struct ks_str kept = ks_page_names_cut(arena, name, NAME_LEN_MAX);
    ks_text_append_str(text, kept);
    text->failed |= !kept.ptr && name.len > 0;
}

/* "name: series", where there is such a one; that of a metric is its unit. False: no memory. */
static bool write_name(const struct ks_page_curve *curve, const struct ks_view *view,
                       struct ks_json *json, struct ks_text *text, struct ks_arena *arena)
{
    struct ks_str series = ks_view_str(view, (struct ks_strid){curve->series});
    ks_text_reset(text);
    append_cut(text, arena, ks_view_str(view, (struct ks_strid){curve->name}));
    if (series.len > 0 && curve->series != curve->unit) {
        ks_text_append_str(text, KS_STR(": "));
        append_cut(text, arena, series);
    }
    ks_json_str(json, "name", (struct ks_str){text->ptr, text->len});
    return !text->failed;
}

static bool write_unit(const struct ks_page_curve *curve, const struct ks_view *view,
                       struct ks_json *json, struct ks_arena *arena)
{
    struct ks_str unit = ks_view_str(view, (struct ks_strid){curve->unit});
    struct ks_str kept = ks_page_names_cut(arena, unit, NAME_LEN_MAX);
    ks_json_str(json, "unit", kept);
    return kept.ptr || unit.len == 0;
}

enum ks_status ks_page_curves_write_counters(const struct ks_page_curves *curves,
                                             const struct ks_view *view, struct ks_json *json,
                                             struct ks_err *err)
{
    struct ks_text text;
    struct ks_arena arena;
    bool is_good = true;
    ks_text_init(&text);
    ks_arena_init(&arena);
    ks_json_array_begin(json, "counters");
    for (size_t i = 0; i < curves->count; i++) {
        ks_json_object_begin(json, NULL);
        is_good &= write_name(&curves->list[i], view, json, &text, &arena);
        is_good &= write_unit(&curves->list[i], view, json, &arena);
        write_rank(view, curves->list[i].track, json);
        write_times(curves, i, json);
        write_column(curves, i, COLUMN_MIN, json, "min");
        write_column(curves, i, COLUMN_MAX, json, "max");
        ks_json_object_end(json);
    }
    ks_json_array_end(json);
    ks_text_release(&text);
    ks_arena_release(&arena);
    return is_good ? KS_OK
                   : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot name curves: no memory");
}

static void write_device(const struct ks_page_curves *curves, size_t i, const struct ks_view *view,
                         struct ks_json *json)
{
    const struct ks_page_curve *curve = &curves->list[i];
    char name[48] = "host";
    if (curve->device >= 0) {
        (void)snprintf(name, sizeof(name), "GPU %lld", (long long)curve->device);
    }
    ks_json_object_begin(json, NULL);
    write_rank(view, curve->track, json);
    ks_json_text(json, "device", name);
    write_times(curves, i, json);
    write_column(curves, i, COLUMN_MIN, json, "allocated_min");
    write_column(curves, i, COLUMN_MAX, json, "allocated_max");
    write_column(curves, i, COLUMN_SECOND, json, "reserved");
    ks_json_object_end(json);
}

enum ks_status ks_page_curves_write_memory(const struct ks_page_curves *curves,
                                           const struct ks_view *view, ks_write_cb write,
                                           void *user, struct ks_err *err)
{
    struct ks_json json;
    ks_json_init_for_markup(&json, 0, write, user);
    ks_json_object_begin(&json, NULL);
    ks_json_array_begin(&json, "devices");
    for (size_t i = 0; i < curves->count; i++) {
        write_device(curves, i, view, &json);
    }
    ks_json_array_end(&json);
    ks_json_int(&json, "samples_left_out", (int64_t)curves->left_out);
    ks_json_object_end(&json);
    return ks_json_finish(&json, err);
}
