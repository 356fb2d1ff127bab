/* Numbers of fields: protos/perfetto/trace of Perfetto, which never change their meaning. */
#include "export/perfetto_out.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

enum {
    TRACE_PACKET = 1,
    PACKET_CLOCKS = 6,
    PACKET_TIME = 8,
    PACKET_SEQUENCE = 10,
    PACKET_EVENT = 11,
    PACKET_NAMES = 12,
    PACKET_FLAGS = 13,
    PACKET_TRACK = 60,
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PARENT = 5,
    EVENT_CATEGORY = 3,
    EVENT_ARG = 4,
    EVENT_TYPE = 9,
    EVENT_NAME = 10,
    EVENT_TRACK = 11,
    EVENT_DOUBLE = 44,
    EVENT_FLOW = 47,
    ARG_NAME = 1,
    ARG_INT = 4,
    ARG_DOUBLE = 5,
    ARG_TEXT = 17,
    NAMES_CATEGORY = 1,
    NAMES_EVENT = 2,
    NAMES_ARG = 3,
    NAMES_TEXT = 29,
};

enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };
enum { STATE_CLEARED = 1, STATE_NEEDED = 2, CLOCK_REALTIME = 1, CLOCK_BOOTTIME = 6 };
enum { KNOWN_EVENT = 1, KNOWN_TEXT = 2 };

static const char *const arg_names[KS_ARG_COUNT] = {
    [KS_ARG_EXTERNAL_ID] = "External id",
    [KS_ARG_CORRELATION] = "correlation",
    [KS_ARG_SEQUENCE] = "Sequence number",
    [KS_ARG_SHAPES] = "Input Dims",
    [KS_ARG_TYPES] = "Input type",
    [KS_ARG_CONCRETE] = "Concrete Inputs",
    [KS_ARG_CALL_FROM] = "CallFrom",
    [KS_ARG_UNFINISHED] = "unfinished",
    [KS_ARG_BYTES] = "bytes",
    [KS_ARG_GRID] = "grid",
    [KS_ARG_BLOCK] = "block",
    [KS_ARG_REGISTERS] = "registers per thread",
    [KS_ARG_SHARED] = "shared memory",
    [KS_ARG_OCCUPANCY] = "est. achieved occupancy",
    [KS_ARG_COLLECTIVE] = "Collective name",
    [KS_ARG_GROUP] = "Process Group Name",
    [KS_ARG_RANKS] = "Process Group Ranks",
    [KS_ARG_DTYPE] = "dtype",
    [KS_ARG_LABEL] = "category",
    [KS_ARG_VALUES] = "values",
    [KS_ARG_IN_ELEMENTS] = "In msg nelems",
    [KS_ARG_OUT_ELEMENTS] = "Out msg nelems",
    [KS_ARG_GROUP_SIZE] = "Group size",
};

/* ------------------------------------------------------------------ packets */

enum ks_status ks_perfetto_init(struct ks_perfetto_out *out, const struct ks_trace *trace,
                                ks_write_cb write, void *user, struct ks_err *err)
{
    *out = (struct ks_perfetto_out){.trace = trace};
    size_t names = (size_t)ks_trace_str_count(trace) + 1;
    ks_sink_init(&out->sink, write, user);
    ks_text_init(&out->packet);
    out->is_known = ks_alloc(names, 1);
    return out->is_known
               ? KS_OK
               : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep names: count=%zu", names);
}

void ks_perfetto_release(struct ks_perfetto_out *out)
{
    ks_text_release(&out->packet);
    ks_free(out->is_known);
    out->is_known = NULL;
}

static struct ks_proto_out *begin_packet(struct ks_perfetto_out *out)
{
    ks_text_reset(&out->packet);
    ks_proto_init(&out->proto, &out->packet);
    ks_proto_begin(&out->proto, TRACE_PACKET);
    ks_proto_number(&out->proto, PACKET_SEQUENCE, 1);
    return &out->proto;
}

