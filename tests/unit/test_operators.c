/* Goal: operators come out as torch's key_averages says, and exclusive times as the definition
 * says. Method: cases by hand (the first is the worked example of docs/analyses/operators.md);
 * random rows that overlap in every way against slow twins that follow the definitions. */
#include <stdio.h>
#include <string.h>

#include "cmocka_all.h"
#include "facts_fixture.h"
#include "numbers.h"

static struct facts_fixture f;

static const struct ks_operator_fact *op(const char *name)
{
    const struct ks_operator_fact *row = facts_fixture_operator(&f, name, KS_OPERATOR_OP, NULL);
    if (!row) {
        fail_msg("no row %s", name);
    }
    return row;
}

#define HOST(...) FACTS_HOST(&f, __VA_ARGS__)

/* A runtime call is a child; kernels belong to the operator of their External id; the step is
 * folded; Python frames count for exclusive time only. */
static void test_worked_example(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, NOTE, "ProfilerStep#3", 0, 100}, {1, OP, "aten::linear", 10, 40, 1},
         {1, OP, "aten::addmm", 15, 30, 2}, {1, CALL, "cudaLaunchKernel", 20, 10, 2, 77},
         {1, PY, "model.py(3): forward", 5, 60}, {1, NOTE, "ProfilerStep#4", 100, 50});
    const struct device_row kernel = {0, 7, KERNEL, "gemm", 60, 25, 77, 2};
    facts_fixture_device(&f, &kernel, 1);
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.operator_count, 4);
    assert_int_equal(op("aten::linear")->self_cpu_ns, 10);
    assert_int_equal(op("aten::linear")->device_ns, 25);
    assert_int_equal(op("aten::linear")->self_device_ns, 0);
    assert_int_equal(op("aten::addmm")->self_cpu_ns, 20);
    assert_int_equal(op("aten::addmm")->self_device_ns, 25);
    const struct ks_operator_fact *call =
        facts_fixture_operator(&f, "cudaLaunchKernel", KS_OPERATOR_RUNTIME, NULL);
    assert_int_equal(call->self_device_ns, 0);
    const struct ks_operator_fact *steps =
        facts_fixture_operator(&f, "ProfilerStep*", KS_OPERATOR_ANNOTATION, NULL);
    assert_int_equal(steps->calls, 2);
    assert_int_equal(steps->self_cpu_ns, 60 + 50);
    assert_int_equal(steps->self_exclusive_ns, 40 + 50);
    assert_true(steps->flops == KS_UNKNOWN);
    assert_true(steps->cpu_bytes == KS_UNKNOWN);
    facts_fixture_release(&f);
}

/* A parent with one child of its own name takes the child's children and kernels; with two
 * children it does not; chains fold into one. */
static void test_same_names(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, OP, "a", 0, 100, 1}, {1, OP, "a", 10, 80, 2}, {1, OP, "a", 20, 60, 3},
         {1, OP, "b", 30, 10, 4}, {1, OP, "a", 200, 100, 5}, {1, OP, "a", 210, 10, 6},
         {1, OP, "a", 220, 10, 7}, {1, NOTE, "c", 400, 50, 8}, {1, OP, "c", 410, 20, 9});
    const struct device_row kernels[] = {{0, 7, KERNEL, "k", 0, 5, 0, 1},
                                         {0, 7, KERNEL, "k", 10, 7, 0, 3},
                                         {0, 7, KERNEL, "k", 20, 9, 0, 9}};
    facts_fixture_device(&f, kernels, 3);
    facts_fixture_compute(&f, NULL);
    assert_int_equal(op("a")->calls, 4);
    assert_int_equal(op("a")->cpu_ns, 220);
    assert_int_equal(op("a")->self_cpu_ns, 90 + 80 + 20);
    assert_int_equal(op("a")->self_exclusive_ns, 90 + 80 + 20);
    assert_int_equal(op("a")->self_device_ns, 7); // the innermost replaces the others
    assert_null(facts_fixture_operator(&f, "c", KS_OPERATOR_OP, NULL));
    const struct ks_operator_fact *c =
        facts_fixture_operator(&f, "c", KS_OPERATOR_ANNOTATION, NULL);
    assert_int_equal(c->self_cpu_ns, 50);
    assert_int_equal(c->self_exclusive_ns, 50);
    assert_int_equal(c->self_device_ns, 9);
    facts_fixture_release(&f);
}

