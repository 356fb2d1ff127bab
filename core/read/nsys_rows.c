/* Rows of the tables of events: what PyTorch's profiler would have written of the same work. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "base/err.h"
#include "read/nsys_impl.h"

#define COMMON(process) "start", "end", process, "correlationId", "deviceId", "streamId"

enum {
    KERNEL_DEMANGLED = NSYS_FIRST,
    KERNEL_SHORT,
    KERNEL_MANGLED,
    KERNEL_GRID, /* x, y, z */
    KERNEL_BLOCK = KERNEL_GRID + 3,
    KERNEL_REGISTERS = KERNEL_BLOCK + 3,
    KERNEL_SHARED_STATIC,
    KERNEL_SHARED_DYNAMIC,
};
enum { COPY_BYTES = NSYS_FIRST, COPY_KIND, COPY_FROM, COPY_TO };
enum { SET_BYTES = NSYS_FIRST, SET_KIND };
enum { GRAPH_ID = NSYS_FIRST };
enum { SYNC_TYPE = NSYS_FIRST };
enum { CALL_NAME = NSYS_FIRST };
enum { RANGE_TEXT = NSYS_FIRST, RANGE_TEXT_ID, RANGE_TYPE };

const struct nsys_table nsys_tables[NSYS_KINDS] = {
    [NSYS_KERNEL] = {"CUPTI_ACTIVITY_KIND_KERNEL",
                     {COMMON("globalPid"), "demangledName", "shortName", "mangledName", "gridX",
                      "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread",
                      "staticSharedMemory", "dynamicSharedMemory"},
                     {KERNEL_DEMANGLED, KERNEL_SHORT, KERNEL_MANGLED},
                     true},
    [NSYS_COPY] = {"CUPTI_ACTIVITY_KIND_MEMCPY",
                   {COMMON("globalPid"), "bytes", "copyKind", "srcKind", "dstKind"},
                   {0},
                   true},
    [NSYS_SET] = {"CUPTI_ACTIVITY_KIND_MEMSET",
                  {COMMON("globalPid"), "bytes", "memKind"},
                  {0},
                  true},
    [NSYS_GRAPH] = {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {COMMON("globalPid"), "graphId"}, {0}, true},
    [NSYS_SYNC] = {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                   {COMMON("globalPid"), "syncType"},
                   {0},
                   false},
    [NSYS_CALL] = {"CUPTI_ACTIVITY_KIND_RUNTIME",
                   {COMMON("globalTid"), "nameId"},
                   {CALL_NAME},
                   false},
    [NSYS_RANGE] = {"NVTX_EVENTS",
                    {COMMON("globalTid"), "text", "textId", "eventType"},
                    {RANGE_TEXT_ID},
                    false},
};

/* Many rows can have the same name: longer ones are not looked through for each of them. */
enum { TRIMMED_BYTES_MAX = 4096 };

/* Of NVTX_EVENTS.eventType; others name domains, categories and threads. */
enum { NVTX_MARK = 34, NVTX_PUSH_POP = 59, NVTX_START_END = 60 };

static int64_t int_or(const struct ks_rows *rows, size_t column, int64_t missing)
{
    int64_t value = missing;
    return ks_rows_int(rows, column, &value) ? value : missing;
}

/* ------------------------------------------------------------------ time */

struct span {
    int64_t start_ns;
    int64_t dur_ns;
    bool has_end;
};

static bool is_time(int64_t ns)
{
    return ns >= KS_TIME_MIN_NS && ns <= KS_TIME_MAX_NS;
}

/* `*is_good` false: the row was counted, and is none. Versions without NULL wrote 0 for an end that
 * is not known. */
static enum ks_status take_span(struct nsys *n, const struct ks_rows *rows, struct span *span,
                                bool *is_good, struct ks_err *err)
{
    int64_t end_ns = 0;
    *is_good = false;
    *span = (struct span){0};
    if (!ks_rows_int(rows, NSYS_START, &span->start_ns)) {
        return nsys_count(n, KS_STAT_missing_time, KS_NO_OFFSET, err);
    }
    span->has_end = ks_rows_int(rows, NSYS_END, &end_ns) && (end_ns != 0 || span->start_ns <= 0);
    end_ns = span->has_end ? end_ns : span->start_ns;
    if (!is_time(span->start_ns) || !is_time(end_ns)) {
        return nsys_count(n, KS_STAT_time_out_of_range, KS_NO_OFFSET, err);
    }
    if (end_ns < span->start_ns) {
        return nsys_count(n, KS_STAT_negative_duration, KS_NO_OFFSET, err);
    }
    span->dur_ns = end_ns - span->start_ns;
    *is_good = true;
    return KS_OK;
}

