/* What the NVIDIA driver says of the GPUs that the program uses: memory, clocks, what holds them
 * back, heat and power. NVML is opened when the machine has it; without it, or without a call of
 * it, there is nothing to tell. No context is made on any GPU. */
#ifndef KS_LAUNCH_GPU_CLOCKS_H
#define KS_LAUNCH_GPU_CLOCKS_H

#include "launch/process_tree.h"

enum { KS_GPU_CLOCKS_MAX = 16, KS_GPU_PIDS_MAX = 4 };

/* One GPU at one moment. -1: not known. */
struct ks_gpu_look {
    int64_t index;        /* as nvidia-smi counts them */
    int64_t busy_percent; /* of the driver's last sample period, some kernel ran */
    int64_t memory_bytes, memory_total_bytes; /* used by all processes; all there is */
    int64_t sm_mhz, sm_mhz_max;
    int64_t reasons; /* NVML's bits: why the clock is not higher */
    int64_t temperature_c;
    int64_t power_mw, power_limit_mw, power_default_mw;
    int64_t other_processes; /* that compute on it, and are not of the program */
    int pids[KS_GPU_PIDS_MAX];
    size_t pid_count;
};

/* Zero: not opened. */
struct ks_gpu_clocks {
    void *library;
    size_t count;
    void *devices[KS_GPU_CLOCKS_MAX];
};

/* A machine without NVML leaves it empty. */
void ks_gpu_clocks_open(struct ks_gpu_clocks *clocks);
/* GPUs on which processes of the program compute. Where the driver knows none of them, because the
 * program runs in a container of its own, those that are busy. */
size_t ks_gpu_clocks_look(const struct ks_gpu_clocks *clocks, const struct ks_process_tree *tree,
                          struct ks_gpu_look list[KS_GPU_CLOCKS_MAX]);
void ks_gpu_clocks_close(struct ks_gpu_clocks *clocks);

#endif
