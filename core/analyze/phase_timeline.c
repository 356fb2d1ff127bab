/* One sweep over the host rows of a source, in order of start. Each thread keeps the rows that
 * decide its phase: regions and autograd nodes (the innermost counts) and, outside of them, the
 * outermost operator. An operator is forward or other by what follows it, so such pieces stay
 * undecided until the sweep is over. */
#include "analyze/phase_timeline.h"

#include <stdlib.h>

#include "analyze/lane_sweep.h"
#include "analyze/phase_names.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"

/* Codes of pieces that the end of the sweep decides. */
enum { CODE_OPERATOR = KS_PHASE_COUNT, CODE_SOFTMAX, CODE_NONE };

enum event_kind { EVENT_NONE, EVENT_BACKWARD, EVENT_UPDATE };

/* A backward or an update begins; only the first of several in a row is kept. */
struct event {
    int64_t start_ns;
    enum event_kind kind;
    size_t backwards; /* of the events before this one */
};

struct label {
    int64_t end_ns;
    uint8_t code;
};

struct lane_state {
    struct label *labels; /* open regions, the innermost last */
    size_t label_count;
    size_t label_capacity;
    int64_t label_until_ns; /* last end of all regions so far */
    int64_t op_start_ns;
    int64_t op_end_ns;
    uint8_t op_code;
    uint32_t op_epoch;
    int64_t cursor_ns;  /* pieces are made up to here */
    int64_t softmax_ns; /* start of the last operator when that is log_softmax */
    bool is_softmax_last;
};

/* The start of a call on a thread. */
struct moment {
    uint32_t track;
    int64_t at_ns;
};

struct builder {
    struct ks_analyzer *analyzer;
    struct ks_phase_timeline *timeline;
    struct lane_state *states; /* one a lane of the time line */
    struct ks_track_range tracks;
    uint32_t *lane_of; /* by track in them: 1 + index of the lane */
    uint16_t *names;   /* flags by string id */
    const struct ks_step_span_fact *steps;
    size_t step_count;
    size_t step_at; /* starts and ends of steps that the sweep has passed */
    bool is_inside_step;
    size_t main_lane;
    int64_t backward_until_ns; /* of the other threads */
    struct event *events;
    size_t event_count;
    size_t event_capacity;
    bool has_operator; /* one started since the last event */
    uint32_t epoch;
    struct moment *softmaxes; /* those that a loss follows, by track and time */
    size_t softmax_count;
    size_t softmax_capacity;
    struct moment *copies; /* launches of copies to the device, by track and time */
    size_t copy_count;
    size_t copy_capacity;
};

/* Does no step start after `from_ns` and not after `to_ns`? */
static bool is_same_step(const struct builder *b, int64_t from_ns, int64_t to_ns)
{
    size_t begin = 0;
    size_t end = b->step_count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (b->steps[middle].start_ns <= from_ns) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin == b->step_count || b->steps[begin].start_ns > to_ns;
}

/* ------------------------------------------------------------ pieces */

/* Pieces that need no decision are joined over gaps within a thread; so are undecided ones of one
 * epoch, which get the same answer. */
static bool joins_in_lane(const struct ks_phase_piece *last, const struct ks_phase_piece *next)
{
    return last->code == next->code && last->code != CODE_SOFTMAX &&
           (last->code < KS_PHASE_COUNT || last->epoch == next->epoch);
}

static enum ks_status add_piece(struct ks_phase_pieces *pieces, const struct ks_phase_piece *piece,
                                struct ks_err *err)
{
    KS_TRY(ks_grow(&pieces->items, pieces->count, &pieces->capacity, sizeof(*pieces->items),
                   "phases", err));
    pieces->items[pieces->count++] = *piece;
    return KS_OK;
}

static enum ks_status add_to_lane(struct ks_phase_pieces *pieces,
                                  const struct ks_phase_piece *piece, struct ks_err *err)
{
    if (pieces->count > 0 && joins_in_lane(&pieces->items[pieces->count - 1], piece)) {
        pieces->items[pieces->count - 1].end_ns = piece->end_ns;
        return KS_OK;
    }
    return add_piece(pieces, piece, err);
}

