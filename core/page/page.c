#include "page/page.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/err.h"
#include "page/data_block.h"
#include "page/page_bundle.h"
#include "page/page_curves.h"
#include "page/page_flame.h"
#include "page/page_timeline.h"
#include "show/report.h"
#include "show/verdict.h"

enum {
    REPORT_BYTES_MAX = 5 * 1024 * 1024, /* of 20 MB for the page, whatever the input */
    COMPARISON_BYTES_MAX = 2 * 1024 * 1024,
    REPORT_TEXT_MAX = 4096,  /* of one string; no list holds a longer one of ours */
    PACKED_FROM = 30 * 1000, /* items from which a block is worth compressing */
};

/* All that the page holds beside the report itself. */
struct content {
    const struct ks_view *view;
    struct ks_report_style style;
    struct ks_report_style comparison_style;
    struct ks_page_timeline timeline;
    struct ks_page_flames flames;
    struct ks_page_curves memory;
};

enum ks_status ks_page_check(struct ks_err *err)
{
    if (ks_page_bundle.script.len > 0) {
        return KS_OK;
    }
    return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                   "Cannot write a page: this kscope was built without Node.js; install version 20 "
                   "or newer (Debian: nodejs, npm), and build in a new folder");
}

/* ------------------------------------------------------------------ gathering */

static bool count_bytes(void *user, const char *bytes, size_t size)
{
    (void)bytes;
    *(size_t *)user += size;
    return true;
}

/* As many rows as fit, whatever the names: a half of them until they do. */
static enum ks_status fit_report(struct content *c, struct ks_err *err)
{
    for (;; c->style.row_limit /= 2) {
        size_t size = 0;
        KS_TRY(ks_report_write_json_in_page(c->view, &c->style, REPORT_TEXT_MAX, count_bytes, &size,
                                            err));
        if (size <= REPORT_BYTES_MAX || c->style.row_limit <= 1) {
            return KS_OK;
        }
    }
}

static enum ks_status fit_comparison(struct content *c, struct ks_err *err)
{
    struct ks_report_style *style = &c->comparison_style;
    for (; c->view->comparison; style->row_limit /= 2) {
        size_t size = 0;
        KS_TRY(ks_comparison_write_json_in_page(c->view->comparison, style, REPORT_TEXT_MAX,
                                                count_bytes, &size, err));
        if (size <= COMPARISON_BYTES_MAX || style->row_limit <= 1) {
            return KS_OK;
        }
    }
    return KS_OK;
}

static enum ks_status gather_memory(struct content *c, struct ks_err *err)
{
    const struct ks_page_timeline *timeline = &c->timeline;
    ks_page_curves_init(&c->memory, timeline->start_ns, timeline->end_ns);
    return ks_page_curves_add_memory(&c->memory, c->view, &timeline->filter, err);
}

static enum ks_status gather(struct content *c, struct ks_err *err)
{
    KS_TRY(ks_page_timeline_init(&c->timeline, c->view, err));
    KS_TRY(ks_page_flames_init(&c->flames, c->view, err));
    KS_TRY(gather_memory(c, err));
    KS_TRY(fit_report(c, err));
    return fit_comparison(c, err);
}

static void release(struct content *c)
{
    ks_page_timeline_release(&c->timeline);
    ks_page_flames_release(&c->flames);
    ks_page_curves_release(&c->memory);
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

static enum ks_status put_report(struct ks_sink *sink, const struct content *c, struct ks_err *err)
{
    struct ks_data_block block;
    KS_TRY(ks_data_block_begin(&block, sink, "report", false, err));
    return ks_data_block_end(&block,
                             ks_report_write_json_in_page(c->view, &c->style, REPORT_TEXT_MAX,
                                                          ks_data_block_write, &block, err),
                             err);
}

static enum ks_status put_timeline(struct ks_sink *sink, const struct content *c,
                                   struct ks_err *err)
{
    struct ks_data_block block;
    bool is_packed = ks_page_timeline_size(&c->timeline) > PACKED_FROM;
    KS_TRY(ks_data_block_begin(&block, sink, "timeline", is_packed, err));
    return ks_data_block_end(
        &block, ks_page_timeline_write(&c->timeline, ks_data_block_write, &block, err), err);
}

static enum ks_status put_flame(struct ks_sink *sink, const struct content *c, struct ks_err *err)
{
    struct ks_data_block block;
    bool is_packed = ks_page_flames_size(&c->flames) > PACKED_FROM;
    KS_TRY(ks_data_block_begin(&block, sink, "flame", is_packed, err));
    return ks_data_block_end(
        &block, ks_page_flames_write(&c->flames, ks_data_block_write, &block, err), err);
}

static enum ks_status put_memory(struct ks_sink *sink, const struct content *c, struct ks_err *err)
{
    struct ks_data_block block;
    KS_TRY(ks_data_block_begin(&block, sink, "memory", false, err));
    return ks_data_block_end(
        &block, ks_page_curves_write_memory(&c->memory, c->view, ks_data_block_write, &block, err),
        err);
}

/* Only when there is an earlier run: the view is there when the block is. */
static enum ks_status put_comparison(struct ks_sink *sink, const struct content *c,
                                     struct ks_err *err)
{
    if (!c->view->comparison) {
        return KS_OK;
    }
    struct ks_data_block block;
    KS_TRY(ks_data_block_begin(&block, sink, "compare", false, err));
    return ks_data_block_end(&block,
                             ks_comparison_write_json_in_page(c->view->comparison,
                                                              &c->comparison_style, REPORT_TEXT_MAX,
                                                              ks_data_block_write, &block, err),
                             err);
}

static enum ks_status put_page(struct ks_sink *sink, const struct content *c, struct ks_err *err)
{
    put_head(sink);
    put_fallback(sink, c->view);
    KS_TRY(put_report(sink, c, err));
    KS_TRY(put_timeline(sink, c, err));
    KS_TRY(put_flame(sink, c, err));
    KS_TRY(put_memory(sink, c, err));
    KS_TRY(put_comparison(sink, c, err));
    put_script(sink);
    return ks_sink_finish(sink, err);
}

enum ks_status ks_page_write(const struct ks_view *view, size_t row_limit, ks_write_cb write,
                             void *user, struct ks_err *err)
{
    KS_TRY(ks_page_check(err));
    struct content *c = ks_alloc(1, sizeof(*c));
    struct ks_sink *sink = ks_alloc(1, sizeof(*sink));
    enum ks_status status =
        c && sink ? KS_OK
                  : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write a page: no memory");
    if (status == KS_OK) {
        c->view = view;
        c->style = (struct ks_report_style){.format = KS_REPORT_JSON, .row_limit = row_limit};
        c->comparison_style = c->style;
        status = gather(c, err);
        if (status == KS_OK) {
            ks_sink_init(sink, write, user);
            status = put_page(sink, c, err);
        }
        release(c);
    }
    ks_free(sink);
    ks_free(c);
    return status;
}
