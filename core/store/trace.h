/* A sealed trace: what all stages after the reader see. Immutable and free of formats.
 *
 * Rows of a table are sorted by (lane, start, longest first, input order); `lanes` says which rows
 * belong to which lane. Columns are reached by scans, which pin one chunk at a time:
 *
 *     struct ks_slice_scan scan;
 *     ks_slice_scan_open(&scan, trace, KS_ALL_COLUMNS, 0, ks_trace_rows(trace, KS_TABLE_slice));
 *     while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
 *         for (size_t i = 0; i < scan.count; i++) { use(scan.col.start_ns[i]); }
 *     }
 *     ks_slice_scan_close(&scan);        // also after an error
 *     if (status != KS_END) { return status; }
 */
#ifndef KS_STORE_TRACE_H
#define KS_STORE_TRACE_H

#include "store/category.h"
#include "store/chunk.h"
#include "store/strpool.h"

#define KS_TIME_NONE INT64_MIN

enum ks_table_id {
    KS_TABLE_slice,
    KS_TABLE_gpu,
    KS_TABLE_memory,
    KS_TABLE_mark,
    KS_TABLE_sample,
    KS_TABLE_link,
    KS_TABLE_COUNT,
};

#define KS_TABLE_LIST(TABLE)                                                                       \
    TABLE(slice) TABLE(gpu) TABLE(memory) TABLE(mark) TABLE(sample) TABLE(link)

/* For each table: a row as a reader writes it, the columns of a chunk as a scan shows them (NULL
 * when not asked for), and the number of each column. */

/* clang-format off */
#define KS_SLICE_COLUMN(column, type) type column;
struct ks_slice_row {
#include "store/tables.def"
};
#define KS_SLICE_COLUMN(column, type) const type *column;
struct ks_slice_cols {
#include "store/tables.def"
};
#define KS_SLICE_COLUMN(column, type) KS_SLICE_COL_##column,
enum ks_slice_col {
#include "store/tables.def"
    KS_SLICE_COL_COUNT
};
#define KS_GPU_COLUMN(column, type) type column;
struct ks_gpu_row {
#include "store/tables.def"
};
#define KS_GPU_COLUMN(column, type) const type *column;
struct ks_gpu_cols {
#include "store/tables.def"
};
#define KS_GPU_COLUMN(column, type) KS_GPU_COL_##column,
enum ks_gpu_col {
#include "store/tables.def"
    KS_GPU_COL_COUNT
};
#define KS_MEMORY_COLUMN(column, type) type column;
struct ks_memory_row {
#include "store/tables.def"
};
#define KS_MEMORY_COLUMN(column, type) const type *column;
struct ks_memory_cols {
#include "store/tables.def"
};
#define KS_MEMORY_COLUMN(column, type) KS_MEMORY_COL_##column,
enum ks_memory_col {
#include "store/tables.def"
    KS_MEMORY_COL_COUNT
};
#define KS_MARK_COLUMN(column, type) type column;
struct ks_mark_row {
#include "store/tables.def"
};
#define KS_MARK_COLUMN(column, type) const type *column;
struct ks_mark_cols {
#include "store/tables.def"
};
#define KS_MARK_COLUMN(column, type) KS_MARK_COL_##column,
enum ks_mark_col {
#include "store/tables.def"
    KS_MARK_COL_COUNT
};
#define KS_SAMPLE_COLUMN(column, type) type column;
struct ks_sample_row {
#include "store/tables.def"
};
#define KS_SAMPLE_COLUMN(column, type) const type *column;
struct ks_sample_cols {
#include "store/tables.def"
};
#define KS_SAMPLE_COLUMN(column, type) KS_SAMPLE_COL_##column,
enum ks_sample_col {
#include "store/tables.def"
    KS_SAMPLE_COL_COUNT
};
#define KS_LINK_COLUMN(column, type) type column;
struct ks_link_row {
#include "store/tables.def"
};
#define KS_LINK_COLUMN(column, type) const type *column;
struct ks_link_cols {
#include "store/tables.def"
};
#define KS_LINK_COLUMN(column, type) KS_LINK_COL_##column,
enum ks_link_col {
#include "store/tables.def"
    KS_LINK_COL_COUNT
};
/* clang-format on */

#define KS_ALL_COLUMNS (~(uint64_t)0)
#define KS_COLUMN_BIT(index) ((uint64_t)1 << (index))

enum { KS_COLUMNS_MAX = 32 };

/* Position of a scan; use the typed scans below. */
struct ks_scan {
    const struct ks_trace *trace;
    enum ks_table_id table;
    uint64_t columns; /* bit mask of the columns to pin */
    uint64_t row_next;
    uint64_t row_end;
    const void *cols[KS_COLUMNS_MAX]; /* filled by next */
    struct ks_chunk *pinned[KS_COLUMNS_MAX];
};

