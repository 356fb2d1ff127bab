/* Weights that autocast turns into half precision in each forward pass, and gradients of these that
 * go the way back. A cast lies directly inside of the layer whose weight or bias it casts; the node
 * of the backward pass has its sequence number. Forward passes are told apart by nodes between
 * them. */
#include "analyze/op_work.h"
#include "analyze/shapes.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

enum { CAST_DEPTH_MAX = 3 }; /* rows between a layer and the copy: to, _to_copy */

struct cast {
    struct ks_work_span span;
    struct ks_op_row row;
    const struct ks_step *step;
    bool ends_pass; /* nodes of the backward pass follow before the next one */
};

struct ks_cast_parts {
    struct cast *casts; /* of all sources, in order of time for each */
    size_t count;
    size_t capacity;
    uint32_t source;
    uint32_t lane;
    size_t begin;      /* first of the source */
    bool is_gradient;  /* the last node of this thread takes the gradient of a cast */
    double passes;     /* forward passes with casts */
    double optimizers; /* steps of optimizers, in complete steps */
    bool has_backward; /* some node was seen */
    int64_t worst_ns;
};

enum ks_status ks_casts_create(struct ks_op_work *work, struct ks_err *err)
{
    work->casts = ks_new(&work->analyzer->scratch, struct ks_cast_parts, 1);
    if (!work->casts) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow casts");
    }
    work->casts->source = UINT32_MAX;
    return KS_OK;
}

void ks_casts_release(struct ks_op_work *work)
{
    if (work->casts) {
        ks_free(work->casts->casts);
    }
}

/* ------------------------------------------------------------ casts of weights */

static bool is_single(const struct ks_op_work *work, const struct ks_op_row *row)
{
    struct ks_str types = ks_trace_str(work->analyzer->trace, (struct ks_strid){row->types});
    return ks_str_starts(types, KS_STR("[\"float\""));
}

/* Shapes of input, weight and bias of a layer; addmm takes the bias first. */
static bool read_layer(struct ks_op_work *work, const struct ks_op_row *layer,
                       struct ks_shape parts[3], size_t *count)
{
    struct ks_shapes shapes;
    ks_shapes_read(ks_trace_str(work->analyzer->trace, (struct ks_strid){layer->dims}), &shapes);
    bool has_bias_first = ks_op_work_class(work, layer->name) & KS_OP_PRODUCT;
    *count = shapes.count < 3 ? shapes.count : 3;
    for (size_t i = 0; i < *count; i++) {
        size_t from = has_bias_first ? (i + 1) % 3 : i;
        if (from >= shapes.count) {
            return false;
        }
        parts[i] = shapes.items[from];
    }
    return *count >= 2;
}

/* Is the row, in fp32, the weight or the bias of the layer, and not its input? */
static bool is_weight_of(struct ks_op_work *work, const struct ks_op_row *row,
                         const struct ks_op_row *layer)
{
    struct ks_shape parts[3];
    size_t count = 0;
    struct ks_shapes own;
    ks_shapes_read(ks_trace_str(work->analyzer->trace, (struct ks_strid){row->dims}), &own);
    if (!is_single(work, row) || own.count == 0 || !read_layer(work, layer, parts, &count)) {
        return false;
    }
    bool is_input = is_single(work, layer) && ks_shape_equal(&own.items[0], &parts[0]);
    bool is_weight = ks_shape_equal(&own.items[0], &parts[1]) ||
                     (count > 2 && ks_shape_equal(&own.items[0], &parts[2]));
    return is_weight && !is_input;
}

bool ks_op_work_is_weight_cast(struct ks_op_work *work, const struct ks_op_walk *walk,
                               const struct ks_op_row *row)
{
    const struct ks_op_row *inner = row;
    for (size_t i = 0; i < CAST_DEPTH_MAX && i < walk->open_count; i++) {
        const struct ks_op_row *outer = &walk->open[walk->open_count - 1 - i];
        if (ks_op_work_class(work, outer->name) & KS_OP_WEIGHTED) {
            return (ks_op_work_class(work, inner->name) & KS_OP_CAST) &&
                   is_weight_of(work, inner, outer);
        }
        inner = outer;
    }
    return false;
}

static enum ks_status note_cast(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_cast_parts *parts = work->casts;
    const struct ks_op_row *layer = walk->open_count > 0 ? &walk->open[walk->open_count - 1] : NULL;
    if (!layer || row->launches == 0 || (row->around & KS_NAME_BACKWARD) ||
        !(ks_op_work_class(work, layer->name) & KS_OP_WEIGHTED) ||
        !is_weight_of(work, row, layer)) {
        return KS_OK;
    }
    const struct ks_step *step = ks_op_work_step(work, walk, row->start_ns);
    if (!step) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&parts->casts, parts->count, &parts->capacity, sizeof(*parts->casts), "casts",
                   err));
    parts->casts[parts->count++] =
        (struct cast){.span = {walk->lane, KS_REPLAY_CAST, row->start_ns, row->end_ns},
                      .row = *row,
                      .step = step};
    return KS_OK;
}

