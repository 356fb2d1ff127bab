/* Two processes of a script, timed in turn. */
#ifndef KS_LAUNCH_TUNE_TRIAL_H
#define KS_LAUNCH_TUNE_TRIAL_H

#include "launch/tune_process.h"

/* What a trial came to. */
enum ks_tune_outcome {
    KS_TUNE_TIMED,
    KS_TUNE_FIRST_FAILED, /* the reason is the process's */
    KS_TUNE_SECOND_FAILED,
    KS_TUNE_STOPPED, /* by is_cancelled */
};

struct ks_tune_limits {
    int64_t budget_ns;
    uint32_t rounds_max;
    double precision; /* 0, or how precise the ratio is to be: struct ks_trial_options */
    bool is_apart; /* the two are never there at once: all blocks of one, then all of the other */
};

/* Starts the process again when it does not run, and warms it up. */
KS_MUST_CHECK enum ks_status ks_tune_ensure(struct ks_tune_process *process, int64_t timeout_ns,
                                            enum ks_tune_event *event, struct ks_err *err);
/* Times both, `b` against `a`, until it is clear or a limit is reached, and fills times, ratio,
 * verdict and memory of `out`. Processes that came to the script's end are started again, and so
 * are those that have run on and whose steps take another time than they did: a script whose
 * batches grow must be compared from its beginning on. */
KS_MUST_CHECK enum ks_status ks_tune_trial(struct ks_tune_process *a, struct ks_tune_process *b,
                                           const struct ks_tune_limits *limits,
                                           struct ks_tuning_try *out, enum ks_tune_outcome *outcome,
                                           struct ks_err *err);

#endif
