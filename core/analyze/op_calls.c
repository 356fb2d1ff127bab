/* Calls of a model with a batch of one that could be one call. A call begins where an embedding or
 * a convolution gets an input [1, ...]; that its input did not wait for the call before is known
 * when it was taken out of a tensor that holds several, or came from the host. Token by token
 * (inputs of one token, or an aten::cat for each call) a call needs the one before.
 *
 * Without a GPU no copy says that a result was read, or that an input was brought. What tells that
 * nobody waited for the single results is that they are joined: directly behind an aten::cat or
 * aten::stack comes an operator on a tensor whose first dimension is the number of the calls since
 * the join before. A recording does not tell the shapes in a list. */
#include "analyze/op_work.h"

#include <stdlib.h>

#include "analyze/length_chains.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "measure/sum.h"

enum {
    NEAR_ROWS = 64, /* outermost operators between taking an input and the call */
    CALLS_MIN = 4,
    JOIN_ROWS = 3, /* outermost operators behind a join */
    NAME_KNOWN = 1,
    NAME_EMBEDDING = 2,
    NAME_CONVOLUTION = 4,
    NAME_SLICE = 8,   /* takes one out of several ... */
    NAME_UNBIND = 16, /* ... or all of them, one by one */
    NAME_MOVE = 32,
    NAME_CAT = 64,
    NAME_STACK = 128,
};

/* Where the input of a call is from. */
enum origin { ORIGIN_UNKNOWN, ORIGIN_HOST, ORIGIN_SEVERAL };

/* An input that was taken or brought. */
struct input {
    struct ks_shape shape;
    int64_t together; /* how many the tensor holds */
    uint64_t row;     /* ordinal of the outermost operator; UINT64_MAX: stays good */
    enum origin origin;
};

struct call {
    int64_t start_ns;
    const struct ks_step *step;
    uint32_t lane;
    uint32_t model;
    enum origin origin;
};

/* What has the same table or weights. */
struct model {
    int64_t calls;
    int64_t from_several;
    int64_t of_one_token;
    int64_t together;
    uint32_t name;
    bool is_embedding;
    uint32_t lane;
};

/* Joining tensors, and the first dimension of what the operators behind it get. */
struct join {
    size_t calls; /* that came before */
    uint32_t lane;
    uint64_t row; /* ordinal of the outermost operator */
    int64_t sizes[JOIN_ROWS];
    size_t size_count;
};

struct ks_call_parts {
    uint8_t *names;      /* by string id: NAME_* */
    struct ks_map index; /* (kind, lane) -> index into models + 1 */
    struct model *models;
    size_t model_count;
    size_t model_capacity;
    struct call *calls;
    size_t call_count;
    size_t call_capacity;
    struct join *joins;
    size_t join_count;
    size_t join_capacity;
    struct input taken, brought; /* the last ones */
    uint64_t rows;               /* outermost operators of the lane */
    uint32_t lane;
    int64_t cats; /* outermost ones */
};

enum ks_status ks_calls_create(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_arena *scratch = &work->analyzer->scratch;
    size_t names = (size_t)ks_trace_str_count(work->analyzer->trace) + 1;
    work->calls = ks_new(scratch, struct ks_call_parts, 1);
    if (!work->calls || !(work->calls->names = ks_new(scratch, uint8_t, names))) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow calls: names=%zu", names);
    }
    ks_map_init(&work->calls->index);
    work->calls->lane = UINT32_MAX;
    return KS_OK;
}

void ks_calls_release(struct ks_op_work *work)
{
    if (work->calls) {
        ks_map_release(&work->calls->index);
        ks_free(work->calls->models);
        ks_free(work->calls->calls);
        ks_free(work->calls->joins);
    }
}

/* ------------------------------------------------------------ names and copies */

