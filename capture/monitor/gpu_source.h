/* What the NVIDIA driver says of the GPUs that the process may use: those of CUDA_VISIBLE_DEVICES,
 * and of these the one of LOCAL_RANK, so that the ranks of a node do not all ask for all. No
 * context is made on any GPU. Calls of the driver wait for one another and may take milliseconds,
 * so one thread makes all of them. */
#ifndef KS_CAPTURE_MONITOR_GPU_SOURCE_H
#define KS_CAPTURE_MONITOR_GPU_SOURCE_H

#include "capture/monitor/look.h"
#include "capture/monitor/nvml_calls.h"

struct ks_gpu {
    ks_nvml_device device;
    uint32_t index;                /* as nvidia-smi counts them */
    bool has_gpm;                  /* it has counters of what its units do */
    ks_nvml_sample earlier, later; /* of these */
    bool has_sample;
    int64_t sampled_ns;
    unsigned long long energy_first; /* at the first look; 0: not known yet */
    struct ks_look_count nvlink_received, nvlink_sent;
};

struct ks_gpu_source {
    bool is_open;
    uint32_t count;
    int64_t busy_due_ns, slow_due_ns, energy_due_ns;
    struct ks_nvml_calls calls;
    struct ks_gpu gpus[KS_METRIC_GPUS_MAX];
    struct ks_nvml_gpm_request request;
};

/* Loads the driver's library; false: there is none here. `source` is zero. */
bool ks_gpu_source_find(struct ks_gpu_source *source);
/* Behind that: makes it ready, which takes some hundred milliseconds, and memory of the program's
 * heap. */
void ks_gpu_source_open(struct ks_gpu_source *source);
void ks_gpu_source_look(struct ks_gpu_source *source, struct ks_look *look);
/* Zero afterwards. */
void ks_gpu_source_close(struct ks_gpu_source *source);

#endif
