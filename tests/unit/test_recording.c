/* Goal: a recording becomes the rows that were written, whatever the windows are, and what is wrong
 * in it is counted by its name or refused at its byte. Method: recordings made slot by slot, each
 * with one fault or one thing more; rows and counters as text; times against exact ones. */
#include <inttypes.h>

#include "cmocka_all.h"
#include "dump_trace.h"
#include "read_bytes.h"
#include "recording_bytes.h"
#include "wire/crc32c.h"

static const int64_t START_NS = 1700000000000000000;

enum { STEP = 1, FORWARD, BATCH, LOSS, NOTE, ITEMS_LANE = 9 };

/* ------------------------------------------------------------------ what is read */

static void read_text(struct ks_str bytes, const struct read_bytes_options *options,
                      struct ks_text *out)
{
    struct ks_trace *trace = NULL;
    struct ks_err err = {0};
    ks_text_reset(out);
    if (read_bytes(bytes, options, &trace, &err) != KS_OK) {
        ks_text_printf(out, "%d at %" PRId64 ": %s", (int)err.status, err.offset, err.message);
        return;
    }
    assert_int_equal(dump_trace(trace, out, &err), KS_OK);
    assert_false(out->failed);
    ks_trace_destroy(trace);
}

/* Rows begin with the kind of their table. */
static void check_rows(const struct recording_bytes *r, const char *want)
{
    struct ks_text got;
    ks_text_init(&got);
    read_text(recording_bytes_str(r), &(struct read_bytes_options){0}, &got);
    ks_text_append(&got, "", 1);
    const char *rows = strstr(got.ptr, "\nslice ");
    rows = rows ? rows : strstr(got.ptr, "\nmark ");
    assert_string_equal(rows ? rows + 1 : got.ptr, want);
    ks_text_release(&got);
}

/* One counter is 1 and no other is there; strict reading refuses at `offset`. */
static void check_count(const struct recording_bytes *r, enum ks_stat stat, int64_t offset)
{
    struct ks_trace *trace = NULL;
    struct ks_err err = {0};
    struct read_bytes_options options = {0};
    assert_int_equal(read_bytes(recording_bytes_str(r), &options, &trace, &err), KS_OK);
    const struct ks_source *source = ks_trace_source(trace, 0);
    for (int i = 0; i < KS_STAT_COUNT; i++) {
        if (source->counts[i] != (unsigned)(i == (int)stat)) {
            print_message("%s=%d\n", ks_stat_info((enum ks_stat)i)->name, (int)source->counts[i]);
        }
        assert_int_equal(source->counts[i], i == (int)stat);
    }
    ks_trace_destroy(trace);
    options.strict = true;
    enum ks_status status = read_bytes(recording_bytes_str(r), &options, NULL, &err);
    if (ks_stat_info(stat)->severity == KS_SEVERITY_INFO) {
        assert_int_equal(status, KS_OK);
        return;
    }
    assert_int_equal(status, KS_ERR_FORMAT);
    assert_int_equal(err.offset, offset);
}

/* ------------------------------------------------------------------ what is written */

static void put_names(struct recording_bytes *r)
{
    static const char *const NAMES[] = {"", "step", "forward", "batch", "loss", "note"};
    recording_bytes_slot(r, KS_WIRE_ITEMS, ITEMS_LANE, 0);
    recording_bytes_clock(r, 0, 0, START_NS);
    for (uint32_t id = STEP; id <= NOTE; id++) {
        recording_bytes_string(r, id, NAMES[id]);
        recording_bytes_site(r, id, id, id == FORWARD ? 77 : 0);
    }
    recording_bytes_string(r, 77, "forward_pass");
    recording_bytes_clock(r, 1000, 1000, START_NS + 1000);
    recording_bytes_seal(r);
}

/* A recording with its names, and an open slot of events behind them. */
static void start(struct recording_bytes *r)
{
    recording_bytes_init(r, 7, START_NS);
    put_names(r);
    recording_bytes_slot(r, KS_WIRE_EVENTS, 1, 0);
}

