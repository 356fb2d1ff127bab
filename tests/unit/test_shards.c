/* Goal: fsdp.exposed_gather fires when compute waits for parameters, with savings that can be
 * checked by hand, and comes before comm.exposed; it is silent for gathers beside compute, for
 * short ones, and for gathers that are not of FSDP. Method: steps by hand, in which blocks are
 * gathered and compute for 300 us each, a third of it in the forward pass. */
#include <string.h>

#include "advise/findings.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

enum { STEPS = 3, US = 1000, MIB_OF_FP32 = (1 << 20) / 4, BLOCKS = 3 };

static const char *const names[STEPS] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"};
static const char id[] = "fsdp.exposed_gather";

static struct facts_fixture f;
static struct ks_findings findings;

struct plan {
    int64_t gather; /* us, of all parameters once */
    bool by_block;  /* each block is gathered alone, again for the backward pass */
    bool is_beside; /* gathers of blocks run beside the kernels of the one before */
    bool is_ddp;    /* one that sums up gradients, and gathers something else */
    bool is_old;    /* annotations of FSDP1 */
    bool has_no_sizes;
    int64_t first_mib; /* of the first block; 0: as much as others, 32 */
};

static int64_t corr, host, gpu; /* us */

static void add_host(int64_t thread, enum ks_category category, const char *name, int64_t dur)
{
    const struct host_row row = {thread, category, name, host * US, dur * US};
    facts_fixture_host(&f, &row, 1);
}

static void launch(int64_t rank, int64_t thread, int64_t stream, const char *kernel, int64_t start,
                   int64_t dur, const char *collective, int64_t elements)
{
    const struct host_row call = {thread,    CALL, "cudaLaunchKernelExC",
                                  host * US, US,   .corr = ++corr};
    const struct device_row work = {rank,
                                    stream,
                                    KERNEL,
                                    kernel,
                                    start * US,
                                    dur * US,
                                    corr,
                                    .collective = collective,
                                    .elements = elements};
    facts_fixture_host(&f, &call, 1);
    facts_fixture_device(&f, &work, 1);
    host += 2;
}

static void add_kernel(int64_t rank, int64_t thread, int64_t dur)
{
    launch(rank, thread, 7, "gemm", gpu, dur, NULL, 0);
    gpu += dur;
}

/* Begins at `start`. */
static void add_gather(int64_t rank, int64_t thread, const struct plan *plan, int64_t start,
                       int64_t part, int64_t mib)
{
    const char *name = plan->is_ddp   ? "gather of activations"
                       : plan->is_old ? "FullyShardedDataParallel._pre_forward"
                                      : "FSDP::all_gather (block)";
    add_host(thread, NOTE, name, 2);
    launch(rank, thread, 19, "ncclDevKernel_AllGather_RING_LL", start, plan->gather / part,
           plan->has_no_sizes ? NULL : "_allgather_base", mib * MIB_OF_FP32);
}

static void add_sum(int64_t rank, const struct plan *plan)
{
    const char *name = plan->is_ddp   ? "hook"
                       : plan->is_old ? "FullyShardedDataParallel._post_backward_hook"
                                      : "FSDP::post_backward_reduce (block)";
    add_host(2, NOTE, name, 2);
    launch(rank, 2, 23, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", gpu, plan->gather,
           plan->has_no_sizes ? NULL : "_reduce_scatter_base", 96 * MIB_OF_FP32);
    gpu += plan->gather;
}

static void add_pass(int64_t rank, int64_t thread, const struct plan *plan, bool is_backward)
{
    for (int64_t i = 0; i < BLOCKS; i++) {
        bool is_first = i == 0 && !is_backward;
        int64_t mib = i == 0 && plan->first_mib > 0 ? plan->first_mib : 32;
        if (plan->by_block && plan->is_beside && !is_first) {
            add_gather(rank, thread, plan, gpu - plan->gather / BLOCKS, BLOCKS, mib);
        } else if (plan->by_block || is_first) {
            int64_t part = plan->by_block ? BLOCKS : 1;
            add_gather(rank, thread, plan, gpu, part, plan->by_block ? mib : 96);
            gpu += plan->gather / part;
        }
        add_kernel(rank, thread, is_backward ? 200 : 100);
    }
}

