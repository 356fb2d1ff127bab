/* Goal: sealing sorts, shifts, links and sums as the headers say, and gives the same bytes however
 * small chunks and memory are. Method: random traces against a plain calculation over arrays;
 * small cases by hand for limits, runs, statistics and lookups. */
#include "store/builder.h"

#include <pthread.h>
#include <stdlib.h>

#include "cmocka_all.h"
#include "numbers.h"
#include "store_fixture.h"

/* ------------------------------------------------------------------ same bytes */

static void dump(const struct fixture *fixture, const struct ks_trace_options *options, int64_t run,
                 struct ks_text *out)
{
    struct ks_trace *trace = NULL;
    struct ks_err err = {0};
    if (fixture_build(fixture, options, run, &trace, &err) != KS_OK) {
        fail_msg("%s", err.message);
    }
    ks_text_init(out);
    assert_int_equal(fixture_dump(trace, out, &err), KS_OK);
    const struct ks_chunk_pool *pool = ks_trace_pool(trace);
    if (options->chunk_bytes_max >= 1000000) {
        assert_true(ks_chunk_pool_bytes_peak(pool) <= options->chunk_bytes_max);
    }
    assert_int_equal(ks_chunk_pool_bytes_spilled(pool) > 0, options->chunk_bytes_max > 0);
    ks_trace_destroy(trace);
}

static void test_same_bytes(void **state)
{
    (void)state;
    static const struct ks_trace_options modes[] = {
        {0, 0},   {0, 1},      {0, 16},       {0, 1024},       {0, 1 << 20}, {1, 64},
        {1, 256}, {30000, 16}, {200000, 128}, {1000000, 1024}, {100000, 4},
    };
    for (size_t rows = 1; rows <= 20000; rows *= 27) {
        struct fixture fixture;
        fixture_init(&fixture, 20 + rows, rows == 19683 ? 12000 : rows);
        struct ks_text twin;
        dump(&fixture, &modes[0], 1, &twin);
        for (size_t i = 1; i < KS_COUNT_OF(modes); i++) {
            struct ks_text text;
            if (rows < 100 && modes[i].chunk_bytes_max > 1) {
                continue; // everything fits, so nothing would be spilled
            }
            if (rows > 1000 && modes[i].chunk_rows == 1) {
                continue; // only slow
            }
            if (rows < 1000 && modes[i].chunk_bytes_max > 30000) {
                continue;
            }
            dump(&fixture, &modes[i], 1, &text);
            assert_int_equal(text.len, twin.len);
            assert_memory_equal(text.ptr, twin.ptr, twin.len);
            ks_text_release(&text);
        }
        ks_text_release(&twin);
        fixture_release(&fixture);
    }
}

/* ------------------------------------------------------------------ threads */

struct reader {
    pthread_t thread;
    const struct ks_trace *trace;
    struct ks_text text;
    enum ks_status status;
};

static void *read_all(void *user)
{
    struct reader *reader = user;
    ks_text_init(&reader->text);
    reader->status = fixture_dump(reader->trace, &reader->text, NULL);
    return NULL;
}

/* Several threads look at a sealed trace whose chunks come and go. */
static void test_threads(void **state)
{
    (void)state;
    static const struct ks_trace_options options = {30000, 64};
    struct reader readers[4] = {0};
    struct fixture fixture;
    struct ks_trace *trace = NULL;
    fixture_init(&fixture, 60, 1500);
    assert_int_equal(fixture_build(&fixture, &options, 0, &trace, NULL), KS_OK);
    for (size_t i = 0; i < KS_COUNT_OF(readers); i++) {
        readers[i].trace = trace;
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_all, &readers[i]), 0);
    }
    for (size_t i = 0; i < KS_COUNT_OF(readers); i++) {
        pthread_join(readers[i].thread, NULL);
    }
    for (size_t i = 0; i < KS_COUNT_OF(readers); i++) {
        assert_int_equal(readers[i].status, KS_OK);
        assert_int_equal(readers[i].text.len, readers[0].text.len);
        assert_memory_equal(readers[i].text.ptr, readers[0].text.ptr, readers[0].text.len);
    }
    for (size_t i = 0; i < KS_COUNT_OF(readers); i++) {
        ks_text_release(&readers[i].text);
    }
    ks_trace_destroy(trace);
    fixture_release(&fixture);
}

