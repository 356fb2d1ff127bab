/* Goal: a file read by any number of threads gives the same trace, down to ids and counters, or the
 * same error, as read by one. Method: windows of a few bytes, so that small files have many parts;
 * the files of tests/hostile, and documents of random events among which things stand that a part
 * must leave to the reader; the same compressed, which a second thread decompresses. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "cmocka_all.h"
#include "dump_trace.h"
#include "numbers.h"
#include "read/read.h"

enum { WINDOW_BYTES = 48 };

struct outcome {
    enum ks_status status;
    struct ks_err err;
    struct ks_text dump;
};

/* String and track ids follow the order of reading: they are compared, too. */
static void dump_ids(const struct ks_trace *trace, struct ks_text *out)
{
    for (uint32_t i = 1; i < ks_trace_track_count(trace); i++) {
        const struct ks_track *t = ks_trace_track(trace, i);
        char line[120];
        int len = snprintf(line, sizeof(line), "track %u: %d %u %lld %u %u\n", i, (int)t->kind,
                           t->parent, (long long)t->number, t->text.v, t->name.v);
        ks_text_append(out, line, (size_t)len);
    }
}

/* The dump leaves out what only breaks ties. */
static void dump_orders(const struct ks_trace *trace, struct ks_text *out)
{
    struct ks_slice_scan scan;
    struct ks_err err = {0};
    ks_slice_scan_open(&scan, trace, KS_COLUMN_BIT(KS_SLICE_COL_order), 0,
                       ks_trace_rows(trace, KS_TABLE_slice));
    while (ks_slice_scan_next(&scan, &err) == KS_OK) {
        ks_text_append(out, (const char *)scan.col.order, scan.count * sizeof(*scan.col.order));
    }
    ks_slice_scan_close(&scan);
}

static void read_with(const char *path, unsigned threads, bool strict, uint64_t memory,
                      struct outcome *o)
{
    const char *paths[] = {path};
    struct ks_read_options options = {.paths = paths,
                                      .path_count = 1,
                                      .strict = strict,
                                      .any_run = true,
                                      .threads = threads,
                                      .window_bytes = WINDOW_BYTES};
    struct ks_trace_options trace_options = {.chunk_rows = 64, .chunk_bytes_max = memory};
    struct ks_trace_builder *builder = NULL;
    struct ks_trace *trace = NULL;
    int64_t run = 0;
    o->err = (struct ks_err){0};
    ks_text_init(&o->dump);
    assert_int_equal(ks_trace_builder_create(&trace_options, &builder, &o->err), KS_OK);
    o->status = ks_read_paths(&options, builder, &run, &o->err);
    if (o->status != KS_OK) {
        ks_trace_builder_destroy(builder);
        return;
    }
    assert_int_equal(ks_trace_builder_seal(builder, run, &trace, &o->err), KS_OK);
    assert_int_equal(dump_trace(trace, &o->dump, &o->err), KS_OK);
    dump_ids(trace, &o->dump);
    dump_orders(trace, &o->dump);
    ks_trace_destroy(trace);
}

static void check_threads(const char *path, bool strict)
{
    struct outcome one;
    read_with(path, 1, strict, 0, &one);
    static const unsigned THREADS[] = {2, 3, 8, 40};
    for (size_t i = 0; i < KS_COUNT_OF(THREADS); i++) {
        struct outcome many;
        read_with(path, THREADS[i], strict, i == 1 ? (uint64_t)200 << 20 : 0, &many);
        assert_int_equal(many.status, one.status);
        assert_int_equal(many.err.offset, one.err.offset);
        assert_string_equal(many.err.message, one.err.message);
        assert_int_equal(many.dump.len, one.dump.len);
        assert_true(one.dump.len == 0 || memcmp(many.dump.ptr, one.dump.ptr, one.dump.len) == 0);
        ks_text_release(&many.dump);
    }
    ks_text_release(&one.dump);
}

static void check_file(const char *path)
{
    check_threads(path, false);
    check_threads(path, true);
}