static void note_seen(struct nsys *n, const struct span *span)
{
    struct ks_source *s = n->to.source;
    int64_t end_ns = span->start_ns + span->dur_ns;
    s->events++;
    s->start_ns =
        s->start_ns == KS_TIME_NONE || span->start_ns < s->start_ns ? span->start_ns : s->start_ns;
    s->end_ns = s->end_ns == KS_TIME_NONE || end_ns > s->end_ns ? end_ns : s->end_ns;
}

/* ------------------------------------------------------------------ names */

/* The best name that the row has, or "kernel 17". */
static enum ks_status take_name(struct nsys *n, const struct ks_rows *rows,
                                const struct nsys_table *table, const char *what,
                                struct ks_strid *out, struct ks_err *err)
{
    int64_t id = 0;
    bool has_id = false;
    for (size_t i = 0; i < NSYS_NAMES_MAX && table->name_columns[i] > 0; i++) {
        int64_t next = 0;
        if (!ks_rows_int(rows, (size_t)table->name_columns[i], &next)) {
            continue;
        }
        if (nsys_string(n, next, out) && out->v != 0) {
            return KS_OK;
        }
        id = has_id ? id : next;
        has_id = true;
    }
    char text[64];
    int len = snprintf(text, sizeof(text), "%s %lld", what, (long long)id);
    KS_TRY(nsys_count(n, KS_STAT_names_missing, KS_NO_OFFSET, err));
    return nsys_intern(n, (struct ks_str){text, (size_t)len}, out, err);
}

static const char *copy_direction(int64_t kind)
{
    static const char *const names[] = {
        "Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD",
        "DtoA",    "DtoD", "HtoH", "PtoP", "HtoD", "DtoH", "DtoD", /* 11 to 13: unified memory */
    };
    return kind >= 0 && kind < (int64_t)KS_COUNT_OF(names) ? names[kind] : names[0];
}

/* By the file's own list of kinds, when it has one. */
static struct ks_str memory_kind(const struct nsys *n, int64_t kind)
{
    static const char *const names[] = {
        "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static",
    };
    if (kind < 0 || kind >= (int64_t)KS_COUNT_OF(names)) {
        return KS_STR("Unknown");
    }
    struct ks_str said = ks_trace_builder_str(n->to.builder, n->memory_kinds[kind]);
    return said.len > 0 ? said : ks_str_from(names[kind]);
}

static enum ks_status intern_scratch(struct nsys *n, uint32_t *out, struct ks_err *err)
{
    struct ks_strid id = {0};
    if (n->scratch.failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep names: no memory");
    }
    KS_TRY(nsys_intern(n, (struct ks_str){n->scratch.ptr, n->scratch.len}, &id, err));
    *out = id.v;
    return KS_OK;
}

static enum ks_status name_copy(struct nsys *n, const struct ks_rows *rows, uint32_t *out,
                                struct ks_err *err)
{
    struct ks_str from = memory_kind(n, int_or(rows, COPY_FROM, -1));
    struct ks_str to = memory_kind(n, int_or(rows, COPY_TO, -1));
    ks_text_reset(&n->scratch);
    ks_text_printf(&n->scratch, "Memcpy %s (%.*s -> %.*s)",
                   copy_direction(int_or(rows, COPY_KIND, 0)), (int)from.len, from.ptr, (int)to.len,
                   to.ptr);
    return intern_scratch(n, out, err);
}

static enum ks_status name_set(struct nsys *n, const struct ks_rows *rows, uint32_t *out,
                               struct ks_err *err)
{
    struct ks_str kind = memory_kind(n, int_or(rows, SET_KIND, -1));
    ks_text_reset(&n->scratch);
    ks_text_printf(&n->scratch, "Memset (%.*s)", (int)kind.len, kind.ptr);
    return intern_scratch(n, out, err);
}

static enum ks_status name_sync(struct nsys *n, const struct ks_rows *rows, uint32_t *out,
                                struct ks_err *err)
{
    static const char *const names[] = {"Unknown Sync", "Event Sync", "Stream Wait Event",
                                        "Stream Sync", "Context Sync"};
    int64_t type = int_or(rows, SYNC_TYPE, 0);
    struct ks_strid id = {0};
    const char *name = type > 0 && type < (int64_t)KS_COUNT_OF(names) ? names[type] : names[0];
    KS_TRY(nsys_intern(n, ks_str_from(name), &id, err));
    *out = id.v;
    return KS_OK;
}

