/* Compiled functions: operators that no graph of theirs holds, how often compiled code is entered
 * again from inside of them, which graphs launch kernel by kernel, and calls that ran nothing
 * compiled, which only Python frames show. */
#include "analyze/lane_sweep.h"
#include "analyze/op_work.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "measure/sum.h"

/* A call of a compiled function, by Python frames. */
struct wrap {
    uint32_t lane;
    bool is_compiled; /* compiled code ran in it */
    int64_t from_ns;
    int64_t until_ns;
};

/* Where a row begins. */
struct moment {
    uint32_t lane; /* 0: none */
    int64_t from_ns;
};

struct ks_compiled_parts {
    bool is_there;      /* some name is of compiled code, or of a compiled function */
    struct wrap *wraps; /* by thread and time */
    size_t wrap_count;
    size_t wrap_capacity;
    struct ks_map eager;   /* sequence numbers of operators in no graph */
    struct ks_map skipped; /* ... of those in calls that ran nothing compiled */
    struct moment lookup;  /* the last one, until a graph ends */
    struct moment graph;   /* the last one that counts */
    int64_t *eager_ns;     /* by string id */
    int64_t *skipped_ns;
    double launches; /* of all rows */
    double skipped_launches;
    int64_t host_ns; /* of operators and nodes that are in none */
    int64_t skipped_host_ns;
    uint64_t forward[2];  /* graphs that launch one by one, that replay */
    uint64_t backward[2]; /* the same */
};

/* ------------------------------------------------------------ Python frames */

/* Torch's function around a call of a compiled one. In older releases it is called `_fn`, as is the
 * one around functions that must not be compiled, so that it says nothing. */
static bool is_wrapper(struct ks_str name)
{
    return ks_str_contains(name, KS_STR("torch/_dynamo/eval_frame.py(")) &&
           ks_str_contains(name, KS_STR("): compile_wrapper"));
}

static bool is_tree(struct ks_str name)
{
    return ks_str_contains(name, KS_STR("torch/_inductor/cudagraph_trees.py("));
}

enum { NAME_KNOWN = 1, NAME_WRAPPER = 2, NAME_TREE = 4, NAME_REGION = 8 };

/* Only frames and rows of compiled code have such names. */
static bool find_names(struct ks_op_work *work, uint8_t *names)
{
    const struct ks_trace *trace = work->analyzer->trace;
    bool is_any = false;
    for (uint32_t i = 0; i < ks_trace_str_count(trace); i++) {
        struct ks_str name = ks_trace_str(trace, (struct ks_strid){i});
        bool is_region = ks_op_work_class(work, i) & (KS_OP_REGION | KS_OP_GRAPH);
        names[i] = (uint8_t)((is_wrapper(name) ? NAME_WRAPPER : 0) |
                             (is_tree(name) ? NAME_TREE : 0) | (is_region ? NAME_REGION : 0));
        is_any = is_any || names[i] != 0;
    }
    return is_any;
}

static enum ks_status note_frame(struct ks_op_work *work, uint32_t lane, const uint8_t *names,
                                 const struct ks_slice_scan *scan, size_t i, struct ks_err *err)
{
    struct ks_compiled_parts *parts = work->compiled;
    unsigned flags = names[scan->col.name[i]];
    int64_t start_ns = scan->col.start_ns[i];
    struct wrap *last = parts->wrap_count > 0 ? &parts->wraps[parts->wrap_count - 1] : NULL;
    bool is_inside = last && last->lane == lane && start_ns < last->until_ns;
    if (flags & NAME_TREE) {
        work->analyzer->facts->work.compiled.has_trees = true;
    }
    if ((flags & NAME_REGION) && is_inside) {
        last->is_compiled = true;
    }
    if (!(flags & NAME_WRAPPER) || is_inside || scan->col.category[i] != KS_CATEGORY_PYTHON) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&parts->wraps, parts->wrap_count, &parts->wrap_capacity, sizeof(*parts->wraps),
                   "calls of compiled functions", err));
    parts->wraps[parts->wrap_count++] =
        (struct wrap){lane, false, start_ns, ks_sum_add(start_ns, scan->col.dur_ns[i])};
    return KS_OK;
}

