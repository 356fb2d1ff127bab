/* Goal: a Kineto or Chrome document becomes the rows it means, whatever the windows are, and strict
 * reading names the first byte that is wrong. Method: documents with every kind of event and of
 * damage, read with windows of 1, 2, 3 ... bytes; rows compared as text; strict offsets found by
 * repairing a document one fault after another; work counted by allocations and by size. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/text.h"
#include "cmocka_all.h"
#include "dump_trace.h"
#include "every_event.h"
#include "read_bytes.h"

/* Damage of every kind, with whole events between. */
static const char DAMAGED[] =
    "{\"user\": {\"a\": tru}, \"baseTimeNanoseconds\": 5, \"traceEvents\": [\n"
    "{\"ph\": \"X\", \"name\": \"one\x01\", \"pid\": 1, \"tid\": 2, \"ts\": 1, \"dur\": 1},\n"
    "{\"ph\": \"X\", \"name\": \"say \"hi\", now\", \"pid\": 1, \"tid\": 2, \"ts\": 2, \"dur\": 1, "
    "\"args\": {\"Input type\": [\"float\", \"int\"]}},\n"
    "{\"ph\": \"X\", \"name\": \"lost\", \"pid\": 1, tid\": 2, \"ts\": 3, \"dur\": 1},\n"
    "{\"ph\": \"X\", \"name\": \"cut he{\"ph\": \"X\", \"name\": \"two\", \"pid\": 1, \"tid\": 2, "
    "\"ts\": 4,"
    " \"dur\": 1}\n"
    "{\"ph\": \"X\", \"name\": \"no comma\", \"pid\": 1, \"tid\": 2, \"ts\": 5, \"dur\": 1},,\n"
    "{\"ph\": \"X\", \"name\": \"\xff\", \"pid\": \"\\w\", \"tid\": \"NaN\", \"ts\": 6, \"dur\": "
    "1,},\n"
    "\"text\", 5, garbage, [1, 2], {\"ph\": \"Q\", \"ts\": 1}, {\"ts\": 1}, {\"ph\": \"X\"},\n"
    "{\"ph\": \"E\", \"name\": \"nobody\", \"pid\": 1, \"tid\": 2, \"ts\": 6},\n"
    "{\"ph\": \"B\", \"name\": \"open\", \"pid\": 1, \"tid\": 2, \"ts\": 6},\n"
    "{\"ph\": \"X\", \"ts\": NaN, \"dur\": 1}, {\"ph\": \"X\", \"ts\": 1, \"dur\": -1},\n"
    "{\"ph\": \"C\", \"name\": \"c\", \"ts\": 7, \"args\": {\"a\": inf, \"b\"c\": 2}},\n"
    "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"inner\", \"ts\": 8, \"dur\": 1}]},\n"
    "{\"ph\": \"X\", \"name\": \"broken\" \"ts\": 9}\n"
    "], \"INFO\": [\"a \"b\" c\"] \"distributedInfo\": {\"rank\": 3,}, \"traceName\": \"t\"}\n\n x";

/* Reads and appends the rows as text, or the error. */
static void read_text(struct ks_str bytes, const struct read_bytes_options *options,
                      struct ks_text *out)
{
    struct ks_trace *trace = NULL;
    struct ks_err err = {0};
    if (read_bytes(bytes, options, &trace, &err) != KS_OK) {
        ks_text_printf(out, "%d at %" PRId64 ": %s", (int)err.status, err.offset, err.message);
        return;
    }
    assert_int_equal(dump_trace(trace, out, &err), KS_OK);
    assert_false(out->failed);
    ks_trace_destroy(trace);
}

static bool is_same(const struct ks_text *a, const struct ks_text *b)
{
    return a->len == b->len && memcmp(a->ptr, b->ptr, a->len) == 0;
}

static void check_windows(struct ks_str bytes, bool strict)
{
    struct ks_text whole;
    struct ks_text parts;
    ks_text_init(&whole);
    ks_text_init(&parts);
    struct read_bytes_options options = {.strict = strict, .chunk_rows = 4};
    read_text(bytes, &options, &whole);
    for (options.window = 1; options.window <= bytes.len + 1; options.window++) {
        ks_text_reset(&parts);
        read_text(bytes, &options, &parts);
        if (!is_same(&whole, &parts)) {
            print_message("window of %zu bytes:\n%.*s\nwhole:\n%.*s\n", options.window,
                          (int)parts.len, parts.ptr, (int)whole.len, whole.ptr);
        }
        assert_true(is_same(&whole, &parts));
    }
    ks_text_release(&whole);
    ks_text_release(&parts);
}

