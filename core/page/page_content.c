#include "page/page_content.h"

#include "base/err.h"
#include "show/report.h"

enum {
    REPORT_BYTES_MAX = 5 * 1024 * 1024, /* of 20 MB for the page, whatever the input */
    COMPARISON_BYTES_MAX = 2 * 1024 * 1024,
    REPORT_TEXT_MAX = 4096, /* of one string; no list holds a longer one of ours */
};

static bool count_bytes(void *user, const char *bytes, size_t size)
{
    (void)bytes;
    *(size_t *)user += size;
    return true;
}

/* As many rows as fit, whatever the names: a half of them until they do. */
static enum ks_status fit_report(struct ks_page_content *c, struct ks_err *err)
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

static enum ks_status fit_comparison(struct ks_page_content *c, struct ks_err *err)
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

static enum ks_status gather_memory(struct ks_page_content *c, struct ks_err *err)
{
    const struct ks_page_timeline *timeline = &c->timeline;
    ks_page_curves_init(&c->memory, timeline->start_ns, timeline->end_ns);
    return ks_page_curves_add_memory(&c->memory, c->view, &timeline->filter, err);
}

enum ks_status ks_page_content_init(struct ks_page_content *content, const struct ks_view *view,
                                    size_t row_limit, struct ks_page_rows *rows, struct ks_err *err)
{
    *content = (struct ks_page_content){
        .view = view, .style = {.format = KS_REPORT_JSON, .row_limit = row_limit}};
    content->comparison_style = content->style;
    KS_TRY(ks_page_timeline_init(&content->timeline, view, rows, err));
    KS_TRY(ks_page_flames_init(&content->flames, view, err));
    KS_TRY(gather_memory(content, err));
    KS_TRY(fit_report(content, err));
    return fit_comparison(content, err);
}

void ks_page_content_release(struct ks_page_content *content)
{
    ks_page_timeline_release(&content->timeline);
    ks_page_flames_release(&content->flames);
    ks_page_curves_release(&content->memory);
}

const char *ks_page_content_id(enum ks_page_part part)
{
    static const char *const ids[KS_PAGE_PART_COUNT] = {[KS_PAGE_REPORT] = "report",
                                                        [KS_PAGE_TIMELINE] = "timeline",
                                                        [KS_PAGE_FLAME] = "flame",
                                                        [KS_PAGE_MEMORY] = "memory"};
    KS_ASSERT((size_t)part < KS_PAGE_PART_COUNT && ids[part]);
    return ids[part];
}

size_t ks_page_content_size(const struct ks_page_content *content, enum ks_page_part part)
{
    return part == KS_PAGE_TIMELINE ? ks_page_timeline_size(&content->timeline)
           : part == KS_PAGE_FLAME  ? ks_page_flames_size(&content->flames)
                                    : 0;
}

enum ks_status ks_page_content_write(const struct ks_page_content *content, enum ks_page_part part,
                                     ks_write_cb write, void *user, struct ks_err *err)
{
    const struct ks_page_content *c = content;
    switch (part) {
    case KS_PAGE_REPORT:
        return ks_report_write_json_in_page(c->view, &c->style, REPORT_TEXT_MAX, write, user, err);
    case KS_PAGE_TIMELINE: return ks_page_timeline_write(&c->timeline, write, user, err);
    case KS_PAGE_FLAME: return ks_page_flames_write(&c->flames, write, user, err);
    case KS_PAGE_MEMORY: return ks_page_curves_write_memory(&c->memory, c->view, write, user, err);
    case KS_PAGE_SHELL:
    case KS_PAGE_SCRIPT:
    case KS_PAGE_STYLE:
    case KS_PAGE_PART_COUNT: break;
    }
    return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot write part of a page: number=%d",
                   (int)part);
}

enum ks_status ks_page_content_write_comparison(const struct ks_page_content *content,
                                                ks_write_cb write, void *user, struct ks_err *err)
{
    return ks_comparison_write_json_in_page(content->view->comparison, &content->comparison_style,
                                            REPORT_TEXT_MAX, write, user, err);
}
