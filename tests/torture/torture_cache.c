/* Goal: whichever allocation or call of the system fails, once or for ever, a report with a cache
 * is the report without, or says that there is no memory; nothing half-written is left, and the
 * next report is right. Method: the same report over an empty and over a full cache; calls of both
 * kinds are counted in a good run, and then each fails. */
#include <kscope/kscope.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cmocka_all.h"

/* ------------------------------------------------------------------ calls that fail */

static struct {
    int calls;
    int fail_at; /* 0: none */
    bool for_ever;
    int error; /* 0: the call does half of its work */
} faults;

static bool must_fail(void)
{
    faults.calls++;
    return faults.fail_at != 0 &&
           (faults.calls == faults.fail_at || (faults.for_ever && faults.calls > faults.fail_at));
}

/* A call that moves `size` bytes. */
#define FAULTY_IO(name, bytes_type)                                                                \
    ssize_t __real_##name(int fd, bytes_type bytes, size_t size, off_t offset);                    \
    ssize_t __wrap_##name(int fd, bytes_type bytes, size_t size, off_t offset);                    \
    ssize_t __wrap_##name(int fd, bytes_type bytes, size_t size, off_t offset)                     \
    {                                                                                              \
        if (must_fail()) {                                                                         \
            if (faults.error == 0) {                                                               \
                return __real_##name(fd, bytes, (size + 1) / 2, offset);                           \
            }                                                                                      \
            errno = faults.error;                                                                  \
            return -1;                                                                             \
        }                                                                                          \
        return __real_##name(fd, bytes, size, offset);                                             \
    }

FAULTY_IO(pread64, void *)
FAULTY_IO(pwrite64, const void *)

ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    if (!must_fail()) {
        return __real_write(fd, bytes, size);
    }
    errno = faults.error;
    return faults.error ? -1 : __real_write(fd, bytes, (size + 1) / 2);
}

int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    errno = faults.error;
    return must_fail() && faults.error ? -1 : __real_renameat(from_dir, from, to_dir, to);
}

int __real_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags);
int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags);
int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    errno = faults.error;
    return must_fail() && faults.error ? -1 : __real_linkat(from_dir, from, to_dir, to, flags);
}

int __real_openat64(int dir, const char *path, int flags, ...);
int __wrap_openat64(int dir, const char *path, int flags, ...);
int __wrap_openat64(int dir, const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, mode_t) : 0;
    va_end(list);
    errno = faults.error;
    return must_fail() && faults.error ? -1 : __real_openat64(dir, path, flags, mode);
}

static void reset_faults(void)
{
    memset(&faults, 0, sizeof(faults));
}

/* ------------------------------------------------------------------ one report */

static const char trace_text[] =
    "{\"deviceProperties\": [{\"id\": 0, \"name\": \"GPU\"}], \"traceEvents\": ["
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":1,"
    "\"ts\":10,\"dur\":90},"
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#2\",\"pid\":1,\"tid\":1,"
    "\"ts\":100,\"dur\":90},"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\"ts\":20,"
    "\"dur\":50,\"args\":{\"External id\":1,\"Input Dims\":[[2,3],[3,4]]}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
    "\"ts\":30,\"dur\":5,\"args\":{\"correlation\":7,\"External id\":1}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":40,\"dur\":30,"
    "\"args\":{\"device\":0,\"stream\":7,\"correlation\":7,\"External id\":1}}]}";

static char root[] = "/tmp/kscope-torture-cache-XXXXXX";
static char trace_path[64];
static char cache_path[64];
static struct ks_text expected; /* the report without a cache */
static char last_log[8][300];
static unsigned log_at;

static void keep_log(void *user, enum ks_log_level level, const char *domain, const char *text)
{
    (void)user;
    (void)level;
    snprintf(last_log[log_at++ % 8], sizeof(last_log[0]), "%s: %s", domain, text);
}

static bool append(void *user, const char *bytes, size_t size)
{
    ks_text_append(user, bytes, size);
    return true;
}

static bool count(void *user, const char *bytes, size_t size)
{
    (void)bytes;
    *(size_t *)user += size;
    return true;
}

/* A report, and a query, which looks at the chunks. The text it gives takes no part in the faults.
 */
static enum ks_status report(bool cache, struct ks_text *out, struct ks_err *err)
{
    const char *path = trace_path;
    struct ks_report_options options = {.paths = &path,
                                        .path_count = 1,
                                        .cache = cache,
                                        .cache_dir = cache_path,
                                        .log = keep_log,
                                        .threads = 1,
                                        .chunk_rows = 16};
    struct ks_report_style style = {.format = KS_REPORT_JSON};
    static const char sql[] = "select sum(dur_ns) from slice";
    struct ks_query_options query = {
        .sql = sql, .sql_size = sizeof(sql) - 1, .style = {.format = KS_QUERY_CSV}};
    struct ks_query_result result;
    struct ks_report *opened = NULL;
    size_t size = 0;
    enum ks_status status = ks_report_open(&options, &opened, err);
    if (status == KS_OK) {
        status =
            ks_report_write(opened, &style, out ? append : count, out ? (void *)out : &size, err);
    }
    if (status == KS_OK) {
        status = ks_query_write(opened, &query, out ? append : count, out ? (void *)out : &size,
                                &result, err);
    }
    ks_report_close(opened);
    return status;
}

