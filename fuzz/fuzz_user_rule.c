/* Files of rules that users write: a head of comments, and templates with names of columns.
 *
 * What must hold, beside what sanitizers see: a failure has a message that names the file, a rule
 * that is accepted has an id, a title and a fix, and each template ends. The statement is not
 * compiled here: fuzz_query does that. */
#include <stdint.h>

#include "rules/user_rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(struct ks_str rest)
{
    struct ks_str piece = {0};
    size_t most = rest.len;
    for (size_t pieces = 0;; pieces++) {
        enum ks_user_piece kind = ks_user_text_next(&rest, &piece);
        KS_ASSERT(pieces <= most);
        if (kind == KS_USER_TEXT_END || kind == KS_USER_TEXT_BAD) {
            return;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_user_rule rule;
    struct ks_err err = {0};
    struct ks_arena arena;
    ks_arena_init(&arena);
    struct ks_str text = {(const char *)data, size};
    if (ks_user_rule_parse(&rule, "fuzz.sql", text, &arena, &err) == KS_OK) {
        KS_ASSERT(*rule.rule.id && *rule.rule.title && rule.fix.text.len > 0);
        walk(rule.fix.text);
        walk(rule.code.text);
        walk(rule.verify.text);
    } else {
        KS_ASSERT(err.status == KS_ERR_USAGE && strstr(err.message, "fuzz.sql:"));
    }
    ks_arena_release(&arena);
    return 0;
}
