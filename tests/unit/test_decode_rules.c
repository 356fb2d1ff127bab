/* Goal: op work finds caches that are copied, prefixes that are computed again, inputs that go
 * alone and code between the iterations of an engine, as docs/analyses/op_work.md defines them, and
 * the rules report them from their thresholds on. Method: the page's examples, and each of them
 * with one thing that keeps it from being one. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "advise/findings.h"
#include "analyze/length_chains.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

enum { US = 1000, STEPS_MAX = 8, TEXT_MAX = 128, THREAD = 1 };

#define HALF "[\"c10::BFloat16\", \"c10::BFloat16\"]"

static const char *const names[STEPS_MAX] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3",
                                             "ProfilerStep#4", "ProfilerStep#5", "ProfilerStep#6",
                                             "ProfilerStep#7", "ProfilerStep#8"};

static struct facts_fixture f;
static struct ks_findings findings;
static int64_t next_corr;

/* ------------------------------------------------------------ steps */

/* Rows of a step that begins at `at` us. */
typedef void layout(int64_t at, int step);

static void add_op(int64_t at, const char *name, int64_t dur, const char *dims)
{
    const struct host_row row = {THREAD, OP, name, at * US, dur * US, .dims = dims, .types = HALF};
    facts_fixture_host(&f, &row, 1);
}

/* An operator of 10 us that launches `work` us of work, which starts at `start`. */
static void add_work(int64_t at, const char *name, const char *dims, int64_t start, int64_t work)
{
    int64_t corr = ++next_corr;
    add_op(at, name, 10, dims);
    const struct host_row call = {THREAD,        CALL,   "cudaLaunchKernel",
                                  (at + 2) * US, 2 * US, .corr = corr};
    facts_fixture_host(&f, &call, 1);
    const struct device_row kernel = {0,          7,         KERNEL, "kernel",
                                      start * US, work * US, corr,   .blocks_per_sm = 0.25};
    facts_fixture_device(&f, &kernel, 1);
}

/* An operator of `dur` us that copies 8 bytes and waits for that, 5 us before its end. */
static void add_read(int64_t at, int64_t dur, const char *way, const char *dims)
{
    int64_t corr = ++next_corr;
    add_op(at, "aten::to", dur, dims);
    const struct host_row calls[] = {
        {THREAD, CALL, "cudaMemcpyAsync", (at + 2) * US, 2 * US, .corr = corr},
        {THREAD, CALL, "cudaStreamSynchronize", (at + 5) * US, (dur - 6) * US}};
    facts_fixture_host(&f, calls, KS_COUNT_OF(calls));
    const struct device_row copy = {0, 7, MEMCPY, way, (at + dur - 6) * US, US, corr, .bytes = 8};
    facts_fixture_device(&f, &copy, 1);
}

static void to_host(int64_t at, int64_t dur)
{
    add_read(at, dur, "Memcpy DtoH (Device -> Pageable)", "[[4], []]");
}

static bool is_training;
static struct ks_gpu_info gpu = {.compute_major = 9};

static void compute(layout *add, int steps, int64_t period)
{
    facts_fixture_init(&f, 0, 0);
    f.source->record_shapes = true;
    f.source->gpus = &gpu;
    f.source->gpu_count = 1;
    next_corr = 0;
    for (int i = 0; i < steps; i++) {
        const struct host_row step = {THREAD, NOTE, names[i], i * period * US, period * US};
        facts_fixture_host(&f, &step, 1);
        add(i * period, i);
        if (is_training) {
            add_op(i * period + period - 2, "autograd::engine::evaluate_function: AddBackward0", 1,
                   NULL);
        }
    }
    facts_fixture_advise(&f, &findings);
}

static void release(void)
{
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

static struct ks_saving found;

static void check_rule(enum rule_case kind, layout *add, int steps, int64_t period, const char *id)
{
    compute(add, steps, period);
    const struct ks_finding *finding = rule_case(&findings, id, kind);
    if (finding) {
        found = finding->saving;
        assert_non_null(finding->fix_text);
        assert_non_null(finding->fix_code);
        assert_true(found.low_ns <= found.high_ns);
        assert_true(found.high_ns <= f.facts.mean_step.step_ns);
    }
    release();
}

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-6;
}

/* ------------------------------------------------------------ chains */