static void test_windows(void **state)
{
    (void)state;
    check_windows(ks_str_from(EVERYTHING), false);
    check_windows(ks_str_from(EVERYTHING), true);
}

static void test_windows_damaged(void **state)
{
    (void)state;
    check_windows(ks_str_from(DAMAGED), false);
    check_windows(ks_str_from(DAMAGED), true);
}

/* Cut anywhere, a document still reads the same in small windows, and nothing is lost silently. */
static void test_windows_cut(void **state)
{
    (void)state;
    struct ks_text whole;
    struct ks_text parts;
    ks_text_init(&whole);
    ks_text_init(&parts);
    for (size_t len = 0; len < sizeof(EVERYTHING) - 1; len += 3) {
        struct ks_str bytes = {EVERYTHING, len};
        ks_text_reset(&whole);
        ks_text_reset(&parts);
        read_text(bytes, &(struct read_bytes_options){0}, &whole);
        read_text(bytes, &(struct read_bytes_options){.window = 37}, &parts);
        assert_true(is_same(&whole, &parts));
        struct ks_err err = {0};
        assert_int_not_equal(
            read_bytes(bytes, &(struct read_bytes_options){.strict = true}, NULL, &err), KS_OK);
    }
    ks_text_release(&whole);
    ks_text_release(&parts);
}

/* ---- what rows say */

static void check_rows(const char *bytes, const char *want)
{
    struct ks_text got;
    ks_text_init(&got);
    read_text(ks_str_from(bytes), &(struct read_bytes_options){0}, &got);
    ks_text_append(&got, "", 1);
    const char *tables = strstr(got.ptr, "slice");
    assert_string_equal(tables ? tables : got.ptr, want);
    ks_text_release(&got);
}

static void test_rows(void **state)
{
    (void)state;
    check_rows(
        EVERYTHING,
        "slice 2 0+20000 user_annotation name=\"ProfilerStep#3\"\n"
        "slice 2 500+10000 python_function name=\"a.py(1): f\" aux=2 parent=1\n"
        "slice 2 1000+9000 cpu_op name=\"aten::conv2d\" ext=5 seq=3 aux=0 "
        "dims=\"[[2, 3], [], []]\" types=\"[\"float\", \"\", \"TensorList\"]\" "
        "concrete=\"[\"\", \"False\"]\"\n"
        "slice 2 2000+1500 cuda_runtime name=\"cudaLaunchKernel\" ext=5 corr=77\n"
        "slice 9 1000+3000 none name=\"b\"\n"
        "slice 9 2000+1000 none name=\"c\"\n"
        "slice 10 5000+1000 other name=\"get\" flags=2\n"
        "gpu 3/4 5250+3125 kernel name=\"ncclDevKernel_AllReduce\" corr=77 ext=5 launch=2000 "
        "launch_end=3500 launch_lane=2 grid=\"[1, 2, 3]\" block=\"[128, 1, 1]\" collective=1 "
        "occupancy=0.25 blocks=1.5 warps=6 shared=1024 registers=32 flags=1\n"
        "gpu 3/5 9000+1000 gpu_memcpy name=\"Memcpy HtoD\" bytes=4096\n"
        "memory 1 3000 bytes=512 addr=18446744073709551615 allocated=512 reserved=2048 "
        "device_sum=512 device=0 type=1\n"
        "memory 1 3500 bytes=99 addr=0 device_sum=512 flags=1\n"
        "mark 7 12000 name=\"Record Window End\"\n"
        "mark 8 4000 name=\"util\" series=\"gpu\" value=12 flags=1\n"
        "mark 8 4000 name=\"util\" series=\"mem\" value=0.5 flags=1\n"
        "link 2 2000+1500 corr=77 first=5250 end=8375 name=\"cudaLaunchKernel\" count=1 kind=1\n");
}

/* An event that has keys of arguments as its own, where they mean nothing, takes nothing from the
 * arguments of the next one. */
static void test_levels(void **state)
{
    (void)state;
    check_rows("[{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\", \"ts\": 1, \"dur\": 1, "
               "\"Ev Idx\": 1, \"Input Dims\": [[1]]}, "
               "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"b\", \"ts\": 3, \"dur\": 1, "
               "\"args\": {\"Record function id\": 0, \"Ev Idx\": 1, \"Input Dims\": [[2, 3]]}}]",
               "slice 2 0+1000 cpu_op name=\"a\"\n"
               "slice 2 2000+1000 cpu_op name=\"b\" dims=\"[[2, 3]]\"\n");
}

