#include "analyze/module_list.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/text.h"
#include "measure/sum.h"

/* Beyond, rows stand below each other on the screen: else a recursive model would need the square
 * of its depth in blanks. */
enum { INDENT = 2, INDENT_MAX = 40 };

struct state {
    struct ks_analyzer *analyzer;
    const struct ks_module_tree *tree;
    struct ks_module_fact *totals; /* by node */
    uint32_t *order;               /* nodes by caller, then time; those of a caller side by side */
    size_t *first_of;              /* by 1 + caller: where its nodes begin in `order` */
    bool *is_seen;                 /* by node: it was counted, or one below it */
    uint32_t *waiting;             /* nodes whose rows come next, the last one first */
    bool is_backward_known;
};

/* ------------------------------------------------------------------ names */

/* "Linear_0" of "nn.Module: Linear_0". */
static struct ks_str frame_name(struct ks_str text)
{
    size_t len = sizeof("nn.Module: ") - 1;
    return (struct ks_str){text.ptr + len, text.len - len};
}

/* "Linear" of "Linear_0". */
static struct ks_str frame_class(struct ks_str name)
{
    size_t len = name.len;
    while (len > 0 && name.ptr[len - 1] >= '0' && name.ptr[len - 1] <= '9') {
        len--;
    }
    bool is_numbered = len > 1 && len < name.len && name.ptr[len - 1] == '_';
    return is_numbered ? (struct ks_str){name.ptr, len - 1} : name;
}

/* "Linear" of "forward_Linear" and "backward_Linear". */
static struct ks_str region_class(struct ks_str text)
{
    static const char *const prefixes[] = {"forward_", "backward_"};
    for (size_t i = 0; i < KS_COUNT_OF(prefixes); i++) {
        struct ks_str prefix = ks_str_from(prefixes[i]);
        if (ks_str_starts(text, prefix)) {
            return (struct ks_str){text.ptr + prefix.len, text.len - prefix.len};
        }
    }
    return text;
}

/* "blocks.0" of {"name": "blocks.0"}; what else a program attached is no label. Names of modules
 * need no escapes in JSON. */
static struct ks_str region_name(struct ks_str values, struct ks_str other)
{
    struct ks_str head = KS_STR("{\"name\": \"");
    struct ks_str tail = KS_STR("\"}");
    bool is_label = values.len > head.len + tail.len && ks_str_starts(values, head) &&
                    memcmp(values.ptr + values.len - tail.len, tail.ptr, tail.len) == 0;
    struct ks_str label = {values.ptr + head.len, values.len - head.len - tail.len};
    bool is_plain =
        is_label && !memchr(label.ptr, '"', label.len) && !memchr(label.ptr, '\\', label.len);
    return is_plain ? label : other;
}

static struct ks_str copy(struct ks_arena *arena, struct ks_str text)
{
    return (struct ks_str){ks_arena_copy(arena, text.ptr, text.len), text.len};
}

static struct ks_str indented(struct ks_arena *arena, struct ks_str name, uint32_t depth)
{
    size_t indent = depth < INDENT_MAX / INDENT ? (size_t)INDENT * depth : INDENT_MAX;
    char *text = ks_new(arena, char, indent + name.len + 1);
    if (text) {
        memset(text, ' ', indent);
        memcpy(text + indent, name.ptr, name.len);
    }
    return (struct ks_str){text, indent + name.len};
}

static enum ks_status name_row(const struct state *state, const struct ks_module_node *node,
                               struct ks_module_fact *fact, struct ks_err *err)
{
    const struct ks_trace *trace = state->analyzer->trace;
    struct ks_arena *arena = state->analyzer->results;
    struct ks_str name = ks_trace_str(trace, (struct ks_strid){node->name});
    struct ks_str class_name = ks_trace_str(trace, (struct ks_strid){node->class_name});
    if (fact->is_region) {
        class_name = region_class(class_name);
        name = region_name(name, class_name);
    } else {
        name = frame_name(name);
        class_name = frame_class(name);
    }
    fact->name = copy(arena, name);
    fact->class_name = copy(arena, class_name);
    fact->tree_name = indented(arena, name, node->depth);
    bool is_good = fact->name.ptr && fact->class_name.ptr && fact->tree_name.ptr;
    return is_good ? KS_OK : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot name modules");
}

