#include "store/builder.h"

#include <assert.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "store/builder_impl.h"

enum {
    ROW_BYTES_TYPICAL = 16, /* chunk_rows rows of a run are about as large as of a column set */
    RUN_BYTES_MIN = 4 * 1024,
    RUN_BYTES_MAX = 4 * 1024 * 1024, /* what the pool cuts from its slabs */
    BUDGET_PARTS = 64, /* a run is at most this part of the memory: lanes need one each */
    TRACKS_MAX = INT32_MAX,
};

/* ------------------------------------------------------------------ life cycle */

static size_t power_of_two_below(uint64_t value)
{
    return (size_t)1 << (63 - __builtin_clzll(value | 1));
}

/* How large runs get, and how many may be open at once: few small ones with little memory. */
static void choose_sizes(struct ks_trace_builder *builder, uint64_t bytes_max)
{
    builder->run_bytes = (size_t)builder->chunk_rows * ROW_BYTES_TYPICAL;
    if (builder->run_bytes > RUN_BYTES_MAX) {
        builder->run_bytes = RUN_BYTES_MAX;
    }
    builder->open_runs_max = KS_OPEN_RUNS_MAX;
    if (bytes_max == 0) {
        return;
    }
    size_t part = power_of_two_below(bytes_max / BUDGET_PARTS);
    part = part > RUN_BYTES_MIN ? part : RUN_BYTES_MIN;
    if (builder->run_bytes > part) {
        builder->run_bytes = part;
    }
    /* Half of the memory for the open runs of all tables together. */
    uint64_t open_runs = bytes_max / 2 / KS_BUILT_TABLES / builder->run_bytes;
    if (open_runs < builder->open_runs_max) {
        builder->open_runs_max = open_runs > 0 ? (uint32_t)open_runs : 1;
    }
}

static void init_tables(struct ks_trace_builder *builder)
{
    for (size_t i = 0; i < KS_BUILT_TABLES; i++) {
        struct ks_builder_table *table = &builder->tables[i];
        table->row_size = ks_table_layout((enum ks_table_id)i)->row_size;
        table->hot = &table->open[0];
    }
}

/* `pool` NULL: makes one of its own. */
static enum ks_status create(const struct ks_trace_options *options, struct ks_chunk_pool *pool,
                             struct ks_trace_builder **out, struct ks_err *err)
{
    uint32_t chunk_rows = options->chunk_rows ? options->chunk_rows : KS_CHUNK_ROWS_DEFAULT;
    if ((chunk_rows & (chunk_rows - 1)) != 0) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot create trace: chunk_rows=%u is not a power of two", chunk_rows);
    }
    struct ks_trace_builder *builder = ks_alloc(1, sizeof(*builder));
    if (!builder) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot create trace: size=%zu",
                       sizeof(*builder));
    }
    builder->chunk_rows = chunk_rows;
    choose_sizes(builder, options->chunk_bytes_max);
    init_tables(builder);
    ks_arena_init(&builder->arena);
    ks_sorter_init(&builder->sorter);
    ks_map_init(&builder->track_ids);
    ks_map_init(&builder->collective_ids);
    builder->track_count = 1; // track 0 is not used

    enum ks_status status = KS_OK;
    if (pool) {
        builder->pool = pool;
        builder->is_part = true;
    } else {
        status = ks_chunk_pool_create(options->chunk_bytes_max, &builder->pool, err);
    }
    if (status == KS_OK) {
        status = ks_strpool_create(&builder->strings, err);
    }
    if (status != KS_OK) {
        ks_trace_builder_destroy(builder);
        return status;
    }
    *out = builder;
    return KS_OK;
}

enum ks_status ks_trace_builder_create(const struct ks_trace_options *options,
                                       struct ks_trace_builder **out, struct ks_err *err)
{
    struct ks_trace_options defaults = {0};
    return create(options ? options : &defaults, NULL, out, err);
}

