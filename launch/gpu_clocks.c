#include "launch/gpu_clocks.h"

#include <dlfcn.h>
#include <string.h>

/* From NVML's public interface. All calls return 0 when they worked. */
enum { CLOCK_SM = 1, SENSOR_GPU = 0, PROCESSES_MAX = 64 };

struct utilization {
    unsigned gpu;
    unsigned memory;
};

struct process_info { /* of version 2 and 3 of the call */
    unsigned pid;
    unsigned long long memory_bytes;
    unsigned gpu_instance;
    unsigned compute_instance;
};

struct memory_info { /* of version 2 of the call; what the driver keeps for itself is apart */
    unsigned version;
    unsigned long long total;
    unsigned long long reserved;
    unsigned long long free;
    unsigned long long used;
};

struct older_memory_info {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};

typedef int plain_call(void);
typedef int count_call(unsigned *count);
typedef int handle_call(unsigned index, void **device);
typedef int number_call(void *device, unsigned *value);
typedef int choice_call(void *device, int which, unsigned *value);
typedef int reasons_call(void *device, unsigned long long *value);
typedef int utilization_call(void *device, struct utilization *value);
typedef int memory_call(void *device, struct memory_info *value);
typedef int older_memory_call(void *device, struct older_memory_info *value);
typedef int processes_call(void *device, unsigned *count, struct process_info *list);

/* ------------------------------------------------------------------ the library */

/* A function's address is no pointer to data in C; in POSIX it is. */
typedef union {
    void *address;
    plain_call *plain;
    count_call *count;
    handle_call *handle;
    number_call *number;
    choice_call *choice;
    reasons_call *reasons;
    utilization_call *utilization;
    memory_call *memory;
    older_memory_call *older_memory;
    processes_call *processes;
} any_call;

/* By its name, or its older one (NULL: it has none). */
static any_call find_call(const struct ks_gpu_clocks *clocks, const char *name, const char *older)
{
    any_call call = {.address = dlsym(clocks->library, name)};
    if (!call.address && older) {
        call.address = dlsym(clocks->library, older);
    }
    return call;
}

