/* Ticks of a recording become Unix time.
 *
 * The recorder looks at all three clocks about once a second. Between two looks time is a straight
 * line, in front of the first and behind the last one the nearest line goes on. Unix time is what
 * other traces of the run have, but somebody may set it: where it moves by much more than the
 * monotonic clock did, the latter is believed, and what follows moves along. */
#include <stdlib.h>

#include "base/err.h"
#include "base/grow.h"
#include "read/recording_impl.h"

enum {
    NS_PER_MS = 1000 * 1000,
    DRIFT_PARTS = 1000,   /* a clock that is slewed runs wrong by at most 1/1000 ... */
    DRIFT_NS = NS_PER_MS, /* ... and is read a little later than the other one */
    GUESSED_RATE = 1,
};

static int compare_points(const void *left, const void *right)
{
    const struct ks_wire_clock *a = left;
    const struct ks_wire_clock *b = right;
    return (a->tick > b->tick) - (a->tick < b->tick);
}

static bool is_possible(const struct ks_wire_clock *point)
{
    return point->unix_ns >= 0 && point->unix_ns <= KS_TIME_MAX_NS && point->monotonic_ns >= 0 &&
           point->monotonic_ns <= KS_TIME_MAX_NS;
}

/* Keeps the points that go forward in ticks and in monotonic time. */
static size_t drop_impossible(struct ks_wire_clock *points, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const struct ks_wire_clock *last = kept > 0 ? &points[kept - 1] : NULL;
        bool goes_on =
            !last || (points[i].tick > last->tick && points[i].monotonic_ns >= last->monotonic_ns);
        if (is_possible(&points[i]) && goes_on) {
            points[kept++] = points[i];
        }
    }
    return kept;
}

static bool was_set(__int128 unix_ns, int64_t monotonic_ns)
{
    __int128 off_ns = unix_ns > monotonic_ns ? unix_ns - monotonic_ns : monotonic_ns - unix_ns;
    return unix_ns < 0 || off_ns > DRIFT_NS + monotonic_ns / DRIFT_PARTS;
}

/* Undoes what somebody did to the clock, and says how often that was. Ends the list where times
 * would leave their range. */
static uint64_t even_out(struct recording_clock *clock)
{
    uint64_t steps = 0;
    struct ks_wire_clock *points = clock->points;
    int64_t before_ns = clock->count > 0 ? points[0].unix_ns : 0; /* as the file has it */
    for (size_t i = 1; i < clock->count; i++) {
        __int128 unix_ns = (__int128)points[i].unix_ns - before_ns;
        int64_t monotonic_ns = points[i].monotonic_ns - points[i - 1].monotonic_ns;
        bool is_step = was_set(unix_ns, monotonic_ns);
        __int128 time_ns = points[i - 1].unix_ns + (is_step ? monotonic_ns : unix_ns);
        if (time_ns > KS_TIME_MAX_NS) {
            clock->count = i;
            break;
        }
        before_ns = points[i].unix_ns;
        points[i].unix_ns = (int64_t)time_ns;
        steps += is_step;
    }
    return steps;
}

/* The slope where two points are missing. */
static void choose_rate(struct recording *r, bool *is_guessed)
{
    struct recording_clock *clock = &r->clock;
    bool has_rate = r->is_header_good && r->header.is_tsc && r->header.tick_khz > 0;
    bool is_ns = r->is_header_good && !r->header.is_tsc;
    clock->rate_ns = has_rate ? NS_PER_MS : GUESSED_RATE;
    clock->rate_ticks = has_rate ? r->header.tick_khz : GUESSED_RATE;
    *is_guessed = !has_rate && !is_ns && clock->count < 2;
}

static enum ks_status add_header(struct recording *r, struct ks_err *err)
{
    struct ks_wire_clock point = {
        .tick = r->header.start_tick,
        .unix_ns = r->header.start_unix_ns,
    };
    if (!r->is_header_good || !is_possible(&point)) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&r->clock.points, r->clock.count, &r->clock.capacity, sizeof(*r->clock.points),
                   "clocks", err));
    r->clock.points[r->clock.count++] = point;
    return KS_OK;
}