static enum ks_status end_packet(struct ks_perfetto_out *out, struct ks_err *err)
{
    ks_proto_end(&out->proto);
    if (out->packet.failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write a packet: no memory");
    }
    ks_sink_put(&out->sink, out->packet.ptr, out->packet.len);
    return out->sink.failed
               ? ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot write export: the receiver stopped")
               : KS_OK;
}

static void put_name(struct ks_proto_out *proto, unsigned kind, uint64_t id, struct ks_str text)
{
    ks_proto_begin(proto, kind);
    ks_proto_number(proto, 1, (int64_t)id);
    ks_proto_text(proto, 2, text);
    ks_proto_end(proto);
}

static void put_clock(struct ks_proto_out *proto, int64_t clock, int64_t ns)
{
    ks_proto_begin(proto, 1);
    ks_proto_number(proto, 1, clock);
    ks_proto_number(proto, 2, ns);
    ks_proto_end(proto);
}

/* Times of packets count from the origin of the trace; a snapshot says what Unix time that is. */
static enum ks_status put_clocks(struct ks_perfetto_out *out, struct ks_err *err)
{
    int64_t origin_ns = ks_trace_origin_ns(out->trace);
    if (origin_ns <= 0) {
        return KS_OK; // not known
    }
    struct ks_proto_out *proto = begin_packet(out);
    ks_proto_begin(proto, PACKET_CLOCKS);
    put_clock(proto, CLOCK_BOOTTIME, 0);
    put_clock(proto, CLOCK_REALTIME, origin_ns);
    ks_proto_end(proto);
    return end_packet(out, err);
}

enum ks_status ks_perfetto_start(struct ks_perfetto_out *out, struct ks_err *err)
{
    KS_TRY(put_clocks(out, err));
    struct ks_proto_out *proto = begin_packet(out);
    ks_proto_number(proto, PACKET_FLAGS, STATE_CLEARED);
    ks_proto_begin(proto, PACKET_NAMES);
    for (unsigned i = 1; i < KS_CATEGORY_COUNT; i++) {
        put_name(proto, NAMES_CATEGORY, i, ks_str_from(ks_category_name(i)));
    }
    for (unsigned i = 0; i < KS_ARG_COUNT; i++) {
        put_name(proto, NAMES_ARG, i + 1, ks_str_from(arg_names[i]));
    }
    ks_proto_end(proto);
    return end_packet(out, err);
}

enum ks_status ks_perfetto_finish(struct ks_perfetto_out *out, struct ks_err *err)
{
    return ks_sink_finish(&out->sink, err);
}

struct ks_proto_out *ks_perfetto_track_begin(struct ks_perfetto_out *out, uint64_t uuid,
                                             uint64_t parent)
{
    struct ks_proto_out *proto = begin_packet(out);
    ks_proto_begin(proto, PACKET_TRACK);
    ks_proto_number(proto, TRACK_UUID, (int64_t)uuid);
    if (parent != 0) {
        ks_proto_number(proto, TRACK_PARENT, (int64_t)parent);
    }
    return proto;
}

enum ks_status ks_perfetto_track_end(struct ks_perfetto_out *out, struct ks_err *err)
{
    ks_proto_end(&out->proto);
    return end_packet(out, err);
}

/* ------------------------------------------------------------------ events */

static struct ks_proto_out *begin_event(struct ks_perfetto_out *out, int type, uint64_t uuid,
                                        int64_t at_ns)
{
    struct ks_proto_out *proto = begin_packet(out);
    out->fresh_count = 0;
    ks_proto_number(proto, PACKET_TIME, at_ns > 0 ? at_ns : 0);
    ks_proto_number(proto, PACKET_FLAGS, STATE_NEEDED);
    ks_proto_begin(proto, PACKET_EVENT);
    ks_proto_number(proto, EVENT_TYPE, type);
    ks_proto_number(proto, EVENT_TRACK, (int64_t)uuid);
    return proto;
}

