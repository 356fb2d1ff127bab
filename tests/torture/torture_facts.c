/* Goal: whichever allocation fails, analyses and rules give KS_ERR_NOMEM and leave nothing behind.
 * Method: count the allocations of a good run over a trace that takes every way to find steps,
 * then fail each of them. */
#include "advise/findings.h"
#include "base/alloc.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

enum { STEPS = 40, FILLERS = 400 };

static void add_training(struct facts_fixture *fixture)
{
    static const char loader[] = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
    static const char *const steps[] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"};
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t at = i * 1000;
        const struct host_row rows[] = {
            {1, NOTE, steps[i % 3], at, 1000},
            {1, NOTE, loader, at, 600},
            {1, OP, "aten::mm", at + 700, 100, i * 4 + 1, .dims = "[[2, 3], [3, 5]]"},
            {1, OP, "aten::mm", at + 710, 80, i * 4 + 2, .dims = "[[2, 3], [3, 5]]"},
            {1, CALL, "cudaLaunchKernel", at + 720, 10, i * 4 + 2, i * 4 + 2},
            {2, PY, "f.py(1): g", at, 500},
            {1, PY, "f.py(2): main", at, 1000},
            {1, PY, "nn.Module: Net_0", at + 700, 100},
            {3, OP, "aten::to", at + 810, 10, .dims = "[[4, 9]]"},
            {3, CALL, "cudaMemcpyAsync", at + 812, 2, .corr = i * 4 + 3},
            {3, OP, "aten::sort", at + 830, 50, .dims = "[[4, 9]]"},
            {3, OP, "aten::to", at + 890, 10, .dims = "[[4, 9]]"},
            {3, CALL, "cudaMemcpyAsync", at + 892, 2, .corr = i * 4 + 4},
            {1, NOTE, "dynamo_data: compile_id=0/3", at + 910, 10},
            {1, OP, "compile_inner (dynamo_timed)", at + 930, 10},
            {1, NOTE, "DistributedDataParallel.forward", at + 620, 10},
            {4, OP, "c10d::allreduce_", at + 940, 10},
            {4, CALL, "cudaLaunchKernel", at + 942, 2, .corr = 1000 + i},
            {4, CALL, "cudaFree", at + 960, 2},
            {4, OP, "aten::empty", at + 970, 10},
            {4, CALL, "cudaMalloc", at + 972, 2},
        };
        facts_fixture_host(fixture, rows, KS_COUNT_OF(rows));
        const struct device_row work[] = {
            {i % 2, 7, KERNEL, "gemm", at + 730, 50, i * 4 + 2, i * 4 + 2, .blocks_per_sm = 0.1},
            {i % 2, i, MEMCPY, "Memcpy HtoD (Pageable -> Device)", at + 790, 5, .bytes = 7},
            {0, 7, MEMCPY, "Memcpy DtoH (Device -> Pageable)", at + 814, 2, i * 4 + 3},
            {0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", at + 894, 2, i * 4 + 4},
            {0, 17, KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + 945, 5, 1000 + i,
             .collective = "allreduce", .elements = 1 << 18},
        };
        facts_fixture_device(fixture, work, KS_COUNT_OF(work));
        const struct memory_row memory[] = {
            {at + 705, 512, -1}, {at + 707, 2 << 20, 0, (uint64_t)i + 1}, {at + 750, -512, -1}};
        facts_fixture_memory(fixture, memory, KS_COUNT_OF(memory));
    }
}

/* In each step a cast of a weight, a chain of three kernels, and a loss of logits. */
static void add_fusable(struct facts_fixture *fixture)
{
    static const char single[] = "[\"float\", \"float\", \"float\"]";
    static const char square[] = "[[1024, 1024], [1]]";
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t at = i * 1000 + 632;
        int64_t corr = 5000 + 8 * i;
        const struct host_row rows[] = {
            {1, OP, "aten::linear", at, 12, .dims = "[[64, 128], [32, 128]]", .types = single},
            {1, OP, "aten::to", at + 2, 6, .dims = "[[32, 128]]", .types = single},
            {1, CALL, "cudaLaunchKernel", at + 4, 2, .corr = corr},
            {1, OP, "aten::mul", at + 14, 8, .dims = square, .types = single},
            {1, CALL, "cudaLaunchKernel", at + 16, 2, .corr = corr + 1},
            {1, OP, "aten::add", at + 24, 8, .dims = square, .types = single},
            {1, CALL, "cudaLaunchKernel", at + 26, 2, .corr = corr + 2},
            {1, OP, "aten::exp", at + 34, 8, .dims = square, .types = single},
            {1, CALL, "cudaLaunchKernel", at + 36, 2, .corr = corr + 3},
            {1, OP, "aten::_log_softmax", at + 44, 8, .dims = "[[64, 32768]]", .types = single},
            {1, CALL, "cudaLaunchKernel", at + 46, 2, .corr = corr + 4},
        };
        facts_fixture_host(fixture, rows, KS_COUNT_OF(rows));
        for (int64_t k = 0; k < 5; k++) {
            const struct device_row work = {0, 7,       KERNEL, "elementwise", at + 8 + 10 * k,
                                            5, corr + k};
            facts_fixture_device(fixture, &work, 1);
        }
    }
}

