/* What rules about the CPU share: steps of ranks that use no GPU, and what `kscope run` noted of
 * processes and cores beside a trace. */
#ifndef KS_ADVISE_CPU_STEP_H
#define KS_ADVISE_CPU_STEP_H

#include "advise/findings.h"

/* Whole cores that the process may use: those that it may run on, at most its quota, 1 at least; 0
 * unknown. */
int64_t ks_cpu_step_cores(const struct ks_process_use *use);

/* Mean complete step of a rank; 0: it has fewer than two. */
int64_t ks_cpu_step_ns(const struct ks_facts *facts, uint32_t source);

/* For rules about what the host does whether there is a GPU or not. False: `check` says why steps
 * cannot be judged. */
bool ks_cpu_step_can_judge(const struct ks_facts *facts, struct ks_check *check);
/* Mean complete step of all ranks, after that. */
double ks_cpu_step_mean_ns(const struct ks_facts *facts);

/* Why the steps of no rank can be judged by what their processes used, or NULL. */
const char *ks_cpu_step_steps_obstacle(const struct ks_facts *facts);
/* Why the cores of no rank can be judged, or NULL. */
const char *ks_cpu_step_obstacle(const struct ks_facts *facts);

/* Own time of all operators of a step, the mean of all, beyond `call_ns` for each call, however
 * small; and what remains of it: what calls take that do not depend on how much they compute. */
int64_t ks_cpu_step_scaling_ns(const struct ks_facts *facts, int64_t call_ns);
int64_t ks_cpu_step_calls_ns(const struct ks_facts *facts, int64_t call_ns);

/* A finding about a rank, without savings. */
struct ks_finding ks_cpu_step_finding(const struct ks_rule *rule, const struct ks_facts *facts,
                                      uint32_t source);

/* Sets the savings of a finding from shares of the time that was recorded: those in the trace of
 * the recorded step, the others of the step without the profiler, where it is known. With a GPU no
 * more than its idle time can go, and nothing is sure. */
void ks_cpu_step_set_savings(struct ks_finding *finding, const struct ks_facts *facts,
                             uint32_t source, double low, double high);

/* The same for rules about operators, which ranks have alike: of the first source with steps, and
 * none without shapes or steps. False: `check` says why not. */
bool ks_cpu_step_can_judge_shapes(const struct ks_facts *facts, struct ks_check *check);
uint32_t ks_cpu_step_first_source(const struct ks_facts *facts);
/* Is the middle of the saving this share of the step, at least? */
bool ks_cpu_step_is_worth(const struct ks_facts *facts, const struct ks_finding *finding,
                          double share);

/* What goes when no code runs between operators any more, where no GPU works; false: it is less
 * than 5% of the step, or steps cannot be judged. */
bool ks_cpu_step_gap(const struct ks_facts *facts, struct ks_saving *saving, uint32_t *source);

/* host.python_gap where no GPU works: its rule says what is claimed. */
enum ks_status ks_cpu_step_find_gap(const struct ks_rule *rule, const struct ks_facts *facts,
                                    struct ks_findings *out, struct ks_check *check,
                                    struct ks_err *err);

#endif
