#include "read/recording_impl.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "wire/crc32c.h"

static const uint32_t SLOT_MAGIC = KS_WIRE_SLOT_MAGIC;

int64_t recording_offset(uint32_t slot_index, size_t place)
{
    return KS_WIRE_HEADER_SIZE + (int64_t)slot_index * KS_WIRE_SLOT_SIZE +
           KS_WIRE_SLOT_HEADER_SIZE + (int64_t)place;
}

enum ks_status recording_count(struct recording *r, enum ks_stat stat, uint64_t n, int64_t offset,
                               struct ks_err *err)
{
    if (n > 0 && r->to.strict && ks_stat_info(stat)->severity != KS_SEVERITY_INFO) {
        return ks_fail(err, KS_ERR_FORMAT, offset, "Cannot accept damaged input: %s",
                       ks_stat_info(stat)->sentence);
    }
    r->to.source->counts[stat] += n;
    return KS_OK;
}

enum ks_status recording_intern(struct recording *r, struct ks_str text, int64_t offset,
                                struct ks_strid *out, struct ks_err *err)
{
    bool is_repaired = false;
    ks_text_reset(&r->scratch);
    for (size_t at = 0; at < text.len;) {
        size_t len = ks_utf8_sequence((const unsigned char *)text.ptr + at, text.len - at);
        if (len > 0) {
            ks_text_append(&r->scratch, text.ptr + at, len);
        } else {
            ks_text_append_str(&r->scratch, KS_STR("\xEF\xBF\xBD"));
            is_repaired = true;
        }
        at += len > 0 ? len : 1;
    }
    if (r->scratch.failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep text: len=%zu", text.len);
    }
    KS_TRY(recording_count(r, KS_STAT_repaired_strings, is_repaired, offset, err));
    return ks_trace_builder_intern(r->to.builder, (struct ks_str){r->scratch.ptr, r->scratch.len},
                                   out, err);
}

/* ------------------------------------------------------------------ life cycle */

static bool sniff(struct ks_str head)
{
    return ks_str_starts(head, KS_STR(KS_WIRE_MAGIC));
}

static enum ks_status open_recording(const struct ks_reader_context *context, struct ks_str head,
                                     void **state, struct ks_err *err)
{
    struct recording *r = ks_alloc(1, sizeof(*r));
    (void)head;
    if (!r) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read recording: no memory");
    }
    r->to = *context;
    ks_map_init(&r->ids);
    ks_map_init(&r->open.tops);
    ks_text_init(&r->scratch);
    *state = r;
    return KS_OK;
}

static void close_recording(void *state)
{
    struct recording *r = state;
    if (!r) {
        return;
    }
    for (size_t i = 0; i < r->slot_count; i++) {
        ks_chunk_destroy(ks_trace_builder_pool(r->to.builder), r->slots[i].chunk);
    }
    ks_free(r->slots);
    ks_map_release(&r->ids);
    ks_free(r->sites);
    ks_free(r->units);
    ks_free(r->notes);
    ks_free(r->metrics);
    ks_free(r->codes);
    ks_free(r->stacks);
    ks_free(r->clock.points);
    recording_open_release(&r->open);
    ks_text_release(&r->scratch);
    ks_free(r);
}

/* ------------------------------------------------------------------ header */

static enum ks_status check_version(const struct ks_wire_header *header, struct ks_err *err)
{
    if (header->version == KS_WIRE_VERSION && header->header_size == KS_WIRE_HEADER_SIZE &&
        header->slot_size == KS_WIRE_SLOT_SIZE) {
        return KS_OK;
    }
    return ks_fail(err, KS_ERR_UNSUPPORTED, 0,
                   "Cannot read recording: it is of version %u, this is version %d",
                   header->version, KS_WIRE_VERSION);
}

static enum ks_status take_header(struct recording *r, const char *bytes, struct ks_err *err)
{
    size_t crc_at = offsetof(struct ks_wire_header, crc);
    memcpy(&r->header, bytes, sizeof(r->header));
    r->has_header = true;
    r->is_header_good = ks_wire_crc32c(0, bytes, crc_at) == r->header.crc;
    if (r->is_header_good) {
        return check_version(&r->header, err);
    }
    return recording_count(r, KS_STAT_recording_header_damaged, 1, (int64_t)crc_at, err);
}

/* ------------------------------------------------------------------ slots */

