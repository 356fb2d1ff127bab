/* Goal: shapes are read from the texts of a trace, and what can follow from which is told. Method:
 * cases by hand, one line each. */
#include "analyze/shapes.h"

#include "cmocka_all.h"

/* The text has so many shapes with a dimension; the last of them has so many elements. */
static void check_read(const char *text, size_t count, int64_t elements)
{
    struct ks_shapes shapes;
    ks_shapes_read(ks_str_from(text), &shapes);
    if (shapes.count != count) {
        fail_msg("%s: got %zu shapes, want %zu", text, shapes.count, count);
    }
    if (count > 0) {
        assert_int_equal(ks_shape_elements(&shapes.items[count - 1]), elements);
    }
}

static void test_read(void **state)
{
    (void)state;
    check_read("[[8, 3], [], []]", 1, 24);
    check_read("[[8, 3], [3, 5]]", 2, 15);
    check_read("[[[2], [4, 2]], [], [7]]", 3, 7); /* a list of tensors */
    check_read("[[], []]", 0, 0);
    check_read("", 0, 0);
    check_read("[[8, 3", 0, 0);
    check_read("[[8, x], [3]]", 1, 3);
    check_read("[[-1, 3]]", 1, 0);
    check_read("[[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1], [3]]", 1, 3); /* one with 17 dimensions */
    check_read("[[1],[2],[3],[4],[5],[6],[7],[8],[9]]", KS_SHAPES_MAX, 8);
}

static void check(const char *inputs, const char *result, size_t new_dims_max, bool is_possible)
{
    struct ks_shapes shapes;
    struct ks_shape shape;
    size_t at = 0;
    ks_shapes_read(ks_str_from(inputs), &shapes);
    assert_true(ks_shape_read(ks_str_from(result), &at, &shape));
    if (ks_shapes_lead_to(&shapes, &shape, new_dims_max) != is_possible) {
        fail_msg("%s to %s: want %d", inputs, result, is_possible);
    }
}

static void test_lead_to(void **state)
{
    (void)state;
    check("[[64, 100]]", "[64, 100]", 0, true); /* softmax */
    check("[[64, 100]]", "[64]", 0, true);      /* argmax */
    check("[[64, 100]]", "[64, 1]", 0, true);   /* ... that keeps the dimension */
    check("[[64, 100]]", "[100, 64]", 0, true); /* transpose */
    check("[[64, 100]]", "[6400]", 0, true);    /* flatten */
    check("[[64, 100]]", "[80, 80]", 0, true);  /* view */
    check("[[64, 100], [64]]", "[64]", 0, true);
    check("[[64, 100]]", "[64, 5]", 1, true); /* topk */
    check("[[64, 100]]", "[64, 5]", 0, false);
    check("[[64, 100]]", "[64, 3, 32]", 1, false);
    check("[[64, 100]]", "[32]", 1, false); /* nothing in common */
    check("[[1, 1]]", "[1, 1]", 0, false);  /* nor here */
    check("[[], []]", "[64]", 1, false);
}

static void test_equal(void **state)
{
    (void)state;
    struct ks_shapes shapes;
    ks_shapes_read(KS_STR("[[64, 100], [64, 100], [64], [100, 64]]"), &shapes);
    assert_true(ks_shape_equal(&shapes.items[0], &shapes.items[1]));
    assert_false(ks_shape_equal(&shapes.items[0], &shapes.items[2]));
    assert_false(ks_shape_equal(&shapes.items[0], &shapes.items[3]));
    assert_true(ks_shapes_have(&shapes, &shapes.items[3]));
    shapes.count = 3;
    assert_false(ks_shapes_have(&shapes, &shapes.items[3]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_lead_to),
        cmocka_unit_test(test_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
