#include "launch/tune.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/proc.h"
#include "launch/clock.h"
#include "launch/hook_dir.h"
#include "launch/tune_advice.h"
#include "launch/tune_trial.h"
#include "tune/search.h"

enum {
    SECONDS_DEFAULT = 600,
    PROCESSES = 3,         /* the original, the best and the one that is tried */
    WARM_STEPS = 8,        /* as the hook has it */
    WARM_TIMEOUT_S = 300,  /* of a process: torch.compile takes its time in the first steps */
    WARM_SECONDS_MIN = 60, /* once it is started, also when time is nearly up */
    TRIAL_SECONDS_MIN = 4,
    TRIAL_SECONDS_MAX = 40,
    WHOLE_SECONDS_MIN = 30, /* of the last trial */
    TRIALS_IN_BUDGET = 8,   /* a trial gets so much of what is left */
    ROUNDS_USUAL = 40,      /* more tell differences apart that are not worth their time ... */
    ROUNDS_OF_TWIN = 12,    /* enough to see how much times vary ... */
    ROUNDS_ALONE = 400,     /* ... but where nothing else is asked */
    SECOND_LOOK = 3,        /* so many times as long */
    NOISE_FACTOR = 4,       /* runs alike differ by so much less than what is called wrong */
};

static const int64_t SECOND_NS = 1000000000;
/* Half of the interval of what is told at the end. */
static const double WHOLE_PRECISION = 0.05;
static const double PROMISING_RATIO = 0.95;
/* Memory of a GPU that is worth a change that costs no time. */
static const double SMALLER_SHARE = 0.1;

struct tuner {
    const struct ks_tune_options *options;
    struct ks_tuning *tuning;
    struct ks_tune_command command;
    struct ks_tune_advice advice;
    struct ks_search search;
    struct ks_setting base; /* what the script begins with */
    struct ks_setting kept;
    struct ks_tune_process processes[PROCESSES];
    struct ks_tune_process *original, *best, *candidate;
    struct ks_script_facts facts;       /* of the original */
    struct ks_run_numbers numbers;      /* the same */
    struct ks_run_numbers kept_numbers; /* of what was kept */
    size_t room;                        /* so many processes that memory holds at once */
    int64_t began_ns, deadline_ns;
    size_t started;
};

/* ------------------------------------------------------------------ words */

static void say(const struct tuner *tuner, const char *format, ...) KS_PRINTF(2, 3);

static void say(const struct tuner *tuner, const char *format, ...)
{
    char line[KS_TUNING_TEXT_SIZE * 2];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (tuner->options->say) {
        tuner->options->say(tuner->options->user, line);
    }
}

static const char *name_of_change(const struct ks_tuning_try *try)
{
    return try->change[0] ? try->change : "the same again";
}

static const char *words_of(enum ks_trial_verdict verdict)
{
    static const char *const words[] = {
        [KS_TRIAL_CANNOT_TELL] = "cannot tell",
        [KS_TRIAL_NO_DIFFERENCE] = "no difference",
        [KS_TRIAL_FASTER] = "faster",
        [KS_TRIAL_SLOWER] = "slower",
    };
    return words[verdict];
}

static void say_try(const struct tuner *tuner, const struct ks_tuning_try *try)
{
    bool is_timed = try->fate == KS_TUNING_KEPT || try->fate == KS_TUNING_NOT_FASTER;
    if (try->rounds == 0 || !is_timed) { /* how fast something wrong is, is of no interest */
        say(tuner, "%s: %s: %s", name_of_change(try), ks_tuning_fate_name(try->fate), try->reason);
        return;
    }
    say(tuner, "%s: %.2f ms a step, was %.2f; %.2f times as fast (%.2f to %.2f)%s",
        name_of_change(try), try->after_ns / 1e6, try->before_ns / 1e6, 1.0 / try->ratio.value,
        1.0 / try->ratio.high, 1.0 / try->ratio.low, try->fate == KS_TUNING_KEPT ? ", kept" : "");
}

/* ------------------------------------------------------------------ time */

