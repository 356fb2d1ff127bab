#include "store/table.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/err.h"

enum {
    BLOCK_ROWS = 128, /* rows of this many stay in the first cache while their columns are cut */
    LANES_MIN = 16,
};

/* clang-format off */
#define COLUMN_OF(table, column, type) {offsetof(struct ks_##table##_row, column), sizeof(type)},
static const struct ks_table_layout layouts[KS_TABLE_COUNT] = {
    [KS_TABLE_slice] = {sizeof(struct ks_slice_row), KS_SLICE_COL_COUNT, {
#define KS_SLICE_COLUMN(column, type) COLUMN_OF(slice, column, type)
#include "store/tables.def"
    }},
    [KS_TABLE_gpu] = {sizeof(struct ks_gpu_row), KS_GPU_COL_COUNT, {
#define KS_GPU_COLUMN(column, type) COLUMN_OF(gpu, column, type)
#include "store/tables.def"
    }},
    [KS_TABLE_memory] = {sizeof(struct ks_memory_row), KS_MEMORY_COL_COUNT, {
#define KS_MEMORY_COLUMN(column, type) COLUMN_OF(memory, column, type)
#include "store/tables.def"
    }},
    [KS_TABLE_mark] = {sizeof(struct ks_mark_row), KS_MARK_COL_COUNT, {
#define KS_MARK_COLUMN(column, type) COLUMN_OF(mark, column, type)
#include "store/tables.def"
    }},
    [KS_TABLE_sample] = {sizeof(struct ks_sample_row), KS_SAMPLE_COL_COUNT, {
#define KS_SAMPLE_COLUMN(column, type) COLUMN_OF(sample, column, type)
#include "store/tables.def"
    }},
    [KS_TABLE_link] = {sizeof(struct ks_link_row), KS_LINK_COL_COUNT, {
#define KS_LINK_COLUMN(column, type) COLUMN_OF(link, column, type)
#include "store/tables.def"
    }},
};

