/* Memory snapshots: the opcodes of a pickle, the snapshot made of its values, all that is computed
 * of it, and its three outputs.
 *
 * What must hold, beside what sanitizers see: sums of pools, holders and places agree, no level is
 * below zero, no peak below the levels at both ends, and what is held at the peak adds up to it. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "fuzz_file.h"
#include "read/snapshot_reader.h"
#include "show/memory_picture.h"

enum { VALUES_MAX = 16 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool ignore(void *user, const char *bytes, size_t size)
{
    (void)user;
    (void)bytes;
    (void)size;
    return true;
}

static int64_t bytes_of(const struct ks_holder_list *list)
{
    int64_t sum = 0;
    for (size_t i = 0; i < list->count; i++) {
        sum += list->items[i].bytes;
        KS_ASSERT(list->items[i].bytes >= 0 && list->items[i].count > 0);
        KS_ASSERT(i == 0 || list->items[i - 1].bytes >= list->items[i].bytes);
    }
    return sum;
}

static void check_timeline(const struct ks_timeline *t)
{
    KS_ASSERT(t->active_start >= 0 && t->active_end >= 0 && t->allocated_start >= 0);
    KS_ASSERT(t->active_peak >= t->active_start && t->active_peak >= t->active_end);
    KS_ASSERT(t->allocated_peak <= t->active_peak && t->allocated_end <= t->active_end);
    KS_ASSERT(t->peak_moment <= t->event_count && t->peak_before <= t->active_peak);
    KS_ASSERT(bytes_of(&t->peak_by_stack) == t->active_peak);
    KS_ASSERT(bytes_of(&t->peak_by_place) == t->active_peak);
    KS_ASSERT(bytes_of(&t->born_by_stack) == t->born_bytes && t->born_bytes <= t->active_end);
    KS_ASSERT(t->curve_count > 0 && t->curve_count <= KS_CURVE_POINTS_MAX);
}

static void check_side(const struct ks_memory_side *side)
{
    int64_t allocated = 0;
    for (size_t i = 0; i < side->totals.device_count; i++) {
        const struct ks_pool_totals *device = &side->totals.devices[i];
        allocated += device->allocated;
        KS_ASSERT(device->inactive_split <= device->free && device->free_largest <= device->free);
        KS_ASSERT(device->allocated <= device->active);
    }
    KS_ASSERT(bytes_of(&side->holdings.by_stack) == allocated);
    KS_ASSERT(bytes_of(&side->holdings.by_place) == allocated);
    for (size_t i = 0; i < side->timelines.count; i++) {
        check_timeline(&side->timelines.items[i]);
    }
    for (size_t i = 0; i < side->pressures.count; i++) {
        const struct ks_pressure *pressure = &side->pressures.items[i];
        KS_ASSERT(pressure->held + pressure->free == pressure->reserved);
        KS_ASSERT(pressure->free_largest <= pressure->free && pressure->missing >= 0);
    }
}

static void write_all(const struct ks_memory_picture *picture)
{
    struct ks_err err = {0};
    for (unsigned format = KS_MEMORY_SCREEN; format <= KS_MEMORY_FOLDED_SEGMENTS; format++) {
        struct ks_memory_style style = {.format = format, .row_limit = format ? 0 : 3};
        enum ks_status status = format == KS_MEMORY_SCREEN
                                    ? ks_memory_write_screen(picture, &style, ignore, NULL, &err)
                                : format == KS_MEMORY_JSON
                                    ? ks_memory_write_json(picture, &style, ignore, NULL, &err)
                                    : ks_memory_write_folded(picture, &style, ignore, NULL, &err);
        KS_ASSERT(status == KS_OK);
    }
}

static void analyze(struct ks_snapshot *snapshot)
{
    struct ks_arena arena;
    static struct ks_memory_picture picture;
    struct ks_memory_side *side = &picture.sides[0];
    struct ks_err err = {0};
    picture = (struct ks_memory_picture){.side_count = 1};
    *side = (struct ks_memory_side){.path = "fuzz", .snapshot = snapshot};
    ks_arena_init(&arena);
    KS_ASSERT(ks_pool_totals_compute(snapshot, &arena, &side->totals, &err) == KS_OK);
    KS_ASSERT(ks_holdings_compute(snapshot, &arena, &side->holdings, &err) == KS_OK);
    KS_ASSERT(ks_timelines_compute(snapshot, &arena, &side->timelines, &err) == KS_OK);
    KS_ASSERT(ks_pressures_compute(snapshot, &side->timelines, 1 << 20, &arena, &side->pressures,
                                   &err) == KS_OK);
    check_side(side);
    picture.sides[1] = picture.sides[0];
    KS_ASSERT(ks_snapshots_compare(snapshot, &side->holdings, snapshot, &side->holdings, &arena,
                                   &picture.comparison, &err) == KS_OK);
    KS_ASSERT(picture.comparison.by_stack.count == 0 && picture.comparison.by_place.count == 0);
    write_all(&picture);
    picture.side_count = 2;
    write_all(&picture);
    ks_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ks_snapshot snapshot;
    static struct ks_stack_pool pool;
    struct ks_strpool *strings = NULL;
    struct ks_err err = {0};
    struct ks_snapshot_source source = {.path = fuzz_file(data, size), .bytes_max = VALUES_MAX};
    KS_ASSERT(ks_strpool_create(&strings, &err) == KS_OK);
    KS_ASSERT(ks_stack_pool_init(&pool, strings, &err) == KS_OK);
    ks_snapshot_init(&snapshot, &pool);
    enum ks_status status = ks_snapshot_read(&source, &snapshot, &err);
    KS_ASSERT(status != KS_ERR_NOMEM && status != KS_END);
    if (status == KS_OK) {
        analyze(&snapshot);
    } else {
        KS_ASSERT(err.message[0]);
    }
    ks_snapshot_release(&snapshot);
    ks_stack_pool_release(&pool);
    ks_strpool_destroy(strings);
    return 0;
}
