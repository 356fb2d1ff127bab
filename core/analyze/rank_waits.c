/* Who waits for whom in the collectives of each step, and what the rank that comes last does
 * meanwhile (docs/analyses/collectives.md). */
#include "analyze/collectives.h"
#include "base/err.h"
#include "measure/quantile.h"
#include "measure/sum.h"

/* Waiting of one step on one rank. */
struct wait {
    int64_t wait_ns;
    bool is_matched; /* all its collectives have partners */
    bool has_some;
};

struct compare {
    struct ks_collective_list *list;
    struct wait *waits; /* by step */
    int64_t *values;    /* scratch, one for each rank */
    size_t *step_of;    /* by rank: step of the number that is looked at */
    int64_t *late_ns;   /* by rank: how long others waited for it, all steps */
    size_t *late_steps; /* by rank */
    int64_t uneven_ns;  /* most less mean compute, where who computes most comes last */
};

static void add_waits(struct compare *compare)
{
    struct ks_facts *facts = compare->list->analyzer->facts;
    for (size_t i = 0; i < compare->list->count; i++) {
        const struct ks_collective_row *row = &compare->list->items[i];
        struct wait *wait = &compare->waits[row->step];
        struct ks_rank_fact *rank = &facts->comm.ranks[row->source];
        int64_t dur_ns = row->end_ns - row->start_ns;
        int64_t exposed_ns = dur_ns > row->hidden_ns ? dur_ns - row->hidden_ns : 0;
        bool is_matched = row->least_ns >= 0;
        wait->is_matched = (wait->is_matched || !wait->has_some) && is_matched;
        wait->has_some = true;
        rank->collectives += 1;
        rank->comm_ns = ks_sum_add(rank->comm_ns, dur_ns);
        rank->exposed_ns = ks_sum_add(rank->exposed_ns, exposed_ns);
        if (is_matched) {
            int64_t transfer_ns = exposed_ns < row->least_ns ? exposed_ns : row->least_ns;
            wait->wait_ns = ks_sum_add(wait->wait_ns, dur_ns - row->least_ns);
            rank->wait_ns = ks_sum_add(rank->wait_ns, dur_ns - row->least_ns);
            rank->exposed_transfer_ns = ks_sum_add(rank->exposed_transfer_ns, transfer_ns);
            rank->matched += 1;
        }
    }
}

static void finish_rank(const struct compare *compare, struct ks_rank_fact *rank)
{
    const struct ks_facts *facts = compare->list->analyzer->facts;
    struct ks_step_range range = facts->step_ranges[rank->source];
    int64_t steps = 0;
    for (size_t i = range.begin; i < range.end; i++) {
        const struct ks_step *step = &facts->steps[i];
        if (!step->is_complete) {
            continue;
        }
        steps++;
        rank->compute_ns = ks_sum_add(rank->compute_ns, compare->list->compute_ns[i]);
        for (int cause = 0; cause < KS_IDLE_COUNT; cause++) {
            rank->idle_by_cause_ns[cause] =
                ks_sum_add(rank->idle_by_cause_ns[cause], step->idle_by_cause_ns[cause]);
        }
    }
    int64_t by = steps > 0 ? steps : 1;
    rank->collectives /= (double)by;
    rank->matched /= (double)by;
    rank->comm_ns /= by;
    rank->exposed_ns /= by;
    rank->exposed_transfer_ns /= by;
    rank->wait_ns /= by;
    rank->compute_ns /= by;
    for (int cause = 0; cause < KS_IDLE_COUNT; cause++) {
        rank->idle_by_cause_ns[cause] /= by;
    }
}

/* ------------------------------------------------------------ who comes last */

/* Complete step of this number on all ranks, all of whose collectives have partners? Numbers
 * ascend, in calls and on each rank. */
static bool find_steps(const struct compare *compare, int64_t number)
{
    const struct ks_facts *facts = compare->list->analyzer->facts;
    bool is_found = true;
    for (size_t rank = 0; rank < facts->comm.rank_count; rank++) {
        size_t end = facts->step_ranges[rank].end;
        size_t *at = &compare->step_of[rank];
        while (*at < end && facts->steps[*at].number < number) {
            ++*at;
        }
        is_found = is_found && *at < end && facts->steps[*at].number == number &&
                   facts->steps[*at].is_complete && compare->waits[*at].is_matched;
    }
    return is_found;
}

/* Index of the least or the most of the values, which have one for each rank; of equals the
 * first. */
static size_t extreme_of(const struct compare *compare, bool is_most)
{
    size_t best = 0;
    for (size_t i = 1; i < compare->list->analyzer->facts->comm.rank_count; i++) {
        bool is_better = is_most ? compare->values[i] > compare->values[best]
                                 : compare->values[i] < compare->values[best];
        best = is_better ? i : best;
    }
    return best;
}

