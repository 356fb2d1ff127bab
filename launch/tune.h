/* `kscope tune`: tries settings of a script beside each other, and keeps what helps.
 *
 * The script runs as two processes that are timed in turn, block by block: the best setting so far
 * and the one that is tried. A third one keeps the script as it is, for the last comparison. All
 * three have the same seeds, so that their losses can be held against each other. Nothing of the
 * script is changed; it runs in the folder that we were started in, as often as `processes` of the
 * result says. Nothing here prints. */
#ifndef KS_LAUNCH_TUNE_H
#define KS_LAUNCH_TUNE_H

#include <kscope/kscope_tuning.h>

struct ks_tune_options {
    const char *const *words; /* the script's command line */
    size_t word_count;
    const char *out_dir;   /* an existing folder, for logs and the recorded window */
    const char *what;      /* of --what; NULL: all */
    const char *step_mark; /* as of kscope run; NULL: steps are found */
    const char *base;      /* a setting to begin with, and to measure against; NULL: the script's */
    uint32_t seconds_max;  /* 0: 600 */
    bool without_advice;   /* no window is recorded first */
    void (*say)(void *user, const char *line); /* progress; NULL: nobody listens */
    bool (*is_cancelled)(void *user);          /* NULL: never */
    void *user;
};

/* Fills `tuning`. KS_ERR_UNSUPPORTED: the script cannot be tuned, and the message says why;
 * KS_ERR_CANCELLED before anything was known; KS_ERR_USAGE, KS_ERR_IO, KS_ERR_NOMEM: our own
 * failures. Interrupted later, what is known stands in `tuning`, and the status is KS_OK. */
KS_MUST_CHECK enum ks_status ks_tune_run(const struct ks_tune_options *options,
                                         struct ks_tuning *tuning, struct ks_err *err);

#endif
