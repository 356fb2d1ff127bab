/* What the parts of the reader of Nsight Systems exports share. */
#ifndef KS_READ_NSYS_IMPL_H
#define KS_READ_NSYS_IMPL_H

#include "base/map.h"
#include "base/text.h"
#include "read/database.h"
#include "read/reader.h"

/* Tables with events; each is read once to see what it needs, and once for each source. */
enum nsys_kind {
    NSYS_KERNEL,
    NSYS_COPY,
    NSYS_SET,
    NSYS_GRAPH, /* a graph as one piece of work, when its nodes were not recorded */
    NSYS_SYNC,
    NSYS_CALL, /* runtime and driver */
    NSYS_RANGE,
    NSYS_KINDS,
};

/* Columns of these tables that are read; a table has some of them. Those up to CORR are the same
 * of all. */
enum nsys_column {
    NSYS_START,
    NSYS_END,
    NSYS_PROCESS, /* globalPid or globalTid */
    NSYS_CORR,
    NSYS_DEVICE,
    NSYS_STREAM,
    NSYS_FIRST, /* those of one kind alone follow, in the order of its list */
};

enum {
    NSYS_NAMES_MAX = 3, /* columns of a table that are ids of strings */
    NSYS_GPUS_MAX = 64, /* of a machine */
};

struct nsys_table {
    const char *name;
    const char *columns[KS_DATABASE_COLUMNS_MAX];
    int name_columns[NSYS_NAMES_MAX]; /* best first; 0 ends */
    bool is_work;                     /* of a device */
};

extern const struct nsys_table nsys_tables[NSYS_KINDS];

struct nsys_process {
    int64_t pid; /* -1: rows do not say */
    bool has_work;
    uint32_t source; /* number of its source */
};

/* A device of a process, and which GPU of the machine it is. */
struct nsys_device {
    int64_t gpu;
    int64_t cuda;
};

struct nsys {
    struct ks_reader_context to; /* its source is the one that is being filled */
    struct ks_database *database;
    struct ks_map strings; /* id -> 1 + string of the builder; 0: wanted */
    struct nsys_process *processes;
    size_t process_count;
    size_t process_capacity;
    struct ks_map process_index; /* pid -> 1 + index */
    uint32_t source;             /* number of the open source */
    int64_t pid;                 /* of its process; -1 unknown */
    uint32_t order;              /* of slices of the open source */
    bool is_first_pass;
    struct ks_strid memory_kinds[8];
    struct nsys_device devices[NSYS_GPUS_MAX]; /* of the open source, as are these */
    size_t device_count;
    struct ks_gpu_info gpus[NSYS_GPUS_MAX];
    size_t gpu_count;
    struct ks_text scratch;
};

/* Counts, or with `strict` fails. */
enum ks_status nsys_count(struct nsys *n, enum ks_stat stat, int64_t offset, struct ks_err *err)
    KS_MUST_CHECK;
enum ks_status nsys_intern(struct nsys *n, struct ks_str text, struct ks_strid *out,
                           struct ks_err *err) KS_MUST_CHECK;
/* The string with this id; false: it is not there. */
bool nsys_string(const struct nsys *n, int64_t id, struct ks_strid *out);
/* Process and thread in a serialised id: 24 bits each. */
int64_t nsys_pid(int64_t global_id);
int64_t nsys_tid(int64_t global_id);
/* NULL: no event is of it. */
struct nsys_process *nsys_find_process(const struct nsys *n, int64_t pid);

/* Makes the rows of one row of a table. */
enum ks_status nsys_emit(struct nsys *n, enum nsys_kind kind, struct ks_rows *rows,
                         struct ks_err *err) KS_MUST_CHECK;
/* What the file says beside events, of the open source: GPUs, names, host, clock. */
enum ks_status nsys_describe(struct nsys *n, struct ks_err *err) KS_MUST_CHECK;

/* Calls for each row of a table, when it is there; damage is counted in the first pass. */
typedef enum ks_status (*nsys_row_cb)(struct nsys *n, enum nsys_kind kind, struct ks_rows *rows,
                                      struct ks_err *err);
enum ks_status nsys_each(struct nsys *n, const char *table, const char *const *columns,
                         enum nsys_kind kind, nsys_row_cb on_row, struct ks_err *err) KS_MUST_CHECK;

#endif