/* ------------------------------------------------------------------ plain calculation */

/* A slice or GPU row on its way through the twin. */
struct item {
    int64_t lane_rank; /* order of the track among those of the trace */
    int64_t start_ns;
    int64_t dur_ns;
    size_t source;
    size_t index;
};

static int compare_items(const void *left, const void *right)
{
    const struct item *a = left;
    const struct item *b = right;
    if (a->source != b->source) {
        return a->source < b->source ? -1 : 1;
    }
    if (a->lane_rank != b->lane_rank) {
        return a->lane_rank < b->lane_rank ? -1 : 1;
    }
    if (a->start_ns != b->start_ns) {
        return a->start_ns < b->start_ns ? -1 : 1;
    }
    if (a->dur_ns != b->dur_ns) {
        return a->dur_ns > b->dur_ns ? -1 : 1;
    }
    return a->index < b->index ? -1 : a->index > b->index;
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t twin_origin(const struct fixture *fixture)
{
    int64_t origin = INT64_MAX;
    for (size_t s = 0; s < FIXTURE_SOURCES; s++) {
        const struct fixture_source *source = &fixture->sources[s];
        int64_t first = INT64_MAX;
        for (size_t i = 0; i < source->slice_count; i++) {
            first = least_of(first, source->slices[i].start_ns);
        }
        for (size_t i = 0; i < source->gpu_count; i++) {
            first = least_of(first, source->gpus[i].start_ns);
        }
        for (size_t i = 0; i < source->memory_count; i++) {
            first = least_of(first, source->memories[i].start_ns);
        }
        for (size_t i = 0; i < source->mark_count; i++) {
            first = least_of(first, source->marks[i].start_ns);
        }
        origin = least_of(origin, source->base_ns + first);
    }
    return origin;
}

/* Slices of all sources in the order of the trace. Thread tracks are made in order of number. */
static struct item *twin_slices(const struct fixture *fixture, size_t *count)
{
    *count = 0;
    for (size_t s = 0; s < FIXTURE_SOURCES; s++) {
        *count += fixture->sources[s].slice_count;
    }
    struct item *items = calloc(*count + 1, sizeof(*items));
    assert_non_null(items);
    size_t at = 0;
    for (size_t s = 0; s < FIXTURE_SOURCES; s++) {
        for (size_t i = 0; i < fixture->sources[s].slice_count; i++) {
            const struct ks_slice_row *row = &fixture->sources[s].slices[i];
            items[at++] = (struct item){row->lane, row->start_ns, row->dur_ns, s, i};
        }
    }
    qsort(items, *count, sizeof(*items), compare_items);
    return items;
}

static void check_slices(const struct fixture *fixture, const struct ks_trace *trace,
                         const struct item *items, size_t count)
{
    assert_int_equal(ks_trace_rows(trace, KS_TABLE_slice), count);
    int64_t origin = twin_origin(fixture);
    assert_int_equal(ks_trace_origin_ns(trace), origin);
    struct ks_slice_scan scan;
    size_t row = 0;
    ks_slice_scan_open(&scan, trace, KS_ALL_COLUMNS, 0, count);
    while (ks_slice_scan_next(&scan, NULL) == KS_OK) {
        assert_int_equal(scan.row, row);
        for (size_t i = 0; i < scan.count; i++, row++) {
            const struct fixture_source *source = &fixture->sources[items[row].source];
            const struct ks_slice_row *twin = &source->slices[items[row].index];
            assert_int_equal(scan.col.start_ns[i], twin->start_ns + source->base_ns - origin);
            assert_int_equal(scan.col.dur_ns[i], twin->dur_ns);
            assert_int_equal(scan.col.aux[i], twin->aux);
            assert_int_equal(scan.col.parent_aux[i], twin->parent_aux);
            assert_int_equal(scan.col.flags[i], twin->flags);
            const struct ks_track *track = ks_trace_track(trace, scan.col.lane[i]);
            assert_int_equal(track->kind, KS_TRACK_THREAD);
            assert_int_equal(track->number, twin->lane * 3);
            assert_int_equal(track->source, items[row].source);
            assert_string_equal(ks_trace_str(trace, (struct ks_strid){scan.col.name[i]}).ptr,
                                fixture_name(twin->name));
        }
    }
    ks_slice_scan_close(&scan);
    assert_int_equal(row, count);
}

static bool is_link(const struct ks_slice_row *row)
{
    return row->corr >= 0 &&
           (row->category == KS_CATEGORY_RUNTIME || row->category == KS_CATEGORY_DRIVER);
}

/* The last call in the order of the trace that has the correlation. */
static const struct ks_slice_row *twin_call(const struct fixture *fixture, const struct item *items,
                                            size_t count, size_t source, int64_t corr)
{
    const struct ks_slice_row *call = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct ks_slice_row *row = &fixture->sources[items[i].source].slices[items[i].index];
        if (items[i].source == source && row->corr == corr && is_link(row)) {
            call = row;
        }
    }
    return call;
}

