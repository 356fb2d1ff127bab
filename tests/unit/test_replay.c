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

/* The stream is busy with earlier work until 40, of a launch that is known or not. */
static void check_before(int64_t corr)
{
    struct ks_replay_change launched = unchanged;
    launched.launch_factor = 0;
    int64_t at = 0;
    facts_fixture_init(&f, 0, 0);
    HOST({1, CALL, "cudaLaunchKernel", -50, 2, .corr = corr}, {1, NOTE, "ProfilerStep#1", 0, 100},
         {1, CALL, "cudaLaunchKernel", 10, 2, .corr = 1}, {1, NOTE, "ProfilerStep#2", 100, 100},
         {1, CALL, "cudaLaunchKernel", 110, 2, .corr = 2}, {1, NOTE, "ProfilerStep#3", 200, 100},
         {1, CALL, "cudaLaunchKernel", 210, 2, .corr = 3});
    DEVICE({0, 7, KERNEL, "before", -40, 80, corr}, {0, 7, KERNEL, "1", 41, 10, 1},
           {0, 8, KERNEL, "2", 120, 30, 2}, {0, 8, KERNEL, "3", 220, 30, 3});
    facts_fixture_compute(&f, NULL);
    check_run(unchanged, 100);
    check_run(launched, (71 - 51) / 2.0); /* 41..51; 10..40, 41..71 */
    facts_fixture_release(&f);
}

static void test_work_from_before(void **state)
{
    (void)state;
    check_before(9);
    check_before(0);
}

/* The second device is out of scope: its work is replayed, but makes no step longer. */
static void test_scope(void **state)
{
    (void)state;
    int64_t at = 0;
    struct ks_scope scope = {.device_given = true, .device = 1};
    facts_fixture_init(&f, 0, 0);
    HOST({1, NOTE, "ProfilerStep#1", 0, 100}, {1, CALL, "cudaLaunchKernel", 10, 2, .corr = 1},
         {1, NOTE, "ProfilerStep#2", 100, 100}, {1, CALL, "cudaLaunchKernel", 110, 2, .corr = 2},
         {1, CALL, "cudaLaunchKernel", 140, 2, .corr = 3});
    DEVICE({1, 7, KERNEL, "1", 20, 10, 1}, {0, 7, KERNEL, "2", 120, 200, 2},
           {1, 7, KERNEL, "3", 150, 10, 3});
    facts_fixture_compute(&f, &scope);
    check_run(unchanged, 100);
    facts_fixture_release(&f);
}

/* A step ends with the wait that ends at the same moment: at 90, when its kernel is launched at 0
 * and ends at 88. The second step takes the host no time, then. */
static void test_wait_until_the_end(void **state)
{
    (void)state;
    struct ks_replay_change launched = unchanged;
    launched.launch_factor = 0;
    int64_t at = 0;
    facts_fixture_init(&f, 0, 0);
    HOST({1, NOTE, "ProfilerStep#1", 0, 100}, {1, CALL, "cudaLaunchKernel", 10, 2, .corr = 1},
         {1, CALL, "cudaStreamSynchronize", 50, 50}, {1, NOTE, "ProfilerStep#2", 100, 100});
    DEVICE({0, 7, KERNEL, "gemm", 20, 78, 1});
    facts_fixture_compute(&f, NULL);
    check_run(unchanged, 100);
    check_run(launched, 0);
    facts_fixture_release(&f);
}

/* Short kernels of two streams, the second 2 us behind the first. If short work takes 0.15 of its
 * time, the first stream's takes 1.2 us and 0.225 us until the next, and the other keeps up. */
static void short_streams(int64_t at, int64_t corr)
{
    HOST({1, CALL, "cudaLaunchKernel", 10, 1, .corr = corr},
         {1, CALL, "cudaLaunchKernel", 11, 1, .corr = corr + 1});
    DEVICE({0, 7, KERNEL, "a", 20, 8, corr}, {0, 8, KERNEL, "b", 30, 5, corr + 1});
}

/* The second stream's long kernel began earlier and ends 1 us before that of the third begins; a
 * short one ran over it. */
