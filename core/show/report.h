/* The outputs of a report. All write through a callback and change nothing. */
#ifndef KS_SHOW_REPORT_H
#define KS_SHOW_REPORT_H

#include "show/view.h"

/* KS_ERR_USAGE with the list of what would fit, when table or sort key do not exist. */
enum ks_status ks_report_check_style(const struct ks_report_style *style, struct ks_err *err)
    KS_MUST_CHECK;

/* The document of docs/report.md; docs/report.schema.json is its schema. */
enum ks_status ks_report_write_json(const struct ks_view *view, const struct ks_report_style *style,
                                    ks_write_cb write, void *user, struct ks_err *err)
    KS_MUST_CHECK;
/* The same document as part of a page: see ks_json_init_for_markup. */
enum ks_status ks_report_write_json_in_page(const struct ks_view *view,
                                            const struct ks_report_style *style, size_t len_max,
                                            ks_write_cb write, void *user, struct ks_err *err)
    KS_MUST_CHECK;
/* The overview on one screen. */
enum ks_status ks_report_write_screen(const struct ks_view *view,
                                      const struct ks_report_style *style, ks_write_cb write,
                                      void *user, struct ks_err *err) KS_MUST_CHECK;
/* One table as text. */
enum ks_status ks_report_write_table(const struct ks_view *view,
                                     const struct ks_report_style *style, ks_write_cb write,
                                     void *user, struct ks_err *err) KS_MUST_CHECK;

struct ks_list;
/* Any list as text: style->table counts for nothing, style->sort must be one of its keys. */
enum ks_status ks_report_write_list(const struct ks_view *view, const struct ks_list *list,
                                    const struct ks_report_style *style, ks_write_cb write,
                                    void *user, struct ks_err *err) KS_MUST_CHECK;

/* A comparison as one document (docs/diff.schema.json), as part of a page, and as text. */
enum ks_status ks_comparison_write_json(const struct ks_comparison *comparison,
                                        const struct ks_report_style *style, ks_write_cb write,
                                        void *user, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_comparison_write_json_in_page(const struct ks_comparison *comparison,
                                                const struct ks_report_style *style, size_t len_max,
                                                ks_write_cb write, void *user, struct ks_err *err)
    KS_MUST_CHECK;
enum ks_status ks_comparison_write_screen(const struct ks_comparison *comparison,
                                          const struct ks_report_style *style, ks_write_cb write,
                                          void *user, struct ks_err *err) KS_MUST_CHECK;

/* Verdict, steps, findings and checks as GitHub-flavoured Markdown. */
enum ks_status ks_report_write_markdown(const struct ks_view *view, ks_write_cb write, void *user,
                                        struct ks_err *err) KS_MUST_CHECK;
/* Findings that name a line of a file, as a SARIF 2.1.0 log. */
enum ks_status ks_report_write_sarif(const struct ks_view *view,
                                     const struct ks_report_style *style, ks_write_cb write,
                                     void *user, struct ks_err *err) KS_MUST_CHECK;

/* What `kscope info` says about the sources of a trace. */
enum ks_status ks_report_write_info(const struct ks_view *view, bool json, ks_write_cb write,
                                    void *user, struct ks_err *err) KS_MUST_CHECK;

#endif