/* "[4, 2, 1]", as Kineto writes it; nothing when the row has none. */
static enum ks_status take_triple(struct nsys *n, const struct ks_rows *rows, size_t column,
                                  int64_t *product, uint32_t *out, struct ks_err *err)
{
    int64_t size[3];
    *product = 0;
    for (size_t i = 0; i < 3; i++) {
        if (!ks_rows_int(rows, column + i, &size[i]) || size[i] < 0 || size[i] > UINT32_MAX) {
            return KS_OK;
        }
    }
    double all = (double)size[0] * (double)size[1] * (double)size[2];
    *product = all < (double)(1LL << 62) ? (int64_t)all : 0;
    ks_text_reset(&n->scratch);
    ks_text_printf(&n->scratch, "[%lld, %lld, %lld]", (long long)size[0], (long long)size[1],
                   (long long)size[2]);
    return intern_scratch(n, out, err);
}

/* ------------------------------------------------------------------ work of devices */

static const struct ks_gpu_info *find_gpu(const struct nsys *n, int64_t device)
{
    const struct ks_source *s = n->to.source;
    for (size_t i = 0; i < s->gpu_count; i++) {
        if (s->gpus[i].id == device) {
            return &s->gpus[i];
        }
    }
    return NULL;
}

/* Blocks of the grid by multiprocessors, and warps of these, as Kineto computes them. */
static void fill_load(const struct nsys *n, int64_t device, int64_t blocks, int64_t threads,
                      struct ks_gpu_row *row)
{
    enum { WARP = 32 };
    const struct ks_gpu_info *gpu = find_gpu(n, device);
    if (gpu && gpu->sm_count > 0 && blocks > 0 && threads > 0) {
        float per_sm = (float)blocks / (float)gpu->sm_count;
        row->blocks_per_sm = per_sm;
        row->warps_per_sm = per_sm * (float)threads / (float)WARP;
    }
}

static enum ks_status fill_kernel(struct nsys *n, const struct ks_rows *rows,
                                  struct ks_gpu_row *row, struct ks_err *err)
{
    struct ks_strid name = {0};
    int64_t blocks = 0;
    int64_t threads = 0;
    int64_t registers = int_or(rows, KERNEL_REGISTERS, 0);
    int64_t fixed = int_or(rows, KERNEL_SHARED_STATIC, 0);
    int64_t asked = int_or(rows, KERNEL_SHARED_DYNAMIC, 0);
    bool is_small = fixed >= 0 && asked >= 0 && fixed <= INT32_MAX && asked <= INT32_MAX;
    KS_TRY(take_name(n, rows, &nsys_tables[NSYS_KERNEL], "kernel", &name, err));
    row->name = name.v;
    row->registers = registers > 0 && registers <= UINT16_MAX ? (uint16_t)registers : 0;
    row->shared_bytes = is_small ? (uint32_t)(fixed + asked) : 0;
    KS_TRY(take_triple(n, rows, KERNEL_GRID, &blocks, &row->grid, err));
    KS_TRY(take_triple(n, rows, KERNEL_BLOCK, &threads, &row->block, err));
    fill_load(n, int_or(rows, NSYS_DEVICE, 0), blocks, threads, row);
    bool is_communication = ks_kernel_is_communication(ks_trace_builder_str(n->to.builder, name));
    row->flags |= is_communication ? KS_GPU_COMMUNICATION : 0;
    return KS_OK;
}

static enum ks_status name_graph(struct nsys *n, const struct ks_rows *rows, uint32_t *out,
                                 struct ks_err *err)
{
    ks_text_reset(&n->scratch);
    ks_text_printf(&n->scratch, "CUDA graph %lld", (long long)int_or(rows, GRAPH_ID, 0));
    return intern_scratch(n, out, err);
}

