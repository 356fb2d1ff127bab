/* Writes the block `timeline`: columns of integers, starts as differences. */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/err.h"
#include "measure/sum.h"
#include "page/page_level.h"
#include "page/page_timeline.h"
#include "show/json_writer.h"

struct writer {
    const struct ks_page_timeline *t;
    struct ks_json json;
    struct ks_page_level level;
    size_t *span_first; /* by track and range: where its spans begin in ... */
    uint32_t *span_order;
};

/* ------------------------------------------------------------------ levels */

static void fill_blocks(struct writer *w, size_t track)
{
    const struct ks_page_timeline *t = w->t;
    w->level.count = 0;
    for (size_t i = t->first_block[track]; i < t->first_block[track + 1]; i++) {
        const struct ks_span_block *block = &t->blocks.list[i];
        w->level.rows[w->level.count++] =
            (struct ks_page_row){block->start_ns, ks_sum_sub(block->end_ns, block->start_ns),
                                 block->depth, block->name, block->count};
    }
}

static void fill_rest(struct writer *w, const struct ks_rest_block *blocks)
{
    w->level.count = 0;
    for (size_t i = 0; i < KS_REST_PARTS; i++) {
        if (blocks[i].count > 0) {
            w->level.rows[w->level.count++] = (struct ks_page_row){
                blocks[i].start_ns, ks_sum_sub(blocks[i].end_ns, blocks[i].start_ns), 0,
                blocks[i].name, (int64_t)blocks[i].count};
        }
    }
}

static void write_whole(struct writer *w, size_t place)
{
    const struct ks_page_timeline *t = w->t;
    const struct ks_page_track *track = &t->tracks.list[place];
    int64_t resolution_ns = t->blocks.resolution_ns;
    if (ks_page_track_is_rest(track)) {
        fill_rest(w, t->rest[track->kind == KS_PAGE_REST_GPU]);
        resolution_ns = t->rest_ns;
    } else {
        fill_blocks(w, place);
    }
    ks_page_level_write(&w->level, &w->json, t->start_ns, t->end_ns, resolution_ns);
}

static void write_exact(struct writer *w, size_t place, size_t range)
{
    const struct ks_page_timeline *t = w->t;
    size_t slot = place * KS_EXACT_RANGES_MAX + range;
    w->level.count = 0;
    for (size_t i = w->span_first[slot]; i < w->span_first[slot + 1]; i++) {
        const struct ks_page_span *span = &t->spans[w->span_order[i]].span;
        w->level.rows[w->level.count++] =
            (struct ks_page_row){span->start_ns, span->dur_ns, span->depth, span->name, 1};
    }
    if (w->level.count > 0) {
        ks_page_level_write(&w->level, &w->json, t->ranges.list[range].start_ns,
                            t->ranges.list[range].end_ns, 0);
    }
}

/* ------------------------------------------------------------------ tracks */

static void write_track(struct writer *w, size_t place)
{
    const struct ks_page_track *track = &w->t->tracks.list[place];
    struct ks_json *json = &w->json;
    bool is_rest = ks_page_track_is_rest(track);
    int64_t rank = is_rest ? KS_UNKNOWN : ks_view_rank(w->t->view, track->source);
    ks_json_object_begin(json, NULL);
    ks_json_int(json, "id", (int64_t)place);
    ks_json_text(json, "kind", ks_page_track_word(track->kind));
    ks_json_str(json, "name", track->name);
    if (rank != KS_UNKNOWN) {
        ks_json_int(json, "rank", rank);
    } else {
        ks_json_null(json, "rank");
    }
    ks_json_str(json, "process", track->process);
    ks_json_int(json, "depth_max", (int64_t)track->depth_max + 1);
    ks_json_int(json, "events", (int64_t)track->events);
    ks_json_array_begin(json, "levels");
    write_whole(w, place);
    /* Who keeps the places of rows gives tiles instead. */
    for (size_t r = 0; !w->t->rows && r < w->t->ranges.count; r++) {
        write_exact(w, place, r);
    }
    ks_json_array_end(json);
    ks_json_object_end(json);
}

static void write_ranges(struct writer *w)
{
    struct ks_json *json = &w->json;
    ks_json_array_begin(json, "ranges");
    for (size_t i = 0; i < w->t->ranges.count; i++) {
        const struct ks_exact_range *range = &w->t->ranges.list[i];
        ks_json_object_begin(json, NULL);
        ks_json_int(json, "start_ns", range->start_ns);
        ks_json_int(json, "end_ns", range->end_ns);
        ks_json_text(json, "why", range->why);
        ks_json_object_end(json);
    }
    ks_json_array_end(json);
}

