#include "interrupt.h"
#include "message.h"
#include "output.h"
#include "progress_line.h"
#include "trace_args.h"

static struct ks_cli_output output;

static int run(const struct ks_cli_args *args)
{
    bool is_verbose = ks_cli_given(args, "verbose");
    struct ks_report_options options = {
        .strict = ks_cli_given(args, "strict"),
        .log = ks_cli_log,
        .log_user = &is_verbose,
    };
    int status = ks_cli_read_paths(args, args->operand_count, &options);
    if (status == KS_EXIT_OK) {
        status = ks_cli_threads(args, &options.threads);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_output_open(args, NULL, &output);
    }
    if (status != KS_EXIT_OK) {
        return status;
    }
    struct ks_err err = {.offset = KS_NO_OFFSET};
    ks_cli_interrupt_watch();
    options.progress = ks_cli_progress_start(args);
    enum ks_status written =
        ks_info_write(&options, ks_cli_given(args, "json"), ks_cli_output_write, &output, &err);
    ks_cli_progress_stop();
    return ks_cli_output_close(args, &output, written, &err);
}

const struct ks_cli_command ks_cmd_info = {
    .name = "info",
    .summary = "Show what a file is: format, switches of the recording, counters of what was "
               "repaired or dropped.",
    .operands = "PATH...",
    .operands_min = 1,
    .operands_max = SIZE_MAX,
    .details = "The first thing to ask for in a bug report. A folder stands for all traces in it.",
    .examples =
        (const struct ks_cli_example[]){
            {"info trace.json.gz", "Format, versions, ranks, and every non-zero counter."},
            {NULL, NULL},
        },
    .options =
        (const struct ks_cli_option[]){
            KS_CLI_OPTION_JSON,
            KS_CLI_OPTION_STRICT,
            KS_CLI_OPTION_THREADS,
            KS_CLI_OPTION_QUIET,
            KS_CLI_OPTION_VERBOSE,
            {NULL, 0, NULL, NULL, NULL},
        },
    .run = run,
};
