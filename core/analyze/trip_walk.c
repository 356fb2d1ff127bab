/* A trace names no tensors, so that what belongs together is told by order and shape.
 *
 * Units are the outermost library operators of a thread. A chain begins with one that copies a
 * tensor to the host. A unit on the host continues it when an input has a shape that was seen in
 * the chain, or follows from the inputs of the unit just before, if that one continued it. The
 * chain arrives when a unit that copies from pageable memory to the device follows at once, with a
 * shape that can result from the inputs of the last one, and something was computed. What runs
 * between .numpy() and from_numpy() is no unit: it continues the chain when what comes out has the
 * shape of what went in, or parts of it. Anything that
 * may begin something else ends the chain: work for a device, a value that is read, the loader,
 * another step, a copy to the device that does not belong to it. So a batch that is uploaded after
 * the results of the one before were looked at makes no trip. */
#include "analyze/trip_walk.h"

#include "analyze/shapes.h"
#include "analyze/step_lookup.h"
#include "base/grow.h"
#include "measure/sum.h"

struct unit {
    bool is_open;
    bool is_device; /* launches something else than copies between host and device */
    uint32_t name;
    uint32_t dims;
    int64_t start_ns;
    int64_t end_ns;
    const struct ks_gpu_copy *down; /* its last copies; NULL none */
    const struct ks_gpu_copy *up;
};

struct chain {
    bool is_open;
    bool has_work;
    bool is_fed;           /* the unit before works on the tensor, or brought it */
    int64_t numpy_ns;      /* when the tensor was given to numpy; INT64_MIN it was not */
    size_t new_dims_max;   /* that its result can have, beside those of its inputs */
    size_t trip;           /* 1 + index of the trip that it made, 0 none yet */
    struct ks_shapes seen; /* of tensors of the chain; the oldest go first */
    size_t seen_next;
    struct ks_shapes from; /* inputs of the unit before */
    struct ks_trip sum;
};

struct walk {
    struct ks_analyzer *analyzer;
    const struct ks_gpu_copy *copies;
    const struct ks_gpu_copy *copies_end;
    struct ks_trips *trips;
    uint32_t lane;
    uint32_t source;
    struct unit unit;
    struct chain chain;
    int64_t launch_ns; /* of the last work for a device that is no copy between host and device */
};

static int64_t copy_end(const struct ks_gpu_copy *copy)
{
    return ks_sum_add(copy->start_ns, copy->dur_ns);
}

static int64_t bytes_of(const struct ks_gpu_copy *copy)
{
    return copy->bytes < 0 ? 0 : copy->bytes;
}

/* ------------------------------------------------------------ chain */

static void end_chain(struct walk *w)
{
    if (w->chain.is_open) {
        w->chain = (struct chain){0};
    }
}

static void see(struct chain *chain, const struct ks_shape *shape)
{
    if (ks_shapes_have(&chain->seen, shape)) {
        return;
    }
    chain->seen.items[chain->seen_next] = *shape;
    chain->seen_next = (chain->seen_next + 1) % KS_SHAPES_MAX;
    chain->seen.count += chain->seen.count < KS_SHAPES_MAX;
}

static void read_inputs(const struct walk *w, struct ks_shapes *inputs)
{
    struct ks_strid dims = {w->unit.dims};
    ks_shapes_read(ks_trace_str(w->analyzer->trace, dims), inputs);
}

static const struct ks_step *step_of(const struct walk *w)
{
    return ks_step_lookup_host(w->analyzer->facts, w->source, w->unit.start_ns);
}

/* Results that training looks at before it launches anything are those of the step before, and what
 * it copies to the device then is the next batch. */
static bool can_begin(const struct walk *w, const struct ks_step *step,
                      const struct ks_shapes *inputs)
{
    return step && inputs->count > 0 &&
           (step->kind != KS_STEP_TRAIN || w->launch_ns >= step->host_start_ns);
}

