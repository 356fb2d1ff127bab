/* Spans by name, in all of the trace: what a search finds that the page itself cannot, because it
 * does not hold every span. */
#ifndef KS_PAGE_PAGE_SEARCH_H
#define KS_PAGE_PAGE_SEARCH_H

#include "page/page_timeline.h"

enum { KS_PAGE_SEARCH_TEXT_MAX = 256 };

/* Writes the first `limit` spans by time whose name holds the text, whatever the case of its ASCII
 * letters. `timeline` was gathered with its rows. KS_ERR_USAGE: the text is empty or too long. */
enum ks_status ks_page_search_write(const struct ks_page_timeline *timeline, struct ks_str text,
                                    size_t limit, ks_write_cb write, void *user, struct ks_err *err)
    KS_MUST_CHECK;

#endif