static int64_t left_ns(const struct tuner *tuner)
{
    return tuner->deadline_ns - ks_clock_ns(CLOCK_MONOTONIC);
}

static bool is_cancelled(const struct tuner *tuner)
{
    return tuner->options->is_cancelled && tuner->options->is_cancelled(tuner->options->user);
}

/* False when there is no time for another process, or nobody wants one. */
static bool may_go_on(struct tuner *tuner)
{
    if (is_cancelled(tuner)) {
        tuner->tuning->end = KS_TUNING_INTERRUPTED;
        return false;
    }
    if (left_ns(tuner) <= 0) {
        tuner->tuning->end = KS_TUNING_OUT_OF_TIME;
        return false;
    }
    return true;
}

/* Nothing is tried: the script is compared with itself. */
static bool is_alone(const struct tuner *tuner)
{
    return tuner->options->what && strcmp(tuner->options->what, "none") == 0;
}

static struct ks_tune_limits limits_of(const struct tuner *tuner)
{
    int64_t half_ns = left_ns(tuner) / 2;
    int64_t share_ns = left_ns(tuner) / TRIALS_IN_BUDGET;
    int64_t least_ns = TRIAL_SECONDS_MIN * SECOND_NS;
    int64_t most_ns = TRIAL_SECONDS_MAX * SECOND_NS;
    share_ns = share_ns < least_ns ? least_ns : share_ns > most_ns ? most_ns : share_ns;
    return (struct ks_tune_limits){.budget_ns = is_alone(tuner) ? half_ns : share_ns,
                                   .rounds_max = is_alone(tuner) ? ROUNDS_ALONE : ROUNDS_USUAL};
}

static int64_t warm_timeout_ns(const struct tuner *tuner)
{
    int64_t most_ns = WARM_TIMEOUT_S * SECOND_NS;
    int64_t least_ns = WARM_SECONDS_MIN * SECOND_NS;
    int64_t left = left_ns(tuner);
    return left < least_ns ? least_ns : left < most_ns ? left : most_ns;
}

/* ------------------------------------------------------------------ beginning */

static enum ks_status prepare(struct tuner *tuner, struct ks_err *err)
{
    const struct ks_tune_options *options = tuner->options;
    struct ks_tune_command *command = &tuner->command;
    char hook_dir[KS_LAUNCH_PATH_SIZE];
    const char *temporary = getenv("TMPDIR");
    if (options->what) {
        KS_TRY(ks_search_check(options->what, err));
    }
    KS_TRY(ks_hook_dir_find(hook_dir, err));
    KS_TRY(ks_hook_dir_python_path(hook_dir, &command->python_path, err));
    KS_TRY(ks_command_line_init(&command->line, options->words, options->word_count, err));
    if (!realpath(options->out_dir, command->out_dir)) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot use folder: path=\"%.120s\", %s",
                       options->out_dir, strerror(errno));
    }
    /* The path of a socket is short, and that of a run's folder need not be. */
    int len = snprintf(command->socket_dir, sizeof(command->socket_dir), "%s/kscope-tune-XXXXXX",
                       temporary && *temporary ? temporary : "/tmp");
    if (len < 0 || (size_t)len >= sizeof(command->socket_dir) || !mkdtemp(command->socket_dir)) {
        command->socket_dir[0] = '\0';
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot make a folder for sockets: %s",
                       strerror(errno));
    }
    command->step_mark = options->step_mark;
    command->is_cancelled = options->is_cancelled;
    command->user = options->user;
    return KS_OK;
}

static void describe(struct tuner *tuner)
{
    const struct ks_tune_options *options = tuner->options;
    char *out = tuner->tuning->script;
    for (size_t i = 0; i < options->word_count; i++) {
        size_t used = strlen(out);
        snprintf(out + used, sizeof(tuner->tuning->script) - used, "%s%s", i ? " " : "",
                 options->words[i]);
    }
}