static uint32_t add_calls(struct facts_fixture *fixture, uint32_t track, uint32_t parent,
                          struct ks_strid name)
{
    uint32_t id = 0;
    struct ks_call_path path = {.track = track,
                                .parent = parent,
                                .function = name,
                                .file = name,
                                .first_line = parent + 1,
                                .calls = 1,
                                .total_ns = 9};
    assert_int_equal(ks_trace_builder_call_path(fixture->builder, &path, &id, NULL), KS_OK);
    return id;
}

static uint32_t add_frame(struct facts_fixture *fixture, uint32_t caller, struct ks_strid name)
{
    uint32_t id = 0;
    struct ks_stack stack = {
        .function = name, .file = name, .first_line = caller + 1, .caller = caller};
    assert_int_equal(ks_trace_builder_stack(fixture->builder, &stack, &id, NULL), KS_OK);
    return id;
}

/* A recording of the first rank's process: regions in its steps, calls, samples and curves. */
static void add_recording(struct facts_fixture *fixture)
{
    static const char *const curves[] = {"cgroup.cpu_limit", "cgroup.throttled",
                                         "cgroup.throttled_periods", "cpu.core"};
    struct ks_trace_builder *builder = fixture->builder;
    struct ks_track_key pid = {.number = 1};
    struct ks_track_key tid = {.number = 1};
    uint32_t process = 0;
    uint32_t thread = 0;
    uint32_t path = 0;
    uint32_t stack = 0;
    facts_fixture_next_rank(fixture, -1);
    fixture->source->is_recording = true;
    assert_int_equal(ks_trace_builder_process(builder, pid, &process, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_thread(builder, pid, tid, &thread, NULL), KS_OK);
    for (int64_t i = 0; i < STEPS; i++) {
        const struct host_row region = {1, KS_CATEGORY_REGION, "batch", i * 1000 + 1, 900};
        struct ks_strid name = {0};
        facts_fixture_host(fixture, &region, 1);
        for (size_t k = 0; k < KS_COUNT_OF(curves); k++) {
            assert_int_equal(ks_trace_builder_intern(builder, ks_str_from(curves[k]), &name, NULL),
                             KS_OK);
            struct ks_mark_row mark = {.lane = process,
                                       .start_ns = i * 1000,
                                       .value = 100,
                                       .name = name.v,
                                       .flags = KS_MARK_COUNTER};
            assert_int_equal(ks_trace_builder_mark(builder, &mark, NULL), KS_OK);
        }
        path = add_calls(fixture, thread, path, name);
        stack = add_frame(fixture, stack, name);
        struct ks_sample_row sample = {
            .lane = thread, .start_ns = i * 1000, .stack = stack, .weight = 1};
        assert_int_equal(ks_trace_builder_sample(builder, &sample, NULL), KS_OK);
    }
}

/* A rank with a backward pass of modules. */
static void add_backward(struct facts_fixture *fixture)
{
    facts_fixture_next_rank(fixture, 12);
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t at = i * 1000;
        const struct host_row rows[] = {
            {1, PY, "nn.Module: Net_0", at, 100},
            {1, OP, "aten::mm", at + 10, 20, i * 4 + 1, .seq = i + 1},
            {2, OP, "autograd::engine::evaluate_function: MmBackward0", at + 200, 40, .seq = i + 1,
             .aux = 1},
            {2, OP, "MmBackward0", at + 210, 20, i * 4 + 2, .seq = i + 1, .aux = 1},
        };
        facts_fixture_host(fixture, rows, KS_COUNT_OF(rows));
    }
}

