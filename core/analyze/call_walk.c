#include "analyze/call_walk.h"

#include "analyze/frame_names.h"
#include "analyze/places.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "base/sort_runs.h"
#include "measure/sum.h"

struct open_op {
    int64_t start_ns;
    int64_t end_ns;
    uint32_t name;
};

struct open_frame {
    int64_t end_ns;
    uint32_t name;
    uint32_t call_from; /* line from which it was called: exact place in the frame below */
    uint32_t place;     /* of what this frame calls, KS_PLACE_NONE */
    uint32_t user;      /* 1 + index of the innermost frame of the user's code up to this one */
    uint32_t library;   /* ... of the innermost outside of torch */
    bool is_place_known;
    bool is_sorted_in; /* the two above are known */
};

/* A call of the autograd engine: what its thread does meanwhile belongs to this place. */
struct engine_call {
    int64_t start_ns;
    int64_t end_ns;
    uint32_t place;
};

/* From `from_ns` on, until the next one, the innermost call of the engine is of this place. */
struct engine_piece {
    int64_t from_ns;
    uint32_t place;
};

struct op_list {
    struct open_op *items;
    size_t first; /* those before it have ended */
    size_t count;
    size_t capacity;
};

struct walk {
    const struct ks_trace *trace;
    ks_call_cb visit;
    void *user;
    struct ks_call_places *places;
    struct ks_row_names *names;
    uint8_t *frame_kinds; /* by name: 1 + kind, 0 not looked at yet */
    struct op_list ops;
    struct op_list atens; /* those of them that are of the aten library */
    struct {
        struct open_frame *items;
        size_t count;
        size_t capacity;
    } frames;
    struct {
        struct engine_call *items;
        size_t count;
        size_t capacity;
    } engines; /* of the source */
    struct {
        struct engine_piece *items;
        size_t count;
        size_t capacity;
    } engine_pieces;        /* the same, cut so that none overlaps */
    uint32_t engine_lane;   /* forward thread of the source */
    struct ks_map place_of; /* (frame name, call from) -> 1 + place */
    struct ks_map forward;  /* (lane, sequence number) -> 1 + place */
    uint32_t source;
    uint32_t lane;
    bool has_frames; /* the lane has */
    bool knows_places;
    int64_t backward_end_ns; /* a backward node runs until then ... */
    uint32_t backward_place; /* ... for this place */
};

unsigned ks_call_kinds_of(unsigned name_flags)
{
    unsigned kinds = name_flags & KS_NAME_SYNC ? (unsigned)KS_CALL_SYNC : 0;
    /* Graphs hold copies, too. */
    kinds |= name_flags & (KS_NAME_COPY | KS_NAME_GRAPH) ? (unsigned)KS_CALL_COPY : 0;
    return kinds | (name_flags & KS_NAME_LAUNCH ? (unsigned)KS_CALL_LAUNCH : 0);
}

/* ------------------------------------------------------------ frames and places */

static enum ks_status add_place(struct walk *w, const struct ks_frame *frame, uint32_t call_from,
                                uint32_t *place, struct ks_err *err)
{
    KS_TRY(ks_grow(&w->places->items, w->places->count, &w->places->capacity,
                   sizeof(struct ks_place), "places", err));
    struct ks_place item = {.file = frame->file,
                            .line = frame->line,
                            .function = frame->function,
                            .is_library = frame->kind != KS_FRAME_USER};
    struct ks_str file;
    int64_t line = 0;
    if (ks_frame_parse_call(ks_trace_str(w->trace, (struct ks_strid){call_from}), &file, &line)) {
        item.line = line;
        item.is_exact = true;
    }
    *place = (uint32_t)w->places->count;
    struct ks_place *added = &w->places->items[w->places->count++];
    memset(added, 0, sizeof(*added)); // facts are kept as bytes, with those between members
    *added = item;
    return KS_OK;
}

static enum ks_frame_kind kind_of_frame(struct walk *w, uint32_t name)
{
    uint8_t *kind = &w->frame_kinds[name];
    if (*kind == 0) {
        *kind = (uint8_t)(1 + ks_frame_parse(ks_trace_str(w->trace, (struct ks_strid){name})).kind);
    }
    return (enum ks_frame_kind)(*kind - 1);
}

