/* The JSON document of a comparison (docs/diff.schema.json): `kinetoscope.diff/1`. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/err.h"
#include "show/compare_words.h"
#include "show/json_notes.h"
#include "show/lists.h"
#include "show/report.h"

enum { PATH_SIZE = 64 };

struct document {
    struct ks_json json;
    struct ks_view view; /* of the comparison alone */
    size_t row_limit;    /* 0: all */
    struct ks_text text; /* one sentence */
    bool has_failed;     /* out of memory */
    struct ks_json_notes notes;
};

static void add_reason(struct document *doc, const char *list, const char *key, const char *text)
{
    ks_json_notes_add_reason(&doc->notes, list, key, text);
}

static size_t limit_rows(struct document *doc, const char *key, size_t total)
{
    return ks_json_notes_limit(&doc->notes, doc->row_limit, key, total);
}

/* ------------------------------------------------------------------ values */

static void write_int(struct document *doc, const char *list, const char *key, int64_t value,
                      const char *why)
{
    struct ks_cell cell = ks_cell_int(value);
    ks_cell_write(&doc->json, key, &cell);
    if (cell.kind == KS_CELL_NULL) {
        add_reason(doc, list, key, why);
    }
}

static void write_real(struct document *doc, const char *list, const char *key, double value,
                       const char *why)
{
    struct ks_cell cell = ks_cell_real(value);
    ks_cell_write(&doc->json, key, &cell);
    if (cell.kind == KS_CELL_NULL) {
        add_reason(doc, list, key, why);
    }
}

static void write_text(struct document *doc, const char *list, const char *key, struct ks_str text,
                       const char *why)
{
    if (text.ptr) {
        ks_json_str(&doc->json, key, text);
    } else {
        ks_json_null(&doc->json, key);
        add_reason(doc, list, key, why);
    }
}

typedef void (*append_words)(struct ks_text *text, const struct ks_comparison *comparison);

static void write_words(struct document *doc, const char *key, append_words append)
{
    ks_text_reset(&doc->text);
    append(&doc->text, doc->view.comparison);
    doc->has_failed = doc->has_failed || doc->text.failed;
    ks_json_str(&doc->json, key, (struct ks_str){doc->text.ptr, doc->text.len});
}

/* ------------------------------------------------------------------ parts that are no lists */

static void write_verdict(struct document *doc)
{
    ks_json_object_begin(&doc->json, "verdict");
    write_words(doc, "text", ks_compare_words_verdict);
    ks_json_text(&doc->json, "step", ks_view_step_verdict(doc->view.comparison->verdict));
    write_words(doc, "reason", ks_compare_words_reason);
    ks_json_object_end(&doc->json);
}

static void write_estimate(struct document *doc, const char *key, const struct ks_estimate *of)
{
    static const char *const reason = "fewer than two steps";
    ks_json_object_begin(&doc->json, key);
    write_real(doc, key, "value", of->value, "a run has no step");
    write_real(doc, key, "low", of->low, reason);
    write_real(doc, key, "high", of->high, reason);
    ks_json_object_end(&doc->json);
}

static void write_step_list(struct document *doc, const char *truncated,
                            const struct ks_compare_times *times)
{
    size_t count = limit_rows(doc, truncated, (size_t)times->count);
    ks_json_array_begin(&doc->json, "steps");
    for (size_t i = 0; i < count && !doc->json.failed; i++) {
        ks_json_object_begin(&doc->json, NULL);
        ks_json_int(&doc->json, "number", times->numbers[i]);
        ks_json_real(&doc->json, "dur_ns", times->list[i]);
        ks_json_object_end(&doc->json);
    }
    ks_json_array_end(&doc->json);
}

static void write_prediction(struct document *doc, const struct ks_compare_times *times)
{
    static const char *const key = "predicted_step_ns";
    if (times->predicted_ns == KS_UNKNOWN) {
        ks_json_null(&doc->json, key);
        add_reason(doc, "runs", key, "the steps cannot be replayed: see overhead of the report");
        return;
    }
    ks_json_object_begin(&doc->json, key);
    ks_json_int(&doc->json, "low", times->predicted_low_ns);
    ks_json_int(&doc->json, "middle", times->predicted_ns);
    ks_json_int(&doc->json, "high", times->predicted_high_ns);
    ks_json_object_end(&doc->json);
}

static void write_times(struct document *doc, const char *truncated,
                        const struct ks_compare_times *times)
{
    static const char *const none = "the run has no step";
    struct ks_json *json = &doc->json;
    ks_json_int(json, "step_count", times->count);
    ks_json_int(json, "cut_steps", times->cut_count);
    ks_json_bool(json, "complete", times->is_complete);
    write_estimate(doc, "mean_step_ns", &times->mean);
    write_int(doc, "runs", "median_step_ns", times->median_ns, none);
    write_int(doc, "runs", "min_step_ns", times->min_ns, none);
    write_int(doc, "runs", "max_step_ns", times->max_ns, none);
    write_real(doc, "runs", "std_step_ns", times->std_ns, "fewer than two steps");
    write_int(doc, "runs", "measured_step_ns", times->unprofiled_ns,
              "no step was timed without the profiler");
    write_prediction(doc, times);
    write_step_list(doc, truncated, times);
}

