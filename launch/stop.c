#include "launch/stop.h"

#include <signal.h>
#include <time.h>

#include "launch/clock.h"

enum { ASK_MS = 10000, ASK_LEFT_BEHIND_MS = 3000, LOOK_MS = 50 };

/* Signals members that are still the processes they were. */
static size_t signal_tree(const struct ks_process_tree *tree, int signal_number)
{
    size_t count = 0;
    for (size_t i = 0; i < tree->count; i++) {
        struct ks_process process;
        const struct ks_process *member = &tree->list[i];
        if (ks_process_read(member->pid, &process) && process.state != 'Z' &&
            process.start_ticks == member->start_ticks) {
            count += kill(member->pid, signal_number) == 0;
        }
    }
    return count;
}

static void look_again(struct ks_stop *stop)
{
    struct ks_process_tree now = {0};
    if (ks_process_tree_read(&now, &stop->tree, stop->child)) {
        ks_process_tree_release(&stop->tree);
        stop->tree = now;
    }
}

void ks_stop_begin(struct ks_stop *stop, pid_t child)
{
    *stop = (struct ks_stop){.child = child,
                             .deadline_ns = ks_clock_ns(CLOCK_MONOTONIC) + ASK_MS * 1000000LL};
    look_again(stop);
    kill(child, SIGTERM);
    kill(child, SIGCONT); /* one that is stopped would not hear of it */
}

void ks_stop_continue(struct ks_stop *stop)
{
    look_again(stop);
    if (!stop->is_forced && ks_clock_ns(CLOCK_MONOTONIC) >= stop->deadline_ns) {
        stop->is_forced = true;
        (void)signal_tree(&stop->tree, SIGKILL);
    }
}

void ks_stop_end(struct ks_stop *stop)
{
    int64_t deadline_ns = ks_clock_ns(CLOCK_MONOTONIC) + ASK_LEFT_BEHIND_MS * 1000000LL;
    size_t left = signal_tree(&stop->tree, SIGTERM);
    while (left > 0 && ks_clock_ns(CLOCK_MONOTONIC) < deadline_ns) {
        struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
        (void)nanosleep(&pause, NULL);
        left = signal_tree(&stop->tree, 0);
    }
    if (left > 0) {
        (void)signal_tree(&stop->tree, SIGKILL);
    }
    ks_process_tree_release(&stop->tree);
}
