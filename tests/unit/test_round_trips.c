/* Goal: round trips are what docs/analyses/round_trips.md says, what only looks like one is none,
 * and the rule keeps its bounds. Method: the page's example; then one change to it a case. */
#include <math.h>
#include <string.h>

#include "advise/findings.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

static struct facts_fixture f;

enum { STEPS = 2, US = 1000, STEP = 10000 * US, ROWS_MAX = 8 };

static const char *const shape = "[[64, 100], [], []]";

/* What the host does between the copies, and how the example is changed. */
struct trip_case {
    const char *why;
    int64_t count; /* of trips in a step */
    struct host_row rows[ROWS_MAX];
    const char *bring;         /* operator that copies to the host; NULL: aten::to */
    const char *extra;         /* shapes of a further copy to the device, before; NULL: none */
    const char *back;          /* shapes of the copy to the device; NULL: [64, 5] */
    const char *up;            /* its name; NULL: from pageable memory */
    int64_t tid;               /* its thread; 0: the same */
    bool has_no_shapes;        /* neither do the copies */
    bool has_no_launch_before; /* the GPU's first work comes after the trip */
    bool has_no_work_behind;   /* ... and the next only in the next step */
};

#define HOST(...) FACTS_HOST(&f, __VA_ARGS__)
#define DEVICE(...) FACTS_DEVICE(&f, __VA_ARGS__)

/* A step of the example: 10 ms, times in us from its start. */
static void add_step(const struct trip_case *c, const char *name, int64_t at, int64_t corr)
{
    int64_t tid = c->tid ? c->tid : 1;
    HOST({1, NOTE, name, at, STEP});
    if (!c->has_no_launch_before) {
        HOST({1, OP, "aten::mm", at + 200 * US, 600 * US},
             {1, CALL, "cudaLaunchKernel", at + 400 * US, 200 * US, .corr = corr});
        DEVICE({0, 7, KERNEL, "gemm", at + 1000 * US, 1000 * US, corr});
    }
    HOST({1, OP, c->bring ? c->bring : "aten::to", at + 1000 * US, 1600 * US,
          .dims = c->has_no_shapes ? NULL : shape},
         {1, CALL, "cudaMemcpyAsync", at + 1200 * US, 1200 * US, .corr = corr + 1});
    DEVICE({0, 7, MEMCPY, "Memcpy DtoH (Device -> Pageable)", at + 2000 * US, 200 * US, corr + 1,
            .bytes = 25600});
    for (size_t i = 0; i < ROWS_MAX && c->rows[i].name; i++) {
        struct host_row row = c->rows[i];
        row.start_ns = at + row.start_ns * US;
        row.dur_ns *= US;
        row.tid = row.tid ? row.tid : 1;
        row.corr = row.corr ? corr + row.corr : 0;
        facts_fixture_host(&f, &row, 1);
    }
    if (c->extra) {
        HOST({1, OP, "aten::to", at + 5710 * US, 50 * US, .dims = c->extra},
             {1, CALL, "cudaMemcpyAsync", at + 5720 * US, 20 * US, .corr = corr + 5});
        DEVICE({0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", at + 5800 * US, 10 * US, corr + 5,
                .bytes = 1280});
    }
    HOST({tid, OP, "aten::to", at + 5800 * US, 800 * US,
          .dims = c->has_no_shapes ? NULL
                  : c->back        ? c->back
                                   : "[[64, 5], [], []]"},
         {tid, CALL, "cudaMemcpyAsync", at + 6000 * US, 400 * US, .corr = corr + 2});
    DEVICE({0, 7, MEMCPY, c->up ? c->up : "Memcpy HtoD (Pageable -> Device)", at + 6200 * US,
            100 * US, corr + 2, .bytes = 2560});
    if (!c->has_no_work_behind) {
        HOST({1, OP, "aten::mul", at + 6800 * US, 600 * US},
             {1, CALL, "cudaLaunchKernel", at + 7000 * US, 200 * US, .corr = corr + 3});
        DEVICE({0, 7, KERNEL, "mul", at + 7500 * US, 1000 * US, corr + 3});
    }
}

