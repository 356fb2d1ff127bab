/* Memory snapshots as one JSON document; docs/memory.schema.json is its schema. A list that --limit
 * has cut says its whole length beside it, in a key of the same name with _total. */
#include <stdio.h>

#include "base/err.h"
#include "show/json_writer.h"
#include "show/memory_picture.h"

struct document {
    struct ks_json json;
    size_t limit; /* of rows; 0: all */
    struct ks_text words;
    bool failed; /* words were cut for want of memory */
};

static void put_word_text(struct document *d, const char *key)
{
    ks_json_str(&d->json, key, (struct ks_str){d->words.ptr, d->words.len});
    d->failed = d->failed || d->words.failed;
    ks_text_reset(&d->words);
}

static void put_known(struct document *d, const char *key, int64_t value)
{
    if (value < 0) {
        ks_json_null(&d->json, key);
    } else {
        ks_json_int(&d->json, key, value);
    }
}

static size_t begin_list(struct document *d, const char *key, size_t count)
{
    char total[40];
    int len = snprintf(total, sizeof(total), "%s_total", key);
    KS_ASSERT(len > 0 && (size_t)len < sizeof(total));
    ks_json_int(&d->json, total, (int64_t)count);
    ks_json_array_begin(&d->json, key);
    return d->limit > 0 && count > d->limit ? d->limit : count;
}

/* ------------------------------------------------------------------ places and stacks */

static void put_place(struct document *d, const struct ks_stack_pool *pool, uint32_t frame)
{
    struct ks_json *json = &d->json;
    ks_memory_append_place(&d->words, pool, frame);
    put_word_text(d, "place");
    if (frame == 0) {
        ks_json_null(json, "file");
        ks_json_null(json, "line");
        ks_json_null(json, "function");
        return;
    }
    ks_json_str(json, "file", ks_stack_pool_file(pool, frame));
    ks_json_int(json, "line", pool->frames[frame].line);
    ks_json_str(json, "function", ks_stack_pool_name(pool, frame));
}

/* Innermost frame first: "file:line function". */
static void put_stack(struct document *d, const struct ks_stack_pool *pool, uint32_t stack)
{
    ks_json_array_begin(&d->json, "stack");
    for (uint32_t node = stack; node != 0; node = pool->nodes[node].parent) {
        uint32_t frame = pool->nodes[node].frame;
        ks_text_append_str(&d->words, ks_stack_pool_file(pool, frame));
        ks_text_printf(&d->words, ":%lld ", (long long)pool->frames[frame].line);
        ks_text_append_str(&d->words, ks_stack_pool_name(pool, frame));
        put_word_text(d, NULL);
    }
    ks_json_array_end(&d->json);
}

static void put_holder(struct document *d, const struct ks_stack_pool *pool,
                       const struct ks_holder *holder, bool is_place)
{
    ks_json_object_begin(&d->json, NULL);
    ks_json_int(&d->json, "device", holder->device);
    ks_json_int(&d->json, "bytes", holder->bytes);
    ks_json_int(&d->json, "requested_bytes", holder->requested);
    ks_json_int(&d->json, "count", (int64_t)holder->count);
    put_place(d, pool, holder->place);
    if (is_place) {
        ks_json_int(&d->json, "stacks", (int64_t)holder->stack_count);
    } else {
        put_stack(d, pool, holder->stack);
    }
    ks_json_object_end(&d->json);
}

static void put_holders(struct document *d, const struct ks_stack_pool *pool, const char *key,
                        const struct ks_holder_list *list, bool is_place)
{
    size_t count = begin_list(d, key, list->count);
    for (size_t i = 0; i < count; i++) {
        put_holder(d, pool, &list->items[i], is_place);
    }
    ks_json_array_end(&d->json);
}

static void put_both(struct document *d, const struct ks_stack_pool *pool,
                     const struct ks_holder_list *by_place, const struct ks_holder_list *by_stack)
{
    put_holders(d, pool, "places", by_place, true);
    put_holders(d, pool, "holders", by_stack, false);
}

/* ------------------------------------------------------------------ totals */

