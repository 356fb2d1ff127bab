#include "analyze/time_places.h"

#include "analyze/frame_names.h"
#include "analyze/lane_sweep.h"
#include "analyze/places.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "measure/sum.h"

enum { NO_FUNCTION = UINT32_MAX };

/* What the name of a frame is, as a value of the map: 0 is not looked at yet. */
enum {
    FRAME_OTHER = 1,
    FRAME_MODULE,
    FRAME_RECORDER, /* what `kscope run` does between two steps is no time of the program */
    FRAME_FUNCTION, /* and more: its index */
};

struct interval {
    int64_t start_ns;
    int64_t end_ns;
    int64_t before_ns; /* length of all that come before it */
};

/* In order of time; none overlaps another. */
struct intervals {
    struct interval *items;
    size_t count;
    size_t capacity;
};

/* A function of the user's code. */
struct function {
    struct ks_frame frame;
    int64_t ns[KS_TIME_KINDS]; /* inside of it, what it calls included */
    int64_t open_until_ns;     /* calls of itself within count once */
    size_t depth;
};

struct open_frame {
    int64_t end_ns;
    uint32_t function; /* innermost of the user's up to this one */
    bool is_in_module;
};

struct walk {
    struct ks_analyzer *analyzer;
    uint32_t source;
    uint32_t thread; /* of the steps */
    struct intervals when[KS_TIME_KINDS];
    int64_t models_ns; /* outermost calls of modules */
    struct ks_map names;
    struct function *functions;
    size_t function_count;
    size_t function_capacity;
    struct open_frame *frames;
    size_t frame_count;
    size_t frame_capacity;
    bool has_frames;
    bool has_one_step;
};

/* ------------------------------------------------------------ which time it is about */

static enum ks_status add_interval(struct intervals *list, int64_t start_ns, int64_t end_ns,
                                   struct ks_err *err)
{
    const struct interval *last = list->count > 0 ? &list->items[list->count - 1] : NULL;
    start_ns = last && last->end_ns > start_ns ? last->end_ns : start_ns;
    if (end_ns <= start_ns) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&list->items, list->count, &list->capacity, sizeof(*list->items), "times", err));
    last = list->count > 0 ? &list->items[list->count - 1] : NULL;
    int64_t before_ns =
        last ? ks_sum_add(last->before_ns, ks_sum_sub(last->end_ns, last->start_ns)) : 0;
    list->items[list->count++] = (struct interval){start_ns, end_ns, before_ns};
    return KS_OK;
}

static int64_t length_of(const struct intervals *list)
{
    const struct interval *last = list->count > 0 ? &list->items[list->count - 1] : NULL;
    return last ? ks_sum_add(last->before_ns, ks_sum_sub(last->end_ns, last->start_ns)) : 0;
}

/* How much of the intervals lies before `ns`. */
static int64_t length_until(const struct intervals *list, int64_t ns)
{
    size_t begin = 0;
    size_t end = list->count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (list->items[middle].start_ns < ns) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    if (begin == 0) {
        return 0;
    }
    const struct interval *last = &list->items[begin - 1];
    int64_t until_ns = ns < last->end_ns ? ns : last->end_ns;
    return ks_sum_add(last->before_ns, ks_sum_sub(until_ns, last->start_ns));
}

static enum ks_status look_at_name(struct walk *walk, uint32_t name, uint64_t *what,
                                   struct ks_err *err)
{
    bool added = false;
    uint64_t *slot = ks_map_put(&walk->names, name, 0, &added);
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep functions: count=%zu",
                       walk->function_count);
    }
    if (added) {
        struct ks_str text = ks_trace_str(walk->analyzer->trace, (struct ks_strid){name});
        struct ks_frame frame = ks_frame_parse(text);
        struct ks_str recorder = KS_STR("kinetoscope/torch/recorder.py(");
        *slot = ks_str_starts(text, KS_STR("nn.Module: ")) ? FRAME_MODULE
                : ks_str_contains(text, recorder)          ? FRAME_RECORDER
                                                           : FRAME_OTHER;
        if (frame.kind == KS_FRAME_USER) {
            *slot = FRAME_FUNCTION + walk->function_count;
            KS_TRY(ks_grow(&walk->functions, walk->function_count, &walk->function_capacity,
                           sizeof(*walk->functions), "functions", err));
            walk->functions[walk->function_count++] =
                (struct function){.frame = frame, .open_until_ns = INT64_MIN};
        }
    }
    *what = *slot;
    return KS_OK;
}

