/* Takes the rows of a part over. Ids in them count what the part saw, in the order in which it saw
 * them; handed to the builder in that order, they become the ids that reading everything in one go
 * would have given. */
#include "base/alloc.h"
#include "base/err.h"
#include "store/builder_impl.h"

/* From ids of the part to ids of the builder; id 0 stays 0. */
struct id_maps {
    uint32_t *strings;
    uint32_t *tracks;
    uint32_t *collectives;
    uint32_t order;
};

static struct ks_strid map_string(const struct id_maps *maps, struct ks_strid id)
{
    return (struct ks_strid){maps->strings[id.v]};
}

static enum ks_status map_strings(struct ks_trace_builder *builder,
                                  const struct ks_trace_builder *part, struct id_maps *maps,
                                  struct ks_err *err)
{
    for (uint32_t i = 1; i < ks_strpool_count(part->strings); i++) {
        struct ks_strid id;
        KS_TRY(ks_strpool_intern(builder->strings,
                                 ks_strpool_get(part->strings, (struct ks_strid){i}), &id, err));
        maps->strings[i] = id.v;
    }
    return KS_OK;
}

/* A parent has a lower id than its children. */
static enum ks_status map_track(struct ks_trace_builder *builder, const struct ks_track *track,
                                const struct id_maps *maps, uint32_t *out, struct ks_err *err)
{
    uint32_t parent = maps->tracks[track->parent];
    struct ks_track_key key = {.number = track->number, .text = map_string(maps, track->text)};
    KS_TRY(ks_trace_builder_find_or_add(builder, track->kind, parent, key, out, err));
    if (track->name.v != 0) {
        builder->tracks[*out].name = map_string(maps, track->name);
    }
    return KS_OK;
}

static enum ks_status map_collective(struct ks_trace_builder *builder,
                                     const struct ks_collective *collective,
                                     const struct id_maps *maps, uint32_t *out, struct ks_err *err)
{
    struct ks_collective c = *collective;
    c.name = map_string(maps, c.name);
    c.group = map_string(maps, c.group);
    c.ranks = map_string(maps, c.ranks);
    c.dtype = map_string(maps, c.dtype);
    return ks_trace_builder_collective(builder, &c, out, err);
}

static enum ks_status make_maps(struct ks_trace_builder *builder,
                                const struct ks_trace_builder *part, struct id_maps *maps,
                                struct ks_err *err)
{
    maps->strings = ks_alloc(ks_strpool_count(part->strings), sizeof(*maps->strings));
    maps->tracks = ks_alloc(part->track_count, sizeof(*maps->tracks));
    maps->collectives = ks_alloc((size_t)part->collective_count + 1, sizeof(*maps->collectives));
    if (!maps->strings || !maps->tracks || !maps->collectives) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot join parts: out of memory");
    }
    KS_TRY(map_strings(builder, part, maps, err));
    for (uint32_t i = 1; i < part->track_count; i++) {
        KS_TRY(map_track(builder, &part->tracks[i], maps, &maps->tracks[i], err));
    }
    for (uint32_t i = 0; i < part->collective_count; i++) {
        KS_TRY(
            map_collective(builder, &part->collectives[i], maps, &maps->collectives[i + 1], err));
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ rows */

static void change_slices(struct ks_slice_row *rows, size_t count, const struct id_maps *maps)
{
    for (size_t i = 0; i < count; i++) {
        struct ks_slice_row *row = &rows[i];
        row->lane = maps->tracks[row->lane];
        row->order = row->order < UINT32_MAX - maps->order ? row->order + maps->order : UINT32_MAX;
        row->name = maps->strings[row->name];
        row->dims = maps->strings[row->dims];
        row->types = maps->strings[row->types];
        row->concrete = maps->strings[row->concrete];
    }
}

static void change_gpu(struct ks_gpu_row *rows, size_t count, const struct id_maps *maps)
{
    for (size_t i = 0; i < count; i++) {
        struct ks_gpu_row *row = &rows[i];
        row->lane = maps->tracks[row->lane];
        row->stream = maps->tracks[row->stream];
        row->name = maps->strings[row->name];
        row->grid = maps->strings[row->grid];
        row->block = maps->strings[row->block];
        row->collective = maps->collectives[row->collective];
    }
}

static void change_memory(struct ks_memory_row *rows, size_t count, const struct id_maps *maps)
{
    for (size_t i = 0; i < count; i++) {
        rows[i].lane = maps->tracks[rows[i].lane];
    }
}

static void change_marks(struct ks_mark_row *rows, size_t count, const struct id_maps *maps)
{
    for (size_t i = 0; i < count; i++) {
        struct ks_mark_row *row = &rows[i];
        row->lane = maps->tracks[row->lane];
        row->name = maps->strings[row->name];
        row->series = maps->strings[row->series];
        row->unit = maps->strings[row->unit];
        row->values = maps->strings[row->values];
    }
}

static void change_rows(enum ks_table_id table, void *rows, size_t count,
                        const struct id_maps *maps)
{
    switch (table) {
    case KS_TABLE_slice: change_slices(rows, count, maps); break;
    case KS_TABLE_gpu: change_gpu(rows, count, maps); break;
    case KS_TABLE_memory: change_memory(rows, count, maps); break;
    case KS_TABLE_mark: change_marks(rows, count, maps); break;
    default: KS_ASSERT(false);
    }
}

static bool is_sorted(const char *rows, size_t row_size, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct ks_row_head row = ks_row_head_at(rows + i * row_size);
        struct ks_row_head before = ks_row_head_at(rows + (i - 1) * row_size);
        if (ks_row_head_before(&row, &before)) {
            return false;
        }
    }
    return true;
}

