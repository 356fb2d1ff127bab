/* What held each piece of GPU work when it was recorded: its launch, its stream, or another one. */
#include "analyze/replay_model.h"
#include "base/alloc.h"
#include "base/sort_runs.h"
#include "measure/quantile.h"

enum {
    STREAM_GAP_NS_MAX = 5 * 1000, /* work that starts so soon after the last waited for it */
    OTHER_GAP_NS_MAX = 10 * 1000, /* the same of work on another stream */
    OTHER_BEATS_NS = 3 * 1000,    /* ... if it explains the start better by this much */
    LAUNCH_DELAY_NS = 8 * 1000,   /* when no launch meets an empty stream: H100, torch 2.11 */
    STREAM_GAP_NS = 1500,
    LAUNCH_DELAY_PERCENT = 20,
    OTHER_STREAMS_MAX = 128, /* more are not looked at: a program has some ten */
};

/* ------------------------------------------------------------ launch and stream */

struct stream {
    bool is_used;
    int64_t end_ns; /* of all its work so far */
    uint32_t last;  /* work that it got last, in order of launch; KS_REPLAY_NO_WORK */
};

/* Each work starts after all that was launched before it on its stream; less than no time after, if
 * they overlapped. */
static void measure(struct ks_replay_work *work, uint32_t index, struct stream *stream)
{
    work->is_first = !stream->is_used;
    work->before = stream->last;
    work->launch_delay_ns = ks_sum_sub(work->start_ns, work->launch_ns);
    work->stream_delay_ns = work->is_first ? 0 : ks_sum_sub(work->start_ns, stream->end_ns);
    int64_t end_ns = ks_replay_work_end(work);
    stream->end_ns = work->is_first || end_ns > stream->end_ns ? end_ns : stream->end_ns;
    stream->is_used = true;
    stream->last = index;
}

static enum ks_status measure_all(struct ks_replay_work *works, size_t count,
                                  const int64_t *free_ns, size_t stream_count, struct ks_err *err)
{
    struct stream *streams = ks_alloc(stream_count + 1, sizeof(*streams));
    if (!streams) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: streams=%zu",
                       stream_count);
    }
    for (size_t i = 0; i < stream_count; i++) {
        streams[i] = (struct stream){free_ns[i] != KS_TIME_NONE, free_ns[i], KS_REPLAY_NO_WORK};
    }
    for (size_t i = 0; i < count; i++) {
        measure(&works[i], (uint32_t)i, &streams[works[i].stream]);
    }
    ks_free(streams);
    return KS_OK;
}

/* ------------------------------------------------------------ other streams */

struct started {
    int64_t start_ns;
    uint32_t work;
};

static int compare_started(const void *left, const void *right)
{
    const struct started *a = left;
    const struct started *b = right;
    if (a->start_ns != b->start_ns) {
        return a->start_ns < b->start_ns ? -1 : 1;
    }
    return (a->work > b->work) - (a->work < b->work);
}

/* Work of another stream that ends shortly before this starts; the stream itself and the launch
 * are asked first. What is launched later cannot be waited for. `latest`, by stream: the work that
 * started before this and ends last, + 1. */
static void find_other(struct ks_replay_work *works, uint32_t index, const uint32_t *latest,
                       size_t stream_count)
{
    struct ks_replay_work *work = &works[index];
    int64_t known_ns = work->launch_delay_ns;
    if (!work->is_first && work->stream_delay_ns < known_ns) {
        known_ns = work->stream_delay_ns;
    }
    int64_t best_ns = OTHER_GAP_NS_MAX;
    work->other = KS_REPLAY_NO_WORK;
    for (size_t i = 0; i < stream_count && known_ns >= OTHER_BEATS_NS; i++) {
        if (i == work->stream || latest[i] == 0) {
            continue;
        }
        int64_t gap_ns = ks_sum_sub(work->start_ns, ks_replay_work_end(&works[latest[i] - 1]));
        if (gap_ns >= 0 && gap_ns < best_ns) {
            best_ns = gap_ns;
            work->other = latest[i] - 1;
        }
    }
    work->other_delay_ns = best_ns;
    if (best_ns + OTHER_BEATS_NS > known_ns ||
        (work->other != KS_REPLAY_NO_WORK && work->other >= index)) {
        work->other = KS_REPLAY_NO_WORK;
    }
}

