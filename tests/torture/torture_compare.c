/* Goal: whichever allocation fails while two runs are compared and written, the public API gives
 * KS_ERR_NOMEM and leaves nothing behind; whichever write is refused, KS_ERR_IO. Method: count
 * those of a good run over two small traces, then fail each of them. */
#include <kscope/kscope.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cmocka_all.h"
#include "fail_each.h"

/* Two steps with an operator, a launch, a kernel and memory; the names are a parameter. */
static const char trace_text[] =
    "{\"distributedInfo\": {\"rank\": 0}, \"deviceProperties\": [{\"id\": 0, \"name\": \"%s\"}],"
    "\"traceEvents\": ["
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":1,"
    "\"ts\":10,\"dur\":90},"
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#2\",\"pid\":1,\"tid\":1,"
    "\"ts\":100,\"dur\":90},"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::%s\",\"pid\":1,\"tid\":1,\"ts\":20,"
    "\"dur\":50,\"args\":{\"External id\":1,\"Input Dims\":[[2,3],[3,4]]}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
    "\"ts\":30,\"dur\":5,\"args\":{\"correlation\":7,\"External id\":1}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"%s\",\"pid\":0,\"tid\":7,\"ts\":40,"
    "\"dur\":30,\"args\":{\"device\":0,\"stream\":7,\"correlation\":7,\"External id\":1}},"
    "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\",\"s\":\"t\",\"pid\":1,"
    "\"tid\":1,\"ts\":21,\"args\":{\"Addr\":1,\"Bytes\":64,\"Total Allocated\":64,"
    "\"Total Reserved\":128,\"Device Id\":0,\"Device Type\":1}}]}";

enum { SIDES = 2 };

static char paths[SIDES][40] = {"/tmp/kscope-torture-XXXXXX", "/tmp/kscope-torture-XXXXXX"};
static struct ks_report *reports[SIDES];

static bool ignore(void *user, const char *bytes, size_t size)
{
    (void)bytes;
    *(size_t *)user += size;
    return true;
}

static enum ks_status compare_and_write(const void *style, struct ks_err *err)
{
    struct ks_comparison *comparison = NULL;
    size_t size = 0;
    enum ks_status status = ks_comparison_open(reports[0], reports[1], &comparison, err);
    if (status != KS_OK) {
        assert_null(comparison);
        return status;
    }
    status = ks_comparison_write(comparison, style, ignore, &size, err);
    ks_comparison_close(comparison);
    return status;
}

static const struct ks_report_style styles[] = {
    {.format = KS_REPORT_JSON},
    {.format = KS_REPORT_SCREEN, .colour = true},
};

static void test_allocations(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIDES; i++) {
        fail_each_allocation(compare_and_write, &styles[i], 10);
    }
}

/* Takes as many calls as `user` says. */
static bool refuse_later(void *user, const char *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    int *left = user;
    return (*left)-- > 0;
}

static void test_refused_writes(void **state)
{
    (void)state;
    struct ks_comparison *comparison = NULL;
    struct ks_err err = {0};
    assert_int_equal(ks_comparison_open(reports[0], reports[1], &comparison, &err), KS_OK);
    for (size_t i = 0; i < SIDES; i++) {
        enum ks_status status = KS_ERR_IO;
        int taken = 0;
        for (; status != KS_OK; taken++) {
            int left = taken;
            status = ks_comparison_write(comparison, &styles[i], refuse_later, &left, &err);
            assert_true(status == KS_OK || status == KS_ERR_IO);
            assert_true(taken < 10000);
        }
        assert_true(taken > 0);
    }
    const struct ks_report_style table = {.format = KS_REPORT_TABLE};
    size_t size = 0;
    assert_int_equal(ks_comparison_write(comparison, &table, ignore, &size, &err), KS_ERR_USAGE);
    assert_int_equal(ks_comparison_verdict(comparison), KS_STEP_VERDICT_CANNOT_TELL);
    ks_comparison_close(comparison);
    ks_comparison_close(NULL);
}

static int open_reports(void **state)
{
    (void)state;
    static const char *const words[SIDES] = {"one", "two"};
    for (size_t i = 0; i < SIDES; i++) {
        int fd = mkstemp(paths[i]);
        FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
        if (!file || fprintf(file, trace_text, words[i], words[i], words[i]) < 0 ||
            fclose(file) != 0) {
            return -1;
        }
        const char *path = paths[i];
        const struct ks_report_options options = {
            .paths = &path, .path_count = 1, .group_by_shape = true, .chunk_rows = 16};
        if (ks_report_open(&options, &reports[i], NULL) != KS_OK) {
            return -1;
        }
    }
    return 0;
}

static int close_reports(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIDES; i++) {
        ks_report_close(reports[i]);
        (void)unlink(paths[i]);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_refused_writes),
    };
    return cmocka_run_group_tests(tests, open_reports, close_reports);
}
