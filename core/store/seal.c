/* Sealing: the runs of the chosen sources become the tables of a trace.
 *
 * Sources come one after the other: their tracks follow each other, so the lanes of a later source
 * lie behind those of an earlier one. For each source the slices are merged first, and those that
 * are calls with a correlation also become rows of table link; then GPU rows look their call up. */
#include "base/alloc.h"
#include "base/err.h"
#include "store/builder_impl.h"
#include "store/trace_impl.h"

enum {
    LINKS_STAGED = 128,
    ROWS_AT_ONCE =
        128, /* rows are changed and cut into columns while they are in the first cache */
    /* A plain array of correlations may have so many places for each call: every call of CUDA takes
     * a number, recorded or not, and a map takes more than these. */
    INDEX_SPARE = 16,
};

/* Which row of table link a correlation of this source has. Correlations count up, so mostly a
 * plain array does; else a map. */
struct corr_index {
    uint32_t *rows; /* by corr - corr_min: 1 + row - first row of the source; 0: none */
    int64_t corr_min;
    uint64_t count;
    bool is_map;
    struct ks_map map;
};

/* The chunk of table link where the last looked-up call is, pinned. */
struct link_window {
    uint64_t chunk; /* UINT64_MAX: none */
    const uint32_t *lane;
    const int64_t *start_ns;
    const int64_t *dur_ns;
    int64_t *gpu_first_ns;
    int64_t *gpu_end_ns;
    uint32_t *gpu_count;
};

static const uint8_t window_columns[] = {
    KS_LINK_COL_lane,         KS_LINK_COL_start_ns,   KS_LINK_COL_dur_ns,
    KS_LINK_COL_gpu_first_ns, KS_LINK_COL_gpu_end_ns, KS_LINK_COL_gpu_count,
};

struct sealer {
    struct ks_trace_builder *builder;
    struct ks_trace *trace;
    uint8_t *link_kinds; /* by string: 1 + enum ks_link_kind, 0: not looked at yet */
    struct corr_index corrs;
    struct link_window window;
    struct ks_link_row links[LINKS_STAGED];
    size_t link_count;
    uint64_t links_added; /* of all sources, staged ones too */
    /* Of the source that is being merged: */
    struct ks_built_source *source;
    int64_t shift_ns;
    uint32_t lane_shift;
    uint32_t stack_shift;
    uint64_t link_begin;
    uint32_t memory_lane; /* lane of the running sums */
    uint64_t host_sum;
    uint64_t device_sum;
};

static enum ks_status fail_nomem(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot seal trace: reason=\"out of memory\"");
}

/* ------------------------------------------------------------------ links */

static enum ks_status index_init(struct corr_index *index, const struct ks_built_source *source,
                                 struct ks_err *err)
{
    *index = (struct corr_index){.corr_min = source->corr_min};
    if (source->link_count == 0) {
        return KS_OK;
    }
    uint64_t range = (uint64_t)source->corr_max - (uint64_t)source->corr_min;
    if (source->link_count >= UINT32_MAX || range / INDEX_SPARE > source->link_count) {
        index->is_map = true;
        ks_map_init(&index->map);
        return KS_OK;
    }
    index->count = range + 1;
    index->rows = ks_alloc(index->count, sizeof(*index->rows));
    return index->rows ? KS_OK : fail_nomem(err);
}

static void index_release(struct corr_index *index)
{
    ks_free(index->rows);
    if (index->is_map) {
        ks_map_release(&index->map);
    }
    *index = (struct corr_index){0};
}

/* A correlation that comes twice, because the counter wrapped, means the call that is listed
 * last. */
static enum ks_status index_put(struct corr_index *index, int64_t corr, uint64_t row,
                                struct ks_err *err)
{
    if (!index->is_map) {
        index->rows[(uint64_t)corr - (uint64_t)index->corr_min] = (uint32_t)row + 1;
        return KS_OK;
    }
    uint64_t *value = ks_map_put(&index->map, (uint64_t)corr, 0, NULL);
    if (!value) {
        return fail_nomem(err);
    }
    *value = row;
    return KS_OK;
}