static bool is_work(struct walk *walk, const struct ks_sweep_row *row)
{
    unsigned flags = ks_row_names_get(&walk->analyzer->names, row->name);
    switch (row->category) {
    case KS_CATEGORY_RUNTIME:
    case KS_CATEGORY_DRIVER:
    case KS_CATEGORY_OVERHEAD: return true;
    case KS_CATEGORY_CPU_OP: return !(flags & (KS_NAME_STEP | KS_NAME_OPTIMIZER));
    case KS_CATEGORY_USER_ANNOTATION: return flags & KS_NAME_LOADER;
    default: return false;
    }
}

/* A stretch without work counts inside of steps. Stretches come in order of time. */
static enum ks_status add_quiet(struct walk *walk, size_t *step, int64_t from_ns, int64_t until_ns,
                                struct ks_err *err)
{
    const struct ks_facts *facts = walk->analyzer->facts;
    size_t end = facts->step_ranges[walk->source].end;
    for (; *step < end; ++*step) {
        const struct ks_step *at = &facts->steps[*step];
        int64_t step_end_ns = ks_sum_add(at->host_start_ns, at->host_ns);
        int64_t begin_ns = from_ns > at->host_start_ns ? from_ns : at->host_start_ns;
        int64_t end_ns = until_ns < step_end_ns ? until_ns : step_end_ns;
        if (ks_sum_sub(end_ns, begin_ns) >= KS_TIME_QUIET_NS_MIN) {
            KS_TRY(add_interval(&walk->when[KS_TIME_QUIET], begin_ns, end_ns, err));
        }
        if (step_end_ns > until_ns) {
            break;
        }
    }
    return KS_OK;
}

/* Where the rows of all threads stand. */
struct sweep {
    size_t step;           /* the first that a stretch may touch */
    int64_t quiet_from_ns; /* no work since */
    int64_t step_from_ns;  /* of the only step: what comes before is counted, or the recorder's */
};

static enum ks_status end_quiet(struct walk *walk, struct sweep *sweep, int64_t start_ns,
                                int64_t end_ns, struct ks_err *err)
{
    if (start_ns > sweep->quiet_from_ns) {
        KS_TRY(add_quiet(walk, &sweep->step, sweep->quiet_from_ns, start_ns, err));
    }
    sweep->quiet_from_ns = end_ns > sweep->quiet_from_ns ? end_ns : sweep->quiet_from_ns;
    return KS_OK;
}

static enum ks_status note_frame(struct walk *walk, const struct ks_sweep_row *row,
                                 struct sweep *sweep, struct ks_err *err)
{
    uint64_t what = FRAME_OTHER;
    if (row->lane != walk->thread) {
        return KS_OK;
    }
    walk->has_frames = true;
    KS_TRY(look_at_name(walk, row->name, &what, err));
    if (what != FRAME_RECORDER) {
        return KS_OK;
    }
    if (walk->has_one_step) {
        KS_TRY(add_interval(&walk->when[KS_TIME_STEP], sweep->step_from_ns, row->start_ns, err));
        bool is_inner = row->end_ns <= sweep->step_from_ns;
        sweep->step_from_ns = is_inner ? sweep->step_from_ns : row->end_ns;
    }
    return end_quiet(walk, sweep, row->start_ns, row->end_ns, err);
}

static enum ks_status note_row(struct walk *walk, const struct ks_sweep_row *row,
                               struct sweep *sweep, struct ks_err *err)
{
    if (row->category == KS_CATEGORY_PYTHON) {
        return note_frame(walk, row, sweep, err);
    }
    if (!is_work(walk, row)) {
        return KS_OK;
    }
    bool is_loader = ks_row_names_get(&walk->analyzer->names, row->name) & KS_NAME_LOADER;
    if (is_loader && row->lane == walk->thread) {
        KS_TRY(add_interval(&walk->when[KS_TIME_DATA], row->start_ns, row->end_ns, err));
    }
    return end_quiet(walk, sweep, row->start_ns, row->end_ns, err);
}