static void check_gpus(const struct fixture *fixture, const struct ks_trace *trace,
                       const struct item *items, size_t count)
{
    uint64_t orphans[FIXTURE_SOURCES] = {0};
    uint64_t early[FIXTURE_SOURCES] = {0};
    uint64_t empty[FIXTURE_SOURCES] = {0};
    struct ks_gpu_scan scan;
    ks_gpu_scan_open(&scan, trace, KS_ALL_COLUMNS, 0, ks_trace_rows(trace, KS_TABLE_gpu));
    while (ks_gpu_scan_next(&scan, NULL) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            const struct ks_track *stream = ks_trace_track(trace, scan.col.stream[i]);
            size_t s = stream->source;
            const struct fixture_source *source = &fixture->sources[s];
            const struct ks_gpu_row *twin = &source->gpus[scan.col.ext_id[i]];
            int64_t shift_ns = source->base_ns - ks_trace_origin_ns(trace);
            assert_int_equal(scan.col.start_ns[i], twin->start_ns + shift_ns);
            assert_int_equal(scan.col.registers[i], twin->registers);
            assert_int_equal(stream->number, twin->stream * 7);
            assert_int_equal(stream->parent, scan.col.lane[i]);
            assert_int_equal(ks_trace_track(trace, scan.col.lane[i])->number, twin->lane);

            bool is_work = ks_category_is_work((enum ks_category)twin->category);
            const struct ks_slice_row *call = NULL;
            if ((is_work || twin->category == KS_CATEGORY_GPU_SYNC) && twin->corr >= 0) {
                call = twin_call(fixture, items, count, s, twin->corr);
            }
            assert_int_equal(scan.col.launch_ns[i],
                             call ? call->start_ns + shift_ns : KS_TIME_NONE);
            assert_int_equal(scan.col.launch_end_ns[i],
                             call ? call->start_ns + call->dur_ns + shift_ns : KS_TIME_NONE);
            if (call) {
                const struct ks_track *thread = ks_trace_track(trace, scan.col.launch_lane[i]);
                assert_int_equal(thread->number, call->lane * 3);
                assert_int_equal(thread->source, s);
            } else {
                assert_int_equal(scan.col.launch_lane[i], 0);
            }
            orphans[s] += is_work && !call;
            early[s] += is_work && call && twin->start_ns < call->start_ns;
            empty[s] += is_work && twin->dur_ns == 0;
        }
    }
    ks_gpu_scan_close(&scan);
    for (uint32_t s = 0; s < FIXTURE_SOURCES; s++) {
        const uint64_t *counts = ks_trace_source(trace, s)->counts;
        assert_int_equal(counts[KS_STAT_gpu_work_without_launch], orphans[s]);
        assert_int_equal(counts[KS_STAT_gpu_before_launch], early[s]);
        assert_int_equal(counts[KS_STAT_zero_duration], empty[s]);
    }
}

