#include <float.h>
#include <math.h>

#include "base/err.h"
#include "read/kineto.h"

void kineto_seen(struct kineto *k, int64_t start_ns, int64_t end_ns)
{
    struct ks_source *s = k->to.source;
    s->events++;
    if (s->start_ns == KS_TIME_NONE || start_ns < s->start_ns) {
        s->start_ns = start_ns;
    }
    if (s->end_ns == KS_TIME_NONE || end_ns > s->end_ns) {
        s->end_ns = end_ns;
    }
}

/* Cuts what the store does not take, between two characters. */
static enum ks_status cut_text(struct kineto *k, struct ks_str *text, const char *place,
                               struct ks_err *err)
{
    if (KS_LIKELY(text->len <= KS_STR_LEN_MAX)) {
        return KS_OK;
    }
    size_t len = KS_STR_LEN_MAX;
    while (len > 0 && (text->ptr[len] & 0xC0) == 0x80) {
        len--;
    }
    text->len = len;
    return kineto_count(k, KS_STAT_repaired_strings, kineto_offset(k, place), err);
}

enum ks_status kineto_intern(struct kineto *k, const struct ks_json_str *raw, struct ks_strid *out,
                             struct ks_err *err)
{
    struct ks_str text = {raw->ptr, raw->len};
    if (KS_UNLIKELY(raw->flags & (KS_JSON_STR_ESCAPE | KS_JSON_STR_HIGH))) {
        text = ks_json_str_decode(raw, &k->scratch);
        if (k->scratch.failed) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot decode string: len=%zu",
                           raw->len);
        }
    }
    KS_TRY(cut_text(k, &text, raw->ptr, err));
    return ks_trace_builder_intern(k->to.builder, text, out, err);
}

/* JSON text of an argument, as it stands in the file; only bytes that are no UTF-8 change. */
static enum ks_status intern_text(struct kineto *k, struct ks_str text, uint32_t *out,
                                  struct ks_err *err)
{
    struct ks_strid id = {0};
    if (KS_UNLIKELY(k->has_damaged_text && text.len > 0)) {
        KS_TRY(kineto_intern(k, &(struct ks_json_str){text.ptr, text.len, KS_JSON_STR_HIGH}, &id,
                             err));
    } else if (text.len > 0) {
        const char *place = text.ptr;
        KS_TRY(cut_text(k, &text, place, err));
        KS_TRY(ks_trace_builder_intern(k->to.builder, text, &id, err));
    }
    *out = id.v;
    return KS_OK;
}

static enum ks_status intern_optional(struct kineto *k, const struct ks_json_str *raw,
                                      struct ks_strid *out, struct ks_err *err)
{
    *out = (struct ks_strid){0};
    return raw->ptr ? kineto_intern(k, raw, out, err) : KS_OK;
}

/* ---- tracks */

static enum ks_status track_key(struct kineto *k, const struct kineto_id *id,
                                struct ks_track_key *key, struct ks_err *err)
{
    *key = (struct ks_track_key){.number = id->found && !id->is_text ? id->number : 0};
    return id->is_text ? kineto_intern(k, &id->text, &key->text, err) : KS_OK;
}

static enum ks_status find_thread(struct kineto *k, const struct kineto_event *e, uint32_t *track,
                                  struct ks_err *err)
{
    int64_t pid = e->pid.found ? e->pid.number : 0;
    int64_t tid = e->tid.found ? e->tid.number : 0;
    bool is_text = e->pid.is_text || e->tid.is_text;
    if (!is_text) {
        for (unsigned i = 0; i < KINETO_TRACKS_CACHED; i++) {
            const struct kineto_track_cached *t = &k->tracks[i];
            if (t->used && t->pid == pid && t->tid == tid) {
                *track = t->track;
                return KS_OK;
            }
        }
    }
    struct ks_track_key pid_key;
    struct ks_track_key tid_key;
    KS_TRY(track_key(k, &e->pid, &pid_key, err));
    KS_TRY(track_key(k, &e->tid, &tid_key, err));
    KS_TRY(ks_trace_builder_thread(k->to.builder, pid_key, tid_key, track, err));
    if (!is_text) {
        k->tracks[k->track_next] =
            (struct kineto_track_cached){.used = true, .pid = pid, .tid = tid, .track = *track};
        k->track_next = (k->track_next + 1) % KINETO_TRACKS_CACHED;
    }
    return KS_OK;
}