/* ------------------------------------------------------------------ totals */

static struct ks_module_fact fact_of(const struct ks_module_node *node)
{
    return (struct ks_module_fact){.is_region = node->class_name != 0,
                                   .depth = node->depth,
                                   .calls = node->calls,
                                   .forward_ns = node->forward_ns,
                                   .forward_self_ns = node->forward_self_ns,
                                   .recompute_calls = node->recompute_calls,
                                   .recompute_ns = node->recompute_ns,
                                   .backward_ns = node->backward_ns,
                                   .backward_self_ns = node->backward_self_ns,
                                   .forward_device_ns = node->forward_device_ns,
                                   .forward_self_device_ns = node->forward_device_ns,
                                   .backward_device_ns = node->backward_device_ns,
                                   .backward_self_device_ns = node->backward_device_ns,
                                   .recompute_device_ns = node->recompute_device_ns};
}

/* What the scope leaves out has nothing. */
static bool is_counted(const struct ks_module_fact *fact)
{
    return fact->calls > 0 || fact->backward_ns != 0 || fact->backward_self_ns != 0 ||
           fact->backward_device_ns != 0;
}

/* Nodes come before those that they call, so the last one goes first. Regions have totals already:
 * of a backward pass those of the caller may not hold those of what it called. */
static void add_up(struct state *state)
{
    for (size_t i = state->tree->count; i > 0; i--) {
        const struct ks_module_node *node = &state->tree->nodes[i - 1];
        struct ks_module_fact *fact = &state->totals[i - 1];
        state->is_seen[i - 1] |= is_counted(fact);
        if (!fact->is_region) {
            fact->backward_ns = ks_sum_add(fact->backward_ns, fact->backward_self_ns);
        }
        if (node->parent == KS_MODULE_NONE) {
            continue;
        }
        struct ks_module_fact *caller = &state->totals[node->parent];
        state->is_seen[node->parent] |= state->is_seen[i - 1];
        if (!fact->is_region) {
            caller->backward_ns = ks_sum_add(caller->backward_ns, fact->backward_ns);
        }
        caller->forward_device_ns = ks_sum_add(caller->forward_device_ns, fact->forward_device_ns);
        caller->backward_device_ns =
            ks_sum_add(caller->backward_device_ns, fact->backward_device_ns);
        caller->recompute_device_ns =
            ks_sum_add(caller->recompute_device_ns, fact->recompute_device_ns);
    }
}

static void forget_unknown(const struct state *state, struct ks_module_fact *fact)
{
    if (fact->is_region) {
        fact->forward_device_ns = fact->forward_self_device_ns = KS_UNKNOWN;
        fact->backward_device_ns = fact->backward_self_device_ns = KS_UNKNOWN;
        fact->recompute_device_ns = KS_UNKNOWN;
    } else if (!state->is_backward_known) {
        fact->backward_ns = fact->backward_self_ns = KS_UNKNOWN;
        fact->backward_device_ns = fact->backward_self_device_ns = KS_UNKNOWN;
    }
}

/* ------------------------------------------------------------------ order */

static size_t caller_index(const struct ks_module_node *node)
{
    return node->parent == KS_MODULE_NONE ? 0 : (size_t)node->parent + 1;
}