static void test_not_in_torch(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, OP, "a", 0, 100, 1}, {1, OP, "aten::is_leaf", 10, 5},
         {1, OP, "hidden", 20, 5, .flags = KS_SLICE_HIDDEN},
         {1, KS_CATEGORY_OVERHEAD, "Buffer Flush", 30, 5}, {1, KS_CATEGORY_TRACE, "t", 0, 100},
         {1, OP, "open", 50, 0, .flags = KS_SLICE_UNFINISHED},
         {0, OP, "async", 60, 20, 1, .flags = KS_SLICE_ASYNC},
         {0, OP, "async", 70, 20, 1, .flags = KS_SLICE_ASYNC});
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.operator_count, 3);
    assert_int_equal(op("a")->self_cpu_ns, 100);
    assert_int_equal(op("a")->self_exclusive_ns, 90);
    assert_int_equal(op("async")->calls, 2);
    assert_int_equal(op("async")->cpu_ns, 40);
    assert_int_equal(op("async")->self_cpu_ns, 0);
    assert_int_equal(f.facts.overhead_ns, 5);
    facts_fixture_release(&f);
}

/* The example of docs/analyses/stacks.md: frames that are open, of a node those of its maker; a
 * frame of torch that passes on to the engine is left out. */
static void test_stacks(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST(
        {1, PY, "train.py(9): step", 0, 500}, {1, PY, "net.py(3): forward", 10, 80},
        {1, OP, "aten::linear", 20, 40, .seq = 5}, {1, OP, "aten::addmm", 30, 20, .seq = 5},
        {1, PY, "torch/autograd/__init__.py(300): backward", 200, 200},
        {1, OP, "autograd::engine::evaluate_function: AddmmBackward0", 210, 60, .seq = 5, .aux = 1},
        {1, OP, "AddmmBackward0", 220, 40, .seq = 5, .aux = 1}, {1, OP, "aten::mm", 225, 20},
        {1, OP, "aten::mm", 450, 10}, {1, OP, "aten::mm", 600, 30});
    struct ks_scope scope = {.group_by_stack = 1024};
    facts_fixture_compute(&f, &scope);
    static const struct {
        const char *stack;
        int64_t calls, self_ns;
    } want[] = {
        {"net.py(3): forward;train.py(9): step", 4, 20 + 20 + 20 + 20},
        {"train.py(9): step", 2, 20 + 10},
    };
    assert_int_equal(f.facts.stack_count, KS_COUNT_OF(want));
    for (size_t i = 0; i < KS_COUNT_OF(want); i++) {
        assert_true(ks_str_equal(f.facts.stacks[i].stack, ks_str_from(want[i].stack)));
        assert_int_equal(f.facts.stacks[i].calls, want[i].calls);
        assert_int_equal(f.facts.stacks[i].self_cpu_ns, want[i].self_ns);
    }
    assert_int_equal(f.facts.operator_count, 7); // aten::mm three times, once without a frame
    facts_fixture_release(&f);
    facts_fixture_init(&f, 0, 0);
    HOST({1, PY, "a", 0, 50}, {1, PY, "b", 5, 40}, {1, OP, "aten::mm", 10, 5}, {1, PY, "b", 60, 20},
         {1, OP, "aten::mm", 65, 5});
    scope.group_by_stack = 1;
    facts_fixture_compute(&f, &scope);
    assert_int_equal(f.facts.operator_count, 1);
    assert_int_equal(f.facts.operators[0].calls, 2);
    assert_true(ks_str_equal(f.facts.operators[0].stack, KS_STR("b")));
    facts_fixture_release(&f);
}

/* Both ends of an operator count, whatever thread the event came from. */
static void test_memory_and_flops(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, OP, "aten::mm", 10, 20, .dims = "[[2, 3], [3, 5]]"},
         {1, OP, "aten::empty", 12, 4, .dims = "[[]]"},
         {2, OP, "aten::mm", 28, 4, .dims = "[[1, 1], [1, 1]]"});
    const struct memory_row memory[] = {
        {9, 1000, -1}, {10, 64, -1}, {16, 100, 0}, {30, -64, -1}, {33, 1, 0}};
    facts_fixture_memory(&f, memory, KS_COUNT_OF(memory));
    struct ks_scope scope = {.group_by_shape = true};
    facts_fixture_compute(&f, &scope);
    const struct ks_operator_fact *mm =
        facts_fixture_operator(&f, "aten::mm", KS_OPERATOR_OP, "[[2, 3], [3, 5]]");
    assert_int_equal(mm->cpu_bytes, 0);
    assert_int_equal(mm->device_bytes, 100);
    assert_int_equal(mm->self_device_bytes, 0);
    assert_int_equal(mm->flops, 60);
    assert_int_equal(op("aten::empty")->self_device_bytes, 100);
    mm = facts_fixture_operator(&f, "aten::mm", KS_OPERATOR_OP, "[[1, 1], [1, 1]]");
    assert_int_equal(mm->cpu_bytes, -64);
    assert_int_equal(mm->flops, 2);
    facts_fixture_release(&f);
}

