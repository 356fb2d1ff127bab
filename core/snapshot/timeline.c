#include "snapshot/timeline.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "snapshot/spans.h"

/* Levels at all moments of a device: event_count + 1 of them. */
struct levels {
    int64_t *active;
    int64_t *allocated;
    int64_t *reserved;
};

static enum ks_status no_memory(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow the trace: no memory");
}

static const struct ks_snap_event *event_of(const struct ks_snapshot *snapshot,
                                            const struct ks_timeline *t, size_t index)
{
    return &snapshot->events[t->first_event + index];
}

static int64_t time_of(const struct ks_snapshot *snapshot, const struct ks_timeline *t,
                       size_t moment)
{
    return event_of(snapshot, t, moment > 0 ? moment - 1 : 0)->time_us;
}

/* ------------------------------------------------------------------ levels */

/* Adds the size from `birth` to `death`, as changes that are summed up later. */
static void add_change(int64_t *changes, size_t moments, int64_t size, size_t birth, size_t death)
{
    if (birth < death) {
        changes[birth] += size;
        if (death < moments) {
            changes[death] -= size;
        }
    }
}

static void sum_up(int64_t *changes, size_t moments)
{
    for (size_t i = 1; i < moments; i++) {
        changes[i] += changes[i - 1];
    }
}

static void fill_blocks(const struct ks_timeline *t, struct levels *levels)
{
    size_t moments = t->event_count + 1;
    for (size_t i = 0; i < t->span_count; i++) {
        const struct ks_span *span = &t->spans[i];
        size_t end = span->requested < span->death ? span->requested : span->death;
        add_change(levels->active, moments, span->size, span->birth, span->death);
        add_change(levels->allocated, moments, span->size, span->birth, end);
    }
    sum_up(levels->active, moments);
    sum_up(levels->allocated, moments);
}

/* From the end backwards: segments that are there and were not allocated in the trace were there
 * before it. */
static void fill_reserved(const struct ks_snapshot *snapshot, struct ks_timeline *t,
                          struct levels *levels)
{
    int64_t level = 0;
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        level += snapshot->segments[i].device == t->device ? snapshot->segments[i].total : 0;
    }
    t->has_reserved = true;
    for (size_t moment = t->event_count;; moment--) {
        levels->reserved[moment] = level;
        t->has_reserved = t->has_reserved && level >= 0;
        if (moment == 0) {
            break;
        }
        const struct ks_snap_event *event = event_of(snapshot, t, moment - 1);
        bool is_more =
            event->action == KS_SNAP_SEGMENT_ALLOC || event->action == KS_SNAP_SEGMENT_MAP;
        bool is_less =
            event->action == KS_SNAP_SEGMENT_FREE || event->action == KS_SNAP_SEGMENT_UNMAP;
        level += is_less ? event->size : is_more ? -event->size : 0;
    }
}

/* ------------------------------------------------------------------ what they say */

static size_t highest(const int64_t *levels, size_t moments)
{
    size_t at = 0;
    for (size_t i = 1; i < moments; i++) {
        at = levels[i] > levels[at] ? i : at;
    }
    return at;
}

static void note_levels(const struct ks_snapshot *snapshot, struct ks_timeline *t,
                        const struct levels *levels)
{
    size_t moments = t->event_count + 1;
    size_t last = t->event_count;
    t->active_start = levels->active[0];
    t->active_end = levels->active[last];
    t->allocated_start = levels->allocated[0];
    t->allocated_end = levels->allocated[last];
    t->reserved_start = levels->reserved[0];
    t->reserved_end = levels->reserved[last];
    t->peak_moment = highest(levels->active, moments);
    t->active_peak = levels->active[t->peak_moment];
    t->allocated_peak = levels->allocated[highest(levels->allocated, moments)];
    t->reserved_peak = levels->reserved[highest(levels->reserved, moments)];
    t->peak_us = time_of(snapshot, t, t->peak_moment);
    t->start_us = time_of(snapshot, t, 0);
    t->end_us = time_of(snapshot, t, last);
    for (size_t i = 0; i < t->event_count; i++) {
        t->counts[event_of(snapshot, t, i)->action]++;
    }
}

