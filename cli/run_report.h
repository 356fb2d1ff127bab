/* The reports of `kscope run`: files in the run's folder, and the verdict on stderr. */
#ifndef KS_CLI_RUN_REPORT_H
#define KS_CLI_RUN_REPORT_H

#include "command.h"
#include "launch/launch.h"

enum { KS_RUN_FINDINGS_MAX = 16 };

/* Lives in the reporter's process; what it has shown decides what it says next. */
struct ks_run_report {
    const struct ks_cli_args *args;
    const char *out_dir; /* as the user would type it */
    bool keeps_windows;  /* each window's report gets a file of its own too */
    int64_t shown_window;
    size_t shown_ranks;
    const char *bound_by; /* of what was shown */
    const char *findings[KS_RUN_FINDINGS_MAX];
};

/* A ks_launch_report_cb; `user` is a struct ks_run_report. Writes report.txt and report.json (and
 * report.window<N>.txt and .json), each whole or not at all. Shows the verdict of a new window, and
 * of an old one only when it is another verdict than the one that was shown. */
void ks_run_report_write(void *user, const struct ks_launch_window_report *report);

#endif