/* A gap between two pieces of one phase is the Python code of that phase, unless it is loading:
 * what a loop does between two batches is not. */
static bool joins_in_host(const struct builder *b, const struct ks_phase_piece *last,
                          const struct ks_phase_piece *next)
{
    return joins_in_lane(last, next) &&
           (last->end_ns == next->start_ns ||
            (last->code != KS_PHASE_DATA && is_same_step(b, last->end_ns, next->start_ns)));
}

static enum ks_status add_to_host(struct builder *b, const struct ks_phase_piece *piece,
                                  struct ks_err *err)
{
    struct ks_phase_pieces *host = &b->timeline->host;
    if (host->count > 0 && joins_in_host(b, &host->items[host->count - 1], piece)) {
        host->items[host->count - 1].end_ns = piece->end_ns;
        return KS_OK;
    }
    return add_piece(host, piece, err);
}

/* What a thread is in from its cursor on, and until when. */
static struct ks_phase_piece next_piece(struct builder *b, size_t lane, int64_t until_ns)
{
    struct lane_state *state = &b->states[lane];
    while (state->label_count > 0 &&
           state->labels[state->label_count - 1].end_ns <= state->cursor_ns) {
        state->label_count--;
    }
    struct ks_phase_piece piece = {.start_ns = state->cursor_ns,
                                   .end_ns = until_ns,
                                   .at_ns = state->cursor_ns,
                                   .lane = b->timeline->lanes[lane].track,
                                   .code = CODE_NONE};
    if (state->label_count > 0) {
        const struct label *label = &state->labels[state->label_count - 1];
        piece.code = label->code;
        piece.end_ns = label->end_ns < until_ns ? label->end_ns : until_ns;
    } else if (state->op_end_ns > state->cursor_ns) {
        piece.code = state->op_code;
        piece.at_ns = state->op_start_ns;
        piece.epoch = state->op_epoch;
        piece.end_ns = state->op_end_ns < until_ns ? state->op_end_ns : until_ns;
    }
    return piece;
}

/* While the step's thread does nothing, it may wait for the autograd thread. */
static enum ks_status add_main(struct builder *b, struct ks_phase_piece *piece, struct ks_err *err)
{
    if (piece->code == CODE_NONE) {
        if (b->backward_until_ns <= piece->start_ns) {
            return KS_OK;
        }
        piece->code = KS_PHASE_BACKWARD;
        piece->end_ns = piece->end_ns < b->backward_until_ns ? piece->end_ns : b->backward_until_ns;
    }
    return add_to_host(b, piece, err);
}

/* Makes the pieces of a thread up to `until_ns`. */
static enum ks_status advance(struct builder *b, size_t lane, int64_t until_ns, struct ks_err *err)
{
    struct lane_state *state = &b->states[lane];
    while (state->cursor_ns < until_ns) {
        struct ks_phase_piece piece = next_piece(b, lane, until_ns);
        state->cursor_ns = piece.end_ns;
        if (piece.code != CODE_NONE) {
            KS_TRY(add_to_lane(&b->timeline->lanes[lane].pieces, &piece, err));
        }
        if (lane == b->main_lane) {
            KS_TRY(add_main(b, &piece, err));
        }
    }
    return KS_OK;
}

/* ------------------------------------------------------------ rows */

/* Counts the starts and ends of steps up to `ns`. */
static void pass_steps(struct builder *b, int64_t ns)
{
    while (b->step_at < b->step_count) {
        const struct ks_step_span_fact *step = &b->steps[b->step_at];
        int64_t next_ns = b->is_inside_step ? step->end_ns : step->start_ns;
        if (next_ns > ns) {
            return;
        }
        b->step_at += b->is_inside_step;
        b->is_inside_step = !b->is_inside_step;
        b->epoch++;
        b->has_operator = true; /* the next event is the first of its step */
    }
}