static unsigned name_of(struct ks_op_work *work, uint32_t name)
{
    static const struct {
        const char *name;
        uint8_t what;
    } known[] = {
        {"embedding", NAME_EMBEDDING},
        {"conv1d", NAME_CONVOLUTION},
        {"conv2d", NAME_CONVOLUTION},
        {"conv3d", NAME_CONVOLUTION},
        {"slice", NAME_SLICE},
        {"select", NAME_SLICE},
        {"narrow", NAME_SLICE},
        {"split", NAME_UNBIND},
        {"chunk", NAME_UNBIND},
        {"unbind", NAME_UNBIND},
        {"to", NAME_MOVE},
        {"copy_", NAME_MOVE},
        {"cat", NAME_CAT},
        {"stack", NAME_STACK},
    };
    struct ks_str aten = KS_STR("aten::");
    uint8_t *found = &work->calls->names[name];
    if (*found != 0) {
        return *found;
    }
    struct ks_str text = ks_trace_str(work->analyzer->trace, (struct ks_strid){name});
    *found = NAME_KNOWN;
    for (size_t i = 0; i < KS_COUNT_OF(known) && ks_str_starts(text, aten); i++) {
        struct ks_str rest = {text.ptr + aten.len, text.len - aten.len};
        if (ks_str_equal(rest, ks_str_from(known[i].name))) {
            *found = (uint8_t)(NAME_KNOWN | known[i].what);
        }
    }
    return *found;
}

/* ------------------------------------------------------------ inputs */

/* One of the several that the first dimension counts. */
static void note_taken(struct ks_call_parts *parts, unsigned name, const struct ks_shape *from)
{
    if (from->count < 2 || from->dims[0] < 2) {
        return;
    }
    parts->taken = (struct input){.shape = *from,
                                  .together = from->dims[0],
                                  .row = name & NAME_UNBIND ? UINT64_MAX : parts->rows,
                                  .origin = ORIGIN_SEVERAL};
    parts->taken.shape.dims[0] = 1;
}

static void note_moved(struct ks_op_work *work, const struct ks_op_walk *walk,
                       const struct ks_op_row *row, const struct ks_shape *shape)
{
    if (ks_op_work_has_copy(work, walk->lane, row->start_ns, row->end_ns, KS_COPY_TO_DEVICE)) {
        work->calls->brought =
            (struct input){.shape = *shape, .row = work->calls->rows, .origin = ORIGIN_HOST};
    }
}

static bool is_from(const struct ks_call_parts *parts, const struct input *input,
                    const struct ks_shape *shape)
{
    bool is_near = input->row == UINT64_MAX || parts->rows - input->row <= NEAR_ROWS;
    return input->origin != ORIGIN_UNKNOWN && is_near && ks_shape_equal(&input->shape, shape);
}

/* ------------------------------------------------------------ calls */

/* Model with this table or these weights on this thread. */
static enum ks_status find_model(struct ks_op_work *work, const struct ks_op_walk *walk,
                                 const struct ks_op_row *row, const struct ks_shape *weights,
                                 uint32_t *index, struct ks_err *err)
{
    struct ks_call_parts *parts = work->calls;
    uint64_t kind = ks_length_kind(row->name, weights, weights->count);
    KS_TRY(ks_grow(&parts->models, parts->model_count, &parts->model_capacity,
                   sizeof(*parts->models), "models", err));
    uint64_t *slot = ks_map_put(&parts->index, kind, walk->lane, NULL);
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow calls");
    }
    if (*slot == 0) {
        parts->models[parts->model_count++] =
            (struct model){.name = row->name,
                           .is_embedding = name_of(work, row->name) & NAME_EMBEDDING,
                           .lane = walk->lane};
        *slot = parts->model_count;
    }
    *index = (uint32_t)(*slot - 1);
    return KS_OK;
}

static enum ks_status note_call(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, const struct ks_shape *input,
                                const struct ks_shape *weights, struct ks_err *err)
{
    struct ks_call_parts *parts = work->calls;
    const struct ks_step *step = ks_op_work_step(work, walk, row->start_ns);
    if (!step || input->count < 2 || input->dims[0] != 1) {
        return KS_OK;
    }
    struct call call = {.start_ns = row->start_ns, .step = step, .lane = walk->lane};
    KS_TRY(find_model(work, walk, row, weights, &call.model, err));
    struct model *model = &parts->models[call.model];
    if (is_from(parts, &parts->taken, input)) {
        call.origin = ORIGIN_SEVERAL;
        model->from_several++;
        model->together =
            parts->taken.together > model->together ? parts->taken.together : model->together;
    } else if (model->is_embedding && input->dims[input->count - 1] <= 1) {
        model->of_one_token++;
        return KS_OK;
    } else if (is_from(parts, &parts->brought, input)) {
        call.origin = ORIGIN_HOST;
    } else if (!model->is_embedding && work->analyzer->facts->has_gpu) {
        return KS_OK;
    }
    model->calls++;
    KS_TRY(ks_grow(&parts->calls, parts->call_count, &parts->call_capacity, sizeof(call), "calls",
                   err));
    parts->calls[parts->call_count++] = call;
    return KS_OK;
}

