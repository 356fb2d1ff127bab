/* GPU time by External id: how long the kernels, copies and sets ran that an operator launched.
 * Holds one entry for each id that has GPU work, in order: operators are asked for in the order of
 * time, in which their ids count up, so that the next one is near the last. */
#ifndef KS_ANALYZE_DEVICE_TIME_H
#define KS_ANALYZE_DEVICE_TIME_H

#include "analyze/facts.h"

struct ks_device_time_entry {
    int64_t ext_id;
    int64_t ns;
    uint32_t source;
};

struct ks_device_time {
    struct ks_device_time_entry *entries; /* by source, then id */
    size_t count;
    size_t capacity;
    size_t near;        /* where the last one was found */
    uint64_t *seen;     /* one bit by the low bits of the id: most operators launch nothing */
    uint64_t seen_bits; /* power of two */
};

/* `time` is to be released after an error, too. */
enum ks_status ks_device_time_init(struct ks_device_time *time, const struct ks_facts *facts,
                                   struct ks_err *err) KS_MUST_CHECK;
void ks_device_time_release(struct ks_device_time *time);
/* Nanoseconds; 0 when the operator launched nothing. */
int64_t ks_device_time_find(struct ks_device_time *time, uint32_t source, int64_t ext_id);

#endif
