#include "analyze/operator_stacks.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"
#include "measure/sum.h"

void ks_operator_stacks_init(struct ks_operator_stacks *stacks, const struct ks_trace *trace,
                             int64_t depth)
{
    *stacks = (struct ks_operator_stacks){.trace = trace,
                                          .depth = depth < KS_STACK_DEPTH_MAX ? (size_t)depth
                                                                              : KS_STACK_DEPTH_MAX,
                                          .is_whole = depth > KS_STACK_DEPTH_MAX};
    ks_map_init(&stacks->calls);
    ks_map_init(&stacks->groups);
    ks_map_init(&stacks->makers);
}

void ks_operator_stacks_release(struct ks_operator_stacks *stacks)
{
    ks_free(stacks->nodes);
    ks_free(stacks->frames);
    ks_free(stacks->inside);
    ks_map_release(&stacks->calls);
    ks_map_release(&stacks->groups);
    ks_map_release(&stacks->makers);
}

static enum ks_status put_node(struct ks_operator_stacks *stacks, struct ks_map *map, uint32_t next,
                               uint32_t name, uint32_t *id, struct ks_err *err)
{
    KS_TRY(ks_grow(&stacks->nodes, stacks->node_count, &stacks->node_capacity,
                   sizeof(*stacks->nodes), "stacks", err));
    uint64_t *slot = ks_map_put(map, next, name, NULL);
    if (!slot || stacks->node_count >= UINT32_MAX - 1) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep stacks: count=%zu",
                       stacks->node_count);
    }
    if (*slot == 0) {
        stacks->nodes[stacks->node_count] = (struct ks_stack_node){.next = next, .name = name};
        *slot = ++stacks->node_count;
    }
    *id = (uint32_t)*slot;
    return KS_OK;
}

