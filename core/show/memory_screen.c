/* Memory snapshots on one screen. Order: what the device holds, how it came to that, who holds it,
 * what is never freed, why memory ran out, and with two snapshots what came and went. Nothing from
 * the input reaches the terminal but through plain.h. */
#include <stdio.h>

#include "base/err.h"
#include "show/ink.h"
#include "show/memory_picture.h"
#include "show/plain.h"
#include "show/units.h"

enum {
    WIDTH_DEFAULT = 100,
    WIDTH_MIN = 40,
    LABEL_WIDTH = 11,
    ROWS_DEFAULT = 10,
    CURVE_WIDTH_MAX = 72,
};

struct sheet {
    const struct ks_memory_style *style;
    const struct ks_memory_side *side;
    const struct ks_stack_pool *pool;
    size_t width;
    size_t rows;
    struct ks_text out;
    struct ks_text item; /* words of a paragraph, safe for a terminal */
};

/* ------------------------------------------------------------------ paragraphs */

static void put_label(struct sheet *s, const char *label)
{
    ks_ink(&s->out, s->style->colour, KS_INK_FAINT);
    ks_text_printf(&s->out, "%-*s", LABEL_WIDTH, label);
    ks_ink(&s->out, s->style->colour, KS_INK_END);
}

/* Writes s->item behind the label, broken at blanks. */
static void put(struct sheet *s, const char *label, enum ks_ink ink)
{
    struct ks_str rest = {s->item.ptr, s->item.len};
    size_t used = LABEL_WIDTH;
    put_label(s, label);
    ks_ink(&s->out, s->style->colour, ink);
    while (rest.len > 0) {
        const char *blank = memchr(rest.ptr, ' ', rest.len);
        struct ks_str word = {rest.ptr, blank ? (size_t)(blank - rest.ptr) : rest.len};
        size_t columns = ks_plain_width(word);
        bool is_first = used == LABEL_WIDTH;
        if (!is_first && used + 1 + columns > s->width) {
            ks_text_printf(&s->out, "\n%*s", LABEL_WIDTH, "");
            used = LABEL_WIDTH;
            is_first = true;
        }
        ks_text_append(&s->out, " ", !is_first);
        ks_plain_append_fit(&s->out, word, s->width - LABEL_WIDTH);
        used += columns + !is_first;
        size_t step = word.len + (blank != NULL);
        rest = (struct ks_str){rest.ptr + step, rest.len - step};
    }
    ks_ink(&s->out, s->style->colour, KS_INK_END);
    ks_text_append(&s->out, "\n", 1);
    s->out.failed = s->out.failed || s->item.failed;
    ks_text_reset(&s->item);
}

static void say_bytes(struct sheet *s, const char *before, int64_t bytes, const char *after)
{
    ks_text_printf(&s->item, "%s%s%s", before, ks_units_bytes(bytes).text, after);
}

static void say_place(struct sheet *s, uint32_t frame)
{
    struct ks_text raw;
    ks_text_init(&raw);
    ks_memory_append_place(&raw, s->pool, frame);
    ks_plain_append(&s->item, (struct ks_str){raw.ptr, raw.len});
    s->item.failed = s->item.failed || raw.failed;
    ks_text_release(&raw);
}

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

/* ------------------------------------------------------------------ what is held */

static void put_head(struct sheet *s)
{
    const struct ks_snapshot *snapshot = s->side->snapshot;
    ks_plain_append(&s->item, ks_str_from(s->side->path));
    ks_text_printf(&s->item, ": %s segment%s,",
                   ks_units_count((int64_t)snapshot->segment_count).text,
                   plural(snapshot->segment_count));
    ks_text_printf(&s->item, " %s blocks, %s events",
                   ks_units_count((int64_t)snapshot->block_count).text,
                   ks_units_count((int64_t)snapshot->event_count).text);
    put(s, "snapshot", KS_INK_STRONG);
}