/* ------------------------------------------------------------------ twins */

enum { ROWS_MAX = 60, TIME_MAX = 50, NAMES = 4, KINDS = 2 };

static const char *const names[NAMES] = {"a", "b", "c", "d"};

struct twin_row {
    int64_t start, end;
    size_t name;
    bool is_python;
    int torch_parent; /* -1 none, -2 removed */
    int64_t device;
};

struct twin {
    struct twin_row rows[ROWS_MAX];
    size_t count;
};

struct sums {
    int64_t calls, cpu, self, exclusive, device, self_device;
};

static void draw(struct twin *twin, uint64_t seed)
{
    struct numbers numbers = {seed};
    twin->count = 1 + (size_t)numbers_below(&numbers, ROWS_MAX);
    bool is_nested = numbers_below(&numbers, 2);
    for (size_t i = 0; i < twin->count; i++) {
        int64_t start = (int64_t)numbers_below(&numbers, TIME_MAX);
        int64_t dur = (int64_t)numbers_below(&numbers, is_nested ? 8 : 30);
        if (is_nested) { // rows of powers of two on their own grid never overlap partly
            dur = (int64_t)1 << numbers_below(&numbers, 6);
            start = start / dur * dur;
        }
        twin->rows[i] = (struct twin_row){start,
                                          start + dur,
                                          numbers_below(&numbers, NAMES),
                                          numbers_below(&numbers, 4) == 0,
                                          -1,
                                          (int64_t)numbers_below(&numbers, 3)};
    }
    for (size_t i = 1; i < twin->count; i++) { // the order of the trace, stable
        struct twin_row row = twin->rows[i];
        size_t at = i;
        for (; at > 0 &&
               (twin->rows[at - 1].start > row.start ||
                (twin->rows[at - 1].start == row.start && twin->rows[at - 1].end < row.end));
             at--) {
            twin->rows[at] = twin->rows[at - 1];
        }
        twin->rows[at] = row;
    }
}

/* The smallest row that holds row `i`; of equal ones the later in order; or -1. */
static int exclusive_parent(const struct twin *twin, size_t i)
{
    int best = -1;
    for (size_t j = 0; j < i; j++) {
        const struct twin_row *one = &twin->rows[j];
        if (one->start <= twin->rows[i].start && one->end >= twin->rows[i].end &&
            one->end > twin->rows[i].start &&
            (best < 0 || one->end - one->start <= twin->rows[best].end - twin->rows[best].start)) {
            best = (int)j;
        }
    }
    return best;
}

static int64_t exclusive_of(const struct twin *twin, size_t i)
{
    int64_t sum = 0;
    for (int64_t cell = twin->rows[i].start; cell < twin->rows[i].end; cell++) {
        bool is_covered = false;
        for (size_t j = i + 1; j < twin->count; j++) {
            is_covered = is_covered || (exclusive_parent(twin, j) == (int)i &&
                                        twin->rows[j].start <= cell && cell < twin->rows[j].end);
        }
        sum += !is_covered;
    }
    return sum;
}

/* Torch's own loops (torch/autograd/profiler_util.py), on a list of parents. */
static void torch_tree(struct twin *twin)
{
    size_t stack[ROWS_MAX];
    size_t depth = 0;
    for (size_t i = 0; i < twin->count; i++) {
        struct twin_row *row = &twin->rows[i];
        row->torch_parent = -1;
        if (row->is_python) {
            row->torch_parent = -2;
            continue;
        }
        while (depth > 0) {
            const struct twin_row *top = &twin->rows[stack[depth - 1]];
            if (row->start >= top->end || row->end > top->end) {
                depth--;
            } else {
                row->torch_parent = (int)stack[depth - 1];
                break;
            }
        }
        stack[depth++] = i;
    }
}

static size_t children_of(const struct twin *twin, int parent)
{
    size_t count = 0;
    for (size_t i = 0; i < twin->count; i++) {
        count += twin->rows[i].torch_parent == parent;
    }
    return count;
}