static void test_hostile_files(void **state)
{
    (void)state;
    char folder[1024];
    (void)snprintf(folder, sizeof(folder), "%s/tests/hostile", getenv("KSCOPE_SOURCE"));
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int files = 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (strstr(entry->d_name, ".json")) {
            char path[1400];
            (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
            check_file(path);
            files++;
        }
    }
    closedir(dir);
    assert_true(files >= 44);
}

/* ---- random documents */

static void add(struct ks_text *out, const char *text)
{
    ks_text_append(out, text, strlen(text));
}

static void add_event(struct ks_text *out, struct numbers *numbers, int index, unsigned tids)
{
    static const char *const CATS[] = {"cpu_op", "cuda_runtime", "kernel", "python_function"};
    unsigned kind = (unsigned)numbers_below(numbers, 4);
    char text[700];
    (void)snprintf(
        text, sizeof(text),
        "{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"n%u\", \"pid\": %u, \"tid\": %u, "
        "\"ts\": %u.000, \"dur\": %u.000, \"args\": {\"External id\": %d, "
        "\"correlation\": %u, \"device\": %u, \"stream\": %u, \"Input Dims\": [[%u, 2], []], "
        "\"Input type\": [\"t%u\", \"\"], \"Collective name\": \"c%u\", \"dtype\": \"f\", "
        "\"Process Group Name\": \"g%u\", \"grid\": [%u, 1, 1]}}",
        CATS[kind], (unsigned)numbers_below(numbers, 30), (unsigned)numbers_below(numbers, 3),
        (unsigned)numbers_below(numbers, tids), (unsigned)numbers_below(numbers, 50),
        (unsigned)numbers_below(numbers, 3), index, (unsigned)numbers_below(numbers, 40),
        (unsigned)numbers_below(numbers, 2), (unsigned)numbers_below(numbers, 4),
        (unsigned)numbers_below(numbers, 20), (unsigned)numbers_below(numbers, 12),
        (unsigned)numbers_below(numbers, 5), (unsigned)numbers_below(numbers, 3),
        (unsigned)numbers_below(numbers, 6));
    add(out, text);
}

/* What parts must leave alone, and what only looks like an event. */
static const char *const ODD[] = {
    "{\"ph\": \"B\", \"name\": \"b\", \"pid\": 1, \"tid\": 1, \"ts\": 1.000}",
    "{\"ph\": \"E\", \"name\": \"b\", \"pid\": 1, \"tid\": 1, \"ts\": 9.000}",
    "{\"ph\": \"b\", \"cat\": \"c\", \"id\": 5, \"name\": \"y\", \"pid\": 1, \"ts\": 1.000}",
    "{\"ph\": \"e\", \"cat\": \"c\", \"id\": 5, \"name\": \"y\", \"pid\": 1, \"ts\": 2.000}",
    "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 1, \"tid\": 2, \"args\": {\"name\": "
    "\"worker\"}}",
    "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": \"text\", \"args\": {\"name\": \"p\"}}",
    "{\"ph\": \"i\", \"name\": \"[memory]\", \"pid\": 1, \"tid\": 2, \"ts\": 3.000, \"args\": "
    "{\"Bytes\": -512, \"Addr\": 77, \"Device Type\": 1, \"Device Id\": 0}}",
    "{\"ph\": \"C\", \"name\": \"power\", \"pid\": 1, \"ts\": 3.500, \"args\": {\"a\": 1.5, \"b\": "
    "NaN}}",
    "{\"ph\": \"X\", \"name\": \"x\", \"pid\": \"spans\", \"tid\": \"t 1\", \"ts\": 1.000, "
    "\"dur\": "
    "2.000, \"args\": {\"list\": [{\"ph\": 1}, {\"ph\": \"X\", \"ts\": 1}, {\"name\": \"in\"}]}}",
    "{\"ph\": \"X\", \"name\": \"bad \" quote\", \"pid\": 1, \"tid\": 1, \"ts\": 1.000}",
    "{\"ph\": \"X\", \"name\": \"cut, \"pid\": 1}",
    "{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"deep\", \"pid\": 1, \"tid\": 1, \"ts\": 4.000, "
    "\"dur\": 1.000}, {\"ph\": \"X\", \"name\": \"deep\", \"pid\": 1, \"tid\": 1, \"ts\": 6.000}]}",
    "7",
    "{}",
    "{\"ph\": \"X\", \"name\": \"high \xff\", \"pid\": 1, \"tid\": 1, \"ts\": 1.5, \"dur\": -2}",
    "{\"ph\": \"s\", \"id\": 1, \"pid\": 1, \"tid\": 1, \"ts\": 1.000, \"cat\": \"ac2g\", "
    "\"name\": "
    "\"ac2g\"}",
    "], \"traceName\": \"in between\", \"traceEvents\": [{\"ph\": \"?\"}",
};

