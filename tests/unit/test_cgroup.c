/* Goal: limits and throttling are read from both versions of control groups, in one unit, and what
 * is no limit is -1. Method: folders of files as the kernel writes them. */
#include "launch/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmocka_all.h"

static char root[64];

static void put(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
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

static void test_version_2(void **state)
{
    (void)state;
    struct ks_cgroup group;
    put("cpu.stat", "usage_usec 9\nnr_periods 40\nnr_throttled 4\nthrottled_usec 2500\n");
    put("cpu.max", "150000 100000\n");
    put("memory.current", "4096\n");
    put("memory.max", "1073741824\n");
    ks_cgroup_read(root, root, &group);
    assert_int_equal(group.period_count, 40);
    assert_int_equal(group.throttled_count, 4);
    assert_int_equal(group.throttled_ns, 2500000);
    assert_int_equal(group.cpu_quota_us, 150000);
    assert_int_equal(group.cpu_period_us, 100000);
    assert_int_equal(group.memory_bytes, 4096);
    assert_int_equal(group.memory_max_bytes, 1073741824);

    put("cpu.max", "max 100000\n");
    put("memory.max", "max\n");
    ks_cgroup_read(root, root, &group);
    assert_int_equal(group.cpu_quota_us, -1);
    assert_int_equal(group.cpu_period_us, -1);
    assert_int_equal(group.memory_max_bytes, -1);
    assert_int_equal(group.memory_bytes, 4096);
}

static void test_version_1(void **state)
{
    (void)state;
    struct ks_cgroup group;
    put("cpu.stat", "nr_periods 40\nnr_throttled 4\nthrottled_time 2500\n");
    put("cpu.cfs_quota_us", "50000\n");
    put("cpu.cfs_period_us", "100000\n");
    put("memory.usage_in_bytes", "8192\n");
    put("memory.limit_in_bytes", "9223372036854771712\n");
    ks_cgroup_read(root, root, &group);
    assert_int_equal(group.throttled_ns, 2500);
    assert_int_equal(group.cpu_quota_us, 50000);
    assert_int_equal(group.memory_bytes, 8192);
    assert_int_equal(group.memory_max_bytes, -1); /* how version 1 says that there is none */

    put("cpu.cfs_quota_us", "-1\n");
    put("memory.limit_in_bytes", "65536\n");
    ks_cgroup_read(root, root, &group);
    assert_int_equal(group.cpu_quota_us, -1);
    assert_int_equal(group.memory_max_bytes, 65536);
}

static void test_no_group(void **state)
{
    (void)state;
    struct ks_cgroup group;
    ks_cgroup_read("", root, &group);
    assert_int_equal(group.period_count, -1);
    assert_int_equal(group.throttled_ns, -1);
    assert_int_equal(group.cpu_quota_us, -1);
    assert_int_equal(group.memory_bytes, -1);
    assert_int_equal(group.memory_max_bytes, -1);
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/kscope-cgroup-XXXXXX");
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
        cmocka_unit_test_teardown(test_version_2, empty_folder),
        cmocka_unit_test_teardown(test_version_1, empty_folder),
        cmocka_unit_test(test_no_group),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
