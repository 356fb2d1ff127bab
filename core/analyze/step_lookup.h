/* Which step a host moment belongs to, and what the scope keeps. */
#ifndef KS_ANALYZE_STEP_LOOKUP_H
#define KS_ANALYZE_STEP_LOOKUP_H

#include "analyze/facts.h"

/* Index of the last of `count` steps (by host start) whose host span holds `ns`, or `count`. */
size_t ks_step_lookup(const struct ks_step *steps, size_t count, int64_t ns);

/* Kept step of a source whose host span holds `ns`, or NULL. */
const struct ks_step *ks_step_lookup_host(const struct ks_facts *facts, uint32_t source,
                                          int64_t ns);

/* Track of the thread that the steps of a source name; if they name none of it, of its thread with
 * the most rows; 0: it has no thread. */
uint32_t ks_step_lookup_thread(const struct ks_facts *facts, uint32_t source);

/* Does the scope keep a host row that starts at `start_ns`? */
static inline bool ks_step_lookup_keeps_host(const struct ks_facts *facts, uint32_t source,
                                             int64_t start_ns)
{
    return !facts->scope.step_range_given || ks_step_lookup_host(facts, source, start_ns);
}

/* Does the scope keep GPU work of this device track, launched at `launch_ns` (KS_TIME_NONE:
 * unknown, then only a step that is the whole recording holds it)? */
bool ks_step_lookup_keeps_gpu(const struct ks_facts *facts, uint32_t device_track,
                              int64_t launch_ns);

#endif
