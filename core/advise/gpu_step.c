#include "advise/gpu_step.h"

#include "analyze/what_if.h"
#include "measure/sum.h"

#include <math.h>
#include <string.h>

enum { SMALL_COPIES_MIN = 20 };

/* Of reading a value the trace shows the reading; computing the value for that purpose, and what is
 * done with it on the host, come on top. In a recording with a measured repair, reading took 1.9 ms
 * a step in the trace and the repair saved 3.7 ms, so this leaves half as much in reserve. */
static const double reads_factor = 3.0;
/* Making the small tensor on the host comes on top of copying it: 15.5 ms in the trace, 14.1 ms
 * saved without the profiler, which is 1.5 times the share that the profiler leaves of it. */
static const double small_copies_factor = 1.5;

/* Steps of convolutions took 0.77 of what the middle of the estimated cost leaves (replay.md), as
 * if recording cost 1.3 times as much as the highest estimate. Half of that counts for faults that
 * a slow host hides. */
static const double fast_host = 1.15;

/* Of operators between graphs, about in the middle of the bounds of compile.graph_breaks. */
static const double breaks_host_part = 0.35;

bool ks_gpu_step_can_judge(const struct ks_facts *facts, struct ks_check *check)
{
    if (facts->mean_step.obstacle) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = facts->mean_step.obstacle;
        return false;
    }
    return true;
}

bool ks_gpu_step_can_judge_shapes(const struct ks_facts *facts, struct ks_check *check)
{
    if (ks_gpu_step_can_judge(facts, check) && !facts->has_shapes) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = "input shapes of operators were not recorded";
    }
    return check->state != KS_CHECK_COULD_NOT;
}

static bool has_operators(const struct ks_facts *facts)
{
    size_t i = 0;
    while (i < facts->operator_count && facts->operators[i].kind != KS_OPERATOR_OP) {
        i++;
    }
    return i < facts->operator_count;
}

bool ks_gpu_step_can_judge_host(const struct ks_facts *facts, struct ks_check *check)
{
    if (ks_gpu_step_can_judge(facts, check) && !has_operators(facts)) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = "no operators of PyTorch were recorded";
    }
    return check->state != KS_CHECK_COULD_NOT;
}

struct ks_finding ks_gpu_step_finding(const struct ks_rule *rule)
{
    return (struct ks_finding){
        .rule = rule,
        .verify = "kscope run train.py  # with the fix: the finding must be gone",
        .bytes = KS_UNKNOWN,
        .steps_until_oom = KS_UNKNOWN,
        .where = {.rank = KS_UNKNOWN,
                  .device = KS_UNKNOWN,
                  .stream = KS_UNKNOWN,
                  .line = KS_UNKNOWN},
    };
}

int64_t ks_gpu_step_reads_high_ns(const struct ks_mean_step *mean)
{
    return ks_gpu_step_part(mean->reads.operator_ns, reads_factor);
}

int64_t ks_gpu_step_small_copies_high_ns(const struct ks_mean_step *mean)
{
    return mean->small_copies.count >= SMALL_COPIES_MIN
               ? ks_gpu_step_part(mean->small_copies.operator_ns, small_copies_factor)
               : 0;
}

int64_t ks_gpu_step_host_code_ns(const struct ks_mean_step *mean)
{
    int64_t code_ns = mean->idle_by_cause_ns[KS_IDLE_HOST_CODE];
    int64_t others_ns = mean->idle_ns - mean->idle_by_cause_ns[KS_IDLE_DATA];
    return code_ns > others_ns / 2 ? code_ns : 0;
}

int64_t ks_gpu_step_trips_ns(const struct ks_mean_step *mean)
{
    int64_t idle_ns = ks_gpu_step_host_idle_ns(mean);
    return mean->trips.count < 1           ? 0
           : mean->trips.idle_ns < idle_ns ? mean->trips.idle_ns
                                           : idle_ns;
}

int64_t ks_gpu_step_host_idle_ns(const struct ks_mean_step *mean)
{
    return mean->idle_by_cause_ns[KS_IDLE_SYNC] + mean->idle_by_cause_ns[KS_IDLE_LAUNCH] +
           mean->idle_by_cause_ns[KS_IDLE_HOST_CODE];
}

/* Host time of operators that the repair takes out. */
static int64_t slow_operators_ns(const struct ks_facts *facts)
{
    const struct ks_work_costs *work = &facts->work;
    bool has_plans = ks_cudnn_plans_repair(facts).marks != 0;
    bool has_slow = ks_slow_operator_repair(facts).marks != 0;
    return ks_sum_add(has_plans ? work->plans.cost.host_ns : 0, has_slow ? work->slow.own_ns : 0);
}

