/* Goal: a report waits for what may still come, but not for ever. Method: folders made by hand, in
 * which this process plays the one that is recorded; what is missing differs by one file. */
#include "launch/schedule.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmocka_all.h"

static char root[64];

static void put(const char *name, const char *text)
{
    char path[384];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void put_trace(int rank, int pid, int window, const char *end)
{
    char name[128];
    snprintf(name, sizeof(name), "rank%d.pid%d.window%d%s.pt.trace.json.gz", rank, pid, window,
             end);
    put(name, "12345678");
}

static void put_status(int rank, int pid, const char *state, const char *members)
{
    char name[128];
    char text[512];
    snprintf(name, sizeof(name), "kscope-run.rank%d.pid%d.status", rank, pid);
    snprintf(text, sizeof(text),
             "{\"schema\": \"kinetoscope.run/1\", \"rank\": %d, \"pid\": %d, "
             "\"state\": \"%s\"%s}",
             rank, pid, state, members);
    put(name, text);
}

static struct ks_window_state state_of(int64_t number)
{
    struct ks_run_folder *folder = NULL;
    struct ks_window_state state;
    assert_int_equal(ks_run_folder_open(root, &folder, NULL), KS_OK);
    ks_window_state_of(folder, number, true, &state);
    ks_run_folder_close(folder);
    return state;
}

static int empty_folder(void **state)
{
    (void)state;
    DIR *dir = opendir(root);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    return closedir(dir);
}

static void test_stacks_and_times_are_awaited(void **state)
{
    (void)state;
    put_trace(0, getpid(), 1, "");
    put_status(0, getpid(), "recording", ", \"window_closed_ns\": [77]");
    struct ks_window_state found = state_of(1);
    assert_int_equal(found.trace_count, 1);
    assert_int_equal(found.running_count, 1);
    assert_int_equal(found.stacks_count + found.timed_count, 0);
    assert_int_equal(found.bytes, 8);
    assert_int_equal(found.closed_ns, 77);

    put_trace(0, getpid(), 1, ".stacks");
    put_status(0, getpid(), "done", ", \"unprofiled_step_after_ns\": [1, 1, 1]");
    found = state_of(1);
    assert_int_equal(found.stacks_count, 1);
    assert_int_equal(found.timed_count, 0);

    put_status(0, getpid(), "waiting", ""); /* for the next window: no times come of this one */
    assert_int_equal(state_of(1).timed_count, 1);
    put_status(0, getpid(), "done", ", \"is_over\": true");
    assert_int_equal(state_of(1).timed_count, 1);
    assert_int_equal(state_of(1).running_count, 0);
}

static void test_ranks_are_awaited(void **state)
{
    (void)state;
    put_trace(0, 1 << 30, 1, "");
    put_status(1, getpid(), "recording", "");
    assert_int_equal(state_of(1).awaited_count, 1);
    put_status(1, getpid(), "off", ""); /* nothing comes of it */
    assert_int_equal(state_of(1).awaited_count, 0);
    put_status(1, 1 << 29, "recording", ""); /* dead */
    assert_int_equal(state_of(1).awaited_count, 0);
    put_status(0, getpid(), "waiting", ""); /* a launcher that has imported torch */
    assert_int_equal(state_of(1).awaited_count, 0);
    put_trace(0, 5, 1, ""); /* the same rank, begun anew */
    assert_int_equal(state_of(1).trace_count, 2);
    assert_int_equal(state_of(1).rank_count, 1);
}

static void test_next_window(void **state)
{
    (void)state;
    struct ks_run_folder *folder = NULL;
    struct ks_window_state found;
    put_trace(0, 5, 2, "");
    put_trace(0, 5, 10, "");
    assert_int_equal(ks_run_folder_open(root, &folder, NULL), KS_OK);
    ks_window_state_next(folder, 0, true, &found);
    assert_int_equal(found.number, 2);
    ks_window_state_next(folder, 2, true, &found);
    assert_int_equal(found.number, 10);
    ks_window_state_next(folder, 10, true, &found);
    assert_int_equal(found.number, 0);
    ks_run_folder_close(folder);
}

static void check_patience(struct ks_window_state state, int64_t least_ms, int64_t most_ms)
{
    int64_t patience_ns = ks_window_state_patience_ns(&state);
    assert_in_range(patience_ns / 1000000, least_ms, most_ms);
}

static void test_patience(void **state)
{
    (void)state;
    struct ks_window_state window = {
        .number = 1, .trace_count = 2, .stacks_count = 2, .timed_count = 2};
    check_patience(window, 0, 0); /* all is there */
    window.awaited_count = 1;
    check_patience(window, 1000, 5000);
    window.awaited_count = 0;
    window.stacks_count = 1;
    check_patience(window, 1000, 5000);
    window.bytes = 100 << 20; /* reading it takes the time itself */
    check_patience(window, 0, 0);
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/kscope-schedule-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_stacks_and_times_are_awaited, empty_folder),
        cmocka_unit_test_teardown(test_ranks_are_awaited, empty_folder),
        cmocka_unit_test_teardown(test_next_window, empty_folder),
        cmocka_unit_test(test_patience),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