static enum ks_status scan_lane(struct ks_op_work *work, const struct ks_lane *lane,
                                const uint8_t *names, struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    ks_slice_scan_open(&scan, work->analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_category),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            if (names[scan.col.name[i]] != 0) {
                status = note_frame(work, lane->track, names, &scan, i, err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status scan_frames(struct ks_op_work *work, const uint8_t *names, struct ks_err *err)
{
    const struct ks_trace *trace = work->analyzer->trace;
    for (uint32_t source = 0; source < ks_trace_source_count(trace); source++) {
        size_t count = 0;
        const struct ks_lane *lanes = ks_lane_sweep_lanes(trace, KS_TABLE_slice, source, &count);
        for (size_t i = 0; i < count; i++) {
            if (ks_trace_track(trace, lanes[i].track)->kind == KS_TRACK_THREAD) {
                KS_TRY(scan_lane(work, &lanes[i], names, err));
            }
        }
    }
    return KS_OK;
}

enum ks_status ks_compiled_create(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_arena *scratch = &work->analyzer->scratch;
    size_t count = (size_t)ks_trace_str_count(work->analyzer->trace) + 1;
    struct ks_compiled_parts *parts = ks_new(scratch, struct ks_compiled_parts, 1);
    uint8_t *names = ks_new(scratch, uint8_t, count);
    if (parts) {
        parts->eager_ns = ks_new(scratch, int64_t, count);
        parts->skipped_ns = ks_new(scratch, int64_t, count);
    }
    if (!parts || !names || !parts->eager_ns || !parts->skipped_ns) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow compiled code: names=%zu",
                       count);
    }
    ks_map_init(&parts->eager);
    ks_map_init(&parts->skipped);
    work->compiled = parts;
    parts->is_there = find_names(work, names);
    return parts->is_there ? scan_frames(work, names, err) : KS_OK;
}

void ks_compiled_release(struct ks_op_work *work)
{
    if (work->compiled) {
        ks_free(work->compiled->wraps);
        ks_map_release(&work->compiled->eager);
        ks_map_release(&work->compiled->skipped);
    }
}

/* ------------------------------------------------------------ rows */

/* The call of a compiled function that holds the moment, or NULL. */
static const struct wrap *find_wrap(const struct ks_compiled_parts *parts, uint32_t lane,
                                    int64_t ns)
{
    size_t begin = 0;
    size_t end = parts->wrap_count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        const struct wrap *wrap = &parts->wraps[middle];
        bool is_before = wrap->lane != lane ? wrap->lane < lane : wrap->from_ns <= ns;
        begin = is_before ? middle + 1 : begin;
        end = is_before ? end : middle;
    }
    const struct wrap *wrap = begin > 0 ? &parts->wraps[begin - 1] : NULL;
    return wrap && wrap->lane == lane && ns < wrap->until_ns ? wrap : NULL;
}

static bool is_in_skipped(const struct ks_compiled_parts *parts, uint32_t lane, int64_t ns)
{
    const struct wrap *wrap = find_wrap(parts, lane, ns);
    return wrap && !wrap->is_compiled;
}

/* Is the row in compiled code, but in none of its graphs? */
static bool is_between_graphs(struct ks_op_work *work, const struct ks_op_walk *walk)
{
    unsigned compiled = KS_OP_REGION | KS_OP_GRAPH;
    const struct ks_op_row *around = ks_op_work_around(work, walk, compiled);
    return around && !(ks_op_work_class(work, around->name) & KS_OP_GRAPH);
}

static int64_t length_of(const struct ks_op_row *row)
{
    return ks_sum_sub(row->end_ns, row->start_ns);
}

static void add_skipped(struct ks_compiled_parts *parts, const struct ks_op_row *row)
{
    parts->skipped_launches += row->launches;
    parts->skipped_host_ns = ks_sum_add(parts->skipped_host_ns, length_of(row));
}

static enum ks_status add_eager(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, const struct ks_step *step,
                                struct ks_err *err)
{
    struct ks_compiled_cost *cost = &work->analyzer->facts->work.compiled;
    ks_op_work_add(&cost->eager, row, step);
    const struct ks_work_span span = {walk->lane, KS_REPLAY_EAGER, row->start_ns, row->end_ns};
    return ks_op_work_add_span(work, &span, err);
}

/* An operator of aten, or any that a graph is recorded for. */
static enum ks_status note_operator(struct ks_op_work *work, const struct ks_op_walk *walk,
                                    const struct ks_op_row *row, const struct ks_step *step,
                                    struct ks_err *err)
{
    struct ks_compiled_parts *parts = work->compiled;
    bool is_eager = is_between_graphs(work, walk);
    bool is_skipped = parts->wrap_count > 0 && is_in_skipped(parts, walk->lane, row->start_ns);
    uint64_t seq = (uint64_t)row->seq;
    if (row->seq >= 0 && ((is_eager && !ks_map_put(&parts->eager, seq, walk->source, NULL)) ||
                          (is_skipped && !ks_map_put(&parts->skipped, seq, walk->source, NULL)))) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow compiled code");
    }
    if ((row->around & KS_NAME_ATEN) || !(row->flags & KS_NAME_ATEN)) {
        return KS_OK; /* the outermost one counts */
    }
    if (is_skipped) {
        add_skipped(parts, row);
        parts->skipped_ns[row->name] = ks_sum_add(parts->skipped_ns[row->name], length_of(row));
    }
    if (!is_eager || row->launches == 0) {
        return KS_OK;
    }
    parts->eager_ns[row->name] = ks_sum_add(parts->eager_ns[row->name], length_of(row));
    return add_eager(work, walk, row, step, err);
}