/* Byte of event `n` of the second slot. */
static int64_t event_at(int64_t n)
{
    return KS_WIRE_HEADER_SIZE + KS_WIRE_SLOT_SIZE + KS_WIRE_SLOT_HEADER_SIZE + 16 * n;
}

static int64_t slot_at(int64_t n)
{
    return KS_WIRE_HEADER_SIZE + n * KS_WIRE_SLOT_SIZE;
}

static uint64_t bits_of(double value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static void put_step(struct recording_bytes *r, uint64_t tick)
{
    recording_bytes_event(r, tick, KS_WIRE_BEGIN, STEP);
    recording_bytes_event(r, 32, KS_WIRE_VALUE_INT, BATCH);
    recording_bytes_event(r, tick + 10, KS_WIRE_BEGIN, FORWARD);
    recording_bytes_event(r, bits_of(0.1), KS_WIRE_VALUE_REAL, LOSS);
    recording_bytes_event(r, FORWARD, KS_WIRE_VALUE_TEXT, NOTE);
    recording_bytes_event(r, tick + 30, KS_WIRE_END, FORWARD);
    recording_bytes_event(r, tick + 35, KS_WIRE_MARK, NOTE);
    recording_bytes_event(r, tick + 36, KS_WIRE_COUNTER, LOSS);
    recording_bytes_event(r, (uint64_t)-5, KS_WIRE_VALUE_INT, LOSS);
    recording_bytes_event(r, tick + 40, KS_WIRE_END, STEP);
}

/* ------------------------------------------------------------------ tests */

static void test_crc32c(void **state)
{
    (void)state;
    char bytes[100];
    assert_int_equal(ks_wire_crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(ks_wire_crc32c_plain(0, "123456789", 9), 0xE3069283);
    assert_int_equal(ks_wire_crc32c(ks_wire_crc32c(0, "1234", 4), "56789", 5), 0xE3069283);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (char)(i * 37);
        assert_int_equal(ks_wire_crc32c((uint32_t)i, bytes, i),
                         ks_wire_crc32c_plain((uint32_t)i, bytes, i));
    }
}

static const char STEP_ROWS[] = "slice 2 0+40 region name=\"step\" concrete=\"{\"batch\": 32}\"\n"
                                "slice 2 10+20 region name=\"forward\" types=\"forward_pass\""
                                " concrete=\"{\"loss\": 0.1, \"note\": \"forward\"}\"\n"
                                "mark 2 35 name=\"note\"\n"
                                "mark 2 36 name=\"loss\" value=-5 flags=1\n";

static void test_rows(void **state)
{
    (void)state;
    struct recording_bytes r;
    start(&r);
    put_step(&r, 100);
    check_rows(&r, STEP_ROWS); // what was published of an open slot
    recording_bytes_seal(&r);
    check_rows(&r, STEP_ROWS);
    recording_bytes_release(&r);

    recording_bytes_init(&r, 7, START_NS); // names behind what they name
    recording_bytes_slot(&r, KS_WIRE_EVENTS, 1, 0);
    put_step(&r, 100);
    put_names(&r);
    check_rows(&r, STEP_ROWS);
    recording_bytes_release(&r);
}

/* Cut and fed in any way, the same rows come out. */
static void test_windows(void **state)
{
    (void)state;
    struct recording_bytes r;
    struct ks_text whole;
    struct ks_text parts;
    ks_text_init(&whole);
    ks_text_init(&parts);
    recording_bytes_everything(&r);
    for (size_t cut = 0; cut <= KS_WIRE_SLOT_SIZE; cut += 4111) {
        struct ks_str bytes = {r.bytes.ptr, r.bytes.len - cut};
        struct read_bytes_options options = {.chunk_rows = 4};
        read_text(bytes, &options, &whole);
        for (options.window = 1; options.window <= bytes.len; options.window += 1009) {
            read_text(bytes, &options, &parts);
            assert_int_equal(parts.len, whole.len);
            assert_memory_equal(parts.ptr, whole.ptr, whole.len);
        }
    }
    ks_text_release(&whole);
    ks_text_release(&parts);
    recording_bytes_release(&r);
}

static void test_tasks(void **state)
{
    (void)state;
    struct recording_bytes r;
    start(&r);
    recording_bytes_event(&r, 0, KS_WIRE_BEGIN, STEP);
    recording_bytes_event(&r, 0, KS_WIRE_TRACK, 5);
    recording_bytes_event(&r, 1, KS_WIRE_BEGIN, FORWARD);
    recording_bytes_event(&r, 0, KS_WIRE_TRACK, 6);
    recording_bytes_event(&r, 2, KS_WIRE_BEGIN, FORWARD);
    recording_bytes_event(&r, 0, KS_WIRE_TRACK, 5);
    recording_bytes_event(&r, 3, KS_WIRE_END, FORWARD);
    recording_bytes_event(&r, 0, KS_WIRE_TRACK, 0);
    recording_bytes_event(&r, 4, KS_WIRE_END, STEP);
    recording_bytes_event(&r, 0, KS_WIRE_TRACK, 6);
    recording_bytes_event(&r, 5, KS_WIRE_END, FORWARD);
    check_rows(&r, "slice 2 0+4 region name=\"step\"\n"
                   "slice 3 1+2 region name=\"forward\" types=\"forward_pass\"\n"
                   "slice 4 2+3 region name=\"forward\" types=\"forward_pass\"\n");
    recording_bytes_release(&r);
}

static void put_stack(struct recording_bytes *r, uint32_t id, uint32_t caller, uint32_t code)
{
    struct ks_wire_stack stack = {.id = id, .caller = caller, .code = code, .line = id * 2};
    recording_bytes_item(r, KS_WIRE_STACK, &stack, sizeof(stack));
}

static void put_sample(struct recording_bytes *r, uint64_t tick, uint32_t tid, uint32_t stack)
{
    struct ks_wire_sample sample = {tick, tid, stack, 3, KS_WIRE_SAMPLE_RUNNING | 64};
    recording_bytes_item(r, KS_WIRE_SAMPLE, &sample, sizeof(sample));
}

/* Samples may come before their stacks, and stacks before their functions. */
static void test_samples(void **state)
{
    (void)state;
    struct recording_bytes r;
    struct ks_wire_code code = {.id = 6, .name = STEP, .file = FORWARD, .first_line = 4};
    start(&r);
    recording_bytes_slot(&r, KS_WIRE_ITEMS, 3, 0);
    put_sample(&r, 10, 50, 1002);
    put_sample(&r, 20, 60, 1001);
    put_sample(&r, 20, 50, 0);
    put_stack(&r, 1001, 0, 6);
    put_stack(&r, 1002, 1001, 6);
    recording_bytes_item(&r, KS_WIRE_CODE, &code, sizeof(code));
    struct ks_text got;
    ks_text_init(&got);
    read_text(recording_bytes_str(&r), &(struct read_bytes_options){.strict = true}, &got);
    ks_text_append(&got, "", 1);
    assert_string_equal(strstr(got.ptr, "sample "),
                        "sample 2 0 stack=2 weight=3 flags=1\n"
                        "sample 2 10 stack=0 weight=3 flags=1\n"
                        "sample 3 10 stack=1 weight=3 flags=1\n"
                        "stack 1 function=\"step\" file=\"forward\" line=2002 first=4\n"
                        "stack 2 caller=1 function=\"step\" file=\"forward\" line=2004 first=4\n");
    ks_text_release(&got);
    recording_bytes_release(&r);

    start(&r);
    recording_bytes_slot(&r, KS_WIRE_ITEMS, 3, 0);
    put_sample(&r, 10, 50, 7);
    check_count(&r, KS_STAT_names_missing, slot_at(2) + KS_WIRE_SLOT_HEADER_SIZE);
    recording_bytes_release(&r);
    /* A stack that calls itself, and one whose caller comes later. */
    for (uint32_t caller = 1; caller <= 2; caller++) {
        start(&r);
        recording_bytes_slot(&r, KS_WIRE_ITEMS, 3, 0);
        recording_bytes_item(&r, KS_WIRE_CODE, &code, sizeof(code));
        put_stack(&r, 1, caller, 6);
        put_stack(&r, 2, 0, 6);
        check_count(&r, KS_STAT_names_missing, KS_NO_OFFSET);
        recording_bytes_release(&r);
    }
}

static void test_call_paths(void **state)
{
    (void)state;
    struct recording_bytes r;
    struct ks_wire_code code = {.id = 6, .name = STEP, .file = FORWARD, .first_line = 4};
    struct ks_wire_functions functions = {.stop_tick = 1500};
    start(&r);
    recording_bytes_slot(&r, KS_WIRE_ITEMS, 3, 0);
    recording_bytes_item(&r, KS_WIRE_CODE, &code, sizeof(code));
    recording_bytes_item(&r, KS_WIRE_FUNCTIONS, &functions, sizeof(functions));
    struct ks_wire_node nodes[] = {
        {.code = 6,
         .parent_slot = UINT32_MAX,
         .calls = 1,
         .open = 1,
         .open_tick = 500,
         .child_ticks = 300},
        {.code = 6, .parent_slot = 3, .calls = 4, .total_ticks = 300},
        {.code = 0},
        {.code = 6, .parent_slot = 3, .calls = 1, .open = 1, .open_tick = 1400},
    };
    recording_bytes_slot(&r, KS_WIRE_NODES, 4, 0);
    recording_bytes_raw(&r, nodes, sizeof(nodes));
    nodes[0] = (struct ks_wire_node){.code = 6, .parent_slot = 3, .parent_index = 3, .calls = 2};
    recording_bytes_slot(&r, KS_WIRE_NODES, 4, 1);
    recording_bytes_raw(&r, nodes, sizeof(nodes[0]));
    struct ks_text got;
    ks_text_init(&got);
    read_text(recording_bytes_str(&r), &(struct read_bytes_options){.strict = true}, &got);
    ks_text_append(&got, "", 1);
#define FUNCTION " function=\"step\" file=\"forward\" first=4 "
    assert_string_equal(strstr(got.ptr, "path "),
                        "path 1 track=3" FUNCTION "calls=1 total=1000 child=400 open=1\n"
                        "path 2 track=3 parent=1" FUNCTION "calls=4 total=300 child=0\n"
                        "path 3 track=3 parent=1" FUNCTION "calls=1 total=100 child=0 open=1\n"
                        "path 4 track=3 parent=3" FUNCTION "calls=2 total=0 child=0\n");
    ks_text_release(&got);
    recording_bytes_release(&r);

    start(&r);
    recording_bytes_slot(&r, KS_WIRE_ITEMS, 3, 0);
    recording_bytes_item(&r, KS_WIRE_CODE, &code, sizeof(code));
    recording_bytes_slot(&r, KS_WIRE_NODES, 4, 0);
    nodes[0].parent_index = 0; // itself
    recording_bytes_raw(&r, nodes, sizeof(nodes[0]));
    check_count(&r, KS_STAT_names_missing, slot_at(3) + KS_WIRE_SLOT_HEADER_SIZE);
    recording_bytes_release(&r);
}

/* Sealed slots end with what holds no room for an event more. */
static void test_many_slots(void **state)
{
    (void)state;
    struct recording_bytes r;
    struct ks_text whole;
    struct ks_text parts;
    enum { PAIRS = KS_WIRE_PAYLOAD_SIZE / 32, SLOTS = 5 };
    ks_text_init(&whole);
    ks_text_init(&parts);
    recording_bytes_init(&r, 7, START_NS);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        uint32_t lane = 1 + slot % 2;
        recording_bytes_slot(&r, KS_WIRE_EVENTS, lane, slot / 2);
        recording_bytes_event(&r, slot * 100000, KS_WIRE_BEGIN, STEP);
        for (uint64_t i = 1; i < PAIRS; i++) {
            recording_bytes_event(&r, slot * 100000 + i, KS_WIRE_BEGIN, FORWARD);
            recording_bytes_event(&r, slot * 100000 + i + 1, KS_WIRE_END, FORWARD);
        }
        recording_bytes_event(&r, slot * 100000 + PAIRS + 2, KS_WIRE_END, STEP);
        recording_bytes_seal(&r);
    }
    put_names(&r);
    struct read_bytes_options options = {.chunk_rows = 16};
    read_text(recording_bytes_str(&r), &options, &whole);
    for (size_t window = 1; window < 200000; window = window * 3 + 1) {
        options.window = window;
        read_text(recording_bytes_str(&r), &options, &parts);
        assert_int_equal(parts.len, whole.len);
        assert_memory_equal(parts.ptr, whole.ptr, whole.len);
    }
    ks_text_append(&whole, "", 1);
    assert_non_null(strstr(whole.ptr, "source events=2550 "));
    ks_text_release(&whole);
    ks_text_release(&parts);
    recording_bytes_release(&r);
}

