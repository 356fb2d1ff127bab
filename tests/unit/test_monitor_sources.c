/* Goal: what the kernel writes becomes the right metric in the right unit, from both versions of
 * control groups, and what is not there or makes no sense becomes none. Method: trees of files as
 * the kernel writes them, two looks at times of our own, values by hand. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capture/monitor/curves.h"
#include "capture/monitor/group_source.h"
#include "capture/monitor/machine_source.h"
#include "capture/monitor/process_source.h"
#include "capture/monitor/rdma_source.h"
#include "capture/monitor/words.h"
#include "cmocka_all.h"

#define SECOND INT64_C(1000000000)

static char root[64];
static struct ks_look look;

/* ------------------------------------------------------------------ a tree of files */

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/kscope-monitor-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", root);
    return system(command);
}

/* Makes the folders of the path as well. */
static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s%s", root, name);
    for (char *at = strchr(path + strlen(root) + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(path, 0755);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void begin_look(int64_t now_ns)
{
    look.count = 0;
    look.now_ns = now_ns;
    look.is_last = false;
}

static void begin_last_look(int64_t now_ns)
{
    begin_look(now_ns);
    look.is_last = true;
}

/* NULL: it is not there. */
static const struct ks_look_value *find(enum ks_metric metric, uint32_t index)
{
    const struct ks_look_value *value = NULL;
    for (uint32_t i = 0; i < look.count; i++) {
        if (look.values[i].series == ks_series_of(metric, index)) {
            assert_null(value); /* once */
            value = &look.values[i];
        }
    }
    return value;
}

/* NAN: it is not there. */
static double found(enum ks_metric metric, uint32_t index)
{
    const struct ks_look_value *value = find(metric, index);
    return value ? value->value : (double)NAN;
}

static void check(enum ks_metric metric, double expected)
{
    double value = found(metric, 0);
    if (isnan(expected) ? !isnan(value) : !(fabs(value - expected) <= fabs(expected) * 1e-12)) {
        fail_msg("%s is %g, not %g", ks_metric_kinds[metric].name, value, expected);
    }
}

static void check_absent(enum ks_metric metric)
{
    check(metric, (double)NAN);
}

/* Every look at the clock takes so long. */
static int64_t clock_cost_ns;
static int64_t clock_lead_ns;

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    int status = __real_clock_gettime(clock, out);
    int64_t ns = out->tv_sec * SECOND + out->tv_nsec + (clock_lead_ns += clock_cost_ns);
    *out = (struct timespec){.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
    return status;
}

/* ------------------------------------------------------------------ words */

static void check_number(const char *text, bool is_one, uint64_t expected)
{
    uint64_t value = 0;
    const char *at = text;
    assert_int_equal(ks_words_number(&at, &value), is_one);
    assert_true(!is_one || value == expected);
    assert_true(is_one || at == text);
}

static void test_words(void **state)
{
    (void)state;
    uint64_t value = 0;
    char word[4];
    const char *at = "  eth0: 1";
    check_number("0", true, 0);
    check_number(" \t12x", true, 12);
    check_number("18446744073709551615", true, UINT64_MAX);
    check_number("18446744073709551616", false, 0);
    check_number("-1", false, 0);
    check_number("max", false, 0);
    check_number("", false, 0);
    assert_true(ks_words_number_of("a 1\nb 2\n", "b ", &value) && value == 2);
    assert_false(ks_words_number_of("a 1\nab 2\n", "b ", &value));
    assert_false(ks_words_number_of("", "b ", &value));
    assert_false(ks_words_total_of("some avg10=1\nfull total=9\n", "some ", &value));
    assert_true(ks_words_total_of("some avg10=1\nfull x total=9", "full ", &value) && value == 9);
    assert_false(ks_words_word(&at, ':', word, sizeof(word))); /* no room */
}

/* A program that closes all files, as daemons do, and opens its own. */
static void test_kept_file(void **state)
{
    (void)state;
    char text[16];
    struct ks_kept_file file;
    put("/ours", "1\n");
    put("/theirs", "2\n");
    ks_kept_file_open(&file, root, "", "/ours");
    assert_true(ks_kept_file_read(&file, text, sizeof(text)));
    assert_string_equal(text, "1\n");
    put("/ours", "12345678901234567890\n");
    assert_true(ks_kept_file_read(&file, text, sizeof(text)));
    assert_string_equal(text, "123456789012345"); /* what fits */
    int number = file.fd;
    struct ks_kept_file theirs;
    ks_kept_file_open(&theirs, root, "", "/theirs");
    assert_int_equal(dup2(theirs.fd, number), number);
    ks_kept_file_close(&file);
    assert_int_equal(fcntl(number, F_GETFD), 0);
    assert_int_equal(close(number), 0);
    ks_kept_file_close(&theirs);
    assert_int_equal(fcntl(theirs.fd, F_GETFD), -1);
    ks_kept_file_close(&theirs);
    ks_kept_file_open(&file, root, "", "/neither");
    assert_false(ks_kept_file_read(&file, text, sizeof(text)));
    assert_string_equal(text, "");
}

/* Each metric has a name and a unit of its own; series and metrics are one to one. */
static void test_series(void **state)
{
    (void)state;
    for (uint32_t series = 0; series < KS_SERIES_COUNT; series++) {
        enum ks_metric metric = ks_series_metric(series);
        int32_t index = ks_series_index(series);
        assert_int_equal(ks_series_of(metric, index < 0 ? 0 : (uint32_t)index), series);
    }
    for (int i = 0; i < KS_METRIC_COUNT; i++) {
        assert_non_null(ks_metric_kinds[i].name);
        assert_non_null(ks_metric_kinds[i].unit);
        for (int other = 0; other < i; other++) {
            assert_string_not_equal(ks_metric_kinds[i].name, ks_metric_kinds[other].name);
        }
    }
}

/* ------------------------------------------------------------------ the process */

static const char STAT[] = "42 (a ) b(9) S 1 42 42 0 -1 4194560 9 0 0 0 7 8 0 0 20 0 %d 0 99 "
                           "1000000 5 18446744073709551615 1 1 0\n";

static void put_process(int threads, int pages, int scale)
{
    char text[512];
    snprintf(text, sizeof(text), STAT, threads);
    put("/proc/self/stat", text);
    snprintf(text, sizeof(text), "9999 %d 1 1 0 1 0\n", pages);
    put("/proc/self/statm", text);
    snprintf(text, sizeof(text),
             "rchar: %d\nwchar: %d\nsyscr: 5\nsyscw: 6\nread_bytes: %d\nwrite_bytes: %d\n"
             "cancelled_write_bytes: 0\n",
             1000 * scale, 2000 * scale, 3000 * scale, 4000 * scale);
    put("/proc/self/io", text);
    put("/proc/self/smaps_rollup", "0-1 ---p 0 00:00 0 [rollup]\nRss:  9 kB\nPss:  7 kB\n");
}

static void test_process(void **state)
{
    (void)state;
    struct ks_process_source source;
    put_process(12, 300, 1);
    ks_process_source_open(&source, root);
    begin_look(100 * SECOND);
    ks_process_source_look(&source, &look);
    check(KS_METRIC_CPU_THREADS, 12);
    check(KS_METRIC_MEMORY_RSS, 300.0 * (double)sysconf(_SC_PAGESIZE));
    check(KS_METRIC_MEMORY_PSS, 7.0 * 1024);
    check_absent(KS_METRIC_IO_READ); /* a rate needs two looks */
    check_absent(KS_METRIC_CPU_PROCESS);
    put_process(13, 301, 3);
    begin_look(102 * SECOND);
    ks_process_source_look(&source, &look);
    check(KS_METRIC_CPU_THREADS, 13);
    check(KS_METRIC_IO_READ, 1000);
    check(KS_METRIC_IO_WRITE, 2000);
    check(KS_METRIC_IO_DISK_READ, 3000);
    check(KS_METRIC_IO_DISK_WRITE, 4000);
    check_absent(KS_METRIC_MEMORY_PSS); /* every ten seconds */
    put_process(1, 1, 2);
    begin_look(111 * SECOND);
    ks_process_source_look(&source, &look);
    check_absent(KS_METRIC_IO_READ); /* it went back */
    check(KS_METRIC_MEMORY_PSS, 7.0 * 1024);
    ks_process_source_close(&source);
}

/* The folder of threads has a folder for each, which the file system counts as links to it, or
 * does not count at all. */
static void test_thread_folders(void **state)
{
    (void)state;
    struct ks_process_source source;
    put_process(2, 1, 1);
    put("/proc/self/task/41/comm", "a\n");
    put("/proc/self/task/42/comm", "b\n");
    ks_process_source_open(&source, root);
    struct stat about;
    assert_int_equal(fstat(source.threads.fd, &about), 0);
    assert_int_equal(source.counts_threads, about.st_nlink == 4);
    put_process(9, 1, 1); /* when folders count, this is not read */
    begin_look(100 * SECOND);
    ks_process_source_look(&source, &look);
    check(KS_METRIC_CPU_THREADS, source.counts_threads ? 2 : 9);
    ks_process_source_close(&source);
    ks_process_source_open(&source, root); /* the two do not agree */
    assert_false(source.counts_threads);
    begin_look(100 * SECOND);
    ks_process_source_look(&source, &look);
    check(KS_METRIC_CPU_THREADS, 9);
    ks_process_source_close(&source);
    ks_process_source_open(&source, ""); /* the real one: by folders on Linux */
    assert_true(source.counts_threads);
    begin_look(100 * SECOND);
    ks_process_source_look(&source, &look);
    check(KS_METRIC_CPU_THREADS, 1);
    ks_process_source_close(&source);
}

/* Whether PSS is read once more after it took that long. */
static bool is_read_again(int64_t cost_ns)
{
    struct ks_process_source source;
    ks_process_source_open(&source, root);
    for (int i = 1; i < 3; i++) {
        begin_look(i * 20 * SECOND);
        clock_cost_ns = cost_ns;
        ks_process_source_look(&source, &look);
        clock_cost_ns = 0;
        assert_true(i > 1 || found(KS_METRIC_MEMORY_PSS, 0) == 7.0 * 1024);
    }
    ks_process_source_close(&source);
    return !isnan(found(KS_METRIC_MEMORY_PSS, 0));
}

static void test_costly_pss(void **state)
{
    (void)state;
    put_process(12, 300, 1);
    assert_true(is_read_again(SECOND / 1000 * 3));
    assert_false(is_read_again(SECOND / 1000 * 6));
}

static void test_process_without_files(void **state)
{
    (void)state;
    struct ks_process_source source;
    put("/proc/self/stat", "42 (x) S 1 2");
    put("/proc/self/statm", "9999");
    put("/proc/self/io", "");
    ks_process_source_open(&source, root);
    for (int i = 1; i < 3; i++) {
        begin_look(i * SECOND);
        ks_process_source_look(&source, &look);
    }
    check_absent(KS_METRIC_CPU_THREADS);
    check_absent(KS_METRIC_MEMORY_RSS);
    check_absent(KS_METRIC_MEMORY_PSS);
    check_absent(KS_METRIC_IO_READ);
    assert_true(found(KS_METRIC_CPU_PROCESS, 0) >= 0); /* comes from no file */
    ks_process_source_close(&source);
}

/* ------------------------------------------------------------------ last looks */

static void check_told(enum ks_metric metric, double expected, double seconds, bool is_rest)
{
    const struct ks_look_value *value = find(metric, 0);
    check(metric, expected);
    if (!value || value->is_rest != is_rest ||
        !(fabs((double)value->seconds - seconds) <= 1e-6 * seconds)) {
        fail_msg("%s is of another time", ks_metric_kinds[metric].name);
    }
}

static void check_no_rest(enum ks_metric metric, double expected, double seconds)
{
    check_told(metric, expected, seconds, false);
}

static void check_rest(enum ks_metric metric, double whole, double seconds, double rest)
{
    const struct ks_look_value *value = find(metric, 0);
    check_told(metric, whole, seconds, true);
    double told = value ? (double)value->rest : (double)NAN;
    assert_true(fabs(told - rest) <= 1e-6 * rest);
}

static void look_at_process(struct ks_process_source *source, int64_t ms, bool is_last, int scale)
{
    put_process(12, 300, scale);
    begin_look(ms * (SECOND / 1000));
    look.is_last = is_last;
    ks_process_source_look(source, &look);
}

/* Soon after another look: one rate of both times. Else: one of its own. And whoever goes on does
 * so from there. */
static void test_last_look(void **state)
{
    (void)state;
    struct ks_process_source source;
    put_process(12, 300, 1);
    ks_process_source_open(&source, root);
    look_at_process(&source, 100000, false, 1);
    look_at_process(&source, 101000, false, 11);
    check_no_rest(KS_METRIC_IO_READ, 10000, 1);
    look_at_process(&source, 101250, true, 16); /* 5000 in a quarter of a second */
    check_rest(KS_METRIC_IO_READ, 15000 / 1.25, 0.25, 20000);
    check(KS_METRIC_CPU_THREADS, 12);
    look_at_process(&source, 101300, true, 17); /* another one stops: 1.3 s since the first look */
    check_rest(KS_METRIC_IO_READ, 16000 / 1.3, 0.05, 20000);
    look_at_process(&source, 101400, false, 18); /* others go on, and are not due */
    check_absent(KS_METRIC_IO_READ);
    check_absent(KS_METRIC_CPU_THREADS);
    look_at_process(&source, 102300, false, 27);
    check_no_rest(KS_METRIC_IO_READ, 10000, 1);
    look_at_process(&source, 102900, true, 33);
    check_no_rest(KS_METRIC_IO_READ, 10000, 0.6);
    ks_process_source_close(&source);
}

/* Behind the first look only: of less than 50 ms no rate is told. */
static void test_last_look_of_a_short_time(void **state)
{
    (void)state;
    for (int ms = 40; ms <= 60; ms += 20) {
        struct ks_process_source source;
        put_process(12, 300, 1);
        ks_process_source_open(&source, root);
        look_at_process(&source, 100000, false, 1);
        look_at_process(&source, 100000 + ms, true, 2);
        check(KS_METRIC_IO_READ, ms < 50 ? (double)NAN : 1000 / (ms / 1e3));
        check_absent(KS_METRIC_MEMORY_PSS); /* it was read a moment ago */
        ks_process_source_close(&source);
    }
}

static void test_last_look_at_pss(void **state)
{
    (void)state;
    struct ks_process_source source;
    put_process(12, 300, 1);
    ks_process_source_open(&source, root);
    look_at_process(&source, 100000, false, 1);
    look_at_process(&source, 103000, true, 1);
    check(KS_METRIC_MEMORY_PSS, 7.0 * 1024);
    ks_process_source_close(&source);
}

/* ------------------------------------------------------------------ control groups */

static void look_twice(struct ks_group_source *source, void (*change)(void))
{
    ks_group_source_open(source, root);
    begin_look(100 * SECOND);
    ks_group_source_look(source, &look);
    check_absent(KS_METRIC_GROUP_THROTTLED);
    check_absent(KS_METRIC_GROUP_THROTTLED_PERIODS);
    change();
    begin_look(102 * SECOND);
    ks_group_source_look(source, &look);
    ks_group_source_close(source);
}

#define GROUP "/sys/fs/cgroup/user/job"

static void put_version_2(void)
{
    put("/proc/self/cgroup", "0::/user/job\n");
    put(GROUP "/memory.current", "750\n");
    put(GROUP "/memory.max", "1000\n");
    put(GROUP "/memory.events", "low 0\nhigh 0\nmax 5\noom 1\noom_kill 1\n");
    put(GROUP "/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n");
    put(GROUP "/cpu.max", "150000 100000\n");
    put(GROUP "/cpu.stat", "usage_usec 1000000\nnr_periods 10\nnr_throttled 1\n"
                           "throttled_usec 5000\n");
}

static void change_version_2(void)
{
    put(GROUP "/memory.events", "low 0\nhigh 0\nmax 8\noom 2\noom_kill 2\n");
    put(GROUP "/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=501000\n");
    put(GROUP "/cpu.stat", "usage_usec 4000000\nnr_periods 30\nnr_throttled 11\n"
                           "throttled_usec 1005000\n");
}

static void test_version_2(void **state)
{
    (void)state;
    struct ks_group_source source;
    put_version_2();
    look_twice(&source, change_version_2);
    check(KS_METRIC_GROUP_MEMORY, 750);
    check(KS_METRIC_GROUP_MEMORY_LIMIT, 1000);
    check(KS_METRIC_GROUP_MEMORY_USED, 75);
    check(KS_METRIC_GROUP_MEMORY_AT_LIMIT, 3);
    check(KS_METRIC_GROUP_OOM_KILLS, 1);
    check(KS_METRIC_GROUP_MEMORY_PRESSURE, 25);
    check(KS_METRIC_GROUP_CPU, 150);
    check(KS_METRIC_GROUP_CPU_LIMIT, 150);
    check(KS_METRIC_GROUP_THROTTLED, 50);
    check(KS_METRIC_GROUP_THROTTLED_PERIODS, 50);
}

static void change_nothing(void)
{
}

static void test_version_2_without_limits(void **state)
{
    (void)state;
    struct ks_group_source source;
    put_version_2();
    put(GROUP "/memory.max", "max\n");
    put(GROUP "/cpu.max", "max 100000\n");
    put(GROUP "/cpu.stat", "usage_usec 7\n");
    look_twice(&source, change_nothing);
    check(KS_METRIC_GROUP_MEMORY, 750);
    check(KS_METRIC_GROUP_CPU, 0);
    check_absent(KS_METRIC_GROUP_MEMORY_LIMIT);
    check_absent(KS_METRIC_GROUP_MEMORY_USED);
    check_absent(KS_METRIC_GROUP_CPU_LIMIT);
    check_absent(KS_METRIC_GROUP_THROTTLED);
}

static void put_version_1(void)
{
    put("/proc/self/cgroup", "4:memory:/job\n3:cpuset:/\n2:cpuacct,cpu:/not/there\n0::/\n");
    put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "750\n");
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/job/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
    put("/sys/fs/cgroup/cpu/cpu.stat", "nr_periods 10\nnr_throttled 1\nthrottled_time 5000000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpuacct/cpuacct.usage", "1000000000\n");
}

static void change_version_1(void)
{
    put("/sys/fs/cgroup/memory/job/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 6\n");
    put("/sys/fs/cgroup/cpu/cpu.stat",
        "nr_periods 30\nnr_throttled 11\nthrottled_time 1005000000\n");
    put("/sys/fs/cgroup/cpuacct/cpuacct.usage", "4000000000\n");
}

static void test_version_1(void **state)
{
    (void)state;
    struct ks_group_source source;
    put_version_1();
    look_twice(&source, change_version_1);
    check(KS_METRIC_GROUP_MEMORY, 750);
    check_absent(KS_METRIC_GROUP_MEMORY_LIMIT); /* the largest number means none */
    check_absent(KS_METRIC_GROUP_MEMORY_AT_LIMIT);
    check(KS_METRIC_GROUP_OOM_KILLS, 2);
    check(KS_METRIC_GROUP_CPU, 150);
    check(KS_METRIC_GROUP_CPU_LIMIT, 150);
    check(KS_METRIC_GROUP_THROTTLED, 50);
    check(KS_METRIC_GROUP_THROTTLED_PERIODS, 50);
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    look_twice(&source, change_nothing);
    check_absent(KS_METRIC_GROUP_CPU_LIMIT);
}

static void test_no_group(void **state)
{
    (void)state;
    struct ks_group_source source;
    put("/proc/self/cgroup", "nonsense\n:::\n0::/gone\n9");
    look_twice(&source, change_nothing);
    assert_int_equal(look.count, 0);
}

/* ------------------------------------------------------------------ the machine */

static void put_machine_links(int scale)
{
    char text[1024];
    snprintf(text, sizeof(text),
             "Inter-| Receive | Transmit\n face |bytes packets|bytes packets\n"
             "    lo: %d 1 0 0 0 0 0 0 %d 1 0 0 0 0 0 0\n  eth0:%d 1 0 0 0 0 0 0 %d 1 0 0 0 0 0 0\n"
             " bond0: %d 1 0 0 0 0 0 0 %d 1 0 0 0 0 0 0\n ib0: %d 1 0 0 0 0 0 0 %d 1 0 0 0 0 0 0\n",
             9 * scale, 9 * scale, 1000 * scale, 2000 * scale, 9 * scale, 9 * scale, 10 * scale,
             20 * scale);
    put("/proc/self/net/dev", text);
}

static void put_machine(int scale)
{
    char text[1024];
    snprintf(text, sizeof(text),
             "cpu  %d 0 %d %d 0 0 0 0 0 0\ncpu0 %d 0 0 %d 0 0 0 0 0 0\ncpu7 0 0 %d 0 %d 0 0 0\n"
             "intr 1 2 3\n",
             100 * scale, 100 * scale, 200 * scale, 75 * scale, 25 * scale, 10 * scale, 90 * scale);
    put("/proc/stat", text);
    put("/proc/meminfo", "MemTotal:  4000 kB\nMemFree:  1 kB\nMemAvailable:  1000 kB\n");
    snprintf(text, sizeof(text), "some avg10=0 avg60=0 avg300=0 total=%d\nfull avg10=0 total=%d\n",
             200000 * scale, 100000 * scale);
    put("/proc/pressure/cpu", text);
    put("/proc/pressure/memory", text);
    put("/proc/pressure/io", text);
    snprintf(text, sizeof(text),
             " 259 0 nvme0n1 1 0 %d 1 1 0 %d 1 0 %d 1\n 259 1 nvme0n1p1 1 0 %d 1 1 0 1 1 0 1 1\n"
             "   7 0 loop0 1 0 %d 1 1 0 1 1 0 1 1\n 8 0 sda 1 0 %d 1 1 0 0 1 0 %d 1 0 0 0 0\n"
             "   8 16 broken\n",
             100 * scale, 200 * scale, 500 * scale, 999 * scale, 999 * scale, 50 * scale,
             100 * scale);
    put("/proc/diskstats", text);
    put_machine_links(scale);
}

static struct ks_machine_source *look_at_machine(void (*change)(int), int first, int second)
{
    struct ks_machine_source *source = calloc(1, sizeof(*source));
    assert_non_null(source);
    change(first);
    ks_machine_source_open(source, root);
    begin_look(100 * SECOND);
    ks_machine_source_look(source, &look);
    check_absent(KS_METRIC_CPU_MACHINE);
    check_absent(KS_METRIC_DISK_READ);
    change(second);
    begin_look(102 * SECOND);
    ks_machine_source_look(source, &look);
    ks_machine_source_close(source);
    return source;
}

static void test_machine(void **state)
{
    (void)state;
    put("/sys/block/nvme0n1/size", "1\n");
    put("/sys/block/sda/size", "1\n");
    put("/sys/block/loop0/size", "1\n");
    put("/sys/class/net/bond0/bonding/mode", "1\n");
    free(look_at_machine(put_machine, 1, 3));
    check(KS_METRIC_CPU_MACHINE, 50);
    assert_true(found(KS_METRIC_CPU_CORE, 0) == 75.0);
    assert_true(found(KS_METRIC_CPU_CORE, 7) == 10.0); /* the others are switched off */
    assert_true(isnan(found(KS_METRIC_CPU_CORE, 1)));
    check(KS_METRIC_MEMORY_AVAILABLE, 1000.0 * 1024);
    check(KS_METRIC_MEMORY_MACHINE, 75);
    check(KS_METRIC_PRESSURE_CPU, 20);
    check(KS_METRIC_PRESSURE_MEMORY, 20);
    check(KS_METRIC_PRESSURE_MEMORY_FULL, 10);
    check(KS_METRIC_PRESSURE_IO, 20);
    check(KS_METRIC_PRESSURE_IO_FULL, 10);
    check(KS_METRIC_DISK_READ, 150.0 * 512);
    check(KS_METRIC_DISK_WRITE, 200.0 * 512);
    check(KS_METRIC_DISK_BUSY, 50); /* of the busiest */
    check(KS_METRIC_NET_RECEIVE, 1010);
    check(KS_METRIC_NET_SEND, 2020);
}

/* Cores, the sum of links and the busiest disk: of 2 s, and then of 2.5 s. */
static void test_last_look_at_machine(void **state)
{
    (void)state;
    struct ks_machine_source *source = calloc(1, sizeof(*source));
    assert_non_null(source);
    put("/sys/block/nvme0n1/size", "1\n");
    put("/sys/block/sda/size", "1\n");
    put_machine(1);
    ks_machine_source_open(source, root);
    begin_look(100 * SECOND);
    ks_machine_source_look(source, &look);
    put_machine(3);
    begin_look(102 * SECOND);
    ks_machine_source_look(source, &look);
    check_no_rest(KS_METRIC_CPU_MACHINE, 50, 2);
    check_no_rest(KS_METRIC_NET_RECEIVE, 1010 + 9, 2); /* with a bond here */
    put("/proc/stat", "cpu  700 0 0 600 0 0 0 0 0 0\ncpu0 625 0 0 75 0 0 0 0 0 0\n");
    put_machine_links(4);
    begin_last_look(102 * SECOND + SECOND / 2);
    ks_machine_source_look(source, &look);
    /* Of all 400 ticks of 100 were busy before; now 100 of 100. */
    check_rest(KS_METRIC_CPU_MACHINE, (50 * 2 + 100 * 0.5) / 2.5, 0.5, 100);
    check_rest(KS_METRIC_NET_RECEIVE, 3 * (1010 + 9) / 2.5, 0.5, 2 * (1010 + 9));
    check_rest(KS_METRIC_DISK_BUSY, 50 * 2 / 2.5, 0.5, 0);
    ks_machine_source_close(source);
    free(source);
}

/* Counters that start anew, as of a link that was made again. */
static void test_machine_backwards(void **state)
{
    (void)state;
    free(look_at_machine(put_machine, 3, 1));
    check_absent(KS_METRIC_CPU_MACHINE);
    check_absent(KS_METRIC_NET_RECEIVE);
    check_absent(KS_METRIC_PRESSURE_CPU);
}

static void put_nonsense(int unused)
{
    (void)unused;
    put("/proc/stat", "cpu\ncpu0 1 2\ncpu99999 1 1 1 1 1 1 1 1\ncpux 1 1 1 1 1 1 1 1");
    put("/proc/meminfo", "MemTotal: 10 kB\nMemAvailable: 20 kB\n");
    put("/proc/pressure/cpu", "total\n");
    put("/proc/diskstats", "\n\n1\n1 2\n1 2 name-that-is-far-longer-than-any-disk-was-ever 1\n");
    put("/proc/self/net/dev",
        ":\n: 1\nname-that-is-far-longer-than-any-link-was-ever-called: 1 2\n");
}

static void test_machine_nonsense(void **state)
{
    (void)state;
    free(look_at_machine(put_nonsense, 0, 0));
    check_absent(KS_METRIC_MEMORY_AVAILABLE);
    check_absent(KS_METRIC_CPU_CORE);
}

/* More disks and links than there is room for: the first ones count. */
static void put_many(int scale)
{
    char text[16384];
    size_t len = 0;
    for (int i = 0; i < 2 * KS_MACHINE_DISKS_MAX; i++) {
        char path[64];
        snprintf(path, sizeof(path), "/sys/block/sd%d/size", i);
        put(path, "1\n");
        len += (size_t)snprintf(text + len, sizeof(text) - len, "8 0 sd%d 1 0 %d 1 1 0 0 1 0 0 1\n",
                                i, 10 * scale);
    }
    put("/proc/diskstats", text);
}

static void test_machine_many(void **state)
{
    (void)state;
    free(look_at_machine(put_many, 1, 3));
    check(KS_METRIC_DISK_READ, KS_MACHINE_DISKS_MAX * 10.0 * 512);
}

/* ------------------------------------------------------------------ RDMA */

#define PORTS "/sys/class/infiniband/mlx5_0/ports"

static void test_rdma(void **state)
{
    (void)state;
    struct ks_rdma_source source;
    put(PORTS "/1/counters/port_rcv_data", "1000\n");
    put(PORTS "/1/counters/port_xmit_data", "5000\n");
    put(PORTS "/2/counters/port_rcv_data", "N/A (no PMA)\n");
    put("/sys/class/infiniband/mlx5_1/ports/1/counters/port_rcv_data", "10\n");
    put("/sys/class/infiniband/mlx5_2/node_type", "1\n");
    ks_rdma_source_open(&source, root);
    assert_int_equal(source.count, 3);
    begin_look(100 * SECOND);
    ks_rdma_source_look(&source, &look);
    assert_int_equal(look.count, 0);
    put(PORTS "/1/counters/port_rcv_data", "3000\n");
    put(PORTS "/1/counters/port_xmit_data", "5000\n");
    put("/sys/class/infiniband/mlx5_1/ports/1/counters/port_rcv_data", "30\n");
    begin_look(102 * SECOND);
    ks_rdma_source_look(&source, &look);
    check(KS_METRIC_NET_RDMA_RECEIVE, (2000 + 20) * 4 / 2.0);
    check(KS_METRIC_NET_RDMA_SEND, 0);
    ks_rdma_source_close(&source);
}

static void test_no_rdma(void **state)
{
    (void)state;
    struct ks_rdma_source source;
    ks_rdma_source_open(&source, root);
    begin_look(100 * SECOND);
    ks_rdma_source_look(&source, &look);
    assert_int_equal(look.count, 0);
    ks_rdma_source_close(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test_setup_teardown(test_kept_file, make_root, remove_root),
        cmocka_unit_test(test_series),
        cmocka_unit_test_setup_teardown(test_process, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_thread_folders, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_costly_pss, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_last_look, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_last_look_of_a_short_time, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_last_look_at_pss, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_process_without_files, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_version_2, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_version_2_without_limits, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_version_1, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_no_group, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_machine, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_last_look_at_machine, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_machine_backwards, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_machine_nonsense, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_machine_many, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_rdma, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_no_rdma, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
