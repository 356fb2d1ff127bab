/* What the files of the sealed format share. Internal to store/. */
#ifndef KS_STORE_KST_IMPL_H
#define KS_STORE_KST_IMPL_H

#include "base/bytes.h"
#include "store/kst.h"
#include "store/kst_codec.h"
#include "store/trace_impl.h"

#define KS_KST_MAGIC "\x8FKST\r\n\x1A\n"

enum {
    KS_KST_MAGIC_SIZE = 8,
    KS_KST_ENTRY_SIZE = 32,    /* a column of a chunk in the directory */
    KS_KST_TIMES_SIZE = 3 * 8, /* what stands before the columns of each chunk */
    KS_KST_LANE_SIZE = 4 + 2 * 8,
};

/* Where the column of a chunk lies, and what it hashes to. */
struct ks_kst_entry {
    uint64_t offset;
    uint64_t hash; /* XXH3-64 of the stored bytes */
    struct ks_kst_coding coding;
};

/* start_ns of the rows of a chunk. */
struct ks_kst_times {
    int64_t first_ns;
    int64_t last_ns;
    int64_t max_ns;
};

/* A range of the file that holds something else than a chunk. */
struct ks_kst_section {
    uint64_t offset;
    uint64_t size;
    uint64_t hash;
};

/* The open file behind a trace. Guarded by the lock of the trace's chunk pool. */
struct ks_kst {
    int fd;
    uint64_t file_size;
    struct ks_trace *trace;
    struct ks_kst_entry *entries;               /* by table, chunk, column */
    size_t entry_begin[KS_TABLE_COUNT + 1];     /* of each table */
    struct ks_kst_times *times[KS_TABLE_COUNT]; /* by chunk */
    char *scratch;                              /* stored bytes of one column */
    size_t scratch_size;
    atomic_bool is_damaged;
};

void ks_kst_release(struct ks_kst *kst); /* NULL is fine */

/* Names and types of all columns, categories and counters: files with others are of another
 * version. */
void ks_kst_put_schema(struct ks_text *out);

/* Sources, tracks and collectives; the other way round they come from untrusted bytes: what
 * refers to something that is not there fails. Strings must be loaded. */
void ks_kst_put_meta(const struct ks_trace *trace, struct ks_text *out);
enum ks_status ks_kst_take_meta(struct ks_bytes *bytes, struct ks_trace *trace, struct ks_err *err)
    KS_MUST_CHECK;

/* Is this how lanes and first starts of chunks look? NULL, or what is wrong. */
const char *ks_kst_check_table(const struct ks_trace *trace, enum ks_table_id id,
                               const struct ks_kst_times *times);
/* The same of the values of one column of a chunk; `row` is its first. */
const char *ks_kst_check_column(const struct ks_trace *trace, enum ks_table_id id, size_t column,
                                const struct ks_kst_times *times, uint64_t row, size_t count,
                                const void *values);

static inline uint64_t ks_table_chunk_count(const struct ks_table *table)
{
    return (table->rows + ks_table_chunk_rows(table) - 1) >> table->chunk_shift;
}

/* Rows of a chunk; all but the last are full. */
static inline size_t ks_table_rows_in(const struct ks_table *table, uint64_t chunk)
{
    uint64_t left = table->rows - (chunk << table->chunk_shift);
    return left < ks_table_chunk_rows(table) ? (size_t)left : ks_table_chunk_rows(table);
}

#endif