/* The names that are new go into the packet that uses them. */
static enum ks_status end_event(struct ks_perfetto_out *out, struct ks_err *err)
{
    struct ks_proto_out *proto = &out->proto;
    ks_proto_end(proto);
    if (out->fresh_count > 0) {
        ks_proto_begin(proto, PACKET_NAMES);
        for (size_t i = 0; i < out->fresh_count; i++) {
            struct ks_strid id = out->fresh[i].id;
            put_name(proto, out->fresh[i].kind, (uint64_t)id.v + 1, ks_trace_str(out->trace, id));
        }
        ks_proto_end(proto);
    }
    return end_packet(out, err);
}

/* Number of a name, which is written when it is used for the first time. */
static int64_t use_name(struct ks_perfetto_out *out, unsigned kind, uint8_t known,
                        struct ks_strid id)
{
    if (!(out->is_known[id.v] & known)) {
        KS_ASSERT(out->fresh_count < KS_PERFETTO_FRESH_MAX);
        out->is_known[id.v] |= known;
        out->fresh[out->fresh_count].kind = kind;
        out->fresh[out->fresh_count++].id = id;
    }
    return (int64_t)id.v + 1;
}

static void begin_arg(struct ks_perfetto_out *out, enum ks_perfetto_arg arg)
{
    ks_proto_begin(&out->proto, EVENT_ARG);
    ks_proto_number(&out->proto, ARG_NAME, (int64_t)arg + 1);
}

void ks_perfetto_arg_number(struct ks_perfetto_out *out, enum ks_perfetto_arg arg, int64_t value)
{
    begin_arg(out, arg);
    ks_proto_number(&out->proto, ARG_INT, value);
    ks_proto_end(&out->proto);
}

void ks_perfetto_arg_real(struct ks_perfetto_out *out, enum ks_perfetto_arg arg, double value)
{
    begin_arg(out, arg);
    ks_proto_double(&out->proto, ARG_DOUBLE, value);
    ks_proto_end(&out->proto);
}

void ks_perfetto_arg_text(struct ks_perfetto_out *out, enum ks_perfetto_arg arg,
                          struct ks_strid text)
{
    if (text.v != 0) {
        begin_arg(out, arg);
        ks_proto_number(&out->proto, ARG_TEXT, use_name(out, NAMES_TEXT, KNOWN_TEXT, text));
        ks_proto_end(&out->proto);
    }
}

void ks_perfetto_flow(struct ks_perfetto_out *out, uint64_t id)
{
    ks_proto_fixed64(&out->proto, EVENT_FLOW, id);
}

void ks_perfetto_instant_begin(struct ks_perfetto_out *out, uint64_t uuid, int64_t at_ns,
                               struct ks_strid name)
{
    struct ks_proto_out *proto = begin_event(out, TYPE_INSTANT, uuid, at_ns);
    ks_proto_number(proto, EVENT_NAME, use_name(out, NAMES_EVENT, KNOWN_EVENT, name));
}

enum ks_status ks_perfetto_instant_end(struct ks_perfetto_out *out, struct ks_err *err)
{
    return end_event(out, err);
}

enum ks_status ks_perfetto_counter(struct ks_perfetto_out *out, uint64_t uuid, int64_t at_ns,
                                   double value, struct ks_err *err)
{
    ks_proto_double(begin_event(out, TYPE_COUNTER, uuid, at_ns), EVENT_DOUBLE, value);
    return end_event(out, err);
}

/* ------------------------------------------------------------------ spans */

/* Ends the spans of a stack that are over at `ns`. */
static enum ks_status close_until(struct ks_perfetto_out *out, uint64_t uuid,
                                  struct ks_perfetto_stack *stack, int64_t ns, struct ks_err *err)
{
    while (stack->count > 0 && stack->ends_ns[stack->count - 1] <= ns) {
        int64_t end_ns = stack->ends_ns[--stack->count];
        (void)begin_event(out, TYPE_END, uuid, end_ns);
        KS_TRY(end_event(out, err));
    }
    return KS_OK;
}

