#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "read/kineto.h"

void kineto_frames_release(struct kineto_frames *frames)
{
    ks_free(frames->list);
    ks_map_release(&frames->tops);
    ks_map_release(&frames->named);
}

static enum ks_status fail_open(const struct kineto_frames *f, struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep open events: count=%zu", f->count);
}

static enum ks_status frames_reserve(struct kineto_frames *f, struct ks_err *err)
{
    if (f->free != 0 || f->count < f->capacity) {
        return KS_OK;
    }
    size_t capacity = f->capacity ? f->capacity * 2 : 64;
    struct kineto_frame *list = ks_realloc(f->list, capacity, sizeof(*list));
    if (!list) {
        return fail_open(f, err);
    }
    f->list = list;
    f->capacity = capacity;
    return KS_OK;
}

/* A slot for one more frame, which has been reserved: a free one, or the next. */
static size_t take_slot(struct kineto_frames *f)
{
    if (f->free == 0) {
        return f->count++;
    }
    size_t index = f->free - 1;
    f->free = f->list[index].below;
    return index;
}

/* Pushes a frame on the chain of key (a, b). */
static enum ks_status frames_push(struct kineto_frames *f, uint64_t a, uint64_t b,
                                  const struct ks_slice_row *row, int64_t offset,
                                  struct ks_err *err)
{
    KS_TRY(frames_reserve(f, err));
    uint64_t *top = ks_map_put(&f->tops, a, b, NULL);
    if (!top) {
        return fail_open(f, err);
    }
    size_t index = take_slot(f);
    f->list[index] = (struct kineto_frame){
        .below = (uint32_t)*top, .track = row->lane, .offset = offset, .row = *row};
    *top = index + 1;
    return KS_OK;
}

/* Takes the top frame of a chain off; its slot is free again. */
static struct kineto_frame frames_pop(struct kineto_frames *f, uint64_t *top)
{
    size_t index = (size_t)*top - 1;
    struct kineto_frame frame = f->list[index];
    *top = frame.below;
    f->list[index].track = 0; // 0 marks a slot whose event has ended
    f->list[index].below = (uint32_t)f->free;
    f->free = index + 1;
    return frame;
}

static enum ks_status emit_closed(struct kineto *k, struct kineto_frame *frame, int64_t end_ns,
                                  struct ks_err *err)
{
    int64_t dur_ns = end_ns - frame->row.start_ns;
    if (dur_ns < 0) {
        return kineto_count(k, KS_STAT_negative_duration, frame->offset, err);
    }
    frame->row.dur_ns = dur_ns;
    kineto_seen(k, frame->row.start_ns, end_ns);
    return ks_trace_builder_slice(k->to.builder, &frame->row, err);
}

enum ks_status kineto_begin(struct kineto *k, const struct ks_slice_row *row, int64_t offset,
                            struct ks_err *err)
{
    uint64_t *named = ks_map_put(&k->begun.named, row->lane, row->name, NULL);
    if (!named) {
        return fail_open(&k->begun, err);
    }
    KS_TRY(frames_push(&k->begun, row->lane, 0, row, offset, err));
    *named += 1;
    return KS_OK;
}

/* Takes the top frame of a track off, also from the count of its name. */
static struct kineto_frame pop_begun(struct kineto *k, uint64_t *top)
{
    struct kineto_frame frame = frames_pop(&k->begun, top);
    *ks_map_find(&k->begun.named, frame.track, frame.row.name) -= 1;
    return frame;
}

enum ks_status kineto_end(struct kineto *k, uint32_t track, struct ks_strid name, int64_t ts_ns,
                          int64_t offset, struct ks_err *err)
{
    uint64_t *top = ks_map_find(&k->begun.tops, track, 0);
    if (!top || *top == 0) {
        return kineto_count(k, KS_STAT_end_without_begin, offset, err);
    }
    /* An end that names an outer frame closes the inner ones with it; a name that nobody opened
     * closes nothing. */
    bool by_name = name.v != 0;
    const uint64_t *named = by_name ? ks_map_find(&k->begun.named, track, name.v) : NULL;
    if (by_name && (!named || *named == 0)) {
        return kineto_count(k, KS_STAT_end_without_begin, offset, err);
    }
    for (;;) {
        struct kineto_frame frame = pop_begun(k, top);
        bool is_last = !by_name || frame.row.name == name.v;
        if (!is_last) {
            KS_TRY(kineto_count(k, KS_STAT_auto_closed_slices, offset, err));
        }
        KS_TRY(emit_closed(k, &frame, ts_ns, err));
        if (is_last) {
            return KS_OK;
        }
    }
}

enum ks_status kineto_async_begin(struct kineto *k, const struct ks_slice_row *row, uint64_t key,
                                  uint64_t id, int64_t offset, struct ks_err *err)
{
    return frames_push(&k->async, key, id, row, offset, err);
}

enum ks_status kineto_async_end(struct kineto *k, uint64_t key, uint64_t id, int64_t ts_ns,
                                int64_t offset, struct ks_err *err)
{
    uint64_t *top = ks_map_find(&k->async.tops, key, id);
    if (!top || *top == 0) {
        return kineto_count(k, KS_STAT_async_unmatched, offset, err);
    }
    struct kineto_frame frame = frames_pop(&k->async, top);
    return emit_closed(k, &frame, ts_ns, err);
}

static int compare_offsets(const void *a, const void *b)
{
    const struct kineto_frame *x = a;
    const struct kineto_frame *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Emits what is still open, in the order of the input. The chains are gone after that. */
static enum ks_status close_frames(struct kineto *k, struct kineto_frames *f, enum ks_stat stat,
                                   struct ks_err *err)
{
    size_t open = 0;
    for (size_t i = 0; i < f->count; i++) {
        if (f->list[i].track != 0) {
            f->list[open++] = f->list[i];
        }
    }
    f->count = 0;
    f->free = 0;
    if (open > 1) {
        qsort(f->list, open, sizeof(*f->list), compare_offsets);
    }
    for (size_t i = 0; i < open; i++) {
        struct kineto_frame *frame = &f->list[i];
        KS_TRY(kineto_count(k, stat, frame->offset, err));
        frame->row.dur_ns = 0;
        frame->row.flags |= KS_SLICE_UNFINISHED;
        kineto_seen(k, frame->row.start_ns, frame->row.start_ns);
        KS_TRY(ks_trace_builder_slice(k->to.builder, &frame->row, err));
    }
    return KS_OK;
}

enum ks_status kineto_close_open(struct kineto *k, struct ks_err *err)
{
    KS_TRY(close_frames(k, &k->begun, KS_STAT_unfinished_slices, err));
    return close_frames(k, &k->async, KS_STAT_async_unmatched, err);
}
