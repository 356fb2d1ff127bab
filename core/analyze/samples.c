/* A14: where the threads of a program were when the sampler looked, by thread and function
 * (docs/analyses/samples.md). The looks of a thread are added up at their stacks, and then go from
 * each stack to the ones that called it. */
#include <stdlib.h>

#include "analyze/function_tree.h"
#include "analyze/registry.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

enum { DEPTH_MAX = 4096 }; /* of a stack; frames further out are not asked */

/* What one thread did at a stack. */
struct stack_looks {
    int64_t self;
    int64_t total;
    int64_t running;
    uint64_t lane; /* 1 + the thread that these are of; else they are of an earlier one */
};

struct state {
    struct ks_analyzer *analyzer;
    struct ks_function_tree tree;
    struct stack_looks *looks; /* by id of a stack */
    uint32_t *touched;         /* stacks of the thread that is being read */
    size_t touched_count;
    size_t touched_capacity;
    uint64_t lane;
    int64_t lane_looks;
    struct ks_map index; /* (lane, function) -> 1 + fact */
    struct ks_sample_fact *facts;
    size_t fact_count;
    size_t fact_capacity;
};

/* ------------------------------------------------------------------ one thread */

/* The stack and those that called it, down to the first one that this thread has had. */
static enum ks_status touch(struct state *state, uint32_t stack, struct ks_err *err)
{
    for (size_t depth = 0; stack != 0 && depth < DEPTH_MAX; depth++) {
        struct stack_looks *looks = &state->looks[stack];
        if (looks->lane == state->lane) {
            return KS_OK;
        }
        KS_TRY(ks_grow(&state->touched, state->touched_count, &state->touched_capacity,
                       sizeof(*state->touched), "stacks", err));
        *looks = (struct stack_looks){.lane = state->lane};
        state->touched[state->touched_count++] = stack;
        stack = state->tree.caller_of[stack];
    }
    return KS_OK;
}

