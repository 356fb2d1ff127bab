/* Slots of items: what events name, and what the sampler and the monitor saw. */
#include <math.h>
#include <stdio.h>

#include "base/err.h"
#include "base/grow.h"
#include "read/recording_impl.h"
#include "wire/crc32c.h"

enum {
    KIND_SHIFT = 24,
    LENGTH_MASK = (1 << KIND_SHIFT) - 1,
};

/* An item of a slot; numbers in it may be read up to `size`. */
struct item {
    uint32_t kind;
    uint32_t size;
    const char *payload;
    int64_t offset;
};

static uint32_t number_at(const struct item *item, size_t place)
{
    uint32_t value = 0;
    memcpy(&value, item->payload + place, sizeof(value));
    return value;
}

/* ------------------------------------------------------------------ from one item to the next */

/* False: no item follows. A damaged one has kind 0. */
static bool next_item(const struct recording_slot *slot, const char *payload, size_t *at,
                      struct item *item)
{
    struct ks_wire_item head = {0};
    if (slot->size - *at < sizeof(head)) {
        return false;
    }
    memcpy(&head, payload + *at, sizeof(head));
    size_t length = head.word & LENGTH_MASK;
    *item = (struct item){
        .kind = head.word >> KIND_SHIFT,
        .size = (uint32_t)length,
        .payload = payload + *at + sizeof(head),
        .offset = recording_offset(slot->index, *at),
    };
    *at += sizeof(head);
    if (length > slot->size - *at) {
        *at = slot->size;
        item->kind = 0;
    } else if (!slot->is_sealed && ks_wire_crc32c(0, item->payload, length) != head.crc) {
        item->kind = 0;
    }
    size_t next = *at + (length + 7) / 8 * 8;
    *at = next < slot->size ? next : slot->size;
    return head.word != 0;
}

/* ------------------------------------------------------------------ what events name */

/* Remembers what has this number; the first one counts. */
static enum ks_status put_id(struct recording *r, enum ks_wire_item_kind kind, uint32_t id,
                             uint64_t index, struct ks_err *err)
{
    bool added = false;
    uint64_t *value = ks_map_put(&r->ids, kind, id, &added);
    if (!value) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep names: id=%u", id);
    }
    *value = added ? index + 1 : *value;
    return KS_OK;
}

bool recording_string(const struct recording *r, uint32_t id, struct ks_strid *out)
{
    const uint64_t *value = id != 0 ? ks_map_find(&r->ids, KS_WIRE_STRING, id) : NULL;
    *out = (struct ks_strid){value ? (uint32_t)(*value - 1) : 0};
    return value != NULL;
}

static enum ks_status take_string(struct recording *r, const struct item *item, struct ks_err *err)
{
    struct ks_strid text = {0};
    uint32_t length = number_at(item, sizeof(uint32_t));
    if (length > item->size - 2 * sizeof(uint32_t)) {
        return recording_count(r, KS_STAT_items_damaged, 1, item->offset, err);
    }
    struct ks_str bytes = {item->payload + 2 * sizeof(uint32_t), length};
    KS_TRY(recording_intern(r, bytes, item->offset, &text, err));
    return put_id(r, KS_WIRE_STRING, number_at(item, 0), text.v, err);
}

static enum ks_status take_site(struct recording *r, const struct item *item, struct ks_err *err)
{
    struct ks_wire_site site;
    memcpy(&site, item->payload, sizeof(site));
    KS_TRY(ks_grow(&r->sites, r->site_count, &r->site_capacity, sizeof(*r->sites), "sites", err));
    KS_TRY(put_id(r, KS_WIRE_SITE, site.id, r->site_count, err));
    r->sites[r->site_count++] =
        (struct recording_site){.name_id = site.name, .category_id = site.category};
    return KS_OK;
}

static enum ks_status take_metric(struct recording *r, const struct item *item, struct ks_err *err)
{
    struct ks_wire_metric metric;
    memcpy(&metric, item->payload, sizeof(metric));
    KS_TRY(ks_grow(&r->metrics, r->metric_count, &r->metric_capacity, sizeof(*r->metrics),
                   "metrics", err));
    KS_TRY(put_id(r, KS_WIRE_METRIC, metric.id, r->metric_count, err));
    r->metrics[r->metric_count++] = (struct recording_metric){
        .name_id = metric.name, .unit_id = metric.unit, .index = metric.index};
    return KS_OK;
}