/* Nodes know the operator that they belong to. */
static enum ks_status note_node(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, const struct ks_step *step,
                                struct ks_err *err)
{
    struct ks_compiled_parts *parts = work->compiled;
    if (row->seq < 0) {
        return KS_OK;
    }
    if (ks_map_find(&parts->skipped, (uint64_t)row->seq, walk->source)) {
        add_skipped(parts, row);
    }
    bool is_eager =
        row->launches > 0 && ks_map_find(&parts->eager, (uint64_t)row->seq, walk->source);
    return is_eager ? add_eager(work, walk, row, step, err) : KS_OK;
}

/* From the lookup to the first graph: what entering compiled code again takes. */
static enum ks_status end_lookup(struct ks_op_work *work, const struct ks_op_walk *walk,
                                 const struct ks_op_row *graph, const struct ks_step *step,
                                 struct ks_err *err)
{
    struct ks_compiled_parts *parts = work->compiled;
    struct ks_op_row row = {.start_ns = parts->lookup.from_ns, .end_ns = graph->start_ns};
    bool is_mine = parts->lookup.lane == walk->lane && row.start_ns < row.end_ns;
    parts->lookup.lane = 0;
    if (!is_mine) {
        return KS_OK;
    }
    ks_op_work_add(&work->analyzer->facts->work.compiled.glue, &row, step);
    const struct ks_work_span span = {walk->lane, KS_REPLAY_GLUE, row.start_ns, row.end_ns};
    return ks_op_work_add_span(work, &span, err);
}

/* A graph: of rows that hold each other the innermost with work counts, since torch's wrapper stays
 * however kernels are launched. It is the one that comes first. */
static enum ks_status note_graph(struct ks_op_work *work, const struct ks_op_walk *walk,
                                 const struct ks_op_row *row, const struct ks_step *step,
                                 struct ks_err *err)
{
    struct ks_compiled_parts *parts = work->compiled;
    struct ks_compiled_cost *cost = &work->analyzer->facts->work.compiled;
    bool is_replay = row->graph_launches > 0;
    if (parts->lookup.lane != 0) {
        KS_TRY(end_lookup(work, walk, row, step, err));
    }
    bool is_counted = parts->graph.lane == walk->lane && parts->graph.from_ns >= row->start_ns;
    if (row->launches == 0 || is_counted) {
        return KS_OK;
    }
    parts->graph = (struct moment){walk->lane, row->start_ns};
    bool is_backward = (ks_op_work_class(work, row->name) & KS_OP_GRAPH_BACKWARD) ||
                       ks_op_work_around(work, walk, KS_OP_GRAPH_BACKWARD);
    (is_backward ? parts->backward : parts->forward)[is_replay]++;
    ks_op_work_add(is_replay ? &cost->replays : &cost->single, row, step);
    if (is_replay) {
        int64_t ns = length_of(row);
        cost->replay_ns_min =
            cost->replays.count > 1 && cost->replay_ns_min < ns ? cost->replay_ns_min : ns;
        return KS_OK;
    }
    const struct ks_work_span span = {walk->lane, KS_REPLAY_SINGLE, row->start_ns, row->end_ns};
    return ks_op_work_add_span(work, &span, err);
}

/* Compiled code, or the lookup of some; from inside of other compiled code it is entered again. */
static void note_region(struct ks_op_work *work, const struct ks_op_walk *walk,
                        const struct ks_op_row *row)
{
    struct ks_compiled_cost *cost = &work->analyzer->facts->work.compiled;
    bool is_again = ks_op_work_around(work, walk, KS_OP_REGION);
    if (ks_op_work_class(work, row->name) & KS_OP_REGION) {
        cost->regions += !is_again;
        cost->breaks += is_again;
    } else if (is_again) {
        work->compiled->lookup = (struct moment){walk->lane, row->start_ns};
    }
}

