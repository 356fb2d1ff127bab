/* Which steps are recorded: `--steps auto` or WAIT:WARMUP:ACTIVE[:REPEAT], in the sense of
 * torch.profiler.schedule, and how large a window may get. */
#ifndef KS_LAUNCH_WINDOW_H
#define KS_LAUNCH_WINDOW_H

#include <kscope/kscope.h>

struct ks_launch_window {
    bool is_auto;          /* opens by itself once steps take equally long; the counts are 0 */
    uint32_t wait_count;   /* steps that run free; at least 1, a window opens where a step ends */
    uint32_t warmup_count; /* recorded, then thrown away: the profiler's own first costs */
    uint32_t active_count; /* recorded and kept */
    uint32_t repeat_count; /* windows in all; 0: for ever */
};

enum { KS_LAUNCH_STEP_COUNT_MAX = 1000000, KS_LAUNCH_WINDOW_TEXT_SIZE = 48 };

#define KS_LAUNCH_WINDOW_DEFAULT ((struct ks_launch_window){.is_auto = true, .repeat_count = 1})

KS_MUST_CHECK enum ks_status ks_launch_window_parse(const char *text, struct ks_launch_window *out,
                                                    struct ks_err *err);
void ks_launch_window_format(struct ks_launch_window window, char out[KS_LAUNCH_WINDOW_TEXT_SIZE]);

#endif
