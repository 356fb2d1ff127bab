/* Goal: a replay without a change gives the recorded times, however the work is laid out. Method:
 * the example of docs/analyses/replay.md and small layouts with numbers by hand. */
#include "cmocka_all.h"
#include "replay_fixture.h"

/* The layout's step takes `want_us` as recorded, and `launched_us` when launching takes no time. */
static void check_layout(layout *add, int64_t period, double want_us, double launched_us)
{
    struct ks_replay_change launched = unchanged;
    launched.launch_factor = 0;
    check_layout_under(add, period, unchanged, want_us);
    check_layout_under(add, period, launched, launched_us);
}

/* ------------------------------------------------------------ the example */

static void test_example(void **state)
{
    (void)state;
    struct ks_replay_change change = unchanged;
    check_layout_under(example, 100, change, 100);
    change.cost_factor = 1;
    check_layout_under(example, 100, change, 85);
    change = unchanged;
    change.drop = KS_REPLAY_READ;
    check_layout_under(example, 100, change, 70);
    change.drop = KS_REPLAY_READ | KS_REPLAY_READ_PREPARED | KS_REPLAY_BETWEEN;
    check_layout_under(example, 100, change, 50);
    change.drop = KS_REPLAY_SMALL_COPY | KS_REPLAY_SMALL_PREPARED; /* the copy is a read */
    check_layout_under(example, 100, change, 100);
    change = unchanged;
    change.launch_factor = 0;
    check_layout_under(example, 100, change, 55);
    change.short_factor = 0.15;
    check_layout_under(example, 100, change, 38.425);
}

/* ------------------------------------------------------------ layouts */

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
    /* 10..50, 52..72; then, by the stream's usual delay of 1.5 us, 51.5..91.5, 93.5..113.5. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_work_from_before),
        cmocka_unit_test(test_scope),
        cmocka_unit_test(test_wait_until_the_end),
        cmocka_unit_test(test_other_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
