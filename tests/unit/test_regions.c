/* Goal: time in regions by category and name, as docs/analyses/regions.md says. Method: its worked
 * example, threads side by side, regions that do not nest, and none. */
#include "analyze/facts.h"
#include "cmocka_all.h"
#include "store/builder.h"

struct region {
    int64_t tid;
    const char *category;
    const char *name;
    int64_t start_ns;
    int64_t end_ns;
};

static uint32_t intern(struct ks_trace_builder *builder, const char *text)
{
    struct ks_strid id = {0};
    assert_int_equal(ks_trace_builder_intern(builder, ks_str_from(text), &id, NULL), KS_OK);
    return id.v;
}

static struct ks_trace *make_trace(const struct region *regions, size_t count, bool is_recording)
{
    struct ks_trace_builder *builder = NULL;
    struct ks_source *source = NULL;
    struct ks_trace *trace = NULL;
    assert_int_equal(ks_trace_builder_create(NULL, &builder, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_source_open(builder, KS_STR("r"), &source, NULL), KS_OK);
    source->is_recording = is_recording;
    for (size_t i = 0; i < count; i++) {
        struct ks_slice_row row = {
            .order = (uint32_t)i,
            .start_ns = regions[i].start_ns,
            .dur_ns = regions[i].end_ns - regions[i].start_ns,
            .ext_id = -1,
            .corr = -1,
            .seq = -1,
            .aux = -1,
            .parent_aux = -1,
            .name = intern(builder, regions[i].name),
            .types = intern(builder, regions[i].category),
            .category = KS_CATEGORY_REGION,
        };
        struct ks_track_key pid = {.number = 1};
        struct ks_track_key tid = {.number = regions[i].tid};
        assert_int_equal(ks_trace_builder_thread(builder, pid, tid, &row.lane, NULL), KS_OK);
        assert_int_equal(ks_trace_builder_slice(builder, &row, NULL), KS_OK);
    }
    assert_int_equal(ks_trace_builder_seal(builder, 0, &trace, NULL), KS_OK);
    return trace;
}

struct want {
    const char *name;
    int64_t calls, total_ns, self_ns, all_ns, min_ns, max_ns;
};

static void check(const struct region *regions, size_t count, const struct want *want,
                  size_t want_count, const char *category, int64_t category_ns)
{
    struct ks_trace *trace = make_trace(regions, count, true);
    struct ks_scope scope = {0};
    struct ks_facts facts = {0};
    assert_int_equal(ks_facts_compute(trace, &scope, &facts, NULL), KS_OK);
    assert_int_equal(facts.region_count, want_count);
    for (size_t i = 0; i < want_count; i++) {
        const struct ks_region_fact *got = &facts.regions[i];
        assert_string_equal(ks_trace_str(trace, got->name).ptr, want[i].name);
        assert_int_equal(got->calls, want[i].calls);
        assert_int_equal(got->total_ns, want[i].total_ns);
        assert_int_equal(got->self_ns, want[i].self_ns);
        assert_int_equal(got->all_ns, want[i].all_ns);
        assert_int_equal(got->min_ns, want[i].min_ns);
        assert_int_equal(got->max_ns, want[i].max_ns);
    }
    assert_string_equal(ks_trace_str(trace, facts.region_category).ptr, category);
    assert_int_equal(facts.region_category_ns, category_ns);
    assert_int_equal(facts.step_count, 0); // no window of torch.profiler
    ks_facts_release(&facts);
    ks_trace_destroy(trace);
}

#define CHECK(regions, want, category, category_ns)                                                \
    check(regions, KS_COUNT_OF(regions), want, KS_COUNT_OF(want), category, category_ns)

static void test_worked_example(void **state)
{
    (void)state;
    static const struct region REGIONS[] = {{1, "training_loop", "step", 0, 100},
                                            {1, "forward_pass", "forward", 10, 50},
                                            {1, "forward_pass", "forward", 20, 30},
                                            {1, "training_loop", "step", 100, 160}};
    static const struct want WANT[] = {{"step", 2, 160, 120, 160, 60, 100},
                                       {"forward", 2, 40, 40, 50, 10, 40}};
    CHECK(REGIONS, WANT, "training_loop", 120);
}

static void test_threads(void **state)
{
    (void)state;
    /* Not inside of each other, though at the same time. */
    static const struct region REGIONS[] = {
        {1, "a", "x", 0, 100}, {2, "a", "x", 10, 50}, {2, "b", "x", 20, 30}, {3, "", "x", 0, 5}};
    static const struct want WANT[] = {
        {"x", 2, 140, 130, 140, 40, 100}, {"x", 1, 10, 10, 10, 10, 10}, {"x", 1, 5, 5, 5, 5, 5}};
    CHECK(REGIONS, WANT, "a", 130);
}

static void test_overlap(void **state)
{
    (void)state;
    /* A child that ends behind its parent; and "two" counts as a child of "one", since it begins in
     * it, so that "outer" loses what "one" covers. */
    static const struct region REGIONS[] = {{1, "c", "outer", 0, 100},
                                            {1, "c", "late", 90, 120},
                                            {1, "c", "outer", 200, 300},
                                            {1, "c", "one", 210, 240},
                                            {1, "c", "two", 230, 260}};
    static const struct want WANT[] = {{"outer", 2, 200, 160, 200, 100, 100},
                                       {"late", 1, 30, 30, 30, 30, 30},
                                       {"one", 1, 30, 20, 30, 30, 30},
                                       {"two", 1, 30, 30, 30, 30, 30}};
    CHECK(REGIONS, WANT, "c", 240);
}

static void test_none(void **state)
{
    (void)state;
    static const struct region REGIONS[] = {{1, "c", "of another file", 0, 100}};
    struct ks_trace *trace = make_trace(REGIONS, 1, false);
    struct ks_scope scope = {0};
    struct ks_facts facts = {0};
    assert_int_equal(ks_facts_compute(trace, &scope, &facts, NULL), KS_OK);
    assert_int_equal(facts.region_count, 0);
    ks_facts_release(&facts);
    ks_trace_destroy(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
