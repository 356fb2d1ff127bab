#include <string.h>
#include <sys/stat.h>

#include "message.h"
#include "output.h"
#include "progress_line.h"
#include "trace_args.h"

static struct ks_cli_output output;

static const struct {
    const char *name;
    enum ks_export_format format;
} formats[] = {{"csv", KS_EXPORT_CSV},
               {"folded", KS_EXPORT_FOLDED},
               {"speedscope", KS_EXPORT_SPEEDSCOPE},
               {"chrome", KS_EXPORT_CHROME},
               {"perfetto", KS_EXPORT_PERFETTO},
               {"sqlite", KS_EXPORT_SQLITE},
               {"parquet", KS_EXPORT_PARQUET},
               {"arrow", KS_EXPORT_ARROW}};

/* Options that mean something for some formats only. */
static const struct {
    const char *option;
    const char *formats;
} owners[] = {
    {"table", "csv, parquet, arrow"}, {"weight", "folded"}, {"compression", "parquet, arrow"}};

/* "FROM:TO" in milliseconds from the start, either of which may be missing. */
static int read_time(const struct ks_cli_args *args, struct ks_export_options *options)
{
    const char *text = ks_cli_value(args, "time");
    if (!text) {
        return KS_EXIT_OK;
    }
    const char *colon = strchr(text, ':');
    options->time_given = true;
    options->time_from_ns = 0;
    options->time_to_ns = INT64_MAX;
    bool is_good = colon && (colon > text || colon[1]) &&
                   (colon == text || ks_cli_parse_ms(text, ':', &options->time_from_ns)) &&
                   (!colon[1] || ks_cli_parse_ms(colon + 1, '\0', &options->time_to_ns)) &&
                   options->time_from_ns < options->time_to_ns;
    if (is_good && ks_cli_given(args, "steps")) {
        return ks_cli_usage_fail(args, "Cannot use --time with --steps: both choose times");
    }
    return is_good ? KS_EXIT_OK
                   : ks_cli_usage_fail(
                         args, "Cannot use --time %s: it must be FROM:TO in ms, as 20:35.5", text);
}

static enum ks_export_weight weight_of(const char *word)
{
    return strcmp(word, "device") == 0      ? KS_EXPORT_DEVICE
           : strcmp(word, "functions") == 0 ? KS_EXPORT_FUNCTIONS
           : strcmp(word, "samples") == 0   ? KS_EXPORT_SAMPLES
                                            : KS_EXPORT_SELF_CPU;
}

static int read_format(const struct ks_cli_args *args, struct ks_export_options *options)
{
    const char *to = ks_cli_value(args, "to");
    if (!to) {
        return ks_cli_usage_fail(args, "Cannot export without --to FORMAT");
    }
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (strcmp(to, formats[i].name) == 0) {
            options->format = formats[i].format;
        }
    }
    for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]); i++) {
        if (ks_cli_given(args, owners[i].option) && !strstr(owners[i].formats, to)) {
            return ks_cli_usage_fail(args, "Cannot use --%s with --to %s: it goes with %s",
                                     owners[i].option, to, owners[i].formats);
        }
    }
    if (options->format == KS_EXPORT_CHROME && ks_cli_given(args, "device")) {
        return ks_cli_usage_fail(args, "Cannot use --device with --to chrome: the text is not "
                                       "read that deep; perfetto takes it");
    }
    options->table = ks_cli_value(args, "table");
    options->categories = ks_cli_value(args, "category");
    options->strict = ks_cli_given(args, "strict");
    options->gzip = ks_cli_wants_gzip(args);
    const char *compression = ks_cli_value(args, "compression");
    options->uncompressed = compression && strcmp(compression, "none") == 0;
    const char *weight = ks_cli_value(args, "weight");
    options->weight = weight_of(weight ? weight : "self-cpu");
    return read_time(args, options);
}

static int check_options(const struct ks_cli_args *args, const struct ks_export_options *options)
{
    struct ks_err err = {.offset = KS_NO_OFFSET};
    return ks_export_check(options, &err) == KS_OK ? KS_EXIT_OK
                                                   : ks_cli_usage_fail(args, "%s", err.message);
}

static int read_options(const struct ks_cli_args *args, struct ks_report_options *options)
{
    options->rank_given = ks_cli_given(args, "rank");
    options->device_given = ks_cli_given(args, "device");
    const char *table = ks_cli_value(args, "table");
    options->group_by_stack = table && strcmp(table, "stacks") == 0 ? INT64_MAX : 0;
    int status = ks_cli_number(args, "rank", 0, INT32_MAX, &options->rank);
    if (status == KS_EXIT_OK) {
        status = ks_cli_number(args, "device", 0, INT32_MAX, &options->device);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_read_report(args, options);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_threads(args, &options->threads);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_read_steps(args, "steps", options);
    }
    return status == KS_EXIT_OK ? ks_cli_read_paths(args, args->operand_count, options) : status;
}

static int write_export(const struct ks_cli_args *args, struct ks_report *report,
                        const struct ks_export_options *options)
{
    int status = ks_cli_output_open(args, ks_cli_value(args, "output"), &output);
    if (status != KS_EXIT_OK) {
        return status;
    }
    struct ks_err err = {.offset = KS_NO_OFFSET};
    bool is_database = options->format == KS_EXPORT_SQLITE;
    enum ks_status written =
        is_database ? ks_export_write_file(report, options, output.temporary, &err)
                    : ks_export_write(report, options, ks_cli_output_write, &output, &err);
    status = ks_cli_output_close(args, &output, written, &err);
    return is_database && written == KS_ERR_IO ? KS_EXIT_OWN : status;
}

