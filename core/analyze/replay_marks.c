/* Which operators a replay can leave out: those that read values or copy little, and what comes
 * directly before them to prepare that. */
#include <string.h>

#include "analyze/replay_points.h"

void ks_replay_mark_call(struct ks_replay_list *list, const struct ks_replay_call *call)
{
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
    list->items[begin].marks |= (uint8_t)marks;
    list->items[end].marks |= (uint8_t)marks;
}

/* Host operators, and for a read the one that computes the value. */
static void mark_preparing(struct ks_replay_list *list, unsigned marks)
{
    unsigned prepared = (marks & KS_REPLAY_READ ? (unsigned)KS_REPLAY_READ_PREPARED : 0u) |
                        (marks & KS_REPLAY_SMALL_COPY ? (unsigned)KS_REPLAY_SMALL_PREPARED : 0u);
    for (size_t i = list->recent_count; i > 0; i--) {
        const struct ks_replay_recent *recent = &list->recent[i - 1];
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

void ks_replay_mark_outermost(struct ks_replay_list *list, const struct ks_replay_row *row)
{
    if (list->op_marks) {
        mark(list, row->begin, row->end, list->op_marks);
        mark_preparing(list, list->op_marks);
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