static void torch_dedup(struct twin *twin, int64_t *swallowed)
{
    bool is_changed = true;
    while (is_changed) {
        is_changed = false;
        for (size_t i = 0; i < twin->count; i++) {
            int parent = twin->rows[i].torch_parent;
            if (parent < 0 || twin->rows[parent].name != twin->rows[i].name ||
                children_of(twin, parent) != 1) {
                continue;
            }
            twin->rows[parent].device = twin->rows[i].device;
            swallowed[i] = 1;
            twin->rows[i].torch_parent = -2;
            for (size_t j = 0; j < twin->count; j++) {
                if (twin->rows[j].torch_parent == (int)i) {
                    twin->rows[j].torch_parent = parent;
                }
            }
            is_changed = true;
        }
    }
}

static int64_t device_total(const struct twin *twin, size_t i)
{
    int64_t sum = twin->rows[i].device;
    for (size_t j = 0; j < twin->count; j++) {
        sum += twin->rows[j].torch_parent == (int)i ? device_total(twin, j) : 0;
    }
    return sum;
}

static void calculate(struct twin *twin, struct sums sums[NAMES])
{
    int64_t swallowed[ROWS_MAX] = {0};
    torch_tree(twin);
    torch_dedup(twin, swallowed);
    memset(sums, 0, NAMES * sizeof(*sums));
    for (size_t i = 0; i < twin->count; i++) {
        const struct twin_row *row = &twin->rows[i];
        struct sums *mine = &sums[row->name];
        if (row->is_python) {
            continue;
        }
        mine->exclusive += exclusive_of(twin, i);
        if (swallowed[i]) {
            continue;
        }
        mine->calls++;
        mine->cpu += row->end - row->start;
        mine->self += row->end - row->start;
        for (size_t j = 0; j < twin->count; j++) {
            bool is_child = twin->rows[j].torch_parent == (int)i;
            mine->self -= is_child ? twin->rows[j].end - twin->rows[j].start : 0;
        }
        mine->self_device += row->device;
        mine->device += device_total(twin, i);
    }
}

static void build(const struct twin *twin, uint32_t chunk_rows)
{
    facts_fixture_init(&f, chunk_rows, 0);
    for (size_t i = 0; i < twin->count; i++) {
        const struct twin_row *row = &twin->rows[i];
        HOST({1, row->is_python ? PY : OP, names[row->name], row->start, row->end - row->start,
              (int64_t)i + 1});
        const struct device_row kernel = {0,           7, KERNEL,        "k", (int64_t)i * 10,
                                          row->device, 0, (int64_t)i + 1};
        facts_fixture_device(&f, &kernel, 1);
    }
    facts_fixture_compute(&f, NULL);
}

static void compare(const struct sums sums[NAMES], uint64_t seed)
{
    for (size_t i = 0; i < NAMES; i++) {
        const struct ks_operator_fact *row =
            facts_fixture_operator(&f, names[i], KS_OPERATOR_OP, NULL);
        struct sums got = {0};
        if (row) {
            got = (struct sums){row->calls,       row->cpu_ns,
                                row->self_cpu_ns, row->self_exclusive_ns,
                                row->device_ns,   row->self_device_ns};
        }
        if (memcmp(&got, &sums[i], sizeof(got)) != 0) {
            fail_msg("seed %llu, %s: calls %lld/%lld cpu %lld/%lld self %lld/%lld exclusive "
                     "%lld/%lld device %lld/%lld self %lld/%lld",
                     (unsigned long long)seed, names[i], (long long)got.calls,
                     (long long)sums[i].calls, (long long)got.cpu, (long long)sums[i].cpu,
                     (long long)got.self, (long long)sums[i].self, (long long)got.exclusive,
                     (long long)sums[i].exclusive, (long long)got.device, (long long)sums[i].device,
                     (long long)got.self_device, (long long)sums[i].self_device);
        }
    }
}

static void test_against_twins(void **state)
{
    (void)state;
    static const uint32_t chunk_rows[] = {0, 1, 8};
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        struct twin twin;
        struct sums sums[NAMES];
        draw(&twin, seed);
        build(&twin, chunk_rows[seed % KS_COUNT_OF(chunk_rows)]);
        calculate(&twin, sums);
        compare(sums, seed);
        facts_fixture_release(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example),   cmocka_unit_test(test_same_names),
        cmocka_unit_test(test_not_in_torch),     cmocka_unit_test(test_stacks),
        cmocka_unit_test(test_memory_and_flops), cmocka_unit_test(test_against_twins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