/* The place of a moment on a curve: by time, or by events when they have none. */
static size_t place_of(const struct ks_snapshot *snapshot, const struct ks_timeline *t,
                       size_t moment)
{
    double span = (double)(t->end_us - t->start_us);
    double part = (double)moment / (double)(t->event_count + 1);
    if (t->start_us >= 0 && t->end_us > t->start_us) {
        part = (double)(time_of(snapshot, t, moment) - t->start_us) / span;
    }
    double place = part * KS_CURVE_POINTS_MAX;
    return place < 0.0                        ? 0
           : place >= KS_CURVE_POINTS_MAX - 1 ? KS_CURVE_POINTS_MAX - 1
                                              : (size_t)place;
}

/* The highest moment of each of the places that have one; times that go back stay in the place. */
static void draw_curve(const struct ks_snapshot *snapshot, struct ks_timeline *t,
                       const struct levels *levels)
{
    size_t place = 0;
    for (size_t moment = 0; moment <= t->event_count; moment++) {
        size_t there = place_of(snapshot, t, moment);
        struct ks_curve_point point = {time_of(snapshot, t, moment), levels->active[moment],
                                       levels->reserved[moment]};
        if (t->curve_count == 0 || there > place) {
            place = there;
            t->curve[t->curve_count++] = point;
        } else if (point.active > t->curve[t->curve_count - 1].active) {
            t->curve[t->curve_count - 1] = point;
        }
    }
}

/* ------------------------------------------------------------------ who held it */

static enum ks_status list_spans(const struct ks_snapshot *snapshot, struct ks_timeline *t,
                                 bool (*is_chosen)(const struct ks_timeline *,
                                                   const struct ks_span *),
                                 struct ks_arena *arena, struct ks_holder_list lists[2],
                                 struct ks_err *err)
{
    struct ks_holders holders;
    enum ks_status status = KS_OK;
    ks_holders_init(&holders);
    for (size_t i = 0; i < t->span_count && status == KS_OK; i++) {
        const struct ks_span *span = &t->spans[i];
        struct ks_holder holder = {
            .device = t->device,
            .stack = span->stack,
            .bytes = span->size,
            .requested = span->size,
            .count = 1,
        };
        if (is_chosen(t, span)) {
            status = ks_holders_add(&holders, snapshot->pool, &holder, err);
        }
    }
    if (status == KS_OK) {
        status = ks_holders_list(&holders, snapshot->pool, arena, &lists[0], &lists[1], err);
    }
    ks_holders_release(&holders);
    return status;
}

static bool is_at_peak(const struct ks_timeline *t, const struct ks_span *span)
{
    return ks_span_is_held(span, t->peak_moment);
}

static bool is_born_and_held(const struct ks_timeline *t, const struct ks_span *span)
{
    return span->birth > 0 && ks_span_is_held(span, t->event_count);
}

static enum ks_status list_holders(const struct ks_snapshot *snapshot, struct ks_timeline *t,
                                   struct ks_arena *arena, struct ks_err *err)
{
    struct ks_holder_list lists[2];
    for (size_t i = 0; i < t->span_count; i++) {
        const struct ks_span *span = &t->spans[i];
        bool is_born = is_born_and_held(t, span);
        t->born_bytes += is_born ? span->size : 0;
        t->born_count += is_born;
        t->peak_before += is_at_peak(t, span) && span->birth == 0 ? span->size : 0;
    }
    KS_TRY(list_spans(snapshot, t, is_at_peak, arena, lists, err));
    t->peak_by_stack = lists[0];
    t->peak_by_place = lists[1];
    KS_TRY(list_spans(snapshot, t, is_born_and_held, arena, lists, err));
    t->born_by_stack = lists[0];
    t->born_by_place = lists[1];
    return KS_OK;
}

/* ------------------------------------------------------------------ growth by step */

static bool ends_step(const struct ks_snapshot *snapshot, const struct ks_timeline *t,
                      const struct ks_snap_mark *mark)
{
    struct ks_str name = ks_strpool_get(snapshot->pool->strings, mark->name);
    return mark->is_end && mark->device == t->device && mark->time_us >= t->start_us &&
           mark->time_us <= t->end_us &&
           (ks_str_starts(name, KS_STR("Optimizer.step#")) ||
            ks_str_starts(name, KS_STR("ProfilerStep#")));
}

/* Programs with several optimizers end several steps at once: the first name counts. Steps of the
 * profiler each have a name of their own. */
