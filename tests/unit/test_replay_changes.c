/* Goal: a change takes away what docs/analyses/replay.md says, no more and no less. Method: small
 * layouts with numbers by hand. */
#include <math.h>

#include "analyze/what_if.h"
#include "cmocka_all.h"
#include "replay_fixture.h"

/* ------------------------------------------------------------ what recording takes */

static void check_cost_of(int64_t pid, layout *add, int64_t cost_us, double factor, double want_us)
{
    struct ks_replay_change change = unchanged;
    change.cost_factor = factor;
    facts_fixture_init(&f, 0, 0);
    f.source->pid = pid;
    add_steps(add, 100);
    facts_fixture_compute(&f, NULL);
    check_run(unchanged, 100);
    check_run(change, want_us);
    assert_int_equal(f.facts.replays[0]->operator_cost_ns, cost_us * US);
    facts_fixture_release(&f);
}

static void check_cost(layout *add, int64_t cost_us, double factor, double want_us)
{
    check_cost_of(0, add, cost_us, factor, want_us);
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

/* A launch costs 0.8 of what the launches took where `kscope run` recorded, other calls nothing. */
static void calls(int64_t at, int64_t corr)
{
    HOST({1, CALL, "cudaGetLastError", 5, 1}, {1, CALL, "cudaLaunchKernel", 20, 10, .corr = corr},
         {1, CALL, "cudaLaunchKernel", 40, 10, .corr = corr + 1},
         {1, CALL, "cudaLaunchKernel", 60, 20, .corr = corr + 2},
         {1, CALL, "cudaMemcpyAsync", 85, 2, .corr = corr + 3});
    DEVICE({0, 7, KERNEL, "gemm", 31, 5, corr}, {0, 7, KERNEL, "gemm", 51, 5, corr + 1},
           {0, 7, KERNEL, "gemm", 81, 5, corr + 2}, {0, 7, MEMCPY, "Memcpy HtoD", 88, 5, corr + 3});
}

static void test_launch_cost(void **state)
{
    (void)state;
    check_cost_of(0, calls, 3, 1, 100);
    check_cost_of(1, calls, 3, 1, 100 - 4 * 8);
    check_cost_of(1, calls, 3, 0.5, 100 - 4 * 4);
    check_cost_of(1, views, 4, 1, 100 - 6 * 4 - 1.6);
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
    check_layout_under(add, 100, change, want_us);
}

static void small_copy(int64_t at, int64_t corr)
{
    HOST({1, OP, "aten::empty", 10, 4}, {1, OP, "aten::fill_", 16, 4},
         {1, OP, "aten::copy_", 24, 10}, {1, CALL, "cudaMemcpyAsync", 26, 2, .corr = corr},
         {1, OP, "aten::mm", 60, 10}, {1, CALL, "cudaLaunchKernel", 62, 2, .corr = corr + 1});
    DEVICE({0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", 30, 1, corr, .bytes = 4},
           {0, 7, KERNEL, "gemm", 68, 20, corr + 1});
}

static void small_copies(int64_t at, int64_t corr)
{
    HOST({1, OP, "aten::copy_", 24, 10}, {1, CALL, "cudaMemcpyAsync", 26, 2, .corr = corr},
         {1, OP, "aten::copy_", 40, 10}, {1, CALL, "cudaMemcpyAsync", 42, 2, .corr = corr + 1},
         {1, OP, "aten::mm", 60, 10}, {1, CALL, "cudaLaunchKernel", 62, 2, .corr = corr + 2});
    DEVICE({0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", 30, 1, corr, .bytes = 4},
           {0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", 46, 1, corr + 1, .bytes = 4},
           {0, 7, KERNEL, "gemm", 68, 2, corr + 2});
}

/* Code of its own lies between. */
static void small_copies_apart(int64_t at, int64_t corr)
{
    HOST({1, OP, "aten::copy_", 24, 10}, {1, CALL, "cudaMemcpyAsync", 26, 2, .corr = corr},
         {1, OP, "aten::copy_", 300, 10}, {1, CALL, "cudaMemcpyAsync", 302, 2, .corr = corr + 1});
    DEVICE({0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", 30, 1, corr, .bytes = 4},
           {0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", 306, 1, corr + 1, .bytes = 4});
}

/* The one has nothing to do with the other. */
static void read_and_copy(int64_t at, int64_t corr)
{
    HOST({1, OP, "aten::item", 24, 10}, {1, CALL, "cudaStreamSynchronize", 26, 2},
         {1, OP, "aten::copy_", 40, 10}, {1, CALL, "cudaMemcpyAsync", 42, 2, .corr = corr});
    DEVICE({0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", 46, 1, corr, .bytes = 4});
}

static void large_copy(int64_t at, int64_t corr)
{
    HOST({1, OP, "aten::copy_", 24, 10}, {1, CALL, "cudaMemcpyAsync", 26, 2, .corr = corr});
    DEVICE({0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", 30, 1, corr, .bytes = 65537});
}

static void test_operators_left_out(void **state)
{
    (void)state;
    check_drop(small_copy, KS_REPLAY_SMALL_COPY, 90);
    check_drop(small_copy, KS_REPLAY_SMALL_COPY | KS_REPLAY_SMALL_PREPARED, 82);
    check_drop(small_copy, KS_REPLAY_SMALL_COPY | KS_REPLAY_SMALL_PREPARED | KS_REPLAY_BETWEEN, 76);
    check_drop(small_copy, KS_REPLAY_SMALL_PREPARED, 92);
    check_drop(small_copy, KS_REPLAY_SMALL_PREPARED | KS_REPLAY_BETWEEN, 86); /* up to the copy */
    check_drop(small_copies, KS_REPLAY_SMALL_COPY, 80);
    check_drop(small_copies, KS_REPLAY_SMALL_COPY | KS_REPLAY_BETWEEN, 74);
    struct ks_replay_change change = unchanged;
    change.drop = KS_REPLAY_SMALL_COPY | KS_REPLAY_BETWEEN;
    check_layout_under(small_copies_apart, 600, change, 580);
    check_drop(read_and_copy, KS_REPLAY_READ | KS_REPLAY_BETWEEN, 90);
    check_drop(small_copy, KS_REPLAY_READ | KS_REPLAY_READ_PREPARED, 100);
    check_drop(large_copy, KS_REPLAY_SMALL_COPY, 100);
}

static void largest_small_copy(int64_t at, int64_t corr)
{
    HOST({1, OP, "aten::copy_", 24, 10}, {1, CALL, "cudaMemcpyAsync", 26, 2, .corr = corr});
    DEVICE({0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", 30, 1, corr, .bytes = 65536});
}

static void test_size_of_small_copies(void **state)
{
    (void)state;
    check_drop(largest_small_copy, KS_REPLAY_SMALL_COPY, 90);
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
    check_layout_under(gaps, 1200, change, want_us);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_launch_cost),
        cmocka_unit_test(test_operators_left_out),
        cmocka_unit_test(test_size_of_small_copies),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
