/* Goal: whichever call of the system fails in a report or a query, the answer is the same as ever
 * or an error that says so, and neither memory nor a descriptor is left behind. Method: open, read,
 * pread, pwrite, lseek, fstat and mmap are replaced at link time; those of a good run are counted,
 * and each fails once, or from then on. Tables are mapped, or have so little memory that they go
 * to a file. */
#include <kscope/kscope.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cmocka_all.h"

enum { EVENTS = 4000, MEMORY = 64 * 1024 };

enum call {
    CALL_OPEN,
    CALL_READ,
    CALL_PREAD,
    CALL_PWRITE,
    CALL_LSEEK,
    CALL_FSTAT,
    CALL_MMAP,
    CALLS
};

static const int errors[CALLS] = {EACCES, EIO, EIO, ENOSPC, EIO, EIO, ENOMEM};

static struct {
    enum call call; /* the one that fails; CALLS: none */
    int64_t at;
    bool for_ever;
    int64_t counts[CALLS];
} plan = {.call = CALLS};

static bool fails(enum call call)
{
    int64_t number = __atomic_add_fetch(&plan.counts[call], 1, __ATOMIC_RELAXED);
    bool is_now = call == plan.call && (number == plan.at || (plan.for_ever && number > plan.at));
    errno = is_now ? errors[call] : errno;
    return is_now;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
ssize_t __real_read(int fd, void *bytes, size_t size);
ssize_t __wrap_read(int fd, void *bytes, size_t size);
ssize_t __real_pread64(int fd, void *bytes, size_t size, off_t offset);
ssize_t __wrap_pread64(int fd, void *bytes, size_t size, off_t offset);
ssize_t __real_pwrite64(int fd, const void *bytes, size_t size, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t size, off_t offset);
off_t __real_lseek64(int fd, off_t offset, int whence);
off_t __wrap_lseek64(int fd, off_t offset, int whence);
int __real_fstat64(int fd, struct stat *info);
int __wrap_fstat64(int fd, struct stat *info);
void *__real_mmap64(void *at, size_t size, int rights, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int rights, int flags, int fd, off_t offset);

int __wrap_open64(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
    va_end(list);
    return fails(CALL_OPEN) ? -1 : __real_open64(path, flags, mode);
}

ssize_t __wrap_read(int fd, void *bytes, size_t size)
{
    return fails(CALL_READ) ? -1 : __real_read(fd, bytes, size);
}

ssize_t __wrap_pread64(int fd, void *bytes, size_t size, off_t offset)
{
    return fails(CALL_PREAD) ? -1 : __real_pread64(fd, bytes, size, offset);
}

ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t size, off_t offset)
{
    return fails(CALL_PWRITE) ? -1 : __real_pwrite64(fd, bytes, size, offset);
}

off_t __wrap_lseek64(int fd, off_t offset, int whence)
{
    return fails(CALL_LSEEK) ? -1 : __real_lseek64(fd, offset, whence);
}

int __wrap_fstat64(int fd, struct stat *info)
{
    return fails(CALL_FSTAT) ? -1 : __real_fstat64(fd, info);
}

void *__wrap_mmap64(void *at, size_t size, int rights, int flags, int fd, off_t offset)
{
    return fails(CALL_MMAP) ? MAP_FAILED : __real_mmap64(at, size, rights, flags, fd, offset);
}

/* ------------------------------------------------------------------ the two commands */

static uint64_t memory;
static char paths[2][64]; /* plain and damaged behind its end, as the exact decoder must see */

static bool append(void *user, const char *bytes, size_t size)
{
    ks_text_append(user, bytes, size);
    return true;
}

static enum ks_status make_report(const char *path, struct ks_text *out, struct ks_err *err)
{
    struct ks_report_options options = {
        .paths = &path, .path_count = 1, .threads = 1, .chunk_bytes_max = memory};
    struct ks_report_style style = {.format = KS_REPORT_JSON};
    struct ks_report *report = NULL;
    enum ks_status status = ks_report_open(&options, &report, err);
    if (status == KS_OK) {
        status = ks_report_write(report, &style, append, out, err);
    }
    ks_report_close(report);
    return status;
}

static enum ks_status make_query(const char *path, struct ks_text *out, struct ks_err *err)
{
    static const char sql[] = "select name, count(*), sum(dur_ns) from slice group by name";
    struct ks_report_options options = {
        .paths = &path, .path_count = 1, .threads = 2, .chunk_bytes_max = memory};
    struct ks_query_options query = {
        .sql = sql, .sql_size = sizeof(sql) - 1, .style = {.format = KS_QUERY_CSV}};
    struct ks_query_result result;
    struct ks_report *report = NULL;
    enum ks_status status = ks_report_open(&options, &report, err);
    if (status == KS_OK) {
        status = ks_query_write(report, &query, append, out, &result, err);
    }
    ks_report_close(report);
    return status;
}

typedef enum ks_status (*command_cb)(const char *path, struct ks_text *out, struct ks_err *err);

