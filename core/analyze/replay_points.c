/* The host's moments of a replay: rows, and calls with the GPU work that they launch. */
#include "analyze/replay_points.h"

#include <string.h>

#include "analyze/lane_sweep.h"
#include "base/alloc.h"
#include "base/grow.h"
#include "base/sort_runs.h"

static enum ks_status add_point(struct ks_replay_list *list, const struct ks_replay_point *point,
                                struct ks_err *err)
{
    KS_TRY(ks_grow(&list->items, list->count, &list->capacity, sizeof(*list->items), "rows", err));
    list->items[list->count++] = *point;
    return KS_OK;
}

/* ------------------------------------------------------------ rows */

/* Adds the beginning; the end comes when the thread is past it, so that points are in order but for
 * rows that overlap. */
static enum ks_status open_row(struct ks_replay_list *list, struct ks_replay_row *row,
                               struct ks_replay_point *point, struct ks_err *err)
{
    point->at_ns = row->start_ns;
    point->row = list->row_count++;
    point->thread = list->thread;
    point->is_empty = row->end_ns == row->start_ns;
    row->begin = (uint32_t)list->count;
    KS_TRY(add_point(list, point, err));
    KS_TRY(ks_grow(&list->open, list->open_count, &list->open_capacity, sizeof(*row), "rows", err));
    if (row->is_aten && list->aten_depth++ == 0) {
        list->outermost = list->open_count;
    }
    list->open[list->open_count++] = *row;
    return KS_OK;
}

static enum ks_status add_end(struct ks_replay_list *list, struct ks_replay_row *row,
                              struct ks_err *err)
{
    struct ks_replay_point point = list->items[row->begin];
    point.at_ns = row->end_ns;
    point.kind++;
    row->end = (uint32_t)list->count;
    return add_point(list, &point, err);
}

static enum ks_status close_row(struct ks_replay_list *list, struct ks_replay_row *row,
                                struct ks_err *err)
{
    KS_TRY(add_end(list, row, err));
    if (list->items[row->begin].kind != KS_REPLAY_ROW_BEGIN) {
        return KS_OK;
    }
    if (list->open_count > 0) {
        struct ks_replay_row *parent = &list->open[list->open_count - 1];
        parent->child_count++;
        parent->child_ns = ks_sum_add(parent->child_ns, ks_sum_sub(row->end_ns, row->start_ns));
    }
    if (row->is_comm) {
        list->items[row->begin].marks |= KS_REPLAY_COLLECTIVE;
        list->items[row->end].marks |= KS_REPLAY_COLLECTIVE;
    }
    list->aten_depth -= row->is_aten;
    if (row->is_aten && list->aten_depth == 0) {
        ks_replay_mark_outermost(list, row);
    }
    return ks_replay_note_cost(list, row, err);
}

static enum ks_status close_rows(struct ks_replay_list *list, int64_t now_ns, struct ks_err *err)
{
    while (list->open_count > 0 && list->open[list->open_count - 1].end_ns <= now_ns) {
        struct ks_replay_row row = list->open[--list->open_count];
        KS_TRY(close_row(list, &row, err));
    }
    return KS_OK;
}

static enum ks_status add_row(struct ks_replay_list *list, const struct ks_slice_scan *scan,
                              size_t i, struct ks_err *err)
{
    unsigned flags = ks_row_names_get(&list->scope->analyzer->names, scan->col.name[i]);
    uint8_t category = scan->col.category[i];
    bool is_op = category == KS_CATEGORY_CPU_OP;
    bool is_loader = category != KS_CATEGORY_PYTHON && (flags & KS_NAME_LOADER);
    struct ks_replay_row row = {.start_ns = scan->col.start_ns[i],
                                .end_ns = ks_sum_add(scan->col.start_ns[i], scan->col.dur_ns[i]),
                                .name = scan->col.name[i],
                                .is_aten = is_op && !is_loader && (flags & KS_NAME_ATEN)};
    struct ks_replay_point point = {.kind =
                                        is_loader ? KS_REPLAY_LOADER_BEGIN : KS_REPLAY_ROW_BEGIN,
                                    .is_op = is_op,
                                    .is_frame = category == KS_CATEGORY_PYTHON};
    return open_row(list, &row, &point, err);
}

/* ------------------------------------------------------------ calls */

/* Is the work launched before the call? */
static bool is_before(const struct ks_replay_work *work, int64_t ns, uint32_t lane, int64_t corr)
{
    if (work->launch_ns != ns) {
        return work->launch_ns < ns;
    }
    return work->launch_lane != lane ? work->launch_lane < lane : work->corr < corr;
}

