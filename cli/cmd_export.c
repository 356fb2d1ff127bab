#include <string.h>

#include "message.h"
#include "output.h"
#include "trace_args.h"

static struct ks_cli_output output;

static const struct {
    const char *name;
    enum ks_export_format format;
} formats[] = {{"csv", KS_EXPORT_CSV},
               {"folded", KS_EXPORT_FOLDED},
               {"speedscope", KS_EXPORT_SPEEDSCOPE},
               {"chrome", KS_EXPORT_CHROME}};

/* Options that mean something for one format only. */
static const struct {
    const char *option;
    const char *format;
} owners[] = {{"table", "csv"}, {"weight", "folded"}, {"time", "chrome"}, {"category", "chrome"}};

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
        if (ks_cli_given(args, owners[i].option) && strcmp(to, owners[i].format) != 0) {
            return ks_cli_usage_fail(args, "Cannot use --%s with --to %s: it goes with %s",
                                     owners[i].option, to, owners[i].format);
        }
    }
    options->table = ks_cli_value(args, "table");
    options->categories = ks_cli_value(args, "category");
    options->strict = ks_cli_given(args, "strict");
    options->gzip = ks_cli_wants_gzip(args);
    const char *weight = ks_cli_value(args, "weight");
    options->weight =
        weight && strcmp(weight, "device") == 0 ? KS_EXPORT_DEVICE : KS_EXPORT_SELF_CPU;
    return read_time(args, options);
}

static int read_options(const struct ks_cli_args *args, struct ks_report_options *options)
{
    static bool is_verbose;
    is_verbose = ks_cli_given(args, "verbose");
    options->log = ks_cli_log;
    options->log_user = &is_verbose;
    options->strict = ks_cli_given(args, "strict");
    options->rank_given = ks_cli_given(args, "rank");
    options->device_given = ks_cli_given(args, "device");
    const struct {
        const char *name;
        int64_t min;
        int64_t *value;
    } numbers[] = {{"rank", 0, &options->rank},
                   {"device", 0, &options->device},
                   {"run", 1, &options->run},
                   {"window", 1, &options->window}};
    int status = KS_EXIT_OK;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && status == KS_EXIT_OK; i++) {
        status = ks_cli_number(args, numbers[i].name, numbers[i].min, INT32_MAX, numbers[i].value);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_size(args, "memory", &options->memory_bytes_max);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_threads(args, &options->threads);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_cache(args, options);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_read_steps(args, "steps", options);
    }
    return status == KS_EXIT_OK ? ks_cli_read_paths(args, options) : status;
}

static int write_export(const struct ks_cli_args *args, struct ks_report *report,
                        const struct ks_export_options *options)
{
    int status = ks_cli_output_open(args, ks_cli_value(args, "output"), &output);
    if (status != KS_EXIT_OK) {
        return status;
    }
    struct ks_err err = {.offset = KS_NO_OFFSET};
    enum ks_status written = ks_export_write(report, options, ks_cli_output_write, &output, &err);
    return ks_cli_output_close(args, &output, written, &err);
}

static int run(const struct ks_cli_args *args)
{
    struct ks_report_options options = {0};
    struct ks_export_options export_options = {0};
    int status = read_format(args, &export_options);
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
    struct ks_err err = {.offset = KS_NO_OFFSET};
    if (ks_report_open(&options, &report, &err) != KS_OK) {
        return ks_cli_fail(args, &err, args->operand_count == 1 ? args->operands[0] : NULL);
    }
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
        "speedscope: a profile for each thread and each GPU stream, in ns.\n\n"
        "chrome: the trace's own text, or the part of it that --steps, --time or --category "
        "choose, with all arguments. kscope convert makes it smaller or anonymous.\n\n"
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
            {"to", 0, "FORMAT", "csv|folded|speedscope|chrome", "What to write; always needed."},
            {"output", 'o', "FILE", NULL,
             "Write to FILE, whole or not at all; - is standard output."},
            {"table", 't', "TABLE",
             "operators|kernels|steps|phases|idle|devices|streams|copies|copy_sites|syncs|places|"
             "links|findings|inputs",
             "csv: which table of the report; else operators."},
            {"weight", 'w', "WHAT", "self-cpu|device",
             "folded: exclusive time on the host, or time of the GPU work launched."},
            {"time", 0, "FROM:TO", NULL,
             "chrome: only what overlaps this time, in ms from the start of the trace."},
            {"category", 0, "LIST", NULL,
             "chrome: only events of these categories (cpu_op,kernel), as cat names them."},
            {"steps", 0, "N..M", NULL, "Only the steps N to M, as the profiler numbers them."},
            {"rank", 0, "N", NULL, "Only the files of this rank."},
            {"device", 0, "N", NULL, "Only the GPU with this number."},
            {"run", 0, "N", NULL, "Which run, counted from 1, when the files are of several."},
            {"window", 0, "N", NULL,
             "Which window of kscope run, counted from 1; else the latest of each process."},
            {"strict", 0, NULL, NULL,
             "Refuse damaged input with the byte offset of the first fault."},
            KS_CLI_OPTION_MEMORY,
            KS_CLI_OPTION_CACHE,
            KS_CLI_OPTION_NO_CACHE,
            KS_CLI_OPTION_THREADS,
            {"verbose", 'v', NULL, NULL, "Say on standard error what is being done."},
            {NULL, 0, NULL, NULL, NULL},
        },
    .run = run,
};
