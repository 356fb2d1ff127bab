/* A stand-in for NVML with two GPUs, for tests of what is read from it. Its calls are those of the
 * public interface; what they say is set by `stand_in_nvml`, which a test finds by dlsym. */
#include "stand_in_nvml.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, CLOCK_SM = 1 };

struct process_info {
    unsigned pid;
    unsigned long long memory_bytes;
    unsigned gpu_instance;
    unsigned compute_instance;
};

struct memory_info {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct field {
    unsigned id, scope;
    long long time_us, latency_us;
    int type, status;
    unsigned long long value;
};

struct gpm_metric {
    unsigned id;
    int status;
    double value;
    const char *texts[3];
};

struct gpm_request {
    unsigned version, count;
    void *earlier, *later;
    struct gpm_metric metrics[];
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

CALL(nvmlDeviceGetHandleByUUID, const char *uuid, void **device);
CALL(nvmlDeviceGetIndex, void *device, unsigned *index);
CALL(nvmlDeviceGetMemoryInfo_v2, void *device, struct memory_info *out);
CALL(nvmlDeviceGetTotalEnergyConsumption, void *device, unsigned long long *mj);
CALL(nvmlDeviceGetPcieThroughput, void *device, int which, unsigned *kb_s);
CALL(nvmlDeviceGetFieldValues, void *device, int count, struct field *fields);
CALL(nvmlGpmQueryDeviceSupport, void *device, unsigned support[2]);
CALL(nvmlGpmSampleAlloc, void **sample);
CALL(nvmlGpmSampleFree, void *sample);
CALL(nvmlGpmSampleGet, void *device, void *sample);
CALL(nvmlGpmMetricsGet, struct gpm_request *request);

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
    *mw = gpu_of(device)->power_mw;
    return *mw > 0 ? 0 : NOT_SUPPORTED;
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

/* "GPU-second" alone has a name that is asked for. */
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    *device = &stand_in_nvml.gpus[1];
    return strcmp(uuid, "GPU-second") == 0 ? 0 : NOT_SUPPORTED;
}

int nvmlDeviceGetIndex(void *device, unsigned *index)
{
    *index = (unsigned)(gpu_of(device) - stand_in_nvml.gpus);
    return 0;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_info *out)
{
    if (out->version != (2U << 24 | sizeof(*out)) || gpu_of(device)->memory_bytes == 0) {
        return NOT_SUPPORTED;
    }
    out->total = 80ULL << 30;
    out->used = gpu_of(device)->memory_bytes;
    return 0;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *mj)
{
    *mj = gpu_of(device)->energy_mj;
    return *mj > 0 ? 0 : NOT_SUPPORTED;
}

int nvmlDeviceGetPcieThroughput(void *device, int which, unsigned *kb_s)
{
    stand_in_nvml.calls++;
    *kb_s = which == 1 ? gpu_of(device)->pcie_kb_s : gpu_of(device)->pcie_kb_s / 2;
    return *kb_s > 0 ? 0 : NOT_SUPPORTED;
}

/* Two fields in the order of their numbers: sent is 138, twice what is received. */
int nvmlDeviceGetFieldValues(void *device, int count, struct field *fields)
{
    for (int i = 0; i < count; i++) {
        int is_one = fields[i].scope == ~0U && (fields[i].id == 138 || fields[i].id == 139);
        fields[i].type = 3;
        fields[i].status = is_one && gpu_of(device)->nvlink_kib > 0 ? 0 : NOT_SUPPORTED;
        fields[i].value = gpu_of(device)->nvlink_kib * (fields[i].id == 138 ? 2ULL : 1ULL);
    }
    return 0;
}

int nvmlGpmQueryDeviceSupport(void *device, unsigned support[2])
{
    support[1] = support[0] == 1 && gpu_of(device)->tensor_percent > 0;
    return 0;
}

int nvmlGpmSampleAlloc(void **sample)
{
    *sample = calloc(1, sizeof(double));
    stand_in_nvml.samples += *sample != NULL;
    return *sample ? 0 : NOT_SUPPORTED;
}

int nvmlGpmSampleFree(void *sample)
{
    free(sample);
    stand_in_nvml.samples--;
    return 0;
}

int nvmlGpmSampleGet(void *device, void *sample)
{
    memcpy(sample, &gpu_of(device)->tensor_percent, sizeof(double));
    return 0;
}

/* The mean of both samples for tensor cores (5); of PCIe's 20 and 21, ten times the number. The
 * rest is not supported. */
int nvmlGpmMetricsGet(struct gpm_request *request)
{
    double ends[2];
    memcpy(&ends[0], request->earlier, sizeof(double));
    memcpy(&ends[1], request->later, sizeof(double));
    for (unsigned i = 0; i < request->count; i++) {
        struct gpm_metric *metric = &request->metrics[i];
        int is_pcie = metric->id == 20 || metric->id == 21;
        metric->status = metric->id == 5 || is_pcie ? 0 : NOT_SUPPORTED;
        metric->value = is_pcie ? 10.0 * metric->id : (ends[0] + ends[1]) / 2;
    }
    return request->version == 1 ? 0 : NOT_SUPPORTED;
}
