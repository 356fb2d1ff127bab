/* Two snapshots that share a pool of stacks beside each other: which stacks hold more in the later
 * one, and which hold less. */
#ifndef KS_SNAPSHOT_SNAPSHOT_COMPARE_H
#define KS_SNAPSHOT_SNAPSHOT_COMPARE_H

#include "snapshot/holders.h"

struct ks_holder_change {
    int32_t device;
    uint32_t stack;
    uint32_t place;
    int64_t before, after; /* bytes held */
    size_t count_before, count_after;
};

struct ks_holder_changes {
    struct ks_holder_change *items; /* by the size of the change, largest first */
    size_t count;
};

struct ks_snapshot_comparison {
    struct ks_holder_changes by_stack; /* of which bytes or numbers of blocks are others */
    struct ks_holder_changes by_place;
    int64_t came; /* sum of what grew, and of what shrank, by stack */
    int64_t went;
    size_t segments_only_before, segments_only_after; /* by address and size */
    int64_t segment_bytes_only_before, segment_bytes_only_after;
};

enum ks_status ks_snapshots_compare(const struct ks_snapshot *before,
                                    const struct ks_holdings *holdings_before,
                                    const struct ks_snapshot *after,
                                    const struct ks_holdings *holdings_after,
                                    struct ks_arena *arena, struct ks_snapshot_comparison *out,
                                    struct ks_err *err) KS_MUST_CHECK;

#endif
