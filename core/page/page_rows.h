/* Where the rows of a trace lie on the timeline, so that any stretch of time can be shown span by
 * span without a look at all rows: the depth of each (one byte), and of each few thousand rows the
 * latest end. Filled in the pass that gathers the timeline. */
#ifndef KS_PAGE_PAGE_ROWS_H
#define KS_PAGE_PAGE_ROWS_H

#include "show/view.h"

enum { KS_PAGE_ROW_HIDDEN = 255, KS_PAGE_STRETCH_ROWS = 4096 };

/* Neighbouring rows of one lane. */
struct ks_page_stretch {
    int64_t start_ns; /* of the first row */
    int64_t reach_ns; /* the latest end of those that are shown */
};

struct ks_page_table_rows {
    const struct ks_lane *lanes;
    size_t lane_count;
    uint8_t *depths; /* by row */
    struct ks_page_stretch *stretches;
    size_t *first_stretch; /* by lane, and one behind the last */
};

struct ks_page_rows {
    struct ks_page_table_rows slice;
    struct ks_page_table_rows gpu;
    uint8_t *step_depths; /* by step of the facts */
};

/* `rows` is to be released after an error, too. */
enum ks_status ks_page_rows_init(struct ks_page_rows *rows, const struct ks_view *view,
                                 struct ks_err *err) KS_MUST_CHECK;
void ks_page_rows_release(struct ks_page_rows *rows);
/* Notes a row of a lane, which come in order. `depth` KS_PAGE_ROW_HIDDEN: it is not shown. */
void ks_page_rows_note(struct ks_page_table_rows *table, size_t lane, uint64_t row,
                       int64_t start_ns, int64_t end_ns, uint8_t depth);
/* A walk over the rows of a lane among which some may overlap [start_ns, end_ns). */
struct ks_page_walk {
    const struct ks_page_table_rows *table; /* set by the caller, as are ... */
    size_t lane;
    int64_t start_ns;
    int64_t end_ns; /* ... these; the rest is zero */
    size_t at;      /* the stretch that is next */
    uint64_t row_begin;
    uint64_t row_end;
};

/* More rows, row_begin .. row_end-1; false when there are none. */
bool ks_page_rows_next(struct ks_page_walk *walk);

#endif
