/* What recording rows took of the host's time: estimated from operators that do next to nothing. */
#include "analyze/replay_points.h"
#include "base/alloc.h"
#include "base/grow.h"
#include "measure/quantile.h"

enum {
    COSTS_MIN = 8,          /* fewer operators of a kind say nothing about their cost */
    COST_PERCENT = 45,      /* of all operators that only call another */
    COST_NS_DEFAULT = 3000, /* H100 hosts, torch 2.11 with shapes: 1.7 to 5 us */
    COST_NS_MAX = 20 * 1000,
};

/* As long as CUPTI, which traces the GPU, is in the driver, a launch takes 7 us where it took 2.5,
 * and what follows it gets slower, too: together about as much as this part of the recorded launch
 * times the factor that all costs have (four programs on an H200 host, torch 2.11). CUPTI stays
 * there when a profiler ends, so that steps of the same process have this cost as well; but
 * `kscope run` takes it out. */
static const double launch_part = 0.8;

/* A Python frame costs less to record than an operator: 1.3 us where that was 1.6. */
static const double frame_part = 0.7;

static enum ks_status add_cost(struct ks_replay_costs *costs, int64_t cost_ns, struct ks_err *err)
{
    KS_TRY(ks_grow(&costs->items, costs->count, &costs->capacity, sizeof(*costs->items),
                   "operators", err));
    costs->items[costs->count++] = cost_ns;
    return KS_OK;
}

enum ks_status ks_replay_note_cost(struct ks_replay_list *list, const struct ks_replay_row *row,
                                   struct ks_err *err)
{
    if (!list->items[row->begin].is_op || row->child_count != 1) {
        return KS_OK;
    }
    int64_t cost_ns = ks_sum_sub(ks_sum_sub(row->end_ns, row->start_ns), row->child_ns);
    if (ks_row_names_get(&list->scope->analyzer->names, row->name) & KS_NAME_PASSES) {
        KS_TRY(add_cost(&list->view_costs, cost_ns, err));
    }
    return add_cost(&list->costs, cost_ns, err);
}

enum ks_status ks_replay_note_launch(struct ks_replay_list *list, int64_t dur_ns,
                                     struct ks_err *err)
{
    return add_cost(&list->launch_costs, dur_ns, err);
}

int64_t ks_replay_launch_cost(struct ks_replay_list *list)
{
    struct ks_replay_costs *costs = &list->launch_costs;
    const struct ks_source *source =
        ks_trace_source(list->scope->analyzer->trace, list->scope->source);
    if (source->pid == 0 || costs->count == 0) {
        return 0;
    }
    double cost_ns = launch_part * (double)ks_quantile_median(costs->items, costs->count);
    return cost_ns < COST_NS_MAX ? (int64_t)cost_ns : COST_NS_MAX;
}

int64_t ks_replay_operator_cost(struct ks_replay_list *list)
{
    int64_t cost_ns = COST_NS_DEFAULT;
    if (list->view_costs.count >= COSTS_MIN) {
        cost_ns = ks_quantile_median(list->view_costs.items, list->view_costs.count);
    } else if (list->costs.count >= COSTS_MIN) {
        cost_ns = ks_quantile_rank(list->costs.items, list->costs.count,
                                   list->costs.count * COST_PERCENT / 100);
    }
    return cost_ns < 0 ? 0 : cost_ns > COST_NS_MAX ? COST_NS_MAX : cost_ns;
}

/* Time before and behind each row, up to its neighbours on its thread. */
static void find_rooms(const struct ks_replay_list *list, int64_t *room_ns,
                       const struct ks_replay_point **last)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct ks_replay_point *point = &list->items[i];
        const struct ks_replay_point *before = last[point->thread];
        if (point->kind == KS_REPLAY_STEP_END) {
            continue;
        }
        int64_t gap_ns = before ? ks_sum_sub(point->at_ns, before->at_ns) : 0;
        if (before && before->kind == KS_REPLAY_ROW_END) {
            room_ns[before->row] = ks_sum_add(room_ns[before->row], gap_ns);
        }
        if (point->kind == KS_REPLAY_ROW_BEGIN) {
            room_ns[point->row] = gap_ns;
        }
        last[point->thread] = point;
    }
}

static int64_t row_cost(const struct ks_replay_point *point, int64_t cost_ns, int64_t room_ns)
{
    if (point->kind != KS_REPLAY_ROW_BEGIN && point->kind != KS_REPLAY_ROW_END) {
        return 0;
    }
    if (point->is_frame) {
        return (int64_t)(frame_part * (double)cost_ns);
    }
    return room_ns < cost_ns ? room_ns : cost_ns;
}

/* The launch is a moment of its own; the time that it costs goes behind it. */
static int64_t launch_cost(const struct ks_replay_list *list, const struct ks_replay_point *point)
{
    if (point->kind != KS_REPLAY_CALL_END) {
        return 0;
    }
    const struct ks_replay_call *call = &list->calls[point->item];
    return call->work_begin < call->work_end ? list->replay->launch_cost_ns : 0;
}

enum ks_status ks_replay_set_costs(struct ks_replay_list *list, struct ks_err *err)
{
    size_t thread_count = list->scope->thread_count;
    int64_t *room_ns = ks_alloc((size_t)list->row_count + 1, sizeof(*room_ns));
    const struct ks_replay_point **last = ks_alloc(thread_count, sizeof(*last));
    enum ks_status status = KS_OK;
    if (room_ns && last) {
        find_rooms(list, room_ns, last);
        for (size_t i = 0; i < list->count; i++) {
            struct ks_replay_point *point = &list->items[i];
            int64_t row_ns = row_cost(point, list->replay->operator_cost_ns, room_ns[point->row]);
            point->cost_ns = (int32_t)(row_ns / 2 + launch_cost(list, point));
        }
    } else {
        status = ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: rows=%u",
                         list->row_count);
    }
    ks_free(room_ns);
    ks_free(last);
    return status;
}
