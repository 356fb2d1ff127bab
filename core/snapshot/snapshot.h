/* A memory snapshot of torch's caching allocator: what torch.cuda.memory._snapshot() gives, in
 * flat arrays. Readers fill it, analyses only look. Stacks and texts lie in a pool that two
 * snapshots may share. Sizes are at least 0, and all of a snapshot together fit in int64. */
#ifndef KS_SNAPSHOT_SNAPSHOT_H
#define KS_SNAPSHOT_SNAPSHOT_H

#include "base/arena.h"
#include "snapshot/stack_pool.h"

enum { KS_SNAP_DEVICES_MAX = 256 };

enum ks_snap_state { KS_SNAP_INACTIVE, KS_SNAP_ACTIVE, KS_SNAP_PENDING_FREE };

struct ks_snap_block {
    uint64_t address;
    int64_t size;
    int64_t requested; /* of it, as the program asked; the rest is rounding */
    uint32_t stack;    /* 0: none was recorded */
    uint32_t segment;
    enum ks_snap_state state;
    struct ks_strid category; /* 0: not said */
};

struct ks_snap_segment {
    uint64_t address;
    int64_t total;
    int64_t stream;
    int64_t pool[2]; /* (0, 0): the common one; others belong to CUDA graphs and MemPools */
    int32_t device;
    bool is_small; /* of the pool for blocks up to 1 MiB */
    bool is_expandable;
    size_t first_block;
    size_t block_count;
};

enum ks_snap_action {
    KS_SNAP_ALLOC,
    KS_SNAP_FREE, /* of old snapshots: requested and completed at once */
    KS_SNAP_FREE_REQUESTED,
    KS_SNAP_FREE_COMPLETED,
    KS_SNAP_SEGMENT_ALLOC,
    KS_SNAP_SEGMENT_FREE,
    KS_SNAP_SEGMENT_MAP,
    KS_SNAP_SEGMENT_UNMAP,
    KS_SNAP_OOM,
    KS_SNAP_SNAPSHOT,
    KS_SNAP_ACTION_UNKNOWN,
    KS_SNAP_ACTION_COUNT,
};

struct ks_snap_event {
    uint64_t address; /* KS_SNAP_OOM: bytes that the device had free */
    int64_t size;     /* as requested, without rounding */
    int64_t time_us;  /* -1: not said */
    uint32_t stack;
    int32_t device;
    enum ks_snap_action action;
    struct ks_strid category;
};

/* The start or the end of a stretch that the program or torch named. */
struct ks_snap_mark {
    struct ks_strid name;
    int64_t time_us;
    int32_t device;
    bool is_end;
};

/* One of the allocator's settings, as text. */
struct ks_snap_setting {
    struct ks_strid key;
    struct ks_strid value;
};

/* What a snapshot lacks or says against itself; each is shown when it is not 0. */
enum ks_snap_note {
    KS_SNAP_NOTE_BLOCKS_MISMATCH, /* blocks of a segment do not add up to its size */
    KS_SNAP_NOTE_SUMS_MISMATCH,   /* the segment's own sums are others than its blocks' */
    KS_SNAP_NOTE_UNKNOWN_ACTION,  /* events of a kind that we do not know */
    KS_SNAP_NOTE_UNKNOWN_STATE,   /* blocks in a state that we do not know: counted as inactive */
    KS_SNAP_NOTE_ALLOC_LOST,      /* allocated in the trace, but gone without a free */
    KS_SNAP_NOTE_FREE_UNSEEN,     /* freed in the trace, though the end state has it */
    KS_SNAP_NOTE_COUNT,
};

struct ks_snapshot {
    struct ks_stack_pool *pool; /* not owned */
    struct ks_snap_segment *segments;
    struct ks_snap_block *blocks; /* of one segment after the other */
    struct ks_snap_event *events; /* of one device after the other, in their order */
    struct ks_snap_mark *marks;
    struct ks_snap_setting *settings;
    size_t segment_count, segment_capacity;
    size_t block_count, block_capacity;
    size_t event_count, event_capacity;
    size_t mark_count, mark_capacity;
    size_t setting_count, setting_capacity;
    int32_t devices[KS_SNAP_DEVICES_MAX]; /* that have segments or events, in order */
    size_t device_count;
    bool is_expandable; /* the setting expandable_segments */
    bool has_categories;
    bool has_stacks;
    int protocol; /* of the pickle; 0: not said */
    int64_t file_bytes;
    int64_t notes[KS_SNAP_NOTE_COUNT];
};

void ks_snapshot_init(struct ks_snapshot *snapshot, struct ks_stack_pool *pool);
void ks_snapshot_release(struct ks_snapshot *snapshot);
/* Notes a device; KS_ERR_LIMIT beyond KS_SNAP_DEVICES_MAX. */
enum ks_status ks_snapshot_add_device(struct ks_snapshot *snapshot, int32_t device,
                                      struct ks_err *err) KS_MUST_CHECK;
/* Events of one device: [*first, *first + count). */
size_t ks_snapshot_events_of(const struct ks_snapshot *snapshot, int32_t device, size_t *first);

static inline bool ks_snap_is_active(enum ks_snap_state state)
{
    return state != KS_SNAP_INACTIVE;
}

#endif
