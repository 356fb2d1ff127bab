/* The exports of the public API. */
#include <unistd.h>

#include <kscope/kscope.h>

#include "base/err.h"
#include "base/locale_c.h"
#include "export/arrow_stream.h"
#include "export/export.h"
#include "export/gzip_out.h"
#include "export/slim.h"
#include "export/table_rows.h"
#include "report_view.h"

/* Writes something through a callback. */
typedef enum ks_status (*write_job)(const void *job, ks_write_cb write, void *user,
                                    struct ks_err *err);

/* Runs the job in the locale of C, behind a compressor when that is wanted. */
static enum ks_status write_through(write_job run, const void *job, bool gzip, ks_write_cb write,
                                    void *user, struct ks_err *err)
{
    struct ks_gzip_out *out = NULL;
    if (gzip) {
        KS_TRY(ks_gzip_out_create(write, user, &out, err));
    }
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    enum ks_status status =
        gzip ? run(job, ks_gzip_out_write, out, err) : run(job, write, user, err);
    ks_locale_c_leave(&locale);
    if (gzip && status == KS_OK) {
        status = ks_gzip_out_finish(out, err);
    }
    ks_gzip_out_destroy(out);
    return status;
}

/* ------------------------------------------------------------------ a report */

struct export_job {
    const struct ks_view *view;
    const struct ks_export_options *options;
};

static enum ks_status write_format(const void *job, ks_write_cb write, void *user,
                                   struct ks_err *err)
{
    const struct ks_view *view = ((const struct export_job *)job)->view;
    const struct ks_export_options *options = ((const struct export_job *)job)->options;
    struct ks_log log = {options->log, options->log_user, KS_LOG_DEBUG};
    switch (options->format) {
    case KS_EXPORT_CSV: return ks_export_csv(view, options, write, user, err);
    case KS_EXPORT_FOLDED: return ks_export_folded(view, options, write, user, err);
    case KS_EXPORT_SPEEDSCOPE: return ks_export_speedscope(view, options, &log, write, user, err);
    case KS_EXPORT_CHROME: return ks_export_chrome(view, options, &log, write, user, err);
    case KS_EXPORT_PARQUET: return ks_export_parquet(view, options, write, user, err);
    case KS_EXPORT_ARROW: return ks_export_arrow(view, options, write, user, err);
    case KS_EXPORT_PERFETTO: return ks_export_perfetto(view, options, &log, write, user, err);
    case KS_EXPORT_SQLITE: break;
    }
    return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot export format: number=%d",
                   (int)options->format);
}

const char *ks_export_table_name(size_t index)
{
    enum ks_table_group group;
    return ks_table_rows_name(index, &group);
}

static enum ks_status check_table(const struct ks_export_options *options, struct ks_err *err)
{
    bool is_csv = options->format == KS_EXPORT_CSV;
    const char *table = options->table ? options->table : is_csv ? "operators" : "events";
    size_t index = ks_table_rows_find(table);
    if (index == SIZE_MAX) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot export table %.40s: there is none",
                       table);
    }
    enum ks_table_group group;
    (void)ks_table_rows_name(index, &group);
    if (group != KS_GROUP_EVENTS && (options->time_given || options->categories)) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot choose times or categories of table %.40s: its numbers are of whole "
                       "steps; --table events, slice or gpu has the rows",
                       table);
    }
    return KS_OK;
}

enum ks_status ks_export_check(const struct ks_export_options *options, struct ks_err *err)
{
    switch (options->format) {
    case KS_EXPORT_CHROME: return KS_OK; // knows the categories that the text has
    case KS_EXPORT_CSV:
    case KS_EXPORT_PARQUET:
    case KS_EXPORT_ARROW: KS_TRY(check_table(options, err)); break;
    case KS_EXPORT_SQLITE:
        if (options->gzip) {
            return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                           "Cannot compress a database: nobody could ask it");
        }
        break;
    case KS_EXPORT_FOLDED:
    case KS_EXPORT_SPEEDSCOPE:
    case KS_EXPORT_PERFETTO: break;
    }
    struct ks_view nothing = {0};
    struct ks_row_filter filter;
    return ks_row_filter_init(&filter, &nothing, options, err);
}

enum ks_status ks_export_write(struct ks_report *report, const struct ks_export_options *options,
                               ks_write_cb write, void *user, struct ks_err *err)
{
    KS_TRY(ks_export_check(options, err));
    struct export_job job = {ks_report_view(report), options};
    struct ks_counted counted = {write, user, 0};
    enum ks_status status =
        write_through(write_format, &job, options->gzip, ks_counted_write, &counted, err);
    /* A chunk of a trace from the cache cannot be read, and nothing was said yet. */
    if (ks_report_must_reread(report, status) && counted.bytes == 0) {
        KS_TRY(ks_report_reread(report, err));
        status = write_through(write_format, &job, options->gzip, write, user, err);
    }
    return status;
}

/* Columns in memory are those of the Arrow file. */
static enum ks_status check_columns(const char *table, struct ks_err *err)
{
    const struct ks_export_options options = {.format = KS_EXPORT_ARROW, .table = table};
    return ks_export_check(&options, err);
}

enum ks_status ks_export_stream(struct ks_report *report, const char *table, const char *column,
                                struct ArrowArrayStream *out, struct ks_err *err)
{
    KS_TRY(check_columns(table, err));
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    enum ks_status status = ks_arrow_stream_open(ks_report_view(report), table, column, out, err);
    if (ks_report_must_reread(report, status)) {
        status = ks_report_reread(report, err);
        if (status == KS_OK) {
            status = ks_arrow_stream_open(ks_report_view(report), table, column, out, err);
        }
    }
    ks_locale_c_leave(&locale);
    return status;
}

enum ks_status ks_export_schema(struct ks_report *report, const char *table,
                                struct ArrowSchema *out, struct ks_err *err)
{
    KS_TRY(check_columns(table, err));
    return ks_arrow_stream_describe(ks_report_view(report), table, out, err);
}

enum ks_status ks_export_write_file(struct ks_report *report,
                                    const struct ks_export_options *options, const char *path,
                                    struct ks_err *err)
{
    if (options->format != KS_EXPORT_SQLITE) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot export format to a path: number=%d",
                       (int)options->format);
    }
    KS_TRY(ks_export_check(options, err));
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    bool is_own = false;
    enum ks_status status = ks_export_sqlite(ks_report_view(report), options, path, &is_own, err);
    /* A chunk of a trace from the cache cannot be read: what was written until then goes. */
    if (!is_own && ks_report_must_reread(report, status) && truncate(path, 0) == 0) {
        status = ks_report_reread(report, err);
        if (status == KS_OK) {
            status = ks_export_sqlite(ks_report_view(report), options, path, &is_own, err);
        }
    }
    ks_locale_c_leave(&locale);
    return status;
}

/* ------------------------------------------------------------------ a file */

static enum ks_status write_slim(const void *job, ks_write_cb write, void *user, struct ks_err *err)
{
    const struct ks_convert_options *options = job;
    struct ks_log log = {options->log, options->log_user, KS_LOG_DEBUG};
    struct ks_slim slim = {
        .pick = {.keep = options->keep_categories, .drop = options->drop_categories},
        .strict = options->strict,
        .drop_args = options->drop_args,
        .anonymize = options->anonymize,
        .log = &log,
        .progress = options->progress,
    };
    return ks_slim_write(options->path, &slim, write, user, err);
}

enum ks_status ks_convert_write(const struct ks_convert_options *options, ks_write_cb write,
                                void *user, struct ks_err *err)
{
    return write_through(write_slim, options, options->gzip, write, user, err);
}
