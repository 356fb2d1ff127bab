#include "snapshot/spans.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"

struct building {
    struct ks_snapshot *snapshot;
    struct ks_span *spans;
    size_t count, capacity;
    struct ks_map latest; /* by address: index + 1 of the last span there */
    bool has_segments;    /* the end state says what is held */
};

static enum ks_status open_span(struct building *b, const struct ks_span *span, struct ks_err *err)
{
    KS_TRY(ks_grow(&b->spans, b->count, &b->capacity, sizeof(*b->spans), "allocations", err));
    uint64_t *latest = ks_map_put(&b->latest, span->address, 0, NULL);
    if (!latest) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep allocations: no memory");
    }
    b->spans[b->count] = *span;
    *latest = ++b->count;
    return KS_OK;
}

static struct ks_span *latest_at(const struct building *b, uint64_t address)
{
    const uint64_t *latest = ks_map_find(&b->latest, address, 0);
    return latest && *latest > 0 ? &b->spans[*latest - 1] : NULL;
}

static struct ks_span *open_at(const struct building *b, uint64_t address)
{
    struct ks_span *span = latest_at(b, address);
    return span && span->death == SIZE_MAX ? span : NULL;
}

/* Since when something is there of which nobody saw the begin: since before the trace, or since
 * what lay there before it was freed. */
static size_t unseen_birth(struct building *b, uint64_t address)
{
    const struct ks_span *before = latest_at(b, address);
    b->snapshot->notes[KS_SNAP_NOTE_FREE_UNSEEN] += before != NULL;
    return before ? before->death : 0;
}

static enum ks_status add_event(struct building *b, const struct ks_snap_event *event,
                                size_t moment, struct ks_err *err)
{
    struct ks_span *open = open_at(b, event->address);
    bool is_alloc = event->action == KS_SNAP_ALLOC;
    struct ks_span span = {
        .address = event->address,
        .size = event->size,
        .birth = moment,
        .requested = SIZE_MAX,
        .death = SIZE_MAX,
        .block = SIZE_MAX,
        .stack = event->stack,
    };
    if (is_alloc && open) { /* its free is not in the trace: it ended before this at the latest */
        open->death = moment;
        b->snapshot->notes[KS_SNAP_NOTE_ALLOC_LOST]++;
    }
    if (!is_alloc && !open) {
        span.birth = unseen_birth(b, event->address);
        span.stack = 0; /* the event has the stack of the free */
        /* Its free was requested before the trace, too. */
        span.requested = event->action == KS_SNAP_FREE_COMPLETED ? span.birth : span.requested;
    }
    if (is_alloc || !open) {
        KS_TRY(open_span(b, &span, err));
        open = &b->spans[b->count - 1];
    }
    if (!is_alloc && open->requested == SIZE_MAX) {
        open->requested = moment;
    }
    if (!is_alloc && event->action != KS_SNAP_FREE_REQUESTED) {
        open->death = moment;
    }
    return KS_OK;
}

static bool is_of_blocks(enum ks_snap_action action)
{
    return action == KS_SNAP_ALLOC || action == KS_SNAP_FREE || action == KS_SNAP_FREE_REQUESTED ||
           action == KS_SNAP_FREE_COMPLETED;
}

/* A block that is there at the end: the last span at its address, or one from before the trace. */
static enum ks_status add_block(struct building *b, size_t index, struct ks_err *err)
{
    const struct ks_snap_block *block = &b->snapshot->blocks[index];
    struct ks_span *open = open_at(b, block->address);
    if (open) {
        open->block = index;
        open->stack = open->stack ? open->stack : block->stack;
        return KS_OK;
    }
    struct ks_span span = {
        .address = block->address,
        .size = block->requested,
        .birth = unseen_birth(b, block->address),
        .requested = block->state == KS_SNAP_ACTIVE ? SIZE_MAX : 0,
        .death = SIZE_MAX,
        .block = index,
        .stack = block->stack,
    };
    return open_span(b, &span, err);
}

static enum ks_status add_blocks(struct building *b, int32_t device, struct ks_err *err)
{
    const struct ks_snapshot *snapshot = b->snapshot;
    for (size_t i = 0; i < snapshot->block_count; i++) {
        const struct ks_snap_block *block = &snapshot->blocks[i];
        if (snapshot->segments[block->segment].device != device) {
            continue;
        }
        b->has_segments = true;
        if (ks_snap_is_active(block->state)) {
            KS_TRY(add_block(b, i, err));
        }
    }
    return KS_OK;
}

/* What the trace allocated and the end state does not have was freed unseen, nobody knows when: it
 * is left out, so that no level is higher than what the end state supports. */
static void drop_lost(struct building *b)
{
    for (size_t i = 0; b->has_segments && i < b->count; i++) {
        struct ks_span *span = &b->spans[i];
        if (span->death == SIZE_MAX && span->block == SIZE_MAX) {
            span->death = span->birth;
            b->snapshot->notes[KS_SNAP_NOTE_ALLOC_LOST]++;
        }
    }
}

static enum ks_status build(struct building *b, const struct ks_timeline *timeline,
                            struct ks_err *err)
{
    for (size_t i = 0; i < timeline->event_count; i++) {
        const struct ks_snap_event *event = &b->snapshot->events[timeline->first_event + i];
        if (is_of_blocks(event->action)) {
            KS_TRY(add_event(b, event, i + 1, err));
        }
    }
    KS_TRY(add_blocks(b, timeline->device, err));
    drop_lost(b);
    return KS_OK;
}

enum ks_status ks_spans_build(struct ks_snapshot *snapshot, struct ks_timeline *timeline,
                              struct ks_err *err)
{
    struct building b = {.snapshot = snapshot};
    ks_map_init(&b.latest);
    enum ks_status status = build(&b, timeline, err);
    ks_map_release(&b.latest);
    if (status != KS_OK) {
        ks_free(b.spans);
        return status;
    }
    timeline->spans = b.spans;
    timeline->span_count = b.count;
    return KS_OK;
}
