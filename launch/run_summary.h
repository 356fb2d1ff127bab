/* What the processes of one run said about themselves: kscope-run.*.status in the run's folder. */
#ifndef KS_LAUNCH_RUN_SUMMARY_H
#define KS_LAUNCH_RUN_SUMMARY_H

#include <kscope/kscope.h>

enum { KS_RUN_EXPLANATION_SIZE = 512 };

struct ks_run_summary {
    size_t process_count; /* processes that imported torch */
    size_t trace_count;
    uint64_t steps_seen_max;
    /* Words of the process that made most steps: why there is no trace, or what its trace lacks;
     * "" when all is well. Plain text without control characters. */
    char explanation[KS_RUN_EXPLANATION_SIZE];
};

/* Unreadable or foreign files count as nothing; KS_ERR_IO only when the folder cannot be read. */
KS_MUST_CHECK enum ks_status ks_run_summary_read(const char *out_dir, struct ks_run_summary *out,
                                                 struct ks_err *err);

#endif
