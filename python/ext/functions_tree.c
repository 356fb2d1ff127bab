#include "functions_tree.h"

#include <string.h>
#include <unistd.h>

enum {
    CHILDREN_WITHOUT_MAP = 8,
    BLOCK_NODES_FIRST = 16, // a program can have thousands of threads that do little
    BLOCK_NODES_MAX = 1024,
    NODES_IN_SLOT = KS_WIRE_PAYLOAD_SIZE / sizeof(struct ks_wire_node),
    OTHERS_FIRST = 64,
};

struct ks_call_block {
    struct ks_call_block *next;
};

static void begin_empty(struct ks_call_tree *tree)
{
    tree->root = (struct ks_call_node){
        .counts = &tree->root_counts, .slot = KS_CALL_NO_SLOT, .index = KS_CALL_NO_SLOT};
    tree->root_counts = (struct ks_wire_node){0};
    tree->outside = (struct ks_call_node){0};
    tree->current = &tree->root;
    tree->block_size = BLOCK_NODES_FIRST;
    tree->is_tsc = tree->shared->is_tsc;
    tree->generation = tree->is_recorded ? ks_capture_generation() : 0;
}

void ks_call_tree_init(struct ks_call_tree *tree, struct ks_call_shared *shared, bool is_recorded)
{
    *tree = (struct ks_call_tree){.shared = shared, .is_recorded = is_recorded, .pid = getpid()};
    begin_empty(tree);
}

static void release_maps(struct ks_call_node *node)
{
    struct ks_call_node *root = node;
    for (;;) {
        ks_functions_map_release(&node->children);
        if (node->first_child) {
            node = node->first_child;
            continue;
        }
        while (node != root && !node->next_sibling) {
            node = node->parent;
        }
        if (node == root) {
            return;
        }
        node = node->next_sibling;
    }
}

static void release_one(struct ks_call_tree *tree)
{
    release_maps(&tree->root);
    while (tree->blocks) {
        struct ks_call_block *block = tree->blocks;
        tree->blocks = block->next;
        PyMem_RawFree(block);
    }
    PyMem_RawFree(tree->others);
    tree->shared->path_count -= tree->node_count;
}

void ks_call_tree_release(struct ks_call_tree *tree)
{
    struct ks_call_tree *earlier = tree->earlier;
    if (!tree->shared) {
        return;
    }
    release_one(tree);
    while (earlier) {
        struct ks_call_tree *next = earlier->earlier;
        release_one(earlier);
        PyMem_RawFree(earlier);
        earlier = next;
    }
    *tree = (struct ks_call_tree){0};
}

void ks_call_tree_reset(struct ks_call_tree *tree)
{
    struct ks_call_shared *shared = tree->shared;
    bool is_recorded = tree->is_recorded;
    ks_call_tree_release(tree);
    ks_call_tree_init(tree, shared, is_recorded);
}

void ks_call_tree_restart(struct ks_call_tree *tree)
{
    struct ks_call_tree *kept = NULL;
    if (tree->pid == getpid()) {
        kept = PyMem_RawMalloc(sizeof(*kept));
    }
    if (!kept) {
        ks_call_tree_reset(tree);
        return;
    }
    ks_call_tree_close(tree);
    *kept = *tree;
    kept->current = &kept->root;
    kept->root.counts = &kept->root_counts;
    for (struct ks_call_node *node = kept->root.first_child; node; node = node->next_sibling) {
        node->parent = &kept->root;
    }
    ks_call_tree_init(tree, kept->shared, kept->is_recorded);
    tree->earlier = kept;
}

/* ------------------------------------------------------------------ memory of nodes */

static void *take_block(struct ks_call_tree *tree, size_t size)
{
    struct ks_call_block *block = PyMem_RawCalloc(1, sizeof(*block) + size);
    if (!block) {
        return NULL;
    }
    block->next = tree->blocks;
    tree->blocks = block;
    return block + 1;
}

static int reserve_node(struct ks_call_tree *tree)
{
    if (tree->free_node_count > 0) {
        return 0;
    }
    uint32_t count = tree->block_size;
    struct ks_call_node *nodes = take_block(tree, count * sizeof(*nodes));
    if (!nodes) {
        return -1;
    }
    tree->free_nodes = nodes;
    tree->free_node_count = count;
    tree->block_size = count < BLOCK_NODES_MAX ? count * 2 : count;
    return 0;
}

