/* A9, A17: what modules take forward and backward, and what operators and the nodes of autograd
 * that they make take (docs/analyses/modules.md, autograd.md). One pass over the threads of a
 * source in order of time, so that a node on any thread comes after the operator that made it.
 *
 * Each thread has a stack of the rows that are open and matter here: calls of modules, nodes, calls
 * of the engine, and where a GPU works, operators, which carry its time. */
#include "analyze/forward_ops.h"
#include "analyze/lane_sweep.h"
#include "analyze/module_list.h"
#include "analyze/registry.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

#include <stdlib.h>

enum { NONE = UINT32_MAX };

/* What a row is here; by name where the category does not tell. */
enum kind {
    KIND_UNKNOWN,
    KIND_OTHER,
    KIND_MODULE, /* a call of a module, by its frame or its region */
    KIND_ENGINE, /* a frame that runs a backward pass */
    KIND_OPERATOR,
    KIND_NODE, /* of autograd, or a region of a module's backward */
};

struct open_row {
    int64_t start_ns;
    int64_t end_ns;
    int64_t covered_until_ns; /* by calls in a call, by nodes in a node */
    int64_t device_ns;        /* of all that is inside and closed */
    int64_t number;           /* of a node, -1 none */
    uint32_t name;
    uint32_t below;     /* in its thread's stack */
    uint32_t module;    /* of a call: its own; of a node: its maker's */
    uint32_t in_module; /* innermost call around or itself, with no node between */
    uint32_t in_node;   /* innermost node around or itself */
    uint32_t forward;   /* of an operator with a number */
    uint32_t pair;      /* of a node */
    bool is_kept;       /* by the scope */
};

struct thread {
    uint32_t top;
    /* The last node, for the time until the next one: */
    uint32_t last_module;
    int64_t last_end_ns;
    int64_t last_number;
    int64_t last_maker;  /* torch's number of the forward thread */
    int64_t last_around; /* start of the row around it */
};

struct walk {
    struct ks_analyzer *analyzer;
    uint32_t source;
    uint8_t *kinds; /* by string id of the name */
    struct ks_strid forward_pass, backward_pass;
    struct ks_forward_ops forward;
    struct ks_module_tree tree;
    struct ks_map pair_index; /* (maker and node, shapes) -> 1 + pair */
    struct ks_autograd_fact *pairs;
    size_t pair_count;
    size_t pair_capacity;
    struct thread *threads;
    struct ks_track_range range;
    struct open_row *pool;
    size_t pool_count;
    size_t pool_capacity;
    uint32_t spare; /* linked by `below` */
    bool has_makers;
    bool has_nodes;
};

static const char engine_prefix[] = "autograd::engine::evaluate_function: ";

/* ------------------------------------------------------------------ what a row is */

static enum kind kind_of_name(struct walk *walk, uint32_t name)
{
    if (walk->kinds[name] == KIND_UNKNOWN) {
        struct ks_str text = ks_trace_str(walk->analyzer->trace, (struct ks_strid){name});
        unsigned flags = ks_row_names_get(&walk->analyzer->names, name);
        enum kind kind = KIND_OTHER;
        if (ks_str_starts(text, KS_STR("nn.Module: "))) {
            kind = KIND_MODULE;
        } else if (flags & KS_NAME_RUN_BACKWARD) {
            kind = KIND_ENGINE;
        } else if (ks_str_starts(text, ks_str_from(engine_prefix))) {
            kind = KIND_NODE;
        }
        walk->kinds[name] = (uint8_t)kind;
    }
    return walk->kinds[name];
}

/* Regions of hooks on modules say which way by their category. */
static enum kind kind_of_region(const struct walk *walk, const struct ks_sweep_row *row)
{
    if (row->types == 0) {
        return KIND_OTHER;
    }
    bool is_backward = row->types == walk->backward_pass.v;
    return is_backward ? KIND_NODE : row->types == walk->forward_pass.v ? KIND_MODULE : KIND_OTHER;
}