/* Row counted from the first of the source. */
static bool index_find(const struct corr_index *index, int64_t corr, uint64_t *row)
{
    if (index->is_map) {
        const uint64_t *value = ks_map_find(&index->map, (uint64_t)corr, 0);
        *row = value ? *value : 0;
        return value != NULL;
    }
    uint64_t place = (uint64_t)corr - (uint64_t)index->corr_min;
    if (corr < index->corr_min || place >= index->count || index->rows[place] == 0) {
        return false;
    }
    *row = index->rows[place] - 1;
    return true;
}

static enum ks_link_kind kind_of_name(struct sealer *s, uint32_t name)
{
    if (s->link_kinds[name] == 0) {
        struct ks_str text = ks_strpool_get(s->builder->strings, (struct ks_strid){name});
        s->link_kinds[name] = (uint8_t)(1 + ks_link_kind_of(text));
    }
    return (enum ks_link_kind)(s->link_kinds[name] - 1);
}

static enum ks_status flush_links(struct sealer *s, struct ks_err *err)
{
    size_t count = s->link_count;
    s->link_count = 0;
    return ks_table_append(&s->trace->tables[KS_TABLE_link], s->builder->pool,
                           (const char *)s->links, count, err);
}

static enum ks_status add_link(struct sealer *s, const struct ks_slice_row *row, struct ks_err *err)
{
    if (s->link_count == LINKS_STAGED) {
        KS_TRY(flush_links(s, err));
    }
    KS_TRY(index_put(&s->corrs, row->corr, s->links_added - s->link_begin, err));
    s->links[s->link_count++] = (struct ks_link_row){
        .lane = row->lane,
        .start_ns = row->start_ns,
        .dur_ns = row->dur_ns,
        .corr = row->corr,
        .ext_id = row->ext_id,
        .gpu_first_ns = KS_TIME_NONE,
        .gpu_end_ns = KS_TIME_NONE,
        .name = row->name,
        .kind = (uint8_t)kind_of_name(s, row->name),
    };
    s->links_added++;
    return KS_OK;
}

static void close_window(struct sealer *s)
{
    if (s->window.chunk != UINT64_MAX) {
        const struct ks_table *table = &s->trace->tables[KS_TABLE_link];
        for (size_t i = 0; i < KS_COUNT_OF(window_columns); i++) {
            ks_chunk_unpin(s->builder->pool,
                           ks_table_chunk(table, s->window.chunk, window_columns[i]), true);
        }
        s->window.chunk = UINT64_MAX;
    }
}

static enum ks_status open_window(struct sealer *s, uint64_t chunk, struct ks_err *err)
{
    const struct ks_table *table = &s->trace->tables[KS_TABLE_link];
    struct ks_chunk_pool *pool = s->builder->pool;
    close_window(s);
    for (size_t i = 0; i < KS_COUNT_OF(window_columns); i++) {
        enum ks_status status =
            ks_chunk_pin(pool, ks_table_chunk(table, chunk, window_columns[i]), err);
        if (status != KS_OK) {
            while (i-- > 0) {
                ks_chunk_unpin(pool, ks_table_chunk(table, chunk, window_columns[i]), false);
            }
            return status;
        }
    }
    s->window = (struct link_window){
        .chunk = chunk,
        .lane = ks_table_chunk(table, chunk, KS_LINK_COL_lane)->ptr,
        .start_ns = ks_table_chunk(table, chunk, KS_LINK_COL_start_ns)->ptr,
        .dur_ns = ks_table_chunk(table, chunk, KS_LINK_COL_dur_ns)->ptr,
        .gpu_first_ns = ks_table_chunk(table, chunk, KS_LINK_COL_gpu_first_ns)->ptr,
        .gpu_end_ns = ks_table_chunk(table, chunk, KS_LINK_COL_gpu_end_ns)->ptr,
        .gpu_count = ks_table_chunk(table, chunk, KS_LINK_COL_gpu_count)->ptr,
    };
    return KS_OK;
}

