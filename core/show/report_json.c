/* The JSON document of a report. Keys are those of DESIGN section 7; a key whose analysis does not
 * exist yet is left out, and a value that cannot be computed is null with a reason. */
#include "show/report.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/err.h"
#include "show/json_notes.h"
#include "show/lists.h"
#include "show/tuning_show.h"
#include "show/verdict.h"

enum { PATH_SIZE = 64 };

/* State of one document. */
struct document {
    struct ks_json json;
    const struct ks_view *view;
    const struct ks_report_style *style;
    struct ks_json_notes notes;
};

static void add_reason(struct document *doc, const char *list, const char *key, const char *text)
{
    ks_json_notes_add_reason(&doc->notes, list, key, text);
}

/* ------------------------------------------------------------------ rows of lists */

/* Whose reasons are noted. */
struct row_of {
    struct document *doc;
    const char *list_path;
};

static void note_null(void *user, const struct ks_column *column)
{
    const struct row_of *row = user;
    add_reason(row->doc, row->list_path, column->key, column->reason);
}

static void write_row(struct document *doc, const struct ks_list *list, const char *key, size_t row,
                      const char *list_path)
{
    struct row_of of = {doc, list_path};
    ks_list_write_row(&doc->json, list, key, doc->view, row, note_null, &of);
}

static size_t limit_rows(struct document *doc, const char *key, size_t total)
{
    return ks_json_notes_limit(&doc->notes, doc->style->row_limit, key, total);
}

static enum ks_status write_list(struct document *doc, const struct ks_list *list,
                                 struct ks_err *err)
{
    const char *sort = doc->style->sort;
    bool is_sorted = sort && (list == &ks_list_operators || list == &ks_list_kernels);
    uint64_t *order =
        ks_list_order(list, doc->view, is_sorted ? ks_list_sort_column(list, sort) : NULL);
    if (!order) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot sort rows: list=%s", list->name);
    }
    size_t total = list->row_count(doc->view);
    size_t count = list == &ks_list_inputs ? total : limit_rows(doc, list->name, total);
    ks_json_array_begin(&doc->json, list->name);
    for (size_t i = 0; i < count && !doc->json.failed; i++) {
        write_row(doc, list, NULL, order[i], list->name);
    }
    ks_json_array_end(&doc->json);
    ks_free(order);
    return KS_OK;
}

/* Why something in `where` of syncs or copy sites is null. */
static void add_site_reasons(struct document *doc, const struct ks_list *list,
                             const struct ks_call_site *sites, size_t count)
{
    static const char *const place_keys[] = {"where.file", "where.line", "where.function",
                                             "where.exact_line"};
    size_t limit = doc->style->row_limit;
    size_t written = limit > 0 && limit < count ? limit : count;
    for (size_t i = 0; i < written; i++) {
        if (ks_view_rank(doc->view, sites[i].source) == KS_UNKNOWN) {
            add_reason(doc, list->name, "where.rank", "the file does not name its rank");
        }
        if (sites[i].device == KS_UNKNOWN) {
            add_reason(doc, list->name, "where.device",
                       "the rank has no GPU work, or several GPUs");
        }
        for (size_t k = 0; !sites[i].place && k < KS_COUNT_OF(place_keys); k++) {
            add_reason(doc, list->name, place_keys[k],
                       "no Python frame of the call was recorded (with_stack=True records them)");
        }
    }
}

/* ------------------------------------------------------------------ parts that are no lists */

static void write_verdict(struct document *doc)
{
    struct ks_verdict verdict;
    ks_verdict_compute(doc->view, &verdict);
    ks_json_object_begin(&doc->json, "verdict");
    ks_json_text(&doc->json, "text", verdict.text);
    ks_json_text(&doc->json, "bound_by", ks_verdict_word(verdict.bound));
    ks_json_real(&doc->json, "share", verdict.share);
    ks_json_object_end(&doc->json);
    if (verdict.bound == KS_BOUND_UNKNOWN) {
        add_reason(doc, NULL, "verdict.share", "no step lasts some time");
    }
}

