/* Goal: whichever allocation, read or write fails while an export or a page is written, the public
 * API says so and leaves nothing behind. Method: count those of a good run for each format over a
 * small trace with names that must be repaired or replaced, then fail each of them. For reads the
 * trace is larger, and its tables lie in a file. */
#include <kscope/kscope.h>
#include <kscope/kscope_arrow.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "cmocka_all.h"
#include "fail_each.h"
#include "recording_bytes.h"

static const char trace_text[] =
    "{\"mine\": \"x\\ud800\", \"traceEvents\": ["
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":1,"
    "\"ts\":10,\"dur\":90,\"args\":{\"External id\":9}},"
    "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"a/b.py(3): f\",\"pid\":1,\"tid\":1,"
    "\"ts\":11,\"dur\":80,\"args\":{\"CallFrom\":\"a/c.py:4\"}},"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"say \\ud800 ;\",\"pid\":1,\"tid\":1,\"ts\":20,"
    "\"dur\":50,\"args\":{\"External id\":1,\"Input Dims\":[[2,3],[3,4]]}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
    "\"ts\":30,\"dur\":5,\"args\":{\"correlation\":7,\"External id\":1}},"
    "{\"ph\":\"C\",\"name\":\"queue\",\"pid\":1,\"ts\":35,\"args\":{\"a\":1}},"
    "{\"ph\":\"i\",\"s\":\"t\",\"name\":\"[memory]\",\"pid\":1,\"tid\":1,\"ts\":36,\"args\":{"
    "\"Total Allocated\":8,\"Total Reserved\":9,\"Bytes\":8,\"Addr\":5,\"Device Id\":0,"
    "\"Device Type\":1}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":40,\"dur\":30,"
    "\"args\":{\"device\":0,\"stream\":7,\"correlation\":7,\"External id\":1}}]}";

static char trace_path[] = "/tmp/kscope-torture-XXXXXX";
static const char *const paths[] = {trace_path};
static char recording_path[] = "/tmp/kscope-torture-recording-XXXXXX";
static char large_path[] = "/tmp/kscope-torture-large-XXXXXX";
static struct ks_report *report;

/* ------------------------------------------------------------------ failing calls */

static struct {
    int64_t calls;
    int64_t fail_at; /* 0: never */
} reads, writes;

static bool fails_now(void)
{
    return ++reads.calls == reads.fail_at;
}

ssize_t __real_read(int fd, void *bytes, size_t size);
ssize_t __wrap_read(int fd, void *bytes, size_t size);
ssize_t __real_pread64(int fd, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread64(int fd, void *bytes, size_t size, off_t offset);

ssize_t __wrap_read(int fd, void *bytes, size_t size)
{
    if (fails_now()) {
        errno = EIO;
        return -1;
    }
    return __real_read(fd, bytes, size);
}

ssize_t __wrap_pread64(int fd, void *bytes, size_t size, off_t offset)
{
    if (fails_now()) {
        errno = EIO;
        return -1;
    }
    return __real_pread64(fd, bytes, size, offset);
}

static bool ignore(void *user, const char *bytes, size_t size)
{
    (void)user;
    (void)bytes;
    (void)size;
    return ++writes.calls != writes.fail_at;
}

/* Writes something; `what` says what. */

static enum ks_status write_export(const void *what, struct ks_err *err)
{
    return ks_export_write(report, what, ignore, NULL, err);
}

static enum ks_status write_page(const void *what, struct ks_err *err)
{
    return ks_report_write_page(report, what, ignore, NULL, err);
}

static enum ks_status write_all_parts(const struct ks_page_parts *parts, struct ks_err *err)
{
    static const uint16_t tracks[] = {0, 1};
    const struct ks_page_tile tile = {INT64_MIN / 2, INT64_MAX / 2, tracks, 2, 16};
    for (unsigned part = 0; part < KS_PAGE_PART_COUNT; part++) {
        KS_TRY(ks_page_parts_write(parts, part, ignore, NULL, err));
    }
    KS_TRY(ks_page_parts_write_tile(parts, &tile, ignore, NULL, err));
    return ks_page_parts_find(parts, "a", 1, 3, ignore, NULL, err);
}

/* A page as a server gathers it and gives it away. */
static enum ks_status write_parts(const void *what, struct ks_err *err)
{
    struct ks_page_parts *parts = NULL;
    KS_TRY(ks_page_parts_open(report, what, &parts, err));
    enum ks_status status = write_all_parts(parts, err);
    ks_page_parts_close(parts);
    return status;
}

static enum ks_status write_converted(const void *what, struct ks_err *err)
{
    return ks_convert_write(what, ignore, NULL, err);
}

/* A table as columns, taken to its end. */
static enum ks_status take_columns(const void *table, struct ks_err *err)
{
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray array = {.length = 0};
    KS_TRY(ks_export_stream(report, table, NULL, &stream, err));
    int failed = stream.get_schema(&stream, &schema);
    if (failed == 0) {
        schema.release(&schema);
        failed = stream.get_next(&stream, &array);
    }
    while (failed == 0 && array.release) {
        array.release(&array);
        failed = stream.get_next(&stream, &array);
    }
    const char *reason = stream.get_last_error(&stream);
    enum ks_status status =
        failed != 0 ? ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot take columns: %s", reason)
                    : KS_OK;
    stream.release(&stream);
    return status;
}

static enum ks_status take_names(const void *table, struct ks_err *err)
{
    struct ArrowSchema schema;
    KS_TRY(ks_export_schema(report, table, &schema, err));
    schema.release(&schema);
    return KS_OK;
}

static const struct ks_export_options exports[] = {
    {.format = KS_EXPORT_CSV, .table = "operators", .gzip = true},
    {.format = KS_EXPORT_CSV, .table = "events", .categories = "kernel"},
    {.format = KS_EXPORT_FOLDED},
    {.format = KS_EXPORT_FOLDED, .weight = KS_EXPORT_DEVICE},
    {.format = KS_EXPORT_SPEEDSCOPE},
    {.format = KS_EXPORT_CHROME},
    {.format = KS_EXPORT_PERFETTO},
    {.format = KS_EXPORT_PARQUET},
    {.format = KS_EXPORT_PARQUET, .table = "findings", .uncompressed = true},
    {.format = KS_EXPORT_ARROW},
    {.format = KS_EXPORT_ARROW, .table = "findings", .uncompressed = true},
};

enum { EXPORTS = sizeof(exports) / sizeof(exports[0]) };

static void test_allocations(void **state)
{
    (void)state;
    struct ks_report_options options = {
        .paths = paths, .path_count = 1, .step_range_given = true, .step_last = 9};
    assert_int_equal(ks_report_open(&options, &report, NULL), KS_OK);
    for (size_t i = 0; i < EXPORTS; i++) {
        fail_each_of(write_export, &exports[i], false, 0);
        fail_each_of(write_export, &exports[i], true, 0);
    }
    static const char *const tables[] = {"events", "findings"};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        fail_each_of(take_columns, tables[i], false, 0);
        fail_each_of(take_columns, tables[i], true, 0);
        fail_each_of(take_names, tables[i], false, 0);
    }
    ks_report_close(report);
}

