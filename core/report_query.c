/* The public API of SQL: a report's trace and lists become tables. */
#include <kscope/kscope.h>

#include "base/err.h"
#include "base/locale_c.h"
#include "base/progress.h"
#include "report_view.h"
#include "show/list_tables.h"
#include "show/query_output.h"

/* A view of nothing gives the schema: then no table is ever asked for its rows. */
static enum ks_status open_query(const struct ks_view *view, const struct ks_query_limits *limits,
                                 struct ks_arena *arena, struct ks_query **out, struct ks_err *err)
{
    const struct ks_row_table *lists = NULL;
    size_t list_count = 0;
    KS_TRY(ks_list_tables(view, arena, &lists, &list_count, err));
    return ks_query_open(view->trace, lists, list_count, limits, out, err);
}

static struct ks_query_limits limits_of(const struct ks_query_options *options)
{
    return (struct ks_query_limits){
        .bytes_max = options->bytes_max,
        .ms_max = options->ms_max,
        .is_cancelled = options->is_cancelled,
        .user = options->cancel_user,
    };
}

static struct ks_str sql_of(const struct ks_query_options *options)
{
    return (struct ks_str){options->sql, options->sql_size};
}

enum ks_status ks_query_check(const struct ks_query_options *options, struct ks_err *err)
{
    struct ks_view nothing = {0};
    struct ks_query_limits limits = limits_of(options);
    struct ks_arena arena;
    struct ks_query *query = NULL;
    ks_arena_init(&arena);
    enum ks_status status = open_query(&nothing, &limits, &arena, &query, err);
    if (status == KS_OK) {
        status = ks_query_prepare(query, sql_of(options), err);
    }
    ks_query_close(query);
    ks_arena_release(&arena);
    return status;
}

static enum ks_status run(struct ks_query *query, const struct ks_query_options *options,
                          ks_write_cb write, void *user, struct ks_query_result *result,
                          struct ks_err *err)
{
    KS_TRY(ks_query_prepare(query, sql_of(options), err));
    enum ks_status status = ks_query_write_rows(query, &options->style, write, user, result, err);
    result->rows_visited = ks_query_rows_visited(query);
    return status;
}

static enum ks_status write_once(const struct ks_view *view, const struct ks_query_options *options,
                                 struct ks_counted *counted, struct ks_query_result *result,
                                 struct ks_err *err)
{
    struct ks_query_limits limits = limits_of(options);
    struct ks_arena arena;
    struct ks_query *query = NULL;
    *result = (struct ks_query_result){0};
    ks_progress_enter(options->progress, KS_STAGE_QUERY);
    ks_arena_init(&arena);
    struct ks_view compared = *view; // outlives the query
    compared.comparison = options->comparison;
    enum ks_status status = open_query(&compared, &limits, &arena, &query, err);
    if (status == KS_OK) {
        status = run(query, options, ks_counted_write, counted, result, err);
    }
    ks_query_close(query);
    ks_arena_release(&arena);
    return status;
}

enum ks_status ks_query_write(struct ks_report *report, const struct ks_query_options *options,
                              ks_write_cb write, void *user, struct ks_query_result *result,
                              struct ks_err *err)
{
    struct ks_counted counted = {write, user, 0};
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    enum ks_status status = write_once(ks_report_view(report), options, &counted, result, err);
    /* A chunk of a trace from the cache cannot be read, and nothing was said yet. */
    if (ks_report_must_reread(report, status) && counted.bytes == 0) {
        status = ks_report_reread(report, err);
        if (status == KS_OK) {
            status = write_once(ks_report_view(report), options, &counted, result, err);
        }
    }
    ks_locale_c_leave(&locale);
    return status;
}

enum ks_status ks_query_schema_write(ks_write_cb write, void *user, struct ks_err *err)
{
    struct ks_view nothing = {0};
    struct ks_query_limits limits = {0};
    struct ks_arena arena;
    struct ks_query *query = NULL;
    ks_arena_init(&arena);
    enum ks_status status = open_query(&nothing, &limits, &arena, &query, err);
    if (status == KS_OK) {
        status = ks_query_write_schema(query, write, user, err);
    }
    ks_query_close(query);
    ks_arena_release(&arena);
    return status;
}
