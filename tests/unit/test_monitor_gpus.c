/* Goal: what the driver says of the GPUs that the process may use becomes metrics in their units;
 * a call that is not supported leaves none. Method: a stand-in for NVML that LD_LIBRARY_PATH leads
 * to, looks at times of our own, values by hand. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/monitor/gpu_source.h"
#include "capture/monitor/system_monitor.h"
#include "cmocka_all.h"
#include "stand_in_nvml.h"

#define SECOND INT64_C(1000000000)

static struct stand_in_nvml *nvml;
static struct ks_gpu_source source;
static struct ks_look look;

static void look_at(int64_t now_ns)
{
    look.count = 0;
    look.now_ns = now_ns;
    ks_gpu_source_look(&source, &look);
}

/* NAN: it is not there. */
static double found(enum ks_metric metric, uint32_t index)
{
    double value = (double)NAN;
    for (uint32_t i = 0; i < look.count; i++) {
        if (look.values[i].series == ks_series_of(metric, index)) {
            assert_true(isnan(value)); /* once */
            value = look.values[i].value;
        }
    }
    return value;
}

static void check(enum ks_metric metric, uint32_t index, double expected)
{
    double value = found(metric, index);
    if (isnan(expected) ? !isnan(value) : value != expected) {
        fail_msg("%s of %u is %g, not %g", ks_metric_kinds[metric].name, index, value, expected);
    }
}

static void check_absent(enum ks_metric metric, uint32_t index)
{
    check(metric, index, (double)NAN);
}

static int set_gpus(void **state)
{
    (void)state;
    *nvml =
        (struct stand_in_nvml){.gpus = {{.mhz = 1980,
                                         .reasons = 0x20,
                                         .celsius = 61,
                                         .busy_percent = 97,
                                         .power_mw = 512500,
                                         .memory_bytes = 3ULL << 30,
                                         .energy_mj = 7000,
                                         .pcie_kb_s = 2000,
                                         .nvlink_kib = 100},
                                        {.mhz = 1410, .busy_percent = 3, .tensor_percent = 40}}};
    assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
    return unsetenv("LOCAL_RANK");
}

static void open_source(void)
{
    assert_true(ks_gpu_source_find(&source));
    ks_gpu_source_open(&source);
    assert_int_equal(nvml->open, 1);
}

static void close_source(void)
{
    ks_gpu_source_close(&source);
    assert_int_equal(nvml->open, 0);
    assert_int_equal(nvml->samples, 0);
}

static void test_older_device(void **state)
{
    (void)state;
    open_source();
    look_at(100 * SECOND);
    check(KS_METRIC_GPU_BUSY, 0, 97);
    check(KS_METRIC_GPU_MEMORY_BUSY, 0, 1);
    check(KS_METRIC_GPU_MEMORY, 0, (double)(3ULL << 30));
    check(KS_METRIC_GPU_MEMORY_SIZE, 0, (double)(80ULL << 30));
    check(KS_METRIC_GPU_POWER, 0, 512.5);
    check(KS_METRIC_GPU_ENERGY, 0, 0);
    check(KS_METRIC_GPU_TEMPERATURE, 0, 61);
    check(KS_METRIC_GPU_SM_CLOCK, 0, 1980);
    check(KS_METRIC_GPU_CLOCK_REASONS, 0, 0x20);
    check(KS_METRIC_GPU_PCIE_RECEIVE, 0, 2e6);
    check(KS_METRIC_GPU_PCIE_SEND, 0, 1e6);
    check_absent(KS_METRIC_GPU_NVLINK_RECEIVE, 0); /* a rate needs two looks */
    nvml->gpus[0].energy_mj = 9500;
    nvml->gpus[0].nvlink_kib = 300;
    look_at(102 * SECOND);
    check_absent(KS_METRIC_GPU_ENERGY, 0); /* the driver takes 4 ms for it */
    check(KS_METRIC_GPU_NVLINK_RECEIVE, 0, 100.0 * 1024);
    check(KS_METRIC_GPU_NVLINK_SEND, 0, 200.0 * 1024);
    look_at(110 * SECOND);
    check(KS_METRIC_GPU_ENERGY, 0, 2.5);
    check_absent(KS_METRIC_GPU_TENSOR_ACTIVE, 0);
    close_source();
}