static enum ks_status note_event(struct builder *b, int64_t ns, enum event_kind kind,
                                 struct ks_err *err)
{
    const struct event *last = b->event_count ? &b->events[b->event_count - 1] : NULL;
    if (last && last->kind == kind && !b->has_operator) {
        return KS_OK;
    }
    size_t backwards = last ? last->backwards + (last->kind == EVENT_BACKWARD) : 0;
    KS_TRY(
        ks_grow(&b->events, b->event_count, &b->event_capacity, sizeof(*b->events), "phases", err));
    b->events[b->event_count++] = (struct event){ns, kind, backwards};
    b->has_operator = false;
    b->epoch++;
    return KS_OK;
}

/* Tells a log_softmax what follows it on its thread. */
static enum ks_status settle_softmax(struct builder *b, size_t lane, uint8_t next_code,
                                     struct ks_err *err)
{
    struct lane_state *state = &b->states[lane];
    if (!state->is_softmax_last) {
        return KS_OK;
    }
    state->is_softmax_last = false;
    if (next_code != KS_PHASE_LOSS) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&b->softmaxes, b->softmax_count, &b->softmax_capacity, sizeof(*b->softmaxes),
                   "phases", err));
    b->softmaxes[b->softmax_count++] =
        (struct moment){b->timeline->lanes[lane].track, state->softmax_ns};
    return KS_OK;
}

static enum ks_status open_label(struct builder *b, size_t lane, const struct ks_sweep_row *row,
                                 unsigned flags, struct ks_err *err)
{
    struct lane_state *state = &b->states[lane];
    uint8_t code = (uint8_t)ks_phase_names_label(flags);
    KS_TRY(settle_softmax(b, lane, code, err));
    KS_TRY(ks_grow(&state->labels, state->label_count, &state->label_capacity,
                   sizeof(*state->labels), "phases", err));
    state->labels[state->label_count++] = (struct label){row->end_ns, code};
    state->label_until_ns =
        row->end_ns > state->label_until_ns ? row->end_ns : state->label_until_ns;
    if (code == KS_PHASE_BACKWARD) {
        if (lane != b->main_lane && row->end_ns > b->backward_until_ns) {
            b->backward_until_ns = row->end_ns;
        }
        return note_event(b, row->start_ns, EVENT_BACKWARD, err);
    }
    return flags & KS_PHASE_NAME_UPDATE ? note_event(b, row->start_ns, EVENT_UPDATE, err) : KS_OK;
}

static int compare_moments(const void *left, const void *right)
{
    const struct moment *a = left;
    const struct moment *b = right;
    if (a->track != b->track) {
        return a->track < b->track ? -1 : 1;
    }
    return (a->at_ns > b->at_ns) - (a->at_ns < b->at_ns);
}

/* Is there an entry of the track at or after `start_ns` and before `end_ns`? */
static bool has_between(const struct moment *items, size_t count, uint32_t track, int64_t start_ns,
                        int64_t end_ns)
{
    struct moment key = {track, start_ns};
    size_t begin = 0;
    size_t end = count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (compare_moments(&items[middle], &key) < 0) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin < count && items[begin].track == track && items[begin].at_ns < end_ns;
}

static uint8_t code_of_operator(const struct builder *b, const struct ks_sweep_row *row,
                                unsigned flags)
{
    if (flags & KS_PHASE_NAME_LOSS) {
        return KS_PHASE_LOSS;
    }
    if (flags & KS_PHASE_NAME_SOFTMAX) {
        return CODE_SOFTMAX;
    }
    if ((flags & KS_PHASE_NAME_COPY) &&
        has_between(b->copies, b->copy_count, row->lane, row->start_ns, row->end_ns)) {
        return KS_PHASE_TRANSFER;
    }
    return CODE_OPERATOR;
}

static enum ks_status open_operator(struct builder *b, size_t lane, const struct ks_sweep_row *row,
                                    unsigned flags, struct ks_err *err)
{
    struct lane_state *state = &b->states[lane];
    uint8_t code = code_of_operator(b, row, flags);
    KS_TRY(settle_softmax(b, lane, code, err));
    state->is_softmax_last = code == CODE_SOFTMAX;
    state->softmax_ns = row->start_ns;
    state->op_start_ns = row->start_ns;
    state->op_end_ns = row->end_ns;
    state->op_code = code;
    state->op_epoch = b->epoch;
    b->has_operator = b->has_operator || code >= KS_PHASE_COUNT;
    return KS_OK;
}

