/* Walks the operators and annotations of all threads of a source, the thread of the steps first,
 * and tells at the end of each what was launched inside of it (docs/analyses/op_work.md). Inner
 * rows come before those that hold them. Memory: the rows that are open. */
#ifndef KS_ANALYZE_OP_WALK_H
#define KS_ANALYZE_OP_WALK_H

#include "analyze/registry.h"

struct ks_op_row {
    int64_t start_ns;
    int64_t end_ns;
    int64_t seq;       /* -1 none */
    int64_t device_ns; /* of all work launched inside */
    int64_t child_ns;  /* of the rows directly inside */
    int64_t calls_ns;  /* of calls directly inside that launch, copy, wait or take memory */
    int64_t calls_end_ns;
    uint32_t name;
    uint32_t dims;    /* 0 unknown */
    uint32_t types;   /* 0 unknown */
    int64_t inner_ns; /* ... and inside of a row of its own in it */
    uint32_t launches;
    uint32_t graph_launches;
    uint32_t inner_launches;
    uint32_t syncs;  /* calls that wait */
    unsigned flags;  /* KS_NAME_* */
    unsigned around; /* flags of all rows around it */
    uint32_t outer;  /* index of the outermost operator of aten among the open rows, when one is
                      * around it */
    bool is_op;      /* else an annotation */
};

struct ks_op_walk {
    struct ks_analyzer *analyzer;
    uint32_t source;
    uint32_t lane;
    struct ks_op_row *open; /* around the row that is shown; outermost first */
    size_t open_count;
    size_t open_capacity;
    uint64_t loose_launches; /* on this lane so far, in no operator */
};

/* Name of the outermost operator of aten that holds the row, or of the row. */
static inline struct ks_strid ks_op_walk_outermost(const struct ks_op_walk *walk,
                                                   const struct ks_op_row *row)
{
    bool is_inside = row->around & KS_NAME_ATEN;
    return (struct ks_strid){is_inside ? walk->open[row->outer].name : row->name};
}

typedef enum ks_status (*ks_op_cb)(void *user, const struct ks_op_walk *walk,
                                   const struct ks_op_row *row, struct ks_err *err);

enum ks_status ks_op_walk(struct ks_analyzer *analyzer, uint32_t source, ks_op_cb visit, void *user,
                          struct ks_err *err) KS_MUST_CHECK;

#endif
