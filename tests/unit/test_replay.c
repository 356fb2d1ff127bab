/* Goal: a replay without a change gives the recorded times, however the work is laid out, and a
 * change takes away what docs/analyses/replay.md says. Method: the page's example and small layouts
 * with numbers by hand, in us; then drawn layouts, of which only that much is known. */
#include <math.h>
#include <string.h>

#include "analyze/replay_model.h"
#include "analyze/what_if.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

static struct facts_fixture f;

enum { US = 1000, STEPS = 3 };

#define LOADER "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
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

static void add_host(int64_t at, const struct host_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct host_row row = rows[i];
        row.start_ns = (row.start_ns + at) * US;
        row.dur_ns *= US;
        facts_fixture_host(&f, &row, 1);
    }
}

static void add_device(int64_t at, const struct device_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct device_row row = rows[i];
        row.start_ns = (row.start_ns + at) * US;
        row.dur_ns *= US;
        facts_fixture_device(&f, &row, 1);
    }
}

/* Rows of a step that begins at `at` us; correlations from `corr` on are free. */
typedef void layout(int64_t at, int64_t corr);

static void add_steps(layout *add, int64_t period)
{
    static const char *const names[STEPS] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"};
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t at = i * period;
        HOST({1, NOTE, names[i], 0, period});
        add(at, 1 + i * 1000);
    }
}

static const struct ks_replay_change unchanged = KS_REPLAY_UNCHANGED;

static double run_us(const struct ks_replay *replay, struct ks_replay_change change)
{
    struct ks_err err = {0};
    double step_ns = NAN;
    assert_non_null(replay);
    assert_int_equal(ks_replay_run(replay, &change, &step_ns, &err), KS_OK);
    return step_ns / US;
}

static void check_run(struct ks_replay_change change, double want_us)
{
    double got_us = run_us(f.facts.replays[0], change);
    if (fabs(got_us - want_us) > 1e-6) {
        fail_msg("replayed %.6f us, wanted %.6f us", got_us, want_us);
    }
}

/* The layout's step takes `want_us` as recorded, and `launched_us` when launching takes no time. */
static void check_layout(layout *add, int64_t period, double want_us, double launched_us)
{
    struct ks_replay_change launched = unchanged;
    launched.launch_factor = 0;
    facts_fixture_init(&f, 0, 0);
    add_steps(add, period);
    facts_fixture_compute(&f, NULL);
    check_run(unchanged, want_us);
    check_run(launched, launched_us);
    facts_fixture_release(&f);
}

/* ------------------------------------------------------------ the example */

static void example(int64_t at, int64_t corr)
{
    HOST({1, OP, "aten::mm", 10, 10}, {1, CALL, "cudaLaunchKernel", 12, 2, .corr = corr},
         {1, OP, "aten::sum", 30, 6}, {1, CALL, "cudaLaunchKernel", 32, 2, .corr = corr + 1},
         {1, OP, "aten::item", 50, 30}, {1, OP, "aten::_local_scalar_dense", 52, 26},
         {1, CALL, "cudaMemcpyAsync", 54, 2, .corr = corr + 2},
         {1, CALL, "cudaStreamSynchronize", 58, 12}, {1, OP, "aten::add", 88, 6},
         {1, CALL, "cudaLaunchKernel", 90, 2, .corr = corr + 3});
    DEVICE({0, 7, KERNEL, "gemm", 20, 20, corr}, {0, 7, KERNEL, "reduce", 42, 4, corr + 1},
           {0, 7, MEMCPY, "Memcpy DtoH (Device -> Pageable)", 60, 2, corr + 2, .bytes = 4},
           {0, 7, KERNEL, "add", 96, 10, corr + 3});
}

static void check_example(struct ks_replay_change change, double want_us)
{
    facts_fixture_init(&f, 0, 0);
    add_steps(example, 100);
    facts_fixture_compute(&f, NULL);
    check_run(change, want_us);
    facts_fixture_release(&f);
}