static bool is_operator(enum ks_category category)
{
    return category == KS_CATEGORY_CPU_OP || category == KS_CATEGORY_NONE ||
           category == KS_CATEGORY_RUNTIME || category == KS_CATEGORY_DRIVER;
}

static unsigned flags_of(struct builder *b, uint32_t name)
{
    if (!(b->names[name] & KS_PHASE_NAME_KNOWN)) {
        struct ks_str text = ks_trace_str(b->analyzer->trace, (struct ks_strid){name});
        b->names[name] = (uint16_t)ks_phase_names_classify(text);
    }
    return b->names[name];
}

static size_t lane_index(const struct builder *b, uint32_t track)
{
    return b->lane_of[ks_track_range_index(&b->tracks, track)] - 1;
}

static enum ks_status note_row(struct builder *b, const struct ks_sweep_row *row,
                               struct ks_err *err)
{
    bool is_op = is_operator(row->category);
    if ((!is_op && row->category != KS_CATEGORY_USER_ANNOTATION) || row->end_ns <= row->start_ns) {
        return KS_OK;
    }
    unsigned flags = flags_of(b, row->name);
    bool is_label = ks_phase_names_label(flags) != KS_PHASE_COUNT;
    size_t lane = lane_index(b, row->lane);
    struct lane_state *state = &b->states[lane];
    if (!is_label &&
        (!is_op || state->op_end_ns > row->start_ns || state->label_until_ns > row->start_ns)) {
        return KS_OK;
    }
    KS_TRY(advance(b, b->main_lane, row->start_ns, err));
    KS_TRY(advance(b, lane, row->start_ns, err));
    pass_steps(b, row->start_ns);
    return is_label ? open_label(b, lane, row, flags, err)
                    : open_operator(b, lane, row, flags, err);
}

/* ------------------------------------------------------------ decisions */

