#include "capture/monitor/curves.h"

#include <string.h>

#include "capture/shared/recorder.h"

void ks_curves_init(struct ks_curves *curves)
{
    (void)pthread_mutex_init(&curves->lock, NULL);
}

/* ------------------------------------------------------------------ memory */

/* `more` follows `point`. */
static void join(struct ks_curve_point *point, const struct ks_curve_point *more)
{
    float seconds = point->seconds + more->seconds;
    float share = seconds > 0 ? more->seconds / seconds : 0.5F;
    point->mean += (more->mean - point->mean) * share;
    point->min = more->min < point->min ? more->min : point->min;
    point->max = more->max > point->max ? more->max : point->max;
    point->seconds = seconds;
    point->end_ns = more->end_ns;
}

/* The time behind the last value of a curve, which is told anew: `value` is of both. */
static void join_rest(struct ks_curve *curve, struct ks_curve_point *points, int64_t now_ns,
                      const struct ks_look_value *value)
{
    float whole = (float)value->value;
    uint32_t index = curve->value_count > 0 ? curve->count : curve->count - 1;
    const struct ks_curve_point rest = {.end_ns = now_ns,
                                        .seconds = value->seconds,
                                        .mean = value->rest,
                                        .min = whole,
                                        .max = whole};
    join(&points[index], &rest);
    curve->last = value->value;
    curve->last_ns = now_ns;
}

static void halve(struct ks_curve *curve, struct ks_curve_point *points)
{
    for (size_t i = 0; i < KS_CURVE_POINTS_MAX / 2; i++) {
        struct ks_curve_point point = points[2 * i];
        join(&point, &points[2 * i + 1]);
        points[i] = point;
    }
    curve->count = KS_CURVE_POINTS_MAX / 2;
    curve->point_size *= 2;
}

static void end_point(struct ks_curves *curves, uint32_t series)
{
    struct ks_curve *curve = &curves->list[series];
    curve->value_count = 0;
    curve->count++;
    if (curve->count == KS_CURVE_POINTS_MAX) {
        halve(curve, curves->points[series]);
    }
}

static void keep(struct ks_curves *curves, int64_t now_ns, const struct ks_look_value *value)
{
    struct ks_curve *curve = &curves->list[value->series];
    struct ks_curve_point *at = &curves->points[value->series][curve->count];
    float seconds = value->seconds;
    if (value->is_rest && !curve->was_paused && curve->count + curve->value_count > 0) {
        join_rest(curve, curves->points[value->series], now_ns, value);
        return;
    }
    if (seconds <= 0 && curve->point_size > 0 && !curve->was_paused) {
        seconds = (float)(now_ns - curve->last_ns) / 1e9F;
    }
    struct ks_curve_point point = {.end_ns = now_ns,
                                   .seconds = seconds,
                                   .mean = (float)value->value,
                                   .min = (float)value->value,
                                   .max = (float)value->value};
    if (curve->value_count == 0) {
        *at = point;
    } else {
        join(at, &point);
    }
    curve->point_size = curve->point_size > 0 ? curve->point_size : 1;
    curve->was_paused = false;
    curve->last = value->value;
    curve->last_ns = now_ns;
    if (++curve->value_count >= curve->point_size) {
        end_point(curves, value->series);
    }
}

static void keep_waiting(struct ks_curves *curves)
{
    for (uint32_t i = 0; i < curves->waiting_count; i++) {
        keep(curves, curves->waiting[i].now_ns, &curves->waiting[i].value);
    }
    curves->waiting_count = 0;
}

void ks_curves_pause(struct ks_curves *curves)
{
    (void)pthread_mutex_lock(&curves->lock);
    keep_waiting(curves);
    for (uint32_t i = 0; i < KS_SERIES_COUNT; i++) {
        curves->list[i].was_paused = true;
        if (curves->list[i].value_count > 0) {
            end_point(curves, i);
        }
    }
    (void)pthread_mutex_unlock(&curves->lock);
}

/* ------------------------------------------------------------------ recording */

static uint32_t string_of(const char *text)
{
    return ks_capture_string(text, strlen(text));
}

/* Numbers of metrics in the recording are those of series, from 1. */
static void write_metric(struct ks_curves *curves, uint32_t series)
{
    const struct ks_metric_kind *kind = &ks_metric_kinds[ks_series_metric(series)];
    const struct ks_wire_metric metric = {.id = series + 1,
                                          .name = string_of(kind->name),
                                          .unit = string_of(kind->unit),
                                          .index = ks_series_index(series)};
    curves->is_written[series] = ks_capture_item(KS_WIRE_METRIC, &metric, sizeof(metric));
}

static void begin_recording(struct ks_curves *curves, uint32_t generation)
{
    curves->generation = generation;
    memset(curves->is_written, 0, sizeof(curves->is_written));
}

