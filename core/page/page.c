#include "page/page.h"

#include "base/alloc.h"
#include "base/err.h"
#include "page/data_block.h"
#include "page/page_bundle.h"
#include "page/page_content.h"
#include "show/verdict.h"

enum { PACKED_FROM = 30 * 1000 }; /* items from which a block is worth compressing */

enum ks_status ks_page_check(struct ks_err *err)
{
    if (ks_page_bundle.script.len > 0) {
        return KS_OK;
    }
    return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                   "Cannot write a page: this kscope was built without Node.js; install version 20 "
                   "or newer (Debian: nodejs, npm), and build in a new folder");
}

/* ------------------------------------------------------------------ markup */

static void put_head(struct ks_sink *sink)
{
    const struct ks_page_bundle *bundle = &ks_page_bundle;
    ks_sink_text(sink, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                       "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                       "script-src '");
    ks_sink_text(sink, bundle->script_hash);
    ks_sink_text(sink, "'; style-src '");
    ks_sink_text(sink, bundle->style_hash);
    ks_sink_text(sink, "'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
                       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                       "<meta name=\"generator\" content=\"kinetoscope ");
    ks_sink_text(sink, ks_version());
    ks_sink_text(sink, "\">\n<title>Kinetoscope report</title>\n<style>");
    ks_sink_put(sink, bundle->style.ptr, bundle->style.len);
    ks_sink_text(sink, "</style>\n</head>\n<body>\n");
}

/* What the page comes to, for who reads it without scripts. */
static void put_fallback(struct ks_sink *sink, const struct ks_view *view)
{
    struct ks_verdict verdict;
    ks_verdict_compute(view, &verdict);
    ks_sink_text(sink, "<noscript>\n<h1>Kinetoscope report</h1>\n<p>");
    ks_data_block_text(sink, ks_str_from(verdict.text));
    ks_sink_text(sink, "</p>\n<ol>\n");
    for (size_t i = 0; i < view->findings->count; i++) {
        const struct ks_finding *finding = &view->findings->list[i];
        ks_sink_text(sink, "<li>");
        ks_data_block_text(sink, ks_str_from(ks_view_finding_title(finding)));
        ks_sink_text(sink, "</li>\n");
    }
    ks_sink_text(sink, "</ol>\n<p>Charts and tables need JavaScript, which this file brings along; "
                       "it loads nothing.</p>\n</noscript>\n<div id=\"app\"></div>\n");
}

static void put_script(struct ks_sink *sink)
{
    ks_sink_text(sink, "<script>");
    ks_sink_put(sink, ks_page_bundle.script.ptr, ks_page_bundle.script.len);
    ks_sink_text(sink, "</script>\n</body>\n</html>\n");
}

/* ------------------------------------------------------------------ blocks */

static enum ks_status put_block(struct ks_sink *sink, const struct ks_page_content *content,
                                enum ks_page_part part, struct ks_err *err)
{
    struct ks_data_block block;
    bool is_packed = ks_page_content_size(content, part) > PACKED_FROM;
    KS_TRY(ks_data_block_begin(&block, sink, ks_page_content_id(part), is_packed, err));
    return ks_data_block_end(
        &block, ks_page_content_write(content, part, ks_data_block_write, &block, err), err);
}

/* Only when there is an earlier run: the view is there when the block is. */
static enum ks_status put_comparison(struct ks_sink *sink, const struct ks_page_content *content,
                                     struct ks_err *err)
{
    struct ks_data_block block;
    if (!content->view->comparison) {
        return KS_OK;
    }
    KS_TRY(ks_data_block_begin(&block, sink, "compare", false, err));
    return ks_data_block_end(
        &block, ks_page_content_write_comparison(content, ks_data_block_write, &block, err), err);
}

static enum ks_status put_page(struct ks_sink *sink, const struct ks_page_content *content,
                               struct ks_err *err)
{
    put_head(sink);
    put_fallback(sink, content->view);
    for (unsigned part = KS_PAGE_REPORT; part <= KS_PAGE_MEMORY; part++) {
        KS_TRY(put_block(sink, content, part, err));
    }
    KS_TRY(put_comparison(sink, content, err));
    put_script(sink);
    return ks_sink_finish(sink, err);
}

enum ks_status ks_page_write(const struct ks_view *view, size_t row_limit, ks_write_cb write,
                             void *user, struct ks_err *err)
{
    KS_TRY(ks_page_check(err));
    struct ks_page_content *content = ks_alloc(1, sizeof(*content));
    struct ks_sink *sink = ks_alloc(1, sizeof(*sink));
    enum ks_status status = content && sink ? KS_OK
                                            : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET,
                                                      "Cannot write a page: no memory");
    if (status == KS_OK) {
        status = ks_page_content_init(content, view, row_limit, NULL, err);
        if (status == KS_OK) {
            ks_sink_init(sink, write, user);
            status = put_page(sink, content, err);
        }
        ks_page_content_release(content);
    }
    ks_free(sink);
    ks_free(content);
    return status;
}

/* ------------------------------------------------------------------ for a server */

static void put_shell(struct ks_sink *sink)
{
    ks_sink_text(sink, "<!doctype html>\n<html lang=\"en\" data-served>\n<head>\n"
                       "<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
                       "content=\"width=device-width, initial-scale=1\">\n"
                       "<meta name=\"generator\" content=\"kinetoscope ");
    ks_sink_text(sink, ks_version());
    ks_sink_text(sink, "\">\n<title>Kinetoscope</title>\n<link rel=\"icon\" href=\"data:,\">\n"
                       "<link rel=\"stylesheet\" href=\"/page.css\">\n</head>\n<body>\n"
                       "<noscript>\n<p>Charts and tables need JavaScript.</p>\n</noscript>\n"
                       "<div id=\"app\"></div>\n<script src=\"/page.js\"></script>\n"
                       "</body>\n</html>\n");
}

enum ks_status ks_page_write_frame(enum ks_page_part part, ks_write_cb write, void *user,
                                   struct ks_err *err)
{
    KS_TRY(ks_page_check(err));
    struct ks_sink *sink = ks_alloc(1, sizeof(*sink));
    if (!sink) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write a page: no memory");
    }
    ks_sink_init(sink, write, user);
    if (part == KS_PAGE_SHELL) {
        put_shell(sink);
    } else {
        const struct ks_str *text =
            part == KS_PAGE_SCRIPT ? &ks_page_bundle.script : &ks_page_bundle.style;
        ks_sink_put(sink, text->ptr, text->len);
    }
    enum ks_status status = ks_sink_finish(sink, err);
    ks_free(sink);
    return status;
}
