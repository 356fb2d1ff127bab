/* --rules and --max-seconds: rules that the user wrote. */
#ifndef KS_CLI_RULES_ARGS_H
#define KS_CLI_RULES_ARGS_H

#include "command.h"

/* Loads and checks the rules of --rules; `*rules` NULL: the option was not given. Looks at no
 * trace. Not KS_EXIT_OK: the exit status; a message was written. */
int ks_cli_rules_load(const struct ks_cli_args *args, const struct ks_report_options *options,
                      struct ks_rules **rules) KS_MUST_CHECK;
/* Runs them on the report; as above. NULL: nothing to do. */
int ks_cli_rules_run(const struct ks_cli_args *args, struct ks_report *report,
                     const struct ks_rules *rules, struct ks_progress *progress) KS_MUST_CHECK;

#define KS_CLI_OPTION_RULES                                                                        \
    {                                                                                              \
        "rules", 0, "DIR", NULL,                                                                   \
            "Also judge by the rules in the .sql files of DIR, or of one FILE."                    \
    }
#define KS_CLI_OPTION_MAX_SECONDS                                                                  \
    {                                                                                              \
        "max-seconds", 0, "N", NULL, "Stop each rule of --rules after N seconds; else after 30."   \
    }

#endif
