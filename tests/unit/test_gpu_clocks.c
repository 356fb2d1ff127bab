/* Goal: what the driver says of GPUs comes into monitor.jsonl, of those that the program uses; a
 * driver that refuses, or knows less, ends nothing. Method: the monitor of this process, and a
 * stand-in for NVML that LD_LIBRARY_PATH leads to. */
#include "launch/gpu_clocks.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmocka_all.h"
#include "launch/monitor.h"
#include "stand_in_nvml.h"

static char root[64];
static struct stand_in_nvml *nvml;

static struct ks_process_tree tree_of_this_process(void)
{
    struct ks_process_tree before = {0};
    struct ks_process_tree tree = {0};
    assert_true(ks_process_tree_read(&tree, &before, getpid()));
    return tree;
}

static size_t look(struct ks_gpu_look list[KS_GPU_CLOCKS_MAX])
{
    struct ks_gpu_clocks clocks;
    struct ks_process_tree tree = tree_of_this_process();
    ks_gpu_clocks_open(&clocks);
    assert_int_equal(nvml->open, 1);
    size_t count = ks_gpu_clocks_look(&clocks, &tree, list);
    ks_gpu_clocks_close(&clocks);
    assert_int_equal(nvml->open, 0);
    ks_process_tree_release(&tree);
    return count;
}

/* Two processes compute on the second GPU, one of them ours; the first is not ours. */
static void set_gpus(unsigned pid)
{
    *nvml = (struct stand_in_nvml){
        .gpus = {{.mhz = 1980, .busy_percent = 100, .pids = {1}, .pid_count = 1},
                 {.mhz = 1410,
                  .reasons = 0x20,
                  .celsius = 91,
                  .busy_percent = 97,
                  .memory_bytes = 5ULL << 30,
                  .pids = {1, pid},
                  .pid_count = 2}}};
}

static void test_ours(void **state)
{
    (void)state;
    struct ks_gpu_look list[KS_GPU_CLOCKS_MAX];
    set_gpus((unsigned)getpid());
    assert_int_equal(look(list), 1);
    assert_int_equal(list[0].index, 1);
    assert_int_equal(list[0].memory_bytes, 5LL << 30);
    assert_int_equal(list[0].memory_total_bytes, 80LL << 30);
    assert_int_equal(list[0].sm_mhz, 1410);
    assert_int_equal(list[0].sm_mhz_max, 1980);
    assert_int_equal(list[0].reasons, 0x20);
    assert_int_equal(list[0].temperature_c, 91);
    assert_int_equal(list[0].busy_percent, 97);
    assert_int_equal(list[0].power_mw, -1); /* not supported */
    assert_int_equal(list[0].power_limit_mw, 700000);
    assert_int_equal(list[0].power_default_mw, -1); /* there is no such call */
    assert_int_equal(list[0].other_processes, 1);
    assert_int_equal(list[0].pid_count, 1);
    assert_int_equal(list[0].pids[0], getpid());
}

/* In a container the driver knows our processes by other numbers. */
static void test_container(void **state)
{
    (void)state;
    struct ks_gpu_look list[KS_GPU_CLOCKS_MAX];
    set_gpus(1);
    nvml->gpus[0].busy_percent = 0;
    nvml->gpus[1].memory_bytes = 0; /* not supported, and there is no older call */
    assert_int_equal(look(list), 1);
    assert_int_equal(list[0].memory_bytes, -1);
    assert_int_equal(list[0].index, 1);
    assert_int_equal(list[0].pid_count, 0);
    assert_int_equal(list[0].other_processes, -1);
}

static void test_refusal(void **state)
{
    (void)state;
    struct ks_gpu_clocks clocks;
    struct ks_gpu_look list[KS_GPU_CLOCKS_MAX];
    struct ks_process_tree tree = {0};
    set_gpus((unsigned)getpid());
    nvml->refuses = 1;
    ks_gpu_clocks_open(&clocks);
    assert_null(clocks.library);
    assert_int_equal(ks_gpu_clocks_look(&clocks, &tree, list), 0);
    ks_gpu_clocks_close(&clocks);
}

static void read_last_line(char line[8192])
{
    char path[128];
    snprintf(path, sizeof(path), "%s/monitor.jsonl", root);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, 8192, file)) {
    }
    assert_int_equal(fclose(file), 0);
}

static void test_line(void **state)
{
    (void)state;
    struct ks_monitor monitor;
    char line[8192];
    char wanted[512];
    set_gpus((unsigned)getpid());
    ks_monitor_init(&monitor, root, getpid());
    int64_t now_ns = ks_monitor_tick(&monitor, 1);
    assert_int_equal(nvml->open, 0); /* a program that ends at once asks nothing */
    (void)ks_monitor_tick(&monitor, now_ns);
    assert_int_equal(nvml->open, 1);
    ks_monitor_release(&monitor);
    assert_int_equal(nvml->open, 0);
    read_last_line(line);
    snprintf(wanted, sizeof(wanted),
             ", \"gpus\": [{\"index\": 1, \"busy_percent\": 97, "
             "\"memory_bytes\": 5368709120, \"memory_total_bytes\": 85899345920, "
             "\"sm_mhz\": 1410, "
             "\"sm_mhz_max\": 1980, \"reasons\": 32, \"temperature_c\": 91, \"power_mw\": null, "
             "\"power_limit_mw\": 700000, \"power_default_mw\": null, \"other_processes\": 1, "
             "\"pids\": [%d]}], \"processes\": [",
             (int)getpid());
    assert_non_null(strstr(line, wanted));
}

static int make_root(void **state)
{
    (void)state;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW); /* stays, so that its state does */
    nvml = library ? dlsym(library, "stand_in_nvml") : NULL;
    snprintf(root, sizeof(root), "/tmp/ks_test_clocks_XXXXXX");
    return nvml && mkdtemp(root) ? 0 : -1;
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
        cmocka_unit_test(test_ours),
        cmocka_unit_test(test_container),
        cmocka_unit_test(test_refusal),
        cmocka_unit_test(test_line),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
