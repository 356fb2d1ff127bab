/* The list of input files, and of what rules found. */
#include "show/lists.h"

/* ------------------------------------------------------------------ inputs */

static const struct ks_source *source_of(const struct ks_view *view, size_t row)
{
    return ks_trace_source(view->trace, (uint32_t)row);
}

static size_t input_count(const struct ks_view *view)
{
    return ks_trace_source_count(view->trace);
}

static const void *input_row(const struct ks_view *view, size_t row)
{
    return source_of(view, row);
}

static struct ks_cell input_path(const struct ks_view *view, size_t row)
{
    return ks_cell_text(ks_view_path(view, (uint32_t)row));
}

static struct ks_cell input_status(const struct ks_view *view, size_t row)
{
    return ks_cell_word(ks_view_status(ks_source_status(source_of(view, row))));
}

static struct ks_cell input_events(const struct ks_view *view, size_t row)
{
    return ks_cell_int((int64_t)source_of(view, row)->events);
}

static struct ks_cell input_bytes(const struct ks_view *view, size_t row)
{
    return ks_cell_int((int64_t)source_of(view, row)->bytes);
}

static struct ks_cell input_rank(const struct ks_view *view, size_t row)
{
    return ks_cell_int(ks_view_rank(view, (uint32_t)row));
}

static struct ks_cell input_world_size(const struct ks_view *view, size_t row)
{
    int64_t world_size = source_of(view, row)->world_size;
    return ks_cell_int(world_size < 0 ? KS_UNKNOWN : world_size);
}

/* Moment of the first or last event, relative to the origin of the report. */
static struct ks_cell relative(const struct ks_view *view, size_t row, int64_t ns)
{
    const struct ks_source *source = source_of(view, row);
    if (ns == KS_TIME_NONE) {
        return (struct ks_cell){0};
    }
    /* Sums that leave int64 would be wrong by centuries: unknown instead. */
    int64_t unix_ns = 0;
    int64_t shifted_ns = 0;
    if (__builtin_add_overflow(source->base_ns, ns, &unix_ns) ||
        __builtin_sub_overflow(unix_ns, ks_trace_origin_ns(view->trace), &shifted_ns)) {
        return (struct ks_cell){0};
    }
    return ks_cell_int(shifted_ns);
}

static struct ks_cell input_start(const struct ks_view *view, size_t row)
{
    return relative(view, row, source_of(view, row)->start_ns);
}

static struct ks_cell input_end(const struct ks_view *view, size_t row)
{
    return relative(view, row, source_of(view, row)->end_ns);
}

#define NOT_SAID "the file does not say"
#define NO_EVENTS "the file holds no events"

/* Only of a run that is not over yet: of all others it goes without saying. */
static bool has_running(const struct ks_view *view)
{
    return view->facts->running_count > 0;
}

/* Of the files of a run most are of no worker, and mostly none is. */
static bool has_workers(const struct ks_view *view)
{
    for (uint32_t i = 0; i < ks_trace_source_count(view->trace); i++) {
        if (ks_trace_source(view->trace, i)->worker >= 0) {
            return true;
        }
    }
    return false;
}

static struct ks_cell input_worker(const struct ks_view *view, size_t row)
{
    int64_t worker = source_of(view, row)->worker;
    return ks_cell_int(worker < 0 ? KS_UNKNOWN : worker);
}

