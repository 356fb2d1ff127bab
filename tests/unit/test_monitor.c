/* Goal: the monitor's file stays small and whole however long the run is, and a process that ends
 * or a folder that goes ends nothing. Method: a monitor of this process with a clock of our own. */
#include "launch/monitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

static char root[64];

static size_t read_lines(int64_t *last_interval_ns)
{
    char path[128];
    char line[8192];
    long long before = 0;
    size_t count = 0;
    snprintf(path, sizeof(path), "%s/monitor.jsonl", root);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        long long time_ns = 0;
        long long interval_ns = 0;
        assert_int_equal(
            sscanf(line, "{\"time_ns\": %lld, \"interval_ns\": %lld", &time_ns, &interval_ns), 2);
        assert_string_equal(line + strlen(line) - 3, "]}\n");
        assert_true(time_ns > before);
        before = time_ns;
        *last_interval_ns = interval_ns;
        count++;
    }
    assert_int_equal(fclose(file), 0);
    return count;
}

static void test_thinning(void **state)
{
    (void)state;
    struct ks_monitor monitor;
    int64_t now_ns = 1;
    int64_t interval_ns = 0;
    ks_monitor_init(&monitor, root, getpid());
    monitor.lines_max = 8;
    for (size_t i = 0; i < 100; i++) {
        now_ns = ks_monitor_tick(&monitor, now_ns);
        assert_true(monitor.fd >= 0);
        assert_true(monitor.line_count < 8);
    }
    assert_in_range(read_lines(&interval_ns), 4, 7); /* every second one stays */
    assert_true(interval_ns >= 8 * 1000000000LL);    /* doubled more than thrice */
    ks_monitor_release(&monitor);
}

static void test_a_process_that_ends(void **state)
{
    (void)state;
    struct ks_monitor monitor;
    int64_t interval_ns = 0;
    pid_t pid = fork();
    if (pid == 0) {
        (void)pause();
        _exit(0);
    }
    ks_monitor_init(&monitor, root, pid);
    int64_t now_ns = ks_monitor_tick(&monitor, 1);
    now_ns = ks_monitor_tick(&monitor, now_ns);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    now_ns = ks_monitor_tick(&monitor, now_ns);
    now_ns = ks_monitor_tick(&monitor, now_ns);
    assert_true(now_ns < INT64_MAX);
    assert_int_equal(read_lines(&interval_ns), 1);
    ks_monitor_release(&monitor);
}

static void test_no_folder(void **state)
{
    (void)state;
    struct ks_monitor monitor;
    ks_monitor_init(&monitor, "/nowhere", getpid());
    assert_int_equal(ks_monitor_tick(&monitor, 1), INT64_MAX);
    ks_monitor_release(&monitor);
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/ks_test_monitor_XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof(path), "%s/monitor.jsonl", root);
    (void)unlink(path);
    return rmdir(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thinning),
        cmocka_unit_test(test_a_process_that_ends),
        cmocka_unit_test(test_no_folder),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
