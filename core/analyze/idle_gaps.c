#include "analyze/idle_gaps.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"

void ks_idle_gaps_release(struct ks_idle_gaps *gaps)
{
    ks_free(gaps->parts);
    ks_free(gaps->points);
    *gaps = (struct ks_idle_gaps){0};
}

void ks_idle_gaps_next_row(struct ks_idle_gaps *gaps)
{
    gaps->shared_from = gaps->count;
}

/* Gives the sink to a part of the same row that covers the same time. */
static bool share(struct ks_idle_gaps *gaps, const struct ks_idle_part *wanted)
{
    for (size_t i = gaps->shared_from; i < gaps->count; i++) {
        struct ks_idle_part *part = &gaps->parts[i];
        if (part->from_ns != wanted->from_ns || part->until_ns != wanted->until_ns) {
            continue;
        }
        for (size_t sink = 1; sink < KS_IDLE_SINKS; sink++) {
            if (!part->sinks[sink]) {
                part->sinks[sink] = wanted->sinks[0];
                return true;
            }
        }
    }
    return false;
}

enum ks_status ks_idle_gaps_add(struct ks_idle_gaps *gaps, const struct ks_idle_part *part,
                                struct ks_err *err)
{
    if (part->from_ns >= part->until_ns || share(gaps, part)) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&gaps->parts, gaps->count, &gaps->capacity, sizeof(*gaps->parts),
                   "idle intervals", err));
    gaps->parts[gaps->count++] = *part;
    return KS_OK;
}

/* ------------------------------------------------------------ order */

/* End of the run of points in order of time that begins at `begin`. */
static size_t run_end(const struct ks_idle_point *points, size_t begin, size_t count)
{
    size_t end = begin + 1;
    while (end < count && points[end - 1].at_ns <= points[end].at_ns) {
        end++;
    }
    return end < count ? end : count;
}

static void merge(const struct ks_idle_point *from, size_t begin, size_t middle, size_t end,
                  struct ks_idle_point *to)
{
    size_t left = begin;
    size_t right = middle;
    for (size_t at = begin; at < end; at++) {
        bool is_left = right == end || (left < middle && from[left].at_ns <= from[right].at_ns);
        to[at] = is_left ? from[left++] : from[right++];
    }
}

/* Merges each run with its neighbour. */
static void merge_runs(const struct ks_idle_point *from, struct ks_idle_point *to, size_t count)
{
    for (size_t begin = 0; begin < count;) {
        size_t middle = run_end(from, begin, count);
        size_t end = middle < count ? run_end(from, middle, count) : count;
        merge(from, begin, middle, end, to);
        begin = end;
    }
}

/* The points of one stream come in order, so that few runs are there to merge. */
enum ks_status ks_idle_gaps_order(struct ks_idle_gaps *gaps, struct ks_err *err)
{
    size_t count = 2 * gaps->count;
    struct ks_idle_point *points = ks_alloc(count + 1, sizeof(*points));
    struct ks_idle_point *other = ks_alloc(count + 1, sizeof(*other));
    ks_free(gaps->points);
    gaps->points = points;
    if (!points || !other) {
        ks_free(other);
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot order idle intervals: count=%zu",
                       gaps->count);
    }
    for (size_t i = 0; i < gaps->count; i++) {
        points[2 * i] = (struct ks_idle_point){gaps->parts[i].from_ns, 2 * i};
        points[2 * i + 1] = (struct ks_idle_point){gaps->parts[i].until_ns, 2 * i + 1};
    }
    while (count > 0 && run_end(gaps->points, 0, count) < count) {
        merge_runs(gaps->points, other, count);
        struct ks_idle_point *merged = other;
        other = gaps->points;
        gaps->points = merged;
    }
    ks_free(other);
    return KS_OK;
}
