/* The calls of NVML's public interface that the monitor uses, found by their names when the machine
 * has the library. A call that it does not have is NULL. All give 0 when they worked. */
#ifndef KS_CAPTURE_MONITOR_NVML_CALLS_H
#define KS_CAPTURE_MONITOR_NVML_CALLS_H

#include <stdbool.h>
#include <stdint.h>

typedef void *ks_nvml_device;
typedef void *ks_nvml_sample; /* of GPM */

enum ks_nvml_choice {
    KS_NVML_SENSOR_GPU = 0,
    KS_NVML_CLOCK_SM = 1,
    KS_NVML_CLOCK_MEMORY = 2,
    KS_NVML_PCIE_SENT = 0,
    KS_NVML_PCIE_RECEIVED = 1,
};

struct ks_nvml_utilization {
    unsigned gpu; /* percent of the driver's last sample period */
    unsigned memory;
};

struct ks_nvml_memory {
    unsigned long long total, free, used; /* bytes */
};

enum { KS_NVML_MEMORY_2_VERSION = 2 << 24 | 40 };

struct ks_nvml_memory_2 {
    unsigned version; /* KS_NVML_MEMORY_2_VERSION */
    unsigned long long total, reserved, free, used;
};

enum { KS_NVML_FIELD_NVLINK_SENT = 138, KS_NVML_FIELD_NVLINK_RECEIVED = 139 }; /* KiB */

#define KS_NVML_ALL_LINKS UINT32_MAX

struct ks_nvml_field {
    unsigned id;
    unsigned scope;
    long long time_us, latency_us;
    int type; /* enum ks_nvml_type */
    int status;
    union {
        double real;
        unsigned u32;
        unsigned long long u64;
        long long i64;
    } value;
};

enum ks_nvml_type {
    KS_NVML_UNSIGNED = 1,
    KS_NVML_UNSIGNED_LONG = 2,
    KS_NVML_UNSIGNED_LONG_LONG = 3
};

enum {
    KS_NVML_GPM_VERSION = 1,
    KS_NVML_GPM_SM_ACTIVE = 2, /* these: percent */
    KS_NVML_GPM_SM_OCCUPANCY = 3,
    KS_NVML_GPM_TENSOR_ACTIVE = 5,
    KS_NVML_GPM_DRAM_ACTIVE = 10,
    KS_NVML_GPM_PCIE_SENT = 20, /* these: MiB/s */
    KS_NVML_GPM_PCIE_RECEIVED = 21,
    KS_NVML_GPM_NVLINK_RECEIVED = 60,
    KS_NVML_GPM_NVLINK_SENT = 61,
    KS_NVML_GPM_METRICS_MAX = 512, /* room for what newer libraries may touch */
};

struct ks_nvml_gpm_support {
    unsigned version;
    unsigned is_supported;
};

struct ks_nvml_gpm_metric {
    unsigned id;
    int status;
    double value;
    const char *short_name, *long_name, *unit;
};

struct ks_nvml_gpm_request {
    unsigned version;
    unsigned count;
    ks_nvml_sample earlier, later;
    struct ks_nvml_gpm_metric metrics[KS_NVML_GPM_METRICS_MAX];
};

_Static_assert(sizeof(struct ks_nvml_field) == 40, "as the library has it");
_Static_assert(sizeof(struct ks_nvml_memory_2) == 40, "as the library has it");
_Static_assert(sizeof(struct ks_nvml_gpm_metric) == 40, "as the library has it");

struct ks_nvml_calls {
    int (*init)(void);
    int (*shut_down)(void);
    int (*count)(unsigned *count);
    int (*by_index)(unsigned index, ks_nvml_device *device);
    int (*by_uuid)(const char *uuid, ks_nvml_device *device);
    int (*index)(ks_nvml_device device, unsigned *index);
    int (*utilization)(ks_nvml_device device, struct ks_nvml_utilization *out);
    int (*memory)(ks_nvml_device device, struct ks_nvml_memory *out);
    int (*memory_2)(ks_nvml_device device, struct ks_nvml_memory_2 *out);
    int (*power)(ks_nvml_device device, unsigned *milliwatts);
    int (*energy)(ks_nvml_device device, unsigned long long *millijoules);
    int (*temperature)(ks_nvml_device device, int sensor, unsigned *celsius);
    int (*clock)(ks_nvml_device device, int which, unsigned *megahertz);
    int (*reasons)(ks_nvml_device device, unsigned long long *bits);
    int (*pcie)(ks_nvml_device device, int which, unsigned *kilobytes_per_s);
    int (*fields)(ks_nvml_device device, int count, struct ks_nvml_field *fields);
    int (*gpm_support)(ks_nvml_device device, struct ks_nvml_gpm_support *out);
    int (*gpm_alloc)(ks_nvml_sample *sample);
    int (*gpm_free)(ks_nvml_sample sample);
    int (*gpm_sample)(ks_nvml_device device, ks_nvml_sample sample);
    int (*gpm_metrics)(struct ks_nvml_gpm_request *request);
};

/* Loads the library, which stays loaded, and finds its calls; false: there is none, or it lacks
 * those without which there is nothing to tell. `init` comes first, `shut_down` last. */
bool ks_nvml_calls_find(struct ks_nvml_calls *calls);

#endif