static const struct ks_column input_columns[] = {
    {.key = "path",
     .title = "path",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     .cell = input_path},
    {.key = "format",
     .title = "format",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_source, format),
     .reason = NOT_SAID},
    {.key = "compression",
     .title = "packed",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_source, compression),
     .reason = "the file is not compressed"},
    {.key = "status",
     .title = "status",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     .cell = input_status},
    {.key = "events",
     .title = "events",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     .cell = input_events},
    {.key = "bytes",
     .title = "text",
     .unit = KS_CELL_BYTES,
     .places = KS_COLUMN_BOTH,
     .cell = input_bytes},
    {.key = "rank",
     .title = "rank",
     .places = KS_COLUMN_BOTH,
     .cell = input_rank,
     .reason = NOT_SAID},
    {.key = "world_size",
     .title = "ranks",
     .places = KS_COLUMN_JSON,
     .cell = input_world_size,
     .reason = NOT_SAID},
    {.key = "backend",
     .title = "backend",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_source, backend),
     .reason = NOT_SAID},
    {.key = "host",
     .title = "host",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_source, host_name),
     .reason = NOT_SAID},
    {.key = "run", .title = "run", .places = KS_COLUMN_JSON, KS_COLUMN_OF(ks_source, run)},
    {.key = "cycle",
     .title = "cycle",
     .places = KS_COLUMN_BOTH | KS_COLUMN_VARIES,
     KS_COLUMN_OF(ks_source, cycle)},
    {.key = "is_running",
     .title = "running",
     .places = KS_COLUMN_JSON,
     .is_there = has_running,
     .field = KS_FIELD_BOOL,
     KS_COLUMN_OF(ks_source, is_running)},
    {.key = "worker",
     .title = "worker",
     .places = KS_COLUMN_BOTH,
     .is_there = has_workers,
     .cell = input_worker,
     .reason = "its process is no worker of a DataLoader"},
    {.key = "start_ns",
     .title = "start",
     .places = KS_COLUMN_JSON,
     .cell = input_start,
     .reason = NO_EVENTS},
    {.key = "end_ns",
     .title = "end",
     .places = KS_COLUMN_JSON,
     .cell = input_end,
     .reason = NO_EVENTS},
    {.key = "switches.record_shapes",
     .title = "shapes",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_BOOL,
     KS_COLUMN_OF(ks_source, record_shapes)},
    {.key = "switches.profile_memory",
     .title = "memory",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_BOOL,
     KS_COLUMN_OF(ks_source, profile_memory)},
    {.key = "switches.with_stack",
     .title = "stacks",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_BOOL,
     KS_COLUMN_OF(ks_source, with_stack)},
    {.key = "switches.with_flops",
     .title = "flops",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_BOOL,
     KS_COLUMN_OF(ks_source, with_flops)},
    {.key = "switches.with_modules",
     .title = "modules",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_BOOL,
     KS_COLUMN_OF(ks_source, with_modules)},
    {.key = NULL},
};

static void write_counts(const struct ks_view *view, size_t row, struct ks_json *json)
{
    const struct ks_source *source = source_of(view, row);
    ks_json_object_begin(json, "counts");
    for (size_t i = 0; i < KS_STAT_COUNT; i++) {
        if (source->counts[i] > 0) {
            ks_json_int(json, ks_stat_info((enum ks_stat)i)->name, (int64_t)source->counts[i]);
        }
    }
    ks_json_object_end(json);
}

const struct ks_list ks_list_inputs = {
    .name = "inputs",
    .columns = input_columns,
    .empty = "No input.",
    .row_count = input_count,
    .row = input_row,
    .write_more = write_counts,
};

/* ------------------------------------------------------------------ findings */

static const struct ks_finding *finding_of(const struct ks_view *view, size_t row)
{
    return &view->findings->list[row];
}

static size_t finding_count(const struct ks_view *view)
{
    return view->findings->count;
}

static const void *finding_row(const struct ks_view *view, size_t row)
{
    return finding_of(view, row);
}

static struct ks_cell finding_order(const struct ks_view *view, size_t row)
{
    (void)view;
    return ks_cell_int((int64_t)row + 1);
}

static struct ks_cell finding_id(const struct ks_view *view, size_t row)
{
    return ks_cell_word(finding_of(view, row)->rule->id);
}

static struct ks_cell finding_title(const struct ks_view *view, size_t row)
{
    return ks_cell_word(ks_view_finding_title(finding_of(view, row)));
}

static struct ks_cell finding_impact(const struct ks_view *view, size_t row)
{
    return ks_cell_word(ks_view_impact(finding_of(view, row)->impact));
}

static struct ks_cell finding_severity(const struct ks_view *view, size_t row)
{
    return ks_cell_word(ks_view_severity(ks_finding_severity(finding_of(view, row))));
}

static struct ks_cell finding_confidence(const struct ks_view *view, size_t row)
{
    return ks_cell_word(ks_view_confidence(finding_of(view, row)->confidence));
}

static struct ks_cell finding_group(const struct ks_view *view, size_t row)
{
    const struct ks_finding *finding = finding_of(view, row);
    return ks_cell_word(finding->group ? finding->group : finding->rule->id);
}

static struct ks_cell finding_cause(const struct ks_view *view, size_t row)
{
    return ks_cell_word(finding_of(view, row)->cause);
}