static enum ks_status take_clock(struct recording *r, const struct item *item, struct ks_err *err)
{
    struct recording_clock *clock = &r->clock;
    KS_TRY(ks_grow(&clock->points, clock->count, &clock->capacity, sizeof(*clock->points), "clocks",
                   err));
    memcpy(&clock->points[clock->count++], item->payload, sizeof(*clock->points));
    return KS_OK;
}

static enum ks_status take_code(struct recording *r, const struct item *item, struct ks_err *err)
{
    struct ks_wire_code code;
    memcpy(&code, item->payload, sizeof(code));
    KS_TRY(
        ks_grow(&r->codes, r->code_count, &r->code_capacity, sizeof(*r->codes), "functions", err));
    KS_TRY(put_id(r, KS_WIRE_CODE, code.id, r->code_count, err));
    r->codes[r->code_count++] = (struct recording_code){
        .name_id = code.name, .file_id = code.file, .first_line = code.first_line};
    return KS_OK;
}

static enum ks_status take_stack(struct recording *r, const struct item *item, struct ks_err *err)
{
    struct ks_wire_stack stack;
    memcpy(&stack, item->payload, sizeof(stack));
    KS_TRY(
        ks_grow(&r->stacks, r->stack_count, &r->stack_capacity, sizeof(*r->stacks), "stacks", err));
    KS_TRY(put_id(r, KS_WIRE_STACK, stack.id, r->stack_count, err));
    r->stacks[r->stack_count++] = stack;
    return KS_OK;
}

static enum ks_status take_functions(struct recording *r, const struct item *item)
{
    struct ks_wire_functions functions;
    memcpy(&functions, item->payload, sizeof(functions));
    r->end_tick = functions.stop_tick > 0 ? functions.stop_tick : r->end_tick;
    return KS_OK;
}

static enum ks_status take_saying(struct recording_saying **all, size_t *count, size_t *capacity,
                                  const struct item *item, struct ks_err *err)
{
    KS_TRY(ks_grow(all, *count, capacity, sizeof(**all), "notes", err));
    (*all)[(*count)++] = (struct recording_saying){.of = number_at(item, 0),
                                                   .text_id = number_at(item, sizeof(uint32_t))};
    return KS_OK;
}

/* How large items are at least; 0: not known. */
static size_t size_min(uint32_t kind)
{
    switch (kind) {
    case KS_WIRE_CLOCK: return sizeof(struct ks_wire_clock);
    case KS_WIRE_STRING: return 2 * sizeof(uint32_t);
    case KS_WIRE_SITE: return sizeof(struct ks_wire_site);
    case KS_WIRE_THREAD: return 2 * sizeof(uint32_t);
    case KS_WIRE_CODE: return sizeof(struct ks_wire_code);
    case KS_WIRE_STACK: return sizeof(struct ks_wire_stack);
    case KS_WIRE_SAMPLE: return sizeof(struct ks_wire_sample);
    case KS_WIRE_METRIC: return sizeof(struct ks_wire_metric);
    case KS_WIRE_METRICS: return sizeof(struct ks_wire_metrics);
    case KS_WIRE_NOTE: return 2 * sizeof(uint32_t);
    case KS_WIRE_FUNCTIONS: return sizeof(struct ks_wire_functions);
    case KS_WIRE_SAMPLER: return sizeof(struct ks_wire_sampler);
    case KS_WIRE_UNIT: return 2 * sizeof(uint32_t);
    default: return 0;
    }
}

