/* The nodes of stacks or of call paths as a tree of functions: which function each node is of, and
 * whether it is the outermost one of it, so that recursion counts once. Nodes have ids from 1, and
 * a caller comes before what it calls. */
#ifndef KS_ANALYZE_FUNCTION_TREE_H
#define KS_ANALYZE_FUNCTION_TREE_H

#include "analyze/facts.h"
#include "base/map.h"

struct ks_function_tree {
    struct ks_map index; /* (name, file << 32 | line) -> 1 + function */
    struct ks_function_id *functions;
    size_t function_count;
    size_t function_capacity;
    size_t node_count;
    uint32_t *caller_of;   /* these by id of a node; */
    uint32_t *function_of; /* index into `functions` */
    bool *is_outermost;    /* no node that it was called by is of its function */
};

/* Of all call paths, and of all stacks of samples. Errors: KS_ERR_NOMEM. */
enum ks_status ks_function_tree_of_paths(struct ks_function_tree *tree,
                                         const struct ks_trace *trace, struct ks_err *err)
    KS_MUST_CHECK;
enum ks_status ks_function_tree_of_stacks(struct ks_function_tree *tree,
                                          const struct ks_trace *trace, struct ks_err *err)
    KS_MUST_CHECK;
void ks_function_tree_release(struct ks_function_tree *tree); /* also after a failed init */

/* Time of the calls on a path without what they called. Children of a call that is open have
 * returned before it, so they may have taken longer: 0 then. */
static inline int64_t ks_call_path_self_ns(const struct ks_call_path *path)
{
    int64_t self_ns = path->total_ns - path->child_ns;
    return self_ns > 0 ? self_ns : 0;
}

/* By the texts of name and file, then by line. */
int ks_function_id_compare(const struct ks_trace *trace, const struct ks_function_id *a,
                           const struct ks_function_id *b);

#endif