static void note(struct ks_length_chains *chains, uint64_t kind, int64_t length, uint32_t want)
{
    uint32_t index = UINT32_MAX;
    assert_int_equal(ks_length_chains_note(chains, kind, length, length + 1, &index, NULL), KS_OK);
    assert_int_equal(index, want);
}

static void test_chains(void **state)
{
    (void)state;
    struct ks_length_chains chains = {0};
    note(&chains, 5, 100, 0);
    note(&chains, 5, 100, 0); /* another layer */
    note(&chains, 6, 101, 1); /* other heads */
    note(&chains, 5, 40, 2);  /* another text */
    note(&chains, 5, 101, 0);
    note(&chains, 5, 41, 2);
    note(&chains, 5, 100, 3); /* lengths do not go back */
    assert_int_equal(chains.items[0].repeats, 1);
    assert_int_equal(chains.items[0].advances, 1);
    for (int64_t i = 0; i < KS_LENGTH_CHAINS_OPEN; i++) {
        note(&chains, 7, 10 * i, (uint32_t)(4 + i));
    }
    note(&chains, 5, 102, 4 + KS_LENGTH_CHAINS_OPEN); /* too many texts since */
    assert_int_equal(chains.open_count, KS_LENGTH_CHAINS_OPEN);
    ks_length_chains_release(&chains);
}

/* ------------------------------------------------------------ kv.concat */

static int64_t cat_us = 100;
static int cats = 2, grows = 1;
static const char *keys_dims = "[2, 4, 1, 16], [2, 4, %d, 16], [2, 4, %d, 16]";
static const char *attends = "aten::scaled_dot_product_attention";

/* Puts the length into each place of the text that has room for it. */
static void write_dims(char *dims, const char *text, int length)
{
    char *end = dims + TEXT_MAX - 16;
    for (*dims++ = '['; *text && dims < end;) {
        if (text[0] == '%') {
            dims += snprintf(dims, 12, "%d", length);
            text += 2;
        } else {
            *dims++ = *text++;
        }
    }
    (void)snprintf(dims, 2, "]");
}

/* Keys and values of 100 tokens and more are joined, looked at, and waited for. */
static void concat(int64_t at, int step)
{
    char dims[TEXT_MAX];
    write_dims(dims, keys_dims, 100 + grows * step);
    for (int i = 0; i < cats; i++) {
        add_work(at + 10 + 20 * i, "aten::cat", "[[], []]", at + 20 + cat_us * i, cat_us);
    }
    add_work(at + 10 + 20 * cats, attends, dims, at + 21 + cat_us * cats, 5);
    to_host(at + 30 + 20 * cats, 4 + cat_us * cats);
}

static void test_concat(void **state)
{
    (void)state;
    compute(concat, 4, 300);
    const struct ks_cache_cost *caches = &f.facts.work.caches;
    assert_true(is_near(caches->cost.count, 2));
    assert_int_equal(caches->cost.device_ns, 200 * US);
    assert_int_equal(caches->cost.host_ns, 20 * US);
    assert_int_equal(caches->length, 103);
    assert_true(is_near(caches->new_elements, 2 * 128));
    assert_true(is_near(caches->new_part, 4.0 / (100 + 101 + 102 + 103)));
    release();
    check_rule(RULE_FIRES, concat, 4, 300, "kv.concat");
    /* Of 200 us two times 5 (2) us stay, and a hundredth. */
    assert_true(found.low_ns >= 145 * US && found.low_ns <= 190 * US);
    assert_true(found.high_ns >= found.low_ns && found.high_ns <= 200 * US);
    keys_dims = "[2, 4, 1, 16], [2, 4, 16, %d]"; /* single operators */
    attends = "aten::matmul";
    check_rule(RULE_FIRES, concat, 4, 300, "kv.concat");
    keys_dims = "[2, 4, 1, 16], [2, 4, %d, 16], [2, 4, %d, 16]";
    attends = "aten::scaled_dot_product_attention";
}

