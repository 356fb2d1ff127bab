#include "advise/gpu_step.h"

#include "analyze/what_if.h"

#include <math.h>

enum { SMALL_COPIES_MIN = 20 };

/* Of reading a value the trace shows the reading; computing the value for that purpose, and what is
 * done with it on the host, come on top. In a recording with a measured repair, reading took 1.9 ms
 * a step in the trace and the repair saved 3.7 ms, so this leaves half as much in reserve. */
static const double reads_factor = 3.0;
/* Making the small tensor on the host comes on top of copying it: 15.5 ms in the trace, 14.1 ms
 * saved without the profiler, which is 1.5 times the share that the profiler leaves of it. */
static const double small_copies_factor = 1.5;

bool ks_gpu_step_can_judge(const struct ks_facts *facts, struct ks_check *check)
{
    if (facts->mean_step.obstacle) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = facts->mean_step.obstacle;
        return false;
    }
    return true;
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
    return code_ns > mean->idle_ns / 2 ? code_ns : 0;
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

/* What a change saves when this part of the estimated cost of recording is real. */
static enum ks_status saved_by(const struct ks_facts *facts, struct ks_replay_change before,
                               struct ks_replay_change after, double cost_factor, int64_t *saved_ns,
                               struct ks_err *err)
{
    double before_ns = 0;
    double after_ns = 0;
    before.cost_factor = after.cost_factor = cost_factor;
    KS_TRY(ks_what_if_step(facts, &before, &before_ns, err));
    KS_TRY(ks_what_if_step(facts, &after, &after_ns, err));
    *saved_ns = before_ns > after_ns ? llround(before_ns - after_ns) : 0;
    return KS_OK;
}

static void widen(struct ks_saving *saving, int64_t ns)
{
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
    const double costs[] = {facts->mean_step.cost_low, facts->mean_step.cost_high};
    finding->saving = finding->saving_in_trace = (struct ks_saving){INT64_MAX, 0};
    for (size_t i = 0; i < KS_COUNT_OF(changes); i++) {
        int64_t saved_ns = 0;
        for (size_t cost = 0; cost < KS_COUNT_OF(costs); cost++) {
            KS_TRY(saved_by(facts, *before, *changes[i], costs[cost], &saved_ns, err));
            widen(&finding->saving, saved_ns);
        }
        KS_TRY(saved_by(facts, *before, *changes[i], 0, &saved_ns, err));
        widen(&finding->saving_in_trace, saved_ns);
    }
    return KS_OK;
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