/* Regions, call paths and samples. */
static void test_recordings(void **state)
{
    (void)state;
    static const struct ks_export_options formats[] = {
        {.format = KS_EXPORT_FOLDED},
        {.format = KS_EXPORT_FOLDED, .weight = KS_EXPORT_FUNCTIONS},
        {.format = KS_EXPORT_FOLDED, .weight = KS_EXPORT_SAMPLES},
        {.format = KS_EXPORT_SPEEDSCOPE},
    };
    const char *path = recording_path;
    struct ks_report_options options = {.paths = &path, .path_count = 1};
    assert_int_equal(ks_report_open(&options, &report, NULL), KS_OK);
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        writes.calls = 0;
        fail_each_of(write_export, &formats[i], false, 0);
        assert_true(writes.calls > 0);
        fail_each_of(write_export, &formats[i], true, 0);
    }
    ks_report_close(report);
}

/* Runs an export whose n-th read or write fails, for each n of a good run. Which chunks are in
 * memory already differs from run to run, so there may be fewer reads than in the good one. */
static void fail_each_call(fail_each_work write_it, const void *what, int64_t *calls,
                           int64_t *fail_at, int64_t calls_min)
{
    struct ks_err err = {0};
    *calls = *fail_at = 0;
    assert_int_equal(write_it(what, &err), KS_OK);
    int64_t count = *calls;
    int64_t failures = 0;
    for (int64_t at = 1; at <= count; at++) {
        err = (struct ks_err){0};
        *calls = 0;
        *fail_at = at;
        enum ks_status status = write_it(what, &err);
        *fail_at = 0;
        if (*calls < at) {
            assert_int_equal(status, KS_OK);
            continue;
        }
        failures++;
        assert_int_equal(status, KS_ERR_IO);
        assert_int_equal(err.status, KS_ERR_IO);
        assert_non_null(strstr(err.message, "Cannot "));
    }
    assert_true(failures >= calls_min);
}

static void test_reads_and_writes(void **state)
{
    (void)state;
    const char *path = large_path;
    struct ks_report_options options = {.paths = &path,
                                        .path_count = 1,
                                        .chunk_rows = 256,
                                        .chunk_bytes_max = (uint64_t)64 * 1024,
                                        .threads = 1};
    int64_t live = ks_alloc_live(); /* chunks come and go */
    assert_int_equal(ks_report_open(&options, &report, NULL), KS_OK);
    for (size_t i = 0; i < EXPORTS; i++) {
        bool reads_rows = !exports[i].table || strcmp(exports[i].table, "events") == 0;
        fail_each_call(write_export, &exports[i], &reads.calls, &reads.fail_at, reads_rows ? 2 : 0);
        fail_each_call(write_export, &exports[i], &writes.calls, &writes.fail_at, 1);
    }
    ks_report_close(report);
    assert_int_equal(ks_alloc_live(), live);
}