/* Frames that torch leaves out of stacks. */
static bool is_left_out(struct ks_str name)
{
    static const char *const pairs[][2] = {
        {"autograd/__init__", "_make_grads"},
        {"autograd/__init__", "backward"},
        {"torch/tensor", "backward"},
        {"_internal/common_utils", "prof_callable"},
        {"_internal/common_utils", "prof_func_call"},
        {"_internal/common_utils", "prof_meth_call"},
    };
    for (size_t i = 0; i < KS_COUNT_OF(pairs); i++) {
        if (ks_str_contains(name, ks_str_from(pairs[i][0])) &&
            ks_str_contains(name, ks_str_from(pairs[i][1]))) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ open frames */

void ks_operator_stacks_begin_lane(struct ks_operator_stacks *stacks)
{
    stacks->frame_count = 0;
    stacks->inside_count = 0;
    stacks->engine_node = 0;
}

/* The stack at a moment. */
static uint32_t stack_at(struct ks_operator_stacks *stacks, int64_t start_ns)
{
    while (stacks->frame_count > 0 && stacks->frames[stacks->frame_count - 1].end_ns <= start_ns) {
        stacks->frame_count--;
    }
    return stacks->frame_count > 0 ? stacks->frames[stacks->frame_count - 1].stack : 0;
}

enum ks_status ks_operator_stacks_open(struct ks_operator_stacks *stacks, uint32_t name,
                                       int64_t start_ns, int64_t end_ns, struct ks_err *err)
{
    struct ks_stack_frame frame = {.end_ns = end_ns};
    uint32_t around = stack_at(stacks, start_ns);
    KS_TRY(ks_grow(&stacks->frames, stacks->frame_count, &stacks->frame_capacity,
                   sizeof(*stacks->frames), "frames", err));
    frame.stack = around;
    if (!is_left_out(ks_trace_str(stacks->trace, (struct ks_strid){name}))) {
        KS_TRY(put_node(stacks, &stacks->calls, around, name, &frame.stack, err));
    }
    stacks->frames[stacks->frame_count++] = frame;
    return KS_OK;
}

/* ------------------------------------------------------------------ makers of nodes */

static enum ks_status note_maker(struct ks_operator_stacks *stacks, const struct ks_stack_row *row,
                                 uint32_t stack, struct ks_err *err)
{
    uint64_t *slot = ks_map_put(&stacks->makers, row->source, (uint64_t)row->number, NULL);
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep stacks of autograd");
    }
    *slot = *slot == 0 ? (uint64_t)stack + 1 : *slot; // the first one, as torch does
    return KS_OK;
}

static uint32_t stack_of_maker(const struct ks_operator_stacks *stacks,
                               const struct ks_stack_row *row)
{
    const uint64_t *slot = ks_map_find(&stacks->makers, row->source, (uint64_t)row->number);
    return row->number >= 0 && slot ? (uint32_t)(*slot - 1) : 0;
}

/* The node's own row, not that of the engine around it: torch knows it by its scope, which no trace
 * holds. One with a number says its thread; all stand in a row of the engine with their name. */
static bool is_node(struct ks_operator_stacks *stacks, const struct ks_stack_row *row)
{
    struct ks_str prefix = KS_STR("autograd::engine::evaluate_function: ");
    struct ks_str name = ks_trace_str(stacks->trace, (struct ks_strid){row->name});
    if (ks_str_starts(name, prefix)) {
        struct ks_str node = {name.ptr + prefix.len, name.len - prefix.len};
        stacks->engine_node = ks_trace_str_find(stacks->trace, node).v;
        stacks->engine_end_ns = row->end_ns;
        return false;
    }
    bool is_in_engine = row->name == stacks->engine_node && row->end_ns <= stacks->engine_end_ns;
    return is_in_engine || (row->number >= 0 && row->thread > 0);
}

enum ks_status ks_operator_stacks_find(struct ks_operator_stacks *stacks,
                                       const struct ks_stack_row *row, uint32_t *stack,
                                       struct ks_err *err)
{
    while (stacks->inside_count > 0 &&
           stacks->inside[stacks->inside_count - 1].end_ns <= row->start_ns) {
        stacks->inside_count--;
    }
    if (is_node(stacks, row)) {
        KS_TRY(ks_grow(&stacks->inside, stacks->inside_count, &stacks->inside_capacity,
                       sizeof(*stacks->inside), "nodes of autograd", err));
        *stack = stack_of_maker(stacks, row);
        stacks->inside[stacks->inside_count++] = (struct ks_stack_frame){row->end_ns, *stack};
        return KS_OK;
    }
    if (stacks->inside_count > 0) {
        *stack = stacks->inside[stacks->inside_count - 1].stack;
        return KS_OK;
    }
    *stack = stack_at(stacks, row->start_ns);
    return stacks->is_noting && row->number >= 0 ? note_maker(stacks, row, *stack, err) : KS_OK;
}

/* ------------------------------------------------------------------ groups */

enum ks_status ks_operator_stacks_group(struct ks_operator_stacks *stacks, uint32_t stack,
                                        uint32_t *group, struct ks_err *err)
{
    *group = stack;
    if (stack == 0 || stacks->is_whole) {
        return KS_OK;
    }
    *group = stacks->nodes[stack - 1].group;
    if (*group != 0) {
        return KS_OK;
    }
    uint32_t at = stack;
    for (size_t i = 0; at != 0 && i < stacks->depth; i++) {
        struct ks_stack_node node = stacks->nodes[at - 1];
        KS_TRY(put_node(stacks, &stacks->groups, *group, node.name, group, err));
        at = node.next;
    }
    stacks->nodes[stack - 1].group = *group;
    return KS_OK;
}

/* The frames of a group, innermost first; empty for 0. A NULL pointer: out of memory. */
static struct ks_str text_of(const struct ks_operator_stacks *stacks, uint32_t group,
                             struct ks_arena *arena)
{
    uint32_t names[KS_STACK_SHOWN_MAX];
    size_t count = 0;
    for (uint32_t at = group; at != 0 && count < KS_STACK_SHOWN_MAX;) {
        names[count++] = stacks->nodes[at - 1].name;
        at = stacks->nodes[at - 1].next;
    }
    struct ks_text text;
    ks_text_init(&text);
    for (size_t i = 0; i < count; i++) {
        uint32_t name = names[stacks->is_whole ? i : count - 1 - i];
        ks_text_append(&text, ";", i > 0);
        ks_text_append_str(&text, ks_trace_str(stacks->trace, (struct ks_strid){name}));
    }
    struct ks_str copy = {NULL, text.len};
    copy.ptr = text.failed ? NULL : ks_arena_copy(arena, text.len ? text.ptr : "", text.len);
    ks_text_release(&text);
    return copy;
}

enum ks_status ks_operator_stacks_name(const struct ks_operator_stacks *stacks,
                                       struct ks_operator_fact *operators, size_t count,
                                       struct ks_arena *arena, struct ks_err *err)
{
    struct ks_str *texts = ks_alloc(stacks->node_count + 1, sizeof(*texts));
    bool is_good = texts != NULL;
    for (size_t i = 0; is_good && i < count; i++) {
        struct ks_str *text = &texts[operators[i].stack_group];
        if (!text->ptr) {
            *text = text_of(stacks, operators[i].stack_group, arena);
        }
        is_good = text->ptr != NULL;
        operators[i].stack = *text;
    }
    ks_free(texts);
    return is_good ? KS_OK : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot name stacks");
}

/* ------------------------------------------------------------------ one row a stack */

static int compare_stacks(const void *left, const void *right)
{
    const struct ks_stack_fact *a = left;
    const struct ks_stack_fact *b = right;
    if (a->self_cpu_ns != b->self_cpu_ns) {
        return a->self_cpu_ns > b->self_cpu_ns ? -1 : 1;
    }
    return ks_str_compare(a->stack, b->stack);
}

static void add_to_stack(struct ks_stack_fact *sum, const struct ks_operator_fact *fact)
{
    sum->stack = fact->stack;
    sum->calls += fact->calls;
    sum->self_cpu_ns = ks_sum_add(sum->self_cpu_ns, fact->self_cpu_ns);
    sum->self_device_ns = ks_sum_add(sum->self_device_ns, fact->self_device_ns);
    sum->self_cpu_bytes = ks_sum_add(sum->self_cpu_bytes, fact->self_cpu_bytes);
    sum->self_device_bytes = ks_sum_add(sum->self_device_bytes, fact->self_device_bytes);
}

/* What nothing was called from has no row, nor has what no frame called. */
static void publish(struct ks_facts *facts, const struct ks_stack_fact *sums, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (sums[i].calls == 0) {
            continue;
        }
        struct ks_stack_fact *row = &facts->stacks[facts->stack_count++];
        *row = sums[i];
        if (!facts->has_memory) {
            row->self_cpu_bytes = row->self_device_bytes = KS_UNKNOWN;
        }
    }
    qsort(facts->stacks, facts->stack_count, sizeof(*facts->stacks), compare_stacks);
}

enum ks_status ks_operator_stacks_sum(const struct ks_operator_stacks *stacks,
                                      const struct ks_operator_fact *operators, size_t count,
                                      struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    size_t groups = stacks->node_count + 1;
    struct ks_stack_fact *sums = ks_alloc(groups, sizeof(*sums));
    facts->stacks = ks_new(analyzer->results, struct ks_stack_fact, groups);
    if (!sums || !facts->stacks) {
        ks_free(sums);
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep stacks: count=%zu", groups);
    }
    for (size_t i = 0; i < count; i++) {
        add_to_stack(&sums[operators[i].stack_group], &operators[i]);
    }
    publish(facts, sums, groups);
    ks_free(sums);
    return KS_OK;
}
