/* What `kscope memory` and `kscope report` do with a memory snapshot. */
#ifndef KS_CLI_MEMORY_ARGS_H
#define KS_CLI_MEMORY_ARGS_H

#include "output.h"

/* Fills what both commands have options for: --json, --limit, --all-rows, --width, --color. */
int ks_cli_memory_style(const struct ks_cli_args *args, struct ks_memory_style *style)
    KS_MUST_CHECK;
/* Reads the operands as snapshots and writes them to --output. Gives the exit status. */
int ks_cli_memory_show(const struct ks_cli_args *args, struct ks_memory_options *options,
                       const struct ks_memory_style *style, struct ks_cli_output *output)
    KS_MUST_CHECK;

#endif
