/* All that a page shows: the report and what is gathered for its charts, each written as one JSON
 * document. The page holds them as blocks, a server gives them away one by one. */
#ifndef KS_PAGE_PAGE_CONTENT_H
#define KS_PAGE_PAGE_CONTENT_H

#include "page/page_curves.h"
#include "page/page_flame.h"
#include "page/page_timeline.h"

struct ks_page_content {
    const struct ks_view *view;
    struct ks_report_style style;
    struct ks_report_style comparison_style;
    struct ks_page_timeline timeline;
    struct ks_page_flames flames;
    struct ks_page_curves memory;
};

/* Looks at all of the trace. `row_limit`: rows of each list. `rows`: see ks_page_timeline_init. The
 * content is to be released after an error, too. */
enum ks_status ks_page_content_init(struct ks_page_content *content, const struct ks_view *view,
                                    size_t row_limit, struct ks_page_rows *rows, struct ks_err *err)
    KS_MUST_CHECK;
void ks_page_content_release(struct ks_page_content *content);
/* `part` of all of these: KS_PAGE_REPORT to KS_PAGE_MEMORY. The name of the document: */
const char *ks_page_content_id(enum ks_page_part part);
/* Items in its arrays, as far as they grow with the input: is it worth compressing? */
size_t ks_page_content_size(const struct ks_page_content *content, enum ks_page_part part);
enum ks_status ks_page_content_write(const struct ks_page_content *content, enum ks_page_part part,
                                     ks_write_cb write, void *user, struct ks_err *err)
    KS_MUST_CHECK;

/* The comparison with an earlier run, which the view must have. */
enum ks_status ks_page_content_write_comparison(const struct ks_page_content *content,
                                                ks_write_cb write, void *user, struct ks_err *err)
    KS_MUST_CHECK;

#endif