static enum ks_status find_process(struct kineto *k, const struct kineto_event *e, uint32_t *track,
                                   struct ks_err *err)
{
    struct ks_track_key key;
    KS_TRY(track_key(k, &e->pid, &key, err));
    return ks_trace_builder_process(k->to.builder, key, track, err);
}

/* Number at the end of "stream 7"; 0 when there is none. */
static int64_t trailing_number(struct ks_json_str text)
{
    size_t start = text.len;
    while (start > 0 && text.ptr[start - 1] >= '0' && text.ptr[start - 1] <= '9') {
        start--;
    }
    int64_t value = 0;
    for (size_t i = start; i < text.len && i < start + 18; i++) {
        value = value * 10 + (text.ptr[i] - '0');
    }
    return value;
}

static int64_t id_number(const struct kineto_id *id)
{
    return id->is_text ? trailing_number(id->text) : id->found ? id->number : 0;
}

/* GPU rows carry device and stream in args; older ones only as pid and tid. In the export of the
 * legacy autograd profiler the pid is text and the tid is the device. */
static enum ks_status find_stream(struct kineto *k, const struct kineto_event *e,
                                  uint32_t *device_track, uint32_t *stream_track,
                                  struct ks_err *err)
{
    bool is_legacy = e->pid.is_text;
    int64_t device =
        e->args.found & ARG_DEVICE ? e->args.device : id_number(is_legacy ? &e->tid : &e->pid);
    int64_t stream = e->args.found & ARG_STREAM ? e->args.stream
                     : is_legacy                ? 0
                                                : id_number(&e->tid);
    if (!k->stream_cached.used || k->stream_cached.device != device ||
        k->stream_cached.stream != stream) {
        KS_TRY(ks_trace_builder_stream(k->to.builder, device, stream, device_track, stream_track,
                                       err));
        k->stream_cached.used = true;
        k->stream_cached.device = device;
        k->stream_cached.stream = stream;
        k->stream_cached.device_track = *device_track;
        k->stream_cached.stream_track = *stream_track;
    }
    *device_track = k->stream_cached.device_track;
    *stream_track = k->stream_cached.stream_track;
    return KS_OK;
}

/* ---- arguments */

static enum ks_status intern_dims(struct kineto *k, struct ks_str raw, uint32_t *out,
                                  struct ks_err *err)
{
    *out = raw.len > 0 ? kineto_shapes_find(&k->shapes, raw) : 0;
    if (KS_LIKELY(*out != 0 || raw.len == 0)) {
        return KS_OK;
    }
    struct ks_str text = kineto_shapes_normalise(&k->shapes, raw);
    if (!text.ptr) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep input shapes: len=%zu",
                       raw.len);
    }
    KS_TRY(intern_text(k, text, out, err));
    if (!k->has_damaged_text) {
        kineto_shapes_keep(&k->shapes, raw, *out);
    }
    return KS_OK;
}

static int64_t arg_or(const struct kineto_args *a, uint32_t bit, int64_t value, int64_t missing)
{
    return a->found & bit ? value : missing;
}

static float share_or_nan(const struct kineto_args *a, uint32_t bit, double value, double unit,
                          double value_max)
{
    /* Old builds wrote -1 where they knew nothing. */
    bool is_known = a->found & bit && value >= 0 && value <= value_max;
    return is_known ? (float)(value / unit) : NAN;
}