static enum ks_status read_lane(struct state *state, const struct ks_lane *lane, struct ks_err *err)
{
    struct ks_sample_scan scan;
    enum ks_status status;
    ks_sample_scan_open(&scan, state->analyzer->trace,
                        KS_COLUMN_BIT(KS_SAMPLE_COL_stack) | KS_COLUMN_BIT(KS_SAMPLE_COL_weight) |
                            KS_COLUMN_BIT(KS_SAMPLE_COL_flags),
                        lane->row_begin, lane->row_end);
    while ((status = ks_sample_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            uint32_t stack = scan.col.stack[i];
            int64_t weight = scan.col.weight[i];
            struct stack_looks *looks = &state->looks[stack];
            status = touch(state, stack, err);
            looks->self = ks_sum_add(looks->self, weight);
            looks->running += scan.col.flags[i] & KS_SAMPLE_RUNNING ? weight : 0;
            state->lane_looks = ks_sum_add(state->lane_looks, weight);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_sample_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status find_fact(struct state *state, const struct ks_lane *lane, uint32_t function,
                                struct ks_sample_fact **fact, struct ks_err *err)
{
    KS_TRY(ks_grow(&state->facts, state->fact_count, &state->fact_capacity, sizeof(*state->facts),
                   "samples", err));
    uint64_t *at = ks_map_put(&state->index, state->lane, function, NULL);
    if (!at) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep samples: count=%zu",
                       state->fact_count);
    }
    if (*at == 0) {
        state->facts[state->fact_count] = (struct ks_sample_fact){
            .track = lane->track,
            .id = state->tree.functions[function],
            .thread_looks = state->lane_looks,
        };
        *at = ++state->fact_count;
    }
    *fact = &state->facts[*at - 1];
    return KS_OK;
}

static int compare_ids(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;
    return (a < b) - (a > b);
}

/* From the innermost frames outward: callers have the smaller ids. */
static enum ks_status add_lane(struct state *state, const struct ks_lane *lane, struct ks_err *err)
{
    if (state->touched_count > 0) {
        qsort(state->touched, state->touched_count, sizeof(*state->touched), compare_ids);
    }
    for (size_t i = 0; i < state->touched_count; i++) {
        uint32_t stack = state->touched[i];
        struct stack_looks *looks = &state->looks[stack];
        struct stack_looks *caller = &state->looks[state->tree.caller_of[stack]];
        struct ks_sample_fact *fact = NULL;
        KS_TRY(find_fact(state, lane, state->tree.function_of[stack], &fact, err));
        looks->total = ks_sum_add(looks->total, looks->self);
        caller->total = ks_sum_add(caller->total, looks->total);
        fact->self_looks = ks_sum_add(fact->self_looks, looks->self);
        fact->running_looks = ks_sum_add(fact->running_looks, looks->running);
        if (state->tree.is_outermost[stack]) {
            fact->total_looks = ks_sum_add(fact->total_looks, looks->total);
        }
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ publishing */

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* The busiest threads first, and in a thread what was on top most often. */
static int compare_facts(const void *left, const void *right, void *trace)
{
    const struct ks_sample_fact *a = left;
    const struct ks_sample_fact *b = right;
    int order = compare_numbers(b->thread_running, a->thread_running);
    order = order ? order : compare_numbers(b->thread_looks, a->thread_looks);
    order = order ? order : compare_numbers(a->track, b->track);
    order = order ? order : compare_numbers(b->self_looks, a->self_looks);
    order = order ? order : compare_numbers(b->total_looks, a->total_looks);
    return order ? order : ks_function_id_compare(trace, &a->id, &b->id);
}

static enum ks_status publish(struct state *state, struct ks_err *err)
{
    struct ks_facts *facts = state->analyzer->facts;
    facts->samples = ks_new(&facts->arena, struct ks_sample_fact, state->fact_count + 1);
    if (!facts->samples) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep samples: count=%zu",
                       state->fact_count);
    }
    for (size_t i = 0; i < state->fact_count; i++) {
        facts->samples[i] = state->facts[i];
    }
    facts->sample_count = state->fact_count;
    qsort_r(facts->samples, facts->sample_count, sizeof(*facts->samples), compare_facts,
            (void *)(uintptr_t)state->analyzer->trace);
    return KS_OK;
}

/* How often the thread ran, for the order of threads. */
static void note_running(struct state *state, size_t first)
{
    int64_t running = 0;
    for (size_t i = first; i < state->fact_count; i++) {
        running = ks_sum_add(running, state->facts[i].running_looks);
    }
    for (size_t i = first; i < state->fact_count; i++) {
        state->facts[i].thread_running = running;
    }
}

static enum ks_status compute(struct state *state, struct ks_err *err)
{
    const struct ks_trace *trace = state->analyzer->trace;
    size_t lane_count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(trace, KS_TABLE_sample, &lane_count);
    KS_TRY(ks_function_tree_of_stacks(&state->tree, trace, err));
    state->looks = ks_alloc(state->tree.node_count + 1, sizeof(*state->looks));
    if (!state->looks) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep samples: count=%zu",
                       state->tree.node_count);
    }
    for (size_t i = 0; i < lane_count; i++) {
        size_t first = state->fact_count;
        state->lane = i + 1;
        state->lane_looks = 0;
        state->touched_count = 0;
        KS_TRY(read_lane(state, &lanes[i], err));
        KS_TRY(add_lane(state, &lanes[i], err));
        note_running(state, first);
    }
    return publish(state, err);
}

enum ks_status ks_samples_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct state state = {.analyzer = analyzer};
    ks_map_init(&state.index);
    enum ks_status status = KS_OK;
    if (ks_trace_rows(analyzer->trace, KS_TABLE_sample) > 0) {
        status = compute(&state, err);
    }
    ks_function_tree_release(&state.tree);
    ks_map_release(&state.index);
    ks_free(state.looks);
    ks_free(state.touched);
    ks_free(state.facts);
    return status;
}
