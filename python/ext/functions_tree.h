/* The call paths of one thread: a tree whose node is one function as called by its parent node.
 *
 * What is counted lies in nodes of the recording (struct ks_wire_node), or of the same kind in our
 * own memory when nothing records; beside each is a struct ks_call_node that finds children. Every
 * event of the program passes here, so the usual case is inline: the child that was called last is
 * called again, the function that returns is the one that is open.
 *
 * Beyond `paths_max` nodes a call is counted for its function alone, as a child of "(other)": its
 * number of calls and own time stay exact, who called it is lost. Calls under the GIL only. */
#ifndef KS_PYTHON_FUNCTIONS_TREE_H
#define KS_PYTHON_FUNCTIONS_TREE_H

#include <sys/types.h>

#include "functions_clock.h"
#include "functions_map.h"
#include "functions_recording.h"
#include "functions_table.h"

struct ks_call_node {
    const void *key;             /* of the function; NULL: root, "(other)" */
    struct ks_call_node *recent; /* the child that was called last */
    struct ks_wire_node *counts;
    struct ks_call_node *parent;
    struct ks_call_node *first_child;
    struct ks_call_node *next_sibling;
    struct ks_functions_map children; /* by key, when there are many */
    uint32_t child_count;
    uint32_t function; /* number in the table */
    uint32_t slot;     /* where `counts` is in the recording; KS_CALL_NO_SLOT: it is not */
    uint32_t index;
    /* Of a child of "(other)", which can be open several times: calls and time of the outermost. */
    uint64_t outer_calls;
    uint64_t outer_ticks;
};

#define KS_CALL_NO_SLOT UINT32_C(0xffffffff) /* as in the recording: a root */

struct ks_call_other {
    struct ks_call_node *node;
    uint64_t open_tick;
};

/* Counts that no node has taken yet. */
struct ks_call_page {
    struct ks_wire_node *counts;
    uint32_t count;
    uint32_t slot; /* KS_CALL_NO_SLOT: in our memory */
    uint32_t index;
};

/* What the trees of one profiler share. */
struct ks_call_shared {
    struct ks_function_table table;
    uint32_t paths_max;
    uint32_t path_count;
    uint64_t calls_without_path;
    bool is_tsc;
    bool is_recorded; /* new trees write into the recording */
    /* Functions of our own that no profile shows. */
    const void *hidden_begin;
    const void *hidden_end;
};

struct ks_call_tree {
    struct ks_call_node *current;
    bool is_tsc;
    bool is_recorded;
    uint32_t generation; /* of the recorder when the tree began */
    pid_t pid;
    struct ks_call_shared *shared;
    struct ks_call_tree *earlier; /* of files of the recorder before; nothing in it is open */
    uint32_t node_count;          /* that count against the limit */
    struct ks_call_node root;
    struct ks_wire_node root_counts;
    /* Calls beyond the limit: `current` is `outside` while such a call is open. */
    struct ks_call_node outside;
    struct ks_call_node *other;
    struct ks_call_node *outside_parent;
    struct ks_call_other *others;
    uint32_t other_count;
    uint32_t other_capacity;
    struct ks_call_block *blocks; /* memory of nodes and of counts */
    struct ks_call_node *free_nodes;
    uint32_t free_node_count;
    struct ks_call_page memory; /* free counts in our memory, and in the recording */
    struct ks_call_page slot;
    uint32_t block_size; /* nodes in the next block */
};

/* An empty tree in `tree`, which must not move. Called by the thread whose calls it counts. */
void ks_call_tree_init(struct ks_call_tree *tree, struct ks_call_shared *shared, bool is_recorded);
void ks_call_tree_release(struct ks_call_tree *tree);
/* Forgets what was counted. */
void ks_call_tree_reset(struct ks_call_tree *tree);
/* Begins anew, because the recorder has another file or none. What was counted becomes `earlier`;
 * in a forked child it is forgotten, since its nodes are not mapped there. */
void ks_call_tree_restart(struct ks_call_tree *tree);
/* Closes what is open, as if it returned now. */
void ks_call_tree_close(struct ks_call_tree *tree);

/* The child to enter when it is not the recent one; NULL: nothing more to do for this call. */
struct ks_call_node *ks_call_tree_child(struct ks_call_tree *tree, const void *key,
                                        PyObject *callable);
/* Goes up to the open call of `key` when that is not the current one; NULL: nothing more to do. */
struct ks_call_node *ks_call_tree_return_to(struct ks_call_tree *tree, const void *key,
                                            uint64_t tick);

static inline bool ks_call_tree_is_stale(const struct ks_call_tree *tree)
{
    return tree->is_recorded && tree->generation != ks_capture_generation();
}

static inline void ks_call_node_leave(struct ks_call_tree *tree, struct ks_call_node *node,
                                      uint64_t tick)
{
    struct ks_wire_node *counts = node->counts;
    uint64_t ticks = tick - counts->open_tick;
    counts->total_ticks += ticks;
    counts->open = 0;
    node->parent->counts->child_ticks += ticks;
    tree->current = node->parent;
}

/* A call begins. The tick is taken last, so that our own time is not the function's. */
static inline void ks_call_tree_enter(struct ks_call_tree *tree, const void *key,
                                      PyObject *callable)
{
    struct ks_call_node *node;
    if (__builtin_expect(ks_call_tree_is_stale(tree), 0)) {
        ks_call_tree_restart(tree);
    }
    node = tree->current->recent;
    if (!node || node->key != key) {
        node = ks_call_tree_child(tree, key, callable);
        if (!node) {
            return;
        }
    }
    struct ks_wire_node *counts = node->counts;
    counts->calls++;
    counts->open = 1;
    tree->current = node;
    counts->open_tick = ks_functions_tick(tree->is_tsc);
}

/* A call ends, by return, yield or exception. Calls that began before the profiler are unknown. */
static inline void ks_call_tree_leave(struct ks_call_tree *tree, const void *key)
{
    uint64_t tick = ks_functions_tick(tree->is_tsc);
    if (__builtin_expect(ks_call_tree_is_stale(tree), 0)) {
        ks_call_tree_restart(tree);
    }
    struct ks_call_node *node = tree->current;
    if (__builtin_expect(node->key != key, 0)) {
        node = ks_call_tree_return_to(tree, key, tick);
        if (!node) {
            return;
        }
    }
    ks_call_node_leave(tree, node, tick);
}

#endif
