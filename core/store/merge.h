/* Merges sorted runs of rows. A run is one chunk of the pool; it is pinned only while rows of it
 * are being taken, and destroyed with its last row, so that its memory can hold what is written
 * from it. Where runs do not interleave, whole stretches go to the sink without a comparison for
 * each row. Internal to store/. */
#ifndef KS_STORE_MERGE_H
#define KS_STORE_MERGE_H

#include "store/table.h"

struct ks_run {
    struct ks_chunk *chunk; /* unpinned; NULL when consumed or empty */
    uint32_t rows;
    struct ks_row_head first;
    struct ks_row_head last;
};

/* Receives rows in order; may change them. They are gone after the call. */
typedef enum ks_status (*ks_rows_cb)(void *user, char *rows, size_t count, struct ks_err *err);

struct ks_merge {
    struct ks_chunk_pool *pool;
    size_t row_size;
    size_t fan_in;    /* runs that may be pinned at once, at least 2 */
    size_t run_bytes; /* size of the chunks of an intermediate pass */
    ks_rows_cb sink;
    void *user;
};

/* Equal rows come in the order of `runs`. When more than fan_in runs overlap in one place, groups
 * of them are first merged into longer ones. On failure the runs that are left keep their
 * chunks. */
enum ks_status ks_merge_runs(const struct ks_merge *merge, struct ks_run *runs, size_t count,
                             struct ks_err *err) KS_MUST_CHECK;

/* Most runs that are open at one moment of the merge. */
enum ks_status ks_merge_depth(const struct ks_run *runs, size_t count, size_t *depth,
                              struct ks_err *err) KS_MUST_CHECK;

#endif