/* ------------------------------------------------------------ backward */

/* The last cast of the source for which this holds: it began before the moment, or its sequence
 * number is not above. NULL: none. */
static struct cast *find_cast(struct ks_cast_parts *parts, int64_t value, bool by_seq)
{
    size_t begin = parts->begin;
    size_t end = parts->count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        const struct ks_op_row *row = &parts->casts[middle].row;
        bool is_before = by_seq ? row->seq <= value : row->start_ns < value;
        begin = is_before ? middle + 1 : begin;
        end = is_before ? end : middle;
    }
    return begin > parts->begin ? &parts->casts[begin - 1] : NULL;
}

static enum ks_status add_backward(struct ks_op_work *work, const struct ks_op_walk *walk,
                                   const struct ks_op_row *row, unsigned mark,
                                   struct ks_work_cost *cost, struct ks_err *err)
{
    const struct ks_step *step = ks_op_work_step(work, walk, row->start_ns);
    if (!step) {
        return KS_OK;
    }
    ks_op_work_add(cost, row, step);
    const struct ks_work_span span = {walk->lane, mark, row->start_ns, row->end_ns};
    return ks_op_work_add_span(work, &span, err);
}

static enum ks_status note_node(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_cast_parts *parts = work->casts;
    struct ks_cast_cost *cost = &work->analyzer->facts->work.casts;
    if (row->around & KS_NAME_BACKWARD) {
        return KS_OK;
    }
    parts->has_backward = true;
    struct cast *before = find_cast(parts, row->start_ns, false);
    if (before) {
        before->ends_pass = true;
    }
    bool was_gradient = parts->is_gradient;
    const struct cast *cast = row->seq >= 0 ? find_cast(parts, row->seq, true) : NULL;
    parts->is_gradient = cast && cast->row.seq == row->seq && row->launches > 0;
    if (parts->is_gradient) {
        return add_backward(work, walk, row, KS_REPLAY_GRADIENT_CAST, &cost->gradients, err);
    }
    bool adds =
        was_gradient && row->launches > 0 && (ks_op_work_class(work, row->name) & KS_OP_ACCUMULATE);
    return adds ? add_backward(work, walk, row, KS_REPLAY_ACCUMULATED, &cost->accumulated, err)
                : KS_OK;
}

/* ------------------------------------------------------------ all rows */

static void enter_lane(struct ks_cast_parts *parts, const struct ks_op_walk *walk)
{
    if (parts->source != walk->source) {
        parts->begin = parts->count;
    }
    if (parts->source != walk->source || parts->lane != walk->lane) {
        parts->is_gradient = false;
    }
    parts->source = walk->source;
    parts->lane = walk->lane;
}

enum ks_status ks_casts_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                             const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_cast_parts *parts = work->casts;
    enter_lane(parts, walk);
    if (row->flags & KS_NAME_BACKWARD) {
        return note_node(work, walk, row, err);
    }
    if ((row->flags & KS_NAME_OPTIMIZER) && !(row->around & KS_NAME_OPTIMIZER)) {
        parts->optimizers += ks_op_work_step(work, walk, row->start_ns) != NULL;
        return KS_OK;
    }
    return ks_op_work_class(work, row->name) & KS_OP_CAST ? note_cast(work, walk, row, err) : KS_OK;
}

/* Counts the passes, and adds the casts up. */
static enum ks_status add_casts(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_cast_parts *parts = work->casts;
    struct ks_cast_cost *cost = &work->analyzer->facts->work.casts;
    for (size_t i = 0; i < parts->count; i++) {
        const struct cast *cast = &parts->casts[i];
        ks_op_work_add(&cost->cost, &cast->row, cast->step);
        parts->passes += cast->ends_pass;
        if (cost->op.v == 0 || cast->row.device_ns > parts->worst_ns) {
            parts->worst_ns = cast->row.device_ns;
            cost->op = (struct ks_strid){cast->row.name};
            cost->dims = (struct ks_strid){cast->row.dims};
        }
        KS_TRY(ks_op_work_add_span(work, &cast->span, err));
    }
    return KS_OK;
}

enum ks_status ks_casts_publish(struct ks_op_work *work, struct ks_err *err)
{
    const struct ks_cast_parts *parts = work->casts;
    struct ks_cast_cost *cost = &work->analyzer->facts->work.casts;
    KS_TRY(add_casts(work, err));
    cost->is_training = parts->has_backward || parts->optimizers > 0;
    cost->passes = parts->passes / (parts->optimizers > 1 ? parts->optimizers : 1);
    ks_op_work_mean(work, &cost->cost);
    ks_op_work_mean(work, &cost->gradients);
    ks_op_work_mean(work, &cost->accumulated);
    return KS_OK;
}
