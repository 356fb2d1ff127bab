#include "read/parts.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/locale_c.h"
#include "read/feed.h"
#include "store/chunk.h"

enum {
    THREADS_MAX = 64,
    BEFORE_SIZE = 256, /* bytes before the range that tell whether an item begins with it */
    FIND_SIZE_MAX = 1024 * 1024,
    WINDOWS_MIN = 16, /* of a range: less is not worth a thread */
};

/* With a limit on memory, each thread needs some of it for the rows under way. */
static const uint64_t MEMORY_MIN = (uint64_t)32 * 1024 * 1024;

struct part {
    struct ks_parts *parts;
    void *reader; /* NULL: could not be opened, so nothing was read */
    struct ks_trace_builder *builder;
    struct ks_feed feed;
    int64_t range_begin;
    int64_t begin; /* of the first item, -1: none was found */
    int64_t end;   /* behind what has been read */
    enum ks_status status;
    struct ks_err err;
    pthread_t thread;
    bool is_running;
};

struct ks_parts {
    struct ks_parts_plan plan;
    atomic_bool is_given_up;
    unsigned count;
    struct part list[];
};

/* ------------------------------------------------------------------ one part */

/* Looks further and further behind the begin of the range, but not without end: where items are
 * that large, or none can be told, reading in one go is as good. */
static enum ks_status find_begin(struct part *p, struct ks_err *err)
{
    struct ks_feed *f = &p->feed;
    size_t from = (size_t)(p->range_begin - f->offset);
    for (;;) {
        KS_TRY(ks_feed_fill(f, f->capacity, err));
        struct ks_window window = {f->buf, f->len, f->offset, f->at_end};
        size_t place;
        if (from < f->len && p->parts->plan.how->find(p->reader, &window, from, &place)) {
            ks_feed_consume(f, place);
            p->begin = f->offset;
            return KS_OK;
        }
        if (f->at_end || f->capacity >= FIND_SIZE_MAX) {
            return KS_OK;
        }
        KS_TRY(ks_feed_grow(f, err));
    }
}

static enum ks_status read_items(struct part *p, struct ks_err *err)
{
    struct ks_feed *f = &p->feed;
    KS_TRY(find_begin(p, err));
    while (p->begin >= 0 && !atomic_load(&p->parts->is_given_up)) {
        KS_TRY(ks_feed_fill(f, f->capacity, err));
        struct ks_window window = {f->buf, f->len, f->offset, f->at_end};
        size_t used = 0;
        enum ks_status status = p->parts->plan.how->push(p->reader, &window, &used, err);
        if (status != KS_OK && status != KS_END) {
            return status;
        }
        ks_feed_consume(f, used);
        p->end = f->offset;
        if (status == KS_END || f->at_end) {
            return KS_OK;
        }
        if (used == 0) {
            KS_TRY(ks_feed_grow(f, err));
        }
    }
    return KS_OK;
}

static void *run_part(void *arg)
{
    struct part *p = arg;
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    p->status = read_items(p, &p->err);
    ks_locale_c_leave(&locale);
    return NULL;
}

static enum ks_status open_part(struct ks_parts *parts, struct part *p, int64_t begin, int64_t end,
                                struct ks_err *err)
{
    const struct ks_parts_plan *plan = &parts->plan;
    struct ks_reader_context context = *plan->context;
    p->parts = parts;
    p->range_begin = begin;
    p->begin = -1;
    p->feed =
        (struct ks_feed){.fd = plan->fd, .progress = plan->progress, .offset = begin - BEFORE_SIZE};
    KS_TRY(ks_feed_init(&p->feed, plan->window_bytes, err));
    KS_TRY(
        ks_trace_builder_create_part(plan->context->builder, parts->count + 1, &p->builder, err));
    KS_TRY(ks_trace_builder_source_open(p->builder, KS_STR(""), &context.source, err));
    context.builder = p->builder;
    return plan->how->open(plan->state, &context, end, &p->reader, err);
}

static void close_part(struct part *p)
{
    p->parts->plan.how->close(p->reader);
    ks_trace_builder_destroy(p->builder);
    ks_feed_release(&p->feed);
}