static bool is_out_of_memory(const struct ks_tune_process *process)
{
    const char *reason = process->reason;
    return strstr(reason, "out of memory") || strstr(reason, "OutOfMemory") ||
           strstr(reason, "MemoryError") || strstr(reason, "signal 9");
}

/* How many run, but for these two; NULL: one less. */
static size_t count_others(const struct tuner *tuner, const struct ks_tune_process *one,
                           const struct ks_tune_process *two)
{
    size_t count = 0;
    for (size_t i = 0; i < PROCESSES; i++) {
        const struct ks_tune_process *other = &tuner->processes[i];
        count += other != one && other != two && other->pid != 0;
    }
    return count;
}

/* Ends others until there is room for these: first the original, which is only wanted at the end
 * again, and starts anew by itself. */
static void make_room(struct tuner *tuner, const struct ks_tune_process *one,
                      const struct ks_tune_process *two)
{
    struct ks_tune_process *const order[] = {tuner->original, tuner->candidate, tuner->best};
    size_t wanted = two ? 2 : 1;
    for (size_t i = 0; i < PROCESSES; i++) {
        bool is_full = count_others(tuner, one, two) + wanted > tuner->room;
        if (is_full && order[i] != one && order[i] != two) {
            ks_tune_process_end(order[i]);
        }
    }
}

static void say_room(const struct tuner *tuner)
{
    say(tuner, tuner->room > 1
                   ? "there is no room for three of these processes: no more than two at once"
                   : "there is no room for two of these processes: one after the other");
}

/* Starts a process and warms it up, beside as many others as there is room for. From then on there
 * are no more; but what has no room alone either says nothing of it. */
static enum ks_status start(struct tuner *tuner, struct ks_tune_process *process, const char *name,
                            const struct ks_setting *setting, enum ks_tune_event *event,
                            struct ks_err *err)
{
    size_t room = tuner->room;
    size_t others;
    bool is_too_big;
    do {
        make_room(tuner, process, NULL);
        tuner->started++;
        KS_TRY(ks_tune_process_start(process, &tuner->command, name, setting, err));
        *event = ks_tune_process_warm(process, warm_timeout_ns(tuner));
        others = count_others(tuner, process, NULL);
        is_too_big = *event == KS_TUNE_DIED && is_out_of_memory(process);
        tuner->room = is_too_big && others > 0 ? others : tuner->room;
    } while (is_too_big && others > 0);
    if (is_too_big) {
        tuner->room = room;
    } else if (tuner->room < room) {
        say_room(tuner);
    }
    return KS_OK;
}

/* Times one beside the other. Who runs out of memory, as processes that start again in between may,
 * gets more room; alone, there is none. */
static enum ks_status time_two(struct tuner *tuner, struct ks_tune_process *a,
                               struct ks_tune_process *b, struct ks_tune_limits limits,
                               struct ks_tuning_try *out, enum ks_tune_outcome *outcome,
                               struct ks_err *err)
{
    for (;;) {
        make_room(tuner, b, tuner->room > 1 ? a : NULL); /* `b` is the one that runs already */
        limits.is_apart = tuner->room < 2;
        size_t others = count_others(tuner, a, b);
        KS_TRY(ks_tune_trial(a, b, &limits, out, outcome, err));
        bool has_failed = *outcome == KS_TUNE_FIRST_FAILED || *outcome == KS_TUNE_SECOND_FAILED;
        const struct ks_tune_process *failed = *outcome == KS_TUNE_FIRST_FAILED ? a : b;
        if (!has_failed || !is_out_of_memory(failed) || tuner->room < 2) {
            return KS_OK;
        }
        tuner->room = others > 0 ? 2 : 1;
        say_room(tuner);
    }
}

