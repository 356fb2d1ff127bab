/* The public API: puts the stages together. read -> seal -> facts -> findings -> show. */
#include <kscope/kscope.h>

#include "advise/findings.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/locale_c.h"
#include "base/proc.h"
#include "base/progress.h"
#define KS_LOG_DOMAIN "report"
#include "base/log.h"
#include "read/run_monitor.h"
#include "read/tuning_file.h"
#include "report_cache.h"
#include "report_trace.h"
#include "report_view.h"
#include "show/lists.h"
#include "show/report.h"
#include "show/verdict.h"
#include "store/kst.h"

struct ks_report {
    struct ks_arena arena;            /* copies of the paths */
    struct ks_report_options options; /* with these; the log is that of the cache */
    struct ks_log log;                /* the caller's */
    struct ks_report_cache cache;
    bool is_open; /* all that follows is there */
    struct ks_trace *trace;
    struct ks_facts facts;
    struct ks_findings findings; /* of our rules: what the cache keeps */
    struct ks_findings extended; /* with those of the user's rules; empty: there are none */
    struct ks_opportunities opportunities;
    struct ks_view view;
    char cgroup[160]; /* words of the monitor of `kscope run` */
};

/* ------------------------------------------------------------------ opening */

enum { SHARED_ROWS_MIN = 50 * 1000 };

/* A thread costs about as much as the analyses of some thousand rows. */
static bool uses_two_threads(const struct ks_report_options *options, const struct ks_trace *trace)
{
    unsigned threads = options->threads > 0 ? options->threads : ks_processor_count();
    return threads > 1 && ks_trace_rows(trace, KS_TABLE_slice) >= SHARED_ROWS_MIN;
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
    enum ks_status status = ks_report_read_trace(&framed_options, true, NULL, trace, &local);
    if (status == KS_OK) {
        const struct ks_facts_help help = {.uses_two_threads = uses_two_threads(options, *trace)};
        status = ks_facts_compute_with(*trace, &all, &help, framed, &local);
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

static enum ks_status compute_facts(struct ks_report *report, const struct ks_stacks_list *stacks,
                                    const struct ks_scope *scope, struct ks_err *err)
{
    const struct ks_report_options *options = &report->options;
    struct ks_trace *trace = NULL;
    struct ks_facts framed = {0};
    enum ks_status status = KS_OK;
    if (stacks->count > 0) {
        status = compute_framed(options, stacks, &trace, &framed, err);
    }
    if (status == KS_OK) {
        const struct ks_facts_help help = {.framed = framed.has_frames ? &framed : NULL,
                                           .uses_two_threads =
                                               uses_two_threads(options, report->trace)};
        status = ks_facts_compute_with(report->trace, scope, &help, &report->facts, err);
    }
    ks_facts_release(&framed);
    ks_trace_destroy(trace);
    return status;
}

/* Copies of all texts that the options point to, which must outlive the caller's. */
static enum ks_status copy_options(struct ks_report *report,
                                   const struct ks_report_options *options, struct ks_err *err)
{
    struct ks_report_options *own = &report->options;
    struct ks_arena *arena = &report->arena;
    const char **paths = ks_new(arena, const char *, options->path_count + 1);
    const char **stacks = ks_new(arena, const char *, options->stacks_path_count + 1);
    bool is_good = paths && stacks;
    for (size_t i = 0; is_good && i < options->path_count; i++) {
        paths[i] = ks_arena_copy(arena, options->paths[i], strlen(options->paths[i]));
        is_good = paths[i];
    }
    for (size_t i = 0; is_good && i < options->stacks_path_count; i++) {
        stacks[i] =
            ks_arena_copy(arena, options->stacks_paths[i], strlen(options->stacks_paths[i]));
        is_good = stacks[i];
    }
    *own = *options;
    report->log = (struct ks_log){options->log, options->log_user, KS_LOG_DEBUG};
    if (is_good && options->cache_dir) {
        own->cache_dir = ks_arena_copy(arena, options->cache_dir, strlen(options->cache_dir));
        is_good = own->cache_dir;
    }
    if (!is_good) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep paths: no memory");
    }
    own->paths = paths;
    own->stacks_paths = stacks;
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

/* So does that of a tuning. */
static enum ks_status read_tuning(struct ks_report *report, struct ks_err *err)
{
    struct ks_view *view = &report->view;
    struct ks_tuning *tuning = NULL;
    enum ks_status status = KS_END;
    for (size_t i = 0; i < view->path_count && status == KS_END; i++) {
        status = ks_tuning_file_read(view->paths[i], &report->arena, &tuning);
    }
    if (status == KS_ERR_NOMEM) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read the tuning: no memory");
    }
    view->tuning = status == KS_OK ? tuning : NULL;
    return KS_OK;
}

/* What is asked of the trace: each member is also part of the key of the cache. */
static struct ks_scope scope_of(const struct ks_report_options *options)
{
    return (struct ks_scope){
        .step_range_given = options->step_range_given,
        .step_first = options->step_first,
        .step_last = options->step_last,
        .device_given = options->device_given,
        .device = options->device,
        .group_by_shape = options->group_by_shape,
        .group_by_stack = options->group_by_stack,
    };
}

static enum ks_status analyze(struct ks_report *report, const struct ks_stacks_list *stacks,
                              struct ks_err *err)
{
    struct ks_scope scope = scope_of(&report->options);
    if (ks_report_cache_find_facts(&report->cache, report->trace, &report->facts,
                                   &report->findings)) {
        return KS_OK;
    }
    KS_TRY(compute_facts(report, stacks, &scope, err));
    if (scope.step_range_given && report->facts.step_count == 0) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot keep steps: none has a number from %lld to %lld",
                       (long long)scope.step_first, (long long)scope.step_last);
    }
    return ks_findings_compute(&report->facts, &report->findings, err);
}

