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
};

struct stand_in_nvml {
    struct stand_in_gpu gpus[STAND_IN_GPUS];
    int open; /* calls of init less those of shutdown */
    int refuses;
};

#endif
