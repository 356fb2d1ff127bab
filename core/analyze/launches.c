/* A7: launching calls and the GPU work behind them (docs/analyses/launches.md). */
#include "analyze/registry.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/quantile.h"
#include "measure/sum.h"

struct delays {
    int64_t *values_ns;
    size_t count;
    size_t capacity;
};

static enum ks_status add_delay(struct delays *delays, int64_t delay_ns, struct ks_err *err)
{
    KS_TRY(ks_grow(&delays->values_ns, delays->count, &delays->capacity, sizeof(int64_t), "delays",
                   err));
    delays->values_ns[delays->count++] = delay_ns;
    return KS_OK;
}

static void count_kind(struct ks_link_fact *links, uint8_t kind)
{
    links->launches++;
    switch ((enum ks_link_kind)kind) {
    case KS_LINK_KERNEL: links->kernel_launches++; break;
    case KS_LINK_GRAPH: links->graph_launches++; break;
    case KS_LINK_MEMCPY: links->memcpy_launches++; break;
    case KS_LINK_MEMSET: links->memset_launches++; break;
    case KS_LINK_OTHER: break;
    }
}

static enum ks_status count_launches(struct ks_analyzer *analyzer, struct delays *delays,
                                     struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    struct ks_link_scan scan;
    enum ks_status status;
    ks_link_scan_open(&scan, analyzer->trace,
                      KS_COLUMN_BIT(KS_LINK_COL_lane) | KS_COLUMN_BIT(KS_LINK_COL_start_ns) |
                          KS_COLUMN_BIT(KS_LINK_COL_gpu_first_ns) |
                          KS_COLUMN_BIT(KS_LINK_COL_gpu_count) | KS_COLUMN_BIT(KS_LINK_COL_kind),
                      0, ks_trace_rows(analyzer->trace, KS_TABLE_link));
    while ((status = ks_link_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            uint32_t source = ks_trace_track(analyzer->trace, scan.col.lane[i])->source;
            int64_t start_ns = scan.col.start_ns[i];
            int64_t first_ns = scan.col.gpu_first_ns[i];
            bool has_work = scan.col.gpu_count[i] > 0;
            if ((scan.col.kind[i] == KS_LINK_OTHER && !has_work) ||
                !ks_step_lookup_keeps_host(facts, source, start_ns)) {
                continue;
            }
            count_kind(&facts->links, scan.col.kind[i]);
            facts->links.launches_without_work += !has_work;
            if (has_work && first_ns < start_ns) {
                facts->links.gpu_before_launch++;
            } else if (has_work) {
                int64_t delay_ns = ks_sum_sub(first_ns, start_ns);
                int64_t *least_ns = &facts->sources[source].delay_ns_min;
                *least_ns = *least_ns == KS_UNKNOWN || delay_ns < *least_ns ? delay_ns : *least_ns;
                status = add_delay(delays, delay_ns, err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_link_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status count_gpu_rows(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    struct ks_gpu_scan scan;
    enum ks_status status;
    ks_gpu_scan_open(&scan, analyzer->trace,
                     KS_COLUMN_BIT(KS_GPU_COL_lane) | KS_COLUMN_BIT(KS_GPU_COL_launch_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_category),
                     0, ks_trace_rows(analyzer->trace, KS_TABLE_gpu));
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            int64_t launch_ns = scan.col.launch_ns[i];
            if (ks_category_is_work(scan.col.category[i]) &&
                ks_step_lookup_keeps_gpu(facts, scan.col.lane[i], launch_ns)) {
                facts->links.linked += launch_ns != KS_TIME_NONE;
                facts->links.orphan_gpu_events += launch_ns == KS_TIME_NONE;
            }
        }
    }
    ks_gpu_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

enum ks_status ks_launches_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_link_fact *links = &analyzer->facts->links;
    struct delays delays = {0};
    for (uint32_t i = 0; i < ks_trace_source_count(analyzer->trace); i++) {
        analyzer->facts->sources[i].delay_ns_min = KS_UNKNOWN;
    }
    enum ks_status status = count_launches(analyzer, &delays, err);
    links->delay_ns_min = links->delay_ns_median = links->delay_ns_max = KS_UNKNOWN;
    if (status == KS_OK && delays.count > 0) {
        links->delay_ns_min = ks_quantile_rank(delays.values_ns, delays.count, 0);
        links->delay_ns_max = ks_quantile_rank(delays.values_ns, delays.count, delays.count - 1);
        links->delay_ns_median = ks_quantile_median(delays.values_ns, delays.count);
    }
    ks_free(delays.values_ns);
    KS_TRY(status);
    return count_gpu_rows(analyzer, err);
}
