/* The public API of rules that users write: they are loaded once, and run on a report. */
#include <kscope/kscope.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/locale_c.h"
#define KS_LOG_DOMAIN "rules"
#include "base/log.h"
#include "base/progress.h"
#include "report_view.h"
#include "rules/user_rule_folder.h"
#include "show/list_tables.h"

static const uint64_t BYTES_DEFAULT = (uint64_t)1 << 30;
enum { MS_DEFAULT = 30000 };

struct ks_rules {
    struct ks_arena arena;
    struct ks_user_rules rules;
    struct ks_query_limits limits; /* of each rule */
};

static enum ks_status open_query(const struct ks_view *view, const struct ks_query_limits *limits,
                                 struct ks_arena *arena, struct ks_query **out, struct ks_err *err)
{
    const struct ks_row_table *lists = NULL;
    size_t list_count = 0;
    KS_TRY(ks_list_tables(view, arena, &lists, &list_count, err));
    return ks_query_open(view->trace, lists, list_count, limits, out, err);
}

/* ------------------------------------------------------------------ loading */

/* Compiles all statements against tables without rows. */
static enum ks_status bind_all(struct ks_rules *rules, struct ks_err *err)
{
    struct ks_view nothing = {0};
    struct ks_arena scratch;
    struct ks_query *query = NULL;
    ks_arena_init(&scratch);
    enum ks_status status = open_query(&nothing, &rules->limits, &scratch, &query, err);
    for (size_t i = 0; i < rules->rules.count && status == KS_OK; i++) {
        status = ks_user_rule_bind(&rules->rules.list[i], query, &rules->arena, err);
    }
    ks_query_close(query);
    ks_arena_release(&scratch);
    return status;
}

static enum ks_status load(struct ks_rules *rules, const char *path, struct ks_err *err)
{
    KS_TRY(ks_user_rules_read(path, &rules->rules, &rules->arena, err));
    return bind_all(rules, err);
}

enum ks_status ks_rules_open(const struct ks_rules_options *options, struct ks_rules **out,
                             struct ks_err *err)
{
    *out = NULL;
    struct ks_rules *rules = ks_alloc(1, sizeof(*rules));
    if (!rules) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot open rules: no memory");
    }
    ks_arena_init(&rules->arena);
    rules->limits = (struct ks_query_limits){
        .bytes_max = options->bytes_max ? options->bytes_max : BYTES_DEFAULT,
        .ms_max = options->ms_max ? options->ms_max : MS_DEFAULT,
        .is_cancelled = options->is_cancelled,
        .user = options->cancel_user,
    };
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    enum ks_status status = load(rules, options->path, err);
    ks_locale_c_leave(&locale);
    if (status != KS_OK) {
        ks_rules_close(rules);
        return status;
    }
    *out = rules;
    return KS_OK;
}

void ks_rules_close(struct ks_rules *rules)
{
    if (rules) {
        ks_arena_release(&rules->arena);
        ks_free(rules);
    }
}

size_t ks_rules_count(const struct ks_rules *rules)
{
    return rules->rules.count;
}

/* ------------------------------------------------------------------ running */

/* A rule that could not be judged is no failure of the report, and nothing to be silent about. */
static void say(const struct ks_log *log, const struct ks_user_rule *rule,
                const struct ks_check *check)
{
    if (check->state != KS_CHECK_FINE && *check->reason) {
        KS_LOG(log, KS_LOG_WARN, "rule %s: %s", rule->rule.id, check->reason);
    }
}

static enum ks_status run_all(const struct ks_rules *rules, struct ks_query *query,
                              const struct ks_view *view, struct ks_findings *out,
                              const struct ks_log *log, struct ks_err *err)
{
    for (size_t i = 0; i < rules->rules.count; i++) {
        const struct ks_user_rule *rule = &rules->rules.list[i];
        struct ks_check *check = &out->checks[out->check_count];
        KS_TRY(ks_user_rule_run(rule, query, view->facts, out, check, err));
        out->check_count++;
        say(log, rule, check);
    }
    ks_findings_settle(out, view->facts);
    return KS_OK;
}

static enum ks_status run_once(struct ks_report *report, const struct ks_rules *rules,
                               struct ks_err *err)
{
    const struct ks_view *view = ks_report_view(report);
    struct ks_findings found = {0};
    struct ks_arena scratch;
    struct ks_query *query = NULL;
    ks_arena_init(&scratch);
    ks_report_show_findings(report, NULL); // statements see what our own rules found
    enum ks_status status = ks_findings_extend(view->findings, rules->rules.count, &found, err);
    if (status == KS_OK) {
        status = open_query(view, &rules->limits, &scratch, &query, err);
    }
    if (status == KS_OK) {
        status = run_all(rules, query, view, &found, ks_report_log(report), err);
    }
    ks_query_close(query);
    ks_arena_release(&scratch);
    if (status == KS_OK) {
        ks_report_show_findings(report, &found);
    }
    ks_findings_release(&found);
    return status;
}

enum ks_status ks_report_add_rules(struct ks_report *report, const struct ks_rules *rules,
                                   struct ks_progress *progress, struct ks_err *err)
{
    struct ks_locale_c locale;
    ks_progress_enter(progress, KS_STAGE_QUERY);
    ks_locale_c_enter(&locale);
    enum ks_status status = run_once(report, rules, err);
    if (ks_report_must_reread(report, status)) { // a chunk of a trace from the cache is damaged
        status = ks_report_reread(report, err);
        if (status == KS_OK) {
            status = run_once(report, rules, err);
        }
    }
    ks_locale_c_leave(&locale);
    return status;
}
