#include "analyze/what_if.h"

#include <string.h>

/* Rules ask for much the same runs: on a large trace half of them had been made before, and they
 * took most of the time of advice. */
enum { MEMO_MAX = 64 };

struct ks_what_if_memo {
    size_t count;
    struct ks_replay_change changes[MEMO_MAX];
    double step_ns[MEMO_MAX];
};

static bool is_same_part(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static bool is_same_shrink(const struct ks_replay_shrink *a, const struct ks_replay_shrink *b)
{
    return a->marks == b->marks && is_same_part(a->host_part, b->host_part) &&
           is_same_part(a->work_part, b->work_part) && a->drops_waits == b->drops_waits;
}

/* Member by member: there is room between members that nobody sets. */
static bool is_same(const struct ks_replay_change *a, const struct ks_replay_change *b)
{
    bool is_equal = is_same_part(a->cost_factor, b->cost_factor) && a->drop == b->drop &&
                    is_same_part(a->launch_factor, b->launch_factor) &&
                    is_same_part(a->gap_factor, b->gap_factor) &&
                    is_same_part(a->short_factor, b->short_factor) &&
                    a->waits_for_ranks == b->waits_for_ranks &&
                    a->keeps_collectives == b->keeps_collectives &&
                    is_same_part(a->collective_factor, b->collective_factor) &&
                    is_same_part(a->token_cut, b->token_cut);
    for (size_t i = 0; is_equal && i < KS_REPLAY_SHRINKS_MAX; i++) {
        is_equal = is_same_shrink(&a->shrinks[i], &b->shrinks[i]);
    }
    return is_equal;
}

static bool find(const struct ks_what_if_memo *memo, const struct ks_replay_change *change,
                 double *step_ns)
{
    for (size_t i = 0; i < memo->count; i++) {
        if (is_same(&memo->changes[i], change)) {
            *step_ns = memo->step_ns[i];
            return true;
        }
    }
    return false;
}

static void keep(struct ks_what_if_memo *memo, const struct ks_replay_change *change,
                 double step_ns)
{
    if (memo->count < MEMO_MAX) {
        memo->changes[memo->count] = *change;
        memo->step_ns[memo->count] = step_ns;
        memo->count++;
    }
}

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
    if (find(facts->what_ifs, change, step_ns)) {
        return KS_OK;
    }
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
    keep(facts->what_ifs, change, *step_ns);
    return KS_OK;
}

enum ks_status ks_what_if_prepare(struct ks_facts *facts, struct ks_err *err)
{
    struct ks_replay_change recorded = KS_REPLAY_UNCHANGED;
    recorded.waits_for_ranks = true;
    facts->what_ifs = ks_new(&facts->arena, struct ks_what_if_memo, 1);
    if (!facts->what_ifs) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot compare steps: no memory");
    }
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