enum ks_status ks_trace_builder_create_part(const struct ks_trace_builder *builder, uint32_t parts,
                                            struct ks_trace_builder **out, struct ks_err *err)
{
    KS_ASSERT(parts > 0);
    uint64_t bytes_max = ks_chunk_pool_bytes_max(builder->pool);
    struct ks_trace_options options = {
        .chunk_bytes_max = bytes_max > 0 && bytes_max < parts ? 1 : bytes_max / parts,
        .chunk_rows = builder->chunk_rows,
    };
    return create(&options, builder->pool, out, err);
}

/* Of a part that nobody took: its chunks are in a pool that goes on. */
static void destroy_runs(struct ks_trace_builder *builder)
{
    for (size_t i = 0; i < KS_BUILT_TABLES; i++) {
        struct ks_builder_table *table = &builder->tables[i];
        for (uint32_t k = 0; k < table->open_count; k++) {
            ks_chunk_destroy(builder->pool, table->open[k].chunk);
        }
        for (size_t r = 0; r < table->run_count; r++) {
            ks_chunk_destroy(builder->pool, table->runs[r].chunk);
        }
    }
}

void ks_trace_builder_destroy(struct ks_trace_builder *builder)
{
    if (!builder) {
        return;
    }
    if (builder->is_part) {
        destroy_runs(builder);
        builder->pool = NULL;
    }
    for (size_t i = 0; i < KS_BUILT_TABLES; i++) {
        ks_free(builder->tables[i].runs);
        ks_free(builder->tables[i].open_of_lane);
    }
    ks_sorter_release(&builder->sorter);
    ks_map_release(&builder->track_ids);
    ks_map_release(&builder->collective_ids);
    ks_free(builder->sources);
    ks_free(builder->tracks);
    ks_free(builder->collectives);
    ks_free(builder->stacks);
    ks_free(builder->call_paths);
    ks_chunk_pool_destroy(builder->pool);
    ks_strpool_destroy(builder->strings);
    ks_arena_release(&builder->arena);
    ks_free(builder);
}

/* Room for one more item in an array that doubles. False: out of memory, nothing changed. */
static bool reserve_item(void **items, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity) {
        return true;
    }
    uint32_t grown = *capacity == 0 ? 64 : *capacity * 2;
    void *moved = ks_realloc(*items, grown, size);
    if (!moved) {
        return false;
    }
    *items = moved;
    *capacity = grown;
    return true;
}

/* ------------------------------------------------------------------ sources */

static void forget_open_runs(struct ks_builder_table *table)
{
    table->open_count = 1;
    table->open[0] = (struct ks_open_run){.bytes_next = KS_RUN_BYTES_FIRST};
    table->hot_lane = 0;
    table->hot = &table->open[0];
    if (table->lane_capacity > 0) {
        memset(table->open_of_lane, 0, table->lane_capacity * sizeof(*table->open_of_lane));
    }
}

static void start_source_rows(struct ks_trace_builder *builder)
{
    for (size_t i = 0; i < KS_BUILT_TABLES; i++) {
        struct ks_builder_table *table = &builder->tables[i];
        table->run_begin = table->run_count;
        table->rows = 0;
        table->start_ns_min = INT64_MAX;
        table->end_ns_max = INT64_MIN;
        forget_open_runs(table);
    }
}

