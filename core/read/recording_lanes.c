/* Events of one lane, in their order, to rows: a region is a slice, an instant or a counter a mark.
 * A lane is one thread's, but what follows a track event belongs to one of its tasks, each with
 * open regions of its own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "read/recording_impl.h"

enum {
    KIND_SHIFT = 32,
    FLAGS_SHIFT = 40,
    AUX_SHIFT = 48,
    KIND_MASK = 0xFF,
    VALUES_MAX = 64,  /* of one region or instant */
    SEARCH_MAX = 256, /* open regions that an end looks through for its begin */
    TEXT_ROOM = 32,   /* a number in text */
    DIGITS_MIN = 15,  /* of a double: these many may be enough ... */
    DIGITS_MAX = 17,  /* ... and these always are */
};

struct event {
    uint64_t tick;
    uint32_t id;
    uint8_t kind;
    bool is_of_mark;  /* values: of the instant before it */
    uint16_t of_site; /* values: low bits of the region's site, 0: of the innermost one */
    int64_t offset;
};

struct lane {
    struct recording *r;
    uint32_t tid;
    uint32_t track; /* of the thread, or of the task that runs */
    uint32_t order; /* of the next region */
    uint64_t tick_last;
    bool has_counter; /* the event before was a counter, which waits for its value */
    struct ks_mark_row counter;
    int64_t counter_offset;
    bool has_mark; /* the last instant, whose values may follow; they are those of a frame */
    struct ks_mark_row mark;
    struct recording_frame mark_values;
};

void recording_open_release(struct recording_open *open)
{
    ks_free(open->frames);
    ks_free(open->values);
    ks_map_release(&open->tops);
}

/* ------------------------------------------------------------------ names */

/* Of regions, marks, counters and keys of values. */
static enum ks_status find_site(struct lane *lane, uint32_t id, int64_t offset,
                                struct recording_site *site, struct ks_err *err)
{
    struct recording *r = lane->r;
    const uint64_t *found = ks_map_find(&r->ids, KS_WIRE_SITE, id);
    if (found) {
        *site = r->sites[*found - 1];
        return KS_OK;
    }
    char text[TEXT_ROOM];
    int len = snprintf(text, sizeof(text), "site %u", id);
    *site = (struct recording_site){0};
    KS_TRY(recording_count(r, KS_STAT_names_missing, 1, offset, err));
    return ks_trace_builder_intern(r->to.builder, (struct ks_str){text, (size_t)len}, &site->name,
                                   err);
}

/* ------------------------------------------------------------------ values as JSON */

static void put_text(struct ks_text *out, struct ks_str text)
{
    ks_text_append(out, "\"", 1);
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c < 0x20) {
            ks_text_printf(out, "\\u%04x", c);
            continue;
        }
        if (c == '"' || c == '\\') {
            ks_text_append(out, "\\", 1);
        }
        ks_text_append(out, text.ptr + i, 1);
    }
    ks_text_append(out, "\"", 1);
}

/* The fewest digits that mean this number. */
static void put_real(struct ks_text *out, double value)
{
    char text[TEXT_ROOM];
    if (!isfinite(value)) {
        ks_text_append_str(out, KS_STR("null"));
        return;
    }
    for (int digits = DIGITS_MIN; digits <= DIGITS_MAX; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (digits == DIGITS_MAX || strtod(text, NULL) == value) {
            break;
        }
    }
    ks_text_append_str(out, ks_str_from(text));
}

static enum ks_status put_value(struct lane *lane, const struct recording_value *value,
                                int64_t offset, struct ks_text *out, struct ks_err *err)
{
    struct recording *r = lane->r;
    struct recording_site key;
    struct ks_strid text = {0};
    double real = 0;
    KS_TRY(find_site(lane, value->site, offset, &key, err));
    put_text(out, ks_trace_builder_str(r->to.builder, key.name));
    ks_text_append_str(out, KS_STR(": "));
    switch (value->kind) {
    case KS_WIRE_VALUE_INT: ks_text_printf(out, "%lld", (long long)value->bits); return KS_OK;
    case KS_WIRE_VALUE_REAL:
        memcpy(&real, &value->bits, sizeof(real));
        put_real(out, real);
        return KS_OK;
    default:
        if (value->bits <= UINT32_MAX && recording_string(r, (uint32_t)value->bits, &text)) {
            put_text(out, ks_trace_builder_str(r->to.builder, text));
            return KS_OK;
        }
        ks_text_append_str(out, KS_STR("null"));
        return recording_count(r, KS_STAT_names_missing, 1, offset, err);
    }
}