static void write_run(struct document *doc, const char *name, const char *truncated,
                      const struct ks_compare_run *run)
{
    struct ks_json *json = &doc->json;
    ks_json_object_begin(json, NULL);
    ks_json_text(json, "name", name);
    write_text(doc, "runs", "path", run->path, "it was opened without one");
    ks_json_int(json, "paths", run->path_count);
    ks_json_int(json, "events", run->events);
    ks_json_int(json, "ranks", run->ranks);
    write_text(doc, "runs", "torch", run->torch, "no input says");
    ks_json_str(json, "device", run->device);
    write_times(doc, truncated, &run->times);
    ks_json_object_end(json);
}

static void write_runs(struct document *doc)
{
    const struct ks_compare_run *runs = doc->view.comparison->runs;
    ks_json_array_begin(&doc->json, "runs");
    write_run(doc, "A", "runs[0].steps", &runs[KS_COMPARE_A]);
    write_run(doc, "B", "runs[1].steps", &runs[KS_COMPARE_B]);
    ks_json_array_end(&doc->json);
}

static void write_step(struct document *doc)
{
    const struct ks_difference *step = &doc->view.comparison->step;
    ks_json_object_begin(&doc->json, "step");
    ks_json_real(&doc->json, "confidence", KS_BOOTSTRAP_LEVEL);
    write_estimate(doc, "change_ns", &step->change);
    write_estimate(doc, "ratio", &step->ratio);
    ks_json_object_end(&doc->json);
}

/* ------------------------------------------------------------------ lists */

/* Whose reasons are noted. */
struct row_of {
    struct document *doc;
    const char *key;
};

static void note_null(void *user, const struct ks_column *column)
{
    const struct row_of *row = user;
    add_reason(row->doc, row->key, column->key, column->reason);
}

static void write_lists(struct document *doc)
{
    const struct ks_list *list;
    for (size_t i = 0; (list = ks_list_compare_at(i)) != NULL; i++) {
        struct row_of of = {doc, list->name + strlen("compare_")};
        size_t count = limit_rows(doc, of.key, list->row_count(&doc->view));
        ks_json_array_begin(&doc->json, of.key);
        for (size_t row = 0; row < count && !doc->json.failed; row++) {
            ks_list_write_row(&doc->json, list, NULL, &doc->view, row, note_null, &of);
        }
        ks_json_array_end(&doc->json);
    }
}

/* "operators[].a.calls": why some value there is null; of estimates the key alone. */
static void write_reasons(struct document *doc)
{
    ks_json_object_begin(&doc->json, "reasons");
    for (size_t i = 0; i < doc->notes.reason_count; i++) {
        const struct ks_json_reason *reason = &doc->notes.reasons[i];
        bool is_object = strcmp(reason->list, "change_ns") == 0 ||
                         strcmp(reason->list, "ratio") == 0 ||
                         strcmp(reason->list, "mean_step_ns") == 0;
        const char *home = strcmp(reason->list, "mean_step_ns") == 0 ? "runs[]."
                           : is_object                               ? "step."
                                                                     : "";
        char path[2 * PATH_SIZE];
        snprintf(path, sizeof(path), "%s%s%s.%s", home, reason->list, is_object ? "" : "[]",
                 reason->key);
        ks_json_text(&doc->json, path, reason->text);
    }
    ks_json_object_end(&doc->json);
}

/* ------------------------------------------------------------------ the document */

static enum ks_status write_document(struct document *doc, struct ks_err *err)
{
    struct ks_json *json = &doc->json;
    ks_json_object_begin(json, NULL);
    ks_json_text(json, "schema", "kinetoscope.diff/1");
    ks_json_text(json, "generator", ks_version());
    write_verdict(doc);
    write_runs(doc);
    write_step(doc);
    write_lists(doc);
    ks_json_notes_write_truncated(&doc->notes, json);
    write_reasons(doc);
    ks_json_object_end(json);
    if (doc->has_failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write the comparison: no memory");
    }
    return ks_json_finish(json, err);
}

static struct document *new_document(const struct ks_comparison *comparison,
                                     const struct ks_report_style *style)
{
    struct document *doc = ks_alloc(1, sizeof(*doc));
    if (doc) {
        doc->view.comparison = comparison;
        doc->row_limit = style->row_limit;
        ks_text_init(&doc->text);
    }
    return doc;
}

static enum ks_status finish_document(struct document *doc, struct ks_err *err)
{
    if (!doc) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write the comparison: no memory");
    }
    enum ks_status status = write_document(doc, err);
    ks_text_release(&doc->text);
    ks_free(doc);
    return status;
}

enum ks_status ks_comparison_write_json(const struct ks_comparison *comparison,
                                        const struct ks_report_style *style, ks_write_cb write,
                                        void *user, struct ks_err *err)
{
    struct document *doc = new_document(comparison, style);
    if (doc) {
        ks_json_init(&doc->json, write, user);
    }
    return finish_document(doc, err);
}

enum ks_status ks_comparison_write_json_in_page(const struct ks_comparison *comparison,
                                                const struct ks_report_style *style, size_t len_max,
                                                ks_write_cb write, void *user, struct ks_err *err)
{
    struct document *doc = new_document(comparison, style);
    if (doc) {
        ks_json_init_for_markup(&doc->json, len_max, write, user);
    }
    return finish_document(doc, err);
}
