/* Which GPU work a call waits for: waiting calls for what was launched before them, copies for
 * themselves, launches for room in a full queue. */
#include "analyze/replay_points.h"
#include "base/alloc.h"

enum {
    OWN_NS = 2000,      /* what a waiting call takes when nothing is left to wait for */
    TAIL_NS = 1000,     /* from the end of the work that is waited for */
    QUEUE_LENGTH = 500, /* a launch may wait when so much work is queued: CUDA takes 1024 */
    BLOCKED_NS_MIN = 100 * 1000, /* ... and takes at least that long */
    QUEUE_LENGTH_MAX = 4096,     /* looked at, on all streams together */
    STREAMS_MAX = 128,           /* looked at: a program has some ten */
};

/* Work launched so far on each stream. */
struct launched {
    const struct ks_replay *replay;
    uint32_t *last; /* by stream; KS_REPLAY_NO_WORK */
    size_t next;
};

static void launch_until(struct launched *launched, size_t end)
{
    while (launched->next < end) {
        uint32_t stream = launched->replay->works[launched->next].stream;
        launched->last[stream] = (uint32_t)launched->next++;
    }
}

static int64_t end_of(const struct ks_replay *replay, uint32_t work)
{
    return ks_replay_work_end(&replay->works[work]);
}

/* The later of both that ends until then; `best` may be KS_REPLAY_NO_WORK. */
static uint32_t later(const struct ks_replay *replay, uint32_t best, uint32_t work,
                      int64_t until_ns)
{
    bool is_better = end_of(replay, work) <= until_ns &&
                     (best == KS_REPLAY_NO_WORK || end_of(replay, work) > end_of(replay, best));
    return is_better ? work : best;
}

/* Of the work that was launched before, the last that ends before the call does. `*queued`: how
 * much had not ended when the call began. */
static uint32_t find_awaited(const struct launched *launched, int64_t call_ns, int64_t call_end_ns,
                             size_t *queued)
{
    const struct ks_replay *replay = launched->replay;
    size_t stream_count =
        replay->stream_count < STREAMS_MAX ? replay->stream_count : (size_t)STREAMS_MAX;
    uint32_t best = KS_REPLAY_NO_WORK;
    *queued = 0;
    for (size_t i = 0; i < stream_count; i++) {
        uint32_t work = launched->last[i];
        while (work != KS_REPLAY_NO_WORK && *queued < QUEUE_LENGTH_MAX) {
            best = later(replay, best, work, call_end_ns);
            if (end_of(replay, work) <= call_ns) {
                break;
            }
            work = replay->works[work].before;
            (*queued)++;
        }
    }
    return best;
}

/* What a call waits for that is there to launch. */
static uint32_t find_awaited_by_launch(const struct ks_replay_call *call,
                                       const struct launched *launched, int64_t call_ns,
                                       int64_t end_ns)
{
    uint32_t own = call->work_end - 1;
    if ((call->flags & KS_NAME_COPY) && end_of(launched->replay, own) <= end_ns) {
        return own;
    }
    if (call->own_ns < BLOCKED_NS_MIN) {
        return KS_REPLAY_NO_WORK;
    }
    size_t queued = 0;
    uint32_t awaited = find_awaited(launched, call_ns, end_ns, &queued);
    return queued >= QUEUE_LENGTH ? awaited : KS_REPLAY_NO_WORK;
}

static void set_wait(struct ks_replay_call *call, const struct launched *launched, int64_t call_ns)
{
    const struct ks_replay *replay = launched->replay;
    int64_t end_ns = ks_sum_add(call_ns, call->own_ns);
    size_t queued = 0;
    call->awaited = call->flags & KS_NAME_SYNC
                        ? find_awaited(launched, call_ns, end_ns, &queued)
                        : find_awaited_by_launch(call, launched, call_ns, end_ns);
    if (call->awaited == KS_REPLAY_NO_WORK) {
        return;
    }
    call->tail_ns = ks_sum_sub(end_ns, end_of(replay, call->awaited));
    if (end_of(replay, call->awaited) > call_ns) {
        call->own_ns = call->own_ns < OWN_NS ? call->own_ns : OWN_NS;
    } else {
        call->tail_ns = call->tail_ns < TAIL_NS ? call->tail_ns : TAIL_NS;
    }
}

enum ks_status ks_replay_set_waits(struct ks_replay_list *list, struct ks_err *err)
{
    const struct ks_replay *replay = list->replay;
    struct launched launched = {replay, ks_alloc(replay->stream_count + 1, sizeof(uint32_t)), 0};
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
            launch_until(&launched, is_sync ? call->work_end : call->work_begin);
            set_wait(call, &launched, list->items[i].at_ns);
            launch_until(&launched, call->work_end);
        }
    }
    ks_free(launched.last);
    return KS_OK;
}