static bool is_same_kind(const struct ks_snapshot *snapshot, struct ks_strid left,
                         struct ks_strid right)
{
    struct ks_str name = ks_strpool_get(snapshot->pool->strings, left);
    struct ks_str other = ks_strpool_get(snapshot->pool->strings, right);
    struct ks_str prefix = KS_STR("ProfilerStep#");
    return left.v == right.v || (ks_str_starts(name, prefix) && ks_str_starts(other, prefix));
}

static void measure_growth(const struct ks_snapshot *snapshot, struct ks_timeline *t,
                           const struct levels *levels)
{
    struct ks_step_growth *growth = &t->growth;
    size_t moment = 0;
    int64_t before = 0;
    growth->is_steady = true;
    for (size_t i = 0; t->start_us >= 0 && i < snapshot->mark_count; i++) {
        const struct ks_snap_mark *mark = &snapshot->marks[i];
        if (!ends_step(snapshot, t, mark) ||
            (growth->name.v && !is_same_kind(snapshot, growth->name, mark->name))) {
            continue;
        }
        while (moment < t->event_count && event_of(snapshot, t, moment)->time_us <= mark->time_us) {
            moment++;
        }
        int64_t level = levels->active[moment];
        growth->is_steady = growth->is_steady && (growth->step_count == 0 || level > before);
        growth->first = growth->step_count == 0 ? level : growth->first;
        growth->name = growth->name.v ? growth->name : mark->name;
        growth->last = before = level;
        growth->step_count++;
    }
    if (growth->step_count > 1) {
        growth->per_step = (growth->last - growth->first) / (int64_t)(growth->step_count - 1);
    }
    growth->is_steady = growth->is_steady && growth->step_count > 1;
}

/* ------------------------------------------------------------------ the whole */

static enum ks_status follow(struct ks_snapshot *snapshot, struct ks_timeline *t,
                             struct levels *levels, struct ks_arena *arena, struct ks_err *err)
{
    fill_blocks(t, levels);
    fill_reserved(snapshot, t, levels);
    note_levels(snapshot, t, levels);
    draw_curve(snapshot, t, levels);
    measure_growth(snapshot, t, levels);
    return list_holders(snapshot, t, arena, err);
}

/* Spans move into the arena, where all that is kept lies. */
static enum ks_status keep_spans(struct ks_timeline *t, struct ks_arena *arena, struct ks_err *err)
{
    struct ks_span *spans = t->spans;
    t->spans = ks_new(arena, struct ks_span, t->span_count + 1);
    if (t->spans && t->span_count > 0) {
        memcpy(t->spans, spans, t->span_count * sizeof(*spans));
    }
    ks_free(spans);
    return t->spans ? KS_OK : no_memory(err);
}

static enum ks_status compute(struct ks_snapshot *snapshot, struct ks_timeline *t,
                              struct ks_arena *arena, struct ks_err *err)
{
    struct levels levels;
    size_t moments = t->event_count + 1;
    KS_TRY(ks_spans_build(snapshot, t, err));
    KS_TRY(keep_spans(t, arena, err));
    levels.active = ks_alloc(moments, sizeof(int64_t));
    levels.allocated = ks_alloc(moments, sizeof(int64_t));
    levels.reserved = ks_alloc(moments, sizeof(int64_t));
    bool is_there = levels.active && levels.allocated && levels.reserved;
    enum ks_status status = is_there ? follow(snapshot, t, &levels, arena, err) : no_memory(err);
    ks_free(levels.active);
    ks_free(levels.allocated);
    ks_free(levels.reserved);
    return status;
}

enum ks_status ks_timelines_compute(struct ks_snapshot *snapshot, struct ks_arena *arena,
                                    struct ks_timeline_list *out, struct ks_err *err)
{
    *out = (struct ks_timeline_list){
        .items = ks_new(arena, struct ks_timeline, snapshot->device_count + 1),
    };
    if (!out->items) {
        return no_memory(err);
    }
    for (size_t i = 0; i < snapshot->device_count; i++) {
        struct ks_timeline *t = &out->items[out->count];
        t->device = snapshot->devices[i];
        t->event_count = ks_snapshot_events_of(snapshot, t->device, &t->first_event);
        if (t->event_count > 0) {
            KS_TRY(compute(snapshot, t, arena, err));
            out->count++;
        }
    }
    return KS_OK;
}
