/* What the advisor says of the script that is tuned: the order in which changes are tried. */
#ifndef KS_LAUNCH_TUNE_ADVICE_H
#define KS_LAUNCH_TUNE_ADVICE_H

#include "launch/tune.h"

enum { KS_TUNE_FINDINGS_MAX = 32 };

struct ks_tune_advice {
    const char *ids[KS_TUNE_FINDINGS_MAX]; /* of rules, static; the first one first */
    size_t count;
    char reason[KS_TUNING_TEXT_SIZE]; /* why there is none; "" when a window was looked at */
};

/* Records a short window of the script in a folder of its own below out_dir and asks the library.
 * KS_ERR_CANCELLED: somebody interrupted it. Nothing else fails for it but our own memory. */
KS_MUST_CHECK enum ks_status ks_tune_advice_get(const struct ks_tune_options *options,
                                                struct ks_tune_advice *advice, struct ks_err *err);

#endif