/* Each frame is looked at once, however deep the calls are. */
static void sort_frames_in(struct walk *w)
{
    struct open_frame *frames = w->frames.items;
    size_t at = w->frames.count;
    while (at > 0 && !frames[at - 1].is_sorted_in) {
        at--;
    }
    for (; at < w->frames.count; at++) {
        enum ks_frame_kind kind = kind_of_frame(w, frames[at].name);
        uint32_t here = (uint32_t)at + 1;
        frames[at].user = kind == KS_FRAME_USER ? here : at > 0 ? frames[at - 1].user : 0;
        frames[at].library = kind == KS_FRAME_LIBRARY ? here : at > 0 ? frames[at - 1].library : 0;
        frames[at].is_sorted_in = true;
    }
}

/* The innermost frame of the user's code counts, else the innermost outside of torch. */
static const struct open_frame *find_frame(struct walk *w, uint32_t *call_from)
{
    sort_frames_in(w);
    const struct open_frame *frames = w->frames.items;
    const struct open_frame *top = &frames[w->frames.count - 1];
    uint32_t best = top->user ? top->user : top->library;
    *call_from = best > 0 && best < w->frames.count ? frames[best].call_from : 0;
    return best > 0 ? &frames[best - 1] : NULL;
}

/* Place of what the innermost open frame calls. */
static enum ks_status place_here(struct walk *w, uint32_t *place, struct ks_err *err)
{
    *place = KS_PLACE_NONE;
    if (w->frames.count == 0) {
        return KS_OK;
    }
    struct open_frame *top = &w->frames.items[w->frames.count - 1];
    if (top->is_place_known) {
        *place = top->place;
        return KS_OK;
    }
    uint32_t call_from = 0;
    const struct open_frame *found = find_frame(w, &call_from);
    if (found) {
        bool added = false;
        uint64_t *slot = ks_map_put(&w->place_of, found->name, call_from, &added);
        if (!slot) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep places: count=%zu",
                           w->places->count);
        }
        if (added) {
            struct ks_frame frame =
                ks_frame_parse(ks_trace_str(w->trace, (struct ks_strid){found->name}));
            KS_TRY(add_place(w, &frame, call_from, place, err));
            *slot = (uint64_t)*place + 1;
        }
        *place = (uint32_t)(*slot - 1);
    }
    top->place = *place;
    top->is_place_known = true;
    return KS_OK;
}

static enum ks_status open_frame(struct walk *w, const struct ks_slice_scan *scan, size_t i,
                                 int64_t end_ns, struct ks_err *err)
{
    uint32_t name = scan->col.name[i];
    KS_TRY(ks_grow(&w->frames.items, w->frames.count, &w->frames.capacity, sizeof(*w->frames.items),
                   "calls", err));
    w->frames.items[w->frames.count++] =
        (struct open_frame){.end_ns = end_ns, .name = name, .call_from = scan->col.concrete[i]};
    if (!(ks_row_names_get(w->names, name) & KS_NAME_RUN_BACKWARD)) {
        return KS_OK;
    }
    struct engine_call call = {scan->col.start_ns[i], end_ns, KS_PLACE_NONE};
    KS_TRY(place_here(w, &call.place, err));
    KS_TRY(ks_grow(&w->engines.items, w->engines.count, &w->engines.capacity, sizeof(call), "calls",
                   err));
    w->engines.items[w->engines.count++] = call;
    w->engine_lane = w->engine_lane ? w->engine_lane : w->lane;
    return KS_OK;
}

/* ------------------------------------------------------------ calls of the engine */

