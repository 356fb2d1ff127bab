/* Goal: steps are found in each of the ways there are, and their true duration is right. Method:
 * small traces by hand; the first is the worked example of docs/analyses/steps.md. */
#include "cmocka_all.h"
#include "facts_fixture.h"

static struct facts_fixture f;

static void start(void)
{
    facts_fixture_init(&f, 0, 0);
}

static void check_step(size_t index, int64_t number, int64_t start_ns, int64_t dur_ns)
{
    assert_true(index < f.facts.step_count);
    const struct ks_step *step = &f.facts.steps[index];
    assert_int_equal(step->number, number);
    assert_int_equal(step->start_ns - f.facts.steps[0].host_start_ns, start_ns);
    assert_int_equal(step->dur_ns, dur_ns);
}

#define HOST(...) FACTS_HOST(&f, __VA_ARGS__)
#define DEVICE(...) FACTS_DEVICE(&f, __VA_ARGS__)

/* The host is done with step 1 after 10 ns, the GPU after 50: step 2 begins then. A kernel from
 * before the recording holds up step 1; the annotation on the GPU is no step. */
static void test_true_step(void **state)
{
    (void)state;
    start();
    HOST({1, NOTE, "ProfilerStep#1", 100, 10}, {1, CALL, "cudaLaunchKernel", 102, 3, .corr = 1},
         {1, NOTE, "ProfilerStep#2", 110, 10}, {1, CALL, "cudaLaunchKernel", 112, 3, .corr = 2},
         {1, NOTE, "ProfilerStep#3", 120, 10}, {1, CALL, "cudaLaunchKernel", 122, 3, .corr = 3});
    DEVICE({0, 7, KERNEL, "k", 90, 20}, {0, 7, KERNEL, "k", 110, 40, 1},
           {0, 7, KERNEL, "k", 150, 30, 2}, {0, 7, KERNEL, "k", 185, 5, 3},
           {0, 7, KS_CATEGORY_GPU_ANNOTATION, "ProfilerStep#1", 110, 40});
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.step_count, 3);
    assert_int_equal(f.facts.step_source, KS_STEPS_PROFILER);
    check_step(0, 1, 10, 40);
    check_step(1, 2, 50, 30);
    check_step(2, 3, 80, 10);
    assert_int_equal(f.facts.steps[0].host_ns, 10);
    assert_int_equal(f.facts.step_ns_total, 80);
    facts_fixture_release(&f);
}

/* The queue of the GPU runs empty during the recording: steps together are no shorter than the
 * host took for them. */
static void test_queue_runs_empty(void **state)
{
    (void)state;
    start();
    HOST({1, NOTE, "ProfilerStep#1", 100, 100}, {1, CALL, "cudaLaunchKernel", 102, 3, .corr = 1},
         {1, NOTE, "ProfilerStep#2", 200, 100}, {1, CALL, "cudaLaunchKernel", 202, 3, .corr = 2});
    DEVICE({0, 7, KERNEL, "k", 90, 60}, {0, 7, KERNEL, "k", 150, 20, 1},
           {0, 7, KERNEL, "k", 210, 110, 2});
    facts_fixture_compute(&f, NULL);
    check_step(0, 1, 20, 80);
    check_step(1, 2, 100, 120);
    facts_fixture_release(&f);
}

static void test_scope(void **state)
{
    (void)state;
    start();
    HOST({1, NOTE, "ProfilerStep#7", 0, 10}, {1, OP, "a", 2, 3},
         {1, NOTE, "ProfilerStep#8", 10, 10}, {1, OP, "b", 12, 3}, {2, OP, "c", 15, 100});
    struct ks_scope scope = {.step_range_given = true, .step_first = 8, .step_last = 9};
    facts_fixture_compute(&f, &scope);
    assert_int_equal(f.facts.step_count, 1);
    assert_int_equal(f.facts.steps[0].index, 1);
    assert_null(facts_fixture_operator(&f, "a", KS_OPERATOR_OP, NULL));
    assert_non_null(facts_fixture_operator(&f, "b", KS_OPERATOR_OP, NULL));
    assert_non_null(facts_fixture_operator(&f, "c", KS_OPERATOR_OP, NULL));
    facts_fixture_release(&f);
}

static void check_source(enum ks_step_source source, size_t count)
{
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.step_source, source);
    assert_int_equal(f.facts.step_count, count);
}

static void test_marks(void **state)
{
    (void)state;
    start();
    HOST({1, NOTE, "kinetoscope.step", 0, 10}, {1, NOTE, "kinetoscope.step", 10, 12},
         {1, NOTE, "Optimizer.step#SGD.step", 12, 3});
    check_source(KS_STEPS_MARK, 2);
    check_step(1, 1, 10, 12);
    facts_fixture_release(&f);
}

