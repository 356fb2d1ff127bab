/* What one process of `kscope run` says about itself: kscope-run.rank<R>.pid<P>.status, JSON that
 * is replaced as a whole. It comes from a folder that anybody may have written into: at most 1 MiB
 * of a regular file is read, links are not followed, and what is no such document counts as none.
 */
#ifndef KS_READ_RUN_STATUS_H
#define KS_READ_RUN_STATUS_H

#include "base/str.h"
#include "read/step_pace.h"
#include "read/step_times.h"

struct ks_run_status {
    struct ks_run_process process; /* is_running is what the process and the clock say now */
    bool is_over;                  /* it ended by itself */
    char program[KS_LIVE_PROGRAM_SIZE];
    struct ks_step_pace pace;
    struct ks_step_times before; /* steps without a profiler before the windows, and after them */
    struct ks_step_times after;
};

/* Is this the name of a status file? */
bool ks_run_status_is_name(const char *name);
/* Reads the document in `text`, behind which KS_WINDOW_PAD zero bytes stand; is_running is left
 * false. Members that are missing stay zero (rank -1). KS_END: it is no status document;
 * KS_ERR_NOMEM. */
enum ks_status ks_run_status_parse(struct ks_str text, struct ks_run_status *out) KS_MUST_CHECK;
/* Reads the file `name` in the open folder `dir_fd`; KS_END: there is no such document. */
enum ks_status ks_run_status_read(int dir_fd, const char *name, struct ks_run_status *out)
    KS_MUST_CHECK;

/* Time of a step that nobody records: median of the times before the window when there are five or
 * more, else of all; 0 when there is none. Behind a window the GPU's tracing may still slow the
 * program down: 125 ms a step before and 178 behind it were seen. Reorders the times. */
int64_t ks_run_status_step_ns(struct ks_run_status *status);
/* How far it is. Reorders the times. */
void ks_run_status_tell(struct ks_run_status *status, struct ks_live_rank *out);

#endif
