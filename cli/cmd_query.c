#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "interrupt.h"
#include "message.h"
#include "output.h"
#include "page_args.h"
#include "progress_line.h"
#include "trace_args.h"

enum {
    SQL_SIZE_MAX = 1000000, /* that of the library */
    SECONDS_MAX = 1000000,
    GRACE_SECONDS = 5,
};

static const uint64_t BYTES_DEFAULT = (uint64_t)1 << 30;

static struct ks_cli_output output;
static char file_text[SQL_SIZE_MAX + 2];

/* ------------------------------------------------------------------ interrupts */

/* A single function of SQL can work on a large text for hours without looking at the clock. */
static void on_alarm(int number)
{
    (void)number;
    ks_cli_interrupt_quit("kscope: Cannot finish query: it took longer than --max-seconds\n",
                          KS_EXIT_INPUT);
}

/* The first Ctrl-C asks the query to stop, which it does between two rows; the second insists. */
static void watch_signals(int64_t seconds)
{
    ks_cli_interrupt_ask_first("kscope: Cannot finish query: interrupted\n");
    if (seconds > 0) {
        struct sigaction action = {.sa_handler = on_alarm};
        (void)sigemptyset(&action.sa_mask);
        (void)sigaction(SIGALRM, &action, NULL);
        (void)alarm((unsigned)seconds + GRACE_SECONDS);
    }
}

/* ------------------------------------------------------------------ the statement */

static int fail_file(const struct ks_cli_args *args, const char *path, const char *reason)
{
    struct ks_err failure = {.status = KS_ERR_IO, .offset = KS_NO_OFFSET};
    snprintf(failure.message, sizeof(failure.message), "Cannot read SQL: %s", reason);
    return ks_cli_fail(args, &failure, path);
}

static int read_file(const struct ks_cli_args *args, const char *path,
                     struct ks_query_options *options)
{
    bool is_stdin = strcmp(path, "-") == 0;
    for (size_t i = 0; is_stdin && i < args->operand_count; i++) {
        if (strcmp(args->operands[i], "-") == 0) {
            return ks_cli_usage_fail(args, "Cannot read both SQL and a trace from standard input");
        }
    }
    FILE *file = is_stdin ? stdin : fopen(path, "rb");
    if (!file) {
        return fail_file(args, path, strerror(errno));
    }
    errno = 0;
    size_t size = fread(file_text, 1, sizeof(file_text) - 1, file);
    bool has_failed = ferror(file);
    int error = errno;
    if (!is_stdin) {
        (void)fclose(file);
    }
    if (has_failed) {
        return fail_file(args, path, strerror(error));
    }
    static const char mark[] = "\xEF\xBB\xBF"; /* that some editors put before UTF-8 */
    size_t skipped = size >= 3 && memcmp(file_text, mark, 3) == 0 ? 3 : 0;
    options->sql = file_text + skipped;
    options->sql_size = size - skipped;
    return KS_EXIT_OK;
}

/* With -f all operands are traces; else the last one is the statement. */
static int read_operands(const struct ks_cli_args *args, struct ks_query_options *options,
                         struct ks_report_options *report)
{
    const char *path = ks_cli_value(args, "file");
    size_t traces = args->operand_count - (path || args->operand_count == 0 ? 0 : 1);
    if (traces == 0) {
        return ks_cli_usage_fail(args, "Cannot query without %s",
                                 path                      ? "TRACE"
                                 : args->operand_count > 0 ? "both TRACE and SQL"
                                                           : "TRACE and SQL");
    }
    int status = ks_cli_read_paths(args, traces, report);
    if (status != KS_EXIT_OK) {
        return status;
    }
    if (path) {
        return read_file(args, path, options);
    }
    options->sql = args->operands[traces];
    options->sql_size = strlen(options->sql);
    return KS_EXIT_OK;
}

/* ------------------------------------------------------------------ options */

