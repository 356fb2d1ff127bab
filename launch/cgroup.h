/* The control group of a process: limits and throttling, version 2 and version 1. */
#ifndef KS_LAUNCH_CGROUP_H
#define KS_LAUNCH_CGROUP_H

#include <sys/types.h>

#include <kscope/kscope.h>

enum { KS_CGROUP_PATH_SIZE = 256 };

/* -1: not known, or no limit. */
struct ks_cgroup {
    int64_t memory_bytes;
    int64_t memory_max_bytes;
    int64_t cpu_quota_us; /* of each period */
    int64_t cpu_period_us;
    int64_t period_count; /* since the group was made */
    int64_t throttled_count;
    int64_t throttled_ns;
};

/* Folders that hold the files of the CPU and the memory controller; "" when there are none. */
void ks_cgroup_find(pid_t pid, char cpu[KS_CGROUP_PATH_SIZE], char memory[KS_CGROUP_PATH_SIZE]);
void ks_cgroup_read(const char *cpu, const char *memory, struct ks_cgroup *out);

#endif