static void over_long(int64_t at, int64_t corr)
{
    HOST({1, CALL, "cudaLaunchKernel", 10, 1, .corr = corr},
         {1, CALL, "cudaLaunchKernel", 11, 1, .corr = corr + 1},
         {1, CALL, "cudaLaunchKernel", 12, 1, .corr = corr + 2});
    DEVICE({0, 7, KERNEL, "long", 20, 40, corr}, {0, 7, KERNEL, "short", 30, 1, corr + 1},
           {0, 8, KERNEL, "behind", 61, 10, corr + 2});
}

static void test_other_streams(void **state)
{
    (void)state;
    struct ks_replay_change change = unchanged;
    change.launch_factor = 0;
    change.short_factor = 0.15;
    facts_fixture_init(&f, 0, 0);
    add_steps(short_streams, 100);
    facts_fixture_compute(&f, NULL);
    check_run(unchanged, 100);
    check_run(change, 1.2 + 0.225);
    facts_fixture_release(&f);
    /* 10..50, 51..61; then 51.5..91.5, 92.5..102.5. */
    check_layout(over_long, 100, 100, 41.5);
}

/* ------------------------------------------------------------ what recording takes */

static void check_cost(layout *add, int64_t cost_us, double factor, double want_us)
{
    struct ks_replay_change change = unchanged;
    change.cost_factor = factor;
    facts_fixture_init(&f, 0, 0);
    add_steps(add, 100);
    facts_fixture_compute(&f, NULL);
    check_run(unchanged, 100);
    check_run(change, want_us);
    assert_int_equal(f.facts.replays[0]->operator_cost_ns, cost_us * US);
    facts_fixture_release(&f);
}

/* Operators cost 3 us; two of these have only 1 us around them. */
static void little_room(int64_t at, int64_t corr)
{
    HOST({1, OP, "aten::mm", 10, 30}, {1, OP, "aten::resize_", 11, 9},
         {1, OP, "aten::empty", 20, 19}, {1, CALL, "cudaLaunchKernel", 60, 2, .corr = corr});
    DEVICE({0, 7, KERNEL, "gemm", 65, 5, corr});
}

/* Frames cost 0.7 of it, also where they lie close. */
static void frames(int64_t at, int64_t corr)
{
    HOST({1, PY, "a.py(1): f", 10, 80}, {1, PY, "a.py(2): g", 10, 79},
         {1, CALL, "cudaLaunchKernel", 50, 2, .corr = corr});
    DEVICE({0, 7, KERNEL, "gemm", 65, 5, corr});
}

/* Nine views, in which 4 us are not the other operator's. */
static void views(int64_t at, int64_t corr)
{
    for (int64_t i = 10; i < 70; i += 20) {
        HOST({1, OP, "aten::t", i, 10}, {1, OP, "aten::transpose", i + 2, 6});
    }
    HOST({1, CALL, "cudaLaunchKernel", 80, 2, .corr = corr});
    DEVICE({0, 7, KERNEL, "gemm", 85, 5, corr});
}

/* Without views: 1, 1, 1, 2, 2, 2, 4, 4, 4 us, of which the fifth is taken. */
static void callers(int64_t at, int64_t corr)
{
    HOST({1, OP, "aten::a", 10, 10}, {1, OP, "aten::b", 11, 9}, {1, OP, "aten::a", 30, 10},
         {1, OP, "aten::b", 31, 8}, {1, OP, "aten::a", 50, 10}, {1, OP, "aten::b", 52, 6},
         {1, CALL, "cudaLaunchKernel", 80, 2, .corr = corr});
    DEVICE({0, 7, KERNEL, "gemm", 85, 5, corr});
}

/* The host waits 60 us for the GPU: what recording takes before is no gain, behind it is. */
static void waiting(int64_t at, int64_t corr)
{
    HOST({1, OP, "aten::mm", 10, 10}, {1, CALL, "cudaLaunchKernel", 2, 2, .corr = corr},
         {1, CALL, "cudaStreamSynchronize", 30, 60});
    DEVICE({0, 7, KERNEL, "gemm", 6, 80, corr});
}

/* The same with an operator that begins 1 us before the wait: of the 1.5 us that this costs, 0.5
 * are still there behind it. */
