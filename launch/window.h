/* Which steps are recorded: `--steps WAIT:WARMUP:ACTIVE`, in the sense of torch.profiler.schedule.
 */
#ifndef KS_LAUNCH_WINDOW_H
#define KS_LAUNCH_WINDOW_H

#include <kscope/kscope.h>

struct ks_launch_window {
    uint32_t wait_count;   /* steps that run free; at least 1, a window opens where a step ends */
    uint32_t warmup_count; /* recorded, then thrown away: the profiler's own first costs */
    uint32_t active_count; /* recorded and kept */
};

enum { KS_LAUNCH_STEP_COUNT_MAX = 1000000, KS_LAUNCH_WINDOW_TEXT_SIZE = 32 };

/* Enough free steps to know the speed without a profiler, few enough for a short program. */
#define KS_LAUNCH_WINDOW_DEFAULT ((struct ks_launch_window){5, 1, 6})

KS_MUST_CHECK enum ks_status ks_launch_window_parse(const char *text, struct ks_launch_window *out,
                                                    struct ks_err *err);
void ks_launch_window_format(struct ks_launch_window window, char out[KS_LAUNCH_WINDOW_TEXT_SIZE]);

#endif
