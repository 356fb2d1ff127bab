#include "snapshot/pressure.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"

static const int64_t ROUNDING = 512; /* sizes of blocks are multiples of it */
static const int64_t PAGE = (int64_t)2 << 20;

/* Where a segment or a block begins or ends. */
struct edge {
    uint64_t address;
    int8_t reserved; /* change of how often the address is reserved */
    int8_t held;
};

struct edges {
    struct edge *items;
    size_t count, capacity;
};

/* ------------------------------------------------------------------ the map at a moment */

static enum ks_status add_range(struct edges *edges, uint64_t address, int64_t size, int reserved,
                                int held, struct ks_err *err)
{
    uint64_t end = address + (uint64_t)size;
    if (size <= 0 || end < address) {
        return KS_OK;
    }
    const struct edge both[] = {
        {address, (int8_t)reserved, (int8_t)held},
        {end, (int8_t)-reserved, (int8_t)-held},
    };
    for (size_t i = 0; i < KS_COUNT_OF(both); i++) {
        KS_TRY(ks_grow(&edges->items, edges->count, &edges->capacity, sizeof(*edges->items),
                       "ranges", err));
        edges->items[edges->count++] = both[i];
    }
    return KS_OK;
}

/* Segments as they were at the moment: those of the end without what came since, and with what went
 * since. */
static enum ks_status add_segments(const struct ks_snapshot *snapshot, const struct ks_timeline *t,
                                   size_t moment, struct edges *edges, struct ks_err *err)
{
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const struct ks_snap_segment *segment = &snapshot->segments[i];
        if (segment->device == t->device) {
            KS_TRY(add_range(edges, segment->address, segment->total, 1, 0, err));
        }
    }
    for (size_t i = moment; i < t->event_count; i++) {
        const struct ks_snap_event *event = &snapshot->events[t->first_event + i];
        bool has_come =
            event->action == KS_SNAP_SEGMENT_ALLOC || event->action == KS_SNAP_SEGMENT_MAP;
        bool has_gone =
            event->action == KS_SNAP_SEGMENT_FREE || event->action == KS_SNAP_SEGMENT_UNMAP;
        if (has_come || has_gone) {
            KS_TRY(add_range(edges, event->address, event->size, has_come ? -1 : 1, 0, err));
        }
    }
    return KS_OK;
}

/* Blocks that are still there at the end are known with their rounding. */
static enum ks_status add_blocks(const struct ks_snapshot *snapshot, const struct ks_timeline *t,
                                 size_t moment, struct edges *edges, struct ks_err *err)
{
    for (size_t i = 0; i < t->span_count; i++) {
        const struct ks_span *span = &t->spans[i];
        if (!ks_span_is_held(span, moment)) {
            continue;
        }
        int64_t size = span->block != SIZE_MAX ? snapshot->blocks[span->block].size
                                               : (span->size + ROUNDING - 1) / ROUNDING * ROUNDING;
        KS_TRY(add_range(edges, span->address, size, 0, 1, err));
    }
    return KS_OK;
}

static int compare_edges(const void *left, const void *right)
{
    const struct edge *a = left;
    const struct edge *b = right;
    return (a->address > b->address) - (a->address < b->address);
}

static void add_piece(struct ks_pressure *pressure, int64_t size)
{
    if (size > 0) {
        pressure->free += size;
        pressure->free_count++;
        pressure->free_usable += size / PAGE * PAGE;
        pressure->free_largest = size > pressure->free_largest ? size : pressure->free_largest;
    }
}

/* Pieces end where a segment does, even when another one begins there. */
static void sweep(const struct edges *edges, struct ks_pressure *pressure)
{
    int64_t reserved = 0;
    int64_t held = 0;
    int64_t piece = 0;
    uint64_t before = 0;
    for (size_t i = 0; i < edges->count;) {
        uint64_t address = edges->items[i].address;
        int64_t size = (int64_t)(address - before);
        bool is_border = false;
        pressure->reserved += reserved > 0 ? size : 0;
        pressure->held += reserved > 0 && held > 0 ? size : 0;
        piece += reserved > 0 && held <= 0 ? size : 0;
        for (; i < edges->count && edges->items[i].address == address; i++) {
            reserved += edges->items[i].reserved;
            held += edges->items[i].held;
            is_border = is_border || edges->items[i].reserved != 0;
        }
        if (is_border || held > 0 || reserved <= 0) {
            add_piece(pressure, piece);
            piece = 0;
        }
        before = address;
    }
}

static enum ks_status look_at_moment(const struct ks_snapshot *snapshot,
                                     const struct ks_timeline *t, size_t moment,
                                     struct ks_pressure *pressure, struct ks_err *err)
{
    struct edges edges = {0};
    enum ks_status status = add_segments(snapshot, t, moment, &edges, err);
    if (status == KS_OK) {
        status = add_blocks(snapshot, t, moment, &edges, err);
    }
    if (status == KS_OK && edges.count > 0) {
        qsort(edges.items, edges.count, sizeof(*edges.items), compare_edges);
        sweep(&edges, pressure);
    }
    ks_free(edges.items);
    return status;
}

