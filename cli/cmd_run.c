/* `kscope run`: records a window of the program's steps, says what it found, ends as it ended.
 *
 * stdout belongs to the program: every word of ours goes to stderr. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <kscope/kscope_tuning.h>

#include "command.h"
#include "launch/launch.h"
#include "launch/out_dir.h"
#include "launch/record.h"
#include "message.h"
#include "run_report.h"

enum { SECONDS_MAX = 86400 };

/* The process that made most steps: its words explain the run. NULL: no process imported torch. */
static const struct ks_run_process *main_process(const struct ks_run_folder *folder)
{
    const struct ks_run_process *most = NULL;
    const struct ks_run_process *process;
    for (size_t i = 0; (process = ks_run_folder_process(folder, i)); i++) {
        most = !most || process->steps_seen > most->steps_seen ? process : most;
    }
    return most;
}

static void explain_no_trace(const struct ks_run_process *process,
                             const struct ks_launch_result *result, const char *record,
                             bool has_said_why)
{
    if (result->signal != 0) {
        ks_cli_say("the program was ended by signal %d (%s)", result->signal,
                   strsignal(result->signal));
    } else if (result->exit_status != 0) {
        ks_cli_say("the program ended with exit status %d", result->exit_status);
    }
    if (process) {
        ks_cli_say("no steps were recorded. %s", process->explanation);
    } else if (!has_said_why && record && ks_launch_record_is_of_all(record)) {
        ks_cli_say("nothing was recorded: no Python process took our start-up hook (python -S, -I "
                   "and -E leave it out)");
    } else if (!has_said_why) {
        ks_cli_say("no steps were recorded: no Python process imported torch with our start-up "
                   "hook (python -S, -I and -E leave it out)");
    } /* else it is no program of torch, and what was recorded all the time, or why not, is said */
}

/* Without a trace it tells nothing that anybody asked for. */
static void remove_monitor(const char *out_dir)
{
    char path[KS_LAUNCH_PATH_SIZE + 16];
    snprintf(path, sizeof(path), "%s/monitor.jsonl", out_dir);
    (void)unlink(path);
}

static void show_folder(const struct ks_run_folder *folder, const char *out_dir,
                        const struct ks_launch_result *result)
{
    const struct ks_run_process *process = main_process(folder);
    bool has_window = ks_run_folder_window(folder, 0);
    if (has_window && process && process->explanation[0]) {
        ks_cli_say("%s", process->explanation);
    }
    if (has_window && result->was_stopped) {
        ks_cli_say("the report is written, so the program was ended (--stop-after)");
    }
    if (!result->is_reported) {
        ks_cli_say("the process that writes the report failed; what was recorded is there");
    }
    ks_cli_say("the report and %s are in %s; look closer with: kscope report %s",
               has_window ? "the trace" : "what was recorded", out_dir, out_dir);
}

/* Of what is recorded all the time, which needs no window. */
static void show_recordings(const char *record, size_t recordings, size_t failed,
                            const char *reason)
{
    if (failed > 0) {
        ks_cli_say("%s%s", reason, failed > 1 ? " (and so in other processes)" : "");
    }
    if (recordings > 0) {
        ks_cli_say("of %zu process%s there %s recorded: %s", recordings,
                   recordings == 1 ? "" : "es", recordings == 1 ? "is" : "are", record);
    }
}

static void show_result(const struct ks_cli_args *args, const char *out_dir,
                        const struct ks_launch_result *result)
{
    struct ks_err err = {0};
    struct ks_run_folder *folder = NULL;
    const char *record = ks_cli_value(args, "record");
    size_t recordings = record ? ks_launch_record_count(out_dir) : 0;
    if (ks_run_folder_open(out_dir, &folder, &err) != KS_OK) {
        ks_cli_say("%s", err.message);
        return;
    }
    char reason[KS_ERR_MESSAGE_SIZE];
    size_t failed = record ? ks_launch_record_reason(out_dir, reason, sizeof(reason)) : 0;
    bool has_window = ks_run_folder_window(folder, 0);
    if (!has_window) {
        explain_no_trace(main_process(folder), result, record, recordings > 0 || failed > 0);
    }
    if (record) {
        show_recordings(record, recordings, failed, reason);
    }
    if (has_window || recordings > 0) {
        show_folder(folder, out_dir, result);
    }
    ks_run_folder_close(folder);
    if (!has_window && recordings == 0 && !ks_cli_given(args, "out")) {
        remove_monitor(out_dir);
        (void)rmdir(out_dir); /* stays when it holds something */
    }
}

