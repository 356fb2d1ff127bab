/* What the monitor measures. A series is a curve of its own: a metric, or a metric of one core or
 * device. docs/monitor.md says of each where it comes from, and how often. */
#ifndef KS_CAPTURE_MONITOR_METRICS_H
#define KS_CAPTURE_MONITOR_METRICS_H

#include <stdint.h>

enum {
    KS_METRIC_CORES_MAX = 1024,
    KS_METRIC_GPUS_MAX = 16,
};

enum ks_metric {
    /* The process. */
    KS_METRIC_CPU_PROCESS,
    KS_METRIC_CPU_PROCESS_SYSTEM,
    KS_METRIC_CPU_THREADS,
    KS_METRIC_CPU_SWITCHES,
    KS_METRIC_CPU_PREEMPTIONS,
    KS_METRIC_MEMORY_RSS,
    KS_METRIC_MEMORY_PSS,
    KS_METRIC_MEMORY_MAJOR_FAULTS,
    KS_METRIC_IO_READ,
    KS_METRIC_IO_WRITE,
    KS_METRIC_IO_DISK_READ,
    KS_METRIC_IO_DISK_WRITE,
    /* Its control group. */
    KS_METRIC_GROUP_MEMORY,
    KS_METRIC_GROUP_MEMORY_LIMIT,
    KS_METRIC_GROUP_MEMORY_USED,
    KS_METRIC_GROUP_MEMORY_AT_LIMIT,
    KS_METRIC_GROUP_OOM_KILLS,
    KS_METRIC_GROUP_MEMORY_PRESSURE,
    KS_METRIC_GROUP_CPU_LIMIT,
    KS_METRIC_GROUP_CPU,
    KS_METRIC_GROUP_THROTTLED,
    KS_METRIC_GROUP_THROTTLED_PERIODS,
    /* The machine. */
    KS_METRIC_CPU_MACHINE,
    KS_METRIC_MEMORY_MACHINE,
    KS_METRIC_MEMORY_AVAILABLE,
    KS_METRIC_PRESSURE_CPU,
    KS_METRIC_PRESSURE_MEMORY,
    KS_METRIC_PRESSURE_MEMORY_FULL,
    KS_METRIC_PRESSURE_IO,
    KS_METRIC_PRESSURE_IO_FULL,
    KS_METRIC_DISK_READ,
    KS_METRIC_DISK_WRITE,
    KS_METRIC_DISK_BUSY,
    KS_METRIC_NET_RECEIVE,
    KS_METRIC_NET_SEND,
    KS_METRIC_NET_RDMA_RECEIVE,
    KS_METRIC_NET_RDMA_SEND,
    KS_METRIC_SINGLE_COUNT,
    /* Of each core. */
    KS_METRIC_CPU_CORE = KS_METRIC_SINGLE_COUNT,
    /* Of each GPU. */
    KS_METRIC_GPU_FIRST,
    KS_METRIC_GPU_BUSY = KS_METRIC_GPU_FIRST,
    KS_METRIC_GPU_MEMORY_BUSY,
    KS_METRIC_GPU_MEMORY,
    KS_METRIC_GPU_MEMORY_SIZE,
    KS_METRIC_GPU_POWER,
    KS_METRIC_GPU_ENERGY,
    KS_METRIC_GPU_TEMPERATURE,
    KS_METRIC_GPU_SM_CLOCK,
    KS_METRIC_GPU_MEMORY_CLOCK,
    KS_METRIC_GPU_CLOCK_REASONS,
    KS_METRIC_GPU_PCIE_RECEIVE,
    KS_METRIC_GPU_PCIE_SEND,
    KS_METRIC_GPU_NVLINK_RECEIVE,
    KS_METRIC_GPU_NVLINK_SEND,
    KS_METRIC_GPU_SM_ACTIVE,
    KS_METRIC_GPU_SM_OCCUPANCY,
    KS_METRIC_GPU_TENSOR_ACTIVE,
    KS_METRIC_GPU_DRAM_ACTIVE,
    KS_METRIC_COUNT,
};

enum {
    KS_METRIC_GPU_COUNT = KS_METRIC_COUNT - KS_METRIC_GPU_FIRST,
    KS_SERIES_COUNT =
        KS_METRIC_SINGLE_COUNT + KS_METRIC_CORES_MAX + KS_METRIC_GPUS_MAX * KS_METRIC_GPU_COUNT,
};

struct ks_metric_kind {
    const char *name;
    const char *unit; /* "percent", "bytes", "bytes/s", ... */
};

extern const struct ks_metric_kind ks_metric_kinds[KS_METRIC_COUNT];

/* `index` of the core or device; of no meaning for what there is one of. */
uint32_t ks_series_of(enum ks_metric metric, uint32_t index);
enum ks_metric ks_series_metric(uint32_t series);
/* -1: there is only one. */
int32_t ks_series_index(uint32_t series);

#endif
