#include "memory_args.h"

#include <string.h>
#include <unistd.h>

#include "interrupt.h"
#include "message.h"
#include "progress_line.h"
#include "text_args.h"
#include "trace_args.h"

int ks_cli_memory_style(const struct ks_cli_args *args, struct ks_memory_style *style)
{
    struct ks_cli_text text = {0};
    int status = ks_cli_read_text(args, &text);
    if (status != KS_EXIT_OK) {
        return status;
    }
    style->format = ks_cli_given(args, "json") ? KS_MEMORY_JSON : KS_MEMORY_SCREEN;
    style->row_limit = text.row_limit;
    style->colour = text.colour;
    style->ascii = text.ascii;
    style->width = text.width;
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
