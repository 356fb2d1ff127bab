/* A sealed table while it is written and read: columns in chunks of chunk_rows rows, the lanes, and
 * the first start of each chunk (what searches by time start from). Rows come sorted, row-wise, and
 * are never moved again; their number is known before the first one, so that no column is larger
 * than it needs to be. The chunks belong to the pool. Internal to store/. */
#ifndef KS_STORE_TABLE_H
#define KS_STORE_TABLE_H

#include "store/trace.h"

/* What each row of each table begins with, and is sorted by. */
struct ks_row_head {
    uint32_t lane;
    uint32_t order; /* among rows of the same span: what began first comes first */
    int64_t start_ns;
    int64_t dur_ns;
};

/* Lane ascending, start ascending, longest first, order ascending. Computed without branches,
 * because where rows interleave no branch could be predicted. */
static inline bool ks_row_head_before(const struct ks_row_head *a, const struct ks_row_head *b)
{
    unsigned by_order = (unsigned)(a->dur_ns == b->dur_ns) & (unsigned)(a->order < b->order);
    unsigned by_dur = (unsigned)(a->dur_ns > b->dur_ns) | by_order;
    unsigned by_start =
        (unsigned)(a->start_ns < b->start_ns) | ((unsigned)(a->start_ns == b->start_ns) & by_dur);
    return (unsigned)(a->lane < b->lane) | ((unsigned)(a->lane == b->lane) & by_start);
}

static inline struct ks_row_head ks_row_head_at(const char *row)
{
    struct ks_row_head head;
    memcpy(&head, row, sizeof(head)); // rows are of many types: no pointer to one of them fits
    return head;
}

struct ks_column {
    uint16_t offset; /* in the row */
    uint16_t size;   /* 1, 2, 4 or 8 */
};

struct ks_table_layout {
    size_t row_size;
    size_t column_count;
    struct ks_column columns[KS_COLUMNS_MAX];
};

const struct ks_table_layout *ks_table_layout(enum ks_table_id table);

struct ks_table {
    const struct ks_table_layout *layout;
    uint32_t chunk_shift; /* log2 of chunk_rows */
    uint64_t rows;        /* written until now */
    uint64_t rows_total;
    struct ks_chunk **chunks; /* [chunk][column] */
    int64_t *chunk_starts;    /* start_ns of the first row of each chunk */
    struct ks_lane *lanes;
    size_t lane_count;
    size_t lane_capacity;
    bool is_open; /* the last chunk is pinned */
};

/* `chunk_rows` is a power of two. */
enum ks_status ks_table_init(struct ks_table *table, enum ks_table_id id, uint32_t chunk_rows,
                             uint64_t rows_total, struct ks_err *err) KS_MUST_CHECK;
void ks_table_release(struct ks_table *table);
enum ks_status ks_table_append(struct ks_table *table, struct ks_chunk_pool *pool, const char *rows,
                               size_t count, struct ks_err *err) KS_MUST_CHECK;
/* All rows are written: asserts that they are as many as promised, unpins the last chunk. */
void ks_table_finish(struct ks_table *table, struct ks_chunk_pool *pool);

static inline uint32_t ks_table_chunk_rows(const struct ks_table *table)
{
    return (uint32_t)1 << table->chunk_shift;
}

static inline struct ks_chunk *ks_table_chunk(const struct ks_table *table, uint64_t chunk,
                                              size_t column)
{
    return table->chunks[chunk * table->layout->column_count + column];
}

#endif
