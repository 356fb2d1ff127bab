/* The small parts of a sealed file: what its columns mean, sources, tracks, collectives. */
#include "base/alloc.h"
#include "base/err.h"
#include "store/kst_impl.h"

/* ------------------------------------------------------------------ schema */

static void put_name(struct ks_text *out, const char *name)
{
    ks_text_append(out, name, strlen(name));
    ks_text_append(out, "\n", 1);
}

/* clang-format off */
static const char *const columns[] = {
#define KS_SLICE_COLUMN(column, type) "slice." #column " " #type,
#include "store/tables.def"
#define KS_GPU_COLUMN(column, type) "gpu." #column " " #type,
#include "store/tables.def"
#define KS_MEMORY_COLUMN(column, type) "memory." #column " " #type,
#include "store/tables.def"
#define KS_MARK_COLUMN(column, type) "mark." #column " " #type,
#include "store/tables.def"
#define KS_SAMPLE_COLUMN(column, type) "sample." #column " " #type,
#include "store/tables.def"
#define KS_LINK_COLUMN(column, type) "link." #column " " #type,
#include "store/tables.def"
#define KS_SOURCE_FIELD(member, kind) "source." #member " " #kind,
#define KS_GPU_INFO_FIELD(member, kind) "gpu_info." #member " " #kind,
#define KS_TRACK_FIELD(member, kind) "track." #member " " #kind,
#define KS_COLLECTIVE_FIELD(member, kind) "collective." #member " " #kind,
#define KS_STACK_FIELD(member, kind) "stack." #member " " #kind,
#define KS_CALL_PATH_FIELD(member, kind) "call_path." #member " " #kind,
#include "store/kst_fields.def"
};
/* clang-format on */

void ks_kst_put_schema(struct ks_text *out)
{
    for (size_t i = 0; i < KS_COUNT_OF(columns); i++) {
        put_name(out, columns[i]);
    }
    for (int i = 0; i < KS_CATEGORY_COUNT; i++) {
        put_name(out, ks_category_name((enum ks_category)i));
    }
    for (int i = 0; i < KS_STAT_COUNT; i++) {
        put_name(out, ks_stat_info((enum ks_stat)i)->name);
    }
}

/* ------------------------------------------------------------------ one kind of field */

struct taker {
    struct ks_bytes *bytes;
    uint32_t string_count;
    bool is_good;
};

#define put_str(out, value) ks_put_u32(out, (value).v)
#define put_flag(out, value) ks_put_u8(out, (value))
#define put_u32(out, value) ks_put_u32(out, (uint32_t)(value))
#define put_u64 ks_put_u64
#define put_i32 ks_put_i32
#define put_i64 ks_put_i64

static struct ks_strid take_string(struct taker *taker)
{
    struct ks_strid id = {ks_bytes_u32(taker->bytes)};
    taker->is_good = taker->is_good && id.v < taker->string_count;
    return id;
}

static bool take_bool(struct taker *taker)
{
    uint8_t value = ks_bytes_u8(taker->bytes);
    taker->is_good = taker->is_good && value <= 1;
    return value == 1;
}

#define take_str(taker) take_string(taker)
#define take_flag(taker) take_bool(taker)
#define take_u32(taker) ks_bytes_u32((taker)->bytes)
#define take_u64(taker) ks_bytes_u64((taker)->bytes)
#define take_i32(taker) ks_bytes_i32((taker)->bytes)
#define take_i64(taker) ks_bytes_i64((taker)->bytes)

/* ------------------------------------------------------------------ writing */

static void put_source(struct ks_text *out, const struct ks_source *source)
{
#define KS_SOURCE_FIELD(member, kind) put_##kind(out, source->member);
#include "store/kst_fields.def"
    ks_put_u32(out, (uint32_t)source->gpu_count);
    for (size_t i = 0; i < source->gpu_count; i++) {
        const struct ks_gpu_info *gpu = &source->gpus[i];
#define KS_GPU_INFO_FIELD(member, kind) put_##kind(out, gpu->member);
#include "store/kst_fields.def"
    }
    for (size_t i = 0; i < KS_STAT_COUNT; i++) {
        ks_put_u64(out, source->counts[i]);
    }
}

static void put_track(struct ks_text *out, const struct ks_track *track)
{
#define KS_TRACK_FIELD(member, kind) put_##kind(out, track->member);
#include "store/kst_fields.def"
}

static void put_collective(struct ks_text *out, const struct ks_collective *collective)
{
#define KS_COLLECTIVE_FIELD(member, kind) put_##kind(out, collective->member);
#include "store/kst_fields.def"
}

static void put_stack(struct ks_text *out, const struct ks_stack *stack)
{
#define KS_STACK_FIELD(member, kind) put_##kind(out, stack->member);
#include "store/kst_fields.def"
}