/* Ends us as the program ended, so that shells and schedulers see what they would without us. */
static int end_as(const struct ks_launch_result *result)
{
    if (result->signal != 0) {
        struct rlimit no_core = {0};
        sigset_t only;
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)prctl(PR_SET_DUMPABLE, 0);
        (void)signal(result->signal, SIG_DFL);
        sigemptyset(&only);
        sigaddset(&only, result->signal);
        sigprocmask(SIG_UNBLOCK, &only, NULL);
        (void)raise(result->signal);
    }
    return result->exit_status;
}

static int read_window(const struct ks_cli_args *args, struct ks_launch_options *options)
{
    struct ks_err err = {0};
    int64_t seconds = 0;
    const char *steps = ks_cli_value(args, "steps");
    if (steps && ks_launch_window_parse(steps, &options->window, &err) != KS_OK) {
        return ks_cli_usage_fail(args, "%s", err.message);
    }
    int status = ks_cli_number(args, "max-seconds", 1, SECONDS_MAX, &seconds);
    if (status == KS_EXIT_OK) {
        status = ks_cli_size(args, "max-trace", &options->window_bytes);
    }
    options->window_seconds = (uint32_t)seconds;
    return status;
}

static int read_options(const struct ks_cli_args *args, struct ks_launch_options *options,
                        char setting[KS_TUNING_SETTING_SIZE])
{
    options->words = (const char *const *)args->operands;
    options->word_count = args->operand_count;
    options->window = KS_LAUNCH_WINDOW_DEFAULT;
    options->without_stacks = ks_cli_given(args, "no-stacks");
    options->stop_after = ks_cli_given(args, "stop-after");
    options->step_mark = ks_cli_value(args, "step-mark");
    options->record = ks_cli_value(args, "record");
    struct ks_err wrong = {.offset = KS_NO_OFFSET};
    const char *tuned = ks_cli_value(args, "tuned");
    if (tuned && ks_tuning_read_apply(tuned, setting, &wrong) != KS_OK) {
        return ks_cli_fail(args, &wrong, tuned);
    }
    options->tuned = tuned ? setting : NULL;
    int status = read_window(args, options);
    if (status != KS_EXIT_OK) {
        return status;
    }
    if (options->step_mark && !options->step_mark[0]) {
        return ks_cli_usage_fail(args, "Cannot use --step-mark: the name is empty");
    }
    struct ks_err err = {0};
    if (options->record && ks_launch_record_check(options->record, &err) != KS_OK) {
        return ks_cli_usage_fail(args, "Cannot use --record: %s", err.message);
    }
    if (options->stop_after && options->window.repeat_count == 0) {
        return ks_cli_usage_fail(args, "Cannot use --stop-after with windows for ever (--steps %s)",
                                 ks_cli_value(args, "steps"));
    }
    return KS_EXIT_OK;
}

