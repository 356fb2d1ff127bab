#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory_args.h"
#include "message.h"
#include "output.h"
#include "page_args.h"
#include "progress_line.h"
#include "rules_args.h"
#include "text_args.h"
#include "trace_args.h"

enum { SORT_NAMES_MAX = 64, STACK_DEPTH_DEFAULT = 5, STACK_DEPTH_MAX = 1024 };

static struct ks_cli_output output;

/* ------------------------------------------------------------------ values of options */

/* From which weight or share on a finding makes the exit status 1. */
struct alarm {
    bool is_set;
    bool is_share;
    double share;
    enum ks_severity least;
};

/* "low", "medium", "high", or a share: "10%", "0.1". */
static int read_alarm(const struct ks_cli_args *args, struct alarm *alarm)
{
    static const char *const words[] = {"low", "medium", "high"};
    const char *text = ks_cli_value(args, "fail-on");
    alarm->is_set = text != NULL;
    for (size_t i = 0; text && i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(text, words[i]) == 0) {
            alarm->least = (enum ks_severity)i;
            return KS_EXIT_OK;
        }
    }
    if (!text) {
        return KS_EXIT_OK;
    }
    char *end = NULL;
    double value = strtod(text, &end);
    bool is_percent = end != text && strcmp(end, "%") == 0;
    double limit = is_percent ? 100.0 : 1.0;
    if (end == text || (*end && !is_percent) || !(value >= 0.0 && value <= limit)) {
        return ks_cli_usage_fail(args,
                                 "Cannot use --fail-on %s: it must be low, medium, high, 0%% to "
                                 "100%%, or 0 to 1",
                                 text);
    }
    alarm->is_share = true;
    alarm->share = value / limit;
    return KS_EXIT_OK;
}

static bool is_alarming(const struct alarm *alarm, const struct ks_report *report)
{
    if (!alarm->is_set) {
        return false;
    }
    return alarm->is_share ? ks_report_finding_count_above(report, alarm->share) > 0
                           : ks_report_finding_count_severe(report, alarm->least) > 0;
}

/* All keys of a table, a few on each line. */
static void say_sort_keys(const char *table)
{
    char line[80] = "";
    size_t used = 0;
    for (size_t i = 0; ks_report_sort_name(table, i); i++) {
        const char *name = ks_report_sort_name(table, i);
        if (used + strlen(name) + 2 > sizeof(line)) {
            ks_cli_say("  %s", line);
            used = 0;
        }
        int len = snprintf(line + used, sizeof(line) - used, "%s%s", used ? " " : "", name);
        used += len > 0 ? (size_t)len : 0;
    }
    ks_cli_say("  %s", line);
}

static int check_style(const struct ks_cli_args *args, const struct ks_report_style *style)
{
    struct ks_err err = {.offset = KS_NO_OFFSET};
    if (ks_report_style_check(style, &err) == KS_OK) {
        return KS_EXIT_OK;
    }
    const char *table = style->table ? style->table : "operators";
    const char *names[SORT_NAMES_MAX] = {0};
    for (size_t i = 0; i + 1 < SORT_NAMES_MAX && ks_report_sort_name(table, i); i++) {
        names[i] = ks_report_sort_name(table, i);
    }
    const char *near = ks_cli_nearest(style->sort, names);
    int status =
        ks_cli_usage_fail(args, "Cannot sort %s by %s%s%s%s", table, style->sort,
                          near ? ": did you mean " : "", near ? near : "", near ? "?" : "");
    ks_cli_say("the keys of %s are", table);
    say_sort_keys(table);
    return status;
}

/* Sorting and grouping are about rows, which JSON and tables have. */
static int read_format(const struct ks_cli_args *args, enum ks_report_format *format)
{
    static const struct {
        const char *option;
        enum ks_report_format format;
    } kinds[] = {
        {"json", KS_REPORT_JSON},
        {"table", KS_REPORT_TABLE},
        {"markdown", KS_REPORT_MARKDOWN},
        {"sarif", KS_REPORT_SARIF},
    };
    const char *rows = ks_cli_given(args, "sort")       ? "sort"
                       : ks_cli_given(args, "group-by") ? "group-by"
                                                        : NULL;
    const char *chosen = NULL;
    *format = rows ? KS_REPORT_TABLE : KS_REPORT_SCREEN;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!ks_cli_given(args, kinds[i].option)) {
            continue;
        }
        if (chosen) {
            return ks_cli_usage_fail(args, "Cannot use --%s with --%s%s", kinds[i].option, chosen,
                                     i == 1 ? ": JSON holds all tables" : "");
        }
        chosen = kinds[i].option;
        *format = kinds[i].format;
    }
    if (rows && (*format == KS_REPORT_MARKDOWN || *format == KS_REPORT_SARIF)) {
        return ks_cli_usage_fail(args, "Cannot use --%s with --%s", rows, chosen);
    }
    return KS_EXIT_OK;
}