static void put_totals(struct document *d, const struct ks_pool_totals *totals, bool is_pool)
{
    struct ks_json *json = &d->json;
    ks_json_object_begin(json, NULL);
    ks_json_int(json, "device", totals->key.device);
    if (is_pool) {
        ks_json_array_begin(json, "pool");
        ks_json_int(json, NULL, totals->key.id[0]);
        ks_json_int(json, NULL, totals->key.id[1]);
        ks_json_array_end(json);
        ks_json_int(json, "stream", totals->key.stream);
        ks_json_text(json, "kind", totals->key.is_small ? "small" : "large");
    }
    ks_json_int(json, "reserved_bytes", totals->reserved);
    ks_json_int(json, "allocated_bytes", totals->allocated);
    ks_json_int(json, "active_bytes", totals->active);
    ks_json_int(json, "pending_free_bytes", totals->active - totals->allocated);
    ks_json_int(json, "requested_bytes", totals->requested);
    ks_json_int(json, "rounding_bytes", totals->waste);
    ks_json_int(json, "fragmentation_bytes", totals->reserved - totals->allocated);
    ks_json_int(json, "free_bytes", totals->free);
    ks_json_int(json, "free_pieces", (int64_t)totals->free_count);
    ks_json_int(json, "free_largest_bytes", totals->free_largest);
    ks_json_int(json, "inactive_split_bytes", totals->inactive_split);
    ks_json_int(json, "blocks", (int64_t)totals->block_count);
    ks_json_int(json, "segments", (int64_t)totals->segment_count);
    ks_json_int(json, "segments_free", (int64_t)totals->segment_free_count);
    ks_json_object_end(json);
}

static void put_sizes(struct document *d, const struct ks_memory_side *side)
{
    ks_json_array_begin(&d->json, "sizes");
    for (unsigned i = 0; i < KS_SIZE_CLASS_COUNT; i++) {
        const struct ks_size_total *size = &side->holdings.sizes[i];
        ks_json_object_begin(&d->json, NULL);
        ks_json_text(&d->json, "size", ks_memory_size_name(i));
        ks_json_int(&d->json, "bytes", size->bytes);
        ks_json_int(&d->json, "requested_bytes", size->requested);
        ks_json_int(&d->json, "count", (int64_t)size->count);
        ks_json_object_end(&d->json);
    }
    ks_json_array_end(&d->json);
}

static void put_categories(struct document *d, const struct ks_memory_side *side)
{
    const struct ks_holder_list *list = &side->holdings.by_category;
    ks_json_array_begin(&d->json, "categories");
    for (size_t i = 0; i < list->count; i++) {
        const struct ks_holder *holder = &list->items[i];
        ks_json_object_begin(&d->json, NULL);
        ks_json_int(&d->json, "device", holder->device);
        if (holder->category.v == 0) {
            ks_json_null(&d->json, "category");
        } else {
            ks_json_str(&d->json, "category",
                        ks_strpool_get(side->snapshot->pool->strings, holder->category));
        }
        ks_json_int(&d->json, "bytes", holder->bytes);
        ks_json_int(&d->json, "count", (int64_t)holder->count);
        ks_json_object_end(&d->json);
    }
    ks_json_array_end(&d->json);
}

static void put_settings(struct document *d, const struct ks_snapshot *snapshot)
{
    ks_json_array_begin(&d->json, "settings");
    for (size_t i = 0; i < snapshot->setting_count; i++) {
        const struct ks_snap_setting *setting = &snapshot->settings[i];
        ks_json_object_begin(&d->json, NULL);
        ks_json_str(&d->json, "name", ks_strpool_get(snapshot->pool->strings, setting->key));
        ks_json_str(&d->json, "value", ks_strpool_get(snapshot->pool->strings, setting->value));
        ks_json_object_end(&d->json);
    }
    ks_json_array_end(&d->json);
}

/* ------------------------------------------------------------------ timelines */

static void put_levels(struct document *d, const char *key, int64_t start, int64_t end,
                       int64_t peak)
{
    ks_json_object_begin(&d->json, key);
    ks_json_int(&d->json, "start", start);
    ks_json_int(&d->json, "end", end);
    ks_json_int(&d->json, "peak", peak);
    ks_json_object_end(&d->json);
}

static void put_actions(struct document *d, const struct ks_timeline *t)
{
    static const char *const names[KS_SNAP_ACTION_COUNT] = {
        "alloc",         "free",         "free_requested", "free_completed",
        "segment_alloc", "segment_free", "segment_map",    "segment_unmap",
        "oom",           "snapshot",     "unknown",
    };
    ks_json_object_begin(&d->json, "actions");
    for (size_t i = 0; i < KS_SNAP_ACTION_COUNT; i++) {
        ks_json_int(&d->json, names[i], (int64_t)t->counts[i]);
    }
    ks_json_object_end(&d->json);
}

static void put_growth(struct document *d, const struct ks_stack_pool *pool,
                       const struct ks_step_growth *growth)
{
    if (growth->step_count < 2) {
        ks_json_null(&d->json, "growth");
        return;
    }
    ks_json_object_begin(&d->json, "growth");
    ks_json_str(&d->json, "step", ks_strpool_get(pool->strings, growth->name));
    ks_json_int(&d->json, "steps", (int64_t)growth->step_count);
    ks_json_int(&d->json, "first_bytes", growth->first);
    ks_json_int(&d->json, "last_bytes", growth->last);
    ks_json_int(&d->json, "bytes_per_step", growth->per_step);
    ks_json_bool(&d->json, "in_each_step", growth->is_steady);
    ks_json_object_end(&d->json);
}

