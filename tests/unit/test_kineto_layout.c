/* Goal: learned texts are found where they stand and nowhere else, and the vector form of the look
 * agrees with its scalar twin. Method: texts that differ in one byte, and random ones. */
#include "read/kineto_layout.h"

#include <stdio.h>

#include "cmocka_all.h"
#include "numbers.h"

enum { PAD = 64 };

static unsigned learn(struct kineto_layout *layout, unsigned before, const char *text, uint8_t how,
                      bool is_first)
{
    size_t len = strlen(text);
    struct kineto_step meaning = {.how = how, .size = (uint8_t)len};
    return kineto_layout_learn(layout, before, text, text + len, &meaning, is_first);
}

static unsigned match(struct kineto_layout *layout, unsigned before, const char *text)
{
    char padded[100 + PAD] = {0};
    memcpy(padded, text, strlen(text));
    return kineto_layout_match(layout, before, padded);
}

static void test_learn(void **state)
{
    (void)state;
    struct kineto_layout layout;
    kineto_layout_init(&layout);
    assert_int_equal(match(&layout, LAYOUT_EVENT, "{\"ph\": \"X\""), 0);
    unsigned phase = learn(&layout, LAYOUT_EVENT, "{\"ph\": ", 3, false);
    unsigned name = learn(&layout, phase, ", \"name\": ", 4, false);
    unsigned cat = learn(&layout, phase, ", \"cat\": ", 5, false);
    assert_true(phase >= LAYOUT_FREE && name > phase && cat > name);
    assert_int_equal(match(&layout, LAYOUT_EVENT, "{\"ph\": \"X\""), phase);
    assert_int_equal(match(&layout, LAYOUT_EVENT, "{\"ph\":\"X\""), 0);
    assert_int_equal(match(&layout, phase, ", \"cat\": "), cat);
    assert_int_equal(match(&layout, phase, ", \"name\": "), name);
    assert_int_equal(match(&layout, name, ", \"cat\": "), 0);
    /* The same text is the same step, wherever it stands; another meaning makes another step. */
    assert_int_equal(learn(&layout, cat, ", \"name\": ", 4, false), name);
    assert_int_not_equal(learn(&layout, LAYOUT_ARGS, ", \"name\": ", 6, false), name);
    /* A key that means nothing is another step in an event and in its arguments: what follows it
     * there is of its own level. */
    const char *text = ", \"Ev Idx\": ";
    struct kineto_step nothing = {.how = 1, .level = LAYOUT_EVENT, .size = 12};
    unsigned of_event =
        kineto_layout_learn(&layout, phase, text, text + strlen(text), &nothing, false);
    nothing.level = LAYOUT_ARGS;
    unsigned of_args =
        kineto_layout_learn(&layout, LAYOUT_ARGS, text, text + strlen(text), &nothing, false);
    assert_int_not_equal(of_event, of_args);
    unsigned dims = learn(&layout, of_event, ", \"Input Dims\": ", 8, false);
    assert_int_equal(match(&layout, of_event, ", \"Input Dims\": "), dims);
    assert_int_equal(match(&layout, of_args, ", \"Input Dims\": "), 0);
    /* What is longer is tried first when it was learned so: "4" begins "41", too. */
    unsigned four = learn(&layout, cat, ", \"pid\": 4", 7, true);
    unsigned forty_one = learn(&layout, cat, ", \"pid\": 41", 7, true);
    assert_int_equal(match(&layout, cat, ", \"pid\": 41,"), forty_one);
    assert_int_equal(match(&layout, cat, ", \"pid\": 42,"), four);
}

static void test_limits(void **state)
{
    (void)state;
    struct kineto_layout layout;
    kineto_layout_init(&layout);
    char text[LAYOUT_TEXT_MAX + 2];
    memset(text, 'x', sizeof(text) - 1);
    text[LAYOUT_TEXT_MAX + 1] = '\0';
    assert_int_equal(learn(&layout, LAYOUT_EVENT, text, 1, false), 0);
    text[LAYOUT_TEXT_MAX] = '\0';
    unsigned step = learn(&layout, LAYOUT_EVENT, text, 1, false);
    assert_int_equal(match(&layout, LAYOUT_EVENT, text), step);
    for (size_t i = 0; i < LAYOUT_TEXT_MAX; i++) {
        text[i] = 'y';
        assert_int_equal(match(&layout, LAYOUT_EVENT, text), 0);
        text[i] = 'x';
    }
    assert_int_equal(learn(&layout, LAYOUT_EVENT, "", 1, false), 0);
    struct kineto_step meaning = {.how = 1, .size = 3};
    static const char with_nul[] = "a\0b";
    assert_int_equal(
        kineto_layout_learn(&layout, LAYOUT_EVENT, with_nul, with_nul + 3, &meaning, false), 0);
}

/* More texts than there is room for: what an event has learned stays until the next one begins. */
static void test_overflow(void **state)
{
    (void)state;
    struct kineto_layout layout;
    char text[32];
    kineto_layout_init(&layout);
    unsigned first = learn(&layout, LAYOUT_ARGS, "first:", 1, false);
    unsigned step = first;
    for (int i = 0; step != 0; i++) {
        assert_true(i < LAYOUT_STEPS_MAX && step >= LAYOUT_FREE && step < LAYOUT_STEPS_MAX);
        snprintf(text, sizeof(text), "key %d:", i);
        step = learn(&layout, step, text, 1, false);
    }
    assert_int_equal(match(&layout, LAYOUT_ARGS, "first:"), first);
    kineto_layout_begin_event(&layout);
    assert_int_equal(match(&layout, LAYOUT_ARGS, "first:"), 0);
    step = learn(&layout, LAYOUT_ARGS, text, 1, false);
    assert_int_equal(match(&layout, LAYOUT_ARGS, text), step);
    kineto_layout_begin_event(&layout); /* there is room: nothing is forgotten */
    assert_int_equal(match(&layout, LAYOUT_ARGS, text), step);
}

static void test_match_twin(void **state)
{
    (void)state;
    struct numbers numbers = {5};
    for (int round = 0; round < 20000; round++) {
        struct kineto_layout layout;
        kineto_layout_init(&layout);
        char text[LAYOUT_TEXT_MAX + PAD] = {0};
        size_t len = 1 + (size_t)numbers_below(&numbers, LAYOUT_TEXT_MAX);
        for (size_t i = 0; i < len; i++) {
            text[i] = (char)(1 + numbers_below(&numbers, 255));
        }
        struct kineto_step meaning = {.how = 1};
        unsigned step =
            kineto_layout_learn(&layout, LAYOUT_EVENT, text, text + len, &meaning, false);
        text[numbers_below(&numbers, sizeof(text))] ^= (char)numbers_below(&numbers, 2);
        text[numbers_below(&numbers, LAYOUT_TEXT_MAX)] ^= (char)(numbers_below(&numbers, 2) << 7);
        assert_int_equal(kineto_step_matches(&layout.steps[step], text),
                         kineto_step_matches_scalar(&layout.steps[step], text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learn),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_match_twin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