/* ------------------------------------------------------------------ rows of each table */

static enum ks_status seal_slices(struct sealer *s, struct ks_slice_row *rows, size_t count,
                                  struct ks_err *err)
{
    for (size_t i = 0; i < count; i++) {
        struct ks_slice_row *row = &rows[i];
        row->lane -= s->lane_shift;
        row->start_ns += s->shift_ns;
        if (ks_slice_is_link(row)) {
            KS_TRY(add_link(s, row, err));
        }
    }
    return KS_OK;
}

/* Tells the call and the GPU row about each other. */
static enum ks_status join(struct sealer *s, struct ks_gpu_row *row, uint64_t link, bool is_work,
                           struct ks_err *err)
{
    const struct ks_table *table = &s->trace->tables[KS_TABLE_link];
    uint64_t chunk = link >> table->chunk_shift;
    if (chunk != s->window.chunk) {
        KS_TRY(open_window(s, chunk, err));
    }
    struct link_window *window = &s->window;
    size_t at = (size_t)(link & (ks_table_chunk_rows(table) - 1));
    row->launch_ns = window->start_ns[at];
    row->launch_end_ns = window->start_ns[at] + window->dur_ns[at];
    row->launch_lane = window->lane[at];
    if (!is_work) {
        return KS_OK;
    }
    int64_t end_ns = row->start_ns + row->dur_ns;
    bool is_first = window->gpu_count[at]++ == 0;
    if (is_first || row->start_ns < window->gpu_first_ns[at]) {
        window->gpu_first_ns[at] = row->start_ns;
    }
    if (is_first || end_ns > window->gpu_end_ns[at]) {
        window->gpu_end_ns[at] = end_ns;
    }
    return KS_OK;
}

static enum ks_status seal_gpu(struct sealer *s, struct ks_gpu_row *rows, size_t count,
                               struct ks_err *err)
{
    uint64_t *counts = s->source->source.counts;
    for (size_t i = 0; i < count; i++) {
        struct ks_gpu_row *row = &rows[i];
        row->lane -= s->lane_shift;
        row->stream -= row->stream ? s->lane_shift : 0;
        row->start_ns += s->shift_ns;
        row->launch_ns = KS_TIME_NONE;
        row->launch_end_ns = KS_TIME_NONE;
        row->launch_lane = 0;

        bool is_work = ks_category_is_work((enum ks_category)row->category);
        uint64_t link = 0;
        bool is_linked = (is_work || row->category == KS_CATEGORY_GPU_SYNC) && row->corr >= 0 &&
                         index_find(&s->corrs, row->corr, &link);
        if (is_linked) {
            KS_TRY(join(s, row, s->link_begin + link, is_work, err));
        }
        if (is_work) {
            counts[KS_STAT_gpu_work_without_launch] += !is_linked;
            counts[KS_STAT_gpu_before_launch] += is_linked && row->start_ns < row->launch_ns;
            counts[KS_STAT_zero_duration] += row->dur_ns == 0;
        }
    }
    return KS_OK;
}

/* c10::DeviceType, c10/core/DeviceType.h. */
static bool is_host_memory(uint8_t device_type)
{
    return device_type == 0 || device_type == 2 || device_type == 5; // CPU, MKLDNN, IDEEP
}

static bool is_device_memory(uint8_t device_type)
{
    return device_type == 1 || device_type == 6 || device_type == 12 ||
           device_type == 20; // CUDA, HIP, XPU, PrivateUse1
}