/* The values become free. */
static enum ks_status take_values(struct lane *lane, const struct recording_frame *frame,
                                  uint32_t *text_id, struct ks_err *err)
{
    struct recording *r = lane->r;
    struct recording_open *open = &r->open;
    struct ks_strid id = {0};
    *text_id = 0;
    if (frame->value_first == 0) {
        return KS_OK;
    }
    ks_text_reset(&r->scratch);
    ks_text_append(&r->scratch, "{", 1);
    for (uint32_t at = frame->value_first; at != 0; at = open->values[at - 1].next) {
        ks_text_append(&r->scratch, ", ", at == frame->value_first ? 0 : 2);
        KS_TRY(put_value(lane, &open->values[at - 1], frame->offset, &r->scratch, err));
    }
    ks_text_append(&r->scratch, "}", 1);
    open->values[frame->value_last - 1].next = open->value_free;
    open->value_free = frame->value_first;
    if (r->scratch.failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep values: no memory");
    }
    KS_TRY(ks_trace_builder_intern(r->to.builder, (struct ks_str){r->scratch.ptr, r->scratch.len},
                                   &id, err));
    *text_id = id.v;
    return KS_OK;
}

/* The open region, or the instant, that a value is of, or NULL. */
static struct recording_frame *frame_of_value(struct lane *lane, const struct event *event)
{
    struct recording_open *open = &lane->r->open;
    if (event->is_of_mark) {
        return lane->has_mark ? &lane->mark_values : NULL;
    }
    const uint64_t *top = ks_map_find(&open->tops, lane->track, 0);
    size_t depth = 0;
    for (uint64_t at = top ? *top : 0; at != 0 && depth < SEARCH_MAX; depth++) {
        struct recording_frame *frame = &open->frames[at - 1];
        if (event->of_site == 0 || (frame->site & 0xFFFF) == event->of_site) {
            return frame;
        }
        at = frame->below;
    }
    return NULL;
}

static enum ks_status add_value(struct lane *lane, const struct event *event, struct ks_err *err)
{
    struct recording *r = lane->r;
    struct recording_open *open = &r->open;
    struct recording_frame *frame = frame_of_value(lane, event);
    if (!frame) {
        return recording_count(r, KS_STAT_values_without_region, 1, event->offset, err);
    }
    if (frame->value_count == VALUES_MAX) {
        return recording_count(r, KS_STAT_values_left_out, 1, event->offset, err);
    }
    uint32_t index = open->value_free;
    if (index != 0) {
        open->value_free = open->values[index - 1].next;
    } else {
        KS_TRY(ks_grow(&open->values, open->value_count, &open->value_capacity,
                       sizeof(*open->values), "values", err));
        index = (uint32_t)++open->value_count;
    }
    open->values[index - 1] =
        (struct recording_value){.site = event->id, .bits = event->tick, .kind = event->kind};
    *(frame->value_first == 0 ? &frame->value_first : &open->values[frame->value_last - 1].next) =
        index;
    frame->value_last = index;
    frame->value_count++;
    return KS_OK;
}

/* ------------------------------------------------------------------ regions */

static enum ks_status begin_region(struct lane *lane, const struct event *event, struct ks_err *err)
{
    struct recording_open *open = &lane->r->open;
    uint64_t *top = ks_map_put(&open->tops, lane->track, 0, NULL);
    if (!top) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep open regions: no memory");
    }
    uint32_t index = open->frame_free;
    if (index != 0) {
        open->frame_free = open->frames[index - 1].below;
    } else {
        KS_TRY(ks_grow(&open->frames, open->frame_count, &open->frame_capacity,
                       sizeof(*open->frames), "open regions", err));
        index = (uint32_t)++open->frame_count;
    }
    open->frames[index - 1] = (struct recording_frame){
        .below = (uint32_t)*top,
        .track = lane->track,
        .site = event->id,
        .order = lane->order++,
        .tick = event->tick,
        .offset = event->offset,
    };
    *top = index;
    return KS_OK;
}

