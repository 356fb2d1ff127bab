/* A process of ours beside the program: it waits for windows and has each of them reported while
 * the program goes on, and it monitors the run.
 *
 * The program must not notice it: it is no child of the program, has a process group of its own (so
 * that Ctrl-C and Ctrl-Z pass it by), low priority, and holds nothing of what we were started with
 * open but stderr. It ends when we end, whichever way. */
#ifndef KS_LAUNCH_REPORTER_H
#define KS_LAUNCH_REPORTER_H

#include <signal.h>
#include <sys/types.h>

#include "launch/launch.h"

struct ks_reporter {
    pid_t pid;   /* 0: there is none */
    int stop_fd; /* closing it tells the reporter that the program has ended */
};

/* Forks. Without a callback, or when forking fails, there is no reporter; that is no error. */
void ks_reporter_start(struct ks_reporter *reporter, const struct ks_launch_options *options,
                       const char *out_dir, pid_t program);
/* Does this signal, which came to us, say that all is reported and the program is to be stopped? */
bool ks_reporter_wants_stop(const struct ks_reporter *reporter, const siginfo_t *info);
/* The program has ended: waits for the last report. `*is_done` is false when there was no reporter
 * or it failed. */
void ks_reporter_finish(const struct ks_reporter *reporter, bool *is_done);

#endif
