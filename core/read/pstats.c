/* Profiles that Python's cProfile, profile and pstats dump: a marshalled dict
 *
 *   {(file, line, name): (calls without recursion, calls, own time, cumulative time,
 *                         {caller: (calls, calls without recursion, own, cumulative)})}
 *
 * with times in seconds as floats; `profile` has only numbers of calls for callers. cProfile counts
 * ticks of a nanosecond, so the nearest ns of a time is the number that was counted. Functions
 * become sums of calls, and their callers parts of these (struct ks_call_path). */
#include <math.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "read/marshal.h"

enum { CALLER_BYTES_MIN = 10 };        /* a key and a value, or references to such */
static const double SECONDS_MAX = 4e9; /* 127 years: sums of two fit in 64 bits of ns */

/* What the file says of calls. */
struct count {
    int64_t calls;
    int64_t recursive_calls;
    int64_t self_ns;
    int64_t total_ns;
    bool has_times;
};

struct function {
    struct ks_strid name;
    struct ks_strid file;
    uint32_t line;
    bool is_listed; /* has an entry of its own; else it is known as a caller only */
    struct count count;
};

struct edge {
    uint32_t function;
    uint32_t caller;
    struct count count;
};

struct profile {
    struct ks_reader_context to;
    struct ks_marshal *marshal;
    struct ks_map index; /* (file << 32 | name, line) -> 1 + function */
    struct function *functions;
    size_t function_count;
    size_t function_capacity;
    struct edge *edges;
    size_t edge_count;
    size_t edge_capacity;
};

static enum ks_status count_stat(struct profile *p, enum ks_stat stat, uint64_t n, int64_t offset,
                                 struct ks_err *err)
{
    if (n > 0 && p->to.strict && ks_stat_info(stat)->severity != KS_SEVERITY_INFO) {
        return ks_fail(err, KS_ERR_FORMAT, offset, "Cannot accept damaged input: %s",
                       ks_stat_info(stat)->sentence);
    }
    p->to.source->counts[stat] += n;
    return KS_OK;
}

/* ------------------------------------------------------------------ values */

static bool take_calls(const struct ks_marshal_value *value, int64_t *calls)
{
    *calls = value->as.integer;
    return value->kind == KS_MARSHAL_INT && *calls >= 0;
}

/* `profile` begins sums with an integer. */
static bool take_time(const struct ks_marshal_value *value, int64_t *ns)
{
    double seconds = value->kind == KS_MARSHAL_REAL ? value->as.real : (double)value->as.integer;
    bool is_number = value->kind == KS_MARSHAL_REAL || value->kind == KS_MARSHAL_INT;
    if (!is_number || !(seconds >= 0 && seconds <= SECONDS_MAX)) {
        return false;
    }
    *ns = llround(seconds * 1e9);
    return true;
}

static bool take_count(const struct ks_marshal_value *calls,
                       const struct ks_marshal_value *primitive,
                       const struct ks_marshal_value *times, struct count *count)
{
    int64_t once = 0;
    bool is_good = take_calls(calls, &count->calls) && take_calls(primitive, &once) &&
                   once <= count->calls && take_time(&times[0], &count->self_ns) &&
                   take_time(&times[1], &count->total_ns);
    count->recursive_calls = is_good ? count->calls - once : 0;
    count->has_times = true;
    return is_good;
}

static bool is_function(const struct profile *p, const struct ks_marshal_value *key)
{
    if (key->kind != KS_MARSHAL_TUPLE || key->count != 3) {
        return false;
    }
    const struct ks_marshal_value *items = ks_marshal_items(p->marshal, key);
    return items[0].kind == KS_MARSHAL_STR && items[1].kind == KS_MARSHAL_INT &&
           items[1].as.integer >= 0 && items[1].as.integer <= UINT32_MAX &&
           items[2].kind == KS_MARSHAL_STR;
}

