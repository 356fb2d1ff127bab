#include "export/perfetto_tracks.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/map.h"

enum { TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4 };
enum { PROCESS_PID = 1, PROCESS_NAME = 6, THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum { FIRST_FREE = 1 << 30, NAME_BYTES_MAX = 200 };

/* Spaces of the map. */
enum { OWNER_OF_PID, PID_OF_OWNER, OWNER_OF_TID, TID_OF_OWNER, PID_OF_TRACK, SPACE_SHIFT = 32 };

struct describer {
    struct ks_perfetto_out *out;
    const struct ks_view *view;
    struct ks_map numbers;
    int64_t next_free;
    struct ks_text name;
};

static uint64_t *slot_of(struct describer *d, uint64_t space, uint64_t a, uint64_t b)
{
    return ks_map_put(&d->numbers, space << SPACE_SHIFT | (a & UINT32_MAX), b, NULL);
}

/* The number itself when nobody else has it, else a free one: always the same for the same owner.
 * 0: no memory. */
static int64_t own_number(struct describer *d, uint64_t space, uint64_t owner, int64_t number,
                          bool is_number)
{
    if (is_number && number > 0 && number < FIRST_FREE) {
        uint64_t *owned = slot_of(d, space, 0, (uint64_t)number);
        if (!owned || *owned == 0 || *owned == owner) {
            if (owned) {
                *owned = owner;
            }
            return owned ? number : 0;
        }
    }
    uint64_t *mine = slot_of(d, space + 1, owner, (uint64_t)number);
    if (mine && *mine == 0) {
        *mine = (uint64_t)d->next_free++;
    }
    return mine ? (int64_t)*mine : 0;
}

/* ------------------------------------------------------------------ names */

static struct ks_str name_of(const struct describer *d)
{
    return (struct ks_str){d->name.ptr, d->name.len};
}

static void append_rank(struct describer *d, uint32_t source)
{
    int64_t rank = ks_view_rank(d->view, source);
    if (rank != KS_UNKNOWN) {
        ks_text_printf(&d->name, "rank %lld, ", (long long)rank);
    }
}

static void append_text(struct describer *d, struct ks_str text)
{
    size_t len = text.len;
    if (len > NAME_BYTES_MAX) {
        for (len = NAME_BYTES_MAX; len > 0 && (text.ptr[len] & 0xC0) == 0x80;) {
            len--; // not inside of a character
        }
    }
    ks_text_append(&d->name, text.ptr, len);
}

static void append_number(struct describer *d, const char *word, const struct ks_track *track)
{
    ks_text_printf(&d->name, "%s ", word);
    if (track->text.v != 0) {
        append_text(d, ks_view_str(d->view, track->text));
    } else {
        ks_text_printf(&d->name, "%lld", (long long)track->number);
    }
}

/* Kineto calls a thread "thread 7 (python)": its number is not said twice. */
static void append_own_name(struct describer *d, const struct ks_track *track)
{
    struct ks_str name = ks_view_str(d->view, track->name);
    if (name.len > 0 && d->name.len > 0 && ks_str_starts(name, name_of(d))) {
        ks_text_reset(&d->name);
        append_text(d, name);
    } else if (name.len > 0) {
        ks_text_append_str(&d->name, KS_STR(": "));
        append_text(d, name);
    }
}

static void append_model(struct describer *d, const struct ks_track *track)
{
    const struct ks_source *source = ks_trace_source(d->view->trace, track->source);
    for (size_t i = 0; i < source->gpu_count; i++) {
        if (source->gpus[i].id == track->number && source->gpus[i].name.v != 0) {
            ks_text_append_str(&d->name, KS_STR(": "));
            append_text(d, ks_view_str(d->view, source->gpus[i].name));
            return;
        }
    }
}

/* ------------------------------------------------------------------ descriptors */

static int64_t *pid_of(struct describer *d, uint32_t track)
{
    return (int64_t *)slot_of(d, PID_OF_TRACK, 0, track);
}

static enum ks_status describe_process(struct describer *d, uint32_t id,
                                       const struct ks_track *track, struct ks_err *err)
{
    int64_t rank = ks_trace_source(d->view->trace, track->source)->rank;
    uint64_t owner = (uint64_t)(rank + 2); // windows of one process are one process
    bool is_number = track->text.v == 0;
    int64_t pid =
        own_number(d, OWNER_OF_PID, owner, is_number ? track->number : track->text.v, is_number);
    int64_t *slot = pid_of(d, id);
    if (pid == 0 || !slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot number processes: no memory");
    }
    *slot = pid;
    append_rank(d, track->source);
    append_number(d, "process", track);
    append_own_name(d, track);
    struct ks_proto_out *proto =
        ks_perfetto_track_begin(d->out, ks_perfetto_uuid(id, KS_PERFETTO_WORK), 0);
    ks_proto_begin(proto, TRACK_PROCESS);
    ks_proto_number(proto, PROCESS_PID, pid);
    ks_proto_text(proto, PROCESS_NAME, name_of(d));
    ks_proto_end(proto);
    return ks_perfetto_track_end(d->out, err);
}

static enum ks_status describe_thread(struct describer *d, uint32_t id,
                                      const struct ks_track *track, struct ks_err *err)
{
    bool is_number = track->text.v == 0;
    int64_t *slot = pid_of(d, track->parent);
    int64_t pid = slot ? *slot : 0;
    int64_t tid = own_number(d, OWNER_OF_TID, (uint64_t)pid + 1,
                             is_number ? track->number : track->text.v, is_number);
    if (!slot || tid == 0) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot number threads: no memory");
    }
    append_number(d, "thread", track);
    append_own_name(d, track);
    struct ks_proto_out *proto =
        ks_perfetto_track_begin(d->out, ks_perfetto_uuid(id, KS_PERFETTO_WORK),
                                ks_perfetto_uuid(track->parent, KS_PERFETTO_WORK));
    ks_proto_begin(proto, TRACK_THREAD);
    ks_proto_number(proto, THREAD_PID, pid);
    ks_proto_number(proto, THREAD_TID, tid);
    ks_proto_text(proto, THREAD_NAME, name_of(d));
    ks_proto_end(proto);
    return ks_perfetto_track_end(d->out, err);
}

