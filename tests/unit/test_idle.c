/* Goal: each ns of idle time has the cause that docs/analyses/idle.md gives it. Method: the page's
 * worked example, then one small trace for each rule, by hand; times are us, since a recorded row
 * counts as 2 us in traces that are too small to estimate it. */
#include <string.h>

#include "analyze/step_lookup.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

static struct facts_fixture f;

#define HOST(...)                                                                                  \
    do {                                                                                           \
        const struct host_row rows_[] = {__VA_ARGS__};                                             \
        add_host(rows_, KS_COUNT_OF(rows_));                                                       \
    } while (0)
#define DEVICE(...)                                                                                \
    do {                                                                                           \
        const struct device_row rows_[] = {__VA_ARGS__};                                           \
        add_device(rows_, KS_COUNT_OF(rows_));                                                     \
    } while (0)
#define LOADER "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
#define OVERHEAD KS_CATEGORY_OVERHEAD

enum { US = 1000 };

static void add_host(const struct host_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct host_row row = rows[i];
        row.start_ns *= US;
        row.dur_ns *= US;
        facts_fixture_host(&f, &row, 1);
    }
}

static void add_device(const struct device_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct device_row row = rows[i];
        row.start_ns *= US;
        row.dur_ns *= US;
        facts_fixture_device(&f, &row, 1);
    }
}

/* Wanted causes in us; what is not named is 0. */
struct causes {
    int64_t data, sync, host_code, launch, allocator, collective, kernel_to_kernel, profiler,
        unknown;
};

static void check(const char *what, const int64_t got_ns[KS_IDLE_COUNT], struct causes want)
{
    const int64_t want_us[KS_IDLE_COUNT] = {
        [KS_IDLE_DATA] = want.data,
        [KS_IDLE_SYNC] = want.sync,
        [KS_IDLE_HOST_CODE] = want.host_code,
        [KS_IDLE_LAUNCH] = want.launch,
        [KS_IDLE_ALLOCATOR] = want.allocator,
        [KS_IDLE_COLLECTIVE] = want.collective,
        [KS_IDLE_KERNEL_TO_KERNEL] = want.kernel_to_kernel,
        [KS_IDLE_PROFILER] = want.profiler,
        [KS_IDLE_UNKNOWN] = want.unknown,
    };
    for (int cause = 0; cause < KS_IDLE_COUNT; cause++) {
        if (got_ns[cause] != want_us[cause] * US) {
            fail_msg("%s: cause %d: got %lld ns, want %lld us", what, cause,
                     (long long)got_ns[cause], (long long)want_us[cause]);
        }
    }
}

static void check_step(size_t index, struct causes want)
{
    assert_true(index < f.facts.step_count);
    check("step", f.facts.steps[index].idle_by_cause_ns, want);
}

static void check_device(struct causes want)
{
    check("device", f.facts.devices[0].idle_by_cause_ns, want);
}

static void begin(void)
{
    facts_fixture_init(&f, 0, 0);
}

static void compute(void)
{
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.sources[0].row_cost_ns, 2 * US);
}

/* docs/analyses/idle.md */
static void test_worked_example(void **state)
{
    (void)state;
    begin();
    HOST({1, NOTE, "ProfilerStep#1", 0, 1000}, {1, NOTE, LOADER, 0, 300},
         {1, OP, "aten::mm", 320, 40}, {1, CALL, "cudaLaunchKernel", 340, 10, .corr = 1},
         {1, OP, "aten::item", 365, 105}, {1, CALL, "cudaMemcpyAsync", 370, 4, .corr = 2},
         {1, CALL, "cudaStreamSynchronize", 375, 93, .corr = 3}, {1, OP, "aten::add", 700, 20},
         {1, CALL, "cudaLaunchKernel", 710, 5, .corr = 4});
    DEVICE({0, 7, KERNEL, "gemm", 355, 100, 1},
           {0, 7, MEMCPY, "Memcpy DtoH (Device -> Pageable)", 456, 2, 2},
           {0, 7, KERNEL, "add", 716, 184, 4});
    compute();
    check_step(0, (struct causes){.data = 300,
                                  .sync = 12,
                                  .host_code = 342,
                                  .launch = 51,
                                  .kernel_to_kernel = 1,
                                  .profiler = 8});
    assert_int_equal(f.facts.steps[0].idle_ns, 714 * US);
    check_device((struct causes){
        .sync = 12, .host_code = 228, .launch = 16, .kernel_to_kernel = 1, .profiler = 2});
    assert_int_equal(f.facts.devices[0].idle_ns, 259 * US);
    check("stream", f.facts.streams[0].idle_by_cause_ns,
          (struct causes){
              .sync = 12, .host_code = 228, .launch = 16, .kernel_to_kernel = 1, .profiler = 2});
    facts_fixture_release(&f);
}

