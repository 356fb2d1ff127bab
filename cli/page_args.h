/* The page that `report` and `diff` write with --html FILE. */
#ifndef KS_CLI_PAGE_ARGS_H
#define KS_CLI_PAGE_ARGS_H

#include "command.h"

struct ks_cli_output;

/* Is a page possible at all, and does it overwrite neither an input nor meet what goes to --output?
 * Asked before anything is read. */
int ks_cli_page_check(const struct ks_cli_args *args) KS_MUST_CHECK;
/* Writes it to --html; `comparison` may be NULL. */
int ks_cli_page_write(const struct ks_cli_args *args, struct ks_report *report,
                      const struct ks_comparison *comparison, struct ks_cli_output *output)
    KS_MUST_CHECK;
/* Opens the earlier run that --compare names, as the report was opened, and compares both. */
int ks_cli_compare_with(const struct ks_cli_args *args, const struct ks_report_options *options,
                        struct ks_report *report, struct ks_comparison **out) KS_MUST_CHECK;

#endif