static enum ks_status keep_payload(struct recording *r, struct recording_slot *slot,
                                   const char *payload, struct ks_err *err)
{
    struct ks_chunk_pool *pool = ks_trace_builder_pool(r->to.builder);
    if (slot->size == 0) {
        return KS_OK;
    }
    KS_TRY(ks_chunk_create_raw(pool, slot->size, &slot->chunk, err));
    memcpy(slot->chunk->ptr, payload, slot->size);
    ks_chunk_unpin(pool, slot->chunk, true);
    return KS_OK;
}

static enum ks_status take_payload(struct recording *r, struct recording_slot *slot,
                                   const char *payload, struct ks_err *err)
{
    bool is_kept = true;
    KS_TRY(ks_grow(&r->slots, r->slot_count, &r->slot_capacity, sizeof(*r->slots), "slots", err));
    if (slot->kind == KS_WIRE_ITEMS) {
        KS_TRY(recording_take_items(r, slot, payload, &is_kept, err));
    }
    if (is_kept) {
        KS_TRY(keep_payload(r, slot, payload, err));
    }
    r->slots[r->slot_count++] = *slot;
    return KS_OK;
}

/* Bytes of an open slot that may hold something: events end with the last one that was published,
 * but zeros may be the end of an item. */
KS_NO_COVERAGE static uint32_t written_size(enum ks_wire_slot_kind kind, const char *payload,
                                            size_t size)
{
    if (kind != KS_WIRE_EVENTS) {
        return (uint32_t)size;
    }
    struct ks_wire_event event = {0};
    size -= size % sizeof(event);
    for (; size > 0 && event.word == 0; size -= sizeof(event)) {
        memcpy(&event, payload + size - sizeof(event), sizeof(event));
    }
    return (uint32_t)(size + (event.word != 0 ? sizeof(event) : 0));
}

static bool is_sealed_well(const struct ks_wire_slot *head, const char *bytes, size_t size)
{
    if (head->size > size - KS_WIRE_SLOT_HEADER_SIZE) {
        return false;
    }
    uint32_t crc = ks_wire_crc32c(0, bytes + KS_WIRE_SLOT_HEADER_SIZE, head->size);
    return ks_wire_crc32c(crc, bytes, offsetof(struct ks_wire_slot, size)) == head->crc;
}

static bool is_slot_of(const struct ks_wire_slot *head, uint32_t index)
{
    return head->magic == SLOT_MAGIC && head->index == index && head->lane != 0 &&
           head->is_sealed <= 1;
}

static enum ks_status count_slot(struct recording *r, enum ks_stat stat, uint32_t index,
                                 struct ks_err *err)
{
    return recording_count(r, stat, 1, recording_offset(index, 0) - KS_WIRE_SLOT_HEADER_SIZE, err);
}

/* KS_END: nothing was written here or behind it. */
static enum ks_status take_slot(struct recording *r, const char *bytes, size_t size,
                                struct ks_err *err)
{
    struct ks_wire_slot head;
    uint32_t index = r->slot_next++;
    memcpy(&head, bytes, sizeof(head));
    if (head.magic == 0) {
        return index < r->header.slot_count ? KS_OK : KS_END;
    }
    if (!is_slot_of(&head, index)) {
        return count_slot(r, KS_STAT_slots_damaged, index, err);
    }
    if (head.kind < KS_WIRE_EVENTS || head.kind > KS_WIRE_NODES) {
        return count_slot(r, KS_STAT_unknown_kinds, index, err);
    }
    if (head.is_sealed && !is_sealed_well(&head, bytes, size)) {
        return count_slot(r, KS_STAT_slots_unlike_checksum, index, err);
    }
    const char *payload = bytes + KS_WIRE_SLOT_HEADER_SIZE;
    size_t room = size - KS_WIRE_SLOT_HEADER_SIZE;
    struct recording_slot slot = {
        .size = head.is_sealed ? head.size : written_size(head.kind, payload, room),
        .index = index,
        .lane = head.lane,
        .sequence = head.sequence,
        .tid = head.tid,
        .kind = head.kind,
        .is_sealed = head.is_sealed,
    };
    *(head.kind == KS_WIRE_ITEMS ? &r->items_lost : &r->events_lost) += head.lost;
    return take_payload(r, &slot, payload, err);
}

/* The file ends inside of this slot. */
static enum ks_status take_cut_slot(struct recording *r, const struct ks_window *window, size_t at,
                                    struct ks_err *err)
{
    size_t size = window->size - at;
    KS_TRY(
        recording_count(r, KS_STAT_unterminated, 1, window->offset + (int64_t)window->size, err));
    if (size < KS_WIRE_SLOT_HEADER_SIZE) {
        r->slot_next++;
        return KS_OK;
    }
    return take_slot(r, window->ptr + at, size, err);
}