static void put_device(struct sheet *s, const struct ks_pool_totals *t)
{
    char label[24];
    snprintf(label, sizeof(label), "GPU %d", t->key.device);
    ks_text_printf(&s->item, "reserved %s (%s B), ", ks_units_bytes(t->reserved).text,
                   ks_units_count(t->reserved).text);
    ks_text_printf(&s->item, "allocated %s (%s B) in %s block%s", ks_units_bytes(t->allocated).text,
                   ks_units_count(t->allocated).text, ks_units_count((int64_t)t->block_count).text,
                   plural(t->block_count));
    if (t->active > t->allocated) {
        say_bytes(s, ", ", t->active - t->allocated, " freed but still used by a stream");
    }
    put(s, label, KS_INK_STRONG);
    say_bytes(s, "", t->free, " reserved but free");
    if (t->free_count > 0) {
        ks_text_printf(&s->item, " in %s piece%s, largest %s",
                       ks_units_count((int64_t)t->free_count).text, plural(t->free_count),
                       ks_units_bytes(t->free_largest).text);
        say_bytes(s, "; ", t->inactive_split, " of it beside blocks in use");
    }
    say_bytes(s, "; ", t->waste, " of the blocks is rounding");
    put(s, "", KS_INK_END);
}

static bool is_common(const struct ks_pool_key *key)
{
    return key->id[0] == 0 && key->id[1] == 0 && key->stream == 0;
}

/* Pools beside the common ones are worth a line. */
static void put_pools(struct sheet *s)
{
    const struct ks_pool_totals_list *totals = &s->side->totals;
    size_t shown = 0;
    for (size_t i = 0; i < totals->pool_count; i++) {
        const struct ks_pool_totals *t = &totals->pools[i];
        if (is_common(&t->key) || shown++ >= s->rows) {
            continue;
        }
        ks_text_printf(&s->item, "(%lld, %lld) stream %lld, %s: ", (long long)t->key.id[0],
                       (long long)t->key.id[1], (long long)t->key.stream,
                       t->key.is_small ? "small" : "large");
        say_bytes(s, "reserved ", t->reserved, "");
        say_bytes(s, ", allocated ", t->allocated, "");
        put(s, shown == 1 ? "pools" : "", KS_INK_END);
    }
    if (shown > s->rows) {
        ks_text_printf(&s->item, "and %s more pools",
                       ks_units_count((int64_t)(shown - s->rows)).text);
        put(s, "", KS_INK_FAINT);
    }
}

static void put_settings(struct sheet *s)
{
    static const char *const told[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
                                       "expandable_segments", "max_split_size"};
    const struct ks_snapshot *snapshot = s->side->snapshot;
    for (size_t i = 0; i < snapshot->setting_count; i++) {
        struct ks_str key = ks_strpool_get(s->pool->strings, snapshot->settings[i].key);
        struct ks_str value = ks_strpool_get(s->pool->strings, snapshot->settings[i].value);
        bool is_told = false;
        for (size_t k = 0; k < KS_COUNT_OF(told); k++) {
            is_told = is_told || ks_str_equal(key, ks_str_from(told[k]));
        }
        if (is_told && value.len > 0 && !ks_str_equal(value, KS_STR("-1"))) {
            ks_text_append_str(&s->item, s->item.len > 0 ? KS_STR(", ") : KS_STR(""));
            ks_plain_append(&s->item, key);
            ks_text_append(&s->item, "=", 1);
            ks_plain_append(&s->item, value);
        }
    }
    if (s->item.len > 0) {
        put(s, "settings", KS_INK_END);
    }
}

/* ------------------------------------------------------------------ tables of holders */

static void put_table_head(struct sheet *s, const char *label, const char *bytes)
{
    put_label(s, label);
    ks_ink(&s->out, s->style->colour, KS_INK_FAINT);
    ks_text_printf(&s->out, "%12s %7s %7s  place", bytes, "share", "blocks");
    ks_ink(&s->out, s->style->colour, KS_INK_END);
    ks_text_append(&s->out, "\n", 1);
}

static void put_row_place(struct sheet *s, uint32_t frame, int32_t device, size_t used)
{
    struct ks_text raw;
    ks_text_init(&raw);
    if (s->side->totals.device_count > 1) {
        ks_text_printf(&raw, "GPU %d: ", device);
    }
    ks_memory_append_place(&raw, s->pool, frame);
    ks_plain_append_fit(&s->out, (struct ks_str){raw.ptr, raw.len},
                        s->width > used + 10 ? s->width - used : 10);
    s->out.failed = s->out.failed || raw.failed;
    ks_text_release(&raw);
    ks_text_append(&s->out, "\n", 1);
}