static void waiting_inside(int64_t at, int64_t corr)
{
    HOST({1, CALL, "cudaLaunchKernel", 2, 2, .corr = corr}, {1, OP, "aten::mm", 29, 63},
         {1, CALL, "cudaStreamSynchronize", 30, 60});
    DEVICE({0, 7, KERNEL, "gemm", 6, 80, corr});
}

static void test_cost(void **state)
{
    (void)state;
    check_cost(little_room, 3, 1, 100 - 3 - 1 - 1);
    check_cost(little_room, 3, 2, 100 - 6 - 2 - 2);
    check_cost(frames, 3, 1, 100 - 2 * 2.1);
    check_cost(views, 4, 1, 100 - 6 * 4);
    check_cost(callers, 2, 0.5, 100 - 5 - 0.5);
    check_cost(waiting, 3, 1, 100);
    check_cost(waiting_inside, 3, 1, 100 - 0.5 - 1.5);
}

/* ------------------------------------------------------------ changes */

static void check_drop(layout *add, unsigned drop, double want_us)
{
    struct ks_replay_change change = unchanged;
    change.drop = drop;
    facts_fixture_init(&f, 0, 0);
    add_steps(add, 100);
    facts_fixture_compute(&f, NULL);
    check_run(change, want_us);
    facts_fixture_release(&f);
}