static enum ks_status fill_work(struct nsys *n, enum nsys_kind kind, const struct ks_rows *rows,
                                struct ks_gpu_row *row, struct ks_err *err)
{
    int64_t bytes = -1;
    if (kind == NSYS_COPY || kind == NSYS_SET) {
        bytes = int_or(rows, kind == NSYS_COPY ? (size_t)COPY_BYTES : (size_t)SET_BYTES, -1);
    }
    row->bytes = bytes >= 0 ? bytes : -1;
    switch (kind) {
    case NSYS_KERNEL: row->category = KS_CATEGORY_KERNEL; return fill_kernel(n, rows, row, err);
    case NSYS_GRAPH:
        row->category = KS_CATEGORY_KERNEL;
        return name_graph(n, rows, &row->name, err);
    case NSYS_COPY: row->category = KS_CATEGORY_MEMCPY; return name_copy(n, rows, &row->name, err);
    case NSYS_SET: row->category = KS_CATEGORY_MEMSET; return name_set(n, rows, &row->name, err);
    default: row->category = KS_CATEGORY_GPU_SYNC; return name_sync(n, rows, &row->name, err);
    }
}

static enum ks_status emit_gpu(struct nsys *n, enum nsys_kind kind, const struct ks_rows *rows,
                               const struct span *span, struct ks_err *err)
{
    struct ks_gpu_row row = {
        .start_ns = span->start_ns,
        .dur_ns = span->dur_ns,
        .corr = int_or(rows, NSYS_CORR, -1),
        .ext_id = -1,
        .launch_ns = KS_TIME_NONE,
        .launch_end_ns = KS_TIME_NONE,
        .occupancy = NAN,
        .blocks_per_sm = NAN,
        .warps_per_sm = NAN,
    };
    KS_TRY(ks_trace_builder_stream(n->to.builder, int_or(rows, NSYS_DEVICE, 0),
                                   int_or(rows, NSYS_STREAM, 0), &row.lane, &row.stream, err));
    KS_TRY(fill_work(n, kind, rows, &row, err));
    note_seen(n, span);
    return ks_trace_builder_gpu(n->to.builder, &row, err);
}

/* ------------------------------------------------------------------ calls and ranges */

static enum ks_status find_thread(struct nsys *n, const struct ks_rows *rows, uint32_t *track,
                                  struct ks_err *err)
{
    int64_t id = int_or(rows, NSYS_PROCESS, 0);
    struct ks_track_key pid = {.number = nsys_pid(id)};
    struct ks_track_key tid = {.number = nsys_tid(id)};
    return ks_trace_builder_thread(n->to.builder, pid, tid, track, err);
}

static struct ks_slice_row make_slice(struct nsys *n, const struct span *span)
{
    n->order += n->order < UINT32_MAX;
    return (struct ks_slice_row){
        .order = n->order,
        .start_ns = span->start_ns,
        .dur_ns = span->dur_ns,
        .ext_id = -1,
        .corr = -1,
        .seq = -1,
        .aux = -1,
        .parent_aux = -1,
        .flags = span->has_end ? 0 : KS_SLICE_UNFINISHED,
    };
}

/* "cudaLaunchKernel_v7000" is cudaLaunchKernel to everybody else. */
static struct ks_str without_version(struct ks_str name)
{
    size_t len = name.len <= TRIMMED_BYTES_MAX ? name.len : 0;
    while (len > 0 && isdigit((unsigned char)name.ptr[len - 1])) {
        len--;
    }
    bool has_version = len + 4 <= name.len && len > 2 && memcmp(name.ptr + len - 2, "_v", 2) == 0;
    return has_version ? (struct ks_str){name.ptr, len - 2} : name;
}

static enum ks_status emit_call(struct nsys *n, const struct ks_rows *rows, const struct span *span,
                                struct ks_err *err)
{
    if (!span->has_end) {
        KS_TRY(nsys_count(n, KS_STAT_unfinished_slices, KS_NO_OFFSET, err));
    }
    struct ks_slice_row row = make_slice(n, span);
    struct ks_strid name = {0};
    KS_TRY(take_name(n, rows, &nsys_tables[NSYS_CALL], "call", &name, err));
    struct ks_str text = ks_trace_builder_str(n->to.builder, name);
    bool is_driver =
        ks_str_starts(text, KS_STR("cu")) && text.len > 2 && isupper((unsigned char)text.ptr[2]);
    struct ks_str trimmed = without_version(text);
    if (trimmed.len < text.len) {
        KS_TRY(ks_trace_builder_intern(n->to.builder, trimmed, &name, err));
    }
    row.name = name.v;
    row.category = is_driver ? KS_CATEGORY_DRIVER : KS_CATEGORY_RUNTIME;
    row.corr = int_or(rows, NSYS_CORR, -1);
    KS_TRY(find_thread(n, rows, &row.lane, err));
    note_seen(n, span);
    return ks_trace_builder_slice(n->to.builder, &row, err);
}

