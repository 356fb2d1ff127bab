/* Goal: modules and nodes of autograd get the times that docs/analyses/modules.md and autograd.md
 * define. Method: their worked example; what is recomputed, threads with the same numbers, a scope;
 * random calls, operators and nodes against a twin that looks at every pair of rows. */
#include <stdio.h>
#include <string.h>

#include "analyze/forward_ops.h"
#include "cmocka_all.h"
#include "facts_fixture.h"
#include "numbers.h"

#define ENGINE "autograd::engine::evaluate_function: "
#define ACCUMULATE ENGINE "torch::autograd::AccumulateGrad"

static struct facts_fixture f;

#define HOST(...) FACTS_HOST(&f, __VA_ARGS__)

static bool is_named(struct ks_str name, const char *text)
{
    return ks_str_equal(name, ks_str_from(text));
}

static const struct ks_module_fact *module(const char *name)
{
    for (size_t i = 0; i < f.facts.module_count; i++) {
        if (is_named(f.facts.modules[i].name, name)) {
            return &f.facts.modules[i];
        }
    }
    fail_msg("no module %s", name);
    return NULL;
}

/* `maker` NULL: the trace does not tell it. */
static const struct ks_autograd_fact *pair(const char *maker, const char *node)
{
    for (size_t i = 0; i < f.facts.autograd_count; i++) {
        const struct ks_autograd_fact *row = &f.facts.autograd[i];
        struct ks_str forward = ks_trace_str(f.trace, row->forward);
        if (is_named(ks_autograd_label(&f.facts, row), node) &&
            is_named(forward, maker ? maker : "")) {
            return row;
        }
    }
    fail_msg("no node %s", node);
    return NULL;
}

static void check_pair(const char *maker, const char *node, int64_t calls, int64_t forward_ns,
                       int64_t backward_ns, int64_t forward_device_ns, int64_t backward_device_ns)
{
    const struct ks_autograd_fact *row = pair(maker, node);
    assert_int_equal(row->calls, calls);
    assert_int_equal(row->forward_ns, forward_ns);
    assert_int_equal(row->backward_ns, backward_ns);
    assert_int_equal(row->forward_device_ns, forward_device_ns);
    assert_int_equal(row->backward_device_ns, backward_device_ns);
}

static void add_worked_example(void)
{
    HOST({1, PY, "nn.Module: Net_0", 0, 100}, {1, OP, "aten::embedding", 5, 10, 1, .seq = 7},
         {1, PY, "nn.Module: Linear_0", 20, 40}, {1, OP, "aten::linear", 25, 30, 2, .seq = 8},
         {1, OP, "aten::addmm", 30, 20, 3, .seq = 8},
         {2, OP, ENGINE "AddmmBackward0", 200, 40, 4, .seq = 8, .aux = 1},
         {2, OP, "AddmmBackward0", 205, 30, 5, .seq = 8, .aux = 1}, {2, OP, "aten::mm", 210, 20, 6},
         {2, OP, ACCUMULATE, 245, 5, 7},
         {2, OP, ENGINE "EmbeddingBackward0", 260, 20, 8, .seq = 7, .aux = 1});
    FACTS_DEVICE(&f, {0, 7, KERNEL, "gather", 20, 10, 0, 1}, {0, 7, KERNEL, "gemm", 60, 25, 0, 3},
                 {0, 7, KERNEL, "gemm", 300, 30, 0, 6});
}

static void test_worked_example(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    add_worked_example();
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.module_count, 2);
    const struct ks_module_fact *net = module("Net_0");
    const struct ks_module_fact *linear = module("Linear_0");
    assert_true(is_named(linear->class_name, "Linear"));
    assert_true(is_named(linear->tree_name, "  Linear_0"));
    assert_int_equal(linear->parent, net - f.facts.modules);
    assert_true(net->parent == KS_UNKNOWN);
    assert_int_equal(net->forward_ns, 100);
    assert_int_equal(net->forward_self_ns, 60);
    assert_int_equal(linear->forward_ns, 40);
    assert_int_equal(linear->backward_ns, 40 + 5 + 5);
    assert_int_equal(net->backward_self_ns, 20 + 10);
    assert_int_equal(net->backward_ns, 80);
    assert_int_equal(net->forward_device_ns, 35);
    assert_int_equal(net->forward_self_device_ns, 10);
    assert_int_equal(linear->backward_device_ns, 30);
    assert_int_equal(f.facts.autograd_count, 3);
    check_pair("aten::addmm", "AddmmBackward0", 1, 20, 40, 25, 30);
    check_pair("aten::embedding", "EmbeddingBackward0", 1, 10, 20, 10, 0);
    check_pair(NULL, "torch::autograd::AccumulateGrad", 1, 0, 5, 0, 0);
    facts_fixture_release(&f);
}