static enum ks_status intern_collective(struct kineto *k, const struct kineto_args *a, uint32_t *id,
                                        struct ks_err *err)
{
    struct ks_collective c = {
        .sequence = arg_or(a, ARG_SEQUENCE, a->sequence, -1),
        .in_elements = arg_or(a, ARG_IN_ELEMENTS, a->in_elements, -1),
        .out_elements = arg_or(a, ARG_OUT_ELEMENTS, a->out_elements, -1),
        .group_size = arg_or(a, ARG_GROUP_SIZE, a->group_size, -1),
    };
    KS_TRY(intern_optional(k, &a->collective, &c.name, err));
    KS_TRY(intern_optional(k, &a->group, &c.group, err));
    KS_TRY(intern_optional(k, &a->group_ranks, &c.ranks, err));
    KS_TRY(intern_optional(k, &a->dtype, &c.dtype, err));
    return ks_trace_builder_collective(k->to.builder, &c, id, err);
}

/* ---- slices */

static enum ks_category category_of(const struct kineto_event *e)
{
    enum ks_category category = e->category
                                    ? (enum ks_category)(e->category - 1)
                                    : ks_category_find((struct ks_str){e->cat.ptr, e->cat.len});
    bool is_legacy_gpu =
        category == KS_CATEGORY_NONE && e->pid.is_text &&
        ks_str_equal((struct ks_str){e->pid.text.ptr, e->pid.text.len}, KS_STR("CUDA functions"));
    return is_legacy_gpu ? KS_CATEGORY_KERNEL : category;
}

static enum ks_status fill_slice(struct kineto *k, const struct kineto_event *e,
                                 enum ks_category category, struct ks_slice_row *row,
                                 struct ks_err *err)
{
    const struct kineto_args *a = &e->args;
    struct ks_strid name;
    KS_TRY(intern_optional(k, &e->name, &name, err));
    bool is_python = category == KS_CATEGORY_PYTHON;
    *row = (struct ks_slice_row){
        .order = k->order,
        .start_ns = e->ts_ns,
        .dur_ns = e->has_dur ? e->dur_ns : 0,
        .ext_id = arg_or(a, ARG_EXT_ID, a->ext_id, -1),
        .corr = arg_or(a, ARG_CORR, a->corr, -1),
        .seq = arg_or(a, ARG_SEQ, a->seq, -1),
        .aux = is_python ? arg_or(a, ARG_PYTHON_ID, a->python_id, -1)
                         : arg_or(a, ARG_FWD_THREAD, a->fwd_thread, -1),
        .parent_aux = is_python ? arg_or(a, ARG_PYTHON_PARENT, a->python_parent, -1) : -1,
        .name = name.v,
        .category = (uint8_t)category,
    };
    KS_TRY(find_thread(k, e, &row->lane, err));
    KS_TRY(intern_dims(k, a->dims, &row->dims, err));
    KS_TRY(intern_text(k, a->types, &row->types, err));
    if (name.v == k->conv2d.v) {
        KS_TRY(intern_text(k, a->concrete, &row->concrete, err));
    }
    if (is_python) {
        struct ks_strid call_from;
        KS_TRY(intern_optional(k, &a->call_from, &call_from, err));
        row->concrete = call_from.v;
    }
    return KS_OK;
}

