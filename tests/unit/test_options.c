/* Goal: the option parser reads each form and refuses the rest. Method: a small command of its own;
 * one line a case. What it writes to stderr is not looked at here (tests/cli does). */
#include "command.h"

#include <stdio.h>
#include <string.h>

#include "cmocka_all.h"

enum { WORDS_MAX = 16 };

static const struct ks_cli_option options[] = {
    {"json", 0, NULL, NULL, "Switch."},  {"verbose", 'v', NULL, NULL, "Switch with a letter."},
    {"limit", 'n', "N", NULL, "Value."}, {"color", 0, "WHEN", "auto|always|never", "Choices."},
    {NULL, 0, NULL, NULL, NULL},
};

static const struct ks_cli_command plain = {
    .name = "plain", .operands = "PATH...", .operands_max = SIZE_MAX, .options = options};
static const struct ks_cli_command runner = {
    .name = "runner", .operands_max = SIZE_MAX, .options = options, .takes_program = true};
static const struct ks_cli_command picky = {.name = "picky",
                                            .operands = "SHELL",
                                            .operands_min = 1,
                                            .operands_max = 1,
                                            .operand_choices = "bash|zsh"};

static struct ks_cli_args args;
static char wants_help;
static char words[256];
static char *argv[WORDS_MAX + 1];

/* `line` is cut at blanks; the first word is the command. */
static int parse(const struct ks_cli_command *command, const char *line)
{
    int argc = 0;
    snprintf(words, sizeof(words), "%s", line);
    for (char *at = words; *at && argc < WORDS_MAX;) {
        argv[argc++] = at;
        at += strcspn(at, " ");
        if (*at) {
            *at++ = '\0';
        }
    }
    argv[argc] = NULL;
    return ks_cli_parse(command, argc, argv, &args, &wants_help);
}

static void check_operands(const char *expected)
{
    char joined[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < args.operand_count; i++) {
        used += (size_t)snprintf(joined + used, sizeof(joined) - used, "%s%s", i ? " " : "",
                                 args.operands[i]);
    }
    assert_string_equal(joined, expected);
    assert_null(args.operands[args.operand_count]);
}

static void test_forms(void **state)
{
    (void)state;
    assert_int_equal(parse(&plain, "plain a --json b -n 3 c"), 0);
    check_operands("a b c");
    assert_true(ks_cli_given(&args, "json"));
    assert_false(ks_cli_given(&args, "verbose"));
    assert_string_equal(ks_cli_value(&args, "limit"), "3");
    assert_null(ks_cli_value(&args, "color"));

    assert_int_equal(parse(&plain, "plain --limit=3 --limit=4"), 0);
    assert_string_equal(ks_cli_value(&args, "limit"), "4"); /* the last one counts */
    assert_int_equal(parse(&plain, "plain -vn7 -"), 0);
    assert_string_equal(ks_cli_value(&args, "limit"), "7");
    assert_true(ks_cli_given(&args, "verbose"));
    check_operands("-");
    assert_int_equal(parse(&plain, "plain --limit= x"), 0);
    assert_string_equal(ks_cli_value(&args, "limit"), "");
    assert_int_equal(parse(&plain, "plain --color never -- --json -v"), 0);
    check_operands("--json -v");
    assert_false(ks_cli_given(&args, "json"));
    assert_int_equal(parse(&plain, "plain"), 0);
    check_operands("");
}

static void test_program_keeps_its_words(void **state)
{
    (void)state;
    assert_int_equal(parse(&runner, "runner -v train.py --json -n -- x"), 0);
    check_operands("train.py --json -n -- x");
    assert_true(ks_cli_given(&args, "verbose"));
    assert_false(ks_cli_given(&args, "json"));
    assert_int_equal(parse(&runner, "runner -- -m package"), 0);
    check_operands("-m package");
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "plain --jsn", "plain --json=1",    "plain -x",          "plain --limit",
        "plain -n",    "plain --color red", "plain --colo auto", "plain -vx",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_int_equal(parse(&plain, lines[i]), KS_EXIT_USAGE);
    }
    assert_int_equal(parse(&picky, "picky"), KS_EXIT_USAGE);
    assert_int_equal(parse(&picky, "picky fish"), KS_EXIT_USAGE);
    assert_int_equal(parse(&picky, "picky bash zsh"), KS_EXIT_USAGE);
    assert_int_equal(parse(&picky, "picky zsh"), 0);
}

static void test_help(void **state)
{
    (void)state;
    assert_int_equal(parse(&picky, "picky --help"), 0); /* before operands are asked for */
    assert_int_equal(wants_help, 'H');
    assert_int_equal(parse(&plain, "plain -vh"), 0);
    assert_int_equal(wants_help, 'h');
    assert_int_equal(parse(&plain, "plain"), 0);
    assert_int_equal(wants_help, 0);
}

static void check_number(const char *text, bool ok, int64_t expected)
{
    int64_t value = 77;
    assert_int_equal(ks_cli_parse_number(text, &value), ok);
    assert_int_equal(value, ok ? expected : 77);
}

static void test_numbers(void **state)
{
    (void)state;
    check_number("0", true, 0);
    check_number("-5", true, -5);
    check_number("9223372036854775807", true, INT64_MAX);
    check_number("9223372036854775808", false, 0);
    check_number("", false, 0);
    check_number("-", false, 0);
    check_number(" 5", false, 0);
    check_number("+5", false, 0);
    check_number("5x", false, 0);
    check_number("0x10", false, 0);

    int64_t limit = 9;
    assert_int_equal(parse(&plain, "plain -n 12"), 0);
    assert_int_equal(ks_cli_number(&args, "limit", 1, 20, &limit), 0);
    assert_int_equal(limit, 12);
    assert_int_equal(ks_cli_number(&args, "limit", 1, 11, &limit), KS_EXIT_USAGE);
    assert_int_equal(ks_cli_number(&args, "limit", 13, INT64_MAX, &limit), KS_EXIT_USAGE);
    assert_int_equal(limit, 12);
}

static void check_nearest(const char *word, const char *expected)
{
    static const char *const names[] = {"report", "info", "doctor", "completion", "help", NULL};
    const char *near = ks_cli_nearest(word, names);
    if (expected) {
        assert_non_null(near);
        assert_string_equal(near, expected);
    } else {
        assert_null(near);
    }
}

static void test_nearest(void **state)
{
    (void)state;
    check_nearest("reprot", "report");
    check_nearest("rep", "report");
    check_nearest("docter", "doctor");
    check_nearest("hlep", "help");
    check_nearest("completoin", "completion");
    check_nearest("xyzzy", NULL);
    check_nearest("", NULL);
    char longest[200];
    memset(longest, 'r', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    check_nearest(longest, NULL);
}

static void test_commands_are_sound(void **state)
{
    (void)state;
    for (size_t i = 0; ks_cli_commands[i]; i++) {
        const struct ks_cli_command *command = ks_cli_commands[i];
        assert_ptr_equal(ks_cli_command_find(command->name), command);
        assert_non_null(command->run);
        assert_non_null(command->summary);
        assert_non_null(command->examples);
        size_t count = 0;
        for (const struct ks_cli_option *o = command->options; o && o->name; o++) {
            assert_non_null(o->help);
            assert_true(!o->choices || o->value);
            assert_true(o->letter != 'h');
            count++;
        }
        assert_true(count < KS_CLI_OPTIONS_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_program_keeps_its_words),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_commands_are_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
