/* The host's moments of a replay: rows with what recording them took, and calls with what they
 * launch and wait for. */
#include <stdlib.h>

#include "analyze/call_walk.h"
#include "analyze/lane_sweep.h"
#include "analyze/replay_model.h"
#include "base/alloc.h"
#include "base/grow.h"
#include "measure/quantile.h"
#include "measure/sum.h"

enum {
    RECENT_MAX = 8, /* outermost operators that are remembered, to find preparing ones */
    NO_POINT = UINT32_MAX,
    COSTS_MIN = 8,          /* fewer operators of a kind say nothing about their cost */
    COST_PERCENT = 45,      /* of all operators that only call another */
    COST_NS_DEFAULT = 3000, /* H100 hosts, torch 2.11 with shapes: 1.7 to 5 us */
    COST_NS_MAX = 20 * 1000,
    OWN_NS = 2000,      /* what a waiting call takes when nothing is left to wait for */
    TAIL_NS = 1000,     /* from the end of the work that is waited for */
    QUEUE_LENGTH = 500, /* a launch may wait when so much work is queued: CUDA takes 1024 */
    BLOCKED_NS_MIN = 100 * 1000, /* ... and takes at least that long */
    QUEUE_LENGTH_MAX = 4096,
};

/* A Python frame costs less to record than an operator: 1.3 us where that was 1.6. */
static const double frame_part = 0.7;

struct open_row {
    int64_t end_ns;
    uint32_t begin; /* points */
    uint32_t end;
    uint32_t name;
    uint32_t child_count;
    int64_t child_ns;
    bool is_op;
    bool is_aten;
};

/* An outermost operator of aten, after it ended. */
struct recent {
    uint32_t begin;
    uint32_t end;
    bool launches;
};

struct point_list {
    struct ks_replay_scope *scope;
    struct ks_replay *replay;
    struct ks_replay_point *items;
    size_t count;
    size_t capacity;
    struct ks_replay_call *calls;
    size_t call_count;
    size_t call_capacity;
    struct open_row *open;
    size_t open_count;
    size_t open_capacity;
    size_t aten_depth; /* operators of aten that are open */
    size_t outermost;  /* the outermost of them */
    struct recent recent[RECENT_MAX];
    size_t recent_count;
    bool launches;     /* the outermost operator that is open does */
    unsigned op_marks; /* what makes it one that can be left out */
    int64_t *costs;    /* of operators that only call another: their time without it */
    size_t cost_count;
    size_t cost_capacity;
    int64_t *view_costs; /* the same of operators that only make a view */
    size_t view_cost_count;
    size_t view_cost_capacity;
    uint32_t row_count;
    uint16_t thread;
    uint32_t lane;
};

/* ------------------------------------------------------------ what recording takes */

/* Do nothing but call another such operator. */
static bool makes_view(struct ks_str parent)
{
    static const char *const names[] = {"aten::t", "aten::transpose"};
    return ks_str_equal(parent, ks_str_from(names[0])) ||
           ks_str_equal(parent, ks_str_from(names[1]));
}

static enum ks_status note_cost(struct point_list *list, const struct open_row *row, int64_t dur_ns,
                                struct ks_err *err)
{
    if (!row->is_op || row->child_count != 1) {
        return KS_OK;
    }
    int64_t cost_ns = dur_ns - row->child_ns;
    if (makes_view(ks_trace_str(list->scope->analyzer->trace, (struct ks_strid){row->name}))) {
        KS_TRY(ks_grow(&list->view_costs, list->view_cost_count, &list->view_cost_capacity,
                       sizeof(int64_t), "operators", err));
        list->view_costs[list->view_cost_count++] = cost_ns;
    }
    KS_TRY(ks_grow(&list->costs, list->cost_count, &list->cost_capacity, sizeof(int64_t),
                   "operators", err));
    list->costs[list->cost_count++] = cost_ns;
    return KS_OK;
}

static int64_t operator_cost(struct point_list *list)
{
    int64_t cost_ns = COST_NS_DEFAULT;
    if (list->view_cost_count >= COSTS_MIN) {
        cost_ns = ks_quantile_median(list->view_costs, list->view_cost_count);
    } else if (list->cost_count >= COSTS_MIN) {
        cost_ns =
            ks_quantile_rank(list->costs, list->cost_count, list->cost_count * COST_PERCENT / 100);
    }
    return cost_ns < 0 ? 0 : cost_ns > COST_NS_MAX ? COST_NS_MAX : cost_ns;
}

