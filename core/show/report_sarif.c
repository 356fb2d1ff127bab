/* Findings with a line as SARIF 2.1.0 (OASIS standard), for editors and code scanning. Those
 * without a line have no place there: `findings_without_line` of the run says how many. */
#include "show/report.h"

#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "show/json_writer.h"
#include "show/rule_pages.h"
#include "show/sentences.h"

static bool has_line(const struct ks_finding *finding)
{
    return finding->where.file.len > 0 && finding->where.line > 0;
}

static bool has_result(const struct ks_view *view, const struct ks_rule *rule)
{
    for (size_t i = 0; i < view->findings->count; i++) {
        if (view->findings->list[i].rule == rule && has_line(&view->findings->list[i])) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ rules */

static void write_text_object(struct ks_json *json, const char *key, const char *text)
{
    ks_json_object_begin(json, key);
    ks_json_text(json, "text", text);
    ks_json_object_end(json);
}

static void write_rule(struct ks_json *json, const struct ks_rule *rule)
{
    ks_json_object_begin(json, NULL);
    ks_json_text(json, "id", rule->id);
    write_text_object(json, "shortDescription", rule->title);
    for (const struct ks_rule_page *page = ks_rule_pages; page->id; page++) {
        if (strcmp(page->id, rule->id) == 0) {
            ks_json_object_begin(json, "help");
            ks_json_text(json, "text", page->text);
            ks_json_text(json, "markdown", page->text);
            ks_json_object_end(json);
        }
    }
    ks_json_object_end(json);
}

static void write_tool(struct ks_json *json, const struct ks_view *view)
{
    ks_json_object_begin(json, "tool");
    ks_json_object_begin(json, "driver");
    ks_json_text(json, "name", "kscope");
    ks_json_text(json, "version", ks_version());
    ks_json_array_begin(json, "rules");
    for (size_t i = 0; i < view->findings->check_count; i++) {
        if (has_result(view, view->findings->checks[i].rule)) {
            write_rule(json, view->findings->checks[i].rule);
        }
    }
    ks_json_array_end(json);
    ks_json_object_end(json);
    ks_json_object_end(json);
}

/* ------------------------------------------------------------------ results */

static bool is_unreserved(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-._~/", c));
}

/* RFC 3986: relative to `root` below it, else file:// or as it is. */
static void append_uri(struct ks_text *uri, struct ks_str path, const char *root)
{
    size_t len = root ? strlen(root) : 0;
    while (len > 0 && root[len - 1] == '/') {
        len--;
    }
    if (len > 0 && path.len > len + 1 && memcmp(path.ptr, root, len) == 0 && path.ptr[len] == '/') {
        path = (struct ks_str){path.ptr + len + 1, path.len - len - 1};
    } else if (path.ptr[0] == '/') {
        ks_text_printf(uri, "file://");
    }
    for (size_t i = 0; i < path.len; i++) {
        unsigned char c = (unsigned char)path.ptr[i];
        if (is_unreserved(c)) {
            ks_text_append(uri, &path.ptr[i], 1);
        } else {
            ks_text_printf(uri, "%%%02X", c);
        }
    }
}

static void write_location(struct ks_json *json, const struct ks_where *where, const char *root,
                           struct ks_text *text)
{
    ks_text_reset(text);
    append_uri(text, where->file, root);
    ks_json_array_begin(json, "locations");
    ks_json_object_begin(json, NULL);
    ks_json_object_begin(json, "physicalLocation");
    ks_json_object_begin(json, "artifactLocation");
    ks_json_str(json, "uri", (struct ks_str){text->ptr, text->len});
    ks_json_object_end(json);
    ks_json_object_begin(json, "region");
    ks_json_int(json, "startLine", where->line);
    ks_json_object_end(json);
    ks_json_object_end(json);
    ks_json_object_end(json);
    ks_json_array_end(json);
}

static void write_properties(struct ks_json *json, const struct ks_finding *finding, size_t order)
{
    ks_json_object_begin(json, "properties");
    ks_json_int(json, "order", (int64_t)order);
    ks_json_text(json, "severity", ks_view_severity(ks_finding_severity(finding)));
    ks_json_text(json, "confidence", ks_view_confidence(finding->confidence));
    ks_json_real(json, "share", finding->share);
    ks_json_object_begin(json, "saving_ns_per_step");
    ks_json_int(json, "low", finding->saving.low_ns);
    ks_json_int(json, "high", finding->saving.high_ns);
    ks_json_object_end(json);
    ks_json_object_end(json);
}

static const char *level(const struct ks_finding *finding)
{
    static const char *const words[] = {"note", "warning", "error"};
    return words[ks_finding_severity(finding)];
}

static void write_result(struct ks_json *json, const struct ks_view *view, size_t index,
                         const char *root, struct ks_text *text)
{
    const struct ks_finding *finding = &view->findings->list[index];
    ks_json_object_begin(json, NULL);
    ks_json_text(json, "ruleId", finding->rule->id);
    ks_json_text(json, "level", level(finding));
    ks_text_reset(text);
    ks_text_printf(text, "%s: ", ks_view_finding_title(finding));
    ks_sentence_saving(text, view, finding);
    ks_text_printf(text, ". %s", finding->fix_text ? finding->fix_text : "");
    ks_json_object_begin(json, "message");
    ks_json_str(json, "text", (struct ks_str){text->ptr, text->len});
    ks_json_object_end(json);
    write_location(json, &finding->where, root, text);
    write_properties(json, finding, index + 1);
    ks_json_object_end(json);
}

static void write_run(struct ks_json *json, const struct ks_view *view, const char *root,
                      struct ks_text *text)
{
    int64_t missing = 0;
    ks_json_object_begin(json, NULL);
    write_tool(json, view);
    ks_json_text(json, "columnKind", "unicodeCodePoints");
    ks_json_array_begin(json, "results");
    for (size_t i = 0; i < view->findings->count; i++) {
        if (has_line(&view->findings->list[i])) {
            write_result(json, view, i, root, text);
        } else {
            missing++;
        }
    }
    ks_json_array_end(json);
    ks_json_object_begin(json, "properties");
    ks_json_int(json, "findings_without_line", missing);
    ks_json_object_end(json);
    ks_json_object_end(json);
}

enum ks_status ks_report_write_sarif(const struct ks_view *view,
                                     const struct ks_report_style *style, ks_write_cb write,
                                     void *user, struct ks_err *err)
{
    struct ks_json json;
    struct ks_text text;
    ks_json_init(&json, write, user);
    ks_text_init(&text);
    ks_json_object_begin(&json, NULL);
    ks_json_text(&json, "version", "2.1.0");
    ks_json_array_begin(&json, "runs");
    write_run(&json, view, style->root, &text);
    ks_json_array_end(&json);
    ks_json_object_end(&json);
    bool has_failed = text.failed;
    ks_text_release(&text);
    KS_TRY(ks_json_finish(&json, err));
    return has_failed ? ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write SARIF: no memory")
                      : KS_OK;
}
