/* Commands and options: one table, from which come the parser, --help, the man page, completion
 * and docs/cli.md. A command is one file cmd_<verb>.c that defines `ks_cmd_<verb>`, and one line in
 * commands.c. Everything here is static; `run` gives the exit status of the process.
 */
#ifndef KS_CLI_COMMAND_H
#define KS_CLI_COMMAND_H

#include <kscope/kscope.h>

enum { KS_CLI_OPTIONS_MAX = 32 };

/* The exit codes of all commands; `run` passes on the status of the program it ran. */
enum ks_cli_exit {
    KS_EXIT_OK = 0,
    KS_EXIT_FOUND = 1,       /* a finding at or above --fail-on */
    KS_EXIT_USAGE = 2,       /* the command line is wrong */
    KS_EXIT_INPUT = 3,       /* input unreadable or unsafe */
    KS_EXIT_OWN = 125,       /* our own failure: no memory, output cannot be written */
    KS_EXIT_INTERRUPT = 130, /* SIGINT */
    KS_EXIT_PIPE = 141,      /* nobody reads our output any more: 128 + SIGPIPE */
};

struct ks_cli_option {
    const char *name;    /* long name without dashes */
    char letter;         /* short name, 0 none */
    const char *value;   /* what follows, as help shows it: "FILE"; NULL: a switch */
    const char *choices; /* "auto|always|never": anything else is refused; NULL: any value */
    const char *help;    /* one sentence, not wrapped */
};

struct ks_cli_example {
    const char *command; /* without "kscope " */
    const char *text;
};

struct ks_cli_args;

struct ks_cli_command {
    const char *name;
    const char *summary;  /* one line for the list of commands */
    const char *operands; /* as help shows them: "PATH..."; NULL: none */
    size_t operands_min;
    size_t operands_max;         /* SIZE_MAX: any number */
    const char *operand_choices; /* "bash|zsh|fish"; "@commands", "@rules"; NULL: files */
    const char *details;         /* paragraphs separated by an empty line, not wrapped; or NULL */
    const struct ks_cli_example *examples; /* ends with a NULL command */
    const struct ks_cli_option *options;   /* ends with a NULL name; --help is added to all */
    bool takes_program; /* the first operand starts another program: what follows is its own */
    int (*run)(const struct ks_cli_args *args);
};

/* Values and operands point into argv, or are static. */
struct ks_cli_args {
    const struct ks_cli_command *command;
    const char *values[KS_CLI_OPTIONS_MAX]; /* by option; NULL: not given; "" for a switch */
    char **operands;                        /* ends with NULL, so that exec can take it */
    size_t operand_count;
};

/* The commands in the order of help; ends with NULL. */
extern const struct ks_cli_command *const ks_cli_commands[];

/* The option that every command should list itself when it writes text. */
#define KS_CLI_OPTION_COLOR                                                                        \
    {                                                                                              \
        "color", 0, "WHEN", "auto|always|never", "When to use colours; auto asks the terminal."    \
    }
#define KS_CLI_OPTION_THREADS                                                                      \
    {                                                                                              \
        "threads", 0, "N", NULL, "Read with N threads; else with one for each processor."          \
    }
#define KS_CLI_OPTION_MEMORY                                                                       \
    {                                                                                              \
        "memory", 0, "SIZE", NULL,                                                                 \
            "Take at most SIZE (512M, 2G), with tables in a file beyond it; else half of what "    \
            "the machine or its control group has."                                                \
    }
#define KS_CLI_OPTION_CACHE                                                                        \
    {                                                                                              \
        "cache", 0, "DIR", NULL,                                                                   \
            "Keep what was read and computed in DIR, else in $XDG_CACHE_HOME/kinetoscope."         \
    }
#define KS_CLI_OPTION_NO_CACHE                                                                     \
    {                                                                                              \
        "no-cache", 0, NULL, NULL, "Neither keep what was read and computed nor take what was."    \
    }
#define KS_CLI_OPTION_QUIET                                                                        \
    {                                                                                              \
        "quiet", 'q', NULL, NULL, "Show no progress on the terminal."                              \
    }
#define KS_CLI_OPTION_RUN                                                                          \
    {                                                                                              \
        "run", 0, "N", NULL, "Which run, counted from 1, when the files are of several."           \
    }
#define KS_CLI_OPTION_WINDOW                                                                       \
    {                                                                                              \
        "window", 0, "N", NULL,                                                                    \
            "Which window of kscope run, counted from 1; else the latest of each process."         \
    }
#define KS_CLI_OPTION_STRICT                                                                       \
    {                                                                                              \
        "strict", 0, NULL, NULL, "Refuse damaged input with the byte offset of the first fault."   \
    }
#define KS_CLI_OPTION_VERBOSE                                                                      \
    {                                                                                              \
        "verbose", 'v', NULL, NULL, "Say on standard error what is being done."                    \
    }
#define KS_CLI_OPTION_WIDTH                                                                        \
    {                                                                                              \
        "width", 0, "N", NULL, "Columns of the text; else those of the terminal, or 100."          \
    }
#define KS_CLI_OPTION_JSON                                                                         \
    {                                                                                              \
        "json", 0, NULL, NULL, "Write one JSON document instead of text, also on failure."         \
    }

/* argv[0] is the name of the command. KS_EXIT_OK: `*args` is filled, argv was reordered. Else the
 * exit status; a message was written. `*wants_help`: -h or --help was given ('h' or 'H'). */
int ks_cli_parse(const struct ks_cli_command *command, int argc, char **argv,
                 struct ks_cli_args *args, char *wants_help) KS_MUST_CHECK;

/* NULL when there is no such command. */
const struct ks_cli_command *ks_cli_command_find(const char *name);

bool ks_cli_given(const struct ks_cli_args *args, const char *option);
/* Value of the option, or NULL when it was not given. The option must be in the table. */
const char *ks_cli_value(const struct ks_cli_args *args, const char *option);
/* Reads a decimal number; `*value` stays as it is when the option was not given. On anything else
 * writes a message and gives KS_EXIT_USAGE. */
int ks_cli_number(const struct ks_cli_args *args, const char *option, int64_t min, int64_t max,
                  int64_t *value) KS_MUST_CHECK;
/* Reads --threads; as above. */
int ks_cli_threads(const struct ks_cli_args *args, unsigned *threads) KS_MUST_CHECK;
/* Reads --cache and --no-cache; as above. */
int ks_cli_cache(const struct ks_cli_args *args, struct ks_report_options *options) KS_MUST_CHECK;
/* Reads a number of bytes with an optional K, M or G behind it (powers of 1,024); as above. */
int ks_cli_size(const struct ks_cli_args *args, const char *option, uint64_t *bytes) KS_MUST_CHECK;
/* A whole text as a decimal number, or false. */
bool ks_cli_parse_number(const char *text, int64_t *value);

/* The name in `names` (ends with NULL) that is nearest to `word`, or NULL when none is near. */
const char *ks_cli_nearest(const char *word, const char *const *names);

#endif
