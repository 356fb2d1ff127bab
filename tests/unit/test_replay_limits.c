/* Goal: replays hold the steps that they should, and whatever rows a trace has, a replay without a
 * change gives the recorded times and a change no longer ones. Method: small traces by hand, then
 * drawn ones, in which rows lie over each other. */
#include <math.h>

#include "analyze/what_if.h"
#include "cmocka_all.h"
#include "replay_fixture.h"

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

/* Twenty steps of so many rows, beside their launch; all others are operators. */
static size_t steps_of_rows(int64_t rows)
{
    static const char *const names[] = {
        "ProfilerStep#1",  "ProfilerStep#2",  "ProfilerStep#3",  "ProfilerStep#4",
        "ProfilerStep#5",  "ProfilerStep#6",  "ProfilerStep#7",  "ProfilerStep#8",
        "ProfilerStep#9",  "ProfilerStep#10", "ProfilerStep#11", "ProfilerStep#12",
        "ProfilerStep#13", "ProfilerStep#14", "ProfilerStep#15", "ProfilerStep#16",
        "ProfilerStep#17", "ProfilerStep#18", "ProfilerStep#19", "ProfilerStep#20"};
    facts_fixture_init(&f, 0, 0);
    for (size_t i = 0; i < KS_COUNT_OF(names); i++) {
        int64_t at = (int64_t)i * 100000;
        int64_t corr = (int64_t)i + 1;
        HOST({1, NOTE, names[i], 0, 100000}, {1, CALL, "cudaLaunchKernel", 10, 2, .corr = corr});
        for (int64_t row = 1; row < rows; row++) {
            HOST({1, OP, "aten::mm", 10 + 2 * row, 1});
        }
        DEVICE({0, 7, KERNEL, "gemm", 20, 10, corr});
    }
    facts_fixture_compute(&f, NULL);
    assert_non_null(f.facts.replays[0]);
    size_t steps = f.facts.replays[0]->step_count;
    facts_fixture_release(&f);
    return steps;
}

/* Steps of many rows: as many as 150,000 row ends allow, by the mean, and two at least. */
static void test_enough_steps(void **state)
{
    (void)state;
    assert_int_equal(steps_of_rows(100), 16);
    assert_int_equal(steps_of_rows(15000),
                     5); /* 30,002 ends a step; the mean counts one step more */
    assert_int_equal(steps_of_rows(45000), 2);
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
        {.category = OP, .name = "aten::mm"},
        {.category = OP, .name = "aten::item"},
        {.category = OP, .name = "aten::t"},
        {.category = NOTE, .name = "note"},
        {.category = NOTE, .name = LOADER},
        {.category = PY, .name = "a.py(1): f"},
        {.category = CALL, .name = "cudaMemcpy"},
        {.category = CALL, .name = "cudaMemcpyAsync"},
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
        cmocka_unit_test(test_steps),         cmocka_unit_test(test_limits),
        cmocka_unit_test(test_enough_steps),  cmocka_unit_test(test_drawn),
        cmocka_unit_test(test_extreme_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
