/* The public API: puts the stages together. read -> seal -> facts -> findings -> show. */
#include <kscope/kscope.h>

#include "advise/findings.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/locale_c.h"
#include "base/progress.h"
#define KS_LOG_DOMAIN "report"
#include "base/log.h"
#include "read/read.h"
#include "read/run_monitor.h"
#include "report_view.h"
#include "show/lists.h"
#include "show/report.h"
#include "show/verdict.h"

enum {
    ROWS_PER_CHUNK_MIN = 256,
    ROWS_PER_CHUNK_MAX = 65536,
    CHUNKS_IN_MEMORY = 64, /* what scans pin at once, and some to work with */
    BYTES_PER_CELL = 8,
};

struct ks_report {
    struct ks_arena arena; /* copies of the paths */
    struct ks_trace *trace;
    struct ks_facts facts;
    struct ks_findings findings;
    struct ks_view view;
    char cgroup[160]; /* words of the monitor of `kscope run` */
};

/* ------------------------------------------------------------------ opening */

/* Small memory needs small chunks: what scans pin must fit into it. */
static uint32_t rows_per_chunk(const struct ks_report_options *options)
{
    if (options->chunk_rows != 0 || options->chunk_bytes_max == 0) {
        return options->chunk_rows;
    }
    uint32_t rows = ROWS_PER_CHUNK_MAX;
    while (rows > ROWS_PER_CHUNK_MIN &&
           (uint64_t)rows * BYTES_PER_CELL * CHUNKS_IN_MEMORY > options->chunk_bytes_max) {
        rows /= 2;
    }
    return rows;
}

static enum ks_status read_trace(const struct ks_report_options *options, bool any_run,
                                 struct ks_stacks_list *stacks, struct ks_trace **out,
                                 struct ks_err *err)
{
    if (options->path_count == 0) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot read traces: no path is given");
    }
    struct ks_log log = {options->log, options->log_user, KS_LOG_DEBUG};
    struct ks_read_options read_options = {
        .stacks = stacks,
        .paths = options->paths,
        .path_count = options->path_count,
        .strict = options->strict,
        .run = options->run,
        .window = options->window,
        .any_run = any_run,
        .rank_given = options->rank_given,
        .rank = options->rank,
        .threads = options->threads,
        .log = &log,
        .progress = options->progress,
    };
    struct ks_trace_options trace_options = {
        .chunk_bytes_max = options->chunk_bytes_max,
        .chunk_rows = rows_per_chunk(options),
    };
    struct ks_trace_builder *builder = NULL;
    KS_TRY(ks_trace_builder_create(&trace_options, &builder, err));
    int64_t run = 0;
    ks_progress_enter(options->progress, KS_STAGE_READ);
    enum ks_status status = ks_read_paths(&read_options, builder, &run, err);
    ks_progress_enter(options->progress, KS_STAGE_ANALYZE);
    if (status != KS_OK) {
        ks_trace_builder_destroy(builder);
        return status;
    }
    KS_TRY(ks_trace_builder_seal(builder, run, out, err));
    const struct ks_chunk_pool *pool = ks_trace_pool(*out);
    KS_LOG(&log, KS_LOG_DEBUG, "tables took %llu bytes at most, %llu bytes went to a file",
           (unsigned long long)ks_chunk_pool_bytes_peak(pool),
           (unsigned long long)ks_chunk_pool_bytes_spilled(pool));
    return KS_OK;
}

/* Facts of the recordings with stacks. They are an extra: what cannot be read is said in the log
 * and left out; only being out of memory is an error. */
static enum ks_status compute_framed(const struct ks_report_options *options,
                                     const struct ks_stacks_list *stacks, struct ks_trace **trace,
                                     struct ks_facts *framed, struct ks_err *err)
{
    struct ks_report_options framed_options = *options;
    framed_options.paths = stacks->paths;
    framed_options.path_count = stacks->count;
    framed_options.run = 0;
    framed_options.strict = false;
    struct ks_scope all = {0};
    struct ks_err local = {0};
    enum ks_status status = read_trace(&framed_options, true, NULL, trace, &local);
    if (status == KS_OK) {
        status = ks_facts_compute(*trace, &all, framed, &local);
    }
    if (status == KS_ERR_NOMEM) {
        if (err) {
            *err = local;
        }
        return status;
    }
    struct ks_log log = {options->log, options->log_user, KS_LOG_DEBUG};
    if (status != KS_OK) {
        KS_LOG(&log, KS_LOG_WARN, "no places: %s", local.message);
        framed->has_frames = false;
    }
    return KS_OK;
}

