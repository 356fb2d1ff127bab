/* What the statement gives, and whether the rule says enough about it. */
#include "rules/user_rule.h"

#include <stdio.h>

#include "base/err.h"

static const char *const known_names[KS_USER_COLUMN_COUNT] = {
    [KS_USER_SAVING_LOW] = "saving_low_ns",
    [KS_USER_SAVING_HIGH] = "saving_high_ns",
    [KS_USER_STEP] = "step",
    [KS_USER_RANK] = "rank",
    [KS_USER_DEVICE] = "device",
    [KS_USER_STREAM] = "stream",
    [KS_USER_OP] = "op",
    [KS_USER_MODULE] = "module",
    [KS_USER_FILE] = "file",
    [KS_USER_LINE] = "line",
    [KS_USER_BYTES] = "bytes",
};

static enum ks_status fail(const struct ks_user_rule *rule, size_t line, struct ks_err *err,
                           const char *what)
{
    return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot use rule: %.80s:%zu: %s", rule->name,
                   line, what);
}

int ks_user_rule_column(const struct ks_user_rule *rule, struct ks_str name)
{
    for (size_t i = 0; i < rule->column_count; i++) {
        if (ks_str_equal_nocase(ks_str_from(rule->columns[i]), name)) {
            return (int)i;
        }
    }
    return -1;
}

/* ------------------------------------------------------------------ templates */

enum ks_user_piece ks_user_text_next(struct ks_str *rest, struct ks_str *piece)
{
    if (rest->len == 0) {
        return KS_USER_TEXT_END;
    }
    char first = rest->ptr[0];
    bool is_brace = first == '{' || first == '}';
    if (is_brace && rest->len > 1 && rest->ptr[1] == first) {
        *piece = (struct ks_str){rest->ptr, 1};
        *rest = (struct ks_str){rest->ptr + 2, rest->len - 2};
        return KS_USER_PLAIN;
    }
    const char *end = first == '{' ? memchr(rest->ptr, '}', rest->len) : NULL;
    if (is_brace && !end) {
        return KS_USER_TEXT_BAD;
    }
    size_t len = 0;
    if (is_brace) {
        len = (size_t)(end - rest->ptr) + 1;
        *piece = (struct ks_str){rest->ptr + 1, len - 2};
    } else {
        while (len < rest->len && rest->ptr[len] != '{' && rest->ptr[len] != '}') {
            len++;
        }
        *piece = (struct ks_str){rest->ptr, len};
    }
    *rest = (struct ks_str){rest->ptr + len, rest->len - len};
    return is_brace ? KS_USER_NAME : KS_USER_PLAIN;
}

static enum ks_status check_text(const struct ks_user_rule *rule, const struct ks_user_text *text,
                                 struct ks_err *err)
{
    struct ks_str rest = text->text;
    struct ks_str piece = {0};
    char what[160];
    for (;;) {
        enum ks_user_piece kind = ks_user_text_next(&rest, &piece);
        if (kind == KS_USER_TEXT_END) {
            return KS_OK;
        }
        if (kind == KS_USER_TEXT_BAD) {
            return fail(rule, text->line, err,
                        "a brace has no partner: a column is {name}, a brace {{ or }}");
        }
        if (kind == KS_USER_NAME && ks_user_rule_column(rule, piece) < 0) {
            snprintf(what, sizeof(what), "the statement gives no column for {%.*s}",
                     piece.len < 64 ? (int)piece.len : 64, piece.ptr);
            return fail(rule, text->line, err, what);
        }
    }
}

/* ------------------------------------------------------------------ columns */

static enum ks_status take_columns(struct ks_user_rule *rule, const struct ks_query *query,
                                   struct ks_arena *arena, struct ks_err *err)
{
    size_t count = ks_query_column_count(query);
    if (count > KS_USER_COLUMNS_MAX) {
        return fail(rule, rule->sql_line, err, "it gives more than 64 columns");
    }
    for (size_t i = 0; i < count; i++) {
        const char *name = ks_query_column_name(query, i);
        char what[160];
        if (ks_user_rule_column(rule, ks_str_from(name)) >= 0) {
            snprintf(what, sizeof(what), "two columns are named %.80s", name);
            return fail(rule, rule->sql_line, err, what);
        }
        rule->columns[i] = ks_arena_copy(arena, name, strlen(name));
        if (!rule->columns[i]) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep rule: no memory");
        }
        rule->column_count++;
    }
    for (size_t i = 0; i < KS_USER_COLUMN_COUNT; i++) {
        rule->known[i] = ks_user_rule_column(rule, ks_str_from(known_names[i]));
    }
    return KS_OK;
}

static enum ks_status check_columns(const struct ks_user_rule *rule, struct ks_err *err)
{
    bool has_low = rule->known[KS_USER_SAVING_LOW] >= 0;
    bool has_high = rule->known[KS_USER_SAVING_HIGH] >= 0;
    bool is_time = rule->rule.impact == KS_IMPACT_TIME;
    if (is_time && !(has_low && has_high)) {
        return fail(rule, rule->sql_line, err,
                    "a rule about time needs the columns saving_low_ns and saving_high_ns "
                    "(else say impact: memory or impact: risk)");
    }
    if (!is_time && (has_low || has_high)) {
        return fail(rule, rule->sql_line, err, "only a rule with impact: time can save time");
    }
    if (rule->known[KS_USER_LINE] >= 0 && rule->known[KS_USER_FILE] < 0) {
        return fail(rule, rule->sql_line, err, "the column line needs the column file");
    }
    return KS_OK;
}

enum ks_status ks_user_rule_bind(struct ks_user_rule *rule, struct ks_query *query,
                                 struct ks_arena *arena, struct ks_err *err)
{
    static const char asked[] = "Cannot run query: "; // how messages of a query begin
    struct ks_err found = {0};
    rule->column_count = 0;
    enum ks_status status = ks_query_prepare(query, rule->sql, &found);
    if (status == KS_ERR_USAGE) {
        struct ks_str said = ks_str_from(found.message);
        bool is_long = ks_str_starts(said, ks_str_from(asked));
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot use rule: %.80s: %s", rule->name,
                       found.message + (is_long ? sizeof(asked) - 1 : 0));
    }
    if (status != KS_OK) {
        return ks_fail(err, status, KS_NO_OFFSET, "%s", found.message);
    }
    KS_TRY(take_columns(rule, query, arena, err));
    KS_TRY(check_columns(rule, err));
    KS_TRY(check_text(rule, &rule->fix, err));
    KS_TRY(check_text(rule, &rule->code, err));
    return check_text(rule, &rule->verify, err);
}
