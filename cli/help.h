/* Help, manual page and docs/cli.md, all written from the table of commands. */
#ifndef KS_CLI_HELP_H
#define KS_CLI_HELP_H

#include "output.h"

/* printf into an output; lines longer than 4 KiB are cut. */
void ks_cli_print(struct ks_cli_output *output, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What `kscope --help` shows. */
void ks_cli_help_write(struct ks_cli_output *output);
/* What `kscope COMMAND --help` shows; `is_full`: with examples first, details and exit codes. */
void ks_cli_help_write_command(struct ks_cli_output *output, const struct ks_cli_command *command,
                               bool is_full);
/* The manual page kscope.1. */
void ks_cli_help_write_man(struct ks_cli_output *output);
/* docs/cli.md. */
void ks_cli_help_write_markdown(struct ks_cli_output *output);

#endif