static void write_gpu(struct document *doc, int64_t rank, const struct ks_gpu_info *gpu)
{
    struct ks_json *json = &doc->json;
    ks_json_object_begin(json, NULL);
    struct ks_cell cells[] = {
        ks_cell_int(rank),
        ks_cell_int(gpu->id),
        ks_cell_id(doc->view, gpu->name),
        ks_cell_int(gpu->memory_bytes > 0 ? gpu->memory_bytes : KS_UNKNOWN),
        ks_cell_int(gpu->sm_count > 0 ? gpu->sm_count : KS_UNKNOWN),
    };
    static const char *const keys[] = {"rank", "device", "name", "memory_bytes", "sm_count"};
    for (size_t i = 0; i < KS_COUNT_OF(cells); i++) {
        ks_cell_write(json, keys[i], &cells[i]);
        if (cells[i].kind == KS_CELL_NULL) {
            add_reason(doc, "environment.gpus", keys[i], "the file does not say");
        }
    }
    if (gpu->compute_major >= 0 && gpu->compute_minor >= 0) {
        char text[32];
        snprintf(text, sizeof(text), "%d.%d", gpu->compute_major, gpu->compute_minor);
        ks_json_text(json, "compute_capability", text);
    } else {
        ks_json_null(json, "compute_capability");
        add_reason(doc, "environment.gpus", "compute_capability", "the file does not say");
    }
    ks_json_object_end(json);
}

/* Cycles of a rank describe the same GPUs again: only the first file of each rank counts. */
static bool is_first_of_rank(const struct ks_trace *trace, uint32_t index)
{
    int64_t rank = ks_trace_source(trace, index)->rank;
    for (uint32_t i = 0; i < index; i++) {
        const struct ks_source *source = ks_trace_source(trace, i);
        if (source->rank == rank && source->gpu_count > 0) {
            return false;
        }
    }
    return true;
}

/* The first source that names it speaks for all. */
static void write_version_of(struct document *doc, const char *key, size_t offset)
{
    const struct ks_trace *trace = doc->view->trace;
    for (uint32_t i = 0; i < ks_trace_source_count(trace); i++) {
        const char *member = (const char *)ks_trace_source(trace, i) + offset;
        struct ks_strid id = *(const struct ks_strid *)(const void *)member;
        if (id.v != 0) {
            ks_json_str(&doc->json, key, ks_trace_str(trace, id));
            return;
        }
    }
    ks_json_null(&doc->json, key);
    add_reason(doc, "environment", key, "no input says");
}

static void write_environment(struct document *doc)
{
    struct ks_json *json = &doc->json;
    const struct ks_trace *trace = doc->view->trace;
    ks_json_object_begin(json, "environment");
    write_version_of(doc, "torch", offsetof(struct ks_source, torch_version));
    write_version_of(doc, "cuda", offsetof(struct ks_source, cuda_version));
    write_version_of(doc, "driver", offsetof(struct ks_source, driver_version));
    ks_json_array_begin(json, "gpus");
    for (uint32_t i = 0; i < ks_trace_source_count(trace); i++) {
        const struct ks_source *source = ks_trace_source(trace, i);
        for (size_t g = 0; g < source->gpu_count && is_first_of_rank(trace, i); g++) {
            write_gpu(doc, ks_view_rank(doc->view, i), &source->gpus[g]);
        }
    }
    ks_json_array_end(json);
    ks_json_null(json, "cpu");
    ks_json_text(json, "cgroup", doc->view->cgroup);
    add_reason(doc, "environment", "cpu", "a trace alone does not say");
    if (!doc->view->cgroup) {
        add_reason(doc, "environment", "cgroup", "a trace alone does not say");
    }
    ks_json_object_end(json);
}

/* Time of a step without the profiler: replayed from the trace, and measured. */
static void write_prediction(struct document *doc)
{
    const struct ks_mean_step *mean = &doc->view->facts->mean_step;
    static const char *const key = "predicted_step_ns";
    if (mean->obstacle) {
        ks_json_null(&doc->json, key);
        add_reason(doc, "overhead", key, mean->obstacle);
    } else {
        ks_json_object_begin(&doc->json, key);
        ks_json_int(&doc->json, "low", mean->predicted_low_ns);
        ks_json_int(&doc->json, "middle", mean->predicted_ns);
        ks_json_int(&doc->json, "high", mean->predicted_high_ns);
        ks_json_object_end(&doc->json);
    }
    bool is_measured = mean->unprofiled_ns > 0;
    struct ks_cell measured = ks_cell_int(is_measured ? mean->unprofiled_ns : KS_UNKNOWN);
    ks_cell_write(&doc->json, "measured_step_ns", &measured);
    if (!is_measured) {
        add_reason(doc, "overhead", "measured_step_ns", "no step was timed without the profiler");
    }
}

