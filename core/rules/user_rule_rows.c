/* From rows to findings. A row whose saving is no number is no finding: the check says so. */
#include "rules/user_rule.h"

#include <math.h>

#include "base/err.h"
#include "base/text.h"
#include "show/plain.h"
#include "show/units.h"

enum { FINDINGS_MAX = 16, WORDS_WIDTH = 160 };

static const double INT64_LIMIT = 9.2e18; // less than 2^63

/* State of one run. */
struct run {
    const struct ks_user_rule *rule;
    struct ks_query *query;
    const struct ks_facts *facts;
    struct ks_findings *out;
    struct ks_sql_value values[KS_USER_COLUMNS_MAX]; /* of the row */
    size_t found;
    size_t unusable; /* rows without a saving */
    bool is_cut;     /* there are more rows than FINDINGS_MAX */
};

/* ------------------------------------------------------------------ cells */

static enum ks_status read_row(struct run *run, struct ks_err *err)
{
    for (size_t i = 0; i < run->rule->column_count; i++) {
        KS_TRY(ks_query_value(run->query, i, &run->values[i], err));
    }
    return KS_OK;
}

static bool is_number(const struct ks_sql_value *value)
{
    return value->type == KS_SQL_INTEGER || (value->type == KS_SQL_REAL && isfinite(value->real));
}

static int64_t number_of(const struct ks_sql_value *value)
{
    if (value->type == KS_SQL_INTEGER) {
        return value->integer;
    }
    double real = fmin(fmax(value->real, -INT64_LIMIT), INT64_LIMIT);
    return (int64_t)llround(real);
}

/* The cell of a column with a meaning; NULL when the statement does not give it. */
static const struct ks_sql_value *cell_of(const struct run *run, enum ks_user_column column)
{
    int at = run->rule->known[column];
    return at < 0 ? NULL : &run->values[at];
}

/* KS_UNKNOWN for what is no number, or less than `least`. */
static int64_t integer_of(const struct run *run, enum ks_user_column column, int64_t least)
{
    const struct ks_sql_value *value = cell_of(run, column);
    if (!value || !is_number(value) || number_of(value) < least) {
        return KS_UNKNOWN;
    }
    return number_of(value);
}

static struct ks_str text_of(const struct run *run, enum ks_user_column column)
{
    const struct ks_sql_value *value = cell_of(run, column);
    return value && value->type == KS_SQL_TEXT ? value->text : (struct ks_str){"", 0};
}

/* ------------------------------------------------------------------ units */

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name);
    size_t end_len = strlen(end);
    return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

/* As the name of the column says, in the words of our own evidence. */
static const char *unit_of(const char *name, const struct ks_sql_value *value)
{
    if (ends_with(name, "_ns")) {
        return "ns";
    }
    if (ends_with(name, "_bytes") || strcmp(name, "bytes") == 0) {
        return "bytes";
    }
    if (ends_with(name, "_share") || strcmp(name, "share") == 0) {
        return "share";
    }
    return value->type == KS_SQL_REAL ? "number" : "count";
}

static void append_number(struct ks_text *out, const char *unit, const struct ks_sql_value *value)
{
    if (strcmp(unit, "ns") == 0) {
        ks_text_printf(out, "%s", ks_units_time(number_of(value)).text);
    } else if (strcmp(unit, "bytes") == 0) {
        ks_text_printf(out, "%s", ks_units_bytes(number_of(value)).text);
    } else if (strcmp(unit, "share") == 0) {
        double share = value->type == KS_SQL_REAL ? value->real : (double)value->integer;
        ks_text_printf(out, "%s", ks_units_share(share).text);
    } else if (value->type == KS_SQL_INTEGER) {
        ks_text_printf(out, "%s", ks_units_count(value->integer).text);
    } else {
        ks_text_printf(out, "%.4g", value->real);
    }
}

/* ------------------------------------------------------------------ texts */

static void append_cell(const struct run *run, struct ks_text *out, int column)
{
    const struct ks_sql_value *value = &run->values[column];
    if (is_number(value)) {
        append_number(out, unit_of(run->rule->columns[column], value), value);
    } else if (value->type == KS_SQL_TEXT) {
        ks_plain_append_fit(out, value->text, WORDS_WIDTH);
    } else {
        ks_text_printf(out, "unknown");
    }
}

/* The template with the cells of the row, in the findings' arena; NULL without a template. */
static enum ks_status render(const struct run *run, const struct ks_user_text *template,
                             const char **out, struct ks_err *err)
{
    struct ks_str rest = template->text;
    struct ks_str piece = {0};
    enum ks_user_piece kind;
    struct ks_text text;
    if (!rest.ptr) {
        return KS_OK;
    }
    ks_text_init(&text);
    while ((kind = ks_user_text_next(&rest, &piece)) != KS_USER_TEXT_END) {
        KS_ASSERT(kind != KS_USER_TEXT_BAD); // ks_user_rule_bind looked
        if (kind == KS_USER_NAME) {
            append_cell(run, &text, ks_user_rule_column(run->rule, piece));
        } else {
            ks_text_append_str(&text, piece);
        }
    }
    *out = text.failed ? NULL : ks_arena_copy(&run->out->arena, text.ptr ? text.ptr : "", text.len);
    ks_text_release(&text);
    return *out ? KS_OK : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write findings");
}

/* ------------------------------------------------------------------ one finding */