#define CHECK_HEAD(table)                                                                          \
    static_assert(offsetof(struct ks_##table##_row, lane) == offsetof(struct ks_row_head, lane) && \
                      offsetof(struct ks_##table##_row, order) ==                                  \
                          offsetof(struct ks_row_head, order) &&                                   \
                      offsetof(struct ks_##table##_row, start_ns) ==                               \
                          offsetof(struct ks_row_head, start_ns) &&                                \
                      offsetof(struct ks_##table##_row, dur_ns) ==                                 \
                          offsetof(struct ks_row_head, dur_ns),                                    \
                  "each row begins with lane, order, start_ns, dur_ns");
KS_TABLE_LIST(CHECK_HEAD)
/* clang-format on */

const struct ks_table_layout *ks_table_layout(enum ks_table_id table)
{
    KS_ASSERT((unsigned)table < KS_TABLE_COUNT);
    return &layouts[table];
}

enum ks_status ks_table_init(struct ks_table *table, enum ks_table_id id, uint32_t chunk_rows,
                             uint64_t rows_total, struct ks_err *err)
{
    *table = (struct ks_table){
        .layout = ks_table_layout(id),
        .chunk_shift = (uint32_t)__builtin_ctz(chunk_rows),
        .rows_total = rows_total,
    };
    uint64_t chunk_count = rows_total / chunk_rows + (rows_total % chunk_rows > 0);
    if (chunk_count == 0) {
        return KS_OK;
    }
    table->chunks = ks_alloc(chunk_count, table->layout->column_count * sizeof(*table->chunks));
    table->chunk_starts = ks_alloc(chunk_count, sizeof(*table->chunk_starts));
    if (!table->chunks || !table->chunk_starts) {
        ks_table_release(table);
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot create table: chunks=%llu",
                       (unsigned long long)chunk_count);
    }
    return KS_OK;
}

void ks_table_release(struct ks_table *table)
{
    ks_free(table->chunks);
    ks_free(table->chunk_starts);
    ks_free(table->lanes);
    table->chunks = NULL;
    table->chunk_starts = NULL;
    table->lanes = NULL;
}

static enum ks_status open_chunk(struct ks_table *table, struct ks_chunk_pool *pool,
                                 struct ks_err *err)
{
    uint64_t left = table->rows_total - table->rows;
    uint64_t rows = left < ks_table_chunk_rows(table) ? left : ks_table_chunk_rows(table);
    size_t column_count = table->layout->column_count;
    struct ks_chunk **chunks = &table->chunks[(table->rows >> table->chunk_shift) * column_count];
    for (size_t i = 0; i < column_count; i++) {
        size_t size = (size_t)rows * table->layout->columns[i].size;
        enum ks_status status = ks_chunk_create_raw(pool, size, &chunks[i], err);
        if (status != KS_OK) {
            while (i-- > 0) {
                ks_chunk_destroy(pool, chunks[i]);
                chunks[i] = NULL;
            }
            return status;
        }
    }
    table->is_open = true;
    return KS_OK;
}

static void close_chunk(struct ks_table *table, struct ks_chunk_pool *pool, uint64_t chunk)
{
    for (size_t i = 0; i < table->layout->column_count; i++) {
        ks_chunk_unpin(pool, ks_table_chunk(table, chunk, i), true);
    }
    table->is_open = false;
}

/* One lane more, unless it is the one that the rows are in already. */
static enum ks_status enter_lane(struct ks_table *table, uint32_t track, uint64_t row,
                                 struct ks_err *err)
{
    if (table->lane_count > 0 && table->lanes[table->lane_count - 1].track == track) {
        return KS_OK;
    }
    if (table->lane_count == table->lane_capacity) {
        size_t capacity = table->lane_capacity == 0 ? LANES_MIN : table->lane_capacity * 2;
        struct ks_lane *lanes = ks_realloc(table->lanes, capacity, sizeof(*lanes));
        if (!lanes) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot grow lanes: count=%zu",
                           capacity);
        }
        table->lanes = lanes;
        table->lane_capacity = capacity;
    }
    KS_DCHECK(table->lane_count == 0 || table->lanes[table->lane_count - 1].track < track);
    table->lanes[table->lane_count++] = (struct ks_lane){track, row, row};
    return KS_OK;
}

static enum ks_status note_lanes(struct ks_table *table, const char *rows, size_t count,
                                 struct ks_err *err)
{
    size_t row_size = table->layout->row_size;
    uint32_t last = ks_row_head_at(rows + (count - 1) * row_size).lane;
    if (ks_row_head_at(rows).lane == last) { // sorted, so all are the same
        KS_TRY(enter_lane(table, last, table->rows, err));
        table->lanes[table->lane_count - 1].row_end = table->rows + count;
        return KS_OK;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t lane = ks_row_head_at(rows + i * row_size).lane;
        KS_TRY(enter_lane(table, lane, table->rows + i, err));
        table->lanes[table->lane_count - 1].row_end = table->rows + i + 1;
    }
    return KS_OK;
}

/* Fixed sizes let the compiler turn each memcpy into one move. */
static void cut_column(char *to, const char *from, size_t row_size, size_t size, size_t count)
{
    switch (size) {
    case 1:
        for (size_t i = 0; i < count; i++) {
            to[i] = from[i * row_size];
        }
        break;
    case 2:
        for (size_t i = 0; i < count; i++) {
            memcpy(to + i * 2, from + i * row_size, 2);
        }
        break;
    case 4:
        for (size_t i = 0; i < count; i++) {
            memcpy(to + i * 4, from + i * row_size, 4);
        }
        break;
    default:
        for (size_t i = 0; i < count; i++) {
            memcpy(to + i * 8, from + i * row_size, 8);
        }
        break;
    }
}

static void cut_columns(struct ks_table *table, const char *rows, size_t count)
{
    const struct ks_table_layout *layout = table->layout;
    uint64_t chunk = table->rows >> table->chunk_shift;
    size_t in_chunk = (size_t)(table->rows & (ks_table_chunk_rows(table) - 1));
    for (size_t i = 0; i < layout->column_count; i++) {
        const struct ks_column *column = &layout->columns[i];
        char *to = (char *)ks_table_chunk(table, chunk, i)->ptr + in_chunk * column->size;
        cut_column(to, rows + column->offset, layout->row_size, column->size, count);
    }
}

enum ks_status ks_table_append(struct ks_table *table, struct ks_chunk_pool *pool, const char *rows,
                               size_t count, struct ks_err *err)
{
    uint32_t chunk_rows = ks_table_chunk_rows(table);
    KS_ASSERT(count <= table->rows_total - table->rows);
    while (count > 0) {
        uint64_t chunk = table->rows >> table->chunk_shift;
        size_t room = chunk_rows - (size_t)(table->rows & (chunk_rows - 1));
        size_t n = count < room ? count : room;
        n = n < BLOCK_ROWS ? n : BLOCK_ROWS;
        if (!table->is_open) {
            KS_TRY(open_chunk(table, pool, err));
            table->chunk_starts[chunk] = ks_row_head_at(rows).start_ns;
        }
        KS_TRY(note_lanes(table, rows, n, err));
        cut_columns(table, rows, n);
        table->rows += n;
        if ((table->rows & (chunk_rows - 1)) == 0) {
            close_chunk(table, pool, chunk);
        }
        rows += n * table->layout->row_size;
        count -= n;
    }
    return KS_OK;
}

void ks_table_finish(struct ks_table *table, struct ks_chunk_pool *pool)
{
    KS_ASSERT(table->rows == table->rows_total);
    if (table->is_open) {
        close_chunk(table, pool, (table->rows - 1) >> table->chunk_shift);
    }
}
