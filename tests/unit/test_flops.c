/* Goal: FLOPs are those that torch prints. Method: cases by hand, one line each; the texts are as
 * a trace holds them. */
#include "analyze/flops.h"

#include "cmocka_all.h"

static void check(const char *name, const char *shapes, const char *types, const char *concrete,
                  int64_t flops)
{
    struct ks_flops_call call = {ks_str_from(name), ks_str_from(shapes), ks_str_from(types),
                                 ks_str_from(concrete)};
    int64_t got = ks_flops_count(&call);
    if (got != flops) {
        fail_msg("%s %s: got %lld, want %lld", name, shapes, (long long)got, (long long)flops);
    }
}

static void test_matmul(void **state)
{
    (void)state;
    check("aten::mm", "[[2, 3], [3, 5]]", "", "", 60);
    check("aten::mm", "[[0, 3], [3, 5]]", "", "", 0);
    check("aten::mm", "[[2, 0], [0, 5]]", "", "", 0);
    check("aten::addmm", "[[5], [2, 3], [3, 5], [], []]", "", "", 60);
    check("aten::bmm", "[[4, 2, 3], [4, 3, 5]]", "", "", 240);
    check("aten::baddbmm", "[[4, 2, 5], [4, 2, 3], [4, 3, 5]]", "", "", 240);
    check("aten::mm", "[[2, 3]]", "", "", 0);
    check("aten::mm", "", "", "", 0);
    check("aten::mm", "[[4611686018427387904, 4], [4, 4]]", "", "", INT64_MAX);
    check("aten::linear", "[[2, 3], [5, 3]]", "", "", 0);
}

static void test_pointwise(void **state)
{
    (void)state;
    check("aten::add", "[[4, 5], [5], []]", "[\"float\", \"float\", \"Scalar\"]", "", 20);
    check("aten::mul", "[[], []]", "[\"float\", \"Scalar\"]", "", 1);
    check("aten::mul", "[[], []]", "[\"Scalar\", \"float\"]", "", 0);
    check("aten::mul", "[[], []]", "[\"\", \"\"]", "", 0);
    check("aten::add_", "[[4, 5], [5], []]", "", "", 0);
}

static void test_conv2d(void **state)
{
    (void)state;
    const char *plain = "[\"\", \"\", \"\", \"[1, 1]\", \"[0, 0]\", \"[1, 1]\", \"1\"]";
    const char *padded = "[\"\", \"\", \"\", \"[2, 2]\", \"[1, 1]\", \"[1, 1]\", \"1\"]";
    const char *dilated = "[\"\", \"\", \"\", \"[1, 1]\", \"[0, 0]\", \"[2, 2]\", \"1\"]";
    const char *grouped = "[\"\", \"\", \"\", \"[1, 1]\", \"[0, 0]\", \"[1, 1]\", \"2\"]";
    const char *same = "[\"\", \"\", \"\", \"[1, 1]\", \"same\", \"[1, 1]\", \"1\"]";
    const char *shapes = "[[1, 2, 8, 8], [4, 2, 3, 3], [4], [], [], [], []]";
    check("aten::conv2d", shapes, "", plain, 2 * 6 * 6 * 9 * 2 * 4);
    check("aten::conv2d", shapes, "", padded, 2 * 4 * 4 * 9 * 2 * 4);
    check("aten::conv2d", shapes, "", dilated, 2 * 4 * 4 * 9 * 2 * 4);
    check("aten::conv2d", "[[1, 2, 8, 8], [4, 1, 3, 3], [4], [], [], [], []]", "", grouped,
          2 * 6 * 6 * 9 * 2 * 4 / 2);
    check("aten::conv2d", shapes, "", same, 0);
    check("aten::conv2d", shapes, "", "", 0);
    check("aten::conv2d", "[[2, 8, 8], [4, 2, 3, 3], [4], [], [], [], []]", "", plain, 0);
}

static void test_broken_text(void **state)
{
    (void)state;
    const char *broken[] = {"[", "[[", "[[2,", "[[2, 3], [3", "]]", "[[a], [b]]", "[[-]]", "[[2"};
    for (size_t i = 0; i < KS_COUNT_OF(broken); i++) {
        check("aten::mm", broken[i], "", "", 0);
        check("aten::conv2d", "[[1, 2, 8, 8], [4, 2, 3, 3], [4], [], [], [], []]", "", broken[i],
              0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_pointwise),
        cmocka_unit_test(test_conv2d),
        cmocka_unit_test(test_broken_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
