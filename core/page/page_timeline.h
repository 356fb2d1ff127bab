/* The block `timeline` of a page: what ran when, on all tracks at one resolution and in some
 * stretches span by span. docs/formats/page.md describes it. Gathered in one pass over the rows,
 * written later: what can fail for the trace has failed before. */
#ifndef KS_PAGE_PAGE_TIMELINE_H
#define KS_PAGE_PAGE_TIMELINE_H

#include "export/row_filter.h"
#include "page/exact_ranges.h"
#include "page/page_curves.h"
#include "page/page_names.h"
#include "page/page_rows.h"
#include "page/span_blocks.h"

enum { KS_REST_PARTS = 4096 };

/* A span as it is. */
struct ks_exact_span {
    struct ks_page_span span;
    uint16_t range;
};

/* From a call to the GPU work that it launched. */
struct ks_page_flow {
    int64_t from_ns;
    int64_t to_ns;
    uint16_t from_track;
    uint16_t to_track;
};

/* Spans of the rest of the tracks, which come in no order: one block for each stretch. */
struct ks_rest_block {
    int64_t start_ns;
    int64_t end_ns;
    int64_t longest_ns;
    uint64_t count;
    uint32_t name;
};

struct ks_page_timeline {
    const struct ks_view *view;
    struct ks_row_filter filter;
    int64_t start_ns;
    int64_t end_ns;
    struct ks_page_tracks tracks;
    struct ks_exact_ranges ranges;
    struct ks_page_names names;
    struct ks_span_blocks blocks;
    size_t *first_block; /* by track */
    struct ks_rest_block *rest[2];
    int64_t rest_ns;             /* length of a stretch */
    struct ks_exact_span *spans; /* as they came; of each track and range by start */
    size_t span_count;
    size_t span_capacity;
    struct ks_page_flow *flows;
    size_t flow_count;
    size_t flow_capacity;
    struct ks_page_curves counters;
    size_t range_at;           /* of the lane under way: ranges before it have ended */
    struct ks_page_rows *rows; /* the caller's, filled on the way; NULL: nobody asks */
};

/* `timeline` is to be released after an error, too. `rows`, when it is not NULL, gets the place of
 * each row. */
enum ks_status ks_page_timeline_init(struct ks_page_timeline *timeline, const struct ks_view *view,
                                     struct ks_page_rows *rows, struct ks_err *err) KS_MUST_CHECK;
void ks_page_timeline_release(struct ks_page_timeline *timeline);
/* Items in its arrays: tells whether it is worth compressing. */
size_t ks_page_timeline_size(const struct ks_page_timeline *timeline);
enum ks_status ks_page_timeline_write(const struct ks_page_timeline *timeline, ks_write_cb write,
                                      void *user, struct ks_err *err) KS_MUST_CHECK;

/* From the launch of row `i` to its start on `track`; false when there is none to be drawn. */
bool ks_page_timeline_flow(const struct ks_page_timeline *timeline, const struct ks_gpu_cols *col,
                           size_t i, uint16_t track, struct ks_page_flow *flow);
/* The object `flows`; `column` has room for one number of each. */
void ks_page_flows_write(const struct ks_page_flow *flows, size_t count, int64_t *column,
                         struct ks_json *json);

#endif
