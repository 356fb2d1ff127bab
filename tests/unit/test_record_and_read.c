/* Goal: what the recorder writes is what the reader gives, of a process that ends well and of one
 * that is killed. Method: children record regions of several threads and slots, by the public
 * header, and end; the numbers, names and times of their rows against what they were told to do. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/shared/recorder.h"
#include "cmocka_all.h"
#include "kscope/kscope_region.h"
#include "read/read.h"

enum { THREADS = 3, STEPS = 5000, STEPS_ALL = THREADS * STEPS + 1 }; /* of many slots each */

static void run_step(void)
{
    static struct ks_region_site step = KS_REGION_SITE("step", "training_loop");
    static struct ks_region_site forward = KS_REGION_SITE("forward", "forward_pass");
    ks_region_begin(&step);
    ks_region_begin(&forward);
    ks_region_end(&forward);
    ks_region_end(&step);
}

static void *run_steps(void *user)
{
    (void)user;
    for (int i = 0; i < STEPS; i++) {
        run_step();
    }
    return NULL;
}

/* Never returns. */
static void run_child(const char *folder, bool is_killed)
{
    pthread_t threads[THREADS];
    char reason[KS_CAPTURE_REASON_SIZE];
    struct ks_capture_options options = {
        .folder = folder, .rank = 3, .local_rank = 3, .world_size = 4, .worker = -1};
    if (ks_capture_start(&options, reason) != 0) {
        (void)fprintf(stderr, "%s\n", reason);
        _exit(1);
    }
    run_step(); // sites are looked up by one thread, before several use them
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, run_steps, NULL) != 0) {
            _exit(2);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    if (is_killed) {
        (void)kill(getpid(), SIGKILL);
    }
    ks_capture_stop();
    _exit(0);
}

static struct ks_trace *read_folder(const char *folder, bool strict)
{
    struct ks_read_options options = {.paths = &folder, .path_count = 1, .strict = strict};
    struct ks_trace_builder *builder = NULL;
    struct ks_trace *trace = NULL;
    struct ks_err err = {0};
    int64_t run = 0;
    assert_int_equal(ks_trace_builder_create(NULL, &builder, &err), KS_OK);
    enum ks_status status = ks_read_paths(&options, builder, &run, &err);
    if (status != KS_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(ks_trace_builder_seal(builder, run, &trace, &err), KS_OK);
    return trace;
}

/* A forward lies in the step before it. */
static void check_rows(const struct ks_trace *trace)
{
    struct ks_slice_scan scan;
    int64_t step_end_ns = 0;
    uint64_t steps = 0;
    assert_int_equal(ks_trace_rows(trace, KS_TABLE_slice), 2 * STEPS_ALL);
    ks_slice_scan_open(&scan, trace, KS_ALL_COLUMNS, 0, ks_trace_rows(trace, KS_TABLE_slice));
    while (ks_slice_scan_next(&scan, NULL) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            const char *name = ks_trace_str(trace, (struct ks_strid){scan.col.name[i]}).ptr;
            bool is_step = strcmp(name, "step") == 0;
            int64_t end_ns = scan.col.start_ns[i] + scan.col.dur_ns[i];
            assert_true(is_step || end_ns <= step_end_ns);
            step_end_ns = is_step ? end_ns : step_end_ns;
            steps += is_step;
        }
    }
    ks_slice_scan_close(&scan);
    assert_int_equal(steps, STEPS_ALL);
}

static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    (void)closedir(dir);
    (void)rmdir(folder);
}

static void check_child(bool is_killed)
{
    char folder[] = "/tmp/ks_record_XXXXXX";
    int status = 0;
    int64_t before_ns = 0;
    int64_t after_ns = 0;
    struct timespec now;
    assert_non_null(mkdtemp(folder));
    (void)clock_gettime(CLOCK_REALTIME, &now);
    before_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        run_child(folder, is_killed);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    after_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                     is_killed ? SIGKILL : 0);
    struct ks_trace *trace = read_folder(folder, !is_killed);
    const struct ks_source *source = ks_trace_source(trace, 0);
    assert_int_equal(source->pid, child);
    assert_int_equal(source->parent_pid, getpid());
    assert_int_equal(source->rank, 3);
    assert_int_equal(source->world_size, 4);
    for (int i = 0; i < KS_STAT_COUNT; i++) {
        bool is_said = is_killed && i == KS_STAT_recording_unclosed;
        assert_int_equal(source->counts[i], is_said);
    }
    check_rows(trace);
    /* Rates and offsets come from a few looks at the clock: good to some ms here. */
    const int64_t slack_ns = 20 * 1000000;
    assert_true(ks_trace_origin_ns(trace) > before_ns - slack_ns);
    assert_true(source->base_ns + source->end_ns < after_ns + slack_ns);
    ks_trace_destroy(trace);
    remove_folder(folder);
}

static void test_ends_well(void **state)
{
    (void)state;
    check_child(false);
}

static void test_is_killed(void **state)
{
    (void)state;
    check_child(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends_well),
        cmocka_unit_test(test_is_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