enum ks_status recording_clock_ready(struct recording *r, struct ks_err *err)
{
    struct recording_clock *clock = &r->clock;
    size_t there = clock->count;
    bool is_guessed = false;
    if (there > 1) {
        qsort(clock->points, there, sizeof(*clock->points), compare_points);
    }
    clock->count = drop_impossible(clock->points, there);
    KS_TRY(recording_count(r, KS_STAT_clock_steps, even_out(clock), KS_NO_OFFSET, err));
    KS_TRY(recording_count(r, KS_STAT_clocks_damaged, there - clock->count, KS_NO_OFFSET, err));
    if (clock->count == 0) {
        KS_TRY(add_header(r, err));
    }
    if (r->end_tick == 0 && clock->count > 0) {
        r->end_tick = clock->points[clock->count - 1].tick;
    }
    choose_rate(r, &is_guessed);
    KS_TRY(recording_count(r, KS_STAT_clock_guessed, is_guessed, KS_NO_OFFSET, err));
    r->to.source->has_base = clock->count > 0;
    r->base_ns = clock->count > 0 ? clock->points[0].unix_ns : 0;
    r->to.source->base_ns = r->base_ns;
    return KS_OK;
}

/* Index of the point that the line of the tick begins at. */
static size_t find_line(struct recording_clock *clock, uint64_t tick)
{
    size_t begin = clock->hint;
    size_t end = clock->count - 1; /* lines are one less than points */
    if (begin < end && clock->points[begin].tick <= tick && tick < clock->points[begin + 1].tick) {
        return begin;
    }
    begin = 0;
    while (end - begin > 1) {
        size_t middle = begin + (end - begin) / 2;
        if (clock->points[middle].tick <= tick) {
            begin = middle;
        } else {
            end = middle;
        }
    }
    clock->hint = begin;
    return begin;
}

/* Whole ns at or before the exact value. */
static __int128 on_line(__int128 ticks, uint64_t line_ns, uint64_t line_ticks)
{
    __int128 product = ticks * (__int128)line_ns;
    __int128 whole = product / (__int128)line_ticks;
    return whole - (product % (__int128)line_ticks < 0);
}

bool recording_time(struct recording *r, uint64_t tick, int64_t *ns)
{
    struct recording_clock *clock = &r->clock;
    struct ks_wire_clock from = {0};
    uint64_t line_ns = clock->rate_ns;
    uint64_t line_ticks = clock->rate_ticks;
    if (clock->count > 1) {
        const struct ks_wire_clock *point = &clock->points[find_line(clock, tick)];
        from = *point;
        line_ns = (uint64_t)(point[1].unix_ns - point->unix_ns);
        line_ticks = point[1].tick - point->tick;
    } else if (clock->count == 1) {
        from = clock->points[0];
    }
    __int128 ticks = (__int128)tick - (__int128)from.tick;
    __int128 time = from.unix_ns - r->base_ns + on_line(ticks, line_ns, line_ticks);
    __int128 absolute = time + r->base_ns;
    *ns = (int64_t)time;
    return time >= KS_TIME_MIN_NS && time <= KS_TIME_MAX_NS && absolute >= KS_TIME_MIN_NS &&
           absolute <= KS_TIME_MAX_NS;
}

int64_t recording_duration(const struct recording *r, uint64_t ticks)
{
    const struct recording_clock *clock = &r->clock;
    uint64_t line_ns = clock->rate_ns;
    uint64_t line_ticks = clock->rate_ticks;
    if (clock->count > 1) {
        const struct ks_wire_clock *last = &clock->points[clock->count - 1];
        line_ns = (uint64_t)(last->unix_ns - clock->points[0].unix_ns);
        line_ticks = last->tick - clock->points[0].tick;
    }
    __int128 ns = on_line((__int128)ticks, line_ns, line_ticks);
    return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}
