#include "memory_args.h"

#include <string.h>
#include <unistd.h>

#include "interrupt.h"
#include "message.h"
#include "progress_line.h"
#include "trace_args.h"

int ks_cli_memory_style(const struct ks_cli_args *args, struct ks_memory_style *style)
{
    int64_t limit = 0;
    int64_t width = 0;
    int status = ks_cli_number(args, "limit", 1, INT32_MAX, &limit);
    if (status == KS_EXIT_OK) {
        status = ks_cli_number(args, "width", 40, 1000, &width);
    }
    if (status != KS_EXIT_OK) {
        return status;
    }
    if (ks_cli_given(args, "limit") && ks_cli_given(args, "all-rows")) {
        return ks_cli_usage_fail(args, "Cannot use --limit with --all-rows");
    }
    bool is_stdout =
        !ks_cli_value(args, "output") || strcmp(ks_cli_value(args, "output"), "-") == 0;
    style->format = ks_cli_given(args, "json") ? KS_MEMORY_JSON : KS_MEMORY_SCREEN;
    style->row_limit = ks_cli_given(args, "all-rows") ? SIZE_MAX : (size_t)limit;
    style->colour = ks_cli_colour(ks_cli_value(args, "color"), is_stdout ? STDOUT_FILENO : -1);
    style->ascii = !ks_cli_utf8();
    style->width = width ? (size_t)width : is_stdout ? ks_cli_width(STDOUT_FILENO) : 0;
    return KS_EXIT_OK;
}

static int write_all(const struct ks_cli_args *args, const struct ks_memory *memory,
                     const struct ks_memory_style *style, struct ks_cli_output *output)
{
    int status = ks_cli_output_open(args, ks_cli_value(args, "output"), output);
    if (status != KS_EXIT_OK) {
        return status;
    }
    struct ks_err err = {.offset = KS_NO_OFFSET};
    enum ks_status written = ks_memory_write(memory, style, ks_cli_output_write, output, &err);
    return ks_cli_output_close(args, output, written, &err);
}

int ks_cli_memory_show(const struct ks_cli_args *args, struct ks_memory_options *options,
                       const struct ks_memory_style *style, struct ks_cli_output *output)
{
    struct ks_memory *memory = NULL;
    struct ks_err err = {.offset = KS_NO_OFFSET};
    size_t failed = 0;
    options->paths = (const char *const *)args->operands;
    options->path_count = args->operand_count;
    ks_cli_interrupt_watch();
    options->progress = ks_cli_progress_start(args);
    enum ks_status opened = ks_memory_open(options, &memory, &failed, &err);
    ks_cli_progress_stop();
    if (opened != KS_OK) {
        return ks_cli_fail(args, &err, args->operands[failed]);
    }
    int status = write_all(args, memory, style, output);
    ks_memory_close(memory);
    return status;
}