int64_t ks_gpu_step_launching_ns(const struct ks_facts *facts)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    return mean->idle_by_cause_ns[KS_IDLE_LAUNCH] + mean->idle_by_cause_ns[KS_IDLE_HOST_CODE] -
           ks_gpu_step_reads_high_ns(mean) - ks_gpu_step_small_copies_high_ns(mean) -
           ks_gpu_step_host_code_ns(mean) - ks_gpu_step_trips_ns(mean) - slow_operators_ns(facts);
}

struct ks_replay_change ks_gpu_step_repaired(const struct ks_facts *facts)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    bool has_reads = ks_gpu_step_reads_high_ns(mean) > 0;
    bool has_copies = ks_gpu_step_small_copies_high_ns(mean) > 0;
    struct ks_replay_change change = KS_REPLAY_UNCHANGED;
    change.drop = (has_reads ? (unsigned)KS_REPLAY_READ : 0u) |
                  (has_copies ? (unsigned)KS_REPLAY_SMALL_COPY : 0u) |
                  (ks_gpu_step_trips_ns(mean) > 0 ? (unsigned)KS_REPLAY_ROUND_TRIP : 0u) |
                  KS_REPLAY_MEMORY | KS_REPLAY_BEFORE_FREE;
    change.gap_factor = ks_gpu_step_host_code_ns(mean) > 0 ? 0 : 1;
    change.shrinks[0] = ks_optimizer_unfused_repair(facts);
    change.shrinks[1] = ks_attention_materialized_repair(facts);
    change.shrinks[2] = ks_fusion_pointwise_repair(facts);
    change.shrinks[3] = ks_precision_cast_churn_repair(facts);
    change.shrinks[4] = ks_cudnn_plans_repair(facts);
    change.shrinks[5] = ks_slow_operator_repair(facts);
    change.shrinks[6] = ks_graphs_skipped_repair(facts);
    ks_graph_breaks_repair(facts, breaks_host_part, &change, 7);
    return change;
}

/* Part of the estimated cost of recording that is real: at least, at most, and in the trace. */
enum { COST_LOW, COST_HIGH, COST_IN_TRACE, COSTS };

static enum ks_status run_costs(const struct ks_facts *facts, struct ks_replay_change change,
                                double step_ns[COSTS], struct ks_err *err)
{
    const double costs[COSTS] = {facts->mean_step.cost_low, facts->mean_step.cost_high, 0};
    for (size_t i = 0; i < COSTS; i++) {
        change.cost_factor = costs[i];
        KS_TRY(ks_what_if_step(facts, &change, &step_ns[i], err));
    }
    return KS_OK;
}

static void widen(struct ks_saving *saving, double before_ns, double after_ns)
{
    int64_t ns = before_ns > after_ns ? llround(before_ns - after_ns) : 0;
    saving->low_ns = ns < saving->low_ns ? ns : saving->low_ns;
    saving->high_ns = ns > saving->high_ns ? ns : saving->high_ns;
}

enum ks_status ks_gpu_step_what_if(const struct ks_facts *facts,
                                   const struct ks_replay_change *before,
                                   const struct ks_replay_change *sure,
                                   const struct ks_replay_change *most, struct ks_finding *finding,
                                   struct ks_err *err)
{
    const struct ks_replay_change *changes[] = {sure, most};
    double before_ns[COSTS];
    double after_ns[COSTS];
    finding->saving = finding->saving_in_trace = (struct ks_saving){INT64_MAX, 0};
    KS_TRY(run_costs(facts, *before, before_ns, err));
    for (size_t i = 0; i < (sure == most ? 1 : KS_COUNT_OF(changes)); i++) {
        KS_TRY(run_costs(facts, *changes[i], after_ns, err));
        widen(&finding->saving, before_ns[COST_LOW], after_ns[COST_LOW]);
        widen(&finding->saving, before_ns[COST_HIGH], after_ns[COST_HIGH]);
        widen(&finding->saving_in_trace, before_ns[COST_IN_TRACE], after_ns[COST_IN_TRACE]);
    }
    return KS_OK;
}