static void put_curve(struct document *d, const struct ks_timeline *t)
{
    ks_json_array_begin(&d->json, "curve");
    for (size_t i = 0; i < t->curve_count; i++) {
        const struct ks_curve_point *point = &t->curve[i];
        ks_json_object_begin(&d->json, NULL);
        put_known(d, "time_us", point->time_us);
        ks_json_int(&d->json, "active_bytes", point->active);
        if (t->has_reserved) {
            ks_json_int(&d->json, "reserved_bytes", point->reserved);
        } else {
            ks_json_null(&d->json, "reserved_bytes");
        }
        ks_json_object_end(&d->json);
    }
    ks_json_array_end(&d->json);
}

static void put_timeline(struct document *d, const struct ks_stack_pool *pool,
                         const struct ks_timeline *t)
{
    struct ks_json *json = &d->json;
    ks_json_object_begin(json, NULL);
    ks_json_int(json, "device", t->device);
    ks_json_int(json, "events", (int64_t)t->event_count);
    put_known(d, "start_us", t->start_us);
    put_known(d, "end_us", t->end_us);
    put_actions(d, t);
    put_levels(d, "active_bytes", t->active_start, t->active_end, t->active_peak);
    put_levels(d, "allocated_bytes", t->allocated_start, t->allocated_end, t->allocated_peak);
    if (t->has_reserved) {
        put_levels(d, "reserved_bytes", t->reserved_start, t->reserved_end, t->reserved_peak);
    } else {
        ks_json_null(json, "reserved_bytes");
    }
    ks_json_object_begin(json, "peak");
    ks_json_int(json, "after_events", (int64_t)t->peak_moment);
    put_known(d, "time_us", t->peak_us);
    ks_json_int(json, "bytes", t->active_peak);
    ks_json_int(json, "bytes_from_before", t->peak_before);
    put_both(d, pool, &t->peak_by_place, &t->peak_by_stack);
    ks_json_object_end(json);
    ks_json_object_begin(json, "never_freed");
    ks_json_int(json, "bytes", t->born_bytes);
    ks_json_int(json, "count", (int64_t)t->born_count);
    put_both(d, pool, &t->born_by_place, &t->born_by_stack);
    ks_json_object_end(json);
    put_growth(d, pool, &t->growth);
    put_curve(d, t);
    ks_json_object_end(json);
}

static void put_pressure(struct document *d, const struct ks_stack_pool *pool,
                         const struct ks_pressure *pressure)
{
    struct ks_json *json = &d->json;
    ks_json_object_begin(json, NULL);
    ks_json_int(json, "device", pressure->device);
    ks_json_text(json, "source", pressure->is_event ? "trace" : "asked");
    ks_json_bool(json, "is_exact", pressure->is_exact);
    put_known(d, "time_us", pressure->time_us);
    ks_json_int(json, "asked_bytes", pressure->asked);
    put_known(d, "device_free_bytes", pressure->device_free);
    ks_json_int(json, "reserved_bytes", pressure->reserved);
    ks_json_int(json, "held_bytes", pressure->held);
    ks_json_int(json, "free_bytes", pressure->free);
    ks_json_int(json, "free_pieces", (int64_t)pressure->free_count);
    ks_json_int(json, "free_largest_bytes", pressure->free_largest);
    ks_json_int(json, "free_bytes_of_2_mib_pieces", pressure->free_usable);
    ks_json_int(json, "missing_bytes", pressure->missing);
    ks_json_text(json, "verdict", ks_memory_verdict_word(pressure->verdict));
    ks_memory_append_verdict(&d->words, pressure);
    put_word_text(d, "text");
    put_place(d, pool, ks_stack_pool_place(pool, pressure->stack));
    put_stack(d, pool, pressure->stack);
    ks_json_object_end(json);
}

/* ------------------------------------------------------------------ the whole */

static void put_notes(struct document *d, const struct ks_snapshot *snapshot)
{
    ks_json_object_begin(&d->json, "notes");
    for (unsigned i = 0; i < KS_SNAP_NOTE_COUNT; i++) {
        ks_json_int(&d->json, ks_memory_note_key(i), snapshot->notes[i]);
    }
    ks_json_object_end(&d->json);
}

