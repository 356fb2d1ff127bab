/* Rules of the user: one file each, a SELECT with a head of comments that say what its rows mean.
 *
 * Parsing looks at the text alone; `ks_user_rule_bind` compiles the statement and finds the columns
 * that are known, and what the texts name. Ownership: everything lies in the arena given. */
#ifndef KS_RULES_USER_RULE_H
#define KS_RULES_USER_RULE_H

#include "advise/findings.h"
#include "query/query.h"

/* Columns with a meaning; all others are evidence, or text for the templates. */
enum ks_user_column {
    KS_USER_SAVING_LOW,
    KS_USER_SAVING_HIGH,
    KS_USER_STEP,
    KS_USER_RANK,
    KS_USER_DEVICE,
    KS_USER_STREAM,
    KS_USER_OP,
    KS_USER_MODULE,
    KS_USER_FILE,
    KS_USER_LINE,
    KS_USER_BYTES,
    KS_USER_COLUMN_COUNT,
};

enum { KS_USER_COLUMNS_MAX = 64, KS_USER_ID_MAX = 64 };

/* A text with {column} in it. */
struct ks_user_text {
    struct ks_str text; /* ptr NULL: not given */
    size_t line;        /* of the file, from 1 */
};

struct ks_user_rule {
    struct ks_rule rule; /* `check` is NULL: ks_user_rule_run does its work */
    const char *name;    /* of the file, for messages */
    struct ks_str sql;   /* the whole file, so that lines of errors are its lines */
    struct ks_user_text fix, code, verify;
    size_t sql_line; /* where the head ends, from 1 */
    /* Set by ks_user_rule_bind. */
    size_t column_count;
    const char *columns[KS_USER_COLUMNS_MAX];
    int known[KS_USER_COLUMN_COUNT]; /* index of the column, or -1 */
};

/* Reads the head. KS_ERR_USAGE: the message names file and line. `text` must outlive the rule. */
enum ks_status ks_user_rule_parse(struct ks_user_rule *rule, const char *name, struct ks_str text,
                                  struct ks_arena *arena, struct ks_err *err) KS_MUST_CHECK;
/* Compiles the statement, checks its columns and the templates against them. KS_ERR_USAGE. */
enum ks_status ks_user_rule_bind(struct ks_user_rule *rule, struct ks_query *query,
                                 struct ks_arena *arena, struct ks_err *err) KS_MUST_CHECK;
/* Runs the statement; adds a finding for each row and says in `*check` what was seen. What the
 * statement cannot do with this trace makes the check KS_CHECK_COULD_NOT; errors are those of the
 * trace (KS_ERR_IO, KS_ERR_FORMAT), KS_ERR_CANCELLED and KS_ERR_NOMEM. */
enum ks_status ks_user_rule_run(const struct ks_user_rule *rule, struct ks_query *query,
                                const struct ks_facts *facts, struct ks_findings *out,
                                struct ks_check *check, struct ks_err *err) KS_MUST_CHECK;

/* Place of a name among the columns (without regard to case), or -1. */
int ks_user_rule_column(const struct ks_user_rule *rule, struct ks_str name);

/* The next {name} of a template: what stands before it, and the name; "{{" and "}}" are braces. */
enum ks_user_piece { KS_USER_PLAIN, KS_USER_NAME, KS_USER_TEXT_END, KS_USER_TEXT_BAD };
enum ks_user_piece ks_user_text_next(struct ks_str *rest, struct ks_str *piece);

#endif
