/* Completion scripts, written from the table of commands. Plain words only: names of commands,
 * options and choices hold nothing that a shell would expand. */
#include <string.h>

#include "help.h"
#include "message.h"

static struct ks_cli_output output;

/* Choices with blanks between them. */
static void print_choices(const char *choices)
{
    for (; *choices; choices++) {
        ks_cli_print(&output, "%c", *choices == '|' ? ' ' : *choices);
    }
}

static void print_commands(void)
{
    for (size_t i = 0; ks_cli_commands[i]; i++) {
        ks_cli_print(&output, "%s%s", i ? " " : "", ks_cli_commands[i]->name);
    }
}

static void print_rules(void)
{
    for (size_t i = 0; ks_rule_id(i); i++) {
        ks_cli_print(&output, "%s%s", i ? " " : "", ks_rule_id(i));
    }
}

/* Operands as words, or nothing when they are files. */
static void print_operand_choices(const struct ks_cli_command *command)
{
    if (strcmp(command->operand_choices, "@commands") == 0) {
        print_commands();
    } else if (strcmp(command->operand_choices, "@rules") == 0) {
        print_rules();
    } else {
        print_choices(command->operand_choices);
    }
}

static void print_option_words(const struct ks_cli_command *command)
{
    for (const struct ks_cli_option *option = command->options; option && option->name; option++) {
        ks_cli_print(&output, "--%s ", option->name);
    }
    ks_cli_print(&output, "--help");
}

/* ------------------------------------------------------------------ bash */

static void print_bash_values(const struct ks_cli_command *command)
{
    for (const struct ks_cli_option *option = command->options; option && option->name; option++) {
        if (!option->value) {
            continue;
        }
        ks_cli_print(&output, "    %s:--%s", command->name, option->name);
        if (option->letter) {
            ks_cli_print(&output, "|%s:-%c", command->name, option->letter);
        }
        if (option->choices) {
            ks_cli_print(&output, ") words='");
            print_choices(option->choices);
            ks_cli_print(&output, "' ;;\n");
        } else {
            ks_cli_print(&output, ") return ;;\n");
        }
    }
}

