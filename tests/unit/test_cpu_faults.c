/* Goal: rules that a GPU was needed for find the same faults without one, and stay silent where the
 * evidence is short of the claim. Method: steps by hand; bounds of savings are golden cases. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "advise/findings.h"
#include "base/err.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

#define MS *(int64_t)1000000
#define US *(int64_t)1000

enum { CALLS = 4 };

static struct facts_fixture f;
static struct ks_findings findings;

static void release(void)
{
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

static const struct ks_finding *advise(const char *id, enum rule_case kind)
{
    facts_fixture_advise(&f, &findings);
    return rule_case(&findings, id, kind);
}

static const char *reason_of(const char *id)
{
    for (size_t i = 0; i < findings.check_count; i++) {
        if (strcmp(findings.checks[i].rule->id, id) == 0) {
            return findings.checks[i].reason;
        }
    }
    return "";
}

static void add_step(int64_t number, int64_t at_ns, int64_t dur_ns)
{
    char name[32];
    snprintf(name, sizeof(name), "ProfilerStep#%d", (int)number);
    FACTS_HOST(&f, {1, NOTE, name, at_ns, dur_ns});
}

/* ------------------------------------------------------------ inference.unbatched */

/* Small operators of a call. */
struct layer {
    const char *name, *dims;
};
static const struct layer product = {"aten::mul", "[[1, 7, 16], []]"};
static const struct layer convolution = {"aten::conv1d", "[[1, 16, 7], [16, 1, 3], []]"};

/* Steps of 400 us with so many calls for a text of 7 tokens, each followed by eight small
 * operators; `join` puts the results together, and topk gets `joined` of them. */
static void add_texts(int64_t step, int64_t calls, const struct layer *layer, const char *join,
                      const char *joined)
{
    int64_t at = step * 400 US;
    add_step(step, at, 400 US);
    for (int64_t i = 0; i < calls; i++) {
        int64_t call = at + i * 80 US;
        FACTS_HOST(&f,
                   {1, OP, "aten::embedding", call, 10 US, .dims = "[[50, 16], [1, 7], [], []]"});
        for (int64_t small = 0; small < 8; small++) {
            FACTS_HOST(&f,
                       {1, OP, layer->name, call + (10 + 5 * small) US, 5 US, .dims = layer->dims});
        }
    }
    if (join) {
        FACTS_HOST(&f, {1, OP, join, at + 350 US, 5 US, .dims = "[[], []]"},
                   {1, OP, "aten::topk", at + 360 US, 40 US, .dims = joined});
    }
}

static const struct ks_finding *infer(int64_t first_calls, const char *join, const char *joined,
                                      enum rule_case kind)
{
    facts_fixture_init(&f, 0, 0);
    f.source->record_shapes = true;
    for (int64_t step = 0; step < 5; step++) {
        add_texts(step, step == 0 ? first_calls : CALLS, &product, join, joined);
    }
    return advise("inference.unbatched", kind);
}

static void test_joined_results(void **state)
{
    (void)state;
    const struct ks_finding *finding = infer(CALLS, "aten::cat", "[[4, 16], []]", RULE_FIRES);
    assert_true(facts_fixture_evidence(finding, "could_go_together") == CALLS);
    assert_true(facts_fixture_evidence(finding, "calls_per_step") == CALLS);
    assert_int_equal(finding->saving.high_ns, 300 US); /* all but one call of four */
    assert_non_null(strstr(finding->fix_text, "their results are joined"));
    release();
    assert_non_null(infer(CALLS, "aten::stack", "[[4], []]", RULE_FIRES));
    release();
}

/* Layers that look alike are called more often than the model; its table counts inputs. */
static void test_joined_results_of_like_layers(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    f.source->record_shapes = true;
    for (int64_t step = 0; step < 5; step++) {
        add_texts(step, CALLS, &convolution, "aten::cat", "[[4, 16], []]");
    }
    const struct ks_finding *finding = advise("inference.unbatched", RULE_FIRES);
    assert_true(facts_fixture_evidence(finding, "could_go_together") == CALLS);
    assert_true(facts_fixture_evidence(finding, "calls_per_step") == CALLS);
    struct ks_str op = ks_trace_str(f.facts.trace, finding->where.op);
    assert_true(ks_str_equal(op, KS_STR("aten::embedding")));
    release();
}