/* The sums wrap around on absurd input; their differences, all they are for, stay right. */
static enum ks_status seal_memory(struct sealer *s, struct ks_memory_row *rows, size_t count,
                                  struct ks_err *err)
{
    (void)err;
    for (size_t i = 0; i < count; i++) {
        struct ks_memory_row *row = &rows[i];
        row->lane -= s->lane_shift;
        row->start_ns += s->shift_ns;
        if (row->lane != s->memory_lane) {
            s->memory_lane = row->lane;
            s->host_sum = 0;
            s->device_sum = 0;
        }
        if (!(row->flags & KS_MEMORY_OUT_OF_MEMORY)) {
            s->host_sum += is_host_memory(row->device_type) ? (uint64_t)row->bytes : 0;
            s->device_sum += is_device_memory(row->device_type) ? (uint64_t)row->bytes : 0;
        }
        row->host_sum = (int64_t)s->host_sum;
        row->device_sum = (int64_t)s->device_sum;
    }
    return KS_OK;
}

static enum ks_status seal_marks(struct sealer *s, struct ks_mark_row *rows, size_t count,
                                 struct ks_err *err)
{
    (void)err;
    for (size_t i = 0; i < count; i++) {
        rows[i].lane -= s->lane_shift;
        rows[i].start_ns += s->shift_ns;
    }
    return KS_OK;
}

static enum ks_status seal_samples(struct sealer *s, struct ks_sample_row *rows, size_t count,
                                   struct ks_err *err)
{
    (void)err;
    for (size_t i = 0; i < count; i++) {
        rows[i].lane -= s->lane_shift;
        rows[i].start_ns += s->shift_ns;
        rows[i].stack -= rows[i].stack ? s->stack_shift : 0;
    }
    return KS_OK;
}

/* The sink of the merge of each table: changes a few rows, cuts them into columns, goes on. */
#define DEFINE_SINK(table, seal_rows)                                                              \
    static enum ks_status take_##table(void *user, char *rows, size_t count, struct ks_err *err)   \
    {                                                                                              \
        struct sealer *s = user;                                                                   \
        struct ks_##table##_row *next = (struct ks_##table##_row *)(void *)rows;                   \
        while (count > 0) {                                                                        \
            size_t n = count < ROWS_AT_ONCE ? count : ROWS_AT_ONCE;                                \
            KS_TRY(seal_rows(s, next, n, err));                                                    \
            KS_TRY(ks_table_append(&s->trace->tables[KS_TABLE_##table], s->builder->pool,          \
                                   (const char *)next, n, err));                                   \
            next += n;                                                                             \
            count -= n;                                                                            \
        }                                                                                          \
        return KS_OK;                                                                              \
    }

DEFINE_SINK(slice, seal_slices)
DEFINE_SINK(gpu, seal_gpu)
DEFINE_SINK(memory, seal_memory)
DEFINE_SINK(mark, seal_marks)
DEFINE_SINK(sample, seal_samples)

/* ------------------------------------------------------------------ sources */

/* With a limit, so many runs can be pinned beside the chunks that are being written. */
static size_t fan_in_of(const struct ks_trace_builder *builder, enum ks_table_id id)
{
    uint64_t bytes_max = ks_chunk_pool_bytes_max(builder->pool);
    if (bytes_max == 0) {
        return SIZE_MAX;
    }
    uint64_t written = (uint64_t)builder->chunk_rows * builder->tables[id].row_size;
    uint64_t left = bytes_max > written ? bytes_max - written : 0;
    uint64_t fan_in = left / builder->run_bytes;
    return fan_in < 3 ? 2 : (size_t)fan_in - 1; // one for the run that a pass writes
}

static enum ks_status merge_table(struct sealer *s, enum ks_table_id id, struct ks_err *err)
{
    static const ks_rows_cb sinks[KS_BUILT_TABLES] = {take_slice, take_gpu, take_memory, take_mark,
                                                      take_sample};
    struct ks_builder_table *table = &s->builder->tables[id];
    const struct ks_source_rows *rows = &s->source->rows[id];
    struct ks_merge merge = {
        .pool = s->builder->pool,
        .row_size = table->row_size,
        .fan_in = fan_in_of(s->builder, id),
        .run_bytes = s->builder->run_bytes,
        .sink = sinks[id],
        .user = s,
    };
    if (rows->rows == 0) {
        return KS_OK;
    }
    return ks_merge_runs(&merge, table->runs + rows->run_begin, rows->run_end - rows->run_begin,
                         err);
}

/* Calls that should have launched work of which nothing was recorded. */
static enum ks_status count_idle_launches(struct sealer *s, struct ks_err *err)
{
    struct ks_link_scan scan;
    enum ks_status status = KS_OK;
    uint64_t columns = KS_COLUMN_BIT(KS_LINK_COL_kind) | KS_COLUMN_BIT(KS_LINK_COL_gpu_count);
    ks_link_scan_open(&scan, s->trace, columns, s->link_begin, s->links_added);
    while ((status = ks_link_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            bool is_idle = scan.col.kind[i] != KS_LINK_OTHER && scan.col.gpu_count[i] == 0;
            s->source->source.counts[KS_STAT_launches_without_work] += is_idle;
        }
    }
    ks_link_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status seal_source(struct sealer *s, struct ks_err *err)
{
    s->link_begin = s->links_added;
    KS_TRY(index_init(&s->corrs, s->source, err));
    KS_TRY(merge_table(s, KS_TABLE_slice, err));
    KS_TRY(flush_links(s, err));
    KS_TRY(merge_table(s, KS_TABLE_gpu, err));
    close_window(s);
    KS_TRY(count_idle_launches(s, err));
    index_release(&s->corrs);
    KS_TRY(merge_table(s, KS_TABLE_memory, err));
    KS_TRY(merge_table(s, KS_TABLE_mark, err));
    return merge_table(s, KS_TABLE_sample, err);
}

/* ------------------------------------------------------------------ the whole trace */

/* Keeps the sources of the run, at the front, and ends the runs of the others. */
static void choose_sources(struct ks_trace_builder *builder, int64_t run)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < builder->source_count; i++) {
        struct ks_built_source *source = builder->sources[i];
        if (run == 0 || source->source.run == run) {
            builder->sources[kept++] = source;
            continue;
        }
        for (size_t t = 0; t < KS_BUILT_TABLES; t++) {
            for (size_t r = source->rows[t].run_begin; r < source->rows[t].run_end; r++) {
                ks_chunk_destroy(builder->pool, builder->tables[t].runs[r].chunk);
                builder->tables[t].runs[r].chunk = NULL;
            }
        }
    }
    builder->source_count = kept;
}

