/* Ending the program when its report is there (--stop-after): first asked, then forced, and what it
 * started with it. */
#ifndef KS_LAUNCH_STOP_H
#define KS_LAUNCH_STOP_H

#include "launch/process_tree.h"

struct ks_stop {
    pid_t child;
    bool is_forced;
    int64_t deadline_ns; /* monotonic */
    struct ks_process_tree tree;
};

/* SIGTERM for the program alone: launchers such as torchrun end their workers themselves. */
void ks_stop_begin(struct ks_stop *stop, pid_t child);
/* Once in a while until the child has ended: SIGKILL for all when it did not listen. */
void ks_stop_continue(struct ks_stop *stop);
/* When the child has ended: what it started and left behind is asked, then forced. What became a
 * daemon before we stopped is not ours. */
void ks_stop_end(struct ks_stop *stop);

#endif