/* The recording began between two calls: the first join is of more than it saw. */
static void test_join_of_calls_before_the_recording(void **state)
{
    (void)state;
    const struct ks_finding *finding = infer(2, "aten::cat", "[[4, 16], []]", RULE_FIRES);
    assert_true(facts_fixture_evidence(finding, "calls_per_step") == 4 * CALLS / 5.0);
    release();
}

static void test_results_that_may_be_waited_for(void **state)
{
    (void)state;
    assert_null(infer(CALLS, NULL, NULL, RULE_SILENT));
    release();
    assert_null(infer(CALLS, "aten::cat", "[[3, 16], []]", RULE_NEAR_MISS)); /* other tensors */
    release();
}

/* ------------------------------------------------------------ noise of step times */

/* The saving is opened by so much of both times: that of the faulty step, and of what is left. */
static void check_noise(int64_t unprofiled_ns, int64_t spread_ns, double noise)
{
    facts_fixture_init(&f, 0, 0);
    f.source->record_shapes = true;
    f.source->unprofiled_step_ns = unprofiled_ns;
    f.source->unprofiled_spread_ns = spread_ns;
    for (int64_t step = 0; step < 5; step++) {
        add_texts(step, CALLS, &product, "aten::cat", "[[4, 16], []]");
    }
    const struct ks_finding *finding = advise("inference.unbatched", RULE_FIRES);
    assert_true(fabs(f.facts.step_noise - noise) < 1e-12);
    const struct ks_saving *alone = &finding->saving_alone;
    double left = 400e3 - (double)(alone->low_ns + (alone->high_ns - alone->low_ns) / 2);
    int64_t open_ns = llround(noise * hypot(400e3, left));
    int64_t high_ns = alone->high_ns + open_ns;
    assert_int_equal(finding->saving.low_ns, alone->low_ns - open_ns);
    assert_int_equal(finding->saving.high_ns, high_ns < 400 US ? high_ns : 400 US);
    release();
}

/* Half of the steps behind the window differ by a tenth. */
static void test_steps_that_differ(void **state)
{
    (void)state;
    check_noise(400 US, 40 US, 0.1);
}

/* Those of 400 us in the window are alike, and so are those behind it, which recording did not
 * make longer. Shorter ones are what recording costs. */
static void test_steps_that_became_longer(void **state)
{
    (void)state;
    check_noise(450 US, 9 US, 50.0 / 450);
    check_noise(450 US, 63 US, 63.0 / 450);
}

/* ------------------------------------------------------------ comm.redundant_sync */

/* Steps of 100 ms; after each of two micro-batches summing up takes 20 ms, and the thread waits. */
static const struct ks_finding *sum_up(const struct ks_process_use *use)
{
    facts_fixture_init(&f, 0, 0);
    f.source->process = *use;
    for (int64_t step = 0; step < 4; step++) {
        int64_t at = step * 100 MS;
        add_step(step, at, 100 MS);
        for (int64_t batch = at; batch < at + 80 MS; batch += 40 MS) {
            FACTS_HOST(&f, {1, NOTE, "DistributedDataParallel.forward", batch, 10 MS},
                       {1, OP, "aten::mm", batch, 10 MS},
                       {1, OP, "c10d::allreduce_", batch + 10 MS, 10 MS},
                       {2, NOTE, "gloo:all_reduce", batch + 20 MS, 20 MS});
        }
        FACTS_HOST(&f, {1, NOTE, "Optimizer.step#SGD.step", at + 80 MS, 20 MS},
                   {1, OP, "aten::add_", at + 80 MS, 20 MS});
    }
    return advise("comm.redundant_sync", RULE_FIRES);
}

/* One of two passes: 20 of 40 ms go, or 10. Of 400 ms the thread waits 80 for a core, and other
 * threads ran for 60: of 15 ms a step one half goes as well. */
static void test_collectives_that_take_cores(void **state)
{
    (void)state;
    static const struct ks_process_use nothing_known;
    const struct ks_process_use use = {
        .wall_ns = 400 MS, .cpu_ns = 300 MS, .thread_run_ns = 240 MS, .thread_wait_ns = 80 MS};
    const struct ks_finding *finding = sum_up(&nothing_known);
    assert_int_equal(finding->saving.low_ns, 10 MS);
    assert_int_equal(finding->saving.high_ns, 20 MS);
    release();
    finding = sum_up(&use);
    assert_int_equal(finding->saving.low_ns, 10 MS);
    assert_int_equal(finding->saving.high_ns, 27500 US);
    release();
}