static enum ks_status emit_region(struct lane *lane, const struct recording_frame *frame,
                                  uint64_t end_tick, struct ks_err *err)
{
    struct recording *r = lane->r;
    struct recording_site site;
    int64_t end_ns = 0;
    struct ks_slice_row row = {
        .lane = frame->track,
        .order = frame->order,
        .ext_id = -1,
        .corr = -1,
        .seq = -1,
        .aux = -1,
        .parent_aux = -1,
        .category = KS_CATEGORY_REGION,
    };
    KS_TRY(take_values(lane, frame, &row.concrete, err));
    if (!recording_time(r, frame->tick, &row.start_ns) || !recording_time(r, end_tick, &end_ns)) {
        return recording_count(r, KS_STAT_time_out_of_range, 1, frame->offset, err);
    }
    row.dur_ns = end_ns - row.start_ns;
    if (row.dur_ns < 0) {
        return recording_count(r, KS_STAT_negative_duration, 1, frame->offset, err);
    }
    KS_TRY(find_site(lane, frame->site, frame->offset, &site, err));
    row.name = site.name.v;
    row.types = site.category.v;
    r->to.source->events++;
    return ks_trace_builder_slice(r->to.builder, &row, err);
}

/* Takes the innermost region off; its frame is free again. */
static struct recording_frame pop_region(struct recording_open *open, uint64_t *top)
{
    uint32_t index = (uint32_t)*top;
    struct recording_frame frame = open->frames[index - 1];
    *top = frame.below;
    open->frames[index - 1].track = 0;
    open->frames[index - 1].below = open->frame_free;
    open->frame_free = index;
    return frame;
}

/* How many regions an end of `site` ends: those inside of the region that it means, and that one.
 * 0: none of it is open. */
static size_t depth_of(const struct recording_open *open, uint64_t top, uint32_t site)
{
    size_t depth = 1;
    for (uint64_t at = top; at != 0 && depth <= SEARCH_MAX; at = open->frames[at - 1].below) {
        if (open->frames[at - 1].site == site) {
            return depth;
        }
        depth++;
    }
    return 0;
}

static enum ks_status end_region(struct lane *lane, const struct event *event, struct ks_err *err)
{
    struct recording *r = lane->r;
    uint64_t *top = ks_map_find(&r->open.tops, lane->track, 0);
    size_t depth = top ? depth_of(&r->open, *top, event->id) : 0;
    if (depth == 0) {
        return recording_count(r, KS_STAT_end_without_begin, 1, event->offset, err);
    }
    KS_TRY(recording_count(r, KS_STAT_auto_closed_slices, depth - 1, event->offset, err));
    for (; depth > 0; depth--) {
        struct recording_frame frame = pop_region(&r->open, top);
        KS_TRY(emit_region(lane, &frame, event->tick, err));
    }
    return KS_OK;
}

/* What is open when the lane ends. */
static enum ks_status close_lane(struct lane *lane, struct ks_err *err)
{
    struct recording_open *open = &lane->r->open;
    for (size_t i = 0; i < open->frame_count; i++) {
        struct recording_frame frame = open->frames[i];
        if (frame.track == 0) {
            continue;
        }
        uint64_t *top = ks_map_find(&open->tops, frame.track, 0);
        *top = 0; // all of the track are closed
        KS_TRY(recording_count(lane->r, KS_STAT_regions_unfinished, 1, frame.offset, err));
        KS_TRY(emit_region(lane, &frame, lane->tick_last, err));
    }
    open->frame_count = 0;
    open->frame_free = 0;
    open->value_count = 0;
    open->value_free = 0;
    return KS_OK;
}

/* ------------------------------------------------------------------ marks and counters */

static enum ks_status make_mark(struct lane *lane, const struct event *event,
                                struct ks_mark_row *row, bool *is_good, struct ks_err *err)
{
    struct recording_site site;
    *row = (struct ks_mark_row){.lane = lane->track, .value = (double)NAN};
    *is_good = recording_time(lane->r, event->tick, &row->start_ns);
    if (!*is_good) {
        return recording_count(lane->r, KS_STAT_time_out_of_range, 1, event->offset, err);
    }
    KS_TRY(find_site(lane, event->id, event->offset, &site, err));
    row->name = site.name.v;
    row->series = site.category.v;
    row->unit = site.unit.v;
    return KS_OK;
}

/* No more values come. */
static enum ks_status end_mark(struct lane *lane, struct ks_err *err)
{
    if (!lane->has_mark) {
        return KS_OK;
    }
    lane->has_mark = false;
    KS_TRY(take_values(lane, &lane->mark_values, &lane->mark.values, err));
    lane->r->to.source->events++;
    return ks_trace_builder_mark(lane->r->to.builder, &lane->mark, err);
}

static enum ks_status take_mark(struct lane *lane, const struct event *event, struct ks_err *err)
{
    KS_TRY(end_mark(lane, err));
    lane->mark_values = (struct recording_frame){.offset = event->offset};
    KS_TRY(make_mark(lane, event, &lane->mark, &lane->has_mark, err));
    lane->mark.unit = 0;
    return KS_OK;
}

