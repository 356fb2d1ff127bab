/* Lists of where time went: steps, devices, streams. */
#include "show/lists.h"

/* ------------------------------------------------------------------ steps */

static size_t step_count(const struct ks_view *view)
{
    return view->facts->step_count;
}

static const void *step_row(const struct ks_view *view, size_t row)
{
    return &view->facts->steps[row];
}

static struct ks_cell step_index(const struct ks_view *view, size_t row)
{
    return ks_cell_int(view->facts->steps[row].index);
}

static struct ks_cell step_rank(const struct ks_view *view, size_t row)
{
    return ks_cell_int(ks_view_rank(view, view->facts->steps[row].source));
}

static struct ks_cell step_kind(const struct ks_view *view, size_t row)
{
    return ks_cell_word(ks_view_step_kind(view->facts->steps[row].kind));
}

static struct ks_cell step_source(const struct ks_view *view, size_t row)
{
    return ks_cell_word(ks_view_step_source(view->facts->steps[row].found_by));
}

/* The median of the steps before the window: what a step of this file takes when nobody looks. */
static struct ks_cell step_unprofiled(const struct ks_view *view, size_t row)
{
    int64_t ns = view->facts->sources[view->facts->steps[row].source].unprofiled_ns;
    return ks_cell_int(ns > 0 ? ns : KS_UNKNOWN);
}

#define NO_RANK "the file does not name its rank"

/* Columns that stand in several tables of steps. */
#define STEP_NUMBER                                                                                \
    {                                                                                              \
        .key = "number", .title = "step", .places = KS_COLUMN_BOTH, KS_COLUMN_OF(ks_step, number)  \
    }
#define STEP_RANK                                                                                  \
    {                                                                                              \
        .key = "rank", .title = "rank", .places = KS_COLUMN_BOTH | KS_COLUMN_VARIES,               \
        .cell = step_rank, .reason = NO_RANK                                                       \
    }
#define STEP_COMPLETE                                                                              \
    {                                                                                              \
        .key = "complete", .title = "complete", .places = KS_COLUMN_BOTH | KS_COLUMN_VARIES,       \
        .field = KS_FIELD_BOOL, KS_COLUMN_OF(ks_step, is_complete)                                 \
    }
#define STEP_TIME(name, heading, where, member)                                                    \
    {                                                                                              \
        .key = name, .title = heading, .unit = KS_CELL_TIME, .places = where,                      \
        KS_COLUMN_OF(ks_step, member)                                                              \
    }
#define STEP_ROLE(role, name, heading)                                                             \
    STEP_TIME("breakdown_ns." name, heading, KS_COLUMN_BOTH, breakdown_ns[role])

/* The columns of idle_by_cause_ns; on the screen only in the table of idle time. */
#define IDLE_CAUSE(type, cause, name, heading, where)                                              \
    {                                                                                              \
        .key = "idle_by_cause_ns." name, .title = heading, .unit = KS_CELL_TIME, .places = where,  \
        KS_COLUMN_OF(type, idle_by_cause_ns[cause])                                                \
    }
#define IDLE_CAUSES(type, where)                                                                   \
    IDLE_CAUSE(type, KS_IDLE_DATA, "data", "data", where),                                         \
        IDLE_CAUSE(type, KS_IDLE_SYNC, "sync", "sync", where),                                     \
        IDLE_CAUSE(type, KS_IDLE_HOST_CODE, "host_code", "host code", where),                      \
        IDLE_CAUSE(type, KS_IDLE_LAUNCH, "launch", "launch", where),                               \
        IDLE_CAUSE(type, KS_IDLE_ALLOCATOR, "allocator", "allocator", where),                      \
        IDLE_CAUSE(type, KS_IDLE_COLLECTIVE, "collective", "collective", where),                   \
        IDLE_CAUSE(type, KS_IDLE_KERNEL_TO_KERNEL, "kernel_to_kernel", "kernel gaps", where),      \
        IDLE_CAUSE(type, KS_IDLE_PROFILER, "profiler", "profiler", where),                         \
        IDLE_CAUSE(type, KS_IDLE_UNKNOWN, "unknown", "unknown", where)
#define STEP_PHASE(phase, name, where) STEP_TIME("phases_ns." name, name, where, phases_ns[phase])
#define STEP_PHASES(where)                                                                         \
    STEP_PHASE(KS_PHASE_DATA, "data", where), STEP_PHASE(KS_PHASE_TRANSFER, "transfer", where),    \
        STEP_PHASE(KS_PHASE_FORWARD, "forward", where), STEP_PHASE(KS_PHASE_LOSS, "loss", where),  \
        STEP_PHASE(KS_PHASE_BACKWARD, "backward", where),                                          \
        STEP_PHASE(KS_PHASE_OPTIMIZER, "optimizer", where),                                        \
        STEP_PHASE(KS_PHASE_OTHER, "other", where)

