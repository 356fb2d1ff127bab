/* `kscope run`: records a window of the program's steps, says what it found, ends as it ended.
 *
 * stdout belongs to the program: every word of ours goes to stderr. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "command.h"
#include "launch/launch.h"
#include "launch/out_dir.h"
#include "launch/run_summary.h"
#include "message.h"
#include "output.h"

static bool write_stderr(void *user, const char *bytes, size_t size)
{
    (void)user;
    return fwrite(bytes, 1, size, stderr) == size;
}

/* The verdict on one screen. A trace that cannot be analysed is said, and changes nothing else. */
static void show_verdict(const struct ks_cli_args *args, const char *out_dir)
{
    struct ks_err err = {0};
    struct ks_report *report = NULL;
    struct ks_report_options options = {.paths = &out_dir, .path_count = 1};
    struct ks_report_style style = {
        .format = KS_REPORT_SCREEN,
        .colour = ks_cli_colour(ks_cli_value(args, "color"), STDERR_FILENO),
        .ascii = !ks_cli_utf8(),
        .width = ks_cli_width(STDERR_FILENO),
    };
    enum ks_status status = ks_report_open(&options, &report, &err);
    if (status == KS_OK) {
        status = ks_report_write(report, &style, write_stderr, NULL, &err);
        ks_report_close(report);
    }
    if (status != KS_OK) {
        ks_cli_say("%s: %s", out_dir, err.message);
    }
}

static void explain_no_trace(const struct ks_run_summary *summary,
                             const struct ks_launch_result *result)
{
    if (result->signal != 0) {
        ks_cli_say("the program was ended by signal %d (%s)", result->signal,
                   strsignal(result->signal));
    } else if (result->exit_status != 0) {
        ks_cli_say("the program ended with exit status %d", result->exit_status);
    }
    if (summary->process_count == 0) {
        ks_cli_say("no steps were recorded: no Python process imported torch with our start-up "
                   "hook (python -S, -I and -E leave it out)");
    } else {
        ks_cli_say("no steps were recorded. %s", summary->explanation);
    }
}

static void show_result(const struct ks_cli_args *args, const char *out_dir,
                        const struct ks_launch_result *result)
{
    struct ks_err err = {0};
    struct ks_run_summary summary;
    if (ks_run_summary_read(out_dir, &summary, &err) != KS_OK) {
        ks_cli_say("%s", err.message);
        return;
    }
    if (summary.trace_count == 0) {
        explain_no_trace(&summary, result);
        if (!ks_cli_given(args, "out")) {
            (void)rmdir(out_dir); /* stays when it holds something */
        }
        return;
    }
    show_verdict(args, out_dir);
    if (summary.explanation[0]) {
        ks_cli_say("%s", summary.explanation);
    }
    ks_cli_say("the trace is in %s; look closer with: kscope report %s", out_dir, out_dir);
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

static int run(const struct ks_cli_args *args)
{
    struct ks_err err = {0};
    struct ks_launch_result result;
    char out_dir[KS_LAUNCH_PATH_SIZE];
    bool is_out_new = false;
    const char *steps = ks_cli_value(args, "steps");
    const char *wish = ks_cli_value(args, "out");
    struct ks_launch_options options = {
        .words = (const char *const *)args->operands,
        .word_count = args->operand_count,
        .out_dir = out_dir,
        .window = KS_LAUNCH_WINDOW_DEFAULT,
    };

    if (steps && ks_launch_window_parse(steps, &options.window, &err) != KS_OK) {
        return ks_cli_usage_fail(args, "%s", err.message);
    }
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
    return end_as(&result);
}

static const struct ks_cli_option run_options[] = {
    {"steps", 0, "W:U:A", NULL,
     "Let W steps run free, then record U steps for warm-up and A steps to keep (default 5:1:6)."},
    {"out", 'o', "DIR", NULL,
     "Folder for the trace; a fresh name is taken when it holds files already."},
    KS_CLI_OPTION_COLOR,
    {0},
};

static const struct ks_cli_example run_examples[] = {
    {"run train.py --epochs 1", "record a few steps of a training script"},
    {"run --steps 20:2:10 --out trace -m package.train", "ten steps after twenty-two, a module"},
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
        "The exit status is the program's own, also when a signal ended it; 127 and 126 when it "
        "could not be started, 125 when we failed before it could.",
    .examples = run_examples,
    .options = run_options,
    .takes_program = true,
    .run = run,
};
