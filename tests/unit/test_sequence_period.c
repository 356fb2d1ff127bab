/* Goal: the loop of a sequence is found also when its start or end is no part of it. Method:
 * letters as symbols, cases by hand; a slow twin on random sequences. */
#include "analyze/sequence_period.h"

#include <string.h>

#include "cmocka_all.h"
#include "numbers.h"

enum { SYMBOLS_MAX = 64 };

static void check(const char *text, size_t period_min, size_t begin, size_t end, size_t period)
{
    uint32_t symbols[SYMBOLS_MAX];
    uint32_t links[SYMBOLS_MAX];
    size_t count = strlen(text);
    for (size_t i = 0; i < count; i++) {
        symbols[i] = (uint32_t)text[i];
    }
    struct ks_sequence_period found = {0};
    assert_true(ks_sequence_period_find(symbols, count, period_min, links, &found) == (period > 0));
    assert_int_equal(found.period, period);
    if (period > 0) {
        assert_int_equal(found.begin, begin);
        assert_int_equal(found.end, end);
    }
}

static void test_by_hand(void **state)
{
    (void)state;
    check("abcabcabc", 1, 0, 9, 3);
    check("xyabcabcabc", 1, 2, 11, 3); // something comes before the loop
    check("abcabcabcxy", 1, 0, 9, 3);  // or after it
    check("abcabcabcab", 1, 0, 11, 3); // it may be cut
    check("aabaabaab", 1, 0, 9, 3);    // the smallest one that covers most, not "a"
    check("aaaaaa", 1, 0, 6, 1);
    check("aaaaaa", 2, 0, 0, 0); // one thing all over is no loop of two
    check("abcabc", 1, 0, 0, 0); // twice is no loop
    check("abcdefghi", 1, 0, 0, 0);
    check("abababuvwxyzuv", 1, 0, 0, 0); // repeats, but less than half
    check("a", 1, 0, 0, 0);
    check("", 1, 0, 0, 0);
}

static bool repeats(const uint32_t *symbols, size_t begin, size_t end, size_t period)
{
    for (size_t i = begin + period; i < end; i++) {
        if (symbols[i] != symbols[i - period]) {
            return false;
        }
    }
    return (end - begin) / period >= 3;
}

/* Smallest period over any beginning or end that holds more than half, or 0. */
static size_t slowly(const uint32_t *symbols, size_t count)
{
    for (size_t period = 1; period <= count / 3; period++) {
        for (size_t length = count / 2 + 1; length <= count; length++) {
            if (repeats(symbols, 0, length, period) ||
                repeats(symbols, count - length, count, period)) {
                return period;
            }
        }
    }
    return 0;
}

static void test_against_slow_twin(void **state)
{
    (void)state;
    struct numbers numbers = {9};
    for (int round = 0; round < 4000; round++) {
        uint32_t symbols[SYMBOLS_MAX];
        uint32_t links[SYMBOLS_MAX];
        size_t count = 2 + (size_t)numbers_below(&numbers, 30);
        size_t loop = 1 + (size_t)numbers_below(&numbers, 6);
        for (size_t i = 0; i < count; i++) {
            bool is_noise = numbers_below(&numbers, 25) == 0;
            symbols[i] =
                i < loop || is_noise ? (uint32_t)numbers_below(&numbers, 3) : symbols[i - loop];
        }
        struct ks_sequence_period found = {0};
        bool is_found = ks_sequence_period_find(symbols, count, 1, links, &found);
        assert_int_equal(is_found ? found.period : 0, slowly(symbols, count));
        assert_true(!is_found || repeats(symbols, found.begin, found.end, found.period));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_against_slow_twin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
