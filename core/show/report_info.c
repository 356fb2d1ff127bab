/* What `kscope info` says: each file, the switches of its recording, and every non-zero counter
 * with its sentence. The first thing to ask for in a bug report. */
#include "show/report.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/text.h"
#include "show/lists.h"
#include "show/plain.h"
#include "show/units.h"

enum { LABEL_WIDTH = 12, VALUE_WIDTH_MAX = 200 };

static const char *severity_word(enum ks_stat_severity severity)
{
    static const char *const words[] = {"info", "repair", "loss", "cut"};
    KS_ASSERT((size_t)severity < KS_COUNT_OF(words));
    return words[severity];
}

/* ------------------------------------------------------------------ text */

static void append_value(struct ks_text *out, const char *name, struct ks_str value)
{
    if (value.len == 0) {
        return;
    }
    ks_text_printf(out, "  %-*s", LABEL_WIDTH, name);
    ks_plain_append_fit(out, value, VALUE_WIDTH_MAX);
    ks_text_append(out, "\n", 1);
}

static void append_switches(struct ks_text *out, const struct ks_source *source)
{
    const struct {
        const char *name;
        bool is_on;
    } switches[] = {
        {"record_shapes", source->record_shapes}, {"profile_memory", source->profile_memory},
        {"with_stack", source->with_stack},       {"with_flops", source->with_flops},
        {"with_modules", source->with_modules},
    };
    ks_text_printf(out, "  %-*s", LABEL_WIDTH, "switches");
    size_t count = 0;
    for (size_t i = 0; i < KS_COUNT_OF(switches); i++) {
        if (switches[i].is_on) {
            ks_text_printf(out, "%s%s", count++ ? ", " : "", switches[i].name);
        }
    }
    ks_text_printf(out, "%s\n", count ? "" : "none");
}

static void append_counts(struct ks_text *out, const struct ks_source *source)
{
    for (int stat = 0; stat < KS_STAT_COUNT; stat++) {
        if (source->counts[stat] == 0) {
            continue;
        }
        const struct ks_stat_info *info = ks_stat_info((enum ks_stat)stat);
        struct ks_unit_text count = ks_units_count((int64_t)source->counts[stat]);
        ks_text_printf(out, "  %-*s%s %s [%s]\n", LABEL_WIDTH, severity_word(info->severity),
                       count.text, info->sentence, info->name);
    }
}

static void append_source(struct ks_text *out, const struct ks_view *view, uint32_t index)
{
    const struct ks_source *source = ks_trace_source(view->trace, index);
    ks_plain_append(out, ks_view_path(view, index));
    ks_text_append(out, "\n", 1);
    append_value(out, "format", ks_view_str(view, source->format));
    append_value(out, "packed", ks_view_str(view, source->compression));
    append_value(out, "status", ks_str_from(ks_view_status(ks_source_status(source))));
    struct ks_unit_text bytes = ks_units_bytes((int64_t)source->bytes);
    struct ks_unit_text events = ks_units_count((int64_t)source->events);
    bool is_text = ks_str_contains(ks_view_str(view, source->format), KS_STR("json"));
    ks_text_printf(out, "  %-*s%s in %s%s\n", LABEL_WIDTH, "events", events.text, bytes.text,
                   is_text ? " of text" : "");
    if (source->start_ns != KS_TIME_NONE && source->end_ns != KS_TIME_NONE) {
        struct ks_unit_text span = ks_units_time(source->end_ns - source->start_ns);
        ks_text_printf(out, "  %-*s%s\n", LABEL_WIDTH, "time", span.text);
    }
    if (source->rank >= 0) {
        ks_text_printf(out, "  %-*s%lld", LABEL_WIDTH, "rank", (long long)source->rank);
        if (source->world_size >= 0) {
            ks_text_printf(out, " of %lld", (long long)source->world_size);
        }
        ks_text_append(out, "\n", 1);
    }
    append_value(out, "torch", ks_view_str(view, source->torch_version));
    append_value(out, "cuda", ks_view_str(view, source->cuda_version));
    append_value(out, "driver", ks_view_str(view, source->driver_version));
    for (size_t i = 0; i < source->gpu_count; i++) {
        append_value(out, "gpu", ks_view_str(view, source->gpus[i].name));
    }
    if (source->is_recording) {
        append_value(out, "program", ks_view_str(view, source->trace_name));
        if (source->worker >= 0) {
            ks_text_printf(out, "  %-*s%lld of a DataLoader\n", LABEL_WIDTH, "worker",
                           (long long)source->worker);
        }
        append_value(out, "off", ks_view_str(view, source->off_reason));
    } else {
        append_switches(out, source);
    }
    append_counts(out, source);
    ks_text_append(out, "\n", 1);
}

