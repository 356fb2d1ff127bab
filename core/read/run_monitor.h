/* What the monitor of `kscope run` saw of the program's control group: monitor.jsonl in the run's
 * folder. Like status files, it may have been written by anybody. */
#ifndef KS_READ_RUN_MONITOR_H
#define KS_READ_RUN_MONITOR_H

#include "base/str.h"

/* -1: not known, or no limit. */
struct ks_run_monitor {
    int64_t cpu_quota_us; /* of each period */
    int64_t cpu_period_us;
    int64_t memory_max_bytes;
    int64_t period_count; /* while the run was watched */
    int64_t throttled_count;
    int64_t throttled_ns;
};

/* Reads the file in the folder `path`; KS_END when there is none, or fewer than two good lines;
 * KS_ERR_NOMEM. */
enum ks_status ks_run_monitor_read(const char *path, struct ks_run_monitor *out) KS_MUST_CHECK;
/* The same from text: complete lines, behind which KS_WINDOW_PAD zero bytes stand. */
bool ks_run_monitor_parse(struct ks_str text, struct ks_run_monitor *out);
/* One line about limits and throttling, or false when there is nothing to say. */
bool ks_run_monitor_describe(const struct ks_run_monitor *monitor, char *out, size_t size);

#endif