static enum kind kind_of(struct walk *walk, const struct ks_sweep_row *row)
{
    enum kind kind = KIND_OTHER;
    switch (row->category) {
    case KS_CATEGORY_PYTHON:
        kind = kind_of_name(walk, row->name);
        return kind == KIND_NODE ? KIND_OTHER : kind;
    case KS_CATEGORY_CPU_OP:
        kind = kind_of_name(walk, row->name);
        return kind == KIND_NODE || (row->aux > 0 && row->seq >= 0) ? KIND_NODE : KIND_OPERATOR;
    case KS_CATEGORY_REGION: return kind_of_region(walk, row);
    default: return kind;
    }
}

/* ------------------------------------------------------------------ open rows */

static struct thread *thread_of(struct walk *walk, uint32_t lane)
{
    return &walk->threads[ks_track_range_index(&walk->range, lane)];
}

static enum ks_status push(struct walk *walk, struct thread *thread, const struct open_row *row,
                           uint32_t *index, struct ks_err *err)
{
    *index = walk->spare;
    if (walk->spare != NONE) {
        walk->spare = walk->pool[*index].below;
    } else {
        KS_TRY(ks_grow(&walk->pool, walk->pool_count, &walk->pool_capacity, sizeof(*walk->pool),
                       "open operators", err));
        *index = (uint32_t)walk->pool_count++;
    }
    walk->pool[*index] = *row;
    walk->pool[*index].below = thread->top;
    thread->top = *index;
    return KS_OK;
}

static void close_top(struct walk *walk, struct thread *thread)
{
    uint32_t index = thread->top;
    struct open_row *row = &walk->pool[index];
    thread->top = row->below;
    if (thread->top != NONE) {
        struct open_row *below = &walk->pool[thread->top];
        below->device_ns = ks_sum_add(below->device_ns, row->device_ns);
    }
    if (row->pair != NONE) {
        struct ks_autograd_fact *pair = &walk->pairs[row->pair];
        pair->backward_device_ns = ks_sum_add(pair->backward_device_ns, row->device_ns);
    }
    if (row->forward != NONE) {
        struct ks_forward_op *op = &walk->forward.items[row->forward];
        bool is_its = op->start_ns == row->start_ns && op->name == row->name;
        op->device_ns = is_its ? row->device_ns : op->device_ns;
    }
    row->below = walk->spare;
    walk->spare = index;
}

static void close_until(struct walk *walk, struct thread *thread, int64_t ns)
{
    while (thread->top != NONE && walk->pool[thread->top].end_ns <= ns) {
        close_top(walk, thread);
    }
}

/* A row as it is opened: what is around it is around it still. */
static struct open_row row_in(const struct walk *walk, const struct thread *thread,
                              const struct ks_sweep_row *row)
{
    const struct ks_facts *facts = walk->analyzer->facts;
    struct open_row open = {.start_ns = row->start_ns,
                            .end_ns = row->end_ns,
                            .covered_until_ns = row->start_ns,
                            .number = -1,
                            .name = row->name,
                            .module = KS_MODULE_NONE,
                            .in_module = NONE,
                            .in_node = NONE,
                            .forward = NONE,
                            .pair = NONE,
                            .is_kept =
                                ks_step_lookup_keeps_host(facts, walk->source, row->start_ns)};
    if (thread->top != NONE) {
        open.in_module = walk->pool[thread->top].in_module;
        open.in_node = walk->pool[thread->top].in_node;
    }
    return open;
}

/* How much of the row's time its like has not had yet, of what lies in [from, until). */
static int64_t cover(struct open_row *outer, int64_t from_ns, int64_t until_ns)
{
    from_ns = from_ns > outer->covered_until_ns ? from_ns : outer->covered_until_ns;
    until_ns = until_ns < outer->end_ns ? until_ns : outer->end_ns;
    if (until_ns <= from_ns) {
        return 0;
    }
    outer->covered_until_ns = until_ns;
    return ks_sum_sub(until_ns, from_ns);
}

