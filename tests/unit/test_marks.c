/* Goal: counters and instants of recordings are summed up as docs/analyses/marks.md says. Method:
 * its worked example, several processes, the same name in two categories, and other traces. */
#include <math.h>

#include "analyze/facts.h"
#include "cmocka_all.h"
#include "store/builder.h"

#define NONE ((double)NAN)

struct mark {
    int64_t pid;
    const char *name;
    const char *series;
    int64_t at_ns;
    double value;
    bool is_counter;
    const char *text; /* unit, or values */
};

static struct ks_trace_builder *builder;

static uint32_t intern(const char *text)
{
    struct ks_strid id = {0};
    assert_int_equal(ks_trace_builder_intern(builder, ks_str_from(text), &id, NULL), KS_OK);
    return id.v;
}

static void add_mark(const struct mark *mark)
{
    struct ks_mark_row row = {
        .start_ns = mark->at_ns,
        .value = mark->value,
        .name = intern(mark->name),
        .series = intern(mark->series),
        .unit = mark->is_counter ? intern(mark->text) : 0,
        .values = mark->is_counter ? 0 : intern(mark->text),
        .flags = mark->is_counter ? KS_MARK_COUNTER : 0,
    };
    struct ks_track_key key = {.number = mark->pid};
    assert_int_equal(ks_trace_builder_process(builder, key, &row.lane, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_mark(builder, &row, NULL), KS_OK);
}

/* Each process is a file. */
static struct ks_trace *make_trace(const struct mark *marks, size_t count, bool is_recording)
{
    struct ks_source *source = NULL;
    struct ks_trace *trace = NULL;
    assert_int_equal(ks_trace_builder_create(NULL, &builder, NULL), KS_OK);
    for (size_t i = 0; i < count; i++) {
        bool is_next = i > 0 && marks[i].pid != marks[i - 1].pid;
        if (is_next) {
            assert_int_equal(ks_trace_builder_source_close(builder, NULL), KS_OK);
        }
        if (i == 0 || is_next) {
            assert_int_equal(ks_trace_builder_source_open(builder, KS_STR("r"), &source, NULL),
                             KS_OK);
            source->is_recording = is_recording;
        }
        add_mark(&marks[i]);
    }
    assert_int_equal(ks_trace_builder_seal(builder, 0, &trace, NULL), KS_OK);
    return trace;
}

static void expect_number(double got, double want)
{
    assert_true((isnan(got) && isnan(want)) || (got >= want && got <= want));
}

static void expect_fact(const struct ks_trace *trace, const struct ks_mark_fact *got,
                        const struct ks_mark_fact *want, const char *name, const char *text)
{
    struct ks_strid said = want->is_counter ? got->unit : got->values;
    assert_string_equal(ks_trace_str(trace, got->name).ptr, name);
    assert_true(ks_str_equal(ks_trace_str(trace, said), ks_str_from(text)));
    assert_int_equal(got->is_counter, want->is_counter);
    assert_int_equal(got->source, want->source);
    assert_int_equal(got->count, want->count);
    assert_int_equal(got->number_count, want->number_count);
    assert_int_equal(got->first_ns, want->first_ns);
    assert_int_equal(got->last_ns, want->last_ns);
    expect_number(got->sum, want->sum);
    expect_number(got->min, want->min);
    expect_number(got->max, want->max);
    expect_number(got->last, want->last);
}

static void test_worked_example(void **state)
{
    (void)state;
    static const struct mark marks[] = {
        {1, "begin", "c", 0, NONE, false, ""},   {1, "saved", "c", 5, NONE, false, "{\"n\": 1}"},
        {1, "lr", "c", 30, 0.25, true, "late"},  {1, "lr", "c", 10, 0.5, true, "early"},
        {1, "lr", "c", 20, NONE, true, "early"}, {1, "saved", "c", 40, NONE, false, "{\"n\": 2}"},
    };
    static const struct ks_mark_fact saved = {
        .count = 2, .first_ns = 5, .last_ns = 40, .min = NONE, .max = NONE, .last = NONE};
    static const struct ks_mark_fact lr = {.is_counter = true,
                                           .count = 3,
                                           .number_count = 2,
                                           .first_ns = 10,
                                           .last_ns = 30,
                                           .sum = 0.75,
                                           .min = 0.25,
                                           .max = 0.5,
                                           .last = 0.25};
    struct ks_trace *trace = make_trace(marks, KS_COUNT_OF(marks), true);
    struct ks_scope scope = {0};
    struct ks_facts facts = {0};
    assert_int_equal(ks_facts_compute(trace, &scope, &facts, NULL), KS_OK);
    assert_int_equal(facts.mark_count, 3);
    assert_int_equal(facts.instant_count, 2);
    expect_fact(trace, &facts.marks[1], &saved, "saved", "{\"n\": 2}");
    expect_fact(trace, &facts.marks[2], &lr, "lr", "late");
    ks_facts_release(&facts);
    ks_trace_destroy(trace);
}

static void test_processes_and_categories_are_apart(void **state)
{
    (void)state;
    static const struct mark marks[] = {
        {1, "n", "b", 0, 1, true, ""}, {1, "n", "a", 1, 2, true, ""}, {1, "n", "a", 2, 4, true, ""},
        {2, "n", "a", 3, 8, true, ""}, {2, "n", "a", 3, 9, true, ""}, {2, "m", "a", 4, 1, true, ""},
    };
    static const struct {
        uint32_t source;
        const char *name;
        const char *series;
        double sum, last;
    } want[] = {
        {0, "n", "a", 6, 4}, {0, "n", "b", 1, 1}, {1, "m", "a", 1, 1}, {1, "n", "a", 17, 9}};
    struct ks_trace *trace = make_trace(marks, KS_COUNT_OF(marks), true);
    struct ks_scope scope = {0};
    struct ks_facts facts = {0};
    assert_int_equal(ks_facts_compute(trace, &scope, &facts, NULL), KS_OK);
    assert_int_equal(facts.mark_count, KS_COUNT_OF(want));
    assert_int_equal(facts.instant_count, 0);
    for (size_t i = 0; i < KS_COUNT_OF(want); i++) {
        const struct ks_mark_fact *got = &facts.marks[i];
        assert_int_equal(got->source, want[i].source);
        assert_string_equal(ks_trace_str(trace, got->name).ptr, want[i].name);
        assert_string_equal(ks_trace_str(trace, got->series).ptr, want[i].series);
        expect_number(got->sum, want[i].sum);
        expect_number(got->last, want[i].last);
    }
    ks_facts_release(&facts);
    ks_trace_destroy(trace);
}

static void test_other_traces_have_none(void **state)
{
    (void)state;
    static const struct mark marks[] = {{1, "n", "a", 0, 1, true, ""}};
    struct ks_trace *trace = make_trace(marks, 1, false);
    struct ks_scope scope = {0};
    struct ks_facts facts = {0};
    assert_int_equal(ks_facts_compute(trace, &scope, &facts, NULL), KS_OK);
    assert_int_equal(facts.mark_count, 0);
    ks_facts_release(&facts);
    ks_trace_destroy(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_processes_and_categories_are_apart),
        cmocka_unit_test(test_other_traces_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
