/* What limits a step, in one word, one number and one sentence.
 *
 * Each moment of a complete step belongs to one of: gpu (a kernel, copy or set runs),
 * communication (only collectives run), input (nothing runs, and the step's thread waits for the
 * next batch), host (nothing runs for any other reason). Without a GPU: input, cpu (an operator or
 * another recorded span runs) or host (none does). The largest share names the bound.
 * docs/report.md says the same for users. */
#ifndef KS_SHOW_VERDICT_H
#define KS_SHOW_VERDICT_H

#include "show/view.h"

enum ks_bound {
    KS_BOUND_UNKNOWN,
    KS_BOUND_INPUT,
    KS_BOUND_HOST,
    KS_BOUND_GPU,
    KS_BOUND_COMMUNICATION,
    KS_BOUND_CPU,
    KS_BOUND_COUNT,
};

enum { KS_VERDICT_SIZE = 240 };

struct ks_verdict {
    enum ks_bound bound;
    double share;    /* of step time, 0-1; NaN unknown */
    int64_t step_ns; /* mean step; KS_UNKNOWN */
    char text[KS_VERDICT_SIZE];
};

void ks_verdict_compute(const struct ks_view *view, struct ks_verdict *verdict);
const char *ks_verdict_word(enum ks_bound bound);

#endif
