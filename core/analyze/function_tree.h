/* The nodes of stacks or of call paths as a tree of functions: which function each node is of, and
 * whether it is the outermost one of it, so that recursion counts once. Nodes have ids from 1, and
 * a caller comes before what it calls. */
#ifndef KS_ANALYZE_FUNCTION_TREE_H
#define KS_ANALYZE_FUNCTION_TREE_H

#include "analyze/facts.h"
#include "base/map.h"

struct ks_function_node {
    struct ks_function_id function;
    uint32_t caller; /* id of a node, 0: none */
};

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

/* `node` gives one of the `count` nodes. Errors: KS_ERR_NOMEM. */
enum ks_status ks_function_tree_init(struct ks_function_tree *tree, const struct ks_trace *trace,
                                     size_t count,
                                     struct ks_function_node (*node)(const struct ks_trace *,
                                                                     uint32_t id),
                                     struct ks_err *err) KS_MUST_CHECK;
void ks_function_tree_release(struct ks_function_tree *tree); /* also after a failed init */

/* By the texts of name and file, then by line. */
int ks_function_id_compare(const struct ks_trace *trace, const struct ks_function_id *a,
                           const struct ks_function_id *b);

#endif