static void print_bash(void)
{
    ks_cli_print(&output,
                 "# bash completion of kscope; use: source <(kscope completion bash)\n"
                 "_kscope() {\n"
                 "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
                 "    local command= words= i\n"
                 "    COMPREPLY=()\n"
                 "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                 "        [[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; break; }\n"
                 "    done\n"
                 "    case \"$command:$before\" in\n");
    for (size_t i = 0; ks_cli_commands[i]; i++) {
        print_bash_values(ks_cli_commands[i]);
    }
    ks_cli_print(&output, "    :*) words='");
    print_commands();
    ks_cli_print(&output, " --help --version' ;;\n    *)\n        case \"$command:$word\" in\n");
    for (size_t i = 0; ks_cli_commands[i]; i++) {
        ks_cli_print(&output, "        %s:-*) words='", ks_cli_commands[i]->name);
        print_option_words(ks_cli_commands[i]);
        ks_cli_print(&output, "' ;;\n");
        if (ks_cli_commands[i]->operand_choices) {
            ks_cli_print(&output, "        %s:*) words='", ks_cli_commands[i]->name);
            print_operand_choices(ks_cli_commands[i]);
            ks_cli_print(&output, "' ;;\n");
        }
    }
    ks_cli_print(&output, "        esac ;;\n"
                          "    esac\n"
                          "    [[ -n $words ]] && COMPREPLY=($(compgen -W \"$words\" -- "
                          "\"$word\"))\n"
                          "    return 0\n"
                          "}\n"
                          "complete -o default -F _kscope kscope\n");
}

/* ------------------------------------------------------------------ zsh */

/* Text inside single quotes and the [...] of _arguments. */
static void print_zsh_text(const char *text)
{
    for (; *text; text++) {
        if (strchr("[]:\\", *text)) {
            ks_cli_print(&output, "\\%c", *text);
        } else if (*text == '\'') {
            ks_cli_print(&output, "'\\''");
        } else {
            ks_cli_print(&output, "%c", *text);
        }
    }
}

static void print_zsh_command(const struct ks_cli_command *command)
{
    ks_cli_print(&output, "    %s)\n        _arguments '(-h --help)'{-h,--help}'[show help]'",
                 command->name);
    for (const struct ks_cli_option *option = command->options; option && option->name; option++) {
        ks_cli_print(&output, " \\\n            '--%s%s[", option->name, option->value ? "=" : "");
        print_zsh_text(option->help);
        ks_cli_print(&output, "]");
        if (option->value) {
            ks_cli_print(&output, ":%s:", option->value);
        }
        if (option->choices) {
            ks_cli_print(&output, "(");
            print_choices(option->choices);
            ks_cli_print(&output, ")");
        } else if (option->value && strcmp(option->value, "FILE") == 0) {
            ks_cli_print(&output, "_files");
        }
        ks_cli_print(&output, "'");
    }
    if (command->operand_choices) {
        ks_cli_print(&output, " \\\n            '*:word:(");
        print_operand_choices(command);
        ks_cli_print(&output, ")'");
    } else if (command->operands) {
        ks_cli_print(&output, " \\\n            '*:file:_files'");
    }
    ks_cli_print(&output, " ;;\n");
}

static void print_zsh(void)
{
    ks_cli_print(&output, "#compdef kscope\n"
                          "# zsh completion of kscope; use: source <(kscope completion zsh)\n"
                          "_kscope() {\n"
                          "    if ((CURRENT == 2)); then\n"
                          "        local -a commands=(\n");
    for (size_t i = 0; ks_cli_commands[i]; i++) {
        ks_cli_print(&output, "            '%s:", ks_cli_commands[i]->name);
        print_zsh_text(ks_cli_commands[i]->summary);
        ks_cli_print(&output, "'\n");
    }
    ks_cli_print(&output, "        )\n"
                          "        _describe command commands\n"
                          "        return\n"
                          "    fi\n"
                          "    local command=$words[2]\n"
                          "    shift words\n"
                          "    ((CURRENT--))\n"
                          "    case $command in\n");
    for (size_t i = 0; ks_cli_commands[i]; i++) {
        print_zsh_command(ks_cli_commands[i]);
    }
    ks_cli_print(&output, "    esac\n"
                          "}\n"
                          "compdef _kscope kscope\n");
}

/* ------------------------------------------------------------------ fish */

static void print_fish_text(const char *text)
{
    ks_cli_print(&output, "'");
    for (; *text; text++) {
        ks_cli_print(&output, strchr("'\\", *text) ? "\\%c" : "%c", *text);
    }
    ks_cli_print(&output, "'");
}

static void print_fish_command(const struct ks_cli_command *command)
{
    const char *name = command->name;
    for (const struct ks_cli_option *option = command->options; option && option->name; option++) {
        ks_cli_print(&output, "complete -c kscope -n '__fish_seen_subcommand_from %s' -l %s", name,
                     option->name);
        if (option->letter) {
            ks_cli_print(&output, " -s %c", option->letter);
        }
        if (option->choices) {
            ks_cli_print(&output, " -x -a '");
            print_choices(option->choices);
            ks_cli_print(&output, "'");
        } else if (option->value) {
            ks_cli_print(&output, " -r");
        }
        ks_cli_print(&output, " -d ");
        print_fish_text(option->help);
        ks_cli_print(&output, "\n");
    }
    if (command->operand_choices) {
        ks_cli_print(&output, "complete -c kscope -n '__fish_seen_subcommand_from %s' -f -a '",
                     name);
        print_operand_choices(command);
        ks_cli_print(&output, "'\n");
    }
}

static void print_fish(void)
{
    ks_cli_print(&output, "# fish completion of kscope; use: kscope completion fish | source\n");
    for (size_t i = 0; ks_cli_commands[i]; i++) {
        ks_cli_print(&output, "complete -c kscope -n __fish_use_subcommand -f -a %s -d ",
                     ks_cli_commands[i]->name);
        print_fish_text(ks_cli_commands[i]->summary);
        ks_cli_print(&output, "\n");
    }
    ks_cli_print(&output, "complete -c kscope -s h -l help -d 'Show help'\n");
    for (size_t i = 0; ks_cli_commands[i]; i++) {
        print_fish_command(ks_cli_commands[i]);
    }
}

static int run(const struct ks_cli_args *args)
{
    int status = ks_cli_output_open(args, NULL, &output);
    if (status != KS_EXIT_OK) {
        return status;
    }
    if (strcmp(args->operands[0], "bash") == 0) {
        print_bash();
    } else if (strcmp(args->operands[0], "zsh") == 0) {
        print_zsh();
    } else {
        print_fish();
    }
    return ks_cli_output_close(args, &output, KS_OK, NULL);
}

const struct ks_cli_command ks_cmd_completion = {
    .name = "completion",
    .summary = "Write a completion script for a shell.",
    .operands = "SHELL",
    .operands_min = 1,
    .operands_max = 1,
    .operand_choices = "bash|zsh|fish",
    .details = "bash: source <(kscope completion bash), best in ~/.bashrc. zsh: the same with zsh, "
               "after compinit. fish: kscope completion fish | source.",
    .examples =
        (const struct ks_cli_example[]){
            {"completion bash", "A script that completes commands, options and their values."},
            {NULL, NULL},
        },
    .options =
        (const struct ks_cli_option[]){
            {NULL, 0, NULL, NULL, NULL},
        },
    .run = run,
};