static enum ks_status take_item(struct recording *r, const struct item *item, bool *is_timed,
                                struct ks_err *err)
{
    switch (item->kind) {
    case KS_WIRE_CLOCK: return take_clock(r, item, err);
    case KS_WIRE_STRING: return take_string(r, item, err);
    case KS_WIRE_SITE: return take_site(r, item, err);
    case KS_WIRE_METRIC: return take_metric(r, item, err);
    case KS_WIRE_CODE: return take_code(r, item, err);
    case KS_WIRE_STACK: return take_stack(r, item, err);
    case KS_WIRE_FUNCTIONS: return take_functions(r, item);
    case KS_WIRE_UNIT: return take_saying(&r->units, &r->unit_count, &r->unit_capacity, item, err);
    case KS_WIRE_NOTE: return take_saying(&r->notes, &r->note_count, &r->note_capacity, item, err);
    case KS_WIRE_SAMPLER: memcpy(&r->sampler, item->payload, sizeof(r->sampler)); return KS_OK;
    case KS_WIRE_THREAD:
    case KS_WIRE_SAMPLE:
    case KS_WIRE_METRICS: *is_timed = true; return KS_OK;
    default: return KS_OK;
    }
}

/* Counts what cannot be read, and says whether the item can. */
static enum ks_status check_item(struct recording *r, const struct item *item, bool *is_good,
                                 struct ks_err *err)
{
    size_t least = size_min(item->kind);
    *is_good = least > 0 && item->size >= least;
    if (*is_good) {
        return KS_OK;
    }
    bool is_unknown = least == 0 && item->kind != 0;
    return recording_count(r, is_unknown ? KS_STAT_unknown_kinds : KS_STAT_items_damaged, 1,
                           item->offset, err);
}

enum ks_status recording_take_items(struct recording *r, const struct recording_slot *slot,
                                    const char *payload, bool *is_timed, struct ks_err *err)
{
    struct item item;
    size_t at = 0;
    *is_timed = false;
    while (next_item(slot, payload, &at, &item)) {
        bool is_good = false;
        KS_TRY(check_item(r, &item, &is_good, err));
        if (is_good) {
            KS_TRY(take_item(r, &item, is_timed, err));
        }
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ names */

enum ks_status recording_name_or_number(struct recording *r, uint32_t string_id, const char *what,
                                        uint64_t number, struct ks_strid *out, struct ks_err *err)
{
    if (recording_string(r, string_id, out)) {
        return KS_OK;
    }
    char text[64];
    int len = snprintf(text, sizeof(text), "%s %llu", what, (unsigned long long)number);
    KS_TRY(recording_count(r, KS_STAT_names_missing, 1, KS_NO_OFFSET, err));
    return ks_trace_builder_intern(r->to.builder, (struct ks_str){text, (size_t)len}, out, err);
}

/* "percent", and "percent 3" of the fourth core or device. */
static enum ks_status name_series(struct recording *r, struct recording_metric *metric,
                                  struct ks_err *err)
{
    (void)recording_string(r, metric->unit_id, &metric->unit);
    metric->series = metric->unit;
    if (metric->index < 0) {
        return KS_OK;
    }
    struct ks_str unit = ks_trace_builder_str(r->to.builder, metric->unit);
    ks_text_reset(&r->scratch);
    ks_text_append_str(&r->scratch, unit);
    ks_text_printf(&r->scratch, unit.len > 0 ? " %d" : "%d", metric->index);
    if (r->scratch.failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep names: no memory");
    }
    return ks_trace_builder_intern(r->to.builder, (struct ks_str){r->scratch.ptr, r->scratch.len},
                                   &metric->series, err);
}

/* The last one holds. */
static void name_units(struct recording *r)
{
    for (size_t i = 0; i < r->unit_count; i++) {
        const uint64_t *site = ks_map_find(&r->ids, KS_WIRE_SITE, r->units[i].of);
        if (site) {
            (void)recording_string(r, r->units[i].text_id, &r->sites[*site - 1].unit);
        }
    }
}

/* A number of a few digits; -1: it is none. */
static int64_t small_number(struct ks_str text)
{
    enum { DIGITS_MAX = 9 };
    int64_t number = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || i == DIGITS_MAX) {
            return -1;
        }
        number = number * 10 + (text.ptr[i] - '0');
    }
    return text.len > 0 ? number : -1;
}

