/* Packets of a Perfetto trace: tracks, spans, instants, counters. Knows the format, not what a row
 * is. Names are written once and referred to by number.
 *
 * Spans of a Perfetto track must nest. Those of one of ours that overlap otherwise go to further
 * tracks below it, as many as it takes, so that every span keeps its length. Spans of a track must
 * come by start, longest first. A trace may be written track by track: readers sort. */
#ifndef KS_EXPORT_PERFETTO_OUT_H
#define KS_EXPORT_PERFETTO_OUT_H

#include "export/proto_out.h"
#include "export/sink.h"
#include "store/trace.h"

/* Arguments of spans, as torch calls them in its own files. */
enum ks_perfetto_arg {
    KS_ARG_EXTERNAL_ID,
    KS_ARG_CORRELATION,
    KS_ARG_SEQUENCE,
    KS_ARG_SHAPES,
    KS_ARG_TYPES,
    KS_ARG_CONCRETE,
    KS_ARG_CALL_FROM,
    KS_ARG_UNFINISHED,
    KS_ARG_BYTES,
    KS_ARG_GRID,
    KS_ARG_BLOCK,
    KS_ARG_REGISTERS,
    KS_ARG_SHARED,
    KS_ARG_OCCUPANCY,
    KS_ARG_COLLECTIVE,
    KS_ARG_GROUP,
    KS_ARG_RANKS,
    KS_ARG_DTYPE,
    KS_ARG_IN_ELEMENTS,
    KS_ARG_OUT_ELEMENTS,
    KS_ARG_GROUP_SIZE,
    KS_ARG_LABEL,
    KS_ARG_VALUES,
    KS_ARG_COUNT,
};

/* Spans of one track that nest. */
struct ks_perfetto_stack {
    int64_t *ends_ns;
    size_t count;
    size_t capacity;
};

/* A track of ours as the tracks of Perfetto that it takes. */
struct ks_perfetto_lanes {
    uint64_t uuid;      /* of the first; the others follow */
    struct ks_str name; /* of those that are added; lives as long as the lanes */
    struct ks_perfetto_stack *stacks;
    size_t count;
    size_t capacity;
};

enum { KS_PERFETTO_LANES_MAX = 256, KS_PERFETTO_FRESH_MAX = 16 };

struct ks_perfetto_out {
    const struct ks_trace *trace;
    struct ks_sink sink;
    struct ks_text packet;
    struct ks_proto_out proto;
    uint8_t *is_known; /* by string id: a bit for each kind of name that was written */
    struct {
        unsigned kind;
        struct ks_strid id;
    } fresh[KS_PERFETTO_FRESH_MAX]; /* names that this packet is the first to use */
    size_t fresh_count;
    int64_t left_out_count; /* spans that overlap with hundreds of others */
};

/* Release it also after an error. */
enum ks_status ks_perfetto_init(struct ks_perfetto_out *out, const struct ks_trace *trace,
                                ks_write_cb write, void *user, struct ks_err *err) KS_MUST_CHECK;
void ks_perfetto_release(struct ks_perfetto_out *out);
/* What comes first: clocks, and names of categories and arguments. */
enum ks_status ks_perfetto_start(struct ks_perfetto_out *out, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_perfetto_finish(struct ks_perfetto_out *out, struct ks_err *err) KS_MUST_CHECK;

/* Begins a packet with a track descriptor; the caller adds fields of it to `proto`. */
struct ks_proto_out *ks_perfetto_track_begin(struct ks_perfetto_out *out, uint64_t uuid,
                                             uint64_t parent);
enum ks_status ks_perfetto_track_end(struct ks_perfetto_out *out, struct ks_err *err) KS_MUST_CHECK;

/* A span: begin, then arguments and flows, then end. `*is_left_out`: no more of it. */
enum ks_status ks_perfetto_span_begin(struct ks_perfetto_out *out, struct ks_perfetto_lanes *lanes,
                                      int64_t start_ns, int64_t dur_ns, bool *is_left_out,
                                      struct ks_err *err) KS_MUST_CHECK;
void ks_perfetto_arg_number(struct ks_perfetto_out *out, enum ks_perfetto_arg arg, int64_t value);
void ks_perfetto_arg_real(struct ks_perfetto_out *out, enum ks_perfetto_arg arg, double value);
/* Nothing for the empty text. */
void ks_perfetto_arg_text(struct ks_perfetto_out *out, enum ks_perfetto_arg arg,
                          struct ks_strid text);
void ks_perfetto_flow(struct ks_perfetto_out *out, uint64_t id);
enum ks_status ks_perfetto_span_end(struct ks_perfetto_out *out, struct ks_strid name,
                                    enum ks_category category, struct ks_err *err) KS_MUST_CHECK;
/* Ends what is open, and gives the memory back. */
enum ks_status ks_perfetto_lanes_close(struct ks_perfetto_out *out, struct ks_perfetto_lanes *lanes,
                                       struct ks_err *err) KS_MUST_CHECK;
void ks_perfetto_lanes_release(struct ks_perfetto_lanes *lanes);

/* An instant: begin, then arguments, then end. */
void ks_perfetto_instant_begin(struct ks_perfetto_out *out, uint64_t uuid, int64_t at_ns,
                               struct ks_strid name);
enum ks_status ks_perfetto_instant_end(struct ks_perfetto_out *out, struct ks_err *err)
    KS_MUST_CHECK;
enum ks_status ks_perfetto_counter(struct ks_perfetto_out *out, uint64_t uuid, int64_t at_ns,
                                   double value, struct ks_err *err) KS_MUST_CHECK;

#endif
