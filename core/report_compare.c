/* The public API: two open reports compared. */
#include <kscope/kscope.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/locale_c.h"
#include "compare/comparison.h"
#include "report_view.h"
#include "show/report.h"

static struct ks_compare_input input_of(const struct ks_report *report)
{
    const struct ks_view *view = ks_report_view(report);
    return (struct ks_compare_input){view->trace, view->facts, view->findings, view->paths,
                                     view->path_count};
}

static enum ks_status compute(const struct ks_report *a, const struct ks_report *b,
                              struct ks_comparison *out, struct ks_err *err)
{
    const struct ks_compare_input sides[KS_COMPARE_SIDES] = {input_of(a), input_of(b)};
    return ks_comparison_compute(sides, out, err);
}

/* A chunk of a trace from the cache may turn out to be damaged: the input is read after all. Which
 * of the two it is, nobody says. */
static enum ks_status reread(struct ks_report *a, struct ks_report *b, struct ks_comparison *out,
                             enum ks_status failure, struct ks_err *err)
{
    bool must_a = ks_report_must_reread(a, failure) && !ks_report_shows_given(a);
    bool must_b = ks_report_must_reread(b, failure) && !ks_report_shows_given(b);
    if (!must_a && !must_b) {
        return failure;
    }
    ks_comparison_release(out);
    if (must_a) {
        KS_TRY(ks_report_reread(a, err));
    }
    if (must_b && a != b) {
        KS_TRY(ks_report_reread(b, err));
    }
    return compute(a, b, out, err);
}

enum ks_status ks_comparison_open(struct ks_report *a, struct ks_report *b,
                                  struct ks_comparison **out, struct ks_err *err)
{
    *out = NULL;
    struct ks_comparison *comparison = ks_alloc(1, sizeof(*comparison));
    if (!comparison) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot compare two runs: no memory");
    }
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    enum ks_status status = compute(a, b, comparison, err);
    if (status != KS_OK) {
        status = reread(a, b, comparison, status, err);
    }
    ks_locale_c_leave(&locale);
    if (status != KS_OK) {
        ks_comparison_close(comparison);
        return status;
    }
    *out = comparison;
    return KS_OK;
}

void ks_comparison_close(struct ks_comparison *comparison)
{
    if (comparison) {
        ks_comparison_release(comparison);
        ks_free(comparison);
    }
}

enum ks_step_verdict ks_comparison_verdict(const struct ks_comparison *comparison)
{
    return comparison->verdict;
}

static enum ks_status write_format(const struct ks_comparison *comparison,
                                   const struct ks_report_style *style, ks_write_cb write,
                                   void *user, struct ks_err *err)
{
    switch (style->format) {
    case KS_REPORT_JSON: return ks_comparison_write_json(comparison, style, write, user, err);
    case KS_REPORT_SCREEN: return ks_comparison_write_screen(comparison, style, write, user, err);
    case KS_REPORT_TABLE:
    case KS_REPORT_MARKDOWN:
    case KS_REPORT_SARIF: break;
    }
    return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot write a comparison as format %d",
                   (int)style->format);
}

enum ks_status ks_comparison_write(const struct ks_comparison *comparison,
                                   const struct ks_report_style *style, ks_write_cb write,
                                   void *user, struct ks_err *err)
{
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    enum ks_status status = write_format(comparison, style, write, user, err);
    ks_locale_c_leave(&locale);
    return status;
}
