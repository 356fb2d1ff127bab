#include "analyze/function_tree.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"

struct node {
    struct ks_function_id function;
    uint32_t caller; /* id of a node, 0: none */
};

/* Links from node to node for the walk, and how often a function is open on the way. */
struct walk {
    uint32_t *first_child; /* by node, 0: the roots; 0 ends a list */
    uint32_t *next;
    uint32_t *open; /* by function */
};

static enum ks_status find_function(struct ks_function_tree *tree,
                                    const struct ks_function_id *function, uint32_t *index,
                                    struct ks_err *err)
{
    uint64_t place = (uint64_t)function->file.v << 32 | function->first_line;
    KS_TRY(ks_grow(&tree->functions, tree->function_count, &tree->function_capacity,
                   sizeof(*tree->functions), "functions", err));
    uint64_t *at = ks_map_put(&tree->index, function->name.v, place, NULL);
    if (!at) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep functions: count=%zu",
                       tree->function_count);
    }
    if (*at == 0) {
        tree->functions[tree->function_count] = *function;
        *at = ++tree->function_count;
    }
    *index = (uint32_t)*at - 1;
    return KS_OK;
}

static void leave(const struct ks_function_tree *tree, struct walk *walk, uint32_t node)
{
    walk->open[tree->function_of[node]]--;
}

/* Goes over all nodes, into the first child or else to the next sibling of the nearest node on the
 * way back that has one. */
static void mark_outermost(struct ks_function_tree *tree, struct walk *walk)
{
    uint32_t node = walk->first_child[0];
    while (node != 0) {
        tree->is_outermost[node] = walk->open[tree->function_of[node]]++ == 0;
        if (walk->first_child[node] != 0) {
            node = walk->first_child[node];
            continue;
        }
        while (node != 0 && walk->next[node] == 0) {
            leave(tree, walk, node);
            node = tree->caller_of[node];
        }
        if (node != 0) {
            leave(tree, walk, node);
            node = walk->next[node];
        }
    }
}

static enum ks_status walk_tree(struct ks_function_tree *tree, struct ks_err *err)
{
    struct walk walk = {
        .first_child = ks_alloc(tree->node_count + 1, sizeof(uint32_t)),
        .next = ks_alloc(tree->node_count + 1, sizeof(uint32_t)),
        .open = ks_alloc(tree->function_count + 1, sizeof(uint32_t)),
    };
    bool is_good = walk.first_child && walk.next && walk.open;
    if (is_good) {
        for (size_t node = tree->node_count; node > 0; node--) {
            uint32_t caller = tree->caller_of[node];
            walk.next[node] = walk.first_child[caller];
            walk.first_child[caller] = (uint32_t)node;
        }
        mark_outermost(tree, &walk);
    }
    ks_free(walk.first_child);
    ks_free(walk.next);
    ks_free(walk.open);
    return is_good ? KS_OK
                   : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep functions: count=%zu",
                             tree->node_count);
}

static enum ks_status begin(struct ks_function_tree *tree, size_t count, struct ks_err *err)
{
    *tree = (struct ks_function_tree){.node_count = count};
    ks_map_init(&tree->index);
    tree->caller_of = ks_alloc(count + 1, sizeof(*tree->caller_of));
    tree->function_of = ks_alloc(count + 1, sizeof(*tree->function_of));
    tree->is_outermost = ks_alloc(count + 1, sizeof(*tree->is_outermost));
    if (!tree->caller_of || !tree->function_of || !tree->is_outermost) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep functions: count=%zu", count);
    }
    return KS_OK;
}

static enum ks_status add_node(struct ks_function_tree *tree, uint32_t id, const struct node *node,
                               struct ks_err *err)
{
    KS_ASSERT(node->caller < id);
    tree->caller_of[id] = node->caller;
    return find_function(tree, &node->function, &tree->function_of[id], err);
}

enum ks_status ks_function_tree_of_paths(struct ks_function_tree *tree,
                                         const struct ks_trace *trace, struct ks_err *err)
{
    KS_TRY(begin(tree, ks_trace_call_path_count(trace), err));
    for (uint32_t id = 1; id <= tree->node_count; id++) {
        const struct ks_call_path *path = ks_trace_call_path(trace, id);
        struct node node = {{path->function, path->file, path->first_line}, path->parent};
        KS_TRY(add_node(tree, id, &node, err));
    }
    return walk_tree(tree, err);
}

enum ks_status ks_function_tree_of_stacks(struct ks_function_tree *tree,
                                          const struct ks_trace *trace, struct ks_err *err)
{
    KS_TRY(begin(tree, ks_trace_stack_count(trace), err));
    for (uint32_t id = 1; id <= tree->node_count; id++) {
        const struct ks_stack *stack = ks_trace_stack(trace, id);
        struct node node = {{stack->function, stack->file, stack->first_line}, stack->caller};
        KS_TRY(add_node(tree, id, &node, err));
    }
    return walk_tree(tree, err);
}

void ks_function_tree_release(struct ks_function_tree *tree)
{
    ks_map_release(&tree->index);
    ks_free(tree->functions);
    ks_free(tree->caller_of);
    ks_free(tree->function_of);
    ks_free(tree->is_outermost);
    *tree = (struct ks_function_tree){0};
}

int ks_function_id_compare(const struct ks_trace *trace, const struct ks_function_id *a,
                           const struct ks_function_id *b)
{
    int order = ks_str_compare(ks_trace_str(trace, a->name), ks_trace_str(trace, b->name));
    order =
        order ? order : ks_str_compare(ks_trace_str(trace, a->file), ks_trace_str(trace, b->file));
    return order ? order : (a->first_line > b->first_line) - (a->first_line < b->first_line);
}
