/* `kscope explain`: the page of a rule, or the list of rules. */
#include <string.h>
#include <unistd.h>

#include "message.h"
#include "output.h"

enum { RULES_MAX = 256 };

static struct ks_cli_output output;

/* A wrong id: the nearest one, if any is near. */
static int fail(const struct ks_cli_args *args, const char *id)
{
    const char *ids[RULES_MAX] = {0};
    for (size_t i = 0; i + 1 < RULES_MAX && ks_rule_id(i); i++) {
        ids[i] = ks_rule_id(i);
    }
    const char *near = ks_cli_nearest(id, ids);
    return ks_cli_usage_fail(args, "Cannot find rule %s%s%s%s", id, near ? ": did you mean " : "",
                             near ? near : "", near ? "?" : "");
}

static bool is_rule(const char *id)
{
    for (size_t i = 0; ks_rule_id(i); i++) {
        if (strcmp(ks_rule_id(i), id) == 0) {
            return true;
        }
    }
    return false;
}

static int run(const struct ks_cli_args *args)
{
    const char *id = args->operand_count > 0 ? args->operands[0] : NULL;
    if (id && !is_rule(id)) {
        return fail(args, id);
    }
    int status = ks_cli_output_open(args, NULL, &output);
    if (status != KS_EXIT_OK) {
        return status;
    }
    struct ks_err err = {.offset = KS_NO_OFFSET};
    bool colour = ks_cli_colour(ks_cli_value(args, "color"), STDOUT_FILENO);
    enum ks_status written = ks_explain_write(id, colour, ks_cli_output_write, &output, &err);
    return ks_cli_output_close(args, &output, written, &err);
}

const struct ks_cli_command ks_cmd_explain = {
    .name = "explain",
    .summary = "Explain a finding: what it claims, on what evidence, how its saving is bounded and "
               "what to change.",
    .operands = "[ID]",
    .operands_max = 1,
    .operand_choices = "@rules",
    .details = "Without an id, all rules are listed.",
    .examples =
        (const struct ks_cli_example[]){
            {"explain sync.host", "What this finding means, and when the rule stays silent."},
            {"explain", "All rules, a line each."},
            {NULL, NULL},
        },
    .options =
        (const struct ks_cli_option[]){
            KS_CLI_OPTION_COLOR,
            {NULL, 0, NULL, NULL, NULL},
        },
    .run = run,
};