/* Why the script cannot be tuned, from how its first process came out. */
static enum ks_status refuse(const struct tuner *tuner, enum ks_tune_event event,
                             struct ks_err *err)
{
    const struct ks_tune_process *process = tuner->original;
    const char *out = tuner->options->out_dir;
    switch (event) {
    case KS_TUNE_CANCELLED:
        return ks_fail(err, KS_ERR_CANCELLED, KS_NO_OFFSET,
                       "Interrupted before anything was known");
    case KS_TUNE_DIED:
        return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                       "Cannot tune: the script fails as it is, %.140s (%.40s/original.log)",
                       process->reason, out);
    case KS_TUNE_LATE:
        return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                       "Cannot tune: %d steps were not there after %d s", WARM_STEPS,
                       WARM_TIMEOUT_S);
    case KS_TUNE_OVER:
        if (!process->has_spoken) {
            return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                           "Cannot tune: no Python process imported torch with our start-up hook "
                           "(python -S, -I and -E leave it out)");
        }
        return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                       process->total_steps > 0
                           ? "Cannot tune: the script ends after %lld steps, too few to time them"
                           : "Cannot tune: %lld steps were found: no optimizer, loader or model of "
                             "torch is called again and again",
                       (long long)process->total_steps);
    case KS_TUNE_BLOCK: break;
    }
    return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                   "Cannot tune: several processes train together (ranks=%s)",
                   ks_script_facts_get(&process->facts, "ranks"));
}

static enum ks_status begin_original(struct tuner *tuner, struct ks_err *err)
{
    enum ks_tune_event event;
    say(tuner, "the script as it is, with the same seeds as all others");
    KS_TRY(start(tuner, tuner->original, "original", &tuner->base, &event, err));
    if (event != KS_TUNE_BLOCK || ks_script_facts_number(&tuner->original->facts, "ranks") > 1) {
        return refuse(tuner, event, err);
    }
    if (tuner->original->refused[0]) { /* else all that is tried on top would look refused */
        return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                       "Cannot tune: the setting that you gave cannot be applied, %.200s",
                       tuner->original->refused);
    }
    tuner->facts = tuner->original->facts;
    snprintf(tuner->tuning->torch, sizeof(tuner->tuning->torch), "%.60s",
             ks_script_facts_get(&tuner->facts, "torch"));
    snprintf(tuner->tuning->device, sizeof(tuner->tuning->device), "%.60s",
             ks_script_facts_get(&tuner->facts, "device"));
    return KS_OK;
}

/* ------------------------------------------------------------------ numbers */

/* True when the numbers are those of `before`, as far as such a change may make them others. */
static bool are_right(const struct tuner *tuner, const struct ks_run_numbers *before,
                      const struct ks_run_numbers *after, enum ks_change change,
                      struct ks_tuning_try *out)
{
    struct ks_numbers_difference difference = ks_run_numbers_compare(before, after);
    const char *kind = ks_number_kind_name(difference.kind);
    double noise = NOISE_FACTOR * tuner->tuning->noise;
    double tolerance = ks_change_tolerance(change);
    out->tolerance = noise > tolerance ? noise : tolerance;
    out->difference = difference.value;
    if (!(difference.value > out->tolerance)) { /* also where there is nothing to compare */
        return true;
    }
    if (difference.is_missing) {
        snprintf(out->reason, sizeof(out->reason), "there is no %s any more", kind);
    } else {
        snprintf(out->reason, sizeof(out->reason), "%s %zu is %.6g and was %.6g", kind,
                 difference.step + 1, difference.after, difference.before);
    }
    return false;
}

/* One change beside what was kept: what that may differ by is no excuse for what comes later. */
static bool is_candidate_right(const struct tuner *tuner, struct ks_tuning_try *try)
{
    struct ks_word word = ks_word_of(ks_str_from(try->change));
    return are_right(tuner, &tuner->kept_numbers, &tuner->candidate->numbers,
                     ks_word_change(word, &tuner->kept, &tuner->facts), try);
}

/* All changes beside the script as it is. */
static bool is_whole_right(const struct tuner *tuner, struct ks_tuning_try *whole)
{
    return are_right(tuner, &tuner->numbers, &tuner->best->numbers,
                     ks_setting_change(&tuner->kept, &tuner->facts), whole);
}

