/* What an export says beside events: devices, names of processes and threads, host and clock. */
#include "base/err.h"
#include "read/nsys_impl.h"

static enum ks_status take_clock(struct nsys *n, enum nsys_kind kind, struct ks_rows *rows,
                                 struct ks_err *err)
{
    struct ks_source *s = n->to.source;
    int64_t epoch_ns = 0;
    (void)kind;
    (void)err;
    if (!s->has_base && ks_rows_int(rows, 0, &epoch_ns) && epoch_ns > 0 &&
        epoch_ns <= KS_TIME_MAX_NS) {
        s->has_base = true;
        s->base_ns = epoch_ns;
    }
    return KS_OK;
}

static enum ks_status take_environment(struct nsys *n, enum nsys_kind kind, struct ks_rows *rows,
                                       struct ks_err *err)
{
    struct ks_str name = ks_rows_text(rows, 0);
    bool is_host = ks_str_equal_nocase(name, KS_STR("Hostname"));
    (void)kind;
    return is_host && n->to.source->host_name.v == 0
               ? nsys_intern(n, ks_rows_text(rows, 1), &n->to.source->host_name, err)
               : KS_OK;
}

/* Is it the process whose source is open, or one that lies beside it? */
static bool is_here(const struct nsys *n, int64_t pid)
{
    const struct nsys_process *process = nsys_find_process(n, pid);
    return process && process->source == n->source;
}

static enum ks_status take_process(struct nsys *n, enum nsys_kind kind, struct ks_rows *rows,
                                   struct ks_err *err)
{
    int64_t id = 0;
    uint32_t track = 0;
    (void)kind;
    if (!ks_rows_int(rows, 0, &id) || !is_here(n, nsys_pid(id))) {
        return KS_OK;
    }
    struct ks_track_key pid = {.number = nsys_pid(id)};
    struct ks_strid name = {0};
    KS_TRY(ks_trace_builder_process(n->to.builder, pid, &track, err));
    KS_TRY(nsys_intern(n, ks_rows_text(rows, 1), &name, err));
    ks_trace_builder_track(n->to.builder, track)->name = name;
    return KS_OK;
}

static enum ks_status take_thread(struct nsys *n, enum nsys_kind kind, struct ks_rows *rows,
                                  struct ks_err *err)
{
    int64_t name_id = 0;
    int64_t id = 0;
    uint32_t track = 0;
    struct ks_strid name = {0};
    (void)kind;
    if (!ks_rows_int(rows, 0, &name_id) || !ks_rows_int(rows, 1, &id) ||
        !is_here(n, nsys_pid(id)) || !nsys_string(n, name_id, &name)) {
        return KS_OK;
    }
    struct ks_track_key pid = {.number = nsys_pid(id)};
    struct ks_track_key tid = {.number = nsys_tid(id)};
    KS_TRY(ks_trace_builder_thread(n->to.builder, pid, tid, &track, err));
    ks_trace_builder_track(n->to.builder, track)->name = name;
    return KS_OK;
}

/* ------------------------------------------------------------------ devices */

enum { DEVICE_GPU, DEVICE_CUDA, DEVICE_PID };
enum { GPU_ID, GPU_NAME, GPU_MEMORY, GPU_SMS, GPU_MAJOR, GPU_MINOR };

/* The same machine has other numbers for its GPUs than a process that sees some of them. */
static enum ks_status take_device(struct nsys *n, enum nsys_kind kind, struct ks_rows *rows,
                                  struct ks_err *err)
{
    struct nsys_device device;
    int64_t pid = 0;
    (void)kind;
    (void)err;
    bool is_ours = ks_rows_int(rows, DEVICE_PID, &pid) && pid == n->pid;
    if (is_ours && ks_rows_int(rows, DEVICE_GPU, &device.gpu) &&
        ks_rows_int(rows, DEVICE_CUDA, &device.cuda) && n->device_count < NSYS_GPUS_MAX) {
        n->devices[n->device_count++] = device;
    }
    return KS_OK;
}

