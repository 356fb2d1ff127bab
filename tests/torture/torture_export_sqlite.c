/* Goal: whichever allocation, SQLite's own included, or access to the file fails while a database
 * is written, the public API says so and leaves no memory behind; what is reported as written is
 * whole. Method: SQLite gets its memory through base/alloc.h and its files through a VFS that can
 * fail; those of a good run are counted, and each of them fails once, or from then on. */
#include <kscope/kscope.h>

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cmocka_all.h"
#include "sqlite_memory.h"

static const char trace_text[] =
    "{\"traceEvents\": ["
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":1,"
    "\"ts\":10,\"dur\":90},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
    "\"ts\":30,\"dur\":5,\"args\":{\"correlation\":7,\"External id\":1}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":40,"
    "\"dur\":30,"
    "\"args\":{\"device\":0,\"stream\":7,\"correlation\":7,\"External id\":1}}]}";

static char trace_path[] = "/tmp/kscope-torture-sqlite-XXXXXX";
static char target[] = "/tmp/kscope-torture-db-XXXXXX";
static struct ks_report *report;

/* ------------------------------------------------------------------ files that fail */

static struct {
    int64_t calls;
    int64_t fail_at; /* 0: never */
    bool for_ever;
} accesses;

static bool fails_now(void)
{
    int64_t call = ++accesses.calls;
    return accesses.fail_at > 0 &&
           (accesses.for_ever ? call >= accesses.fail_at : call == accesses.fail_at);
}

static sqlite3_vfs failing_vfs;
static sqlite3_vfs *real_vfs;
static sqlite3_io_methods failing_methods;
static const sqlite3_io_methods *real_methods;

static int failing_write(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 offset)
{
    return fails_now() ? SQLITE_FULL : real_methods->xWrite(file, bytes, size, offset);
}

static int failing_read(sqlite3_file *file, void *bytes, int size, sqlite3_int64 offset)
{
    return fails_now() ? SQLITE_IOERR_READ : real_methods->xRead(file, bytes, size, offset);
}

static int failing_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return fails_now() ? SQLITE_IOERR_FSTAT : real_methods->xFileSize(file, size);
}

static int failing_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                        int *out_flags)
{
    (void)vfs;
    if (fails_now()) {
        return SQLITE_CANTOPEN;
    }
    int code = real_vfs->xOpen(real_vfs, name, file, flags, out_flags);
    if (code == SQLITE_OK) {
        real_methods = file->pMethods;
        failing_methods = *real_methods;
        failing_methods.xWrite = failing_write;
        failing_methods.xRead = failing_read;
        failing_methods.xFileSize = failing_size;
        file->pMethods = &failing_methods;
    }
    return code;
}

/* Takes the place of the one that the export asks for. */
static int use_failing_vfs(void)
{
    real_vfs = sqlite3_vfs_find("unix-none");
    if (!real_vfs) {
        return -1;
    }
    failing_vfs = *real_vfs;
    failing_vfs.xOpen = failing_open;
    return sqlite3_vfs_unregister(real_vfs) != SQLITE_OK ||
           sqlite3_vfs_register(&failing_vfs, 0) != SQLITE_OK;
}

/* ------------------------------------------------------------------ exporting */

/* All tables, or those that the lists of the report are not among: the many statements of these
 * differ in names only. */
static const struct ks_export_options all = {.format = KS_EXPORT_SQLITE};
static const struct ks_export_options events = {.format = KS_EXPORT_SQLITE,
                                                .categories = "kernel,cuda_runtime"};

static enum ks_status export_it(const struct ks_export_options *options, struct ks_err *err)
{
    (void)unlink(target);
    return ks_export_write_file(report, options, target, err);
}

static long size_of_target(void)
{
    FILE *file = fopen(target, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    assert_int_equal(fclose(file), 0);
    return size;
}

static void check_failed(const struct ks_err *err, enum ks_status status, enum ks_status wanted,
                         int64_t at)
{
    if (status != wanted) {
        fail_msg("call %d: status %d, %s", (int)at, (int)status, err->message);
    }
    assert_int_equal(err->status, wanted);
    assert_non_null(strstr(err->message, "Cannot "));
}

static void fail_allocations(const struct ks_export_options *options, bool for_ever, int64_t every)
{
    struct ks_err err = {0};
    assert_int_equal(export_it(options, &err), KS_OK);
    long size = size_of_target();
    ks_alloc_fail_at(0, false);
    assert_int_equal(export_it(options, &err), KS_OK);
    int64_t calls = ks_alloc_calls();
    int64_t live = ks_alloc_live();
    int64_t failures = 0;
    assert_true(calls > 100);
    for (int64_t at = 1; at <= calls; at += every) {
        err = (struct ks_err){0};
        ks_alloc_fail_at(at, for_ever);
        enum ks_status status = export_it(options, &err);
        ks_alloc_fail_at(0, false);
        if (status == KS_OK) { /* SQLite can do without some of its caches */
            assert_int_equal(size_of_target(), size);
        } else {
            failures++;
            check_failed(&err, status, KS_ERR_NOMEM, at);
        }
        assert_int_equal(ks_alloc_live(), live);
    }
    assert_true(failures > calls / every / 2);
}

static void test_allocations(void **state)
{
    (void)state;
    fail_allocations(&events, false, 1);
    fail_allocations(&events, true, 1);
    fail_allocations(&all, false, 7);
}

static void test_file(void **state)
{
    (void)state;
    struct ks_err err = {0};
    accesses.calls = 0;
    assert_int_equal(export_it(&all, &err), KS_OK);
    int64_t calls = accesses.calls;
    int64_t live = ks_alloc_live();
    assert_true(calls > 10);
    for (int64_t at = 1; at <= 2 * calls; at++) {
        err = (struct ks_err){0};
        accesses.calls = 0;
        accesses.for_ever = at > calls;
        accesses.fail_at = at > calls ? at - calls : at;
        enum ks_status status = export_it(&all, &err);
        accesses.fail_at = 0;
        check_failed(&err, status, KS_ERR_IO, at);
        assert_int_equal(ks_alloc_live(), live);
    }
}

static int set_up(void **state)
{
    (void)state;
    const char *path = trace_path;
    struct ks_report_options options = {.paths = &path, .path_count = 1};
    int fd = mkstemp(trace_path);
    int db = mkstemp(target);
    ssize_t size = write(fd, trace_text, sizeof(trace_text) - 1);
    if (close(fd) != 0 || close(db) != 0 || size != (ssize_t)sizeof(trace_text) - 1 ||
        sqlite3_config(SQLITE_CONFIG_MALLOC, &ks_sqlite_memory) != SQLITE_OK ||
        sqlite3_initialize() != SQLITE_OK || use_failing_vfs() != 0) {
        return -1;
    }
    return ks_report_open(&options, &report, NULL) != KS_OK;
}

static int tear_down(void **state)
{
    (void)state;
    ks_report_close(report);
    (void)unlink(target);
    return unlink(trace_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
