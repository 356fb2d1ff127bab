/* Messages of the command line: one line on stderr, `kscope: <what>`; with --json also the one
 * document {schema, error} on stdout. */
#ifndef KS_CLI_MESSAGE_H
#define KS_CLI_MESSAGE_H

#include "command.h"

/* Writes "kscope: ..." and a line feed to stderr; control characters become '?'. */
void ks_cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same with a command line that a shell understands, however long: `words`, then `more`. */
void ks_cli_say_command(const char *before, const char *const *words, size_t word_count,
                        const char *const *more, size_t more_count);

/* The command line is wrong: says why and how to get help. Gives KS_EXIT_USAGE. `args` may be NULL
 * before a command is known. */
int ks_cli_usage_fail(const struct ks_cli_args *args, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A library call failed. `where`: the path as the user gave it, or NULL. Gives the exit status. */
int ks_cli_fail(const struct ks_cli_args *args, const struct ks_err *failure, const char *where);

/* Makes the two above write a JSON document too, before the options are parsed. */
void ks_cli_message_json(bool on);

/* A ks_log_cb: writes errors and warnings to stderr, and all lines when the bool that `user` points
 * to is true. */
void ks_cli_log(void *user, enum ks_log_level level, const char *domain, const char *text);

#endif