/* Work of the call: [begin, end). */
static void find_works(const struct ks_replay_list *list, int64_t ns, int64_t corr, uint32_t *begin,
                       uint32_t *end)
{
    const struct ks_replay *replay = list->replay;
    size_t low = 0;
    size_t high = replay->work_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_before(&replay->works[middle], ns, list->lane, corr)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (high = low; high < replay->work_count; high++) {
        struct ks_replay_work *work = &replay->works[high];
        if (work->launch_ns != ns || work->launch_lane != list->lane || work->corr != corr ||
            work->is_launched) {
            break;
        }
        work->is_launched = true;
    }
    *begin = (uint32_t)low;
    *end = (uint32_t)high;
}

/* Of a call that was cut off only the launch counts. */
static enum ks_status add_call(struct ks_replay_list *list, const struct ks_slice_scan *scan,
                               size_t i, bool is_cut, struct ks_err *err)
{
    struct ks_replay_call call = {.awaited = KS_REPLAY_NO_WORK};
    enum ks_memory_call memory = KS_MEMORY_CALL_NONE;
    if (!is_cut) {
        call.own_ns = scan->col.dur_ns[i];
        call.flags = ks_row_names_get(&list->scope->analyzer->names, scan->col.name[i]);
        memory = ks_row_names_memory_call(&list->scope->analyzer->names, scan->col.name[i]);
        call.is_memory = memory != KS_MEMORY_CALL_NONE;
    }
    find_works(list, scan->col.start_ns[i], scan->col.corr[i], &call.work_begin, &call.work_end);
    if (call.work_begin == call.work_end && !(call.flags & KS_NAME_SYNC) && !call.is_memory) {
        return KS_OK;
    }
    KS_TRY(
        ks_grow(&list->calls, list->call_count, &list->call_capacity, sizeof(call), "calls", err));
    list->calls[list->call_count] = call;
    ks_replay_mark_call(list, &call);
    if ((call.flags & KS_NAME_LAUNCH) && !(call.flags & KS_NAME_GRAPH)) {
        KS_TRY(ks_replay_note_launch(list, call.own_ns, err));
    }
    struct ks_replay_row row = {.start_ns = scan->col.start_ns[i],
                                .end_ns = ks_sum_add(scan->col.start_ns[i], call.own_ns)};
    bool is_alone = memory == KS_MEMORY_CALL_GIVES && list->aten_depth == 0;
    struct ks_replay_point point = {.item = (uint32_t)list->call_count++,
                                    .kind = KS_REPLAY_CALL_BEGIN,
                                    .marks = is_alone ? KS_REPLAY_BEFORE_FREE : 0};
    return open_row(list, &row, &point, err);
}

/* ------------------------------------------------------------ threads */

static enum ks_status note_row(struct ks_replay_list *list, const struct ks_slice_scan *scan,
                               size_t i, struct ks_err *err)
{
    bool is_cut = scan->col.flags[i] & (KS_SLICE_UNFINISHED | KS_SLICE_ASYNC);
    switch (scan->col.category[i]) {
    case KS_CATEGORY_CPU_OP:
    case KS_CATEGORY_USER_ANNOTATION:
    case KS_CATEGORY_PYTHON:
        if (is_cut) {
            return KS_OK;
        }
        KS_TRY(close_rows(list, scan->col.start_ns[i], err));
        return add_row(list, scan, i, err);
    case KS_CATEGORY_RUNTIME:
    case KS_CATEGORY_DRIVER:
        KS_TRY(close_rows(list, scan->col.start_ns[i], err));
        return add_call(list, scan, i, is_cut, err);
    default: return KS_OK;
    }
}

static bool is_full(const struct ks_replay_list *list)
{
    return list->count > list->scope->limits.points;
}