static int run(const struct ks_cli_args *args)
{
    struct ks_err err = {0};
    struct ks_launch_result result;
    char out_dir[KS_LAUNCH_PATH_SIZE];
    bool is_out_new = false;
    const char *wish = ks_cli_value(args, "out");
    struct ks_run_report report = {.args = args, .out_dir = out_dir};
    struct ks_launch_options options = {
        .out_dir = out_dir, .report = ks_run_report_write, .report_user = &report};

    char setting[KS_TUNING_SETTING_SIZE];
    int wrong = read_options(args, &options, setting);
    if (wrong != KS_EXIT_OK) {
        return wrong;
    }
    report.keeps_windows = options.window.repeat_count != 1;
    if (ks_out_dir_create(wish, options.words, options.word_count, out_dir, &is_out_new, &err) !=
        KS_OK) {
        ks_cli_say("%s", err.message);
        return KS_EXIT_OWN;
    }
    if (wish && strncmp(wish, out_dir, strlen(out_dir)) != 0) {
        ks_cli_say("%s holds files already; this run goes to %s", wish, out_dir);
    }
    enum ks_status status = ks_launch_run(&options, &result, &err);
    /* From here on nobody may read us any more, and the exit status is still the program's. */
    (void)signal(SIGPIPE, SIG_IGN);
    if (is_out_new && (status != KS_OK || result.start_errno != 0)) {
        (void)rmdir(out_dir); /* stays when it holds something */
    }
    if (status != KS_OK) {
        ks_cli_say("%s", err.message);
        return KS_EXIT_OWN;
    }
    if (result.start_errno != 0) {
        ks_cli_say("Cannot start %s: %s", args->operands[0], strerror(result.start_errno));
        return result.exit_status;
    }
    show_result(args, out_dir, &result);
    return result.was_stopped ? KS_EXIT_OK : end_as(&result);
}

static const struct ks_cli_option run_options[] = {
    {"steps", 0, "W:U:A[:R]", NULL,
     "Let W steps run free, then record U steps for warm-up and A steps to keep; R times in all, 0 "
     "for ever. auto, the default: as soon as steps take equally long."},
    {"max-seconds", 0, "N", NULL, "End a window after N seconds (default 60)."},
    {"max-trace", 0, "SIZE", NULL,
     "End a window before the text of its trace gets larger than SIZE (512M, 2G; default 1G)."},
    {"step-mark", 0, "NAME", NULL,
     "The region of this name (record_function) is a step; else steps are found."},
    {"record", 0, "WHAT", NULL,
     "Record the whole run, too, in all its Python processes: regions that the program labels by "
     "kinetoscope.profile_operation, functions (every call is counted and timed), samples (stacks "
     "of all threads, 100 times a second), monitor (what process, container, machine and GPUs are "
     "at, 10 times a second); several with commas."},
    {"tuned", 0, "FILE", NULL,
     "Apply the setting in FILE, as kscope tune writes it (tuned.conf), to the program."},
    {"no-stacks", 0, NULL, NULL, "Leave out the extra step that is recorded with Python stacks."},
    {"stop-after", 0, NULL, NULL, "End the program when its report is written; exit status 0."},
    {"out", 'o', "DIR", NULL,
     "Folder for the trace; a fresh name is taken when it holds files already."},
    KS_CLI_OPTION_COLOR,
    {0},
};

static const struct ks_cli_example run_examples[] = {
    {"run train.py --epochs 1", "record a few steps of a training script"},
    {"run --stop-after train.py", "a report in a minute or two, and no more of the run"},
    {"run --steps 20:2:10 --out trace -m package.train", "ten steps after twenty-two, a module"},
    {"run --record functions,samples serve.py", "where the time of any Python program goes"},
    {"run -- torchrun --nproc_per_node=2 train.py", "any command that starts Python"},
    {0},
};

const struct ks_cli_command ks_cmd_run;
const struct ks_cli_command ks_cmd_run = {
    .name = "run",
    .summary = "Run a program, record some of its steps and say what makes them slow",
    .operands = "PROGRAM [ARGUMENT...]",
    .operands_min = 1,
    .operands_max = SIZE_MAX,
    .details =
        "A first word that ends in .py, or is -m or -c, is given to Python ($KSCOPE_PYTHON, else "
        "the active virtual environment's, else python3 on PATH). Anything else is executed as it "
        "is. The program is not changed: its steps are found by the steps of its optimizer.\n\n"
        "When a window of steps is recorded, a process beside the program writes report.txt and "
        "report.json into DIR and shows the verdict on standard error, while the program goes "
        "on.\n\n"
        "The exit status is the program's own, also when a signal ended it; 127 and 126 when it "
        "could not be started, 125 when we failed before it could.",
    .examples = run_examples,
    .options = run_options,
    .takes_program = true,
    .run = run,
};
