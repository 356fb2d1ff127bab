/* Goal: replays of real recordings without a change give the recorded step times, and a lower cost
 * of recording never gives shorter steps. Method: each trace of tests/data goes through reader and
 * analyses; what a replay must give is calculated from the steps. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/facts.h"
#include "analyze/replay_model.h"
#include "analyze/what_if.h"
#include "cmocka_all.h"
#include "read/read.h"

enum { TRACES_MIN = 20, GPU_TRACES_MIN = 18, PATHS_MAX = 64, PATH_SIZE = 1200 };

static const double rounding_ns = 1;
static const double tolerance = 1e-6;

struct opened {
    struct ks_trace *trace;
    struct ks_facts facts;
};

static void must(enum ks_status status, const struct ks_err *err)
{
    if (status != KS_OK) {
        fail_msg("%s", err->message);
    }
}

static void open_traces(const char *const *paths, size_t count, struct opened *opened)
{
    struct ks_err err = {0};
    struct ks_read_options options = {.paths = paths, .path_count = count};
    struct ks_trace_options trace_options = {0};
    struct ks_trace_builder *builder = NULL;
    struct ks_scope scope = {0};
    int64_t run = 0;
    *opened = (struct opened){0};
    must(ks_trace_builder_create(&trace_options, &builder, &err), &err);
    must(ks_read_paths(&options, builder, &run, &err), &err);
    must(ks_trace_builder_seal(builder, run, &opened->trace, &err), &err);
    must(ks_facts_compute(opened->trace, &scope, &opened->facts, &err), &err);
}

static void close_traces(struct opened *opened)
{
    ks_facts_release(&opened->facts);
    ks_trace_destroy(opened->trace);
}

static int64_t end_of(const struct ks_step *step)
{
    int64_t end_ns = step->host_start_ns + step->host_ns;
    return step->gpu_end_ns > end_ns ? step->gpu_end_ns : end_ns;
}

/* Mean distance of the ends of the steps that the replay of the source holds. */
static double recorded_ns(const struct ks_facts *facts, uint32_t source)
{
    const struct ks_step *steps = facts->steps + facts->step_ranges[source].begin;
    while (!steps->is_complete) {
        steps++;
    }
    size_t count = facts->replays[source]->step_count;
    int64_t last_ns = end_of(&steps[0]);
    for (size_t i = 1; i < count; i++) {
        last_ns = end_of(&steps[i]) > last_ns ? end_of(&steps[i]) : last_ns;
    }
    return (double)(last_ns - end_of(&steps[0])) / (double)(count - 1);
}

/* Sources that have a replay. */
static int check_identity(const struct ks_facts *facts)
{
    int count = 0;
    for (uint32_t i = 0; i < ks_trace_source_count(facts->trace); i++) {
        struct ks_replay_change change = KS_REPLAY_UNCHANGED;
        struct ks_err err = {0};
        double got_ns = 0;
        if (!facts->replays[i]) {
            continue;
        }
        change.waits_for_ranks = true;
        must(ks_replay_run(facts->replays[i], &change, &got_ns, &err), &err);
        double want_ns = recorded_ns(facts, i);
        print_message("  source %u: %zu steps of %.1f us, replayed %.1f us\n", i,
                      facts->replays[i]->step_count, want_ns / 1e3, got_ns / 1e3);
        assert_true(fabs(got_ns - want_ns) <= tolerance * want_ns);
        count++;
    }
    return count;
}

static void check_predicted(const struct ks_facts *facts)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    if (mean->obstacle) {
        return;
    }
    assert_true(mean->predicted_low_ns > 0);
    assert_true(mean->predicted_low_ns <= mean->predicted_ns);
    assert_true(mean->predicted_ns <= mean->predicted_high_ns);
    assert_true((double)mean->predicted_high_ns <= (double)mean->step_ns + rounding_ns);
}

/* What is taken away makes no step longer. */
static void check_changes(const struct ks_facts *facts)
{
    struct ks_replay_change changes[] = {KS_REPLAY_UNCHANGED, KS_REPLAY_UNCHANGED,
                                         KS_REPLAY_UNCHANGED, KS_REPLAY_UNCHANGED,
                                         KS_REPLAY_UNCHANGED};
    changes[0].launch_factor = 0;
    changes[1].gap_factor = 0;
    changes[2].short_factor = 0.15;
    changes[3].drop = KS_REPLAY_READ | KS_REPLAY_READ_PREPARED | KS_REPLAY_BETWEEN;
    changes[4].drop = KS_REPLAY_SMALL_COPY | KS_REPLAY_SMALL_PREPARED | KS_REPLAY_BETWEEN;
    for (size_t i = 0; i < KS_COUNT_OF(changes) && ks_what_if_is_known(facts); i++) {
        struct ks_err err = {0};
        double step_ns = 0;
        must(ks_what_if_step(facts, &changes[i], &step_ns, &err), &err);
        assert_true(step_ns > 0);
        assert_true(step_ns <= (double)facts->mean_step.step_ns + rounding_ns);
    }
}

static int check_traces(const char *const *paths, size_t count)
{
    struct opened opened;
    print_message("%s\n", paths[0]);
    open_traces(paths, count, &opened);
    int replays = check_identity(&opened.facts);
    check_predicted(&opened.facts);
    check_changes(&opened.facts);
    close_traces(&opened);
    return replays;
}

static const char *folder(void)
{
    static char path[PATH_SIZE];
    const char *root = getenv("KSCOPE_SOURCE");
    assert_non_null(root);
    (void)snprintf(path, sizeof(path), "%s/tests/data", root);
    return path;
}

static void test_each_recording(void **state)
{
    (void)state;
    DIR *dir = opendir(folder());
    assert_non_null(dir);
    int traces = 0;
    int replays = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (!strstr(entry->d_name, ".trace.json.gz")) {
            continue;
        }
        char path[PATH_SIZE + sizeof(entry->d_name)];
        (void)snprintf(path, sizeof(path), "%s/%s", folder(), entry->d_name);
        const char *paths[] = {path};
        replays += check_traces(paths, 1);
        traces++;
    }
    (void)closedir(dir);
    assert_true(traces >= TRACES_MIN);
    assert_true(replays >= GPU_TRACES_MIN);
}

static void test_two_ranks(void **state)
{
    (void)state;
    char paths[2][PATH_SIZE + 64];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(paths[i], sizeof(paths[i]), "%s/D.straggler.bad.rank%d.pt.trace.json.gz",
                       folder(), i);
    }
    const char *both[] = {paths[0], paths[1]};
    assert_int_equal(check_traces(both, 2), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_recording),
                                       cmocka_unit_test(test_two_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
