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

/* Time of the calls of a row without what they called. Children of a call that is open have
 * returned before it, so they may have taken longer: 0 then. */
static inline int64_t ks_call_path_own_ns(const struct ks_call_path *path)
{
    int64_t own_ns = path->total_ns - path->child_ns;
    return own_ns > 0 ? own_ns : 0;
}

/* Is it a part of what the sum of its function holds already? */
static inline bool ks_call_path_is_part(const struct ks_call_path *path)
{
    return path->kind != KS_CALL_PATH && path->parent > 0;
}

/* The same so that rows can be added up: none for a part of another row. */
static inline int64_t ks_call_path_self_ns(const struct ks_call_path *path)
{
    return ks_call_path_is_part(path) ? 0 : ks_call_path_own_ns(path);
}

/* By the texts of name and file, then by line. */
int ks_function_id_compare(const struct ks_trace *trace, const struct ks_function_id *a,
                           const struct ks_function_id *b);

#endif
