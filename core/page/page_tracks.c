#include "page/page_tracks.h"

#include <stdlib.h>

#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"
#include "page/page_names.h"

enum { GPU_KINDS = 3, NAME_LEN_MAX = 160 };

/* What is being collected. */
struct builder {
    struct ks_page_tracks *tracks;
    const struct ks_view *view;
    struct ks_page_track *found;
    size_t count;
    size_t capacity;
    struct ks_text text;
};

const char *ks_page_track_word(enum ks_page_track_kind kind)
{
    static const char *const words[KS_PAGE_TRACK_KINDS] = {
        [KS_PAGE_STEPS] = "steps",
        [KS_PAGE_THREAD] = "thread",
        [KS_PAGE_ASYNC] = "async",
        [KS_PAGE_STREAM] = "stream",
        [KS_PAGE_ANNOTATIONS] = "annotations",
        [KS_PAGE_WAITS] = "waits",
        [KS_PAGE_REST_HOST] = "other",
        [KS_PAGE_REST_GPU] = "other",
    };
    KS_ASSERT((size_t)kind < KS_PAGE_TRACK_KINDS);
    return words[kind];
}

enum ks_page_track_kind ks_page_tracks_gpu_kind(enum ks_category category)
{
    return ks_category_is_work(category)            ? KS_PAGE_STREAM
           : category == KS_CATEGORY_GPU_ANNOTATION ? KS_PAGE_ANNOTATIONS
                                                    : KS_PAGE_WAITS;
}

/* Where the place of a track of the trace is kept: host rows and work of streams share one. */
static size_t slot_of(uint32_t track, enum ks_page_track_kind kind)
{
    size_t of_kind = kind > KS_PAGE_STREAM ? (size_t)kind - KS_PAGE_STREAM : 0;
    return (size_t)track * GPU_KINDS + of_kind;
}

static uint16_t place_at(uint16_t slot)
{
    KS_ASSERT(slot != 0);
    return (uint16_t)(slot - 1);
}

uint16_t ks_page_tracks_host(const struct ks_page_tracks *tracks, uint32_t track)
{
    return ks_page_tracks_gpu(tracks, track, KS_PAGE_STREAM);
}

bool ks_page_tracks_has_host(const struct ks_page_tracks *tracks, uint32_t track)
{
    return tracks->places[slot_of(track, KS_PAGE_STREAM)] != 0;
}

uint16_t ks_page_tracks_gpu(const struct ks_page_tracks *tracks, uint32_t track,
                            enum ks_page_track_kind kind)
{
    return place_at(tracks->places[slot_of(track, kind)]);
}

uint16_t ks_page_tracks_steps(const struct ks_page_tracks *tracks, uint32_t source)
{
    return place_at(tracks->steps[source]);
}

/* ------------------------------------------------------------------ which there are */

static enum ks_status add(struct builder *b, struct ks_page_track track, struct ks_err *err)
{
    KS_TRY(ks_grow(&b->found, b->count, &b->capacity, sizeof(*b->found), "tracks", err));
    b->found[b->count++] = track;
    return KS_OK;
}

static enum ks_status add_steps(struct builder *b, struct ks_err *err)
{
    const struct ks_facts *facts = b->view->facts;
    for (uint32_t s = 0; facts->step_ranges && s < ks_trace_source_count(b->view->trace); s++) {
        const struct ks_step_range *range = &facts->step_ranges[s];
        if (range->end > range->begin) {
            struct ks_page_track track = {
                .track = s, .source = s, .weight = range->end - range->begin};
            KS_TRY(add(b, track, err));
        }
    }
    return KS_OK;
}

static enum ks_status add_threads(struct builder *b, struct ks_err *err)
{
    const struct ks_trace *trace = b->view->trace;
    size_t count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(trace, KS_TABLE_slice, &count);
    for (size_t i = 0; i < count; i++) {
        const struct ks_track *of = ks_trace_track(trace, lanes[i].track);
        struct ks_page_track track = {
            .kind = of->kind == KS_TRACK_THREAD ? KS_PAGE_THREAD : KS_PAGE_ASYNC,
            .track = lanes[i].track,
            .source = of->source,
            .weight = lanes[i].row_end - lanes[i].row_begin,
        };
        KS_TRY(add(b, track, err));
    }
    return KS_OK;
}