static enum ks_status note_join(struct ks_op_work *work, uint32_t lane, struct ks_err *err)
{
    struct ks_call_parts *parts = work->calls;
    KS_TRY(ks_grow(&parts->joins, parts->join_count, &parts->join_capacity, sizeof(*parts->joins),
                   "calls", err));
    parts->joins[parts->join_count++] =
        (struct join){.calls = parts->call_count, .lane = lane, .row = parts->rows};
    return KS_OK;
}

/* What may be the result of the last join. */
static void note_behind_join(struct ks_op_work *work, const struct ks_op_row *row)
{
    struct ks_call_parts *parts = work->calls;
    struct join *join = parts->join_count > 0 ? &parts->joins[parts->join_count - 1] : NULL;
    struct ks_shapes shapes;
    if (!join || join->lane != parts->lane || parts->rows - join->row > JOIN_ROWS ||
        join->size_count == JOIN_ROWS) {
        return;
    }
    ks_shapes_read(ks_trace_str(work->analyzer->trace, (struct ks_strid){row->dims}), &shapes);
    join->sizes[join->size_count++] = shapes.count > 0 ? shapes.items[0].dims[0] : 0;
}

static enum ks_status note_named(struct ks_op_work *work, const struct ks_op_walk *walk,
                                 const struct ks_op_row *row, unsigned name, struct ks_err *err)
{
    struct ks_call_parts *parts = work->calls;
    struct ks_shapes shapes;
    if (name & (NAME_CAT | NAME_STACK)) {
        return work->analyzer->facts->has_gpu ? KS_OK : note_join(work, walk->lane, err);
    }
    ks_shapes_read(ks_trace_str(work->analyzer->trace, (struct ks_strid){row->dims}), &shapes);
    const struct ks_shape *first = &shapes.items[0];
    const struct ks_shape *second = &shapes.items[1];
    if (shapes.count > 0 && (name & (NAME_SLICE | NAME_UNBIND))) {
        note_taken(parts, name, first);
    } else if (shapes.count > 0 && (name & NAME_MOVE)) {
        note_moved(work, walk, row, first);
    } else if (shapes.count > 1 && (name & NAME_EMBEDDING)) {
        return note_call(work, walk, row, second, first, err);
    } else if (shapes.count > 1 && (name & NAME_CONVOLUTION)) {
        return note_call(work, walk, row, first, second, err);
    }
    return KS_OK;
}

enum ks_status ks_calls_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                             const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_call_parts *parts = work->calls;
    if (!row->is_op || (row->around & KS_NAME_ATEN)) {
        return KS_OK;
    }
    if (parts->lane != walk->lane) {
        parts->lane = walk->lane;
        parts->taken = parts->brought = (struct input){0};
    }
    parts->rows++;
    unsigned name = row->dims != 0 ? name_of(work, row->name) : NAME_KNOWN;
    parts->cats += (name & NAME_CAT) != 0;
    note_behind_join(work, row);
    return name == NAME_KNOWN ? KS_OK : note_named(work, walk, row, name, err);
}

/* ------------------------------------------------------------ together */

static bool counts(const struct ks_call_parts *parts, const struct call *call, bool is_taken)
{
    const struct model *model = &parts->models[call->model];
    if (is_taken || call->origin == ORIGIN_SEVERAL) {
        return is_taken && call->origin == ORIGIN_SEVERAL;
    }
    /* Each call may see tokens that were joined to those before. */
    bool may_generate = call->origin == ORIGIN_UNKNOWN && parts->cats >= model->calls / 2;
    return model->of_one_token == 0 && !may_generate;
}

/* What calls of the model have in common. */
struct group {
    int64_t calls;
    int64_t steps;  /* that hold some */
    int64_t in_row; /* most of them between which no result was read */
};

