/* Standing between the program and whoever sends signals to us, until the program ends. */
#ifndef KS_LAUNCH_SUPERVISE_H
#define KS_LAUNCH_SUPERVISE_H

#include <signal.h>
#include <sys/types.h>

#include "launch/launch.h"
#include "launch/reporter.h"

/* What the process had before `begin`; the child puts it back before exec, `end` does here. */
struct ks_supervise {
    sigset_t mask;
    struct sigaction on_child;
};

/* Holds back the signals that are passed on. Call before fork, so that none is lost. */
void ks_supervise_begin(struct ks_supervise *supervise);
/* Forgets signals that are still held back (they were meant for the program), and lets go. */
void ks_supervise_end(const struct ks_supervise *supervise);
/* In the child, before exec: the program finds the signals as we found them. */
void ks_supervise_restore_in_child(const struct ks_supervise *supervise);

/* Passes on signals and stops with the child until it has ended; fills `result`. Ends the child
 * when the reporter wants it. */
KS_MUST_CHECK enum ks_status ks_supervise_wait(pid_t child, const struct ks_reporter *reporter,
                                               struct ks_launch_result *result, struct ks_err *err);

#endif