static void write_overhead(struct document *doc)
{
    const struct ks_facts *facts = doc->view->facts;
    ks_json_object_begin(&doc->json, "overhead");
    ks_json_int(&doc->json, "profiler_ns", facts->overhead_ns);
    struct ks_cell cost = ks_cell_int(facts->row_cost_ns > 0 ? facts->row_cost_ns : KS_UNKNOWN);
    ks_cell_write(&doc->json, "row_cost_ns", &cost);
    if (cost.kind == KS_CELL_NULL) {
        add_reason(doc, "overhead", "row_cost_ns", "too few rows to estimate it");
    }
    write_prediction(doc);
    ks_json_object_end(&doc->json);
}

static void write_loader_waits(struct document *doc, const struct ks_input_fact *input)
{
    static const char *const reason = "no step is complete";
    static const char *const list = "data_loading.loaders";
    struct ks_json *json = &doc->json;
    ks_json_int(json, "first_batch_ns", input->first_batch_ns);
    struct ks_cell rate =
        ks_cell_ratio((double)input->step_batches * 1e9, (double)input->step_ns_total);
    ks_cell_write(json, "batches_per_s", &rate);
    if (rate.kind == KS_CELL_NULL) {
        add_reason(doc, list, "batches_per_s", reason);
    }
    static const char *const keys[] = {"median", "p95", "max"};
    static const char *const paths[] = {"step_wait_ns.median", "step_wait_ns.p95",
                                        "step_wait_ns.max"};
    const int64_t values[] = {input->wait_ns_median, input->wait_ns_p95, input->wait_ns_max};
    ks_json_object_begin(json, "step_wait_ns");
    for (size_t i = 0; i < KS_COUNT_OF(keys); i++) {
        struct ks_cell cell = ks_cell_int(values[i]);
        ks_cell_write(json, keys[i], &cell);
        if (cell.kind == KS_CELL_NULL) {
            add_reason(doc, list, paths[i], reason);
        }
    }
    ks_json_object_end(json);
}

static void write_data_loading(struct document *doc)
{
    struct ks_json *json = &doc->json;
    const struct ks_facts *facts = doc->view->facts;
    ks_json_object_begin(json, "data_loading");
    ks_json_array_begin(json, "loaders");
    for (size_t i = 0; i < facts->input_count; i++) {
        const struct ks_input_fact *input = &facts->inputs[i];
        if (!input->has_loader) {
            continue;
        }
        ks_json_object_begin(json, NULL);
        struct ks_cell rank = ks_cell_int(ks_view_rank(doc->view, input->source));
        ks_cell_write(json, "rank", &rank);
        if (rank.kind == KS_CELL_NULL) {
            add_reason(doc, "data_loading.loaders", "rank", "the file does not name its rank");
        }
        ks_json_str(json, "name", ks_view_str(doc->view, input->name));
        ks_json_bool(json, "single_process", input->is_single_process);
        ks_json_int(json, "batches", (int64_t)input->batches);
        ks_json_int(json, "wait_ns", input->wait_ns_total);
        ks_json_int(json, "idle_wait_ns", input->idle_wait_ns_total);
        ks_json_int(json, "loader_cpu_ns", input->loader_cpu_ns);
        ks_json_int(json, "collate_ns", input->collate_ns);
        ks_json_int(json, "fetch_ns", input->loader_cpu_ns - input->collate_ns);
        ks_json_int(json, "transfer_ns", input->transfer_ns);
        write_loader_waits(doc, input);
        ks_json_object_end(json);
    }
    ks_json_array_end(json);
    ks_json_object_end(json);
}

/* ------------------------------------------------------------------ plan and checks */