/* What its units do, by counters between two looks; it does not support the rest. */
static void test_newer_device(void **state)
{
    (void)state;
    open_source();
    look_at(100 * SECOND);
    check(KS_METRIC_GPU_BUSY, 1, 3);
    check_absent(KS_METRIC_GPU_TENSOR_ACTIVE, 1);
    check_absent(KS_METRIC_GPU_POWER, 1);
    check_absent(KS_METRIC_GPU_MEMORY, 1);
    check_absent(KS_METRIC_GPU_ENERGY, 1);
    nvml->gpus[1].tensor_percent = 60;
    look_at(101 * SECOND);
    check(KS_METRIC_GPU_TENSOR_ACTIVE, 1, 50);
    check(KS_METRIC_GPU_PCIE_SEND, 1, 200.0 * 1024 * 1024);
    check(KS_METRIC_GPU_PCIE_RECEIVE, 1, 210.0 * 1024 * 1024);
    check_absent(KS_METRIC_GPU_SM_ACTIVE, 1);
    nvml->gpus[1].tensor_percent = 80;
    look_at(102 * SECOND);
    check(KS_METRIC_GPU_TENSOR_ACTIVE, 1, 70);
    close_source();
}

/* 10 looks a second: what the driver samples slowly, and what it measures inside of the call, is
 * asked for less often. */
static void test_periods(void **state)
{
    (void)state;
    int busy = 0;
    int clocks = 0;
    open_source();
    for (int i = 0; i < 50; i++) {
        look_at(100 * SECOND + i * SECOND / 10);
        busy += !isnan(found(KS_METRIC_GPU_BUSY, 0));
        clocks += !isnan(found(KS_METRIC_GPU_SM_CLOCK, 0));
    }
    assert_int_equal(busy, 10);
    assert_int_equal(clocks, 5);
    assert_int_equal(nvml->calls, 2 * 5); /* of the one without counters */
    close_source();
}

/* All but what measures inside of the call, and two samples too near to one another. */
static void test_last_look(void **state)
{
    (void)state;
    open_source();
    look_at(100 * SECOND);
    int asked = nvml->calls;
    nvml->gpus[0].nvlink_kib += 100;
    nvml->gpus[0].energy_mj += 1500;
    look.is_last = true;
    look_at(100 * SECOND + SECOND / 20);
    check(KS_METRIC_GPU_ENERGY, 0, 1.5);
    check(KS_METRIC_GPU_BUSY, 1, 3);
    check(KS_METRIC_GPU_NVLINK_RECEIVE, 0, 100.0 * 1024 * 20);
    check_absent(KS_METRIC_GPU_TENSOR_ACTIVE, 1);
    look_at(100 * SECOND + SECOND / 5);
    check(KS_METRIC_GPU_TENSOR_ACTIVE, 1, 40);
    check_absent(KS_METRIC_GPU_PCIE_RECEIVE, 0);
    assert_int_equal(nvml->calls, asked);
    look.is_last = false;
    close_source();
}

static void check_devices(const char *visible, const char *rank, uint32_t count, uint32_t first)
{
    assert_int_equal(visible ? setenv("CUDA_VISIBLE_DEVICES", visible, 1) : 0, 0);
    assert_int_equal(rank ? setenv("LOCAL_RANK", rank, 1) : 0, 0);
    open_source();
    assert_int_equal(source.count, count);
    if (count > 0) {
        assert_int_equal(source.gpus[0].index, first);
    }
    close_source();
    assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
    assert_int_equal(unsetenv("LOCAL_RANK"), 0);
}