enum ks_status ks_compiled_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_compiled_parts *parts = work->compiled;
    if (!parts->is_there) {
        return KS_OK;
    }
    const struct ks_step *step = ks_op_work_step(work, walk, row->start_ns);
    if (!step) {
        return KS_OK;
    }
    if (walk->open_count == 0) {
        parts->launches += row->launches;
    }
    if (row->is_op && !(row->around & (KS_NAME_ATEN | KS_NAME_BACKWARD)) &&
        !(row->flags & (KS_NAME_OPTIMIZER | KS_NAME_STEP))) {
        parts->host_ns = ks_sum_add(parts->host_ns, length_of(row));
    }
    unsigned class = ks_op_work_class(work, row->name);
    if (class & (KS_OP_REGION | KS_OP_LOOKUP)) {
        note_region(work, walk, row);
        return KS_OK;
    }
    if (class & KS_OP_GRAPH) {
        return note_graph(work, walk, row, step, err);
    }
    if (row->flags & KS_NAME_BACKWARD) {
        return note_node(work, walk, row, step, err);
    }
    return row->is_op && !((row->around | row->flags) & KS_NAME_OPTIMIZER)
               ? note_operator(work, walk, row, step, err)
               : KS_OK;
}

/* ------------------------------------------------------------ results */

static struct ks_strid longest_of(const struct ks_op_work *work, const int64_t *ns)
{
    uint32_t longest = 0;
    for (uint32_t i = 1; i < ks_trace_str_count(work->analyzer->trace); i++) {
        longest = ns[i] > ns[longest] ? i : longest;
    }
    return (struct ks_strid){longest};
}

/* Calls of compiled functions that ran operators and nothing compiled, in complete steps. */
static double count_skipped(const struct ks_op_work *work)
{
    const struct ks_compiled_parts *parts = work->compiled;
    double count = 0;
    for (size_t i = 0; i < parts->wrap_count; i++) {
        const struct wrap *wrap = &parts->wraps[i];
        const struct ks_track *track = ks_trace_track(work->analyzer->trace, wrap->lane);
        const struct ks_op_walk walk = {.source = track->source};
        const struct ks_step *step = ks_op_work_step(work, &walk, wrap->from_ns);
        count += step && !wrap->is_compiled;
    }
    return count;
}

/* The same text in this trace, 0 when it has none. */
static struct ks_strid same_name(const struct ks_trace *trace, struct ks_str name)
{
    for (uint32_t i = 1; i < ks_trace_str_count(trace); i++) {
        if (ks_str_equal(ks_trace_str(trace, (struct ks_strid){i}), name)) {
            return (struct ks_strid){i};
        }
    }
    return (struct ks_strid){0};
}

/* A second recording of the same program has the frames that this one lacks. */
static void take_frames(const struct ks_analyzer *analyzer, struct ks_compiled_cost *cost)
{
    const struct ks_facts *framed = analyzer->framed;
    if (!framed || !framed->trace || analyzer->facts->work.compiled.has_trees ||
        cost->skipped > 0) {
        return;
    }
    const struct ks_compiled_cost *other = &framed->work.compiled;
    cost->has_trees = other->has_trees;
    cost->skipped = other->skipped;
    cost->skipped_share = other->skipped_share;
    cost->skipped_host_share = other->skipped_host_share;
    cost->skipped_op = same_name(analyzer->trace, ks_trace_str(framed->trace, other->skipped_op));
}

static double at_most_one(double share)
{
    return share < 1 ? share : 1;
}

enum ks_status ks_compiled_publish(struct ks_op_work *work, struct ks_err *err)
{
    (void)err;
    struct ks_compiled_parts *parts = work->compiled;
    struct ks_compiled_cost *cost = &work->analyzer->facts->work.compiled;
    double steps = (double)work->analyzer->facts->complete_step_count;
    cost->regions /= steps;
    cost->breaks /= steps;
    ks_op_work_mean(work, &cost->eager);
    ks_op_work_mean(work, &cost->glue);
    ks_op_work_mean(work, &cost->single);
    ks_op_work_mean(work, &cost->replays);
    cost->eager_op = longest_of(work, parts->eager_ns);
    cost->is_mixed = (parts->forward[0] > 0 && parts->forward[1] == 0 && parts->backward[1] > 0) ||
                     (parts->backward[0] > 0 && parts->backward[1] == 0 && parts->forward[1] > 0);
    if (parts->skipped_launches > 0 && parts->launches > 0) {
        int64_t all_ns = parts->host_ns;
        cost->skipped = count_skipped(work) / steps;
        cost->skipped_share = at_most_one(parts->skipped_launches / parts->launches);
        cost->skipped_host_share =
            all_ns > 0 ? at_most_one((double)parts->skipped_host_ns / (double)all_ns) : 0;
        cost->skipped_op = longest_of(work, parts->skipped_ns);
    }
    take_frames(work->analyzer, cost);
    return KS_OK;
}
