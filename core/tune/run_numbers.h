/* The numbers of two runs of one script, held against each other.
 *
 * Three lists: losses, norms of gradients, and sums of outputs of a script without losses. The
 * difference of two lists is the largest distance of two numbers at the same place, over the root
 * mean square of the baseline's list: a loss that nearly vanishes would make any rounding large.
 * The norm of a step that a loss scale left out is minus infinity, and held against nothing.
 * Only the first numbers count: later ones drift apart in any two runs that round differently. */
#ifndef KS_TUNE_RUN_NUMBERS_H
#define KS_TUNE_RUN_NUMBERS_H

#include <kscope/kscope_tuning.h>

enum ks_number_kind {
    KS_NUMBER_LOSS,
    KS_NUMBER_NORM,
    KS_NUMBER_OUTPUT,
    KS_NUMBER_KIND_COUNT,
};

enum { KS_RUN_NUMBERS_KEPT = 24, KS_RUN_NUMBERS_COMPARED = 12 };

struct ks_run_numbers {
    double values[KS_NUMBER_KIND_COUNT][KS_RUN_NUMBERS_KEPT];
    size_t counts[KS_NUMBER_KIND_COUNT];
};

/* What a comparison says; `step` is the 0-based place of the largest distance. */
struct ks_numbers_difference {
    /* NaN: there is nothing to compare; infinite: a number is not finite, or numbers are missing */
    double value;
    enum ks_number_kind kind;
    size_t step;
    double before, after; /* the two numbers */
    size_t compared;      /* pairs */
    bool is_missing;      /* `before` has numbers of this kind, and `after` has none */
};

/* More than are kept are not. */
void ks_run_numbers_add(struct ks_run_numbers *numbers, enum ks_number_kind kind, double value);
/* Distances of gradient norms count a quarter: they feel rounding more than losses do. */
struct ks_numbers_difference ks_run_numbers_compare(const struct ks_run_numbers *before,
                                                    const struct ks_run_numbers *after);
const char *ks_number_kind_name(enum ks_number_kind kind); /* "loss", "gradient norm", "output" */

#endif