/* Rows are places; shares are of `whole`. */
static void put_holders(struct sheet *s, const char *label, const struct ks_holder_list *list,
                        int64_t whole)
{
    size_t shown = list->count < s->rows ? list->count : s->rows;
    if (shown == 0) {
        return;
    }
    put_table_head(s, label, "bytes");
    for (size_t i = 0; i < shown; i++) {
        const struct ks_holder *holder = &list->items[i];
        double share = whole > 0 ? (double)holder->bytes / (double)whole : 0.0;
        ks_text_printf(&s->out, "%*s%12s %7s %7s  ", LABEL_WIDTH, "",
                       ks_units_bytes(holder->bytes).text, ks_units_share(share).text,
                       ks_units_count((int64_t)holder->count).text);
        put_row_place(s, holder->place, holder->device, LABEL_WIDTH + 30);
    }
    if (shown < list->count) {
        ks_text_printf(&s->item, "and %s more places",
                       ks_units_count((int64_t)(list->count - shown)).text);
        put(s, "", KS_INK_FAINT);
    }
}

static void put_sizes(struct sheet *s)
{
    for (unsigned i = KS_SIZE_CLASS_COUNT; i > 0; i--) {
        const struct ks_size_total *size = &s->side->holdings.sizes[i - 1];
        if (size->count > 0) {
            ks_text_append_str(&s->item, s->item.len > 0 ? KS_STR("; ") : KS_STR(""));
            say_bytes(s, "", size->bytes, " in ");
            ks_text_printf(&s->item, "%s %s", ks_units_count((int64_t)size->count).text,
                           ks_memory_size_name(i - 1));
        }
    }
    if (s->item.len > 0) {
        put(s, "sizes", KS_INK_END);
    }
}

static void put_categories(struct sheet *s)
{
    const struct ks_holder_list *list = &s->side->holdings.by_category;
    for (size_t i = 0; i < list->count && i < s->rows; i++) {
        const struct ks_holder *holder = &list->items[i];
        struct ks_str name = ks_strpool_get(s->pool->strings, holder->category);
        ks_text_append_str(&s->item, i > 0 ? KS_STR("; ") : KS_STR(""));
        ks_plain_append(&s->item, name.len > 0 ? name : KS_STR("none"));
        say_bytes(s, " ", holder->bytes, " in ");
        ks_text_printf(&s->item, "%s", ks_units_count((int64_t)holder->count).text);
    }
    if (list->count > s->rows) {
        ks_text_printf(&s->item, "; and %s more",
                       ks_units_count((int64_t)(list->count - s->rows)).text);
    }
    if (s->item.len > 0) {
        put(s, "categories", KS_INK_END);
    }
}

/* ------------------------------------------------------------------ the time before */

