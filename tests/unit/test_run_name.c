/* Goal: only names that the recorder writes count as its traces. Method: one line each. */
#include "read/run_name.h"

#include "cmocka_all.h"

static void check(const char *path, int64_t rank, int64_t pid, int64_t window, bool is_stacks)
{
    struct ks_run_name name;
    assert_true(ks_run_name_parse(ks_str_from(path), &name));
    assert_int_equal(name.rank, rank);
    assert_int_equal(name.pid, pid);
    assert_int_equal(name.window, window);
    assert_int_equal(name.is_stacks, is_stacks);
}

static void refuse(const char *path)
{
    struct ks_run_name name;
    assert_false(ks_run_name_parse(ks_str_from(path), &name));
}

static void test_names(void **state)
{
    (void)state;
    check("rank0.pid7.window1.pt.trace.json.gz", 0, 7, 1, false);
    check("a/rank9/rank12.pid34567.window89.stacks.pt.trace.json.gz", 12, 34567, 89, true);
    refuse("");
    refuse("rank0.pid7.window1.pt.trace.json.gz/");
    refuse("rank0.pid7.window1.pt.trace.json.gz.tmp");
    refuse("rank0.pid7.window1.pt.trace.json");
    refuse("rank.pid7.window1.pt.trace.json.gz");
    refuse("rank-1.pid7.window1.pt.trace.json.gz");
    refuse("rank0.pid7.window12345678901.pt.trace.json.gz");
    refuse("xrank0.pid7.window1.pt.trace.json.gz");
    refuse("rank0.pid7.window1.stacks.stacks.pt.trace.json.gz");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