static enum ks_status count_gpu(const struct ks_trace *trace, uint64_t *rows, struct ks_err *err)
{
    struct ks_gpu_scan scan;
    enum ks_status status;
    ks_gpu_scan_open(&scan, trace,
                     KS_COLUMN_BIT(KS_GPU_COL_lane) | KS_COLUMN_BIT(KS_GPU_COL_stream) |
                         KS_COLUMN_BIT(KS_GPU_COL_category),
                     0, ks_trace_rows(trace, KS_TABLE_gpu));
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            uint32_t stream = scan.col.stream[i];
            enum ks_category category = (enum ks_category)scan.col.category[i];
            rows[slot_of(stream != 0 ? stream : scan.col.lane[i],
                         ks_page_tracks_gpu_kind(category))]++;
        }
    }
    ks_gpu_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status add_streams(struct builder *b, struct ks_err *err)
{
    const struct ks_trace *trace = b->view->trace;
    uint32_t count = ks_trace_track_count(trace);
    uint64_t *rows = ks_alloc((size_t)count * GPU_KINDS, sizeof(*rows));
    enum ks_status status =
        rows ? count_gpu(trace, rows, err)
             : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep tracks: count=%u", count);
    for (uint32_t id = 1; status == KS_OK && id < count; id++) {
        for (unsigned kind = KS_PAGE_STREAM; kind <= KS_PAGE_WAITS && status == KS_OK; kind++) {
            uint64_t weight = rows[slot_of(id, kind)];
            struct ks_page_track track = {.kind = kind,
                                          .track = id,
                                          .source = ks_trace_track(trace, id)->source,
                                          .weight = weight};
            status = weight > 0 ? add(b, track, err) : KS_OK;
        }
    }
    ks_free(rows);
    return status;
}

/* ------------------------------------------------------------------ which are kept */

static int compare_weight(const void *left, const void *right)
{
    const struct ks_page_track *a = left;
    const struct ks_page_track *b = right;
    bool a_steps = a->kind == KS_PAGE_STEPS;
    bool b_steps = b->kind == KS_PAGE_STEPS;
    if (a_steps != b_steps) {
        return a_steps ? -1 : 1;
    }
    if (a->weight != b->weight) {
        return a->weight > b->weight ? -1 : 1;
    }
    return a->track != b->track ? (a->track < b->track ? -1 : 1) : (int)a->kind - (int)b->kind;
}

static int compare_place(const void *left, const void *right)
{
    const struct ks_page_track *a = left;
    const struct ks_page_track *b = right;
    bool is_rest = ks_page_track_is_rest(a);
    if (is_rest != ks_page_track_is_rest(b)) {
        return is_rest ? 1 : -1;
    }
    if (a->source != b->source) {
        return a->source < b->source ? -1 : 1;
    }
    /* The tracks of a stream stand together. */
    int a_kind = a->kind < KS_PAGE_STREAM ? (int)a->kind : KS_PAGE_STREAM;
    int b_kind = b->kind < KS_PAGE_STREAM ? (int)b->kind : KS_PAGE_STREAM;
    if (a_kind != b_kind || is_rest) {
        return is_rest ? (int)a->kind - (int)b->kind : a_kind - b_kind;
    }
    if (a->is_main != b->is_main) {
        return a->is_main ? -1 : 1;
    }
    return a->track != b->track ? (a->track < b->track ? -1 : 1) : (int)a->kind - (int)b->kind;
}

/* Looking the thread of a source up may take a walk over all threads. */
static void mark_main(struct builder *b)
{
    uint32_t source = UINT32_MAX;
    uint32_t thread = 0;
    for (size_t i = 0; i < b->tracks->count; i++) {
        struct ks_page_track *track = &b->tracks->list[i];
        if (track->kind == KS_PAGE_THREAD && track->source != source) {
            source = track->source;
            thread = ks_step_lookup_thread(b->view->facts, source);
        }
        track->is_main = track->kind == KS_PAGE_THREAD && track->track == thread;
    }
}