static enum ks_status find_times(struct walk *walk, struct ks_err *err)
{
    struct ks_step_range range = walk->analyzer->facts->step_ranges[walk->source];
    const struct ks_step *first = &walk->analyzer->facts->steps[range.begin];
    struct sweep at = {range.begin, first->host_start_ns, first->host_start_ns};
    struct ks_lane_sweep sweep;
    struct ks_sweep_row row;
    walk->has_one_step = range.end - range.begin == 1;
    KS_TRY(ks_lane_sweep_open(&sweep, walk->analyzer->trace, walk->source, KS_SWEEP_THREADS,
                              &walk->analyzer->scratch, err));
    enum ks_status status;
    while ((status = ks_lane_sweep_next(&sweep, &row, err)) == KS_OK) {
        status = note_row(walk, &row, &at, err);
        if (status != KS_OK) {
            break;
        }
    }
    ks_lane_sweep_close(&sweep);
    KS_TRY(status == KS_END ? KS_OK : status);
    if (walk->has_one_step) {
        int64_t end_ns = ks_sum_add(first->host_start_ns, first->host_ns);
        KS_TRY(add_interval(&walk->when[KS_TIME_STEP], at.step_from_ns, end_ns, err));
    }
    return add_quiet(walk, &at.step, at.quiet_from_ns, INT64_MAX, err);
}

/* ------------------------------------------------------------ functions */

static void count_function(struct walk *walk, struct function *function, int64_t start_ns,
                           int64_t end_ns)
{
    if (start_ns < function->open_until_ns) {
        return;
    }
    function->open_until_ns = end_ns;
    function->depth = walk->frame_count;
    for (int kind = 0; kind < KS_TIME_KINDS; kind++) {
        const struct intervals *when = &walk->when[kind];
        int64_t inside_ns = length_until(when, end_ns) - length_until(when, start_ns);
        function->ns[kind] = ks_sum_add(function->ns[kind], inside_ns);
    }
}

static void count_model(struct walk *walk, uint32_t caller, int64_t dur_ns)
{
    walk->models_ns = ks_sum_add(walk->models_ns, dur_ns);
    if (caller != NO_FUNCTION) {
        int64_t *ns = &walk->functions[caller].ns[KS_TIME_MODEL];
        *ns = ks_sum_add(*ns, dur_ns);
    }
}

static enum ks_status open_frame(struct walk *walk, uint32_t name, int64_t start_ns, int64_t end_ns,
                                 struct ks_err *err)
{
    uint64_t what = FRAME_OTHER;
    while (walk->frame_count > 0 && walk->frames[walk->frame_count - 1].end_ns <= start_ns) {
        walk->frame_count--;
    }
    struct open_frame frame = {end_ns, NO_FUNCTION, false};
    if (walk->frame_count > 0) {
        frame.function = walk->frames[walk->frame_count - 1].function;
        frame.is_in_module = walk->frames[walk->frame_count - 1].is_in_module;
    }
    KS_TRY(look_at_name(walk, name, &what, err));
    KS_TRY(ks_grow(&walk->frames, walk->frame_count, &walk->frame_capacity, sizeof(*walk->frames),
                   "calls", err));
    if (what >= FRAME_FUNCTION) {
        frame.function = (uint32_t)(what - FRAME_FUNCTION);
        count_function(walk, &walk->functions[frame.function], start_ns, end_ns);
    }
    if (what == FRAME_MODULE && !frame.is_in_module) {
        frame.is_in_module = true;
        count_model(walk, frame.function, ks_sum_sub(end_ns, start_ns));
    }
    walk->frames[walk->frame_count++] = frame;
    return KS_OK;
}

