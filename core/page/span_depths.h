/* How deep the spans of a track lie: each on the first level that is free when it starts, which for
 * spans that nest is the one below its parent. Spans come by start, longest first. */
#ifndef KS_PAGE_SPAN_DEPTHS_H
#define KS_PAGE_SPAN_DEPTHS_H

#include "base/err.h"

enum { KS_SPAN_DEPTH_MAX = 127 };

struct ks_span_depths {
    int64_t *ends_ns; /* of the last span on each level */
    size_t count;     /* levels that may be taken */
    size_t capacity;
    size_t nested; /* so many ends do not grow from one level to the next; all, when `count` */
};

void ks_span_depths_release(struct ks_span_depths *depths);
/* Depth of the span, KS_SPAN_DEPTH_MAX for all that are deeper still. */
enum ks_status ks_span_depths_place(struct ks_span_depths *depths, int64_t start_ns, int64_t end_ns,
                                    uint32_t *depth, struct ks_err *err) KS_MUST_CHECK;

#endif
