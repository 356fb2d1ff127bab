/* Starting the user's program with the recorder inside it, and knowing how it ended.
 *
 * The program runs as it would without us: same words, folder, input, terminal and signals. Only
 * its environment changes: PYTHONPATH leads to the start-up hook (python/kinetoscope/inject), and
 * KSCOPE_* tell the hook what to do. Nothing here prints or exits.
 * One program at a time in a process: while it runs, signals of this process are taken by us.
 */
#ifndef KS_LAUNCH_LAUNCH_H
#define KS_LAUNCH_LAUNCH_H

#include "launch/window.h"

enum { KS_LAUNCH_PATH_SIZE = 4096 };

/* A window to be reported, for the callback below. */
struct ks_launch_window_report {
    const char *out_dir; /* absolute */
    int64_t window;
    size_t rank_count;    /* processes whose trace of this window is there */
    size_t awaited_count; /* processes that record and whose trace did not come in time */
    bool is_program_over;
    /* What was recorded of all the run is to be in it, too. `window` is 0 where there is none. */
    bool has_recordings;
};

/* Runs in the reporter's process, while the program goes on; writes files and says the verdict. */
typedef void (*ks_launch_report_cb)(void *user, const struct ks_launch_window_report *report);

struct ks_launch_options {
    const char *const *words; /* the user's command line; a leading "--" is left out */
    size_t word_count;
    const char *out_dir; /* an existing folder */
    struct ks_launch_window window;
    uint32_t window_seconds;    /* a window ends after so long; 0: the recorder's default */
    uint64_t window_bytes;      /* ... or with so much text of its trace; 0: the same */
    const char *step_mark;      /* name of the region that is a step; NULL: steps are found */
    const char *record;         /* words of launch/record.h: recorded all the time; NULL: none */
    const char *tuned;          /* a setting of kscope_tuning.h that is applied; NULL: none */
    bool without_stacks;        /* no extra step with Python stacks */
    bool stop_after;            /* the program is ended when all windows are reported */
    ks_launch_report_cb report; /* NULL: nobody watches the folder */
    void *report_user;
};

/* How the program ended. `start_errno` is not 0 when it could not be started at all. */
struct ks_launch_result {
    int exit_status; /* as the shell would see it: 128 + signal after a signal, 126/127 unstarted */
    int signal;      /* the signal that ended it, or 0 */
    int start_errno;
    bool was_stopped; /* by us, because all was reported and stop_after was given */
    bool is_reported; /* the reporter did its work: windows that are there have a report */
};

/* Runs the program to its end. KS_OK also when it failed or could not be started: the result says
 * so. Errors are our own failures: KS_ERR_USAGE (no command), KS_ERR_IO, KS_ERR_NOMEM. */
KS_MUST_CHECK enum ks_status ks_launch_run(const struct ks_launch_options *options,
                                           struct ks_launch_result *result, struct ks_err *err);

#endif
