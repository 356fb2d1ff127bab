/* kscope: finds the command and lets it run. Nothing else prints or exits. */
#include <string.h>
#include <unistd.h>

#include "help.h"
#include "interrupt.h"
#include "message.h"

static struct ks_cli_output output;

static int write_help(const struct ks_cli_command *command, bool is_full)
{
    int status = ks_cli_output_open(NULL, NULL, &output);
    if (status != KS_EXIT_OK) {
        return status;
    }
    if (command) {
        ks_cli_help_write_command(&output, command, is_full);
    } else {
        ks_cli_help_write(&output);
    }
    return ks_cli_output_close(NULL, &output, KS_OK, NULL);
}

static int write_version(void)
{
    struct ks_err err = {.offset = KS_NO_OFFSET};
    int status = ks_cli_output_open(NULL, NULL, &output);
    if (status != KS_EXIT_OK) {
        return status;
    }
    enum ks_status written = ks_version_write(false, ks_cli_output_write, &output, &err);
    return ks_cli_output_close(NULL, &output, written, &err);
}

static int refuse_unknown_command(const char *word)
{
    const char *names[64] = {0};
    for (size_t i = 0; ks_cli_commands[i] && i + 1 < sizeof(names) / sizeof(names[0]); i++) {
        names[i] = ks_cli_commands[i]->name;
    }
    const char *near = ks_cli_nearest(word, names);
    if (near) {
        return ks_cli_usage_fail(NULL, "Cannot find command %s: did you mean %s?", word, near);
    }
    return ks_cli_usage_fail(NULL, "Cannot find command %s", word);
}

/* --json counts from the first word on, so that a mistake in the others is reported as JSON too;
 * not behind "--", and not among the words of another program. */
static bool wants_json(const struct ks_cli_command *command, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (command && command->takes_program && argv[i][0] != '-') {
            return false;
        }
        if (strcmp(argv[i], "--json") == 0) {
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        output.fd = STDERR_FILENO;
        ks_cli_help_write(&output);
        (void)ks_cli_output_flush(&output);
        return KS_EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        return write_help(NULL, true);
    }
    const struct ks_cli_command *command = ks_cli_command_find(word);
    ks_cli_message_json(wants_json(command, argc, argv));
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        if (argc == 2) {
            return write_version();
        }
        command = ks_cli_command_find("version"); /* --version --json */
    }
    if (!command) {
        return refuse_unknown_command(word);
    }

    struct ks_cli_args args;
    char wants_help = 0;
    int status = ks_cli_parse(command, argc - 1, argv + 1, &args, &wants_help);
    if (status != KS_EXIT_OK) {
        return status;
    }
    if (wants_help) {
        return write_help(command, wants_help == 'H');
    }
    status = command->run(&args);
    ks_cli_interrupt_finish();
    return status;
}