static enum ks_status push(void *state, const struct ks_window *window, size_t *used,
                           struct ks_err *err)
{
    struct recording *r = state;
    size_t at = 0;
    enum ks_status status = KS_OK;
    if (!r->has_header) {
        if (window->size < KS_WIRE_HEADER_SIZE && window->is_last) {
            return ks_fail(err, KS_ERR_FORMAT, (int64_t)window->size,
                           "Cannot read recording: it ends within its header");
        }
        if (window->size < KS_WIRE_HEADER_SIZE) {
            *used = 0;
            return KS_OK;
        }
        KS_TRY(take_header(r, window->ptr, err));
        at = KS_WIRE_HEADER_SIZE;
    }
    while (status == KS_OK && window->size - at >= KS_WIRE_SLOT_SIZE) {
        status = take_slot(r, window->ptr + at, KS_WIRE_SLOT_SIZE, err);
        at += KS_WIRE_SLOT_SIZE;
    }
    if (status == KS_OK && window->is_last && at < window->size) {
        status = take_cut_slot(r, window, at, err);
        at = window->size;
    }
    *used = at;
    return status;
}

/* ------------------------------------------------------------------ what the header says */

static struct ks_str text_of(const char *text, size_t size)
{
    return (struct ks_str){text, strnlen(text, size)};
}

static enum ks_status describe_source(struct recording *r, struct ks_err *err)
{
    const struct ks_wire_header *h = &r->header;
    struct ks_source *s = r->to.source;
    s->is_recording = true;
    if (!r->is_header_good) {
        return KS_OK;
    }
    s->pid = h->pid;
    s->parent_pid = h->parent_pid;
    s->rank = h->rank < 0 ? -1 : h->rank;
    s->world_size = h->world_size < 0 ? -1 : h->world_size;
    s->worker = h->worker < 0 ? -1 : h->worker;
    KS_TRY(recording_intern(r, text_of(h->host, sizeof(h->host)),
                            offsetof(struct ks_wire_header, host), &s->host_name, err));
    return recording_intern(r, text_of(h->program, sizeof(h->program)),
                            offsetof(struct ks_wire_header, program), &s->trace_name, err);
}

/* The fields that changed while the file was written. */
static enum ks_status describe_end(struct recording *r, int64_t size, struct ks_err *err)
{
    const struct ks_wire_header *h = &r->header;
    size_t state_at = offsetof(struct ks_wire_header, state);
    uint64_t events = h->events_lost > r->events_lost ? h->events_lost : r->events_lost;
    uint64_t items = h->items_lost > r->items_lost ? h->items_lost : r->items_lost;
    KS_TRY(recording_count(r, KS_STAT_events_lost, events,
                           offsetof(struct ks_wire_header, events_lost), err));
    KS_TRY(recording_count(r, KS_STAT_items_lost, items,
                           offsetof(struct ks_wire_header, items_lost), err));
    KS_TRY(recording_count(r, KS_STAT_recording_unclosed,
                           h->state != KS_WIRE_CLOSED && h->state != KS_WIRE_OFF, (int64_t)state_at,
                           err));
    KS_TRY(
        recording_count(r, KS_STAT_recording_off, h->state == KS_WIRE_OFF, (int64_t)state_at, err));
    if (h->state == KS_WIRE_OFF) {
        KS_TRY(recording_intern(r, text_of(h->off_reason, sizeof(h->off_reason)),
                                offsetof(struct ks_wire_header, off_reason),
                                &r->to.source->off_reason, err));
    }
    r->to.source->counts[KS_STAT_samples_torn] += r->sampler.torn;
    r->to.source->counts[KS_STAT_samples_late] += r->sampler.late;
    bool is_cut = r->to.source->counts[KS_STAT_unterminated] == 0 && r->slot_next < h->slot_count;
    return recording_count(r, KS_STAT_unterminated, is_cut, size, err);
}

static enum ks_status make_process(struct recording *r, struct ks_err *err)
{
    struct ks_track_key key = {.number = r->to.source->pid};
    KS_TRY(ks_trace_builder_process(r->to.builder, key, &r->process, err));
    ks_trace_builder_track(r->to.builder, r->process)->name = r->to.source->trace_name;
    return KS_OK;
}

