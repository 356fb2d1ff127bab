#include <string.h>
#include <unistd.h>

#include "interrupt.h"
#include "message.h"
#include "output.h"
#include "progress_line.h"
#include "trace_args.h"

static struct ks_cli_output output;

/* The text may go to the terminal where the line would stand. */
static struct ks_progress *show_progress(const struct ks_cli_args *args)
{
    const char *target = ks_cli_value(args, "output");
    bool is_file = target && strcmp(target, "-") != 0;
    return is_file || !isatty(STDOUT_FILENO) ? ks_cli_progress_start(args) : NULL;
}

static int run(const struct ks_cli_args *args)
{
    bool is_verbose = ks_cli_given(args, "verbose");
    struct ks_convert_options options = {
        .path = args->operands[0],
        .strict = ks_cli_given(args, "strict"),
        .keep_categories = ks_cli_value(args, "category"),
        .drop_categories = ks_cli_value(args, "drop"),
        .drop_args = ks_cli_given(args, "drop-args"),
        .anonymize = ks_cli_given(args, "anonymize"),
        .gzip = ks_cli_wants_gzip(args),
        .log = ks_cli_log,
        .log_user = &is_verbose,
    };
    int status = ks_cli_check_keyboard(args, args->operand_count);
    if (status == KS_EXIT_OK) {
        status = ks_cli_check_target(args);
    }
    ks_cli_interrupt_watch();
    if (status == KS_EXIT_OK) {
        status = ks_cli_output_open(args, ks_cli_value(args, "output"), &output);
    }
    if (status != KS_EXIT_OK) {
        return status;
    }
    options.progress = show_progress(args);
    struct ks_err err = {.offset = KS_NO_OFFSET};
    enum ks_status written = ks_convert_write(&options, ks_cli_output_write, &output, &err);
    ks_cli_progress_stop();
    return ks_cli_output_close(args, &output, written, &err);
}

const struct ks_cli_command ks_cmd_convert = {
    .name = "convert",
    .summary = "Make a trace smaller, or fit to be shown to others.",
    .operands = "PATH",
    .operands_min = 1,
    .operands_max = 1,
    .details =
        "PATH is one trace of torch.profiler, plain or compressed, or - for standard input. The "
        "result is such a trace again; what is kept keeps its text, unknown arguments "
        "included.\n\n"
        "--anonymize replaces paths, names of functions, modules, annotations, groups, threads and "
        "unknown operators and kernels by neutral words, the same word for the same name. Numbers, "
        "torch's own operators and known kernels stay. Values of keys that are not known are left "
        "out and counted. Look at the result before you give it away.\n\n"
        "A file appears whole or not at all, also after Ctrl-C or on a full disk.",
    .examples =
        (const struct ks_cli_example[]){
            {"convert --drop python_function --drop-args -o small.json.gz trace.json",
             "Without Python frames and shapes, compressed."},
            {"convert --anonymize -o public.json.gz trace.json.gz",
             "Without names of files, functions and people."},
            {NULL, NULL},
        },
    .options =
        (const struct ks_cli_option[]){
            {"output", 'o', "FILE", NULL,
             "Write to FILE, whole or not at all, compressed if it ends in .gz; - is standard "
             "output."},
            {"drop", 0, "LIST", NULL, "Leave out events of these categories (python_function)."},
            {"category", 0, "LIST", NULL, "Keep only events of these categories."},
            {"drop-args", 0, NULL, NULL,
             "Leave out arguments that no analysis but shapes and FLOPs needs."},
            {"anonymize", 0, NULL, NULL, "Replace names that are not known to be public."},
            KS_CLI_OPTION_STRICT,
            KS_CLI_OPTION_QUIET,
            KS_CLI_OPTION_VERBOSE,
            {NULL, 0, NULL, NULL, NULL},
        },
    .run = run,
};