/* How far apart two runs alike are. */
static void note_noise(struct tuner *tuner, struct ks_tuning_try *try)
{
    struct ks_tuning *tuning = tuner->tuning;
    struct ks_numbers_difference difference =
        ks_run_numbers_compare(&tuner->original->numbers, &tuner->best->numbers);
    tuner->numbers = tuner->original->numbers;
    tuner->kept_numbers = tuner->numbers;
    try->difference = difference.value;
    tuning->noise = isfinite(difference.value) ? difference.value : (double)NAN;
    tuning->is_deterministic = difference.value <= 0.0;
    if (isnan(difference.value)) {
        say(tuner, "there are no losses or outputs by which results could be compared");
    } else if (!isfinite(difference.value)) {
        say(tuner, "two runs alike differ: numbers of one are missing, or not finite");
    } else if (!tuning->is_deterministic) {
        say(tuner, "two runs alike differ by %.2g: changes may differ by %d times as much",
            tuning->noise, NOISE_FACTOR);
    }
}

/* How far apart the times of two runs alike are, as a logarithm: where a process runs and where its
 * memory lies stays the same in all of its rounds, which no interval of theirs knows of. */
static double spread_of(const struct ks_tuning *tuning)
{
    const struct ks_tuning_try *twin = &tuning->tries[0];
    bool is_told = twin->verdict == KS_TRIAL_FASTER || twin->verdict == KS_TRIAL_SLOWER;
    return is_told ? fabs(log(twin->ratio.value)) : 0.0;
}

static void note_spread(const struct ks_tuning *tuning, struct ks_tuning_try *twin)
{
    double spread = spread_of(tuning);
    if (spread > 0.0) {
        snprintf(twin->reason, sizeof(twin->reason),
                 "two runs alike differ by %.0f %%: less is no gain", 100.0 * expm1(spread));
    } else {
        snprintf(twin->reason, sizeof(twin->reason), "%s", words_of(twin->verdict));
    }
}

/* A second process of the same setting: how far apart two runs alike are, in numbers and time. */
static enum ks_status begin_twin(struct tuner *tuner, struct ks_err *err)
{
    struct ks_tuning *tuning = tuner->tuning;
    struct ks_tuning_try *try = &tuning->tries[tuning->try_count];
    enum ks_tune_event event;
    enum ks_tune_outcome outcome;
    KS_TRY(start(tuner, tuner->best, "again", &tuner->base, &event, err));
    if (event != KS_TUNE_BLOCK) {
        return event == KS_TUNE_CANCELLED
                   ? refuse(tuner, event, err)
                   : ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                             "Cannot tune: the script ran once and then did not, %.160s",
                             tuner->best->reason);
    }
    struct ks_tune_limits limits = limits_of(tuner);
    limits.rounds_max = is_alone(tuner) ? limits.rounds_max : ROUNDS_OF_TWIN;
    KS_TRY(time_two(tuner, tuner->original, tuner->best, limits, try, &outcome, err));
    if (outcome != KS_TUNE_TIMED) {
        const struct ks_tune_process *failed =
            outcome == KS_TUNE_FIRST_FAILED ? tuner->original : tuner->best;
        return outcome == KS_TUNE_STOPPED ? refuse(tuner, KS_TUNE_CANCELLED, err)
                                          : ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                                                    "Cannot tune: %.200s", failed->reason);
    }
    try->fate = KS_TUNING_NOT_FASTER;
    tuning->try_count++;
    note_spread(tuning, try);
    say_try(tuner, try);
    note_noise(tuner, try);
    return KS_OK;
}

/* ------------------------------------------------------------------ one change */

static bool is_smaller(const struct ks_tuning_try *try)
{
    return try->verdict == KS_TRIAL_NO_DIFFERENCE && try->before_gpu_bytes > 0 &&
           (double)try->after_gpu_bytes < (1.0 - SMALLER_SHARE) * (double)try->before_gpu_bytes;
}

