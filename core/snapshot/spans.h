/* Lives of allocations, from the events of one device and the blocks at their end. */
#ifndef KS_SNAPSHOT_SPANS_H
#define KS_SNAPSHOT_SPANS_H

#include "snapshot/timeline.h"

/* Fills spans and span_count of the timeline, whose device and events are known; the spans are from
 * ks_alloc. */
enum ks_status ks_spans_build(struct ks_snapshot *snapshot, struct ks_timeline *timeline,
                              struct ks_err *err) KS_MUST_CHECK;

#endif
