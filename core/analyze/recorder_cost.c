/* What the recording itself costs: the rows that the profiler writes about its own work, and an
 * estimate of the host time that one recorded row takes (docs/analyses/recorder_cost.md).
 *
 * In tight code the recorder is most of what lies between the starts of two neighbouring rows, so
 * a low quantile of these distances estimates its cost. Compared with unprofiled runs of 36
 * training loops on an H100 host: loops that the host limits lost 0.8 to 2.0 us a row where the
 * tenth percentile said 0.9 to 1.6 us.
 */
#include "analyze/registry.h"
#include "base/err.h"
#include "measure/sum.h"

enum {
    BIN_NS = 50,
    BIN_COUNT = 512, /* distances up to 25.6 us; longer ones go to the last bin */
    PERCENTILE = 10,
    ROWS_MIN = 200, /* fewer distances say nothing: the default is used */
    COST_NS_MIN = 500,
    COST_NS_MAX = 5000,
    COST_NS_DEFAULT = 2000,
};

struct distances {
    uint64_t bins[BIN_COUNT];
    uint64_t count;
};

static void note_distance(struct distances *distances, int64_t distance_ns)
{
    int64_t bin = distance_ns / BIN_NS;
    distances->bins[bin < BIN_COUNT ? bin : BIN_COUNT - 1]++;
    distances->count++;
}

static int64_t estimate(const struct distances *distances)
{
    if (distances->count < ROWS_MIN) {
        return COST_NS_DEFAULT;
    }
    uint64_t wanted = distances->count / 100 * PERCENTILE;
    uint64_t seen = 0;
    int64_t bin = 0;
    while (bin < BIN_COUNT - 1 && seen + distances->bins[bin] <= wanted) {
        seen += distances->bins[bin++];
    }
    int64_t cost_ns = bin * BIN_NS + BIN_NS / 2;
    cost_ns = cost_ns > COST_NS_MAX ? COST_NS_MAX : cost_ns;
    return cost_ns < COST_NS_MIN ? COST_NS_MIN : cost_ns;
}

static enum ks_status scan_lane(struct ks_analyzer *analyzer, const struct ks_lane *lane,
                                struct distances *distances, struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    int64_t last_ns = KS_UNKNOWN;
    int64_t overhead_until_ns = INT64_MIN;
    ks_slice_scan_open(&scan, analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_category),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            int64_t start_ns = scan.col.start_ns[i];
            uint8_t category = scan.col.category[i];
            if (category == KS_CATEGORY_CPU_OP || category == KS_CATEGORY_USER_ANNOTATION) {
                if (last_ns != KS_UNKNOWN) {
                    note_distance(distances, ks_sum_sub(start_ns, last_ns));
                }
                last_ns = start_ns;
            } else if (category == KS_CATEGORY_OVERHEAD) {
                int64_t end_ns = ks_sum_add(start_ns, scan.col.dur_ns[i]);
                int64_t from_ns = start_ns > overhead_until_ns ? start_ns : overhead_until_ns;
                if (end_ns > from_ns) {
                    analyzer->facts->overhead_ns =
                        ks_sum_add(analyzer->facts->overhead_ns, end_ns - from_ns);
                    overhead_until_ns = end_ns;
                }
            }
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static void add_up(struct distances *all, const struct distances *one)
{
    for (size_t bin = 0; bin < BIN_COUNT; bin++) {
        all->bins[bin] += one->bins[bin];
    }
    all->count += one->count;
}

enum ks_status ks_recorder_cost_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct distances *all = ks_new(&analyzer->scratch, struct distances, 2);
    if (!all) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot estimate the recorder's cost");
    }
    struct distances *one = &all[1];
    struct ks_facts *facts = analyzer->facts;
    size_t count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(analyzer->trace, KS_TABLE_slice, &count);
    size_t lane = 0; /* those of a source follow each other */
    for (uint32_t source = 0; source < ks_trace_source_count(analyzer->trace); source++) {
        *one = (struct distances){0};
        while (lane < count &&
               ks_trace_track(analyzer->trace, lanes[lane].track)->source == source) {
            KS_TRY(scan_lane(analyzer, &lanes[lane++], one, err));
        }
        facts->sources[source].row_cost_ns = estimate(one);
        add_up(all, one);
    }
    facts->row_cost_ns = estimate(all);
    return KS_OK;
}