static enum ks_status take_counter(struct lane *lane, const struct event *event, struct ks_err *err)
{
    KS_TRY(make_mark(lane, event, &lane->counter, &lane->has_counter, err));
    lane->counter.flags = KS_MARK_COUNTER;
    lane->counter_offset = event->offset;
    return KS_OK;
}

static enum ks_status end_counter(struct lane *lane, const struct event *event, struct ks_err *err)
{
    double value = (double)NAN;
    if (event->kind == KS_WIRE_VALUE_INT) {
        value = (double)(int64_t)event->tick;
    } else if (event->kind == KS_WIRE_VALUE_REAL) {
        memcpy(&value, &event->tick, sizeof(value));
    }
    lane->has_counter = false;
    lane->counter.value = isfinite(value) ? value : (double)NAN;
    lane->r->to.source->events++;
    return ks_trace_builder_mark(lane->r->to.builder, &lane->counter, err);
}

static bool is_value(uint8_t kind)
{
    return kind >= KS_WIRE_VALUE_INT && kind <= KS_WIRE_VALUE_TEXT;
}

static enum ks_status drop_counter(struct lane *lane, struct ks_err *err)
{
    bool had_counter = lane->has_counter;
    lane->has_counter = false;
    return recording_count(lane->r, KS_STAT_counters_without_value, had_counter,
                           lane->counter_offset, err);
}

/* ------------------------------------------------------------------ the lane */

static enum ks_status take_event(struct lane *lane, const struct event *event, struct ks_err *err)
{
    if (is_value(event->kind)) {
        bool is_counter = lane->has_counter && !event->is_of_mark;
        return is_counter ? end_counter(lane, event, err) : add_value(lane, event, err);
    }
    KS_TRY(drop_counter(lane, err));
    if (event->kind == KS_WIRE_TRACK) {
        return recording_track(lane->r, lane->tid, event->id, &lane->track, err);
    }
    lane->tick_last = event->tick > lane->tick_last ? event->tick : lane->tick_last;
    switch (event->kind) {
    case KS_WIRE_BEGIN: return begin_region(lane, event, err);
    case KS_WIRE_END: return end_region(lane, event, err);
    case KS_WIRE_MARK: return take_mark(lane, event, err);
    case KS_WIRE_COUNTER: return take_counter(lane, event, err);
    default: return recording_count(lane->r, KS_STAT_unknown_kinds, 1, event->offset, err);
    }
}

/* An event that is zero was not finished; where others follow, its thread was stopped in it by a
 * signal handler that wrote them. */
static enum ks_status read_events(struct lane *lane, const struct recording_slot *slot,
                                  const char *payload, struct ks_err *err)
{
    for (size_t at = 0; slot->size - at >= sizeof(struct ks_wire_event);
         at += sizeof(struct ks_wire_event)) {
        struct ks_wire_event raw;
        memcpy(&raw, payload + at, sizeof(raw));
        struct event event = {
            .tick = raw.tick,
            .id = (uint32_t)raw.word,
            .kind = (uint8_t)(raw.word >> KIND_SHIFT & KIND_MASK),
            .is_of_mark = raw.word >> FLAGS_SHIFT & KS_WIRE_OF_MARK,
            .of_site = (uint16_t)(raw.word >> AUX_SHIFT),
            .offset = recording_offset(slot->index, at),
        };
        if (raw.word == 0) {
            KS_TRY(recording_count(lane->r, KS_STAT_events_unpublished, 1, event.offset, err));
            KS_TRY(drop_counter(lane, err));
            continue;
        }
        KS_TRY(take_event(lane, &event, err));
    }
    return KS_OK;
}

enum ks_status recording_read_lane(struct recording *r, const struct recording_slot *slots,
                                   size_t count, struct ks_err *err)
{
    struct ks_chunk_pool *pool = ks_trace_builder_pool(r->to.builder);
    struct lane lane = {.r = r, .tid = slots[0].tid};
    KS_TRY(recording_track(r, lane.tid, 0, &lane.track, err));
    for (size_t i = 0; i < count; i++) {
        if (!slots[i].chunk) {
            continue;
        }
        KS_TRY(ks_chunk_pin(pool, slots[i].chunk, err));
        enum ks_status status = read_events(&lane, &slots[i], slots[i].chunk->ptr, err);
        ks_chunk_unpin(pool, slots[i].chunk, false);
        KS_TRY(status);
    }
    KS_TRY(drop_counter(&lane, err));
    KS_TRY(end_mark(&lane, err));
    return close_lane(&lane, err);
}
