/* GPU time by External id: how long the kernels, copies and sets ran that an operator launched.
 * Holds one entry for each id that has GPU work. */
#ifndef KS_ANALYZE_DEVICE_TIME_H
#define KS_ANALYZE_DEVICE_TIME_H

#include "analyze/facts.h"
#include "base/map.h"

struct ks_device_time {
    struct ks_map by_id; /* (source, External id) -> ns */
    uint64_t *seen;      /* one bit by the low bits of the id: most operators launch nothing */
};

enum ks_status ks_device_time_init(struct ks_device_time *time, const struct ks_facts *facts,
                                   struct ks_err *err) KS_MUST_CHECK;
void ks_device_time_release(struct ks_device_time *time);
int64_t ks_device_time_find(const struct ks_device_time *time, uint32_t source, int64_t ext_id);

#endif
