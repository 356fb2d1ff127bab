/* Goal: shapes get torch's form, however a file writes them, and a kept one is found again under
 * its own text only. Method: forms worked out by hand; random lists in which blanks change
 * nothing. */
#include "read/kineto_shapes.h"

#include <stdio.h>
#include <stdlib.h>

#include "cmocka_all.h"
#include "numbers.h"

static struct ks_str str_of(const char *text)
{
    return (struct ks_str){text, strlen(text)};
}

static struct kineto_shapes *new_shapes(void)
{
    struct kineto_shapes *shapes = malloc(sizeof(*shapes));
    assert_non_null(shapes);
    kineto_shapes_init(shapes);
    return shapes;
}

static void free_shapes(struct kineto_shapes *shapes)
{
    kineto_shapes_release(shapes);
    free(shapes);
}

static void check(struct kineto_shapes *shapes, const char *text, const char *expected)
{
    struct ks_str form = kineto_shapes_normalise(shapes, str_of(text));
    assert_non_null(form.ptr);
    assert_int_equal(form.len, strlen(expected));
    assert_memory_equal(form.ptr, expected, form.len);
}

static void test_form(void **state)
{
    (void)state;
    struct kineto_shapes *shapes = new_shapes();
    check(shapes, "[]", "[]");
    check(shapes, "[[], [100, 1], [1], []]", "[[], [100, 1], [1], []]");
    check(shapes, "[[4096,100],[1]]", "[[4096, 100], [1]]");
    check(shapes, "[ [4096,  100 ] ,\n\t[1]\r]", "[[4096, 100], [1]]");
    check(shapes, "[[[1, 2], [3]], []]", "[[], []]");
    check(shapes, "[[1], [[[2]], 3], [4,5]]", "[[1], [], [4, 5]]");
    check(shapes, "[[[]]]", "[[]]");
    check(shapes, "7", "7");
    /* No lists that pair: nothing is promised but that it ends. */
    check(shapes, "]]][", "]]][");
    check(shapes, "\"a, b\"", "\"a, b\"");
    free_shapes(shapes);
}

static void test_kept(void **state)
{
    (void)state;
    struct kineto_shapes *shapes = new_shapes();
    assert_int_equal(kineto_shapes_find(shapes, str_of("[[1]]")), 0);
    kineto_shapes_keep(shapes, str_of("[[1]]"), 7);
    assert_int_equal(kineto_shapes_find(shapes, str_of("[[1]]")), 7);
    assert_int_equal(kineto_shapes_find(shapes, str_of("[[2]]")), 0);
    assert_int_equal(kineto_shapes_find(shapes, (struct ks_str){"[[1]]", 4}), 0);

    /* One byte too long is not kept. */
    char text[SHAPE_TEXT_MAX + 1];
    memset(text, '[', sizeof(text));
    kineto_shapes_keep(shapes, (struct ks_str){text, SHAPE_TEXT_MAX + 1}, 8);
    assert_int_equal(kineto_shapes_find(shapes, (struct ks_str){text, SHAPE_TEXT_MAX + 1}), 0);
    kineto_shapes_keep(shapes, (struct ks_str){text, SHAPE_TEXT_MAX}, 9);
    assert_int_equal(kineto_shapes_find(shapes, (struct ks_str){text, SHAPE_TEXT_MAX}), 9);
    free_shapes(shapes);
}

/* Far more shapes than are kept: each is found under its own id or not at all. */
static void test_places_are_taken_over(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    struct kineto_shapes *shapes = new_shapes();
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned i = 0; i < COUNT; i++) {
            char text[32];
            struct ks_str raw = {text, (size_t)sprintf(text, "[[%u]]", i)};
            uint32_t found = kineto_shapes_find(shapes, raw);
            assert_true(found == 0 || (pass == 1 && found == i + 1));
            kineto_shapes_keep(shapes, raw, i + 1);
            assert_int_equal(kineto_shapes_find(shapes, raw), i + 1);
        }
    }
    free_shapes(shapes);
}

/* Lists of lists with blanks anywhere between their parts, and in torch's form beside it. */
struct pair {
    char written[2000], form[2000];
    size_t written_len, form_len;
};

static void put(struct pair *pair, struct numbers *numbers, const char *part, bool is_in_form)
{
    static const char *const BLANKS[] = {"", "", "", " ", "\n", " \t", "\r\n"};
    pair->written_len +=
        (size_t)sprintf(pair->written + pair->written_len, "%s%s",
                        pair->written_len > 0 ? BLANKS[numbers_below(numbers, 7)] : "", part);
    if (is_in_form) {
        pair->form_len +=
            (size_t)sprintf(pair->form + pair->form_len, "%s%s", part, part[0] == ',' ? " " : "");
    }
}

static void put_entry(struct pair *pair, struct numbers *numbers)
{
    bool is_list = numbers_below(numbers, 4) == 0;
    uint64_t count = is_list + numbers_below(numbers, 4);
    put(pair, numbers, "[", true);
    for (uint64_t i = 0; i < count; i++) {
        char number[16];
        (void)sprintf(number, is_list ? "[%u]" : "%u", (unsigned)numbers_below(numbers, 5000));
        put(pair, numbers, i > 0 ? "," : "", !is_list);
        put(pair, numbers, number, !is_list);
    }
    put(pair, numbers, "]", true);
}

static void test_blanks_change_nothing(void **state)
{
    (void)state;
    struct numbers numbers = {9};
    struct kineto_shapes *shapes = new_shapes();
    for (int round = 0; round < 20000; round++) {
        struct pair pair = {.written_len = 0};
        uint64_t count = numbers_below(&numbers, 6);
        put(&pair, &numbers, "[", true);
        for (uint64_t i = 0; i < count; i++) {
            put(&pair, &numbers, i > 0 ? "," : "", true);
            put_entry(&pair, &numbers);
        }
        put(&pair, &numbers, "]", true);
        check(shapes, pair.written, pair.form);
        check(shapes, pair.form, pair.form);
    }
    free_shapes(shapes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_places_are_taken_over),
        cmocka_unit_test(test_blanks_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
