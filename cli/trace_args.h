/* Values of options and operands that several commands about traces take. */
#ifndef KS_CLI_TRACE_ARGS_H
#define KS_CLI_TRACE_ARGS_H

#include "command.h"

/* Reads "3", "3..7", "3-7", "..7" or "3.."; `option` may be not given. Each
 * gives KS_EXIT_OK, or the exit status after a message. */
int ks_cli_read_steps(const struct ks_cli_args *args, const char *option,
                      struct ks_report_options *options) KS_MUST_CHECK;
/* Nobody types a trace: none of the first `count` operands may be a keyboard. */
int ks_cli_check_keyboard(const struct ks_cli_args *args, size_t count) KS_MUST_CHECK;
/* Takes the first `count` operands as paths, none of which may be a keyboard. */
int ks_cli_read_paths(const struct ks_cli_args *args, size_t count,
                      struct ks_report_options *options) KS_MUST_CHECK;
/* Reads what all commands that open a report have: --strict, --verbose, --run, --window, --memory,
 * --cache and --no-cache. */
int ks_cli_read_report(const struct ks_cli_args *args, struct ks_report_options *options)
    KS_MUST_CHECK;
/* Opens it; signals are watched, and progress is shown from here on until ks_cli_progress_stop. */
int ks_cli_open_report(const struct ks_cli_args *args, struct ks_report_options *options,
                       struct ks_report **report) KS_MUST_CHECK;
/* What is written must be none of the inputs: they would be gone when it is renamed. `target` may
 * be NULL or "-". */
int ks_cli_check_file(const struct ks_cli_args *args, const char *target) KS_MUST_CHECK;
/* The same for --output. */
int ks_cli_check_target(const struct ks_cli_args *args) KS_MUST_CHECK;
/* The same for a file that is there already in one of the folders: it may be one of its traces. */
int ks_cli_check_target_in_folders(const struct ks_cli_args *args) KS_MUST_CHECK;
/* Milliseconds as a decimal number without sign, up to the character `end`, as ns. */
bool ks_cli_parse_ms(const char *text, char end, int64_t *ns);
/* Does the name of --output end in .gz? */
bool ks_cli_wants_gzip(const struct ks_cli_args *args);

#endif
