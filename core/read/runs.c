#include "read/runs.h"

#include <ctype.h>

#include "read/reader.h"

/* Times from 1990 on, in ns: smaller ones count from something else than 1970. */
static const int64_t UNIX_TIME_MIN_NS = 631152000000000000;

int64_t ks_rank_from_name(struct ks_str path)
{
    const char *end = path.ptr + path.len;
    const char *name = end;
    while (name > path.ptr && name[-1] != '/') {
        name--;
    }
    for (const char *p = name; end - p > 4; p++) {
        if (memcmp(p, "rank", 4) != 0 || (p > name && isalpha((unsigned char)p[-1]))) {
            continue;
        }
        const char *digits = p + 4;
        digits += digits < end && strchr("-_.", *digits) && *digits;
        int64_t rank = -1;
        for (int n = 0; digits < end && isdigit((unsigned char)*digits) && n < 9; digits++, n++) {
            rank = (rank < 0 ? 0 : rank) * 10 + (*digits - '0');
        }
        if (rank >= 0) {
            return rank;
        }
    }
    return -1;
}

static int64_t abs_start(const struct ks_source *s)
{
    return s->base_ns + s->start_ns;
}

static int64_t abs_end(const struct ks_source *s)
{
    return s->base_ns + s->end_ns;
}

static bool has_time(const struct ks_source *s)
{
    return s->start_ns != KS_TIME_NONE;
}

/* Files of which just one has a clock cannot be said to follow one another. */
static bool overlaps(const struct ks_source *a, const struct ks_source *b)
{
    if (has_time(a) && has_time(b) && a->is_absolute != b->is_absolute) {
        return true;
    }
    return has_time(a) && has_time(b) && abs_start(a) < abs_end(b) && abs_start(b) < abs_end(a);
}

/* Can the two be files of one run? */
static bool fits(const struct ks_source *a, const struct ks_source *b)
{
    if (a->world_size >= 0 && b->world_size >= 0 && a->world_size != b->world_size) {
        return false;
    }
    if (a->rank != b->rank) {
        return true;
    }
    bool is_other_process = a->pid != 0 && b->pid != 0 && a->pid != b->pid;
    return !is_other_process && !overlaps(a, b);
}

static bool fits_run(struct ks_trace_builder *builder, uint32_t index, int64_t run)
{
    struct ks_source *s = ks_trace_builder_source(builder, index);
    for (uint32_t i = 0; i < index; i++) {
        struct ks_source *other = ks_trace_builder_source(builder, i);
        if (other->run == run && !fits(s, other)) {
            return false;
        }
    }
    return true;
}

static void place_source(struct ks_trace_builder *builder, uint32_t index, int64_t *run_count)
{
    struct ks_source *s = ks_trace_builder_source(builder, index);
    for (int64_t run = 1; run <= *run_count; run++) {
        if (fits_run(builder, index, run)) {
            s->run = run;
            return;
        }
    }
    *run_count += 1;
    s->run = *run_count;
}

/* Windows of a rank are numbered by time, equal times by input order. */
static void number_cycles(struct ks_trace_builder *builder, uint32_t index)
{
    struct ks_source *s = ks_trace_builder_source(builder, index);
    s->cycle = 0;
    for (uint32_t i = 0; i < ks_trace_builder_source_count(builder); i++) {
        struct ks_source *other = ks_trace_builder_source(builder, i);
        if (i == index || other->run != s->run || other->rank != s->rank || !has_time(other) ||
            !has_time(s)) {
            continue;
        }
        bool is_earlier =
            abs_start(other) < abs_start(s) || (abs_start(other) == abs_start(s) && i < index);
        s->cycle += is_earlier;
    }
}

/* A file without a clock cannot be put beside one that has one: it is shown as starting with the
 * earliest of them. Its counter unaligned_clock says so. */
static void place_unaligned(struct ks_trace_builder *builder, uint32_t index)
{
    struct ks_source *s = ks_trace_builder_source(builder, index);
    int64_t first = KS_TIME_NONE;
    for (uint32_t i = 0; i < ks_trace_builder_source_count(builder); i++) {
        const struct ks_source *other = ks_trace_builder_source(builder, i);
        if (other->run == s->run && other->is_absolute && has_time(other) &&
            (first == KS_TIME_NONE || abs_start(other) < first)) {
            first = abs_start(other);
        }
    }
    bool has_room = has_time(s) && first <= KS_TIME_MAX_NS - (s->end_ns - s->start_ns);
    if (!s->is_absolute && has_room && first != KS_TIME_NONE) {
        s->base_ns = first - s->start_ns;
    }
}

void ks_runs_assign(struct ks_trace_builder *builder, int64_t *run_count)
{
    uint32_t count = ks_trace_builder_source_count(builder);
    uint32_t good = 0;
    for (uint32_t i = 0; i < count; i++) {
        good += ks_trace_builder_source(builder, i)->run >= 0;
    }
    *run_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct ks_source *s = ks_trace_builder_source(builder, i);
        if (s->run < 0) {
            continue;
        }
        if (s->rank < 0) {
            s->rank = ks_rank_from_name(ks_trace_builder_str(builder, s->path));
            s->counts[KS_STAT_rank_guessed] += s->rank >= 0;
        }
        s->is_absolute = s->has_base || (has_time(s) && s->start_ns >= UNIX_TIME_MIN_NS);
        s->counts[KS_STAT_unaligned_clock] += good > 1 && !s->is_absolute;
        place_source(builder, i, run_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (ks_trace_builder_source(builder, i)->run >= 0) {
            place_unaligned(builder, i);
        }
    }
    for (uint32_t i = 0; i < count; i++) { // by the places that all have now
        if (ks_trace_builder_source(builder, i)->run >= 0) {
            number_cycles(builder, i);
        }
    }
}
