/* An experiment: variants of one piece of work that are timed in turn until it is known which of
 * them is faster, or that it cannot be known.
 *
 * A round times each variant once. Order within a round is drawn, and the next round has it
 * backwards, so that what happens before a variant is not always the same. Two variants are
 * compared round by round, by the median of log(b / a): what all of a round shares, as other work
 * on the machine or a clock that falls, cancels. Looks at the result, after 4 rounds and then each
 * time that there are half as many more, have intervals of 99.6 %, so that all of them together are
 * right of one pair in 95 of 100 trials at least (Bonferroni). Fewer than 9 rounds are too few for
 * an interval that holds for any distribution: there it is Student's of the mean of the logarithms,
 * of 99.95 %, for what is as clear as day. The same times give the same verdict.
 *
 *     struct ks_trial *trial;
 *     ks_trial_new(&options, &trial, &err);
 *     for (size_t variant; ks_trial_next(trial, &variant);) {
 *         ks_trial_add(trial, variant, time_of(variant), &err);
 *     }
 */
#ifndef KSCOPE_TRIAL_H
#define KSCOPE_TRIAL_H

#include <kscope/kscope.h>

enum {
    KS_TRIAL_VARIANTS_MAX = 64,
    KS_TRIAL_ROUNDS_MIN = 4, /* with fewer no interval is known */
    KS_TRIAL_ROUNDS_MAX = 819,
};

/* A value and an interval that holds it; NaN: not known. */
struct ks_trial_estimate {
    double value;
    double low;
    double high;
};

struct ks_trial_options {
    size_t variant_count; /* 1 to KS_TRIAL_VARIANTS_MAX; 0 is the baseline */
    int64_t budget_ns;    /* on the clock, from the first variant on; 0: as long as it takes */
    uint32_t rounds_max;  /* 0: KS_TRIAL_ROUNDS_MAX, which is also the most */
    double tolerance;     /* a ratio within 1 +- this is no difference, below 1; 0: 0.02 */
    double precision;     /* a ratio is told once half of its interval is at most this share of it,
                             below 1; 0: any that gives a verdict */
    bool is_race;         /* asked is which one is fastest, too: who is clearly slower than that is
                             timed no more, but for the baseline */
};

enum ks_trial_verdict {
    KS_TRIAL_CANNOT_TELL,   /* too few rounds, or too much noise */
    KS_TRIAL_NO_DIFFERENCE, /* all of the interval is within the tolerance */
    KS_TRIAL_FASTER,        /* 1 is outside of the interval, the ratio outside of the tolerance */
    KS_TRIAL_SLOWER,
};

/* Of one variant; times in nanoseconds, behind its warm-up. NaN: not known. */
struct ks_trial_summary {
    struct ks_trial_estimate median_ns;
    double mean_ns;
    double std_ns;
    size_t rounds;   /* times that count */
    size_t warm_up;  /* times at the start that do not */
    size_t outliers; /* of those that count; medians hardly move by them */
    double drift;    /* median of the last third over that of the first, less 1 */
};

struct ks_trial_comparison {
    struct ks_trial_estimate ratio; /* of b to a, below 1 when b is faster; NaN: not known */
    size_t rounds;                  /* that count of both */
    enum ks_trial_verdict verdict;
};

struct ks_trial;

/* KS_ERR_USAGE for options out of their range. */
KS_API KS_MUST_CHECK enum ks_status ks_trial_new(const struct ks_trial_options *options,
                                                 struct ks_trial **trial, struct ks_err *err);
KS_API void ks_trial_free(struct ks_trial *trial);

/* Which variant to time next; false when enough is known, or rounds or budget are at an end. Gives
 * the same one until its time is added or it is dropped. */
KS_API bool ks_trial_next(struct ks_trial *trial, size_t *variant);
/* The time of the variant that ks_trial_next gave, of which at least 1 is taken. KS_ERR_USAGE for
 * another one. */
KS_API KS_MUST_CHECK enum ks_status ks_trial_add(struct ks_trial *trial, size_t variant, int64_t ns,
                                                 struct ks_err *err);
/* This variant is timed no more: its results are wrong, or it did not run. What was timed stays. */
KS_API void ks_trial_drop(struct ks_trial *trial, size_t variant);

/* What is known now, of variants below variant_count. */
KS_API struct ks_trial_summary ks_trial_summary(const struct ks_trial *trial, size_t variant);
KS_API struct ks_trial_comparison ks_trial_compare(const struct ks_trial *trial, size_t a,
                                                   size_t b);
/* The one with the lowest median of those that were not dropped from outside. */
KS_API size_t ks_trial_fastest(const struct ks_trial *trial);
/* "faster", "slower", "no_difference", "cannot_tell". */
KS_API const char *ks_trial_verdict_name(enum ks_trial_verdict verdict);

#endif
