#include "help.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 80, OPTION_COLUMN = 26, PRINT_SIZE_MAX = 4096 };

struct pair {
    const char *name;
    const char *text;
};

static const struct pair exit_codes[] = {
    {"0", "Fine."},
    {"1", "A finding at or above --fail-on."},
    {"2", "The command line is wrong."},
    {"3", "Input is unreadable or unsafe, or damaged and --strict was given."},
    {"125", "A failure of our own: out of memory, or the output cannot be written."},
    {"130", "Interrupted: ended by the signal, as a shell shows it."},
    {"141", "Nobody reads the output any more."},
};

static const struct pair environment[] = {
    {"NO_COLOR", "When not empty: no colours, whatever else is set."},
    {"FORCE_COLOR, CLICOLOR_FORCE", "When neither empty nor 0: colours, also into files."},
    {"TERM", "dumb: no colours."},
    {"LC_ALL, LC_CTYPE, LANG", "Bars use block characters when the locale is a UTF-8 one."},
    {"TMPDIR", "Where tables larger than memory and piped input are kept; else /tmp."},
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

void ks_cli_print(struct ks_cli_output *output, const char *format, ...)
{
    char text[PRINT_SIZE_MAX];
    va_list list;
    va_start(list, format);
    int len = vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    if (len > 0) {
        size_t size = (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1;
        ks_cli_output_write(output, text, size);
    }
}

/* ------------------------------------------------------------------ text on the terminal */

/* Writes text from column `column` on, wrapped before COLUMNS, later lines indented by `indent`. */
static void print_wrapped(struct ks_cli_output *output, const char *text, size_t column,
                          size_t indent)
{
    while (*text) {
        size_t len = strcspn(text, " \n");
        if (column > indent && column + len > COLUMNS) {
            ks_cli_print(output, "\n%*s", (int)indent, "");
            column = indent;
        }
        ks_cli_print(output, "%.*s", (int)len, text);
        column += len;
        text += len;
        if (*text == '\n') { /* an empty line separates paragraphs */
            ks_cli_print(output, "\n%*s", text[1] == '\n' ? 0 : (int)indent, "");
            column = indent;
            text++;
        } else if (*text == ' ') {
            text++;
            if (column + 1 + strcspn(text, " \n") <= COLUMNS) {
                ks_cli_print(output, " ");
                column++;
            } else {
                ks_cli_print(output, "\n%*s", (int)indent, "");
                column = indent;
            }
        }
    }
    ks_cli_print(output, "\n");
}

static void print_pair(struct ks_cli_output *output, const char *name, const char *text)
{
    size_t len = strlen(name) + 2;
    ks_cli_print(output, "  %s", name);
    if (len + 2 > OPTION_COLUMN) {
        ks_cli_print(output, "\n");
        len = 0;
    }
    ks_cli_print(output, "%*s", (int)(OPTION_COLUMN - len), "");
    print_wrapped(output, text, OPTION_COLUMN, OPTION_COLUMN);
}

static void option_label(const struct ks_cli_option *option, char *label, size_t size)
{
    char letter[8] = "";
    if (option->letter) {
        snprintf(letter, sizeof(letter), "-%c, ", option->letter);
    }
    snprintf(label, size, "%s--%s%s%s", letter, option->name, option->value ? " " : "",
             option->value ? option->value : "");
}

/* Help of an option with its choices behind. */
static void option_text(const struct ks_cli_option *option, char *text, size_t size)
{
    if (!option->choices) {
        snprintf(text, size, "%s", option->help);
        return;
    }
    int used = snprintf(text, size, "%s One of: ", option->help);
    for (const char *at = option->choices; *at && used > 0 && (size_t)used + 2 < size; at++) {
        if (*at == '|') {
            text[used++] = ',';
            text[used++] = ' ';
        } else {
            text[used++] = *at;
        }
    }
    snprintf(text + used, size - (size_t)used, ".");
}

static void print_options(struct ks_cli_output *output, const struct ks_cli_command *command)
{
    ks_cli_print(output, "Options:\n");
    for (const struct ks_cli_option *option = command->options; option && option->name; option++) {
        char label[96];
        char text[512];
        option_label(option, label, sizeof(label));
        option_text(option, text, sizeof(text));
        print_pair(output, label, text);
    }
    print_pair(output, "-h, --help", "Show this help; -h shows the short form.");
}

static void print_usage(struct ks_cli_output *output, const struct ks_cli_command *command)
{
    ks_cli_print(output, "Usage: kscope %s%s%s%s\n", command->name,
                 command->options && command->options[0].name ? " [OPTION...]" : "",
                 command->operands ? " " : "", command->operands ? command->operands : "");
}

static void print_examples(struct ks_cli_output *output, const struct ks_cli_example *examples)
{
    ks_cli_print(output, "Examples:\n");
    for (; examples && examples->command; examples++) {
        ks_cli_print(output, "  kscope %s\n      ", examples->command);
        print_wrapped(output, examples->text, 6, 6);
    }
    ks_cli_print(output, "\n");
}

void ks_cli_help_write_command(struct ks_cli_output *output, const struct ks_cli_command *command,
                               bool is_full)
{
    if (is_full && command->examples) {
        print_examples(output, command->examples);
    }
    print_usage(output, command);
    print_wrapped(output, command->summary, 0, 0);
    ks_cli_print(output, "\n");
    print_options(output, command);
    if (!is_full) {
        return;
    }
    if (command->details) {
        ks_cli_print(output, "\n");
        print_wrapped(output, command->details, 0, 0);
    }
    ks_cli_print(output, "\nExit status:\n");
    for (size_t i = 0; i < COUNT_OF(exit_codes); i++) {
        ks_cli_print(output, "  %-5s", exit_codes[i].name);
        print_wrapped(output, exit_codes[i].text, 7, 7);
    }
}

void ks_cli_help_write(struct ks_cli_output *output)
{
    ks_cli_print(output, "Examples:\n");
    for (size_t i = 0; ks_cli_commands[i]; i++) {
        const struct ks_cli_example *example = ks_cli_commands[i]->examples;
        if (example && example->command) {
            ks_cli_print(output, "  kscope %s\n", example->command);
        }
    }
    ks_cli_print(output, "\nUsage: kscope COMMAND [OPTION...] [OPERAND...]\n");
    print_wrapped(output, "Says where each millisecond of a PyTorch step went, and what to change.",
                  0, 0);
    ks_cli_print(output, "\nCommands:\n");
    for (size_t i = 0; ks_cli_commands[i]; i++) {
        ks_cli_print(output, "  %-12s", ks_cli_commands[i]->name);
        print_wrapped(output, ks_cli_commands[i]->summary, 14, 14);
    }
    ks_cli_print(output, "\nkscope COMMAND --help explains a command and its exit status; "
                         "kscope --version\nnames the version.\n");
}

/* ------------------------------------------------------------------ manual page */

/* Text of a manual page: what troff would take for itself is escaped. */
static void print_man(struct ks_cli_output *output, const char *text)
{
    for (bool is_start = true; *text; text++) {
        if (is_start && (*text == '.' || *text == '\'')) {
            ks_cli_print(output, "\\&");
        }
        is_start = *text == '\n';
        if (*text == '\\') {
            ks_cli_print(output, "\\e");
        } else if (*text == '-') {
            ks_cli_print(output, "\\-");
        } else if (*text == '\n' && text[1] == '\n') {
            ks_cli_print(output, "\n.PP\n");
            text++;
        } else {
            ks_cli_output_write(output, text, 1);
        }
    }
}

static void print_man_pair(struct ks_cli_output *output, const char *name, const char *text)
{
    ks_cli_print(output, ".TP\n.B ");
    print_man(output, name);
    ks_cli_print(output, "\n");
    print_man(output, text);
    ks_cli_print(output, "\n");
}

static void print_man_command(struct ks_cli_output *output, const struct ks_cli_command *command)
{
    ks_cli_print(output, ".SS kscope %s", command->name);
    if (command->operands) {
        ks_cli_print(output, " ");
        print_man(output, command->operands);
    }
    ks_cli_print(output, "\n");
    print_man(output, command->summary);
    ks_cli_print(output, "\n");
    for (const struct ks_cli_option *option = command->options; option && option->name; option++) {
        char label[96];
        char text[512];
        option_label(option, label, sizeof(label));
        option_text(option, text, sizeof(text));
        print_man_pair(output, label, text);
    }
    if (command->details) {
        ks_cli_print(output, ".PP\n");
        print_man(output, command->details);
        ks_cli_print(output, "\n");
    }
}

static void print_man_pairs(struct ks_cli_output *output, const char *title,
                            const struct pair *pairs, size_t count)
{
    ks_cli_print(output, ".SH %s\n", title);
    for (size_t i = 0; i < count; i++) {
        print_man_pair(output, pairs[i].name, pairs[i].text);
    }
}

void ks_cli_help_write_man(struct ks_cli_output *output)
{
    ks_cli_print(output, ".\\\" Written by: kscope help --man\n");
    ks_cli_print(output, ".TH KSCOPE 1 \"\" \"kinetoscope %s\" \"User Commands\"\n", ks_version());
    ks_cli_print(output, ".nh\n.SH NAME\nkscope \\- profile and optimise PyTorch programs\n");
    ks_cli_print(output, ".SH SYNOPSIS\n.B kscope\n.I COMMAND\n[\\fIOPTION\\fR...] "
                         "[\\fIOPERAND\\fR...]\n");
    ks_cli_print(output, ".SH DESCRIPTION\nSays where each millisecond of a PyTorch step went, and "
                         "what to change.\nResults go to standard output, messages to standard "
                         "error.\n");
    ks_cli_print(output, ".SH EXAMPLES\n");
    for (size_t i = 0; ks_cli_commands[i]; i++) {
        const struct ks_cli_example *example = ks_cli_commands[i]->examples;
        for (; example && example->command; example++) {
            char line[256];
            snprintf(line, sizeof(line), "kscope %s", example->command);
            print_man_pair(output, line, example->text);
        }
    }
    ks_cli_print(output, ".SH COMMANDS\n");
    for (size_t i = 0; ks_cli_commands[i]; i++) {
        print_man_command(output, ks_cli_commands[i]);
    }
    print_man_pairs(output, "EXIT STATUS", exit_codes, COUNT_OF(exit_codes));
    print_man_pairs(output, "ENVIRONMENT", environment, COUNT_OF(environment));
}

/* ------------------------------------------------------------------ docs/cli.md */

/* A cell of a table: a bar would end it. */
static void print_cell(struct ks_cli_output *output, const char *text)
{
    for (; *text; text++) {
        ks_cli_print(output, *text == '|' ? "\\|" : "%c", *text);
    }
}

static void print_markdown_pairs(struct ks_cli_output *output, const char *title, const char *heads,
                                 const struct pair *pairs, size_t count)
{
    ks_cli_print(output, "\n## %s\n\n%s\n|---|---|\n", title, heads);
    for (size_t i = 0; i < count; i++) {
        ks_cli_print(output, "| `%s` | ", pairs[i].name);
        print_cell(output, pairs[i].text);
        ks_cli_print(output, " |\n");
    }
}

static void print_markdown_command(struct ks_cli_output *output,
                                   const struct ks_cli_command *command)
{
    ks_cli_print(output, "\n## kscope %s\n\n%s\n\n```\nkscope %s%s%s%s\n```\n", command->name,
                 command->summary, command->name,
                 command->options && command->options[0].name ? " [OPTION...]" : "",
                 command->operands ? " " : "", command->operands ? command->operands : "");
    const struct ks_cli_example *example = command->examples;
    if (example && example->command) {
        ks_cli_print(output, "\n| example | what it does |\n|---|---|\n");
    }
    for (; example && example->command; example++) {
        ks_cli_print(output, "| `kscope %s` | ", example->command);
        print_cell(output, example->text);
        ks_cli_print(output, " |\n");
    }
    if (command->options && command->options[0].name) {
        ks_cli_print(output, "\n| option | meaning |\n|---|---|\n");
    }
    for (const struct ks_cli_option *option = command->options; option && option->name; option++) {
        char label[96];
        char text[512];
        option_label(option, label, sizeof(label));
        option_text(option, text, sizeof(text));
        ks_cli_print(output, "| `%s` | ", label);
        print_cell(output, text);
        ks_cli_print(output, " |\n");
    }
    if (command->details) {
        ks_cli_print(output, "\n%s\n", command->details);
    }
}

void ks_cli_help_write_markdown(struct ks_cli_output *output)
{
    ks_cli_print(output, "# The command line\n\nWritten by `kscope help --markdown` from the table "
                         "of commands: change it there.\n\nResults go to standard output, messages "
                         "to standard error. `--json` writes exactly one\ndocument, also on "
                         "failure, and never changes the exit status.\n");
    for (size_t i = 0; ks_cli_commands[i]; i++) {
        print_markdown_command(output, ks_cli_commands[i]);
    }
    print_markdown_pairs(output, "Exit status", "| status | meaning |", exit_codes,
                         COUNT_OF(exit_codes));
    print_markdown_pairs(output, "Environment", "| variable | meaning |", environment,
                         COUNT_OF(environment));
}
