/* `kscope tune`: tries settings of a script beside each other, and says which ones help.
 *
 * The script's own output goes to files: stdout is the result's. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "interrupt.h"
#include "launch/out_dir.h"
#include "launch/tune.h"
#include "message.h"
#include "output.h"

enum { SECONDS_MAX = 86400 };

static struct ks_tuning tuning;
static struct ks_cli_output output;

static void say(void *user, const char *line)
{
    const struct ks_cli_args *args = user;
    if (!ks_cli_given(args, "quiet")) {
        ks_cli_say("%s", line);
    }
}

/* One of the files of the folder, whole or not at all. */
static int write_file(const struct ks_cli_args *args, const char *out_dir, const char *name,
                      enum ks_tuning_format format)
{
    char path[KS_LAUNCH_PATH_SIZE + 64];
    struct ks_err err = {.offset = KS_NO_OFFSET};
    struct ks_tuning_style style = {.format = format, .ascii = !ks_cli_utf8()};
    snprintf(path, sizeof(path), "%s/%s", out_dir, name);
    int status = ks_cli_output_open(args, path, &output);
    if (status == KS_EXIT_OK) {
        enum ks_status written =
            ks_tuning_write(&tuning, &style, ks_cli_output_write, &output, &err);
        status = ks_cli_output_close(args, &output, written, &err);
    }
    return status;
}

static void say_command(const struct ks_cli_args *args, const char *out_dir)
{
    char path[KS_LAUNCH_PATH_SIZE + 64];
    const char *const words[] = {"kscope", "run", "--tuned", path};
    snprintf(path, sizeof(path), "%s/tuned.conf", out_dir);
    ks_cli_say_command("to run with it:", words, sizeof(words) / sizeof(words[0]),
                       (const char *const *)args->operands, args->operand_count);
}

static int write_result(const struct ks_cli_args *args, const char *out_dir)
{
    struct ks_err err = {.offset = KS_NO_OFFSET};
    struct ks_tuning_style style = {
        .format = ks_cli_given(args, "json") ? KS_TUNING_JSON : KS_TUNING_SCREEN,
        .colour = ks_cli_colour(ks_cli_value(args, "color"), STDOUT_FILENO),
        .ascii = !ks_cli_utf8(),
        .width = ks_cli_width(STDOUT_FILENO),
    };
    int status = write_file(args, out_dir, "tune.json", KS_TUNING_JSON);
    if (status == KS_EXIT_OK) {
        status = write_file(args, out_dir, "tuned.conf", KS_TUNING_APPLY);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_output_open(args, NULL, &output);
    }
    if (status == KS_EXIT_OK) {
        enum ks_status written =
            ks_tuning_write(&tuning, &style, ks_cli_output_write, &output, &err);
        status = ks_cli_output_close(args, &output, written, &err);
    }
    if (status == KS_EXIT_OK && !ks_cli_given(args, "quiet")) {
        if (strcmp(ks_tuning_proven(&tuning), tuning.base) != 0) {
            say_command(args, out_dir);
        }
        ks_cli_say("what the script printed, and all numbers, are in %s", out_dir);
    }
    return status;
}

static int read_options(const struct ks_cli_args *args, struct ks_tune_options *options,
                        char base[KS_TUNING_SETTING_SIZE])
{
    struct ks_err err = {.offset = KS_NO_OFFSET};
    int64_t seconds = 0;
    int status = ks_cli_number(args, "max-seconds", 1, SECONDS_MAX, &seconds);
    const char *tuned = ks_cli_value(args, "tuned");
    if (status == KS_EXIT_OK && tuned) {
        if (ks_tuning_read_apply(tuned, base, &err) != KS_OK) {
            return ks_cli_fail(args, &err, tuned);
        }
        options->base = base;
    }
    options->words = (const char *const *)args->operands;
    options->word_count = args->operand_count;
    options->what = ks_cli_value(args, "what");
    options->step_mark = ks_cli_value(args, "step-mark");
    options->seconds_max = (uint32_t)seconds;
    options->without_advice = ks_cli_given(args, "no-advice");
    options->say = say;
    options->is_cancelled = ks_cli_is_interrupted;
    options->user = (void *)(uintptr_t)args;
    return status;
}

