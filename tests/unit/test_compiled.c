/* Goal: breaks in compiled functions, functions that were given up, and graphs that are launched
 * kernel by kernel are found, and nothing where the program did not ask for more. Method: steps of
 * a few rows in the forms that torch 2.11 writes, each with one thing that makes it none. */
#include <string.h>

#include "cmocka_all.h"
#include "replay_fixture.h"

enum { MAIN = 1, BACKWARD = 2 };

#define WRAPPER "torch/_dynamo/eval_frame.py(956): compile_wrapper"
#define REGION "Torch-Compiled Region: 0/0"
#define LOOKUP "TorchDynamo Cache Lookup"
#define GRAPH "## Call CompiledFxGraph fabc ##"

static int64_t graphs_skipped;
static const char *reason;

static void note_source(void)
{
    struct ks_err err = {0};
    f.source->compiler.graphs_skipped = graphs_skipped;
    if (reason) {
        assert_int_equal(ks_trace_builder_intern(f.builder, ks_str_from(reason),
                                                 &f.source->graph_break_reason, &err),
                         KS_OK);
    }
}

/* Runs the rules on STEPS steps of `period` us: this one finds something, or nothing. */
static void check_rule(enum rule_case kind, layout *add, int64_t period, const char *id)
{
    facts_fixture_init(&f, 0, 0);
    note_source();
    add_steps(add, period);
    run_rule(kind, id);
}

/* An operator of `us` that launches, and its node in the backward pass if `node` is not 0. */
static void operator(int64_t at, int64_t corr, const char *name, int64_t from, int64_t us,
                     int64_t node)
{
    int64_t seq = node != 0 ? at + corr : 0;
    HOST({MAIN, OP, name, from, us, .seq = seq},
         {MAIN, CALL, "cudaLaunchKernel", from + us - 4, 4, .corr = corr});
    DEVICE({0, 7, KERNEL, "elementwise", from + us, 2, corr});
    if (node != 0) {
        HOST({BACKWARD, OP, "autograd::engine::evaluate_function: MulBackward0", node, us,
              .seq = seq},
             {BACKWARD, CALL, "cudaLaunchKernel", node + us - 4, 4, .corr = corr + 500});
        DEVICE({0, 7, KERNEL, "elementwise", node + us, 2, corr + 500});
    }
}

/* ------------------------------------------------------------ breaks */

/* 0/0 has a graph, an operator in none, and a piece of its own with another graph. */
static void broken(int64_t at, int64_t corr)
{
    HOST({MAIN, OP, LOOKUP, 10, 20}, {MAIN, OP, REGION, 30, 470}, {MAIN, NOTE, GRAPH, 60, 40},
         {MAIN, OP, LOOKUP, 250, 40}, {MAIN, OP, "Torch-Compiled Region: 1/0", 290, 200},
         {MAIN, NOTE, GRAPH, 400, 50});
    operator(at, corr, "triton_poi_fused_0", 62, 20, 0);
    operator(at, corr + 1, "aten::mul", 120, 100, 600);
    operator(at, corr + 2, "triton_poi_fused_1", 402, 20, 0);
    operator(at, corr + 3, "aten::sum", 520, 20, 0);
}

/* The same without a piece: two functions, one behind the other. */
static void side_by_side(int64_t at, int64_t corr)
{
    HOST({MAIN, OP, LOOKUP, 10, 20}, {MAIN, OP, REGION, 30, 70}, {MAIN, NOTE, GRAPH, 60, 40},
         {MAIN, OP, LOOKUP, 250, 40}, {MAIN, OP, "Torch-Compiled Region: 1/0", 290, 200},
         {MAIN, NOTE, GRAPH, 400, 50});
    operator(at, corr, "triton_poi_fused_0", 62, 20, 0);
    operator(at, corr + 1, "aten::mul", 120, 100, 600);
    operator(at, corr + 2, "triton_poi_fused_1", 402, 20, 0);
}

static void broken_once(int64_t at, int64_t corr)
{
    (at == 0 ? broken : side_by_side)(at, corr);
}

static void test_breaks(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    add_steps(broken, 800);
    facts_fixture_compute(&f, NULL);
    const struct ks_compiled_cost *cost = &f.facts.work.compiled;
    assert_true(cost->regions > 0.99 && cost->regions < 1.01);
    assert_true(cost->breaks > 0.99 && cost->breaks < 1.01);
    assert_true(cost->eager.count > 1.99 && cost->eager.count < 2.01);
    assert_int_equal(cost->eager.host_ns, 200 * US);
    assert_int_equal(cost->glue.host_ns, 150 * US); /* 250 .. 400 */
    assert_int_equal(cost->replays.step_count, 0);
    assert_true(cost->single.launches > 1.99 && cost->single.launches < 2.01);
    facts_fixture_release(&f);
}

