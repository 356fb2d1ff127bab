/* Goal: ranks.straggler and ranks.imbalance fire when one rank holds up the others for a reason of
 * its own, name it, and are silent just below their limits; waiting is what
 * docs/analyses/collectives.md says. Method: two ranks of four steps by hand, the clock of the
 * second an hour ahead. */
#include <string.h>

#include "advise/findings.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

enum { STEPS = 4, RANKS = 2, US = 1000 };

static const char *const names[STEPS] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3",
                                         "ProfilerStep#4"};
static const int64_t hour_us = 3600LL * 1000 * 1000;

static struct facts_fixture f;
static struct ks_findings findings;

/* What a rank does in a step, us. */
struct work {
    int64_t code;              /* code before its first operator that launches */
    int64_t compute;           /* of its kernel */
    enum ks_category category; /* of a row that holds this time; 0: none does */
    const char *name;
};

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t comes_at(const struct work *work)
{
    return later(work->code + 70, work->code + 30 + work->compute);
}

/* A step that begins at `at`: code; aten::mm launches a kernel at 20, which runs from 30 on; the
 * engine starts a collective, which begins at 70, behind the kernel, and ends 30 after the last
 * rank came; the thread waits for it, 5 longer. Times count from the end of the code. */
static void add_step(int64_t i, int64_t rank, int64_t at, const struct work *mine, int64_t end)
{
    at += rank * hour_us;
    int64_t begin = (at + mine->code) * US;
    int64_t corr = 1 + 2 * i;
    const struct host_row rows[] = {
        {1, NOTE, names[i], at * US, (end + 10) * US},
        {1, mine->category ? mine->category : OP, mine->name ? mine->name : "aten::sort", at * US,
         (mine->name ? mine->code : 2) * US},
        {1, OP, "aten::mm", begin + 10 * US, 30 * US},
        {1, CALL, "cudaLaunchKernel", begin + 20 * US, 5 * US, .corr = corr},
        {1, CALL, "cudaStreamSynchronize", begin + 95 * US, (end + 5 - 95 - mine->code) * US},
        {2, OP, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
         begin + 50 * US, 40 * US},
        {2, OP, "c10d::allreduce_", begin + 55 * US, 30 * US},
        {2, CALL, "cudaLaunchKernelExC", begin + 60 * US, 5 * US, .corr = corr + 1},
    };
    facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    int64_t start = at + comes_at(mine);
    const struct device_row work[] = {
        {rank, 7, KERNEL, "gemm", begin + 30 * US, mine->compute * US, corr},
        {rank, 17, KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", start * US,
         (at + end - start) * US, corr + 1, .collective = "allreduce", .elements = 1 << 20},
    };
    facts_fixture_device(&f, work, KS_COUNT_OF(work));
}

/* What each rank does in each step. */
static void build(struct work works[STEPS][RANKS])
{
    facts_fixture_init(&f, 0, 0);
    f.source->rank = 0;
    for (int64_t rank = 0; rank < RANKS; rank++) {
        if (rank > 0) {
            facts_fixture_next_rank(&f, rank);
        }
        int64_t at = 0;
        for (int64_t i = 0; i < STEPS; i++) {
            int64_t end = later(comes_at(&works[i][0]), comes_at(&works[i][1])) + 30;
            add_step(i, rank, at, &works[i][rank], end);
            at += end + 10;
        }
    }
    facts_fixture_advise(&f, &findings);
}

static const struct ks_finding *build_even(struct work first, struct work second, const char *id,
                                           enum rule_case kind)
{
    struct work works[STEPS][RANKS];
    for (size_t i = 0; i < STEPS; i++) {
        works[i][0] = first;
        works[i][1] = second;
    }
    build(works);
    return rule_case(&findings, id, kind);
}