/* ------------------------------------------------------------ operators that can be left out */

static void mark(struct point_list *list, uint32_t begin, uint32_t end, unsigned marks)
{
    list->items[begin].marks |= (uint8_t)marks;
    list->items[end].marks |= (uint8_t)marks;
}

/* Marks what comes directly before the operator that was closed last: host operators, and for a
 * read the one that computes the value. */
static void mark_preparing(struct point_list *list, unsigned marks)
{
    unsigned prepared = (marks & KS_REPLAY_READ ? (unsigned)KS_REPLAY_READ_PREPARED : 0u) |
                        (marks & KS_REPLAY_SMALL_COPY ? (unsigned)KS_REPLAY_SMALL_PREPARED : 0u);
    for (size_t i = list->recent_count; i > 0; i--) {
        const struct recent *recent = &list->recent[i - 1];
        bool is_taken = list->items[recent->begin].marks != 0;
        if (is_taken || (recent->launches && !(marks & KS_REPLAY_READ))) {
            return;
        }
        mark(list, recent->begin, recent->end, prepared);
        list->items[recent->end].joins_next = true;
        if (recent->launches) {
            return;
        }
    }
}

static void close_outermost(struct point_list *list, const struct open_row *row)
{
    if (list->op_marks) {
        mark(list, row->begin, row->end, list->op_marks);
        mark_preparing(list, list->op_marks);
        list->recent_count = 0;
    }
    if (list->recent_count == RECENT_MAX) {
        memmove(list->recent, list->recent + 1, (RECENT_MAX - 1) * sizeof(*list->recent));
        list->recent_count--;
    }
    list->recent[list->recent_count++] = (struct recent){row->begin, row->end, list->launches};
    list->launches = false;
    list->op_marks = 0;
}

static const struct open_row *outermost(const struct point_list *list)
{
    return list->aten_depth > 0 ? &list->open[list->outermost] : NULL;
}

/* ------------------------------------------------------------ rows */

static enum ks_status add_point(struct point_list *list, const struct ks_replay_point *point,
                                struct ks_err *err)
{
    KS_TRY(ks_grow(&list->items, list->count, &list->capacity, sizeof(*list->items), "rows", err));
    list->items[list->count++] = *point;
    return KS_OK;
}

/* Adds both ends. */
static enum ks_status add_points(struct point_list *list, enum ks_replay_kind begin,
                                 int64_t start_ns, int64_t dur_ns, uint32_t item, uint8_t category,
                                 struct ks_err *err)
{
    struct ks_replay_point point = {.at_ns = start_ns,
                                    .row = list->row_count++,
                                    .item = item,
                                    .thread = list->thread,
                                    .kind = (uint8_t)begin,
                                    .is_empty = dur_ns == 0,
                                    .is_op = category == KS_CATEGORY_CPU_OP,
                                    .is_frame = category == KS_CATEGORY_PYTHON};
    KS_TRY(add_point(list, &point, err));
    point.at_ns = ks_sum_add(start_ns, dur_ns);
    point.kind = (uint8_t)(begin + 1);
    return add_point(list, &point, err);
}

static enum ks_status close_rows(struct point_list *list, int64_t now_ns, struct ks_err *err)
{
    while (list->open_count > 0 && list->open[list->open_count - 1].end_ns <= now_ns) {
        struct open_row row = list->open[--list->open_count];
        int64_t dur_ns = row.end_ns - list->items[row.begin].at_ns;
        KS_TRY(note_cost(list, &row, dur_ns, err));
        if (list->open_count > 0) {
            struct open_row *parent = &list->open[list->open_count - 1];
            parent->child_count++;
            parent->child_ns = ks_sum_add(parent->child_ns, dur_ns);
        }
        list->aten_depth -= row.is_aten;
        if (row.is_aten && list->aten_depth == 0) {
            close_outermost(list, &row);
        }
    }
    return KS_OK;
}

