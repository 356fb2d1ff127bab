#include "page/page_rows.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"

static size_t stretches_of(const struct ks_lane *lane)
{
    return (size_t)((lane->row_end - lane->row_begin + KS_PAGE_STRETCH_ROWS - 1) /
                    KS_PAGE_STRETCH_ROWS);
}

static enum ks_status init_table(struct ks_page_table_rows *table, const struct ks_trace *trace,
                                 enum ks_table_id id, struct ks_err *err)
{
    uint64_t rows = ks_trace_rows(trace, id);
    size_t count = 0;
    table->lanes = ks_trace_lanes(trace, id, &table->lane_count);
    table->depths = ks_alloc((size_t)rows + 1, 1);
    table->first_stretch = ks_alloc(table->lane_count + 1, sizeof(*table->first_stretch));
    for (size_t i = 0; table->first_stretch && i < table->lane_count; i++) {
        table->first_stretch[i] = count;
        count += stretches_of(&table->lanes[i]);
        table->first_stretch[i + 1] = count;
    }
    table->stretches = ks_alloc(count + 1, sizeof(*table->stretches));
    if (!table->depths || !table->first_stretch || !table->stretches) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep places of rows: count=%llu",
                       (unsigned long long)rows);
    }
    memset(table->depths, KS_PAGE_ROW_HIDDEN, (size_t)rows + 1);
    return KS_OK;
}

enum ks_status ks_page_rows_init(struct ks_page_rows *rows, const struct ks_view *view,
                                 struct ks_err *err)
{
    *rows = (struct ks_page_rows){0};
    KS_TRY(init_table(&rows->slice, view->trace, KS_TABLE_slice, err));
    KS_TRY(init_table(&rows->gpu, view->trace, KS_TABLE_gpu, err));
    rows->step_depths = ks_alloc(view->facts->step_count + 1, 1);
    return rows->step_depths
               ? KS_OK
               : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep places of steps: no memory");
}

static void release_table(struct ks_page_table_rows *table)
{
    ks_free(table->depths);
    ks_free(table->stretches);
    ks_free(table->first_stretch);
}

void ks_page_rows_release(struct ks_page_rows *rows)
{
    release_table(&rows->slice);
    release_table(&rows->gpu);
    ks_free(rows->step_depths);
    *rows = (struct ks_page_rows){0};
}

void ks_page_rows_note(struct ks_page_table_rows *table, size_t lane, uint64_t row,
                       int64_t start_ns, int64_t end_ns, uint8_t depth)
{
    uint64_t in_lane = row - table->lanes[lane].row_begin;
    struct ks_page_stretch *stretch =
        &table->stretches[table->first_stretch[lane] + (size_t)(in_lane / KS_PAGE_STRETCH_ROWS)];
    if (in_lane % KS_PAGE_STRETCH_ROWS == 0) {
        *stretch = (struct ks_page_stretch){start_ns, INT64_MIN};
    }
    if (depth != KS_PAGE_ROW_HIDDEN && end_ns > stretch->reach_ns) {
        stretch->reach_ns = end_ns;
    }
    table->depths[row] = depth;
}

bool ks_page_rows_next(struct ks_page_walk *walk)
{
    const struct ks_page_table_rows *table = walk->table;
    const struct ks_lane *lane = &table->lanes[walk->lane];
    const struct ks_page_stretch *stretches = &table->stretches[table->first_stretch[walk->lane]];
    size_t count = table->first_stretch[walk->lane + 1] - table->first_stretch[walk->lane];
    size_t at = walk->at;
    while (at < count && stretches[at].start_ns < walk->end_ns &&
           stretches[at].reach_ns < walk->start_ns) {
        at++;
    }
    size_t first = at;
    while (at < count && stretches[at].start_ns < walk->end_ns &&
           stretches[at].reach_ns >= walk->start_ns) {
        at++;
    }
    walk->at = at;
    walk->row_begin = lane->row_begin + (uint64_t)first * KS_PAGE_STRETCH_ROWS;
    walk->row_end = lane->row_begin + (uint64_t)at * KS_PAGE_STRETCH_ROWS;
    walk->row_end = walk->row_end < lane->row_end ? walk->row_end : lane->row_end;
    return at > first;
}
