/* Lists of calls by place: what waits for the device, and what copies. */
#include "show/lists.h"

static struct ks_cell place_cell(const struct ks_call_site *site)
{
    return site->place ? ks_cell_text(site->place->text) : (struct ks_cell){0};
}

/* Everything that says where; findings use the same words. */
static void write_where(const struct ks_view *view, const struct ks_call_site *site,
                        struct ks_json *json)
{
    const struct ks_place *place = site->place;
    ks_json_object_begin(json, "where");
    ks_json_array_begin(json, "steps");
    for (size_t i = 0; i < site->step_count; i++) {
        ks_json_int(json, NULL, site->steps[i]);
    }
    ks_json_array_end(json);
    struct ks_cell cells[] = {
        ks_cell_int(ks_view_rank(view, site->source)),
        ks_cell_int(site->device),
        ks_cell_id(view, site->op),
        place ? ks_cell_text(place->file) : (struct ks_cell){0},
        place ? ks_cell_int(place->line) : (struct ks_cell){0},
        place ? ks_cell_text(place->function) : (struct ks_cell){0},
        place ? ks_cell_bool(place->is_exact) : (struct ks_cell){0},
    };
    static const char *const keys[] = {"rank", "device",   "operator",  "file",
                                       "line", "function", "exact_line"};
    for (size_t i = 0; i < KS_COUNT_OF(cells); i++) {
        ks_cell_write(json, keys[i], &cells[i]);
    }
    ks_json_object_end(json);
}

#define SITE_ID(name, heading, where, member)                                                      \
    {                                                                                              \
        .key = name, .title = heading, .unit = KS_CELL_NAME, .places = where,                      \
        .field = KS_FIELD_ID, KS_COLUMN_OF(ks_call_site, member)                                   \
    }
#define SITE_INT(name, heading, of, member)                                                        \
    {                                                                                              \
        .key = name, .title = heading, .unit = of, .places = KS_COLUMN_BOTH,                       \
        KS_COLUMN_OF(ks_call_site, member)                                                         \
    }
#define SITE_LAST                                                                                  \
    {                                                                                              \
        .key = "operator_ns",                                                                      \
        .title = "in operators",                                                                   \
        .unit = KS_CELL_TIME,                                                                      \
        .places = KS_COLUMN_JSON,                                                                  \
        KS_COLUMN_OF(ks_call_site, operator_ns),                                                   \
    },                                                                                             \
    {                                                                                              \
        .key = "steps_with", .title = "steps", .places = KS_COLUMN_JSON,                           \
        KS_COLUMN_OF(ks_call_site, steps_with),                                                    \
    }
#define SITE_PER_STEP                                                                              \
    {                                                                                              \
        .key = "count_per_step", .title = "a step", .unit = KS_CELL_COUNT,                         \
        .places = KS_COLUMN_BOTH, .field = KS_FIELD_REAL, KS_COLUMN_OF(ks_call_site, per_step),    \
        .reason = "no step is complete"                                                            \
    }

/* ------------------------------------------------------------------ syncs */

static size_t sync_count(const struct ks_view *view)
{
    return view->facts->sync_count;
}

static const void *sync_row(const struct ks_view *view, size_t row)
{
    return &view->facts->syncs[row];
}

static struct ks_cell sync_rank(const struct ks_view *view, size_t row)
{
    return ks_cell_int(ks_view_rank(view, view->facts->syncs[row].source));
}

static struct ks_cell sync_place(const struct ks_view *view, size_t row)
{
    return place_cell(&view->facts->syncs[row]);
}

static void write_sync(const struct ks_view *view, size_t row, struct ks_json *json)
{
    write_where(view, &view->facts->syncs[row], json);
}

static const struct ks_column sync_columns[] = {
    {.key = "rank",
     .title = "rank",
     .places = KS_COLUMN_SCREEN | KS_COLUMN_VARIES,
     .cell = sync_rank},
    SITE_ID("operator", "operator", KS_COLUMN_SCREEN, op),
    {.key = "place",
     .title = "place",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_SCREEN,
     .field = KS_FIELD_TEXT,
     .cell = sync_place},
    SITE_ID("call", "call", KS_COLUMN_BOTH, call),
    SITE_INT("count", "calls", KS_CELL_COUNT, count),
    SITE_PER_STEP,
    SITE_INT("wait_ns", "GPU works", KS_CELL_TIME, wait_ns),
    SITE_INT("total_ns", "time", KS_CELL_TIME, total_ns),
    SITE_LAST,
    {.key = NULL},
};

const struct ks_list ks_list_syncs = {
    .name = "syncs",
    .columns = sync_columns,
    .empty = "Nothing waits for the GPU.",
    .row_count = sync_count,
    .row = sync_row,
    .write_more = write_sync,
};

/* ------------------------------------------------------------------ copies */

static size_t copy_count(const struct ks_view *view)
{
    return view->facts->copy_site_count;
}

static const void *copy_row(const struct ks_view *view, size_t row)
{
    return &view->facts->copy_sites[row];
}