static const struct ks_column step_columns[] = {
    STEP_NUMBER,
    {.key = "index", .title = "index", .places = KS_COLUMN_JSON, .cell = step_index},
    {.key = "name",
     .title = "name",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_step, name),
     .reason = "no span marks the step"},
    STEP_RANK,
    {.key = "kind",
     .title = "kind",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_TEXT,
     .cell = step_kind},
    {.key = "source",
     .title = "found by",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_TEXT,
     .cell = step_source},
    STEP_COMPLETE,
    {.key = "start_ns",
     .title = "start",
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_step, start_ns)},
    {.key = "host_start_ns",
     .title = "host start",
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_step, host_start_ns)},
    STEP_TIME("host_ns", "host", KS_COLUMN_BOTH, host_ns),
    STEP_TIME("dur_ns", "time", KS_COLUMN_BOTH, dur_ns),
    {.key = "unprofiled_ns",
     .title = "unprofiled",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_JSON,
     .cell = step_unprofiled,
     .reason = "a trace alone does not hold step times without the profiler"},
    {.key = "tokens",
     .title = "tokens",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_step, tokens),
     .reason = "no span of an inference engine says"},
    {.key = "samples",
     .title = "samples",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_step, samples),
     .reason = "no span of an inference engine says"},
    STEP_TIME("input_wait_ns", "input wait", KS_COLUMN_JSON, input_wait_ns),
    STEP_TIME("input_idle_ns", "input idle", KS_COLUMN_JSON, input_idle_ns),
    STEP_ROLE(KS_ROLE_KERNEL, "kernel", "kernel"),
    STEP_ROLE(KS_ROLE_MEMCPY, "memcpy", "memcpy"),
    STEP_ROLE(KS_ROLE_MEMSET, "memset", "memset"),
    STEP_ROLE(KS_ROLE_COMMUNICATION, "communication", "comm"),
    STEP_ROLE(KS_ROLE_RUNTIME, "runtime", "runtime"),
    STEP_ROLE(KS_ROLE_DATALOADER, "dataloader", "loader"),
    STEP_ROLE(KS_ROLE_CPU, "cpu", "cpu"),
    STEP_ROLE(KS_ROLE_OTHER, "other", "other"),
    STEP_TIME("idle_ns", "idle", KS_COLUMN_JSON, idle_ns),
    IDLE_CAUSES(ks_step, KS_COLUMN_JSON),
    STEP_PHASES(KS_COLUMN_JSON),
    {.key = NULL},
};

const struct ks_list ks_list_steps = {
    .name = "steps",
    .columns = step_columns,
    .empty = "No steps were found in the trace.",
    .row_count = step_count,
    .row = step_row,
};

/* ------------------------------------------------------------------ idle time */

/* A second look at the steps, for the screen: why the device did not work. */
static const struct ks_column idle_columns[] = {
    STEP_NUMBER,
    STEP_RANK,
    STEP_TIME("dur_ns", "time", KS_COLUMN_BOTH, dur_ns),
    STEP_TIME("idle_ns", "idle", KS_COLUMN_BOTH, idle_ns),
    IDLE_CAUSES(ks_step, KS_COLUMN_BOTH),
    {.key = NULL},
};

const struct ks_list ks_list_idle = {
    .name = "idle",
    .columns = idle_columns,
    .empty = "No steps were found in the trace.",
    .row_count = step_count,
    .row = step_row,
};

/* ------------------------------------------------------------------ phases */

/* The same rows as steps, by what they are for; JSON has these numbers in steps[].phases_ns. */
static const struct ks_column phase_columns[] = {
    STEP_NUMBER,
    STEP_RANK,
    STEP_COMPLETE,
    STEP_TIME("dur_ns", "time", KS_COLUMN_BOTH, dur_ns),
    STEP_PHASES(KS_COLUMN_BOTH),
    {.key = NULL},
};

const struct ks_list ks_list_phases = {
    .name = "phases",
    .columns = phase_columns,
    .empty = "No steps were found in the trace.",
    .row_count = step_count,
    .row = step_row,
};

/* ------------------------------------------------------------------ devices */

static size_t device_count(const struct ks_view *view)
{
    return view->facts->device_count;
}

static const void *device_row(const struct ks_view *view, size_t row)
{
    return &view->facts->devices[row];
}

static struct ks_cell device_rank(const struct ks_view *view, size_t row)
{
    return ks_cell_int(ks_view_rank(view, view->facts->devices[row].source));
}

static struct ks_cell device_util(const struct ks_view *view, size_t row)
{
    const struct ks_device_fact *device = &view->facts->devices[row];
    return ks_cell_ratio((double)device->busy_ns, (double)device->span_ns);
}