/* ------------------------------------------------------------ optimizer.unfused */

static const struct ks_finding *optimize(const char *class, const char *version,
                                         enum rule_case kind)
{
    struct ks_err err = {0};
    facts_fixture_init(&f, 0, 0);
    assert_int_equal(
        ks_trace_builder_intern(f.builder, ks_str_from(version), &f.source->torch_version, &err),
        KS_OK);
    for (int64_t step = 0; step < 4; step++) {
        int64_t at = step * 10 MS;
        add_step(step, at, 10 MS);
        for (int64_t i = 0; i < 16; i++) {
            FACTS_HOST(&f, {1, OP, "aten::add_", at + i * 250 US, 250 US});
        }
        FACTS_HOST(&f, {1, NOTE, class, at, 4 MS}, {1, OP, "aten::mm", at + 4 MS, 6 MS});
    }
    return advise("optimizer.unfused", kind);
}

/* 4 ms of single operators, 32 us less for recording: 0.45 of that goes, or 0.91 of 4 ms. */
static void test_optimizer(void **state)
{
    (void)state;
    const struct ks_finding *finding = optimize("Optimizer.step#Adam.step", "2.4.1", RULE_FIRES);
    assert_int_equal(finding->saving.low_ns, 1785600);
    assert_int_equal(finding->saving.high_ns, 3640 US);
    assert_true(facts_fixture_evidence(finding, "operators") == 16);
    release();
    assert_null(optimize("Optimizer.step#Adam.step", "2.3.0", RULE_NEAR_MISS));
    release();
    /* Of large tensors a fused SGD gained nothing, and foreach is no repair without a GPU. */
    assert_null(optimize("Optimizer.step#SGD.step", "2.13.0", RULE_SILENT));
    release();
    assert_null(optimize("Optimizer.step#RMSprop.step", "2.13.0", RULE_SILENT));
    release();
}

/* ------------------------------------------------------------ compile.recompiles */

enum { STEPS = 13, EVERY = 4 };

/* Every fourth step compiles for 400 ms beside 100 ms of its own, for the first time or again. */
static const struct ks_finding *compile(int first_attempt, enum rule_case kind)
{
    int64_t at = 0;
    facts_fixture_init(&f, 0, 0);
    for (int step = 0; step < STEPS; step++) {
        bool is_compiling = step % EVERY == 2;
        int64_t dur_ns = is_compiling ? 500 MS : 100 MS;
        char mark[64];
        snprintf(mark, sizeof(mark), "dynamo_data: compile_id=0/%d", first_attempt + step / EVERY);
        add_step(step, at, dur_ns);
        if (is_compiling) {
            FACTS_HOST(&f, {1, NOTE, mark, at, 1 MS},
                       {1, OP, "_compile.compile_inner (dynamo_timed)", at, 400 MS});
        }
        FACTS_HOST(&f, {1, OP, "aten::mm", at + dur_ns - 100 MS, 100 MS});
        at += dur_ns;
    }
    return advise("compile.recompiles", kind);
}

static void test_few_steps_that_compile_again(void **state)
{
    (void)state;
    const struct ks_finding *finding = compile(1, RULE_FIRES);
    assert_true(facts_fixture_evidence(finding, "steps_that_compile") == 3);
    assert_null(rule_case(&findings, "host.periodic_stall", RULE_SILENT));
    assert_non_null(strstr(reason_of("host.periodic_stall"), "compile.recompiles"));
    release();
}

/* What compiles no function for a third time is what it looks like. */
static void test_few_steps_that_compile(void **state)
{
    (void)state;
    assert_null(compile(-1, RULE_NEAR_MISS));
    assert_non_null(rule_case(&findings, "host.periodic_stall", RULE_FIRES));
    release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joined_results),
        cmocka_unit_test(test_joined_results_of_like_layers),
        cmocka_unit_test(test_join_of_calls_before_the_recording),
        cmocka_unit_test(test_results_that_may_be_waited_for),
        cmocka_unit_test(test_steps_that_differ),
        cmocka_unit_test(test_steps_that_became_longer),
        cmocka_unit_test(test_collectives_that_take_cores),
        cmocka_unit_test(test_optimizer),
        cmocka_unit_test(test_few_steps_that_compile_again),
        cmocka_unit_test(test_few_steps_that_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