/* `stacks` NULL: they are known already. */
static enum ks_status read_input(struct ks_report *report, struct ks_stacks_list *stacks,
                                 struct ks_err *err)
{
    KS_TRY(ks_report_read_trace(&report->options, false, stacks, &report->trace, err));
    ks_report_cache_take_trace(&report->cache, report->trace, report->options.threads);
    return KS_OK;
}

static void release_results(struct ks_report *report)
{
    ks_opportunities_release(&report->opportunities);
    ks_findings_release(&report->extended);
    ks_findings_release(&report->findings);
    ks_facts_release(&report->facts);
    ks_trace_destroy(report->trace);
    report->trace = NULL;
}

/* Reads and computes everything, from the cache as far as it goes. A damaged trace there shows only
 * when its chunks are used: then the input is read after all. */
static enum ks_status find_or_read(struct ks_report *report, struct ks_err *err)
{
    struct ks_stacks_list stacks = {.arena = &report->arena};
    struct ks_report_options *options = &report->options;
    bool has_listed = false;
    report->is_open = false;
    options->log = report->log.cb;
    options->log_user = report->log.user;
    options->cache = options->cache && !ks_report_is_sealed(options);
    KS_TRY(ks_stacks_list_add(&stacks, options->stacks_paths, options->stacks_path_count, err));
    KS_TRY(ks_report_cache_begin(&report->cache, options, &stacks, &has_listed, err));
    options->log = report->cache.log.cb;
    options->log_user = report->cache.log.user;
    uint64_t bytes_max = ks_report_choose_memory(options, report->cache.bytes);
    report->trace = ks_report_cache_find_trace(&report->cache, bytes_max);
    enum ks_status status = KS_OK;
    if (!report->trace) {
        status = read_input(report, has_listed ? NULL : &stacks, err);
    }
    if (status == KS_OK) {
        status = analyze(report, &stacks, err);
    }
    if (ks_report_must_reread(report, status)) {
        ks_report_cache_forget(&report->cache);
        release_results(report);
        KS_TRY(read_input(report, NULL, err));
        status = analyze(report, &stacks, err);
    }
    report->view.trace = report->trace;
    report->view.facts = &report->facts;
    report->view.findings = &report->findings;
    report->view.opportunities = &report->opportunities;
    if (status == KS_OK) {
        status = ks_opportunities_compute(&report->facts, &report->findings, &report->opportunities,
                                          err);
    }
    report->is_open = status == KS_OK;
    options->progress = NULL; // who opened the report has seen it
    return status;
}

static enum ks_status fill_report(struct ks_report *report, const struct ks_report_options *options,
                                  struct ks_err *err)
{
    KS_TRY(copy_options(report, options, err));
    KS_TRY(find_or_read(report, err));
    KS_TRY(read_monitor(report, err));
    return read_tuning(report, err);
}

bool ks_report_must_reread(const struct ks_report *report, enum ks_status status)
{
    return report->cache.is_trace_found && (status == KS_ERR_FORMAT || status == KS_ERR_IO);
}

enum ks_status ks_report_reread(struct ks_report *report, struct ks_err *err)
{
    KS_ASSERT(report->cache.is_trace_found);
    release_results(report);
    ks_report_cache_forget(&report->cache);
    ks_report_cache_end(&report->cache, &report->options, NULL, NULL);
    return find_or_read(report, err);
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
    if (report->is_open && ks_kst_is_damaged(report->trace) && report->cache.is_trace_found) {
        ks_report_cache_forget(&report->cache);
    }
    ks_report_cache_end(&report->cache, &report->options, report->is_open ? &report->facts : NULL,
                        &report->findings);
    release_results(report);
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

const struct ks_log *ks_report_log(const struct ks_report *report)
{
    return &report->log;
}

void ks_report_show_findings(struct ks_report *report, struct ks_findings *findings)
{
    report->view.findings = findings ? &report->extended : &report->findings;
    ks_findings_release(&report->extended);
    if (findings) {
        report->extended = *findings;
        *findings = (struct ks_findings){0};
    }
}

bool ks_report_shows_given(const struct ks_report *report)
{
    return report->view.findings == &report->extended;
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
    return index < report->view.findings->count ? report->view.findings->list[index].rule->id
                                                : NULL;
}

size_t ks_report_finding_count(const struct ks_report *report)
{
    return report->view.findings->count;
}

size_t ks_report_finding_count_severe(const struct ks_report *report, enum ks_severity least)
{
    size_t count = 0;
    for (size_t i = 0; i < report->view.findings->count; i++) {
        count += ks_finding_severity(&report->view.findings->list[i]) >= least;
    }
    return count;
}

size_t ks_report_finding_count_above(const struct ks_report *report, double share)
{
    size_t count = 0;
    for (size_t i = 0; i < report->view.findings->count; i++) {
        count += report->view.findings->list[i].share >= share; /* false for an unknown share */
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
    enum ks_status status = ks_report_read_trace(options, true, NULL, &trace, err);
    if (status == KS_OK) {
        struct ks_view view = {.trace = trace};
        status = ks_report_write_info(&view, json, write, user, err);
    }
    ks_locale_c_leave(&locale);
    ks_trace_destroy(trace);
    return status;
}
