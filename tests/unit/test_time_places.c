/* Goal: time that no operator explains names the innermost function of the user's that holds half
 * of it. Method: the example of docs/analyses/places.md, and what it must not be taken for. */
#include "analyze/time_places.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

#define MS *(int64_t)1000000
#define FRAME(name, start, dur)                                                                    \
    {                                                                                              \
        1, PY, name, (start)MS, (dur)MS                                                            \
    }

static const char loader[] = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
static const char recorder[] = "/opt/kinetoscope/torch/recorder.py(42): guarded";

static struct facts_fixture f;

static void check(enum ks_time_kind kind, const char *file, int64_t line)
{
    const struct ks_time_place *place = ks_time_place_find(&f.facts, KS_TIME_ANY_SOURCE, kind);
    if (!file) {
        assert_null(place);
        return;
    }
    assert_non_null(place);
    assert_true(ks_str_equal(place->file, ks_str_from(file)));
    assert_int_equal(place->line, line);
    assert_int_equal(place->step, 14);
    assert_ptr_equal(ks_time_place_find(&f.facts, 0, kind), place);
    assert_null(ks_time_place_find(&f.facts, 1, kind));
}

/* A step of 100 ms, main() around all of it: 0..20 the recorder, 20..50 the loader, of which read()
 * has 21..47, parse() 30..42 of these; 50..60 a model with an operator, 60..95 log(), which calls
 * itself, of which json has 62..90; 95..100 an operator. */
static void add_step(int64_t at)
{
    FACTS_HOST(&f, FRAME("train.py(90): <module>", at, 100), FRAME("train.py(50): main", at, 100),
               FRAME(recorder, at, 20), {1, NOTE, loader, (at + 20) MS, 30 MS},
               FRAME("torch/utils/data/dataloader.py(700): __next__", at + 20, 30),
               FRAME("data.py(10): read", at + 21, 26), FRAME("data.py(20): parse", at + 30, 12),
               FRAME("nn.Module: Net_0", at + 50, 10), FRAME("model.py(5): forward", at + 51, 8),
               FRAME("nn.Module: Linear_0", at + 52, 6), {1, OP, "aten::mm", (at + 50) MS, 10 MS},
               FRAME("log.py(3): log", at + 60, 35), FRAME("log.py(3): log", at + 61, 33),
               FRAME("json/encoder.py(200): encode", at + 62, 28),
               {1, OP, "aten::mm", (at + 95) MS, 5 MS});
}

static void build(int64_t steps)
{
    static const char *const names[] = {"ProfilerStep#14", "ProfilerStep#15"};
    facts_fixture_init(&f, 0, 0);
    for (int64_t i = 0; i < steps; i++) {
        FACTS_HOST(&f, {1, NOTE, names[i], (i * 100) MS, 100 MS});
        add_step(i * 100);
    }
    facts_fixture_compute(&f, NULL);
}

/* Waiting: 26 of 30 ms are in read(), 12 in parse(), less than half. Without operators: 35 ms, all
 * in log(). A step without the recorder has 80 ms: 35 are less than half, main() has all. */
static void test_example(void **state)
{
    (void)state;
    build(1);
    check(KS_TIME_DATA, "data.py", 10);
    check(KS_TIME_QUIET, "log.py", 3);
    check(KS_TIME_STEP, "train.py", 50);
    check(KS_TIME_MODEL, "train.py", 50);
    facts_fixture_release(&f);
}

/* Of several steps nobody knows which one is asked for. */
static void test_two_steps(void **state)
{
    (void)state;
    build(2);
    check(KS_TIME_DATA, "data.py", 10);
    check(KS_TIME_QUIET, "log.py", 3);
    check(KS_TIME_STEP, NULL, 0);
    facts_fixture_release(&f);
}

/* The recorder's time is nobody's, another thread works in the only pause, and frames of libraries
 * alone name nothing. */
static void test_nobody(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    FACTS_HOST(&f, {1, NOTE, "ProfilerStep#14", 0, 100 MS},
               FRAME("torch/nn/modules/module.py(1): run", 0, 100), FRAME(recorder, 0, 60),
               FRAME("train.py(7): pause", 60, 30), {2, OP, "aten::mm", 60 MS, 30 MS},
               {1, OP, "aten::mm", 90 MS, 10 MS});
    facts_fixture_compute(&f, NULL);
    check(KS_TIME_DATA, NULL, 0);
    check(KS_TIME_QUIET, NULL, 0);
    check(KS_TIME_STEP, "train.py", 7); /* 30 of 40 ms */
    check(KS_TIME_MODEL, NULL, 0);
    facts_fixture_release(&f);
}

/* Half of the time must be inside of one function. */
static void test_half(void **state)
{
    (void)state;
    for (int64_t ms = 19; ms <= 20; ms++) {
        facts_fixture_init(&f, 0, 0);
        FACTS_HOST(&f, {1, NOTE, "ProfilerStep#14", 0, 100 MS}, FRAME("train.py(7): pause", 0, ms),
                   {1, OP, "aten::mm", 40 MS, 60 MS});
        facts_fixture_compute(&f, NULL);
        check(KS_TIME_QUIET, ms == 20 ? "train.py" : NULL, 7);
        facts_fixture_release(&f);
    }
}

static void test_no_frames(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    FACTS_HOST(&f, {1, NOTE, "ProfilerStep#14", 0, 100 MS}, {1, OP, "aten::mm", 40 MS, 10 MS});
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.time_place_count, 0);
    facts_fixture_release(&f);
}

/* A recording without frames takes the places of another one, of the same rank. */
static void test_from_another_recording(void **state)
{
    (void)state;
    struct ks_err err = {0};
    struct ks_scope all = {0};
    struct ks_facts framed;
    build(1);
    struct facts_fixture other = f;
    framed = f.facts;
    facts_fixture_init(&f, 0, 0);
    FACTS_HOST(&f, {1, NOTE, "ProfilerStep#1", 0, 100 MS}, {1, OP, "aten::mm", 40 MS, 10 MS});
    facts_fixture_seal(&f);
    const struct ks_facts_help help = {.framed = &framed};
    assert_int_equal(ks_facts_compute_with(f.trace, &all, &help, &f.facts, &err), KS_OK);
    facts_fixture_release(&other); /* what was taken is copied */
    check(KS_TIME_DATA, "data.py", 10);
    check(KS_TIME_QUIET, "log.py", 3);
    facts_fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),   cmocka_unit_test(test_two_steps),
        cmocka_unit_test(test_nobody),    cmocka_unit_test(test_half),
        cmocka_unit_test(test_no_frames), cmocka_unit_test(test_from_another_recording),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