/* One event in a list, by its own text. */
static void check_event(const char *event, const char *want)
{
    char bytes[1024];
    (void)snprintf(bytes, sizeof(bytes), "[%s]", event);
    check_rows(bytes, want);
}

static void test_events(void **state)
{
    (void)state;
    /* The last of two keys counts, whatever the first one was. */
    check_event("{\"ph\": \"X\", \"pid\": \"a\", \"pid\": 3, \"tid\": 4, \"tid\": null, \"ts\": 1, "
                "\"dur\": 1}",
                "slice 2 0+1000 none\n");
    /* Text ids that look like words for no number are text, and no damage. */
    check_event("{\"ph\": \"X\", \"pid\": \"none\", \"tid\": \"nan\", \"ts\": 1, \"dur\": 1}",
                "slice 2 0+1000 none\n");
    /* The end of the largest time is still a time. */
    check_event("{\"ph\": \"X\", \"ts\": 9007199254740993, \"dur\": 1}", "slice 2 0+1000 none\n");
}

static struct ks_source read_source(const char *bytes)
{
    struct ks_trace *trace = NULL;
    struct ks_err err = {0};
    assert_int_equal(read_bytes(ks_str_from(bytes), &(struct read_bytes_options){0}, &trace, &err),
                     KS_OK);
    struct ks_source source = *ks_trace_source(trace, 0);
    ks_trace_destroy(trace);
    return source;
}

static void test_out_of_range(void **state)
{
    (void)state;
    struct ks_source s = read_source(
        "[{\"ph\": \"X\", \"ts\": 9300000000000000, \"dur\": 1}, "
        "{\"ph\": \"X\", \"ts\": 1, \"dur\": 9999999999999999.000},"
        "{\"ph\": \"X\", \"ts\": -1e12, \"dur\": 1}, "
        "{\"ph\": \"X\", \"ts\": 9079256848778919.000, \"dur\": 9079256848778919.000}]");
    assert_int_equal(s.counts[KS_STAT_time_out_of_range], 3);
    assert_int_equal(s.events, 1); // -1e12 us are eleven days
    s = read_source("{\"baseTimeNanoseconds\": 9223372036854775807, \"traceEvents\": "
                    "[{\"ph\": \"X\", \"ts\": 1, \"dur\": 1}]}");
    assert_int_equal(s.counts[KS_STAT_time_out_of_range], 1);
    assert_false(s.has_base);
    s = read_source("{\"baseTimeNanoseconds\": null, \"traceEvents\": []}");
    assert_false(s.has_base);
}

/* Short fractions are plain nanoseconds only where nothing else explains them. */
static void test_unpadded(void **state)
{
    (void)state;
    static const struct {
        const char *times[2];
        bool is_unpadded;
    } FILES[] = {
        {{"1712195495521810.7", "1712195495521820.120"}, true},
        {{"1712195495521810.7", "1712195495521820.12"}, false},  // zeros are trimmed
        {{"1712195495521810.0", "1712195495521820.120"}, false}, // Python's whole number
        {{"1712195495521810.700", "1712195495521820.120"}, false},
        {{"1712195495521810", "1712195495521820.120"}, false},
        {{"10.5", "1712195495521820.120"}, false}, // not from those builds
        {{"10.5", "20.120"}, false},
        {{"1712195495521810.7u", "1712195495521820.120"}, false}, // damage
        {{"1712195495521810.", "1712195495521820.120"}, false},
    };
    for (size_t i = 0; i < KS_COUNT_OF(FILES); i++) {
        char bytes[512];
        (void)snprintf(bytes, sizeof(bytes),
                       "[{\"ph\": \"X\", \"ts\": %s, \"dur\": 1}, {\"ph\": \"X\", "
                       "\"ts\": %s, \"dur\": 1}]",
                       FILES[i].times[0], FILES[i].times[1]);
        struct ks_source s = read_source(bytes);
        assert_int_equal(s.counts[KS_STAT_time_unpadded], FILES[i].is_unpadded);
        assert_true(!FILES[i].is_unpadded || s.start_ns == 1712195495521810007);
    }
}