static enum ks_status scan_lane(struct ks_replay_list *list, const struct ks_lane *lane,
                                struct ks_err *err)
{
    const struct ks_replay_scope *scope = list->scope;
    struct ks_slice_scan scan;
    enum ks_status status;
    bool is_past = false;
    ks_slice_scan_open(&scan, scope->analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_corr) | KS_COLUMN_BIT(KS_SLICE_COL_name) |
                           KS_COLUMN_BIT(KS_SLICE_COL_category) | KS_COLUMN_BIT(KS_SLICE_COL_flags),
                       lane->row_begin, lane->row_end);
    while (!is_past && (status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK && !is_past; i++) {
            is_past = scan.col.start_ns[i] >= scope->end_ns || is_full(list);
            if (!is_past && scan.col.start_ns[i] >= scope->start_ns) {
                status = note_row(list, &scan, i, err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    if (!is_past && status != KS_END) {
        return status;
    }
    status = close_rows(list, INT64_MAX, err);
    list->recent_count = 0;
    return status;
}

static enum ks_status scan_lanes(struct ks_replay_list *list, struct ks_err *err)
{
    const struct ks_replay_scope *scope = list->scope;
    size_t count = 0;
    const struct ks_lane *lanes =
        ks_lane_sweep_lanes(scope->analyzer->trace, KS_TABLE_slice, scope->source, &count);
    for (size_t i = 0; i < count && !is_full(list); i++) {
        uint16_t thread = scope->thread_of[ks_track_range_index(&scope->tracks, lanes[i].track)];
        if (thread > 0) {
            list->thread = (uint16_t)(thread - 1);
            list->lane = lanes[i].track;
            KS_TRY(scan_lane(list, &lanes[i], err));
        }
    }
    return KS_OK;
}

static enum ks_status add_steps(struct ks_replay_list *list, struct ks_err *err)
{
    const struct ks_replay_scope *scope = list->scope;
    for (size_t i = 0; i < scope->step_count; i++) {
        struct ks_replay_point point = {
            .at_ns = ks_sum_add(scope->steps[i].host_start_ns, scope->steps[i].host_ns),
            .row = list->row_count++,
            .item = (uint32_t)i,
            .kind = KS_REPLAY_STEP_END};
        KS_TRY(add_point(list, &point, err));
    }
    return KS_OK;
}

/* ------------------------------------------------------------ order */

/* At the same moment: ends, ends of steps, beginnings, ends of rows that take no time. */
static int class_of(const struct ks_replay_point *point)
{
    switch ((enum ks_replay_kind)point->kind) {
    case KS_REPLAY_ROW_BEGIN:
    case KS_REPLAY_LOADER_BEGIN:
    case KS_REPLAY_CALL_BEGIN: return 2;
    case KS_REPLAY_STEP_END: return 1;
    case KS_REPLAY_ROW_END:
    case KS_REPLAY_LOADER_END:
    case KS_REPLAY_CALL_END: break;
    }
    return point->is_empty ? 3 : 0;
}

/* Of beginnings the outer ones come first, of ends the inner ones. */
static int compare_points(const void *left, const void *right)
{
    const struct ks_replay_point *a = left;
    const struct ks_replay_point *b = right;
    if (a->at_ns != b->at_ns) {
        return a->at_ns < b->at_ns ? -1 : 1;
    }
    int class = class_of(a) - class_of(b);
    if (class != 0) {
        return class;
    }
    int order = (a->row > b->row) - (a->row < b->row);
    return class_of(a) == 2 ? order : -order;
}

static enum ks_status keep(const struct ks_replay_list *list, struct ks_err *err)
{
    struct ks_arena *arena = &list->scope->analyzer->facts->arena;
    struct ks_replay *replay = list->replay;
    replay->points = ks_new(arena, struct ks_replay_point, list->count + 1);
    replay->calls = ks_new(arena, struct ks_replay_call, list->call_count + 1);
    if (!replay->points || !replay->calls) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: rows=%u",
                       list->row_count);
    }
    memcpy(replay->points, list->items, list->count * sizeof(*list->items));
    replay->point_count = list->count;
    if (list->call_count > 0) {
        memcpy(replay->calls, list->calls, list->call_count * sizeof(*list->calls));
    }
    replay->call_count = list->call_count;
    return KS_OK;
}

static enum ks_status settle(struct ks_replay_list *list, struct ks_err *err)
{
    KS_TRY(add_steps(list, err));
    list->replay->operator_cost_ns = ks_replay_operator_cost(list);
    list->replay->launch_cost_ns = ks_replay_launch_cost(list);
    list->replay->thread_count = list->scope->thread_count;
    if (!ks_sort_runs(list->items, list->count, sizeof(*list->items), compare_points)) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: rows=%u",
                       list->row_count);
    }
    KS_TRY(ks_replay_set_costs(list, err));
    KS_TRY(ks_replay_set_waits(list, err));
    return keep(list, err);
}

enum ks_status ks_replay_add_points(struct ks_replay_scope *scope, struct ks_replay *replay,
                                    bool *fits, struct ks_err *err)
{
    struct ks_replay_list list = {.scope = scope, .replay = replay};
    enum ks_status status = scan_lanes(&list, err);
    *fits = !is_full(&list);
    if (status == KS_OK && *fits) {
        status = settle(&list, err);
    }
    ks_free(list.items);
    ks_free(list.calls);
    ks_free(list.open);
    ks_free(list.costs.items);
    ks_free(list.view_costs.items);
    ks_free(list.launch_costs.items);
    return status;
}