static void put_call_path(struct ks_text *out, const struct ks_call_path *path)
{
#define KS_CALL_PATH_FIELD(member, kind) put_##kind(out, path->member);
#include "store/kst_fields.def"
}

void ks_kst_put_meta(const struct ks_trace *trace, struct ks_text *out)
{
    ks_put_i64(out, trace->origin_ns);
    ks_put_i64(out, trace->start_ns);
    ks_put_i64(out, trace->end_ns);
    ks_put_u32(out, trace->source_count);
    for (uint32_t i = 0; i < trace->source_count; i++) {
        put_source(out, trace->sources[i]);
    }
    ks_put_u32(out, trace->track_count);
    for (uint32_t i = 1; i < trace->track_count; i++) {
        put_track(out, &trace->tracks[i]);
    }
    ks_put_u32(out, trace->collective_count);
    for (uint32_t i = 0; i < trace->collective_count; i++) {
        put_collective(out, &trace->collectives[i]);
    }
    ks_put_u32(out, trace->stack_count);
    for (uint32_t i = 0; i < trace->stack_count; i++) {
        put_stack(out, &trace->stacks[i]);
    }
    ks_put_u32(out, trace->call_path_count);
    for (uint32_t i = 0; i < trace->call_path_count; i++) {
        put_call_path(out, &trace->call_paths[i]);
    }
}

/* ------------------------------------------------------------------ reading */

static enum ks_status fail_damaged(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_FORMAT, KS_NO_OFFSET,
                   "Cannot read sealed trace: its sources, tracks or collectives are damaged");
}

static enum ks_status fail_nomem(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot open sealed trace: no memory");
}

static enum ks_status take_source(struct taker *taker, struct ks_trace *trace,
                                  struct ks_source *source, struct ks_err *err)
{
#define KS_SOURCE_FIELD(member, kind) source->member = take_##kind(taker);
#include "store/kst_fields.def"
    source->gpu_count = ks_bytes_count(taker->bytes, 8);
    source->gpus = ks_new(&trace->arena, struct ks_gpu_info, source->gpu_count + 1);
    if (!source->gpus) {
        return fail_nomem(err);
    }
    for (size_t i = 0; i < source->gpu_count; i++) {
        struct ks_gpu_info *gpu = &source->gpus[i];
#define KS_GPU_INFO_FIELD(member, kind) gpu->member = take_##kind(taker);
#include "store/kst_fields.def"
    }
    for (size_t i = 0; i < KS_STAT_COUNT; i++) {
        source->counts[i] = ks_bytes_u64(taker->bytes);
    }
    return KS_OK;
}

static enum ks_status take_sources(struct taker *taker, struct ks_trace *trace, struct ks_err *err)
{
    trace->source_count = ks_bytes_count(taker->bytes, 8 * (size_t)KS_STAT_COUNT);
    trace->sources = ks_alloc(trace->source_count, sizeof(*trace->sources));
    struct ks_source *sources = ks_new(&trace->arena, struct ks_source, trace->source_count + 1);
    if (!trace->sources || !sources) {
        return fail_nomem(err);
    }
    for (uint32_t i = 0; i < trace->source_count; i++) {
        trace->sources[i] = &sources[i];
        KS_TRY(take_source(taker, trace, &sources[i], err));
    }
    return KS_OK;
}

/* As the builder makes them: parents come first and are of the kind that a child of this kind has,
 * and the tracks of a source lie behind those of the one before. */
static bool is_good_track(const struct ks_trace *trace, uint32_t id)
{
    static const enum ks_track_kind parents[] = {
        [KS_TRACK_NONE] = KS_TRACK_NONE,      [KS_TRACK_PROCESS] = KS_TRACK_NONE,
        [KS_TRACK_THREAD] = KS_TRACK_PROCESS, [KS_TRACK_DEVICE] = KS_TRACK_NONE,
        [KS_TRACK_STREAM] = KS_TRACK_DEVICE,  [KS_TRACK_ASYNC] = KS_TRACK_PROCESS,
    };
    const struct ks_track *track = &trace->tracks[id];
    uint32_t source_before = id > 1 ? trace->tracks[id - 1].source : 0;
    if ((unsigned)track->kind >= KS_COUNT_OF(parents) || track->kind == KS_TRACK_NONE ||
        track->source >= trace->source_count || track->source < source_before) {
        return false;
    }
    if (parents[track->kind] == KS_TRACK_NONE) {
        return track->parent == 0;
    }
    return track->parent > 0 && track->parent < id &&
           trace->tracks[track->parent].kind == parents[track->kind] &&
           trace->tracks[track->parent].source == track->source;
}

