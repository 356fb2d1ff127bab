/* Memory by kinds as it comes and goes, and what was there at the peak. An allocator that hands out
 * blocks rounds each piece up; of what several ranks share, each holds a part that is rounded up,
 * too. So pieces are rounded one by one, not their sums. */
#include <string.h>

#include <kscope/kscope.h>

#include "measure/sum.h"

/* Bytes up to a multiple of `unit`. Both are positive. */
static int64_t round_up(int64_t bytes, int64_t unit)
{
    int64_t pieces = bytes / unit + (bytes % unit != 0);
    return ks_sum_scale(pieces, unit);
}

/* What a piece takes here; as much when it goes as when it came. */
static int64_t size_here(const struct ks_memory_curve *curve, size_t kind, int64_t bytes)
{
    int64_t share = curve->shares[kind];
    if (share > 1) {
        bytes = bytes / share + (bytes % share != 0);
    }
    return curve->block > 1 ? round_up(bytes, curve->block) : bytes;
}

static void add(struct ks_memory_curve *curve, size_t kind, int64_t bytes)
{
    bool goes = bytes < 0;
    int64_t size = size_here(curve, kind, goes ? ks_sum_sub(0, bytes) : bytes);
    int64_t change = goes ? -size : size;
    curve->now[kind] = ks_sum_add(curve->now[kind], change);
    curve->total = ks_sum_add(curve->total, change);
}

static void keep_peak(struct ks_memory_curve *curve)
{
    curve->peak = curve->total;
    memcpy(curve->at_peak, curve->now, sizeof(curve->at_peak));
}

void ks_memory_curve_change(struct ks_memory_curve *curve, size_t kind, int64_t bytes)
{
    add(curve, kind, bytes);
    if (curve->total > curve->peak) {
        keep_peak(curve);
    }
}

void ks_memory_curve_move(struct ks_memory_curve *curve, size_t from, size_t to, int64_t bytes)
{
    add(curve, from, ks_sum_sub(0, bytes));
    add(curve, to, bytes);
}

void ks_memory_curve_restart(struct ks_memory_curve *curve)
{
    keep_peak(curve);
}
