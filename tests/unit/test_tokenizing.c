/* Goal: time of functions that cut text into tokens is told from other code between operators,
 * and input.tokenize_inline takes it from host.python_gap from half of the code on. Method: the
 * worked example of docs/analyses/tokenizing.md, on the CPU and with a GPU, and the same with one
 * thing that keeps it from being one. */
#include <string.h>

#include "advise/findings.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

enum { STEPS = 4, STEP_US = 10000, US = 1000 };

static const char *const names[] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3",
                                    "ProfilerStep#4"};

static struct facts_fixture f;
static struct ks_findings findings;

struct plan {
    const char *function; /* a frame from 1000 us on */
    int64_t encode_us;
    bool has_gpu;
    int64_t op_at;      /* where the operator begins that fills the rest; 0: at 6000 us, for 3000 */
    const char *around; /* an operator around all of it, or the loader; NULL none */
};

static void add_step(const struct plan *plan, int64_t index)
{
    int64_t at = index * STEP_US * US;
    int64_t op = plan->op_at > 0 ? plan->op_at : 6000;
    int64_t op_us = plan->op_at > 0 ? 9850 - op : 3000;
    int64_t frame = plan->op_at > 0 ? 50 : 1000;
    FACTS_HOST(&f, {1, NOTE, names[index], at, STEP_US * US});
    FACTS_HOST(&f, {1, PY, "train.py(9): main", at, STEP_US * US},
               {1, PY, plan->function, at + frame * US, plan->encode_us * US});
    if (plan->around) {
        FACTS_HOST(&f, {1, strncmp(plan->around, "enumerate", 9) == 0 ? NOTE : OP, plan->around, at,
                        5000 * US});
    }
    FACTS_HOST(
        &f, {1, PY, "train.py(40): log", at + 5000 * US, 1000 * US},
        {1, OP, "aten::embedding", at + op * US, op_us * US, .ext_id = 1 + 2 * index},
        {1, CALL, "cudaLaunchKernel", at + (op + 10) * US, 10 * US,
         .corr = plan->has_gpu ? 1 + index : 0},
        {1, OP, "aten::add", at + (op + op_us + 100) * US, 10 * US, .ext_id = 2 + 2 * index});
    if (plan->has_gpu) {
        FACTS_DEVICE(&f, {0, 7, KERNEL, "gemm", at + (op + 30) * US, 1000 * US, 1 + index});
    }
}

static void judge(const struct plan *plan)
{
    facts_fixture_init(&f, 0, 0);
    for (int64_t i = 0; i < STEPS; i++) {
        add_step(plan, i);
    }
    facts_fixture_advise(&f, &findings);
}

