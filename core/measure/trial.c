#include <kscope/kscope_trial.h>

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/err.h"
#include "measure/median.h"

/* Looks at 4, 6, 9, 14, 21, 32, 48, 72, 108, 162, 243, 364, 546 and 819 rounds. */
static const double LEVEL = 1 - 0.05 / 12;
enum { MEDIAN_LEAST = 9 }; /* rounds, for an interval of the median at this level */
/* Student's t of 3 to 7 degrees of freedom for an interval of 99.95 %. */
static const double STUDENT[] = {16.326334609803105, 10.306254681808051, 7.975653419040984,
                                 6.788339990341489, 6.081756186049146};
static const double USUAL_TOLERANCE = 0.02;

enum state { ALIVE, LOST, DROPPED };

struct variant {
    enum state state;
    size_t count;
    double
        *log_ns; /* one for each round, of the rounds it took part in, which are the first ones */
};

struct ks_trial {
    struct ks_trial_options options;
    size_t rounds_max;
    int64_t begin_ns; /* -1: nothing was asked for yet */
    uint64_t draws;
    size_t round;   /* that runs now */
    size_t look_at; /* number of rounds at the next look */
    size_t order[KS_TRIAL_VARIANTS_MAX];
    size_t order_count;
    size_t at; /* in the order */
    bool is_over;
    struct variant variants[KS_TRIAL_VARIANTS_MAX];
    double *times;
};

/* ------------------------------------------------------------------ life */

static enum ks_status check(const struct ks_trial_options *options, struct ks_err *err)
{
    if (options->variant_count < 1 || options->variant_count > KS_TRIAL_VARIANTS_MAX) {
        return ks_fail(err, KS_ERR_USAGE, -1, "a trial has 1 to %d variants, not %zu",
                       KS_TRIAL_VARIANTS_MAX, options->variant_count);
    }
    if (options->budget_ns < 0) {
        return ks_fail(err, KS_ERR_USAGE, -1, "the time for a trial is negative");
    }
    if (options->rounds_max > KS_TRIAL_ROUNDS_MAX) {
        return ks_fail(err, KS_ERR_USAGE, -1, "a trial has at most %d rounds, not %u",
                       KS_TRIAL_ROUNDS_MAX, options->rounds_max);
    }
    if (!(options->tolerance >= 0 && options->tolerance < 1)) {
        return ks_fail(err, KS_ERR_USAGE, -1, "the tolerance of a trial is 0 to 1, not %g",
                       options->tolerance);
    }
    if (!(options->precision >= 0 && options->precision < 1)) {
        return ks_fail(err, KS_ERR_USAGE, -1, "the precision of a trial is 0 to 1, not %g",
                       options->precision);
    }
    return KS_OK;
}

enum ks_status ks_trial_new(const struct ks_trial_options *options, struct ks_trial **trial,
                            struct ks_err *err)
{
    KS_TRY(check(options, err));
    size_t rounds = options->rounds_max ? options->rounds_max : KS_TRIAL_ROUNDS_MAX;
    struct ks_trial *made = ks_alloc(1, sizeof(*made));
    double *times = ks_alloc(rounds * options->variant_count, sizeof(*times));
    if (!made || !times) {
        ks_free(made);
        ks_free(times);
        return ks_fail(err, KS_ERR_NOMEM, -1, "no memory for a trial of %zu variants",
                       options->variant_count);
    }
    made->options = *options;
    made->options.tolerance = options->tolerance > 0 ? options->tolerance : USUAL_TOLERANCE;
    made->rounds_max = rounds;
    made->begin_ns = -1;
    made->look_at = KS_TRIAL_ROUNDS_MIN;
    made->times = times;
    for (size_t i = 0; i < options->variant_count; i++) {
        made->variants[i].log_ns = times + i * rounds;
    }
    *trial = made;
    return KS_OK;
}

void ks_trial_free(struct ks_trial *trial)
{
    if (trial) {
        ks_free(trial->times);
        ks_free(trial);
    }
}

/* ------------------------------------------------------------------ comparing */

