/* The system monitor: a thread of ours that reads what the kernel says of process, control group
 * and machine, so many times a second, for the recording that is on and for whoever asks; and where
 * there is a driver of GPUs a second one, which asks it at most 2 times a second. One for the
 * process, shared by all that start it. It takes nothing but its own mapped memory while it runs,
 * and holds back all signals from itself. Its functions are called by one thread at a time, curves
 * may be asked by any.
 *
 * After a fork the child has no monitor, and may start one; of GPUs it knows nothing when its
 * parent had asked the driver, which does not work over a fork. */
#ifndef KS_CAPTURE_MONITOR_SYSTEM_MONITOR_H
#define KS_CAPTURE_MONITOR_SYSTEM_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/monitor/curves.h"

enum {
    KS_MONITOR_RATE_MAX = 100, /* Hz */
    KS_MONITOR_REASON_SIZE = 128,
};

struct ks_system_monitor_options {
    uint32_t rate_hz; /* 0: it looks when it is told to, and has no threads */
    const char *root; /* stands before all paths; NULL or "": the machine. For tests */
};

struct ks_system_monitor_counts {
    uint64_t looks;
    uint64_t late;       /* looks that came later than twice the interval */
    uint64_t cpu_ns;     /* the monitor's own, without its calls of the GPUs' driver */
    uint64_t gpu_cpu_ns; /* of these calls */
    uint32_t rate_hz;
};

/* 0: it looks; its first look is done. A monitor that is on goes on as it is, faster when this one
 * asks for more, until all that started it have stopped it. -1: `reason` says in a sentence why
 * not. */
int ks_system_monitor_start(const struct ks_system_monitor_options *options,
                            char reason[KS_MONITOR_REASON_SIZE]);
/* Once for each start, with a last look at all, whatever its period, so that means are of the whole
 * time. Waits for the look that goes on. What was measured can still be asked. */
void ks_system_monitor_stop(void);
/* Stops it for all that started it: before the process ends, when the driver's library goes away
 * under the feet of who calls it. */
void ks_system_monitor_end(void);
bool ks_system_monitor_is_on(void);
/* One look more, now, by the calling thread; nothing when no monitor is on. */
void ks_system_monitor_look(void);
/* Of the monitor that is on, or of the last one. */
void ks_system_monitor_counts(struct ks_system_monitor_counts *counts);
/* What was measured in this process so far; NULL: nothing. Good as long as it lives. */
struct ks_curves *ks_system_monitor_curves(void);
/* The clock of the curves. */
int64_t ks_system_monitor_now_ns(void);

#endif