static void append_curve(struct sheet *s, const struct ks_timeline *t)
{
    static const char *const blocks[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                         "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char plain[] = "_.:-=+*#";
    size_t columns =
        s->width - LABEL_WIDTH < CURVE_WIDTH_MAX ? s->width - LABEL_WIDTH : CURVE_WIDTH_MAX;
    columns = t->curve_count < columns ? t->curve_count : columns;
    for (size_t i = 0; i < columns && t->active_peak > 0; i++) {
        int64_t top = 0;
        for (size_t k = i * t->curve_count / columns; k < (i + 1) * t->curve_count / columns; k++) {
            top = t->curve[k].active > top ? t->curve[k].active : top;
        }
        size_t level =
            (size_t)((double)top / (double)t->active_peak * (double)(KS_COUNT_OF(blocks) - 1));
        if (s->style->ascii) {
            ks_text_append(&s->item, &plain[level], 1);
        } else {
            ks_text_append_str(&s->item, ks_str_from(blocks[level]));
        }
    }
}

static void put_peak(struct sheet *s, const struct ks_timeline *t)
{
    say_bytes(s, "", t->active_peak, " requested");
    if (t->peak_us >= 0 && t->end_us > t->start_us) {
        ks_text_printf(&s->item, " at %s of %s",
                       ks_units_time((t->peak_us - t->start_us) * 1000).text,
                       ks_units_time((t->end_us - t->start_us) * 1000).text);
    }
    say_bytes(s, ": ", t->active_start, " at the start of the trace");
    say_bytes(s, ", ", t->active_end, " at its end");
    if (t->has_reserved) {
        say_bytes(s, "; reserved at most ", t->reserved_peak, "");
    }
    put(s, "peak", KS_INK_STRONG);
    append_curve(s, t);
    put(s, "", KS_INK_END);
}

static void put_growth(struct sheet *s, const struct ks_step_growth *growth)
{
    if (growth->step_count < 2) {
        return;
    }
    bool is_less = growth->per_step < 0;
    if (growth->per_step == 0) {
        ks_text_append_str(&s->item, KS_STR("none"));
    } else {
        say_bytes(s, is_less ? "shrinks by " : "grows by ",
                  is_less ? -growth->per_step : growth->per_step, " a step");
    }
    ks_text_printf(&s->item, " over %zu steps%s (ends of ", growth->step_count,
                   growth->is_steady ? ", in each of them" : "");
    ks_plain_append(&s->item, ks_strpool_get(s->pool->strings, growth->name));
    ks_text_append(&s->item, ")", 1);
    put(s, "growth", growth->is_steady ? KS_INK_WARN : KS_INK_END);
}

static void put_timeline(struct sheet *s, const struct ks_timeline *t)
{
    if (s->side->timelines.count > 1) {
        ks_text_printf(&s->item, "of GPU %d, %s events", t->device,
                       ks_units_count((int64_t)t->event_count).text);
        put(s, "trace", KS_INK_END);
    }
    put_peak(s, t);
    put_growth(s, &t->growth);
    put_holders(s, "at the peak", &t->peak_by_place, t->active_peak);
    if (t->born_count > 0) {
        say_bytes(s, "", t->born_bytes, "");
        ks_text_printf(&s->item, " of %s allocation%s in the trace are still held at its end",
                       ks_units_count((int64_t)t->born_count).text, plural(t->born_count));
        put(s, "not freed", KS_INK_END);
        put_holders(s, "", &t->born_by_place, t->born_bytes);
    }
}

/* ------------------------------------------------------------------ why it does not fit */

static void put_pressure(struct sheet *s, const struct ks_pressure *p)
{
    const char *about = p->is_exact ? "" : "about ";
    say_bytes(s, "asked ", p->asked, "");
    if (p->is_event && p->stack) {
        ks_text_append_str(&s->item, KS_STR(" at "));
        say_place(s, ks_stack_pool_place(s->pool, p->stack));
    }
    ks_text_printf(&s->item, "; %s%s reserved but free in %s piece%s, largest %s", about,
                   ks_units_bytes(p->free).text, ks_units_count((int64_t)p->free_count).text,
                   plural(p->free_count), ks_units_bytes(p->free_largest).text);
    if (p->device_free >= 0) {
        say_bytes(s, "; ", p->device_free, " free on the device");
    }
    ks_text_append_str(&s->item, KS_STR(". "));
    struct ks_text words;
    ks_text_init(&words);
    ks_memory_append_verdict(&words, p);
    if (words.len > 0 && words.ptr[0] >= 'a' && words.ptr[0] <= 'z') {
        words.ptr[0] = (char)(words.ptr[0] - 'a' + 'A');
    }
    ks_text_append(&s->item, words.ptr, words.len);
    s->item.failed = s->item.failed || words.failed;
    ks_text_release(&words);
    ks_text_append_str(&s->item, KS_STR("."));
    char label[24] = "asked";
    if (p->is_event || s->side->totals.device_count > 1) {
        snprintf(label, sizeof(label), "%s%d", p->is_event ? "OOM GPU " : "GPU ", p->device);
    }
    put(s, label, p->is_event ? KS_INK_HOT : KS_INK_END);
}

static void put_pressures(struct sheet *s)
{
    const struct ks_memory_side *side = s->side;
    size_t events = 0;
    for (size_t i = 0; i < side->pressures.count; i++) {
        put_pressure(s, &side->pressures.items[i]);
        events += side->pressures.items[i].is_event;
    }
    if (side->pressures.event_total > events) {
        ks_text_printf(&s->item, "memory ran out %s times; the last ones are shown",
                       ks_units_count((int64_t)side->pressures.event_total).text);
        put(s, "", KS_INK_FAINT);
    }
}

static void put_notes(struct sheet *s)
{
    const struct ks_snapshot *snapshot = s->side->snapshot;
    for (unsigned i = 0; i < KS_SNAP_NOTE_COUNT; i++) {
        if (snapshot->notes[i] > 0) {
            ks_text_printf(&s->item, "%s: %s", ks_memory_note_text(i),
                           ks_units_count(snapshot->notes[i]).text);
            put(s, "note", KS_INK_WARN);
        }
    }
    if (!snapshot->has_stacks && snapshot->block_count > 0) {
        ks_text_append_str(&s->item, KS_STR("no stacks were recorded: "
                                            "torch.cuda.memory._record_memory_history() before the "
                                            "program allocates records them"));
        put(s, "note", KS_INK_END);
    }
}

/* ------------------------------------------------------------------ two snapshots */

static void put_changes(struct sheet *s, const struct ks_snapshot_comparison *c)
{
    size_t shown = c->by_place.count < s->rows ? c->by_place.count : s->rows;
    put_table_head(s, "changes", "change");
    for (size_t i = 0; i < shown; i++) {
        const struct ks_holder_change *change = &c->by_place.items[i];
        int64_t bytes = change->after - change->before;
        char text[48];
        char counts[48];
        snprintf(text, sizeof(text), "%s%s", bytes < 0 ? "-" : "+",
                 ks_units_bytes(bytes < 0 ? -bytes : bytes).text);
        snprintf(counts, sizeof(counts), "%zu>%zu", change->count_before, change->count_after);
        ks_text_printf(&s->out, "%*s%12s %15s  ", LABEL_WIDTH, "", text, counts);
        put_row_place(s, change->place, change->device, LABEL_WIDTH + 30);
    }
    if (shown < c->by_place.count) {
        ks_text_printf(&s->item, "and %s more places",
                       ks_units_count((int64_t)(c->by_place.count - shown)).text);
        put(s, "", KS_INK_FAINT);
    }
}

static void put_comparison(struct sheet *s, const struct ks_snapshot_comparison *c)
{
    say_bytes(s, "", c->came, " came");
    say_bytes(s, ", ", c->went, " went, by stack");
    ks_text_printf(
        &s->item, "; %s segment%s came (%s)", ks_units_count((int64_t)c->segments_only_after).text,
        plural(c->segments_only_after), ks_units_bytes(c->segment_bytes_only_after).text);
    ks_text_printf(&s->item, ", %s went (%s)",
                   ks_units_count((int64_t)c->segments_only_before).text,
                   ks_units_bytes(c->segment_bytes_only_before).text);
    put(s, "compared", KS_INK_STRONG);
    if (c->by_place.count > 0) {
        put_changes(s, c);
    }
}

/* ------------------------------------------------------------------ the whole */

static void put_totals(struct sheet *s)
{
    put_head(s);
    for (size_t i = 0; i < s->side->totals.device_count; i++) {
        put_device(s, &s->side->totals.devices[i]);
    }
}

static void put_side(struct sheet *s)
{
    const struct ks_memory_side *side = s->side;
    int64_t allocated = 0;
    for (size_t i = 0; i < side->totals.device_count; i++) {
        allocated += side->totals.devices[i].allocated;
    }
    put_totals(s);
    put_pools(s);
    put_settings(s);
    put_pressures(s);
    put_holders(s, "held by", &side->holdings.by_place, allocated);
    put_sizes(s);
    put_categories(s);
    for (size_t i = 0; i < side->timelines.count; i++) {
        put_timeline(s, &side->timelines.items[i]);
    }
    put_notes(s);
}

static void put_picture(struct sheet *s, const struct ks_memory_picture *picture)
{
    for (size_t i = 0; i < picture->side_count; i++) {
        s->side = &picture->sides[i];
        s->pool = s->side->snapshot->pool;
        if (picture->side_count == 1) {
            put_side(s);
        } else {
            put_totals(s);
            put_pressures(s);
            put_notes(s);
        }
    }
    if (picture->side_count > 1) {
        put_comparison(s, &picture->comparison);
    }
}

enum ks_status ks_memory_write_screen(const struct ks_memory_picture *picture,
                                      const struct ks_memory_style *style, ks_write_cb write,
                                      void *user, struct ks_err *err)
{
    struct sheet s = {.style = style};
    size_t width = style->width ? style->width : WIDTH_DEFAULT;
    s.width = width < WIDTH_MIN ? WIDTH_MIN : width;
    s.rows = style->row_limit ? style->row_limit : ROWS_DEFAULT;
    ks_text_init(&s.out);
    ks_text_init(&s.item);
    put_picture(&s, picture);
    enum ks_status status = KS_OK;
    if (s.out.failed || s.item.failed) {
        status = ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write snapshot: no memory");
    } else if (!write(user, s.out.ptr, s.out.len)) {
        status =
            ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot write snapshot: the receiver stopped");
    }
    ks_text_release(&s.out);
    ks_text_release(&s.item);
    return status;
}