enum ks_status recording_track(struct recording *r, uint32_t tid, uint32_t task, uint32_t *track,
                               struct ks_err *err)
{
    struct ks_trace_builder *builder = r->to.builder;
    struct ks_track_key pid = {.number = r->to.source->pid};
    struct ks_track_key key = {.number = tid};
    if (task == 0) {
        return ks_trace_builder_thread(builder, pid, key, track, err);
    }
    char text[64];
    int len = snprintf(text, sizeof(text), "%u task %u", tid, task);
    KS_TRY(ks_trace_builder_intern(builder, (struct ks_str){text, (size_t)len}, &key.text, err));
    KS_TRY(ks_trace_builder_thread(builder, pid, key, track, err));
    struct ks_strid name = {0};
    len = snprintf(text, sizeof(text), "task %u", task);
    KS_TRY(ks_trace_builder_intern(builder, (struct ks_str){text, (size_t)len}, &name, err));
    ks_trace_builder_track(builder, *track)->name = name;
    return KS_OK;
}

/* ------------------------------------------------------------------ lanes */

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_slots(const void *left, const void *right)
{
    const struct recording_slot *a = left;
    const struct recording_slot *b = right;
    int order = compare_numbers(a->lane, b->lane);
    order = order ? order : compare_numbers(a->kind, b->kind);
    order = order ? order : compare_numbers(a->sequence, b->sequence);
    return order ? order : compare_numbers(a->index, b->index);
}

static bool is_same_lane(const struct recording_slot *a, const struct recording_slot *b)
{
    return a->lane == b->lane && a->kind == b->kind;
}

/* Counts what is missing in front of slot `i`. A second slot of one place is none of a lane. */
static enum ks_status check_sequence(struct recording *r, size_t i, bool *is_double,
                                     struct ks_err *err)
{
    const struct recording_slot *slot = &r->slots[i];
    bool is_first = i == 0 || !is_same_lane(slot - 1, slot);
    uint32_t expected = is_first ? 0 : slot[-1].sequence + 1;
    *is_double = !is_first && slot->sequence == slot[-1].sequence;
    if (*is_double) {
        return count_slot(r, KS_STAT_slots_damaged, slot->index, err);
    }
    return slot->sequence == expected ? KS_OK : count_slot(r, KS_STAT_lane_gaps, slot->index, err);
}

static enum ks_status take_timed_slots(struct recording *r, struct ks_err *err)
{
    struct ks_chunk_pool *pool = ks_trace_builder_pool(r->to.builder);
    for (size_t i = 0; i < r->slot_count; i++) {
        const struct recording_slot *slot = &r->slots[i];
        if (slot->kind != KS_WIRE_ITEMS || !slot->chunk) {
            continue;
        }
        KS_TRY(ks_chunk_pin(pool, slot->chunk, err));
        enum ks_status status = recording_take_timed(r, slot, slot->chunk->ptr, err);
        ks_chunk_unpin(pool, slot->chunk, false);
        KS_TRY(status);
    }
    return KS_OK;
}

static enum ks_status order_slots(struct recording *r, struct ks_err *err)
{
    if (r->slot_count > 1) {
        qsort(r->slots, r->slot_count, sizeof(*r->slots), compare_slots);
    }
    for (size_t i = 0; i < r->slot_count; i++) {
        bool is_double = false;
        KS_TRY(check_sequence(r, i, &is_double, err));
        if (is_double) {
            ks_chunk_destroy(ks_trace_builder_pool(r->to.builder), r->slots[i].chunk);
            r->slots[i].chunk = NULL;
        }
    }
    return KS_OK;
}

static enum ks_status read_lanes(struct recording *r, struct ks_err *err)
{
    for (size_t begin = 0; begin < r->slot_count;) {
        size_t end = begin + 1;
        while (end < r->slot_count && is_same_lane(&r->slots[begin], &r->slots[end])) {
            end++;
        }
        if (r->slots[begin].kind == KS_WIRE_EVENTS) {
            KS_TRY(recording_read_lane(r, &r->slots[begin], end - begin, err));
        }
        begin = end;
    }
    return KS_OK;
}

static enum ks_status finish(void *state, int64_t size, int64_t left, struct ks_err *err)
{
    struct recording *r = state;
    (void)left;
    KS_TRY(describe_source(r, err));
    KS_TRY(describe_end(r, size, err));
    KS_TRY(order_slots(r, err));
    KS_TRY(recording_clock_ready(r, err));
    KS_TRY(make_process(r, err));
    KS_TRY(recording_name_all(r, err));
    KS_TRY(recording_add_stacks(r, err));
    KS_TRY(take_timed_slots(r, err));
    KS_TRY(read_lanes(r, err));
    return recording_add_call_paths(r, err);
}

const struct ks_reader ks_reader_recording = {
    .name = "recording",
    .sniff = sniff,
    .open = open_recording,
    .push = push,
    .finish = finish,
    .close = close_recording,
};