/* A kernel at 0..10 and one at 200..210 on the same stream, launched at `launch`. */
static void two_kernels(int64_t launch)
{
    begin();
    HOST({1, CALL, "cudaLaunchKernel", -10, 2, .corr = 1},
         {1, CALL, "cudaLaunchKernel", launch, 2, .corr = 2});
    DEVICE({0, 7, KERNEL, "a", 0, 10, 1}, {0, 7, KERNEL, "b", 200, 10, 2});
}

/* Row costs: `top` rows start between operators in the interval. */
static void test_allocator(void **state)
{
    (void)state;
    two_kernels(190);
    HOST({1, OP, "aten::empty", 50, 140}, {1, CALL, "cudaMalloc", 60, 100},
         {1, CALL, "cuMemMap", 165, 5});
    compute();
    check_device((struct causes){
        .host_code = 38, .launch = 10 + 5 + 20 + 10 - 4, .allocator = 105, .profiler = 6});
    facts_fixture_release(&f);
}

static void test_sync_calls(void **state)
{
    (void)state;
    two_kernels(190);
    HOST({1, CALL, "cudaDeviceSynchronize", 5, 45}, {1, CALL, "cudaMemcpy", 60, 10},
         {1, CALL, "hipMemcpyDtoH", 80, 10}, {1, CALL, "cudaMemcpyAsync", 100, 10},
         {1, CALL, "zeFenceHostSynchronize", 120, 10});
    compute();
    check_device(
        (struct causes){.sync = 40 + 30, .host_code = 100 - 8, .launch = 10 + 10, .profiler = 8});
    facts_fixture_release(&f);
}

/* An operator that reads a value counts from its first copy or synchronising call on; on host
 * tensors it calls nothing and does not wait. */
static void test_sync_operator(void **state)
{
    (void)state;
    two_kernels(190);
    HOST({1, OP, "aten::item", 20, 20}, {1, OP, "aten::nonzero", 50, 50},
         {1, CALL, "cudaMemcpyAsync", 60, 5}, {1, OP, "aten::mul", 80, 10},
         {1, CALL, "cudaMemcpyAsync", 150, 10});
    compute();
    /* host code 10..20, 40..50, 100..150, 160..190; launching 20..40, 50..60, 150..160, 190..200 */
    check_device(
        (struct causes){.sync = 40, .host_code = 100 - 6, .launch = 50 - 2, .profiler = 8});
    facts_fixture_release(&f);
}

static void test_data_holds_operators(void **state)
{
    (void)state;
    two_kernels(190);
    HOST({1, NOTE, LOADER, 20, 100}, {1, OP, "aten::stack", 40, 50},
         {1, CALL, "cudaHostAlloc", 95, 5});
    compute();
    check_device((struct causes){
        .data = 95, .host_code = 80 - 2, .launch = 10, .allocator = 5, .profiler = 2});
    facts_fixture_release(&f);
}

static void test_host_collective(void **state)
{
    (void)state;
    two_kernels(190);
    HOST({1, OP, "c10d::allreduce_", 20, 20}, {1, NOTE, "gloo:all_reduce", 50, 100},
         {1, OP, "_c10d_functional::wait_tensor", 160, 10});
    compute();
    check_device((struct causes){
        .collective = 110, .host_code = 10 + 10 + 10 + 20 - 6, .launch = 20 + 10, .profiler = 6});
    facts_fixture_release(&f);
}

static void test_python_and_notes_are_host_code(void **state)
{
    (void)state;
    two_kernels(190);
    HOST({1, PY, "train.py(3): step", 0, 300}, {1, NOTE, "forward", 20, 150});
    compute();
    check_device((struct causes){.host_code = 180 - 2, .launch = 10, .profiler = 2});
    facts_fixture_release(&f);
}

/* The profiler's own rows count wherever they are written, and before all else. */
static void test_overhead(void **state)
{
    (void)state;
    two_kernels(190);
    HOST({9, OVERHEAD, "Buffer Flush", 30, 50}, {9, OVERHEAD, "Activity Buffer Request", 60, 40},
         {1, OP, "aten::mm", 90, 60});
    compute();
    check_device((struct causes){.host_code = 20 + 40 - 2, .launch = 50 + 10, .profiler = 70 + 2});
    facts_fixture_release(&f);
}

