/* R6, A14: what the functions of a program cost, by name, file and line
 * (docs/analyses/functions.md). One pass over the call paths; a function is where it is called from
 * outside of itself. */
#include <stdlib.h>

#include "analyze/function_tree.h"
#include "analyze/registry.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

static const char OVERFLOW_NAME[] = "(other)"; /* holds calls of which no path is known */

struct state {
    struct ks_analyzer *analyzer;
    struct ks_function_tree tree;
    struct ks_function_fact *functions; /* by function of the tree */
    bool *is_listed;          /* by function, too: it was counted, and not only named as a caller */
    struct ks_map edge_index; /* (function, caller) -> 1 + edge */
    struct ks_function_edge *edges;
    size_t edge_count;
    size_t edge_capacity;
};

/* ------------------------------------------------------------------ adding up */

/* What a row adds to its function, and to the edge from the caller. */
struct part {
    int64_t primitive_calls;
    int64_t total_ns;
};

/* Of a path, recursion counts where it was entered; sums say it themselves. */
static struct part part_of(const struct ks_call_path *path, bool is_outermost)
{
    if (path->kind != KS_CALL_PATH) {
        return (struct part){path->calls - path->recursive_calls, path->total_ns};
    }
    return is_outermost ? (struct part){path->calls, path->total_ns} : (struct part){0};
}

static enum ks_status add_edge(struct state *state, uint32_t function, uint32_t caller,
                               const struct ks_call_path *path, struct part part,
                               struct ks_err *err)
{
    KS_TRY(ks_grow(&state->edges, state->edge_count, &state->edge_capacity, sizeof(*state->edges),
                   "callers", err));
    uint64_t *at = ks_map_put(&state->edge_index, function, caller, NULL);
    if (!at) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep callers: count=%zu",
                       state->edge_count);
    }
    if (*at == 0) {
        state->edges[state->edge_count] =
            (struct ks_function_edge){.function = function, .id = state->tree.functions[caller]};
        *at = ++state->edge_count;
    }
    struct ks_function_edge *edge = &state->edges[*at - 1];
    edge->calls = ks_sum_add(edge->calls, path->calls);
    edge->primitive_calls = ks_sum_add(edge->primitive_calls, part.primitive_calls);
    edge->self_ns = ks_sum_add(edge->self_ns, ks_call_path_own_ns(path));
    edge->total_ns = ks_sum_add(edge->total_ns, part.total_ns);
    edge->is_untimed |= path->kind == KS_CALL_COUNT;
    return KS_OK;
}

static enum ks_status add_path(struct state *state, uint32_t id, struct ks_err *err)
{
    const struct ks_call_path *path = ks_trace_call_path(state->analyzer->trace, id);
    uint32_t function = state->tree.function_of[id];
    struct ks_function_fact *fact = &state->functions[function];
    struct part part = part_of(path, state->tree.is_outermost[id]);
    if (!ks_call_path_is_part(path)) {
        fact->calls = ks_sum_add(fact->calls, path->calls);
        fact->primitive_calls = ks_sum_add(fact->primitive_calls, part.primitive_calls);
        fact->open_calls = ks_sum_add(fact->open_calls, path->open);
        fact->total_ns = ks_sum_add(fact->total_ns, part.total_ns);
        fact->self_ns = ks_sum_add(fact->self_ns, ks_call_path_self_ns(path));
        state->is_listed[function] |= path->kind != KS_CALL_COUNT;
    }
    if (path->parent == 0) {
        return KS_OK;
    }
    return add_edge(state, function, state->tree.function_of[path->parent], path, part, err);
}

