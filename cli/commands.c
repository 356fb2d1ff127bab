#include "command.h"

extern const struct ks_cli_command ks_cmd_completion, ks_cmd_convert, ks_cmd_diff, ks_cmd_doctor,
    ks_cmd_explain, ks_cmd_export, ks_cmd_help, ks_cmd_info, ks_cmd_live, ks_cmd_memory,
    ks_cmd_query, ks_cmd_report, ks_cmd_run, ks_cmd_tune, ks_cmd_version, ks_cmd_view;

/* A command is listed when it works, in the order in which people meet them. */
const struct ks_cli_command *const ks_cli_commands[] = {
    &ks_cmd_run,     &ks_cmd_live,   &ks_cmd_report,  &ks_cmd_view,       &ks_cmd_diff,
    &ks_cmd_tune,    &ks_cmd_memory, &ks_cmd_explain, &ks_cmd_query,      &ks_cmd_export,
    &ks_cmd_convert, &ks_cmd_info,   &ks_cmd_doctor,  &ks_cmd_completion, &ks_cmd_help,
    &ks_cmd_version, NULL,
};
