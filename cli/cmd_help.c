#include "help.h"
#include "message.h"

static struct ks_cli_output output;

static int run(const struct ks_cli_args *args)
{
    const struct ks_cli_command *command = NULL;
    if (args->operand_count > 0) {
        command = ks_cli_command_find(args->operands[0]);
        if (!command) {
            const char *names[64] = {0};
            for (size_t i = 0; ks_cli_commands[i] && i < 63; i++) {
                names[i] = ks_cli_commands[i]->name;
            }
            const char *near = ks_cli_nearest(args->operands[0], names);
            return ks_cli_usage_fail(args, "Cannot find command %s%s%s%s", args->operands[0],
                                     near ? ": did you mean " : "", near ? near : "",
                                     near ? "?" : "");
        }
    }
    int status = ks_cli_output_open(args, NULL, &output);
    if (status != KS_EXIT_OK) {
        return status;
    }
    if (ks_cli_given(args, "man")) {
        ks_cli_help_write_man(&output);
    } else if (ks_cli_given(args, "markdown")) {
        ks_cli_help_write_markdown(&output);
    } else if (command) {
        ks_cli_help_write_command(&output, command, true);
    } else {
        ks_cli_help_write(&output);
    }
    return ks_cli_output_close(args, &output, KS_OK, NULL);
}

const struct ks_cli_command ks_cmd_help = {
    .name = "help",
    .summary = "Show help of a command, or the whole manual page.",
    .operands = "[COMMAND]",
    .operands_max = 1,
    .operand_choices = "@commands",
    .examples =
        (const struct ks_cli_example[]){
            {"help report", "All options of report; the same as kscope report --help."},
            {NULL, NULL},
        },
    .options =
        (const struct ks_cli_option[]){
            {"man", 0, NULL, NULL, "Write the manual page, for man -l."},
            {"markdown", 0, NULL, NULL, "Write the page docs/cli.md."},
            {NULL, 0, NULL, NULL, NULL},
        },
    .run = run,
};