static uint64_t rows_of(const struct ks_built_source *source)
{
    uint64_t rows = 0;
    for (size_t t = 0; t < KS_BUILT_TABLES; t++) {
        rows += source->rows[t].rows;
    }
    return rows;
}

static int64_t first_ns_of(const struct ks_built_source *source)
{
    int64_t first_ns = INT64_MAX;
    for (size_t t = 0; t < KS_BUILT_TABLES; t++) {
        int64_t start_ns = source->rows[t].start_ns_min;
        first_ns = start_ns < first_ns ? start_ns : first_ns;
    }
    return first_ns;
}

static int64_t end_ns_of(const struct ks_built_source *source)
{
    int64_t end_ns = INT64_MIN;
    for (size_t t = 0; t < KS_BUILT_TABLES; t++) {
        int64_t last_ns = source->rows[t].end_ns_max;
        end_ns = last_ns > end_ns ? last_ns : end_ns;
    }
    return end_ns;
}

/* The origin is the first start of all rows, so that start_ns begins at 0. */
static enum ks_status find_origin(struct sealer *s, struct ks_err *err)
{
    __int128 origin = 0;
    bool is_set = false;
    for (uint32_t i = 0; i < s->builder->source_count; i++) {
        const struct ks_built_source *source = s->builder->sources[i];
        if (rows_of(source) > 0) {
            __int128 first = (__int128)source->source.base_ns + first_ns_of(source);
            origin = !is_set || first < origin ? first : origin;
            is_set = true;
        }
    }
    if (origin > INT64_MAX || origin <= INT64_MIN) {
        return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET,
                       "Cannot seal trace: reason=\"the first time needs more than 64 bits\"");
    }
    s->trace->origin_ns = (int64_t)origin;
    return KS_OK;
}