static int read_style(const struct ks_cli_args *args, struct ks_report_style *style)
{
    struct ks_cli_text text = {0};
    int status = ks_cli_read_text(args, &text);
    if (status == KS_EXIT_OK) {
        status = read_format(args, &style->format);
    }
    if (status != KS_EXIT_OK) {
        return status;
    }
    style->table = ks_cli_value(args, "table");
    style->sort = ks_cli_value(args, "sort");
    style->row_limit = text.row_limit;
    style->colour = text.colour;
    style->ascii = text.ascii;
    static char folder[PATH_MAX];
    style->root = getcwd(folder, sizeof(folder));
    style->width = text.width;
    return check_style(args, style);
}

/* ------------------------------------------------------------------ how to read */

static bool is_value(const struct ks_cli_args *args, const char *option, const char *value)
{
    const char *given = ks_cli_value(args, option);
    return given && strcmp(given, value) == 0;
}

/* A table of stacks is about whole ones, unless a depth is said. */
static int read_grouping(const struct ks_cli_args *args, struct ks_report_options *options)
{
    bool is_table = is_value(args, "table", "stacks");
    bool by_stack = is_value(args, "group-by", "stack") || is_table;
    options->group_by_shape = is_value(args, "group-by", "shape");
    if (!by_stack && ks_cli_given(args, "stack-depth")) {
        return ks_cli_usage_fail(args, "Cannot use --stack-depth without --group-by stack");
    }
    int64_t depth = is_table ? STACK_DEPTH_MAX : STACK_DEPTH_DEFAULT;
    int status = ks_cli_number(args, "stack-depth", 1, STACK_DEPTH_MAX, &depth);
    options->group_by_stack = by_stack ? depth : 0;
    return status;
}

static int read_options(const struct ks_cli_args *args, struct ks_report_options *options)
{
    int grouping = read_grouping(args, options);
    if (grouping != KS_EXIT_OK) {
        return grouping;
    }
    options->device_given = ks_cli_given(args, "device");
    int status = ks_cli_number(args, "device", 0, INT32_MAX, &options->device);
    if (status == KS_EXIT_OK) {
        status = ks_cli_read_report(args, options);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_threads(args, &options->threads);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_read_steps(args, "step", options);
    }
    return status == KS_EXIT_OK ? ks_cli_read_paths(args, args->operand_count, options) : status;
}

/* ------------------------------------------------------------------ the command */

static int write_report(const struct ks_cli_args *args, const struct ks_report *report,
                        const struct ks_report_style *style)
{
    int status = ks_cli_output_open(args, ks_cli_value(args, "output"), &output);
    if (status != KS_EXIT_OK) {
        return status;
    }
    struct ks_err err = {.offset = KS_NO_OFFSET};
    enum ks_status written = ks_report_write(report, style, ks_cli_output_write, &output, &err);
    return ks_cli_output_close(args, &output, written, &err);
}

/* The page, with what an earlier run is compared by. It comes first: it is what may fail, and the
 * rest says that all is done. */
static int write_page(const struct ks_cli_args *args, struct ks_report *report,
                      const struct ks_report_options *options)
{
    struct ks_comparison *comparison = NULL;
    int status = KS_EXIT_OK;
    if (ks_cli_given(args, "compare")) {
        status = ks_cli_compare_with(args, options, report, &comparison);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_page_write(args, report, comparison, &output);
    }
    ks_comparison_close(comparison);
    return status;
}

/* PREFIX-steps.svg and so on. What the trace does not hold is said and left out; with none of them
 * that is an error. */