static enum ks_status add_paths(struct state *state, struct ks_err *err)
{
    for (size_t id = 1; id <= state->tree.node_count; id++) {
        KS_TRY(add_path(state, (uint32_t)id, err));
    }
    for (size_t i = 0; i < state->tree.function_count; i++) {
        state->functions[i].id = state->tree.functions[i];
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ publishing */

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_functions(const void *left, const void *right, void *trace)
{
    const struct ks_function_fact *a = left;
    const struct ks_function_fact *b = right;
    int order = compare_numbers(b->self_ns, a->self_ns);
    order = order ? order : compare_numbers(b->total_ns, a->total_ns);
    return order ? order : ks_function_id_compare(trace, &a->id, &b->id);
}

/* Callers of one function follow each other here. */
static int compare_edges(const void *left, const void *right, void *trace)
{
    const struct ks_function_edge *a = left;
    const struct ks_function_edge *b = right;
    int order = compare_numbers((int64_t)a->function, (int64_t)b->function);
    order = order ? order : compare_numbers(b->total_ns, a->total_ns);
    order = order ? order : compare_numbers(b->calls, a->calls);
    return order ? order : ks_function_id_compare(trace, &a->id, &b->id);
}

/* The root of calls without a path is no function. */
static bool is_shown(const struct state *state, size_t function)
{
    const struct ks_function_fact *fact = &state->functions[function];
    struct ks_str name = ks_trace_str(state->analyzer->trace, fact->id.name);
    bool is_root = ks_str_equal(name, ks_str_from(OVERFLOW_NAME));
    return state->is_listed[function] && (!is_root || fact->calls > 0);
}

/* Gives each function its place among the edges, which are in order of functions. */
static void find_edges(const struct ks_facts *facts, struct state *state)
{
    size_t at = 0;
    for (size_t i = 0; i < state->tree.function_count; i++) {
        struct ks_function_fact *fact = &state->functions[i];
        fact->edge_first = at;
        while (at < facts->function_edge_count && facts->function_edges[at].function == i) {
            at++;
        }
        fact->edge_count = at - fact->edge_first;
    }
}

static enum ks_status publish(struct state *state, struct ks_err *err)
{
    struct ks_facts *facts = state->analyzer->facts;
    const struct ks_trace *trace = state->analyzer->trace;
    void *user = (void *)(uintptr_t)trace;
    size_t count = state->tree.function_count;
    facts->functions = ks_new(&facts->arena, struct ks_function_fact, count + 1);
    facts->function_edges = ks_new(&facts->arena, struct ks_function_edge, state->edge_count + 1);
    if (!facts->functions || !facts->function_edges) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep functions: count=%zu", count);
    }
    for (size_t i = 0; i < state->edge_count; i++) {
        facts->function_edges[i] = state->edges[i];
    }
    facts->function_edge_count = state->edge_count;
    qsort_r(facts->function_edges, state->edge_count, sizeof(*facts->function_edges), compare_edges,
            user);
    find_edges(facts, state);
    for (size_t i = 0; i < count; i++) {
        const struct ks_function_fact *fact = &state->functions[i];
        facts->function_self_ns = ks_sum_add(facts->function_self_ns, fact->self_ns);
        if (is_shown(state, i)) {
            facts->functions[facts->function_count++] = *fact;
        }
    }
    qsort_r(facts->functions, facts->function_count, sizeof(*facts->functions), compare_functions,
            user);
    return KS_OK;
}

static enum ks_status compute(struct state *state, struct ks_err *err)
{
    const struct ks_trace *trace = state->analyzer->trace;
    KS_TRY(ks_function_tree_of_paths(&state->tree, trace, err));
    state->functions = ks_alloc(state->tree.function_count + 1, sizeof(*state->functions));
    state->is_listed = ks_alloc(state->tree.function_count + 1, sizeof(*state->is_listed));
    if (!state->functions || !state->is_listed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep functions: count=%zu",
                       state->tree.function_count);
    }
    KS_TRY(add_paths(state, err));
    return publish(state, err);
}

enum ks_status ks_functions_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct state state = {.analyzer = analyzer};
    ks_map_init(&state.edge_index);
    enum ks_status status = KS_OK;
    if (ks_trace_call_path_count(analyzer->trace) > 0) {
        status = compute(&state, err);
    }
    ks_function_tree_release(&state.tree);
    ks_map_release(&state.edge_index);
    ks_free(state.functions);
    ks_free(state.is_listed);
    ks_free(state.edges);
    return status;
}
