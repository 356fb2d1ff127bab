/* What the files directly in core/ share: the view that an open report shows. */
#ifndef KS_REPORT_VIEW_H
#define KS_REPORT_VIEW_H

#include "show/view.h"

const struct ks_view *ks_report_view(const struct ks_report *report);

#endif
