#include "export/stack_tree.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"

enum ks_status ks_stack_tree_init(struct ks_stack_tree *tree, struct ks_err *err)
{
    *tree = (struct ks_stack_tree){0};
    ks_map_init(&tree->by_name);
    KS_TRY(ks_grow(&tree->nodes, 0, &tree->capacity, sizeof(*tree->nodes), "stacks", err));
    tree->nodes[KS_STACK_ROOT] = (struct ks_stack_node){0};
    tree->count = 1;
    return KS_OK;
}

void ks_stack_tree_release(struct ks_stack_tree *tree)
{
    ks_map_release(&tree->by_name);
    ks_free(tree->nodes);
    tree->nodes = NULL;
}

enum ks_status ks_stack_tree_child(struct ks_stack_tree *tree, uint32_t parent, uint32_t name,
                                   uint32_t *node, struct ks_err *err)
{
    const uint64_t *found = ks_map_find(&tree->by_name, parent, name);
    if (found) {
        *node = (uint32_t)*found;
        return KS_OK;
    }
    if (tree->count == UINT32_MAX) {
        return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET, "Cannot keep stacks: count=%zu",
                       tree->count);
    }
    KS_TRY(
        ks_grow(&tree->nodes, tree->count, &tree->capacity, sizeof(*tree->nodes), "stacks", err));
    uint64_t *slot = ks_map_put(&tree->by_name, parent, name, NULL);
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep stacks: count=%zu",
                       tree->count);
    }
    tree->nodes[tree->count] = (struct ks_stack_node){.parent = parent, .name = name};
    *slot = *node = (uint32_t)tree->count++;
    return KS_OK;
}
