#include "page/span_depths.h"

#include "base/alloc.h"
#include "base/grow.h"

enum { OPEN_MAX = 4096, SEARCH_MAX = 256 };

void ks_span_depths_release(struct ks_span_depths *depths)
{
    ks_free(depths->ends_ns);
    *depths = (struct ks_span_depths){0};
}

/* Puts the span on top of the others. */
static enum ks_status push(struct ks_span_depths *depths, int64_t end_ns, struct ks_err *err)
{
    size_t at = depths->count;
    if (at == OPEN_MAX) {
        return KS_OK; /* the last level takes it, too */
    }
    KS_TRY(ks_grow(&depths->ends_ns, at, &depths->capacity, sizeof(*depths->ends_ns), "open spans",
                   err));
    depths->nested += depths->nested == at && (at == 0 || end_ns <= depths->ends_ns[at - 1]);
    depths->ends_ns[at] = end_ns;
    depths->count++;
    return KS_OK;
}

enum ks_status ks_span_depths_place(struct ks_span_depths *depths, int64_t start_ns, int64_t end_ns,
                                    uint32_t *depth, struct ks_err *err)
{
    while (depths->count > 0 && depths->ends_ns[depths->count - 1] <= start_ns) {
        depths->count--;
    }
    depths->nested = depths->nested < depths->count ? depths->nested : depths->count;
    size_t at = depths->count;
    if (depths->nested < depths->count) { /* a level below the top may be free */
        size_t end = depths->count < SEARCH_MAX ? depths->count : SEARCH_MAX;
        for (at = 0; at < end && depths->ends_ns[at] > start_ns; at++) {
        }
        at = at < end ? at : depths->count;
    }
    *depth = at < KS_SPAN_DEPTH_MAX ? (uint32_t)at : KS_SPAN_DEPTH_MAX;
    if (at == depths->count) {
        return push(depths, end_ns, err);
    }
    depths->ends_ns[at] = end_ns;
    depths->nested = depths->nested < at ? depths->nested : at;
    return KS_OK;
}