static enum ks_status add_gpu(struct nsys *n, int64_t id, struct ks_rows *rows, struct ks_err *err)
{
    int64_t numbers[4] = {0, -1, -1, -1};
    for (size_t i = 0; i < KS_COUNT_OF(numbers); i++) {
        (void)ks_rows_int(rows, GPU_MEMORY + i, &numbers[i]);
    }
    for (size_t i = 1; i < KS_COUNT_OF(numbers); i++) {
        numbers[i] = numbers[i] >= 0 && numbers[i] <= INT32_MAX ? numbers[i] : -1;
    }
    if (n->gpu_count == NSYS_GPUS_MAX) {
        return KS_OK;
    }
    struct ks_gpu_info *gpu = &n->gpus[n->gpu_count++];
    *gpu = (struct ks_gpu_info){
        .id = id,
        .memory_bytes = numbers[0] > 0 ? numbers[0] : 0,
        .sm_count = (int32_t)numbers[1],
        .compute_major = (int32_t)numbers[2],
        .compute_minor = (int32_t)numbers[3],
    };
    return nsys_intern(n, ks_rows_text(rows, GPU_NAME), &gpu->name, err);
}

static enum ks_status take_gpu(struct nsys *n, enum nsys_kind kind, struct ks_rows *rows,
                               struct ks_err *err)
{
    int64_t id = 0;
    (void)kind;
    if (!ks_rows_int(rows, GPU_ID, &id)) {
        return KS_OK;
    }
    if (n->device_count == 0) {
        return add_gpu(n, id, rows, err);
    }
    for (size_t i = 0; i < n->device_count; i++) {
        if (n->devices[i].gpu == id) {
            KS_TRY(add_gpu(n, n->devices[i].cuda, rows, err));
        }
    }
    return KS_OK;
}

static enum ks_status publish_gpus(struct nsys *n, struct ks_err *err)
{
    struct ks_source *s = n->to.source;
    if (n->gpu_count == 0) {
        return KS_OK;
    }
    s->gpus = ks_new(ks_trace_builder_arena(n->to.builder), struct ks_gpu_info, n->gpu_count);
    if (!s->gpus) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep devices: count=%zu",
                       n->gpu_count);
    }
    memcpy(s->gpus, n->gpus, n->gpu_count * sizeof(*s->gpus));
    s->gpu_count = n->gpu_count;
    return KS_OK;
}

enum ks_status nsys_describe(struct nsys *n, struct ks_err *err)
{
    static const char *const clock[KS_DATABASE_COLUMNS_MAX] = {"utcEpochNs"};
    static const char *const environment[KS_DATABASE_COLUMNS_MAX] = {"name", "value"};
    static const char *const processes[KS_DATABASE_COLUMNS_MAX] = {"globalPid", "name"};
    static const char *const threads[KS_DATABASE_COLUMNS_MAX] = {"nameId", "globalTid"};
    static const char *const devices[KS_DATABASE_COLUMNS_MAX] = {"gpuId", "cudaId", "pid"};
    static const char *const gpus[KS_DATABASE_COLUMNS_MAX] = {
        "id", "name", "totalMemory", "smCount", "computeMajor", "computeMinor"};
    static const struct {
        const char *table;
        const char *const *columns;
        nsys_row_cb on_row;
    } tables[] = {
        {"TARGET_INFO_SESSION_START_TIME", clock, take_clock},
        {"TARGET_INFO_SYSTEM_ENV", environment, take_environment},
        {"PROCESSES", processes, take_process},
        {"ThreadNames", threads, take_thread},
        {"TARGET_INFO_CUDA_DEVICE", devices, take_device},
        {"TARGET_INFO_GPU", gpus, take_gpu},
    };
    n->device_count = 0;
    n->gpu_count = 0;
    for (size_t i = 0; i < KS_COUNT_OF(tables); i++) {
        KS_TRY(nsys_each(n, tables[i].table, tables[i].columns, NSYS_KINDS, tables[i].on_row, err));
    }
    return publish_gpus(n, err);
}