enum ks_status ks_trace_builder_source_open(struct ks_trace_builder *builder, struct ks_str path,
                                            struct ks_source **out, struct ks_err *err)
{
    KS_ASSERT(!builder->open_source);
    struct ks_strid path_id = {0};
    KS_TRY(ks_strpool_intern(builder->strings, path, &path_id, err));
    struct ks_built_source *built = ks_new(&builder->arena, struct ks_built_source, 1);
    if (!built || !reserve_item((void **)&builder->sources, builder->source_count,
                                &builder->source_capacity, sizeof(*builder->sources))) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot add source: index=%u",
                       builder->source_count);
    }
    built->source = (struct ks_source){
        .path = path_id,
        .rank = -1,
        .world_size = -1,
        .worker = -1,
        .start_ns = KS_TIME_NONE,
        .end_ns = KS_TIME_NONE,
        .run = 1,
    };
    built->track_begin = builder->track_count;
    built->track_end = builder->track_count;
    built->stack_begin = builder->stack_count;
    built->path_begin = builder->call_path_count;
    built->corr_min = INT64_MAX;
    built->corr_max = INT64_MIN;
    builder->sources[builder->source_count++] = built;
    builder->open_source = built;
    start_source_rows(builder);
    memset(builder->recent_threads, 0, sizeof(builder->recent_threads));
    memset(builder->recent_streams, 0, sizeof(builder->recent_streams));
    *out = &built->source;
    return KS_OK;
}

uint32_t ks_trace_builder_source_count(const struct ks_trace_builder *builder)
{
    return builder->source_count;
}

struct ks_source *ks_trace_builder_source(struct ks_trace_builder *builder, uint32_t index)
{
    KS_ASSERT(index < builder->source_count);
    return &builder->sources[index]->source;
}

struct ks_chunk_pool *ks_trace_builder_pool(const struct ks_trace_builder *builder)
{
    return builder->pool;
}

struct ks_arena *ks_trace_builder_arena(struct ks_trace_builder *builder)
{
    return &builder->arena;
}

/* ------------------------------------------------------------------ runs */

/* Replaces the chunk of a run by one that is sorted and no larger than its rows. */
static enum ks_status tidy_run(struct ks_trace_builder *builder, struct ks_builder_table *table,
                               struct ks_open_run *open, uint32_t rows, struct ks_err *err)
{
    struct ks_chunk *chunk = NULL;
    if (!open->is_sorted) {
        KS_TRY(ks_sorter_reserve(&builder->sorter, rows, err));
    }
    KS_TRY(ks_chunk_create_raw(builder->pool, rows * table->row_size, &chunk, err));
    if (open->is_sorted) {
        memcpy(chunk->ptr, open->chunk->ptr, rows * table->row_size);
    } else {
        ks_sorter_sort(&builder->sorter, open->chunk->ptr, table->row_size, rows, chunk->ptr);
    }
    ks_chunk_destroy(builder->pool, open->chunk);
    open->chunk = chunk;
    return KS_OK;
}

/* Sorts the run and gives its chunk to the list of runs. Does nothing without a chunk. */
static enum ks_status close_run(struct ks_trace_builder *builder, struct ks_builder_table *table,
                                struct ks_open_run *open, struct ks_err *err)
{
    if (!open->chunk) {
        return KS_OK;
    }
    size_t bytes = (size_t)(open->next - (char *)open->chunk->ptr);
    uint32_t rows = (uint32_t)(bytes / table->row_size);
    if (!open->is_sorted || bytes <= open->chunk->size / 2) {
        KS_TRY(tidy_run(builder, table, open, rows, err));
    }
    const char *first = open->chunk->ptr;
    table->runs[open->run] = (struct ks_run){
        .chunk = open->chunk,
        .rows = rows,
        .first = ks_row_head_at(first),
        .last = ks_row_head_at(first + (rows - 1) * table->row_size),
    };
    ks_chunk_unpin(builder->pool, open->chunk, true);
    open->chunk = NULL;
    open->next = NULL;
    open->end = NULL;
    return KS_OK;
}

enum ks_status ks_trace_builder_reserve_run(struct ks_builder_table *table, struct ks_err *err)
{
    return ks_grow(&table->runs, table->run_count, &table->run_capacity, sizeof(*table->runs),
                   "runs", err);
}

