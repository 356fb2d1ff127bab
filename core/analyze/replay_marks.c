/* Which operators a replay can leave out: those that read values or copy little, and what comes
 * directly before them to prepare that. */
#include <string.h>

#include "analyze/replay_points.h"

enum { COMM_DEPTH_MAX = 64 }; /* rows between such an operator and its call; in torch some five */

/* The outermost operator around the call that is there to start a collective. */
static void mark_collective(struct ks_replay_list *list)
{
    static const char *const begins[] = {
        "c10d::", "_c10d_functional::", "c10d_functional::", "record_param_comms"};
    size_t at = list->open_count > COMM_DEPTH_MAX ? list->open_count - COMM_DEPTH_MAX : 0;
    for (; at < list->open_count; at++) {
        struct ks_replay_row *row = &list->open[at];
        struct ks_str name =
            ks_trace_str(list->scope->analyzer->trace, (struct ks_strid){row->name});
        for (size_t i = 0; i < KS_COUNT_OF(begins); i++) {
            if (list->items[row->begin].is_op && ks_str_starts(name, ks_str_from(begins[i]))) {
                row->is_comm = true;
                return;
            }
        }
    }
}

void ks_replay_mark_call(struct ks_replay_list *list, const struct ks_replay_call *call)
{
    for (uint32_t i = call->work_begin; i < call->work_end; i++) {
        if (list->replay->works[i].is_collective) {
            mark_collective(list);
            break;
        }
    }
    if (list->aten_depth == 0) {
        return;
    }
    const struct ks_replay_row *op = &list->open[list->outermost];
    bool reads = ks_row_names_get(&list->scope->analyzer->names, op->name) & KS_NAME_READS;
    list->launches = list->launches || call->work_end > call->work_begin;
    if (reads && (call->flags & KS_NAME_SYNC)) {
        list->op_marks |= KS_REPLAY_READ;
    }
    for (uint32_t i = call->work_begin; i < call->work_end && !reads; i++) {
        list->op_marks |= list->replay->works[i].copy_mark;
    }
}

static void mark(struct ks_replay_list *list, uint32_t begin, uint32_t end, unsigned marks)
{
    list->items[begin].marks |= (uint16_t)marks;
    list->items[end].marks |= (uint16_t)marks;
}

/* Host operators, and for a read the one that computes the value; the operator that was closed
 * begins at `next_ns`. Code of its own between two operators belongs to none of them. */
static void mark_preparing(struct ks_replay_list *list, int64_t next_ns, unsigned marks)
{
    unsigned prepared = (marks & KS_REPLAY_READ ? (unsigned)KS_REPLAY_READ_PREPARED : 0u) |
                        (marks & KS_REPLAY_SMALL_COPY ? (unsigned)KS_REPLAY_SMALL_PREPARED : 0u);
    for (size_t i = list->recent_count; i > 0; i--) {
        const struct ks_replay_recent *recent = &list->recent[i - 1];
        unsigned taken = list->items[recent->begin].marks;
        bool is_taken = taken != 0;
        if (!is_taken && recent->launches && !(marks & KS_REPLAY_READ)) {
            return;
        }
        struct ks_replay_point *end = &list->items[recent->end];
        bool is_near = ks_sum_sub(next_ns, end->at_ns) < KS_REPLAY_GAP_NS_MIN;
        bool is_same = !is_taken || (taken & (marks | prepared));
        end->joins_next = end->joins_next || (is_near && is_same);
        next_ns = list->items[recent->begin].at_ns;
        if (is_taken) {
            return;
        }
        mark(list, recent->begin, recent->end, prepared);
        if (recent->launches) {
            return;
        }
    }
}

/* Round trip of this thread that holds the row, or NULL. */
static const struct ks_trip_span *find_trip(const struct ks_replay_list *list,
                                            const struct ks_replay_row *row)
{
    const struct ks_facts *facts = list->scope->analyzer->facts;
    size_t begin = 0;
    size_t end = facts->trip_span_count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        const struct ks_trip_span *span = &facts->trip_spans[middle];
        bool is_before =
            span->lane != list->lane ? span->lane < list->lane : span->from_ns <= row->start_ns;
        begin = is_before ? middle + 1 : begin;
        end = is_before ? end : middle;
    }
    const struct ks_trip_span *span = begin > 0 ? &facts->trip_spans[begin - 1] : NULL;
    return span && span->lane == list->lane && row->end_ns <= span->until_ns ? span : NULL;
}

static void mark_trip(struct ks_replay_list *list, const struct ks_replay_row *row)
{
    const struct ks_trip_span *trip = find_trip(list, row);
    if (trip) {
        mark(list, row->begin, row->end, KS_REPLAY_ROUND_TRIP);
        list->items[row->end].joins_next = row->end_ns < trip->until_ns;
    }
}

void ks_replay_mark_outermost(struct ks_replay_list *list, const struct ks_replay_row *row)
{
    mark_trip(list, row);
    if (list->op_marks) {
        mark(list, row->begin, row->end, list->op_marks);
        mark_preparing(list, row->start_ns, list->op_marks);
        list->recent_count = 0;
    }
    if (list->recent_count == KS_REPLAY_RECENT_MAX) {
        memmove(list->recent, list->recent + 1, (KS_REPLAY_RECENT_MAX - 1) * sizeof(*list->recent));
        list->recent_count--;
    }
    list->recent[list->recent_count++] =
        (struct ks_replay_recent){row->begin, row->end, list->launches};
    list->launches = false;
    list->op_marks = 0;
}