/* SQLite writes anywhere in a file: it must be one. */
static int check_file(const struct ks_cli_args *args, const struct ks_export_options *options)
{
    const char *target = ks_cli_value(args, "output");
    struct stat there;
    bool is_file = target && strcmp(target, "-") != 0 &&
                   (stat(target, &there) != 0 || S_ISREG(there.st_mode) || S_ISDIR(there.st_mode));
    return is_file || options->format != KS_EXPORT_SQLITE
               ? KS_EXIT_OK
               : ks_cli_usage_fail(args, "Cannot write a database without --output FILE");
}

static int run(const struct ks_cli_args *args)
{
    struct ks_report_options options = {0};
    struct ks_export_options export_options = {0};
    int status = read_format(args, &export_options);
    if (status == KS_EXIT_OK) {
        status = check_options(args, &export_options);
    }
    if (status == KS_EXIT_OK) {
        status = check_file(args, &export_options);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_check_target(args);
    }
    if (status == KS_EXIT_OK && export_options.format == KS_EXPORT_CHROME) {
        status = ks_cli_check_target_in_folders(args);
    }
    if (status == KS_EXIT_OK) {
        status = read_options(args, &options);
    }
    if (status != KS_EXIT_OK) {
        return status;
    }
    struct ks_report *report = NULL;
    status = ks_cli_open_report(args, &options, &report);
    if (status != KS_EXIT_OK) {
        return status;
    }
    ks_cli_progress_stop();
    export_options.log = options.log;
    export_options.log_user = options.log_user;
    status = write_export(args, report, &export_options);
    ks_report_close(report);
    return status;
}

const struct ks_cli_command ks_cmd_export = {
    .name = "export",
    .summary = "Write a trace, or a table of its report, in a format of other programs.",
    .operands = "PATH...",
    .operands_min = 1,
    .operands_max = SIZE_MAX,
    .details =
        "PATH is a trace, a folder with traces, or - for standard input, as for kscope report.\n\n"
        "csv: a table of the report with the numbers of its JSON document. Unknown values are "
        "empty. Text that a spreadsheet would take for a formula gets an apostrophe in front.\n\n"
        "folded: a line \"a;b;c NS\" for each stack of operators and Python frames. What ends in "
        "an "
        "operator adds up to its exclusive time, with --weight device to its GPU time.\n\n"
        "speedscope: a profile for each thread and each GPU stream, in ns; of recordings also one "
        "for each thread whose calls were counted or whose stacks were sampled.\n\n"
        "chrome: the trace's own text, or the part of it that --steps, --time or --category "
        "choose, with all arguments. kscope convert makes it smaller or anonymous.\n\n"
        "perfetto: spans, launches, counters of all files in Perfetto's own format, which opens "
        "faster than JSON and holds several ranks.\n\n"
        "sqlite: a database with the tables of kscope query; needs -o FILE.\n\n"
        "parquet, arrow: a table for pandas, polars, DuckDB or Spark; events has host and GPU rows "
        "in "
        "one, "
        "the others are those of the report and of kscope query.\n\n"
        "A FILE that ends in .gz is compressed. "
        "A file appears whole or not at all, also after Ctrl-C or on a full disk.",
    .examples =
        (const struct ks_cli_example[]){
            {"export --to csv --table kernels -o kernels.csv trace.json.gz",
             "The kernels for a spreadsheet."},
            {"export --to folded -o stacks.folded trace.json.gz",
             "Stacks of operators and Python frames, for flame graphs."},
            {"export --to speedscope -o trace.speedscope.json trace.json.gz",
             "Threads and GPU streams in time, for speedscope."},
            {"export --to chrome --steps 3..4 -o two.json.gz trace.json.gz",
             "Two steps of a trace, for Perfetto and chrome://tracing."},
            {NULL, NULL},
        },
    .options =
        (const struct ks_cli_option[]){
            {"to", 0, "FORMAT", "csv|folded|speedscope|chrome|perfetto|sqlite|parquet|arrow",
             "What to write; always needed."},
            {"output", 'o', "FILE", NULL,
             "Write to FILE, whole or not at all; - is standard output."},
            {"table", 't', "TABLE",
             "operators|kernels|steps|phases|idle|devices|streams|copies|copy_sites|syncs|places|"
             "links|findings|inputs|regions|functions|samples|counters|instants|modules|autograd|"
             "sequences|stacks|events|slice|gpu|memory|mark|sample|link|track|source|string|stack|"
             "call_path",
             "csv, parquet, arrow: which table of the report or of kscope query; else operators "
             "for csv and events for the others."},
            {"compression", 0, "HOW", "zstd|none",
             "parquet, arrow: how values are compressed; else zstd."},
            {"weight", 'w', "WHAT", "self-cpu|device|functions|samples",
             "folded: exclusive time on the host, or time of the GPU work launched; of recordings "
             "own time of functions, or number of samples."},
            {"time", 0, "FROM:TO", NULL,
             "Only events that overlap this time, in ms from the start of the trace."},
            {"category", 0, "LIST", NULL, "Only events of these categories (cpu_op,kernel)."},
            {"steps", 0, "N..M", NULL, "Only the steps N to M, as the profiler numbers them."},
            {"rank", 0, "N", NULL, "Only the files of this rank."},
            {"device", 0, "N", NULL, "Only the GPU with this number."},
            KS_CLI_OPTION_RUN,
            KS_CLI_OPTION_WINDOW,
            KS_CLI_OPTION_STRICT,
            KS_CLI_OPTION_MEMORY,
            KS_CLI_OPTION_CACHE,
            KS_CLI_OPTION_NO_CACHE,
            KS_CLI_OPTION_THREADS,
            KS_CLI_OPTION_QUIET,
            KS_CLI_OPTION_VERBOSE,
            {NULL, 0, NULL, NULL, NULL},
        },
    .run = run,
};
