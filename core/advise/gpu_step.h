/* What the rules about the mean step on a GPU share (docs/analyses/mean_step.md). */
#ifndef KS_ADVISE_GPU_STEP_H
#define KS_ADVISE_GPU_STEP_H

#include "advise/findings.h"
#include "analyze/replay.h"

/* False: `check` says why no such rule can judge. */
bool ks_gpu_step_can_judge(const struct ks_facts *facts, struct ks_check *check);

/* A finding of the rule with what these rules have in common; nothing of the place is known. */
struct ks_finding ks_gpu_step_finding(const struct ks_rule *rule);

/* Host time that the faults of the rules sync.host, copy.many_small, device.round_trip and
 * host.python_gap explain at most, as the trace shows it; launch.bound leaves it to them. */
int64_t ks_gpu_step_reads_high_ns(const struct ks_mean_step *mean);
int64_t ks_gpu_step_small_copies_high_ns(const struct ks_mean_step *mean);
int64_t ks_gpu_step_trips_ns(const struct ks_mean_step *mean);
int64_t ks_gpu_step_host_code_ns(const struct ks_mean_step *mean);

/* Time in which the GPU idles for reasons of the host: what faults of the host can cost at most. */
int64_t ks_gpu_step_host_idle_ns(const struct ks_mean_step *mean);

/* Sets both savings of the finding: what a step takes after `before` less after `sure`, the change
 * that comes in any case, and after `most` (replay.md). Bounds come from these and from how much of
 * the estimated cost of recording is real. */
enum ks_status ks_gpu_step_what_if(const struct ks_facts *facts,
                                   const struct ks_replay_change *before,
                                   const struct ks_replay_change *sure,
                                   const struct ks_replay_change *most, struct ks_finding *finding,
                                   struct ks_err *err) KS_MUST_CHECK;

/* False: `check` says that the replay gains nothing. */
bool ks_gpu_step_is_gain(const struct ks_finding *finding, struct ks_check *check);

/* `ns` times a factor, never below 0. */
int64_t ks_gpu_step_part(int64_t ns, double factor);
/* Is `ns` at least this share of the step? */
bool ks_gpu_step_is_share(const struct ks_mean_step *mean, int64_t ns, double share);

#endif