/* ------------------------------------------------------------------ calls of modules */

static uint32_t module_of(const struct walk *walk, uint32_t row)
{
    return row == NONE ? KS_MODULE_NONE : walk->pool[row].module;
}

/* A region's label stands in its values, which are the same text for the same label. */
static uint32_t label_of(const struct ks_sweep_row *row)
{
    return row->category == KS_CATEGORY_REGION && row->concrete != 0 ? row->concrete : row->name;
}

/* Who calls it. What a backward pass computes anew stands where it was computed first. */
static uint32_t caller_of(const struct walk *walk, const struct open_row *open, uint32_t label)
{
    if (open->in_module == NONE && open->in_node != NONE) {
        return ks_module_tree_caller(&walk->tree, module_of(walk, open->in_node), label);
    }
    return module_of(walk, open->in_module);
}

static void count_call(struct walk *walk, const struct open_row *open)
{
    struct ks_module_node *node = &walk->tree.nodes[open->module];
    int64_t dur_ns = ks_sum_sub(open->end_ns, open->start_ns);
    node->calls++;
    node->forward_ns = ks_sum_add(node->forward_ns, dur_ns);
    node->forward_self_ns = ks_sum_add(node->forward_self_ns, dur_ns);
    if (open->in_node != NONE) {
        node->recompute_calls++;
        node->recompute_ns = ks_sum_add(node->recompute_ns, dur_ns);
    }
    if (open->in_module != NONE && walk->pool[open->in_module].is_kept) {
        struct open_row *outer = &walk->pool[open->in_module];
        struct ks_module_node *caller = &walk->tree.nodes[outer->module];
        int64_t covered_ns = cover(outer, open->start_ns, open->end_ns);
        caller->forward_self_ns = ks_sum_sub(caller->forward_self_ns, covered_ns);
    }
}

static enum ks_status open_module(struct walk *walk, struct thread *thread,
                                  const struct ks_sweep_row *row, struct ks_err *err)
{
    struct open_row open = row_in(walk, thread, row);
    uint32_t label = label_of(row);
    KS_TRY(
        ks_module_tree_put(&walk->tree, caller_of(walk, &open, label), label, &open.module, err));
    if (row->category == KS_CATEGORY_REGION) {
        walk->tree.nodes[open.module].class_name = row->name;
    }
    if (open.is_kept) {
        count_call(walk, &open);
    }
    uint32_t index = NONE;
    KS_TRY(push(walk, thread, &open, &index, err));
    walk->pool[index].in_module = index;
    return KS_OK;
}

/* ------------------------------------------------------------------ work of the GPU */

/* Work that an operator launched counts for the call around it, for the node around it, and where
 * the call is inside of the node, for both. */
static void count_work(struct walk *walk, struct open_row *open, int64_t ext_id)
{
    open->device_ns = ks_device_time_find(&walk->analyzer->device_time, walk->source, ext_id);
    if (open->device_ns == 0) {
        return;
    }
    uint32_t call = module_of(walk, open->in_module);
    uint32_t node = module_of(walk, open->in_node);
    if (call != KS_MODULE_NONE) {
        int64_t *sum = &walk->tree.nodes[call].forward_device_ns;
        *sum = ks_sum_add(*sum, open->device_ns);
    }
    if (node != KS_MODULE_NONE) {
        int64_t *sum = &walk->tree.nodes[node].backward_device_ns;
        *sum = ks_sum_add(*sum, open->device_ns);
    }
    if (call != KS_MODULE_NONE && open->in_node != NONE) {
        int64_t *sum = &walk->tree.nodes[call].recompute_device_ns;
        *sum = ks_sum_add(*sum, open->device_ns);
    }
}

/* ------------------------------------------------------------------ the nodes of autograd */

