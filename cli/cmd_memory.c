/* `kscope memory`: who holds the memory of a GPU, from snapshots of torch's allocator. */
#include <string.h>

#include "memory_args.h"
#include "message.h"
#include "trace_args.h"

static struct ks_cli_output output;

static int read_style(const struct ks_cli_args *args, struct ks_memory_style *style)
{
    const char *folded = ks_cli_value(args, "folded");
    int status = ks_cli_memory_style(args, style);
    if (status != KS_EXIT_OK || !folded) {
        return status;
    }
    if (ks_cli_given(args, "json")) {
        return ks_cli_usage_fail(args, "Cannot use --folded with --json");
    }
    if (args->operand_count > 1) {
        return ks_cli_usage_fail(args, "Cannot use --folded with two snapshots");
    }
    style->format = strcmp(folded, "segments") == 0 ? KS_MEMORY_FOLDED_SEGMENTS : KS_MEMORY_FOLDED;
    return KS_EXIT_OK;
}

static int read_options(const struct ks_cli_args *args, struct ks_memory_options *options)
{
    uint64_t asked = 0;
    int status = ks_cli_size(args, "asked", &asked);
    if (status == KS_EXIT_OK && asked > (uint64_t)1 << 50) {
        return ks_cli_usage_fail(args, "Cannot use --asked: it is more than 1024T");
    }
    options->asked_bytes = (int64_t)asked;
    if (status == KS_EXIT_OK) {
        status = ks_cli_size(args, "memory", &options->memory_bytes_max);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_check_target(args);
    }
    return status == KS_EXIT_OK ? ks_cli_check_keyboard(args, args->operand_count) : status;
}

static int run(const struct ks_cli_args *args)
{
    struct ks_memory_options options = {0};
    struct ks_memory_style style = {0};
    int status = read_style(args, &style);
    if (status == KS_EXIT_OK) {
        status = read_options(args, &options);
    }
    return status == KS_EXIT_OK ? ks_cli_memory_show(args, &options, &style, &output) : status;
}

const struct ks_cli_command ks_cmd_memory = {
    .name = "memory",
    .summary = "Say who holds the memory of a GPU, and why it ran out.",
    .operands = "FILE [LATER]",
    .operands_min = 1,
    .operands_max = 2,
    .details =
        "FILE is a snapshot that torch.cuda.memory._dump_snapshot(\"FILE\") wrote (also .gz or "
        ".zst), or - for standard input. With two of them, what came and what went between them. "
        "Stacks, the peak and what is never freed need "
        "torch.cuda.memory._record_memory_history() early in the program.\n\n"
        "Snapshots are pickles, which can run code when Python loads them. Here only their data is "
        "read: whatever would name or run code is refused with its place.",
    .examples =
        (const struct ks_cli_example[]){
            {"memory snapshot.pickle",
             "Totals, fragmentation, who holds what, the peak and who held it."},
            {"memory --asked 2G snapshot.pickle", "Could 2 GiB be allocated, and if not, why?"},
            {"memory before.pickle after.pickle", "What came and what went, by place."},
            {"memory --json snapshot.pickle", "All of it with whole stacks, for scripts."},
            {"memory --folded memory -o memory.folded snapshot.pickle",
             "Stacks of all blocks, for flamegraph.pl."},
            {NULL, NULL},
        },
    .options =
        (const struct ks_cli_option[]){
            KS_CLI_OPTION_JSON,
            {"asked", 0, "SIZE", NULL,
             "Also say whether SIZE (512M, 2G) could be allocated at the end."},
            {"folded", 0, "WHAT", "memory|segments",
             "Write the stacks of all blocks for flame graphs, as torch.cuda._memory_viz does."},
            {"limit", 'n', "N", NULL, "At most N rows in each list (text: 10; JSON: all)."},
            {"all-rows", 0, NULL, NULL, "All rows, whatever their number."},
            {"output", 'o', "FILE", NULL,
             "Write to FILE, whole or not at all; - is standard output."},
            {"memory", 0, "SIZE", NULL,
             "Keep at most SIZE (512M, 2G) of what a file holds; else half of what the machine "
             "has."},
            KS_CLI_OPTION_COLOR,
            KS_CLI_OPTION_WIDTH,
            KS_CLI_OPTION_QUIET,
            {NULL, 0, NULL, NULL, NULL},
        },
    .run = run,
};
