/* Limits and throttling of the control group that the process is in, version 2 and version 1. */
#ifndef KS_CAPTURE_MONITOR_GROUP_SOURCE_H
#define KS_CAPTURE_MONITOR_GROUP_SOURCE_H

#include "capture/monitor/kept_file.h"
#include "capture/monitor/look.h"

struct ks_group_source {
    struct ks_kept_file memory, limit, events, pressure; /* of the memory controller */
    struct ks_kept_file cpu, quota, period;              /* of the CPU's */
    struct ks_kept_file usage;                           /* version 1 alone: CPU time */
    struct ks_look_count cpu_used, throttled, pressure_us;
    uint64_t periods, throttled_periods; /* as seen last */
    bool has_periods;
    uint64_t limit_bytes;                     /* as seen last; 0: none */
    uint64_t at_limit_first, oom_kills_first; /* at the first look */
    bool has_events;
    int64_t memory_due_ns, slow_due_ns;
};

void ks_group_source_open(struct ks_group_source *source, const char *root);
void ks_group_source_look(struct ks_group_source *source, struct ks_look *look);
void ks_group_source_close(struct ks_group_source *source);

#endif