enum { ENTRY_SIZE = sizeof(uint32_t) + sizeof(double), ENTRIES_MAX = 300 };

static void write_values(const struct ks_look_value *values, uint32_t count, uint64_t tick)
{
    char payload[sizeof(struct ks_wire_metrics) + ENTRIES_MAX * ENTRY_SIZE];
    const struct ks_wire_metrics head = {.tick = tick, .count = count};
    char *at = payload + sizeof(head);
    memcpy(payload, &head, sizeof(head));
    for (uint32_t i = 0; i < count; i++, at += ENTRY_SIZE) {
        uint32_t id = values[i].series + 1;
        memcpy(at, &id, sizeof(id));
        memcpy(at + sizeof(id), &values[i].value, sizeof(values[i].value));
    }
    (void)ks_capture_item(KS_WIRE_METRICS, payload, (size_t)(at - payload));
}

static void record(struct ks_curves *curves, const struct ks_look *look)
{
    if (!ks_capture_is_on()) {
        return;
    }
    uint32_t generation = ks_capture_generation();
    if (generation != curves->generation) {
        begin_recording(curves, generation);
    }
    for (uint32_t i = 0; i < look->count; i++) {
        if (!curves->is_written[look->values[i].series]) {
            write_metric(curves, look->values[i].series);
        }
    }
    uint64_t tick = ks_capture_tick();
    for (uint32_t i = 0; i < look->count; i += ENTRIES_MAX) {
        uint32_t left = look->count - i;
        write_values(&look->values[i], left < ENTRIES_MAX ? left : ENTRIES_MAX, tick);
    }
}

void ks_curves_add(struct ks_curves *curves, const struct ks_look *look)
{
    (void)pthread_mutex_lock(&curves->lock);
    if (curves->waiting_count + look->count > KS_CURVES_WAITING_MAX) {
        keep_waiting(curves);
    }
    for (uint32_t i = 0; i < look->count; i++) {
        curves->waiting[curves->waiting_count++] =
            (struct ks_curves_value){.now_ns = look->now_ns, .value = look->values[i]};
    }
    record(curves, look);
    (void)pthread_mutex_unlock(&curves->lock);
}

/* ------------------------------------------------------------------ asking */

/* The point that is being filled counts as well. */
static uint32_t point_count(const struct ks_curve *curve)
{
    return curve->count + (curve->value_count > 0);
}

uint32_t ks_curves_points(struct ks_curves *curves, uint32_t series, int64_t from_ns, int64_t to_ns,
                          struct ks_curve_point out[KS_CURVE_POINTS_MAX])
{
    const struct ks_curve_point *points = curves->points[series];
    uint32_t count = 0;
    (void)pthread_mutex_lock(&curves->lock);
    keep_waiting(curves);
    for (uint32_t i = 0; i < point_count(&curves->list[series]); i++) {
        if (points[i].end_ns > from_ns && points[i].end_ns <= to_ns) {
            out[count++] = points[i];
        }
    }
    (void)pthread_mutex_unlock(&curves->lock);
    return count;
}

/* The first point may begin before that. */
static double seconds_within(const struct ks_curve_point *point, int64_t from_ns)
{
    double most = (double)(point->end_ns - from_ns) / 1e9;
    return (double)point->seconds < most ? (double)point->seconds : most;
}

bool ks_curves_summary(struct ks_curves *curves, uint32_t series, int64_t from_ns, int64_t to_ns,
                       struct ks_curve_summary *out)
{
    struct ks_curve_point points[KS_CURVE_POINTS_MAX]; /* 24 KiB */
    uint32_t count = ks_curves_points(curves, series, from_ns, to_ns, points);
    double weighted = 0;
    double plain = 0;
    if (count == 0) {
        return false;
    }
    *out = (struct ks_curve_summary){.last = (double)points[count - 1].mean,
                                     .min = (double)points[0].min,
                                     .max = (double)points[0].max};
    for (uint32_t i = 0; i < count; i++) {
        double seconds = seconds_within(&points[i], from_ns);
        out->min = (double)points[i].min < out->min ? (double)points[i].min : out->min;
        out->max = (double)points[i].max > out->max ? (double)points[i].max : out->max;
        out->seconds += seconds;
        weighted += (double)points[i].mean * seconds;
        plain += (double)points[i].mean;
    }
    out->mean = out->seconds > 0 ? weighted / out->seconds : plain / count;
    (void)pthread_mutex_lock(&curves->lock);
    if (curves->list[series].last_ns <= to_ns) {
        out->last = curves->list[series].last; /* in all its digits */
    }
    (void)pthread_mutex_unlock(&curves->lock);
    return true;
}