static enum ks_status take_tracks(struct taker *taker, struct ks_trace *trace, struct ks_err *err)
{
    enum { SIZE_MIN = 24 };
    uint32_t count = ks_bytes_u32(taker->bytes);
    taker->is_good = taker->is_good && count > 0 && count - 1 <= taker->bytes->left / SIZE_MIN;
    trace->track_count = taker->is_good ? count : 1;
    trace->tracks = ks_alloc(trace->track_count, sizeof(*trace->tracks));
    if (!trace->tracks) {
        return fail_nomem(err);
    }
    for (uint32_t i = 1; i < trace->track_count; i++) {
        struct ks_track *track = &trace->tracks[i];
#define KS_TRACK_FIELD(member, kind) track->member = take_##kind(taker);
#include "store/kst_fields.def"
        taker->is_good = taker->is_good && is_good_track(trace, i);
    }
    return KS_OK;
}

static enum ks_status take_collectives(struct taker *taker, struct ks_trace *trace,
                                       struct ks_err *err)
{
    trace->collective_count = ks_bytes_count(taker->bytes, sizeof(uint64_t) * 4);
    trace->collectives = ks_alloc(trace->collective_count, sizeof(*trace->collectives));
    if (!trace->collectives) {
        return fail_nomem(err);
    }
    for (uint32_t i = 0; i < trace->collective_count; i++) {
        struct ks_collective *collective = &trace->collectives[i];
#define KS_COLLECTIVE_FIELD(member, kind) collective->member = take_##kind(taker);
#include "store/kst_fields.def"
    }
    return KS_OK;
}

/* Callers come first. */
static enum ks_status take_stacks(struct taker *taker, struct ks_trace *trace, struct ks_err *err)
{
    trace->stack_count = ks_bytes_count(taker->bytes, sizeof(uint32_t) * 5);
    trace->stacks = ks_alloc(trace->stack_count, sizeof(*trace->stacks));
    if (!trace->stacks) {
        return fail_nomem(err);
    }
    for (uint32_t i = 0; i < trace->stack_count; i++) {
        struct ks_stack *stack = &trace->stacks[i];
#define KS_STACK_FIELD(member, kind) stack->member = take_##kind(taker);
#include "store/kst_fields.def"
        taker->is_good = taker->is_good && stack->caller <= i;
    }
    return KS_OK;
}

static bool is_thread(const struct ks_trace *trace, uint32_t track)
{
    return track > 0 && track < trace->track_count && trace->tracks[track].kind == KS_TRACK_THREAD;
}

/* Own times of sums may be longer than their totals. No difference overflows. */
static bool is_call_path(const struct ks_call_path *path)
{
    bool is_sum = path->kind == KS_CALL_SUM || path->kind == KS_CALL_COUNT;
    return (is_sum || path->kind == KS_CALL_PATH) && path->calls >= 0 && path->total_ns >= 0 &&
           path->child_ns >= (is_sum ? path->total_ns - INT64_MAX : 0) &&
           path->recursive_calls >= 0 && path->recursive_calls <= path->calls;
}

static enum ks_status take_call_paths(struct taker *taker, struct ks_trace *trace,
                                      struct ks_err *err)
{
    trace->call_path_count = ks_bytes_count(taker->bytes, sizeof(uint64_t) * 7);
    trace->call_paths = ks_alloc(trace->call_path_count, sizeof(*trace->call_paths));
    if (!trace->call_paths) {
        return fail_nomem(err);
    }
    for (uint32_t i = 0; i < trace->call_path_count; i++) {
        struct ks_call_path *path = &trace->call_paths[i];
#define KS_CALL_PATH_FIELD(member, kind) path->member = take_##kind(taker);
#include "store/kst_fields.def"
        taker->is_good = taker->is_good && path->parent <= i && is_thread(trace, path->track) &&
                         is_call_path(path);
    }
    return KS_OK;
}

enum ks_status ks_kst_take_meta(struct ks_bytes *bytes, struct ks_trace *trace, struct ks_err *err)
{
    struct taker taker = {bytes, ks_strpool_count(trace->strings), true};
    trace->origin_ns = ks_bytes_i64(bytes);
    trace->start_ns = ks_bytes_i64(bytes);
    trace->end_ns = ks_bytes_i64(bytes);
    taker.is_good = trace->start_ns >= 0 && trace->start_ns <= trace->end_ns;
    KS_TRY(take_sources(&taker, trace, err));
    KS_TRY(take_tracks(&taker, trace, err));
    KS_TRY(take_collectives(&taker, trace, err));
    KS_TRY(take_stacks(&taker, trace, err));
    KS_TRY(take_call_paths(&taker, trace, err));
    return taker.is_good && !bytes->failed ? KS_OK : fail_damaged(err);
}
