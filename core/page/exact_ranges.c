#include "page/exact_ranges.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "measure/sum.h"

enum { FINDINGS_MAX = 8, HALVINGS_MAX = 10, ROWS_MIN = 500 };

struct chooser {
    struct ks_exact_ranges *ranges;
    const struct ks_view *view;
    const struct ks_page_tracks *tracks;
    uint64_t rows_left;
};

/* ------------------------------------------------------------------ how many rows */

static enum ks_status count_lane(const struct chooser *c, enum ks_table_id table,
                                 const struct ks_lane *lane, const struct ks_exact_range *range,
                                 uint64_t *rows, struct ks_err *err)
{
    uint64_t first = 0;
    uint64_t end = 0;
    KS_TRY(ks_trace_row_find(c->view->trace, table, lane, range->start_ns, &first, err));
    KS_TRY(ks_trace_row_find(c->view->trace, table, lane, range->end_ns, &end, err));
    *rows += end - first;
    return KS_OK;
}

/* Rows that start in the range, on the tracks that are kept; of devices all. */
static enum ks_status count_rows(const struct chooser *c, const struct ks_exact_range *range,
                                 uint64_t *rows, struct ks_err *err)
{
    const struct ks_trace *trace = c->view->trace;
    size_t count = 0;
    *rows = 0;
    for (size_t i = 0; i < c->tracks->count; i++) {
        const struct ks_page_track *track = &c->tracks->list[i];
        if (track->kind == KS_PAGE_THREAD || track->kind == KS_PAGE_ASYNC) {
            const struct ks_lane *lane = ks_trace_lane_find(trace, KS_TABLE_slice, track->track);
            KS_TRY(count_lane(c, KS_TABLE_slice, lane, range, rows, err));
        }
    }
    const struct ks_lane *lanes = ks_trace_lanes(trace, KS_TABLE_gpu, &count);
    for (size_t i = 0; i < count; i++) {
        KS_TRY(count_lane(c, KS_TABLE_gpu, &lanes[i], range, rows, err));
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ adding a range */

/* What is left of [start, end) when the ranges there are are taken away: its longest piece. */
static void cut(const struct ks_exact_ranges *ranges, int64_t *start_ns, int64_t *end_ns)
{
    for (size_t i = 0; i < ranges->count; i++) {
        const struct ks_exact_range *range = &ranges->list[i];
        if (range->end_ns <= *start_ns || range->start_ns >= *end_ns) {
            continue;
        }
        if (range->start_ns - *start_ns > *end_ns - range->end_ns) {
            *end_ns = range->start_ns;
        } else {
            *start_ns = range->end_ns < *end_ns ? range->end_ns : *end_ns;
        }
    }
}

/* Adds the stretch, or as much of its beginning as there is room for. */
static enum ks_status add(struct chooser *c, int64_t start_ns, int64_t end_ns, const char *why,
                          struct ks_err *err)
{
    struct ks_exact_ranges *ranges = c->ranges;
    uint64_t rows = 0;
    cut(ranges, &start_ns, &end_ns);
    struct ks_exact_range range = {start_ns, end_ns, why};
    if (ranges->count == KS_EXACT_RANGES_MAX || c->rows_left < ROWS_MIN || start_ns >= end_ns) {
        return KS_OK;
    }
    for (int i = 0; i < HALVINGS_MAX; i++) {
        KS_TRY(count_rows(c, &range, &rows, err));
        if (rows <= c->rows_left) {
            ranges->list[ranges->count++] = range;
            c->rows_left -= rows;
            return KS_OK;
        }
        range.end_ns = start_ns + ks_sum_sub(range.end_ns, start_ns) / 2;
    }
    return KS_OK;
}

static enum ks_status add_step(struct chooser *c, const struct ks_step *step, const char *why,
                               struct ks_err *err)
{
    int64_t end_ns = ks_sum_add(step->start_ns, step->dur_ns);
    int64_t host_end_ns = ks_sum_add(step->host_start_ns, step->host_ns);
    return add(c, step->host_start_ns < step->start_ns ? step->host_start_ns : step->start_ns,
               host_end_ns > end_ns ? host_end_ns : end_ns, why, err);
}

/* ------------------------------------------------------------------ which are worth it */

static const struct ks_step *find_step(const struct ks_view *view, int64_t number, int64_t rank)
{
    const struct ks_facts *facts = view->facts;
    for (size_t i = 0; i < facts->step_count; i++) {
        const struct ks_step *step = &facts->steps[i];
        if (step->number == number &&
            (rank == KS_UNKNOWN || ks_view_rank(view, step->source) == rank)) {
            return step;
        }
    }
    return NULL;
}

/* The step that stands at this place in what findings name. */
static enum ks_status add_findings(struct chooser *c, size_t place, struct ks_err *err)
{
    const struct ks_findings *findings = c->view->findings;
    for (size_t i = 0; i < findings->count && i < FINDINGS_MAX; i++) {
        const struct ks_where *where = &findings->list[i].where;
        const struct ks_step *step =
            place < where->step_count ? find_step(c->view, where->steps[place], where->rank) : NULL;
        if (step) {
            KS_TRY(add_step(c, step, findings->list[i].rule->id, err));
        }
    }
    return KS_OK;
}

static int compare_duration(const void *left, const void *right)
{
    const struct ks_step *a = *(const struct ks_step *const *)left;
    const struct ks_step *b = *(const struct ks_step *const *)right;
    if (a->dur_ns != b->dur_ns) {
        return a->dur_ns < b->dur_ns ? -1 : 1;
    }
    return a < b ? -1 : a > b;
}

static enum ks_status add_steps(struct chooser *c, struct ks_err *err)
{
    const struct ks_facts *facts = c->view->facts;
    const struct ks_step **sorted = ks_alloc(facts->step_count + 1, sizeof(*sorted));
    size_t count = 0;
    if (!sorted) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot sort steps: no memory");
    }
    for (size_t i = 0; i < facts->step_count; i++) {
        if (ks_view_step_counts(c->view, &facts->steps[i])) {
            sorted[count++] = &facts->steps[i];
        }
    }
    enum ks_status status = KS_OK;
    if (count > 0) {
        const struct ks_step *first = sorted[0];
        qsort(sorted, count, sizeof(const struct ks_step *), compare_duration);
        status = add_step(c, sorted[count - 1], "slowest step", err);
        if (status == KS_OK) {
            status = add_step(c, sorted[count / 2], "median step", err);
        }
        if (status == KS_OK) {
            status = add_step(c, first, "first step", err);
        }
    }
    ks_free(sorted);
    return status;
}

static int compare_start(const void *left, const void *right)
{
    const struct ks_exact_range *a = left;
    const struct ks_exact_range *b = right;
    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

enum ks_status ks_exact_ranges_choose(struct ks_exact_ranges *ranges, const struct ks_view *view,
                                      const struct ks_page_tracks *tracks, uint64_t rows_max,
                                      struct ks_err *err)
{
    struct chooser c = {ranges, view, tracks, rows_max};
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    uint64_t rows = 0;
    *ranges = (struct ks_exact_ranges){0};
    ks_trace_span(view->trace, &start_ns, &end_ns);
    end_ns = ks_sum_add(end_ns, 1); /* a span of no length at the end is inside */
    const struct ks_exact_range whole = {start_ns, end_ns, NULL};
    KS_TRY(count_rows(&c, &whole, &rows, err));
    if (rows <= rows_max) {
        return add(&c, start_ns, end_ns, "whole trace", err);
    }
    KS_TRY(add_findings(&c, 0, err));
    KS_TRY(add_steps(&c, err));
    for (size_t place = 1; place < KS_FINDING_STEPS_MAX; place++) { /* while there is room */
        KS_TRY(add_findings(&c, place, err));
    }
    if (ranges->count == 0) { /* no steps: something must be there to look at */
        KS_TRY(add(&c, start_ns, end_ns, "beginning", err));
    }
    qsort(ranges->list, ranges->count, sizeof(ranges->list[0]), compare_start);
    return KS_OK;
}