static enum ks_status set_where(const struct run *run, struct ks_where *where, struct ks_err *err)
{
    struct ks_str file = text_of(run, KS_USER_FILE);
    int64_t step = integer_of(run, KS_USER_STEP, INT64_MIN + 1);
    if (step != KS_UNKNOWN) {
        where->steps[where->step_count++] = step;
    }
    where->rank = integer_of(run, KS_USER_RANK, 0);
    where->device = integer_of(run, KS_USER_DEVICE, 0);
    where->stream = integer_of(run, KS_USER_STREAM, 0);
    where->op = ks_trace_str_find(run->facts->trace, text_of(run, KS_USER_OP));
    where->module = ks_trace_str_find(run->facts->trace, text_of(run, KS_USER_MODULE));
    where->line = KS_UNKNOWN;
    if (file.len > 0) {
        where->file.ptr = ks_arena_copy(&run->out->arena, file.ptr, file.len);
        where->file.len = file.len;
        where->line = integer_of(run, KS_USER_LINE, 1);
        if (!where->file.ptr) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write findings");
        }
    }
    return KS_OK;
}

/* Numbers without a meaning of their own are what the rule shows for it. */
static void set_evidence(const struct run *run, struct ks_finding *finding)
{
    for (size_t i = 0; i < run->rule->column_count; i++) {
        const struct ks_sql_value *value = &run->values[i];
        bool is_known = false;
        for (size_t k = 0; k < KS_USER_COLUMN_COUNT; k++) {
            is_known = is_known || run->rule->known[k] == (int)i;
        }
        if (is_known || !is_number(value)) {
            continue;
        }
        const char *unit = unit_of(run->rule->columns[i], value);
        double number = value->type == KS_SQL_REAL ? value->real : (double)value->integer;
        struct ks_evidence evidence = {
            .name = run->rule->columns[i],
            .value = fmin(fmax(number, -INT64_LIMIT), INT64_LIMIT),
            .unit = unit,
        };
        ks_finding_show(finding, &evidence, 1);
    }
}

static enum ks_status add_finding(struct run *run, struct ks_err *err)
{
    const struct ks_user_rule *rule = run->rule;
    struct ks_finding finding = {
        .rule = &rule->rule,
        .bytes = integer_of(run, KS_USER_BYTES, 0),
        .steps_until_oom = KS_UNKNOWN,
    };
    if (rule->rule.impact == KS_IMPACT_TIME) {
        int64_t low_ns = integer_of(run, KS_USER_SAVING_LOW, INT64_MIN + 1);
        int64_t high_ns = integer_of(run, KS_USER_SAVING_HIGH, INT64_MIN + 1);
        if (low_ns == KS_UNKNOWN || high_ns == KS_UNKNOWN) {
            run->unusable++;
            return KS_OK;
        }
        finding.saving = (struct ks_saving){low_ns, high_ns};
        finding.saving_in_trace = finding.saving;
    }
    if (run->found == FINDINGS_MAX) {
        run->is_cut = true;
        return KS_OK;
    }
    KS_TRY(set_where(run, &finding.where, err));
    set_evidence(run, &finding);
    KS_TRY(render(run, &rule->fix, &finding.fix_text, err));
    KS_TRY(render(run, &rule->code, &finding.fix_code, err));
    KS_TRY(render(run, &rule->verify, &finding.verify, err));
    if (!finding.verify) {
        finding.verify = ks_findings_text(
            run->out, "kscope run train.py  # with the fix: %s must be gone", rule->rule.id);
    }
    KS_TRY(ks_findings_add(run->out, run->facts, &finding, err));
    run->found++;
    return KS_OK;
}

/* ------------------------------------------------------------------ all rows */

static enum ks_status add_rows(struct run *run, struct ks_err *err)
{
    enum ks_status status;
    while (!run->is_cut && (status = ks_query_step(run->query, err)) != KS_END) {
        KS_TRY(status);
        KS_TRY(read_row(run, err));
        KS_TRY(add_finding(run, err));
    }
    return KS_OK;
}

static void describe(const struct run *run, struct ks_check *check)
{
    check->state = run->found > 0      ? KS_CHECK_FOUND
                   : run->unusable > 0 ? KS_CHECK_COULD_NOT
                                       : KS_CHECK_FINE;
    check->reason = run->found > 0 ? "" : "the statement gives no row";
    if (run->is_cut) {
        check->reason =
            ks_findings_text(run->out, "only the first %d rows became findings", FINDINGS_MAX);
    } else if (run->unusable > 0) {
        check->reason = ks_findings_text(
            run->out, "in %zu rows saving_low_ns or saving_high_ns is no number", run->unusable);
    }
}

/* What the statement itself does wrong, or wants too much of. */
static bool is_of_statement(enum ks_status status)
{
    return status == KS_ERR_USAGE || status == KS_ERR_LIMIT;
}

enum ks_status ks_user_rule_run(const struct ks_user_rule *rule, struct ks_query *query,
                                const struct ks_facts *facts, struct ks_findings *out,
                                struct ks_check *check, struct ks_err *err)
{
    struct run run = {.rule = rule, .query = query, .facts = facts, .out = out};
    struct ks_err found = {0};
    size_t before = out->count;
    *check = (struct ks_check){.rule = &rule->rule, .state = KS_CHECK_FINE, .reason = ""};
    enum ks_status status = ks_query_prepare(query, rule->sql, &found);
    if (status == KS_OK) {
        KS_ASSERT(ks_query_column_count(query) == rule->column_count);
        status = add_rows(&run, &found);
    }
    if (is_of_statement(status)) {
        out->count = before; // a part of the rows says less than none
        check->state = KS_CHECK_COULD_NOT;
        check->reason = ks_findings_text(out, "%s", found.message);
    } else if (status != KS_OK) {
        return ks_fail(err, status, found.offset, "%s", found.message);
    } else {
        describe(&run, check);
    }
    return out->is_text_missing ? ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write findings")
                                : KS_OK;
}
