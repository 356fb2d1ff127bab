/* Distinct stacks as a tree: one node for each path of names, with the sum of its values. Memory
 * grows with distinct stacks. */
#ifndef KS_EXPORT_STACK_TREE_H
#define KS_EXPORT_STACK_TREE_H

#include "base/map.h"

enum { KS_STACK_ROOT = 0 };

struct ks_stack_node {
    uint32_t parent;
    uint32_t name;     /* what the caller says it is */
    int64_t value;     /* of this very stack, without the ones below */
    int64_t device_ns; /* the same of GPU work that it launched */
    int64_t calls;     /* how often it was entered */
};

struct ks_stack_tree {
    struct ks_stack_node *nodes; /* the first one is the root; parents come before children */
    size_t count;
    size_t capacity;
    struct ks_map by_name; /* (parent, name) -> node */
};

enum ks_status ks_stack_tree_init(struct ks_stack_tree *tree, struct ks_err *err) KS_MUST_CHECK;
void ks_stack_tree_release(struct ks_stack_tree *tree); /* also after a failed init */
/* The node of `name` below `parent`, made when missing. */
enum ks_status ks_stack_tree_child(struct ks_stack_tree *tree, uint32_t parent, uint32_t name,
                                   uint32_t *node, struct ks_err *err) KS_MUST_CHECK;

#endif