static void check_engine(size_t index, enum ks_step_kind kind, int64_t tokens)
{
    assert_int_equal(f.facts.steps[index].kind, kind);
    assert_true(f.facts.steps[index].tokens == tokens);
}

static void test_engines(void **state)
{
    (void)state;
    start();
    HOST({1, NOTE, "execute_context_1(512)_generation_0(0)", 0, 10},
         {1, NOTE, "execute_context_0(0)_generation_3(3)", 10, 10},
         {1, NOTE, "execute_context_1(40)_generation_2(2)", 20, 10},
         {1, NOTE, "step[EXTEND bs=2 toks=300]", 30, 10}, {1, NOTE, "prefill[300]", 31, 5},
         {1, NOTE, "step[DECODE bs=5]", 40, 10});
    check_source(KS_STEPS_ENGINE, 5);
    check_engine(0, KS_STEP_PREFILL, 512);
    check_engine(1, KS_STEP_DECODE, 3);
    check_engine(2, KS_STEP_MIXED, 42);
    check_engine(3, KS_STEP_PREFILL, 300);
    check_engine(4, KS_STEP_DECODE, 5);
    facts_fixture_release(&f);

    start(); // only the GPU has them: work belongs to them by its own time
    DEVICE({0, 7, KS_CATEGORY_GPU_ANNOTATION, "decode[bs=1]", 0, 10}, {0, 7, KERNEL, "k", 2, 4},
           {0, 7, KS_CATEGORY_GPU_ANNOTATION, "decode[bs=1]", 20, 10}, {0, 7, KERNEL, "k", 21, 6});
    check_source(KS_STEPS_ENGINE, 2);
    assert_int_equal(f.facts.steps[1].breakdown_ns[KS_ROLE_KERNEL], 6);
    facts_fixture_release(&f);
}

/* Two optimizers: the one that steps less often ends a step; what comes before its first end is
 * not complete. */
static void test_optimizer(void **state)
{
    (void)state;
    start();
    HOST({1, OP, "aten::mm", 0, 5}, {1, NOTE, "Optimizer.step#A.step", 10, 2},
         {1, NOTE, "Optimizer.step#A.step", 20, 2}, {1, NOTE, "Optimizer.step#B.step", 30, 2},
         {1, NOTE, "Optimizer.step#A.step", 40, 2}, {1, NOTE, "Optimizer.step#A.step", 50, 2},
         {1, NOTE, "Optimizer.step#B.step", 60, 2});
    check_source(KS_STEPS_OPTIMIZER, 2);
    check_step(0, 0, 0, 32);
    check_step(1, 1, 32, 30);
    assert_false(f.facts.steps[0].is_complete);
    assert_true(f.facts.steps[1].is_complete);
    assert_int_equal(f.facts.steps[1].kind, KS_STEP_TRAIN);
    facts_fixture_release(&f);
}

static void test_top_span(void **state)
{
    (void)state;
    start();
    HOST({1, NOTE, "infer", 0, 10}, {1, NOTE, "part", 1, 3}, {1, NOTE, "infer", 12, 10},
         {1, NOTE, "infer", 24, 10}, {1, OP, "x", 34, 4});
    check_source(KS_STEPS_TOP_SPAN, 3);
    assert_int_equal(f.facts.steps[1].breakdown_ns[KS_ROLE_CPU], 0); // the span is no work
    facts_fixture_release(&f);

    start(); // covers too little of its thread
    HOST({1, NOTE, "infer", 0, 10}, {1, NOTE, "infer", 12, 10}, {1, NOTE, "infer", 24, 10},
         {1, OP, "x", 34, 400});
    check_source(KS_STEPS_WINDOW, 1);
    check_step(0, 0, 0, 434);
    facts_fixture_release(&f);
}

/* Names that differ in the number of the step alone are those of one step; layers are none. */
static void test_numbered_top_spans(void **state)
{
    (void)state;
    start();
    HOST({1, NOTE, "train_step 7", 0, 10}, {1, NOTE, "train_step 8", 12, 10},
         {1, NOTE, "val_step 8", 23, 2}, {1, NOTE, "train_step 12", 25, 10}, {1, OP, "x", 36, 4});
    check_source(KS_STEPS_TOP_SPAN, 3);
    assert_int_equal(f.facts.steps[2].dur_ns, 10);
    assert_int_equal(f.facts.steps[1].breakdown_ns[KS_ROLE_CPU], 0);
    facts_fixture_release(&f);

    start();
    HOST({1, NOTE, "Iteration#0", 0, 10}, {1, NOTE, "Iteration#1", 12, 10},
         {1, NOTE, "Iteration#2", 24, 10});
    check_source(KS_STEPS_TOP_SPAN, 3);
    facts_fixture_release(&f);

    start();
    HOST({1, NOTE, "layer_0", 0, 10}, {1, NOTE, "layer_1", 12, 10}, {1, NOTE, "layer_2", 24, 10});
    check_source(KS_STEPS_WINDOW, 1);
    facts_fixture_release(&f);

    start(); // no number, no family
    HOST({1, NOTE, "step a", 0, 10}, {1, NOTE, "step b", 12, 10}, {1, NOTE, "step", 24, 10},
         {1, NOTE, "7", 36, 10}, {1, NOTE, "8", 48, 10}, {1, NOTE, "9", 60, 10});
    check_source(KS_STEPS_WINDOW, 1);
    facts_fixture_release(&f);
}

