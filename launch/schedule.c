#include "launch/schedule.h"

enum {
    RANKS_WAIT_MS = 4000,
    EXTRAS_WAIT_MS = 5000,
    BYTES_PER_MS = 2500, /* a report reads so much of packed traces when all cores are taken */
};

static const struct ks_run_process *process_of(const struct ks_run_folder *folder,
                                               const struct ks_run_window *window)
{
    const struct ks_run_process *process;
    for (size_t i = 0; (process = ks_run_folder_process(folder, i)); i++) {
        if (process->pid == window->pid && process->rank == window->rank) {
            return process;
        }
    }
    return NULL;
}

/* A launcher of ranks that has imported torch waits for ever; it has the rank of a rank that is
 * there. */
static bool has_rank(const struct ks_run_folder *folder, int64_t number, int64_t rank)
{
    const struct ks_run_window *window;
    for (size_t i = 0; (window = ks_run_folder_window(folder, i)); i++) {
        if (window->number == number && window->rank == rank) {
            return true;
        }
    }
    return false;
}

static size_t count_awaited(const struct ks_run_folder *folder, int64_t number)
{
    size_t count = 0;
    const struct ks_run_process *process;
    for (size_t i = 0; (process = ks_run_folder_process(folder, i)); i++) {
        bool may_come = process->state == KS_RUN_WAITING || process->state == KS_RUN_RECORDING;
        count += may_come && process->is_running && !has_rank(folder, number, process->rank);
    }
    return count;
}

static void add_trace(const struct ks_run_window *window, const struct ks_run_process *process,
                      bool has_stacks, struct ks_window_state *out)
{
    bool is_over = !process || !process->is_running;
    out->trace_count++;
    out->bytes += window->bytes;
    out->running_count += !is_over;
    out->stacks_count += window->has_stacks || is_over || !has_stacks;
    /* Only behind the last window steps are timed. */
    out->timed_count += is_over || process->state == KS_RUN_WAITING ||
                        process->after_time_count >= KS_SCHEDULE_AFTER_TIMES;
    if (process && (out->closed_ns == 0 || process->window_closed_ns < out->closed_ns)) {
        out->closed_ns = process->window_closed_ns;
    }
}

void ks_window_state_of(const struct ks_run_folder *folder, int64_t number, bool has_stacks,
                        struct ks_window_state *out)
{
    const struct ks_run_window *window;
    int64_t last_rank = -1;
    *out = (struct ks_window_state){.number = number};
    for (size_t i = 0; (window = ks_run_folder_window(folder, i)); i++) {
        if (window->number == number) {
            add_trace(window, process_of(folder, window), has_stacks, out);
            out->rank_count += window->rank != last_rank; /* they come sorted by rank */
            last_rank = window->rank;
        }
    }
    out->awaited_count = count_awaited(folder, number);
}

void ks_window_state_next(const struct ks_run_folder *folder, int64_t after, bool has_stacks,
                          struct ks_window_state *out)
{
    const struct ks_run_window *window;
    *out = (struct ks_window_state){0};
    for (size_t i = 0; (window = ks_run_folder_window(folder, i)); i++) {
        if (window->number > after) { /* they come sorted by number */
            ks_window_state_of(folder, window->number, has_stacks, out);
            return;
        }
    }
}

int64_t ks_window_state_patience_ns(const struct ks_window_state *state)
{
    bool has_extras =
        state->stacks_count >= state->trace_count && state->timed_count >= state->trace_count;
    if (state->awaited_count == 0 && has_extras) {
        return 0;
    }
    int64_t wait_ms = state->awaited_count > 0 && has_extras ? RANKS_WAIT_MS : EXTRAS_WAIT_MS;
    int64_t reading_ms = state->bytes / BYTES_PER_MS;
    return reading_ms < wait_ms ? (wait_ms - reading_ms) * 1000000 : 0;
}

bool ks_window_state_equal(const struct ks_window_state *a, const struct ks_window_state *b)
{
    return a->number == b->number && a->trace_count == b->trace_count &&
           a->running_count == b->running_count && a->stacks_count == b->stacks_count &&
           a->timed_count == b->timed_count;
}
