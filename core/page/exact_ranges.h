/* The stretches of the timeline that a page holds span by span: the whole trace when it is small,
 * else the steps that findings are about, the slowest, a median and the first one, as far as a
 * number of spans goes. */
#ifndef KS_PAGE_EXACT_RANGES_H
#define KS_PAGE_EXACT_RANGES_H

#include "page/page_tracks.h"

enum { KS_EXACT_RANGES_MAX = 12 };

struct ks_exact_range {
    int64_t start_ns;
    int64_t end_ns;
    const char *why; /* static text, or the id of a rule */
};

struct ks_exact_ranges {
    struct ks_exact_range list[KS_EXACT_RANGES_MAX]; /* by time; none overlaps another */
    size_t count;
};

/* `rows_max`: how many spans that start in them they may hold together. */
enum ks_status ks_exact_ranges_choose(struct ks_exact_ranges *ranges, const struct ks_view *view,
                                      const struct ks_page_tracks *tracks, uint64_t rows_max,
                                      struct ks_err *err) KS_MUST_CHECK;

#endif