static struct group group_calls(const struct ks_op_work *work, uint32_t model, bool is_taken)
{
    const struct ks_call_parts *parts = work->calls;
    struct group group = {0};
    const struct call *last = NULL;
    int64_t in_row = 0;
    for (size_t i = 0; i < parts->call_count; i++) {
        const struct call *call = &parts->calls[i];
        if (call->model != model || !counts(parts, call, is_taken)) {
            continue;
        }
        group.calls++;
        group.steps += !last || last->step != call->step;
        bool is_read = last && ks_op_work_has_copy(work, call->lane, last->start_ns, call->start_ns,
                                                   KS_COPY_TO_HOST);
        in_row = last && !is_read ? in_row + 1 : 1;
        group.in_row = in_row > group.in_row ? in_row : group.in_row;
        last = call;
    }
    return group;
}

static bool has_size(const struct join *join, int64_t least, int64_t most)
{
    for (size_t i = 0; i < join->size_count; i++) {
        if (join->sizes[i] >= least && join->sizes[i] <= most) {
            return true;
        }
    }
    return false;
}

/* Most results of the model that were joined: all since the join before. Of more than that, some
 * came before the recording. */
static int64_t find_joined(const struct ks_call_parts *parts, uint32_t model, int64_t *calls)
{
    int64_t most = 0;
    int64_t since = 0;
    size_t call = 0;
    for (size_t i = 0; i < parts->join_count; i++) {
        const struct join *join = &parts->joins[i];
        for (; call < join->calls; call++) {
            since += parts->calls[call].model == model;
        }
        if (join->lane != parts->models[model].lane) {
            continue;
        }
        if (since >= CALLS_MIN && has_size(join, since, since)) {
            most = since > most ? since : most;
            *calls += since;
            since = 0;
        } else if (has_size(join, since + 1, INT64_MAX)) {
            since = 0;
        }
    }
    return most;
}

/* How many calls of the model could be one; 0: none. */
static int64_t find_together(const struct ks_op_work *work, uint32_t model, int64_t *calls)
{
    const struct group taken = group_calls(work, model, true);
    if (taken.calls >= CALLS_MIN) {
        *calls = taken.calls;
        return work->calls->models[model].together;
    }
    if (!work->analyzer->facts->has_gpu) {
        return find_joined(work->calls, model, calls);
    }
    const struct group others = group_calls(work, model, false);
    int64_t per_step = others.steps > 0 ? others.calls / others.steps : 0;
    int64_t together = per_step > others.in_row ? per_step : others.in_row;
    *calls = others.calls;
    return together >= CALLS_MIN ? together : 0;
}

static void note_steps(const struct ks_call_parts *parts, uint32_t model,
                       struct ks_single_cost *cost)
{
    for (size_t i = 0; i < parts->call_count && cost->step_count < KS_COST_STEPS_MAX; i++) {
        int64_t number = parts->calls[i].step->number;
        bool is_known = cost->step_count > 0 && cost->steps[cost->step_count - 1] == number;
        if (parts->calls[i].model == model && !is_known) {
            cost->steps[cost->step_count++] = number;
        }
    }
}

/* The model, or the table, that is called most often; the number of models: there is none. */
static uint32_t find_busiest(const struct ks_call_parts *parts, bool is_table)
{
    uint32_t best = (uint32_t)parts->model_count;
    for (uint32_t i = 0; i < parts->model_count; i++) {
        const struct model *model = &parts->models[i];
        bool is_more = best == parts->model_count || model->calls > parts->models[best].calls;
        best = is_more && (model->is_embedding || !is_table) ? i : best;
    }
    return best;
}

/* What is called most often may be a convolution inside of a model, whose layers look alike: then
 * its table of words says how many inputs there are. */
enum ks_status ks_calls_publish(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_call_parts *parts = work->calls;
    struct ks_single_cost *cost = &work->analyzer->facts->work.singles;
    size_t steps = work->analyzer->facts->complete_step_count;
    uint32_t best = find_busiest(parts, false);
    (void)err;
    if (best == parts->model_count) {
        return KS_OK;
    }
    int64_t calls = 0;
    cost->together = find_together(work, best, &calls);
    uint32_t table = find_busiest(parts, true);
    if (cost->together == 0 && table != parts->model_count && table != best) {
        best = table;
        cost->together = find_together(work, best, &calls);
    }
    cost->calls = (double)calls / (double)(steps > 0 ? steps : 1);
    cost->are_taken = parts->models[best].from_several >= CALLS_MIN;
    cost->op = (struct ks_strid){parts->models[best].name};
    note_steps(parts, best, cost);
    return KS_OK;
}
