/* `kscope diff`: two runs beside each other. */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "message.h"
#include "output.h"
#include "page_args.h"
#include "progress_line.h"
#include "rules_args.h"
#include "text_args.h"
#include "trace_args.h"

enum { SIDES = 2 };

static struct ks_cli_output output;

static int read_style(const struct ks_cli_args *args, struct ks_report_style *style)
{
    struct ks_cli_text text = {0};
    int status = ks_cli_read_text(args, &text);
    if (status != KS_EXIT_OK) {
        return status;
    }
    style->format = ks_cli_given(args, "json") ? KS_REPORT_JSON : KS_REPORT_SCREEN;
    style->row_limit = text.row_limit;
    style->colour = text.colour;
    style->ascii = text.ascii;
    style->width = text.width;
    return KS_EXIT_OK;
}

/* Both sides are read alike, but for their steps. */
static int read_options(const struct ks_cli_args *args, struct ks_report_options sides[SIDES])
{
    static const char *const steps[SIDES] = {"steps-a", "steps-b"};
    for (size_t i = 0; i < SIDES; i++) {
        struct ks_report_options *options = &sides[i];
        options->group_by_shape = ks_cli_given(args, "group-by");
        int status = ks_cli_read_report(args, options);
        if (status == KS_EXIT_OK) {
            status = ks_cli_threads(args, &options->threads);
        }
        if (status == KS_EXIT_OK) {
            status = ks_cli_read_steps(args, steps[i], options);
        }
        if (status != KS_EXIT_OK) {
            return status;
        }
        options->paths = (const char *const *)&args->operands[i];
        options->path_count = 1;
    }
    return ks_cli_check_keyboard(args, SIDES);
}

static int write_text(const struct ks_cli_args *args, const struct ks_comparison *comparison,
                      const struct ks_report_style *style)
{
    int status = ks_cli_output_open(args, ks_cli_value(args, "output"), &output);
    if (status != KS_EXIT_OK) {
        return status;
    }
    struct ks_err err = {.offset = KS_NO_OFFSET};
    enum ks_status written =
        ks_comparison_write(comparison, style, ks_cli_output_write, &output, &err);
    return ks_cli_output_close(args, &output, written, &err);
}

/* The page comes first: it is what may fail, and the text says that all is done. */
static int write_all(const struct ks_cli_args *args, struct ks_report *reports[SIDES],
                     const struct ks_report_style *style)
{
    struct ks_comparison *comparison = NULL;
    struct ks_err err = {.offset = KS_NO_OFFSET};
    if (ks_comparison_open(reports[0], reports[1], &comparison, &err) != KS_OK) {
        ks_cli_progress_stop();
        return ks_cli_fail(args, &err, NULL);
    }
    int status = KS_EXIT_OK;
    if (ks_cli_given(args, "html")) {
        status = ks_cli_page_write(args, reports[1], comparison, &output);
    }
    ks_cli_progress_stop();
    if (status == KS_EXIT_OK) {
        status = write_text(args, comparison, style);
    }
    ks_comparison_close(comparison);
    return status;
}

static int diff(const struct ks_cli_args *args, struct ks_report_options options[SIDES],
                const struct ks_report_style *style, const struct ks_rules *rules)
{
    struct ks_report *reports[SIDES] = {NULL, NULL};
    int status = KS_EXIT_OK;
    for (size_t i = 0; i < SIDES && status == KS_EXIT_OK; i++) {
        status = ks_cli_open_report(args, &options[i], &reports[i]);
        if (status == KS_EXIT_OK) {
            status = ks_cli_rules_run(args, reports[i], rules, options[i].progress);
        }
        if (status == KS_EXIT_OK && i + 1 < SIDES) {
            ks_cli_progress_stop();
        }
    }
    if (status == KS_EXIT_OK) {
        status = write_all(args, reports, style);
    }
    ks_report_close(reports[1]);
    ks_report_close(reports[0]);
    return status;
}

static int run(const struct ks_cli_args *args)
{
    struct ks_report_options options[SIDES] = {0};
    struct ks_report_style style = {0};
    struct ks_rules *rules = NULL;
    int status = read_style(args, &style);
    if (status == KS_EXIT_OK) {
        status = ks_cli_page_check(args);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_check_target(args);
    }
    if (status == KS_EXIT_OK) {
        status = read_options(args, options);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_rules_load(args, &options[1], &rules);
    }
    if (status == KS_EXIT_OK) {
        status = diff(args, options, &style, rules);
    }
    ks_rules_close(rules);
    return status;
}

const struct ks_cli_command ks_cmd_diff = {
    .name = "diff",
    .summary = "Compare two runs: is the step faster, and what changed in it.",
    .operands = "A B",
    .operands_min = SIDES,
    .operands_max = SIDES,
    .details =
        "A is the run before a change, B the one after it: each a trace, a recording, or a folder "
        "of them, as for kscope report.\n\n"
        "The step times of both are compared with a bootstrap interval at 97 % confidence; B is "
        "faster, slower, not different, or it cannot be told, and why. Parts of the step, "
        "operators "
        "and kernels are of a mean complete step, so that windows of different lengths compare. "
        "What differs in the recordings themselves is said.\n\n"
        "The exit status is 0 whatever the runs say.",
    .examples =
        (const struct ks_cli_example[]){
            {"diff before.json.gz after.json.gz", "What a change did to a step."},
            {"diff --json -o diff.json run1/ run2/", "The same for scripts."},
            {"diff --html page.html before.json after.json",
             "The page of the later run, with a view that compares both."},
            {"diff --steps-a 10..19 --steps-b 20..29 trace.json trace.json",
             "Two parts of one run."},
            {NULL, NULL},
        },
    .options =
        (const struct ks_cli_option[]){
            KS_CLI_OPTION_JSON,
            {"html", 0, "FILE", NULL,
             "Also write the page of B with a view that compares both: one file that works "
             "offline."},
            {"limit", 'n', "N", NULL, "At most N rows in each list (text: 10; JSON: all)."},
            {"all-rows", 0, NULL, NULL, "All rows, whatever their number."},
            {"group-by", 0, "WHAT", "shape",
             "Tell operators apart by the shapes of their inputs too."},
            {"steps-a", 0, "N..M", NULL,
             "Of A only the steps N to M, as the profiler numbers them."},
            {"steps-b", 0, "N..M", NULL, "Of B only the steps N to M."},
            KS_CLI_OPTION_RUN,
            KS_CLI_OPTION_WINDOW,
            KS_CLI_OPTION_STRICT,
            KS_CLI_OPTION_RULES,
            KS_CLI_OPTION_MAX_SECONDS,
            {"output", 'o', "FILE", NULL,
             "Write to FILE, whole or not at all; - is standard output."},
            KS_CLI_OPTION_MEMORY,
            KS_CLI_OPTION_CACHE,
            KS_CLI_OPTION_NO_CACHE,
            KS_CLI_OPTION_THREADS,
            KS_CLI_OPTION_COLOR,
            KS_CLI_OPTION_WIDTH,
            KS_CLI_OPTION_QUIET,
            KS_CLI_OPTION_VERBOSE,
            {NULL, 0, NULL, NULL, NULL},
        },
    .run = run,
};