/* Beside them cuDNN takes 20 ms of the host for a plan, which another layer finds. */
static void concat_and_plan(int64_t at, int step)
{
    static const char dims[] = "[[2, 4, 1, 16], [2, 4, 512, 16], [2, 4, 512, 16]]";
    concat(at, step);
    for (int i = 0; i < 2; i++) {
        int64_t from = at + 400 + 20100 * i;
        int64_t us = i == 0 ? 20000 : 40;
        add_op(from, "aten::_scaled_dot_product_cudnn_attention", us, dims);
        const struct host_row call = {
            THREAD, CALL, "cuLaunchKernelEx", (from + us - 8) * US, 2 * US, .corr = ++next_corr};
        const struct device_row kernel = {
            0, 7, KERNEL, "sdpa", (from + us) * US, 8 * US, next_corr, .blocks_per_sm = 0.25};
        facts_fixture_host(&f, &call, 1);
        facts_fixture_device(&f, &kernel, 1);
    }
}

/* 200 us of cats are less than 5 % of 20.8 ms, and much of the 0.8 without the plan. */
static void test_concat_behind_plans(void **state)
{
    (void)state;
    check_rule(RULE_FIRES, concat_and_plan, 4, 20800, "cudnn.retuning");
    check_rule(RULE_FIRES, concat_and_plan, 4, 20800, "kv.concat");
    assert_int_equal(found.low_ns, 0);
    assert_in_range(found.high_ns, 150 * US, 200 * US);
    check_rule(RULE_NEAR_MISS, concat, 4, 20800, "kv.concat");
    check_rule(RULE_NEAR_MISS, concat_and_plan, 4, 25000, "kv.concat");
}

static void test_no_concat(void **state)
{
    (void)state;
    check_rule(RULE_NEAR_MISS, concat, 2, 300, "kv.concat"); /* one token may be chance */
    grows = 0;
    check_rule(RULE_SILENT, concat, 4, 300, "kv.concat");
    grows = 1;
    is_training = true;
    check_rule(RULE_SILENT, concat, 4, 300, "kv.concat");
    is_training = false;
    check_rule(RULE_FIRES, concat, 4, 3180, "kv.concat"); /* 5 % */
    check_rule(RULE_NEAR_MISS, concat, 4, 3280, "kv.concat");
    cat_us = 2; /* 2 x 2 x 256 x 2000 x 100 bytes: far too much in that time */
    keys_dims = "[256, 20, 1, 100], [256, 20, %d, 100], [256, 20, %d, 100]";
    check_rule(RULE_SILENT, concat, 4, 50, "kv.concat");
    cat_us = 100;
    static const char *const others[] = {
        "[2, 4, %d, 16], [2, 4, %d, 16], [2, 4, %d, 16]", /* a prompt */
        "[2, 4, 1, 16], [2, 4, -7, 16]",                  /* nonsense */
        "[2, 4, 0, 16], [2, 4, %d, 16]",
        "[2, 1], [2, %d]",
        "[2, 4, 1, 16]",
        "",
    };
    for (size_t i = 0; i < KS_COUNT_OF(others); i++) {
        keys_dims = others[i];
        check_rule(RULE_SILENT, concat, 4, 300, "kv.concat");
    }
    keys_dims = "[2, 4, 1, 16], [2, 4, %d, 16], [2, 4, %d, 16]";
}

/* A step keeps 256 elements of 4 bytes and two allocations more: no growth of its own; but 16 KiB
 * more are. */
static int64_t kept_bytes;

static void concat_that_keeps(int64_t at, int step)
{
    concat(at, step);
    const struct memory_row row = {(at + 15) * US, kept_bytes, 0, 100 + (uint64_t)step};
    facts_fixture_memory(&f, &row, 1);
}

static void test_growth_of_caches(void **state)
{
    (void)state;
    gpu.memory_bytes = 1 << 26;
    kept_bytes = 2048;
    check_rule(RULE_SILENT, concat_that_keeps, 4, 300, "memory.growth");
    kept_bytes = 16384;
    check_rule(RULE_FIRES, concat_that_keeps, 4, 300, "memory.growth");
    kept_bytes = 2048;
    grows = 0;
    check_rule(RULE_FIRES, concat_that_keeps, 4, 300, "memory.growth");
    grows = 1;
    gpu.memory_bytes = 0;
}

/* ------------------------------------------------------------ kv.disabled */

static int64_t pass_us = 200;
static int tokens_more = 1, first_tokens = 1000;