/* Savings that can be had one after the other; those of one group are had once. */
static bool counts_in_plan(const struct ks_finding *finding)
{
    return finding->impact == KS_IMPACT_TIME && finding->is_primary &&
           finding->saving.low_ns != KS_UNKNOWN && finding->saving.high_ns != KS_UNKNOWN;
}

static int64_t at_least_zero(int64_t ns)
{
    return ns > 0 ? ns : 0;
}

static void write_plan(struct document *doc)
{
    struct ks_json *json = &doc->json;
    const struct ks_findings *findings = doc->view->findings;
    int64_t step_ns = ks_view_step_ns(doc->view);
    int64_t low_ns = 0;
    int64_t high_ns = 0;
    size_t total = 0;
    for (size_t i = 0; i < findings->count; i++) {
        total += step_ns != KS_UNKNOWN && counts_in_plan(&findings->list[i]);
    }
    size_t left = limit_rows(doc, "plan", total);
    ks_json_array_begin(json, "plan");
    for (size_t i = 0; i < findings->count && left > 0; i++) {
        const struct ks_finding *finding = &findings->list[i];
        if (!counts_in_plan(finding)) {
            continue;
        }
        low_ns += finding->saving.low_ns;
        high_ns += finding->saving.high_ns;
        ks_json_object_begin(json, NULL);
        ks_json_text(json, "finding", finding->rule->id);
        ks_json_object_begin(json, "step_ns_after");
        ks_json_int(json, "low", at_least_zero(step_ns - high_ns));
        ks_json_int(json, "high", at_least_zero(step_ns - low_ns));
        ks_json_object_end(json);
        ks_json_object_end(json);
        left--;
    }
    ks_json_array_end(json);
}

static void write_checked(struct document *doc)
{
    struct ks_json *json = &doc->json;
    const struct ks_findings *findings = doc->view->findings;
    ks_json_array_begin(json, "checked");
    for (size_t i = 0; i < findings->check_count; i++) {
        const struct ks_check *check = &findings->checks[i];
        if (check->state == KS_CHECK_FOUND) {
            continue;
        }
        ks_json_object_begin(json, NULL);
        ks_json_text(json, "id", check->rule->id);
        ks_json_text(json, "state", check->state == KS_CHECK_FINE ? "fine" : "could_not");
        ks_json_text(json, "reason", check->reason);
        ks_json_object_end(json);
    }
    ks_json_array_end(json);
}

static void write_opportunity(struct document *doc, const struct ks_opportunity *opportunity)
{
    static const char *const list = "opportunities";
    struct ks_json *json = &doc->json;
    ks_json_object_begin(json, NULL);
    ks_json_text(json, "id", opportunity->id);
    ks_json_text(json, "title", opportunity->title);
    ks_json_text(json, "text", opportunity->text);
    ks_json_text(json, "code", opportunity->code);
    struct ks_cell most = ks_cell_int(opportunity->most_ns);
    ks_cell_write(json, "saves_at_most_ns_per_step", &most);
    ks_json_array_begin(json, "evidence");
    for (size_t i = 0; i < opportunity->evidence_count; i++) {
        ks_json_object_begin(json, NULL);
        ks_json_text(json, "name", opportunity->evidence[i].name);
        ks_json_real(json, "value", opportunity->evidence[i].value);
        ks_json_text(json, "unit", opportunity->evidence[i].unit);
        ks_json_object_end(json);
    }
    ks_json_array_end(json);
    ks_json_object_end(json);
    if (!opportunity->code) {
        add_reason(doc, list, "code", "there is no code for it");
    }
    if (most.kind == KS_CELL_NULL) {
        add_reason(doc, list, "saves_at_most_ns_per_step", "a trace does not tell");
    }
}

static void write_opportunities(struct document *doc)
{
    const struct ks_opportunities *opportunities = doc->view->opportunities;
    size_t count = limit_rows(doc, "opportunities", opportunities->count);
    ks_json_array_begin(&doc->json, "opportunities");
    for (size_t i = 0; i < count; i++) {
        write_opportunity(doc, &opportunities->list[i]);
    }
    ks_json_array_end(&doc->json);
}

