/* Operators that take the host long by themselves: not by what they call, launch or wait for. */
#include <stdlib.h>

#include "analyze/op_work.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "measure/sum.h"

/* A call of KS_SLOW_NS_MIN and more. */
struct call {
    uint32_t name;
    uint32_t outer;
    struct ks_op_row row;
    int64_t own_ns;
    int64_t step; /* number */
    uint32_t lane;
};

/* What the shorter calls of an operator take together. */
struct quick {
    int64_t ns;
    int64_t count;
};

struct ks_slow_parts {
    struct quick *quick; /* by string id */
    uint32_t *threads;   /* by source: that of the steps */
    struct call *calls;
    size_t count;
    size_t capacity;
};

enum ks_status ks_slow_create(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_analyzer *analyzer = work->analyzer;
    struct ks_arena *scratch = &analyzer->scratch;
    uint32_t source_count = ks_trace_source_count(analyzer->trace);
    size_t names = (size_t)ks_trace_str_count(analyzer->trace) + 1;
    struct ks_slow_parts *parts = ks_new(scratch, struct ks_slow_parts, 1);
    if (parts) {
        parts->quick = ks_new(scratch, struct quick, names);
        parts->threads = ks_new(scratch, uint32_t, (size_t)source_count + 1);
    }
    if (!parts || !parts->quick || !parts->threads) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow operators: names=%zu",
                       names);
    }
    for (uint32_t i = 0; i < source_count; i++) {
        parts->threads[i] = ks_step_lookup_thread(analyzer->facts, i);
    }
    work->slow = parts;
    return KS_OK;
}

void ks_slow_release(struct ks_op_work *work)
{
    if (work->slow) {
        ks_free(work->slow->calls);
    }
}

/* ------------------------------------------------------------ which calls count */

/* Rows of the compiler, at which compile.recompiles looks. */
static bool is_compiling(struct ks_str name)
{
    return ks_str_contains(name, KS_STR("dynamo_timed")) ||
           ks_str_contains(name, KS_STR("compile_id="));
}

/* ... inside of them, or of what it compiled, which stands for many operators. */
static bool is_compiled(struct ks_op_work *work, const struct ks_op_walk *walk,
                        const struct ks_op_row *row)
{
    const struct ks_trace *trace = work->analyzer->trace;
    if ((ks_op_work_class(work, row->name) & (KS_OP_REGION | KS_OP_GRAPH)) ||
        is_compiling(ks_trace_str(trace, (struct ks_strid){row->name}))) {
        return true;
    }
    for (size_t i = 0; i < walk->open_count && i < KS_OP_SEARCH_MAX; i++) {
        uint32_t name = walk->open[walk->open_count - 1 - i].name;
        if (is_compiling(ks_trace_str(trace, (struct ks_strid){name}))) {
            return true;
        }
    }
    return false;
}

/* A tensor that goes to the host and back is device.round_trip's. */
static bool is_on_trip(const struct ks_facts *facts, uint32_t lane, const struct ks_op_row *row)
{
    size_t begin = 0;
    size_t end = facts->trip_span_count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        const struct ks_trip_span *span = &facts->trip_spans[middle];
        bool is_before = span->lane != lane ? span->lane < lane : span->from_ns <= row->start_ns;
        begin = is_before ? middle + 1 : begin;
        end = is_before ? end : middle;
    }
    const struct ks_trip_span *span = begin > 0 ? &facts->trip_spans[begin - 1] : NULL;
    return span && span->lane == lane && row->start_ns < span->until_ns;
}

/* Has nobody else a name for its time? */
static bool is_unexplained(struct ks_op_work *work, const struct ks_op_walk *walk,
                           const struct ks_op_row *row)
{
    return !ks_retuning_tries(work, row) && !is_compiled(work, walk, row) &&
           !is_on_trip(work->analyzer->facts, walk->lane, row);
}

/* An operator of the thread of the steps, or of the backward pass, which that one waits for. */
static bool is_in_the_way(const struct ks_op_work *work, const struct ks_op_walk *walk,
                          const struct ks_op_row *row)
{
    unsigned all = row->flags | row->around;
    unsigned no_work = KS_NAME_PROFILER_STEP | KS_NAME_STEP | KS_NAME_MARK | KS_NAME_ENGINE |
                       KS_NAME_OPTIMIZER | KS_NAME_DROPPED;
    unsigned waits = KS_NAME_SYNC | KS_NAME_READS | KS_NAME_HOST_COMM | KS_NAME_COMM_WAIT;
    bool is_thread = walk->lane == work->slow->threads[walk->source] || (all & KS_NAME_BACKWARD);
    return row->is_op && is_thread && !(row->flags & (no_work | waits)) && !(all & KS_NAME_LOADER);
}

