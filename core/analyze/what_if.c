#include "analyze/what_if.h"

bool ks_what_if_is_known(const struct ks_facts *facts)
{
    uint32_t count = ks_trace_source_count(facts->trace);
    for (uint32_t i = 0; i < count; i++) {
        if (facts->replays[i]) {
            return true;
        }
    }
    return false;
}

/* Slowest or mean of all sources. */
static enum ks_status run_all(const struct ks_facts *facts, const struct ks_replay_change *change,
                              double *step_ns, struct ks_err *err)
{
    uint32_t count = ks_trace_source_count(facts->trace);
    uint32_t known = 0;
    double sum_ns = 0;
    double most_ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        double one_ns = 0;
        if (!facts->replays[i]) {
            continue;
        }
        KS_TRY(ks_replay_run(facts->replays[i], change, &one_ns, err));
        known++;
        sum_ns += one_ns;
        most_ns = one_ns > most_ns ? one_ns : most_ns;
    }
    *step_ns = facts->are_ranks ? most_ns : sum_ns / known;
    return KS_OK;
}

enum ks_status ks_what_if_prepare(struct ks_facts *facts, struct ks_err *err)
{
    struct ks_replay_change recorded = KS_REPLAY_UNCHANGED;
    recorded.waits_for_ranks = true;
    return ks_what_if_is_known(facts) ? run_all(facts, &recorded, &facts->replayed_ns, err) : KS_OK;
}

/* The replay holds some of the steps: its times are scaled to the mean of all. The distance between
 * ends of steps can grow when time is taken away, where the first step gains more than the last:
 * that is no longer step. */
enum ks_status ks_what_if_step(const struct ks_facts *facts, const struct ks_replay_change *change,
                               double *step_ns, struct ks_err *err)
{
    double mean_ns = (double)facts->mean_step.step_ns;
    double changed_ns = 0;
    KS_TRY(run_all(facts, change, &changed_ns, err));
    *step_ns =
        changed_ns < facts->replayed_ns ? mean_ns * (changed_ns / facts->replayed_ns) : mean_ns;
    return KS_OK;
}

enum ks_status ks_what_if_source(const struct ks_facts *facts, uint32_t source,
                                 const struct ks_replay_change *change, double *step_ns,
                                 struct ks_err *err)
{
    KS_ASSERT(facts->replays[source] != NULL);
    KS_TRY(ks_replay_run(facts->replays[source], change, step_ns, err));
    if (facts->replayed_ns > 0) {
        *step_ns *= (double)facts->mean_step.step_ns / facts->replayed_ns;
    }
    return KS_OK;
}