static struct ks_cell copy_rank(const struct ks_view *view, size_t row)
{
    return ks_cell_int(ks_view_rank(view, view->facts->copy_sites[row].source));
}

static struct ks_cell copy_kind(const struct ks_view *view, size_t row)
{
    struct ks_str name = ks_view_str(view, view->facts->copy_sites[row].copy_kind);
    struct ks_str prefix = KS_STR("Memcpy ");
    if (ks_str_starts(name, prefix)) {
        name = (struct ks_str){name.ptr + prefix.len, name.len - prefix.len};
    }
    return ks_cell_text(name);
}

static struct ks_cell copy_place(const struct ks_view *view, size_t row)
{
    return place_cell(&view->facts->copy_sites[row]);
}

static void write_copy(const struct ks_view *view, size_t row, struct ks_json *json)
{
    write_where(view, &view->facts->copy_sites[row], json);
}

static const struct ks_column copy_columns[] = {
    {.key = "rank",
     .title = "rank",
     .places = KS_COLUMN_SCREEN | KS_COLUMN_VARIES,
     .cell = copy_rank},
    {.key = "kind",
     .title = "copy",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     .cell = copy_kind},
    SITE_ID("operator", "operator", KS_COLUMN_SCREEN, op),
    {.key = "place",
     .title = "place",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_SCREEN,
     .field = KS_FIELD_TEXT,
     .cell = copy_place},
    SITE_ID("call", "call", KS_COLUMN_JSON, call),
    {.key = "pageable",
     .title = "pageable",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_BOOL,
     KS_COLUMN_OF(ks_call_site, is_pageable)},
    {.key = "small",
     .title = "small",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_BOOL,
     KS_COLUMN_OF(ks_call_site, is_small)},
    SITE_INT("count", "copies", KS_CELL_COUNT, count),
    SITE_PER_STEP,
    {.key = "bytes",
     .title = "bytes",
     .unit = KS_CELL_BYTES,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_call_site, bytes),
     .reason = "the trace does not say how much was copied"},
    SITE_INT("device_ns", "GPU", KS_CELL_TIME, device_ns),
    SITE_INT("total_ns", "host", KS_CELL_TIME, total_ns),
    SITE_LAST,
    {.key = NULL},
};

const struct ks_list ks_list_copy_sites = {
    .name = "copy_sites",
    .columns = copy_columns,
    .empty = "The trace holds no copies with a launching call.",
    .row_count = copy_count,
    .row = copy_row,
    .write_more = write_copy,
};

/* ------------------------------------------------------------------ places */

static size_t place_count(const struct ks_view *view)
{
    return view->facts->place_use_count;
}

static const void *place_row(const struct ks_view *view, size_t row)
{
    return &view->facts->place_uses[row];
}

static const struct ks_place *place_of(const struct ks_view *view, size_t row)
{
    return &view->facts->places[view->facts->place_uses[row].place];
}

static struct ks_cell place_kind(const struct ks_view *view, size_t row)
{
    static const char *const words[] = {"operator", "sync", "copy", "launch"};
    return ks_cell_word(words[view->facts->place_uses[row].kind]);
}

static struct ks_cell place_text(const struct ks_view *view, size_t row)
{
    return ks_cell_text(place_of(view, row)->text);
}

static struct ks_cell place_file(const struct ks_view *view, size_t row)
{
    return ks_cell_text(place_of(view, row)->file);
}

static struct ks_cell place_line(const struct ks_view *view, size_t row)
{
    return ks_cell_int(place_of(view, row)->line);
}

static struct ks_cell place_function(const struct ks_view *view, size_t row)
{
    return ks_cell_text(place_of(view, row)->function);
}

static struct ks_cell place_exact(const struct ks_view *view, size_t row)
{
    return ks_cell_bool(place_of(view, row)->is_exact);
}

static struct ks_cell place_library(const struct ks_view *view, size_t row)
{
    return ks_cell_bool(place_of(view, row)->is_library);
}

static const struct ks_column place_columns[] = {
    {.key = "operator",
     .title = "operator",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_place_use, op)},
    {.key = "kind",
     .title = "what",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     .cell = place_kind},
    {.key = "place",
     .title = "place",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_SCREEN,
     .field = KS_FIELD_TEXT,
     .cell = place_text},
    {.key = "file",
     .title = "file",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_TEXT,
     .cell = place_file},
    {.key = "line", .title = "line", .places = KS_COLUMN_JSON, .cell = place_line},
    {.key = "function",
     .title = "function",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_TEXT,
     .cell = place_function},
    {.key = "exact_line",
     .title = "exact",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_BOOL,
     .cell = place_exact},
    {.key = "library",
     .title = "library",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_BOOL,
     .cell = place_library},
    {.key = "calls",
     .title = "calls",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_place_use, calls)},
    {.key = "total_ns",
     .title = "time",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_place_use, total_ns)},
    {.key = NULL},
};

const struct ks_list ks_list_places = {
    .name = "places",
    .columns = place_columns,
    .sort = "total_ns",
    .empty = "No Python frames were recorded (with_stack=True records them).",
    .row_count = place_count,
    .row = place_row,
};