static void test_kernel_to_kernel(void **state)
{
    (void)state;
    two_kernels(-5);
    compute();
    check_device((struct causes){.kernel_to_kernel = 190});
    facts_fixture_release(&f);
}

/* Launched less before the end of the work than any launch takes: it could not start earlier. */
static void test_fresh_launch(void **state)
{
    (void)state;
    two_kernels(4); /* the first kernel needed 10 us, this one was launched 6 us before 10 */
    compute();
    check_device((struct causes){.launch = 190});
    facts_fixture_release(&f);
}

/* Nodes of one replay share a launch, which is never fresh behind the first of them. */
static void test_graph(void **state)
{
    (void)state;
    begin();
    HOST({1, CALL, "cudaGraphLaunch", 0, 5, .corr = 1});
    DEVICE({0, 7, KERNEL, "a", 10, 1, 1}, {0, 7, KERNEL, "b", 15, 1, 1});
    compute();
    check_device((struct causes){.kernel_to_kernel = 4});
    facts_fixture_release(&f);
}

static void test_unknown(void **state)
{
    (void)state;
    begin();
    HOST({1, CALL, "cudaLaunchKernel", -10, 2, .corr = 1},
         {2, CALL, "cudaLaunchKernel", 250, 2, .corr = 2});
    DEVICE({0, 7, KERNEL, "a", 0, 10, 1}, {0, 7, KERNEL, "lost", 100, 10, 77},
           {0, 7, KERNEL, "b", 300, 10, 2});
    compute();
    /* 10..100: no launch; 110..250: the main thread ended at -8, the other has not begun. */
    check_device((struct causes){.launch = 50, .unknown = 90 + 140});
    facts_fixture_release(&f);
}

/* Thread 2 launches in backward(); before it begins, and between its operators, thread 1 says what
 * the host does, and the other way round. */
static void test_backward_thread(void **state)
{
    (void)state;
    begin();
    HOST({1, NOTE, "ProfilerStep#1", -20, 420}, {1, CALL, "cudaLaunchKernel", -10, 2, .corr = 1},
         {1, NOTE, LOADER, 20, 40}, {1, OP, "aten::relu", 70, 10},
         {2, OP, "autograd::engine::evaluate_function: ReluBackward0", 100, 50},
         {2, CALL, "cudaLaunchKernel", 140, 2, .corr = 2},
         {2, OP, "autograd::engine::evaluate_function: Add", 180, 20},
         {1, CALL, "cudaLaunchKernel", 290, 2, .corr = 3});
    DEVICE({0, 7, KERNEL, "a", 0, 10, 1}, {0, 7, KERNEL, "b", 150, 10, 2},
           {0, 7, KERNEL, "c", 300, 10, 3});
    compute();
    /* 10..140 by thread 2: loader 40, relu 10, then its own 40 and host code 40, of which its
     * first row takes 2; 140..150 launch. By thread 1 Add 20, host code 110; then 10 launch. */
    check_device((struct causes){.data = 40,
                                 .host_code = 10 + 10 + 20 - 2 + 20 + 90,
                                 .launch = 10 + 40 + 10 + 20 + 10,
                                 .profiler = 2});
    facts_fixture_release(&f);
}

/* Work that starts before its launch: clocks that disagree. The host part ends with the gap. */
static void test_work_before_launch(void **state)
{
    (void)state;
    two_kernels(205);
    compute();
    check_device((struct causes){.host_code = 190});
    facts_fixture_release(&f);
}

/* A stream that waits while the device runs a collective, and goes on after it. */
static void test_collective_on_device(void **state)
{
    (void)state;
    begin();
    HOST({1, CALL, "cudaLaunchKernel", -10, 2, .corr = 1},
         {1, CALL, "cudaLaunchKernel", -8, 2, .corr = 2},
         {1, CALL, "cudaLaunchKernel", -6, 2, .corr = 3});
    DEVICE({0, 7, KERNEL, "a", 0, 10, 1}, {0, 20, KERNEL, "ncclDevKernel_AllReduce", 40, 60, 2},
           {0, 7, KERNEL, "b", 105, 10, 3});
    compute();
    check("stream", f.facts.streams[0].idle_by_cause_ns,
          (struct causes){.collective = 60, .kernel_to_kernel = 30 + 5});
    check_device((struct causes){.kernel_to_kernel = 30 + 5});
    facts_fixture_release(&f);
}