/* Inner calls come behind outer ones, as on their thread. */
static int compare_engine_calls(const void *left, const void *right)
{
    const struct engine_call *a = left;
    const struct engine_call *b = right;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static enum ks_status add_engine_piece(struct walk *w, int64_t from_ns, uint32_t place,
                                       struct ks_err *err)
{
    KS_TRY(ks_grow(&w->engine_pieces.items, w->engine_pieces.count, &w->engine_pieces.capacity,
                   sizeof(*w->engine_pieces.items), "calls", err));
    w->engine_pieces.items[w->engine_pieces.count++] = (struct engine_piece){from_ns, place};
    return KS_OK;
}

/* Ends the open calls that are over by `until_ns`. They lie at the front of the list, in the place
 * of calls that are done with. */
static enum ks_status close_engine_calls(struct walk *w, size_t *open, int64_t until_ns,
                                         struct ks_err *err)
{
    const struct engine_call *calls = w->engines.items;
    while (*open > 0 && calls[*open - 1].end_ns <= until_ns) {
        int64_t end_ns = calls[*open - 1].end_ns;
        while (*open > 0 && calls[*open - 1].end_ns <= end_ns) {
            --*open;
        }
        uint32_t place = *open > 0 ? calls[*open - 1].place : (uint32_t)KS_PLACE_NONE;
        KS_TRY(add_engine_piece(w, end_ns, place, err));
    }
    return KS_OK;
}

/* Cuts the calls of the source's framed threads into pieces, for the threads without frames. */
static enum ks_status cut_engine_calls(struct walk *w, struct ks_err *err)
{
    w->engine_pieces.count = 0;
    if (!ks_sort_runs(w->engines.items, w->engines.count, sizeof(*w->engines.items),
                      compare_engine_calls)) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow calls: count=%zu",
                       w->engines.count);
    }
    size_t open = 0;
    for (size_t i = 0; i < w->engines.count; i++) {
        struct engine_call call = w->engines.items[i];
        KS_TRY(close_engine_calls(w, &open, call.start_ns, err));
        KS_TRY(add_engine_piece(w, call.start_ns, call.place, err));
        w->engines.items[open++] = call;
    }
    return close_engine_calls(w, &open, INT64_MAX, err);
}

/* Place of the innermost engine call that runs at `ns`. */
static uint32_t place_of_engine(const struct walk *w, int64_t ns)
{
    const struct engine_piece *pieces = w->engine_pieces.items;
    size_t begin = 0;
    size_t end = w->engine_pieces.count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (pieces[middle].from_ns <= ns) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin > 0 ? pieces[begin - 1].place : (uint32_t)KS_PLACE_NONE;
}

/* ------------------------------------------------------------ operators */

/* Place of a row that starts now. */
static enum ks_status find_place(struct walk *w, int64_t start_ns, uint32_t *place,
                                 struct ks_err *err)
{
    if (start_ns < w->backward_end_ns) {
        *place = w->backward_place;
        return KS_OK;
    }
    return place_here(w, place, err);
}

/* A backward node stands where its forward operator was called, else where backward() was. */
static enum ks_status open_backward(struct walk *w, const struct ks_slice_scan *scan, size_t i,
                                    int64_t end_ns, struct ks_err *err)
{
    int64_t start_ns = scan->col.start_ns[i];
    if (start_ns < w->backward_end_ns) {
        return KS_OK;
    }
    uint32_t place = KS_PLACE_NONE;
    uint32_t lane = w->has_frames ? w->lane : w->engine_lane;
    uint64_t seq = (uint64_t)scan->col.seq[i];
    const uint64_t *found = scan->col.seq[i] >= 0 ? ks_map_find(&w->forward, lane, seq) : NULL;
    if (found) {
        place = (uint32_t)(*found - 1);
    } else if (w->has_frames) {
        KS_TRY(place_here(w, &place, err));
    } else {
        place = place_of_engine(w, start_ns);
    }
    w->backward_end_ns = end_ns;
    w->backward_place = place;
    return KS_OK;
}

/* Of the operators that share a number, the last one made the node. */
static enum ks_status note_forward(struct walk *w, int64_t seq, uint32_t place, struct ks_err *err)
{
    uint64_t *slot = ks_map_put(&w->forward, w->lane, (uint64_t)seq, NULL);
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep places: count=%zu",
                       w->forward.count);
    }
    *slot = (uint64_t)place + 1;
    return KS_OK;
}

static enum ks_status push_op(struct op_list *list, const struct open_op *op, struct ks_err *err)
{
    KS_TRY(ks_grow(&list->items, list->count, &list->capacity, sizeof(*list->items), "calls", err));
    list->items[list->count++] = *op;
    return KS_OK;
}

/* Rows that ended leave the top; one that ends after the row above it goes with that one. */
static void close_ops(struct op_list *list, int64_t now_ns)
{
    while (list->count > list->first && list->items[list->count - 1].end_ns <= now_ns) {
        list->count--;
    }
    if (list->count == list->first) {
        list->count = list->first = 0;
    }
}