static void test_devices(void **state)
{
    (void)state;
    check_devices(NULL, NULL, 2, 0);
    check_devices("1", NULL, 1, 1);
    check_devices("1,0", NULL, 2, 1);
    check_devices("GPU-second", NULL, 1, 1);
    check_devices("", NULL, 0, 0);
    check_devices("-1", NULL, 0, 0);
    check_devices("0,GPU-other,1", NULL, 1, 0); /* CUDA stops there, too */
    check_devices(NULL, "1", 1, 1);
    check_devices("1,0", "1", 1, 0);
    check_devices("1,0", "2", 2, 1);
    check_devices("1", "3", 1, 1); /* the launcher gave each rank its own */
    check_devices(NULL, "x", 2, 0);
}

static void test_refusing_driver(void **state)
{
    (void)state;
    nvml->refuses = 1;
    assert_true(ks_gpu_source_find(&source));
    ks_gpu_source_open(&source);
    look_at(100 * SECOND);
    assert_int_equal(look.count, 0);
    assert_false(source.is_open);
    ks_gpu_source_close(&source);
}

/* ------------------------------------------------------------------ the monitor's thread */

static bool has_value(enum ks_metric metric, double value)
{
    struct ks_curves *curves = ks_system_monitor_curves();
    struct ks_curve_summary summary;
    return curves && ks_curves_summary(curves, ks_series_of(metric, 0), 0, INT64_MAX, &summary) &&
           summary.last == value;
}

static void start(uint32_t rate_hz)
{
    char reason[KS_MONITOR_REASON_SIZE];
    const struct ks_system_monitor_options options = {.rate_hz = rate_hz};
    assert_int_equal(ks_system_monitor_start(&options, reason), 0);
}

static void test_monitor(void **state)
{
    (void)state;
    start(100);
    for (int i = 0; i < 500 && !has_value(KS_METRIC_GPU_POWER, 512.5); i++) {
        (void)usleep(10000);
    }
    assert_true(has_value(KS_METRIC_GPU_POWER, 512.5));
    assert_int_equal(nvml->open, 1);
    ks_system_monitor_stop();
    assert_int_equal(nvml->open, 0);
}

static void test_monitor_on_demand(void **state)
{
    (void)state;
    start(0);
    assert_true(has_value(KS_METRIC_GPU_POWER, 512.5));
    nvml->gpus[0].power_mw = 600000;
    (void)usleep(510000);
    ks_system_monitor_look();
    assert_true(has_value(KS_METRIC_GPU_POWER, 600));
    start(10); /* from now on a thread asks */
    assert_true(ks_system_monitor_is_on());
    ks_system_monitor_end();
    assert_false(ks_system_monitor_is_on());
    assert_int_equal(nvml->open, 0);
    assert_int_equal(nvml->samples, 0);
}

/* The driver does not work over a fork, so the child's monitor does not call it. */
static void test_child(void **state)
{
    (void)state;
    start(0);
    pid_t child = fork();
    if (child == 0) {
        nvml->gpus[0].power_mw = 1000;
        start(0);
        bool is_good = !has_value(KS_METRIC_GPU_POWER, 1) && ks_system_monitor_curves() != NULL;
        ks_system_monitor_stop();
        _exit(is_good && nvml->open == 1 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(has_value(KS_METRIC_GPU_POWER, 512.5));
    ks_system_monitor_stop();
    assert_int_equal(nvml->open, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_older_device, set_gpus),
        cmocka_unit_test_setup(test_newer_device, set_gpus),
        cmocka_unit_test_setup(test_periods, set_gpus),
        cmocka_unit_test_setup(test_last_look, set_gpus),
        cmocka_unit_test_setup(test_devices, set_gpus),
        cmocka_unit_test_setup(test_refusing_driver, set_gpus),
        cmocka_unit_test_setup(test_monitor, set_gpus),
        cmocka_unit_test_setup(test_monitor_on_demand, set_gpus),
        cmocka_unit_test_setup(test_child, set_gpus),
    };
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    nvml = library ? dlsym(library, "stand_in_nvml") : NULL;
    if (!nvml) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