static enum ks_status fill_gpu(struct kineto *k, const struct kineto_event *e,
                               enum ks_category category, struct ks_gpu_row *row,
                               struct ks_err *err)
{
    const struct kineto_args *a = &e->args;
    struct ks_strid name;
    KS_TRY(intern_optional(k, &e->name, &name, err));
    int64_t registers = arg_or(a, ARG_REGISTERS, a->registers, 0);
    int64_t shared = arg_or(a, ARG_SHARED, a->shared, 0);
    *row = (struct ks_gpu_row){
        .start_ns = e->ts_ns,
        .dur_ns = e->has_dur ? e->dur_ns : 0,
        .corr = arg_or(a, ARG_CORR, a->corr, -1),
        .ext_id = arg_or(a, ARG_EXT_ID, a->ext_id, -1),
        .bytes = arg_or(a, ARG_BYTES, a->bytes, -1),
        .launch_ns = KS_TIME_NONE,
        .launch_end_ns = KS_TIME_NONE,
        .name = name.v,
        .occupancy = share_or_nan(a, ARG_OCCUPANCY, a->occupancy, 100, 100),
        .blocks_per_sm = share_or_nan(a, ARG_BLOCKS_PER_SM, a->blocks_per_sm, 1, (double)FLT_MAX),
        .warps_per_sm = share_or_nan(a, ARG_WARPS_PER_SM, a->warps_per_sm, 1, (double)FLT_MAX),
        .registers = registers > 0 && registers <= UINT16_MAX ? (uint16_t)registers : 0,
        .shared_bytes = shared > 0 && shared <= UINT32_MAX ? (uint32_t)shared : 0,
        .category = (uint8_t)category,
    };
    KS_TRY(find_stream(k, e, &row->lane, &row->stream, err));
    KS_TRY(intern_text(k, a->grid, &row->grid, err));
    KS_TRY(intern_text(k, a->block, &row->block, err));
    if (category == KS_CATEGORY_KERNEL) {
        if (ks_kernel_is_communication(ks_trace_builder_str(k->to.builder, name))) {
            row->flags |= KS_GPU_COMMUNICATION;
        }
        if (a->collective.ptr) {
            KS_TRY(intern_collective(k, a, &row->collective, err));
        }
    }
    return KS_OK;
}

static enum ks_status emit_complete(struct kineto *k, const struct kineto_event *e, int64_t offset,
                                    struct ks_err *err)
{
    if (e->has_dur && (e->dur_ns < KS_TIME_MIN_NS || e->dur_ns > KS_TIME_MAX_NS - e->ts_ns)) {
        return kineto_count(k, KS_STAT_time_out_of_range, offset, err);
    }
    if (e->has_dur && e->dur_ns < 0) {
        return kineto_count(k, KS_STAT_negative_duration, offset, err);
    }
    if (!e->has_dur) {
        KS_TRY(kineto_count(k, KS_STAT_unfinished_slices, offset, err));
    }
    if (e->args.found & ARG_UNFINISHED) {
        KS_TRY(kineto_count(k, KS_STAT_unfinished_flagged, offset, err));
    }
    enum ks_category category = category_of(e);
    int64_t end_ns = e->ts_ns + (e->has_dur ? e->dur_ns : 0);
    if (ks_category_is_gpu(category)) {
        struct ks_gpu_row row;
        KS_TRY(fill_gpu(k, e, category, &row, err));
        kineto_seen(k, e->ts_ns, end_ns);
        return ks_trace_builder_gpu(k->to.builder, &row, err);
    }
    struct ks_slice_row row;
    KS_TRY(fill_slice(k, e, category, &row, err));
    row.flags = e->has_dur ? 0 : KS_SLICE_UNFINISHED;
    kineto_seen(k, e->ts_ns, end_ns);
    return ks_trace_builder_slice(k->to.builder, &row, err);
}

/* ---- instants and counters */

static enum ks_status emit_memory(struct kineto *k, const struct kineto_event *e, bool is_oom,
                                  struct ks_err *err)
{
    const struct kineto_args *a = &e->args;
    int64_t device = arg_or(a, ARG_DEVICE_ID, a->device_id, -1);
    int64_t type = arg_or(a, ARG_DEVICE_TYPE, a->device_type, 0);
    struct ks_memory_row row = {
        .start_ns = e->ts_ns,
        .bytes = arg_or(a, ARG_BYTES, a->bytes, 0),
        .addr = (uint64_t)arg_or(a, ARG_ADDR, a->addr, 0),
        .allocated = arg_or(a, ARG_ALLOCATED, a->allocated, -1),
        .reserved = arg_or(a, ARG_RESERVED, a->reserved, -1),
        .device = device >= 0 && device <= INT32_MAX ? (int32_t)device : -1,
        .device_type = type >= 0 && type <= UINT8_MAX ? (uint8_t)type : 0,
        .flags = is_oom ? KS_MEMORY_OUT_OF_MEMORY : 0,
    };
    KS_TRY(find_process(k, e, &row.lane, err));
    kineto_seen(k, e->ts_ns, e->ts_ns);
    return ks_trace_builder_memory(k->to.builder, &row, err);
}