/* Others wait for who waits least; half of them at least as long as the median. */
static void compare_step(struct compare *compare)
{
    struct ks_facts *facts = compare->list->analyzer->facts;
    size_t count = facts->comm.rank_count;
    int64_t compute_ns = 0;
    for (size_t i = 0; i < count; i++) {
        compare->values[i] = compare->list->compute_ns[compare->step_of[i]];
        compute_ns = ks_sum_add(compute_ns, compare->values[i] / (int64_t)count);
    }
    size_t busiest = extreme_of(compare, true);
    int64_t uneven_ns = ks_sum_sub(compare->values[busiest], compute_ns);
    for (size_t i = 0; i < count; i++) {
        compare->values[i] = compare->waits[compare->step_of[i]].wait_ns;
    }
    size_t last = extreme_of(compare, false);
    int64_t least_ns = compare->values[last];
    compare->values[last] = compare->values[count - 1]; /* the others come first */
    int64_t waited_ns = ks_sum_sub(ks_quantile_median(compare->values, count - 1), least_ns);
    compare->late_ns[last] = ks_sum_add(compare->late_ns[last], waited_ns);
    compare->late_steps[last]++;
    if (busiest == last) {
        uneven_ns = uneven_ns < waited_ns ? uneven_ns : waited_ns;
        compare->uneven_ns = ks_sum_add(compare->uneven_ns, uneven_ns);
    }
    facts->comm.steps_compared++;
}

/* Idle time of a cause, or KS_IDLE_COUNT: compute. */
static int64_t time_of(const struct ks_rank_fact *rank, int cause)
{
    return cause == KS_IDLE_COUNT ? rank->compute_ns : rank->idle_by_cause_ns[cause];
}

/* By how much the rank exceeds the median of the others. */
static int64_t excess_of(struct compare *compare, size_t late, int cause)
{
    const struct ks_comm_fact *comm = &compare->list->analyzer->facts->comm;
    size_t count = 0;
    for (size_t i = 0; i < comm->rank_count; i++) {
        if (i != late) {
            compare->values[count++] = time_of(&comm->ranks[i], cause);
        }
    }
    return ks_sum_sub(time_of(&comm->ranks[late], cause),
                      ks_quantile_median(compare->values, count));
}

static void choose_late(struct compare *compare)
{
    struct ks_facts *facts = compare->list->analyzer->facts;
    struct ks_comm_fact *comm = &facts->comm;
    size_t late = 0;
    for (size_t i = 1; i < comm->rank_count; i++) {
        late = compare->late_ns[i] > compare->late_ns[late] ? i : late;
    }
    int64_t steps = (int64_t)comm->steps_compared;
    comm->late = late;
    comm->late_steps = compare->late_steps[late];
    comm->late_ns = compare->late_ns[late] / steps;
    comm->uneven_ns = compare->uneven_ns / steps;
    for (int cause = 0; cause < KS_IDLE_COUNT; cause++) {
        comm->late_excess_ns[cause] = excess_of(compare, late, cause);
    }
    comm->late_excess_compute_ns = excess_of(compare, late, KS_IDLE_COUNT);
}

static enum ks_status prepare(struct compare *compare, struct ks_err *err)
{
    struct ks_analyzer *analyzer = compare->list->analyzer;
    struct ks_facts *facts = analyzer->facts;
    size_t count = ks_trace_source_count(analyzer->trace);
    facts->comm.ranks = ks_new(analyzer->results, struct ks_rank_fact, count);
    compare->waits = ks_new(&analyzer->scratch, struct wait, facts->step_count + 1);
    compare->values = ks_new(&analyzer->scratch, int64_t, count);
    compare->step_of = ks_new(&analyzer->scratch, size_t, count);
    compare->late_ns = ks_new(&analyzer->scratch, int64_t, count);
    compare->late_steps = ks_new(&analyzer->scratch, size_t, count);
    if (!facts->comm.ranks || !compare->waits || !compare->values || !compare->step_of ||
        !compare->late_ns || !compare->late_steps) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot compare ranks: count=%zu", count);
    }
    facts->comm.rank_count = count;
    for (uint32_t i = 0; i < count; i++) {
        facts->comm.ranks[i].source = i;
        compare->step_of[i] = facts->step_ranges[i].begin;
        facts->comm.ranks[i].rank = ks_trace_source(analyzer->trace, i)->rank;
    }
    return KS_OK;
}

enum ks_status ks_collectives_compare_ranks(struct ks_collective_list *list, struct ks_err *err)
{
    struct ks_facts *facts = list->analyzer->facts;
    struct compare compare = {.list = list};
    KS_TRY(prepare(&compare, err));
    add_waits(&compare);
    for (size_t i = 0; i < facts->comm.rank_count; i++) {
        finish_rank(&compare, &facts->comm.ranks[i]);
    }
    struct ks_step_range first = facts->step_ranges[0];
    for (size_t i = first.begin; i < first.end && facts->comm.rank_count > 1; i++) {
        if (find_steps(&compare, facts->steps[i].number)) {
            compare_step(&compare);
        }
    }
    if (facts->comm.steps_compared > 0) {
        choose_late(&compare);
    }
    return KS_OK;
}
