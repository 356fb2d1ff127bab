/* Goal: what is in order, in runs or in none comes out sorted, and equal items keep their order.
 * Method: drawn arrays, checked item by item. */
#include "base/sort_runs.h"

#include "base/alloc.h"
#include "cmocka_all.h"

struct item {
    int32_t key;
    uint32_t place;
    char rest[3];
};

static uint32_t seed = 1;

static uint32_t draw(uint32_t count)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % count;
}

static int compare(const void *left, const void *right)
{
    const struct item *a = left;
    const struct item *b = right;
    return (a->key > b->key) - (a->key < b->key);
}

/* `run`: keys grow for so many items, then begin anew. */
static void check(size_t count, size_t run)
{
    struct item items[300];
    uint64_t sum = 0;
    uint64_t sum_after = 0;
    assert_true(count <= KS_COUNT_OF(items));
    for (size_t i = 0; i < count; i++) {
        int32_t step = (int32_t)draw(3);
        items[i] =
            (struct item){i % run ? items[i - 1].key + step : (int32_t)draw(50), (uint32_t)i, "ab"};
        sum += (uint64_t)items[i].key * (i + 1);
    }
    assert_true(ks_sort_runs(items, count, sizeof(*items), compare));
    for (size_t i = 0; i < count; i++) {
        sum_after += (uint64_t)items[i].key * (items[i].place + 1);
        assert_string_equal(items[i].rest, "ab");
        if (i > 0) {
            int order = compare(&items[i - 1], &items[i]);
            assert_true(order < 0 || (order == 0 && items[i - 1].place < items[i].place));
        }
    }
    assert_int_equal(sum, sum_after);
}

static void test_sizes_and_runs(void **state)
{
    (void)state;
    for (size_t count = 0; count <= 300; count += count < 20 ? 1 : 7) {
        for (size_t run = 1; run <= 300; run += run < 5 ? 1 : 59) {
            check(count, run);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes_and_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