/* A call inside of a node stands where it was first, and its work counts in both ways. A node that
 * runs a pass of its own leaves that to its nodes. */
static void test_recomputed(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, PY, "nn.Module: Net_0", 0, 100}, {1, OP, "Checkpoint", 10, 5, .seq = 5},
         {1, PY, "nn.Module: Block_0", 20, 30},
         {1, OP, ENGINE "CheckpointBackward", 200, 100, 2, .seq = 5, .aux = 1},
         {1, PY, "nn.Module: Block_0", 210, 20}, {1, OP, "aten::mm", 212, 10, 3, .seq = 9},
         {1, PY, "<built-in method run_backward of torch._C._EngineBase object at 0x1>", 240, 50},
         {1, OP, ENGINE "MmBackward0", 250, 30, 4, .seq = 9, .aux = 1});
    FACTS_DEVICE(&f, {0, 7, KERNEL, "gemm", 400, 7, 0, 3}, {0, 7, KERNEL, "gemm", 410, 9, 0, 4});
    facts_fixture_compute(&f, NULL);
    const struct ks_module_fact *net = module("Net_0");
    const struct ks_module_fact *block = module("Block_0");
    assert_int_equal(f.facts.module_count, 2);
    assert_int_equal(block->calls, 2);
    assert_int_equal(block->recompute_calls, 1);
    assert_int_equal(block->forward_ns, 50);
    assert_int_equal(block->recompute_ns, 20);
    assert_int_equal(block->recompute_device_ns, 7);
    assert_int_equal(block->forward_device_ns, 7);
    assert_int_equal(net->forward_self_ns, 70); // the second call is not in a call of Net_0
    assert_int_equal(block->backward_ns, 30);
    assert_int_equal(net->backward_self_ns, 100 - 30);
    assert_int_equal(net->backward_ns, 100);
    assert_int_equal(net->backward_device_ns, 7 + 9);
    facts_fixture_release(&f);
}

/* Two passes, or the same one again, have no time between them. */
static void test_time_between_passes(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, PY, "nn.Module: Net_0", 0, 100}, {1, OP, "aten::mm", 10, 5, .seq = 1},
         {1, OP, "aten::mul", 20, 5, .seq = 2},
         {2, OP, ENGINE "MulBackward0", 200, 10, .seq = 2, .aux = 1},
         {2, OP, ENGINE "MmBackward0", 213, 10, .seq = 1, .aux = 1},
         {2, OP, ENGINE "MulBackward0", 300, 10, .seq = 2, .aux = 1},
         {2, OP, ENGINE "MmBackward0", 310, 10, .seq = 1, .aux = 1});
    facts_fixture_compute(&f, NULL);
    assert_int_equal(module("Net_0")->backward_ns, 40 + 3);
    assert_int_equal(pair("aten::mm", "MmBackward0")->calls, 2);
    assert_int_equal(pair("aten::mm", "MmBackward0")->forward_calls, 1);
    assert_int_equal(pair("aten::mm", "MmBackward0")->forward_ns, 5);
    facts_fixture_release(&f);
}

/* Numbers count by thread. The first node whose number one thread alone has tells which it is. */
static void test_two_threads(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, PY, "nn.Module: A_0", 0, 50}, {1, OP, "aten::a", 5, 5, .seq = 3},
         {1, OP, "aten::a", 15, 5, .seq = 4}, {2, PY, "nn.Module: B_0", 0, 50},
         {2, OP, "aten::b", 6, 5, .seq = 3},
         {3, OP, ENGINE "XBackward0", 100, 10, .seq = 4, .aux = 1},
         {3, OP, ENGINE "XBackward0", 120, 10, .seq = 3, .aux = 1},
         {3, OP, ENGINE "YBackward0", 140, 20, .seq = 3, .aux = 2});
    facts_fixture_compute(&f, NULL);
    assert_int_equal(module("A_0")->backward_ns, 10 + 10 + 10);
    assert_int_equal(pair("aten::a", "XBackward0")->calls, 2);
    assert_int_equal(module("B_0")->backward_ns, 20);
    facts_fixture_release(&f);
}