/* A further tensor may come before the first was worked on; else what was done so far is left. */
static void bring(struct walk *w)
{
    struct chain *chain = &w->chain;
    const struct unit *unit = &w->unit;
    const struct ks_step *step = step_of(w);
    struct ks_shapes inputs;
    read_inputs(w, &inputs);
    if (!can_begin(w, step, &inputs)) {
        end_chain(w);
        return;
    }
    uint32_t index = (uint32_t)(step - w->analyzer->facts->steps);
    if (chain->sum.step != index) {
        end_chain(w);
    }
    chain->is_open = chain->is_fed = true;
    chain->new_dims_max = 0;
    chain->has_work = false;
    chain->numpy_ns = INT64_MIN;
    chain->trip = 0;
    chain->from = (struct ks_shapes){.items = {inputs.items[0]}, .count = 1};
    see(chain, &inputs.items[0]);
    chain->sum = (struct ks_trip){.source = w->source,
                                  .lane = w->lane,
                                  .host_from_ns = unit->start_ns,
                                  .step = index,
                                  .op = unit->name,
                                  .dims = unit->dims,
                                  .wait_ns = ks_sum_sub(unit->end_ns, unit->start_ns),
                                  .copy_ns = unit->down->dur_ns,
                                  .bytes_down = bytes_of(unit->down),
                                  .down_end_ns = copy_end(unit->down)};
}

static bool arrives(const struct walk *w)
{
    const struct chain *chain = &w->chain;
    struct ks_shapes inputs;
    if (!chain->has_work || !chain->is_fed || w->unit.up->is_pinned ||
        w->unit.up->start_ns < chain->sum.down_end_ns) {
        return false;
    }
    const struct ks_step *step = step_of(w);
    read_inputs(w, &inputs);
    return step && step - w->analyzer->facts->steps == chain->sum.step && inputs.count > 0 &&
           ks_shapes_lead_to(&chain->from, &inputs.items[0], chain->new_dims_max);
}

/* Several results may go back one after the other: they are one trip. */
static enum ks_status take_back(struct walk *w, struct ks_err *err)
{
    struct chain *chain = &w->chain;
    if (!arrives(w)) {
        end_chain(w);
        return KS_OK;
    }
    const struct ks_gpu_copy *up = w->unit.up;
    chain->sum.up_end_ns = copy_end(up);
    chain->sum.host_until_ns = w->unit.end_ns;
    chain->sum.bytes_up = ks_sum_add(chain->sum.bytes_up, bytes_of(up));
    chain->sum.copy_ns = ks_sum_add(chain->sum.copy_ns, up->dur_ns);
    if (chain->trip == 0) {
        struct ks_trips *trips = w->trips;
        KS_TRY(ks_grow(&trips->items, trips->count, &trips->capacity, sizeof(*trips->items),
                       "round trips", err));
        chain->trip = ++trips->count;
    }
    w->trips->items[chain->trip - 1] = chain->sum;
    return KS_OK;
}

/* Do inputs follow from the unit before? Those that do are of the chain. */
static bool follows(struct chain *chain, const struct ks_shapes *inputs)
{
    bool found = false;
    for (size_t i = 0; chain->is_fed && i < inputs->count; i++) {
        if (ks_shapes_lead_to(&chain->from, &inputs->items[i], chain->new_dims_max)) {
            see(chain, &inputs->items[i]);
            found = true;
        }
    }
    return found;
}

/* Vectors of one length are too common to tell anything. */
static bool has_seen(const struct chain *chain, const struct ks_shapes *inputs)
{
    for (size_t i = 0; i < inputs->count; i++) {
        if (inputs->items[i].count > 1 && ks_shapes_have(&chain->seen, &inputs->items[i])) {
            return true;
        }
    }
    return false;
}

/* A tensor that is made of numpy's memory, whose shape follows from that of the one which was given
 * to numpy: the code between worked on it. */
static void leave_numpy(struct walk *w)
{
    struct chain *chain = &w->chain;
    struct ks_shapes inputs;
    int64_t from_ns = chain->numpy_ns;
    read_inputs(w, &inputs);
    chain->numpy_ns = INT64_MIN;
    chain->is_fed = from_ns != INT64_MIN && inputs.count > 0 && inputs.items[0].count > 1 &&
                    ks_shapes_lead_to(&chain->from, &inputs.items[0], 0);
    if (chain->is_fed) {
        chain->from = inputs;
        chain->new_dims_max = 0;
        chain->has_work = true;
        chain->sum.work_ns = ks_sum_add(chain->sum.work_ns, ks_sum_sub(w->unit.start_ns, from_ns));
    }
}