static void release(void)
{
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

/* Rank 1 runs 1000 us of code in each step of 1110 us: rank 0 waits so long, and its steps alone
 * take 110 us. Compute is 30 us of both. */
static void test_straggler(void **state)
{
    (void)state;
    const struct ks_finding *finding =
        build_even((struct work){.compute = 30}, (struct work){.code = 1000, .compute = 30},
                   "ranks.straggler", RULE_FIRES);
    const struct ks_comm_fact *comm = &f.facts.comm;
    assert_int_equal(comm->rank_count, 2);
    assert_int_equal(comm->steps_compared, 4);
    assert_int_equal(comm->late, 1);
    assert_int_equal(comm->late_steps, 4);
    assert_int_equal(comm->late_ns, 1000 * US);
    assert_int_equal(comm->ranks[0].wait_ns, 1000 * US);
    assert_int_equal(comm->ranks[1].wait_ns, 0);
    assert_int_equal(comm->ranks[0].compute_ns, 30 * US);
    assert_int_equal(comm->ranks[0].exposed_transfer_ns, 30 * US);
    assert_int_equal(comm->uneven_ns, 0);
    assert_int_equal(finding->where.rank, 1);
    assert_string_equal(finding->cause, "host_code");
    assert_int_equal(finding->saving_in_trace.high_ns, 1000 * US);
    assert_in_range(finding->saving.low_ns, 890 * US, 900 * US); /* a tenth of doubt */
    assert_in_range(finding->saving.high_ns, 990 * US, 1000 * US);
    assert_null(facts_fixture_finding(&findings, "host.python_gap"));
    release();
}

/* 5 % of 110 + code are 5.8 us. */
static void test_little_late(void **state)
{
    (void)state;
    build_even((struct work){.compute = 30}, (struct work){.code = 5, .compute = 30},
               "ranks.straggler", RULE_NEAR_MISS);
    assert_int_equal(f.facts.comm.late_ns, 5 * US);
    release();
    build_even((struct work){.compute = 30}, (struct work){.code = 7, .compute = 30},
               "ranks.straggler", RULE_FIRES);
    release();
}

/* Late in turn: nobody is the straggler, and the code is everybody's. */
static void test_late_in_turn(void **state)
{
    (void)state;
    struct work works[STEPS][RANKS];
    for (size_t i = 0; i < STEPS; i++) {
        works[i][0] = (struct work){.code = i % 2 ? 0 : 1000, .compute = 30};
        works[i][1] = (struct work){.code = i % 2 ? 1000 : 0, .compute = 30};
    }
    build(works);
    assert_int_equal(f.facts.comm.late_steps, 2);
    rule_case(&findings, "ranks.straggler", RULE_SILENT);
    release();
}

/* In an operator of the host it counts from 10 % of the step on: 11 of 121 us are less. */
static void test_slow_operators(void **state)
{
    (void)state;
    const struct ks_finding *finding =
        build_even((struct work){.compute = 30},
                   (struct work){.code = 500, .compute = 30, .name = "aten::sort"},
                   "ranks.straggler", RULE_FIRES);
    assert_string_equal(finding->cause, "launch");
    release();
    build_even((struct work){.compute = 30},
               (struct work){.code = 11, .compute = 30, .name = "aten::sort"}, "ranks.straggler",
               RULE_NEAR_MISS);
    release();
}

/* What rank 1 does for 500 us of each step, and how that is called. */
static void test_causes(void **state)
{
    (void)state;
    static const struct {
        struct work work;
        const char *cause;
    } cases[] = {
        {{500, 30, NOTE, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"}, "data"},
        {{500, 30, CALL, "cudaDeviceSynchronize"}, "sync"},
        {{500, 30, CALL, "cudaMalloc"}, "allocator"},
        {{500, 30, OP, "aten::sort"}, "launch"},
    };
    for (size_t i = 0; i < KS_COUNT_OF(cases); i++) {
        const struct ks_finding *finding =
            build_even((struct work){.compute = 30}, cases[i].work, "ranks.straggler", RULE_FIRES);
        assert_string_equal(finding->cause, cases[i].cause);
        release();
    }
}

/* Rank 1 computes 300 us, rank 0 100: the mean is 200, and rank 0 waits for all 200 more. */
static void test_imbalance(void **state)
{
    (void)state;
    const struct ks_finding *finding =
        build_even((struct work){.compute = 100}, (struct work){.compute = 300}, "ranks.imbalance",
                   RULE_FIRES);
    assert_int_equal(finding->where.rank, 1);
    assert_int_equal(finding->saving.low_ns, 50 * US);
    assert_int_equal(finding->saving.high_ns, 100 * US);
    rule_case(&findings, "ranks.straggler", RULE_SILENT);
    release();
}

/* The busiest rank is another one in each step. */
static void test_imbalance_in_turn(void **state)
{
    (void)state;
    struct work works[STEPS][RANKS];
    for (size_t i = 0; i < STEPS; i++) {
        works[i][i % 2] = (struct work){.compute = 300};
        works[i][(i + 1) % 2] = (struct work){.compute = 100};
    }
    build(works);
    const struct ks_finding *finding = rule_case(&findings, "ranks.imbalance", RULE_FIRES);
    assert_int_equal(finding->saving.high_ns, 100 * US);
    release();
}

/* Of a step of 370 us 5 % are 18.5: half of 37. And who computes more but comes first holds nobody
 * up. */
static void test_balanced(void **state)
{
    (void)state;
    build_even((struct work){.compute = 264}, (struct work){.compute = 300}, "ranks.imbalance",
               RULE_NEAR_MISS);
    release();
    build_even((struct work){.compute = 262}, (struct work){.compute = 300}, "ranks.imbalance",
               RULE_FIRES);
    release();
    build_even((struct work){.compute = 300}, (struct work){.code = 900, .compute = 30},
               "ranks.imbalance", RULE_SILENT);
    assert_int_equal(f.facts.comm.uneven_ns, 0);
    release();
}

/* One rank alone: waiting and moving look alike. */
static void test_one_rank(void **state)
{
    (void)state;
    const struct work work = {.code = 500, .compute = 30};
    facts_fixture_init(&f, 0, 0);
    f.source->rank = 0;
    for (int64_t i = 0; i < STEPS; i++) {
        add_step(i, 0, i * 610, &work, 600);
    }
    facts_fixture_advise(&f, &findings);
    assert_int_equal(f.facts.comm.rank_count, 1);
    assert_int_equal(f.facts.comm.steps_compared, 0);
    static const char *const ids[] = {"ranks.straggler", "ranks.imbalance", "comm.exposed"};
    for (size_t i = 0; i < findings.check_count; i++) {
        for (size_t id = 0; id < KS_COUNT_OF(ids); id++) {
            if (strcmp(findings.checks[i].rule->id, ids[id]) == 0) {
                assert_int_equal(findings.checks[i].state, KS_CHECK_COULD_NOT);
            }
        }
    }
    release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_straggler),    cmocka_unit_test(test_little_late),
        cmocka_unit_test(test_late_in_turn), cmocka_unit_test(test_slow_operators),
        cmocka_unit_test(test_imbalance),    cmocka_unit_test(test_imbalance_in_turn),
        cmocka_unit_test(test_balanced),     cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_causes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