static void test_example(void **state)
{
    (void)state;
    struct ks_replay_change change = unchanged;
    check_example(change, 100);
    change.cost_factor = 1;
    check_example(change, 85);
    change = unchanged;
    change.drop = KS_REPLAY_READ;
    check_example(change, 70);
    change.drop = KS_REPLAY_READ | KS_REPLAY_READ_PREPARED;
    check_example(change, 50);
    change.drop = KS_REPLAY_SMALL_COPY | KS_REPLAY_SMALL_PREPARED; /* the copy is a read */
    check_example(change, 100);
    change = unchanged;
    change.launch_factor = 0;
    check_example(change, 55);
    change.short_factor = 0.15;
    check_example(change, 38.425);
}

/* ------------------------------------------------------------ layouts */

/* Work of 120 us: each waits for the one before, 1 us behind it. */
static void gpu_bound(int64_t at, int64_t corr)
{
    int64_t late = at / 100 * 21; /* steps of 121 us on the GPU, of 100 on the host */
    HOST({1, CALL, "cudaLaunchKernel", 10, 2, .corr = corr});
    DEVICE({0, 7, KERNEL, "gemm", 20 + late, 120, corr});
}

/* The second stream waits for the first, which takes 40 us. */
static void two_streams(int64_t at, int64_t corr)
{
    HOST({1, CALL, "cudaLaunchKernel", 10, 2, .corr = corr},
         {1, CALL, "cudaLaunchKernel", 14, 2, .corr = corr + 1});
    DEVICE({0, 7, KERNEL, "gemm", 20, 40, corr}, {0, 8, KERNEL, "copy", 62, 20, corr + 1});
}

/* Both threads take turns: 2 launches while 1 waits for it at the end. */
static void two_threads(int64_t at, int64_t corr)
{
    HOST({1, CALL, "cudaLaunchKernel", 10, 2, .corr = corr},
         {2, CALL, "cudaLaunchKernel", 30, 2, .corr = corr + 1},
         {1, CALL, "cudaDeviceSynchronize", 40, 40});
    DEVICE({0, 7, KERNEL, "forward", 15, 10, corr}, {0, 7, KERNEL, "backward", 35, 40, corr + 1});
}

/* What the loader takes stays. */
static void loader(int64_t at, int64_t corr)
{
    HOST({1, NOTE, LOADER, 10, 50}, {1, OP, "aten::stack", 20, 10},
         {1, CALL, "cudaLaunchKernel", 70, 2, .corr = corr});
    DEVICE({0, 7, KERNEL, "gemm", 75, 10, corr});
}

/* One launch, nodes on two streams; 4 waits for 2. */
static void graph(int64_t at, int64_t corr)
{
    HOST({1, CALL, "cudaGraphLaunch", 10, 20, .corr = corr});
    DEVICE({0, 7, KERNEL, "1", 18, 10, corr}, {0, 7, KERNEL, "2", 29, 10, corr},
           {0, 8, KERNEL, "3", 18, 4, corr}, {0, 8, KERNEL, "4", 40, 10, corr});
}

/* The second kernel begins 5 us before the first ends, and ends before it. */
static void overlap(int64_t at, int64_t corr)
{
    HOST({1, CALL, "cudaLaunchKernel", 10, 2, .corr = corr},
         {1, CALL, "cudaLaunchKernel", 14, 2, .corr = corr + 1});
    DEVICE({0, 7, KERNEL, "gemm", 20, 70, corr}, {0, 7, KERNEL, "next", 85, 3, corr + 1});
}

