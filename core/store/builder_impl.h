/* What a builder is made of: shared by store/builder.c, which fills it, and store/seal.c, which
 * takes it apart.
 *
 * Rows of a table go to open runs. The first lanes of a source get an open run each, the others
 * share one: a run of one lane is nearly sorted as it comes, and the merge consumes it in one go.
 * Runs are numbered in the order of their creation; since a lane never moves from one kind to the
 * other, that number also orders equal rows by arrival. */
#ifndef KS_STORE_BUILDER_IMPL_H
#define KS_STORE_BUILDER_IMPL_H

#include "base/map.h"
#include "store/builder.h"
#include "store/merge.h"
#include "store/sort.h"

#ifdef KS_SMALL_LIMITS /* fuzzing: few rows reach the limits, and a builder is made quickly */
enum { KS_OPEN_RUNS_MAX = 4, KS_RUN_BYTES_FIRST = 256, KS_RECENT_COUNT = 4 };
#else
enum {
    KS_OPEN_RUNS_MAX = 256,    /* of one table: one is shared, the others have a lane each */
    KS_RUN_BYTES_FIRST = 4096, /* first chunk of an open run; each next one is four times larger */
    KS_RECENT_COUNT = 64,
};
#endif

enum {
    KS_CHUNK_ROWS_DEFAULT = 65536,
    KS_BUILT_TABLES = KS_TABLE_link, /* readers fill the tables before this one */
};

/* Runtime and driver calls with a correlation become rows of table link. */
static inline bool ks_slice_is_link(const struct ks_slice_row *row)
{
    return (row->category == KS_CATEGORY_RUNTIME || row->category == KS_CATEGORY_DRIVER) &&
           row->corr >= 0;
}

struct ks_open_run {
    char *next; /* equal to end: full, or none is open yet */
    char *end;
    struct ks_chunk *chunk; /* pinned; NULL: none */
    size_t run;             /* index of its entry in runs */
    size_t bytes_next;      /* size of the next chunk */
    struct ks_row_head last;
    bool is_sorted;
};

struct ks_builder_table {
    size_t row_size;
    struct ks_run *runs; /* of all sources */
    size_t run_count;
    size_t run_capacity;
    struct ks_open_run open[KS_OPEN_RUNS_MAX]; /* open[0] is shared */
    uint32_t open_count;
    uint16_t *open_of_lane; /* by track - first track of the source; index into open, 0: not seen */
    size_t lane_capacity;
    uint32_t hot_lane; /* lane of the row before, and its run */
    struct ks_open_run *hot;
    /* Of the open source: */
    size_t run_begin;
    uint64_t rows;
    int64_t start_ns_min;
    int64_t end_ns_max;
};

struct ks_source_rows {
    size_t run_begin;
    size_t run_end;
    uint64_t rows;
    int64_t start_ns_min; /* without rows: INT64_MAX */
    int64_t end_ns_max;   /* without rows: INT64_MIN */
};

/* A source and where its rows and tracks are. */
struct ks_built_source {
    struct ks_source source; /* first: readers hold a pointer to it */
    uint32_t track_begin;
    uint32_t track_end;
    uint32_t stack_begin; /* ids - 1 */
    uint32_t stack_end;
    uint32_t path_begin; /* ids - 1 */
    uint32_t path_end;
    uint64_t link_count; /* slices that become rows of table link */
    int64_t corr_min;    /* of those */
    int64_t corr_max;
    struct ks_source_rows rows[KS_BUILT_TABLES];
};

struct ks_recent_thread {
    struct ks_track_key pid;
    struct ks_track_key tid;
    uint32_t track; /* 0: free */
};

struct ks_recent_stream {
    int64_t device;
    int64_t stream;
    uint32_t device_track;
    uint32_t stream_track; /* 0: free */
};

struct ks_trace_builder {
    struct ks_chunk_pool *pool;
    bool is_part; /* the pool is another builder's */
    struct ks_strpool *strings;
    struct ks_arena arena; /* goes on to the trace */
    uint32_t chunk_rows;
    size_t run_bytes;       /* largest chunk of a run */
    uint32_t open_runs_max; /* of one table */
    struct ks_sorter sorter;
    struct ks_builder_table tables[KS_BUILT_TABLES];
    struct ks_built_source **sources;
    uint32_t source_count;
    uint32_t source_capacity;
    struct ks_built_source *open_source; /* NULL: none */
    struct ks_track *tracks;
    uint32_t track_count;
    uint32_t track_capacity;
    struct ks_map track_ids;
    struct ks_recent_thread recent_threads[KS_RECENT_COUNT];
    struct ks_recent_stream recent_streams[KS_RECENT_COUNT];
    struct ks_collective *collectives;
    uint32_t collective_count;
    uint32_t collective_capacity;
    struct ks_stack *stacks;
    uint32_t stack_count;
    uint32_t stack_capacity;
    struct ks_call_path *call_paths;
    uint32_t call_path_count;
    uint32_t call_path_capacity;
    struct ks_map collective_ids;
};

/* Closes the open runs of all tables, sorted; rows that come later go to new ones. */
enum ks_status ks_trace_builder_close_runs(struct ks_trace_builder *builder, struct ks_err *err)
    KS_MUST_CHECK;
/* Room for one more entry of table->runs. */
enum ks_status ks_trace_builder_reserve_run(struct ks_builder_table *table, struct ks_err *err)
    KS_MUST_CHECK;

/* Finds or makes the track. `parent` 0: its owner is the source. */
enum ks_status ks_trace_builder_find_or_add(struct ks_trace_builder *builder,
                                            enum ks_track_kind kind, uint32_t parent,
                                            struct ks_track_key key, uint32_t *track,
                                            struct ks_err *err) KS_MUST_CHECK;

#endif
