#include "launch/tune_trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"

enum {
    BLOCK_MS = 150,
    BLOCK_STEPS_MAX = 64,
    SLOW_BLOCK_MS = 1000, /* of the slower of two */
    FIRST_STEPS = 4,      /* of the block that tells how long the others are to be */
    ROUNDS_APART = 13,
    ROUNDS_SPARE = 6, /* beyond the fewest that tell anything */
    BLOCK_TIMEOUT_S = 300,
    RESTARTS_MAX = 8, /* of one process in a trial */
};

static const double TOLERANCE = 0.02;
/* Steps that take so much longer, or shorter, than the first ones are others. */
static const double DRIFT = 1.5;
static const int64_t SECOND_NS = 1000000000;

/* One side of a trial. */
struct side {
    struct ks_tune_process *process;
    size_t restarts;
};

enum ks_status ks_tune_ensure(struct ks_tune_process *process, int64_t timeout_ns,
                              enum ks_tune_event *event, struct ks_err *err)
{
    *event = KS_TUNE_BLOCK;
    if (process->pid != 0) {
        return KS_OK;
    }
    KS_TRY(ks_tune_process_start(process, process->command, process->name, &process->setting, err));
    *event = ks_tune_process_warm(process, timeout_ns);
    return KS_OK;
}

static int64_t multiple_of(int64_t steps, int64_t unit)
{
    return unit > 1 ? (steps + unit - 1) / unit * unit : steps;
}

static double step_ns_of(const struct ks_tune_process *process)
{
    return (double)process->block_ns /
           (double)(process->block_steps > 0 ? process->block_steps : 1);
}

static enum ks_tune_outcome outcome_of(enum ks_tune_event event, bool is_second)
{
    if (event == KS_TUNE_BLOCK) {
        return KS_TUNE_TIMED;
    }
    if (event == KS_TUNE_CANCELLED) {
        return KS_TUNE_STOPPED;
    }
    return is_second ? KS_TUNE_SECOND_FAILED : KS_TUNE_FIRST_FAILED;
}

/* Steps of a block: long enough to be timed well, whole epochs where these are short, and whole
 * rounds of a loader's workers, which hand over their batches one after the other. */
static int64_t choose_steps(const struct ks_tune_process *process)
{
    char workers[KS_TUNING_NAME_SIZE];
    int64_t steps = (int64_t)(BLOCK_MS * 1e6 / (step_ns_of(process) + 1.0)) + 1;
    steps = steps < BLOCK_STEPS_MAX ? steps : BLOCK_STEPS_MAX;
    int64_t unit = ks_script_facts_number(&process->facts, "workers");
    if (ks_setting_get(&process->setting, "workers", workers)) {
        unit = strtoll(workers, NULL, 10);
    }
    if (process->epoch_steps > 0 && process->epoch_steps <= BLOCK_STEPS_MAX) {
        return multiple_of(steps, process->epoch_steps);
    }
    steps = multiple_of(steps, unit < BLOCK_STEPS_MAX ? unit : 1);
    int64_t timed = process->total_steps - KS_RUN_NUMBERS_COMPARED;
    if (process->total_steps > 0 && steps > timed / 4) { /* a short script: small blocks */
        steps = timed / 4 > 0 ? timed / 4 : 1;
    }
    return steps;
}

/* A process that is there and has run the first steps behind a start, which are often others. */
static enum ks_status make_ready(struct side *side, enum ks_tune_event *event, struct ks_err *err)
{
    struct ks_tune_process *process = side->process;
    KS_TRY(ks_tune_ensure(process, BLOCK_TIMEOUT_S * SECOND_NS, event, err));
    if (*event == KS_TUNE_BLOCK && !process->is_ready) {
        *event = ks_tune_process_block(process, FIRST_STEPS, BLOCK_TIMEOUT_S * SECOND_NS);
        process->is_ready = *event == KS_TUNE_BLOCK;
    }
    return KS_OK;
}