static void build(const struct trip_case *c, bool has_backward)
{
    facts_fixture_init(&f, 0, 0);
    f.source->record_shapes = !c->has_no_shapes;
    for (int64_t i = 0; i < STEPS; i++) {
        add_step(c, i ? "ProfilerStep#2" : "ProfilerStep#1", i * STEP, 1 + 8 * i);
        if (has_backward) {
            HOST({1, NOTE, "Optimizer.step#SGD.step", i * STEP + 9000 * US, 100 * US});
        }
    }
    facts_fixture_compute(&f, NULL);
}

static const struct trip_case example = {
    .why = "the page's example",
    .count = 1,
    .rows = {{0, OP, "aten::softmax", 2800, 600, .dims = "[[64, 100], [], []]"},
             {0, OP, "aten::_softmax", 2900, 400, .dims = "[[64, 100], [], []]"},
             {0, OP, "aten::topk", 3600, 2000, .dims = "[[64, 100], [], []]"}},
};

static void test_example(void **state)
{
    (void)state;
    build(&example, true);
    assert_int_equal(f.facts.round_trip_count, 1);
    const struct ks_round_trip *trip = &f.facts.round_trips[0];
    assert_true(ks_str_equal(ks_trace_str(f.trace, trip->op), KS_STR("aten::to")));
    assert_true(ks_str_equal(ks_trace_str(f.trace, trip->longest), KS_STR("aten::topk")));
    assert_int_equal(trip->longest_ns, 2000 * US);
    assert_int_equal(trip->count, 2);
    assert_int_equal(trip->complete_count, 2);
    assert_int_equal(trip->step_count, 2);
    assert_int_equal(trip->steps[1], 2);
    assert_int_equal(trip->operators, 2 * 2); /* _softmax is a part of softmax */
    assert_int_equal(trip->work_ns, 2 * 2600 * US);
    assert_int_equal(trip->wait_ns, 2 * 1600 * US);
    assert_int_equal(trip->idle_ns, 2 * 5200 * US); /* 2200..7500 without the copy back */
    assert_int_equal(trip->copy_ns, 2 * 300 * US);
    assert_int_equal(trip->bytes_down, 2 * 25600);
    assert_int_equal(trip->bytes_up, 2 * 2560);
    assert_non_null(trip->site);
    assert_int_equal(trip->site->bytes, 2 * 25600);
    const struct ks_trip_cost *mean = &f.facts.mean_step.trips;
    assert_true(fabs(mean->count - 1) < 1e-9 && fabs(mean->operators - 2) < 1e-9);
    assert_int_equal(mean->idle_ns, 5200 * US);
    assert_int_equal(mean->work_ns, 2600 * US);
    assert_int_equal(mean->copy_ns, 300 * US);
    assert_ptr_equal(mean->worst, trip);
    facts_fixture_release(&f);
}

/* ------------------------------------------------------------ what is one, and what is not */

#define SOFTMAX                                                                                    \
    {                                                                                              \
        0, OP, "aten::softmax", 2800, 600, .dims = "[[64, 100], [], []]"                           \
    }
#define TOPK                                                                                       \
    {                                                                                              \
        0, OP, "aten::topk", 3600, 2000, .dims = "[[64, 100], [], []]"                             \
    }
#define ARGMAX                                                                                     \
    {                                                                                              \
        0, OP, "aten::argmax", 2800, 600, .dims = "[[64, 100], [], []]"                            \
    }

#define TO_NUMPY                                                                                   \
    {                                                                                              \
        0, OP, "aten::resolve_neg", 2700, 10, .dims = "[[64, 100]]"                                \
    }