static enum ks_status add_lane(struct ks_perfetto_out *out, struct ks_perfetto_lanes *lanes,
                               struct ks_err *err)
{
    KS_TRY(ks_grow(&lanes->stacks, lanes->count, &lanes->capacity, sizeof(*lanes->stacks), "tracks",
                   err));
    lanes->stacks[lanes->count] = (struct ks_perfetto_stack){0};
    uint64_t uuid = lanes->uuid + lanes->count++;
    if (uuid == lanes->uuid) {
        return KS_OK; // the caller described it
    }
    ks_proto_text(ks_perfetto_track_begin(out, uuid, lanes->uuid), TRACK_NAME, lanes->name);
    return ks_perfetto_track_end(out, err);
}

/* The first track on which the span lies inside what is open. */
static enum ks_status find_lane(struct ks_perfetto_out *out, struct ks_perfetto_lanes *lanes,
                                int64_t start_ns, int64_t end_ns, size_t *lane, struct ks_err *err)
{
    for (size_t i = 0; i < KS_PERFETTO_LANES_MAX; i++) {
        if (i == lanes->count) {
            KS_TRY(add_lane(out, lanes, err));
        }
        struct ks_perfetto_stack *stack = &lanes->stacks[i];
        KS_TRY(close_until(out, lanes->uuid + i, stack, start_ns, err));
        if (stack->count == 0 || stack->ends_ns[stack->count - 1] >= end_ns) {
            *lane = i;
            return KS_OK;
        }
    }
    *lane = KS_PERFETTO_LANES_MAX;
    return KS_OK;
}

enum ks_status ks_perfetto_span_begin(struct ks_perfetto_out *out, struct ks_perfetto_lanes *lanes,
                                      int64_t start_ns, int64_t dur_ns, bool *is_left_out,
                                      struct ks_err *err)
{
    int64_t end_ns = ks_sum_add(start_ns, dur_ns);
    size_t lane = 0;
    KS_TRY(find_lane(out, lanes, start_ns, end_ns, &lane, err));
    *is_left_out = lane == KS_PERFETTO_LANES_MAX;
    if (*is_left_out) {
        out->left_out_count++;
        return KS_OK;
    }
    struct ks_perfetto_stack *stack = &lanes->stacks[lane];
    KS_TRY(ks_grow(&stack->ends_ns, stack->count, &stack->capacity, sizeof(*stack->ends_ns),
                   "open spans", err));
    stack->ends_ns[stack->count++] = end_ns;
    (void)begin_event(out, TYPE_BEGIN, lanes->uuid + lane, start_ns);
    return KS_OK;
}

enum ks_status ks_perfetto_span_end(struct ks_perfetto_out *out, struct ks_strid name,
                                    enum ks_category category, struct ks_err *err)
{
    ks_proto_number(&out->proto, EVENT_NAME, use_name(out, NAMES_EVENT, KNOWN_EVENT, name));
    if (category != KS_CATEGORY_NONE) {
        ks_proto_number(&out->proto, EVENT_CATEGORY, (int64_t)category);
    }
    return end_event(out, err);
}

enum ks_status ks_perfetto_lanes_close(struct ks_perfetto_out *out, struct ks_perfetto_lanes *lanes,
                                       struct ks_err *err)
{
    enum ks_status status = KS_OK;
    for (size_t i = 0; i < lanes->count && status == KS_OK; i++) {
        status = close_until(out, lanes->uuid + i, &lanes->stacks[i], INT64_MAX, err);
    }
    ks_perfetto_lanes_release(lanes);
    return status;
}

void ks_perfetto_lanes_release(struct ks_perfetto_lanes *lanes)
{
    for (size_t i = 0; i < lanes->count; i++) {
        ks_free(lanes->stacks[i].ends_ns);
    }
    ks_free(lanes->stacks);
    lanes->stacks = NULL;
    lanes->count = lanes->capacity = 0;
}