static size_t open_descriptors(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder)) {
        count++;
    }
    closedir(folder);
    return count;
}

/* True: the command makes no such call so late. */
static bool fail_once(command_cb command, const char *path, const struct ks_text *good,
                      int64_t *errors_seen)
{
    struct ks_text got;
    struct ks_err err = {0};
    int64_t live = ks_alloc_live();
    size_t descriptors = open_descriptors();
    ks_text_init(&got);
    memset(plan.counts, 0, sizeof(plan.counts));
    enum call failing = plan.call;
    enum ks_status status = command(path, &got, &err);
    plan.call = CALLS;
    bool is_over = plan.counts[failing] < plan.at;
    if (status == KS_OK) {
        assert_int_equal(got.len, good->len);
        assert_memory_equal(got.ptr, good->ptr, good->len);
    } else {
        assert_true(status == KS_ERR_IO || status == KS_ERR_NOMEM);
        assert_int_equal(err.status, status);
        assert_non_null(strstr(err.message, "Cannot "));
        ++*errors_seen;
    }
    ks_text_release(&got);
    assert_int_equal(ks_alloc_live(), live);
    assert_int_equal(open_descriptors(), descriptors);
    return is_over;
}

static void fail_each(command_cb command, const char *path)
{
    struct ks_text good;
    struct ks_err err = {0};
    ks_text_init(&good);
    plan.call = CALLS;
    memset(plan.counts, 0, sizeof(plan.counts));
    assert_int_equal(command(path, &good, &err), KS_OK);
    int64_t seen[CALLS];
    memcpy(seen, plan.counts, sizeof(seen));
    assert_true(seen[CALL_OPEN] > 0 && seen[CALL_READ] > 1);
    assert_true(memory ? seen[CALL_PREAD] > 3 && seen[CALL_PWRITE] > 3 : seen[CALL_MMAP] > 0);
    for (int call = 0; call < CALLS; call++) {
        int64_t errors_seen = 0;
        for (int for_ever = 0; for_ever < 2; for_ever++) {
            bool is_over = false;
            /* Those of the spill file are hundreds alike. */
            for (int64_t at = 1; !is_over; at += at < 20 ? 1 : 7) {
                plan.call = (enum call)call;
                plan.at = at;
                plan.for_ever = for_ever;
                is_over = fail_once(command, path, &good, &errors_seen);
            }
        }
        /* Without tables in a file, only a look for the head of a sealed trace uses pread. */
        bool is_look = call == CALL_PREAD && memory == 0;
        bool may_do_without =
            call == CALL_FSTAT || call == CALL_LSEEK || is_look || seen[call] == 0;
        assert_true(may_do_without || errors_seen > 0);
    }
    ks_text_release(&good);
}

static void test_report(void **state)
{
    (void)state;
    memory = 0;
    fail_each(make_report, paths[0]);
}

static void test_report_with_little_memory(void **state)
{
    (void)state;
    memory = MEMORY;
    fail_each(make_report, paths[0]);
}

static void test_report_of_a_damaged_stream(void **state)
{
    (void)state;
    memory = 0;
    fail_each(make_report, paths[1]);
}

static void test_query(void **state)
{
    (void)state;
    memory = MEMORY;
    fail_each(make_query, paths[1]);
}

/* ------------------------------------------------------------------ files */

static void write_events(FILE *plain, gzFile packed)
{
    for (int i = 0; i < EVENTS; i++) {
        char text[200];
        snprintf(text, sizeof(text),
                 "%s{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s%d\", \"pid\": 1, \"tid\": %d, "
                 "\"ts\": %d.000, \"dur\": 1.000, \"args\": {\"correlation\": %d}}",
                 i > 0 ? ",\n" : "{\"traceEvents\": [\n", i % 3 ? "cpu_op" : "cuda_runtime",
                 i % 3 ? "op" : "cudaLaunchKernel", i % 20, i % 5, i * 2, i);
        assert_true(fputs(text, plain) >= 0 && gzputs(packed, text) > 0);
    }
    assert_true(fputs("]}\n", plain) >= 0 && gzputs(packed, "]}\n") > 0);
}

static int write_files(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof(paths[i]), "/tmp/ks_torture_system_%d_%d", (int)getpid(), i);
    }
    FILE *plain = fopen(paths[0], "w");
    gzFile packed = gzopen(paths[1], "wb1");
    assert_true(plain && packed);
    write_events(plain, packed);
    if (fclose(plain) != 0 || gzclose(packed) != Z_OK) {
        return -1;
    }
    FILE *more = fopen(paths[1], "ab");
    return !more || fputs("no gzip", more) < 0 || fclose(more) != 0;
}

static int remove_files(void **state)
{
    (void)state;
    return unlink(paths[0]) + unlink(paths[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report), cmocka_unit_test(test_report_with_little_memory),
        cmocka_unit_test(test_report_of_a_damaged_stream), cmocka_unit_test(test_query)};
    return cmocka_run_group_tests(tests, write_files, remove_files);
}