/* GPU work of one call: those that name its correlation, if it is the last with that number. */
static void twin_work(const struct fixture_source *source, const struct ks_slice_row *call,
                      bool is_last, uint32_t *count, int64_t *first_ns, int64_t *end_ns)
{
    *count = 0;
    for (size_t i = 0; is_last && i < source->gpu_count; i++) {
        const struct ks_gpu_row *row = &source->gpus[i];
        if (row->corr != call->corr || !ks_category_is_work((enum ks_category)row->category)) {
            continue;
        }
        int64_t row_end_ns = row->start_ns + row->dur_ns;
        *first_ns = *count == 0 || row->start_ns < *first_ns ? row->start_ns : *first_ns;
        *end_ns = *count == 0 || row_end_ns > *end_ns ? row_end_ns : *end_ns;
        (*count)++;
    }
}

static void check_links(const struct fixture *fixture, const struct ks_trace *trace,
                        const struct item *items, size_t count)
{
    uint64_t idle[FIXTURE_SOURCES] = {0};
    struct ks_link_scan scan;
    size_t at = 0;
    ks_link_scan_open(&scan, trace, KS_ALL_COLUMNS, 0, ks_trace_rows(trace, KS_TABLE_link));
    while (ks_link_scan_next(&scan, NULL) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++, at++) {
            const struct ks_slice_row *call = NULL;
            while (call = &fixture->sources[items[at].source].slices[items[at].index],
                   !is_link(call)) {
                at++;
            }
            size_t s = items[at].source;
            const struct fixture_source *source = &fixture->sources[s];
            int64_t shift_ns = source->base_ns - ks_trace_origin_ns(trace);
            assert_int_equal(scan.col.start_ns[i], call->start_ns + shift_ns);
            assert_int_equal(scan.col.dur_ns[i], call->dur_ns);
            assert_int_equal(scan.col.corr[i], call->corr);
            assert_int_equal(scan.col.ext_id[i], call->ext_id);
            enum ks_link_kind kind = ks_link_kind_of(ks_str_from(fixture_name(call->name)));
            assert_int_equal(scan.col.kind[i], kind);

            uint32_t work = 0;
            int64_t first_ns = 0;
            int64_t end_ns = 0;
            bool is_last = twin_call(fixture, items, count, s, call->corr) == call;
            twin_work(source, call, is_last, &work, &first_ns, &end_ns);
            assert_int_equal(scan.col.gpu_count[i], work);
            assert_int_equal(scan.col.gpu_first_ns[i], work ? first_ns + shift_ns : KS_TIME_NONE);
            assert_int_equal(scan.col.gpu_end_ns[i], work ? end_ns + shift_ns : KS_TIME_NONE);
            idle[s] += kind != KS_LINK_OTHER && work == 0;
        }
    }
    ks_link_scan_close(&scan);
    for (uint32_t s = 0; s < FIXTURE_SOURCES; s++) {
        assert_int_equal(ks_trace_source(trace, s)->counts[KS_STAT_launches_without_work], idle[s]);
    }
}

static void twin_memory(const struct fixture_source *source, uint32_t lane, int64_t first_ns,
                        int64_t last_ns, int64_t *host, int64_t *device)
{
    *host = 0;
    *device = 0;
    for (size_t i = 0; i < source->memory_count; i++) {
        const struct ks_memory_row *row = &source->memories[i];
        if (row->lane != lane || row->start_ns < first_ns || row->start_ns > last_ns ||
            (row->flags & KS_MEMORY_OUT_OF_MEMORY)) {
            continue;
        }
        uint8_t type = row->device_type;
        *host += type == 0 || type == 2 || type == 5 ? row->bytes : 0;
        *device += type == 1 || type == 6 || type == 12 || type == 20 ? row->bytes : 0;
    }
}