/* ---- times */

static void check_time(const struct recording_bytes *r, int64_t base_ns, int64_t start_ns,
                       int64_t dur_ns)
{
    struct ks_trace *trace = NULL;
    struct ks_slice_scan scan;
    struct read_bytes_options options = {0};
    assert_int_equal(read_bytes(recording_bytes_str(r), &options, &trace, NULL), KS_OK);
    assert_int_equal(ks_trace_source(trace, 0)->base_ns, base_ns);
    assert_int_equal(ks_trace_rows(trace, KS_TABLE_slice), 1);
    ks_slice_scan_open(&scan, trace, KS_ALL_COLUMNS, 0, 1);
    assert_int_equal(ks_slice_scan_next(&scan, NULL), KS_OK);
    assert_int_equal(ks_trace_origin_ns(trace) + scan.col.start_ns[0], base_ns + start_ns);
    assert_int_equal(scan.col.dur_ns[0], dur_ns);
    ks_slice_scan_close(&scan);
    ks_trace_destroy(trace);
}

struct look {
    uint64_t tick;
    int64_t monotonic_ns;
    int64_t unix_ns;
};

/* One region, and these looks at the clock; they come in the order given. */
static void put_clocks(struct recording_bytes *r, uint32_t khz, const struct look *looks,
                       size_t count, uint64_t begin, uint64_t end)
{
    recording_bytes_init(r, 7, START_NS);
    recording_bytes_header(r)->is_tsc = 1;
    recording_bytes_header(r)->tick_khz = khz;
    recording_bytes_header(r)->start_tick = 50;
    recording_bytes_fix_header(r);
    recording_bytes_slot(r, KS_WIRE_EVENTS, 1, 0);
    recording_bytes_event(r, begin, KS_WIRE_BEGIN, STEP);
    recording_bytes_event(r, end, KS_WIRE_END, STEP);
    recording_bytes_slot(r, KS_WIRE_ITEMS, 2, 0);
    recording_bytes_string(r, 1, "step");
    recording_bytes_site(r, STEP, 1, 0);
    for (size_t i = 0; i < count; i++) {
        recording_bytes_clock(r, looks[i].tick, looks[i].monotonic_ns, looks[i].unix_ns);
    }
}