static enum ks_status compute_facts(struct ks_report *report,
                                    const struct ks_report_options *options,
                                    const struct ks_stacks_list *stacks,
                                    const struct ks_scope *scope, struct ks_err *err)
{
    struct ks_trace *trace = NULL;
    struct ks_facts framed = {0};
    enum ks_status status = KS_OK;
    if (stacks->count > 0) {
        status = compute_framed(options, stacks, &trace, &framed, err);
    }
    if (status == KS_OK) {
        status = ks_facts_compute_with_places(
            report->trace, scope, framed.has_frames ? &framed : NULL, &report->facts, err);
    }
    ks_facts_release(&framed);
    ks_trace_destroy(trace);
    return status;
}

static enum ks_status copy_paths(struct ks_report *report, const struct ks_report_options *options,
                                 struct ks_err *err)
{
    const char **paths = ks_new(&report->arena, const char *, options->path_count + 1);
    for (size_t i = 0; paths && i < options->path_count; i++) {
        paths[i] = ks_arena_copy(&report->arena, options->paths[i], strlen(options->paths[i]));
        if (!paths[i]) {
            paths = NULL;
        }
    }
    if (!paths) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep paths: no memory");
    }
    report->view.paths = paths;
    report->view.path_count = options->path_count;
    return KS_OK;
}

/* The folder of a run tells more than its traces. */
static enum ks_status read_monitor(struct ks_report *report, struct ks_err *err)
{
    struct ks_run_monitor monitor;
    struct ks_view *view = &report->view;
    for (size_t i = 0; i < view->path_count && !view->cgroup; i++) {
        enum ks_status status = ks_run_monitor_read(view->paths[i], &monitor);
        if (status == KS_ERR_NOMEM) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read the monitor: no memory");
        }
        if (status == KS_OK &&
            ks_run_monitor_describe(&monitor, report->cgroup, sizeof(report->cgroup))) {
            view->cgroup = report->cgroup;
            view->is_throttled = monitor.throttled_count > 0;
        }
    }
    return KS_OK;
}

static enum ks_status fill_report(struct ks_report *report, const struct ks_report_options *options,
                                  struct ks_err *err)
{
    struct ks_scope scope = {
        .step_range_given = options->step_range_given,
        .step_first = options->step_first,
        .step_last = options->step_last,
        .device_given = options->device_given,
        .device = options->device,
        .group_by_shape = options->group_by_shape,
    };
    KS_TRY(copy_paths(report, options, err));
    struct ks_stacks_list stacks = {.arena = &report->arena};
    KS_TRY(ks_stacks_list_add(&stacks, options->stacks_paths, options->stacks_path_count, err));
    KS_TRY(read_trace(options, false, &stacks, &report->trace, err));
    KS_TRY(compute_facts(report, options, &stacks, &scope, err));
    if (scope.step_range_given && report->facts.step_count == 0) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot keep steps: none has a number from %lld to %lld",
                       (long long)scope.step_first, (long long)scope.step_last);
    }
    KS_TRY(ks_findings_compute(&report->facts, &report->findings, err));
    report->view.trace = report->trace;
    report->view.facts = &report->facts;
    report->view.findings = &report->findings;
    return read_monitor(report, err);
}

enum ks_status ks_report_open(const struct ks_report_options *options, struct ks_report **out,
                              struct ks_err *err)
{
    *out = NULL;
    struct ks_report *report = ks_alloc(1, sizeof(*report));
    if (!report) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot open report: no memory");
    }
    ks_arena_init(&report->arena);
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    enum ks_status status = fill_report(report, options, err);
    ks_locale_c_leave(&locale);
    if (status != KS_OK) {
        ks_report_close(report);
        return status;
    }
    *out = report;
    return KS_OK;
}