static int read_style(const struct ks_cli_args *args, struct ks_query_style *style)
{
    int64_t limit = 0;
    int64_t width = 0;
    bool is_json = ks_cli_given(args, "json");
    bool is_csv = ks_cli_given(args, "csv");
    if (is_json + is_csv + ks_cli_given(args, "table") > 1) {
        return ks_cli_usage_fail(args, "Cannot use more than one of --json, --csv and --table");
    }
    int status = ks_cli_number(args, "limit", 1, INT64_MAX, &limit);
    if (status == KS_EXIT_OK) {
        status = ks_cli_number(args, "width", 40, 1000, &width);
    }
    if (status != KS_EXIT_OK) {
        return status;
    }
    const char *path = ks_cli_value(args, "output");
    bool is_stdout = !path || strcmp(path, "-") == 0;
    style->format = is_json ? KS_QUERY_JSON : is_csv ? KS_QUERY_CSV : KS_QUERY_TABLE;
    style->row_limit = (uint64_t)limit;
    style->colour = ks_cli_colour(ks_cli_value(args, "color"), is_stdout ? STDOUT_FILENO : -1);
    style->width = width ? (size_t)width : is_stdout ? ks_cli_width(STDOUT_FILENO) : 0;
    return KS_EXIT_OK;
}

static int read_options(const struct ks_cli_args *args, struct ks_query_options *options,
                        struct ks_report_options *report)
{
    int64_t seconds = 0;
    const char *grouping = ks_cli_value(args, "group-by");
    report->group_by_shape = grouping && strcmp(grouping, "shape") == 0;
    report->group_by_stack = grouping && strcmp(grouping, "stack") == 0 ? INT64_MAX : 0;
    options->is_cancelled = ks_cli_is_interrupted;
    int status = ks_cli_read_report(args, report);
    if (status == KS_EXIT_OK) {
        status = ks_cli_number(args, "max-seconds", 1, SECONDS_MAX, &seconds);
    }
    if (status == KS_EXIT_OK) {
        status = read_style(args, &options->style);
    }
    options->ms_max = seconds * 1000;
    options->bytes_max = report->memory_bytes_max ? report->memory_bytes_max : BYTES_DEFAULT;
    return status == KS_EXIT_OK ? read_operands(args, options, report) : status;
}

/* ------------------------------------------------------------------ the command */

/* What a query wrote before it failed stays on standard output, where it is a whole document; a
 * file is not made of it. */
static int end_output(const struct ks_cli_args *args, enum ks_status status,
                      const struct ks_query_result *result, const struct ks_err *err)
{
    bool is_cut = status != KS_OK && result->has_output && output.fd == STDOUT_FILENO;
    if (!is_cut || !ks_cli_output_flush(&output)) {
        return ks_cli_output_close(args, &output, status, err);
    }
    ks_cli_message_json(false); // the document holds the error already
    return ks_cli_fail(args, err, NULL);
}

static int write_rows(const struct ks_cli_args *args, struct ks_report *report,
                      const struct ks_query_options *options)
{
    int status = ks_cli_output_open(args, ks_cli_value(args, "output"), &output);
    if (status != KS_EXIT_OK) {
        return status;
    }
    struct ks_err err = {.offset = KS_NO_OFFSET};
    struct ks_query_result result;
    if (output.fd == STDOUT_FILENO && isatty(STDOUT_FILENO)) {
        ks_cli_progress_stop(); /* rows come to the same terminal */
    }
    watch_signals(options->ms_max / 1000);
    enum ks_status written =
        ks_query_write(report, options, ks_cli_output_write, &output, &result, &err);
    (void)alarm(0);
    ks_cli_progress_stop();
    status = end_output(args, written, &result, &err);
    if (ks_cli_given(args, "verbose")) {
        ks_cli_say("%llu rows of events were looked at", (unsigned long long)result.rows_visited);
    }
    return status;
}

static int write_schema(const struct ks_cli_args *args)
{
    int status = ks_cli_output_open(args, ks_cli_value(args, "output"), &output);
    if (status != KS_EXIT_OK) {
        return status;
    }
    struct ks_err err = {.offset = KS_NO_OFFSET};
    enum ks_status written = ks_query_schema_write(ks_cli_output_write, &output, &err);
    return ks_cli_output_close(args, &output, written, &err);
}

