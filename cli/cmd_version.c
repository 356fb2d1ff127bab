#include "message.h"
#include "output.h"

static struct ks_cli_output output;

static int run(const struct ks_cli_args *args)
{
    int status = ks_cli_output_open(args, NULL, &output);
    if (status != KS_EXIT_OK) {
        return status;
    }
    struct ks_err err = {.offset = KS_NO_OFFSET};
    enum ks_status written =
        ks_version_write(ks_cli_given(args, "json"), ks_cli_output_write, &output, &err);
    return ks_cli_output_close(args, &output, written, &err);
}

const struct ks_cli_command ks_cmd_version = {
    .name = "version",
    .summary = "Show the version; with --json also compiler, build flags and libraries.",
    .examples =
        (const struct ks_cli_example[]){
            {"version --json", "What to add to a bug report."},
            {NULL, NULL},
        },
    .options =
        (const struct ks_cli_option[]){
            KS_CLI_OPTION_JSON,
            {NULL, 0, NULL, NULL, NULL},
        },
    .run = run,
};