static bool is_host(const struct ks_page_track *track)
{
    return track->kind < KS_PAGE_STREAM;
}

/* Keeps the first of `found`, and two for the others. */
static void choose(struct builder *b)
{
    enum { KEPT = KS_PAGE_TRACKS_MAX - 2 };
    struct ks_page_tracks *tracks = b->tracks;
    struct ks_page_track rest[] = {{.kind = KS_PAGE_REST_HOST}, {.kind = KS_PAGE_REST_GPU}};
    if (b->count > 0) {
        qsort(b->found, b->count, sizeof(*b->found), compare_weight);
    }
    for (size_t i = 0; i < b->count; i++) {
        if (i < KEPT) {
            tracks->list[tracks->count++] = b->found[i];
        } else {
            rest[!is_host(&b->found[i])].merged++;
        }
    }
    for (size_t i = 0; i < KS_COUNT_OF(rest); i++) {
        if (rest[i].merged > 0) {
            tracks->list[tracks->count++] = rest[i];
        }
    }
    mark_main(b);
    if (tracks->count > 0) {
        qsort(tracks->list, tracks->count, sizeof(*tracks->list), compare_place);
    }
}

static uint16_t *place_of(struct ks_page_tracks *tracks, const struct ks_page_track *track)
{
    return track->kind == KS_PAGE_STEPS ? &tracks->steps[track->track]
                                        : &tracks->places[slot_of(track->track, track->kind)];
}

/* All that were found get a place, the ones that were not kept that of the rest. */
static void set_places(struct builder *b)
{
    struct ks_page_tracks *tracks = b->tracks;
    uint16_t rest[2] = {0};
    for (size_t i = 0; i < tracks->count; i++) {
        struct ks_page_track *track = &tracks->list[i];
        if (ks_page_track_is_rest(track)) {
            rest[track->kind - KS_PAGE_REST_HOST] = (uint16_t)(i + 1);
        } else {
            *place_of(tracks, track) = (uint16_t)(i + 1);
        }
    }
    for (size_t i = 0; i < b->count; i++) {
        uint16_t *place = place_of(tracks, &b->found[i]);
        *place = *place != 0 ? *place : rest[!is_host(&b->found[i])];
    }
}

/* ------------------------------------------------------------------ names */

static void append_number(struct ks_text *text, const struct ks_view *view, const char *word,
                          const struct ks_track *track)
{
    ks_text_printf(text, "%s ", word);
    if (track->text.v != 0) {
        ks_text_append_str(text, ks_view_str(view, track->text));
    } else {
        ks_text_printf(text, "%lld", (long long)track->number);
    }
}

static void append_own_name(struct ks_text *text, const struct ks_view *view,
                            const struct ks_track *track)
{
    struct ks_str name = ks_view_str(view, track->name);
    if (text->len > 0 && ks_str_starts(name, (struct ks_str){text->ptr, text->len})) {
        ks_text_reset(text); /* Kineto calls a thread "thread 7 (python)" */
        ks_text_append_str(text, name);
    } else if (name.len > 0) {
        ks_text_append_str(text, KS_STR(": "));
        ks_text_append_str(text, name);
    }
}