/* What is added to times of the source. After this no time of it can overflow. */
static enum ks_status find_shift(const struct sealer *s, const struct ks_built_source *source,
                                 int64_t *shift_ns, struct ks_err *err)
{
    __int128 shift = (__int128)source->source.base_ns - s->trace->origin_ns;
    *shift_ns = 0;
    if (rows_of(source) == 0) {
        return KS_OK;
    }
    if (shift > INT64_MAX || shift <= INT64_MIN || shift + end_ns_of(source) > INT64_MAX) {
        return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET,
                       "Cannot seal trace: base_ns=%lld, origin_ns=%lld are too far apart",
                       (long long)source->source.base_ns, (long long)s->trace->origin_ns);
    }
    *shift_ns = (int64_t)shift;
    return KS_OK;
}

static void widen_span(struct sealer *s, const struct ks_built_source *source, int64_t shift_ns,
                       bool *is_set)
{
    static const enum ks_table_id tables[] = {KS_TABLE_slice, KS_TABLE_gpu};
    for (size_t i = 0; i < KS_COUNT_OF(tables); i++) {
        const struct ks_source_rows *rows = &source->rows[tables[i]];
        if (rows->rows == 0) {
            continue;
        }
        int64_t start_ns = rows->start_ns_min + shift_ns;
        int64_t end_ns = rows->end_ns_max + shift_ns;
        s->trace->start_ns =
            !*is_set || start_ns < s->trace->start_ns ? start_ns : s->trace->start_ns;
        s->trace->end_ns = !*is_set || end_ns > s->trace->end_ns ? end_ns : s->trace->end_ns;
        *is_set = true;
    }
}

static enum ks_status init_tables(struct sealer *s, struct ks_err *err)
{
    uint64_t totals[KS_TABLE_COUNT] = {0};
    for (uint32_t i = 0; i < s->builder->source_count; i++) {
        const struct ks_built_source *source = s->builder->sources[i];
        for (size_t t = 0; t < KS_BUILT_TABLES; t++) {
            totals[t] += source->rows[t].rows;
        }
        totals[KS_TABLE_link] += source->link_count;
    }
    for (size_t t = 0; t < KS_TABLE_COUNT; t++) {
        KS_TRY(ks_table_init(&s->trace->tables[t], (enum ks_table_id)t, s->builder->chunk_rows,
                             totals[t], err));
    }
    return KS_OK;
}

/* Tracks of left-out sources vanish; the others move up and keep their order. */
static void move_tracks(struct sealer *s, uint32_t source_index, uint32_t *next)
{
    const struct ks_built_source *source = s->builder->sources[source_index];
    struct ks_track *tracks = s->builder->tracks;
    s->lane_shift = source->track_begin - *next;
    for (uint32_t i = source->track_begin; i < source->track_end; i++) {
        struct ks_track track = tracks[i];
        track.source = source_index;
        track.parent -= track.parent ? s->lane_shift : 0;
        tracks[(*next)++] = track;
    }
}

/* The same of stacks and call paths; they go with their source. */
static void move_stacks(struct sealer *s, uint32_t *next)
{
    const struct ks_built_source *source = s->source;
    struct ks_stack *stacks = s->builder->stacks;
    s->stack_shift = source->stack_begin - *next;
    for (uint32_t i = source->stack_begin; i < source->stack_end; i++) {
        struct ks_stack stack = stacks[i];
        stack.caller -= stack.caller ? s->stack_shift : 0;
        stacks[(*next)++] = stack;
    }
}

static void move_call_paths(struct sealer *s, uint32_t *next)
{
    const struct ks_built_source *source = s->source;
    struct ks_call_path *paths = s->builder->call_paths;
    uint32_t shift = source->path_begin - *next;
    for (uint32_t i = source->path_begin; i < source->path_end; i++) {
        struct ks_call_path path = paths[i];
        path.track -= s->lane_shift;
        path.parent -= path.parent ? shift : 0;
        paths[(*next)++] = path;
    }
}