/* A copy from pageable memory returns 2 us after it is done, whatever it takes to launch. */
static void own_copy(int64_t at, int64_t corr)
{
    HOST({1, CALL, "cudaMemcpyAsync", 10, 42, .corr = corr});
    DEVICE({0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", 20, 30, corr, .bytes = 1 << 20});
}

/* 600 kernels of 10 us are launched in 1 us each; then 541 are queued, and the next launch returns
 * when 90 are done. The loader makes the host the slower one. */
static void full_queue(int64_t at, int64_t corr)
{
    for (int64_t i = 0; i < 600; i++) {
        HOST({1, CALL, "cudaLaunchKernel", i, 1, .corr = corr + i});
        DEVICE({0, 7, KERNEL, "gemm", 10 + 10 * i, 10, corr + i});
    }
    HOST({1, CALL, "cudaLaunchKernel", 600, 310, .corr = corr + 600},
         {1, NOTE, LOADER, 1000, 5900});
    DEVICE({0, 7, KERNEL, "last", 6010, 2, corr + 600});
}

/* A launch that was cut off has no end: its work starts all the same. */
static void cut_launch(int64_t at, int64_t corr)
{
    HOST({1, CALL, "cudaLaunchKernel", 10, 2, .corr = corr},
         {1, CALL, "cudaLaunchKernel", 60, 0, .corr = corr + 1, .flags = KS_SLICE_UNFINISHED},
         {1, OP, "aten::mm", 61, 0, .flags = KS_SLICE_UNFINISHED});
    DEVICE({0, 7, KERNEL, "gemm", 20, 30, corr}, {0, 7, KERNEL, "last", 66, 20, corr + 1});
}

/* A call of the runtime and the driver's inside begin at the same moment; each has its own work. */
static void same_moment(int64_t at, int64_t corr)
{
    HOST({1, CALL, "cudaLaunchKernel", 10, 20, .corr = corr},
         {1, KS_CATEGORY_DRIVER, "cuLaunchKernel", 10, 10, .corr = corr + 1},
         {1, CALL, "cudaStreamSynchronize", 30, 60});
    DEVICE({0, 7, KERNEL, "a", 20, 30, corr}, {0, 7, KERNEL, "b", 51, 30, corr + 1});
}

/* Two threads feed one stream, and the one that called first comes second. */
static void turned(int64_t at, int64_t corr)
{
    HOST({1, CALL, "cudaLaunchKernel", 10, 20, .corr = corr},
         {2, CALL, "cudaLaunchKernel", 11, 2, .corr = corr + 1});
    DEVICE({0, 7, KERNEL, "b", 20, 40, corr + 1}, {0, 7, KERNEL, "a", 61, 60, corr});
}

/* GPU work that nobody launched, and launches without GPU work. */
static void orphans(int64_t at, int64_t corr)
{
    HOST({1, CALL, "cudaLaunchKernel", 10, 2, .corr = corr},
         {1, CALL, "cudaLaunchKernel", 14, 2, .corr = corr + 1},
         {1, CALL, "cudaLaunchKernel", 50, 2, .corr = corr + 2});
    DEVICE({0, 7, KERNEL, "a", 20, 10, corr}, {0, 7, KERNEL, "unknown", 31, 400},
           {0, 7, KERNEL, "b", 60, 10, corr + 2});
}

static void test_layouts(void **state)
{
    (void)state;
    check_layout(gpu_bound, 100, 121, 121);
    /* 10..50 and 52..72; then, by the stream's usual delay of 1.5 us, 51.5..91.5 and 93.5..113.5. */
    check_layout(two_streams, 100, 100, 41.5);
    /* 5..15, 16.5..56.5; the wait ends 5 us behind the work. */
    check_layout(two_threads, 100, 100, 61.5);
    check_layout(loader, 100, 100, 50);
    /* 8..18, 19..29, 30..40; then, 1 us behind on their streams, 30..40, 41..51, 52..62. */
    check_layout(graph, 100, 100, 22);
    /* 10..80, the second one from 75 on; then 81.5..151.5. */
    check_layout(overlap, 100, 100, 71.5);
    /* 10..40, the call ends at 42; only then the next is launched. */
    check_layout(own_copy, 100, 100, 42);
    check_layout(full_queue, 7000, 7000, 910 + 5900);
    /* 10..40, 41.5..61.5; then 63..93, 94.5..114.5. */
    check_layout(cut_launch, 100, 100, 53);
    /* 10..40, 41..71; the wait ends 9 us behind. */
    check_layout(same_moment, 100, 100, 80);
    check_layout(turned, 110, 110, 110); /* all of it is taken for delay */
    /* 10..20, 21.5..31.5; then 33..43, 44.5..54.5. */
    check_layout(orphans, 100, 100, 23);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),
        cmocka_unit_test(test_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
