/* A comparison as text: the verdict, both runs, what differs in their recordings, and a table each
 * of step parts, operators, kernels, memory and findings. */
#include <math.h>

#include "base/err.h"
#include "base/text.h"
#include "show/compare_words.h"
#include "show/ink.h"
#include "show/lists.h"
#include "show/plain.h"
#include "show/report.h"
#include "show/units.h"

enum {
    LABEL_WIDTH = 9,
    ROWS_DEFAULT = 10,
    WIDTH_DEFAULT = 100,
    MORE_WIDTH = 20, /* of the words behind a path */
    DEVICE_WIDTH = 40,
    TORCH_WIDTH = 24,
};

static void label(struct ks_text *out, const struct ks_report_style *style, const char *name)
{
    ks_ink(out, style->colour, KS_INK_FAINT);
    ks_text_printf(out, "%-*s", LABEL_WIDTH, name);
    ks_ink(out, style->colour, KS_INK_END);
}

static enum ks_ink ink_of(enum ks_step_verdict verdict)
{
    switch (verdict) {
    case KS_STEP_VERDICT_FASTER: return KS_INK_GOOD;
    case KS_STEP_VERDICT_SLOWER: return KS_INK_HOT;
    case KS_STEP_VERDICT_NO_DIFFERENCE:
    case KS_STEP_VERDICT_CANNOT_TELL: break;
    }
    return KS_INK_STRONG;
}

static void write_verdict(struct ks_text *out, const struct ks_comparison *comparison,
                          const struct ks_report_style *style)
{
    ks_ink(out, style->colour, ink_of(comparison->verdict));
    ks_compare_words_verdict(out, comparison);
    ks_ink(out, style->colour, KS_INK_END);
    ks_text_printf(out, "\n");
    if (comparison->verdict != KS_STEP_VERDICT_CANNOT_TELL) {
        label(out, style, "");
        ks_compare_words_reason(out, comparison);
        ks_text_printf(out, "\n");
    }
    const struct ks_estimate *ratio = &comparison->step.ratio;
    if (!isnan(ratio->low)) {
        label(out, style, "");
        ks_text_printf(out, "%.3g times as long (%.3g to %.3g)\n", ratio->value, ratio->low,
                       ratio->high);
    }
}

static void write_times(struct ks_text *out, const struct ks_compare_run *run,
                        const struct ks_report_style *style)
{
    const struct ks_compare_times *times = &run->times;
    bool is_cut = times->count > 0 && !times->is_complete;
    label(out, style, "");
    ks_text_printf(out, "%s %s%s, mean ", ks_units_count(times->count).text,
                   is_cut ? "cut steps" : "steps", run->ranks > 1 ? " of several ranks" : "");
    ks_compare_words_time(out, &times->mean);
    if (times->count > 0) {
        ks_text_printf(out, ", median %s, %s to %s", ks_units_time(times->median_ns).text,
                       ks_units_time(times->min_ns).text, ks_units_time(times->max_ns).text);
    }
    ks_text_printf(out, "\n");
    bool is_measured = times->unprofiled_ns != KS_UNKNOWN;
    if (is_measured || times->predicted_ns != KS_UNKNOWN) {
        int64_t ns = is_measured ? times->unprofiled_ns : times->predicted_ns;
        label(out, style, "");
        ks_text_printf(out, "without the profiler %s%s\n", is_measured ? "" : "about ",
                       ks_units_time(ns).text);
    }
}

static void write_run(struct ks_text *out, const char *name, const struct ks_compare_run *run,
                      const struct ks_report_style *style)
{
    size_t width = style->width > 0 ? style->width : WIDTH_DEFAULT;
    label(out, style, name);
    ks_plain_append_fit(out, run->path, width - LABEL_WIDTH - MORE_WIDTH);
    if (run->path_count > 1) {
        ks_text_printf(out, " and %lld more", (long long)run->path_count - 1);
    }
    ks_text_printf(out, "\n");
    label(out, style, "");
    ks_text_printf(out, "%s events, ", ks_units_count(run->events).text);
    ks_plain_append_fit(out, run->device, DEVICE_WIDTH);
    if (run->torch.ptr) {
        ks_text_printf(out, ", torch ");
        ks_plain_append_fit(out, run->torch, TORCH_WIDTH);
    }
    ks_text_printf(out, "\n");
    write_times(out, run, style);
}

static enum ks_status hand_on(struct ks_text *out, ks_write_cb write, void *user,
                              struct ks_err *err)
{
    if (out->failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write the comparison: no memory");
    }
    bool is_good = out->len == 0 || write(user, out->ptr, out->len);
    ks_text_reset(out);
    return is_good ? KS_OK
                   : ks_fail(err, KS_ERR_IO, KS_NO_OFFSET,
                             "Cannot write the comparison: the receiver stopped");
}

/* Tables in the order of what one asks next. Those of the parts and of the recordings are whole. */
static const struct {
    const char *heading;
    const struct ks_list *list;
    bool is_whole;
} tables[] = {
    {"recording", &ks_list_compare_recording, true},
    {"parts of a mean step", &ks_list_compare_parts, true},
    {"operators, of a mean step, by how much they changed", &ks_list_compare_operators, false},
    {"kernels, of a mean step, by how much they changed", &ks_list_compare_kernels, false},
    {"memory", &ks_list_compare_memory, true},
    {"findings", &ks_list_compare_findings, false},
};

static enum ks_status write_tables(const struct ks_comparison *comparison,
                                   const struct ks_report_style *style, struct ks_text *out,
                                   ks_write_cb write, void *user, struct ks_err *err)
{
    const struct ks_view view = {.comparison = comparison};
    for (size_t i = 0; i < KS_COUNT_OF(tables); i++) {
        struct ks_report_style of_table = *style;
        of_table.sort = NULL;
        of_table.row_limit = tables[i].is_whole ? SIZE_MAX
                             : style->row_limit ? style->row_limit
                                                : ROWS_DEFAULT;
        ks_text_printf(out, "\n");
        ks_ink(out, style->colour, KS_INK_STRONG);
        ks_text_printf(out, "%s", tables[i].heading);
        ks_ink(out, style->colour, KS_INK_END);
        ks_text_printf(out, "\n");
        KS_TRY(hand_on(out, write, user, err));
        KS_TRY(ks_report_write_list(&view, tables[i].list, &of_table, write, user, err));
    }
    return KS_OK;
}

enum ks_status ks_comparison_write_screen(const struct ks_comparison *comparison,
                                          const struct ks_report_style *style, ks_write_cb write,
                                          void *user, struct ks_err *err)
{
    struct ks_text out;
    ks_text_init(&out);
    write_verdict(&out, comparison, style);
    write_run(&out, "A", &comparison->runs[KS_COMPARE_A], style);
    write_run(&out, "B", &comparison->runs[KS_COMPARE_B], style);
    enum ks_status status = write_tables(comparison, style, &out, write, user, err);
    ks_text_release(&out);
    return status;
}