static enum ks_status seal_sources(struct sealer *s, struct ks_err *err)
{
    KS_TRY(find_origin(s, err));
    KS_TRY(init_tables(s, err));
    uint32_t track_next = 1;
    uint32_t stack_next = 0;
    uint32_t path_next = 0;
    bool has_span = false;
    for (uint32_t i = 0; i < s->builder->source_count; i++) {
        s->source = s->builder->sources[i];
        KS_TRY(find_shift(s, s->source, &s->shift_ns, err));
        move_tracks(s, i, &track_next);
        move_stacks(s, &stack_next);
        move_call_paths(s, &path_next);
        widen_span(s, s->source, s->shift_ns, &has_span);
        KS_TRY(seal_source(s, err));
    }
    s->builder->track_count = track_next;
    s->builder->stack_count = stack_next;
    s->builder->call_path_count = path_next;
    for (size_t t = 0; t < KS_TABLE_COUNT; t++) {
        ks_table_finish(&s->trace->tables[t], s->builder->pool);
    }
    return KS_OK;
}

/* Everything that lives on changes its owner; what is left of the builder can be destroyed. */
static void move_to_trace(struct ks_trace_builder *builder, struct ks_trace *trace)
{
    trace->pool = builder->pool;
    trace->strings = builder->strings;
    trace->arena = builder->arena;
    trace->tracks = builder->tracks;
    trace->track_count = builder->track_count;
    trace->collectives = builder->collectives;
    trace->collective_count = builder->collective_count;
    trace->stacks = builder->stacks;
    trace->stack_count = builder->stack_count;
    trace->call_paths = builder->call_paths;
    trace->call_path_count = builder->call_path_count;
    trace->source_count = builder->source_count;
    builder->pool = NULL;
    builder->strings = NULL;
    ks_arena_init(&builder->arena);
    builder->tracks = NULL;
    builder->collectives = NULL;
    builder->stacks = NULL;
    builder->call_paths = NULL;
}

static enum ks_status seal(struct sealer *s, int64_t run, struct ks_err *err)
{
    struct ks_trace_builder *builder = s->builder;
    struct ks_trace *trace = s->trace;
    if (builder->open_source) {
        KS_TRY(ks_trace_builder_source_close(builder, err));
    }
    choose_sources(builder, run);
    s->link_kinds = ks_alloc(ks_strpool_count(builder->strings), sizeof(*s->link_kinds));
    trace->sources = ks_alloc(builder->source_count, sizeof(*trace->sources));
    if (!s->link_kinds || !trace->sources) {
        return fail_nomem(err);
    }
    for (uint32_t i = 0; i < builder->source_count; i++) {
        trace->sources[i] = &builder->sources[i]->source;
    }
    trace->pool = builder->pool; // scans of finished links need it; the builder still owns it
    enum ks_status status = seal_sources(s, err);
    trace->pool = NULL;
    KS_TRY(status);
    move_to_trace(builder, trace);
    ks_chunk_pool_trim(trace->pool);
    return KS_OK;
}

enum ks_status ks_trace_builder_seal(struct ks_trace_builder *builder, int64_t run,
                                     struct ks_trace **out, struct ks_err *err)
{
    enum ks_status status = KS_OK;
    struct sealer *s = ks_alloc(1, sizeof(*s));
    struct ks_trace *trace = ks_alloc(1, sizeof(*trace));
    if (!s || !trace) {
        status = fail_nomem(err);
        goto done;
    }
    s->builder = builder;
    s->trace = trace;
    s->window.chunk = UINT64_MAX;
    status = seal(s, run, err);
done:
    if (s) {
        ks_free(s->link_kinds);
        index_release(&s->corrs);
        ks_free(s);
    }
    if (status == KS_OK) {
        *out = trace;
    } else {
        ks_trace_destroy(trace);
    }
    ks_trace_builder_destroy(builder);
    return status;
}