/* Ranks in which steps are found by optimizers, top-level spans, graphs and a loop of kernels. */
static void add_other_ranks(struct facts_fixture *fixture)
{
    static const char *const names[] = {"Optimizer.step#SGD.step", "infer",
                                        "execute_context_0(0)_generation_1(1)"};
    for (size_t rank = 0; rank < KS_COUNT_OF(names); rank++) {
        facts_fixture_next_rank(fixture, (int64_t)rank + 1);
        for (int64_t i = 0; i < STEPS; i++) {
            const struct host_row row = {1, NOTE, names[rank], i * 100, 90};
            facts_fixture_host(fixture, &row, 1);
        }
    }
    facts_fixture_next_rank(fixture, 10);
    for (int64_t i = 0; i < FILLERS; i++) {
        const struct host_row row = {1, CALL, "cudaGraphLaunch", i * 100, 5, .corr = i + 1};
        facts_fixture_host(fixture, &row, 1);
    }
    facts_fixture_next_rank(fixture, 11);
    for (int64_t i = 0; i < FILLERS; i++) {
        const char *kernels[] = {"a", "b", "c"};
        const struct device_row row = {0, 7, KERNEL, kernels[i % 3], i * 100, 50};
        facts_fixture_device(fixture, &row, 1);
    }
}

/* Status of the first thing that failed. */
static enum ks_status live(const struct ks_trace *trace, const struct ks_scope *scope,
                           size_t *findings_count, struct ks_err *err)
{
    struct ks_facts facts = {0};
    struct ks_findings findings = {0};
    enum ks_status status = ks_facts_compute(trace, scope, &facts, err);
    if (status == KS_OK) {
        assert_non_null(facts.replays[0]);
        status = ks_findings_compute(&facts, &findings, err);
        *findings_count = findings.count;
        assert_true(facts.round_trip_count > 0);
        assert_true(facts.compiles.steps_with > 0 && facts.comm.gradients.small > 0);
        assert_true(facts.work.pointwise.cost.count > 0 && facts.work.logits.cost.count > 0);
        assert_true(facts.work.casts.cost.count > 0);
        assert_true(facts.function_count > 0 && facts.sample_count > 0);
        assert_true(facts.step_region_count > 0 && facts.sources[0].throttle.window_ns > 0);
        assert_true(facts.module_count > 0 && facts.autograd_count > 0);
        assert_true(facts.sequence_count > 0);
        assert_true((facts.stack_count > 0) == (scope->group_by_stack > 0));
        assert_true(facts.memory_count > 0 && facts.driver_memory.takes > 0);
    }
    ks_findings_release(&findings);
    ks_facts_release(&facts);
    return status;
}

static void fail_each(const struct ks_trace *trace, const struct ks_scope *scope, bool for_ever)
{
    struct ks_err err = {0};
    size_t count = 0;
    ks_alloc_fail_at(0, false);
    assert_int_equal(live(trace, scope, &count, &err), KS_OK);
    assert_true(count > 0);
    int64_t calls = ks_alloc_calls();
    int64_t live_before = ks_alloc_live();
    assert_true(calls > 50);
    for (int64_t at = 1; at <= calls; at++) {
        ks_alloc_fail_at(at, for_ever);
        enum ks_status status = live(trace, scope, &count, &err);
        ks_alloc_fail_at(0, false);
        assert_int_equal(status, KS_ERR_NOMEM);
        assert_int_equal(err.status, KS_ERR_NOMEM);
        assert_int_equal(ks_alloc_live(), live_before);
    }
}

static void test_allocations(void **state)
{
    (void)state;
    static const struct ks_scope scopes[] = {
        {0},
        {.group_by_shape = true, .step_range_given = true, .step_last = 3, .group_by_stack = 5}};
    for (size_t i = 0; i < KS_COUNT_OF(scopes); i++) {
        struct facts_fixture fixture;
        facts_fixture_init(&fixture, 64, 0);
        add_training(&fixture);
        add_fusable(&fixture);
        add_other_ranks(&fixture);
        add_backward(&fixture);
        add_recording(&fixture);
        facts_fixture_seal(&fixture);
        fail_each(fixture.trace, &scopes[i], false);
        fail_each(fixture.trace, &scopes[i], true);
        facts_fixture_release(&fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
