/* A stand-in for NVML with two GPUs, for tests of what is read from it. Its calls are those of the
 * public interface; what they say is set by `stand_in_nvml`, which a test finds by dlsym. */
#include "stand_in_nvml.h"

#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

enum { NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, CLOCK_SM = 1 };

struct process_info {
    unsigned pid;
    unsigned long long memory_bytes;
    unsigned gpu_instance;
    unsigned compute_instance;
};

EXPORT struct stand_in_nvml stand_in_nvml;

#define CALL(name, ...) EXPORT int name(__VA_ARGS__)

CALL(nvmlInit_v2, void);
CALL(nvmlShutdown, void);
CALL(nvmlDeviceGetCount_v2, unsigned *count);
CALL(nvmlDeviceGetHandleByIndex_v2, unsigned index, void **device);
CALL(nvmlDeviceGetClockInfo, void *device, int which, unsigned *mhz);
CALL(nvmlDeviceGetMaxClockInfo, void *device, int which, unsigned *mhz);
CALL(nvmlDeviceGetCurrentClocksThrottleReasons, void *device, unsigned long long *bits);
CALL(nvmlDeviceGetTemperature, void *device, int sensor, unsigned *celsius);
CALL(nvmlDeviceGetPowerUsage, void *device, unsigned *mw);
CALL(nvmlDeviceGetEnforcedPowerLimit, void *device, unsigned *mw);
CALL(nvmlDeviceGetUtilizationRates, void *device, unsigned rates[2]);
CALL(nvmlDeviceGetComputeRunningProcesses_v3, void *device, unsigned *count,
     struct process_info *list);

static struct stand_in_gpu *gpu_of(void *device)
{
    return device;
}

int nvmlInit_v2(void)
{
    stand_in_nvml.open++;
    return stand_in_nvml.refuses ? NOT_SUPPORTED : 0;
}

int nvmlShutdown(void)
{
    stand_in_nvml.open--;
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = STAND_IN_GPUS;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &stand_in_nvml.gpus[index];
    return 0;
}

int nvmlDeviceGetClockInfo(void *device, int which, unsigned *mhz)
{
    *mhz = which == CLOCK_SM ? gpu_of(device)->mhz : 1;
    return 0;
}

int nvmlDeviceGetMaxClockInfo(void *device, int which, unsigned *mhz)
{
    (void)device;
    *mhz = which == CLOCK_SM ? 1980 : 1;
    return 0;
}

/* The older name; the default limit of power has no call at all. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits)
{
    *bits = gpu_of(device)->reasons;
    return 0;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    *celsius = sensor == 0 ? gpu_of(device)->celsius : 0;
    return 0;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *mw)
{
    (void)device;
    (void)mw;
    return NOT_SUPPORTED;
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *mw)
{
    (void)device;
    *mw = 700000;
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned rates[2])
{
    rates[0] = gpu_of(device)->busy_percent;
    rates[1] = 1;
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count,
                                            struct process_info *list)
{
    const struct stand_in_gpu *gpu = gpu_of(device);
    unsigned room = *count;
    *count = gpu->pid_count;
    for (unsigned i = 0; i < gpu->pid_count && i < room; i++) {
        list[i] = (struct process_info){.pid = gpu->pids[i]};
    }
    return gpu->pid_count > room ? INSUFFICIENT_SIZE : 0;
}