static void test_metadata_behind_damage(void **state)
{
    (void)state;
    struct ks_source s = read_source(DAMAGED);
    assert_int_equal(s.base_ns, 5);
    assert_int_equal(s.rank, 3);
    assert_int_equal(s.counts[KS_STAT_unterminated], 0);
    assert_int_equal(s.counts[KS_STAT_partial_event], 0);
    assert_int_equal(s.counts[KS_STAT_trailing_bytes], 1);
    /* one, hi, two, no comma, U+FFFD, open, two counters as one event, inner */
    assert_int_equal(s.events, 8);
}

/* A repair inside the event that breaks later is the first fault. */
static void check_strict(const char *bytes, int64_t offset)
{
    struct ks_err err = {0};
    struct read_bytes_options strict = {.strict = true};
    enum ks_status status = read_bytes(ks_str_from(bytes), &strict, NULL, &err);
    assert_int_equal(status, offset < 0 ? KS_OK : KS_ERR_FORMAT);
    assert_int_equal(offset < 0 ? -1 : err.offset, offset);
}

/* What `kscope run` notes of the process; what is no number, or below 0, is not known. */
static void test_process(void **state)
{
    (void)state;
    static const char text[] =
        "{\"kinetoscope\": {\"schema\": \"kinetoscope.window/1\", \"process\": {\"threads\": 8, "
        "\"cores\": 4, \"local_ranks\": 2, \"wall_ns\": 100, \"cpu_ns\": 90, "
        "\"thread_run_ns\": 30, \"thread_wait_ns\": -5, \"quota_us\": \"max\", \"new\": [1, {}], "
        "\"periods\": 3, \"throttled\": 2, \"throttled_ns\": 7, \"loader_ns\": 40, "
        "\"loader_cpu_ns\": 10, \"workers\": 2, \"worker_cpu_ns\": 11, \"worker_wait_ns\": 12, "
        "\"mask_batches\": 1, \"mask_slots\": 40, \"mask_longest\": 30, \"mask_tokens\": 20}, "
        "\"pid\": 77}, "
        "\"traceEvents\": [{\"ph\": \"X\", \"name\": \"a\", \"ts\": 1, \"dur\": 1}]}";
    struct ks_source source = read_source(text);
    const struct ks_process_use *use = &source.process;
    assert_int_equal(source.pid, 77);
    assert_int_equal(use->threads * 1000 + use->cores * 100 + use->local_ranks, 8402);
    assert_int_equal(use->wall_ns * 1000 + use->cpu_ns, 100090);
    assert_int_equal(use->thread_run_ns, 30);
    assert_int_equal(use->thread_wait_ns, 0);
    assert_int_equal(use->quota_us, 0);
    assert_int_equal(use->periods * 100 + use->throttled * 10 + use->throttled_ns, 327);
    assert_int_equal(use->loader_ns * 1000 + use->loader_cpu_ns, 40010);
    assert_int_equal(use->workers * 1000 + use->worker_cpu_ns, 2011);
    assert_int_equal(use->worker_wait_ns, 12);
    assert_int_equal(use->mask_batches * 100 + use->mask_slots, 140);
    assert_int_equal(use->mask_longest * 100 + use->mask_tokens, 3020);
}

/* What it notes of the compiler, in any order. */
static void test_compiler(void **state)
{
    (void)state;
    static const char text[] =
        "{\"kinetoscope\": {\"compiler\": {\"graphs_skipped\": 2, \"functions\": 9, \"new\": {}, "
        "\"functions_compiled\": 8, \"graph_breaks\": -1, \"graph_break_reason\": \"a\"}, "
        "\"pid\": 77}, "
        "\"traceEvents\": [{\"ph\": \"X\", \"name\": \"a\", \"ts\": 1, \"dur\": 1}]}";
    struct ks_source source = read_source(text);
    const struct ks_compiler_use *use = &source.compiler;
    assert_int_equal(use->functions * 10 + use->functions_compiled, 98);
    assert_int_equal(use->graph_breaks, 0);
    assert_int_equal(use->graphs_skipped, 2);
    assert_true(source.graph_break_reason.v != 0);
    assert_int_equal(source.pid, 77);
    source = read_source("{\"kinetoscope\": {\"compiler\": 3}, \"traceEvents\": []}");
    assert_int_equal(source.compiler.functions, 0);
}

