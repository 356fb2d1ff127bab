/* What the files directly in core/ share: the view that an open report shows. */
#ifndef KS_REPORT_VIEW_H
#define KS_REPORT_VIEW_H

#include "show/view.h"

struct ks_log;

const struct ks_view *ks_report_view(const struct ks_report *report);
/* The caller's log. */
const struct ks_log *ks_report_log(const struct ks_report *report);
/* Takes findings to show instead of its own, whose texts they may use, and leaves `*findings`
 * empty. NULL: shows its own again. */
void ks_report_show_findings(struct ks_report *report, struct ks_findings *findings);

/* Does it show findings that it was given? */
bool ks_report_shows_given(const struct ks_report *report);

/* Counts what goes out, through ks_counted_write. */
struct ks_counted {
    ks_write_cb write;
    void *user;
    uint64_t bytes;
};

static inline bool ks_counted_write(void *user, const char *bytes, size_t size)
{
    struct ks_counted *counted = user;
    counted->bytes += size;
    return counted->write(counted->user, bytes, size);
}

/* Did the call fail because a chunk of a trace from the cache is damaged, or cannot be read? */
bool ks_report_must_reread(const struct ks_report *report, enum ks_status status);
/* Then: reads the input after all, so that view and facts are others. After an error the report can
 * only be closed. */
enum ks_status ks_report_reread(struct ks_report *report, struct ks_err *err) KS_MUST_CHECK;

#endif
