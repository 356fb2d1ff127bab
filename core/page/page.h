/* The report as one HTML file that needs nothing else: script, style and all data are in it, and
 * its policy lets nothing be loaded. docs/formats/page.md describes its blocks. */
#ifndef KS_PAGE_PAGE_H
#define KS_PAGE_PAGE_H

#include "show/view.h"

/* KS_ERR_UNSUPPORTED: this build has no page. */
enum ks_status ks_page_check(struct ks_err *err) KS_MUST_CHECK;
/* Looks at all of the trace before it writes the first byte. `row_limit`: rows of each list. */
enum ks_status ks_page_write(const struct ks_view *view, size_t row_limit, ks_write_cb write,
                             void *user, struct ks_err *err) KS_MUST_CHECK;

/* A part that is the same for every report: the frame of a page that is served, its script or its
 * style sheet. */
enum ks_status ks_page_write_frame(enum ks_page_part part, ks_write_cb write, void *user,
                                   struct ks_err *err) KS_MUST_CHECK;

#endif
