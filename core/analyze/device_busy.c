#include "analyze/device_busy.h"

#include "analyze/lane_sweep.h"
#include "base/err.h"

/* Answers the queries up to `end_ns`: the device works from `from_ns` on. */
static size_t answer(const struct ks_busy_query *queries, size_t at, size_t count, int64_t from_ns,
                     int64_t end_ns, int64_t sum_ns)
{
    while (at < count && queries[at].ns < end_ns) {
        int64_t inside_ns = queries[at].ns > from_ns ? queries[at].ns - from_ns : 0;
        *queries[at].busy_ns = sum_ns + inside_ns;
        at++;
    }
    return at;
}

enum ks_status ks_device_busy_answer(struct ks_analyzer *analyzer, uint32_t source,
                                     const struct ks_busy_query *queries, size_t count,
                                     struct ks_err *err)
{
    struct ks_lane_sweep sweep;
    KS_TRY(ks_lane_sweep_open(&sweep, analyzer->trace, source, KS_SWEEP_DEVICES, &analyzer->scratch,
                              err));
    enum ks_status status = KS_OK;
    struct ks_sweep_row row;
    int64_t busy_until_ns = INT64_MIN;
    int64_t sum_ns = 0;
    size_t at = 0;
    while (status == KS_OK && at < count &&
           (status = ks_lane_sweep_next(&sweep, &row, err)) == KS_OK) {
        int64_t from_ns = row.start_ns > busy_until_ns ? row.start_ns : busy_until_ns;
        if (!ks_category_is_work(row.category) || row.end_ns <= from_ns) {
            continue;
        }
        at = answer(queries, at, count, from_ns, row.end_ns, sum_ns);
        sum_ns += row.end_ns - from_ns;
        busy_until_ns = row.end_ns;
    }
    ks_lane_sweep_close(&sweep);
    if (status == KS_OK || status == KS_END) {
        answer(queries, at, count, INT64_MAX, INT64_MAX, sum_ns);
        return KS_OK;
    }
    return status;
}
