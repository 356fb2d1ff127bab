/* What the files directly in core/ share: the view that an open report shows. */
#ifndef KS_REPORT_VIEW_H
#define KS_REPORT_VIEW_H

#include "show/view.h"

const struct ks_view *ks_report_view(const struct ks_report *report);

/* A chunk of the trace, which came from the cache, turned out to be damaged: reads the input after
 * all. KS_ERR_FORMAT: it did not come from there. After an error the report can only be closed. */
enum ks_status ks_report_reread(struct ks_report *report, struct ks_err *err) KS_MUST_CHECK;

#endif