/* A block of the side, in a fresh process when the script came to its end; 0 steps: none, it is
 * only made ready. */
static enum ks_status time_block(struct side *side, int64_t steps, int64_t *per_step_ns,
                                 enum ks_tune_event *event, struct ks_err *err)
{
    struct ks_tune_process *process = side->process;
    do {
        KS_TRY(make_ready(side, event, err));
        if (*event == KS_TUNE_BLOCK && steps > 0) {
            *event = ks_tune_process_block(process, steps, BLOCK_TIMEOUT_S * SECOND_NS);
            bool is_first = *event == KS_TUNE_BLOCK && process->first_step_ns <= 0.0;
            process->first_step_ns = is_first ? step_ns_of(process) : process->first_step_ns;
        }
        if (*event != KS_TUNE_OVER) {
            *per_step_ns = (int64_t)step_ns_of(process);
            return KS_OK;
        }
        int64_t most = choose_steps(process); /* now that the script's end is known */
        steps = steps < most ? steps : most;
    } while (side->restarts++ < RESTARTS_MAX);
    snprintf(process->reason, sizeof(process->reason),
             "the script ends after %lld steps, too few to time it",
             (long long)process->total_steps);
    return KS_OK;
}

/* The same steps for both, so that both see the same batches, and a script whose batches grow is at
 * the same place. The slower one must not take for ever. */
static int64_t common_steps(const struct side sides[2])
{
    int64_t a = choose_steps(sides[0].process);
    int64_t b = choose_steps(sides[1].process);
    double a_ns = step_ns_of(sides[0].process);
    double b_ns = step_ns_of(sides[1].process);
    int64_t more = a > b ? a : b;
    int64_t less = a < b ? a : b;
    int64_t most = (int64_t)(SLOW_BLOCK_MS * 1e6 / ((a_ns > b_ns ? a_ns : b_ns) + 1.0));
    return more <= most ? more : less;
}

/* With fewer rounds no verdict is known, and the time would be for nothing. */
static int64_t least_budget_ns(const struct side sides[2], int64_t steps)
{
    double round_ns = step_ns_of(sides[0].process) + step_ns_of(sides[1].process);
    return (int64_t)((KS_TRIAL_ROUNDS_MIN + ROUNDS_SPARE) * round_ns * (double)steps);
}

/* Both behind their first steps, so that it is known how long the blocks are to be. */
static enum ks_status make_both_ready(struct side sides[2], enum ks_tune_outcome *outcome,
                                      struct ks_err *err)
{
    enum ks_tune_event event;
    int64_t per_step_ns;
    *outcome = KS_TUNE_TIMED;
    for (size_t i = 0; i < 2 && *outcome == KS_TUNE_TIMED; i++) {
        KS_TRY(time_block(&sides[i], 0, &per_step_ns, &event, err));
        *outcome = outcome_of(event, i == 1);
    }
    return KS_OK;
}

static enum ks_status time_in_turn(struct ks_trial *trial, struct side sides[2], int64_t steps,
                                   enum ks_tune_outcome *outcome, struct ks_err *err)
{
    int64_t per_step_ns = 0;
    enum ks_tune_event event;
    for (size_t variant; ks_trial_next(trial, &variant);) {
        KS_TRY(time_block(&sides[variant], steps, &per_step_ns, &event, err));
        *outcome = outcome_of(event, variant == 1);
        if (*outcome != KS_TUNE_TIMED) {
            return KS_OK;
        }
        KS_TRY(ks_trial_add(trial, variant, per_step_ns > 0 ? per_step_ns : 1, err));
    }
    return KS_OK;
}