static void check_memory(const struct fixture *fixture, const struct ks_trace *trace,
                         struct numbers *numbers)
{
    for (uint32_t track = 1; track < ks_trace_track_count(trace); track++) {
        const struct ks_track *info = ks_trace_track(trace, track);
        if (info->kind != KS_TRACK_PROCESS) {
            continue;
        }
        const struct fixture_source *source = &fixture->sources[info->source];
        int64_t shift_ns = source->base_ns - ks_trace_origin_ns(trace);
        uint32_t lane = info->text.v != 0;
        for (int i = 0; i < 200; i++) {
            int64_t first_ns = (int64_t)numbers_below(numbers, 8000) - 200;
            int64_t last_ns = first_ns + (int64_t)numbers_below(numbers, i < 100 ? 100 : 9000) - 5;
            int64_t host[2];
            int64_t device[2];
            twin_memory(source, lane, first_ns, last_ns, &host[0], &device[0]);
            assert_int_equal(ks_trace_memory_between(trace, track, first_ns + shift_ns,
                                                     last_ns + shift_ns, &host[1], &device[1],
                                                     NULL),
                             KS_OK);
            assert_int_equal(host[0], host[1]);
            assert_int_equal(device[0], device[1]);
        }
    }
}

static void test_against_twin(void **state)
{
    (void)state;
    static const struct ks_trace_options modes[] = {{0, 0}, {0, 8}, {20000, 32}};
    struct numbers numbers = {30};
    for (uint64_t i = 0; i < 9; i++) {
        struct fixture fixture;
        fixture_init(&fixture, 40 + i, i < 6 ? 40 : 900);
        struct ks_trace *trace = NULL;
        assert_int_equal(fixture_build(&fixture, &modes[i % 3], 0, &trace, NULL), KS_OK);
        size_t count = 0;
        struct item *items = twin_slices(&fixture, &count);
        check_slices(&fixture, trace, items, count);
        check_gpus(&fixture, trace, items, count);
        check_links(&fixture, trace, items, count);
        check_memory(&fixture, trace, &numbers);
        free(items);
        ks_trace_destroy(trace);
        fixture_release(&fixture);
    }
}

/* ------------------------------------------------------------------ by hand */

struct hand {
    struct ks_trace_builder *builder;
    struct ks_source *source;
    uint32_t thread;
};