static int write_pictures(const struct ks_cli_args *args, struct ks_report *report)
{
    const char *prefix = ks_cli_value(args, "svg");
    struct ks_err err = {.offset = KS_NO_OFFSET};
    int count = 0;
    for (unsigned i = 0; i < KS_PICTURE_COUNT; i++) {
        static char path[PATH_MAX];
        int len = snprintf(path, sizeof(path), "%s-%s.svg", prefix, ks_picture_name(i));
        if (len < 0 || (size_t)len >= sizeof(path)) {
            return ks_cli_usage_fail(args, "Cannot write pictures: --svg is too long");
        }
        int status = ks_cli_output_open(args, path, &output);
        if (status != KS_EXIT_OK) {
            return status;
        }
        enum ks_status drawn =
            ks_report_write_picture(report, i, ks_cli_output_write, &output, &err);
        if (drawn == KS_ERR_UNSUPPORTED) {
            ks_cli_output_drop(&output);
            if (!ks_cli_given(args, "quiet")) {
                ks_cli_say("%s", err.message);
            }
            continue;
        }
        status = ks_cli_output_close(args, &output, drawn, &err);
        if (status != KS_EXIT_OK) {
            return status;
        }
        count++;
    }
    return count > 0 ? KS_EXIT_OK : ks_cli_fail(args, &err, NULL);
}

static int check_compare(const struct ks_cli_args *args)
{
    return ks_cli_given(args, "compare") && !ks_cli_given(args, "html")
               ? ks_cli_usage_fail(args, "Cannot use --compare without --html: kscope diff shows "
                                         "two runs as text")
               : ks_cli_page_check(args);
}

static int report_on(const struct ks_cli_args *args, struct ks_report_options *options,
                     const struct ks_report_style *style, const struct alarm *alarm,
                     const struct ks_rules *rules)
{
    struct ks_report *report = NULL;
    int status = ks_cli_open_report(args, options, &report);
    if (status != KS_EXIT_OK) {
        return status;
    }
    status = ks_cli_rules_run(args, report, rules, options->progress);
    if (status == KS_EXIT_OK && ks_cli_given(args, "html")) {
        status = write_page(args, report, options);
    }
    if (status == KS_EXIT_OK && ks_cli_given(args, "svg")) {
        status = write_pictures(args, report);
    }
    ks_cli_progress_stop();
    if (status == KS_EXIT_OK) {
        status = write_report(args, report, style);
    }
    if (status == KS_EXIT_OK && is_alarming(alarm, report)) {
        status = KS_EXIT_FOUND;
    }
    ks_report_close(report);
    return status;
}