static void put_side(struct document *d, const struct ks_memory_side *side)
{
    struct ks_json *json = &d->json;
    const struct ks_snapshot *snapshot = side->snapshot;
    const struct ks_stack_pool *pool = snapshot->pool;
    ks_json_object_begin(json, NULL);
    ks_json_text(json, "path", side->path);
    ks_json_int(json, "bytes", snapshot->file_bytes);
    ks_json_int(json, "protocol", snapshot->protocol);
    ks_json_int(json, "segments", (int64_t)snapshot->segment_count);
    ks_json_int(json, "blocks", (int64_t)snapshot->block_count);
    ks_json_int(json, "events", (int64_t)snapshot->event_count);
    ks_json_bool(json, "has_stacks", snapshot->has_stacks);
    put_notes(d, snapshot);
    put_settings(d, snapshot);
    ks_json_array_begin(json, "devices");
    for (size_t i = 0; i < side->totals.device_count; i++) {
        put_totals(d, &side->totals.devices[i], false);
    }
    ks_json_array_end(json);
    ks_json_array_begin(json, "pools");
    for (size_t i = 0; i < side->totals.pool_count; i++) {
        put_totals(d, &side->totals.pools[i], true);
    }
    ks_json_array_end(json);
    put_both(d, pool, &side->holdings.by_place, &side->holdings.by_stack);
    put_sizes(d, side);
    put_categories(d, side);
    ks_json_array_begin(json, "timelines");
    for (size_t i = 0; i < side->timelines.count; i++) {
        put_timeline(d, pool, &side->timelines.items[i]);
    }
    ks_json_array_end(json);
    ks_json_int(json, "out_of_memory_total", (int64_t)side->pressures.event_total);
    ks_json_array_begin(json, "out_of_memory");
    for (size_t i = 0; i < side->pressures.count; i++) {
        put_pressure(d, pool, &side->pressures.items[i]);
    }
    ks_json_array_end(json);
    ks_json_object_end(json);
}

static void put_changes(struct document *d, const struct ks_stack_pool *pool, const char *key,
                        const struct ks_holder_changes *changes, bool is_place)
{
    size_t count = begin_list(d, key, changes->count);
    for (size_t i = 0; i < count; i++) {
        const struct ks_holder_change *change = &changes->items[i];
        ks_json_object_begin(&d->json, NULL);
        ks_json_int(&d->json, "device", change->device);
        ks_json_int(&d->json, "change_bytes", change->after - change->before);
        ks_json_int(&d->json, "bytes_before", change->before);
        ks_json_int(&d->json, "bytes_after", change->after);
        ks_json_int(&d->json, "count_before", (int64_t)change->count_before);
        ks_json_int(&d->json, "count_after", (int64_t)change->count_after);
        put_place(d, pool, change->place);
        if (!is_place) {
            put_stack(d, pool, change->stack);
        }
        ks_json_object_end(&d->json);
    }
    ks_json_array_end(&d->json);
}

static void put_comparison(struct document *d, const struct ks_memory_picture *picture)
{
    struct ks_json *json = &d->json;
    const struct ks_snapshot_comparison *c = &picture->comparison;
    if (picture->side_count < 2) {
        ks_json_null(json, "comparison");
        return;
    }
    const struct ks_stack_pool *pool = picture->sides[0].snapshot->pool;
    ks_json_object_begin(json, "comparison");
    ks_json_int(json, "came_bytes", c->came);
    ks_json_int(json, "went_bytes", c->went);
    ks_json_int(json, "segments_only_before", (int64_t)c->segments_only_before);
    ks_json_int(json, "segments_only_after", (int64_t)c->segments_only_after);
    ks_json_int(json, "segment_bytes_only_before", c->segment_bytes_only_before);
    ks_json_int(json, "segment_bytes_only_after", c->segment_bytes_only_after);
    put_changes(d, pool, "places", &c->by_place, true);
    put_changes(d, pool, "holders", &c->by_stack, false);
    ks_json_object_end(json);
}

enum ks_status ks_memory_write_json(const struct ks_memory_picture *picture,
                                    const struct ks_memory_style *style, ks_write_cb write,
                                    void *user, struct ks_err *err)
{
    struct document d = {.limit = style->row_limit};
    struct ks_json *json = &d.json;
    ks_text_init(&d.words);
    ks_json_init(json, write, user);
    ks_json_object_begin(json, NULL);
    ks_json_text(json, "schema", "kinetoscope.memory/1");
    ks_json_array_begin(json, "snapshots");
    for (size_t i = 0; i < picture->side_count; i++) {
        put_side(&d, &picture->sides[i]);
    }
    ks_json_array_end(json);
    put_comparison(&d, picture);
    ks_json_object_end(json);
    enum ks_status status = ks_json_finish(json, err);
    if (status == KS_OK && d.failed) {
        status = ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write snapshot: no memory");
    }
    ks_text_release(&d.words);
    return status;
}
