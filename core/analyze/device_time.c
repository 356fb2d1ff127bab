#include "analyze/device_time.h"

#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/sort_runs.h"
#include "measure/sum.h"

/* Of ids that count up, bits near each other are asked for one after the other. With so many for
 * each row of the GPU, few ids share one. */
enum { SEEN_BITS_MIN = 1 << 16, SEEN_BITS_PER_ROW = 8 };

static int compare(const struct ks_device_time_entry *entry, uint32_t source, int64_t ext_id)
{
    if (entry->source != source) {
        return entry->source < source ? -1 : 1;
    }
    return entry->ext_id < ext_id ? -1 : entry->ext_id > ext_id;
}

static int compare_entries(const void *left, const void *right)
{
    const struct ks_device_time_entry *b = right;
    return compare(left, b->source, b->ext_id);
}

static enum ks_status note_row(struct ks_device_time *time, uint32_t source, int64_t ext_id,
                               int64_t dur_ns, struct ks_err *err)
{
    uint64_t bit = (uint64_t)ext_id & (time->seen_bits - 1);
    time->seen[bit / 64] |= (uint64_t)1 << (bit % 64);
    /* Many kernels of one operator follow each other. */
    struct ks_device_time_entry *last = time->count > 0 ? &time->entries[time->count - 1] : NULL;
    if (last && compare(last, source, ext_id) == 0) {
        last->ns = ks_sum_add(last->ns, dur_ns);
        return KS_OK;
    }
    KS_TRY(ks_grow(&time->entries, time->count, &time->capacity, sizeof(*time->entries),
                   "GPU time of operators", err));
    time->entries[time->count++] = (struct ks_device_time_entry){ext_id, dur_ns, source};
    return KS_OK;
}

static enum ks_status note_rows(struct ks_device_time *time, const struct ks_facts *facts,
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

static void join_equal(struct ks_device_time *time)
{
    size_t kept = 0;
    for (size_t i = 0; i < time->count; i++) {
        const struct ks_device_time_entry *entry = &time->entries[i];
        if (kept > 0 && compare_entries(&time->entries[kept - 1], entry) == 0) {
            time->entries[kept - 1].ns = ks_sum_add(time->entries[kept - 1].ns, entry->ns);
        } else {
            time->entries[kept++] = *entry;
        }
    }
    time->count = kept;
}

enum ks_status ks_device_time_init(struct ks_device_time *time, const struct ks_facts *facts,
                                   struct ks_err *err)
{
    *time = (struct ks_device_time){.seen_bits = SEEN_BITS_MIN};
    while (time->seen_bits / SEEN_BITS_PER_ROW < ks_trace_rows(facts->trace, KS_TABLE_gpu)) {
        time->seen_bits *= 2;
    }
    time->seen = ks_alloc(time->seen_bits / 64, sizeof(uint64_t));
    if (!time->seen) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot sum GPU time");
    }
    KS_TRY(note_rows(time, facts, err));
    if (!ks_sort_runs(time->entries, time->count, sizeof(*time->entries), compare_entries)) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot sum GPU time: operators=%zu",
                       time->count);
    }
    join_equal(time);
    return KS_OK;
}

void ks_device_time_release(struct ks_device_time *time)
{
    ks_free(time->entries);
    ks_free(time->seen);
    *time = (struct ks_device_time){0};
}

/* Halves what lies between `begin` and `end`. Index of the first entry not before the key. */
static size_t search(const struct ks_device_time *time, size_t begin, size_t end, uint32_t source,
                     int64_t ext_id)
{
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (compare(&time->entries[middle], source, ext_id) < 0) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

/* From the last place on in steps that double, either way. */
static size_t search_near(const struct ks_device_time *time, uint32_t source, int64_t ext_id)
{
    size_t begin = time->near;
    size_t end = time->near;
    for (size_t stride = 1; end < time->count; stride *= 2) {
        if (compare(&time->entries[end], source, ext_id) >= 0) {
            break;
        }
        begin = end + 1;
        end = time->count - end > stride ? end + stride : time->count;
    }
    for (size_t stride = 1; begin > 0; stride *= 2) {
        if (compare(&time->entries[begin - 1], source, ext_id) < 0) {
            break;
        }
        end = begin - 1;
        begin = begin > stride ? begin - stride : 0;
    }
    return search(time, begin, end, source, ext_id);
}

int64_t ks_device_time_find(struct ks_device_time *time, uint32_t source, int64_t ext_id)
{
    uint64_t bit = (uint64_t)ext_id & (time->seen_bits - 1);
    if (ext_id <= 0 || !(time->seen[bit / 64] >> (bit % 64) & 1)) {
        return 0;
    }
    size_t at = search_near(time, source, ext_id);
    if (at == time->count) {
        return 0;
    }
    time->near = at;
    return compare(&time->entries[at], source, ext_id) == 0 ? time->entries[at].ns : 0;
}