/* Of what was timed; the reason of what is wrong is there. */
static void judge(const struct ks_tuning *tuning, struct ks_tuning_try *try, bool is_right)
{
    bool is_faster = try->verdict == KS_TRIAL_FASTER;
    if (!is_right) {
        try->fate = KS_TUNING_WRONG;
    } else if (is_faster && -log(try->ratio.value) <= spread_of(tuning)) {
        try->fate = KS_TUNING_NOT_FASTER;
        snprintf(try->reason, sizeof(try->reason), "faster by less than two runs alike differ");
    } else if (is_faster) {
        try->fate = KS_TUNING_KEPT;
        snprintf(try->reason, sizeof(try->reason), "faster");
    } else if (is_smaller(try)) {
        try->fate = KS_TUNING_KEPT;
        snprintf(try->reason, sizeof(try->reason), "as fast, with less memory");
    } else {
        try->fate = KS_TUNING_NOT_FASTER;
        snprintf(try->reason, sizeof(try->reason), "%s", words_of(try->verdict));
    }
}

static void note_failure(struct ks_tuning_try *try, const char *reason)
{
    try->fate = KS_TUNING_FAILED;
    snprintf(try->reason, sizeof(try->reason), "%s", reason);
}

static void note_refusal(const struct tuner *tuner, struct ks_tuning_try *try)
{
    try->fate = KS_TUNING_REFUSED;
    snprintf(try->reason, sizeof(try->reason), "%s", tuner->candidate->refused);
}

/* It looks as if it were faster, but times vary too much to say so. */
static bool is_promising(const struct ks_tuning_try *try)
{
    return try->verdict == KS_TRIAL_CANNOT_TELL && try->ratio.value < PROMISING_RATIO;
}

/* Times the candidate beside the best one; longer when that may be worth it. */
static enum ks_status time_candidate(struct tuner *tuner, struct ks_tuning_try *try,
                                     struct ks_err *err)
{
    enum ks_tune_outcome outcome;
    struct ks_tune_limits limits = limits_of(tuner);
    KS_TRY(time_two(tuner, tuner->best, tuner->candidate, limits, try, &outcome, err));
    bool is_apart = tuner->room < 2;
    if (outcome == KS_TUNE_TIMED && is_promising(try) && !is_apart && left_ns(tuner) > 0) {
        limits.rounds_max *= SECOND_LOOK;
        limits.budget_ns *= SECOND_LOOK;
        KS_TRY(time_two(tuner, tuner->best, tuner->candidate, limits, try, &outcome, err));
    }
    if (outcome == KS_TUNE_TIMED && tuner->candidate->refused[0]) {
        note_refusal(tuner, try);
    } else if (outcome == KS_TUNE_TIMED) {
        judge(tuner->tuning, try, is_candidate_right(tuner, try));
    } else if (outcome == KS_TUNE_FIRST_FAILED) {
        note_failure(try, tuner->best->reason);
    } else {
        note_failure(try, outcome == KS_TUNE_STOPPED ? "interrupted" : tuner->candidate->reason);
    }
    return KS_OK;
}

static void keep_candidate(struct tuner *tuner)
{
    struct ks_tune_process *before = tuner->best;
    tuner->best = tuner->candidate;
    tuner->candidate = before;
    tuner->kept = tuner->best->setting;
    tuner->kept_numbers = tuner->best->numbers;
}