static enum ks_status open_run(struct ks_trace_builder *builder, struct ks_builder_table *table,
                               struct ks_open_run *open, struct ks_err *err)
{
    KS_TRY(ks_trace_builder_reserve_run(table, err));
    size_t bytes = open->bytes_next < builder->run_bytes ? open->bytes_next : builder->run_bytes;
    size_t rows = bytes / table->row_size;
    rows = rows < 2 ? 2 : rows;
    struct ks_chunk *chunk = NULL;
    KS_TRY(ks_chunk_create_raw(builder->pool,
                               bytes > rows * table->row_size ? bytes : rows * table->row_size,
                               &chunk, err));
    table->runs[table->run_count] = (struct ks_run){0};
    open->run = table->run_count++;
    open->bytes_next = bytes * 4;
    open->chunk = chunk;
    open->next = chunk->ptr;
    open->end = open->next + rows * table->row_size;
    open->last = (struct ks_row_head){0, 0, INT64_MIN, INT64_MAX}; // before any row
    open->is_sorted = true;
    return KS_OK;
}

static enum ks_status reserve_lane(struct ks_builder_table *table, size_t index, struct ks_err *err)
{
    if (index < table->lane_capacity) {
        return KS_OK;
    }
    size_t capacity = table->lane_capacity == 0 ? 64 : table->lane_capacity * 2;
    while (capacity <= index) {
        capacity *= 2;
    }
    uint16_t *grown = ks_realloc(table->open_of_lane, capacity, sizeof(*grown));
    if (!grown) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot add lane: index=%zu", index);
    }
    memset(grown + table->lane_capacity, 0, (capacity - table->lane_capacity) * sizeof(*grown));
    table->open_of_lane = grown;
    table->lane_capacity = capacity;
    return KS_OK;
}

/* Makes the run of `lane` the hot one, with room for a row. */
static enum ks_status make_room(struct ks_trace_builder *builder, struct ks_builder_table *table,
                                uint32_t lane, struct ks_err *err)
{
    const struct ks_built_source *source = builder->open_source;
    KS_ASSERT(source && lane >= source->track_begin && lane < builder->track_count);
    size_t index = lane - source->track_begin;
    KS_TRY(reserve_lane(table, index, err));

    /* A lane that once went to the shared run must stay there: see builder_impl.h. Only lanes that
     * come while all runs are taken do, and runs are not given back before the source ends. */
    uint16_t slot = table->open_of_lane[index];
    if (slot == 0 && table->open_count < builder->open_runs_max) {
        slot = (uint16_t)table->open_count++;
        table->open[slot] = (struct ks_open_run){.bytes_next = KS_RUN_BYTES_FIRST};
        table->open_of_lane[index] = slot;
    }
    struct ks_open_run *open = &table->open[slot];
    if (open->next == open->end) {
        KS_TRY(close_run(builder, table, open, err));
        KS_TRY(open_run(builder, table, open, err));
    }
    table->hot_lane = lane;
    table->hot = open;
    return KS_OK;
}

enum ks_status ks_trace_builder_close_runs(struct ks_trace_builder *builder, struct ks_err *err)
{
    for (size_t i = 0; i < KS_BUILT_TABLES; i++) {
        struct ks_builder_table *table = &builder->tables[i];
        for (uint32_t k = 0; k < table->open_count; k++) {
            KS_TRY(close_run(builder, table, &table->open[k], err));
        }
        forget_open_runs(table);
    }
    return KS_OK;
}

enum ks_status ks_trace_builder_source_close(struct ks_trace_builder *builder, struct ks_err *err)
{
    struct ks_built_source *built = builder->open_source;
    KS_ASSERT(built);
    KS_TRY(ks_trace_builder_close_runs(builder, err));
    for (size_t i = 0; i < KS_BUILT_TABLES; i++) {
        struct ks_builder_table *table = &builder->tables[i];
        built->rows[i] = (struct ks_source_rows){
            .run_begin = table->run_begin,
            .run_end = table->run_count,
            .rows = table->rows,
            .start_ns_min = table->start_ns_min,
            .end_ns_max = table->end_ns_max,
        };
        if (table->rows > 0) {
            struct ks_source *source = &built->source;
            bool is_first = source->start_ns == KS_TIME_NONE;
            if (is_first || table->start_ns_min < source->start_ns) {
                source->start_ns = table->start_ns_min;
            }
            if (is_first || table->end_ns_max > source->end_ns) {
                source->end_ns = table->end_ns_max;
            }
        }
    }
    built->track_end = builder->track_count;
    built->stack_end = builder->stack_count;
    built->path_end = builder->call_path_count;
    builder->open_source = NULL;
    return KS_OK;
}

