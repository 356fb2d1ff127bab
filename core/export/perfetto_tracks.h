/* The tracks of a trace as Perfetto has them: processes with threads, devices with streams.
 *
 * Perfetto knows a process by its pid and a thread by its tid, in the whole trace. Ranks in
 * containers share such numbers, and some of torch's are no numbers at all: then a free one above
 * any real one stands for it, and the name says what it is. */
#ifndef KS_EXPORT_PERFETTO_TRACKS_H
#define KS_EXPORT_PERFETTO_TRACKS_H

#include "export/perfetto_out.h"
#include "show/view.h"

/* Rows of a stream of one kind share a track. */
enum ks_perfetto_kind {
    KS_PERFETTO_WORK, /* host rows too */
    KS_PERFETTO_ANNOTATIONS,
    KS_PERFETTO_WAITS,
    KS_PERFETTO_KINDS,
};

static inline uint64_t ks_perfetto_uuid(uint32_t track, enum ks_perfetto_kind kind)
{
    enum { TRACK_SHIFT = 12, KIND_SHIFT = 10 }; // room for KS_PERFETTO_LANES_MAX
    return (uint64_t)track << TRACK_SHIFT | (uint64_t)kind << KIND_SHIFT;
}

/* Writes all tracks. */
enum ks_status ks_perfetto_describe_tracks(struct ks_perfetto_out *out, const struct ks_view *view,
                                           struct ks_err *err) KS_MUST_CHECK;

#endif
