/* The files that other programs read, written from an open report. Each writer streams: what it
 * keeps in memory grows with distinct names and stacks, never with rows. All write through a
 * callback and change nothing. docs/export.md says the same for users. */
#ifndef KS_EXPORT_EXPORT_H
#define KS_EXPORT_EXPORT_H

#include "base/log.h"
#include "show/view.h"

/* One table, RFC 4180. `options->table` must exist here and below. */
enum ks_status ks_export_csv(const struct ks_view *view, const struct ks_export_options *options,
                             ks_write_cb write, void *user, struct ks_err *err) KS_MUST_CHECK;
/* Stacks of host rows, a line each: `a;b;c NS`. */
enum ks_status ks_export_folded(const struct ks_view *view, const struct ks_export_options *options,
                                ks_write_cb write, void *user, struct ks_err *err) KS_MUST_CHECK;
/* Speedscope's JSON: a profile for each thread and each stream. `log` hears what had to be cut. */
enum ks_status ks_export_speedscope(const struct ks_view *view,
                                    const struct ks_export_options *options,
                                    const struct ks_log *log, ks_write_cb write, void *user,
                                    struct ks_err *err) KS_MUST_CHECK;
/* Chrome's JSON, from the text of the only file of the trace. */
enum ks_status ks_export_chrome(const struct ks_view *view, const struct ks_export_options *options,
                                const struct ks_log *log, ks_write_cb write, void *user,
                                struct ks_err *err) KS_MUST_CHECK;
/* One table as Apache Parquet. */
enum ks_status ks_export_parquet(const struct ks_view *view,
                                 const struct ks_export_options *options, ks_write_cb write,
                                 void *user, struct ks_err *err) KS_MUST_CHECK;
/* The same in Arrow's file format. */
enum ks_status ks_export_arrow(const struct ks_view *view, const struct ks_export_options *options,
                               ks_write_cb write, void *user, struct ks_err *err) KS_MUST_CHECK;
/* Perfetto's own format. `log` hears what had to be left out. */
enum ks_status ks_export_perfetto(const struct ks_view *view,
                                  const struct ks_export_options *options, const struct ks_log *log,
                                  ks_write_cb write, void *user, struct ks_err *err) KS_MUST_CHECK;
/* A database of SQLite, written to `path` by the library: a file that is empty or not there. After
 * an error `*is_own` says whether it was the database that failed, not the trace. */
enum ks_status ks_export_sqlite(const struct ks_view *view, const struct ks_export_options *options,
                                const char *path, bool *is_own, struct ks_err *err) KS_MUST_CHECK;

#endif