/* ------------------------------------------------------------------ rows */

/* Always inlined, so that the size of the row is a constant of each table. */
__attribute__((always_inline)) static inline enum ks_status append(struct ks_trace_builder *builder,
                                                                   enum ks_table_id id,
                                                                   const void *row, size_t row_size,
                                                                   struct ks_row_head head,
                                                                   struct ks_err *err)
{
    struct ks_builder_table *table = &builder->tables[id];
    int64_t end_ns = 0;
    if (KS_UNLIKELY(__builtin_add_overflow(head.start_ns, head.dur_ns, &end_ns))) {
        return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET,
                       "Cannot add row: start_ns=%lld, dur_ns=%lld", (long long)head.start_ns,
                       (long long)head.dur_ns);
    }
    if (head.lane != table->hot_lane || KS_UNLIKELY(table->hot->next == table->hot->end)) {
        KS_TRY(make_room(builder, table, head.lane, err));
    }
    struct ks_open_run *open = table->hot;
    if (ks_row_head_before(&head, &open->last)) {
        open->is_sorted = false;
    }
    open->last = head;
    memcpy(open->next, row, row_size);
    open->next += row_size;
    table->rows++;
    table->start_ns_min = head.start_ns < table->start_ns_min ? head.start_ns : table->start_ns_min;
    table->end_ns_max = end_ns > table->end_ns_max ? end_ns : table->end_ns_max;
    return KS_OK;
}

/* `row` begins with what struct ks_row_head names: table.c asserts it. */
#define APPEND(table, row, err)                                                                    \
    append(builder, KS_TABLE_##table, (row), sizeof(*(row)),                                       \
           (struct ks_row_head){(row)->lane, (row)->order, (row)->start_ns, (row)->dur_ns}, (err))

enum ks_status ks_trace_builder_slice(struct ks_trace_builder *builder,
                                      const struct ks_slice_row *row, struct ks_err *err)
{
    KS_TRY(APPEND(slice, row, err));
    if (ks_slice_is_link(row)) {
        struct ks_built_source *source = builder->open_source;
        source->link_count++;
        source->corr_min = row->corr < source->corr_min ? row->corr : source->corr_min;
        source->corr_max = row->corr > source->corr_max ? row->corr : source->corr_max;
    }
    return KS_OK;
}

enum ks_status ks_trace_builder_gpu(struct ks_trace_builder *builder, const struct ks_gpu_row *row,
                                    struct ks_err *err)
{
    return APPEND(gpu, row, err);
}

enum ks_status ks_trace_builder_memory(struct ks_trace_builder *builder,
                                       const struct ks_memory_row *row, struct ks_err *err)
{
    return APPEND(memory, row, err);
}

enum ks_status ks_trace_builder_mark(struct ks_trace_builder *builder,
                                     const struct ks_mark_row *row, struct ks_err *err)
{
    return APPEND(mark, row, err);
}

enum ks_status ks_trace_builder_sample(struct ks_trace_builder *builder,
                                       const struct ks_sample_row *row, struct ks_err *err)
{
    return APPEND(sample, row, err);
}

/* ------------------------------------------------------------------ stacks and call paths */

enum ks_status ks_trace_builder_stack(struct ks_trace_builder *builder,
                                      const struct ks_stack *stack, uint32_t *id,
                                      struct ks_err *err)
{
    KS_ASSERT(builder->open_source && stack->caller <= builder->stack_count &&
              (stack->caller == 0 || stack->caller > builder->open_source->stack_begin));
    if (builder->stack_count == UINT32_MAX / 2 ||
        !reserve_item((void **)&builder->stacks, builder->stack_count, &builder->stack_capacity,
                      sizeof(*stack))) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot add stack: count=%u",
                       builder->stack_count);
    }
    builder->stacks[builder->stack_count++] = *stack;
    *id = builder->stack_count;
    return KS_OK;
}