static const struct trip_case cases[] = {
    {"views hand on what they are given", 1,
     .rows = {SOFTMAX, TOPK, {0, OP, "aten::select", 5700, 20, .dims = "[[64, 5], [], []]"}},
     .back = "[[64]]"},
    {"a tensor made there receives it", 1,
     .rows = {SOFTMAX,
              {0, OP, "aten::zeros", 3500, 50, .dims = "[[], []]"},
              {0, OP, "aten::scatter_", 3600, 100, .dims = "[[64, 100], [], [64, 5], []]"}},
     .back = "[[64, 100]]"},
    {"an operator of another library", 1,
     .rows = {{0, OP, "torchvision::nms", 2800, 900, .dims = "[[64, 100], [64], []]"}},
     .back = "[[64, 7]]"},
    {"wrappers are looked into", 1,
     .rows = {{0, OP, "Torch-Compiled Region: 0/0", 2700, 3000}, SOFTMAX, TOPK}},
    {"so is the autograd engine", 1,
     .rows = {{0, OP, "autograd::engine::evaluate_function: F", 2700, 3000}, SOFTMAX, TOPK}},
    {"a shape of the chain is known again", 1,
     .rows = {TOPK,
              {0, OP, "aten::eq", 5610, 20, .dims = "[[64, 5], [64, 1]]"},
              {0, OP, "aten::zeros", 5640, 10, .dims = "[[], []]"},
              {0, OP, "aten::any", 5660, 20, .dims = "[[64, 5], [], []]"}},
     .back = "[[64]]"},
    {"by copy_ as well", 1, .rows = {SOFTMAX, TOPK}, .bring = "aten::copy_"},
    {"nothing works on it", 0, .rows = {{0, OP, "aten::view", 2800, 20, .dims = shape}}},
    {"nothing at all happens to it", 0, .rows = {{0}}, .back = "[[64, 100]]"},
    {"the GPU works on it, too", 0,
     .rows = {SOFTMAX, TOPK, {0, CALL, "cudaLaunchKernel", 5000, 20}}},
    {"the GPU has other work between", 0,
     .rows = {SOFTMAX, TOPK, {0, CALL, "cudaLaunchKernel", 5700, 20}}},
    {"memory is set between", 0, .rows = {SOFTMAX, TOPK, {0, CALL, "cudaMemsetAsync", 5700, 20}}},
    {"a value is read", 0,
     .rows = {SOFTMAX, TOPK, {0, OP, "aten::item", 5700, 20, .dims = "[[]]"}}},
    {"a value is read first", 0,
     .rows = {SOFTMAX, {0, OP, "aten::item", 3450, 20, .dims = "[[]]"}, TOPK}},
    {"a value is all that is brought", 0, .rows = {SOFTMAX, TOPK}, .bring = "aten::item"},
    {"an index is all that is brought", 0, .rows = {SOFTMAX, TOPK}, .bring = "aten::nonzero"},
    {"the loader comes between", 0,
     .rows = {SOFTMAX,
              TOPK,
              {0, NOTE, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 5620, 100}}},
    {"a loader that computes comes between", 0,
     .rows = {ARGMAX,
              {0, NOTE, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 3500, 2200},
              {0, OP, "aten::topk", 3600, 2000, .dims = "[[64, 100], [], []]"}}},
    {"accuracy, then the next labels", 0,
     .rows = {ARGMAX,
              {0, OP, "aten::eq", 3500, 20, .dims = "[[64], [64]]"},
              {0, OP, "aten::sum", 3600, 20, .dims = "[[64], []]"},
              {0, OP, "aten::add_", 3700, 20, .dims = "[[], [], []]"}},
     .back = "[[64]]"},
    {"accuracy, then another form of what is on the GPU", 0,
     .rows = {ARGMAX,
              {0, OP, "aten::slice", 5600, 20, .dims = "[[50000], [], [], [], []]"},
              {0, OP, "aten::view", 5700, 20, .dims = "[[64, 100], [], []]"}},
     .back = "[[64]]"},
    {"accuracy, then the next images and labels", 0, .rows = {ARGMAX}, .extra = "[[64, 3, 32, 32]]",
     .back = "[[64]]"},
    {"accuracy, then the next images", 0, .rows = {ARGMAX}, .back = "[[64, 3, 32, 32]]"},
    {"accuracy, then the next features", 0, .rows = {ARGMAX}, .back = "[[64, 256]]"},
    {"accuracy, then a part of a data set", 0,
     .rows = {ARGMAX, {0, OP, "aten::slice", 5700, 20, .dims = "[[50000], [], [], [], []]"}},
     .back = "[[64]]"},
    {"accuracy, then samples are joined", 0,
     .rows = {ARGMAX,
              {0, OP, "aten::slice", 5600, 20, .dims = "[[50000], [], [], [], []]"},
              {0, OP, "aten::stack", 5700, 20, .dims = "[[[100], [100]], []]"}},
     .back = "[[64, 100]]"},
    {"what follows is from outside of torch", 0,
     .rows = {ARGMAX, {0, OP, "aten::lift_fresh", 5700, 20, .dims = "[[64]]"}}, .back = "[[64]]"},
    {"one-hot labels of the next batch", 0,
     .rows = {ARGMAX,
              {0, OP, "aten::eq", 3500, 20, .dims = "[[64], [64]]"},
              {0, OP, "aten::slice", 5600, 20, .dims = "[[50000], [], [], [], []]"},
              {0, OP, "aten::one_hot", 5700, 20, .dims = "[[64], []]"}},
     .back = "[[64, 10]]"},
    {"a batch from pinned memory", 0, .rows = {SOFTMAX, TOPK},
     .up = "Memcpy HtoD (Pinned -> Device)"},
    {"another thread copies back", 0, .rows = {SOFTMAX, TOPK}, .tid = 2},
    {"another thread works", 0,
     .rows = {{2, OP, "aten::topk", 3600, 2000, .dims = "[[64, 100], [], []]"}}},
    {"a number goes back", 0, .rows = {SOFTMAX, TOPK}, .back = "[[], []]"},
    {"shapes of the copies were not recorded", 0, .rows = {SOFTMAX, TOPK}, .has_no_shapes = true},
    {"numpy works on it", 1,
     .rows = {TO_NUMPY, {0, OP, "aten::lift_fresh", 5700, 20, .dims = shape}},
     .back = "[[64, 100]]"},
    {"numpy makes another form of it", 1,
     .rows = {TO_NUMPY, {0, OP, "aten::lift_fresh", 5700, 20, .dims = "[[100, 64]]"}},
     .back = "[[100, 64]]"},
    {"it goes to numpy, and a batch comes", 0,
     .rows = {TO_NUMPY, {0, OP, "aten::lift_fresh", 5700, 20, .dims = "[[64, 256]]"}},
     .back = "[[64, 256]]"},
    {"it goes to numpy, and labels come", 0,
     .rows = {TO_NUMPY, {0, OP, "aten::lift_fresh", 5700, 20, .dims = "[[64]]"}}, .back = "[[64]]"},
    {"numpy's memory comes, and the tensor did not go there", 0,
     .rows = {{0, OP, "aten::lift_fresh", 5700, 20, .dims = shape}}, .back = "[[64, 100]]"},
    {"it goes to numpy, and the next step begins with what comes", 0,
     .rows = {TO_NUMPY, {0, OP, "aten::lift_fresh", 5700, 20, .dims = shape}},
     .back = "[[64, 100]]", .has_no_work_behind = true},
    {"results of the step before", 0, .rows = {SOFTMAX, TOPK}, .has_no_launch_before = true},
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < KS_COUNT_OF(cases); i++) {
        build(&cases[i], true);
        int64_t count = 0;
        for (size_t j = 0; j < f.facts.round_trip_count; j++) {
            count += f.facts.round_trips[j].count;
        }
        if (count != STEPS * cases[i].count) {
            fail_msg("%s: got %lld trips", cases[i].why, (long long)count);
        }
        facts_fixture_release(&f);
    }
    /* Without a backward pass a step may begin with the results of the one before. */
    build(&cases[KS_COUNT_OF(cases) - 1], false);
    assert_int_equal(f.facts.round_trips[0].count, 2);
    facts_fixture_release(&f);
}

