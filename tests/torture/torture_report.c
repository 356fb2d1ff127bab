/* Goal: whichever allocation fails between a file and an output, the public API gives KS_ERR_NOMEM
 * and leaves nothing behind; a look at a run goes on without the report that it cannot have.
 * Method: count the allocations of a good run over a small trace, for each output, then fail each
 * of them. */
#include <kscope/kscope.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cmocka_all.h"
#include "fail_each.h"

static const char trace_text[] =
    "{\"deviceProperties\": [{\"id\": 0, \"name\": \"GPU\"}], \"traceEvents\": ["
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":1,"
    "\"ts\":10,\"dur\":90},"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\"ts\":20,\"dur\":"
    "50,"
    "\"args\":{\"External id\":1,\"Input Dims\":[[2,3],[3,4]]}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
    "\"ts\":30,\"dur\":5,\"args\":{\"correlation\":7,\"External id\":1}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ge\\u0007mm\",\"pid\":0,\"tid\":7,\"ts\":40,"
    "\"dur\":30,"
    "\"args\":{\"device\":0,\"stream\":7,\"correlation\":7,\"External id\":1}},"
    "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy HtoD (Pageable -> Device)\",\"pid\":0,"
    "\"tid\":7,\"ts\":80,\"dur\":3,\"args\":{\"device\":0,\"stream\":7,\"bytes\":64}}]}";

static char trace_path[] = "/tmp/kscope-torture-XXXXXX";

/* The folder of a run: a window, its stacks, what the process and the monitor said. */
static char folder_path[] = "/tmp/kscope-torture-run-XXXXXX";

static const struct {
    const char *name;
    const char *text;
} folder_files[] = {
    {"rank0.pid5.window1.pt.trace.json.gz",
     "{\"kinetoscope\": {\"pid\": 5, \"unprofiled_step_ns\": [7]}, \"traceEvents\": ["
     "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":1,"
     "\"ts\":10,\"dur\":90}]}"},
    {"rank0.pid5.window1.stacks.pt.trace.json.gz", "{\"traceEvents\": []}"},
    {"kscope-run.rank0.pid5.status",
     "{\"schema\": \"kinetoscope.run/1\", \"pid\": 5, \"rank\": 0, \"explanation\": \"a\\nb\","
     "\"unprofiled_step_after_ns\": [8]}"},
    {"monitor.jsonl", "{\"cgroup_memory_max_bytes\": 9}\n{\"cgroup_memory_max_bytes\": 9}\n"},
};

static const char *input_path = trace_path;

static bool ignore(void *user, const char *bytes, size_t size)
{
    (void)bytes;
    *(size_t *)user += size;
    return true;
}

/* One output after the other; index counts up until false. */
static bool style_at(size_t index, struct ks_report_style *style)
{
    const struct ks_report_style styles[] = {
        {.format = KS_REPORT_JSON, .sort = "count"},
        {.format = KS_REPORT_SCREEN, .colour = true},
        {.format = KS_REPORT_MARKDOWN},
        {.format = KS_REPORT_SARIF, .root = "/"},
        {.format = KS_REPORT_TABLE, .table = "kernels", .width = 50},
        {.format = KS_REPORT_TABLE, .table = "steps", .sort = "dur"},
    };
    if (index >= sizeof(styles) / sizeof(styles[0])) {
        return false;
    }
    *style = styles[index];
    return true;
}

static enum ks_status write_all(const void *what, struct ks_err *err)
{
    const struct ks_report_style *style = what;
    struct ks_report_options options = {
        .paths = &input_path, .path_count = 1, .group_by_shape = true, .chunk_rows = 16};
    struct ks_report *report = NULL;
    size_t size = 0;
    enum ks_status status = ks_report_open(&options, &report, err);
    if (status != KS_OK) {
        assert_null(report);
        return status;
    }
    status = ks_report_write(report, style, ignore, &size, err);
    ks_report_close(report);
    if (status == KS_OK) {
        status = ks_info_write(&options, style->format == KS_REPORT_JSON, ignore, &size, err);
    }
    return status;
}

static void test_allocations(void **state)
{
    (void)state;
    struct ks_report_style style;
    input_path = trace_path;
    for (size_t i = 0; style_at(i, &style); i++) {
        fail_each_allocation(write_all, &style, 50);
    }
}

static void test_folder(void **state)
{
    (void)state;
    struct ks_report_style style;
    input_path = folder_path;
    for (size_t i = 0; style_at(i, &style); i++) {
        if (style.format != KS_REPORT_TABLE) {
            fail_each_allocation(write_all, &style, 50);
        }
    }
}

/* A run that is looked at twice, with its report, drawn both ways. */
static enum ks_status watch(size_t *size, struct ks_err *err)
{
    struct ks_live *live = NULL;
    const struct ks_live_style screen = {.colour = true};
    const struct ks_live_style json = {.json = true};
    enum ks_status status = ks_live_open(folder_path, NULL, &live, err);
    if (status == KS_OK) {
        ks_live_read_report(live);
        status = ks_live_look(live, err);
    }
    status = status == KS_OK ? ks_live_write(live, &screen, ignore, size, err) : status;
    status = status == KS_OK ? ks_live_write(live, &json, ignore, size, err) : status;
    ks_live_close(live);
    return status;
}

static void test_live(void **state)
{
    (void)state;
    size_t size = 0;
    size_t refused = 0;
    struct ks_err err = {0};
    ks_alloc_fail_at(0, false);
    assert_int_equal(watch(&size, &err), KS_OK);
    int64_t calls = ks_alloc_calls();
    int64_t live = ks_alloc_live();
    for (int64_t at = 1; at <= 2 * calls; at++) {
        size = 0;
        ks_alloc_fail_at((at + 1) / 2, at % 2 == 0);
        enum ks_status status = watch(&size, &err);
        ks_alloc_fail_at(0, false);
        assert_true(status == KS_ERR_NOMEM || (status == KS_OK && size > 0));
        assert_true(status == KS_OK || err.status == KS_ERR_NOMEM);
        assert_int_equal(ks_alloc_live(), live);
        refused += status != KS_OK;
    }
    assert_true(refused > 10 && refused < 2 * (size_t)calls);
}

static int write_folder(void)
{
    if (!mkdtemp(folder_path)) {
        return -1;
    }
    for (size_t i = 0; i < sizeof(folder_files) / sizeof(folder_files[0]); i++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/%s", folder_path, folder_files[i].name);
        FILE *file = fopen(path, "w");
        if (!file || fputs(folder_files[i].text, file) < 0 || fclose(file) != 0) {
            return -1;
        }
    }
    return 0;
}

static void remove_folder(void)
{
    for (size_t i = 0; i < sizeof(folder_files) / sizeof(folder_files[0]); i++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/%s", folder_path, folder_files[i].name);
        (void)unlink(path);
    }
    (void)rmdir(folder_path);
}

static int write_trace(void **state)
{
    (void)state;
    int fd = mkstemp(trace_path);
    ssize_t size = write(fd, trace_text, sizeof(trace_text) - 1);
    return close(fd) != 0 || size != (ssize_t)sizeof(trace_text) - 1 || write_folder() != 0;
}

static int remove_trace(void **state)
{
    (void)state;
    remove_folder();
    return unlink(trace_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocations),
                                       cmocka_unit_test(test_folder), cmocka_unit_test(test_live)};
    return cmocka_run_group_tests(tests, write_trace, remove_trace);
}