static int reserve_memory(struct ks_call_tree *tree)
{
    uint32_t count = tree->block_size;
    struct ks_wire_node *counts = take_block(tree, count * sizeof(*counts));
    if (!counts) {
        return -1;
    }
    tree->memory = (struct ks_call_page){counts, count, KS_CALL_NO_SLOT, 0};
    return 0;
}

static bool reserve_slot(struct ks_call_tree *tree)
{
    if (tree->slot.count > 0) {
        return true;
    }
    uint32_t slot = 0;
    struct ks_wire_node *counts = ks_capture_nodes(&slot);
    if (counts) {
        tree->slot = (struct ks_call_page){counts, NODES_IN_SLOT, slot, 0};
    }
    return counts != NULL;
}

/* Where the counts of a function's new node go: into the recording, whose readers must know the
 * function first; when that is full or has stopped into our memory, so that stats() still knows.
 * NULL: no memory. */
static struct ks_call_page *choose_page(struct ks_call_tree *tree, uint32_t number)
{
    struct ks_function_table *table = &tree->shared->table;
    if (tree->is_recorded && ks_function_table_describe(table, number, tree->generation) &&
        reserve_slot(tree)) {
        return &tree->slot;
    }
    if (tree->memory.count == 0 && reserve_memory(tree) < 0) {
        return NULL;
    }
    return &tree->memory;
}

static void take_counts(struct ks_call_page *page, struct ks_call_node *node)
{
    struct ks_wire_node *counts = page->counts++;
    page->count--;
    node->counts = counts;
    node->slot = page->slot;
    node->index = page->index++;
    counts->parent_slot = node->parent->slot;
    counts->parent_index = node->parent->slot == KS_CALL_NO_SLOT ? 0 : node->parent->index;
    // Last, in the order that a reader of a cut file goes by.
    __atomic_store_n(&counts->code, ks_function_code_id(node->function), __ATOMIC_RELEASE);
}

static int index_children(struct ks_call_node *parent)
{
    for (struct ks_call_node *child = parent->first_child; child; child = child->next_sibling) {
        // "(other)" has no key, and nobody looks for it.
        if (child->key &&
            ks_functions_map_add(&parent->children, (uintptr_t)child->key, (uintptr_t)child) < 0) {
            ks_functions_map_release(&parent->children);
            return -1;
        }
    }
    return 0;
}

static int index_child(struct ks_call_node *parent, struct ks_call_node *child)
{
    if (parent->child_count < CHILDREN_WITHOUT_MAP || !child->key) {
        return 0;
    }
    if (!parent->children.slots && index_children(parent) < 0) {
        return -1;
    }
    return ks_functions_map_add(&parent->children, (uintptr_t)child->key, (uintptr_t)child);
}

/* A child of `parent` that counts calls of the function with this number; NULL: no memory. */
static struct ks_call_node *add_child(struct ks_call_tree *tree, struct ks_call_node *parent,
                                      const void *key, uint32_t number)
{
    struct ks_call_page *page = reserve_node(tree) < 0 ? NULL : choose_page(tree, number);
    if (!page) {
        return NULL;
    }
    struct ks_call_node *node = tree->free_nodes;
    *node = (struct ks_call_node){.key = key, .parent = parent, .function = number};
    if (index_child(parent, node) < 0) {
        return NULL;
    }
    tree->free_nodes++;
    tree->free_node_count--;
    take_counts(page, node);
    node->next_sibling = parent->first_child;
    parent->first_child = node;
    parent->child_count++;
    return node;
}

static struct ks_call_node *find_child(const struct ks_call_node *parent, const void *key)
{
    if (parent->children.slots) {
        return (struct ks_call_node *)(uintptr_t)ks_functions_map_find(&parent->children,
                                                                       (uintptr_t)key);
    }
    struct ks_call_node *child = parent->first_child;
    while (child && child->key != key) {
        child = child->next_sibling;
    }
    return child;
}

/* ------------------------------------------------------------------ beyond the limit */

static struct ks_call_node *function_outside(struct ks_call_tree *tree, const void *key,
                                             uint32_t number)
{
    if (!tree->other) {
        tree->other = add_child(tree, &tree->root, NULL, KS_FUNCTION_OTHER);
    }
    if (!tree->other || number == 0) {
        return tree->other;
    }
    struct ks_call_node *node = find_child(tree->other, key);
    if (!node) {
        node = add_child(tree, tree->other, key, number);
    }
    return node ? node : tree->other;
}