/* ------------------------------------------------------------------ the folder */

static size_t count_files(const char *end)
{
    size_t found = 0;
    DIR *dir = opendir(cache_path);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        size_t len = strlen(entry->d_name);
        found += len >= strlen(end) && strcmp(entry->d_name + len - strlen(end), end) == 0 &&
                 entry->d_name[0] != '.';
    }
    if (dir) {
        (void)closedir(dir);
    }
    return found;
}

static void empty_cache(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", cache_path);
    assert_int_equal(system(command), 0);
}

static void prepare(bool is_full)
{
    reset_faults();
    ks_alloc_fail_at(0, false);
    if (!is_full) {
        empty_cache();
    } else if (count_files("") != 2) {
        assert_int_equal(report(true, NULL, NULL), KS_OK);
        assert_int_equal(count_files(""), 2);
    }
}

/* What is in the folder is whole: the next report is right, and finds or fills it. */
static void check_after(void)
{
    struct ks_text out;
    assert_int_equal(count_files(".kst") + count_files(".facts"), count_files(""));
    ks_text_init(&out);
    assert_int_equal(report(true, &out, NULL), KS_OK);
    assert_int_equal(out.len, expected.len);
    assert_memory_equal(out.ptr, expected.ptr, out.len);
    ks_text_release(&out);
    if (count_files("") != 2) {
        for (unsigned i = 0; i < 8; i++) {
            fprintf(stderr, "LOG %s\n", last_log[(log_at + i) % 8]);
        }
    }
    assert_int_equal(count_files(""), 2);
}

/* ------------------------------------------------------------------ tests */

static void fail_allocations(bool is_full, bool for_ever)
{
    prepare(is_full);
    int64_t live = ks_alloc_live();
    ks_alloc_fail_at(0, false);
    assert_int_equal(report(true, NULL, NULL), KS_OK);
    int64_t calls = ks_alloc_calls();
    assert_true(calls > 20);
    for (int64_t at = 1; at <= calls; at++) {
        struct ks_err err = {0};
        prepare(is_full);
        ks_alloc_fail_at(at, for_ever);
        enum ks_status status = report(true, NULL, &err);
        ks_alloc_fail_at(0, false);
        assert_true(status == KS_OK || status == KS_ERR_NOMEM);
        assert_int_equal(ks_alloc_live(), live);
        if (at % 8 == 0) {
            check_after();
        }
    }
}

static void test_allocations(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        fail_allocations(i & 1, i & 2);
    }
}

/* Calls that read the input fail too; that is an error, but never one of the cache. */
static void fail_calls(bool is_full, bool for_ever, int error)
{
    prepare(is_full);
    int64_t live = ks_alloc_live();
    reset_faults();
    assert_int_equal(report(true, NULL, NULL), KS_OK);
    int calls = faults.calls;
    assert_true(calls > 5);
    for (int at = 1; at <= calls; at++) {
        struct ks_text out;
        struct ks_err err = {0};
        prepare(is_full);
        ks_text_init(&out);
        faults.fail_at = at;
        faults.for_ever = for_ever;
        faults.error = error;
        enum ks_status status = report(true, &out, &err);
        reset_faults();
        if (status != KS_OK) {
            fail_msg("call %d of %d: %s", at, calls, err.message);
        }
        assert_int_equal(out.len, expected.len);
        assert_memory_equal(out.ptr, expected.ptr, out.len);
        ks_text_release(&out);
        assert_int_equal(ks_alloc_live(), live);
        check_after();
    }
}

static void test_calls(void **state)
{
    (void)state;
    static const int errors[] = {EIO, ENOSPC, EMFILE, 0};
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        fail_calls(false, false, errors[i]);
        fail_calls(true, false, errors[i]);
        fail_calls(false, true, errors[i]);
        fail_calls(true, true, errors[i]);
    }
    fail_calls(false, false, EINTR);
    fail_calls(true, false, EINTR);
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(root)) {
        return -1;
    }
    snprintf(trace_path, sizeof(trace_path), "%s/trace.json", root);
    snprintf(cache_path, sizeof(cache_path), "%s/cache", root);
    int fd = open(trace_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (write(fd, trace_text, sizeof(trace_text) - 1) != (ssize_t)sizeof(trace_text) - 1 ||
        close(fd) != 0) {
        return -1;
    }
    struct timespec tick = {.tv_nsec = 50000000}; // what was written just now is not kept
    (void)nanosleep(&tick, NULL);
    ks_text_init(&expected);
    return report(false, &expected, NULL) == KS_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    ks_text_release(&expected);
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocations),
                                       cmocka_unit_test(test_calls)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