static void test_strict(void **state)
{
    (void)state;
    check_strict(EVERYTHING, -1);
    check_strict("[{\"ph\": \"X\", \"name\": \"\x01\", \"ts\" 1}]", 22);
    check_strict("[{\"ph\": \"X\", \"ts\": 1, \"dur\": 1, \"args\": {\"a\": [1,,2]}}]", 49);
    check_strict("[{\"ph\": \"X\", \"ts\": 1, \"dur\": 1, \"args\": {\"a\": [[1 2]]}}]", 50);
    check_strict("{\"traceEvents\": [],}", 19);
    check_strict("{\"traceEvents\": [] \"a\": 1}", 19);
    check_strict("{\"a\": [\"\x02\", tru], \"traceEvents\": []}", 8);
    check_strict("{\"traceEvents\": []} {}", 20);
    check_strict("[\"\x03\" x]", 1); // text is no event, whatever it holds
}

/* Case 01: the faults stand at 84, 180, 280, 358 and 541; repairing each shows the next. */
static void test_strict_case01(void **state)
{
    (void)state;
    static const int64_t FAULTS[] = {84, 180, 280, 358, 541};
    const char *root = getenv("KSCOPE_SOURCE");
    assert_non_null(root);
    char path[1024];
    (void)snprintf(path, sizeof(path), "%s/tests/hostile/damaged_strings.json", root);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char bytes[2048];
    size_t len = fread(bytes, 1, sizeof(bytes) - 1, file);
    (void)fclose(file);
    bytes[len] = '\0';
    for (size_t i = 0; i < KS_COUNT_OF(FAULTS); i++) {
        check_strict(bytes, FAULTS[i]);
        /* A backslash becomes two characters without meaning; other bytes become one. */
        char *fault = bytes + FAULTS[i];
        if (fault[0] == '\\' && fault[1] == 'u') {
            memset(fault, '_', 6);
        } else {
            *fault = '_';
        }
    }
    check_strict(bytes, -1);
}

/* ---- work stays in proportion */

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

typedef void (*text_cb)(struct ks_text *out, size_t count);

static double time_of(text_cb make, size_t count, bool strict)
{
    struct ks_text text;
    ks_text_init(&text);
    make(&text, count);
    assert_false(text.failed);
    struct ks_err err = {0};
    struct read_bytes_options options = {.window = 1 << 20, .strict = strict};
    double start = seconds();
    enum ks_status status = read_bytes((struct ks_str){text.ptr, text.len}, &options, NULL, &err);
    double time = seconds() - start;
    assert_true(status == KS_OK || strict);
    ks_text_release(&text);
    return time;
}

/* Eight times the input takes about eight times as long; quadratic work would take 64 times. The
 * slack is for machines with other things to do. */
static void check_linear(const char *name, text_cb make, size_t count)
{
    for (int tries = 0; tries < 3; tries++) {
        double small = time_of(make, count, false);
        double large = time_of(make, count * 8, false);
        if (large < small * 24 + 0.1) {
            return;
        }
        print_message("%s: %.3f s, then %.3f s\n", name, small, large);
    }
    fail_msg("work grows faster than the input");
}

static void put(struct ks_text *out, const char *text)
{
    ks_text_append(out, text, strlen(text));
}

static void put_repeated(struct ks_text *out, const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        put(out, text);
    }
}

static void make_long_string(struct ks_text *out, size_t count)
{
    put(out, "[{\"ph\": \"X\", \"ts\": 1, \"dur\": 1, \"name\": \"");
    put_repeated(out, "0123456789abcdef", count);
    put(out, "\"}]");
}

static void make_nested(struct ks_text *out, size_t count)
{
    put(out, "[{\"ph\": \"X\", \"ts\": 1, \"dur\": 1, \"args\": {\"a\": ");
    put_repeated(out, "[", count);
    put_repeated(out, "{\"b\": ", count);
    put(out, "]}}]");
}

static void make_open(struct ks_text *out, size_t count)
{
    put(out, "[");
    for (size_t i = 0; i < count; i++) {
        ks_text_printf(out, "{\"ph\": \"B\", \"name\": \"n%zu\", \"ts\": %zu},", i % 1000, i);
    }
    put(out, "{}]");
}

/* Ends that name nobody on a deep stack. */
static void make_unmatched(struct ks_text *out, size_t count)
{
    make_open(out, count);
    out->len -= 3;
    put_repeated(out, "{\"ph\": \"E\", \"name\": \"nobody\", \"ts\": 1},", count);
    put(out, "{}]");
}

static void make_damage(struct ks_text *out, size_t count)
{
    put(out, "[");
    put_repeated(out, "{\"ph\": \"X\", \"name\": \"a\" \"ts\": 1},\n", count);
    put(out, "{}]");
}