void ks_page_flows_write(const struct ks_page_flow *flows, size_t count, int64_t *column,
                         struct ks_json *json)
{
    static const char *const keys[] = {"from_track", "from_ns", "to_track", "to_ns"};
    ks_json_object_begin(json, "flows");
    for (size_t k = 0; k < KS_COUNT_OF(keys); k++) {
        for (size_t i = 0; i < count; i++) {
            const struct ks_page_flow *flow = &flows[i];
            column[i] = k == 0   ? flow->from_track
                        : k == 1 ? flow->from_ns
                        : k == 2 ? flow->to_track
                                 : flow->to_ns;
        }
        ks_json_ints(json, keys[k], column, count);
    }
    ks_json_object_end(json);
}

/* ------------------------------------------------------------------ the block */

static size_t slot_of(const struct ks_exact_span *span)
{
    return (size_t)span->span.track * KS_EXACT_RANGES_MAX + span->range;
}

/* Brings the spans of each track and range together, in the order in which they came. */
static enum ks_status order_spans(struct writer *w, struct ks_err *err)
{
    const struct ks_page_timeline *t = w->t;
    size_t slots = t->tracks.count * KS_EXACT_RANGES_MAX;
    size_t most = t->span_count > t->blocks.count ? t->span_count : t->blocks.count;
    most = most > KS_REST_PARTS ? most : KS_REST_PARTS;
    w->level.rows = ks_alloc(most, sizeof(*w->level.rows));
    w->level.column = ks_alloc(most + t->flow_count, sizeof(*w->level.column));
    w->span_first = ks_alloc(slots + 2, sizeof(*w->span_first));
    w->span_order = ks_alloc(t->span_count + 1, sizeof(*w->span_order));
    if (!w->level.rows || !w->level.column || !w->span_first || !w->span_order) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot sort spans: count=%zu",
                       t->span_count);
    }
    /* Counts are two slots ahead, so that filling moves each up to where the next one begins. */
    for (size_t i = 0; i < t->span_count; i++) {
        w->span_first[slot_of(&t->spans[i]) + 2]++;
    }
    for (size_t s = 2; s < slots + 2; s++) {
        w->span_first[s] += w->span_first[s - 1];
    }
    for (size_t i = 0; i < t->span_count; i++) {
        w->span_order[w->span_first[slot_of(&t->spans[i]) + 1]++] = (uint32_t)i;
    }
    return KS_OK;
}

static enum ks_status write_document(struct writer *w, struct ks_err *err)
{
    const struct ks_page_timeline *t = w->t;
    struct ks_json *json = &w->json;
    char origin[24];
    (void)snprintf(origin, sizeof(origin), "%" PRId64, ks_trace_origin_ns(t->view->trace));
    ks_json_object_begin(json, NULL);
    ks_json_text(json, "origin_ns", origin);
    ks_json_int(json, "start_ns", t->start_ns);
    ks_json_int(json, "end_ns", t->end_ns);
    write_ranges(w);
    ks_page_names_write(&t->names, json, "strings");
    ks_json_int(json, "names_left_out", (int64_t)t->names.left_out);
    ks_json_array_begin(json, "tracks");
    for (size_t i = 0; i < t->tracks.count; i++) {
        write_track(w, i);
    }
    ks_json_array_end(json);
    KS_TRY(ks_page_curves_write_counters(&t->counters, t->view, json, err));
    ks_json_int(json, "samples_left_out", (int64_t)t->counters.left_out);
    ks_page_flows_write(t->flows, t->flow_count, w->level.column, json);
    ks_json_object_end(json);
    return ks_json_finish(json, err);
}

enum ks_status ks_page_timeline_write(const struct ks_page_timeline *timeline, ks_write_cb write,
                                      void *user, struct ks_err *err)
{
    struct writer *w = ks_alloc(1, sizeof(*w));
    if (!w) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write the timeline: no memory");
    }
    w->t = timeline;
    ks_json_init_for_markup(&w->json, 0, write, user);
    enum ks_status status = order_spans(w, err);
    if (status == KS_OK) {
        status = write_document(w, err);
    }
    ks_free(w->level.rows);
    ks_free(w->level.column);
    ks_free(w->span_first);
    ks_free(w->span_order);
    ks_free(w);
    return status;
}
