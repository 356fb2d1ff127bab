#include "command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"

enum { WORD_MAX = 64 };

const struct ks_cli_command *ks_cli_command_find(const char *name)
{
    for (size_t i = 0; ks_cli_commands[i]; i++) {
        if (strcmp(ks_cli_commands[i]->name, name) == 0) {
            return ks_cli_commands[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ nearest word */

static size_t min_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edits (insert, remove, replace, swap of neighbours) from a to b; both shorter than WORD_MAX. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t len_a = strlen(a);
    size_t len_b = strlen(b);
    size_t rows[3][WORD_MAX + 1] = {0};
    size_t *before = rows[0], *above = rows[1], *row = rows[2];

    for (size_t j = 0; j <= len_b; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= len_a; i++) {
        size_t *spare = before;
        before = above;
        above = row;
        row = spare;
        row[0] = i;
        for (size_t j = 1; j <= len_b; j++) {
            size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
            row[j] = min_of(min_of(above[j] + 1, row[j - 1] + 1), above[j - 1] + cost);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = min_of(row[j], before[j - 2] + 1);
            }
        }
    }
    return row[len_b];
}

const char *ks_cli_nearest(const char *word, const char *const *names)
{
    size_t len = strlen(word);
    if (len == 0 || len >= WORD_MAX) {
        return NULL;
    }
    const char *best = NULL;
    size_t distance_best = len / 3 + 2; /* further away is no likely slip */
    for (size_t i = 0; names[i]; i++) {
        if (strlen(names[i]) >= WORD_MAX) {
            continue;
        }
        size_t distance = edit_distance(word, names[i]);
        if (strncmp(word, names[i], len) == 0) {
            distance = 1; /* its beginning */
        }
        if (distance < distance_best) {
            best = names[i];
            distance_best = distance;
        }
    }
    return best;
}

/* ------------------------------------------------------------------ looking at options */

static bool in_choices(const char *choices, const char *word, size_t len)
{
    for (const char *at = choices; *at;) {
        size_t part = strcspn(at, "|");
        if (part == len && memcmp(at, word, len) == 0) {
            return true;
        }
        at += part + (at[part] == '|');
    }
    return false;
}

static int option_index(const struct ks_cli_command *command, const char *name, size_t len)
{
    for (int i = 0; command->options && command->options[i].name; i++) {
        const char *mine = command->options[i].name;
        if (strlen(mine) == len && memcmp(mine, name, len) == 0) {
            return i;
        }
    }
    return -1;
}

static int letter_index(const struct ks_cli_command *command, char letter)
{
    for (int i = 0; command->options && command->options[i].name; i++) {
        if (command->options[i].letter == letter) {
            return i;
        }
    }
    return -1;
}

static int must_index(const struct ks_cli_args *args, const char *option)
{
    int index = option_index(args->command, option, strlen(option));
    if (index < 0) {
        abort(); /* a spelling mistake of ours: the option is not in the table */
    }
    return index;
}

bool ks_cli_given(const struct ks_cli_args *args, const char *option)
{
    return args->values[must_index(args, option)] != NULL;
}

const char *ks_cli_value(const struct ks_cli_args *args, const char *option)
{
    return args->values[must_index(args, option)];
}

bool ks_cli_parse_number(const char *text, int64_t *value)
{
    if (*text != '-' && (*text < '0' || *text > '9')) {
        return false;
    }
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0') {
        return false;
    }
    *value = number;
    return true;
}

int ks_cli_number(const struct ks_cli_args *args, const char *option, int64_t min, int64_t max,
                  int64_t *value)
{
    const char *text = ks_cli_value(args, option);
    if (!text) {
        return KS_EXIT_OK;
    }
    int64_t number = 0;
    if (!ks_cli_parse_number(text, &number) || number < min || number > max) {
        if (max == INT64_MAX) {
            return ks_cli_usage_fail(args, "Cannot use --%s %s: it must be a number from %lld up",
                                     option, text, (long long)min);
        }
        return ks_cli_usage_fail(args, "Cannot use --%s %s: it must be a number from %lld to %lld",
                                 option, text, (long long)min, (long long)max);
    }
    *value = number;
    return KS_EXIT_OK;
}

int ks_cli_threads(const struct ks_cli_args *args, unsigned *threads)
{
    enum { THREADS_MAX = 1024 };
    int64_t number = *threads;
    int status = ks_cli_number(args, "threads", 1, THREADS_MAX, &number);
    *threads = (unsigned)number;
    return status;
}

/* "512M", "2G", "2GiB": powers of 1,024. */
static bool parse_size(const char *text, uint64_t *bytes)
{
    char *end = NULL;
    unsigned long long value = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    static const char units[] = "KMG";
    const char *unit = end && *end ? strchr(units, *end) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    *bytes = (uint64_t)value << shift;
    return end && value > 0 && value < (1ULL << 33) &&
           (!*end || (unit && (!end[1] || strcmp(end + 1, "iB") == 0)));
}

int ks_cli_size(const struct ks_cli_args *args, const char *option, uint64_t *bytes)
{
    const char *text = ks_cli_value(args, option);
    uint64_t value = 0;
    if (!text) {
        return KS_EXIT_OK;
    }
    if (!parse_size(text, &value)) {
        return ks_cli_usage_fail(args, "Cannot use --%s %s: it must be like 512M or 2G", option,
                                 text);
    }
    *bytes = value;
    return KS_EXIT_OK;
}

int ks_cli_cache(const struct ks_cli_args *args, struct ks_report_options *options)
{
    const char *size = getenv("KSCOPE_CACHE_SIZE");
    options->cache = !ks_cli_given(args, "no-cache");
    options->cache_dir = ks_cli_value(args, "cache");
    if (options->cache_dir && !options->cache) {
        return ks_cli_usage_fail(args, "Cannot use --cache with --no-cache");
    }
    if (options->cache_dir && !options->cache_dir[0]) {
        return ks_cli_usage_fail(args, "Cannot use --cache without the name of a folder");
    }
    if (size && size[0] && !parse_size(size, &options->cache_bytes_max)) {
        return ks_cli_usage_fail(
            args, "Cannot use KSCOPE_CACHE_SIZE=%s: it must be like 512M or 2G", size);
    }
    return KS_EXIT_OK;
}

/* ------------------------------------------------------------------ parsing */

/* Where the parser stands. Operands are moved to the front of argv, behind argv[0]. */
struct parser {
    const struct ks_cli_command *command;
    int argc;
    char **argv;
    int at;
    struct ks_cli_args *args;
    char *wants_help;
};

static int refuse_unknown_option(const struct parser *parser, const char *name, size_t len)
{
    const char *names[KS_CLI_OPTIONS_MAX + 2] = {0};
    size_t count = 0;
    for (int i = 0; parser->command->options && parser->command->options[i].name; i++) {
        names[count++] = parser->command->options[i].name;
    }
    names[count] = "help";

    char word[WORD_MAX] = "";
    if (len < sizeof(word)) {
        memcpy(word, name, len);
    }
    const char *near = ks_cli_nearest(word, names);
    if (near) {
        return ks_cli_usage_fail(parser->args, "Cannot find option --%.*s: did you mean --%s?",
                                 (int)len, name, near);
    }
    return ks_cli_usage_fail(parser->args, "Cannot find option --%.*s", (int)len, name);
}

/* Stores the value of an option; `inside` is what follows "=" or the letter, or NULL. */
static int take_value(struct parser *parser, int index, const char *inside)
{
    const struct ks_cli_option *option = &parser->command->options[index];
    if (!option->value) {
        if (inside) {
            return ks_cli_usage_fail(parser->args, "Cannot give a value to --%s", option->name);
        }
        parser->args->values[index] = "";
        return KS_EXIT_OK;
    }
    const char *value = inside;
    if (!value) {
        if (parser->at + 1 >= parser->argc) {
            return ks_cli_usage_fail(parser->args, "Cannot use --%s without %s", option->name,
                                     option->value);
        }
        value = parser->argv[++parser->at];
    }
    if (option->choices && !in_choices(option->choices, value, strlen(value))) {
        return ks_cli_usage_fail(parser->args, "Cannot use --%s %s: it must be one of %s",
                                 option->name, value, option->choices);
    }
    parser->args->values[index] = value;
    return KS_EXIT_OK;
}

static int take_long(struct parser *parser, const char *text)
{
    size_t len = strcspn(text, "=");
    if (strcmp(text, "help") == 0) {
        *parser->wants_help = 'H';
        return KS_EXIT_OK;
    }
    int index = option_index(parser->command, text, len);
    if (index < 0) {
        return refuse_unknown_option(parser, text, len);
    }
    return take_value(parser, index, text[len] == '=' ? text + len + 1 : NULL);
}

/* One or several letters behind a dash: -h, -o FILE, -oFILE. */
static int take_letters(struct parser *parser, const char *letters)
{
    for (const char *at = letters; *at; at++) {
        int index = letter_index(parser->command, *at);
        if (*at == 'h' && index < 0) {
            *parser->wants_help = 'h';
            continue;
        }
        if (index < 0) {
            return ks_cli_usage_fail(parser->args, "Cannot find option -%c", *at);
        }
        bool has_value = parser->command->options[index].value != NULL;
        int status = take_value(parser, index, has_value && at[1] ? at + 1 : NULL);
        if (status != KS_EXIT_OK || has_value) {
            return status;
        }
    }
    return KS_EXIT_OK;
}

/* Python's own -m and -c stand where a program's name would: `run -m package.train`. */
static bool starts_program(const struct parser *parser, const char *word)
{
    return parser->command->takes_program && (strcmp(word, "-m") == 0 || strcmp(word, "-c") == 0);
}

static int check_operands(const struct parser *parser)
{
    const struct ks_cli_command *command = parser->command;
    const struct ks_cli_args *args = parser->args;
    if (args->operand_count < command->operands_min) {
        return ks_cli_usage_fail(args, "Cannot %s without %s", command->name, command->operands);
    }
    if (args->operand_count > command->operands_max) {
        return ks_cli_usage_fail(args, "Cannot use the word %s here",
                                 args->operands[command->operands_max]);
    }
    if (!command->operand_choices || command->operand_choices[0] == '@') {
        return KS_EXIT_OK;
    }
    for (size_t i = 0; i < args->operand_count; i++) {
        const char *word = args->operands[i];
        if (!in_choices(command->operand_choices, word, strlen(word))) {
            return ks_cli_usage_fail(args, "Cannot use %s: it must be one of %s", word,
                                     command->operand_choices);
        }
    }
    return KS_EXIT_OK;
}

int ks_cli_parse(const struct ks_cli_command *command, int argc, char **argv,
                 struct ks_cli_args *args, char *wants_help)
{
    *args = (struct ks_cli_args){.command = command, .operands = argv + 1};
    *wants_help = 0;
    struct parser parser = {command, argc, argv, 0, args, wants_help};

    bool only_operands = false;
    for (parser.at = 1; parser.at < argc; parser.at++) {
        char *word = argv[parser.at];
        int status = KS_EXIT_OK;
        if (!only_operands && strcmp(word, "--") == 0) {
            only_operands = true;
        } else if (!only_operands && strncmp(word, "--", 2) == 0) {
            status = take_long(&parser, word + 2);
        } else if (!only_operands && word[0] == '-' && word[1] != '\0' &&
                   !starts_program(&parser, word)) {
            status = take_letters(&parser, word + 1);
        } else {
            args->operands[args->operand_count++] = word; /* never ahead of parser.at */
            only_operands = only_operands || command->takes_program;
        }
        if (status != KS_EXIT_OK) {
            return status;
        }
    }
    args->operands[args->operand_count] = NULL; /* at most argv[argc], which is NULL already */
    return *wants_help ? KS_EXIT_OK : check_operands(&parser);
}