void ks_report_close(struct ks_report *report)
{
    if (!report) {
        return;
    }
    ks_findings_release(&report->findings);
    ks_facts_release(&report->facts);
    ks_trace_destroy(report->trace);
    ks_arena_release(&report->arena);
    ks_free(report);
}

struct ks_progress ks_progress_get(const struct ks_progress *progress)
{
    return (struct ks_progress){
        .stage = __atomic_load_n(&progress->stage, __ATOMIC_RELAXED),
        .bytes_done = __atomic_load_n(&progress->bytes_done, __ATOMIC_RELAXED),
        .bytes_total = __atomic_load_n(&progress->bytes_total, __ATOMIC_RELAXED),
    };
}

/* ------------------------------------------------------------------ writing */

enum ks_status ks_report_style_check(const struct ks_report_style *style, struct ks_err *err)
{
    return ks_report_check_style(style, err);
}

static enum ks_status write_format(const struct ks_report *report,
                                   const struct ks_report_style *style, ks_write_cb write,
                                   void *user, struct ks_err *err)
{
    switch (style->format) {
    case KS_REPORT_JSON: return ks_report_write_json(&report->view, style, write, user, err);
    case KS_REPORT_TABLE: return ks_report_write_table(&report->view, style, write, user, err);
    case KS_REPORT_MARKDOWN: return ks_report_write_markdown(&report->view, write, user, err);
    case KS_REPORT_SARIF: return ks_report_write_sarif(&report->view, style, write, user, err);
    case KS_REPORT_SCREEN: return ks_report_write_screen(&report->view, style, write, user, err);
    }
    return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot write format: number=%d",
                   (int)style->format);
}

enum ks_status ks_report_write(const struct ks_report *report, const struct ks_report_style *style,
                               ks_write_cb write, void *user, struct ks_err *err)
{
    KS_TRY(ks_report_check_style(style, err));
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    enum ks_status status = write_format(report, style, write, user, err);
    ks_locale_c_leave(&locale);
    return status;
}

const struct ks_view *ks_report_view(const struct ks_report *report)
{
    return &report->view;
}

const char *ks_report_table_name(size_t index)
{
    const struct ks_list *list = ks_list_at(index);
    return list ? list->name : NULL;
}

const char *ks_report_sort_name(const char *table, size_t index)
{
    const struct ks_list *list = ks_list_find(table);
    return list ? ks_list_sort_name(list, index) : NULL;
}

const char *ks_report_bound_by(const struct ks_report *report)
{
    struct ks_verdict verdict;
    ks_verdict_compute(&report->view, &verdict);
    return ks_verdict_word(verdict.bound);
}

const char *ks_report_finding_id(const struct ks_report *report, size_t index)
{
    return index < report->findings.count ? report->findings.list[index].rule->id : NULL;
}

size_t ks_report_finding_count(const struct ks_report *report)
{
    return report->findings.count;
}

size_t ks_report_finding_count_severe(const struct ks_report *report, enum ks_severity least)
{
    size_t count = 0;
    for (size_t i = 0; i < report->findings.count; i++) {
        count += ks_finding_severity(&report->findings.list[i]) >= least;
    }
    return count;
}

size_t ks_report_finding_count_above(const struct ks_report *report, double share)
{
    size_t count = 0;
    for (size_t i = 0; i < report->findings.count; i++) {
        count += report->findings.list[i].share >= share; /* false for an unknown share */
    }
    return count;
}

/* ------------------------------------------------------------------ looking at one file */

enum ks_status ks_info_write(const struct ks_report_options *options, bool json, ks_write_cb write,
                             void *user, struct ks_err *err)
{
    struct ks_trace *trace = NULL;
    struct ks_locale_c locale;
    ks_locale_c_enter(&locale);
    enum ks_status status = read_trace(options, true, NULL, &trace, err);
    if (status == KS_OK) {
        struct ks_view view = {.trace = trace};
        status = ks_report_write_info(&view, json, write, user, err);
    }
    ks_locale_c_leave(&locale);
    ks_trace_destroy(trace);
    return status;
}
