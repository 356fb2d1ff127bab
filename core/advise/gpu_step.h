/* What the rules about the mean step on a GPU share (docs/analyses/mean_step.md). */
#ifndef KS_ADVISE_GPU_STEP_H
#define KS_ADVISE_GPU_STEP_H

#include "advise/findings.h"
#include "analyze/replay.h"

/* False: `check` says why no such rule can judge. */
bool ks_gpu_step_can_judge(const struct ks_facts *facts, struct ks_check *check);

/* The same for rules that read shapes of inputs. */
bool ks_gpu_step_can_judge_shapes(const struct ks_facts *facts, struct ks_check *check);

/* The same for rules about the host's work: without operators nobody can tell what of its time is
 * launching, and what is waiting or code. */
bool ks_gpu_step_can_judge_host(const struct ks_facts *facts, struct ks_check *check);

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

/* Idle time while the host launches, less what these rules, cudnn.retuning and host.slow_operator
 * explain of it. */
int64_t ks_gpu_step_launching_ns(const struct ks_facts *facts);

/* What the rules optimizer.unfused, attention.materialized, fusion.pointwise and
 * precision.cast_churn take out, about in the middle of their bounds; marks 0: they find nothing.
 */
struct ks_replay_shrink ks_optimizer_unfused_repair(const struct ks_facts *facts);
struct ks_replay_shrink ks_attention_materialized_repair(const struct ks_facts *facts);
/* The same of cudnn.retuning, attention only, and of host.slow_operator. */
struct ks_replay_shrink ks_cudnn_plans_repair(const struct ks_facts *facts);
struct ks_replay_shrink ks_slow_operator_repair(const struct ks_facts *facts);
/* The same of compile.graphs_skipped, and of compile.graph_breaks, which takes two places from
 * `slot` on; `host_part` stays of operators that are compiled then. */
struct ks_replay_shrink ks_graphs_skipped_repair(const struct ks_facts *facts);
void ks_graph_breaks_repair(const struct ks_facts *facts, double host_part,
                            struct ks_replay_change *change, size_t slot);
struct ks_replay_shrink ks_fusion_pointwise_repair(const struct ks_facts *facts);
struct ks_replay_shrink ks_precision_cast_churn_repair(const struct ks_facts *facts);

/* The recorded steps after the repair of what these rules and those of the host explain: what
 * launch.bound and batch.too_small start from. */
struct ks_replay_change ks_gpu_step_repaired(const struct ks_facts *facts);

/* Sets both savings of the finding: what a step takes after `before` less after `sure`, the change
 * that comes in any case, and after `most` (replay.md). Bounds come from these and from how much of
 * the estimated cost of recording is real. */
enum ks_status ks_gpu_step_what_if(const struct ks_facts *facts,
                                   const struct ks_replay_change *before,
                                   const struct ks_replay_change *sure,
                                   const struct ks_replay_change *most, struct ks_finding *finding,
                                   struct ks_err *err) KS_MUST_CHECK;

/* The same for faults of the device, which cost the more the faster the host is: high also counts a
 * host that recording slowed down more than we know of, unless steps without it were timed. */
enum ks_status ks_gpu_step_what_if_device(const struct ks_facts *facts,
                                          const struct ks_replay_change *sure,
                                          const struct ks_replay_change *most,
                                          struct ks_finding *finding, struct ks_err *err)
    KS_MUST_CHECK;

/* The same without operators of these marks: those that go in any case, and those at most. */
enum ks_status ks_gpu_step_what_if_dropped(const struct ks_facts *facts, unsigned sure_marks,
                                           unsigned most_marks, struct ks_finding *finding,
                                           struct ks_err *err) KS_MUST_CHECK;

/* The same without the operators that start collectives: parts `low` of the time when the
 * collectives run all the same, and `high` of that without them. */
enum ks_status ks_gpu_step_what_if_fewer_collectives(const struct ks_facts *facts, double low,
                                                     double high, struct ks_finding *finding,
                                                     struct ks_err *err) KS_MUST_CHECK;

/* The step without the profiler, as measured, else as predicted, as far as that is known. */
int64_t ks_gpu_step_real_ns(const struct ks_mean_step *mean);
/* Part of the multiprocessors that is filled while some device works; NaN: unknown. */
double ks_gpu_step_fill(const struct ks_facts *facts);

/* Highest compute capability of the trace's GPUs, major part; -1: no file says it. */
int32_t ks_gpu_step_capability(const struct ks_facts *facts);

/* Is the middle of the saving this share of the step, at least? */
bool ks_gpu_step_is_worth(const struct ks_facts *facts, const struct ks_finding *finding,
                          double share);

/* Sets where the rows of a cost are: the first steps that have some, the operator, its place. */
void ks_gpu_step_set_work(struct ks_where *where, const struct ks_facts *facts,
                          const struct ks_work_cost *cost, struct ks_strid op);
/* Part that stays of `all_ns` when it takes `factor` times `kept_ns`; 1 at most. */
double ks_gpu_step_kept(double factor, int64_t kept_ns, int64_t all_ns);

/* False: `check` says that the replay gains nothing. */
bool ks_gpu_step_is_gain(const struct ks_finding *finding, struct ks_check *check);

/* `ns` times a factor, never below 0. */
int64_t ks_gpu_step_part(int64_t ns, double factor);
/* Is `ns` at least this share of the step? */
bool ks_gpu_step_is_share(const struct ks_mean_step *mean, int64_t ns, double share);

#endif