static enum ks_status open_row(struct point_list *list, const struct ks_slice_scan *scan, size_t i,
                               struct ks_err *err)
{
    unsigned flags = ks_row_names_get(&list->scope->analyzer->names, scan->col.name[i]);
    uint8_t category = scan->col.category[i];
    bool is_op = category == KS_CATEGORY_CPU_OP;
    bool is_loader = category != KS_CATEGORY_PYTHON && (flags & KS_NAME_LOADER);
    struct open_row row = {.end_ns = ks_sum_add(scan->col.start_ns[i], scan->col.dur_ns[i]),
                           .begin = (uint32_t)list->count,
                           .end = (uint32_t)list->count + 1,
                           .name = scan->col.name[i],
                           .is_op = is_op,
                           .is_aten = is_op && (flags & KS_NAME_ATEN)};
    KS_TRY(add_points(list, is_loader ? KS_REPLAY_LOADER_BEGIN : KS_REPLAY_ROW_BEGIN,
                      scan->col.start_ns[i], scan->col.dur_ns[i], 0, category, err));
    if (is_loader) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&list->open, list->open_count, &list->open_capacity, sizeof(row), "rows", err));
    if (row.is_aten && list->aten_depth++ == 0) {
        list->outermost = list->open_count;
    }
    list->open[list->open_count++] = row;
    return KS_OK;
}