/* All tokens so far, a product with 16 x 16 weights, attention, and a wait. */
static void prefix(int64_t at, int step)
{
    char dims[TEXT_MAX];
    int tokens = first_tokens + tokens_more * step;
    (void)snprintf(dims, sizeof(dims), "[[50, 16], [2, %d], [], [], []]", tokens);
    add_work(at + 10, "aten::embedding", dims, at + 20, 10);
    (void)snprintf(dims, sizeof(dims), "[[%d, 16], [16, 16]]", 2 * tokens);
    add_work(at + 30, "aten::mm", dims, at + 40, pass_us);
    (void)snprintf(dims, sizeof(dims), "[[2, 1, %d, 16], [2, 1, %d, 16], [2, 1, %d, 16]]", tokens,
                   tokens, tokens);
    add_work(at + 50, "aten::scaled_dot_product_attention", dims, at + 60 + pass_us, 10);
    to_host(at + 70, pass_us + 20);
}

static void test_prefix(void **state)
{
    (void)state;
    compute(prefix, 5, 400);
    const struct ks_prefix_cost *prefixes = &f.facts.work.prefixes;
    assert_true(is_near(prefixes->passes, 1));
    assert_int_equal(prefixes->length, 1004);
    assert_true(is_near(prefixes->weight_bytes, 2 * 256));
    assert_true(is_near(prefixes->cache_bytes, 2.0 * 2 * 2 * 16 * 1002)); /* on average */
    assert_int_equal(prefixes->step_count, 5);
    assert_int_equal(f.facts.work.pass_count, 5);
    release();
    check_rule(RULE_FIRES, prefix, 5, 400, "kv.disabled");
    assert_true(found.low_ns >= 120 * US && found.high_ns <= 230 * US);
}

static void test_no_prefix(void **state)
{
    (void)state;
    check_rule(RULE_NEAR_MISS, prefix, 3, 400, "kv.disabled");
    tokens_more = 0;
    check_rule(RULE_SILENT, prefix, 5, 400, "kv.disabled");
    tokens_more = 2;
    check_rule(RULE_SILENT, prefix, 5, 400, "kv.disabled");
    tokens_more = 1;
    first_tokens = 4;
    check_rule(RULE_SILENT, prefix, 5, 400, "kv.disabled");
    first_tokens = 1000;
    is_training = true;
    check_rule(RULE_SILENT, prefix, 5, 400, "kv.disabled");
    is_training = false;
    pass_us = 20;
    check_rule(RULE_FIRES, prefix, 5, 560, "kv.disabled"); /* 5 % */
    check_rule(RULE_NEAR_MISS, prefix, 5, 590, "kv.disabled");
    pass_us = 200;
}

/* ------------------------------------------------------------ inference.unbatched */

static const char *source_dims = "[[32, 7], [], [], [], []]", *ids_dims = "[[50, 16], [1, 7]]";
static const char *source_op = "aten::slice";
static bool are_read;
static int64_t alone_us = 5;

/* One text of 32: a launch of 5 us, and code of 40 us. */
static void alone(int64_t at, int step)
{
    (void)step;
    if (strcmp(source_op, "aten::to") == 0) {
        add_read(at + 5, 14, "Memcpy HtoD (Pageable -> Device)", source_dims);
    } else {
        add_op(at + 5, source_op, 2, source_dims);
    }
    add_work(at + 20, "aten::embedding", ids_dims, at + 30, alone_us);
    add_work(at + 40, "aten::mm", "[[7, 16], [16, 16]]", at + 50, alone_us);
    if (are_read) {
        to_host(at + 70, 20);
    }
}

/* Two of them in a step. */
static void alone_twice(int64_t at, int step)
{
    alone(at, step);
    alone(at + 100, step);
}

static void alone_four_times(int64_t at, int step)
{
    alone_twice(at, step);
    alone_twice(at + 200, step);
}