static void append_name(struct builder *b, const struct ks_page_track *track)
{
    static const char *const endings[KS_PAGE_TRACK_KINDS] = {
        [KS_PAGE_ANNOTATIONS] = ", annotations", [KS_PAGE_WAITS] = ", waits"};
    struct ks_text *text = &b->text;
    if (track->kind == KS_PAGE_STEPS) {
        ks_text_append_str(text, KS_STR("steps"));
        return;
    }
    if (ks_page_track_is_rest(track)) {
        ks_text_printf(text, "%zu more %s", track->merged,
                       track->kind == KS_PAGE_REST_HOST ? "threads" : "streams");
        return;
    }
    const struct ks_track *of = ks_trace_track(b->view->trace, track->track);
    switch (of->kind) {
    case KS_TRACK_THREAD:
        append_number(text, b->view, "thread", of);
        append_own_name(text, b->view, of);
        break;
    case KS_TRACK_STREAM: {
        const struct ks_track *device = ks_trace_track(b->view->trace, of->parent);
        append_number(text, b->view, "GPU", device);
        append_number(text, b->view, ", stream", of);
        break;
    }
    case KS_TRACK_DEVICE: append_number(text, b->view, "GPU", of); break;
    case KS_TRACK_PROCESS:
    case KS_TRACK_ASYNC:
    case KS_TRACK_NONE: ks_text_append_str(text, KS_STR("overlapping spans")); break;
    }
    ks_text_append_str(text, ks_str_from(endings[track->kind] ? endings[track->kind] : ""));
}

/* "process 4711: python", or nothing for devices. */
static void append_process(struct builder *b, const struct ks_page_track *track)
{
    if (track->kind != KS_PAGE_THREAD && track->kind != KS_PAGE_ASYNC) {
        return;
    }
    const struct ks_track *of = ks_trace_track(b->view->trace, track->track);
    if (of->parent != 0) {
        const struct ks_track *process = ks_trace_track(b->view->trace, of->parent);
        append_number(&b->text, b->view, "process", process);
        append_own_name(&b->text, b->view, process);
    }
}

static enum ks_status keep_text(struct builder *b, struct ks_str *out, struct ks_err *err)
{
    struct ks_arena *arena = &b->tracks->arena;
    const char *copy = b->text.failed ? NULL : ks_arena_copy(arena, b->text.ptr, b->text.len);
    *out = (struct ks_str){copy, b->text.len};
    if (copy) {
        *out = ks_page_names_cut(arena, *out, NAME_LEN_MAX);
    }
    ks_text_reset(&b->text);
    return copy && out->ptr
               ? KS_OK
               : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot name tracks: no memory");
}

static enum ks_status name_tracks(struct builder *b, struct ks_err *err)
{
    for (size_t i = 0; i < b->tracks->count; i++) {
        struct ks_page_track *track = &b->tracks->list[i];
        append_name(b, track);
        KS_TRY(keep_text(b, &track->name, err));
        append_process(b, track);
        KS_TRY(keep_text(b, &track->process, err));
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ all of it */

static enum ks_status build(struct builder *b, struct ks_err *err)
{
    const struct ks_trace *trace = b->view->trace;
    struct ks_page_tracks *tracks = b->tracks;
    uint32_t count = ks_trace_track_count(trace);
    tracks->list = ks_alloc(KS_PAGE_TRACKS_MAX, sizeof(*tracks->list));
    tracks->places = ks_alloc((size_t)count * GPU_KINDS + 1, sizeof(*tracks->places));
    tracks->steps = ks_alloc((size_t)ks_trace_source_count(trace) + 1, sizeof(*tracks->steps));
    if (!tracks->list || !tracks->places || !tracks->steps) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep tracks: count=%u", count);
    }
    KS_TRY(add_steps(b, err));
    KS_TRY(add_threads(b, err));
    KS_TRY(add_streams(b, err));
    choose(b);
    set_places(b);
    return name_tracks(b, err);
}

enum ks_status ks_page_tracks_init(struct ks_page_tracks *tracks, const struct ks_view *view,
                                   struct ks_err *err)
{
    struct builder b = {.tracks = tracks, .view = view};
    *tracks = (struct ks_page_tracks){0};
    ks_arena_init(&tracks->arena);
    ks_text_init(&b.text);
    enum ks_status status = build(&b, err);
    ks_text_release(&b.text);
    ks_free(b.found);
    return status;
}

void ks_page_tracks_release(struct ks_page_tracks *tracks)
{
    for (size_t i = 0; i < tracks->count; i++) {
        ks_span_depths_release(&tracks->list[i].depths);
    }
    ks_arena_release(&tracks->arena);
    ks_free(tracks->list);
    ks_free(tracks->places);
    ks_free(tracks->steps);
    *tracks = (struct ks_page_tracks){0};
}
