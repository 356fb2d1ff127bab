/* Goal: each moment of a step belongs to one phase of training. Method: the worked example of
 * docs/analyses/phases.md by hand, and one small scene for each sentence of the definition. The
 * twin in tests/oracle checks real and drawn traces. */
#include "analyze/phase_names.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

static struct facts_fixture f;

#define HOST(...) FACTS_HOST(&f, __VA_ARGS__)
#define DEVICE(...) FACTS_DEVICE(&f, __VA_ARGS__)

#define BACKWARD "autograd::engine::evaluate_function: MmBackward0"
#define LOADER "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

struct want {
    int64_t data, transfer, forward, loss, backward, optimizer, other;
};

static void check(size_t step, struct want want)
{
    const int64_t *ns = f.facts.steps[step].phases_ns;
    assert_int_equal(ns[KS_PHASE_DATA], want.data);
    assert_int_equal(ns[KS_PHASE_TRANSFER], want.transfer);
    assert_int_equal(ns[KS_PHASE_FORWARD], want.forward);
    assert_int_equal(ns[KS_PHASE_LOSS], want.loss);
    assert_int_equal(ns[KS_PHASE_BACKWARD], want.backward);
    assert_int_equal(ns[KS_PHASE_OPTIMIZER], want.optimizer);
    assert_int_equal(ns[KS_PHASE_OTHER], want.other);
}

static void only_step(struct want want)
{
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.step_count, 1);
    check(0, want);
    facts_fixture_release(&f);
}

static void example(int64_t last_start_ns)
{
    facts_fixture_init(&f, 0, 0);
    HOST({1, NOTE, "ProfilerStep#1", 0, 100}, {1, NOTE, LOADER, 0, 10}, {1, OP, "aten::to", 12, 4},
         {1, CALL, "cudaMemcpyAsync", 13, 1, .corr = 1}, {1, OP, "aten::mm", 20, 4},
         {1, CALL, "cudaLaunchKernel", 21, 1, .corr = 2}, {1, OP, "aten::relu", 28, 2},
         {1, OP, "aten::nll_loss", 32, 2}, {2, OP, BACKWARD, 40, 4},
         {2, CALL, "cudaLaunchKernel", 41, 1, .corr = 3}, {2, OP, BACKWARD, 46, 4},
         {1, OP, "aten::norm", 60, 2}, {1, NOTE, "Optimizer.step#SGD.step", 70, 10},
         {1, CALL, "cudaLaunchKernel", 72, 1, .corr = 4});
    DEVICE({0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", 14, 4, 1},
           {0, 7, KERNEL, "gemm", 22, 16, 2}, {0, 7, KERNEL, "gemm", 45, 20, 3},
           {0, 7, KERNEL, "adam", last_start_ns, 120 - last_start_ns, 4});
}

/* docs/analyses/phases.md */
static void test_worked_example(void **state)
{
    (void)state;
    example(90);
    only_step((struct want){10, 6, 18, 0, 25, 40, 21});
    example(105);
    only_step((struct want){10, 6, 18, 0, 25, 30, 31});
}

/* Without a device the host decides alone; a region counts more than the operators in it. */
static void test_host_alone(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, NOTE, "ProfilerStep#1", 0, 100}, {1, NOTE, "## Forward pass ##", 10, 20},
         {1, OP, "aten::mse_loss", 15, 5}, {1, NOTE, "loss_computation", 30, 10},
         {1, NOTE, "my own region", 40, 10}, {1, OP, "aten::mm", 42, 2}, {1, OP, BACKWARD, 50, 10},
         {1, OP, "aten::nll_loss_backward", 52, 2}, {1, NOTE, "optimizer_step", 60, 20},
         {1, NOTE, "loss", 70, 5});
    only_step(
        (struct want){.forward = 22, .loss = 15, .backward = 10, .optimizer = 15, .other = 38});
}

/* Operators lead to a backward or they do not; gaps belong to the phase on both sides. */
static void test_forward_or_other(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, NOTE, "ProfilerStep#1", 0, 100}, {1, OP, "aten::mm", 0, 5}, {1, OP, "aten::mm", 10, 5},
         {1, OP, BACKWARD, 20, 5}, {1, OP, "aten::mm", 30, 5}, {1, OP, BACKWARD, 40, 5},
         {1, OP, "aten::norm", 50, 5}, {1, NOTE, "Optimizer.step#SGD.step", 60, 5},
         {1, OP, "aten::item", 70, 5}, {1, NOTE, "ProfilerStep#2", 100, 100},
         {1, OP, "aten::mm", 110, 5}, {1, OP, "aten::mm", 120, 5});
    facts_fixture_compute(&f, NULL);
    check(0, (struct want){.forward = 20, .backward = 10, .optimizer = 5, .other = 65});
    check(1, (struct want){.forward = 15, .other = 85});
    facts_fixture_release(&f);
}

