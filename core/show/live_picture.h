/* What is seen of a run while it goes on: what its processes and its monitor said last, and the
 * report of its latest window. Borrowed; all must outlive the picture. */
#ifndef KS_SHOW_LIVE_PICTURE_H
#define KS_SHOW_LIVE_PICTURE_H

#include "show/view.h"

struct ks_live_picture {
    const char *path; /* as the user gave it */
    int64_t now_ns;   /* Unix time of the look */
    enum ks_live_state state;
    bool is_gone; /* the folder is not there any more */
    const struct ks_live_rank *const *ranks;
    size_t rank_count;
    const struct ks_live_rank *const *by_pace; /* those with a known pace, the slowest first */
    size_t paced_count;
    const struct ks_live_machine *machine; /* NULL: not known */
    /* The latest window that is there; 0: none. */
    int64_t window;
    size_t window_rank_count;
    const struct ks_view *report; /* NULL: none was read */
    int64_t report_window;        /* the window that it is of */
    const char *report_failure;   /* why the latest window could not be read; "" */
};

/* The run as a whole. Pointers are NULL when there is no such rank. */
struct ks_live_sum {
    int64_t steps; /* of the rank that made most */
    int64_t last_step_ns;
    int64_t began_ns; /* Unix time; 0: not known */
    int64_t dur_ns;   /* until now, or until the end as far as it is known; 0: not known */
    const struct ks_live_rank *most; /* the rank that made most steps */
    const struct ks_live_rank *slowest;
    const struct ks_live_rank *median;
    const struct ks_live_rank *fastest;
    size_t state_counts[KS_RUN_OFF + 1];
};

/* Which processes stand for a rank: one without steps does not when another of its rank has made
 * some, nor does one that has ended when another one of its rank runs. `chosen` has room for all;
 * gives how many. */
size_t ks_live_choose_ranks(const struct ks_live_rank *const *all, size_t count,
                            const struct ks_live_rank **chosen);
/* Those of `ranks` with a known pace, the slowest first, of equals the lower rank; as above. */
size_t ks_live_sort_by_pace(const struct ks_live_rank *const *ranks, size_t count,
                            const struct ks_live_rank **sorted);
void ks_live_sum_up(const struct ks_live_picture *picture, struct ks_live_sum *sum);

const char *ks_live_state_word(enum ks_live_state state);
const char *ks_live_rank_state_word(enum ks_run_state state);
/* What holds the clock of a GPU back, from NVML's bits; NULL: nothing does. */
const char *ks_live_clock_reason(int64_t bits);

/* For a terminal, and for scripts: see struct ks_live_style. */
enum ks_status ks_live_write_screen(const struct ks_live_picture *picture,
                                    const struct ks_live_style *style, ks_write_cb write,
                                    void *user, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_live_write_json(const struct ks_live_picture *picture, ks_write_cb write,
                                  void *user, struct ks_err *err) KS_MUST_CHECK;

#endif