static void find_devices(struct ks_gpu_clocks *clocks)
{
    any_call count = find_call(clocks, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount");
    any_call handle =
        find_call(clocks, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex");
    unsigned devices = 0;
    if (!count.address || !handle.address || count.count(&devices) != 0) {
        return;
    }
    for (unsigned i = 0; i < devices && i < KS_GPU_CLOCKS_MAX; i++) {
        if (handle.handle(i, &clocks->devices[i]) != 0) {
            clocks->devices[i] = NULL; /* not ours to see */
        }
        clocks->count = i + 1;
    }
}

void ks_gpu_clocks_open(struct ks_gpu_clocks *clocks)
{
    *clocks = (struct ks_gpu_clocks){.library = dlopen("libnvidia-ml.so.1", RTLD_NOW)};
    if (!clocks->library) {
        return;
    }
    any_call init = find_call(clocks, "nvmlInit_v2", "nvmlInit");
    if (!init.address || init.plain() != 0) {
        dlclose(clocks->library);
        clocks->library = NULL;
        return;
    }
    find_devices(clocks);
}

void ks_gpu_clocks_close(struct ks_gpu_clocks *clocks)
{
    if (clocks->library) {
        any_call shutdown = find_call(clocks, "nvmlShutdown", NULL);
        if (shutdown.address) {
            (void)shutdown.plain();
        }
        dlclose(clocks->library);
    }
    *clocks = (struct ks_gpu_clocks){0};
}

/* ------------------------------------------------------------------ one GPU */

static int64_t read_number(const struct ks_gpu_clocks *clocks, void *device, const char *name)
{
    any_call call = find_call(clocks, name, NULL);
    unsigned value = 0;
    return call.address && call.number(device, &value) == 0 ? (int64_t)value : -1;
}

static int64_t read_choice(const struct ks_gpu_clocks *clocks, void *device, const char *name,
                           int which)
{
    any_call call = find_call(clocks, name, NULL);
    unsigned value = 0;
    return call.address && call.choice(device, which, &value) == 0 ? (int64_t)value : -1;
}

static int64_t read_reasons(const struct ks_gpu_clocks *clocks, void *device)
{
    any_call call = find_call(clocks, "nvmlDeviceGetCurrentClocksEventReasons",
                              "nvmlDeviceGetCurrentClocksThrottleReasons");
    unsigned long long bits = 0;
    bool is_known = call.address && call.reasons(device, &bits) == 0 && bits <= INT64_MAX;
    return is_known ? (int64_t)bits : -1;
}

static int64_t read_busy(const struct ks_gpu_clocks *clocks, void *device)
{
    any_call call = find_call(clocks, "nvmlDeviceGetUtilizationRates", NULL);
    struct utilization value = {0};
    return call.address && call.utilization(device, &value) == 0 ? (int64_t)value.gpu : -1;
}

/* The older call counts what the driver keeps for itself as used. */
static void read_memory(const struct ks_gpu_clocks *clocks, void *device, struct ks_gpu_look *look)
{
    any_call call = find_call(clocks, "nvmlDeviceGetMemoryInfo_v2", NULL);
    any_call older = find_call(clocks, "nvmlDeviceGetMemoryInfo", NULL);
    struct memory_info info = {.version = sizeof(struct memory_info) | 2U << 24};
    struct older_memory_info older_info = {0};
    look->memory_bytes = look->memory_total_bytes = -1;
    if (call.address && call.memory(device, &info) == 0) {
        look->memory_bytes = (int64_t)info.used;
        look->memory_total_bytes = (int64_t)info.total;
    } else if (older.address && older.older_memory(device, &older_info) == 0) {
        look->memory_bytes = (int64_t)older_info.used;
        look->memory_total_bytes = (int64_t)older_info.total;
    }
}

static void read_processes(const struct ks_gpu_clocks *clocks, void *device,
                           const struct ks_process_tree *tree, struct ks_gpu_look *look)
{
    any_call call = find_call(clocks, "nvmlDeviceGetComputeRunningProcesses_v3",
                              "nvmlDeviceGetComputeRunningProcesses_v2");
    struct process_info list[PROCESSES_MAX];
    unsigned count = PROCESSES_MAX;
    look->other_processes = -1;
    if (!call.address || call.processes(device, &count, list) != 0 || count > PROCESSES_MAX) {
        return;
    }
    int64_t ours = 0;
    for (unsigned i = 0; i < count; i++) {
        if (ks_process_tree_find(tree, (pid_t)list[i].pid)) {
            ours++;
            if (look->pid_count < KS_GPU_PIDS_MAX) {
                look->pids[look->pid_count++] = (int)list[i].pid;
            }
        }
    }
    look->other_processes = (int64_t)count - ours;
}

static void read_rest(const struct ks_gpu_clocks *clocks, void *device, struct ks_gpu_look *look)
{
    read_memory(clocks, device, look);
    look->sm_mhz = read_choice(clocks, device, "nvmlDeviceGetClockInfo", CLOCK_SM);
    look->sm_mhz_max = read_choice(clocks, device, "nvmlDeviceGetMaxClockInfo", CLOCK_SM);
    look->reasons = read_reasons(clocks, device);
    look->temperature_c = read_choice(clocks, device, "nvmlDeviceGetTemperature", SENSOR_GPU);
    look->power_mw = read_number(clocks, device, "nvmlDeviceGetPowerUsage");
    look->power_limit_mw = read_number(clocks, device, "nvmlDeviceGetEnforcedPowerLimit");
    look->power_default_mw =
        read_number(clocks, device, "nvmlDeviceGetPowerManagementDefaultLimit");
}

size_t ks_gpu_clocks_look(const struct ks_gpu_clocks *clocks, const struct ks_process_tree *tree,
                          struct ks_gpu_look list[KS_GPU_CLOCKS_MAX])
{
    size_t count = 0;
    bool knows_ours = false;
    for (size_t i = 0; i < clocks->count; i++) {
        struct ks_gpu_look look = {.index = (int64_t)i};
        if (clocks->devices[i]) {
            read_processes(clocks, clocks->devices[i], tree, &look);
            look.busy_percent = read_busy(clocks, clocks->devices[i]);
            knows_ours = knows_ours || look.pid_count > 0;
            list[count++] = look;
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct ks_gpu_look look = list[i];
        if (knows_ours ? look.pid_count > 0 : look.busy_percent > 0) {
            /* Whose processes these are, nobody knows. */
            look.other_processes = knows_ours ? look.other_processes : -1;
            read_rest(clocks, clocks->devices[look.index], &look);
            list[kept++] = look;
        }
    }
    return kept;
}