/* The outermost open operator of aten, else the innermost open one. */
static void find_cause(struct walk *w, struct ks_call *call)
{
    struct op_list *atens = &w->atens;
    while (atens->first < atens->count && atens->items[atens->first].end_ns <= call->start_ns) {
        atens->first++;
    }
    const struct open_op *op = atens->first < atens->count ? &atens->items[atens->first]
                               : w->ops.count > 0          ? &w->ops.items[w->ops.count - 1]
                                                           : NULL;
    if (op) {
        call->op = op->name;
        call->op_start_ns = op->start_ns;
        call->op_end_ns = op->end_ns;
    }
}

static enum ks_status show(struct walk *w, const struct ks_slice_scan *scan, size_t i,
                           int64_t end_ns, unsigned kinds, struct ks_err *err)
{
    struct ks_call call = {.source = w->source,
                           .lane = w->lane,
                           .start_ns = scan->col.start_ns[i],
                           .end_ns = end_ns,
                           .corr = scan->col.corr[i],
                           .name = scan->col.name[i],
                           .op = scan->col.name[i],
                           .op_start_ns = scan->col.start_ns[i],
                           .op_end_ns = end_ns,
                           .place = KS_PLACE_NONE,
                           .kinds = kinds};
    if (!(kinds & KS_CALL_OPERATOR)) {
        find_cause(w, &call);
    }
    if (w->knows_places) {
        KS_TRY(find_place(w, call.start_ns, &call.place, err));
    }
    return w->visit(w->user, &call, err);
}

static enum ks_status open_operator(struct walk *w, const struct ks_slice_scan *scan, size_t i,
                                    int64_t end_ns, struct ks_err *err)
{
    bool is_op = scan->col.category[i] != KS_CATEGORY_USER_ANNOTATION;
    if (w->knows_places) {
        if (is_op && (ks_row_names_get(w->names, scan->col.name[i]) & KS_NAME_BACKWARD)) {
            KS_TRY(open_backward(w, scan, i, end_ns, err));
        }
        if (is_op && w->has_frames && scan->col.seq[i] >= 0 && scan->col.aux[i] <= 0 &&
            scan->col.start_ns[i] >= w->backward_end_ns) {
            uint32_t place;
            KS_TRY(place_here(w, &place, err));
            KS_TRY(note_forward(w, scan->col.seq[i], place, err));
        }
        KS_TRY(show(w, scan, i, end_ns, KS_CALL_OPERATOR, err));
    }
    if (!is_op) {
        return KS_OK;
    }
    struct open_op op = {scan->col.start_ns[i], end_ns, scan->col.name[i]};
    KS_TRY(push_op(&w->ops, &op, err));
    bool is_aten = ks_row_names_get(w->names, op.name) & KS_NAME_ATEN;
    return is_aten ? push_op(&w->atens, &op, err) : KS_OK;
}

static void close_rows(struct walk *w, int64_t now_ns)
{
    close_ops(&w->ops, now_ns);
    close_ops(&w->atens, now_ns);
    const struct open_frame *frames = w->frames.items;
    while (w->frames.count > 0 && frames[w->frames.count - 1].end_ns <= now_ns) {
        w->frames.count--;
    }
}

static enum ks_status note_row(struct walk *w, const struct ks_slice_scan *scan, size_t i,
                               struct ks_err *err)
{
    int64_t start_ns = scan->col.start_ns[i];
    int64_t end_ns = ks_sum_add(start_ns, scan->col.dur_ns[i]);
    switch (scan->col.category[i]) {
    case KS_CATEGORY_PYTHON: close_rows(w, start_ns); return open_frame(w, scan, i, end_ns, err);
    case KS_CATEGORY_NONE:
    case KS_CATEGORY_CPU_OP:
    case KS_CATEGORY_USER_ANNOTATION:
        close_rows(w, start_ns);
        return open_operator(w, scan, i, end_ns, err);
    case KS_CATEGORY_RUNTIME:
    case KS_CATEGORY_DRIVER: {
        unsigned kinds = ks_call_kinds_of(ks_row_names_get(w->names, scan->col.name[i]));
        if (kinds == 0) {
            return KS_OK;
        }
        close_rows(w, start_ns);
        return show(w, scan, i, end_ns, kinds, err);
    }
    default: return KS_OK;
    }
}

/* ------------------------------------------------------------ lanes */