static void small_copy(int64_t at, int64_t corr)
{
    HOST({1, OP, "aten::empty", 10, 4}, {1, OP, "aten::fill_", 16, 4},
         {1, OP, "aten::copy_", 24, 10}, {1, CALL, "cudaMemcpyAsync", 26, 2, .corr = corr},
         {1, OP, "aten::mm", 60, 10}, {1, CALL, "cudaLaunchKernel", 62, 2, .corr = corr + 1});
    DEVICE({0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", 30, 1, corr, .bytes = 4},
           {0, 7, KERNEL, "gemm", 68, 20, corr + 1});
}

static void large_copy(int64_t at, int64_t corr)
{
    HOST({1, OP, "aten::copy_", 24, 10}, {1, CALL, "cudaMemcpyAsync", 26, 2, .corr = corr});
    DEVICE({0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", 30, 1, corr, .bytes = 4097});
}

static void test_operators_left_out(void **state)
{
    (void)state;
    check_drop(small_copy, KS_REPLAY_SMALL_COPY, 90);
    check_drop(small_copy, KS_REPLAY_SMALL_COPY | KS_REPLAY_SMALL_PREPARED, 76);
    check_drop(small_copy, KS_REPLAY_SMALL_PREPARED, 86); /* and what is between, up to the copy */
    check_drop(small_copy, KS_REPLAY_READ | KS_REPLAY_READ_PREPARED, 100);
    check_drop(large_copy, KS_REPLAY_SMALL_COPY, 100);
}

/* 500 us of code between operators, 300 us inside of one, 250 us in the loader. */
static void gaps(int64_t at, int64_t corr)
{
    HOST({1, OP, "aten::mm", 10, 10}, {1, CALL, "cudaLaunchKernel", 12, 2, .corr = corr},
         {1, OP, "aten::mm", 520, 10}, {1, CALL, "cudaLaunchKernel", 522, 2, .corr = corr + 1},
         {1, OP, "aten::unique", 600, 300}, {1, NOTE, LOADER, 940, 250});
    DEVICE({0, 7, KERNEL, "gemm", 20, 5, corr}, {0, 7, KERNEL, "gemm", 530, 5, corr + 1});
}

static void check_gaps(double launch_factor, double gap_factor, double want_us)
{
    struct ks_replay_change change = unchanged;
    change.launch_factor = launch_factor;
    change.gap_factor = gap_factor;
    facts_fixture_init(&f, 0, 0);
    add_steps(gaps, 1200);
    facts_fixture_compute(&f, NULL);
    check_run(change, want_us);
    facts_fixture_release(&f);
}

static void test_gaps(void **state)
{
    (void)state;
    check_gaps(1, 1, 1200);
    check_gaps(1, 0, 700);
    check_gaps(1, 0.5, 950);
    check_gaps(0, 1, 500 + 300 + 250);
    check_gaps(0, 0, 300 + 250);
}

/* ------------------------------------------------------------ ranks */

/* Rank 0 waits 40 us for rank 1 in the collective, and has 12 us to do nothing. */
static void early(int64_t at, int64_t corr)
{
    HOST({1, CALL, "cudaLaunchKernel", 10, 2, .corr = corr},
         {1, CALL, "cudaStreamSynchronize", 60, 12});
    DEVICE({0, 7, KERNEL, "ncclDevKernel_AllReduce_Sum", 20, 50, corr});
}

static void late(int64_t at, int64_t corr)
{
    HOST({1, CALL, "cudaLaunchKernel", 50, 2, .corr = corr},
         {1, CALL, "cudaStreamSynchronize", 64, 8});
    DEVICE({0, 7, KERNEL, "ncclDevKernel_AllReduce_Sum", 60, 10, corr});
}

static void build_ranks(int64_t first, int64_t second, layout *add)
{
    facts_fixture_init(&f, 0, 0);
    f.source->rank = first;
    add_steps(early, 100);
    facts_fixture_next_rank(&f, second);
    add_steps(add, 100);
    facts_fixture_compute(&f, NULL);
}

static void check_what_if(struct ks_replay_change change, double want_us)
{
    struct ks_err err = {0};
    double step_ns = 0;
    assert_int_equal(ks_what_if_step(&f.facts, &change, &step_ns, &err), KS_OK);
    assert_true(fabs(step_ns / US - want_us) < 1e-6);
}

static void test_ranks(void **state)
{
    (void)state;
    struct ks_replay_change waits = unchanged;
    waits.waits_for_ranks = true;
    build_ranks(0, 1, late);
    assert_true(f.facts.are_ranks);
    assert_true(fabs(run_us(f.facts.replays[0], waits) - 100) < 1e-6);
    assert_true(fabs(run_us(f.facts.replays[0], unchanged) - 90) < 1e-6);
    assert_true(fabs(run_us(f.facts.replays[1], unchanged) - 100) < 1e-6);
    check_what_if(unchanged, 100); /* the slower one */
    facts_fixture_release(&f);
    build_ranks(0, 1, early); /* both wait: for a third one that was not read */
    check_what_if(unchanged, 100);
    facts_fixture_release(&f);
    build_ranks(0, 0, late); /* two cycles of one rank: no pairs */
    assert_false(f.facts.are_ranks);
    assert_true(fabs(run_us(f.facts.replays[0], unchanged) - 100) < 1e-6);
    facts_fixture_release(&f);
    build_ranks(0, 1, gpu_bound); /* other collectives: no pairs */
    assert_true(f.facts.are_ranks);
    assert_true(fabs(run_us(f.facts.replays[0], unchanged) - 100) < 1e-6);
    facts_fixture_release(&f);
}

/* ------------------------------------------------------------ what is not there */

/* Steps of 100 us, the first `count` of four; those of `cut` have no end. */
static void check_steps(size_t count, unsigned cut, bool has_gpu, bool has_launch, size_t replayed)
{
    static const char *const names[] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3",
                                        "ProfilerStep#4"};
    facts_fixture_init(&f, 0, 0);
    for (size_t i = 0; i < count; i++) {
        int64_t at = (int64_t)i * 100;
        int64_t corr = (int64_t)i + 1;
        HOST({1, NOTE, names[i], 0, 100, .flags = cut >> i & 1 ? KS_SLICE_UNFINISHED : 0},
             {1, OP, "aten::mm", 5, 20});
        if (has_launch) {
            HOST({1, CALL, "cudaLaunchKernel", 10, 2, .corr = corr});
        }
        if (has_gpu) {
            DEVICE({0, 7, KERNEL, "gemm", 20, 10, corr});
        }
    }
    facts_fixture_compute(&f, NULL);
    const struct ks_replay *replay = f.facts.replays[0];
    assert_int_equal(replay ? replay->step_count : 0, replayed);
    assert_true(replayed == 0 || fabs(run_us(replay, unchanged) - 100) < 1e-6);
    assert_true((replayed == 0) == (f.facts.mean_step.obstacle != NULL));
    facts_fixture_release(&f);
}

static void test_steps(void **state)
{
    (void)state;
    check_steps(4, 0, true, true, 4);
    check_steps(1, 0, true, true, 0);
    check_steps(3, 1 << 1, true, true, 0); /* no two that follow each other */
    check_steps(4, 1 << 1, true, true, 2); /* the last two */
    check_steps(4, 1 << 3, true, true, 3);
    check_steps(4, 0, false, true, 0);
    check_steps(4, 0, true, false, 0);
}

static size_t steps_within(size_t steps, size_t points, size_t works)
{
    struct ks_err err = {0};
    struct ks_replay_limits limits = {steps, points, works};
    struct ks_analyzer analyzer = {.trace = f.trace, .facts = &f.facts};
    struct ks_replay *replay = NULL;
    assert_int_equal(ks_row_names_init(&analyzer.names, f.trace, &err), KS_OK);
    assert_int_equal(ks_replay_build(&analyzer, 0, &limits, &replay, &err), KS_OK);
    assert_true(!replay || fabs(run_us(replay, unchanged) - 100) < 1e-6);
    ks_row_names_release(&analyzer.names);
    ks_arena_release(&analyzer.scratch);
    return replay ? replay->step_count : 0;
}

/* A step of the example has 6 rows and 5 calls, of which 4 launch. */
static void test_limits(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    add_steps(example, 100);
    facts_fixture_compute(&f, NULL);
    assert_int_equal(steps_within(16, 66, 12), 3);
    assert_int_equal(steps_within(16, 65, 12), 2);
    assert_int_equal(steps_within(16, 66, 11), 2);
    assert_int_equal(steps_within(2, 66, 12), 2);
    assert_int_equal(steps_within(16, 43, 12), 0);
    assert_int_equal(steps_within(16, 66, 7), 0);
    facts_fixture_release(&f);
}

/* ------------------------------------------------------------ drawn layouts */

static uint32_t seed;

static int64_t draw(int64_t count)
{
    seed = seed * 1664525u + 1013904223u;
    return (int64_t)(seed >> 8) % count;
}

/* A row anywhere in the step, over others or not; a call has up to three pieces of work. */
static void add_drawn(int64_t at, int64_t corr)
{
    static const struct host_row kinds[] = {
        {.category = OP, .name = "aten::mm"},        {.category = OP, .name = "aten::item"},
        {.category = OP, .name = "aten::t"},         {.category = NOTE, .name = "note"},
        {.category = NOTE, .name = LOADER},          {.category = PY, .name = "a.py(1): f"},
        {.category = CALL, .name = "cudaMemcpy"},    {.category = CALL, .name = "cudaMemcpyAsync"},
        {.category = CALL, .name = "cudaMemcpyAsync"},
        {.category = CALL, .name = "cudaStreamSynchronize"},
        {.category = CALL, .name = "cudaLaunchKernel"},
        {.category = KS_CATEGORY_DRIVER, .name = "cuLaunchKernel"},
    };
    struct host_row row = kinds[draw(KS_COUNT_OF(kinds))];
    row.tid = 1 + draw(3);
    row.start_ns = draw(40);
    row.dur_ns = draw(15);
    row.corr = draw(8) > 0 ? corr : 0;
    row.flags = draw(12) > 0 ? 0 : KS_SLICE_UNFINISHED;
    add_host(at, &row, 1);
    bool is_call = row.category == CALL || row.category == KS_CATEGORY_DRIVER;
    for (int64_t i = is_call ? draw(4) : 0; i > 0; i--) {
        const char *copy = "Memcpy HtoD (Pageable -> Device)";
        bool is_copy = draw(3) == 0;
        DEVICE({draw(2), draw(3), is_copy ? MEMCPY : KERNEL, is_copy ? copy : "gemm",
                row.start_ns + draw(30), draw(20), row.corr, .bytes = 1 << draw(16)});
    }
}

static int64_t end_of(const struct ks_step *step)
{
    int64_t end_ns = step->host_start_ns + step->host_ns;
    return step->gpu_end_ns > end_ns ? step->gpu_end_ns : end_ns;
}

static double recorded_us(size_t count)
{
    const struct ks_step *steps = f.facts.steps;
    int64_t last_ns = end_of(&steps[0]);
    for (size_t i = 1; i < count; i++) {
        last_ns = end_of(&steps[i]) > last_ns ? end_of(&steps[i]) : last_ns;
    }
    return (double)(last_ns - end_of(&steps[0])) / US / (double)(count - 1);
}

/* Nothing that is taken away makes a step longer, and nobody gets time for nothing. */
static void check_all_changes(void)
{
    for (unsigned i = 0; i < 64; i++) {
        struct ks_replay_change change = {.cost_factor = i & 1 ? 1.85 : 0,
                                          .drop = i & 2 ? 0x1f : 0,
                                          .launch_factor = i & 4 ? 0 : 1,
                                          .gap_factor = i & 8 ? 0 : 1,
                                          .short_factor = i & 16 ? 0.15 : 1,
                                          .waits_for_ranks = i & 32};
        struct ks_err err = {0};
        double step_ns = -1;
        assert_int_equal(ks_what_if_step(&f.facts, &change, &step_ns, &err), KS_OK);
        assert_true(step_ns >= 0 && step_ns <= (double)f.facts.mean_step.step_ns);
    }
}

static void test_drawn(void **state)
{
    (void)state;
    enum { LAYOUTS = 400, ROWS = 30, REPLAYS_MIN = 300 };
    int replays = 0;
    for (uint32_t i = 0; i < LAYOUTS; i++) {
        seed = i;
        facts_fixture_init(&f, 0, 0);
        add_steps(gpu_bound, 40);
        for (int64_t row = 0; row < ROWS; row++) {
            add_drawn(draw(STEPS) * 40, 5000 + row);
        }
        facts_fixture_compute(&f, NULL);
        if (f.facts.replays[0] && !f.facts.mean_step.obstacle) {
            check_run(unchanged, recorded_us(f.facts.replays[0]->step_count));
            check_all_changes();
            replays++;
        }
        facts_fixture_release(&f);
    }
    assert_true(replays >= REPLAYS_MIN);
}

/* Steps and work up to both ends of time: no sum overflows. */
static void test_extreme_times(void **state)
{
    (void)state;
    static const int64_t far = (int64_t)1 << 62;
    struct ks_replay_change change = unchanged;
    change.cost_factor = 1;
    facts_fixture_init(&f, 0, 0);
    const struct host_row rows[] = {
        {1, NOTE, "ProfilerStep#1", 0, far},
        {1, CALL, "cudaLaunchKernel", 1, far - 1, .corr = 1},
        {1, OP, "aten::mm", 0, far},
        {1, OP, "aten::item", 0, far},
        {1, OP, "aten::t", 0, INT64_MAX},
        {1, NOTE, "ProfilerStep#2", far, INT64_MAX - far},
        {1, CALL, "cudaDeviceSynchronize", far, far - 1},
        {1, CALL, "cudaMemcpy", far + 1, far - 2, .corr = 2},
    };
    facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    const struct device_row work[] = {{0, 7, KERNEL, "gemm", far, far - 1, 1},
                                      {0, 8, MEMCPY, "Memcpy DtoH", 0, far, 2, .bytes = 4},
                                      {0, 7, KERNEL, "gemm", 0, INT64_MAX, 2}};
    facts_fixture_device(&f, work, KS_COUNT_OF(work));
    facts_fixture_compute(&f, NULL);
    assert_non_null(f.facts.replays[0]);
    assert_true(run_us(f.facts.replays[0], change) >= 0);
    check_all_changes();
    facts_fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),   cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_work_from_before), cmocka_unit_test(test_scope),
        cmocka_unit_test(test_wait_until_the_end), cmocka_unit_test(test_other_streams),
        cmocka_unit_test(test_cost),      cmocka_unit_test(test_operators_left_out),
        cmocka_unit_test(test_gaps),      cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_steps),     cmocka_unit_test(test_limits),
        cmocka_unit_test(test_drawn),     cmocka_unit_test(test_extreme_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
