/* How long the devices of a source have worked up to a moment. */
#ifndef KS_ANALYZE_DEVICE_BUSY_H
#define KS_ANALYZE_DEVICE_BUSY_H

#include "analyze/registry.h"

struct ks_busy_query {
    int64_t ns;
    int64_t *busy_ns; /* answer: time before `ns` in which some device works */
};

/* Answers the queries, which must be sorted by ns. */
enum ks_status ks_device_busy_answer(struct ks_analyzer *analyzer, uint32_t source,
                                     const struct ks_busy_query *queries, size_t count,
                                     struct ks_err *err) KS_MUST_CHECK;

#endif
