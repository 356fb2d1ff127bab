/* Collectives of all sources while ks_collectives_compute looks at them: collectives.c collects and
 * matches them, rank_waits.c compares ranks, gradient_sync.c looks at those of gradients,
 * shard_transfers.c at those of sharded parameters. */
#ifndef KS_ANALYZE_COLLECTIVES_H
#define KS_ANALYZE_COLLECTIVES_H

#include "analyze/lane_sweep.h"
#include "analyze/registry.h"

/* A collective kernel that a complete step launched. */
struct ks_collective_row {
    uint32_t source;
    uint32_t device; /* track */
    uint32_t thread; /* that launched it */
    uint32_t meta;   /* of the trace, 0 unknown */
    size_t step;     /* index into all steps */
    size_t slot;     /* the same for all ranks */
    int64_t launch_ns;
    int64_t start_ns;
    int64_t end_ns;
    int64_t hidden_ns; /* kernels of the device run meanwhile */
    int64_t least_ns;  /* on the rank where it is shortest; -1: not all ranks are there */
    int64_t bytes;     /* of a rank, -1 unknown */
};

struct ks_collective_list {
    struct ks_analyzer *analyzer;
    uint32_t source;                 /* that is read */
    struct ks_collective_row *items; /* by source, device, start */
    size_t count;
    size_t capacity;
    int64_t *compute_ns; /* by step: union of its kernels, by device; the last one: in no step */
    size_t next;         /* of the device that is read: the first that starts later */
    size_t *running;     /* those that may still run */
    size_t running_count;
    size_t running_capacity;
    int64_t busy_until_ns;
};

/* Gradients that are summed up without a GPU: there is no list of collectives. */
enum ks_status ks_collectives_look_at_host(struct ks_collective_list *list, struct ks_err *err)
    KS_MUST_CHECK;

/* Each fills its part of facts->comm; the list is not empty. */
enum ks_status ks_collectives_compare_ranks(struct ks_collective_list *list, struct ks_err *err)
    KS_MUST_CHECK;
enum ks_status ks_collectives_look_at_gradients(struct ks_collective_list *list, struct ks_err *err)
    KS_MUST_CHECK;
enum ks_status ks_collectives_look_at_shards(struct ks_collective_list *list, struct ks_err *err)
    KS_MUST_CHECK;

#endif