/* A scan without types, for who picks columns at run time: `cols` of `scan` point to `*count` rows
 * from `*row` on. As the typed ones below. */
void ks_scan_open(struct ks_scan *scan, const struct ks_trace *trace, enum ks_table_id table,
                  uint64_t columns, uint64_t row_begin, uint64_t row_end);
enum ks_status ks_scan_next(struct ks_scan *scan, uint64_t *row, size_t *count, struct ks_err *err)
    KS_MUST_CHECK;
void ks_scan_close(struct ks_scan *scan);

#define KS_DECLARE_SCAN(table)                                                                     \
    struct ks_##table##_scan {                                                                     \
        struct ks_scan scan;                                                                       \
        uint64_t row; /* number of the first row shown */                                          \
        size_t count; /* rows shown */                                                             \
        struct ks_##table##_cols col;                                                              \
    };                                                                                             \
    /* Rows row_begin .. row_end-1; nothing is pinned before the first next. */                    \
    void ks_##table##_scan_open(struct ks_##table##_scan *scan, const struct ks_trace *trace,      \
                                uint64_t columns, uint64_t row_begin, uint64_t row_end);           \
    /* KS_OK: `count` more rows; KS_END: none; an error: spill file unreadable, out of memory. */  \
    enum ks_status ks_##table##_scan_next(struct ks_##table##_scan *scan, struct ks_err *err)      \
        KS_MUST_CHECK;                                                                             \
    void ks_##table##_scan_close(struct ks_##table##_scan *scan);

KS_TABLE_LIST(KS_DECLARE_SCAN)

/* What next shows at once ends at a multiple of so many rows. */
uint32_t ks_trace_chunk_rows(const struct ks_trace *trace);

/* Which rows of a table belong to a lane; ascending by lane. */
struct ks_lane {
    uint32_t track;
    uint64_t row_begin;
    uint64_t row_end;
};

enum ks_track_kind {
    KS_TRACK_NONE = 0,
    KS_TRACK_PROCESS,
    KS_TRACK_THREAD, /* parent: process */
    KS_TRACK_DEVICE,
    KS_TRACK_STREAM, /* parent: device */
    KS_TRACK_ASYNC,  /* b/e slices of a process */
};

/* Track 0 is not used. Parents have smaller ids than their children. */
struct ks_track {
    enum ks_track_kind kind;
    uint32_t source;      /* index into sources */
    uint32_t parent;      /* track, 0 none */
    int64_t number;       /* pid, tid, device ordinal or stream id; -1 when it is text */
    struct ks_strid text; /* pid or tid given as text that is no number */
    struct ks_strid name; /* thread_name or process_name, if any */
};

enum ks_stat {
#define KS_STAT(name, severity, sentence) KS_STAT_##name,
#include "store/stats.def"
#undef KS_STAT
    KS_STAT_COUNT
};

enum ks_stat_severity { KS_SEVERITY_INFO, KS_SEVERITY_REPAIR, KS_SEVERITY_LOSS, KS_SEVERITY_CUT };

struct ks_stat_info {
    const char *name;
    enum ks_stat_severity severity;
    const char *sentence;
};

const struct ks_stat_info *ks_stat_info(enum ks_stat stat);

enum ks_source_status { KS_SOURCE_OK, KS_SOURCE_REPAIRED, KS_SOURCE_TRUNCATED };

/* A GPU as the file describes it (deviceProperties). */
struct ks_gpu_info {
    int64_t id; /* ordinal inside the process */
    struct ks_strid name;
    int64_t memory_bytes;
    int32_t compute_major; /* -1 unknown */
    int32_t compute_minor;
    int32_t sm_count; /* -1 unknown */
};

/* What torch's compiler had counted when `kscope run` ended a window; 0: not known, or none. */
struct ks_compiler_use {
    int64_t functions;          /* that it looked at */
    int64_t functions_compiled; /* ... and compiled */
    int64_t graph_breaks;
    int64_t graphs_skipped; /* compiled graphs that were to be CUDA graphs, and are none */
};

/* What the process and the kernel said while `kscope run` recorded a window; 0: not known, or none.
 */