static enum ks_status describe_plain(struct describer *d, uint64_t uuid, uint32_t parent,
                                     struct ks_err *err)
{
    struct ks_proto_out *proto = ks_perfetto_track_begin(
        d->out, uuid, parent != 0 ? ks_perfetto_uuid(parent, KS_PERFETTO_WORK) : 0);
    ks_proto_text(proto, TRACK_NAME, name_of(d));
    return ks_perfetto_track_end(d->out, err);
}

static enum ks_status describe_stream(struct describer *d, uint32_t id,
                                      const struct ks_track *track, struct ks_err *err)
{
    static const char *const endings[KS_PERFETTO_KINDS] = {"", ", annotations", ", waits"};
    for (unsigned kind = 0; kind < KS_PERFETTO_KINDS; kind++) {
        ks_text_reset(&d->name);
        append_number(d, "stream", track);
        ks_text_append_str(&d->name, ks_str_from(endings[kind]));
        KS_TRY(describe_plain(d, ks_perfetto_uuid(id, kind), track->parent, err));
    }
    return KS_OK;
}

static enum ks_status describe_track(struct describer *d, uint32_t id, struct ks_err *err)
{
    const struct ks_track *track = ks_trace_track(d->view->trace, id);
    ks_text_reset(&d->name);
    switch (track->kind) {
    case KS_TRACK_PROCESS: return describe_process(d, id, track, err);
    case KS_TRACK_THREAD: return describe_thread(d, id, track, err);
    case KS_TRACK_STREAM: return describe_stream(d, id, track, err);
    case KS_TRACK_DEVICE:
        append_rank(d, track->source);
        append_number(d, "GPU", track);
        append_model(d, track);
        return describe_plain(d, ks_perfetto_uuid(id, KS_PERFETTO_WORK), 0, err);
    case KS_TRACK_ASYNC:
    case KS_TRACK_NONE:
        ks_text_append_str(&d->name, KS_STR("overlapping spans"));
        return describe_plain(d, ks_perfetto_uuid(id, KS_PERFETTO_WORK), track->parent, err);
    }
    return KS_OK;
}

/* Tracks with rows, and those around them: Kineto names many a process that does nothing. */
static void mark_used(const struct ks_trace *trace, bool *is_used)
{
    static const enum ks_table_id tables[] = {KS_TABLE_slice, KS_TABLE_gpu, KS_TABLE_memory,
                                              KS_TABLE_mark};
    for (size_t t = 0; t < KS_COUNT_OF(tables); t++) {
        size_t count = 0;
        const struct ks_lane *lanes = ks_trace_lanes(trace, tables[t], &count);
        for (size_t i = 0; i < count; i++) {
            is_used[lanes[i].track] = true;
            is_used[ks_trace_track(trace, lanes[i].track)->parent] = true;
        }
    }
    for (uint32_t id = 1; id < ks_trace_track_count(trace); id++) {
        const struct ks_track *track = ks_trace_track(trace, id);
        is_used[id] |= track->kind == KS_TRACK_STREAM && is_used[track->parent];
    }
}

enum ks_status ks_perfetto_describe_tracks(struct ks_perfetto_out *out, const struct ks_view *view,
                                           struct ks_err *err)
{
    struct describer d = {.out = out, .view = view, .next_free = FIRST_FREE};
    enum ks_status status = KS_OK;
    ks_map_init(&d.numbers);
    ks_text_init(&d.name);
    uint32_t count = ks_trace_track_count(view->trace);
    bool *is_used = ks_alloc(count, sizeof(*is_used));
    if (!is_used) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep tracks: count=%u", count);
    }
    mark_used(view->trace, is_used);
    for (uint32_t id = 1; id < count && status == KS_OK; id++) {
        status = is_used[id] ? describe_track(&d, id, err) : KS_OK;
        if (status == KS_OK && d.name.failed) {
            status = ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot name tracks: no memory");
        }
    }
    ks_free(is_used);
    ks_text_release(&d.name);
    ks_map_release(&d.numbers);
    return status;
}