static const struct ks_column finding_columns[] = {
    {.key = "order", .title = "#", .places = KS_COLUMN_BOTH, .cell = finding_order},
    {.key = "id",
     .title = "id",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     .cell = finding_id},
    {.key = "title",
     .title = "what",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     .cell = finding_title},
    {.key = "impact",
     .title = "impact",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     .cell = finding_impact},
    {.key = "severity",
     .title = "weight",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     .cell = finding_severity},
    {.key = "confidence",
     .title = "sure",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     .cell = finding_confidence},
    {.key = "share",
     .title = "of step",
     .unit = KS_CELL_SHARE,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_REAL,
     KS_COLUMN_OF(ks_finding, share),
     .reason = "there is no step time"},
    {.key = "saving_ns_per_step.low",
     .title = "saves",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_finding, saving.low_ns),
     .reason = "the saving is not known"},
    {.key = "saving_ns_per_step.high",
     .title = "to",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_finding, saving.high_ns),
     .reason = "the saving is not known"},
    {.key = "saving_in_trace_ns_per_step.low",
     .title = "in trace",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_finding, saving_in_trace.low_ns),
     .reason = "the saving is not known"},
    {.key = "saving_in_trace_ns_per_step.high",
     .title = "to",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_finding, saving_in_trace.high_ns),
     .reason = "the saving is not known"},
    {.key = "bytes",
     .title = "bytes",
     .unit = KS_CELL_BYTES,
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_finding, bytes),
     .reason = "the finding is not about memory"},
    {.key = "steps_until_oom",
     .title = "until full",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_finding, steps_until_oom),
     .reason = "no end of memory is in sight"},
    {.key = "cause",
     .title = "cause",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_TEXT,
     .cell = finding_cause,
     .reason = "the rule tells no causes apart"},
    {.key = "group",
     .title = "group",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_TEXT,
     .cell = finding_group},
    {.key = "primary",
     .title = "primary",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_BOOL,
     KS_COLUMN_OF(ks_finding, is_primary)},
    {.key = NULL},
};

static void write_int_or_null(struct ks_json *json, const char *key, int64_t value)
{
    if (value == KS_UNKNOWN) {
        ks_json_null(json, key);
    } else {
        ks_json_int(json, key, value);
    }
}

static void write_id_or_null(const struct ks_view *view, struct ks_json *json, const char *key,
                             struct ks_strid id)
{
    if (id.v == 0) {
        ks_json_null(json, key);
    } else {
        ks_json_str(json, key, ks_view_str(view, id));
    }
}

static void write_where(const struct ks_view *view, const struct ks_where *where,
                        struct ks_json *json)
{
    ks_json_object_begin(json, "where");
    ks_json_array_begin(json, "steps");
    for (size_t i = 0; i < where->step_count; i++) {
        ks_json_int(json, NULL, where->steps[i]);
    }
    ks_json_array_end(json);
    write_int_or_null(json, "rank", where->rank);
    write_int_or_null(json, "device", where->device);
    write_int_or_null(json, "stream", where->stream);
    write_id_or_null(view, json, "operator", where->op);
    write_id_or_null(view, json, "module", where->module);
    struct ks_cell file = where->file.len > 0 ? ks_cell_text(where->file) : (struct ks_cell){0};
    ks_cell_write(json, "file", &file);
    write_int_or_null(json, "line", where->line);
    ks_json_object_end(json);
}

/* Numbers of evidence are doubles; those that are whole are written as integers. */
static void write_evidence(const struct ks_finding *finding, struct ks_json *json)
{
    ks_json_array_begin(json, "evidence");
    for (size_t i = 0; i < finding->evidence_count; i++) {
        ks_json_object_begin(json, NULL);
        ks_json_text(json, "name", finding->evidence[i].name);
        ks_json_real(json, "value", finding->evidence[i].value);
        ks_json_text(json, "unit", finding->evidence[i].unit);
        ks_json_object_end(json);
    }
    ks_json_array_end(json);
}

static void write_finding(const struct ks_view *view, size_t row, struct ks_json *json)
{
    const struct ks_finding *finding = finding_of(view, row);
    ks_json_array_begin(json, "ranks");
    for (size_t i = 0; i < finding->rank_count; i++) {
        ks_json_int(json, NULL, finding->ranks[i]);
    }
    ks_json_array_end(json);
    write_evidence(finding, json);
    write_where(view, &finding->where, json);
    ks_json_object_begin(json, "fix");
    ks_json_text(json, "text", finding->fix_text);
    ks_json_text(json, "code", finding->fix_code);
    ks_json_object_end(json);
    ks_json_text(json, "verify", finding->verify);
}

const struct ks_list ks_list_findings = {
    .name = "findings",
    .columns = finding_columns,
    .empty = "Nothing was found that would make a step faster.",
    .row_count = finding_count,
    .row = finding_row,
    .write_more = write_finding,
};
