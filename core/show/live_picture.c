#include "show/live_picture.h"

#include <math.h>
#include <stdlib.h>

/* Does `other` stand for the rank of both better than `rank`? */
static bool is_better(const struct ks_live_rank *other, const struct ks_live_rank *rank)
{
    bool other_steps = other->process.steps_seen > 0;
    bool own_steps = rank->process.steps_seen > 0;
    if (other->process.rank != rank->process.rank || other == rank) {
        return false;
    }
    return other_steps != own_steps ? other_steps
                                    : other->process.is_running && !rank->process.is_running;
}

/* Processes of a rank lie side by side. */
size_t ks_live_choose_ranks(const struct ks_live_rank *const *all, size_t count,
                            const struct ks_live_rank **chosen)
{
    size_t chosen_count = 0;
    size_t end = 0;
    for (size_t from = 0; from < count; from = end) {
        const struct ks_live_rank *best = all[from];
        for (end = from; end < count && all[end]->process.rank == all[from]->process.rank; end++) {
            best = is_better(all[end], best) ? all[end] : best;
        }
        for (size_t i = from; i < end; i++) {
            if (!is_better(best, all[i])) {
                chosen[chosen_count++] = all[i];
            }
        }
    }
    return chosen_count;
}

static int compare_pace(const void *a, const void *b)
{
    const struct ks_live_rank *x = *(const struct ks_live_rank *const *)a;
    const struct ks_live_rank *y = *(const struct ks_live_rank *const *)b;
    int by_pace = (x->steps_per_s > y->steps_per_s) - (x->steps_per_s < y->steps_per_s);
    int by_rank = (x->process.rank > y->process.rank) - (x->process.rank < y->process.rank);
    int by_pid = (x->process.pid > y->process.pid) - (x->process.pid < y->process.pid);
    return by_pace ? by_pace : by_rank ? by_rank : by_pid;
}

size_t ks_live_sort_by_pace(const struct ks_live_rank *const *ranks, size_t count,
                            const struct ks_live_rank **sorted)
{
    size_t paced_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (isfinite(ranks[i]->steps_per_s)) {
            sorted[paced_count++] = ranks[i];
        }
    }
    if (paced_count > 1) {
        qsort(sorted, paced_count, sizeof(sorted[0]), compare_pace);
    }
    return paced_count;
}

static void take_paces(const struct ks_live_picture *picture, struct ks_live_sum *sum)
{
    size_t count = picture->paced_count;
    if (count > 0) {
        sum->slowest = picture->by_pace[0];
        sum->median = picture->by_pace[(count - 1) / 2];
        sum->fastest = picture->by_pace[count - 1];
    }
}

static void find_times(const struct ks_live_picture *picture, struct ks_live_sum *sum)
{
    const struct ks_live_machine *machine = picture->machine;
    int64_t until_ns = picture->now_ns;
    sum->began_ns = machine && machine->began_ns > 0 ? machine->began_ns : 0;
    if (picture->state != KS_LIVE_RUNNING) {
        until_ns =
            machine && machine->time_ns > sum->last_step_ns ? machine->time_ns : sum->last_step_ns;
    }
    bool is_known = sum->began_ns > 0 && until_ns > sum->began_ns; /* clocks may be set */
    sum->dur_ns = is_known ? until_ns - sum->began_ns : 0;
}

void ks_live_sum_up(const struct ks_live_picture *picture, struct ks_live_sum *sum)
{
    *sum = (struct ks_live_sum){0};
    for (size_t i = 0; i < picture->rank_count; i++) {
        const struct ks_live_rank *rank = picture->ranks[i];
        bool is_most = !sum->most || rank->process.steps_seen > sum->most->process.steps_seen;
        sum->most = is_most ? rank : sum->most;
        sum->last_step_ns =
            rank->last_step_ns > sum->last_step_ns ? rank->last_step_ns : sum->last_step_ns;
        sum->state_counts[rank->process.state]++;
    }
    sum->steps = sum->most ? (int64_t)sum->most->process.steps_seen : 0;
    take_paces(picture, sum);
    find_times(picture, sum);
}

const char *ks_live_state_word(enum ks_live_state state)
{
    static const char *const words[] = {
        [KS_LIVE_RUNNING] = "running",
        [KS_LIVE_ENDING] = "ending",
        [KS_LIVE_OVER] = "over",
    };
    KS_ASSERT((size_t)state < KS_COUNT_OF(words));
    return words[state];
}

const char *ks_live_rank_state_word(enum ks_run_state state)
{
    static const char *const words[] = {
        [KS_RUN_UNKNOWN] = "unknown",
        [KS_RUN_WAITING] = "waiting",
        [KS_RUN_RECORDING] = "recording",
        [KS_RUN_DONE] = "done",
        [KS_RUN_OFF] = "off",
    };
    KS_ASSERT((size_t)state < KS_COUNT_OF(words));
    return words[state];
}

const char *ks_live_clock_reason(int64_t bits)
{
    static const struct {
        int64_t bits;
        const char *words;
    } reasons[] = {
        {0x20 | 0x40, "too hot"},
        {0x80, "power brake"},
        {0x08, "slowed down by hardware"},
        {0x04, "power limit"},
    };
    for (size_t i = 0; bits > 0 && i < KS_COUNT_OF(reasons); i++) {
        if (bits & reasons[i].bits) {
            return reasons[i].words;
        }
    }
    return NULL;
}