static enum ks_status take_notes(struct recording *r, struct ks_err *err)
{
    for (size_t i = 0; i < r->note_count; i++) {
        struct ks_strid key = {0};
        struct ks_strid text = {0};
        (void)recording_string(r, r->notes[i].of, &key);
        (void)recording_string(r, r->notes[i].text_id, &text);
        if (ks_str_equal(ks_trace_builder_str(r->to.builder, key), KS_STR("worker"))) {
            int64_t worker = small_number(ks_trace_builder_str(r->to.builder, text));
            r->to.source->worker = worker >= 0 ? worker : r->to.source->worker;
        } else {
            KS_TRY(recording_count(r, KS_STAT_records_left_out, 1, KS_NO_OFFSET, err));
        }
    }
    return KS_OK;
}

enum ks_status recording_name_all(struct recording *r, struct ks_err *err)
{
    for (size_t i = 0; i < r->site_count; i++) {
        struct recording_site *site = &r->sites[i];
        KS_TRY(recording_name_or_number(r, site->name_id, "text", site->name_id, &site->name, err));
        (void)recording_string(r, site->category_id, &site->category);
    }
    for (size_t i = 0; i < r->metric_count; i++) {
        struct recording_metric *metric = &r->metrics[i];
        KS_TRY(recording_name_or_number(r, metric->name_id, "metric", metric->name_id,
                                        &metric->name, err));
        KS_TRY(name_series(r, metric, err));
    }
    name_units(r);
    return take_notes(r, err);
}

/* ------------------------------------------------------------------ items with times */

static enum ks_status name_thread(struct recording *r, const struct item *item, struct ks_err *err)
{
    struct ks_strid name = {0};
    uint32_t track = 0;
    if (!recording_string(r, number_at(item, sizeof(uint32_t)), &name)) {
        return recording_count(r, KS_STAT_names_missing, 1, item->offset, err);
    }
    KS_TRY(recording_track(r, number_at(item, 0), 0, &track, err));
    ks_trace_builder_track(r->to.builder, track)->name = name;
    return KS_OK;
}

static enum ks_status take_metrics(struct recording *r, const struct item *item, struct ks_err *err)
{
    enum { ENTRY_SIZE = sizeof(uint32_t) + sizeof(double) };
    struct ks_wire_metrics head;
    struct ks_mark_row row = {.lane = r->process, .flags = KS_MARK_COUNTER};
    memcpy(&head, item->payload, sizeof(head));
    if (head.count > (item->size - sizeof(head)) / ENTRY_SIZE) {
        return recording_count(r, KS_STAT_items_damaged, 1, item->offset, err);
    }
    if (!recording_time(r, head.tick, &row.start_ns)) {
        return recording_count(r, KS_STAT_time_out_of_range, 1, item->offset, err);
    }
    for (uint32_t i = 0; i < head.count; i++) {
        size_t place = sizeof(head) + (size_t)i * ENTRY_SIZE;
        const uint64_t *found = ks_map_find(&r->ids, KS_WIRE_METRIC, number_at(item, place));
        memcpy(&row.value, item->payload + place + sizeof(uint32_t), sizeof(row.value));
        row.value = isfinite(row.value) ? row.value : (double)NAN;
        if (!found) {
            KS_TRY(recording_count(r, KS_STAT_values_without_region, 1, item->offset, err));
            continue;
        }
        row.name = r->metrics[*found - 1].name.v;
        row.series = r->metrics[*found - 1].series.v;
        row.unit = r->metrics[*found - 1].unit.v;
        r->to.source->events++;
        KS_TRY(ks_trace_builder_mark(r->to.builder, &row, err));
    }
    return KS_OK;
}

/* What cannot be read was counted when the slot came. */
enum ks_status recording_take_timed(struct recording *r, const struct recording_slot *slot,
                                    const char *payload, struct ks_err *err)
{
    struct item item;
    size_t at = 0;
    while (next_item(slot, payload, &at, &item)) {
        if (item.size < size_min(item.kind)) {
            continue;
        }
        if (item.kind == KS_WIRE_THREAD) {
            KS_TRY(name_thread(r, &item, err));
        } else if (item.kind == KS_WIRE_METRICS) {
            KS_TRY(take_metrics(r, &item, err));
        } else if (item.kind == KS_WIRE_SAMPLE) {
            KS_TRY(recording_take_sample(r, item.payload, item.offset, err));
        }
    }
    return KS_OK;
}
