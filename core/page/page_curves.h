/* Curves over time at a resolution that fits a page: the smallest and the largest value of each
 * stretch. Counters of recordings, and the memory of devices. When there are too many curves the
 * first ones are kept and the others are counted. */
#ifndef KS_PAGE_PAGE_CURVES_H
#define KS_PAGE_PAGE_CURVES_H

#include "base/map.h"
#include "export/row_filter.h"

struct ks_json;

struct ks_page_curve {
    uint32_t track; /* of the trace */
    uint32_t name;  /* string ids of the trace: counters only */
    uint32_t series;
    uint32_t unit;
    int64_t device; /* memory only: -1 is the host */
    size_t last;    /* 1 + place of its newest point, 0 none */
};

struct ks_page_point {
    int64_t start_ns; /* of the first sample in the stretch */
    int64_t part;     /* which stretch */
    double min;
    double max;
    double second_max; /* memory: reserved, -1 unknown */
    uint32_t curve;
};

struct ks_page_curves {
    int64_t start_ns;
    int64_t part_ns;
    struct ks_map by_key;
    struct ks_page_curve *list;
    size_t count;
    size_t capacity;
    size_t left_out;              /* samples of curves that there was no room for */
    struct ks_page_point *points; /* as they came; of each curve by time */
    size_t point_count;
    size_t point_capacity;
};

void ks_page_curves_init(struct ks_page_curves *curves, int64_t start_ns, int64_t end_ns);
void ks_page_curves_release(struct ks_page_curves *curves);
enum ks_status ks_page_curves_add_counters(struct ks_page_curves *curves,
                                           const struct ks_view *view,
                                           const struct ks_row_filter *filter, struct ks_err *err)
    KS_MUST_CHECK;
enum ks_status ks_page_curves_add_memory(struct ks_page_curves *curves, const struct ks_view *view,
                                         const struct ks_row_filter *filter, struct ks_err *err)
    KS_MUST_CHECK;
/* The array `counters` of a timeline. */
enum ks_status ks_page_curves_write_counters(const struct ks_page_curves *curves,
                                             const struct ks_view *view, struct ks_json *json,
                                             struct ks_err *err) KS_MUST_CHECK;
/* The block `memory`. */
enum ks_status ks_page_curves_write_memory(const struct ks_page_curves *curves,
                                           const struct ks_view *view, ks_write_cb write,
                                           void *user, struct ks_err *err) KS_MUST_CHECK;

#endif