static void test_graphs_and_period(void **state)
{
    (void)state;
    start();
    for (int64_t i = 0; i < 4; i++) {
        HOST({1, CALL, "cudaGraphLaunch", i * 100, 5, .corr = i + 1});
        DEVICE({0, 7, KERNEL, "a", i * 100 + 10, 20, i + 1},
               {0, 7, KERNEL, "b", i * 100 + 30, 20, i + 1});
    }
    check_source(KS_STEPS_GRAPH, 4);
    check_step(1, 1, 100, 100);
    facts_fixture_release(&f);

    start(); // a loop of three kernels; the longest pause comes before "b"
    for (int64_t i = 0; i < 12; i++) {
        const char *names[] = {"a", "b", "c"};
        int64_t at = i * 10 + (i + 2) / 3 * 50;
        HOST({1, CALL, "cudaLaunchKernel", at, 2, .corr = i + 1});
        DEVICE({0, 7, KERNEL, names[i % 3], at + 3, 4, i + 1});
    }
    check_source(KS_STEPS_PERIOD, 3);
    check_step(1, 1, 80, 80);
    facts_fixture_release(&f);
}

static void test_nothing(void **state)
{
    (void)state;
    start();
    check_source(KS_STEPS_NONE, 0);
    facts_fixture_release(&f);
}

static void test_ranks(void **state)
{
    (void)state;
    start();
    f.source->rank = 0;
    HOST({1, NOTE, "ProfilerStep#1", 0, 10});
    facts_fixture_next_rank(&f, 1);
    HOST({1, NOTE, "ProfilerStep#1", 5, 20});
    facts_fixture_next_rank(&f, 0); // a second window of rank 0
    HOST({1, NOTE, "ProfilerStep#9", 100, 30});
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.step_count, 3);
    assert_int_equal(f.facts.steps[1].index, 0);
    assert_int_equal(f.facts.steps[2].index, 1);
    assert_int_equal(f.facts.step_ranges[2].begin, 2);
    facts_fixture_release(&f);
}

/* `kscope run` ended the recording inside step 3: it is no complete step of its rank, and in no
 * mean; step 3 of another rank is. */
static void test_cut_step(void **state)
{
    (void)state;
    start();
    f.source->rank = 0;
    f.source->has_cut_step = true;
    f.source->cut_step = 3;
    HOST({1, NOTE, "ProfilerStep#2", 0, 10}, {1, NOTE, "ProfilerStep#3", 10, 500},
         {1, NOTE, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1, 4},
         {1, NOTE, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 20, 400},
         {1, OP, "aten::rand", 2, 1}, {1, OP, "aten::rand", 30, 100});
    facts_fixture_next_rank(&f, 1);
    HOST({1, NOTE, "ProfilerStep#3", 0, 20});
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.step_count, 3);
    assert_true(f.facts.steps[0].is_complete);
    assert_false(f.facts.steps[1].is_complete);
    assert_true(f.facts.steps[2].is_complete);
    assert_int_equal(f.facts.complete_step_count, 2);
    assert_int_equal(f.facts.step_ns_total, 30);
    const struct ks_input_fact *input = &f.facts.inputs[0];
    assert_int_equal(input->step_count, 1);
    assert_int_equal(input->step_ns_total, 10);
    assert_int_equal(input->wait_ns_total, 4);
    assert_int_equal(input->idle_wait_ns_total, 4);
    assert_int_equal(input->loader_rows, 2);
    assert_int_equal(input->loader_cpu_ns, 1);
    assert_int_equal(f.facts.steps[1].input_wait_ns, 400); // shown, but in no sum
    facts_fixture_release(&f);

    start(); // a step of number 0 is cut only when the file says so
    HOST({1, NOTE, "ProfilerStep#0", 0, 10}, {1, NOTE, "ProfilerStep#1", 10, 10});
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.complete_step_count, 2);
    facts_fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_true_step),
        cmocka_unit_test(test_queue_runs_empty),
        cmocka_unit_test(test_scope),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_engines),
        cmocka_unit_test(test_optimizer),
        cmocka_unit_test(test_numbered_top_spans),
        cmocka_unit_test(test_top_span),
        cmocka_unit_test(test_graphs_and_period),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_cut_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