static void test_alone(void **state)
{
    (void)state;
    compute(alone, 4, 100);
    const struct ks_single_cost *singles = &f.facts.work.singles;
    assert_true(is_near(singles->calls, 1));
    assert_int_equal(singles->together, 32);
    assert_true(singles->are_taken);
    assert_int_equal(singles->step_count, 4);
    release();
    check_rule(RULE_FIRES, alone, 4, 100, "inference.unbatched");
    are_read = true; /* what lies in one tensor is there at once, whoever waits */
    check_rule(RULE_FIRES, alone, 4, 100, "inference.unbatched");
    are_read = false;
    check_rule(RULE_NEAR_MISS, alone, 3, 100, "inference.unbatched"); /* three calls */
    source_op = "aten::unbind";
    check_rule(RULE_FIRES, alone, 4, 100, "inference.unbatched");
    source_op = "aten::slice";
    alone_us = 30;
    check_rule(RULE_FIRES, alone, 4, 100, "inference.unbatched");
    alone_us = 31; /* the GPU works for more than half of the step */
    check_rule(RULE_NEAR_MISS, alone, 4, 100, "inference.unbatched");
    alone_us = 5;
    is_training = true;
    check_rule(RULE_SILENT, alone, 4, 100, "inference.unbatched");
    is_training = false;
    ids_dims = "[[50, 16], [2, 7]]"; /* two at a time */
    check_rule(RULE_SILENT, alone, 4, 100, "inference.unbatched");
    ids_dims = "[[50, 16], [1, 7]]";
}

/* From the host, or from nowhere that is known. */
static void test_alone_from_host(void **state)
{
    (void)state;
    source_op = "aten::to";
    source_dims = "[[1, 7], []]";
    check_rule(RULE_FIRES, alone, 4, 100, "inference.unbatched");
    are_read = true; /* one user, who waits for each answer */
    check_rule(RULE_SILENT, alone, 4, 100, "inference.unbatched");
    check_rule(RULE_SILENT, alone_twice, 4, 200, "inference.unbatched");
    check_rule(RULE_FIRES, alone_four_times, 4, 400, "inference.unbatched");
    are_read = false;
    source_op = "aten::add";
    check_rule(RULE_FIRES, alone, 4, 100, "inference.unbatched");
    ids_dims = "[[50, 16], [1, 1]]"; /* token by token */
    check_rule(RULE_SILENT, alone, 4, 100, "inference.unbatched");
    ids_dims = "[[50, 16], [1, 7]]";
    source_op = "aten::cat"; /* token numbers may grow */
    source_dims = "[[], []]";
    check_rule(RULE_SILENT, alone, 4, 100, "inference.unbatched");
    source_op = "aten::slice";
    source_dims = "[[32, 7], [], [], [], []]";
}

/* ------------------------------------------------------------ serve.host_gap */

static int64_t gap_us = 100;
static const char *token_dims = "[[50, 16], [4, 1]]";

static int64_t product_us = 100;

/* An iteration of 200 us of the GPU, reading 4 tokens, and code. */
static void engine(int64_t at, int step)
{
    (void)step;
    add_work(at, "aten::embedding", token_dims, at + 10, 100);
    add_work(at + 20, "aten::mm", "[[4, 16], [16, 16]]", at + 110, product_us);
    to_host(at + 40, 80 + product_us);
    if (gap_us < 150) {
        add_op(at + 122 + product_us, "aten::zeros_like", 2,
               "[[4]]"); /* code of the host may use tensors */
    }
}

static void test_engine(void **state)
{
    (void)state;
    compute(engine, 4, 320);
    const struct ks_reading_cost *readings = &f.facts.work.readings;
    assert_true(is_near(readings->cost.count, 0.75)); /* the last one is followed by nothing */
    assert_int_equal(readings->gap_ns, 75 * US);
    release();
    check_rule(RULE_FIRES, engine, 4, 320, "serve.host_gap");
    assert_true(found.high_ns >= 60 * US && found.high_ns <= 120 * US);
    check_rule(RULE_NEAR_MISS, engine, 4, 230, "serve.host_gap"); /* under 20 us a gap */
    product_us = 1000;
    check_rule(RULE_FIRES, engine, 4, 1215, "serve.host_gap"); /* 5 % */
    check_rule(RULE_NEAR_MISS, engine, 4, 1205, "serve.host_gap");
    product_us = 100;
    token_dims = "[[50, 16], [4, 9]]"; /* whole texts */
    check_rule(RULE_SILENT, engine, 4, 320, "serve.host_gap");
    token_dims = "[[50, 16], [4, 1]]";
    is_training = true;
    check_rule(RULE_SILENT, engine, 4, 320, "serve.host_gap");
    is_training = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_concat),
        cmocka_unit_test(test_concat_behind_plans),
        cmocka_unit_test(test_no_concat),
        cmocka_unit_test(test_growth_of_caches),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_no_prefix),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_alone_from_host),
        cmocka_unit_test(test_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