static enum ks_status try_change(struct tuner *tuner, const char *word, struct ks_err *err)
{
    struct ks_tuning *tuning = tuner->tuning;
    struct ks_tuning_try *try = &tuning->tries[tuning->try_count];
    struct ks_setting setting = tuner->kept;
    enum ks_tune_event event = KS_TUNE_DIED;
    char name[KS_TUNE_NAME_SIZE];
    snprintf(name, sizeof(name), "try%zu", tuning->try_count);
    *try = (struct ks_tuning_try){.difference = (double)NAN, .verdict = KS_TRIAL_CANNOT_TELL};
    snprintf(try->change, sizeof(try->change), "%s", word);
    if (!ks_setting_set_word(&setting, ks_str_from(word))) {
        note_failure(try, "the setting gets too long");
    } else {
        KS_TRY(start(tuner, tuner->candidate, name, &setting, &event, err));
        if (event != KS_TUNE_BLOCK) {
            note_failure(try, event == KS_TUNE_OVER        ? "the script ended early"
                              : event == KS_TUNE_CANCELLED ? "interrupted"
                                                           : tuner->candidate->reason);
        } else if (tuner->candidate->refused[0]) {
            note_refusal(tuner, try);
        } else if (!is_candidate_right(tuner, try)) {
            try->fate = KS_TUNING_WRONG; /* not worth to be timed */
        } else {
            KS_TRY(time_candidate(tuner, try, err));
        }
    }
    if (try->fate == KS_TUNING_KEPT) {
        keep_candidate(tuner);
    }
    ks_tune_process_end(tuner->candidate);
    ks_search_told(&tuner->search, try->fate, try->verdict);
    if (!is_cancelled(tuner)) {
        tuning->try_count++;
        say_try(tuner, try);
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ what is left alone */

static void leave(struct ks_tuning *tuning, const char *id, bool is_finding, const char *reason)
{
    if (tuning->left_count < KS_TUNING_LEFT_MAX) {
        struct ks_tuning_left *left = &tuning->left[tuning->left_count++];
        snprintf(left->id, sizeof(left->id), "%s", id);
        snprintf(left->reason, sizeof(left->reason), "%s", reason);
        left->is_finding = is_finding;
    }
}

static void list_left(struct tuner *tuner)
{
    for (size_t i = 0; i < tuner->advice.count; i++) {
        const char *why = ks_not_tunable(tuner->advice.ids[i]);
        if (why) {
            leave(tuner->tuning, tuner->advice.ids[i], true, why);
        }
    }
    for (size_t i = 0; i < KS_KNOB_COUNT; i++) {
        const char *why = ks_search_why_left(&tuner->search, &tuner->kept, (enum ks_knob_id)i);
        if (why) {
            leave(tuner->tuning, ks_knobs[i].name, false, why);
        }
    }
}

/* ------------------------------------------------------------------ the whole */

static int64_t memory_available(void)
{
    char text[4096];
    long long kib = 0;
    const char *line = ks_proc_read_text("/proc/meminfo", text, sizeof(text))
                           ? strstr(text, "MemAvailable:")
                           : NULL;
    return line && sscanf(line, "MemAvailable: %lld", &kib) == 1 ? kib * 1024 : 0;
}

/* A worker takes a part of what the script takes; all of them half of what is free. */
static int64_t workers_max(const struct tuner *tuner)
{
    int64_t of_one = tuner->original->bytes / 4;
    return of_one > 0 ? memory_available() / 2 / of_one : 0;
}

static enum ks_status search_settings(struct tuner *tuner, struct ks_err *err)
{
    char word[KS_TUNING_NAME_SIZE];
    char epoch[24];
    snprintf(epoch, sizeof(epoch), "%lld", (long long)tuner->original->epoch_steps);
    ks_script_facts_add(&tuner->facts, "epoch_steps", epoch);
    struct ks_search_options options = {.facts = &tuner->facts,
                                        .what = tuner->options->what,
                                        .finding_ids = tuner->advice.ids,
                                        .finding_count = tuner->advice.count,
                                        .workers_max = workers_max(tuner)};
    ks_search_init(&tuner->search, &options);
    list_left(tuner);
    while (tuner->tuning->try_count < KS_TUNING_TRIES_MAX && may_go_on(tuner) &&
           ks_search_next(&tuner->search, &tuner->kept, word)) {
        KS_TRY(try_change(tuner, word, err));
    }
    return KS_OK;
}

/* All that was kept, beside the script as it is. */
static enum ks_status compare_whole(struct tuner *tuner, struct ks_err *err)
{
    struct ks_tuning *tuning = tuner->tuning;
    struct ks_tuning_try *whole = &tuning->whole;
    enum ks_tune_outcome outcome;
    if (strcmp(tuner->kept.text, tuner->base.text) == 0) {
        *whole = tuning->tries[0];
        return KS_OK;
    }
    if (is_cancelled(tuner)) {
        tuning->end = KS_TUNING_INTERRUPTED;
        note_failure(whole, "interrupted");
        return KS_OK;
    }
    *whole = (struct ks_tuning_try){.difference = (double)NAN};
    struct ks_tune_limits limits = limits_of(tuner);
    if (limits.budget_ns < WHOLE_SECONDS_MIN * SECOND_NS) {
        limits.budget_ns =
            WHOLE_SECONDS_MIN * SECOND_NS; /* what all was for, also when time is up */
    }
    limits.precision = WHOLE_PRECISION; /* the number that is told */
    KS_TRY(time_two(tuner, tuner->original, tuner->best, limits, whole, &outcome, err));
    if (outcome != KS_TUNE_TIMED) {
        tuning->end = outcome == KS_TUNE_STOPPED ? KS_TUNING_INTERRUPTED : tuning->end;
        note_failure(whole, outcome == KS_TUNE_FIRST_FAILED    ? tuner->original->reason
                            : outcome == KS_TUNE_SECOND_FAILED ? tuner->best->reason
                                                               : "interrupted");
        return KS_OK;
    }
    judge(tuning, whole, is_whole_right(tuner, whole));
    return KS_OK;
}

static enum ks_status tune(struct tuner *tuner, struct ks_err *err)
{
    KS_TRY(prepare(tuner, err));
    describe(tuner);
    KS_TRY(ks_tune_advice_get(tuner->options, &tuner->advice, err));
    snprintf(tuner->tuning->advice, sizeof(tuner->tuning->advice), "%s", tuner->advice.reason);
    if (tuner->advice.count > 0) {
        say(tuner, "a recorded window shows %s%s%s", tuner->advice.ids[0],
            tuner->advice.count > 1 ? ", " : "",
            tuner->advice.count > 1 ? tuner->advice.ids[1] : "");
    }
    KS_TRY(begin_original(tuner, err));
    KS_TRY(begin_twin(tuner, err));
    KS_TRY(search_settings(tuner, err));
    KS_TRY(compare_whole(tuner, err));
    memcpy(tuner->tuning->setting, tuner->kept.text, sizeof(tuner->kept.text));
    memcpy(tuner->tuning->base, tuner->base.text, sizeof(tuner->base.text));
    return KS_OK;
}

static void release(struct tuner *tuner)
{
    for (size_t i = 0; i < PROCESSES; i++) {
        ks_tune_process_end(&tuner->processes[i]);
    }
    if (tuner->command.socket_dir[0]) {
        (void)rmdir(tuner->command.socket_dir);
    }
    ks_command_line_release(&tuner->command.line);
    ks_free(tuner->command.python_path);
    ks_free(tuner);
}

enum ks_status ks_tune_run(const struct ks_tune_options *options, struct ks_tuning *tuning,
                           struct ks_err *err)
{
    struct tuner *tuner = ks_alloc(1, sizeof(*tuner));
    if (!tuner) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot tune: no memory");
    }
    *tuning = (struct ks_tuning){0};
    tuner->options = options;
    tuner->tuning = tuning;
    tuner->original = &tuner->processes[0];
    tuner->best = &tuner->processes[1];
    tuner->candidate = &tuner->processes[2];
    tuner->room = PROCESSES;
    tuner->began_ns = ks_clock_ns(CLOCK_MONOTONIC);
    uint32_t seconds = options->seconds_max ? options->seconds_max : SECONDS_DEFAULT;
    tuner->deadline_ns = tuner->began_ns + seconds * SECOND_NS;
    enum ks_status status = KS_OK;
    if (options->base) {
        snprintf(tuner->base.text, sizeof(tuner->base.text), "%s", options->base);
        tuner->kept = tuner->base;
    }
    status = tune(tuner, err);
    tuning->processes = tuner->started;
    tuning->seconds = (double)(ks_clock_ns(CLOCK_MONOTONIC) - tuner->began_ns) / 1e9;
    release(tuner);
    return status;
}