/* The first event at or after `ns`. */
static size_t event_after(const struct builder *b, int64_t ns)
{
    size_t begin = 0;
    size_t end = b->event_count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (b->events[middle].start_ns < ns) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

static const struct ks_step_span_fact *step_at(const struct builder *b, int64_t ns)
{
    size_t begin = 0;
    size_t end = b->step_count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (b->steps[middle].start_ns <= ns) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin > 0 && ns < b->steps[begin - 1].end_ns ? &b->steps[begin - 1] : NULL;
}

/* Backward events before `ns`. */
static size_t backwards_before(const struct builder *b, int64_t ns)
{
    size_t next = event_after(b, ns);
    const struct event *last = next > 0 ? &b->events[next - 1] : NULL;
    return last ? last->backwards + (last->kind == EVENT_BACKWARD) : 0;
}

static bool has_backward(const struct builder *b, const struct ks_step_span_fact *step)
{
    return backwards_before(b, step->end_ns) > backwards_before(b, step->start_ns);
}

/* Forward is what a backward follows in its step before an update does, and all in a step without
 * backward. */
static uint8_t decide_operator(const struct builder *b, int64_t ns)
{
    const struct ks_step_span_fact *step = step_at(b, ns);
    if (!step) {
        return KS_PHASE_OTHER;
    }
    if (!has_backward(b, step)) {
        return KS_PHASE_FORWARD;
    }
    size_t next = event_after(b, ns);
    bool leads_to_backward = next < b->event_count && b->events[next].start_ns < step->end_ns &&
                             b->events[next].kind == EVENT_BACKWARD;
    return leads_to_backward ? KS_PHASE_FORWARD : KS_PHASE_OTHER;
}

static uint8_t decide(const struct builder *b, const struct ks_phase_piece *piece)
{
    if (piece->code < KS_PHASE_COUNT) {
        return piece->code;
    }
    if (piece->code == CODE_SOFTMAX &&
        has_between(b->softmaxes, b->softmax_count, piece->lane, piece->at_ns, piece->at_ns + 1)) {
        return KS_PHASE_LOSS;
    }
    return decide_operator(b, piece->at_ns);
}

/* Decides all pieces, and joins those that turn out to be of one phase. */
static void decide_pieces(const struct builder *b, struct ks_phase_pieces *pieces, bool is_host)
{
    size_t kept = 0;
    for (size_t i = 0; i < pieces->count; i++) {
        struct ks_phase_piece piece = pieces->items[i];
        piece.code = decide(b, &piece);
        struct ks_phase_piece *last = kept > 0 ? &pieces->items[kept - 1] : NULL;
        if (last && (is_host ? joins_in_host(b, last, &piece) : joins_in_lane(last, &piece))) {
            last->end_ns = piece.end_ns;
        } else {
            pieces->items[kept++] = piece;
        }
    }
    pieces->count = kept;
}

/* ------------------------------------------------------------ set-up */

static bool is_to_device(struct ks_str copy_name)
{
    return ks_str_contains(copy_name, KS_STR("HtoD")) ||
           ks_str_contains(copy_name, KS_STR("HostToDevice")) ||
           ks_str_contains(copy_name, KS_STR("Host -> Device"));
}

static enum ks_status collect_copies(struct builder *b, const struct ks_lane *lane,
                                     struct ks_err *err)
{
    const struct ks_trace *trace = b->analyzer->trace;
    struct ks_gpu_scan scan;
    enum ks_status status;
    ks_gpu_scan_open(&scan, trace,
                     KS_COLUMN_BIT(KS_GPU_COL_name) | KS_COLUMN_BIT(KS_GPU_COL_category) |
                         KS_COLUMN_BIT(KS_GPU_COL_launch_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_launch_lane),
                     lane->row_begin, lane->row_end);
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            struct ks_strid name = {scan.col.name[i]};
            if (scan.col.category[i] != KS_CATEGORY_MEMCPY || scan.col.launch_lane[i] == 0 ||
                !is_to_device(ks_trace_str(trace, name))) {
                continue;
            }
            status = ks_grow(&b->copies, b->copy_count, &b->copy_capacity, sizeof(*b->copies),
                             "phases", err);
            if (status == KS_OK) {
                b->copies[b->copy_count++] =
                    (struct moment){scan.col.launch_lane[i], scan.col.launch_ns[i]};
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_gpu_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status collect_all_copies(struct builder *b, uint32_t source, struct ks_err *err)
{
    size_t count = 0;
    const struct ks_lane *lanes =
        ks_lane_sweep_lanes(b->analyzer->trace, KS_TABLE_gpu, source, &count);
    for (size_t i = 0; i < count; i++) {
        KS_TRY(collect_copies(b, &lanes[i], err));
    }
    if (b->copy_count > 0) {
        qsort(b->copies, b->copy_count, sizeof(*b->copies), compare_moments);
    }
    return KS_OK;
}

static enum ks_status list_lanes(struct builder *b, uint32_t source, struct ks_err *err)
{
    const struct ks_trace *trace = b->analyzer->trace;
    size_t count = 0;
    const struct ks_lane *lanes = ks_lane_sweep_lanes(trace, KS_TABLE_slice, source, &count);
    b->timeline->lanes = ks_alloc(count + 1, sizeof(*b->timeline->lanes));
    b->states = ks_alloc(count + 1, sizeof(*b->states));
    b->tracks = ks_lane_sweep_tracks(trace, source);
    b->lane_of = ks_alloc((size_t)b->tracks.count + 1, sizeof(*b->lane_of));
    if (!b->timeline->lanes || !b->states || !b->lane_of) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep phases: lanes=%zu", count);
    }
    for (size_t i = 0; i < count; i++) {
        if (ks_trace_track(trace, lanes[i].track)->kind == KS_TRACK_THREAD) {
            size_t at = b->timeline->lane_count++;
            b->timeline->lanes[at].track = lanes[i].track;
            b->states[at] = (struct lane_state){
                .op_end_ns = INT64_MIN, .label_until_ns = INT64_MIN, .cursor_ns = INT64_MIN};
            b->lane_of[ks_track_range_index(&b->tracks, lanes[i].track)] = (uint32_t)at + 1;
        }
    }
    uint32_t thread = ks_step_lookup_thread(b->analyzer->facts, source);
    b->main_lane = thread != 0 ? lane_index(b, thread) : 0;
    return KS_OK;
}

static enum ks_status sweep_rows(struct builder *b, uint32_t source, struct ks_err *err)
{
    struct ks_lane_sweep sweep;
    struct ks_analyzer *analyzer = b->analyzer;
    KS_TRY(ks_lane_sweep_open(&sweep, analyzer->trace, source, KS_SWEEP_THREADS, &analyzer->scratch,
                              err));
    enum ks_status status = KS_OK;
    struct ks_sweep_row row;
    while (status == KS_OK && (status = ks_lane_sweep_next(&sweep, &row, err)) == KS_OK) {
        status = note_row(b, &row, err);
    }
    ks_lane_sweep_close(&sweep);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status build(struct builder *b, uint32_t source, struct ks_err *err)
{
    KS_TRY(list_lanes(b, source, err));
    if (b->timeline->lane_count == 0) {
        return KS_OK;
    }
    KS_TRY(collect_all_copies(b, source, err));
    KS_TRY(sweep_rows(b, source, err));
    for (size_t lane = 0; lane < b->timeline->lane_count; lane++) {
        KS_TRY(advance(b, lane, INT64_MAX, err));
    }
    if (b->softmax_count > 0) {
        qsort(b->softmaxes, b->softmax_count, sizeof(*b->softmaxes), compare_moments);
    }
    for (size_t lane = 0; lane < b->timeline->lane_count; lane++) {
        decide_pieces(b, &b->timeline->lanes[lane].pieces, false);
    }
    decide_pieces(b, &b->timeline->host, true);
    return KS_OK;
}

enum ks_status ks_phase_timeline_build(struct ks_analyzer *analyzer, uint32_t source,
                                       uint16_t *names, struct ks_phase_timeline *timeline,
                                       struct ks_err *err)
{
    struct ks_step_range range = analyzer->facts->step_span_ranges[source];
    struct builder b = {.analyzer = analyzer,
                        .timeline = timeline,
                        .names = names,
                        .steps = analyzer->facts->step_spans + range.begin,
                        .step_count = range.end - range.begin,
                        .backward_until_ns = INT64_MIN};
    enum ks_status status = build(&b, source, err);
    for (size_t i = 0; b.states && i < timeline->lane_count; i++) {
        ks_free(b.states[i].labels);
    }
    ks_free(b.states);
    ks_free(b.lane_of);
    ks_free(b.events);
    ks_free(b.softmaxes);
    ks_free(b.copies);
    return status;
}

void ks_phase_timeline_release(struct ks_phase_timeline *timeline)
{
    for (size_t i = 0; timeline->lanes && i < timeline->lane_count; i++) {
        ks_free(timeline->lanes[i].pieces.items);
    }
    ks_free(timeline->lanes);
    ks_free(timeline->host.items);
    *timeline = (struct ks_phase_timeline){0};
}

/* ------------------------------------------------------------ look-up */

static enum ks_phase find_in(const struct ks_phase_pieces *pieces, int64_t ns)
{
    size_t begin = 0;
    size_t end = pieces->count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (pieces->items[middle].start_ns <= ns) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    bool is_inside = begin > 0 && ns < pieces->items[begin - 1].end_ns;
    return is_inside ? (enum ks_phase)pieces->items[begin - 1].code : KS_PHASE_OTHER;
}

enum ks_phase ks_phase_timeline_find(const struct ks_phase_timeline *timeline, uint32_t track,
                                     int64_t ns)
{
    size_t begin = 0; /* lanes ascend by track */
    size_t end = timeline->lane_count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (timeline->lanes[middle].track < track) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    bool is_there = begin < timeline->lane_count && timeline->lanes[begin].track == track;
    return is_there ? find_in(&timeline->lanes[begin].pieces, ns) : KS_PHASE_OTHER;
}