static enum ks_status walk_lane(struct walk *walk, const struct ks_lane *lane, struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    ks_slice_scan_open(&scan, walk->analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_category),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            if (scan.col.category[i] == KS_CATEGORY_PYTHON) {
                int64_t start_ns = scan.col.start_ns[i];
                status = open_frame(walk, scan.col.name[i], start_ns,
                                    ks_sum_add(start_ns, scan.col.dur_ns[i]), err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

/* ------------------------------------------------------------ results */

/* Of the functions that hold half of the time: the one that holds least, which is the innermost. Of
 * those that call models: the one that does most. */
static const struct function *choose(const struct walk *walk, int kind, int64_t all_ns)
{
    const struct function *best = NULL;
    for (size_t i = 0; i < walk->function_count; i++) {
        const struct function *function = &walk->functions[i];
        int64_t ns = function->ns[kind];
        if (ns <= 0 || ns < all_ns - ns) {
            continue;
        }
        bool is_inner = !best || ns < best->ns[kind] ||
                        (ns == best->ns[kind] && function->depth >= best->depth);
        best = is_inner ? function : best;
    }
    return best;
}

static enum ks_status copy_text(struct ks_facts *facts, struct ks_str *text, struct ks_err *err)
{
    text->ptr = ks_arena_copy(&facts->arena, text->ptr, text->len);
    return text->ptr ? KS_OK
                     : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep places: count=%zu",
                               facts->time_place_count);
}

static enum ks_status keep(struct ks_facts *facts, struct ks_time_place place, struct ks_err *err)
{
    KS_TRY(copy_text(facts, &place.file, err));
    facts->time_places[facts->time_place_count++] = place;
    return KS_OK;
}

static enum ks_status publish(struct walk *walk, struct ks_err *err)
{
    struct ks_facts *facts = walk->analyzer->facts;
    struct ks_step_range range = facts->step_ranges[walk->source];
    for (int kind = 0; kind < KS_TIME_KINDS; kind++) {
        int64_t all_ns = kind == KS_TIME_MODEL ? walk->models_ns : length_of(&walk->when[kind]);
        const struct function *function = choose(walk, kind, all_ns);
        if (function) {
            const struct ks_time_place place = {.source = walk->source,
                                                .kind = (enum ks_time_kind)kind,
                                                .file = function->frame.file,
                                                .line = function->frame.line,
                                                .step = facts->steps[range.begin].number};
            KS_TRY(keep(facts, place, err));
        }
    }
    return KS_OK;
}

static enum ks_status walk_source(struct walk *walk, struct ks_err *err)
{
    size_t count = 0;
    const struct ks_lane *lanes =
        ks_lane_sweep_lanes(walk->analyzer->trace, KS_TABLE_slice, walk->source, &count);
    KS_TRY(find_times(walk, err));
    if (!walk->has_frames) {
        return KS_OK;
    }
    for (size_t i = 0; i < count; i++) {
        if (lanes[i].track == walk->thread) {
            KS_TRY(walk_lane(walk, &lanes[i], err));
        }
    }
    return publish(walk, err);
}

static enum ks_status look_at_source(struct ks_analyzer *analyzer, uint32_t source,
                                     struct ks_err *err)
{
    struct walk walk = {.analyzer = analyzer, .source = source};
    struct ks_step_range range = analyzer->facts->step_ranges[source];
    walk.thread = ks_step_lookup_thread(analyzer->facts, source);
    if (range.begin == range.end || walk.thread == 0) {
        return KS_OK;
    }
    ks_map_init(&walk.names);
    enum ks_status status = walk_source(&walk, err);
    ks_map_release(&walk.names);
    for (int kind = 0; kind < KS_TIME_KINDS; kind++) {
        ks_free(walk.when[kind].items);
    }
    ks_free(walk.functions);
    ks_free(walk.frames);
    return status;
}

/* What the other recording says of the same rank. */
static enum ks_status adopt(struct ks_analyzer *analyzer, uint32_t source, struct ks_err *err)
{
    const struct ks_facts *framed = analyzer->framed;
    uint32_t twin = ks_places_twin_source(framed->trace, analyzer->trace, source);
    for (size_t i = 0; i < framed->time_place_count; i++) {
        struct ks_time_place place = framed->time_places[i];
        if (place.source == twin) {
            place.source = source;
            KS_TRY(keep(analyzer->facts, place, err));
        }
    }
    return KS_OK;
}

enum ks_status ks_time_places_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    uint32_t count = ks_trace_source_count(analyzer->trace);
    if (!facts->has_frames && !analyzer->framed) {
        return KS_OK;
    }
    facts->time_places =
        ks_new(&facts->arena, struct ks_time_place, (size_t)count * KS_TIME_KINDS + 1);
    if (!facts->time_places) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep places: sources=%u", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        KS_TRY(facts->has_frames ? look_at_source(analyzer, i, err) : adopt(analyzer, i, err));
    }
    return KS_OK;
}

const struct ks_time_place *ks_time_place_find(const struct ks_facts *facts, uint32_t source,
                                               enum ks_time_kind kind)
{
    for (size_t i = 0; i < facts->time_place_count; i++) {
        const struct ks_time_place *place = &facts->time_places[i];
        if (place->kind == kind && (source == KS_TIME_ANY_SOURCE || place->source == source)) {
            return place;
        }
    }
    return NULL;
}