static enum ks_status find_function(struct profile *p, const struct ks_marshal_value *key,
                                    uint32_t *function, struct ks_err *err)
{
    const struct ks_marshal_value *items = ks_marshal_items(p->marshal, key);
    struct function found = {
        .file = items[0].as.text, .line = (uint32_t)items[1].as.integer, .name = items[2].as.text};
    KS_TRY(ks_grow(&p->functions, p->function_count, &p->function_capacity, sizeof(found),
                   "functions", err));
    uint64_t *at =
        ks_map_put(&p->index, (uint64_t)found.file.v << 32 | found.name.v, found.line, NULL);
    if (!at) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep functions: count=%zu",
                       p->function_count);
    }
    if (*at == 0) {
        p->functions[p->function_count] = found;
        *at = ++p->function_count;
    }
    *function = (uint32_t)(*at - 1);
    return KS_OK;
}

/* ------------------------------------------------------------------ entries */

/* A tuple of four by cProfile, a number of calls by `profile`. */
static bool take_caller(struct profile *p, const struct ks_marshal_value *value,
                        struct count *count)
{
    *count = (struct count){0};
    if (value->kind == KS_MARSHAL_INT) {
        return take_calls(value, &count->calls);
    }
    if (value->kind != KS_MARSHAL_TUPLE || value->count != 4) {
        return false;
    }
    const struct ks_marshal_value *items = ks_marshal_items(p->marshal, value);
    return take_count(&items[0], &items[1], &items[2], count);
}

static enum ks_status add_callers(struct profile *p, uint32_t function,
                                  const struct ks_marshal_value *callers, int64_t offset,
                                  struct ks_err *err)
{
    const struct ks_marshal_value *pairs = ks_marshal_items(p->marshal, callers);
    for (size_t i = 0; i < callers->count; i++) {
        struct edge edge = {.function = function};
        if (!is_function(p, &pairs[2 * i]) || !take_caller(p, &pairs[2 * i + 1], &edge.count)) {
            KS_TRY(count_stat(p, KS_STAT_profile_entries_damaged, 1, offset, err));
            continue;
        }
        KS_TRY(find_function(p, &pairs[2 * i], &edge.caller, err));
        if (p->edge_count > (uint64_t)ks_marshal_offset(p->marshal) / CALLER_BYTES_MIN) {
            return ks_fail(err, KS_ERR_LIMIT, offset,
                           "Cannot read profile: it has more callers than bytes for them: "
                           "functions share these");
        }
        KS_TRY(ks_grow(&p->edges, p->edge_count, &p->edge_capacity, sizeof(edge), "callers", err));
        p->edges[p->edge_count++] = edge;
        p->to.source->counts[KS_STAT_callers_without_time] += !edge.count.has_times;
    }
    return KS_OK;
}

/* A dict has each key once; a second one is no work of Python's. */
static enum ks_status add_entry(void *user, const struct ks_marshal_value *key,
                                const struct ks_marshal_value *value, int64_t offset,
                                struct ks_err *err)
{
    struct profile *p = user;
    struct count count = {0};
    uint32_t function = 0;
    bool is_good = is_function(p, key) && value->kind == KS_MARSHAL_TUPLE && value->count == 5;
    const struct ks_marshal_value *items = is_good ? ks_marshal_items(p->marshal, value) : NULL;
    is_good = is_good && take_count(&items[1], &items[0], &items[2], &count) &&
              items[4].kind == KS_MARSHAL_DICT;
    if (is_good) {
        KS_TRY(find_function(p, key, &function, err));
        is_good = !p->functions[function].is_listed;
    }
    if (!is_good) {
        return count_stat(p, KS_STAT_profile_entries_damaged, 1, offset, err);
    }
    p->functions[function].is_listed = true;
    p->functions[function].count = count;
    p->to.source->events++;
    return add_callers(p, function, &items[4], offset, err);
}

/* ------------------------------------------------------------------ rows */