static void check_clocks(uint32_t khz, const struct look *looks, size_t count, uint64_t begin,
                         uint64_t end, int64_t base_ns, int64_t start_ns, int64_t dur_ns)
{
    struct recording_bytes r;
    put_clocks(&r, khz, looks, count, begin, end);
    check_time(&r, base_ns, start_ns, dur_ns);
    recording_bytes_release(&r);
}

static void test_times(void **state)
{
    (void)state;
    /* 3 ticks a ns, then 2 a ns. */
    static const struct look LINES[] = {{9000, 3000, START_NS + 3000},
                                        {3000, 1000, START_NS + 1000},
                                        {13000, 5000, START_NS + 5000}};
    check_clocks(0, LINES, 3, 3000, 3001, START_NS + 1000, 0, 0);
    check_clocks(0, LINES, 3, 3001, 3003, START_NS + 1000, 0, 1); // rounded down, both
    check_clocks(0, LINES, 3, 8997, 9002, START_NS + 1000, 1999, 2);
    check_clocks(0, LINES, 3, 13000, 14000, START_NS + 1000, 4000, 500); // lines go on ...
    check_clocks(0, LINES, 3, 2999, 3003, START_NS + 1000, -1, 2);       // ... at both ends
    /* One look, and none: the rate and the moment of the header. */
    check_clocks(2000000, LINES, 1, 9000, 9010, START_NS + 3000, 0, 5);
    check_clocks(2000000, NULL, 0, 50, 60, START_NS, 0, 5);
    /* Somebody sets the clock back by an hour: time goes on as the other clock says. */
    static const struct look SET[] = {{0, 0, START_NS},
                                      {1000, 1000000000, START_NS + 1000000000},
                                      {2000, 2000000000, START_NS + 2000000000 - 3600000000000},
                                      {3000, 3000000000, START_NS + 3000000000 - 3600000000000}};
    check_clocks(0, SET, 4, 500, 2500, START_NS, 500000000, 2000000000);
    /* A clock that is slewed is believed. */
    static const struct look SLEWED[] = {{0, 0, START_NS},
                                         {1000, 1000000000, START_NS + 1000500000}};
    check_clocks(0, SLEWED, 2, 0, 1000, START_NS, 0, 1000500000);
    /* Differences that need more than 64 bits on the way. */
    static const struct look WIDE[] = {{0, 0, 0}, {UINT64_MAX, INT64_MAX / 2, INT64_MAX / 2}};
    check_clocks(0, WIDE, 2, UINT64_MAX / 2, UINT64_MAX - 1, 0, INT64_MAX / 4, INT64_MAX / 4);
}

