#include "analyze/gpu_copies.h"

#include <stdlib.h>

#include "analyze/registry.h"
#include "analyze/step_lookup.h"
#include "base/grow.h"
#include "measure/sum.h"

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_copies(const void *left, const void *right)
{
    const struct ks_gpu_copy *a = left;
    const struct ks_gpu_copy *b = right;
    int order = compare_numbers(a->launch_lane, b->launch_lane);
    order = order ? order : compare_numbers(a->launch_ns, b->launch_ns);
    order = order ? order : compare_numbers(a->corr, b->corr);
    order = order ? order
                  : compare_numbers(ks_sum_add(a->start_ns, a->dur_ns),
                                    ks_sum_add(b->start_ns, b->dur_ns));
    order = order ? order : compare_numbers(a->kind, b->kind);
    return order ? order : compare_numbers(a->dur_ns, b->dur_ns);
}

static enum ks_copy_way way_of(struct ks_str kind)
{
    return ks_str_contains(kind, KS_STR("DtoH"))   ? KS_COPY_TO_HOST
           : ks_str_contains(kind, KS_STR("HtoD")) ? KS_COPY_TO_DEVICE
                                                   : KS_COPY_OTHER;
}

static enum ks_status add_copy(struct ks_analyzer *analyzer, const struct ks_gpu_scan *scan,
                               size_t i, struct ks_err *err)
{
    struct ks_gpu_copies *copies = &analyzer->copies;
    if (scan->col.category[i] != KS_CATEGORY_MEMCPY || scan->col.launch_lane[i] == 0 ||
        !ks_step_lookup_keeps_gpu(analyzer->facts, scan->col.lane[i], scan->col.launch_ns[i])) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&copies->items, copies->count, &copies->capacity, sizeof(*copies->items),
                   "copies", err));
    struct ks_str kind = ks_trace_str(analyzer->trace, (struct ks_strid){scan->col.name[i]});
    copies->items[copies->count++] =
        (struct ks_gpu_copy){.launch_lane = scan->col.launch_lane[i],
                             .kind = scan->col.name[i],
                             .device = scan->col.lane[i],
                             .way = way_of(kind),
                             .is_pinned = ks_str_contains(kind, KS_STR("Pinned")),
                             .launch_ns = scan->col.launch_ns[i],
                             .corr = scan->col.corr[i],
                             .start_ns = scan->col.start_ns[i],
                             .dur_ns = scan->col.dur_ns[i],
                             .bytes = scan->col.bytes[i]};
    return KS_OK;
}

enum ks_status ks_gpu_copies_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_gpu_scan scan;
    enum ks_status status;
    ks_gpu_scan_open(&scan, analyzer->trace,
                     KS_COLUMN_BIT(KS_GPU_COL_lane) | KS_COLUMN_BIT(KS_GPU_COL_start_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_dur_ns) | KS_COLUMN_BIT(KS_GPU_COL_bytes) |
                         KS_COLUMN_BIT(KS_GPU_COL_name) | KS_COLUMN_BIT(KS_GPU_COL_corr) |
                         KS_COLUMN_BIT(KS_GPU_COL_launch_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_launch_lane) | KS_COLUMN_BIT(KS_GPU_COL_category),
                     0, ks_trace_rows(analyzer->trace, KS_TABLE_gpu));
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = add_copy(analyzer, &scan, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_gpu_scan_close(&scan);
    if (analyzer->copies.count > 0) {
        qsort(analyzer->copies.items, analyzer->copies.count, sizeof(*analyzer->copies.items),
              compare_copies);
    }
    return status == KS_END ? KS_OK : status;
}
