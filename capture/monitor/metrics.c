#include "capture/monitor/metrics.h"

/* 100 percent are one core in what the process used, all of them in what the machine did. */
const struct ks_metric_kind ks_metric_kinds[KS_METRIC_COUNT] = {
    [KS_METRIC_CPU_PROCESS] = {"cpu.process", "percent"},
    [KS_METRIC_CPU_PROCESS_SYSTEM] = {"cpu.process_system", "percent"},
    [KS_METRIC_CPU_THREADS] = {"cpu.threads", "threads"},
    [KS_METRIC_CPU_SWITCHES] = {"cpu.switches", "1/s"},
    [KS_METRIC_CPU_PREEMPTIONS] = {"cpu.preemptions", "1/s"},
    [KS_METRIC_MEMORY_RSS] = {"memory.rss", "bytes"},
    [KS_METRIC_MEMORY_PSS] = {"memory.pss", "bytes"},
    [KS_METRIC_MEMORY_MAJOR_FAULTS] = {"memory.major_faults", "1/s"},
    [KS_METRIC_IO_READ] = {"io.read", "bytes/s"},
    [KS_METRIC_IO_WRITE] = {"io.write", "bytes/s"},
    [KS_METRIC_IO_DISK_READ] = {"io.disk_read", "bytes/s"},
    [KS_METRIC_IO_DISK_WRITE] = {"io.disk_write", "bytes/s"},
    [KS_METRIC_GROUP_MEMORY] = {"cgroup.memory", "bytes"},
    [KS_METRIC_GROUP_MEMORY_LIMIT] = {"cgroup.memory_limit", "bytes"},
    [KS_METRIC_GROUP_MEMORY_USED] = {"cgroup.memory_used", "percent"},
    [KS_METRIC_GROUP_MEMORY_AT_LIMIT] = {"cgroup.memory_at_limit", "events"},
    [KS_METRIC_GROUP_OOM_KILLS] = {"cgroup.oom_kills", "events"},
    [KS_METRIC_GROUP_MEMORY_PRESSURE] = {"cgroup.memory_pressure", "percent"},
    [KS_METRIC_GROUP_CPU_LIMIT] = {"cgroup.cpu_limit", "percent"},
    [KS_METRIC_GROUP_CPU] = {"cgroup.cpu", "percent"},
    [KS_METRIC_GROUP_THROTTLED] = {"cgroup.throttled", "percent"},
    [KS_METRIC_GROUP_THROTTLED_PERIODS] = {"cgroup.throttled_periods", "percent"},
    [KS_METRIC_CPU_MACHINE] = {"cpu.machine", "percent"},
    [KS_METRIC_MEMORY_MACHINE] = {"memory.machine", "percent"},
    [KS_METRIC_MEMORY_AVAILABLE] = {"memory.available", "bytes"},
    [KS_METRIC_PRESSURE_CPU] = {"pressure.cpu", "percent"},
    [KS_METRIC_PRESSURE_MEMORY] = {"pressure.memory", "percent"},
    [KS_METRIC_PRESSURE_MEMORY_FULL] = {"pressure.memory_full", "percent"},
    [KS_METRIC_PRESSURE_IO] = {"pressure.io", "percent"},
    [KS_METRIC_PRESSURE_IO_FULL] = {"pressure.io_full", "percent"},
    [KS_METRIC_DISK_READ] = {"disk.read", "bytes/s"},
    [KS_METRIC_DISK_WRITE] = {"disk.write", "bytes/s"},
    [KS_METRIC_DISK_BUSY] = {"disk.busy", "percent"},
    [KS_METRIC_NET_RECEIVE] = {"net.receive", "bytes/s"},
    [KS_METRIC_NET_SEND] = {"net.send", "bytes/s"},
    [KS_METRIC_NET_RDMA_RECEIVE] = {"net.rdma_receive", "bytes/s"},
    [KS_METRIC_NET_RDMA_SEND] = {"net.rdma_send", "bytes/s"},
    [KS_METRIC_CPU_CORE] = {"cpu.core", "percent"},
    [KS_METRIC_GPU_BUSY] = {"gpu.busy", "percent"},
    [KS_METRIC_GPU_MEMORY_BUSY] = {"gpu.memory_busy", "percent"},
    [KS_METRIC_GPU_MEMORY] = {"gpu.memory", "bytes"},
    [KS_METRIC_GPU_MEMORY_SIZE] = {"gpu.memory_size", "bytes"},
    [KS_METRIC_GPU_POWER] = {"gpu.power", "W"},
    [KS_METRIC_GPU_ENERGY] = {"gpu.energy", "J"},
    [KS_METRIC_GPU_TEMPERATURE] = {"gpu.temperature", "C"},
    [KS_METRIC_GPU_SM_CLOCK] = {"gpu.sm_clock", "MHz"},
    [KS_METRIC_GPU_MEMORY_CLOCK] = {"gpu.memory_clock", "MHz"},
    [KS_METRIC_GPU_CLOCK_REASONS] = {"gpu.clock_reasons", "bits"},
    [KS_METRIC_GPU_PCIE_RECEIVE] = {"gpu.pcie_receive", "bytes/s"},
    [KS_METRIC_GPU_PCIE_SEND] = {"gpu.pcie_send", "bytes/s"},
    [KS_METRIC_GPU_NVLINK_RECEIVE] = {"gpu.nvlink_receive", "bytes/s"},
    [KS_METRIC_GPU_NVLINK_SEND] = {"gpu.nvlink_send", "bytes/s"},
    [KS_METRIC_GPU_SM_ACTIVE] = {"gpu.sm_active", "percent"},
    [KS_METRIC_GPU_SM_OCCUPANCY] = {"gpu.sm_occupancy", "percent"},
    [KS_METRIC_GPU_TENSOR_ACTIVE] = {"gpu.tensor_active", "percent"},
    [KS_METRIC_GPU_DRAM_ACTIVE] = {"gpu.dram_active", "percent"},
};

enum {
    FIRST_CORE = KS_METRIC_SINGLE_COUNT,
    FIRST_GPU = FIRST_CORE + KS_METRIC_CORES_MAX,
};

uint32_t ks_series_of(enum ks_metric metric, uint32_t index)
{
    if (metric < KS_METRIC_SINGLE_COUNT) {
        return metric;
    }
    if (metric == KS_METRIC_CPU_CORE) {
        return FIRST_CORE + index;
    }
    return FIRST_GPU + index * KS_METRIC_GPU_COUNT + (metric - KS_METRIC_GPU_FIRST);
}

enum ks_metric ks_series_metric(uint32_t series)
{
    if (series < FIRST_CORE) {
        return (enum ks_metric)series;
    }
    if (series < FIRST_GPU) {
        return KS_METRIC_CPU_CORE;
    }
    return (enum ks_metric)(KS_METRIC_GPU_FIRST + (series - FIRST_GPU) % KS_METRIC_GPU_COUNT);
}

int32_t ks_series_index(uint32_t series)
{
    if (series < FIRST_CORE) {
        return -1;
    }
    if (series < FIRST_GPU) {
        return (int32_t)(series - FIRST_CORE);
    }
    return (int32_t)((series - FIRST_GPU) / KS_METRIC_GPU_COUNT);
}