static enum ks_status find_pair(struct walk *walk, const struct ks_forward_op *maker, uint32_t name,
                                uint32_t *index, struct ks_err *err)
{
    uint32_t dims = maker && walk->analyzer->facts->scope.group_by_shape ? maker->dims : 0;
    uint64_t key = (uint64_t)(maker ? maker->name : 0) << 32 | name;
    KS_TRY(ks_grow(&walk->pairs, walk->pair_count, &walk->pair_capacity, sizeof(*walk->pairs),
                   "nodes of autograd", err));
    uint64_t *slot = ks_map_put(&walk->pair_index, key, dims, NULL);
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep nodes of autograd: count=%zu",
                       walk->pair_count);
    }
    if (*slot == 0) {
        walk->pairs[walk->pair_count] = (struct ks_autograd_fact){
            .forward = {maker ? maker->name : 0}, .shapes = {dims}, .node = {name}};
        *slot = ++walk->pair_count;
    }
    *index = (uint32_t)(*slot - 1);
    return KS_OK;
}

static void count_pair(struct ks_autograd_fact *pair, struct ks_forward_op *maker, int64_t dur_ns)
{
    pair->calls++;
    pair->backward_ns = ks_sum_add(pair->backward_ns, dur_ns);
    if (maker && !maker->has_backward) {
        maker->has_backward = true;
        pair->forward_calls++;
        pair->forward_ns = ks_sum_add(pair->forward_ns, maker->dur_ns);
        pair->forward_device_ns = ks_sum_add(pair->forward_device_ns, maker->device_ns);
    }
}

static void add_backward(struct walk *walk, uint32_t module, int64_t ns)
{
    if (module != KS_MODULE_NONE) {
        int64_t *sum = &walk->tree.nodes[module].backward_self_ns;
        *sum = ks_sum_add(*sum, ns);
    }
}

/* Takes from a node what the nodes inside of it count for themselves: a checkpoint's node runs a
 * backward pass of its own. */
static void take_from_outer(struct walk *walk, uint32_t outer, int64_t from_ns, int64_t until_ns)
{
    if (outer != NONE && walk->pool[outer].is_kept) {
        struct open_row *row = &walk->pool[outer];
        add_backward(walk, row->module, -cover(row, from_ns, until_ns));
    }
}

/* Does a node follow the last one of its thread in the same pass? Within one, numbers fall, since
 * the engine takes the node that was made last. */
static bool follows(const struct thread *thread, int64_t around, int64_t maker, int64_t number)
{
    return thread->last_end_ns != KS_TIME_NONE && thread->last_around == around &&
           (number < 0 || (thread->last_maker == maker && number < thread->last_number));
}

/* Between two nodes the engine works for the innermost module that holds both. */
static void count_gap(struct walk *walk, struct thread *thread, const struct open_row *open)
{
    int64_t from_ns = thread->last_end_ns;
    uint32_t both = ks_module_tree_common(&walk->tree, thread->last_module, open->module);
    if (both != KS_MODULE_NONE && open->start_ns > from_ns) {
        add_backward(walk, both, ks_sum_sub(open->start_ns, from_ns));
        take_from_outer(walk, open->in_node, from_ns, open->start_ns);
    }
}

static void note_last(struct thread *thread, const struct open_row *open, int64_t around,
                      int64_t maker)
{
    bool is_numbered = open->number >= 0;
    thread->last_end_ns = open->end_ns;
    thread->last_module = open->module;
    thread->last_around = around;
    thread->last_number = is_numbered ? open->number : thread->last_number;
    thread->last_maker = is_numbered ? maker : thread->last_maker;
}