struct ks_process_use {
    int64_t threads;        /* of an operator, as torch was told */
    int64_t cores;          /* that the process may run on */
    int64_t local_ranks;    /* processes like it on the machine */
    int64_t wall_ns;        /* length of all that follows */
    int64_t cpu_ns;         /* that all threads of the process used */
    int64_t thread_run_ns;  /* the thread of the steps ran ... */
    int64_t thread_wait_ns; /* ... or could run, and no core was free */
    int64_t quota_us;       /* of CPU time in each period, that the control group allows */
    int64_t period_us;      /* length of a period */
    int64_t periods;        /* in which the group ran ... */
    int64_t throttled;      /* ... and was held back */
    int64_t throttled_ns;   /* for so long, all cores together */
    int64_t loader_ns;      /* the thread of the steps was in the data loader's __next__ ... */
    int64_t loader_cpu_ns;  /* ... and ran */
    int64_t workers;        /* processes of the loader */
    int64_t worker_cpu_ns;  /* that they used, all together */
    int64_t worker_wait_ns; /* that they could run, and no core was free */
    int64_t mask_batches;   /* of the loader that have an attention mask ... */
    int64_t mask_slots;     /* ... its elements ... */
    int64_t mask_longest;   /* ... those left if each batch ended with its longest row ... */
    int64_t mask_tokens;    /* ... and those that are no padding */
    int64_t numa_distance;  /* from the thread's node to the GPU's; 10: the same node */
    int64_t numa_node;      /* of the GPU, when there is a distance */
};

/* Why the clock of a GPU is not higher. */
enum ks_clock_hold {
    KS_CLOCK_POWER_CAP, /* its limit of power */
    KS_CLOCK_HEAT,
    KS_CLOCK_BRAKE,    /* the machine's supply asks for less */
    KS_CLOCK_HARDWARE, /* one of these two, the driver does not say which */
    KS_CLOCK_HOLDS,
};

/* What the driver said of the GPUs of the process while they worked, during all of a `kscope run`;
 * 0: not known, or none. Of several GPUs all looks count. */
struct ks_clock_use {
    int64_t looks;
    int64_t held[KS_CLOCK_HOLDS];     /* looks with the clock held back */
    int64_t lost_ppm[KS_CLOCK_HOLDS]; /* 1 - clock / highest clock in these, mean of all looks */
    int64_t mhz;                      /* mean */
    int64_t mhz_max;
    int64_t temperature_c_max;
    int64_t power_mw; /* mean */
    int64_t power_limit_mw, power_default_mw;
    int64_t others_max; /* processes on the same GPU that are not of the program, most */
};

/* One input file: identity, switches of the recording, counters. */
struct ks_source {
    struct ks_strid path;
    struct ks_strid format;      /* "kineto-json", ... */
    struct ks_strid compression; /* "", "gzip", "zstd" */
    int64_t rank;                /* -1 unknown */
    int64_t world_size;          /* -1 unknown */
    struct ks_strid backend;     /* "nccl", ... */
    bool has_base;
    int64_t base_ns;  /* Unix time of time 0 in the file; 0 when it counts from 1970 itself */
    bool is_absolute; /* times are Unix times, by base or by themselves */
    int64_t start_ns; /* first and last moment seen, relative to base_ns; KS_TIME_NONE: no event */
    int64_t end_ns;
    uint64_t events; /* X, B/E pairs, i, C, b/e pairs that were kept */
    uint64_t bytes;  /* decompressed size */
    bool record_shapes, with_stack, profile_memory, with_flops, with_modules;
    struct ks_strid torch_version, cuda_version, driver_version, host_name, trace_name, trace_id;
    struct ks_gpu_info *gpus;
    size_t gpu_count;
    int64_t pid;                /* of a recording by `kscope run`; 0 unknown */
    bool has_cut_step;          /* `kscope run` ended the window inside a step ... */
    int64_t cut_step;           /* ... of this number */
    int64_t unprofiled_step_ns; /* of the same run without a profiler; 0 unknown */
    /* How much longer than that the long ones last behind the window; 0: none is, or unknown. */
    int64_t unprofiled_stall_ns;
    int64_t unprofiled_period;  /* in steps, of the long ones behind the window; 0: none is seen */
    int64_t unprofiled_mean_ns; /* of the steps behind the window, long ones with them; 0 unknown */
    int64_t unprofiled_spread_ns; /* half of these lie so far from the middle; 0 unknown */
    struct ks_process_use process;
    struct ks_clock_use clocks;
    struct ks_compiler_use compiler;
    struct ks_strid graph_break_reason; /* the most frequent one, 0 unknown */
    bool is_recording;                  /* of our own recorder: lies beside traces of its process */
    int64_t parent_pid;                 /* of a recording; 0 unknown */
    int64_t worker;                     /* number of the DataLoader worker that it is; -1 none */
    struct ks_strid off_reason;         /* why it was turned off, 0: it was not */
    bool is_running;                    /* the process that recorded it is still at work */
    int64_t run;                        /* 1-based run this file belongs to */
    int64_t cycle;                      /* 0-based window of its rank within the run */
    uint64_t counts[KS_STAT_COUNT];
};

enum ks_source_status ks_source_status(const struct ks_source *source);

/* Metadata of a collective, shared by the rows that carry it. */
struct ks_collective {
    struct ks_strid name;  /* allreduce, _allgather_base, ... */
    struct ks_strid group; /* Process Group Name */
    struct ks_strid ranks; /* Process Group Ranks, text */
    struct ks_strid dtype;
    int64_t sequence;    /* -1 unknown */
    int64_t in_elements; /* -1 unknown */
    int64_t out_elements;
    int64_t group_size; /* -1 unknown */
};