/* Each number is one of both threads; names tell whose a node is, also for those after it. */
static void test_two_threads_by_name(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, PY, "nn.Module: A_0", 0, 50}, {1, OP, "aten::mm", 5, 5, .seq = 3},
         {1, OP, "aten::relu_", 15, 5, .seq = 4}, {2, PY, "nn.Module: B_0", 0, 50},
         {2, OP, "aten::mm", 6, 5, .seq = 3}, {2, OP, "aten::tanh", 16, 5, .seq = 4},
         {3, OP, ENGINE "ReluBackward0", 100, 10, .seq = 4, .aux = 1},
         {3, OP, ENGINE "MmBackward0", 120, 10, .seq = 3, .aux = 1},
         {3, OP, ENGINE "TanhBackward0", 140, 20, .seq = 4, .aux = 2},
         {3, OP, ENGINE "MmBackward0", 160, 20, .seq = 3, .aux = 2});
    facts_fixture_compute(&f, NULL);
    assert_int_equal(pair("aten::relu_", "ReluBackward0")->calls, 1);
    assert_int_equal(pair("aten::tanh", "TanhBackward0")->calls, 1);
    assert_int_equal(pair("aten::mm", "MmBackward0")->forward_calls, 2);
    facts_fixture_release(&f);
}

static void test_scope(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, NOTE, "ProfilerStep#1", 0, 100}, {1, PY, "nn.Module: Net_0", 10, 50},
         {1, PY, "nn.Module: Old_0", 15, 10}, {1, NOTE, "ProfilerStep#2", 100, 100},
         {1, PY, "nn.Module: Net_0", 110, 60});
    struct ks_scope scope = {.step_range_given = true, .step_first = 2, .step_last = 2};
    facts_fixture_compute(&f, &scope);
    assert_int_equal(f.facts.module_count, 1);
    assert_int_equal(module("Net_0")->calls, 1);
    assert_int_equal(module("Net_0")->forward_self_ns, 60);
    facts_fixture_release(&f);
}

/* Without numbers nobody knows what a backward pass is of; without a pass there is none. */
static void test_what_is_unknown(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, PY, "nn.Module: Net_0", 0, 50},
         {1, OP, ENGINE "MmBackward0", 100, 10, .seq = 4, .aux = 1});
    facts_fixture_compute(&f, NULL);
    assert_true(module("Net_0")->backward_ns == KS_UNKNOWN);
    facts_fixture_release(&f);
    facts_fixture_init(&f, 0, 0);
    HOST({1, PY, "nn.Module: Net_0", 0, 50});
    facts_fixture_compute(&f, NULL);
    assert_int_equal(module("Net_0")->backward_ns, 0);
    facts_fixture_release(&f);
}

/* ------------------------------------------------------------------ twin */

enum { ROWS = 40, NODES = 12, PATH_SIZE = 256, PATHS_MAX = ROWS, DAY = 64, NUMBERS = 6 };

static const char *const names[] = {"nn.Module: A_0", "nn.Module: B_1", "nn.Module: C_2"};

struct twin_row {
    int64_t start, end, number, device; /* number 0: a call of a module */
    size_t name;
};

struct twin {
    struct twin_row rows[ROWS], nodes[NODES];
    size_t row_count, node_count;
    struct path {
        char text[PATH_SIZE];
        int64_t calls, forward, self, backward, device, backward_device;
    } paths[PATHS_MAX];
    size_t path_count;
};

/* Rows of powers of two on their own grid never overlap partly. */
static void draw(struct twin *twin, uint64_t seed)
{
    struct numbers numbers = {seed};
    *twin = (struct twin){.row_count = ROWS, .node_count = NODES};
    for (size_t i = 0; i < ROWS; i++) {
        int64_t dur = (int64_t)1 << numbers_below(&numbers, 7);
        int64_t start = (int64_t)numbers_below(&numbers, DAY) / dur * dur;
        bool is_call = numbers_below(&numbers, 2);
        int64_t number = is_call ? 0 : 1 + (int64_t)numbers_below(&numbers, NUMBERS);
        int64_t device = is_call ? 0 : (int64_t)numbers_below(&numbers, 3);
        twin->rows[i] = (struct twin_row){start, start + dur, number, device,
                                          numbers_below(&numbers, KS_COUNT_OF(names))};
    }
    int64_t at = 2 * DAY;
    for (size_t i = 0; i < NODES; i++) { // 0: adds gradients up
        int64_t start = at + (int64_t)numbers_below(&numbers, 4);
        at = start + 1 + (int64_t)numbers_below(&numbers, 4);
        twin->nodes[i] = (struct twin_row){start, at, (int64_t)numbers_below(&numbers, NUMBERS + 3),
                                           (int64_t)numbers_below(&numbers, 3), 0};
    }
}