static int reserve_other(struct ks_call_tree *tree)
{
    if (tree->other_count < tree->other_capacity) {
        return 0;
    }
    uint32_t capacity = tree->other_capacity ? tree->other_capacity * 2 : OTHERS_FIRST;
    struct ks_call_other *others = NULL;
    if (capacity > tree->other_capacity) {
        others = PyMem_RawRealloc(tree->others, capacity * sizeof(*others));
    }
    if (!others) {
        return -1;
    }
    tree->others = others;
    tree->other_capacity = capacity;
    return 0;
}

static void enter_outside(struct ks_call_tree *tree, const void *key, uint32_t number)
{
    struct ks_call_node *node = function_outside(tree, key, number);
    tree->shared->calls_without_path++;
    if (!node || reserve_other(tree) < 0) {
        return; // its return will find nothing open, and be left out
    }
    if (tree->other_count == 0) {
        tree->outside_parent = tree->current;
        tree->current = &tree->outside;
        if (node != tree->other) {
            tree->other->counts->calls++;
        }
    }
    node->counts->calls++;
    if (node->counts->open++ == 0) {
        node->counts->open_tick = ks_functions_tick(tree->is_tsc);
        node->outer_calls++;
    }
    tree->others[tree->other_count++] =
        (struct ks_call_other){node, ks_functions_tick(tree->is_tsc)};
}

static void leave_outside(struct ks_call_tree *tree, uint64_t tick)
{
    struct ks_call_other call = tree->others[--tree->other_count];
    uint64_t ticks = tick - call.open_tick;
    struct ks_wire_node *counts = call.node->counts;
    counts->total_ticks += ticks;
    if (--counts->open == 0) {
        call.node->outer_ticks += ticks;
    }
    if (tree->other_count > 0) {
        tree->others[tree->other_count - 1].node->counts->child_ticks += ticks;
        return;
    }
    tree->outside_parent->counts->child_ticks += ticks;
    tree->current = tree->outside_parent;
    if (call.node != tree->other) { // it has no time of its own
        tree->other->counts->total_ticks += ticks;
        tree->other->counts->child_ticks += ticks;
    }
}

static bool is_open_outside(const struct ks_call_tree *tree, const void *key)
{
    for (uint32_t i = tree->other_count; i-- > 0;) {
        if (tree->others[i].node->key == key) {
            return true;
        }
    }
    return false;
}

static void return_outside(struct ks_call_tree *tree, const void *key, uint64_t tick)
{
    while (tree->others[tree->other_count - 1].node->key != key) {
        leave_outside(tree, tick);
    }
    leave_outside(tree, tick);
}

/* ------------------------------------------------------------------ what is not usual */

struct ks_call_node *ks_call_tree_child(struct ks_call_tree *tree, const void *key,
                                        PyObject *callable)
{
    struct ks_call_node *parent = tree->current;
    struct ks_call_shared *shared = tree->shared;
    if ((uintptr_t)key >= (uintptr_t)shared->hidden_begin &&
        (uintptr_t)key < (uintptr_t)shared->hidden_end) {
        return NULL;
    }
    struct ks_call_node *child = parent == &tree->outside ? NULL : find_child(parent, key);
    if (!child) {
        uint32_t number = ks_function_table_get(&shared->table, key, callable);
        if (number != 0 && parent != &tree->outside && shared->path_count < shared->paths_max) {
            child = add_child(tree, parent, key, number);
        }
        if (!child) {
            enter_outside(tree, key, number);
            return NULL;
        }
        tree->node_count++;
        shared->path_count++;
    }
    parent->recent = child;
    return child;
}

struct ks_call_node *ks_call_tree_return_to(struct ks_call_tree *tree, const void *key,
                                            uint64_t tick)
{
    bool is_outside = tree->current == &tree->outside;
    if (is_outside && is_open_outside(tree, key)) {
        return_outside(tree, key, tick);
        return NULL;
    }
    struct ks_call_node *node = is_outside ? tree->outside_parent : tree->current;
    while (node && node->key != key) {
        node = node->parent;
    }
    if (!node) {
        return NULL;
    }
    // The return of what was called from there was never told: greenlets, other profilers.
    while (tree->other_count > 0) {
        leave_outside(tree, tick);
    }
    while (tree->current != node) {
        ks_call_node_leave(tree, tree->current, tick);
    }
    return node;
}

void ks_call_tree_close(struct ks_call_tree *tree)
{
    uint64_t tick = ks_functions_tick(tree->is_tsc);
    while (tree->other_count > 0) {
        leave_outside(tree, tick);
    }
    while (tree->current != &tree->root) {
        ks_call_node_leave(tree, tree->current, tick);
    }
}