static void find_others(struct ks_replay_work *works, const struct started *order, size_t count,
                        uint32_t *latest, size_t stream_count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t index = order[i].work;
        find_other(works, index, latest, stream_count);
        size_t stream = works[index].stream;
        if (stream < stream_count &&
            (latest[stream] == 0 ||
             ks_replay_work_end(&works[index]) >= ks_replay_work_end(&works[latest[stream] - 1]))) {
            latest[stream] = index + 1;
        }
    }
}

/* In order of start. */
static enum ks_status find_all_others(struct ks_replay_work *works, size_t count,
                                      size_t stream_count, struct ks_err *err)
{
    uint32_t latest[OTHER_STREAMS_MAX] = {0};
    struct started *order = ks_alloc(count, sizeof(*order));
    if (!order) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: works=%zu", count);
    }
    for (size_t i = 0; i < count; i++) {
        order[i] = (struct started){works[i].start_ns, (uint32_t)i};
    }
    bool is_sorted = ks_sort_runs(order, count, sizeof(*order), compare_started);
    if (is_sorted) {
        find_others(works, order, count, latest,
                    stream_count < OTHER_STREAMS_MAX ? stream_count : OTHER_STREAMS_MAX);
    }
    ks_free(order);
    return is_sorted
               ? KS_OK
               : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: works=%zu", count);
}

/* ------------------------------------------------------------ usual delays */

struct usual {
    int64_t launch_ns; /* what a launch takes that meets an empty stream */
    int64_t stream_ns; /* a start right behind other work */
};

static bool is_launch_bound(const struct ks_replay_work *work)
{
    return work->is_first || work->launch_delay_ns <= work->stream_delay_ns;
}

static int64_t at_most(int64_t value, int64_t limit)
{
    return value < limit ? value : limit;
}

static enum ks_status find_usual(const struct ks_replay_work *works, size_t count,
                                 struct usual *usual, struct ks_err *err)
{
    int64_t *values = ks_alloc(2 * count, sizeof(*values));
    if (!values) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot replay steps: works=%zu", count);
    }
    int64_t *gaps = values + count;
    size_t launch_count = 0;
    size_t gap_count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct ks_replay_work *work = &works[i];
        if (is_launch_bound(work)) {
            values[launch_count++] = work->launch_delay_ns;
        } else if (work->stream_delay_ns >= 0 && work->stream_delay_ns < STREAM_GAP_NS_MAX) {
            gaps[gap_count++] = work->stream_delay_ns;
        }
    }
    usual->launch_ns =
        launch_count > 0
            ? ks_quantile_rank(values, launch_count, launch_count * LAUNCH_DELAY_PERCENT / 100)
            : LAUNCH_DELAY_NS;
    usual->stream_ns = gap_count > 0 ? ks_quantile_median(gaps, gap_count) : STREAM_GAP_NS;
    usual->stream_ns = at_most(usual->stream_ns, STREAM_GAP_NS);
    ks_free(values);
    return KS_OK;
}

/* What held a work keeps its delay; the others get the usual one if theirs was longer. */
static void settle(struct ks_replay_work *work, const struct usual *usual)
{
    bool by_launch = is_launch_bound(work);
    bool by_other = work->other != KS_REPLAY_NO_WORK;
    if (!by_launch || by_other) {
        work->launch_delay_ns = at_most(work->launch_delay_ns, usual->launch_ns);
    }
    if (by_launch || by_other) {
        work->stream_delay_ns = at_most(work->stream_delay_ns, usual->stream_ns);
    }
}

enum ks_status ks_replay_find_delays(struct ks_replay_work *works, size_t count,
                                     const int64_t *free_ns, size_t stream_count,
                                     struct ks_err *err)
{
    struct usual usual = {0};
    KS_TRY(measure_all(works, count, free_ns, stream_count, err));
    KS_TRY(find_all_others(works, count, stream_count, err));
    KS_TRY(find_usual(works, count, &usual, err));
    for (size_t i = 0; i < count; i++) {
        settle(&works[i], &usual);
    }
    return KS_OK;
}