static enum ks_status add_row(struct profile *p, uint32_t track, uint32_t parent, uint32_t function,
                              const struct count *count, uint32_t *id, struct ks_err *err)
{
    const struct function *f = &p->functions[function];
    struct ks_call_path row = {
        .track = track,
        .parent = parent,
        .function = f->name,
        .file = f->file,
        .first_line = f->line,
        .calls = count->calls,
        .total_ns = count->total_ns,
        .child_ns = count->total_ns - count->self_ns,
        .recursive_calls = count->recursive_calls,
        .kind = count->has_times ? KS_CALL_SUM : KS_CALL_COUNT,
    };
    return ks_trace_builder_call_path(p->to.builder, &row, id, err);
}

/* The file does not say which thread of which process it was. */
static enum ks_status make_track(struct profile *p, uint32_t *track, struct ks_err *err)
{
    struct ks_track_key nobody = {.number = 0};
    struct ks_strid name = {0};
    KS_TRY(ks_trace_builder_thread(p->to.builder, nobody, nobody, track, err));
    KS_TRY(ks_trace_builder_intern(p->to.builder, KS_STR("cProfile"), &name, err));
    ks_trace_builder_track(p->to.builder, *track)->name = name;
    return KS_OK;
}

/* All functions first: the id of one is its index behind that of the first. */
static enum ks_status publish(struct profile *p, struct ks_err *err)
{
    uint32_t track = 0;
    uint32_t first = 0;
    uint32_t id = 0;
    KS_TRY(make_track(p, &track, err));
    for (size_t i = 0; i < p->function_count; i++) {
        struct count count = p->functions[i].count;
        count.has_times = p->functions[i].is_listed;
        KS_TRY(add_row(p, track, 0, (uint32_t)i, &count, &id, err));
        first = i == 0 ? id : first;
    }
    for (size_t i = 0; i < p->edge_count; i++) {
        const struct edge *edge = &p->edges[i];
        KS_TRY(add_row(p, track, first + edge->caller, edge->function, &edge->count, &id, err));
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ the reader */

static enum ks_status open_profile(const struct ks_reader_context *context, struct ks_str head,
                                   void **state, struct ks_err *err)
{
    (void)head;
    struct profile *p = ks_alloc(1, sizeof(*p));
    if (!p) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read profile: no memory");
    }
    p->to = *context;
    ks_map_init(&p->index);
    enum ks_status status = ks_marshal_open(context, add_entry, p, &p->marshal, err);
    if (status != KS_OK) {
        ks_free(p);
        return status;
    }
    context->source->is_recording = true;
    *state = p;
    return KS_OK;
}

static enum ks_status push_profile(void *state, const struct ks_window *window, size_t *used,
                                   struct ks_err *err)
{
    struct profile *p = state;
    return ks_marshal_push(p->marshal, window, used, err);
}

static enum ks_status finish_profile(void *state, int64_t size, int64_t left, struct ks_err *err)
{
    struct profile *p = state;
    bool is_cut = !ks_marshal_is_whole(p->marshal);
    uint64_t trailing = ks_marshal_trailing(p->marshal);
    (void)left;
    if (is_cut && p->function_count == 0) {
        return ks_fail(err, KS_ERR_FORMAT, size,
                       "Cannot read profile: the file ends before its first function does");
    }
    KS_TRY(count_stat(p, KS_STAT_unterminated, is_cut, size, err));
    KS_TRY(count_stat(p, KS_STAT_trailing_bytes, trailing, size - (int64_t)trailing, err));
    return publish(p, err);
}

static void close_profile(void *state)
{
    struct profile *p = state;
    if (!p) {
        return;
    }
    ks_marshal_close(p->marshal);
    ks_map_release(&p->index);
    ks_free(p->functions);
    ks_free(p->edges);
    ks_free(p);
}

const struct ks_reader ks_reader_pstats = {
    .name = "pstats",
    .sniff = ks_marshal_is_head,
    .open = open_profile,
    .push = push_profile,
    .finish = finish_profile,
    .close = close_profile,
};
