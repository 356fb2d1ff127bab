#include "page_args.h"

#include <string.h>

#include "message.h"
#include "output.h"
#include "progress_line.h"
#include "trace_args.h"

static bool is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

int ks_cli_page_check(const struct ks_cli_args *args)
{
    struct ks_err err = {.offset = KS_NO_OFFSET};
    const char *path = ks_cli_value(args, "html");
    const char *output_path = ks_cli_value(args, "output");
    if (!path) {
        return KS_EXIT_OK;
    }
    if (ks_page_can_write(&err) != KS_OK) {
        return ks_cli_fail(args, &err, NULL);
    }
    if (is_stdout(path) && (!output_path || is_stdout(output_path))) {
        return ks_cli_usage_fail(args, "Cannot write page and report to standard output: give one "
                                       "of them a file, --html FILE or --output FILE");
    }
    if (output_path && !is_stdout(path) && strcmp(path, output_path) == 0) {
        return ks_cli_usage_fail(args, "Cannot write page and report to one file: %s", path);
    }
    return ks_cli_check_file(args, path);
}

int ks_cli_page_write(const struct ks_cli_args *args, struct ks_report *report,
                      const struct ks_comparison *comparison, struct ks_cli_output *output)
{
    int status = ks_cli_output_open(args, ks_cli_value(args, "html"), output);
    if (status != KS_EXIT_OK) {
        return status;
    }
    const struct ks_page_options options = {.comparison = comparison};
    struct ks_err err = {.offset = KS_NO_OFFSET};
    enum ks_status written =
        ks_report_write_page(report, &options, ks_cli_output_write, output, &err);
    return ks_cli_output_close(args, output, written, &err);
}

int ks_cli_compare_with(const struct ks_cli_args *args, const struct ks_report_options *options,
                        struct ks_report *report, struct ks_comparison **out)
{
    const char *path = ks_cli_value(args, "compare");
    struct ks_report_options before = *options;
    struct ks_report *earlier = NULL;
    before.paths = &path;
    before.path_count = 1;
    before.step_range_given = false; // numbers of steps are those of the later run
    int status = ks_cli_open_report(args, &before, &earlier);
    if (status != KS_EXIT_OK) {
        return status;
    }
    struct ks_err err = {.offset = KS_NO_OFFSET};
    bool is_good = ks_comparison_open(earlier, report, out, &err) == KS_OK;
    ks_cli_progress_stop();
    ks_report_close(earlier);
    return is_good ? KS_EXIT_OK : ks_cli_fail(args, &err, NULL);
}
