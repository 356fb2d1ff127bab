#include "advise/late_rank.h"

#include "advise/gpu_step.h"
#include "measure/sum.h"

enum { STEPS_MIN = 2 };

/* Less than that is noise of hosts and clocks. */
static const double share_min = 0.05;
/* With two ranks chance makes one of them the last in all of four steps once in eight recordings,
 * so the reason must be seen as well. */
static const double steps_share_min = 0.75;
static const double explained_min = 0.5;

bool ks_late_rank_can_judge(const struct ks_facts *facts, struct ks_check *check)
{
    const struct ks_comm_fact *comm = &facts->comm;
    check->state = KS_CHECK_COULD_NOT;
    if (comm->rank_count < 2) {
        check->reason = comm->rank_count == 1 ? "the recording of one rank alone was read"
                                              : "no complete step has collectives";
    } else if (comm->steps_compared < STEPS_MIN) {
        check->reason = "fewer than two complete steps have the same collectives on all ranks";
    } else if (ks_gpu_step_can_judge(facts, check)) {
        check->state = KS_CHECK_FINE;
        return true;
    }
    return false;
}

bool ks_late_rank_is_steady(const struct ks_facts *facts)
{
    const struct ks_comm_fact *comm = &facts->comm;
    return comm->rank_count > 1 && comm->steps_compared >= STEPS_MIN &&
           !facts->mean_step.obstacle &&
           (double)comm->late_steps >= steps_share_min * (double)comm->steps_compared &&
           ks_gpu_step_is_share(&facts->mean_step, comm->late_ns, share_min);
}

struct ks_late_rank ks_late_rank_find(const struct ks_facts *facts)
{
    static const enum ks_idle_cause own[] = {KS_IDLE_HOST_CODE, KS_IDLE_DATA, KS_IDLE_SYNC,
                                             KS_IDLE_ALLOCATOR};
    const struct ks_comm_fact *comm = &facts->comm;
    struct ks_late_rank late = {.cause = KS_IDLE_HOST_CODE};
    if (!ks_late_rank_is_steady(facts)) {
        return late;
    }
    int64_t most_ns = 0;
    for (size_t i = 0; i < KS_COUNT_OF(own); i++) {
        int64_t excess_ns = comm->late_excess_ns[own[i]];
        late.excess_ns = ks_sum_add(late.excess_ns, excess_ns > 0 ? excess_ns : 0);
        if (excess_ns > most_ns) {
            most_ns = excess_ns;
            late.cause = own[i];
        }
    }
    int64_t launch_ns = comm->late_excess_ns[KS_IDLE_LAUNCH];
    double wanted_ns = explained_min * (double)comm->late_ns;
    if ((double)late.excess_ns >= wanted_ns) {
        late.rank = &comm->ranks[comm->late];
    } else if ((double)launch_ns >= wanted_ns) {
        late = (struct ks_late_rank){&comm->ranks[comm->late], KS_IDLE_LAUNCH, launch_ns};
    }
    return late;
}
