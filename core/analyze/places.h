/* Places in the user's program: which line made a call (docs/analyses/places.md).
 *
 * They come from the trace's own Python frames, or from those of a second recording of the same
 * program, which `kscope run` makes beside the clean one. */
#ifndef KS_ANALYZE_PLACES_H
#define KS_ANALYZE_PLACES_H

#include "analyze/registry.h"

enum { KS_PLACE_NONE = UINT32_MAX };

struct ks_place_match {
    const struct ks_place *place;
    int64_t calls; /* from this place */
    int64_t total_ns;
    double share; /* of all calls of this operator and kind with a known place, 0-1 */
};

/* The place that an operator (for kinds of calls: the outermost one around the call, or the call
 * itself when none is) is called from most often; false when no frames tell. */
bool ks_places_find(const struct ks_facts *facts, struct ks_strid op, enum ks_place_kind kind,
                    struct ks_place_match *match);

/* The source of a recording with frames that is of the same rank, or its first. */
uint32_t ks_places_twin_source(const struct ks_trace *framed, const struct ks_trace *trace,
                               uint32_t source);

#endif