/* "steps[].tokens": why some value there is null. */
static void write_reasons(struct document *doc)
{
    ks_json_object_begin(&doc->json, "reasons");
    for (size_t i = 0; i < doc->notes.reason_count; i++) {
        const struct ks_json_reason *reason = &doc->notes.reasons[i];
        const char *list = reason->list ? reason->list : "";
        bool is_object = strcmp(list, "links") == 0 || strcmp(list, "environment") == 0 ||
                         strcmp(list, "overhead") == 0;
        char path[2 * PATH_SIZE];
        snprintf(path, sizeof(path), "%s%s%s", list,
                 !*list      ? ""
                 : is_object ? "."
                             : "[].",
                 reason->key);
        ks_json_text(&doc->json, path, reason->text);
    }
    ks_json_object_end(&doc->json);
}

/* ------------------------------------------------------------------ the document */

static enum ks_status write_lists(struct document *doc, const struct ks_list *const *lists,
                                  size_t count, struct ks_err *err)
{
    for (size_t i = 0; i < count; i++) {
        KS_TRY(write_list(doc, lists[i], err));
    }
    return KS_OK;
}

static enum ks_status write_document(struct document *doc, struct ks_err *err)
{
    static const struct ks_list *const lists[] = {
        &ks_list_steps,     &ks_list_devices,  &ks_list_operators,  &ks_list_kernels,
        &ks_list_streams,   &ks_list_copies,   &ks_list_copy_sites, &ks_list_syncs,
        &ks_list_places,    &ks_list_regions,  &ks_list_functions,  &ks_list_samples,
        &ks_list_counters,  &ks_list_instants, &ks_list_modules,    &ks_list_autograd,
        &ks_list_sequences, &ks_list_stacks,
    };
    struct ks_json *json = &doc->json;
    ks_json_object_begin(json, NULL);
    ks_json_text(json, "schema", "kinetoscope.report/1");
    ks_json_text(json, "generator", ks_version());
    write_verdict(doc);
    write_environment(doc);
    write_overhead(doc);
    KS_TRY(write_list(doc, &ks_list_inputs, err));
    char origin[24];
    snprintf(origin, sizeof(origin), "%" PRId64, ks_trace_origin_ns(doc->view->trace));
    ks_json_text(json, "origin_ns", origin);
    KS_TRY(write_lists(doc, lists, KS_COUNT_OF(lists), err));
    const struct ks_facts *facts = doc->view->facts;
    add_site_reasons(doc, &ks_list_syncs, facts->syncs, facts->sync_count);
    add_site_reasons(doc, &ks_list_copy_sites, facts->copy_sites, facts->copy_site_count);
    write_row(doc, &ks_list_links, "links", 0, "links");
    write_data_loading(doc);
    KS_TRY(write_list(doc, &ks_list_findings, err));
    write_plan(doc);
    write_checked(doc);
    write_opportunities(doc);
    if (doc->view->tuning) {
        ks_json_object_begin(json, "tuned");
        ks_tuning_write_members(doc->view->tuning, json);
        ks_json_object_end(json);
    }
    ks_json_notes_write_truncated(&doc->notes, json);
    write_reasons(doc);
    ks_json_object_end(json);
    return ks_json_finish(json, err);
}

static struct document *new_document(const struct ks_view *view,
                                     const struct ks_report_style *style)
{
    struct document *doc = ks_alloc(1, sizeof(*doc));
    if (doc) {
        doc->view = view;
        doc->style = style;
    }
    return doc;
}

static enum ks_status finish_document(struct document *doc, struct ks_err *err)
{
    enum ks_status status =
        doc ? write_document(doc, err)
            : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write the report: no memory");
    ks_free(doc);
    return status;
}

enum ks_status ks_report_write_json(const struct ks_view *view, const struct ks_report_style *style,
                                    ks_write_cb write, void *user, struct ks_err *err)
{
    struct document *doc = new_document(view, style);
    if (doc) {
        ks_json_init(&doc->json, write, user);
    }
    return finish_document(doc, err);
}

enum ks_status ks_report_write_json_in_page(const struct ks_view *view,
                                            const struct ks_report_style *style, size_t len_max,
                                            ks_write_cb write, void *user, struct ks_err *err)
{
    struct document *doc = new_document(view, style);
    if (doc) {
        ks_json_init_for_markup(&doc->json, len_max, write, user);
    }
    return finish_document(doc, err);
}
