#include "analyze/module_tree.h"

#include "base/alloc.h"
#include "base/grow.h"

/* Nodes that are looked at on the way to the outermost one. Models are twenty deep, recursive ones
 * deeper; without a bound, a file could ask for a long way at each row. */
enum { WAY_MAX = 256 };

void ks_module_tree_init(struct ks_module_tree *tree)
{
    *tree = (struct ks_module_tree){.nodes = NULL};
    ks_map_init(&tree->by_parent);
    ks_map_init(&tree->by_name);
}

void ks_module_tree_release(struct ks_module_tree *tree)
{
    ks_free(tree->nodes);
    ks_map_release(&tree->by_parent);
    ks_map_release(&tree->by_name);
}

static uint64_t key_of(uint32_t parent)
{
    return parent == KS_MODULE_NONE ? 0 : (uint64_t)parent + 1;
}

enum ks_status ks_module_tree_put(struct ks_module_tree *tree, uint32_t parent, uint32_t name,
                                  uint32_t *node, struct ks_err *err)
{
    KS_TRY(
        ks_grow(&tree->nodes, tree->count, &tree->capacity, sizeof(*tree->nodes), "modules", err));
    uint64_t *first = ks_map_put(&tree->by_name, name, 0, NULL);
    uint64_t *slot = first ? ks_map_put(&tree->by_parent, key_of(parent), name, NULL) : NULL;
    if (!slot || tree->count >= KS_MODULE_NONE) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep modules: count=%zu",
                       tree->count);
    }
    if (*slot == 0) {
        uint32_t depth = parent == KS_MODULE_NONE ? 0 : tree->nodes[parent].depth + 1;
        tree->nodes[tree->count] =
            (struct ks_module_node){.parent = parent, .name = name, .depth = depth};
        *slot = ++tree->count;
        *first = *first == 0 ? *slot : *first;
    }
    *node = (uint32_t)(*slot - 1);
    return KS_OK;
}

uint32_t ks_module_tree_find(const struct ks_module_tree *tree, uint32_t parent, uint32_t name)
{
    const uint64_t *slot = ks_map_find(&tree->by_parent, key_of(parent), name);
    return slot && *slot ? (uint32_t)(*slot - 1) : KS_MODULE_NONE;
}

uint32_t ks_module_tree_first(const struct ks_module_tree *tree, uint32_t name)
{
    const uint64_t *slot = ks_map_find(&tree->by_name, name, 0);
    return slot && *slot ? (uint32_t)(*slot - 1) : KS_MODULE_NONE;
}

uint32_t ks_module_tree_caller(const struct ks_module_tree *tree, uint32_t node, uint32_t name)
{
    for (int i = 0; node != KS_MODULE_NONE && i < WAY_MAX; i++) {
        if (ks_module_tree_find(tree, node, name) != KS_MODULE_NONE) {
            return node;
        }
        node = tree->nodes[node].parent;
    }
    return KS_MODULE_NONE;
}

uint32_t ks_module_tree_common(const struct ks_module_tree *tree, uint32_t a, uint32_t b)
{
    for (int i = 0; a != b && a != KS_MODULE_NONE && b != KS_MODULE_NONE && i < WAY_MAX; i++) {
        if (tree->nodes[a].depth >= tree->nodes[b].depth) {
            a = tree->nodes[a].parent;
        } else {
            b = tree->nodes[b].parent;
        }
    }
    return a == b ? a : KS_MODULE_NONE;
}
