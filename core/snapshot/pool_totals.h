/* What the allocator holds at the moment of a snapshot, for each device and for each of its pools.
 * allocated + pending free + free = sum of blocks; reserved is that of the segments, which is the
 * same unless the snapshot says otherwise. */
#ifndef KS_SNAPSHOT_POOL_TOTALS_H
#define KS_SNAPSHOT_POOL_TOTALS_H

#include "snapshot/snapshot.h"

struct ks_pool_key {
    int32_t device;
    int64_t id[2];
    int64_t stream;
    bool is_small;
};

struct ks_pool_totals {
    struct ks_pool_key key; /* of a device: only `device` says something */
    int64_t reserved;
    int64_t allocated; /* blocks that the program holds */
    int64_t active;    /* and those that it freed while other streams still use them */
    int64_t requested; /* of the active ones, as asked for */
    int64_t waste;     /* allocated blocks: rounding */
    int64_t free;      /* inactive blocks */
    int64_t free_largest;
    int64_t inactive_split; /* inactive blocks in segments with active ones: cannot be given back */
    size_t free_count;
    size_t block_count; /* allocated ones */
    size_t segment_count;
    size_t segment_free_count; /* segments that are wholly free */
};

struct ks_pool_totals_list {
    struct ks_pool_totals *devices; /* in the order of the snapshot's devices */
    struct ks_pool_totals *pools;   /* by device, id, stream, kind */
    size_t device_count;
    size_t pool_count;
};

/* Arrays lie in `arena`. */
enum ks_status ks_pool_totals_compute(const struct ks_snapshot *snapshot, struct ks_arena *arena,
                                      struct ks_pool_totals_list *out, struct ks_err *err)
    KS_MUST_CHECK;
int ks_pool_key_compare(const struct ks_pool_key *left, const struct ks_pool_key *right);

#endif