static enum ks_status find_maker(struct walk *walk, const struct ks_sweep_row *row,
                                 struct ks_forward_op **maker, struct ks_err *err)
{
    uint32_t index = KS_FORWARD_NONE;
    *maker = NULL;
    walk->has_nodes = walk->has_nodes || row->seq >= 0;
    if (row->seq >= 0) {
        const struct ks_trace *trace = walk->analyzer->trace;
        struct ks_str name = ks_trace_str(trace, (struct ks_strid){row->name});
        KS_TRY(ks_forward_ops_find(&walk->forward, row->aux, row->seq, trace, name, &index, err));
    }
    if (index != KS_FORWARD_NONE) {
        *maker = &walk->forward.items[index];
        walk->has_makers = true;
        close_until(walk, thread_of(walk, (*maker)->lane), row->start_ns);
    }
    return KS_OK;
}

static enum ks_status open_node(struct walk *walk, struct thread *thread,
                                const struct ks_sweep_row *row, struct ks_err *err)
{
    struct open_row open = row_in(walk, thread, row);
    struct ks_forward_op *maker = NULL;
    KS_TRY(find_maker(walk, row, &maker, err));
    int64_t around = thread->top == NONE ? KS_TIME_NONE : walk->pool[thread->top].start_ns;
    bool is_next = follows(thread, around, row->aux, row->seq);
    open.number = row->seq;
    open.module = maker ? maker->module : KS_MODULE_NONE;
    if (row->seq < 0 && is_next) {
        open.module = thread->last_module; // adds up the gradients that the last one has made
    }
    if (open.is_kept) {
        int64_t dur_ns = ks_sum_sub(row->end_ns, row->start_ns);
        KS_TRY(find_pair(walk, maker, row->name, &open.pair, err));
        count_pair(&walk->pairs[open.pair], maker, dur_ns);
        if (is_next) {
            count_gap(walk, thread, &open);
        }
        take_from_outer(walk, open.in_node, row->start_ns, row->end_ns);
        add_backward(walk, open.module, dur_ns);
    }
    note_last(thread, &open, around, row->aux);
    uint32_t index = NONE;
    KS_TRY(push(walk, thread, &open, &index, err));
    walk->pool[index].in_node = index;
    walk->pool[index].in_module = NONE;
    count_work(walk, &walk->pool[index], row->ext_id);
    return KS_OK;
}

/* ------------------------------------------------------------------ regions of a backward */

static enum ks_status find_backward_module(struct walk *walk, uint32_t outer, uint32_t label,
                                           uint32_t *module, struct ks_err *err)
{
    *module = ks_module_tree_find(&walk->tree, outer, label);
    if (*module == KS_MODULE_NONE) {
        *module = ks_module_tree_first(&walk->tree, label);
    }
    return *module != KS_MODULE_NONE ? KS_OK
                                     : ks_module_tree_put(&walk->tree, outer, label, module, err);
}

static void count_backward_region(struct walk *walk, const struct open_row *open)
{
    struct ks_module_node *node = &walk->tree.nodes[open->module];
    int64_t dur_ns = ks_sum_sub(open->end_ns, open->start_ns);
    node->backward_calls++;
    node->backward_ns = ks_sum_add(node->backward_ns, dur_ns);
    node->backward_self_ns = ks_sum_add(node->backward_self_ns, dur_ns);
    take_from_outer(walk, open->in_node, open->start_ns, open->end_ns);
}

static enum ks_status open_backward_region(struct walk *walk, struct thread *thread,
                                           const struct ks_sweep_row *row, struct ks_err *err)
{
    struct open_row open = row_in(walk, thread, row);
    KS_TRY(find_backward_module(walk, module_of(walk, open.in_node), label_of(row), &open.module,
                                err));
    struct ks_module_node *node = &walk->tree.nodes[open.module];
    node->class_name = node->class_name ? node->class_name : row->name;
    if (open.is_kept) {
        count_backward_region(walk, &open);
    }
    uint32_t index = NONE;
    KS_TRY(push(walk, thread, &open, &index, err));
    walk->pool[index].in_node = index;
    walk->pool[index].in_module = NONE;
    return KS_OK;
}

/* ------------------------------------------------------------------ operators */

