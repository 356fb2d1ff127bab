/* When a window is reported: at once when all is there that may come, else a little later, and
 * never so late that the report would not be out ten seconds after the window closed. */
#ifndef KS_LAUNCH_SCHEDULE_H
#define KS_LAUNCH_SCHEDULE_H

#include <kscope/kscope.h>

enum { KS_SCHEDULE_AFTER_TIMES = 20 };

/* What is there of one window. */
struct ks_window_state {
    int64_t number;       /* 0: there is no window */
    size_t trace_count;   /* processes whose trace is there ... */
    size_t rank_count;    /* ... and how many ranks they are: a rank may have begun anew */
    size_t awaited_count; /* processes that record and whose trace is still to come */
    size_t running_count; /* of trace_count: the process still lives */
    size_t stacks_count;  /* of trace_count: its trace with stacks is there, or none will come */
    size_t timed_count; /* of trace_count: all steps after the window are timed, or none is left */
    int64_t bytes;      /* of the traces */
    int64_t closed_ns;  /* Unix time at which it closed; 0: not said */
};

/* The first window with a number above `after`. */
void ks_window_state_next(const struct ks_run_folder *folder, int64_t after, bool has_stacks,
                          struct ks_window_state *out);
/* The window with this number. */
void ks_window_state_of(const struct ks_run_folder *folder, int64_t number, bool has_stacks,
                        struct ks_window_state *out);
/* How long to wait for the rest, from the moment at which the first trace of the window was seen;
 * 0: nothing more comes. */
int64_t ks_window_state_patience_ns(const struct ks_window_state *state);
bool ks_window_state_equal(const struct ks_window_state *a, const struct ks_window_state *b);

#endif