static bool comes_before(const struct twin *twin, size_t a, size_t b)
{
    const struct twin_row *one = &twin->rows[a];
    const struct twin_row *other = &twin->rows[b];
    return one->start != other->start ? one->start < other->start
           : one->end != other->end   ? one->end > other->end
                                      : a < b;
}

static bool holds(const struct twin *twin, size_t outer, size_t inner)
{
    return outer != inner && comes_before(twin, outer, inner) &&
           twin->rows[outer].end >= twin->rows[inner].end;
}

/* Names of the calls around a row, itself with them, outermost first: "/A_0/B_1". */
static void path_of(const struct twin *twin, size_t row, char text[PATH_SIZE])
{
    size_t used = 0;
    size_t last = SIZE_MAX;
    text[0] = '\0';
    for (;;) {
        size_t next = SIZE_MAX;
        for (size_t i = 0; i < twin->row_count; i++) {
            bool is_around = twin->rows[i].number == 0 && (i == row || holds(twin, i, row)) &&
                             (last == SIZE_MAX || comes_before(twin, last, i));
            if (is_around && (next == SIZE_MAX || comes_before(twin, i, next))) {
                next = i;
            }
        }
        if (next == SIZE_MAX) {
            return;
        }
        const char *name = names[twin->rows[next].name] + strlen("nn.Module: ");
        used += (size_t)snprintf(text + used, PATH_SIZE - used, "/%s", name);
        last = next;
    }
}

static struct path *find_path(struct twin *twin, const char *text)
{
    for (size_t i = 0; i < twin->path_count; i++) {
        if (strcmp(twin->paths[i].text, text) == 0) {
            return &twin->paths[i];
        }
    }
    struct path *path = &twin->paths[twin->path_count++];
    snprintf(path->text, PATH_SIZE, "%s", text);
    return path;
}

static void calculate_forward(struct twin *twin)
{
    char text[PATH_SIZE];
    for (size_t i = 0; i < twin->row_count; i++) {
        const struct twin_row *row = &twin->rows[i];
        path_of(twin, i, text);
        if (row->number != 0) {
            if (text[0]) {
                find_path(twin, text)->device += row->device;
            }
            continue;
        }
        struct path *path = find_path(twin, text);
        path->calls++;
        path->forward += row->end - row->start;
        for (int64_t cell = row->start; cell < row->end; cell++) {
            bool is_covered = false;
            for (size_t j = 0; j < twin->row_count; j++) {
                is_covered =
                    is_covered || (twin->rows[j].number == 0 && holds(twin, i, j) &&
                                   twin->rows[j].start <= cell && cell < twin->rows[j].end);
            }
            path->self += !is_covered;
        }
    }
}

/* The path of what made a node: of the last operator with its number. */
static void maker_path(const struct twin *twin, int64_t number, char text[PATH_SIZE])
{
    size_t last = SIZE_MAX;
    for (size_t i = 0; i < twin->row_count; i++) {
        bool is_it = twin->rows[i].number == number;
        last = is_it && (last == SIZE_MAX || comes_before(twin, last, i)) ? i : last;
    }
    text[0] = '\0';
    if (last != SIZE_MAX) {
        path_of(twin, last, text);
    }
}

static void add_backward(struct twin *twin, const char *text, int64_t ns, int64_t device_ns)
{
    if (text[0]) {
        find_path(twin, text)->backward += ns;
        find_path(twin, text)->backward_device += device_ns;
    }
}

static void common_path(const char *a, const char *b, char out[PATH_SIZE])
{
    size_t end = 0;
    size_t at = 0;
    for (; a[at] && a[at] == b[at]; at++) {
        end = a[at] == '/' ? at : end;
    }
    bool is_whole = (!a[at] || a[at] == '/') && (!b[at] || b[at] == '/');
    snprintf(out, PATH_SIZE, "%.*s", (int)(is_whole ? at : end), a);
}

static void calculate_backward(struct twin *twin)
{
    char last[PATH_SIZE] = "";
    char mine[PATH_SIZE];
    char both[PATH_SIZE];
    int64_t number = 0;
    for (size_t i = 0; i < twin->node_count; i++) {
        const struct twin_row *node = &twin->nodes[i];
        bool follows = i > 0 && (node->number == 0 || node->number < number);
        if (node->number == 0) {
            snprintf(mine, PATH_SIZE, "%s", i > 0 ? last : "");
        } else {
            maker_path(twin, node->number, mine);
        }
        common_path(last, mine, both);
        if (follows) {
            add_backward(twin, both, node->start - twin->nodes[i - 1].end, 0);
        }
        add_backward(twin, mine, node->end - node->start, node->device);
        number = node->number != 0 ? node->number : number;
        snprintf(last, PATH_SIZE, "%s", mine);
    }
}

