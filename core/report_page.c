/* The public API: an open report as a page. */
#include <kscope/kscope.h>

#include "base/err.h"
#include "base/locale_c.h"
#include "page/page.h"
#include "report_view.h"

enum { ROWS_DEFAULT = 1000 };

enum ks_status ks_page_can_write(struct ks_err *err)
{
    return ks_page_check(err);
}

enum ks_status ks_report_write_page(struct ks_report *report, const struct ks_page_options *options,
                                    ks_write_cb write, void *user, struct ks_err *err)
{
    size_t rows = options->row_limit > 0 ? options->row_limit : ROWS_DEFAULT;
    struct ks_counted counted = {write, user, 0};
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    enum ks_status status =
        ks_page_write(ks_report_view(report), rows, ks_counted_write, &counted, err);
    /* A chunk of a trace from the cache cannot be read: the page was not begun. Findings of the
     * user's rules would be lost by reading anew, so then it is an error. */
    if (ks_report_must_reread(report, status) && counted.bytes == 0 &&
        !ks_report_shows_given(report)) {
        status = ks_report_reread(report, err);
        if (status == KS_OK) {
            status = ks_page_write(ks_report_view(report), rows, write, user, err);
        }
    }
    ks_locale_c_leave(&locale);
    return status;
}