/* What comes back in the next step is none; the same rows in one step are one. */
static void check_step_end(int64_t step_us, int64_t count)
{
    facts_fixture_init(&f, 0, 0);
    HOST({1, NOTE, "ProfilerStep#1", 0, step_us * US},
         {1, NOTE, "ProfilerStep#2", step_us * US, 10000 * US},
         {1, CALL, "cudaLaunchKernel", 100 * US, 100 * US, .corr = 1},
         {1, OP, "aten::to", 1000 * US, 800 * US, .dims = "[[64, 100]]"},
         {1, CALL, "cudaMemcpyAsync", 1200 * US, 500 * US, .corr = 2},
         {1, OP, "aten::softmax", 2000 * US, 800 * US, .dims = "[[64, 100], []]"},
         {1, OP, "aten::to", 3000 * US, 800 * US, .dims = "[[64, 100]]"},
         {1, CALL, "cudaMemcpyAsync", 3200 * US, 500 * US, .corr = 3});
    DEVICE({0, 7, KERNEL, "gemm", 300 * US, 100 * US, 1},
           {0, 7, MEMCPY, "Memcpy DtoH (Device -> Pageable)", 1300 * US, 100 * US, 2},
           {0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", 3300 * US, 100 * US, 3});
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.round_trip_count, count);
    facts_fixture_release(&f);
}

static void test_step_end(void **state)
{
    (void)state;
    check_step_end(2900, 0);
    check_step_end(3900, 1);
}

/* No operator works on it, and the rule says so. */
static void test_numpy(void **state)
{
    (void)state;
    struct ks_err err = {0};
    struct ks_findings findings = {0};
    struct trip_case c = {.rows = {TO_NUMPY, {0, OP, "aten::lift_fresh", 5700, 20, .dims = shape}},
                          .back = "[[64, 100]]"};
    build(&c, true);
    const struct ks_round_trip *trip = &f.facts.round_trips[0];
    assert_int_equal(trip->operators, 0);
    assert_int_equal(trip->work_ns, 2 * (5700 - 2710) * US);
    assert_int_equal(trip->idle_ns, 2 * 5200 * US);
    assert_int_equal(ks_findings_compute(&f.facts, &findings, &err), KS_OK);
    const struct ks_finding *finding = rule_case(&findings, "device.round_trip", RULE_FIRES);
    assert_non_null(strstr(finding->fix_text, "behind .numpy()"));
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

/* Operators on the host that have nothing to do with the tensor would take their time anyway. */
static void test_other_work(void **state)
{
    (void)state;
    struct trip_case c = example;
    c.rows[3] = (struct host_row){0, OP, "aten::randn", 3420, 100, .dims = "[[], []]"};
    build(&c, true);
    assert_int_equal(f.facts.mean_step.trips.idle_ns, 5100 * US);
    assert_int_equal(f.facts.mean_step.trips.work_ns, 2600 * US);
    facts_fixture_release(&f);
}

/* Two results go back one after the other; and a second tensor is brought before any work. */
static void test_several_tensors(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    f.source->record_shapes = true;
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t at = i * STEP;
        int64_t corr = 20 + i * 8;
        struct trip_case c = example;
        c.extra = "[[64, 5], [], []]";
        add_step(&c, i ? "ProfilerStep#2" : "ProfilerStep#1", at, corr);
        HOST({1, OP, "aten::to", at + 900 * US, 90 * US, .dims = "[[64]]"},
             {1, CALL, "cudaMemcpyAsync", at + 910 * US, 10 * US, .corr = corr + 6});
        DEVICE({0, 7, MEMCPY, "Memcpy DtoH (Device -> Pageable)", at + 920 * US, 10 * US, corr + 6,
                .bytes = 256});
    }
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.round_trip_count, 1);
    assert_int_equal(f.facts.round_trips[0].count, 2);
    assert_int_equal(f.facts.round_trips[0].bytes_down, 2 * 25600);
    assert_int_equal(f.facts.round_trips[0].bytes_up, 2 * (1280 + 2560));
    assert_int_equal(f.facts.round_trips[0].idle_ns, 2 * 5190 * US);
    facts_fixture_release(&f);
}