static enum ks_status note_forward(struct walk *walk, const struct ks_sweep_row *row,
                                   const struct open_row *open, uint32_t *index, struct ks_err *err)
{
    struct ks_forward_op op = {.start_ns = row->start_ns,
                               .dur_ns = ks_sum_sub(row->end_ns, row->start_ns),
                               .lane = row->lane,
                               .name = row->name,
                               .dims = row->dims,
                               .module = module_of(walk, open->in_module)};
    return ks_forward_ops_note(&walk->forward, row->seq, &op, index, err);
}

static enum ks_status open_operator(struct walk *walk, struct thread *thread,
                                    const struct ks_sweep_row *row, struct ks_err *err)
{
    struct open_row open = row_in(walk, thread, row);
    if (row->seq >= 0 && row->aux <= 0) {
        KS_TRY(note_forward(walk, row, &open, &open.forward, err));
    }
    if (!walk->analyzer->facts->has_gpu) {
        return KS_OK;
    }
    count_work(walk, &open, row->ext_id);
    uint32_t index = NONE;
    return push(walk, thread, &open, &index, err);
}

static enum ks_status open_frame(struct walk *walk, struct thread *thread,
                                 const struct ks_sweep_row *row, struct ks_err *err)
{
    struct open_row open = row_in(walk, thread, row);
    uint32_t index = NONE;
    return push(walk, thread, &open, &index, err);
}

/* The engine's row of a node holds the node's own, of the same number. */
static bool is_same_node(const struct walk *walk, const struct thread *thread,
                         const struct ks_sweep_row *row)
{
    const struct open_row *top = thread->top == NONE ? NULL : &walk->pool[thread->top];
    return top && top->in_node == thread->top && row->seq >= 0 && top->number == row->seq;
}

/* ------------------------------------------------------------------ one source */

static enum ks_status note_row(struct walk *walk, const struct ks_sweep_row *row,
                               struct ks_err *err)
{
    enum kind kind = row->flags & KS_SLICE_ASYNC ? KIND_OTHER : kind_of(walk, row);
    if (kind == KIND_OTHER) {
        return KS_OK;
    }
    struct thread *thread = thread_of(walk, row->lane);
    close_until(walk, thread, row->start_ns);
    kind = kind == KIND_NODE && is_same_node(walk, thread, row) ? KIND_OPERATOR : kind;
    switch (kind) {
    case KIND_MODULE: return open_module(walk, thread, row, err);
    case KIND_ENGINE: return open_frame(walk, thread, row, err);
    case KIND_OPERATOR: return open_operator(walk, thread, row, err);
    case KIND_NODE:
        return row->category == KS_CATEGORY_REGION ? open_backward_region(walk, thread, row, err)
                                                   : open_node(walk, thread, row, err);
    default: return KS_OK;
    }
}

static enum ks_status sweep_rows(struct walk *walk, struct ks_err *err)
{
    struct ks_lane_sweep sweep;
    struct ks_sweep_row row;
    KS_TRY(ks_lane_sweep_open(&sweep, walk->analyzer->trace, walk->source,
                              KS_SWEEP_THREADS | KS_SWEEP_NUMBERS, &walk->analyzer->scratch, err));
    enum ks_status status;
    while ((status = ks_lane_sweep_next(&sweep, &row, err)) == KS_OK) {
        status = note_row(walk, &row, err);
        if (status != KS_OK) {
            break;
        }
    }
    ks_lane_sweep_close(&sweep);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status walk_source(struct walk *walk, uint32_t source, struct ks_err *err)
{
    walk->source = source;
    walk->range = ks_lane_sweep_tracks(walk->analyzer->trace, source);
    walk->threads = ks_new(&walk->analyzer->scratch, struct thread, (size_t)walk->range.count + 1);
    if (!walk->threads) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow threads: count=%u",
                       walk->range.count);
    }
    for (size_t i = 0; i <= walk->range.count; i++) {
        walk->threads[i] = (struct thread){.top = NONE, .last_end_ns = KS_TIME_NONE};
    }
    enum ks_status status = sweep_rows(walk, err);
    for (size_t i = 0; i <= walk->range.count && status == KS_OK; i++) {
        close_until(walk, &walk->threads[i], INT64_MAX);
    }
    return status;
}

