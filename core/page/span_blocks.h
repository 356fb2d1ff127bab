/* All spans of a trace at a resolution at which they fit into a page. Spans shorter than it, of one
 * track and depth, that start in the same stretch of that length are one block with their number
 * and the name of the longest: nothing vanishes. When blocks get too many the resolution doubles,
 * which gives what that resolution would have given from the start. */
#ifndef KS_PAGE_SPAN_BLOCKS_H
#define KS_PAGE_SPAN_BLOCKS_H

#include "base/err.h"

struct ks_page_span {
    int64_t start_ns;
    int64_t dur_ns;
    uint32_t name;
    uint16_t track;
    uint16_t depth;
};

struct ks_span_block {
    int64_t start_ns;
    int64_t end_ns;
    int64_t longest_ns;
    uint32_t name; /* of the longest */
    uint32_t count;
    uint16_t track;
    uint16_t depth;
};

struct ks_span_blocks {
    struct ks_span_block *list; /* of each track and depth by start */
    size_t count;
    size_t capacity;
    size_t count_max;      /* set before init, as are ... */
    int64_t origin_ns;     /* ... where stretches are counted from ... */
    size_t track_count;    /* ... and this, below UINT16_MAX */
    int64_t resolution_ns; /* a power of two */
    uint32_t *last;        /* by track and depth: 1 + place in `list` of the newest block, 0 none */
};

/* The rest is zero. The first resolution cuts `length_ns` into `parts` at most. */
enum ks_status ks_span_blocks_init(struct ks_span_blocks *blocks, int64_t length_ns, size_t parts,
                                   struct ks_err *err) KS_MUST_CHECK;
void ks_span_blocks_release(struct ks_span_blocks *blocks); /* also after a failed init */
/* Adds a span, whose start is not before that of the last one of its track and depth. */
enum ks_status ks_span_blocks_add(struct ks_span_blocks *blocks, const struct ks_page_span *span,
                                  struct ks_err *err) KS_MUST_CHECK;
/* Sorts the list by track, else as it is. `first[t]` becomes the first one of a track, with
 * `track_count` + 1 items. */
enum ks_status ks_span_blocks_seal(struct ks_span_blocks *blocks, size_t *first, struct ks_err *err)
    KS_MUST_CHECK;

#endif