static enum ks_status lane_has_frames(const struct ks_trace *trace, const struct ks_lane *lane,
                                      bool *found, struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status = KS_OK;
    *found = false;
    ks_slice_scan_open(&scan, trace, KS_COLUMN_BIT(KS_SLICE_COL_category), lane->row_begin,
                       lane->row_end);
    while (!*found && (status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        *found = memchr(scan.col.category, KS_CATEGORY_PYTHON, scan.count) != NULL;
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status walk_lane(struct walk *w, const struct ks_lane *lane, struct ks_err *err)
{
    uint64_t columns = KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                       KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_category) |
                       KS_COLUMN_BIT(KS_SLICE_COL_corr);
    if (w->knows_places) {
        columns |= KS_COLUMN_BIT(KS_SLICE_COL_seq) | KS_COLUMN_BIT(KS_SLICE_COL_aux) |
                   KS_COLUMN_BIT(KS_SLICE_COL_concrete);
    }
    w->lane = lane->track;
    w->ops.count = w->ops.first = w->atens.count = w->atens.first = w->frames.count = 0;
    w->backward_end_ns = INT64_MIN;
    struct ks_slice_scan scan;
    enum ks_status status;
    ks_slice_scan_open(&scan, w->trace, columns, lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = note_row(w, &scan, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

/* Lanes [begin, end) are of one source. */
static enum ks_status walk_source(struct walk *w, const struct ks_lane *lanes, const bool *framed,
                                  size_t count, struct ks_err *err)
{
    w->source = ks_trace_track(w->trace, lanes[0].track)->source;
    w->engines.count = 0;
    w->engine_lane = 0;
    w->knows_places = false;
    for (size_t i = 0; i < count; i++) {
        w->knows_places = w->knows_places || framed[i];
    }
    for (int wanted = 1; wanted >= 0; wanted--) {
        if (!wanted) {
            KS_TRY(cut_engine_calls(w, err));
        }
        for (size_t i = 0; i < count; i++) {
            if (framed[i] == (bool)wanted &&
                ks_trace_track(w->trace, lanes[i].track)->kind == KS_TRACK_THREAD) {
                w->has_frames = framed[i];
                KS_TRY(walk_lane(w, &lanes[i], err));
            }
        }
    }
    return KS_OK;
}

static enum ks_status walk_all(struct walk *w, bool *framed, bool *has_frames, struct ks_err *err)
{
    size_t count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(w->trace, KS_TABLE_slice, &count);
    for (size_t i = 0; i < count; i++) {
        KS_TRY(lane_has_frames(w->trace, &lanes[i], &framed[i], err));
        *has_frames = *has_frames || framed[i];
    }
    for (size_t begin = 0, end; begin < count; begin = end) {
        uint32_t source = ks_trace_track(w->trace, lanes[begin].track)->source;
        for (end = begin; end < count; end++) {
            if (ks_trace_track(w->trace, lanes[end].track)->source != source) {
                break;
            }
        }
        KS_TRY(walk_source(w, lanes + begin, framed + begin, end - begin, err));
    }
    return KS_OK;
}

enum ks_status ks_call_walk(struct ks_analyzer *analyzer, ks_call_cb visit, void *user,
                            struct ks_call_places *places, bool *has_frames, struct ks_err *err)
{
    struct walk w = {.trace = analyzer->trace,
                     .names = &analyzer->names,
                     .visit = visit,
                     .user = user,
                     .places = places};
    size_t lane_count = 0;
    ks_trace_lanes(w.trace, KS_TABLE_slice, &lane_count);
    ks_map_init(&w.place_of);
    ks_map_init(&w.forward);
    *has_frames = false;
    bool *framed = ks_alloc(lane_count + 1, sizeof(*framed));
    w.frame_kinds = ks_alloc((size_t)ks_trace_str_count(w.trace) + 1, 1);
    bool is_ready = framed && w.frame_kinds;
    enum ks_status status = is_ready ? walk_all(&w, framed, has_frames, err)
                                     : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET,
                                               "Cannot follow calls: lanes=%zu", lane_count);
    ks_free(w.frame_kinds);
    ks_free(framed);
    ks_free(w.ops.items);
    ks_free(w.atens.items);
    ks_free(w.frames.items);
    ks_free(w.engines.items);
    ks_free(w.engine_pieces.items);
    ks_map_release(&w.place_of);
    ks_map_release(&w.forward);
    return status;
}
