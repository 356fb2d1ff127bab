/* Calls of modules as a tree: a node is a module as called by one other, along one path. Nodes come
 * before the ones that they call. Memory: the nodes. */
#ifndef KS_ANALYZE_MODULE_TREE_H
#define KS_ANALYZE_MODULE_TREE_H

#include "base/err.h"
#include "base/map.h"

enum { KS_MODULE_NONE = UINT32_MAX };

/* What was counted of a node, without what other nodes hold, except as said. */
struct ks_module_node {
    uint32_t parent;     /* KS_MODULE_NONE: called from outside of modules */
    uint32_t name;       /* string id of the frame, or of the region's values */
    uint32_t class_name; /* regions: string id of the forward or backward region; else 0 */
    uint32_t depth;
    int64_t calls;
    int64_t forward_ns; /* with what it called */
    int64_t forward_self_ns;
    int64_t recompute_calls;
    int64_t recompute_ns;   /* of forward_ns, inside of a backward pass */
    int64_t backward_calls; /* regions only */
    int64_t backward_ns;    /* regions: with what it called */
    int64_t backward_self_ns;
    int64_t forward_device_ns;
    int64_t backward_device_ns;
    int64_t recompute_device_ns; /* of both of these */
};

struct ks_module_tree {
    struct ks_module_node *nodes;
    size_t count;
    size_t capacity;
    struct ks_map by_parent; /* (1 + parent, name) -> 1 + node */
    struct ks_map by_name;   /* name -> 1 + its first node */
};

void ks_module_tree_init(struct ks_module_tree *tree);
void ks_module_tree_release(struct ks_module_tree *tree);

/* The node of a module called by `parent`, a new one if there is none. */
enum ks_status ks_module_tree_put(struct ks_module_tree *tree, uint32_t parent, uint32_t name,
                                  uint32_t *node, struct ks_err *err) KS_MUST_CHECK;
/* The same, or KS_MODULE_NONE. */
uint32_t ks_module_tree_find(const struct ks_module_tree *tree, uint32_t parent, uint32_t name);
/* The first node of this name, or KS_MODULE_NONE. */
uint32_t ks_module_tree_first(const struct ks_module_tree *tree, uint32_t name);
/* The innermost of `node` and the nodes around it that calls a module of this name: what a
 * recomputed call stands for. KS_MODULE_NONE: none does. */
uint32_t ks_module_tree_caller(const struct ks_module_tree *tree, uint32_t node, uint32_t name);
/* The innermost node that holds both, either of which may be KS_MODULE_NONE. */
uint32_t ks_module_tree_common(const struct ks_module_tree *tree, uint32_t a, uint32_t b);

#endif