static enum ks_status write_text(const struct ks_view *view, ks_write_cb write, void *user,
                                 struct ks_err *err)
{
    struct ks_text out;
    ks_text_init(&out);
    bool is_good = true;
    for (uint32_t i = 0; i < ks_trace_source_count(view->trace) && is_good && !out.failed; i++) {
        append_source(&out, view, i);
        is_good = out.failed || write(user, out.ptr, out.len);
        if (!out.failed) {
            ks_text_reset(&out);
        }
    }
    struct ks_unit_text longest = ks_units_bytes(KS_STR_LEN_MAX);
    ks_text_printf(&out, "kscope %s, strings up to %s\n", ks_version(), longest.text);
    is_good = is_good && (out.failed || write(user, out.ptr, out.len));
    bool has_failed = out.failed;
    ks_text_release(&out);
    if (has_failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write info: no memory");
    }
    return is_good
               ? KS_OK
               : ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot write info: the receiver stopped");
}

/* ------------------------------------------------------------------ JSON */

static void write_counters(struct ks_json *json, const struct ks_source *source)
{
    ks_json_array_begin(json, "counters");
    for (int stat = 0; stat < KS_STAT_COUNT; stat++) {
        if (source->counts[stat] == 0) {
            continue;
        }
        const struct ks_stat_info *info = ks_stat_info((enum ks_stat)stat);
        ks_json_object_begin(json, NULL);
        ks_json_text(json, "name", info->name);
        ks_json_int(json, "count", (int64_t)source->counts[stat]);
        ks_json_text(json, "severity", severity_word(info->severity));
        ks_json_text(json, "sentence", info->sentence);
        ks_json_object_end(json);
    }
    ks_json_array_end(json);
}

static enum ks_status write_json(const struct ks_view *view, ks_write_cb write, void *user,
                                 struct ks_err *err)
{
    struct ks_json *json = ks_alloc(1, sizeof(*json));
    if (!json) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write info: no memory");
    }
    ks_json_init(json, write, user);
    ks_json_object_begin(json, NULL);
    ks_json_text(json, "schema", "kinetoscope.info/1");
    ks_json_text(json, "generator", ks_version());
    ks_json_array_begin(json, "inputs");
    for (uint32_t i = 0; i < ks_trace_source_count(view->trace); i++) {
        const struct ks_list *list = &ks_list_inputs;
        ks_json_object_begin(json, NULL);
        for (const struct ks_column *column = list->columns; column->key; column++) {
            struct ks_cell cell = ks_list_cell(list, column, view, i);
            const char *dot = strchr(column->key, '.');
            ks_cell_write(json, dot ? dot + 1 : column->key, &cell);
        }
        write_counters(json, ks_trace_source(view->trace, i));
        ks_json_object_end(json);
    }
    ks_json_array_end(json);
    ks_json_object_end(json);
    enum ks_status status = ks_json_finish(json, err);
    ks_free(json);
    return status;
}

enum ks_status ks_report_write_info(const struct ks_view *view, bool json, ks_write_cb write,
                                    void *user, struct ks_err *err)
{
    return json ? write_json(view, write, user, err) : write_text(view, write, user, err);
}