/* zero_grad between forward and backward is no update. */
static void test_zero_grad(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, NOTE, "ProfilerStep#1", 0, 100}, {1, OP, "aten::mm", 0, 10},
         {1, NOTE, "Optimizer.zero_grad#SGD.zero_grad", 20, 10}, {1, OP, BACKWARD, 30, 10},
         {1, NOTE, "Optimizer.step#SGD.step", 50, 5});
    only_step((struct want){.forward = 10, .backward = 10, .optimizer = 15, .other = 65});
}

/* log_softmax is loss only right before one; what a loop does between two batches is not data. */
static void test_softmax_and_data(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, NOTE, "ProfilerStep#1", 0, 100}, {1, NOTE, LOADER, 0, 5}, {1, NOTE, LOADER, 20, 5},
         {1, OP, "aten::log_softmax", 30, 5}, {1, OP, "aten::mm", 35, 5},
         {1, OP, "aten::log_softmax", 40, 5}, {1, OP, "aten::nll_loss", 50, 5},
         {1, OP, BACKWARD, 60, 10});
    only_step((struct want){.data = 10, .forward = 10, .loss = 15, .backward = 10, .other = 55});
}

/* A thread that fetches ahead launches transfers; compute hides them where both run. */
static void test_prefetch(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, NOTE, "ProfilerStep#1", 0, 100}, {1, OP, "aten::mm", 0, 60},
         {1, CALL, "cudaLaunchKernel", 1, 1, .corr = 1}, {2, OP, "aten::copy_", 10, 10},
         {2, CALL, "cudaMemcpyAsync", 11, 1, .corr = 2});
    DEVICE({0, 7, KERNEL, "gemm", 20, 30, 1},
           {0, 9, MEMCPY, "Memcpy HtoD (Pinned -> Device)", 30, 40, 2});
    only_step((struct want){.transfer = 20, .forward = 50, .other = 30});
}

/* The same phases when the scope keeps only one step. */
static void test_scope(void **state)
{
    (void)state;
    struct ks_scope scope = {.step_range_given = true, .step_first = 2, .step_last = 2};
    facts_fixture_init(&f, 0, 0);
    HOST({1, NOTE, "ProfilerStep#1", 0, 10}, {1, OP, "aten::mm", 0, 10},
         {1, CALL, "cudaLaunchKernel", 1, 1, .corr = 1}, {1, NOTE, "ProfilerStep#2", 10, 40},
         {1, CALL, "cudaLaunchKernel", 11, 1, .corr = 2});
    DEVICE({0, 7, KERNEL, "gemm", 5, 10, 1}, {0, 7, KERNEL, "gemm", 30, 30, 2});
    facts_fixture_compute(&f, &scope);
    assert_int_equal(f.facts.step_count, 1);
    check(0, (struct want){.forward = 30, .other = 15});
    facts_fixture_release(&f);
}

static void check_name(const char *name, enum ks_phase label, unsigned flags)
{
    unsigned got = ks_phase_names_classify(ks_str_from(name));
    assert_int_equal(ks_phase_names_label(got), label);
    assert_int_equal(got & ~(unsigned)(KS_PHASE_LABEL_MASK | KS_PHASE_NAME_KNOWN), flags);
}

static void test_names(void **state)
{
    (void)state;
    check_name(LOADER, KS_PHASE_DATA, 0);
    check_name("enumerate(DataPipe)#Mapper", KS_PHASE_DATA, 0);
    check_name("Optimizer.step#AdamW.step", KS_PHASE_OPTIMIZER, KS_PHASE_NAME_UPDATE);
    check_name("Optimizer.zero_grad#AdamW.zero_grad", KS_PHASE_OPTIMIZER, 0);
    check_name("CompiledFunctionBackward", KS_PHASE_BACKWARD, 0);
    check_name("AddmmBackward0", KS_PHASE_BACKWARD, 0);
    check_name("*** Loss-computation ***", KS_PHASE_LOSS, 0);
    check_name("Model Inference", KS_PHASE_FORWARD, 0);
    check_name("aten::binary_cross_entropy", KS_PHASE_COUNT, KS_PHASE_NAME_LOSS);
    check_name("aten::_to_copy", KS_PHASE_COUNT, KS_PHASE_NAME_COPY);
    check_name("hipMemcpyAsync", KS_PHASE_COUNT, KS_PHASE_NAME_COPY);
    check_name("aten::convolution_backward", KS_PHASE_COUNT, 0);
    check_name("validation", KS_PHASE_COUNT, 0);
    check_name("", KS_PHASE_COUNT, 0);
    check_name("########################################################", KS_PHASE_COUNT, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_host_alone),
        cmocka_unit_test(test_forward_or_other),
        cmocka_unit_test(test_zero_grad),
        cmocka_unit_test(test_softmax_and_data),
        cmocka_unit_test(test_prefetch),
        cmocka_unit_test(test_scope),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