static void add_step(int64_t i, int64_t rank, const struct plan *plan)
{
    int64_t begin = host;
    gpu = host + 10;
    add_pass(rank, 1, plan, false);
    add_pass(rank, 2, plan, true);
    add_sum(rank, plan);
    const struct host_row rows[] = {
        {1, CALL, "cudaStreamSynchronize", host * US, (gpu + 5 - host) * US},
        {1, NOTE, names[i], begin * US, (gpu + 10 - begin) * US},
    };
    facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    host = gpu + 10;
}

static const struct ks_finding *build(struct plan plan, size_t ranks, int64_t slower_by,
                                      enum rule_case kind)
{
    facts_fixture_init(&f, 0, 0);
    f.source->rank = 0;
    for (size_t rank = 0; rank < ranks; rank++) {
        host = corr = 0;
        if (rank > 0) {
            facts_fixture_next_rank(&f, (int64_t)rank);
        }
        struct plan step = plan;
        for (int64_t i = 0; i < STEPS; i++) {
            add_step(i, (int64_t)rank, &step);
            step.gather += slower_by;
        }
    }
    facts_fixture_advise(&f, &findings);
    return rule_case(&findings, id, kind);
}

static void release(void)
{
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

/* A gather and a sum of 300 us around 900 us of kernels. All of both can hide at most. For sure
 * three quarters of the gather, which the forward pass of 300 us can hide, less a quarter: 168.75
 * us. */
static void check_one_unit(struct plan plan)
{
    const struct ks_finding *finding = build(plan, 2, 0, RULE_FIRES);
    const struct ks_shard_fact *shards = &f.facts.comm.shards;
    assert_true(shards->gathers.count == 1 && shards->scatters.count == 1);
    assert_true(shards->gathers.matched == 1);
    assert_int_equal(shards->gathers.exposed_ns, 300 * US);
    assert_int_equal(shards->gathers.exposed_sure_ns, 300 * US);
    assert_int_equal(shards->scatters.exposed_ns, 300 * US);
    assert_in_range(finding->saving_in_trace.high_ns, 590 * US, 600 * US);
    assert_in_range(finding->saving_in_trace.low_ns, 168 * US, 169 * US);
    assert_non_null(strstr(finding->fix_text, "Shard block by block: 96.0 MiB"));
    assert_non_null(strstr(finding->fix_text, "They travel in fp32"));
    const struct ks_finding *general = rule_case(&findings, "comm.exposed", RULE_FIRES);
    assert_true(finding->is_primary && !general->is_primary);
    assert_string_equal(finding->group, general->group);
    assert_non_null(strstr(general->fix_text, "set_requires_gradient_sync"));
    release();
}

static void test_one_unit(void **state)
{
    (void)state;
    check_one_unit((struct plan){.gather = 300});
    check_one_unit((struct plan){.gather = 300, .is_old = true});
}

/* Three quarters of a gather of 600 us are more than the 300 us of the forward pass. */
static void test_more_than_forward(void **state)
{
    (void)state;
    const struct ks_finding *finding = build((struct plan){.gather = 600}, 2, 0, RULE_FIRES);
    assert_in_range(finding->saving_in_trace.low_ns, 220 * US, 226 * US);
    release();
}

/* One of six gathers, and whether it brings a quarter of all. */
static void check_largest(int64_t mib, const char *words)
{
    const struct plan plan = {.gather = 300, .by_block = true, .first_mib = mib};
    const struct ks_finding *finding = build(plan, 2, 0, RULE_FIRES);
    assert_non_null(strstr(finding->fix_text, words));
    release();
}

static void test_quarter(void **state)
{
    (void)state;
    check_largest(64, "Shard block by block");
    check_largest(62, "Gather earlier");
}

/* Six gathers of 100 us, each behind the kernel before it: what comes first stays, and of the 500
 * us of the others three quarters hide for sure. */
static void test_late_units(void **state)
{
    (void)state;
    const struct ks_finding *finding =
        build((struct plan){.gather = 300, .by_block = true}, 2, 0, RULE_FIRES);
    const struct ks_shard_cost *gathers = &f.facts.comm.shards.gathers;
    assert_true(gathers->count == 6);
    assert_int_equal(gathers->exposed_ns, 600 * US);
    assert_int_equal(gathers->first_ns, 100 * US);
    assert_true(gathers->bytes == 192.0 * (1 << 20));
    assert_in_range(finding->saving_in_trace.high_ns, 590 * US, 600 * US);
    assert_in_range(finding->saving_in_trace.low_ns, 370 * US, 375 * US);
    assert_non_null(strstr(finding->fix_text, "set_modules_to_forward_prefetch"));
    release();
}

/* Compute of 900 us hides no more than that of gathers that take longer. */
static void test_more_than_compute(void **state)
{
    (void)state;
    const struct ks_finding *finding =
        build((struct plan){.gather = 1500, .by_block = true}, 2, 0, RULE_FIRES);
    assert_int_equal(f.facts.comm.shards.gathers.exposed_ns, 3000 * US);
    assert_in_range(finding->saving_in_trace.high_ns, 890 * US, 900 * US);
    assert_in_range(finding->saving_in_trace.low_ns, 670 * US, 675 * US);
    release();
}

static void test_silent(void **state)
{
    (void)state;
    /* the first gather alone: 30 of some 1300 us */
    build((struct plan){.gather = 90, .by_block = true, .is_beside = true}, 2, 0, RULE_SILENT);
    assert_true(f.facts.comm.shards.gathers.count == 6);
    assert_int_equal(f.facts.comm.shards.gathers.exposed_ns, 30 * US);
    release();
    build((struct plan){.gather = 48}, 2, 0, RULE_NEAR_MISS); /* of 1016 us */
    release();
    build((struct plan){.gather = 54}, 2, 0, RULE_FIRES); /* of 1028 us */
    release();
    build((struct plan){.gather = 300, .is_ddp = true}, 2, 0, RULE_SILENT);
    assert_true(f.facts.comm.shards.gathers.count == 0);
    assert_non_null(facts_fixture_finding(&findings, "comm.exposed"));
    release();
}

/* One rank of two: the shortest of its gathers takes 300 us, and others may have been waited for in
 * that as well. For sure its half of 96 MiB takes 55.9 us at 900 GB/s. */
static void test_one_rank(void **state)
{
    (void)state;
    const struct ks_finding *finding = build((struct plan){.gather = 300}, 1, 100, RULE_FIRES);
    const struct ks_shard_cost *gathers = &f.facts.comm.shards.gathers;
    assert_true(gathers->matched == 0);
    assert_int_equal(gathers->exposed_ns, 300 * US);
    assert_in_range(gathers->exposed_sure_ns, 55 * US, 56 * US);
    assert_true(finding->saving.high_ns <= 600 * US);
    assert_in_range(finding->saving.low_ns, 0, 32 * US);
    assert_null(facts_fixture_finding(&findings, "comm.exposed"));
    release();
    /* without sizes nothing of it is sure */
    build((struct plan){.gather = 300, .has_no_sizes = true}, 1, 0, RULE_FIRES);
    assert_int_equal(gathers->exposed_sure_ns, 0);
    assert_int_equal(gathers->exposed_ns, 300 * US);
    release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_than_forward), cmocka_unit_test(test_quarter),
        cmocka_unit_test(test_one_unit),          cmocka_unit_test(test_late_units),
        cmocka_unit_test(test_more_than_compute), cmocka_unit_test(test_silent),
        cmocka_unit_test(test_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