/* A unit on the host. One that only gives another form may belong to a tensor of the device, so
 * that it only hands on what comes just before. */
static void work(struct walk *w, unsigned flags)
{
    struct chain *chain = &w->chain;
    struct ks_shapes inputs;
    bool is_view = flags & (KS_NAME_VIEW | KS_NAME_MOVE);
    bool is_numpy = flags & KS_NAME_OUTSIDE;
    if (is_numpy && !is_view) {
        leave_numpy(w);
        return;
    }
    int64_t dur_ns = ks_sum_sub(w->unit.end_ns, w->unit.start_ns);
    read_inputs(w, &inputs);
    chain->is_fed = (!is_view && has_seen(chain, &inputs)) || follows(chain, &inputs);
    if (chain->is_fed) {
        chain->from = inputs;
        chain->new_dims_max = flags & KS_NAME_RESIZE || !(flags & KS_NAME_ATEN);
    }
    chain->numpy_ns = chain->is_fed && is_numpy ? w->unit.end_ns : INT64_MIN;
    if (is_view) {
        return;
    }
    struct ks_trip *sum = &chain->sum;
    if (!chain->is_fed) {
        sum->other_ns = ks_sum_add(sum->other_ns, dur_ns);
        return;
    }
    chain->has_work = true;
    sum->operators++;
    sum->work_ns = ks_sum_add(sum->work_ns, dur_ns);
    if (dur_ns >= sum->work_op_ns) {
        sum->work_op = w->unit.name;
        sum->work_op_ns = dur_ns;
    }
}

/* ------------------------------------------------------------ units */

static enum ks_status close_unit(struct walk *w, struct ks_err *err)
{
    if (!w->unit.is_open) {
        return KS_OK;
    }
    w->unit.is_open = false;
    unsigned flags = ks_row_names_get(&w->analyzer->names, w->unit.name);
    bool is_move = flags & KS_NAME_MOVE;
    if (w->unit.up && !w->unit.down && is_move) {
        return take_back(w, err);
    }
    if (w->unit.down && !w->unit.up && is_move) {
        bring(w);
    } else if (w->unit.up || w->unit.down || w->unit.is_device || (flags & KS_NAME_SYNC)) {
        end_chain(w);
    } else if (w->chain.is_open) {
        work(w, flags);
    }
    return KS_OK;
}

/* Operators of a library have a namespace; what wraps them, as autograd and compiled regions do, is
 * looked into. */
static bool is_library_operator(const struct walk *w, uint32_t name)
{
    struct ks_analyzer *analyzer = w->analyzer;
    if (ks_row_names_get(&analyzer->names, name) & KS_NAME_ATEN) {
        return true;
    }
    struct ks_str text = ks_trace_str(analyzer->trace, (struct ks_strid){name});
    return ks_str_contains(text, KS_STR("::")) && !ks_str_starts(text, KS_STR("autograd::")) &&
           !ks_str_starts(text, KS_STR("torch::autograd::"));
}

static void open_unit(struct walk *w, const struct ks_slice_scan *scan, size_t i)
{
    uint32_t name = scan->col.name[i];
    if (is_library_operator(w, name)) {
        int64_t start_ns = scan->col.start_ns[i];
        w->unit = (struct unit){.is_open = true,
                                .name = name,
                                .dims = scan->col.dims[i],
                                .start_ns = start_ns,
                                .end_ns = ks_sum_add(start_ns, scan->col.dur_ns[i])};
    }
}

/* First copy of the thread that this launch, or a later one, made. */
static const struct ks_gpu_copy *first_copy(const struct walk *w, int64_t launch_ns, int64_t corr)
{
    const struct ks_gpu_copy *begin = w->copies;
    const struct ks_gpu_copy *end = w->copies_end;
    while (begin < end) {
        const struct ks_gpu_copy *middle = begin + (end - begin) / 2;
        bool is_before =
            middle->launch_ns != launch_ns ? middle->launch_ns < launch_ns : middle->corr < corr;
        begin = is_before ? middle + 1 : begin;
        end = is_before ? end : middle;
    }
    return begin;
}