static const char *const SEPARATORS[] = {", ", ",\n", ",", " ", ",,", ",        \n         "};

/* More threads than runs of rows may be open at once make runs of several lanes. */
static void add_document(struct ks_text *out, struct numbers *numbers, unsigned odd_share)
{
    bool has_many_tids = numbers_below(numbers, 4) == 0;
    unsigned tids = has_many_tids ? 2000 : 3;
    int events = has_many_tids ? 1200 : 150;
    add(out, "{\"schemaVersion\": 1, \"traceEvents\": [");
    unsigned style = (unsigned)numbers_below(numbers, 3);
    for (int i = 0; i < events; i++) {
        bool is_odd = odd_share > 0 && numbers_below(numbers, odd_share) == 0;
        if (is_odd) {
            add(out, ODD[numbers_below(numbers, KS_COUNT_OF(ODD))]);
        } else {
            add_event(out, numbers, i, tids);
        }
        bool is_odd_style = odd_share > 0 && numbers_below(numbers, odd_share) == 0;
        add(out, SEPARATORS[is_odd_style ? numbers_below(numbers, 6) : style]);
    }
    add_event(out, numbers, events, tids);
    add(out, numbers_below(numbers, 5) == 0 ? "" : "], \"traceName\": \"t\"}");
}

static void write_plain(const char *path, struct ks_str bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes.ptr, 1, bytes.len, file), bytes.len);
    assert_int_equal(fclose(file), 0);
}

/* Two members; then cut, or with a byte changed. */
static void write_gzip(const char *path, struct ks_str bytes, struct numbers *numbers)
{
    gzFile file = gzopen(path, "wb1");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes.ptr, (unsigned)(bytes.len / 2)), bytes.len / 2);
    assert_int_equal(gzclose(file), Z_OK);
    file = gzopen(path, "ab1");
    assert_non_null(file);
    unsigned rest = (unsigned)(bytes.len - bytes.len / 2);
    assert_int_equal(gzwrite(file, bytes.ptr + bytes.len / 2, rest), rest);
    assert_int_equal(gzclose(file), Z_OK);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    uint64_t place = numbers_below(numbers, (uint64_t)st.st_size);
    uint64_t kind = numbers_below(numbers, 3);
    if (kind == 0) {
        assert_int_equal(truncate(path, (off_t)place), 0);
    } else if (kind == 1) {
        int fd = open(path, O_WRONLY);
        assert_int_equal(pwrite(fd, "!", 1, (off_t)place), 1);
        assert_int_equal(close(fd), 0);
    }
}

static void test_random_documents(void **state)
{
    (void)state;
    char path[] = "/tmp/ks_parts_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    static const unsigned ODD_SHARES[] = {0, 150, 40, 8};
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct numbers numbers = {seed};
        struct ks_text text;
        ks_text_init(&text);
        add_document(&text, &numbers, ODD_SHARES[seed % 4]);
        write_plain(path, (struct ks_str){text.ptr, text.len});
        check_file(path);
        write_gzip(path, (struct ks_str){text.ptr, text.len}, &numbers);
        check_file(path);
        ks_text_release(&text);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_files),
        cmocka_unit_test(test_random_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