enum ks_status ks_trace_builder_call_path(struct ks_trace_builder *builder,
                                          const struct ks_call_path *path, uint32_t *id,
                                          struct ks_err *err)
{
    KS_ASSERT(builder->open_source && path->parent <= builder->call_path_count &&
              (path->parent == 0 || path->parent > builder->open_source->path_begin));
    if (builder->call_path_count == UINT32_MAX / 2 ||
        !reserve_item((void **)&builder->call_paths, builder->call_path_count,
                      &builder->call_path_capacity, sizeof(*path))) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot add call path: count=%u",
                       builder->call_path_count);
    }
    builder->call_paths[builder->call_path_count++] = *path;
    *id = builder->call_path_count;
    return KS_OK;
}

/* ------------------------------------------------------------------ strings and collectives */

enum ks_status ks_trace_builder_intern(struct ks_trace_builder *builder, struct ks_str text,
                                       struct ks_strid *out, struct ks_err *err)
{
    return ks_strpool_intern(builder->strings, text, out, err);
}

struct ks_str ks_trace_builder_str(const struct ks_trace_builder *builder, struct ks_strid id)
{
    return ks_strpool_get(builder->strings, id);
}

static_assert(sizeof(struct ks_collective) == 4 * sizeof(uint32_t) + 4 * sizeof(int64_t),
              "collectives are hashed and compared as bytes, so they must not hold padding");

enum ks_status ks_trace_builder_collective(struct ks_trace_builder *builder,
                                           const struct ks_collective *collective, uint32_t *id,
                                           struct ks_err *err)
{
    if (builder->collective_count == UINT32_MAX / 2 ||
        !reserve_item((void **)&builder->collectives, builder->collective_count,
                      &builder->collective_capacity, sizeof(*collective))) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot add collective: count=%u",
                       builder->collective_count);
    }
    uint64_t hash = XXH3_64bits(collective, sizeof(*collective));
    /* Unequal ones of the same hash are told apart by the second half of the key. */
    for (uint64_t i = 0;; i++) {
        bool added = false;
        uint64_t *value = ks_map_put(&builder->collective_ids, hash, i, &added);
        if (!value) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot add collective: count=%u",
                           builder->collective_count);
        }
        if (added) {
            builder->collectives[builder->collective_count++] = *collective;
            *value = builder->collective_count;
        } else if (memcmp(&builder->collectives[*value - 1], collective, sizeof(*collective)) !=
                   0) {
            continue;
        }
        *id = (uint32_t)*value;
        return KS_OK;
    }
}

/* ------------------------------------------------------------------ tracks */

/* Part of the key of a track: what it is, and whether its number is that of a string. */
static uint64_t key_of_kind(enum ks_track_kind kind, bool is_text, uint32_t owner)
{
    return (uint64_t)owner << 8 | (uint64_t)kind << 1 | is_text;
}

enum ks_status ks_trace_builder_find_or_add(struct ks_trace_builder *builder,
                                            enum ks_track_kind kind, uint32_t parent,
                                            struct ks_track_key key, uint32_t *track,
                                            struct ks_err *err)
{
    KS_ASSERT(builder->open_source);
    uint32_t source = builder->source_count - 1;
    bool is_text = key.text.v != 0;
    uint64_t a = key_of_kind(kind, is_text, parent ? parent : source);
    uint64_t b = is_text ? key.text.v : (uint64_t)key.number;
    const uint64_t *there = ks_map_find(&builder->track_ids, a, b);
    if (there) {
        *track = (uint32_t)*there;
        return KS_OK;
    }
    if (builder->track_count >= TRACKS_MAX) {
        return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET, "Cannot add track: count=%u",
                       builder->track_count);
    }
    uint64_t *value = NULL;
    if (reserve_item((void **)&builder->tracks, builder->track_count, &builder->track_capacity,
                     sizeof(*builder->tracks))) {
        value = ks_map_put(&builder->track_ids, a, b, NULL);
    }
    if (!value) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot add track: count=%u",
                       builder->track_count);
    }
    *track = builder->track_count++;
    *value = *track;
    builder->tracks[*track] = (struct ks_track){
        .kind = kind,
        .source = source,
        .parent = parent,
        .number = is_text ? -1 : key.number,
        .text = key.text,
    };
    return KS_OK;
}