static struct ks_cell device_work_count(const struct ks_view *view, size_t row)
{
    return ks_cell_int((int64_t)view->facts->devices[row].work_count);
}

static struct ks_cell device_kernel_count(const struct ks_view *view, size_t row)
{
    return ks_cell_int((int64_t)view->facts->devices[row].kernel_count);
}

static const struct ks_column device_columns[] = {
    {.key = "rank",
     .title = "rank",
     .places = KS_COLUMN_BOTH,
     .cell = device_rank,
     .reason = NO_RANK},
    {.key = "device",
     .title = "GPU",
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_device_fact, device),
     .reason = "the trace does not number it"},
    {.key = "name",
     .title = "name",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_device_fact, name),
     .reason = "the file does not describe the GPU"},
    {.key = "start_ns",
     .title = "start",
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_device_fact, start_ns),
     .reason = "it did no work"},
    {.key = "span_ns",
     .title = "span",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_device_fact, span_ns)},
    {.key = "busy_ns",
     .title = "busy",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_device_fact, busy_ns)},
    {.key = "idle_ns",
     .title = "idle",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_device_fact, idle_ns)},
    {.key = "util",
     .title = "util",
     .unit = KS_CELL_SHARE,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_REAL,
     .cell = device_util,
     .reason = "its work spans no time"},
    {.key = "kernel_sum_ns",
     .title = "kernel sum",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_device_fact, kernel_sum_ns)},
    {.key = "work_sum_ns",
     .title = "work sum",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_device_fact, work_sum_ns)},
    {.key = "compute_ns",
     .title = "compute",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_device_fact, compute_ns)},
    {.key = "comm_ns",
     .title = "comm",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_device_fact, comm_ns)},
    {.key = "exposed_comm_ns",
     .title = "exposed",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_device_fact, exposed_comm_ns)},
    {.key = "memcpy_ns",
     .title = "copies",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_device_fact, memcpy_ns)},
    {.key = "work_count",
     .title = "events",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_JSON,
     .cell = device_work_count},
    {.key = "kernel_count",
     .title = "kernels",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     .cell = device_kernel_count},
    {.key = "sm_efficiency",
     .title = "SM eff",
     .unit = KS_CELL_SHARE,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_REAL,
     KS_COLUMN_OF(ks_device_fact, sm_efficiency),
     .reason = "the trace gives no blocks per SM"},
    {.key = "occupancy",
     .title = "occupancy",
     .unit = KS_CELL_SHARE,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_REAL,
     KS_COLUMN_OF(ks_device_fact, occupancy),
     .reason = "the trace gives no achieved occupancy"},
    {.key = "tensor_core_share",
     .title = "tensor cores",
     .unit = KS_CELL_SHARE,
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_REAL,
     KS_COLUMN_OF(ks_device_fact, tensor_core_share),
     .reason = "it ran no kernels"},
    IDLE_CAUSES(ks_device_fact, KS_COLUMN_JSON),
    {.key = NULL},
};

const struct ks_list ks_list_devices = {
    .name = "devices",
    .columns = device_columns,
    .empty = "The trace holds no GPU work.",
    .row_count = device_count,
    .row = device_row,
};

/* ------------------------------------------------------------------ streams */

static size_t stream_count(const struct ks_view *view)
{
    return view->facts->stream_count;
}

static const void *stream_row(const struct ks_view *view, size_t row)
{
    return &view->facts->streams[row];
}

static struct ks_cell stream_rank(const struct ks_view *view, size_t row)
{
    return ks_cell_int(ks_view_rank(view, view->facts->streams[row].source));
}

static struct ks_cell stream_work_count(const struct ks_view *view, size_t row)
{
    return ks_cell_int((int64_t)view->facts->streams[row].work_count);
}

static const struct ks_column stream_columns[] = {
    {.key = "rank",
     .title = "rank",
     .places = KS_COLUMN_BOTH,
     .cell = stream_rank,
     .reason = NO_RANK},
    {.key = "device",
     .title = "GPU",
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_stream_fact, device),
     .reason = "the trace does not number it"},
    {.key = "stream",
     .title = "stream",
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_stream_fact, stream),
     .reason = "the trace does not number it"},
    {.key = "busy_ns",
     .title = "busy",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_stream_fact, busy_ns)},
    {.key = "gap_ns",
     .title = "gaps",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_stream_fact, gap_ns)},
    {.key = "work_count",
     .title = "events",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     .cell = stream_work_count},
    IDLE_CAUSES(ks_stream_fact, KS_COLUMN_JSON),
    {.key = NULL},
};

const struct ks_list ks_list_streams = {
    .name = "streams",
    .columns = stream_columns,
    .empty = "The trace holds no GPU work.",
    .row_count = stream_count,
    .row = stream_row,
};