static enum ks_status emit_instant(struct kineto *k, const struct kineto_event *e,
                                   struct ks_err *err)
{
    struct ks_str name = {e->name.ptr, e->name.len};
    bool is_oom = ks_str_equal(name, KS_STR("[OutOfMemory]"));
    if (is_oom || ks_str_equal(name, KS_STR("[memory]"))) {
        return emit_memory(k, e, is_oom, err);
    }
    struct ks_mark_row row = {.start_ns = e->ts_ns, .value = (double)NAN};
    struct ks_strid id;
    KS_TRY(intern_optional(k, &e->name, &id, err));
    row.name = id.v;
    KS_TRY(find_thread(k, e, &row.lane, err));
    kineto_seen(k, e->ts_ns, e->ts_ns);
    return ks_trace_builder_mark(k->to.builder, &row, err);
}

/* Each argument of a counter event is a series of its own. The arguments were read once without
 * fault, so this second pass cannot meet one. */
static enum ks_status emit_counter(struct kineto *k, const struct kineto_event *e, const char *end,
                                   struct ks_err *err)
{
    struct ks_mark_row row = {.start_ns = e->ts_ns, .flags = KS_MARK_COUNTER};
    struct ks_strid id;
    KS_TRY(intern_optional(k, &e->name, &id, err));
    row.name = id.v;
    KS_TRY(find_thread(k, e, &row.lane, err));
    kineto_seen(k, e->ts_ns, e->ts_ns);
    if (!e->args_at) {
        return KS_OK;
    }
    struct ks_json_cursor c = {
        .at = e->args_at + 1, .end = end, .lenient_quotes = e->has_guessed_quotes};
    char ch;
    bool more = ks_json_peek(&c, &ch) == KS_JSON_OK && ch != '}';
    while (more) {
        struct ks_json_str key;
        bool found = false;
        if (ks_json_key(&c, &key) != KS_JSON_OK ||
            ks_json_double(&c, &row.value, &found) != KS_JSON_OK) {
            break;
        }
        if (!found) {
            row.value = (double)NAN;
        }
        KS_TRY(kineto_intern(k, &key, &id, err));
        row.series = id.v;
        KS_TRY(ks_trace_builder_mark(k->to.builder, &row, err));
        if (ks_json_next(&c, '}', &more) != KS_JSON_OK) {
            break;
        }
    }
    return KS_OK;
}

/* ---- names of tracks, halves of slices */

static enum ks_status emit_metadata(struct kineto *k, const struct kineto_event *e,
                                    struct ks_err *err)
{
    KS_TRY(kineto_count(k, KS_STAT_metadata_events, 0, err));
    if (!e->args.name.ptr) {
        return KS_OK;
    }
    struct ks_str what = {e->name.ptr, e->name.len};
    uint32_t track = 0;
    if (ks_str_equal(what, KS_STR("process_name"))) {
        KS_TRY(find_process(k, e, &track, err));
    } else if (ks_str_equal(what, KS_STR("thread_name"))) {
        KS_TRY(find_thread(k, e, &track, err));
    }
    if (track == 0) {
        return KS_OK;
    }
    struct ks_strid name;
    KS_TRY(kineto_intern(k, &e->args.name, &name, err));
    ks_trace_builder_track(k->to.builder, track)->name = name;
    return KS_OK;
}