/* Options that mean something for a memory snapshot, or at least do no harm. */
static bool fits_snapshot(const char *name)
{
    static const char *const fitting[] = {"json",   "limit",  "all-rows", "output",
                                          "memory", "strict", "cache",    "no-cache",
                                          "color",  "width",  "quiet",    "verbose"};
    for (size_t i = 0; i < sizeof(fitting) / sizeof(fitting[0]); i++) {
        if (strcmp(fitting[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static int check_fit(const struct ks_cli_args *args)
{
    for (const struct ks_cli_option *option = args->command->options; option->name; option++) {
        if (ks_cli_given(args, option->name) && !fits_snapshot(option->name)) {
            return ks_cli_usage_fail(args, "Cannot use --%s: %s is a memory snapshot", option->name,
                                     args->operands[0]);
        }
    }
    return KS_EXIT_OK;
}

/* A memory snapshot has another report, which has no use for most of the options. */
static int report_on_snapshot(const struct ks_cli_args *args)
{
    struct ks_memory_options options = {0};
    struct ks_memory_style style = {0};
    int status = check_fit(args);
    if (status == KS_EXIT_OK) {
        status = ks_cli_memory_style(args, &style);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_size(args, "memory", &options.memory_bytes_max);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_check_target(args);
    }
    return status == KS_EXIT_OK ? ks_cli_memory_show(args, &options, &style, &output) : status;
}

static bool is_snapshot(const struct ks_cli_args *args)
{
    return args->operand_count == 1 && strcmp(args->operands[0], "-") != 0 &&
           ks_memory_is_snapshot(args->operands[0]);
}

static int run(const struct ks_cli_args *args)
{
    if (is_snapshot(args)) {
        return report_on_snapshot(args);
    }
    struct ks_report_options options = {0};
    struct ks_report_style style = {0};
    struct alarm alarm = {0};
    struct ks_rules *rules = NULL;
    int status = read_alarm(args, &alarm);
    if (status == KS_EXIT_OK) {
        status = read_style(args, &style);
    }
    if (status == KS_EXIT_OK) {
        status = check_compare(args);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_check_target(args);
    }
    if (status == KS_EXIT_OK) {
        status = read_options(args, &options);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_rules_load(args, &options, &rules);
    }
    if (status == KS_EXIT_OK) {
        status = report_on(args, &options, &style, &alarm, rules);
    }
    ks_rules_close(rules);
    return status;
}

const struct ks_cli_command ks_cmd_report = {
    .name = "report",
    .summary = "Say where the time of a step goes, and what would make it faster.",
    .operands = "PATH...",
    .operands_min = 1,
    .operands_max = SIZE_MAX,
    .details =
        "PATH is a trace of torch.profiler (.json, .json.gz, .json.zst), a recording of ours "
        "(.ksrec), a folder with them, or - for standard input. Several paths are the ranks or the "
        "cycles of one run. A profile by cProfile (.pstats) is a path, too: calls and times of its "
        "functions; and an export of Nsight Systems (nsys export --type sqlite). One memory "
        "snapshot (.pickle) is shown as kscope memory shows it.\n\n"
        "Damaged input is read as far as it goes, and every repaired or dropped thing is counted "
        "in the report; --strict refuses it.\n\n"
        "--sort takes the names of torch's key_averages (self_cpu_time_total, cuda_time_total, "
        "count, ...) and the column names of the table.",
    .examples =
        (const struct ks_cli_example[]){
            {"report trace.json.gz", "One screen: verdict, steps, devices, what to change first."},
            {"report --table operators --sort self_cpu_time_total trace.json",
             "The operators with most CPU time of their own."},
            {"report --json -o report.json log/",
             "Everything about all ranks of a folder, for scripts."},
            {"report --fail-on high trace.json",
             "Exit status 1 when something costs a fifth of a step."},
            {"report --html page.html trace.json",
             "The same, and a page with timeline and flame graph, to open in a browser."},
            {"report --table functions train.pstats",
             "What cProfile counted: calls, own time and total time of each function."},
            {"report run.sqlite", "The same of what nsys export --type sqlite has written."},
            {"report --rules team-rules/ trace.json",
             "Findings of your own rules beside those of kscope."},
            {NULL, NULL},
        },
    .options =
        (const struct ks_cli_option[]){
            KS_CLI_OPTION_JSON,
            {"markdown", 0, NULL, NULL, "Write Markdown, for a comment or an issue."},
            {"sarif", 0, NULL, NULL,
             "Write the findings that name a line as SARIF; files below the current folder get "
             "relative names."},
            {"html", 0, "FILE", NULL,
             "Also write all of it as a page, with timeline and flame graph: one file that works "
             "offline."},
            {"compare", 0, "PATH", NULL,
             "On the page, also compare the run with an earlier one: a trace or a folder."},
            {"svg", 0, "PREFIX", NULL,
             "Also draw PREFIX-steps.svg, PREFIX-idle.svg and PREFIX-memory.svg, for papers and "
             "comments."},
            {"table", 't', "TABLE",
             "operators|kernels|steps|phases|idle|devices|streams|copies|copy_sites|syncs|places|"
             "links|findings|inputs|regions|functions|samples|counters|instants|modules|autograd|"
             "sequences|stacks",
             "Show one table instead of the overview."},
            {"sort", 's', "KEY", NULL, "Sort the rows by a column; an unknown key lists them all."},
            {"limit", 'n', "N", NULL, "At most N rows in each list (tables: 20; JSON: all)."},
            {"all-rows", 0, NULL, NULL, "All rows, whatever their number."},
            {"group-by", 0, "WHAT", "shape|stack",
             "Tell operators apart by the shapes of their inputs, too, or by the Python frames "
             "that called them."},
            {"stack-depth", 0, "N", NULL,
             "With --group-by stack: by the N innermost frames (5; above 64: all); with --table "
             "stacks: all."},
            {"step", 0, "N..M", NULL, "Only the steps N to M, as the profiler numbers them."},
            {"device", 0, "N", NULL, "Only the GPU with this number."},
            KS_CLI_OPTION_RUN,
            KS_CLI_OPTION_WINDOW,
            KS_CLI_OPTION_STRICT,
            {"fail-on", 0, "WEIGHT", NULL,
             "Exit with 1 when a finding weighs that much: low, medium (5 % of step time), high "
             "(20 %, or memory runs out soon), or a share such as 10% or 0.1."},
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