/* A run of several lanes was sorted by the tracks of the part, which may lie in another order. */
static enum ks_status sort_again(struct ks_trace_builder *builder, struct ks_run *run,
                                 size_t row_size, struct ks_err *err)
{
    struct ks_chunk *sorted = NULL;
    KS_TRY(ks_sorter_reserve(&builder->sorter, run->rows, err));
    KS_TRY(ks_chunk_create_raw(builder->pool, run->rows * row_size, &sorted, err));
    ks_sorter_sort(&builder->sorter, run->chunk->ptr, row_size, run->rows, sorted->ptr);
    ks_chunk_destroy(builder->pool, run->chunk);
    run->chunk = sorted;
    return KS_OK;
}

/* The chunk is pinned when this is called and stays so, whatever happens. */
static enum ks_status change_run(struct ks_trace_builder *builder, enum ks_table_id table,
                                 struct ks_run *run, const struct id_maps *maps, struct ks_err *err)
{
    size_t row_size = builder->tables[table].row_size;
    bool has_lanes = run->first.lane != run->last.lane;
    change_rows(table, run->chunk->ptr, run->rows, maps);
    if (has_lanes && !is_sorted(run->chunk->ptr, row_size, run->rows)) {
        KS_TRY(sort_again(builder, run, row_size, err));
    }
    const char *rows = run->chunk->ptr;
    run->first = ks_row_head_at(rows);
    run->last = ks_row_head_at(rows + (run->rows - 1) * row_size);
    return KS_OK;
}

static enum ks_status take_run(struct ks_trace_builder *builder, enum ks_table_id id,
                               struct ks_run *run, const struct id_maps *maps, struct ks_err *err)
{
    struct ks_builder_table *table = &builder->tables[id];
    KS_TRY(ks_trace_builder_reserve_run(table, err));
    KS_TRY(ks_chunk_pin(builder->pool, run->chunk, err));
    enum ks_status status = change_run(builder, id, run, maps, err);
    ks_chunk_unpin(builder->pool, run->chunk, true);
    KS_TRY(status);
    table->runs[table->run_count++] = *run;
    run->chunk = NULL;
    return KS_OK;
}

static enum ks_status take_table(struct ks_trace_builder *builder, struct ks_trace_builder *part,
                                 enum ks_table_id id, const struct id_maps *maps,
                                 struct ks_err *err)
{
    struct ks_builder_table *to = &builder->tables[id];
    struct ks_builder_table *from = &part->tables[id];
    for (size_t i = 0; i < from->run_count; i++) {
        if (from->runs[i].chunk) {
            KS_TRY(take_run(builder, id, &from->runs[i], maps, err));
        }
    }
    to->rows += from->rows;
    to->start_ns_min =
        from->start_ns_min < to->start_ns_min ? from->start_ns_min : to->start_ns_min;
    to->end_ns_max = from->end_ns_max > to->end_ns_max ? from->end_ns_max : to->end_ns_max;
    from->run_count = 0;
    from->rows = 0;
    return KS_OK;
}

static void take_links(struct ks_built_source *to, const struct ks_built_source *from)
{
    to->link_count += from->link_count;
    to->corr_min = from->corr_min < to->corr_min ? from->corr_min : to->corr_min;
    to->corr_max = from->corr_max > to->corr_max ? from->corr_max : to->corr_max;
}

enum ks_status ks_trace_builder_absorb(struct ks_trace_builder *builder,
                                       struct ks_trace_builder *part, uint32_t order,
                                       struct ks_err *err)
{
    KS_ASSERT(builder->open_source && part->open_source && part->is_part);
    struct id_maps maps = {.order = order};
    enum ks_status status = ks_trace_builder_close_runs(builder, err);
    if (status == KS_OK) {
        status = ks_trace_builder_close_runs(part, err);
    }
    if (status == KS_OK) {
        status = make_maps(builder, part, &maps, err);
    }
    for (size_t i = 0; i < KS_BUILT_TABLES && status == KS_OK; i++) {
        status = take_table(builder, part, (enum ks_table_id)i, &maps, err);
    }
    if (status == KS_OK) {
        take_links(builder->open_source, part->open_source);
    }
    ks_free(maps.strings);
    ks_free(maps.tracks);
    ks_free(maps.collectives);
    return status;
}