static enum ks_status emit_begin(struct kineto *k, const struct kineto_event *e, int64_t offset,
                                 struct ks_err *err)
{
    struct ks_slice_row row;
    enum ks_category category = category_of(e);
    /* GPU work comes as X alone; a B of such a category is shown on its thread. */
    category = ks_category_is_gpu(category) ? KS_CATEGORY_OTHER_HOST : category;
    KS_TRY(fill_slice(k, e, category, &row, err));
    return kineto_begin(k, &row, offset, err);
}

static enum ks_status emit_end(struct kineto *k, const struct kineto_event *e, int64_t offset,
                               struct ks_err *err)
{
    uint32_t track;
    struct ks_strid name;
    KS_TRY(find_thread(k, e, &track, err));
    KS_TRY(intern_optional(k, &e->name, &name, err));
    return kineto_end(k, track, name, e->ts_ns, offset, err);
}

static enum ks_status emit_async(struct kineto *k, const struct kineto_event *e, int64_t offset,
                                 struct ks_err *err)
{
    struct ks_strid cat;
    struct ks_strid scope;
    struct ks_strid text = {0};
    KS_TRY(intern_optional(k, &e->cat, &cat, err));
    KS_TRY(intern_optional(k, &e->scope, &scope, err));
    if (e->id.is_text) {
        KS_TRY(kineto_intern(k, &e->id.text, &text, err));
    }
    uint64_t key = (uint64_t)cat.v << 32 | scope.v;
    /* Text ids get the upper half of the numbers, so that "7" written both ways is one id only
     * when it is a number. */
    uint64_t id = e->id.is_text ? (uint64_t)1 << 63 | text.v : (uint64_t)e->id.number;
    if (e->phase == 'e') {
        return kineto_async_end(k, key, id, e->ts_ns, offset, err);
    }
    struct ks_slice_row row;
    KS_TRY(fill_slice(k, e, KS_CATEGORY_OTHER_HOST, &row, err));
    struct ks_track_key pid;
    KS_TRY(track_key(k, &e->pid, &pid, err));
    KS_TRY(ks_trace_builder_async(k->to.builder, pid, &row.lane, err));
    row.flags = KS_SLICE_ASYNC;
    return kineto_async_begin(k, &row, key, id, offset, err);
}

static enum ks_status emit_timed(struct kineto *k, const struct kineto_event *e, const char *end,
                                 int64_t offset, struct ks_err *err)
{
    if (!e->has_ts) {
        return kineto_count(k, KS_STAT_missing_time, offset, err);
    }
    if (e->ts_ns > KS_TIME_MAX_NS || e->ts_ns < KS_TIME_MIN_NS) {
        return kineto_count(k, KS_STAT_time_out_of_range, offset, err);
    }
    switch (e->phase) {
    case 'X': return emit_complete(k, e, offset, err);
    case 'B': return emit_begin(k, e, offset, err);
    case 'E': return emit_end(k, e, offset, err);
    case 'b':
    case 'e': return emit_async(k, e, offset, err);
    case 'C': return emit_counter(k, e, end, err);
    default: return emit_instant(k, e, err);
    }
}

enum ks_status kineto_emit(struct kineto *k, const struct kineto_event *e, const char *end,
                           struct ks_err *err)
{
    int64_t offset = kineto_offset(k, e->start);
    k->order += k->order < UINT32_MAX;
    if (e->has_duplicate_key) {
        KS_TRY(kineto_count(k, KS_STAT_duplicate_keys, offset, err));
    }
    switch (e->phase) {
    case 's':
    case 't':
    case 'f': return kineto_count(k, KS_STAT_flow_events, offset, err);
    case 'M': return emit_metadata(k, e, err);
    case 'X':
    case 'B':
    case 'E':
    case 'b':
    case 'e':
    case 'n':
    case 'i':
    case 'I':
    case 'C': return emit_timed(k, e, end, offset, err);
    case '\0': return kineto_count(k, KS_STAT_missing_phase, offset, err);
    default: return kineto_count(k, KS_STAT_unknown_phase, offset, err);
    }
}
