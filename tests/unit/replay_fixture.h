/* Small layouts of host rows and GPU work for tests of replays; times are us. */
#ifndef KS_TESTS_REPLAY_FIXTURE_H
#define KS_TESTS_REPLAY_FIXTURE_H

#include "advise/findings.h"
#include "analyze/replay_model.h"
#include "facts_fixture.h"

enum { US = 1000, STEPS = 3 };

#define LOADER "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

/* The trace of the test. */
extern struct facts_fixture f;

/* No change, and ranks that do not wait for each other. */
extern const struct ks_replay_change unchanged;

/* Rows from `at` us on. */
void add_host(int64_t at, const struct host_row *rows, size_t count);
void add_device(int64_t at, const struct device_row *rows, size_t count);

/* Where `at` is known. */
#define HOST(...)                                                                                  \
    do {                                                                                           \
        const struct host_row rows_[] = {__VA_ARGS__};                                             \
        add_host(at, rows_, KS_COUNT_OF(rows_));                                                   \
    } while (0)
#define DEVICE(...)                                                                                \
    do {                                                                                           \
        const struct device_row rows_[] = {__VA_ARGS__};                                           \
        add_device(at, rows_, KS_COUNT_OF(rows_));                                                 \
    } while (0)

/* Rows of a step that begins at `at` us; correlations from `corr` on are free, 1000 of them. */
typedef void layout(int64_t at, int64_t corr);

/* Steps of 121 us on the GPU, each kernel 1 us behind the one before, of 100 us on the host. */
layout gpu_bound;
/* That of docs/analyses/replay.md. */
layout example;

/* STEPS steps of `period` us. */
void add_steps(layout *add, int64_t period);

/* Mean step of the replay under the change, us. */
double run_us(const struct ks_replay *replay, struct ks_replay_change change);
/* The first source's is `want_us`. */
void check_run(struct ks_replay_change change, double want_us);
/* It is, of STEPS steps of `period` us by this layout. */
void check_layout_under(layout *add, int64_t period, struct ks_replay_change change,
                        double want_us);

/* What a rule found last; all empty when it found nothing. */
struct found {
    struct ks_saving saving;
    const char *cause; /* static text */
    char op[64];
    char text[1024];
};
extern struct found found;

/* Runs the rules on the trace that was filled, which is gone then: rule_case of this one. */
void run_rule(enum rule_case kind, const char *id);
/* Both bounds of what was found. */
void check_saving_us(int64_t low_from, int64_t low_to, int64_t high_from, int64_t high_to);

#endif