static void build(const struct twin *twin, uint32_t chunk_rows)
{
    facts_fixture_init(&f, chunk_rows, 0);
    for (size_t i = 0; i < twin->row_count + twin->node_count; i++) {
        bool is_node = i >= twin->row_count;
        const struct twin_row *row = is_node ? &twin->nodes[i - twin->row_count] : &twin->rows[i];
        struct host_row host = {.tid = is_node ? 2 : 1,
                                .category = OP,
                                .name = "aten::op",
                                .start_ns = row->start,
                                .dur_ns = row->end - row->start,
                                .ext_id = (int64_t)i + 1,
                                .seq = row->number,
                                .aux = is_node && row->number ? 1 : 0};
        if (is_node) {
            host.name = row->number ? ENGINE "OpBackward0" : ACCUMULATE;
        } else if (row->number == 0) {
            host.category = PY;
            host.name = names[row->name];
        }
        facts_fixture_host(&f, &host, 1);
        FACTS_DEVICE(&f,
                     {0, 7, KERNEL, "k", (int64_t)(300 + 10 * i), row->device, 0, (int64_t)i + 1});
    }
    facts_fixture_compute(&f, NULL);
}

static void path_of_fact(int64_t row, char text[PATH_SIZE])
{
    const struct ks_module_fact *fact = &f.facts.modules[row];
    text[0] = '\0';
    if (fact->parent != KS_UNKNOWN) {
        assert_true(fact->parent < row);
        path_of_fact(fact->parent, text);
    }
    size_t used = strlen(text);
    snprintf(text + used, PATH_SIZE - used, "/%.*s", (int)fact->name.len, fact->name.ptr);
}

static void compare(struct twin *twin, uint64_t seed)
{
    assert_int_equal(f.facts.module_count, twin->path_count);
    for (size_t i = 0; i < f.facts.module_count; i++) {
        const struct ks_module_fact *fact = &f.facts.modules[i];
        char text[PATH_SIZE];
        path_of_fact((int64_t)i, text);
        const struct path *want = find_path(twin, text);
        bool is_known = fact->backward_ns != KS_UNKNOWN;
        bool is_right = fact->calls == want->calls && fact->forward_ns == want->forward &&
                        fact->forward_self_ns == want->self &&
                        fact->forward_self_device_ns == want->device &&
                        (!is_known || (fact->backward_self_ns == want->backward &&
                                       fact->backward_self_device_ns == want->backward_device));
        if (!is_right) {
            fail_msg("seed %llu, %s: calls %lld/%lld self %lld/%lld backward %lld/%lld device "
                     "%lld/%lld",
                     (unsigned long long)seed, text, (long long)fact->calls, (long long)want->calls,
                     (long long)fact->forward_self_ns, (long long)want->self,
                     (long long)fact->backward_self_ns, (long long)want->backward,
                     (long long)fact->forward_self_device_ns, (long long)want->device);
        }
    }
}

static void test_random(void **state)
{
    (void)state;
    static struct twin twin;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        draw(&twin, seed);
        calculate_forward(&twin);
        calculate_backward(&twin);
        build(&twin, seed % 2 ? 0 : 8);
        compare(&twin, seed);
        facts_fixture_release(&f);
    }
}

/* Every list of one number is searched at most so far; then the last one is taken. */
static void test_many_threads_with_one_number(void **state)
{
    (void)state;
    struct ks_forward_ops ops;
    uint32_t index = 0;
    ks_forward_ops_init(&ops);
    for (uint32_t lane = 1; lane <= 1000; lane++) {
        struct ks_forward_op op = {.start_ns = lane, .lane = lane};
        assert_int_equal(ks_forward_ops_note(&ops, 5, &op, &index, NULL), KS_OK);
    }
    assert_int_equal(ks_forward_ops_find(&ops, 1, 5, NULL, KS_STR(""), &index, NULL), KS_OK);
    assert_int_equal(ops.items[index].lane, 1000);
    assert_int_equal(ks_forward_ops_find(&ops, 1, 6, NULL, KS_STR(""), &index, NULL), KS_OK);
    assert_true(index == KS_FORWARD_NONE);
    ks_forward_ops_release(&ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_recomputed),
        cmocka_unit_test(test_time_between_passes),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_two_threads_by_name),
        cmocka_unit_test(test_scope),
        cmocka_unit_test(test_what_is_unknown),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_many_threads_with_one_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