/* A step idles while no device of its rank works. */
static void test_two_devices(void **state)
{
    (void)state;
    begin();
    HOST({1, NOTE, "ProfilerStep#1", 0, 100}, {1, CALL, "cudaLaunchKernel", 10, 2, .corr = 1},
         {1, CALL, "cudaLaunchKernel", 12, 2, .corr = 2});
    DEVICE({0, 7, KERNEL, "a", 20, 30, 1}, {1, 7, KERNEL, "b", 40, 30, 2});
    compute();
    /* 0..20: host code 10, less the step's row and no other, and launch; 70..100 host code. */
    check_step(0, (struct causes){.host_code = 10 - 2 + 30, .launch = 10, .profiler = 2});
    assert_int_equal(f.facts.devices[0].idle_ns + f.facts.devices[1].idle_ns, 0);
    facts_fixture_release(&f);
}

/* Without GPU work the step's thread is the device; backward() on other threads is work too. */
static void test_cpu_step(void **state)
{
    (void)state;
    begin();
    HOST({1, NOTE, "ProfilerStep#1", 0, 400}, {1, NOTE, LOADER, 0, 100},
         {1, OP, "aten::stack", 20, 50}, {1, OP, "aten::mm", 120, 80},
         {1, OP, "aten::item", 150, 10}, {3, OP, "aten::elsewhere", 200, 50},
         {2, OP, "autograd::engine::evaluate_function: Mm", 260, 40});
    compute();
    check_step(0, (struct causes){.data = 100, .host_code = 20 + 60 + 100 - 6, .profiler = 6});
    assert_int_equal(f.facts.steps[0].idle_ns, 280 * US);
    assert_int_equal(f.facts.device_count, 0);
    facts_fixture_release(&f);
}

/* Estimated costs never take more than there is. */
static void test_cost_is_bounded(void **state)
{
    (void)state;
    begin();
    HOST({1, NOTE, "ProfilerStep#1", 0, 20}, {1, OP, "aten::a", 1, 9}, {1, OP, "aten::b", 11, 9});
    compute();
    check_step(0, (struct causes){.profiler = 2});
    facts_fixture_release(&f);
}

/* The steps name their thread; else the one with the most rows is taken. */
static void test_thread_of_steps(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, OP, "aten::mm", 5, 1}, {2, NOTE, "ProfilerStep#1", 0, 100}, {2, OP, "aten::mm", 5, 1},
         {3, OP, "aten::mm", 5, 1}, {3, OP, "aten::mm", 7, 1}, {3, OP, "aten::mm", 9, 1});
    facts_fixture_compute(&f, NULL);
    uint32_t thread = ks_step_lookup_thread(&f.facts, 0);
    assert_int_equal(ks_trace_track(f.trace, thread)->number, 2);
    f.facts.steps[0].thread = 0;
    thread = ks_step_lookup_thread(&f.facts, 0);
    assert_int_equal(ks_trace_track(f.trace, thread)->number, 3);
    facts_fixture_release(&f);
}

/* Each rank's idle time is judged by its own threads. */
static void test_ranks(void **state)
{
    (void)state;
    begin();
    f.source->rank = 0;
    for (int64_t rank = 0; rank < 3; rank++) {
        if (rank > 0) {
            facts_fixture_next_rank(&f, rank);
        }
        HOST({1, NOTE, "ProfilerStep#1", 0, 100}, {1, NOTE, LOADER, 10, 10 + rank});
        if (rank != 1) {
            HOST({1, CALL, "cudaLaunchKernel", 50, 2, .corr = 1});
            DEVICE({0, 7, KERNEL, "k", 60, 40, 1});
        }
    }
    compute();
    check_step(0, (struct causes){.data = 10, .host_code = 40 - 4, .launch = 10, .profiler = 4});
    check_step(1, (struct causes){.data = 11, .host_code = 89 - 4, .profiler = 4});
    check_step(2, (struct causes){.data = 12, .host_code = 38 - 4, .launch = 10, .profiler = 4});
    facts_fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_allocator),
        cmocka_unit_test(test_sync_calls),
        cmocka_unit_test(test_sync_operator),
        cmocka_unit_test(test_data_holds_operators),
        cmocka_unit_test(test_host_collective),
        cmocka_unit_test(test_python_and_notes_are_host_code),
        cmocka_unit_test(test_overhead),
        cmocka_unit_test(test_kernel_to_kernel),
        cmocka_unit_test(test_fresh_launch),
        cmocka_unit_test(test_graph),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_backward_thread),
        cmocka_unit_test(test_thread_of_steps),
        cmocka_unit_test(test_work_before_launch),
        cmocka_unit_test(test_collective_on_device),
        cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_cpu_step),
        cmocka_unit_test(test_cost_is_bounded),
        cmocka_unit_test(test_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