static enum ks_status walk_sources(struct walk *walk, struct ks_err *err)
{
    for (uint32_t i = 0; i < ks_trace_source_count(walk->analyzer->trace); i++) {
        struct ks_arena_mark mark = ks_arena_mark(&walk->analyzer->scratch);
        ks_forward_ops_init(&walk->forward);
        enum ks_status status = walk_source(walk, i, err);
        ks_forward_ops_release(&walk->forward);
        ks_arena_rewind(&walk->analyzer->scratch, mark);
        KS_TRY(status);
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ results */

static int compare_pairs(const void *left, const void *right, void *trace)
{
    const struct ks_autograd_fact *a = left;
    const struct ks_autograd_fact *b = right;
    if (a->backward_ns != b->backward_ns) {
        return a->backward_ns > b->backward_ns ? -1 : 1;
    }
    const struct ks_strid left_ids[] = {a->node, a->forward, a->shapes};
    const struct ks_strid right_ids[] = {b->node, b->forward, b->shapes};
    int order = 0;
    for (size_t i = 0; i < KS_COUNT_OF(left_ids) && order == 0; i++) {
        order = ks_str_compare(ks_trace_str(trace, left_ids[i]), ks_trace_str(trace, right_ids[i]));
    }
    return order;
}

static enum ks_status publish_pairs(struct walk *walk, struct ks_err *err)
{
    struct ks_facts *facts = walk->analyzer->facts;
    facts->autograd =
        ks_new(walk->analyzer->results, struct ks_autograd_fact, walk->pair_count + 1);
    if (!facts->autograd) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep nodes of autograd: count=%zu",
                       walk->pair_count);
    }
    for (size_t i = 0; i < walk->pair_count; i++) {
        facts->autograd[i] = walk->pairs[i];
    }
    facts->autograd_count = walk->pair_count;
    qsort_r(facts->autograd, facts->autograd_count, sizeof(*facts->autograd), compare_pairs,
            (void *)(uintptr_t)walk->analyzer->trace);
    return KS_OK;
}

struct ks_str ks_autograd_label(const struct ks_facts *facts, const struct ks_autograd_fact *pair)
{
    struct ks_str name = ks_trace_str(facts->trace, pair->node);
    struct ks_str prefix = ks_str_from(engine_prefix);
    bool is_engine = ks_str_starts(name, prefix);
    return is_engine ? (struct ks_str){name.ptr + prefix.len, name.len - prefix.len} : name;
}

static enum ks_status compute(struct walk *walk, struct ks_err *err)
{
    const struct ks_trace *trace = walk->analyzer->trace;
    walk->kinds = ks_alloc((size_t)ks_trace_str_count(trace) + 1, 1);
    if (!walk->kinds) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep names: count=%u",
                       ks_trace_str_count(trace));
    }
    walk->forward_pass = ks_trace_str_find(trace, KS_STR("forward_pass"));
    walk->backward_pass = ks_trace_str_find(trace, KS_STR("backward_pass"));
    KS_TRY(walk_sources(walk, err));
    KS_TRY(publish_pairs(walk, err));
    bool is_known = walk->has_makers || !walk->has_nodes;
    return ks_module_list_make(walk->analyzer, &walk->tree, is_known, err);
}

enum ks_status ks_autograd_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct walk walk = {.analyzer = analyzer, .spare = NONE};
    ks_module_tree_init(&walk.tree);
    ks_map_init(&walk.pair_index);
    enum ks_status status = compute(&walk, err);
    ks_module_tree_release(&walk.tree);
    ks_map_release(&walk.pair_index);
    ks_free(walk.kinds);
    ks_free(walk.pairs);
    ks_free(walk.pool);
    return status;
}
