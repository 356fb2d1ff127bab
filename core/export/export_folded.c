/* Folded stacks: `a;b;c VALUE`, a line for each distinct stack of host rows that has time of its
 * own, in ns (`host_stacks.h`). So the lines that end in an operator add up to its
 * self_exclusive_ns, or with the weight of the device to its self_device_ns.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/text.h"
#include "export/export.h"
#include "export/folded_stacks.h"
#include "export/host_stacks.h"
#include "export/sink.h"

enum { DEPTH_MAX = KS_FOLDED_DEPTH_MAX };

/* By parent, then by text, so that the children of a node stand together and in order. */
static int compare_nodes(const void *left, const void *right, void *user)
{
    const struct ks_host_stacks *stacks = user;
    const struct ks_stack_node *a = &stacks->tree.nodes[*(const uint32_t *)left];
    const struct ks_stack_node *b = &stacks->tree.nodes[*(const uint32_t *)right];
    if (a->parent != b->parent) {
        return a->parent < b->parent ? -1 : 1;
    }
    return ks_str_compare(ks_strpool_get(stacks->pool, (struct ks_strid){a->name}),
                          ks_strpool_get(stacks->pool, (struct ks_strid){b->name}));
}

/* The order of lines, as links from node to node. */
struct order {
    uint32_t *sorted;      /* nodes but the root, siblings together */
    uint32_t *first_child; /* by node: its place in `sorted`; count: none */
};

static void put_line(struct ks_sink *sink, const struct ks_text *path, int64_t value)
{
    if (value > 0) {
        ks_sink_put(sink, path->ptr, path->len);
        ks_sink_text(sink, " ");
        ks_sink_int(sink, value);
        ks_sink_text(sink, "\n");
    }
}

/* Goes over the tree in order: into the first child, else to the next sibling of the nearest
 * ancestor that has one. `path` holds the names down to the node. */
static void write_lines(const struct ks_host_stacks *stacks, bool is_device,
                        const struct order *order, struct ks_text *path, struct ks_sink *sink)
{
    size_t count = stacks->tree.count - 1;
    const struct ks_stack_node *nodes = stacks->tree.nodes;
    size_t places[DEPTH_MAX]; /* in `sorted`, by depth */
    size_t lens[DEPTH_MAX];   /* of the path before the name */
    size_t depth = 0;
    size_t place = order->first_child[KS_STACK_ROOT];
    while (!sink->failed && !path->failed) {
        uint32_t parent = depth > 0 ? order->sorted[places[depth - 1]] : KS_STACK_ROOT;
        if (place >= count || nodes[order->sorted[place]].parent != parent) {
            if (depth == 0) {
                return;
            }
            place = places[--depth] + 1;
            path->len = lens[depth];
            continue;
        }
        uint32_t node = order->sorted[place];
        KS_ASSERT(depth < DEPTH_MAX);
        lens[depth] = path->len;
        places[depth++] = place;
        ks_text_append(path, ";", path->len > 0 ? 1 : 0);
        ks_text_append_str(path, ks_strpool_get(stacks->pool, (struct ks_strid){nodes[node].name}));
        put_line(sink, path, is_device ? nodes[node].device_ns : nodes[node].value);
        place = order->first_child[node];
    }
}

static enum ks_status write_tree(struct ks_host_stacks *stacks, bool is_device, ks_write_cb write,
                                 void *user, struct ks_err *err)
{
    size_t count = stacks->tree.count - 1;
    struct order order = {ks_alloc(count + 1, sizeof(uint32_t)),
                          ks_alloc(count + 1, sizeof(uint32_t))};
    struct ks_text path;
    ks_text_init(&path);
    struct ks_sink sink;
    ks_sink_init(&sink, write, user);
    if (order.sorted && order.first_child) {
        for (size_t i = 0; i < count; i++) {
            order.sorted[i] = (uint32_t)i + 1;
        }
        qsort_r(order.sorted, count, sizeof(uint32_t), compare_nodes, stacks);
        for (size_t i = 0; i <= count; i++) {
            order.first_child[i] = (uint32_t)count;
        }
        for (size_t i = count; i > 0; i--) {
            order.first_child[stacks->tree.nodes[order.sorted[i - 1]].parent] = (uint32_t)i - 1;
        }
        write_lines(stacks, is_device, &order, &path, &sink);
    }
    bool has_failed = !order.sorted || !order.first_child || path.failed;
    ks_text_release(&path);
    ks_free(order.sorted);
    ks_free(order.first_child);
    return has_failed ? ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write stacks: no memory")
                      : ks_sink_finish(&sink, err);
}

enum ks_status ks_export_folded(const struct ks_view *view, const struct ks_export_options *options,
                                ks_write_cb write, void *user, struct ks_err *err)
{
    struct ks_host_stacks stacks;
    bool is_device = options->weight == KS_EXPORT_DEVICE;
    enum ks_status status = ks_host_stacks_init(&stacks, view, options, is_device, err);
    if (status == KS_OK) {
        status = write_tree(&stacks, is_device, write, user, err);
    }
    ks_host_stacks_release(&stacks);
    return status;
}
