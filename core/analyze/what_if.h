/* What the mean step of a job would take if something were different (docs/analyses/replay.md). */
#ifndef KS_ANALYZE_WHAT_IF_H
#define KS_ANALYZE_WHAT_IF_H

#include "analyze/facts.h"
#include "analyze/replay.h"

/* Is there a replay of some source? Without, ks_what_if_step must not be called. */
bool ks_what_if_is_known(const struct ks_facts *facts);

/* Runs the recorded steps, to which others are compared; before the first ks_what_if_step. */
enum ks_status ks_what_if_prepare(struct ks_facts *facts, struct ks_err *err) KS_MUST_CHECK;

/* Time of a step under the change, ns, at most the recorded one. Ranks wait for each other, so the
 * slowest one counts; of sources that are no ranks of one job, the mean. */
enum ks_status ks_what_if_step(const struct ks_facts *facts, const struct ks_replay_change *change,
                               double *step_ns, struct ks_err *err) KS_MUST_CHECK;

/* The same of one source alone, which waits for no other; it must have a replay. */
enum ks_status ks_what_if_source(const struct ks_facts *facts, uint32_t source,
                                 const struct ks_replay_change *change, double *step_ns,
                                 struct ks_err *err) KS_MUST_CHECK;

#endif
