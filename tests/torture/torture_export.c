/* Goal: whichever allocation fails while an export is written, the public API gives KS_ERR_NOMEM
 * and leaves nothing behind. Method: count the allocations of a good run for each format over a
 * small trace with names that must be repaired or replaced, then fail each of them. */
#include <kscope/kscope.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cmocka_all.h"

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
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":40,\"dur\":30,"
    "\"args\":{\"device\":0,\"stream\":7,\"correlation\":7,\"External id\":1}}]}";

static char trace_path[] = "/tmp/kscope-torture-XXXXXX";
static const char *const paths[] = {trace_path};
static struct ks_report *report;

static bool ignore(void *user, const char *bytes, size_t size)
{
    (void)user;
    (void)bytes;
    (void)size;
    return true;
}

/* Writes something; `what` says what. */
typedef enum ks_status (*writer)(const void *what, struct ks_err *err);

static enum ks_status write_export(const void *what, struct ks_err *err)
{
    return ks_export_write(report, what, ignore, NULL, err);
}

static enum ks_status write_converted(const void *what, struct ks_err *err)
{
    return ks_convert_write(what, ignore, NULL, err);
}

static void fail_each(writer write_it, const void *what, bool for_ever)
{
    struct ks_err err = {0};
    ks_alloc_fail_at(0, false);
    assert_int_equal(write_it(what, &err), KS_OK);
    int64_t calls = ks_alloc_calls();
    int64_t live = ks_alloc_live();
    for (int64_t at = 1; at <= calls; at++) {
        err = (struct ks_err){0};
        ks_alloc_fail_at(at, for_ever);
        enum ks_status status = write_it(what, &err);
        ks_alloc_fail_at(0, false);
        assert_int_equal(status, KS_ERR_NOMEM);
        assert_int_equal(err.status, KS_ERR_NOMEM);
        assert_non_null(strstr(err.message, "Cannot "));
        assert_int_equal(ks_alloc_live(), live);
    }
}

static void test_exports(void **state)
{
    (void)state;
    struct ks_report_options options = {
        .paths = paths, .path_count = 1, .step_range_given = true, .step_last = 9};
    assert_int_equal(ks_report_open(&options, &report, NULL), KS_OK);
    const struct ks_export_options exports[] = {
        {.format = KS_EXPORT_CSV, .table = "operators", .gzip = true},
        {.format = KS_EXPORT_FOLDED},
        {.format = KS_EXPORT_FOLDED, .weight = KS_EXPORT_DEVICE},
        {.format = KS_EXPORT_SPEEDSCOPE},
        {.format = KS_EXPORT_CHROME},
    };
    for (size_t i = 0; i < sizeof(exports) / sizeof(exports[0]); i++) {
        fail_each(write_export, &exports[i], false);
        fail_each(write_export, &exports[i], true);
    }
    ks_report_close(report);
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
        fail_each(write_converted, &conversions[i], false);
        fail_each(write_converted, &conversions[i], true);
    }
}

int main(void)
{
    int fd = mkstemp(trace_path);
    if (fd < 0 || write(fd, trace_text, sizeof(trace_text) - 1) != sizeof(trace_text) - 1) {
        return 1;
    }
    close(fd);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exports),
        cmocka_unit_test(test_conversions),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(trace_path);
    return failed;
}