/* Copies that were launched by the call at `launch_ns`. */
static bool note_copies(struct walk *w, int64_t launch_ns, int64_t corr)
{
    bool found = false;
    for (const struct ks_gpu_copy *copy = first_copy(w, launch_ns, corr);
         copy < w->copies_end && copy->launch_ns == launch_ns && copy->corr == corr; copy++) {
        if (copy->way != KS_COPY_OTHER) {
            found = true;
            w->unit.down = copy->way == KS_COPY_TO_HOST ? copy : w->unit.down;
            w->unit.up = copy->way == KS_COPY_TO_DEVICE ? copy : w->unit.up;
        }
    }
    return found;
}

static void note_call(struct walk *w, uint32_t name, int64_t start_ns, int64_t corr)
{
    unsigned flags = ks_row_names_get(&w->analyzer->names, name);
    bool is_other = flags & (KS_NAME_LAUNCH | KS_NAME_MEMSET);
    if (flags & KS_NAME_COPY) {
        is_other = !note_copies(w, start_ns, corr) || !w->unit.is_open;
    }
    if (!is_other) {
        return;
    }
    w->launch_ns = start_ns;
    if (w->unit.is_open) {
        w->unit.is_device = true;
    } else {
        end_chain(w);
    }
}

static enum ks_status note_row(struct walk *w, const struct ks_slice_scan *scan, size_t i,
                               struct ks_err *err)
{
    int64_t start_ns = scan->col.start_ns[i];
    if (start_ns >= w->unit.end_ns) {
        KS_TRY(close_unit(w, err));
    }
    switch (scan->col.category[i]) {
    case KS_CATEGORY_RUNTIME:
    case KS_CATEGORY_DRIVER: note_call(w, scan->col.name[i], start_ns, scan->col.corr[i]); break;
    case KS_CATEGORY_USER_ANNOTATION:
        if (ks_row_names_get(&w->analyzer->names, scan->col.name[i]) & KS_NAME_LOADER) {
            end_chain(w);
        }
        break;
    case KS_CATEGORY_NONE:
    case KS_CATEGORY_CPU_OP:
        if (!w->unit.is_open) {
            open_unit(w, scan, i);
        }
        break;
    default: break;
    }
    return KS_OK;
}

/* ------------------------------------------------------------ threads */

static enum ks_status walk_lane(struct walk *w, const struct ks_lane *lane, struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    w->lane = lane->track;
    w->source = ks_trace_track(w->analyzer->trace, lane->track)->source;
    w->unit = (struct unit){.end_ns = INT64_MIN};
    w->chain = (struct chain){0};
    w->launch_ns = INT64_MIN;
    ks_slice_scan_open(&scan, w->analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_dims) |
                           KS_COLUMN_BIT(KS_SLICE_COL_category) | KS_COLUMN_BIT(KS_SLICE_COL_corr),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = note_row(w, &scan, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? close_unit(w, err) : status;
}

/* Only threads that copy both ways are looked at. */
enum ks_status ks_trip_walk(struct ks_analyzer *analyzer, struct ks_trips *trips,
                            struct ks_err *err)
{
    const struct ks_gpu_copy *copies = analyzer->copies.items;
    size_t copy_count = analyzer->copies.count;
    struct walk w = {.analyzer = analyzer, .trips = trips};
    for (size_t begin = 0, end; begin < copy_count; begin = end) {
        bool has[KS_COPY_TO_DEVICE + 1] = {false};
        for (end = begin; end < copy_count && copies[end].launch_lane == copies[begin].launch_lane;
             end++) {
            has[copies[end].way] = true;
        }
        const struct ks_lane *lane =
            ks_trace_lane_find(analyzer->trace, KS_TABLE_slice, copies[begin].launch_lane);
        if (has[KS_COPY_TO_HOST] && has[KS_COPY_TO_DEVICE] && lane) {
            w.copies = copies + begin;
            w.copies_end = copies + end;
            KS_TRY(walk_lane(&w, lane, err));
        }
    }
    return KS_OK;
}