/* ---- damage */

static void check_events(enum ks_stat stat, int64_t offset, const uint64_t events[][3],
                         size_t count)
{
    struct recording_bytes r;
    start(&r);
    for (size_t i = 0; i < count; i++) {
        recording_bytes_event(&r, events[i][0], (enum ks_wire_event_kind)events[i][1],
                              (uint32_t)events[i][2]);
    }
    check_count(&r, stat, offset);
    recording_bytes_release(&r);
}

#define EVENTS(stat, offset, ...)                                                                  \
    do {                                                                                           \
        static const uint64_t EVENTS_[][3] = {__VA_ARGS__};                                        \
        check_events(KS_STAT_##stat, offset, EVENTS_, KS_COUNT_OF(EVENTS_));                       \
    } while (0)

#define B(tick, site)                                                                              \
    {                                                                                              \
        tick, KS_WIRE_BEGIN, site                                                                  \
    }
#define E(tick, site)                                                                              \
    {                                                                                              \
        tick, KS_WIRE_END, site                                                                    \
    }

static void test_events_that_do_not_fit(void **state)
{
    (void)state;
    EVENTS(regions_unfinished, event_at(0), B(1, STEP), B(2, FORWARD), E(3, FORWARD));
    EVENTS(end_without_begin, event_at(2), B(1, STEP), E(2, STEP), E(3, STEP));
    EVENTS(end_without_begin, event_at(1), B(1, STEP), E(2, FORWARD), E(3, STEP));
    EVENTS(auto_closed_slices, event_at(2), B(1, STEP), B(2, FORWARD), E(3, STEP));
    EVENTS(negative_duration, event_at(0), B(5, STEP), E(3, STEP));
    EVENTS(values_without_region, event_at(0), {1, KS_WIRE_VALUE_INT, BATCH});
    EVENTS(counters_without_value, event_at(0), {1, KS_WIRE_COUNTER, LOSS}, B(1, STEP), E(2, STEP));
    EVENTS(counters_without_value, event_at(0), {1, KS_WIRE_COUNTER, LOSS});
    EVENTS(unknown_kinds, event_at(0), {1, 99, STEP});
    EVENTS(events_unpublished, event_at(1), B(1, STEP), {7, 0, 0}, E(2, STEP));
    EVENTS(names_missing, event_at(0), {1, KS_WIRE_MARK, 66});
    EVENTS(time_out_of_range, event_at(0), {UINT64_MAX, KS_WIRE_MARK, STEP});
}

static void test_too_many_values(void **state)
{
    (void)state;
    struct recording_bytes r;
    start(&r);
    recording_bytes_event(&r, 1, KS_WIRE_BEGIN, STEP);
    for (uint64_t i = 0; i < 65; i++) {
        recording_bytes_event(&r, i, KS_WIRE_VALUE_INT, BATCH);
    }
    recording_bytes_event(&r, 2, KS_WIRE_END, STEP);
    check_count(&r, KS_STAT_values_left_out, event_at(65));
    recording_bytes_release(&r);
}

/* A step in a third slot, whose head `change` damages. */
static void check_slot(enum ks_stat stat, void (*change)(struct recording_bytes *r))
{
    struct recording_bytes r;
    start(&r);
    put_step(&r, 100);
    recording_bytes_seal(&r);
    recording_bytes_slot(&r, KS_WIRE_EVENTS, 2, 0);
    put_step(&r, 200);
    recording_bytes_seal(&r);
    change(&r);
    check_count(&r, stat, slot_at(2));
    recording_bytes_release(&r);
}

static void wrong_magic(struct recording_bytes *r)
{
    recording_bytes_head(r)->magic ^= 1;
}

static void wrong_index(struct recording_bytes *r)
{
    recording_bytes_head(r)->index++;
    recording_bytes_seal(r);
}

static void wrong_kind(struct recording_bytes *r)
{
    recording_bytes_head(r)->kind = 4;
    recording_bytes_seal(r);
}

static void wrong_byte(struct recording_bytes *r)
{
    r->bytes.ptr[r->slot_at + KS_WIRE_SLOT_HEADER_SIZE + 3] ^= 1;
}

static void wrong_tid(struct recording_bytes *r)
{
    recording_bytes_head(r)->tid++;
}

static void wrong_size(struct recording_bytes *r)
{
    recording_bytes_head(r)->size = KS_WIRE_PAYLOAD_SIZE + 1;
}

static void late_sequence(struct recording_bytes *r)
{
    recording_bytes_head(r)->sequence = 3;
    recording_bytes_seal(r);
}

static void same_place(struct recording_bytes *r)
{
    recording_bytes_head(r)->lane = 1;
    recording_bytes_seal(r);
}

static void test_slots(void **state)
{
    (void)state;
    check_slot(KS_STAT_slots_damaged, wrong_magic);
    check_slot(KS_STAT_slots_damaged, wrong_index);
    check_slot(KS_STAT_slots_damaged, same_place);
    check_slot(KS_STAT_unknown_kinds, wrong_kind);
    check_slot(KS_STAT_slots_unlike_checksum, wrong_byte);
    check_slot(KS_STAT_slots_unlike_checksum, wrong_tid);
    check_slot(KS_STAT_slots_unlike_checksum, wrong_size);
    check_slot(KS_STAT_lane_gaps, late_sequence);
}

static void test_items(void **state)
{
    (void)state;
    struct recording_bytes r;
    start(&r);
    recording_bytes_slot(&r, KS_WIRE_ITEMS, 3, 0);
    recording_bytes_string(&r, 88, "open");
    r.bytes.ptr[r.bytes.len - KS_WIRE_PAYLOAD_SIZE + 8] ^= 1; // its number
    check_count(&r, KS_STAT_items_damaged, slot_at(2) + KS_WIRE_SLOT_HEADER_SIZE);
    recording_bytes_release(&r);

    start(&r);
    recording_bytes_slot(&r, KS_WIRE_ITEMS, 3, 0);
    recording_bytes_item(&r, KS_WIRE_SITE, "short", 5);
    check_count(&r, KS_STAT_items_damaged, slot_at(2) + KS_WIRE_SLOT_HEADER_SIZE);
    recording_bytes_release(&r);

    start(&r);
    recording_bytes_slot(&r, KS_WIRE_ITEMS, 3, 0);
    recording_bytes_item(&r, (enum ks_wire_item_kind)99, "later", 5);
    check_count(&r, KS_STAT_unknown_kinds, slot_at(2) + KS_WIRE_SLOT_HEADER_SIZE);
    recording_bytes_release(&r);
}

static void check_header(enum ks_stat stat, size_t place, size_t offset, uint8_t byte, bool fix)
{
    struct recording_bytes r;
    start(&r);
    put_step(&r, 100);
    r.bytes.ptr[place] = (char)byte;
    if (fix) {
        recording_bytes_fix_header(&r);
    }
    check_count(&r, stat, (int64_t)offset);
    recording_bytes_release(&r);
}

#define AT(member) offsetof(struct ks_wire_header, member)

static void test_headers(void **state)
{
    (void)state;
    check_header(KS_STAT_recording_unclosed, AT(state), AT(state), KS_WIRE_RUNNING, false);
    check_header(KS_STAT_recording_off, AT(state), AT(state), KS_WIRE_OFF, false);
    check_header(KS_STAT_events_lost, AT(events_lost), AT(events_lost), 1, false);
    check_header(KS_STAT_items_lost, AT(items_lost), AT(items_lost), 1, false);
    check_header(KS_STAT_recording_header_damaged, AT(pid), AT(crc), 99, false);
    check_header(KS_STAT_unterminated, AT(slot_count), (size_t)slot_at(2), 3, false);
}

static void test_refused(void **state)
{
    (void)state;
    struct recording_bytes r;
    struct ks_err err = {0};
    struct read_bytes_options options = {0};
    start(&r);
    recording_bytes_header(&r)->version = 2;
    recording_bytes_fix_header(&r);
    assert_int_equal(read_bytes(recording_bytes_str(&r), &options, NULL, &err), KS_ERR_UNSUPPORTED);
    assert_string_equal(err.message,
                        "Cannot read recording: it is of version 2, this is version 1");
    struct ks_str cut = {r.bytes.ptr, 500};
    assert_int_equal(read_bytes(cut, &options, NULL, &err), KS_ERR_FORMAT);
    assert_int_equal(err.offset, 500);
    recording_bytes_release(&r);
}

/* Cut anywhere, what stands before the cut is read, and the cut is counted. */
static void test_cut(void **state)
{
    (void)state;
    struct recording_bytes r;
    start(&r);
    put_step(&r, 100);
    for (size_t len = KS_WIRE_HEADER_SIZE; len < r.bytes.len; len += 331) {
        struct ks_trace *trace = NULL;
        struct ks_err err = {0};
        struct read_bytes_options options = {0};
        struct ks_str cut = {r.bytes.ptr, len};
        assert_int_equal(read_bytes(cut, &options, &trace, &err), KS_OK);
        assert_int_equal(ks_trace_source(trace, 0)->counts[KS_STAT_unterminated], 1);
        int64_t rows = ((int64_t)len >= event_at(1)) + ((int64_t)len >= event_at(3));
        assert_int_equal(ks_trace_rows(trace, KS_TABLE_slice), rows);
        ks_trace_destroy(trace);
        options.strict = true;
        assert_int_equal(read_bytes(cut, &options, NULL, &err), KS_ERR_FORMAT);
    }
    recording_bytes_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_call_paths),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_tasks),
        cmocka_unit_test(test_many_slots),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_events_that_do_not_fit),
        cmocka_unit_test(test_too_many_values),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_items),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