/* The state at the end needs no guess. */
static void look_at_end(const struct ks_snapshot *snapshot, struct ks_pressure *pressure)
{
    pressure->is_exact = true;
    for (size_t i = 0; i < snapshot->block_count; i++) {
        const struct ks_snap_block *block = &snapshot->blocks[i];
        if (snapshot->segments[block->segment].device != pressure->device) {
            continue;
        }
        if (ks_snap_is_active(block->state)) {
            pressure->held += block->size;
        } else {
            add_piece(pressure, block->size);
        }
    }
    pressure->reserved = pressure->held + pressure->free;
}

static bool changes_memory(enum ks_snap_action action)
{
    return action != KS_SNAP_OOM && action != KS_SNAP_SNAPSHOT &&
           action != KS_SNAP_FREE_REQUESTED && action != KS_SNAP_ACTION_UNKNOWN;
}

static bool is_last_change(const struct ks_snapshot *snapshot, const struct ks_timeline *t,
                           size_t moment)
{
    for (size_t i = moment; i < t->event_count; i++) {
        if (changes_memory(snapshot->events[t->first_event + i].action)) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ what follows from it */

static void judge(const struct ks_snapshot *snapshot, struct ks_pressure *pressure)
{
    bool knows_device = pressure->device_free >= 0;
    int64_t device_free = knows_device ? pressure->device_free : 0;
    int64_t all = pressure->free + device_free;
    if (pressure->free_largest >= pressure->asked) {
        pressure->verdict = pressure->is_event ? KS_PRESSURE_ELSEWHERE : KS_PRESSURE_FITS;
    } else if (device_free >= pressure->asked) {
        pressure->verdict = KS_PRESSURE_LIMITED;
    } else if (pressure->free_usable > 0 &&
               pressure->free_usable + device_free >= pressure->asked) {
        pressure->verdict =
            snapshot->is_expandable ? KS_PRESSURE_EXPANDABLE : KS_PRESSURE_FRAGMENTED;
    } else if (!knows_device) {
        pressure->verdict = KS_PRESSURE_UNKNOWN;
        pressure->missing = pressure->asked > all ? pressure->asked - all : 0;
    } else {
        pressure->verdict = KS_PRESSURE_SHORT;
        pressure->missing = pressure->asked > all ? pressure->asked - all : 0;
    }
}

static enum ks_status explain_event(const struct ks_snapshot *snapshot, const struct ks_timeline *t,
                                    size_t index, struct ks_pressure *pressure, struct ks_err *err)
{
    const struct ks_snap_event *event = &snapshot->events[t->first_event + index];
    *pressure = (struct ks_pressure){
        .device = t->device,
        .is_event = true,
        .asked = event->size,
        .device_free = event->address <= INT64_MAX / 4 ? (int64_t)event->address : -1,
        .time_us = event->time_us,
        .stack = event->stack,
    };
    if (is_last_change(snapshot, t, index + 1)) {
        look_at_end(snapshot, pressure);
    } else {
        KS_TRY(look_at_moment(snapshot, t, index + 1, pressure, err));
    }
    judge(snapshot, pressure);
    return KS_OK;
}

/* The last ones of a device; programs that catch the error may run out of memory a thousand times.
 */
static enum ks_status explain_events(const struct ks_snapshot *snapshot,
                                     const struct ks_timeline *t, struct ks_pressure_list *out,
                                     struct ks_err *err)
{
    size_t total = t->counts[KS_SNAP_OOM];
    size_t left_out = total > KS_PRESSURE_EVENTS_MAX ? total - KS_PRESSURE_EVENTS_MAX : 0;
    size_t seen = 0;
    for (size_t i = 0; i < t->event_count && seen < total; i++) {
        bool is_oom = snapshot->events[t->first_event + i].action == KS_SNAP_OOM;
        if (is_oom && seen++ >= left_out) {
            KS_TRY(explain_event(snapshot, t, i, &out->items[out->count++], err));
        }
    }
    out->event_total += total;
    return KS_OK;
}

enum ks_status ks_pressures_compute(const struct ks_snapshot *snapshot,
                                    const struct ks_timeline_list *timelines, int64_t asked,
                                    struct ks_arena *arena, struct ks_pressure_list *out,
                                    struct ks_err *err)
{
    size_t capacity = timelines->count * KS_PRESSURE_EVENTS_MAX + snapshot->device_count;
    *out = (struct ks_pressure_list){.items = ks_new(arena, struct ks_pressure, capacity + 1)};
    if (!out->items) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot explain memory: no memory");
    }
    for (size_t i = 0; i < timelines->count; i++) {
        KS_TRY(explain_events(snapshot, &timelines->items[i], out, err));
    }
    for (size_t i = 0; asked > 0 && i < snapshot->device_count; i++) {
        struct ks_pressure *pressure = &out->items[out->count++];
        *pressure = (struct ks_pressure){
            .device = snapshot->devices[i],
            .asked = asked,
            .device_free = -1,
            .time_us = -1,
        };
        look_at_end(snapshot, pressure);
        judge(snapshot, pressure);
    }
    return KS_OK;
}
