/* Goal: an operator's GPU time is found in whatever order operators are asked for. Method: entries
 * as ks_device_time_init leaves them, and a look at each as the twin. The sums themselves are
 * checked with the operators (test_operators.c). */
#include "analyze/device_time.h"

#include "cmocka_all.h"
#include "numbers.h"

enum { COUNT_MAX = 300, BITS = 1 << 8 };

static int64_t find_slowly(const struct ks_device_time *time, uint32_t source, int64_t ext_id)
{
    for (size_t i = 0; i < time->count; i++) {
        if (time->entries[i].source == source && time->entries[i].ext_id == ext_id) {
            return time->entries[i].ns;
        }
    }
    return 0;
}

/* Ids of up to three sources, some of them missing. */
static void fill(struct ks_device_time *time, struct numbers *numbers)
{
    size_t count = (size_t)numbers_below(numbers, COUNT_MAX);
    uint32_t source = 0;
    int64_t ext_id = 0;
    time->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (source < 2 && numbers_below(numbers, 100) == 0) {
            source++;
            ext_id = 0;
        }
        ext_id += 1 + (int64_t)numbers_below(numbers, 3);
        time->entries[time->count++] =
            (struct ks_device_time_entry){ext_id, 1 + (int64_t)i, source};
        uint64_t bit = (uint64_t)ext_id & (time->seen_bits - 1);
        time->seen[bit / 64] |= (uint64_t)1 << (bit % 64);
    }
}

static void test_any_order(void **state)
{
    (void)state;
    struct numbers numbers = {3};
    size_t found = 0;
    for (int round = 0; round < 300; round++) {
        struct ks_device_time_entry entries[COUNT_MAX];
        uint64_t seen[BITS / 64] = {0};
        struct ks_device_time time = {.entries = entries, .seen = seen, .seen_bits = BITS};
        fill(&time, &numbers);
        int64_t at = 0;
        for (int ask = 0; ask < 400; ask++) {
            bool is_near = numbers_below(&numbers, 5) > 0;
            at = is_near ? at + 1 : (int64_t)numbers_below(&numbers, 700) - 10;
            uint32_t source = (uint32_t)numbers_below(&numbers, 4);
            int64_t ns = ks_device_time_find(&time, source, at);
            assert_int_equal(ns, find_slowly(&time, source, at));
            found += ns > 0;
        }
    }
    assert_true(found > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