static int compare_nodes(const void *left, const void *right, void *user)
{
    const struct state *state = user;
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;
    const struct ks_module_node *node_a = &state->tree->nodes[a];
    const struct ks_module_node *node_b = &state->tree->nodes[b];
    if (node_a->parent != node_b->parent) {
        return caller_index(node_a) < caller_index(node_b) ? -1 : 1;
    }
    int64_t ns_a = ks_sum_add(state->totals[a].forward_ns, state->totals[a].backward_ns);
    int64_t ns_b = ks_sum_add(state->totals[b].forward_ns, state->totals[b].backward_ns);
    if (ns_a != ns_b) {
        return ns_a > ns_b ? -1 : 1;
    }
    const struct ks_trace *trace = state->analyzer->trace;
    int order = ks_str_compare(ks_trace_str(trace, (struct ks_strid){node_a->name}),
                               ks_trace_str(trace, (struct ks_strid){node_b->name}));
    return order ? order : (a > b) - (a < b);
}

static void sort_nodes(struct state *state)
{
    size_t count = state->tree->count;
    for (size_t i = 0; i < count; i++) {
        state->order[i] = (uint32_t)i;
    }
    qsort_r(state->order, count, sizeof(*state->order), compare_nodes, state);
    size_t at = 0;
    for (size_t caller = 0; caller <= count; caller++) {
        state->first_of[caller] = at;
        while (at < count && caller_index(&state->tree->nodes[state->order[at]]) == caller) {
            at++;
        }
    }
    state->first_of[count + 1] = count;
}

/* Puts the nodes of a caller on the waiting ones, so that the first comes out first. */
static void await(struct state *state, size_t caller, size_t *waiting)
{
    for (size_t i = state->first_of[caller + 1]; i > state->first_of[caller]; i--) {
        state->waiting[(*waiting)++] = state->order[i - 1];
    }
}

static enum ks_status write_rows(struct state *state, struct ks_err *err)
{
    struct ks_facts *facts = state->analyzer->facts;
    size_t waiting = 0;
    await(state, 0, &waiting);
    int64_t *row_of = ks_new(&state->analyzer->scratch, int64_t, state->tree->count + 1);
    if (!row_of) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep modules: count=%zu",
                       state->tree->count);
    }
    while (waiting > 0) {
        uint32_t at = state->waiting[--waiting];
        const struct ks_module_node *node = &state->tree->nodes[at];
        struct ks_module_fact *fact = &facts->modules[facts->module_count];
        if (!state->is_seen[at]) {
            continue;
        }
        *fact = state->totals[at];
        forget_unknown(state, fact);
        fact->parent = node->parent == KS_MODULE_NONE ? KS_UNKNOWN : row_of[node->parent];
        row_of[at] = (int64_t)facts->module_count++;
        KS_TRY(name_row(state, node, fact, err));
        await(state, (size_t)at + 1, &waiting);
    }
    return KS_OK;
}

enum ks_status ks_module_list_make(struct ks_analyzer *analyzer, const struct ks_module_tree *tree,
                                   bool is_backward_known, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    struct state state = {
        .analyzer = analyzer,
        .tree = tree,
        .totals = ks_new(&analyzer->scratch, struct ks_module_fact, tree->count + 1),
        .order = ks_new(&analyzer->scratch, uint32_t, tree->count + 1),
        .first_of = ks_new(&analyzer->scratch, size_t, tree->count + 2),
        .is_seen = ks_new(&analyzer->scratch, bool, tree->count + 1),
        .waiting = ks_new(&analyzer->scratch, uint32_t, tree->count + 1),
        .is_backward_known = is_backward_known,
    };
    facts->modules = ks_new(analyzer->results, struct ks_module_fact, tree->count + 1);
    if (!state.totals || !state.order || !state.first_of || !state.is_seen || !state.waiting ||
        !facts->modules) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep modules: count=%zu",
                       tree->count);
    }
    for (size_t i = 0; i < tree->count; i++) {
        state.totals[i] = fact_of(&tree->nodes[i]);
    }
    add_up(&state);
    sort_nodes(&state);
    return write_rows(&state, err);
}