/* Where there is no room for both: what one took, then what the other one did. */
static enum ks_status time_apart(struct ks_trial *trial, struct side sides[2],
                                 enum ks_tune_outcome *outcome, struct ks_err *err)
{
    int64_t times_ns[2][ROUNDS_APART];
    size_t taken[2] = {0};
    for (size_t turn = 0; turn < 2; turn++) {
        size_t variant = 1 - turn; /* the one that is tried runs already */
        int64_t steps = 0;         /* the first one makes it ready */
        for (size_t i = 0; i < ROUNDS_APART; i++) {
            enum ks_tune_event event;
            KS_TRY(time_block(&sides[variant], steps, &times_ns[variant][i], &event, err));
            steps = steps > 0 ? steps : choose_steps(sides[variant].process);
            *outcome = outcome_of(event, variant == 1);
            if (*outcome != KS_TUNE_TIMED) {
                return KS_OK;
            }
        }
        ks_tune_process_weigh(sides[variant].process);
        ks_tune_process_end(sides[variant].process);
    }
    for (size_t variant; ks_trial_next(trial, &variant);) {
        if (taken[variant] == ROUNDS_APART) {
            break;
        }
        int64_t ns = times_ns[variant][taken[variant]++];
        KS_TRY(ks_trial_add(trial, variant, ns > 0 ? ns : 1, err));
    }
    return KS_OK;
}

static void fill(const struct ks_trial *trial, const struct side sides[2],
                 struct ks_tuning_try *out)
{
    struct ks_trial_comparison comparison = ks_trial_compare(trial, 0, 1);
    out->ratio = comparison.ratio;
    out->verdict = comparison.verdict;
    out->rounds = comparison.rounds;
    out->before_ns = ks_trial_summary(trial, 0).median_ns.value;
    out->after_ns = ks_trial_summary(trial, 1).median_ns.value;
    out->before_bytes = sides[0].process->bytes;
    out->after_bytes = sides[1].process->bytes;
    out->before_gpu_bytes = sides[0].process->gpu_bytes;
    out->after_gpu_bytes = sides[1].process->gpu_bytes;
}

/* Ends a process whose steps are not those it began with, so that it begins anew. */
static void renew_drifted(struct ks_tune_process *process)
{
    double ratio =
        process->first_step_ns > 0.0 ? step_ns_of(process) / process->first_step_ns : 1.0;
    if (process->pid != 0 && (ratio > DRIFT || ratio < 1.0 / DRIFT)) {
        ks_tune_process_end(process);
    }
}

enum ks_status ks_tune_trial(struct ks_tune_process *a, struct ks_tune_process *b,
                             const struct ks_tune_limits *limits, struct ks_tuning_try *out,
                             enum ks_tune_outcome *outcome, struct ks_err *err)
{
    bool is_apart = limits->is_apart;
    struct ks_trial_options options = {.variant_count = 2,
                                       .budget_ns = is_apart ? 0 : limits->budget_ns,
                                       .rounds_max = is_apart ? ROUNDS_APART : limits->rounds_max,
                                       .tolerance = TOLERANCE,
                                       .precision = limits->precision};
    renew_drifted(a);
    renew_drifted(b);
    struct side sides[2] = {{.process = a}, {.process = b}};
    struct ks_trial *trial = NULL;
    int64_t steps = 0;
    *outcome = KS_TUNE_TIMED;
    if (!is_apart) {
        KS_TRY(make_both_ready(sides, outcome, err));
        if (*outcome != KS_TUNE_TIMED) {
            return KS_OK;
        }
        steps = common_steps(sides);
        int64_t least_ns = least_budget_ns(sides, steps);
        options.budget_ns = options.budget_ns > least_ns ? options.budget_ns : least_ns;
    }
    KS_TRY(ks_trial_new(&options, &trial, err));
    enum ks_status status = is_apart ? time_apart(trial, sides, outcome, err)
                                     : time_in_turn(trial, sides, steps, outcome, err);
    if (status == KS_OK && *outcome == KS_TUNE_TIMED) {
        ks_tune_process_weigh(a);
        ks_tune_process_weigh(b);
        fill(trial, sides, out);
    }
    ks_trial_free(trial);
    return status;
}