/* What counts of a variant behind its warm-up. */
static size_t warm_up_of(const struct variant *variant)
{
    return ks_median_warm_up(variant->log_ns, variant->count);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static enum ks_trial_verdict judge(struct ks_estimate log_ratio, double tolerance)
{
    if (isnan(log_ratio.low)) {
        return KS_TRIAL_CANNOT_TELL;
    }
    if (log_ratio.low >= log1p(-tolerance) && log_ratio.high <= log1p(tolerance)) {
        return KS_TRIAL_NO_DIFFERENCE;
    }
    if (log_ratio.high < 0 && log_ratio.value < log1p(-tolerance)) {
        return KS_TRIAL_FASTER;
    }
    bool is_slower = log_ratio.low > 0 && log_ratio.value > log1p(tolerance);
    return is_slower ? KS_TRIAL_SLOWER : KS_TRIAL_CANNOT_TELL;
}

/* Mean of fewer than MEDIAN_LEAST values, and Student's interval of it. */
static struct ks_estimate mean_estimate(const double *values, size_t count)
{
    struct ks_estimate estimate = {(double)NAN, (double)NAN, (double)NAN};
    double squares = 0;
    if (count == 0) {
        return estimate;
    }
    estimate.value = 0;
    for (size_t i = 0; i < count; i++) {
        estimate.value += values[i] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        squares += (values[i] - estimate.value) * (values[i] - estimate.value);
    }
    if (count >= KS_TRIAL_ROUNDS_MIN) {
        double error = sqrt(squares / (double)(count - 1) / (double)count);
        double reach = STUDENT[count - KS_TRIAL_ROUNDS_MIN] * error;
        estimate.low = estimate.value - reach;
        estimate.high = estimate.value + reach;
    }
    return estimate;
}

static struct ks_trial_estimate exp_of(struct ks_estimate log_of)
{
    return (struct ks_trial_estimate){exp(log_of.value), exp(log_of.low), exp(log_of.high)};
}

struct ks_trial_comparison ks_trial_compare(const struct ks_trial *trial, size_t a, size_t b)
{
    const struct variant *of_a = &trial->variants[a];
    const struct variant *of_b = &trial->variants[b];
    double ratios[KS_TRIAL_ROUNDS_MAX];
    size_t both = of_a->count < of_b->count ? of_a->count : of_b->count;
    size_t begin = larger(warm_up_of(of_a), warm_up_of(of_b));
    size_t count = 0;
    for (size_t i = begin; i < both; i++) {
        ratios[count++] = of_b->log_ns[i] - of_a->log_ns[i];
    }
    struct ks_estimate log_ratio = count < MEDIAN_LEAST ? mean_estimate(ratios, count)
                                                        : ks_median_estimate(ratios, count, LEVEL);
    return (struct ks_trial_comparison){
        .ratio = exp_of(log_ratio),
        .rounds = count,
        .verdict = judge(log_ratio, trial->options.tolerance),
    };
}

static double median_of(const double *log_ns, size_t count)
{
    double copy[KS_TRIAL_ROUNDS_MAX];
    memcpy(copy, log_ns, count * sizeof(*copy));
    return ks_median_estimate(copy, count, LEVEL).value;
}

/* Two thirds that are compared want some values each. */
static double drift_of(const double *log_ns, size_t count)
{
    size_t third = count / 3;
    if (third < 3) {
        return (double)NAN;
    }
    return expm1(median_of(log_ns + count - third, third) - median_of(log_ns, third));
}

/* Sums of times that differ by little: in two passes. */
static void take_moments(const double *log_ns, struct ks_trial_summary *summary)
{
    double n = (double)summary->rounds;
    double squares = 0;
    summary->mean_ns = 0;
    for (size_t i = 0; i < summary->rounds; i++) {
        summary->mean_ns += exp(log_ns[i]) / n;
    }
    for (size_t i = 0; i < summary->rounds; i++) {
        double off = exp(log_ns[i]) - summary->mean_ns;
        squares += off * off;
    }
    summary->std_ns = summary->rounds > 1 ? sqrt(squares / (n - 1)) : (double)NAN;
}

struct ks_trial_summary ks_trial_summary(const struct ks_trial *trial, size_t variant)
{
    const struct variant *one = &trial->variants[variant];
    double scratch[KS_TRIAL_ROUNDS_MAX];
    size_t warm_up = warm_up_of(one);
    const double *log_ns = one->log_ns + warm_up;
    struct ks_trial_summary summary = {
        .mean_ns = (double)NAN,
        .std_ns = (double)NAN,
        .rounds = one->count - warm_up,
        .warm_up = warm_up,
        .outliers = ks_median_outliers(log_ns, one->count - warm_up, scratch),
        .drift = drift_of(log_ns, one->count - warm_up),
    };
    if (summary.rounds > 0) {
        take_moments(log_ns, &summary);
    }
    memcpy(scratch, log_ns, summary.rounds * sizeof(*scratch));
    struct ks_estimate median = ks_median_estimate(scratch, summary.rounds, LEVEL);
    if (summary.rounds < MEDIAN_LEAST) { /* it holds the median, which is within a deviation */
        struct ks_estimate mean = mean_estimate(scratch, summary.rounds);
        median.low = mean.low;
        median.high = mean.high;
    }
    summary.median_ns = exp_of(median);
    return summary;
}

/* Of those in one of two states; without any 0. */
static size_t fastest_of(const struct ks_trial *trial, enum state one, enum state other)
{
    size_t fastest = 0;
    double least = (double)INFINITY;
    for (size_t i = 0; i < trial->options.variant_count; i++) {
        const struct variant *variant = &trial->variants[i];
        if ((variant->state != one && variant->state != other) || variant->count == 0) {
            continue;
        }
        size_t warm_up = warm_up_of(variant);
        double median = median_of(variant->log_ns + warm_up, variant->count - warm_up);
        if (median < least) {
            least = median;
            fastest = i;
        }
    }
    return fastest;
}

size_t ks_trial_fastest(const struct ks_trial *trial)
{
    return fastest_of(trial, ALIVE, LOST);
}

const char *ks_trial_verdict_name(enum ks_trial_verdict verdict)
{
    static const char *const names[] = {
        [KS_TRIAL_CANNOT_TELL] = "cannot_tell",
        [KS_TRIAL_NO_DIFFERENCE] = "no_difference",
        [KS_TRIAL_FASTER] = "faster",
        [KS_TRIAL_SLOWER] = "slower",
    };
    return names[verdict];
}

/* ------------------------------------------------------------------ when enough is known */

static size_t count_alive(const struct ks_trial *trial)
{
    size_t alive = 0;
    for (size_t i = 0; i < trial->options.variant_count; i++) {
        alive += trial->variants[i].state == ALIVE;
    }
    return alive;
}

/* Faster, slower, or alike; and how much, as precisely as was asked for. */
static bool is_told(const struct ks_trial *trial, size_t reference, size_t variant)
{
    struct ks_trial_comparison it = ks_trial_compare(trial, reference, variant);
    double half_width = log(it.ratio.high / it.ratio.low) / 2.0;
    bool is_precise =
        trial->options.precision <= 0.0 || half_width <= log1p(trial->options.precision);
    return it.verdict != KS_TRIAL_CANNOT_TELL && is_precise;
}

/* Whether all that are alive are told from the reference, or told to be like it. */
static bool are_told(const struct ks_trial *trial, size_t reference)
{
    for (size_t i = 0; i < trial->options.variant_count; i++) {
        if (i != reference && trial->variants[i].state == ALIVE && !is_told(trial, reference, i)) {
            return false;
        }
    }
    return true;
}

/* The baseline stays: how far the others are from it is asked in any case. */
static void leave_losers(struct ks_trial *trial, size_t fastest)
{
    for (size_t i = 1; i < trial->options.variant_count; i++) {
        if (i != fastest && trial->variants[i].state == ALIVE &&
            ks_trial_compare(trial, fastest, i).verdict == KS_TRIAL_SLOWER) {
            trial->variants[i].state = LOST;
        }
    }
}

static void look(struct ks_trial *trial)
{
    trial->look_at += (trial->look_at + 1) / 2;
    size_t fastest = 0;
    if (trial->options.is_race) {
        fastest = fastest_of(trial, ALIVE, ALIVE);
        leave_losers(trial, fastest);
    }
    /* One alone is not compared: rounds and budget end it. */
    bool is_alone = trial->options.variant_count == 1;
    bool are_compared = trial->variants[0].state == DROPPED || are_told(trial, 0);
    bool has_race = trial->options.is_race;
    trial->is_over = !is_alone && are_compared && (!has_race || are_told(trial, fastest));
}

/* ------------------------------------------------------------------ whose turn it is */

/* SplitMix64, as in bootstrap.c; a fixed seed. */
static size_t draw_below(struct ks_trial *trial, size_t count)
{
    uint64_t z = (trial->draws += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (size_t)(((z ^ (z >> 31)) >> 32) * count >> 32);
}

static void reverse(size_t *order, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        size_t other = order[count - 1 - i];
        order[count - 1 - i] = order[i];
        order[i] = other;
    }
}

static void shuffle(struct ks_trial *trial)
{
    for (size_t i = trial->order_count; i > 1; i--) {
        size_t j = draw_below(trial, i);
        size_t last = trial->order[i - 1];
        trial->order[i - 1] = trial->order[j];
        trial->order[j] = last;
    }
}

/* Every second round has the order of the one before backwards. */
static void begin_round(struct ks_trial *trial)
{
    size_t before = trial->order_count;
    bool is_new = trial->round % 2 == 0 || before == 0;
    size_t kept = 0;
    for (size_t i = 0; i < (is_new ? trial->options.variant_count : before); i++) {
        size_t variant = is_new ? i : trial->order[i];
        if (trial->variants[variant].state == ALIVE) {
            trial->order[kept++] = variant;
        }
    }
    trial->order_count = kept;
    trial->at = 0;
    if (is_new) {
        shuffle(trial);
    } else {
        reverse(trial->order, kept);
    }
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Between two rounds. */
static void end_round(struct ks_trial *trial)
{
    trial->round++;
    bool is_late =
        trial->options.budget_ns > 0 && now_ns() - trial->begin_ns >= trial->options.budget_ns;
    if (trial->round >= trial->look_at) {
        look(trial);
    }
    if (is_late || trial->round >= trial->rounds_max || count_alive(trial) == 0) {
        trial->is_over = true;
    }
}

/* Steps over those that were dropped in this round. */
static void skip_dropped(struct ks_trial *trial)
{
    while (trial->at < trial->order_count &&
           trial->variants[trial->order[trial->at]].state != ALIVE) {
        trial->at++;
    }
}

bool ks_trial_next(struct ks_trial *trial, size_t *variant)
{
    if (trial->begin_ns < 0) {
        trial->begin_ns = now_ns();
        begin_round(trial);
    }
    skip_dropped(trial);
    if (!trial->is_over && trial->at >= trial->order_count) {
        end_round(trial);
        begin_round(trial);
    }
    if (trial->is_over || trial->order_count == 0) {
        return false;
    }
    *variant = trial->order[trial->at];
    return true;
}

enum ks_status ks_trial_add(struct ks_trial *trial, size_t variant, int64_t ns, struct ks_err *err)
{
    if (trial->begin_ns < 0 || trial->is_over || trial->at >= trial->order_count ||
        trial->order[trial->at] != variant || trial->variants[variant].state != ALIVE) {
        return ks_fail(err, KS_ERR_USAGE, -1, "it is not the turn of variant %zu", variant);
    }
    struct variant *one = &trial->variants[variant];
    one->log_ns[one->count++] = log((double)(ns > 0 ? ns : 1));
    trial->at++;
    return KS_OK;
}

void ks_trial_drop(struct ks_trial *trial, size_t variant)
{
    trial->variants[variant].state = DROPPED;
}