static int run(const struct ks_cli_args *args)
{
    struct ks_err err = {.offset = KS_NO_OFFSET};
    char out_dir[KS_LAUNCH_PATH_SIZE];
    char base[KS_TUNING_SETTING_SIZE];
    bool is_out_new = false;
    struct ks_tune_options options = {.out_dir = out_dir};
    int status = read_options(args, &options, base);
    if (status != KS_EXIT_OK) {
        return status;
    }
    if (ks_out_dir_create(ks_cli_value(args, "out"), options.words, options.word_count, out_dir,
                          &is_out_new, &err) != KS_OK) {
        return ks_cli_fail(args, &err, NULL);
    }
    ks_cli_interrupt_watch();
    ks_cli_interrupt_ask_first("kscope: interrupted before the processes of the script ended\n");
    enum ks_status tuned = ks_tune_run(&options, &tuning, &err);
    if (tuned != KS_OK) {
        if (is_out_new) {
            (void)rmdir(out_dir); /* stays when it holds something */
        }
        status = ks_cli_fail(args, &err, NULL);
    } else {
        status = write_result(args, out_dir);
    }
    ks_cli_interrupt_finish();
    return status;
}

static const struct ks_cli_option tune_options[] = {
    {"what", 0, "LIST", NULL,
     "Try only these, with commas between them: dataloader, precision, compile, layout, optimizer, "
     "attention, cudnn, threads, entry, batch (which all others leave as it is); or one value, as "
     "in workers=8 or precision=fp16; none compares the script with itself."},
    {"max-seconds", 0, "N", NULL, "Try nothing new after N seconds (default 600)."},
    {"tuned", 0, "FILE", NULL,
     "Begin with the setting in FILE (tuned.conf of an earlier run), and measure against it."},
    {"no-advice", 0, NULL, NULL,
     "Do not record a window first, whose findings say what is tried first."},
    {"step-mark", 0, "NAME", NULL,
     "The region of this name (record_function) is a step; else steps are found."},
    {"out", 'o', "DIR", NULL,
     "Folder for the result; a fresh name is taken when it holds files already."},
    KS_CLI_OPTION_JSON,
    KS_CLI_OPTION_COLOR,
    KS_CLI_OPTION_QUIET,
    {0},
};

static const struct ks_cli_example tune_examples[] = {
    {"tune train.py --epochs 1", "try all that may help"},
    {"tune --what dataloader train.py", "workers, prefetching and pinned memory alone"},
    {"tune --what precision=bf16,compile --max-seconds 120 train.py", "two changes, two minutes"},
    {"run --tuned kscope-train-20260101-1/tuned.conf train.py", "run with what was found"},
    {0},
};

const struct ks_cli_command ks_cmd_tune;
const struct ks_cli_command ks_cmd_tune = {
    .name = "tune",
    .summary = "Try settings of a script and keep what makes it faster with the same results",
    .operands = "SCRIPT [ARGUMENT...]",
    .operands_min = 1,
    .operands_max = SIZE_MAX,
    .details =
        "The script is started several times, unchanged, with the same seeds: as it is, and once "
        "for each setting. Two of these processes are timed in turn, a few steps each, until it is "
        "clear which is faster. A setting is kept when it is, and when losses and gradients stay "
        "what they were, as far as the setting may change them (docs/tuning.md says how far).\n\n"
        "All processes run in the current folder and are ended when they have told enough: what a "
        "script writes on its way, it writes several times. Its output goes to DIR/*.log, the "
        "result to DIR/tune.json and DIR/tuned.conf.\n\n"
        "The exit status is 0 when the script could be tuned, also when nothing helped; 3 when it "
        "could not, with the reason; 130 after Ctrl-C, when what is known is still written.",
    .examples = tune_examples,
    .options = tune_options,
    .takes_program = true,
    .run = run,
};