static int run(const struct ks_cli_args *args)
{
    if (ks_cli_given(args, "schema")) {
        return args->operand_count > 0
                   ? ks_cli_usage_fail(args, "Cannot use the word %s with --schema",
                                       args->operands[0])
                   : write_schema(args);
    }
    struct ks_query_options options = {0};
    struct ks_report_options report_options = {0};
    int status = read_options(args, &options, &report_options);
    if (status != KS_EXIT_OK) {
        return status;
    }
    struct ks_report *report = NULL;
    struct ks_err err = {.offset = KS_NO_OFFSET};
    if (ks_query_check(&options, &err) != KS_OK) {
        return ks_cli_fail(args, &err, ks_cli_value(args, "file"));
    }
    status = ks_cli_open_report(args, &report_options, &report);
    if (status != KS_EXIT_OK) {
        return status;
    }
    struct ks_comparison *comparison = NULL;
    if (ks_cli_given(args, "compare")) {
        ks_cli_progress_stop();
        status = ks_cli_compare_with(args, &report_options, report, &comparison);
    }
    options.progress = report_options.progress;
    options.comparison = comparison;
    if (status == KS_EXIT_OK) {
        status = write_rows(args, report, &options);
    }
    ks_cli_progress_stop(); /* also when there is no output to write to */
    ks_comparison_close(comparison);
    ks_report_close(report);
    return status;
}

const struct ks_cli_command ks_cmd_query = {
    .name = "query",
    .summary = "Ask about a trace in SQL.",
    .operands = "TRACE... [SQL]",
    .operands_min = 0,
    .operands_max = SIZE_MAX,
    .details =
        "The last word is one SELECT in the dialect of SQLite, unless -f names a file with it. "
        "Tables are slice, gpu, memory, mark, sample, link, track, source, string, stack and "
        "call_path, and fact_operators, "
        "fact_kernels, fact_steps and so on for the lists of the report: --schema describes all of "
        "them, docs/query.md has queries to start from.\n\n"
        "Nothing can be written, attached or loaded. A query that is stopped, by Ctrl-C or "
        "--max-seconds, has written the rows it found until then.",
    .examples =
        (const struct ks_cli_example[]){
            {"query trace.json.gz \"select name, total_ns from fact_kernels limit 5\"",
             "Five kernels, as the report lists them."},
            {"query trace.json.gz \"select * from gpu where dur_ns > 1000000\" --csv",
             "All GPU work longer than a millisecond."},
            {"query log/ -f gaps.sql --json --max-seconds 60",
             "A query from a file, over all ranks of a folder."},
            {"query --schema", "What tables and columns there are."},
            {NULL, NULL},
        },
    .options =
        (const struct ks_cli_option[]){
            {"file", 'f', "FILE", NULL, "Read the SQL from FILE; - is standard input."},
            {"schema", 0, NULL, NULL, "Describe all tables and columns, and read no trace."},
            {"table", 't', NULL, NULL, "Write a table (this is the default)."},
            {"csv", 0, NULL, NULL, "Write CSV with a line of names."},
            KS_CLI_OPTION_JSON,
            {"limit", 'n', "N", NULL, "Write at most N rows."},
            {"max-seconds", 0, "N", NULL, "Stop the query after N seconds."},
            {"memory", 0, "SIZE", NULL,
             "Let the query take at most SIZE (512M, 2G; default 1G), and the trace too, with "
             "tables "
             "in a file beyond it."},
            KS_CLI_OPTION_CACHE,
            KS_CLI_OPTION_NO_CACHE,
            {"group-by", 0, "WHAT", "shape|stack",
             "Tell operators apart by the shapes of their inputs, too, in fact_operators, or by "
             "the Python frames that called them, which also fills fact_stacks."},
            {"compare", 0, "PATH", NULL,
             "Fill the tables fact_compare_* with what an earlier run is compared by."},
            KS_CLI_OPTION_RUN,
            KS_CLI_OPTION_WINDOW,
            KS_CLI_OPTION_STRICT,
            {"output", 'o', "FILE", NULL,
             "Write to FILE, whole or not at all; - is standard output."},
            KS_CLI_OPTION_COLOR,
            {"width", 0, "N", NULL, "Columns of a table; else those of the terminal, or 100."},
            KS_CLI_OPTION_QUIET,
            {"verbose", 'v', NULL, NULL,
             "Say on standard error what is being done, and how many rows were looked at."},
            {NULL, 0, NULL, NULL, NULL},
        },
    .run = run,
};