/* torch.autograd.profiler.emit_nvtx: "aten::mm, seq = 12, op_id = 34, sizes = ...". */
static bool take_operator(struct ks_str *name, int64_t *seq)
{
    static const struct ks_str keys[] = {{", seq = ", 8}, {", op_id = ", 10}};
    for (size_t i = 0; i < KS_COUNT_OF(keys) && name->len <= TRIMMED_BYTES_MAX; i++) {
        const char *at = memmem(name->ptr, name->len, keys[i].ptr, keys[i].len);
        if (!at) {
            continue;
        }
        const char *end = name->ptr + name->len;
        int64_t number = -1;
        for (const char *p = at + keys[i].len;
             i == 0 && p < end && isdigit((unsigned char)*p) && number < INT64_MAX / 16; p++) {
            number = (number < 0 ? 0 : number) * 10 + (*p - '0');
        }
        *seq = number;
        name->len = (size_t)(at - name->ptr);
        return true;
    }
    return false;
}

static enum ks_status range_name(struct nsys *n, struct ks_rows *rows, struct ks_strid *name,
                                 struct ks_err *err)
{
    struct ks_str text = ks_rows_text(rows, RANGE_TEXT);
    return text.len > 0 ? nsys_intern(n, text, name, err)
                        : take_name(n, rows, &nsys_tables[NSYS_RANGE], "range", name, err);
}

static enum ks_status emit_mark(struct nsys *n, const struct ks_rows *rows, const struct span *span,
                                struct ks_strid name, struct ks_err *err)
{
    struct ks_mark_row row = {.start_ns = span->start_ns, .value = (double)NAN, .name = name.v};
    KS_TRY(find_thread(n, rows, &row.lane, err));
    note_seen(n, &(struct span){.start_ns = span->start_ns});
    return ks_trace_builder_mark(n->to.builder, &row, err);
}

/* Ranges that start on one thread and end on another overlap freely: they are of their process. */
static enum ks_status place_range(struct nsys *n, const struct ks_rows *rows, bool is_free,
                                  struct ks_slice_row *row, struct ks_err *err)
{
    struct ks_track_key pid = {.number = nsys_pid(int_or(rows, NSYS_PROCESS, 0))};
    if (!is_free) {
        return find_thread(n, rows, &row->lane, err);
    }
    row->flags |= KS_SLICE_ASYNC;
    return ks_trace_builder_async(n->to.builder, pid, &row->lane, err);
}

static enum ks_status emit_range(struct nsys *n, struct ks_rows *rows, const struct span *span,
                                 struct ks_err *err)
{
    int64_t type = int_or(rows, RANGE_TYPE, NVTX_PUSH_POP);
    if (type != NVTX_MARK && type != NVTX_PUSH_POP && type != NVTX_START_END) {
        n->to.source->counts[KS_STAT_metadata_events]++;
        return KS_OK;
    }
    struct ks_strid name = {0};
    KS_TRY(range_name(n, rows, &name, err));
    if (type == NVTX_MARK) {
        return emit_mark(n, rows, span, name, err);
    }
    if (!span->has_end) {
        KS_TRY(nsys_count(n, KS_STAT_unfinished_slices, KS_NO_OFFSET, err));
    }
    struct ks_slice_row row = make_slice(n, span);
    struct ks_str text = ks_trace_builder_str(n->to.builder, name);
    bool is_operator = take_operator(&text, &row.seq);
    if (is_operator) {
        KS_TRY(ks_trace_builder_intern(n->to.builder, text, &name, err));
    }
    row.name = name.v;
    row.category = is_operator ? KS_CATEGORY_CPU_OP : KS_CATEGORY_USER_ANNOTATION;
    KS_TRY(place_range(n, rows, type == NVTX_START_END, &row, err));
    note_seen(n, span);
    return ks_trace_builder_slice(n->to.builder, &row, err);
}

enum ks_status nsys_emit(struct nsys *n, enum nsys_kind kind, struct ks_rows *rows,
                         struct ks_err *err)
{
    struct span span;
    bool is_good = false;
    KS_TRY(take_span(n, rows, &span, &is_good, err));
    if (!is_good) {
        return KS_OK;
    }
    switch (kind) {
    case NSYS_CALL: return emit_call(n, rows, &span, err);
    case NSYS_RANGE: return emit_range(n, rows, &span, err);
    default: return emit_gpu(n, kind, rows, &span, err);
    }
}