static void test_conversions(void **state)
{
    (void)state;
    const struct ks_convert_options conversions[] = {
        {.path = trace_path, .gzip = true},
        {.path = trace_path, .drop_args = true, .drop_categories = "kernel"},
        {.path = trace_path, .anonymize = true},
    };
    for (size_t i = 0; i < sizeof(conversions) / sizeof(conversions[0]); i++) {
        fail_each_of(write_converted, &conversions[i], false, 0);
        fail_each_of(write_converted, &conversions[i], true, 0);
        fail_each_call(write_converted, &conversions[i], &reads.calls, &reads.fail_at, 2);
        fail_each_call(write_converted, &conversions[i], &writes.calls, &writes.fail_at, 1);
    }
}

static enum ks_status write_picture(const void *what, struct ks_err *err)
{
    return ks_report_write_picture(report, *(const enum ks_picture *)what, ignore, NULL, err);
}

static void test_pictures(void **state)
{
    (void)state;
    static const enum ks_picture pictures[] = {KS_PICTURE_STEPS, KS_PICTURE_IDLE,
                                               KS_PICTURE_MEMORY};
    struct ks_report_options options = {.paths = paths, .path_count = 1};
    assert_int_equal(ks_report_open(&options, &report, NULL), KS_OK);
    for (size_t i = 0; i < sizeof(pictures) / sizeof(pictures[0]); i++) {
        fail_each_of(write_picture, &pictures[i], false, 0);
        fail_each_call(write_picture, &pictures[i], &writes.calls, &writes.fail_at, 1);
    }
    ks_report_close(report);
}

/* A build without Node has no page. */
static void test_page(void **state)
{
    (void)state;
    static const struct ks_page_options page = {0};
    struct ks_report_options options = {.paths = paths, .path_count = 1};
    if (ks_page_can_write(NULL) == KS_OK) {
        assert_int_equal(ks_report_open(&options, &report, NULL), KS_OK);
        fail_each_of(write_page, &page, false, 0);
        fail_each_of(write_page, &page, true, 0);
        fail_each_of(write_parts, &page, false, 0);
        fail_each_of(write_parts, &page, true, 0);
        ks_report_close(report);
    }
}

static void test_page_reads_and_writes(void **state)
{
    (void)state;
    static const struct ks_page_options page = {0};
    const char *path = large_path;
    struct ks_report_options options = {.paths = &path,
                                        .path_count = 1,
                                        .chunk_rows = 256,
                                        .chunk_bytes_max = (uint64_t)64 * 1024,
                                        .threads = 1};
    if (ks_page_can_write(NULL) == KS_OK) {
        assert_int_equal(ks_report_open(&options, &report, NULL), KS_OK);
        fail_each_call(write_page, &page, &reads.calls, &reads.fail_at, 2);
        fail_each_call(write_page, &page, &writes.calls, &writes.fail_at, 2);
        fail_each_call(write_parts, &page, &reads.calls, &reads.fail_at, 2);
        fail_each_call(write_parts, &page, &writes.calls, &writes.fail_at, 2);
        ks_report_close(report);
    }
}

static int write_small(void)
{
    int fd = mkstemp(trace_path);
    ssize_t size = write(fd, trace_text, sizeof(trace_text) - 1);
    return close(fd) != 0 || size != (ssize_t)sizeof(trace_text) - 1;
}

static int write_recording(void)
{
    struct recording_bytes recording;
    recording_bytes_everything(&recording);
    struct ks_str bytes = recording_bytes_str(&recording);
    int fd = mkstemp(recording_path);
    ssize_t size = write(fd, bytes.ptr, bytes.len);
    bool is_written = close(fd) == 0 && size == (ssize_t)bytes.len;
    recording_bytes_release(&recording);
    return !is_written;
}

/* Operators that launch a kernel each. */
static int write_large(void)
{
    enum { OPERATORS = 1500 };
    FILE *file = fdopen(mkstemp(large_path), "w");
    if (!file) {
        return 1;
    }
    fputs("[", file);
    for (int i = 0; i < OPERATORS; i++) {
        fprintf(file,
                "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"op%d\",\"pid\":1,\"tid\":1,"
                "\"ts\":%d,\"dur\":9,\"args\":{\"External id\":%d}},"
                "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,"
                "\"tid\":1,\"ts\":%d,\"dur\":5,\"args\":{\"correlation\":%d,\"External id\":%d}},"
                "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k%d\",\"pid\":0,\"tid\":7,"
                "\"ts\":%d,\"dur\":8,\"args\":{\"device\":0,\"stream\":7,\"correlation\":%d,"
                "\"External id\":%d}}%s",
                i % 7, 10 * i, i, 10 * i + 1, i, i, i % 5, 10 * i + 20, i, i,
                i + 1 < OPERATORS ? ",\n" : "]");
    }
    return fclose(file);
}

int main(void)
{
    if (write_small() != 0 || write_large() != 0 || write_recording() != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_recordings),
        cmocka_unit_test(test_reads_and_writes),
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_page),
        cmocka_unit_test(test_page_reads_and_writes),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(trace_path);
    unlink(large_path);
    unlink(recording_path);
    return failed;
}
