/* What `kscope explain` says: the page of a rule for a terminal, or the list of rules. Pages are
 * Markdown that reads well as it is; what only a browser needs is taken off: marks of headings and
 * strong text become colours, links their text. */
#include <string.h>

#include "advise/findings.h"
#include "base/err.h"
#include "base/text.h"
#include "show/ink.h"
#include "show/rule_pages.h"

enum { ID_WIDTH = 26 };

static const char *find_page(const char *id)
{
    for (const struct ks_rule_page *page = ks_rule_pages; page->id; page++) {
        if (strcmp(page->id, id) == 0) {
            return page->text;
        }
    }
    return NULL;
}

/* Length of the link `[text](target)` at `at`, or 0; `*text` then lies between the brackets. */
static size_t link_at(const char *at, const char *end, struct ks_str *text)
{
    const char *close = memchr(at, ']', (size_t)(end - at));
    if (!close || close + 1 >= end || close[1] != '(') {
        return 0;
    }
    const char *last = memchr(close, ')', (size_t)(end - close));
    *text = (struct ks_str){at + 1, (size_t)(close - at - 1)};
    return last ? (size_t)(last + 1 - at) : 0;
}

static void append_inline(struct ks_text *out, const char *at, const char *end, bool colour)
{
    bool is_strong = false;
    while (at < end) {
        struct ks_str text;
        size_t size = *at == '[' ? link_at(at, end, &text) : 0;
        if (size > 0) {
            ks_text_append_str(out, text);
            at += size;
        } else if (end - at >= 2 && at[0] == '*' && at[1] == '*') {
            is_strong = !is_strong;
            ks_ink(out, colour, is_strong ? KS_INK_STRONG : KS_INK_END);
            at += 2;
        } else {
            ks_text_append(out, at++, 1);
        }
    }
}

static void append_line(struct ks_text *out, const char *line, const char *end, bool colour)
{
    size_t marks = strspn(line, "#");
    if (marks > 0 && line + marks < end && line[marks] == ' ') {
        ks_ink(out, colour, KS_INK_STRONG);
        ks_text_append(out, line + marks + 1, (size_t)(end - line) - marks - 1);
        ks_ink(out, colour, KS_INK_END);
    } else {
        append_inline(out, line, end, colour);
    }
    ks_text_append(out, "\n", 1);
}

static void append_page(struct ks_text *out, const char *page, bool colour)
{
    bool is_code = false;
    while (*page) {
        const char *end = page + strcspn(page, "\n");
        if (strncmp(page, "```", 3) == 0) {
            is_code = !is_code;
        } else if (is_code) {
            ks_text_printf(out, "    %.*s\n", (int)(end - page), page);
        } else {
            append_line(out, page, end, colour);
        }
        page = *end ? end + 1 : end;
    }
}

static void append_list(struct ks_text *out, bool colour)
{
    for (size_t i = 0; ks_rule_at(i); i++) {
        ks_ink(out, colour, KS_INK_STRONG);
        ks_text_printf(out, "%-*s", ID_WIDTH, ks_rule_at(i)->id);
        ks_ink(out, colour, KS_INK_END);
        ks_text_printf(out, "%s\n", ks_rule_at(i)->title);
    }
}

const char *ks_rule_id(size_t index)
{
    const struct ks_rule *rule = ks_rule_at(index);
    return rule ? rule->id : NULL;
}

enum ks_status ks_explain_write(const char *id, bool colour, ks_write_cb write, void *user,
                                struct ks_err *err)
{
    struct ks_text out;
    const char *page = id ? find_page(id) : NULL;
    if (id && !page) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot find rule: id=%s", id);
    }
    ks_text_init(&out);
    if (page) {
        append_page(&out, page, colour);
    } else {
        append_list(&out, colour);
    }
    enum ks_status status = KS_OK;
    if (out.failed) {
        status = ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write the page: no memory");
    } else if (!write(user, out.ptr, out.len)) {
        status =
            ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot write the page: the receiver stopped");
    }
    ks_text_release(&out);
    return status;
}