enum ks_status ks_trace_builder_process(struct ks_trace_builder *builder, struct ks_track_key pid,
                                        uint32_t *track, struct ks_err *err)
{
    return ks_trace_builder_find_or_add(builder, KS_TRACK_PROCESS, 0, pid, track, err);
}

static bool same_key(struct ks_track_key a, struct ks_track_key b)
{
    return a.text.v == b.text.v && (a.text.v != 0 || a.number == b.number);
}

static size_t recent_index(uint64_t a, uint64_t b)
{
    uint64_t mixed = (a * 31 ^ b) * 0x9E3779B97F4A7C15u;
    return (size_t)(mixed >> 32) % KS_RECENT_COUNT;
}

enum ks_status ks_trace_builder_thread(struct ks_trace_builder *builder, struct ks_track_key pid,
                                       struct ks_track_key tid, uint32_t *track, struct ks_err *err)
{
    size_t index =
        recent_index((uint64_t)pid.number ^ pid.text.v, (uint64_t)tid.number ^ tid.text.v);
    struct ks_recent_thread *recent = &builder->recent_threads[index];
    if (recent->track != 0 && same_key(recent->tid, tid) && same_key(recent->pid, pid)) {
        *track = recent->track;
        return KS_OK;
    }
    uint32_t process = 0;
    KS_TRY(ks_trace_builder_process(builder, pid, &process, err));
    KS_TRY(ks_trace_builder_find_or_add(builder, KS_TRACK_THREAD, process, tid, track, err));
    *recent = (struct ks_recent_thread){pid, tid, *track};
    return KS_OK;
}

enum ks_status ks_trace_builder_stream(struct ks_trace_builder *builder, int64_t device,
                                       int64_t stream, uint32_t *device_track,
                                       uint32_t *stream_track, struct ks_err *err)
{
    struct ks_recent_stream *recent =
        &builder->recent_streams[recent_index((uint64_t)device, (uint64_t)stream)];
    if (recent->stream_track == 0 || recent->device != device || recent->stream != stream) {
        struct ks_recent_stream made = {.device = device, .stream = stream};
        struct ks_track_key device_key = {.number = device};
        struct ks_track_key stream_key = {.number = stream};
        KS_TRY(ks_trace_builder_find_or_add(builder, KS_TRACK_DEVICE, 0, device_key,
                                            &made.device_track, err));
        KS_TRY(ks_trace_builder_find_or_add(builder, KS_TRACK_STREAM, made.device_track, stream_key,
                                            &made.stream_track, err));
        *recent = made;
    }
    *device_track = recent->device_track;
    *stream_track = recent->stream_track;
    return KS_OK;
}

enum ks_status ks_trace_builder_async(struct ks_trace_builder *builder, struct ks_track_key pid,
                                      uint32_t *track, struct ks_err *err)
{
    uint32_t process = 0;
    KS_TRY(ks_trace_builder_process(builder, pid, &process, err));
    struct ks_track_key none = {0};
    return ks_trace_builder_find_or_add(builder, KS_TRACK_ASYNC, process, none, track, err);
}

struct ks_track *ks_trace_builder_track(struct ks_trace_builder *builder, uint32_t track)
{
    KS_ASSERT(track > 0 && track < builder->track_count);
    return &builder->tracks[track];
}
