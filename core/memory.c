/* Memory snapshots behind the public API: reads one or two, analyses them, writes what was found.
 */
#include <kscope/kscope.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/locale_c.h"
#include "base/progress.h"
#include "read/input.h"
#include "read/snapshot_reader.h"
#include "show/memory_picture.h"

struct ks_memory {
    struct ks_arena arena;
    struct ks_strpool *strings;
    struct ks_stack_pool pool;
    struct ks_snapshot snapshots[KS_MEMORY_SIDES_MAX];
    struct ks_memory_picture picture;
};

static enum ks_status read_side(struct ks_memory *memory, size_t index,
                                const struct ks_memory_options *options, struct ks_err *err)
{
    struct ks_memory_side *side = &memory->picture.sides[index];
    struct ks_snapshot *snapshot = &memory->snapshots[index];
    struct ks_snapshot_source source = {
        .path = options->paths[index],
        .bytes_max = options->memory_bytes_max,
        .progress = options->progress,
    };
    ks_snapshot_init(snapshot, &memory->pool);
    memory->picture.side_count = index + 1;
    side->snapshot = snapshot;
    side->path = ks_arena_copy(&memory->arena, source.path, strlen(source.path));
    if (!side->path) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read snapshot: no memory");
    }
    return ks_snapshot_read(&source, snapshot, err);
}

static enum ks_status analyze_side(struct ks_memory *memory, size_t index, int64_t asked,
                                   struct ks_err *err)
{
    struct ks_memory_side *side = &memory->picture.sides[index];
    struct ks_snapshot *snapshot = &memory->snapshots[index];
    struct ks_arena *arena = &memory->arena;
    KS_TRY(ks_pool_totals_compute(snapshot, arena, &side->totals, err));
    KS_TRY(ks_holdings_compute(snapshot, arena, &side->holdings, err));
    KS_TRY(ks_timelines_compute(snapshot, arena, &side->timelines, err));
    return ks_pressures_compute(snapshot, &side->timelines, asked, arena, &side->pressures, err);
}

static enum ks_status fill(struct ks_memory *memory, const struct ks_memory_options *options,
                           size_t *failed, struct ks_err *err)
{
    KS_TRY(ks_strpool_create(&memory->strings, err));
    KS_TRY(ks_stack_pool_init(&memory->pool, memory->strings, err));
    for (size_t i = 0; i < options->path_count; i++) {
        uint64_t size = 0;
        ks_progress_add_total(options->progress,
                              ks_input_size(options->paths[i], &size) ? size : 0);
    }
    for (size_t i = 0; i < options->path_count; i++) {
        *failed = i;
        ks_progress_enter(options->progress, KS_STAGE_READ);
        KS_TRY(read_side(memory, i, options, err));
        ks_progress_enter(options->progress, KS_STAGE_ANALYZE);
        KS_TRY(analyze_side(memory, i, options->asked_bytes, err));
    }
    struct ks_memory_picture *picture = &memory->picture;
    if (picture->side_count < KS_MEMORY_SIDES_MAX) {
        return KS_OK;
    }
    return ks_snapshots_compare(&memory->snapshots[0], &picture->sides[0].holdings,
                                &memory->snapshots[1], &picture->sides[1].holdings, &memory->arena,
                                &picture->comparison, err);
}

enum ks_status ks_memory_open(const struct ks_memory_options *options, struct ks_memory **out,
                              size_t *failed, struct ks_err *err)
{
    size_t ignored = 0;
    *out = NULL;
    if (options->path_count < 1 || options->path_count > KS_MEMORY_SIDES_MAX) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot read snapshots: there must be one, or two to compare");
    }
    struct ks_memory *memory = ks_alloc(1, sizeof(*memory));
    if (!memory) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read snapshot: no memory");
    }
    ks_arena_init(&memory->arena);
    enum ks_status status = fill(memory, options, failed ? failed : &ignored, err);
    if (status != KS_OK) {
        ks_memory_close(memory);
        return status;
    }
    *out = memory;
    return KS_OK;
}

void ks_memory_close(struct ks_memory *memory)
{
    if (!memory) {
        return;
    }
    for (size_t i = 0; i < memory->picture.side_count; i++) {
        ks_snapshot_release(&memory->snapshots[i]);
    }
    ks_stack_pool_release(&memory->pool);
    ks_strpool_destroy(memory->strings);
    ks_arena_release(&memory->arena);
    ks_free(memory);
}

bool ks_memory_is_snapshot(const char *path)
{
    return ks_snapshot_is_file(path);
}

enum ks_status ks_memory_write(const struct ks_memory *memory, const struct ks_memory_style *style,
                               ks_write_cb write, void *user, struct ks_err *err)
{
    struct ks_locale_c locale;
    enum ks_status status = KS_OK;
    ks_locale_c_enter(&locale);
    switch (style->format) {
    case KS_MEMORY_SCREEN:
        status = ks_memory_write_screen(&memory->picture, style, write, user, err);
        break;
    case KS_MEMORY_JSON:
        status = ks_memory_write_json(&memory->picture, style, write, user, err);
        break;
    case KS_MEMORY_FOLDED:
    case KS_MEMORY_FOLDED_SEGMENTS:
        status = ks_memory_write_folded(&memory->picture, style, write, user, err);
        break;
    }
    ks_locale_c_leave(&locale);
    return status;
}
