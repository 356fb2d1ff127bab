/* Goal: the least limit on the way to the root of control groups counts. Method: folders as the
 * kernel shows them. */
#include "base/memory_size.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmocka_all.h"

static char root[] = "/tmp/kscope-groups-XXXXXX";

static void put(const char *group, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s%s", root, group);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s%s/memory.max", root, group);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void check(const char *group, uint64_t limit)
{
    assert_true(ks_memory_group_limit(root, group, "memory.max") == limit);
}

static void test_group_limit(void **state)
{
    (void)state;
    put("/a", "4096\n");
    put("/a/b", "max\n");
    put("/a/b/c", "9000\n");
    put("/d", "0\n");
    check("/a", 4096);
    check("/a/b", 4096);
    check("/a/b/c", 4096);
    check("/d", UINT64_MAX);
    check("/none", UINT64_MAX);
    check("/", UINT64_MAX);
    put("", "100\n");
    check("/", 100);
    check("/a/b/c", 100);
    check("/none/deeper", 100);
}

static void test_machine(void **state)
{
    (void)state;
    assert_true(ks_memory_size() > 1 << 20);
    uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
    assert_true(ks_memory_size() <= pages * (uint64_t)sysconf(_SC_PAGESIZE));
}

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_group_limit),
        cmocka_unit_test(test_machine),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
