/* Starting the user's program with the recorder inside it, and knowing how it ended.
 *
 * The program runs as it would without us: same words, folder, input, terminal and signals. Only
 * its environment changes: PYTHONPATH leads to the start-up hook (python/kinetoscope/inject), and
 * KSCOPE_RUN, KSCOPE_OUT and KSCOPE_STEPS tell the hook what to do. Nothing here prints or exits.
 * One program at a time in a process: while it runs, signals of this process are taken by us.
 */
#ifndef KS_LAUNCH_LAUNCH_H
#define KS_LAUNCH_LAUNCH_H

#include "launch/window.h"

enum { KS_LAUNCH_PATH_SIZE = 4096 };

struct ks_launch_options {
    const char *const *words; /* the user's command line; a leading "--" is left out */
    size_t word_count;
    const char *out_dir; /* an existing folder */
    struct ks_launch_window window;
};

/* How the program ended. `start_errno` is not 0 when it could not be started at all. */
struct ks_launch_result {
    int exit_status; /* as the shell would see it: 128 + signal after a signal, 126/127 unstarted */
    int signal;      /* the signal that ended it, or 0 */
    int start_errno;
};

/* Runs the program to its end. KS_OK also when it failed or could not be started: the result says
 * so. Errors are our own failures: KS_ERR_USAGE (no command), KS_ERR_IO, KS_ERR_NOMEM. */
KS_MUST_CHECK enum ks_status ks_launch_run(const struct ks_launch_options *options,
                                           struct ks_launch_result *result, struct ks_err *err);

#endif