/* A function that was being run, and the stack that called it. */
struct ks_stack {
    struct ks_strid function; /* qualified name */
    struct ks_strid file;     /* "~" for a C function */
    uint32_t first_line;      /* of the function; 0 for C functions */
    uint32_t line;            /* that ran; 0 unknown */
    uint32_t caller;          /* id of a stack that comes before this one, 0 none */
};

/* Profiles that do not tell paths apart (cProfile's) have sums instead: one without a parent holds
 * all calls of its function, one with a parent those of them that the parent's function made. */
enum ks_call_kind {
    KS_CALL_PATH,
    KS_CALL_SUM,
    KS_CALL_COUNT, /* a sum of which only the number of calls is known */
};

/* A function as called by its parent: what a function profiler counted. */
struct ks_call_path {
    uint32_t track;  /* of the thread */
    uint32_t parent; /* id of a path that comes before this one, 0: the first of its thread */
    struct ks_strid function;
    struct ks_strid file;
    uint32_t first_line;
    uint32_t open;    /* calls that had not returned at the end of the file */
    int64_t calls;    /* that began */
    int64_t total_ns; /* of calls that returned, with what they called */
    int64_t child_ns; /* of it, time in functions that it called; of sums: total less own time */
    /* Of sums: calls that began while another one of the same function was open. */
    int64_t recursive_calls;
    uint32_t kind; /* enum ks_call_kind */
};

struct ks_trace; /* see store/builder.h for how one is made */

void ks_trace_destroy(struct ks_trace *trace); /* NULL is fine */

uint64_t ks_trace_rows(const struct ks_trace *trace, enum ks_table_id table);
const struct ks_lane *ks_trace_lanes(const struct ks_trace *trace, enum ks_table_id table,
                                     size_t *count);
/* Lane of a track in a table, or NULL. */
const struct ks_lane *ks_trace_lane_find(const struct ks_trace *trace, enum ks_table_id table,
                                         uint32_t track);
/* First row of the lane that starts at or after `ns`, else its row_end. Looks into one chunk. */
enum ks_status ks_trace_row_find(const struct ks_trace *trace, enum ks_table_id table,
                                 const struct ks_lane *lane, int64_t ns, uint64_t *row,
                                 struct ks_err *err) KS_MUST_CHECK;
/* The same behind all rows that start at `ns` or before. */
enum ks_status ks_trace_row_find_after(const struct ks_trace *trace, enum ks_table_id table,
                                       const struct ks_lane *lane, int64_t ns, uint64_t *row,
                                       struct ks_err *err) KS_MUST_CHECK;
/* The track must exist. */
const struct ks_track *ks_trace_track(const struct ks_trace *trace, uint32_t track);
uint32_t ks_trace_track_count(const struct ks_trace *trace); /* ids are 1 .. count-1 */
const struct ks_source *ks_trace_source(const struct ks_trace *trace, uint32_t source);
uint32_t ks_trace_source_count(const struct ks_trace *trace);
/* id >= 1 */
const struct ks_collective *ks_trace_collective(const struct ks_trace *trace, uint32_t id);
/* id >= 1; ids are 1 .. count. */
const struct ks_stack *ks_trace_stack(const struct ks_trace *trace, uint32_t id);
uint32_t ks_trace_stack_count(const struct ks_trace *trace);
const struct ks_call_path *ks_trace_call_path(const struct ks_trace *trace, uint32_t id);
uint32_t ks_trace_call_path_count(const struct ks_trace *trace);
struct ks_str ks_trace_str(const struct ks_trace *trace, struct ks_strid id);
/* Id of a text if some row has it, else 0. */
struct ks_strid ks_trace_str_find(const struct ks_trace *trace, struct ks_str text);
uint32_t ks_trace_str_count(const struct ks_trace *trace);
/* Unix ns (or the files' own zero) that every start_ns in the tables counts from. */
int64_t ks_trace_origin_ns(const struct ks_trace *trace);
/* First start and last end over all slices and GPU rows; 0, 0 without rows. */
void ks_trace_span(const struct ks_trace *trace, int64_t *start_ns, int64_t *end_ns);
/* Sums of memory.host_sum and memory.device_sum over events of the process's track with
 * start_ns in [first_ns, last_ns], both ends included. */
enum ks_status ks_trace_memory_between(const struct ks_trace *trace, uint32_t process_track,
                                       int64_t first_ns, int64_t last_ns, int64_t *host_bytes,
                                       int64_t *device_bytes, struct ks_err *err) KS_MUST_CHECK;
const struct ks_chunk_pool *ks_trace_pool(const struct ks_trace *trace);

#endif