enum ks_status ks_gpu_step_what_if_device(const struct ks_facts *facts,
                                          const struct ks_replay_change *sure,
                                          const struct ks_replay_change *most,
                                          struct ks_finding *finding, struct ks_err *err)
{
    struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    KS_TRY(ks_gpu_step_what_if(facts, &before, sure, most, finding, err));
    if (facts->mean_step.unprofiled_ns > 0) {
        return KS_OK;
    }
    struct ks_replay_change after = *most;
    double before_ns = 0;
    double after_ns = 0;
    before.cost_factor = after.cost_factor = fast_host * facts->mean_step.cost_high;
    KS_TRY(ks_what_if_step(facts, &before, &before_ns, err));
    KS_TRY(ks_what_if_step(facts, &after, &after_ns, err));
    struct ks_saving fast = finding->saving;
    widen(&fast, before_ns, after_ns);
    finding->saving.high_ns = fast.high_ns;
    return KS_OK;
}

enum ks_status ks_gpu_step_what_if_dropped(const struct ks_facts *facts, unsigned sure_marks,
                                           unsigned most_marks, struct ks_finding *finding,
                                           struct ks_err *err)
{
    const struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    struct ks_replay_change sure = before;
    struct ks_replay_change most = before;
    sure.drop = sure_marks;
    most.drop = most_marks;
    return ks_gpu_step_what_if(facts, &before, &sure, &most, finding, err);
}

static void scale(struct ks_saving *saving, double low, double high)
{
    saving->low_ns = ks_gpu_step_part(saving->low_ns, low);
    saving->high_ns = ks_gpu_step_part(saving->high_ns, high);
}

enum ks_status ks_gpu_step_what_if_fewer_collectives(const struct ks_facts *facts, double low,
                                                     double high, struct ks_finding *finding,
                                                     struct ks_err *err)
{
    const struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    struct ks_replay_change sure = before;
    struct ks_replay_change most = before;
    sure.drop = most.drop = KS_REPLAY_COLLECTIVE;
    sure.keeps_collectives = true;
    KS_TRY(ks_gpu_step_what_if(facts, &before, &sure, &most, finding, err));
    scale(&finding->saving, low, high);
    scale(&finding->saving_in_trace, low, high);
    return KS_OK;
}

int64_t ks_gpu_step_real_ns(const struct ks_mean_step *mean)
{
    return mean->unprofiled_ns > 0  ? mean->unprofiled_ns
           : mean->predicted_ns > 0 ? mean->predicted_ns
                                    : mean->step_ns;
}

double ks_gpu_step_fill(const struct ks_facts *facts)
{
    double filled_ns = 0;
    double busy_ns = 0;
    for (size_t i = 0; i < facts->device_count; i++) {
        const struct ks_device_fact *device = &facts->devices[i];
        filled_ns += device->sm_efficiency * (double)device->span_ns;
        busy_ns += (double)device->busy_ns;
    }
    return filled_ns / busy_ns;
}

int32_t ks_gpu_step_capability(const struct ks_facts *facts)
{
    int32_t highest = -1;
    for (uint32_t i = 0; i < ks_trace_source_count(facts->trace); i++) {
        const struct ks_source *source = ks_trace_source(facts->trace, i);
        for (size_t gpu = 0; gpu < source->gpu_count; gpu++) {
            int32_t major = source->gpus[gpu].compute_major;
            highest = major > highest ? major : highest;
        }
    }
    return highest;
}

bool ks_gpu_step_is_worth(const struct ks_facts *facts, const struct ks_finding *finding,
                          double share)
{
    int64_t middle_ns = finding->saving.low_ns / 2 + finding->saving.high_ns / 2;
    return middle_ns > 0 && ks_gpu_step_is_share(&facts->mean_step, middle_ns, share);
}

void ks_gpu_step_set_work(struct ks_where *where, const struct ks_facts *facts,
                          const struct ks_work_cost *cost, struct ks_strid op)
{
    ks_findings_set_steps(where, cost->steps, cost->step_count);
    where->op = op;
    ks_findings_set_place(where, facts, op, KS_PLACE_OPERATOR);
}

double ks_gpu_step_kept(double factor, int64_t kept_ns, int64_t all_ns)
{
    double part = all_ns > 0 ? factor * (double)kept_ns / (double)all_ns : 1;
    return part < 1 ? part : 1;
}

bool ks_gpu_step_is_gain(const struct ks_finding *finding, struct ks_check *check)
{
    if (finding->saving.high_ns == 0) {
        check->reason = "replayed without it, the recorded steps take as long";
    }
    return finding->saving.high_ns > 0;
}

int64_t ks_gpu_step_part(int64_t ns, double factor)
{
    double part = (double)ns * factor;
    return part >= 9e18 ? INT64_MAX : part <= 0 ? 0 : (int64_t)llround(part);
}

bool ks_gpu_step_is_share(const struct ks_mean_step *mean, int64_t ns, double share)
{
    return mean->step_ns > 0 && (double)ns >= share * (double)mean->step_ns;
}
