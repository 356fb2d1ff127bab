#include "capture/monitor/nvml_calls.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* A function's address is no pointer to data in C; in POSIX it is. */
_Static_assert(sizeof(void *) == sizeof(int (*)(void)), "POSIX");

struct name {
    size_t offset; /* of the pointer in the calls */
    const char *name;
    const char *older; /* NULL: none */
};

#define CALL(member, name)                                                                         \
    {                                                                                              \
        offsetof(struct ks_nvml_calls, member), name, NULL                                         \
    }
#define CALL_OR(member, name, older)                                                               \
    {                                                                                              \
        offsetof(struct ks_nvml_calls, member), name, older                                        \
    }

static const struct name NAMES[] = {
    CALL_OR(init, "nvmlInit_v2", "nvmlInit"),
    CALL(shut_down, "nvmlShutdown"),
    CALL_OR(count, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"),
    CALL_OR(by_index, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"),
    CALL(by_uuid, "nvmlDeviceGetHandleByUUID"),
    CALL(index, "nvmlDeviceGetIndex"),
    CALL(utilization, "nvmlDeviceGetUtilizationRates"),
    CALL(memory, "nvmlDeviceGetMemoryInfo"),
    CALL(memory_2, "nvmlDeviceGetMemoryInfo_v2"),
    CALL(power, "nvmlDeviceGetPowerUsage"),
    CALL(energy, "nvmlDeviceGetTotalEnergyConsumption"),
    CALL(temperature, "nvmlDeviceGetTemperature"),
    CALL(clock, "nvmlDeviceGetClockInfo"),
    CALL_OR(reasons, "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons"),
    CALL(pcie, "nvmlDeviceGetPcieThroughput"),
    CALL(fields, "nvmlDeviceGetFieldValues"),
    CALL(gpm_support, "nvmlGpmQueryDeviceSupport"),
    CALL(gpm_alloc, "nvmlGpmSampleAlloc"),
    CALL(gpm_free, "nvmlGpmSampleFree"),
    CALL(gpm_sample, "nvmlGpmSampleGet"),
    CALL(gpm_metrics, "nvmlGpmMetricsGet"),
};

/* Once for a process: the loader has a lock that a fork might copy as it is held. */
static void *library;
static bool was_sought;

bool ks_nvml_calls_find(struct ks_nvml_calls *calls)
{
    if (!was_sought) {
        library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
        was_sought = true;
    }
    if (!library) {
        return false;
    }
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(*NAMES); i++) {
        void *address = dlsym(library, NAMES[i].name);
        if (!address && NAMES[i].older) {
            address = dlsym(library, NAMES[i].older);
        }
        memcpy((char *)calls + NAMES[i].offset, &address, sizeof(address));
    }
    return calls->init && calls->shut_down && calls->count && calls->by_index;
}