enum ks_status ks_slow_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                            const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_slow_parts *parts = work->slow;
    if (!is_in_the_way(work, walk, row)) {
        return KS_OK;
    }
    int64_t dur_ns = ks_sum_sub(row->end_ns, row->start_ns);
    int64_t own_ns = ks_sum_sub(ks_sum_sub(dur_ns, row->child_ns), row->calls_ns);
    if (own_ns < KS_SLOW_NS_MIN) {
        struct quick *quick = &parts->quick[row->name];
        quick->ns = ks_sum_add(quick->ns, own_ns > 0 ? own_ns : 0);
        quick->count++;
        return KS_OK;
    }
    const struct ks_step *step = ks_op_work_step(work, walk, row->start_ns);
    if (!step || !is_unexplained(work, walk, row)) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&parts->calls, parts->count, &parts->capacity, sizeof(*parts->calls),
                   "slow operators", err));
    parts->calls[parts->count++] = (struct call){
        row->name, ks_op_walk_outermost(walk, row).v, *row, own_ns, step->number, walk->lane};
    return KS_OK;
}

/* ------------------------------------------------------------ results */

static int compare_calls(const void *left, const void *right)
{
    const struct call *a = left;
    const struct call *b = right;
    if (a->name != b->name) {
        return a->name < b->name ? -1 : 1;
    }
    if (a->row.start_ns != b->row.start_ns) {
        return a->row.start_ns < b->row.start_ns ? -1 : 1;
    }
    return (a->lane > b->lane) - (a->lane < b->lane);
}

/* Calls of the operator with most time: [begin, end), by time; the time of all others. */
static void find_worst(struct ks_slow_parts *parts, size_t *begin, size_t *end, int64_t *other_ns)
{
    int64_t most_ns = 0;
    int64_t all_ns = 0;
    for (size_t from = 0, until; from < parts->count; from = until) {
        int64_t sum_ns = 0;
        for (until = from;
             until < parts->count && parts->calls[until].name == parts->calls[from].name; until++) {
            sum_ns = ks_sum_add(sum_ns, parts->calls[until].own_ns);
        }
        all_ns = ks_sum_add(all_ns, sum_ns);
        if (sum_ns > most_ns) {
            most_ns = sum_ns;
            *begin = from;
            *end = until;
        }
    }
    *other_ns = ks_sum_sub(all_ns, most_ns);
}

static enum ks_status add_calls(struct ks_op_work *work, struct ks_slow_cost *cost, size_t begin,
                                size_t end, struct ks_map *shapes, struct ks_err *err)
{
    int64_t longest_ns = 0;
    for (size_t i = begin; i < end; i++) {
        const struct call *call = &work->slow->calls[i];
        const struct ks_step step = {.number = call->step};
        cost->steps_with += i == begin || call->step != call[-1].step;
        ks_op_work_add(&cost->cost, &call->row, &step);
        cost->own_ns = ks_sum_add(cost->own_ns, call->own_ns);
        if (call->own_ns > longest_ns) {
            longest_ns = call->own_ns;
            cost->dims = (struct ks_strid){call->row.dims};
            cost->outer = (struct ks_strid){call->outer};
        }
        if (call->row.dims != 0 && !ks_map_put(shapes, call->row.dims, 0, NULL)) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow operators");
        }
        const struct ks_work_span span = {call->lane, KS_REPLAY_SLOW, call->row.start_ns,
                                          call->row.end_ns};
        KS_TRY(ks_op_work_add_span(work, &span, err));
    }
    cost->shapes = shapes->count;
    return KS_OK;
}

static void set_usual(const struct ks_op_work *work, struct ks_slow_cost *cost)
{
    const struct quick *quick = &work->slow->quick[cost->op.v];
    if (quick->count > 0) {
        cost->usual_ns = ks_sum_scale(quick->ns / quick->count, (int64_t)cost->cost.count);
    }
}

enum ks_status ks_slow_publish(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_slow_parts *parts = work->slow;
    struct ks_slow_cost *cost = &work->analyzer->facts->work.slow;
    size_t begin = 0;
    size_t end = 0;
    if (parts->count == 0) {
        return KS_OK;
    }
    qsort(parts->calls, parts->count, sizeof(*parts->calls), compare_calls);
    find_worst(parts, &begin, &end, &cost->other_ns);
    struct ks_map shapes;
    ks_map_init(&shapes);
    enum ks_status status = add_calls(work, cost, begin, end, &shapes, err);
    ks_map_release(&shapes);
    cost->op = (struct ks_strid){parts->calls[begin].name};
    set_usual(work, cost);
    cost->own_ns = ks_op_work_mean_ns(work, cost->own_ns);
    cost->usual_ns = ks_op_work_mean_ns(work, cost->usual_ns);
    cost->other_ns = ks_op_work_mean_ns(work, cost->other_ns);
    ks_op_work_mean(work, &cost->cost);
    return status;
}