/* Commas are missing everywhere, so that a guess at quotes finds no end. */
static void make_no_commas(struct ks_text *out, size_t count)
{
    put(out, "[");
    put_repeated(out, "{\"ph\" \"X\" \"ts\" 1} ", count);
    put(out, "]");
}

static void make_no_brace(struct ks_text *out, size_t count)
{
    put(out, "[{\"ph\": \"X\" ");
    put_repeated(out, "lorem ipsum dolor ", count);
}

static void make_brackets(struct ks_text *out, size_t count)
{
    put(out, "{\"traceEvents\": [x");
    put_repeated(out, "] { \"", count);
}

static void make_quotes(struct ks_text *out, size_t count)
{
    put(out, "{\"a\": x");
    put_repeated(out, "\"traceName\": ", count);
    put(out, "\"traceEvents\": []}");
}

/* Overlapping pairs: slots of ended ones are used again. */
static void make_async(struct ks_text *out, size_t count)
{
    put(out, "[{\"ph\": \"b\", \"id\": 0, \"ts\": 0},");
    for (size_t i = 1; i < count; i++) {
        ks_text_printf(out,
                       "{\"ph\": \"b\", \"id\": %zu, \"ts\": %zu},"
                       "{\"ph\": \"e\", \"id\": %zu, \"ts\": %zu},",
                       i % 100, i, (i - 1) % 100, i);
    }
    put(out, "{}]");
}

static void test_linear(void **state)
{
    (void)state;
    check_linear("long_string", make_long_string, 20000);
    check_linear("nested", make_nested, 12500);
    check_linear("open", make_open, 12500);
    check_linear("unmatched", make_unmatched, 12500);
    check_linear("damage", make_damage, 30000);
    check_linear("no_commas", make_no_commas, 30000);
    check_linear("no_brace", make_no_brace, 100000);
    check_linear("brackets", make_brackets, 100000);
    check_linear("quotes", make_quotes, 12500);
    check_linear("async", make_async, 12500);
}

/* A name of 40 MiB costs itself, not the file. */
static void test_huge_string(void **state)
{
    (void)state;
    struct ks_text text;
    ks_text_init(&text);
    put(&text, "[{\"ph\": \"X\", \"ts\": 1, \"dur\": 1, \"name\": \"");
    size_t begin = text.len;
    put_repeated(&text, "0123456789\xC3\xA9 abc", 40 * 1024 * 1024 / 16);
    assert_true(text.len - begin >= (size_t)40 * 1024 * 1024);
    put(&text, "\"}, {\"ph\": \"X\", \"ts\": 2, \"dur\": 1, \"name\": \"after\"}]");
    struct ks_trace *trace = NULL;
    struct ks_err err = {0};
    struct read_bytes_options options = {.window = 1 << 20};
    assert_int_equal(read_bytes((struct ks_str){text.ptr, text.len}, &options, &trace, &err),
                     KS_OK);
    const struct ks_source *s = ks_trace_source(trace, 0);
    assert_int_equal(s->events, 2);
    assert_int_equal(s->counts[KS_STAT_repaired_strings], 1);
    ks_trace_destroy(trace);
    options.strict = true;
    assert_int_equal(read_bytes((struct ks_str){text.ptr, text.len}, &options, NULL, &err),
                     KS_ERR_FORMAT);
    assert_int_equal(err.offset, begin);
    ks_text_release(&text);
}

/* Traces inside traces, deeper than is followed: the events are still read. */
static void test_nested_deep(void **state)
{
    (void)state;
    struct ks_text text;
    ks_text_init(&text);
    put_repeated(&text, "{\"traceEvents\": [", 30);
    put(&text, "{\"ph\": \"X\", \"ts\": 1, \"dur\": 1}");
    put_repeated(&text, "]}", 30);
    ks_text_append(&text, "", 1);
    struct ks_source s = read_source(text.ptr);
    assert_int_equal(s.events, 1);
    ks_text_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),     cmocka_unit_test(test_windows_damaged),
        cmocka_unit_test(test_windows_cut), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_events),      cmocka_unit_test(test_out_of_range),
        cmocka_unit_test(test_unpadded),    cmocka_unit_test(test_metadata_behind_damage),
        cmocka_unit_test(test_process),     cmocka_unit_test(test_compiler),
        cmocka_unit_test(test_strict),      cmocka_unit_test(test_strict_case01),
        cmocka_unit_test(test_linear),      cmocka_unit_test(test_huge_string),
        cmocka_unit_test(test_nested_deep), cmocka_unit_test(test_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