/* ------------------------------------------------------------ the rule */

/* The rule on the example with these trips a step, in a step of 10 ms in which the GPU idles 8 ms
 * for reasons of the host, when recording cost nothing; the bounds are of a case that fires. The
 * operators of the trip take 1600 + 600 + 2000 + 800 us, and 600 us lie between them. */
static void check_rule(const struct ks_trip_cost *trips, enum rule_case kind, int64_t low_us,
                       int64_t high_us)
{
    struct ks_err err = {0};
    struct ks_findings findings = {0};
    build(&example, true);
    struct ks_mean_step *mean = &f.facts.mean_step;
    struct ks_trip_cost changed = *trips;
    changed.worst = mean->trips.worst;
    *mean = (struct ks_mean_step){.step_ns = STEP,
                                  .idle_ns = 8000 * US,
                                  .busy_ns = 2000 * US,
                                  .idle_by_cause_ns = {[KS_IDLE_LAUNCH] = 6000 * US,
                                                       [KS_IDLE_SYNC] = 1000 * US,
                                                       [KS_IDLE_HOST_CODE] = 1000 * US},
                                  .launches = 2,
                                  .trips = changed};
    assert_int_equal(ks_findings_compute(&f.facts, &findings, &err), KS_OK);
    const struct ks_finding *finding = rule_case(&findings, "device.round_trip", kind);
    if (finding) {
        assert_int_equal(finding->saving.low_ns, low_us * US);
        assert_int_equal(finding->saving.high_ns, high_us * US);
        assert_int_equal(finding->where.step_count, 2);
        assert_non_null(strstr(finding->fix_text, "aten::topk"));
    }
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

static void test_rule(void **state)
{
    (void)state;
    struct ks_trip_cost trips = {.count = 1,
                                 .operators = 2,
                                 .work_ns = 2600 * US,
                                 .idle_ns = 5200 * US,
                                 .copy_ns = 300 * US};
    check_rule(&trips, RULE_FIRES, 5000 - 650, 5600);
    trips.operators = 40; /* launching them takes 1.2 ms, more than a quarter of their time */
    check_rule(&trips, RULE_FIRES, 5000 - 1200, 5600);
    trips.operators = 400; /* more than they take on the host */
    check_rule(&trips, RULE_FIRES, 0, 5600);
    trips.operators = 2;
    trips.work_ns = 6000 * US;
    check_rule(&trips, RULE_FIRES, 5000 - 1500, 5600);
    trips.idle_ns = 299 * US; /* under 3 % */
    check_rule(&trips, RULE_NEAR_MISS, 0, 0);
    trips.idle_ns = 300 * US;
    check_rule(&trips, RULE_FIRES, 5000 - 1500, 5600);
    trips.idle_ns = 5200 * US;
    trips.count = 0.5; /* every other step */
    check_rule(&trips, RULE_SILENT, 0, 0);
    trips.count = 1;
    trips.idle_ns = 9000 * US;
    check_rule(&trips, RULE_FIRES, 5000 - 1500, 5600);
}

static void test_no_shapes(void **state)
{
    (void)state;
    struct ks_err err = {0};
    struct ks_findings findings = {0};
    struct trip_case c = example;
    c.has_no_shapes = true;
    for (size_t i = 0; i < ROWS_MAX; i++) {
        c.rows[i].dims = NULL;
    }
    build(&c, true);
    assert_int_equal(ks_findings_compute(&f.facts, &findings, &err), KS_OK);
    rule_case(&findings, "device.round_trip", RULE_SILENT);
    for (size_t i = 0; i < findings.check_count; i++) {
        if (strcmp(findings.checks[i].rule->id, "device.round_trip") == 0) {
            assert_int_equal(findings.checks[i].state, KS_CHECK_COULD_NOT);
        }
    }
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),         cmocka_unit_test(test_cases),
        cmocka_unit_test(test_step_end),        cmocka_unit_test(test_other_work),
        cmocka_unit_test(test_several_tensors), cmocka_unit_test(test_rule),
        cmocka_unit_test(test_no_shapes),       cmocka_unit_test(test_numpy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
