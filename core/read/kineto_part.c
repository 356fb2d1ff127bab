/* One part of a list of events that several threads read at once. It takes clean complete events
 * with commas between them, and stops before everything else: damage, halves of slices (their other
 * half may lie in another part), the end of the list. */
#include "base/alloc.h"
#include "base/err.h"
#include "read/kineto.h"

static bool can_split(const void *state)
{
    const struct kineto *k = state;
    bool is_in_events = k->place == PLACE_EVENTS || k->place == PLACE_EVENTS_COMMA;
    return is_in_events && !k->is_resyncing && !k->is_skipping_meta;
}

static void stop_at(void *state, int64_t offset)
{
    struct kineto *k = state;
    k->stop_offset = offset;
    k->has_stopped = false;
}

static bool has_stopped(const void *state)
{
    return ((const struct kineto *)state)->has_stopped;
}

static enum ks_status part_open(const void *state, const struct ks_reader_context *context,
                                int64_t end, void **part, struct ks_err *err)
{
    struct kineto *k = NULL;
    KS_TRY(kineto_create(context, &k, err));
    k->is_unpadded = ((const struct kineto *)state)->is_unpadded;
    k->place = PLACE_EVENTS_COMMA;
    k->stop_offset = end;
    *part = k;
    return KS_OK;
}

static bool part_find(void *part, const struct ks_window *window, size_t from, size_t *place)
{
    struct kineto *k = part;
    struct ks_json_cursor c = {.at = window->ptr, .end = window->ptr + window->size};
    k->solid_before = '\0';
    while (kineto_find_event(k, &c, window->is_last) == KS_JSON_OK) {
        if (*c.at == '{' && c.at >= window->ptr + from) {
            *place = (size_t)(c.at - window->ptr);
            return true;
        }
        k->solid_before = *c.at;
        c.at++;
    }
    return false;
}

/* Events that mean the same wherever they stand. */
static bool stands_alone(const struct kineto_event *e)
{
    bool is_half = e->phase == 'B' || e->phase == 'E' || e->phase == 'b' || e->phase == 'e';
    return !e->has_trace_events && !is_half;
}

/* Moves from behind an event to the brace of the next one. False: there is another thing, or the
 * window ends first. */
static bool next_event(struct kineto *k, struct ks_json_cursor *c)
{
    ks_json_blanks(c);
    if (k->place == PLACE_EVENTS && *c->at == ',') {
        k->place = PLACE_EVENTS_COMMA;
        c->at++;
        ks_json_blanks(c);
    }
    return k->place == PLACE_EVENTS_COMMA && *c->at == '{';
}

static enum ks_status part_push(void *part, const struct ks_window *window, size_t *used,
                                struct ks_err *err)
{
    struct kineto *k = part;
    struct ks_json_cursor c = {.at = window->ptr,
                               .end = window->ptr + window->size,
                               .is_open = !window->is_last,
                               .is_exact = k->to.strict};
    k->window_ptr = window->ptr;
    k->window_offset = window->offset;
    while (next_event(k, &c)) {
        *used = (size_t)(c.at - window->ptr);
        if (kineto_offset(k, c.at) >= k->stop_offset) {
            k->has_stopped = true;
            return KS_END;
        }
        struct kineto_event event;
        c.faults = (struct ks_json_faults){0};
        enum ks_json step = kineto_event_parse(k, &c, &event);
        if (step == KS_JSON_MORE) {
            return window->is_last ? KS_END : KS_OK;
        }
        bool is_refused = k->to.strict && c.faults.first;
        if (step == KS_JSON_BAD || is_refused || !stands_alone(&event)) {
            return KS_END;
        }
        k->has_damaged_text = c.faults.strings > 0;
        KS_TRY(kineto_count_faults(k, &c, err));
        KS_TRY(kineto_emit(k, &event, c.at, err));
        k->place = PLACE_EVENTS;
    }
    *used = (size_t)(c.at - window->ptr);
    return c.at < c.end || window->is_last ? KS_END : KS_OK;
}

static enum ks_status take(void *state, void *part, bool *is_over, struct ks_err *err)
{
    struct kineto *k = state;
    const struct kineto *p = part;
    KS_TRY(ks_trace_builder_absorb(k->to.builder, p->to.builder, k->order, err));
    struct ks_source *to = k->to.source;
    const struct ks_source *from = p->to.source;
    if (from->events > 0) {
        kineto_seen(k, from->start_ns, from->end_ns);
        to->events += from->events - 1;
    }
    for (size_t i = 0; i < KS_STAT_COUNT; i++) {
        to->counts[i] += from->counts[i];
    }
    k->order = p->order < UINT32_MAX - k->order ? k->order + p->order : UINT32_MAX;
    k->place = p->place;
    *is_over = !p->has_stopped;
    return KS_OK;
}

const struct ks_reader_parts kineto_parts = {
    .can_split = can_split,
    .stop_at = stop_at,
    .has_stopped = has_stopped,
    .open = part_open,
    .find = part_find,
    .push = part_push,
    .take = take,
    .close = kineto_destroy,
};
