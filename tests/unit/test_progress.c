/* Goal: whoever watches a long call sees all bytes of the files go by, once. Method: files of
 * some windows, read on one thread, in parts, compressed and from a folder. */
#include <kscope/kscope.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "cmocka_all.h"

enum { EVENTS = 60000 }; /* some 6 MB: enough for two threads */

static char folder[64];

static bool ignore(void *user, const char *bytes, size_t size)
{
    (void)user;
    (void)bytes;
    (void)size;
    return true;
}

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void write_event(FILE *plain, gzFile packed, int i)
{
    char text[160];
    snprintf(text, sizeof(text),
             "%s{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"op%d\", \"pid\": 1, "
             "\"tid\": 1, \"ts\": %d.000, \"dur\": 1.000}",
             i > 0 ? ",\n" : "{\"traceEvents\": [\n", i % 50, i * 2);
    assert_true(fputs(text, plain) >= 0 && gzputs(packed, text) > 0);
}

static int write_files(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/ks_progress_XXXXXX");
    assert_non_null(mkdtemp(folder));
    FILE *plain = fopen(path_of("a.json"), "w");
    gzFile packed = gzopen(path_of("b.json.gz"), "wb1");
    assert_true(plain && packed);
    for (int i = 0; i < EVENTS; i++) {
        write_event(plain, packed, i);
    }
    assert_true(fputs("]}\n", plain) >= 0 && gzputs(packed, "]}\n") > 0);
    return fclose(plain) != 0 || gzclose(packed) != Z_OK;
}

static int remove_files(void **state)
{
    (void)state;
    (void)unlink(path_of("a.json"));
    (void)unlink(path_of("b.json.gz"));
    return rmdir(folder);
}

static uint64_t size_of(const char *name)
{
    struct stat info;
    assert_int_equal(stat(path_of(name), &info), 0);
    return (uint64_t)info.st_size;
}

/* `extra`: bytes that may be looked at twice, where a part begins. */
static void check(const char *path, unsigned threads, uint64_t size, uint64_t extra)
{
    struct ks_progress progress = {0};
    struct ks_report_options options = {
        .paths = &path, .path_count = 1, .threads = threads, .progress = &progress};
    struct ks_err err = {0};
    assert_int_equal(ks_info_write(&options, true, ignore, NULL, &err), KS_OK);
    struct ks_progress now = ks_progress_get(&progress);
    assert_int_equal(now.stage, KS_STAGE_ANALYZE);
    assert_int_equal(now.bytes_total, size);
    assert_true(now.bytes_done >= size && now.bytes_done <= size + extra);
}

static void test_all_bytes_go_by(void **state)
{
    (void)state;
    enum { PART = 512 * 1024 };
    check(path_of("a.json"), 1, size_of("a.json"), 0);
    check(path_of("a.json"), 2, size_of("a.json"), PART);
    check(path_of("b.json.gz"), 1, size_of("b.json.gz"), 0);
    check(path_of("b.json.gz"), 2, size_of("b.json.gz"), 0);
    check(folder, 2, size_of("a.json") + size_of("b.json.gz"), PART);
}

static void test_a_pipe_has_no_size(void **state)
{
    (void)state;
    int pipes[2];
    int before = dup(STDIN_FILENO);
    static const char text[] = "{\"traceEvents\": []}";
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(write(pipes[1], text, sizeof(text) - 1), sizeof(text) - 1);
    close(pipes[1]);
    assert_int_equal(dup2(pipes[0], STDIN_FILENO), STDIN_FILENO);
    close(pipes[0]);
    const char *path = "-";
    struct ks_progress progress = {0};
    struct ks_report_options options = {.paths = &path, .path_count = 1, .progress = &progress};
    struct ks_err err = {0};
    assert_int_equal(ks_info_write(&options, true, ignore, NULL, &err), KS_OK);
    assert_int_equal(progress.bytes_total, 0);
    assert_int_equal(progress.bytes_done, sizeof(text) - 1);
    if (before >= 0) {
        dup2(before, STDIN_FILENO);
        close(before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_bytes_go_by),
                                       cmocka_unit_test(test_a_pipe_has_no_size)};
    return cmocka_run_group_tests(tests, write_files, remove_files);
}
