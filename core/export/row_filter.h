/* Which rows of a trace an export takes: steps and device by the scope of the report, time and
 * categories by the options of the export. One answer for all formats but chrome, which chooses
 * from the text (slim.h). */
#ifndef KS_EXPORT_ROW_FILTER_H
#define KS_EXPORT_ROW_FILTER_H

#include "show/view.h"

struct ks_row_filter {
    const struct ks_facts *facts;
    bool has_categories;
    uint32_t categories; /* a bit for each enum ks_category */
    bool has_time;
    int64_t from_ns; /* [from_ns, to_ns) on the clock of the trace */
    int64_t to_ns;
};

/* KS_ERR_USAGE: a category that no row can have. */
enum ks_status ks_row_filter_init(struct ks_row_filter *filter, const struct ks_view *view,
                                  const struct ks_export_options *options, struct ks_err *err)
    KS_MUST_CHECK;

static inline bool ks_row_filter_has_category(const struct ks_row_filter *filter,
                                              enum ks_category category)
{
    return !filter->has_categories || (filter->categories >> category & 1) != 0;
}
/* Cuts a span to the time; false: nothing of it is left. */
bool ks_row_filter_clip(const struct ks_row_filter *filter, int64_t *start_ns, int64_t *end_ns);
/* Does [start, start + dur) overlap the time? A span of no length is where it begins. */
bool ks_row_filter_has_time(const struct ks_row_filter *filter, int64_t start_ns, int64_t dur_ns);
/* A row of slice; `track`: any track of its file. */
bool ks_row_filter_keeps_slice(const struct ks_row_filter *filter, uint32_t track,
                               enum ks_category category, int64_t start_ns, int64_t dur_ns);
/* A row of gpu on a device's track. */
bool ks_row_filter_keeps_gpu(const struct ks_row_filter *filter, uint32_t track,
                             enum ks_category category, int64_t start_ns, int64_t dur_ns,
                             int64_t launch_ns);
/* An event of an allocator, a sample or an instant: they have no category, so none is kept when
 * categories are chosen. */
bool ks_row_filter_keeps_moment(const struct ks_row_filter *filter, uint32_t track,
                                int64_t start_ns);
/* The same for allocators: `device` -1 is the host. */
bool ks_row_filter_keeps_memory(const struct ks_row_filter *filter, uint32_t track,
                                int64_t start_ns, int64_t device);
/* A row of link: a call of the runtime or of the driver, nobody knows which. */
bool ks_row_filter_keeps_link(const struct ks_row_filter *filter, uint32_t track, int64_t start_ns,
                              int64_t dur_ns);

#endif
