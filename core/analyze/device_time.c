#include "analyze/device_time.h"

#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "measure/sum.h"

enum { SEEN_BITS = 1 << 16 };

static enum ks_status note_row(struct ks_device_time *time, uint32_t source, int64_t ext_id,
                               int64_t dur_ns, struct ks_err *err)
{
    uint64_t *slot = ks_map_put(&time->by_id, source, (uint64_t)ext_id, NULL);
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot sum GPU time: operators=%zu",
                       time->by_id.count);
    }
    *slot = (uint64_t)ks_sum_add((int64_t)*slot, dur_ns);
    uint64_t bit = (uint64_t)ext_id % SEEN_BITS;
    time->seen[bit / 64] |= (uint64_t)1 << (bit % 64);
    return KS_OK;
}

static enum ks_status sum_rows(struct ks_device_time *time, const struct ks_facts *facts,
                               struct ks_err *err)
{
    struct ks_gpu_scan scan;
    enum ks_status status;
    ks_gpu_scan_open(&scan, facts->trace,
                     KS_COLUMN_BIT(KS_GPU_COL_lane) | KS_COLUMN_BIT(KS_GPU_COL_dur_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_ext_id) | KS_COLUMN_BIT(KS_GPU_COL_launch_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_category),
                     0, ks_trace_rows(facts->trace, KS_TABLE_gpu));
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            uint32_t lane = scan.col.lane[i];
            if (ks_category_is_work(scan.col.category[i]) && scan.col.ext_id[i] > 0 &&
                ks_step_lookup_keeps_gpu(facts, lane, scan.col.launch_ns[i])) {
                status = note_row(time, ks_trace_track(facts->trace, lane)->source,
                                  scan.col.ext_id[i], scan.col.dur_ns[i], err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_gpu_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

enum ks_status ks_device_time_init(struct ks_device_time *time, const struct ks_facts *facts,
                                   struct ks_err *err)
{
    ks_map_init(&time->by_id);
    time->seen = ks_alloc(SEEN_BITS / 64, sizeof(uint64_t));
    if (!time->seen) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot sum GPU time");
    }
    return sum_rows(time, facts, err);
}

void ks_device_time_release(struct ks_device_time *time)
{
    ks_map_release(&time->by_id);
    ks_free(time->seen);
    time->seen = NULL;
}

int64_t ks_device_time_find(const struct ks_device_time *time, uint32_t source, int64_t ext_id)
{
    uint64_t bit = (uint64_t)ext_id % SEEN_BITS;
    if (ext_id <= 0 || !(time->seen[bit / 64] >> (bit % 64) & 1)) {
        return 0;
    }
    const uint64_t *slot = ks_map_find(&time->by_id, source, (uint64_t)ext_id);
    return slot ? (int64_t)*slot : 0;
}
