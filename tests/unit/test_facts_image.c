/* Goal: facts and findings are the same after a way through a file, for every trace that we have.
 * Method: for each trace in tests/data: compute, write, read, and write what was read again; both
 * files must be equal, which they are only when each array, text and reference came back. A file
 * whose bytes are changed, or that is of another trace, must be refused. Two threads give the same
 * as one. */
#include "cache/facts_file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cmocka_all.h"
#include "read/read.h"

enum { TRACE_ID = 77 };

struct results {
    struct ks_trace *trace;
    struct ks_facts facts;
    struct ks_findings findings;
};

static void compute(struct results *results, bool uses_two_threads)
{
    struct ks_scope scope = {.group_by_shape = true};
    const struct ks_facts_help help = {.uses_two_threads = uses_two_threads};
    assert_int_equal(ks_facts_compute_with(results->trace, &scope, &help, &results->facts, NULL),
                     KS_OK);
    assert_int_equal(ks_findings_compute(&results->facts, &results->findings, NULL), KS_OK);
}

static void results_init(struct results *results, const char *path)
{
    struct ks_trace_builder *builder = NULL;
    struct ks_trace_options options = {0};
    struct ks_read_options read = {.paths = &path, .path_count = 1};
    int64_t run = 0;
    *results = (struct results){0};
    assert_int_equal(ks_trace_builder_create(&options, &builder, NULL), KS_OK);
    assert_int_equal(ks_read_paths(&read, builder, &run, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_seal(builder, run, &results->trace, NULL), KS_OK);
    compute(results, false);
}

static void results_release(struct results *results)
{
    ks_findings_release(&results->findings);
    ks_facts_release(&results->facts);
    ks_trace_destroy(results->trace);
}

static int write_file(const struct results *results)
{
    int fd = memfd_create("facts", MFD_CLOEXEC);
    struct ks_err err = {0};
    enum ks_status status =
        ks_facts_file_write(fd, TRACE_ID, &results->facts, &results->findings, &err);
    if (status != KS_OK) {
        fail_msg("%s", err.message);
    }
    return fd;
}

static char *read_file(int fd, size_t *size)
{
    *size = (size_t)lseek(fd, 0, SEEK_END);
    char *bytes = malloc(*size + 1);
    assert_int_equal(pread(fd, bytes, *size, 0), *size);
    return bytes;
}

static void check_two_threads(struct ks_trace *trace, const char *expected, size_t size)
{
    struct results results = {.trace = trace};
    size_t got_size = 0;
    compute(&results, true);
    int fd = write_file(&results);
    char *got = read_file(fd, &got_size);
    (void)close(fd);
    assert_int_equal(got_size, size);
    assert_memory_equal(got, expected, size);
    results.trace = NULL;
    results_release(&results);
    free(got);
}

static void check_trace(const char *path)
{
    struct results results;
    size_t sizes[2];
    results_init(&results, path);
    struct results back = {.trace = results.trace};
    int fd = write_file(&results);
    char *first = read_file(fd, &sizes[0]);
    assert_int_equal(
        ks_facts_file_read(fd, TRACE_ID, back.trace, &back.facts, &back.findings, NULL), KS_OK);
    (void)close(fd);
    check_two_threads(results.trace, first, sizes[0]);
    results.trace = NULL;
    results_release(&results); // what points there still is seen by sanitizers
    fd = write_file(&back);
    char *second = read_file(fd, &sizes[1]);
    (void)close(fd);
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(first, second, sizes[0]);
    assert_non_null(back.facts.replays);
    results_release(&back);
    free(first);
    free(second);
}

static const char *source_folder(void)
{
    const char *source = getenv("KSCOPE_SOURCE");
    return source ? source : ".";
}

static void test_all_traces(void **state)
{
    (void)state;
    char path[4096];
    size_t count = 0;
    snprintf(path, sizeof(path), "%s/tests/data", source_folder());
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (strstr(entry->d_name, ".trace.json.gz")) {
            snprintf(path, sizeof(path), "%s/tests/data/%s", source_folder(), entry->d_name);
            check_trace(path);
            count++;
        }
    }
    (void)closedir(dir);
    assert_true(count > 15);
}

static void small_results(struct results *results)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/tests/data/A.pageable.bad.pt.trace.json.gz", source_folder());
    results_init(results, path);
    assert_true(results->findings.count > 0);
}

static enum ks_status read_back(int fd, uint64_t id, const struct results *results)
{
    struct results back = {0};
    enum ks_status status =
        ks_facts_file_read(fd, id, results->trace, &back.facts, &back.findings, NULL);
    results_release(&back);
    return status;
}

static void test_damaged(void **state)
{
    (void)state;
    struct results results;
    size_t size = 0;
    small_results(&results);
    int fd = write_file(&results);
    char *bytes = read_file(fd, &size);
    assert_int_equal(read_back(fd, TRACE_ID, &results), KS_OK);
    assert_int_equal(read_back(fd, TRACE_ID + 1, &results), KS_ERR_FORMAT);
    for (size_t at = 0; at < size; at += at < 200 ? 1 : 61) {
        char changed = (char)(bytes[at] ^ 4);
        assert_int_equal(pwrite(fd, &changed, 1, (off_t)at), 1);
        assert_int_equal(read_back(fd, TRACE_ID, &results), KS_ERR_FORMAT);
        assert_int_equal(pwrite(fd, &bytes[at], 1, (off_t)at), 1);
    }
    for (size_t end = size; end > 0; end -= end < 200 ? 1 : 61) {
        assert_int_equal(ftruncate(fd, (off_t)end - 1), 0);
        assert_int_equal(read_back(fd, TRACE_ID, &results), KS_ERR_FORMAT);
    }
    (void)close(fd);
    free(bytes);
    results_release(&results);
}

/* A new pointer in the facts, of which the table of fields does not know. Its last byte is not 0,
 * as that of the steps may be, which would be taken for a bool. */
static void test_pointer_not_described(void **state)
{
    (void)state;
    struct results results;
    struct ks_err err = {0};
    small_results(&results);
    int fd = memfd_create("facts", MFD_CLOEXEC);
    uintptr_t address = (uintptr_t)results.facts.steps;
    address += (address & 0xff) <= 1 ? 8 : 0; /* such a last byte may be a bool's */
    results.facts.steps[0].tokens = (int64_t)address;
    assert_int_equal(ks_facts_file_write(fd, TRACE_ID, &results.facts, &results.findings, &err),
                     KS_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "type=\"ks_step\""));
    (void)close(fd);
    results_release(&results);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_traces),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_pointer_not_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