static void hand_open(struct hand *hand, const char *path)
{
    if (!hand->builder) {
        assert_int_equal(ks_trace_builder_create(NULL, &hand->builder, NULL), KS_OK);
    }
    assert_int_equal(
        ks_trace_builder_source_open(hand->builder, ks_str_from(path), &hand->source, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_thread(hand->builder, (struct ks_track_key){.number = 1},
                                             (struct ks_track_key){.number = 2}, &hand->thread,
                                             NULL),
                     KS_OK);
}

static enum ks_status hand_slice(struct hand *hand, int64_t start_ns, int64_t dur_ns)
{
    struct ks_slice_row row = {.lane = hand->thread, .start_ns = start_ns, .dur_ns = dur_ns};
    return ks_trace_builder_slice(hand->builder, &row, NULL);
}

static void test_empty(void **state)
{
    (void)state;
    struct hand hand = {0};
    struct ks_trace *trace = NULL;
    hand_open(&hand, "a");
    assert_int_equal(ks_trace_builder_source_close(hand.builder, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_seal(hand.builder, 0, &trace, NULL), KS_OK);
    assert_int_equal(ks_trace_rows(trace, KS_TABLE_slice), 0);
    assert_int_equal(ks_trace_source_count(trace), 1);
    assert_int_equal(ks_trace_source(trace, 0)->start_ns, KS_TIME_NONE);
    assert_int_equal(ks_trace_track_count(trace), 3);
    int64_t a = 1;
    int64_t b = 1;
    ks_trace_span(trace, &a, &b);
    assert_int_equal(a, 0);
    assert_int_equal(b, 0);
    assert_int_equal(ks_trace_memory_between(trace, 1, 0, 10, &a, &b, NULL), KS_OK);
    struct ks_slice_scan scan;
    ks_slice_scan_open(&scan, trace, KS_ALL_COLUMNS, 0, 0);
    assert_int_equal(ks_slice_scan_next(&scan, NULL), KS_END);
    ks_slice_scan_close(&scan);
    assert_null(ks_trace_lane_find(trace, KS_TABLE_slice, 2));
    ks_trace_destroy(trace);
    ks_trace_destroy(NULL);
    ks_trace_builder_destroy(NULL);

    /* Without any source, and with one that is still open. */
    assert_int_equal(ks_trace_builder_create(NULL, &hand.builder, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_seal(hand.builder, 0, &trace, NULL), KS_OK);
    ks_trace_destroy(trace);
    hand.builder = NULL;
    hand_open(&hand, "b");
    assert_int_equal(hand_slice(&hand, 5, 6), KS_OK);
    assert_int_equal(ks_trace_builder_seal(hand.builder, 0, &trace, NULL), KS_OK);
    assert_int_equal(ks_trace_rows(trace, KS_TABLE_slice), 1);
    assert_int_equal(ks_trace_origin_ns(trace), 5);
    assert_int_equal(ks_trace_source(trace, 0)->start_ns, 5);
    assert_int_equal(ks_trace_source(trace, 0)->end_ns, 11);
    ks_trace_destroy(trace);
}

/* Sources of another run vanish with their tracks. */
static void test_runs(void **state)
{
    (void)state;
    struct hand hand = {0};
    struct ks_trace *trace = NULL;
    for (int64_t i = 0; i < 4; i++) {
        hand_open(&hand, i % 2 ? "odd" : "even");
        hand.source->run = i % 2 ? 2 : 1;
        hand.source->base_ns = 1000 * i;
        assert_int_equal(hand_slice(&hand, i, 1), KS_OK);
        assert_int_equal(ks_trace_builder_source_close(hand.builder, NULL), KS_OK);
    }
    assert_int_equal(ks_trace_builder_source_count(hand.builder), 4);
    assert_int_equal(ks_trace_builder_source(hand.builder, 3)->run, 2);
    assert_int_equal(ks_trace_builder_seal(hand.builder, 2, &trace, NULL), KS_OK);
    assert_int_equal(ks_trace_source_count(trace), 2);
    assert_int_equal(ks_trace_track_count(trace), 5);
    assert_int_equal(ks_trace_origin_ns(trace), 1001);
    size_t count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(trace, KS_TABLE_slice, &count);
    assert_int_equal(count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_string_equal(ks_trace_str(trace, ks_trace_source(trace, i)->path).ptr, "odd");
        const struct ks_track *thread = ks_trace_track(trace, lanes[i].track);
        assert_int_equal(thread->kind, KS_TRACK_THREAD);
        assert_int_equal(thread->source, i);
        assert_int_equal(thread->parent, lanes[i].track - 1);
        assert_ptr_equal(ks_trace_lane_find(trace, KS_TABLE_slice, lanes[i].track), &lanes[i]);
    }
    struct ks_slice_scan scan;
    ks_slice_scan_open(&scan, trace, KS_ALL_COLUMNS, 0, 2);
    assert_int_equal(ks_slice_scan_next(&scan, NULL), KS_OK);
    assert_int_equal(scan.col.start_ns[0], 0);
    assert_int_equal(scan.col.start_ns[1], 2002);
    ks_slice_scan_close(&scan);
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    ks_trace_span(trace, &start_ns, &end_ns);
    assert_int_equal(start_ns, 0);
    assert_int_equal(end_ns, 2003);
    ks_trace_destroy(trace);
}

static void check_bases(int64_t base_a, int64_t start_a, int64_t base_b, int64_t start_b,
                        enum ks_status status)
{
    struct hand hand = {0};
    struct ks_trace *trace = NULL;
    struct ks_err err = {0};
    const int64_t bases[] = {base_a, base_b};
    const int64_t starts[] = {start_a, start_b};
    for (size_t i = 0; i < 2; i++) {
        hand_open(&hand, "a");
        hand.source->base_ns = bases[i];
        assert_int_equal(hand_slice(&hand, starts[i], 10), KS_OK);
        assert_int_equal(ks_trace_builder_source_close(hand.builder, NULL), KS_OK);
    }
    assert_int_equal(ks_trace_builder_seal(hand.builder, 0, &trace, &err), status);
    if (status == KS_OK) {
        ks_trace_destroy(trace);
    }
}

static void test_overflow(void **state)
{
    (void)state;
    const int64_t far = INT64_C(1) << 62;
    check_bases(0, 0, 0, 0, KS_OK);
    check_bases(0, -far, 0, far - 20, KS_OK);
    check_bases(far, far - 20, far, far - 20, KS_OK);
    check_bases(-far, -far + 1, -far, 0, KS_OK);
    check_bases(-far, -far, -far, -far, KS_ERR_LIMIT); // the origin would be KS_TIME_NONE
    check_bases(INT64_MAX, 1, INT64_MAX, 1, KS_ERR_LIMIT);
    check_bases(INT64_MAX, 0, INT64_MIN + 1, 0, KS_ERR_LIMIT);
    check_bases(-far, 0, far, 0, KS_ERR_LIMIT);
    check_bases(INT64_MIN, 5, INT64_MIN, 5, KS_OK);

    struct hand hand = {0};
    hand_open(&hand, "a");
    assert_int_equal(hand_slice(&hand, INT64_MAX, 1), KS_ERR_LIMIT);
    assert_int_equal(hand_slice(&hand, 1, 1), KS_OK); // the builder goes on
    ks_trace_builder_destroy(hand.builder);
}

static void test_options(void **state)
{
    (void)state;
    struct ks_trace_builder *builder = NULL;
    struct ks_trace_options options = {.chunk_rows = 1000};
    struct ks_err err;
    assert_int_equal(ks_trace_builder_create(&options, &builder, &err), KS_ERR_USAGE);
    assert_string_equal(err.message, "Cannot create trace: chunk_rows=1000 is not a power of two");
}

/* More threads than runs that can be open: the late ones share one, and all come out right. */
static void test_many_lanes(void **state)
{
    (void)state;
    enum { LANES = 700, ROWS = 9 };
    struct hand hand = {0};
    struct ks_trace *trace = NULL;
    hand_open(&hand, "a");
    for (int64_t k = 0; k < ROWS; k++) {
        for (int64_t i = 0; i < LANES; i++) {
            struct ks_track_key pid = {.number = 5};
            struct ks_track_key tid = {.number = i * 7919 % LANES};
            assert_int_equal(ks_trace_builder_thread(hand.builder, pid, tid, &hand.thread, NULL),
                             KS_OK);
            assert_int_equal(hand_slice(&hand, k % 3, 1), KS_OK);
        }
    }
    assert_int_equal(ks_trace_builder_seal(hand.builder, 0, &trace, NULL), KS_OK);
    size_t count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(trace, KS_TABLE_slice, &count);
    assert_int_equal(count, LANES);
    struct ks_slice_scan scan;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(lanes[i].row_end - lanes[i].row_begin, ROWS);
        ks_slice_scan_open(&scan, trace, KS_COLUMN_BIT(KS_SLICE_COL_start_ns), lanes[i].row_begin,
                           lanes[i].row_end);
        assert_int_equal(ks_slice_scan_next(&scan, NULL), KS_OK);
        assert_int_equal(scan.count, ROWS);
        assert_null(scan.col.dur_ns);
        for (size_t k = 0; k < ROWS; k++) {
            assert_int_equal(scan.col.start_ns[k], k / 3);
        }
        ks_slice_scan_close(&scan);
    }
    ks_trace_destroy(trace);
}

static void test_tracks(void **state)
{
    (void)state;
    struct hand hand = {0};
    hand_open(&hand, "a");
    struct ks_trace_builder *builder = hand.builder;
    struct ks_strid text = {0};
    assert_int_equal(ks_trace_builder_intern(builder, KS_STR("1"), &text, NULL), KS_OK);
    struct ks_track_key pid = {.number = 1};
    struct ks_track_key text_pid = {.number = 1, .text = text};
    uint32_t process = 0;
    uint32_t other = 0;
    assert_int_equal(ks_trace_builder_process(builder, pid, &process, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_process(builder, text_pid, &other, NULL), KS_OK);
    assert_int_not_equal(process, other);
    assert_int_equal(ks_trace_builder_track(builder, other)->number, -1);
    assert_int_equal(ks_trace_builder_track(builder, hand.thread)->parent, process);

    uint32_t thread = 0;
    assert_int_equal(ks_trace_builder_thread(builder, text_pid, (struct ks_track_key){.number = 2},
                                             &thread, NULL),
                     KS_OK);
    assert_int_not_equal(thread, hand.thread);
    uint32_t async = 0;
    uint32_t again = 0;
    assert_int_equal(ks_trace_builder_async(builder, pid, &async, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_async(builder, pid, &again, NULL), KS_OK);
    assert_int_equal(async, again);
    uint32_t device = 0;
    uint32_t stream = 0;
    assert_int_equal(ks_trace_builder_stream(builder, 1, 2, &device, &stream, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_track(builder, stream)->parent, device);
    assert_int_equal(ks_trace_builder_track(builder, device)->parent, 0);
    assert_int_equal(ks_trace_builder_source_close(builder, NULL), KS_OK);

    /* The same ids in another source are other tracks. */
    uint32_t first = hand.thread;
    hand_open(&hand, "b");
    assert_true(hand.thread > first);
    uint32_t device_b = 0;
    assert_int_equal(ks_trace_builder_stream(builder, 1, 2, &device_b, &stream, NULL), KS_OK);
    assert_int_not_equal(device, device_b);
    ks_trace_builder_destroy(builder);
}

static void test_collectives(void **state)
{
    (void)state;
    struct hand hand = {0};
    struct ks_trace *trace = NULL;
    hand_open(&hand, "a");
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < 500; i++) {
            struct ks_collective collective = {.name = {3}, .sequence = i, .group_size = 8};
            uint32_t id = 0;
            assert_int_equal(ks_trace_builder_collective(hand.builder, &collective, &id, NULL),
                             KS_OK);
            assert_int_equal(id, i + 1);
        }
    }
    assert_int_equal(ks_trace_builder_seal(hand.builder, 0, &trace, NULL), KS_OK);
    assert_int_equal(ks_trace_collective(trace, 500)->sequence, 499);
    ks_trace_destroy(trace);
}

static void test_stats(void **state)
{
    (void)state;
    struct ks_source source = {0};
    assert_int_equal(ks_source_status(&source), KS_SOURCE_OK);
    source.counts[KS_STAT_metadata_events] = 3;
    assert_int_equal(ks_source_status(&source), KS_SOURCE_OK);
    source.counts[KS_STAT_text_skipped] = 1;
    assert_int_equal(ks_source_status(&source), KS_SOURCE_REPAIRED);
    source.counts[KS_STAT_partial_event] = 1;
    assert_int_equal(ks_source_status(&source), KS_SOURCE_TRUNCATED);
    for (size_t i = 0; i < KS_STAT_COUNT; i++) {
        const struct ks_stat_info *info = ks_stat_info((enum ks_stat)i);
        assert_non_null(info->name);
        assert_true(strlen(info->sentence) > 0);
    }
    assert_string_equal(ks_stat_info(KS_STAT_partial_event)->name, "partial_event");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bytes), cmocka_unit_test(test_against_twin),
        cmocka_unit_test(test_threads),    cmocka_unit_test(test_empty),
        cmocka_unit_test(test_runs),       cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_options),    cmocka_unit_test(test_many_lanes),
        cmocka_unit_test(test_tracks),     cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_stats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
