/* What the stand-in for NVML says (stand_in_nvml.c). */
#ifndef KS_TESTS_STAND_IN_NVML_H
#define KS_TESTS_STAND_IN_NVML_H

enum { STAND_IN_GPUS = 2, STAND_IN_PIDS = 4 };

struct stand_in_gpu {
    unsigned mhz; /* of 1980 */
    unsigned long long reasons;
    unsigned celsius;
    unsigned busy_percent;
    unsigned pids[STAND_IN_PIDS];
    unsigned pid_count;
    unsigned power_mw; /* these: 0, the driver does not support it */
    unsigned long long memory_bytes;
    unsigned long long energy_mj;
    unsigned pcie_kb_s; /* received; half of it is sent */
    unsigned nvlink_kib;
    double tensor_percent; /* of GPM */
};

struct stand_in_nvml {
    struct stand_in_gpu gpus[STAND_IN_GPUS];
    int open;    /* calls of init less those of shutdown */
    int samples; /* of GPM that are there */
    int calls;   /* for PCIe, which take 20 ms each on real devices */
    int refuses;
};

#endif