/* ------------------------------------------------------------------ all of them */

/* Ranges of the rest, the reader's own among them. */
static unsigned range_count(const struct ks_parts_plan *plan)
{
    size_t window_bytes = plan->window_bytes > 0 ? plan->window_bytes : KS_WINDOW_BYTES;
    int64_t bytes_min = (int64_t)window_bytes * WINDOWS_MIN;
    bytes_min = bytes_min < BEFORE_SIZE ? BEFORE_SIZE : bytes_min;
    int64_t rest = plan->end - plan->offset;
    uint64_t memory = ks_chunk_pool_bytes_max(ks_trace_builder_pool(plan->context->builder));
    unsigned count = plan->threads < THREADS_MAX ? plan->threads : THREADS_MAX;
    if (memory > 0 && memory / MEMORY_MIN < count) {
        count = (unsigned)(memory / MEMORY_MIN);
    }
    if (rest / bytes_min < count) {
        count = rest < bytes_min ? 1 : (unsigned)(rest / bytes_min);
    }
    return count;
}

/* Starts the threads in order; without one, its range and those behind are read in one go. */
static void start_threads(struct ks_parts *parts)
{
    for (unsigned i = 0; i < parts->count; i++) {
        struct part *p = &parts->list[i];
        p->is_running = pthread_create(&p->thread, NULL, run_part, p) == 0;
        if (!p->is_running) {
            return;
        }
    }
}

enum ks_status ks_parts_start(const struct ks_parts_plan *plan, struct ks_parts **out,
                              struct ks_err *err)
{
    unsigned ranges = range_count(plan);
    *out = NULL;
    if (ranges < 2) {
        return KS_OK;
    }
    struct ks_parts *parts = ks_alloc(1, sizeof(*parts) + (ranges - 1) * sizeof(parts->list[0]));
    if (!parts) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read in parts: count=%u", ranges);
    }
    parts->plan = *plan;
    parts->count = ranges - 1;
    int64_t size = (plan->end - plan->offset) / ranges;
    enum ks_status status = KS_OK;
    for (unsigned i = 0; i < parts->count; i++) {
        parts->list[i].parts = parts;
        int64_t begin = plan->offset + size * (i + 1);
        int64_t end = i + 1 < parts->count ? begin + size : INT64_MAX;
        status = status == KS_OK ? open_part(parts, &parts->list[i], begin, end, err) : status;
    }
    ks_chunk_pool_share(ks_trace_builder_pool(plan->context->builder), true);
    if (status != KS_OK) {
        ks_parts_end(parts);
        return status;
    }
    start_threads(parts);
    plan->how->stop_at(plan->state, parts->list[0].range_begin);
    *out = parts;
    return KS_OK;
}

static void join(struct part *p)
{
    if (p->is_running) {
        pthread_join(p->thread, NULL);
        p->is_running = false;
    }
}

enum ks_status ks_parts_take(struct ks_parts *parts, int64_t *offset, struct ks_err *err)
{
    for (unsigned i = 0; i < parts->count; i++) {
        struct part *p = &parts->list[i];
        bool was_running = p->is_running;
        join(p);
        if (!was_running || p->begin != *offset) {
            return KS_OK;
        }
        if (p->status != KS_OK) {
            if (err) {
                *err = p->err;
            }
            return p->status;
        }
        bool is_over = false;
        KS_TRY(parts->plan.how->take(parts->plan.state, p->reader, &is_over, err));
        *offset = p->end;
        if (is_over) {
            return KS_OK;
        }
    }
    return KS_OK;
}

void ks_parts_end(struct ks_parts *parts)
{
    if (!parts) {
        return;
    }
    atomic_store(&parts->is_given_up, true);
    for (unsigned i = 0; i < parts->count; i++) {
        join(&parts->list[i]);
    }
    for (unsigned i = 0; i < parts->count; i++) {
        close_part(&parts->list[i]);
    }
    ks_chunk_pool_share(ks_trace_builder_pool(parts->plan.context->builder), false);
    ks_free(parts);
}