static void release(void)
{
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

static const struct plan example = {.function = "train.py(30): encode", .encode_us = 4000};

static const struct ks_finding *get(const char *id)
{
    return facts_fixture_finding(&findings, id);
}

static const struct ks_finding *expect(enum rule_case kind)
{
    return rule_case(&findings, "input.tokenize_inline", kind);
}

static void test_example(void **state)
{
    (void)state;
    judge(&example);
    const struct ks_tokenize_fact *fact = &f.facts.tokenizing;
    assert_true(fact->is_known);
    assert_int_equal(fact->calls, STEPS);
    assert_int_equal(fact->tokenize_ns, STEPS * 4000 * US);
    /* The tail of a step is a stretch of its own; nothing ends the last one. */
    assert_int_equal(fact->code_ns, STEPS * 6000 * US + (STEPS - 1) * 890 * US);
    assert_true(ks_str_equal(fact->file, KS_STR("train.py")));
    assert_true(ks_str_equal(fact->function, KS_STR("encode")));
    assert_int_equal(fact->line, 30);
    const struct ks_finding *finding = expect(RULE_FIRES);
    assert_null(get("host.python_gap"));
    if (finding) {
        assert_int_equal(finding->where.line, 30);
        assert_true(finding->saving.low_ns < finding->saving.high_ns);
        assert_in_range(finding->saving.high_ns, 4000 * US, 4400 * US);
    }
    release();
}

static void test_gpu(void **state)
{
    (void)state;
    struct plan plan = example;
    plan.has_gpu = true;
    judge(&plan);
    const struct ks_finding *finding = expect(RULE_FIRES);
    assert_null(get("host.python_gap"));
    if (finding) {
        assert_in_range(finding->saving_in_trace.high_ns, 3500 * US, 4500 * US);
        assert_true(finding->saving_in_trace.low_ns < finding->saving_in_trace.high_ns);
    }
    release();
}

/* Little else is between operators: so much of 10000 us. */
static void check_share(int64_t encode_us, enum rule_case kind)
{
    struct plan plan = example;
    plan.has_gpu = true;
    plan.encode_us = encode_us;
    plan.op_at = encode_us + 50;
    judge(&plan);
    expect(kind);
    release();
}

static void test_share(void **state)
{
    (void)state;
    check_share(580, RULE_FIRES); /* 513 of 10000 us */
    check_share(560, RULE_NEAR_MISS);
}

static void expect_gap(const struct plan *plan, enum rule_case kind)
{
    judge(plan);
    expect(kind);
    assert_non_null(get("host.python_gap"));
    release();
}

/* Code of all steps: 4 * 6000 + 3 * 890 us. */
static void test_half(void **state)
{
    (void)state;
    struct plan plan = example;
    plan.encode_us = 3334;
    judge(&plan);
    const struct ks_finding *finding = expect(RULE_FIRES);
    if (finding) { /* of a half with stacks: a third */
        assert_in_range(100 * finding->saving.low_ns / finding->saving.high_ns, 33, 33);
    }
    release();
    plan.encode_us = 3333;
    expect_gap(&plan, RULE_NEAR_MISS);
}

static void test_other_names(void **state)
{
    (void)state;
    static const char *const others[] = {
        "train.py(30): collate",
        "json/encoder.py(183): encode",
        "torch/nn/modules/module.py(1): encode",
        "transformers/modeling_bert.py(30): __call__",
        "<built-in method findall of re.Pattern object at 0x7>",
        "encode",
    };
    static const char *const tokenizers[] = {
        "train.py(30): tokenize_batch",
        "lib/python3.11/site-packages/transformers/tokenization_utils_base.py(2900): __call__",
        "transformers/tokenization_utils_fast.py(500): _batch_encode_plus",
        "<built-in method encode_batch of tokenizers.Tokenizer object at 0x7f>",
        "tiktoken/core.py(80): encode",
    };
    struct plan plan = example;
    for (size_t i = 0; i < KS_COUNT_OF(others); i++) {
        plan.function = others[i];
        expect_gap(&plan, RULE_SILENT);
    }
    for (size_t i = 0; i < KS_COUNT_OF(tokenizers); i++) {
        plan.function = tokenizers[i];
        judge(&plan);
        expect(RULE_FIRES);
        /* of a library: where the program calls it */
        assert_int_equal(f.facts.tokenizing.line, i == 0 ? 30 : 9);
        release();
    }
}

static void test_no_frames(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t at = i * STEP_US * US;
        FACTS_HOST(&f, {1, NOTE, names[i], at, STEP_US * US},
                   {1, OP, "aten::add", at + 6000 * US, 3000 * US});
    }
    facts_fixture_advise(&f, &findings);
    assert_false(f.facts.tokenizing.is_known);
    expect(RULE_SILENT);
    assert_non_null(get("host.python_gap"));
    release();
}

/* In an operator, or in the loader: other rules look at that. */
static void test_covered(void **state)
{
    (void)state;
    struct plan plan = example;
    plan.around = "aten::custom";
    judge(&plan);
    assert_int_equal(f.facts.tokenizing.tokenize_ns, 0);
    expect(RULE_SILENT);
    release();
    plan.around = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    judge(&plan);
    assert_int_equal(f.facts.tokenizing.tokenize_ns, 0);
    expect(RULE_SILENT);
    assert_non_null(get("input.starved"));
    release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),     cmocka_unit_test(test_gpu),
        cmocka_unit_test(test_half),        cmocka_unit_test(test_share),
        cmocka_unit_test(test_other_names), cmocka_unit_test(test_no_frames),
        cmocka_unit_test(test_covered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