/* Entering takes 150 us, operators and nodes 200. */
static void test_breaks_rule(void **state)
{
    (void)state;
    check_rule(RULE_FIRES, broken, 800, "compile.graph_breaks");
    check_saving_us(180, 215, 320, 355);
    assert_string_equal(found.op, "aten::mul");
    assert_null(strstr(found.text, "The compiler says"));
    reason = "Call to `print`";
    check_rule(RULE_FIRES, broken, 800, "compile.graph_breaks");
    assert_non_null(strstr(found.text, "The compiler says: \"Call to `print`\"."));
    reason = NULL;
    check_rule(RULE_SILENT, side_by_side, 800, "compile.graph_breaks");
    check_rule(RULE_NEAR_MISS, broken_once, 800, "compile.graph_breaks");
    check_rule(RULE_FIRES, broken, 5350, "compile.graph_breaks"); /* 5 % */
    check_rule(RULE_NEAR_MISS, broken, 5500, "compile.graph_breaks");
}

/* ------------------------------------------------------------ given up */

static const char *frame = WRAPPER;

/* Half of the launches are in the call, with their nodes. */
static void given_up(int64_t at, int64_t corr)
{
    HOST({MAIN, PY, frame, 5, 225, .aux = 1});
    for (int64_t i = 0; i < 2; i++) {
        operator(at, corr + i, "aten::mul", 10 + 110 * i, 100, 500 + 110 * i);
        operator(at, corr + 2 + i, "aten::add", 240 + 110 * i, 100, 720 + 110 * i);
    }
}

static void compiled(int64_t at, int64_t corr)
{
    given_up(at, corr);
    HOST({MAIN, OP, REGION, 8, 220});
}

static void test_given_up(void **state)
{
    (void)state;
    check_rule(RULE_FIRES, given_up, 950, "compile.graph_breaks");
    check_saving_us(110, 150, 420, 480);
    assert_string_equal(found.op, "aten::mul");
    assert_non_null(strstr(found.text, "50 % of all launches"));
    frame = "torch/_dynamo/eval_frame.py(1240): _fn"; /* of functions that must not be compiled */
    check_rule(RULE_NEAR_MISS, given_up, 950, "compile.graph_breaks");
    frame = WRAPPER;
    check_rule(RULE_SILENT, compiled, 950, "compile.graph_breaks");
}

/* ------------------------------------------------------------ graphs */

static int64_t forward_launches = 10;
static bool backward_replays = true;

static void graphs(int64_t at, int64_t corr)
{
    HOST({MAIN, OP, REGION, 10, 420}, {MAIN, OP, "CompiledFunction", 20, 400},
         {MAIN, NOTE, GRAPH, 30, 380}, {BACKWARD, OP, "CompiledFunctionBackward", 500, 60});
    for (int64_t i = 0; i < forward_launches; i++) {
        HOST({MAIN, CALL, "cuLaunchKernel", 40 + 36 * i, 4, .corr = corr + i});
        DEVICE({0, 7, KERNEL, "triton_poi_fused_0", 46 + 36 * i, 3, corr + i});
    }
    HOST({BACKWARD, CALL, backward_replays ? "cudaGraphLaunch" : "cuLaunchKernel", 510, 20,
          .corr = corr + 100});
    DEVICE({0, 7, KERNEL, "triton_poi_fused_1", 535, 10, corr + 100});
}

static void graphs_with_trees(int64_t at, int64_t corr)
{
    graphs(at, corr);
    HOST({MAIN, PY, "torch/_inductor/cudagraph_trees.py(2109): run", 22, 390, .aux = 1});
}

/* The replayed one takes 60 us, in place of 380. */
static void test_graphs(void **state)
{
    (void)state;
    check_rule(RULE_FIRES, graphs, 600, "compile.graphs_skipped");
    check_saving_us(300, 330, 300, 350);
    assert_non_null(strstr(found.text, "perf_hints"));
    forward_launches = 7;
    check_rule(RULE_NEAR_MISS, graphs, 600, "compile.graphs_skipped");
    forward_launches = 10;
    backward_replays = false; /* nothing was asked for, as far as anybody knows */
    check_rule(RULE_SILENT, graphs, 600, "compile.graphs_skipped");
    check_rule(RULE_FIRES, graphs_with_trees, 600, "compile.graphs_skipped");
    graphs_skipped = 1;
    check_rule(RULE_FIRES, graphs, 600, "compile.graphs_skipped");
    check_rule(RULE_FIRES, graphs, 1360, "compile.graphs_skipped"); /* 5 % */
    check_rule(RULE_NEAR_MISS, graphs, 1410, "compile.graphs_skipped");
    graphs_skipped = 0;
    backward_replays = true;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_breaks),
        cmocka_unit_test(test_breaks_rule),
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