/* First work launched at or after (ns, lane). */
static size_t first_work(const struct ks_replay *replay, int64_t ns, uint32_t lane)
{
    size_t begin = 0;
    size_t end = replay->work_count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        const struct ks_replay_work *work = &replay->works[middle];
        if (work->launch_ns < ns || (work->launch_ns == ns && work->launch_lane < lane)) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

static void mark_call(struct point_list *list, const struct ks_replay_call *call, unsigned flags)
{
    const struct open_row *op = outermost(list);
    if (!op) {
        return;
    }
    bool is_read = ks_row_names_get(&list->scope->analyzer->names, op->name) & KS_NAME_READS;
    list->launches = list->launches || call->work_end > call->work_begin;
    if (is_read && (flags & KS_NAME_SYNC)) {
        list->op_marks |= KS_REPLAY_READ;
    }
    for (uint32_t i = call->work_begin; i < call->work_end && !is_read; i++) {
        list->op_marks |= list->replay->works[i].copy_mark;
    }
}

static enum ks_status add_call(struct point_list *list, const struct ks_slice_scan *scan, size_t i,
                               struct ks_err *err)
{
    const struct ks_replay *replay = list->replay;
    unsigned flags = ks_row_names_get(&list->scope->analyzer->names, scan->col.name[i]);
    int64_t start_ns = scan->col.start_ns[i];
    size_t begin = first_work(replay, start_ns, list->lane);
    size_t end = begin;
    while (end < replay->work_count && replay->works[end].launch_ns == start_ns &&
           replay->works[end].launch_lane == list->lane) {
        end++;
    }
    if (begin == end && !(flags & KS_NAME_SYNC)) {
        return KS_OK;
    }
    struct ks_replay_call call = {.work_begin = (uint32_t)begin,
                                  .work_end = (uint32_t)end,
                                  .awaited = KS_REPLAY_NO_WORK,
                                  .own_ns = scan->col.dur_ns[i],
                                  .flags = flags};
    KS_TRY(
        ks_grow(&list->calls, list->call_count, &list->call_capacity, sizeof(call), "calls", err));
    list->calls[list->call_count] = call;
    mark_call(list, &call, flags);
    return add_points(list, KS_REPLAY_CALL_BEGIN, start_ns, scan->col.dur_ns[i],
                      (uint32_t)list->call_count++, scan->col.category[i], err);
}

static enum ks_status note_row(struct point_list *list, const struct ks_slice_scan *scan, size_t i,
                               struct ks_err *err)
{
    if (scan->col.flags[i] & (KS_SLICE_UNFINISHED | KS_SLICE_ASYNC)) {
        return KS_OK;
    }
    switch (scan->col.category[i]) {
    case KS_CATEGORY_CPU_OP:
    case KS_CATEGORY_USER_ANNOTATION:
    case KS_CATEGORY_PYTHON:
        KS_TRY(close_rows(list, scan->col.start_ns[i], err));
        return open_row(list, scan, i, err);
    case KS_CATEGORY_RUNTIME:
    case KS_CATEGORY_DRIVER:
        KS_TRY(close_rows(list, scan->col.start_ns[i], err));
        return add_call(list, scan, i, err);
    default: return KS_OK;
    }
}

static enum ks_status scan_lane(struct point_list *list, const struct ks_lane *lane,
                                struct ks_err *err)
{
    const struct ks_replay_scope *scope = list->scope;
    struct ks_slice_scan scan;
    enum ks_status status;
    bool is_past = false;
    ks_slice_scan_open(&scan, scope->analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_category) |
                           KS_COLUMN_BIT(KS_SLICE_COL_flags),
                       lane->row_begin, lane->row_end);
    while (!is_past && (status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK && !is_past; i++) {
            is_past = scan.col.start_ns[i] >= scope->end_ns || list->count >= KS_REPLAY_POINTS_MAX;
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

static enum ks_status scan_lanes(struct point_list *list, struct ks_err *err)
{
    const struct ks_replay_scope *scope = list->scope;
    size_t count = 0;
    const struct ks_lane *lanes =
        ks_lane_sweep_lanes(scope->analyzer->trace, KS_TABLE_slice, scope->source, &count);
    for (size_t i = 0; i < count; i++) {
        uint16_t thread = scope->thread_of[lanes[i].track];
        if (thread > 0) {
            list->thread = (uint16_t)(thread - 1);
            list->lane = lanes[i].track;
            KS_TRY(scan_lane(list, &lanes[i], err));
        }
    }
    return KS_OK;
}

static enum ks_status add_steps(struct point_list *list, struct ks_err *err)
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

/* ------------------------------------------------------------ order, costs, waits */

static bool is_end(const struct ks_replay_point *point)
{
    return point->kind != KS_REPLAY_ROW_BEGIN && point->kind != KS_REPLAY_LOADER_BEGIN &&
           point->kind != KS_REPLAY_CALL_BEGIN;
}

/* At the same moment: ends, the inner ones first; beginnings, the outer ones first; ends of rows
 * that take no time. */
static int compare_points(const void *left, const void *right)
{
    const struct ks_replay_point *a = left;
    const struct ks_replay_point *b = right;
    if (a->at_ns != b->at_ns) {
        return a->at_ns < b->at_ns ? -1 : 1;
    }
    int class_a = !is_end(a) ? 1 : a->is_empty ? 2 : 0;
    int class_b = !is_end(b) ? 1 : b->is_empty ? 2 : 0;
    if (class_a != class_b) {
        return class_a - class_b;
    }
    int order = (a->row > b->row) - (a->row < b->row);
    return class_a == 1 ? order : -order;
}

static bool has_cost(const struct ks_replay_point *point)
{
    return point->kind == KS_REPLAY_ROW_BEGIN || point->kind == KS_REPLAY_ROW_END;
}

/* A row cannot have cost more than what lies between it and its neighbours on its thread. */
static enum ks_status set_costs(struct point_list *list, struct ks_err *err)
{
    size_t thread_count = list->scope->thread_count;
    int64_t *room_ns = ks_alloc((size_t)list->row_count + 1, sizeof(*room_ns));
    const struct ks_replay_point **last = ks_alloc(thread_count, sizeof(*last));
    enum ks_status status = KS_OK;
    if (room_ns && last) {
        for (size_t i = 0; i < list->count; i++) {
            const struct ks_replay_point *point = &list->items[i];
            const struct ks_replay_point *before = last[point->thread];
            int64_t gap_ns = before ? point->at_ns - before->at_ns : 0;
            if (before && before->kind == KS_REPLAY_ROW_END) {
                room_ns[before->row] = ks_sum_add(room_ns[before->row], gap_ns);
            }
            if (point->kind == KS_REPLAY_ROW_BEGIN) {
                room_ns[point->row] = gap_ns;
            }
            last[point->thread] = point;
        }
        for (size_t i = 0; i < list->count; i++) {
            struct ks_replay_point *point = &list->items[i];
            int64_t cost_ns = list->replay->operator_cost_ns;
            if (point->is_frame) {
                cost_ns = (int64_t)(frame_part * (double)cost_ns);
            } else if (room_ns[point->row] < cost_ns) {
                cost_ns = room_ns[point->row];
            }
            point->cost_ns = has_cost(point) ? (int32_t)(cost_ns / 2) : 0;
        }
    } else {
        status = ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: rows=%u",
                         list->row_count);
    }
    ks_free(room_ns);
    ks_free(last);
    return status;
}

/* Work launched so far on each stream. */
struct launched {
    uint32_t *last; /* by stream */
    size_t next;
};

static void launch_until(struct launched *launched, const struct ks_replay *replay, size_t end)
{
    while (launched->next < end) {
        launched->last[replay->works[launched->next].stream] = (uint32_t)launched->next;
        launched->next++;
    }
}

static int64_t end_of(const struct ks_replay *replay, uint32_t work)
{
    return ks_sum_add(replay->works[work].start_ns, replay->works[work].dur_ns);
}

/* Of the work that was launched before, the last that ends before the call does. `*queued`: how
 * much had not ended when the call began. */
static uint32_t find_awaited(const struct launched *launched, const struct ks_replay *replay,
                             int64_t call_ns, int64_t call_end_ns, size_t *queued)
{
    uint32_t best = KS_REPLAY_NO_WORK;
    *queued = 0;
    for (size_t i = 0; i < replay->stream_count; i++) {
        size_t passed = 0;
        uint32_t work = launched->last[i];
        for (; work != KS_REPLAY_NO_WORK && passed < QUEUE_LENGTH_MAX; passed++) {
            if (end_of(replay, work) <= call_end_ns &&
                (best == KS_REPLAY_NO_WORK || end_of(replay, work) > end_of(replay, best))) {
                best = work;
            }
            if (end_of(replay, work) <= call_ns) {
                break;
            }
            work = replay->works[work].before;
        }
        *queued += passed;
    }
    return best;
}

static void set_wait(struct ks_replay_call *call, const struct ks_replay *replay,
                     const struct launched *launched, int64_t call_ns)
{
    int64_t end_ns = ks_sum_add(call_ns, call->own_ns);
    bool launches = call->work_end > call->work_begin;
    size_t queued = 0;
    uint32_t awaited = find_awaited(launched, replay, call_ns, end_ns, &queued);
    if (launches && !(call->flags & KS_NAME_SYNC)) {
        bool is_blocked = queued >= QUEUE_LENGTH && call->own_ns >= BLOCKED_NS_MIN;
        bool is_copy = call->flags & KS_NAME_COPY;
        uint32_t own = call->work_end - 1;
        awaited = is_copy && end_of(replay, own) <= end_ns ? own
                  : is_blocked                             ? awaited
                                                           : KS_REPLAY_NO_WORK;
    }
    call->awaited = awaited;
    if (awaited == KS_REPLAY_NO_WORK) {
        return;
    }
    int64_t tail_ns = end_ns - end_of(replay, awaited);
    if (end_of(replay, awaited) > call_ns) {
        call->own_ns = call->own_ns < OWN_NS ? call->own_ns : OWN_NS;
        call->tail_ns = tail_ns;
    } else {
        call->tail_ns = tail_ns < TAIL_NS ? tail_ns : TAIL_NS;
    }
}

static enum ks_status set_waits(struct point_list *list, struct ks_err *err)
{
    const struct ks_replay *replay = list->replay;
    struct launched launched = {ks_alloc(replay->stream_count + 1, sizeof(uint32_t)), 0};
    if (!launched.last) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: streams=%zu",
                       replay->stream_count);
    }
    for (size_t i = 0; i < replay->stream_count; i++) {
        launched.last[i] = KS_REPLAY_NO_WORK;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].kind == KS_REPLAY_CALL_BEGIN) {
            struct ks_replay_call *call = &list->calls[list->items[i].item];
            bool is_sync = call->flags & KS_NAME_SYNC; /* waits for its own work, too */
            launch_until(&launched, replay, is_sync ? call->work_end : call->work_begin);
            set_wait(call, replay, &launched, list->items[i].at_ns);
            launch_until(&launched, replay, call->work_end);
        }
    }
    ks_free(launched.last);
    return KS_OK;
}

static enum ks_status keep(struct point_list *list, struct ks_err *err)
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

static enum ks_status settle(struct point_list *list, struct ks_err *err)
{
    list->replay->operator_cost_ns = operator_cost(list);
    list->replay->thread_count = list->scope->thread_count;
    qsort(list->items, list->count, sizeof(*list->items), compare_points);
    KS_TRY(set_costs(list, err));
    KS_TRY(set_waits(list, err));
    return keep(list, err);
}

enum ks_status ks_replay_add_points(struct ks_replay_scope *scope, struct ks_replay *replay,
                                    struct ks_err *err)
{
    struct point_list list = {.scope = scope, .replay = replay};
    enum ks_status status = scan_lanes(&list, err);
    if (status == KS_OK) {
        status = add_steps(&list, err);
    }
    if (status == KS_OK) {
        status = settle(&list, err);
    }
    ks_free(list.items);
    ks_free(list.calls);
    ks_free(list.open);
    ks_free(list.costs);
    ks_free(list.view_costs);
    return status;
}
