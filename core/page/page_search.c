#include "page/page_search.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "measure/sum.h"
#include "show/json_writer.h"

/* A search under way. Twice as many spans as are wanted are kept, then the later half goes. */
struct search {
    const struct ks_page_timeline *t;
    unsigned char *is_wanted; /* by string id */
    struct ks_page_span *spans;
    size_t count;
    size_t limit;
    bool is_cut;
    struct ks_page_names names;
    int64_t *column;
    struct ks_json json;
};

/* ------------------------------------------------------------------ names */

static char lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter + 'a' - 'A') : letter;
}

static bool starts_with(const char *at, struct ks_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (lower(at[i]) != lower(text.ptr[i])) {
            return false;
        }
    }
    return true;
}

static bool holds(struct ks_str name, struct ks_str text)
{
    for (size_t i = 0; i + text.len <= name.len; i++) {
        if (starts_with(name.ptr + i, text)) {
            return true;
        }
    }
    return false;
}

static enum ks_status find_names(struct search *s, struct ks_str text, struct ks_err *err)
{
    const struct ks_trace *trace = s->t->view->trace;
    uint32_t count = ks_trace_str_count(trace);
    s->is_wanted = ks_alloc((size_t)count + 1, 1);
    if (!s->is_wanted) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot search: names=%u", count);
    }
    for (uint32_t id = 0; id < count; id++) {
        s->is_wanted[id] = holds(ks_trace_str(trace, (struct ks_strid){id}), text);
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ spans */

static int compare_spans(const void *left, const void *right)
{
    const struct ks_page_span *a = left;
    const struct ks_page_span *b = right;
    if (a->start_ns != b->start_ns) {
        return a->start_ns < b->start_ns ? -1 : 1;
    }
    if (a->track != b->track) {
        return a->track < b->track ? -1 : 1;
    }
    if (a->depth != b->depth) {
        return a->depth < b->depth ? -1 : 1;
    }
    return a->name != b->name ? (a->name < b->name ? -1 : 1) : 0;
}

static void cut(struct search *s)
{
    if (s->count > 0) {
        qsort(s->spans, s->count, sizeof(*s->spans), compare_spans);
    }
    s->is_cut = s->is_cut || s->count > s->limit;
    s->count = s->count < s->limit ? s->count : s->limit;
}

static void keep(struct search *s, const struct ks_page_span *span)
{
    if (s->count == 2 * s->limit) {
        cut(s);
    }
    s->spans[s->count++] = *span;
}

static void search_steps(struct search *s)
{
    const struct ks_facts *facts = s->t->view->facts;
    for (size_t i = 0; i < facts->step_count; i++) {
        const struct ks_step *step = &facts->steps[i];
        if (s->is_wanted[step->name.v]) {
            struct ks_page_span span = {step->start_ns, step->dur_ns, step->name.v,
                                        ks_page_tracks_steps(&s->t->tracks, step->source),
                                        s->t->rows->step_depths[i]};
            keep(s, &span);
        }
    }
}

static enum ks_status search_lane(struct search *s, const struct ks_lane *lane, struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    uint16_t track = ks_page_tracks_host(&s->t->tracks, lane->track);
    const uint8_t *depths = s->t->rows->slice.depths;
    ks_slice_scan_open(&scan, s->t->view->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            uint8_t depth = depths[scan.row + i];
            if (s->is_wanted[scan.col.name[i]] && depth != KS_PAGE_ROW_HIDDEN) {
                struct ks_page_span span = {scan.col.start_ns[i], scan.col.dur_ns[i],
                                            scan.col.name[i], track, depth};
                keep(s, &span);
            }
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static void search_gpu_rows(struct search *s, const struct ks_gpu_scan *scan)
{
    const uint8_t *depths = s->t->rows->gpu.depths;
    for (size_t i = 0; i < scan->count; i++) {
        uint8_t depth = depths[scan->row + i];
        if (s->is_wanted[scan->col.name[i]] && depth != KS_PAGE_ROW_HIDDEN) {
            uint32_t stream = scan->col.stream[i] != 0 ? scan->col.stream[i] : scan->col.lane[i];
            enum ks_category category = (enum ks_category)scan->col.category[i];
            uint16_t track =
                ks_page_tracks_gpu(&s->t->tracks, stream, ks_page_tracks_gpu_kind(category));
            struct ks_page_span span = {scan->col.start_ns[i], scan->col.dur_ns[i],
                                        scan->col.name[i], track, depth};
            keep(s, &span);
        }
    }
}

static enum ks_status search_gpu(struct search *s, struct ks_err *err)
{
    const struct ks_trace *trace = s->t->view->trace;
    struct ks_gpu_scan scan;
    enum ks_status status;
    ks_gpu_scan_open(&scan, trace,
                     KS_COLUMN_BIT(KS_GPU_COL_lane) | KS_COLUMN_BIT(KS_GPU_COL_start_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_dur_ns) | KS_COLUMN_BIT(KS_GPU_COL_stream) |
                         KS_COLUMN_BIT(KS_GPU_COL_name) | KS_COLUMN_BIT(KS_GPU_COL_category),
                     0, ks_trace_rows(trace, KS_TABLE_gpu));
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        search_gpu_rows(s, &scan);
    }
    ks_gpu_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

/* ------------------------------------------------------------------ the document */

static enum ks_status set_names(struct search *s, struct ks_err *err)
{
    for (size_t i = 0; i < s->count; i++) {
        uint32_t *name = &s->spans[i].name;
        struct ks_str text = ks_view_str(s->t->view, (struct ks_strid){*name});
        KS_TRY(ks_page_names_find(&s->names, *name, text, name, err));
    }
    return KS_OK;
}

static int64_t value_of(const struct ks_page_span *span, size_t field)
{
    switch (field) {
    case 0: return span->track;
    case 1: return span->start_ns;
    case 2: return span->dur_ns;
    case 3: return span->depth;
    default: return span->name;
    }
}

static enum ks_status write_document(struct search *s, ks_write_cb write, void *user,
                                     struct ks_err *err)
{
    static const char *const keys[] = {"track", "start_ns", "dur", "depth", "name"};
    struct ks_json *json = &s->json;
    ks_json_init_for_markup(json, 0, write, user);
    ks_json_object_begin(json, NULL);
    ks_json_bool(json, "is_cut", s->is_cut);
    ks_page_names_write(&s->names, json, "strings");
    for (size_t k = 0; k < KS_COUNT_OF(keys); k++) {
        for (size_t i = 0; i < s->count; i++) {
            s->column[i] = value_of(&s->spans[i], k);
        }
        ks_json_ints(json, keys[k], s->column, s->count);
    }
    ks_json_object_end(json);
    return ks_json_finish(json, err);
}

static enum ks_status run(struct search *s, struct ks_str text, ks_write_cb write, void *user,
                          struct ks_err *err)
{
    const struct ks_page_table_rows *table = &s->t->rows->slice;
    s->spans = ks_alloc(2 * s->limit, sizeof(*s->spans));
    s->column = ks_alloc(s->limit, sizeof(*s->column));
    if (!s->spans || !s->column) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot search: limit=%zu", s->limit);
    }
    KS_TRY(find_names(s, text, err));
    search_steps(s);
    for (size_t lane = 0; lane < table->lane_count; lane++) {
        KS_TRY(search_lane(s, &table->lanes[lane], err));
    }
    KS_TRY(search_gpu(s, err));
    cut(s);
    KS_TRY(set_names(s, err));
    return write_document(s, write, user, err);
}

enum ks_status ks_page_search_write(const struct ks_page_timeline *timeline, struct ks_str text,
                                    size_t limit, ks_write_cb write, void *user, struct ks_err *err)
{
    KS_ASSERT(limit > 0);
    if (text.len == 0 || text.len > KS_PAGE_SEARCH_TEXT_MAX) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot search for a text of %zu bytes",
                       text.len);
    }
    struct search *s = ks_alloc(1, sizeof(*s));
    if (!s) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot search: no memory");
    }
    s->t = timeline;
    s->limit = limit;
    ks_page_names_init(&s->names, true);
    enum ks_status status = run(s, text, write, user, err);
    ks_page_names_release(&s->names);
    ks_free(s->is_wanted);
    ks_free(s->spans);
    ks_free(s->column);
    ks_free(s);
    return status;
}
