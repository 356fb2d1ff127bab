#include "rules_args.h"

#include <signal.h>
#include <unistd.h>

#include "interrupt.h"
#include "message.h"
#include "progress_line.h"

enum { SECONDS_DEFAULT = 30, SECONDS_MAX = 100000, GRACE_SECONDS = 5 };

static int read_seconds(const struct ks_cli_args *args, int64_t *seconds)
{
    *seconds = SECONDS_DEFAULT;
    if (ks_cli_given(args, "max-seconds") && !ks_cli_given(args, "rules")) {
        return ks_cli_usage_fail(args, "Cannot use --max-seconds without --rules");
    }
    return ks_cli_number(args, "max-seconds", 1, SECONDS_MAX, seconds);
}

int ks_cli_rules_load(const struct ks_cli_args *args, const struct ks_report_options *options,
                      struct ks_rules **rules)
{
    struct ks_rules_options how = {
        .path = ks_cli_value(args, "rules"),
        .bytes_max = options->memory_bytes_max,
    };
    struct ks_err err = {.offset = KS_NO_OFFSET};
    int64_t seconds = 0;
    int status = read_seconds(args, &seconds);
    if (status != KS_EXIT_OK || !how.path) {
        return status;
    }
    how.ms_max = seconds * 1000;
    return ks_rules_open(&how, rules, &err) == KS_OK ? KS_EXIT_OK : ks_cli_fail(args, &err, NULL);
}

/* A single function of SQL can work on a large text for hours without looking at the clock. */
static void on_alarm(int number)
{
    (void)number;
    ks_cli_interrupt_quit("kscope: Cannot finish rules: they took longer than --max-seconds\n",
                          KS_EXIT_INPUT);
}

int ks_cli_rules_run(const struct ks_cli_args *args, struct ks_report *report,
                     const struct ks_rules *rules, struct ks_progress *progress)
{
    struct ks_err err = {.offset = KS_NO_OFFSET};
    int64_t seconds = 0;
    int status = rules ? read_seconds(args, &seconds) : KS_EXIT_OK;
    if (!rules || status != KS_EXIT_OK) {
        return status;
    }
    struct sigaction action = {.sa_handler = on_alarm};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGALRM, &action, NULL);
    (void)alarm((unsigned)seconds * (unsigned)ks_rules_count(rules) + GRACE_SECONDS);
    enum ks_status ran = ks_report_add_rules(report, rules, progress, &err);
    (void)alarm(0);
    if (ran != KS_OK) {
        ks_cli_progress_stop();
        return ks_cli_fail(args, &err, NULL);
    }
    return KS_EXIT_OK;
}
