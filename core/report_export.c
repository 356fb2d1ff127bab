/* The exports of the public API. */
#include <kscope/kscope.h>

#include "base/err.h"
#include "base/locale_c.h"
#include "export/export.h"
#include "report_view.h"
#include "show/lists.h"

static enum ks_status write_format(const struct ks_view *view,
                                   const struct ks_export_options *options, ks_write_cb write,
                                   void *user, struct ks_err *err)
{
    struct ks_log log = {options->log, options->log_user, KS_LOG_DEBUG};
    switch (options->format) {
    case KS_EXPORT_CSV:
        return ks_export_csv(view, options->table ? options->table : "operators", write, user, err);
    case KS_EXPORT_FOLDED: return ks_export_folded(view, options->weight, write, user, err);
    case KS_EXPORT_SPEEDSCOPE: return ks_export_speedscope(view, &log, write, user, err);
    }
    return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot export format: number=%d",
                   (int)options->format);
}

enum ks_status ks_export_write(const struct ks_report *report,
                               const struct ks_export_options *options, ks_write_cb write,
                               void *user, struct ks_err *err)
{
    if (options->table && !ks_list_find(options->table)) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot export table %.40s: there is none",
                       options->table);
    }
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    enum ks_status status = write_format(ks_report_view(report), options, write, user, err);
    ks_locale_c_leave(&locale);
    return status;
}
