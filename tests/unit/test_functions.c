/* Goal: what functions cost and where threads were, as docs/analyses/functions.md and samples.md
 * say. Method: their worked examples, recursion, threads, stacks that end nowhere, random trees
 * beside a slow twin that looks at each way out, and none. */
#include <stdio.h>
#include <stdlib.h>

#include "analyze/facts.h"
#include "cmocka_all.h"
#include "store/builder.h"

static struct ks_trace_builder *builder;

static struct ks_strid intern(const char *text)
{
    struct ks_strid id = {0};
    assert_int_equal(ks_trace_builder_intern(builder, ks_str_from(text), &id, NULL), KS_OK);
    return id;
}

static void begin(void)
{
    struct ks_source *source = NULL;
    assert_int_equal(ks_trace_builder_create(NULL, &builder, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_source_open(builder, KS_STR("r"), &source, NULL), KS_OK);
    source->is_recording = true;
}

static uint32_t track_of(int64_t tid)
{
    struct ks_track_key pid = {.number = 1};
    struct ks_track_key thread = {.number = tid};
    uint32_t track = 0;
    assert_int_equal(ks_trace_builder_thread(builder, pid, thread, &track, NULL), KS_OK);
    return track;
}

static struct ks_trace *seal(struct ks_facts *facts)
{
    struct ks_trace *trace = NULL;
    struct ks_scope scope = {0};
    assert_int_equal(ks_trace_builder_seal(builder, 0, &trace, NULL), KS_OK);
    assert_int_equal(ks_facts_compute(trace, &scope, facts, NULL), KS_OK);
    return trace;
}

static void end(struct ks_trace *trace, struct ks_facts *facts)
{
    ks_facts_release(facts);
    ks_trace_destroy(trace);
}

/* ------------------------------------------------------------------ functions */

struct path {
    int64_t tid;
    uint32_t parent; /* 1 + index of the path */
    const char *function;
    int64_t calls, total_ns, child_ns;
    uint32_t open;
};

struct want {
    const char *name;
    int64_t calls, self_ns, total_ns;
    const char *callers; /* "name calls total_ns, ..." */
};

static void add_path(const struct path *path)
{
    uint32_t id = 0;
    struct ks_call_path row = {
        .track = track_of(path->tid),
        .parent = path->parent,
        .function = intern(path->function),
        .file = intern("f.py"),
        .first_line = 3,
        .open = path->open,
        .calls = path->calls,
        .total_ns = path->total_ns,
        .child_ns = path->child_ns,
    };
    assert_int_equal(ks_trace_builder_call_path(builder, &row, &id, NULL), KS_OK);
}

static void check_callers(const struct ks_facts *facts, const struct ks_function_fact *got,
                          const char *want)
{
    char text[256] = "";
    for (size_t i = 0; i < got->edge_count; i++) {
        const struct ks_function_edge *edge = &facts->function_edges[got->edge_first + i];
        size_t len = strlen(text);
        snprintf(text + len, sizeof(text) - len, "%s%s %lld %lld", i > 0 ? ", " : "",
                 ks_trace_str(facts->trace, edge->id.name).ptr, (long long)edge->calls,
                 (long long)edge->total_ns);
    }
    assert_string_equal(text, want);
}

static void check(const struct path *paths, size_t count, const struct want *want,
                  size_t want_count)
{
    struct ks_facts facts = {0};
    begin();
    for (size_t i = 0; i < count; i++) {
        add_path(&paths[i]);
    }
    struct ks_trace *trace = seal(&facts);
    assert_int_equal(facts.function_count, want_count);
    for (size_t i = 0; i < want_count; i++) {
        const struct ks_function_fact *got = &facts.functions[i];
        assert_string_equal(ks_trace_str(trace, got->id.name).ptr, want[i].name);
        assert_int_equal(got->calls, want[i].calls);
        assert_int_equal(got->self_ns, want[i].self_ns);
        assert_int_equal(got->total_ns, want[i].total_ns);
        check_callers(&facts, got, want[i].callers);
    }
    assert_int_equal(facts.sample_count, 0);
    end(trace, &facts);
}

#define CHECK(paths, want) check(paths, KS_COUNT_OF(paths), want, KS_COUNT_OF(want))

static void test_worked_example(void **state)
{
    (void)state;
    static const struct path PATHS[] = {
        {1, 0, "main", 1, 100, 90, 0}, {1, 1, "load", 3, 60, 0, 0}, {1, 1, "walk", 1, 30, 20, 0},
        {1, 3, "walk", 2, 20, 5, 0},   {1, 4, "load", 1, 5, 0, 0},
    };
    static const struct want WANT[] = {
        {"load", 4, 65, 65, "main 3 60, walk 1 5"},
        {"walk", 3, 25, 30, "main 1 30, walk 2 0"},
        {"main", 1, 10, 100, ""},
    };
    CHECK(PATHS, WANT);
}

static void add_row(struct ks_call_path row, const char *function)
{
    uint32_t id = 0;
    row.track = track_of(1);
    row.function = intern(function);
    row.file = intern("f.py");
    row.first_line = 3;
    assert_int_equal(ks_trace_builder_call_path(builder, &row, &id, NULL), KS_OK);
}

/* A profile says itself what is recursive, and its totals are no sums of those of callers. What a
 * recording counted of the same function is added; a caller that was not counted has no row. */
static void test_sums_and_paths(void **state)
{
    (void)state;
    struct ks_facts facts = {0};
    begin();
    add_row(
        (struct ks_call_path){
            .calls = 5, .recursive_calls = 3, .total_ns = 70, .child_ns = 10, .kind = KS_CALL_SUM},
        "walk");
    add_row((struct ks_call_path){.kind = KS_CALL_COUNT}, "gone");
    add_row((struct ks_call_path){.parent = 1,
                                  .calls = 3,
                                  .recursive_calls = 2,
                                  .total_ns = 40,
                                  .child_ns = 15,
                                  .kind = KS_CALL_SUM},
            "walk");
    add_row((struct ks_call_path){.parent = 2, .calls = 2, .kind = KS_CALL_COUNT}, "walk");
    add_row((struct ks_call_path){.calls = 1, .total_ns = 9, .child_ns = 4}, "walk");
    add_row((struct ks_call_path){.parent = 5, .calls = 2, .total_ns = 4}, "walk");
    struct ks_trace *trace = seal(&facts);
    assert_int_equal(facts.function_count, 1);
    const struct ks_function_fact *walk = &facts.functions[0];
    assert_int_equal(walk->calls, 5 + 1 + 2);
    assert_int_equal(walk->primitive_calls, 2 + 1);
    assert_int_equal(walk->self_ns, 60 + 5 + 4);
    assert_int_equal(walk->total_ns, 70 + 9);
    assert_int_equal(facts.function_self_ns, 69);
    assert_int_equal(walk->edge_count, 2);
    const struct ks_function_edge *edges = &facts.function_edges[walk->edge_first];
    assert_int_equal(edges[0].calls, 3 + 2);
    assert_int_equal(edges[0].primitive_calls, 1);
    assert_int_equal(edges[0].self_ns, 25 + 4);
    assert_int_equal(edges[0].total_ns, 40);
    assert_false(edges[0].is_untimed);
    assert_int_equal(edges[1].calls, 2);
    assert_true(edges[1].is_untimed);
    end(trace, &facts);
}

static void test_threads_and_open_calls(void **state)
{
    (void)state;
    /* A call that goes on when the other thread's has ended; children that took longer. */
    static const struct path PATHS[] = {
        {1, 0, "work", 2, 50, 0, 0},
        {2, 0, "work", 1, 30, 40, 1},
        {2, 2, "wait", 1, 40, 0, 1},
    };
    static const struct want WANT[] = {{"work", 3, 50, 80, ""}, {"wait", 1, 40, 40, "work 1 40"}};
    CHECK(PATHS, WANT);
}

static void test_root_of_calls_without_path(void **state)
{
    (void)state;
    static const struct path PATHS[] = {
        {1, 0, "(other)", 0, 0, 20, 0},
        {1, 1, "a", 5, 12, 0, 0},
        {1, 1, "b", 5, 8, 0, 0},
    };
    static const struct want WANT[] = {{"a", 5, 12, 12, "(other) 5 12"},
                                       {"b", 5, 8, 8, "(other) 5 8"}};
    CHECK(PATHS, WANT);
}

/* Is no path on the way out of its function? One by one. */
static bool is_outermost(const struct path *paths, size_t index)
{
    for (uint32_t at = paths[index].parent; at != 0; at = paths[at - 1].parent) {
        if (strcmp(paths[at - 1].function, paths[index].function) == 0) {
            return false;
        }
    }
    return true;
}

static void test_random_trees(void **state)
{
    (void)state;
    enum { COUNT = 400, ROUNDS = 20 };
    static const char *const NAMES[] = {"a", "b", "c", "d", "e", "f", "g"};
    unsigned seed = 7;
    for (int round = 0; round < ROUNDS; round++) {
        struct path paths[COUNT];
        struct ks_facts facts = {0};
        begin();
        for (uint32_t i = 0; i < COUNT; i++) {
            paths[i] = (struct path){
                .tid = 1,
                .parent = (uint32_t)rand_r(&seed) % (i + 1),
                .function = NAMES[rand_r(&seed) % (int)KS_COUNT_OF(NAMES)],
                .calls = 1,
                .total_ns = rand_r(&seed) % 1000,
            };
            add_path(&paths[i]);
        }
        struct ks_trace *trace = seal(&facts);
        for (size_t i = 0; i < facts.function_count; i++) {
            const struct ks_function_fact *got = &facts.functions[i];
            int64_t calls = 0;
            int64_t total_ns = 0;
            for (size_t k = 0; k < COUNT; k++) {
                if (strcmp(paths[k].function, ks_trace_str(trace, got->id.name).ptr) == 0) {
                    calls++;
                    total_ns += is_outermost(paths, k) ? paths[k].total_ns : 0;
                }
            }
            assert_int_equal(got->calls, calls);
            assert_int_equal(got->total_ns, total_ns);
        }
        end(trace, &facts);
    }
}

/* ------------------------------------------------------------------ samples */

static uint32_t add_stack(const char *function, uint32_t line, uint32_t caller)
{
    uint32_t id = 0;
    struct ks_stack stack = {.function = intern(function),
                             .file = intern("f.py"),
                             .first_line = 1,
                             .line = line,
                             .caller = caller};
    assert_int_equal(ks_trace_builder_stack(builder, &stack, &id, NULL), KS_OK);
    return id;
}

static void add_sample(int64_t tid, int64_t ns, uint32_t stack, uint32_t weight, bool is_running)
{
    struct ks_sample_row row = {.lane = track_of(tid),
                                .start_ns = ns,
                                .stack = stack,
                                .weight = weight,
                                .flags = is_running ? KS_SAMPLE_RUNNING : 0};
    assert_int_equal(ks_trace_builder_sample(builder, &row, NULL), KS_OK);
}

struct sample_want {
    int64_t tid;
    const char *name;
    int64_t self, total, running, thread;
};

static void check_samples(const struct ks_trace *trace, const struct ks_facts *facts,
                          const struct sample_want *want, size_t count)
{
    assert_int_equal(facts->sample_count, count);
    for (size_t i = 0; i < count; i++) {
        const struct ks_sample_fact *got = &facts->samples[i];
        assert_int_equal(ks_trace_track(trace, got->track)->number, want[i].tid);
        assert_string_equal(ks_trace_str(trace, got->id.name).ptr, want[i].name);
        assert_int_equal(got->self_looks, want[i].self);
        assert_int_equal(got->total_looks, want[i].total);
        assert_int_equal(got->running_looks, want[i].running);
        assert_int_equal(got->thread_looks, want[i].thread);
    }
}

static void test_samples(void **state)
{
    (void)state;
    struct ks_facts facts = {0};
    begin();
    uint32_t root = add_stack("main", 10, 0);
    uint32_t walk = add_stack("walk", 20, root);
    uint32_t deep = add_stack("walk", 21, walk); /* recursion: in the stack twice, counts once */
    uint32_t wait = add_stack("wait", 30, root);
    add_sample(1, 0, walk, 2, true);
    add_sample(1, 10, deep, 3, true);
    add_sample(1, 20, wait, 5, false);
    add_sample(2, 0, wait, 4, false);
    add_sample(2, 5, 0, 1, false); /* a stack that is not known */
    struct ks_trace *trace = seal(&facts);
    static const struct sample_want WANT[] = {
        {1, "wait", 5, 5, 0, 10}, {1, "walk", 5, 5, 5, 10}, {1, "main", 0, 10, 0, 10},
        {2, "wait", 4, 4, 0, 5},  {2, "main", 0, 4, 0, 5},
    };
    check_samples(trace, &facts, WANT, KS_COUNT_OF(WANT));
    end(trace, &facts);
}

static void test_none(void **state)
{
    (void)state;
    struct ks_facts facts = {0};
    begin();
    (void)add_stack("main", 1, 0); /* that no sample is at */
    struct ks_trace *trace = seal(&facts);
    assert_int_equal(facts.function_count, 0);
    assert_int_equal(facts.sample_count, 0);
    assert_int_equal(facts.function_self_ns, 0);
    end(trace, &facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_sums_and_paths),
        cmocka_unit_test(test_threads_and_open_calls),
        cmocka_unit_test(test_root_of_calls_without_path),
        cmocka_unit_test(test_random_trees),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
