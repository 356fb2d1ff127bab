/* Goal: sequences of kernels are found and counted as docs/analyses/sequences.md defines. Method:
 * its worked example; breaks between kernels; random streams of few names against a twin that
 * compares every window with every other one. */
#include <string.h>

#include "cmocka_all.h"
#include "facts_fixture.h"
#include "numbers.h"

static struct facts_fixture f;

/* Names of kernels are single letters; '.' is a copy. Each lasts 10 and starts `gap` behind. */
static void add_stream(int64_t stream, const char *text, int64_t gap)
{
    for (size_t i = 0; text[i]; i++) {
        const char name[] = {text[i], '\0'};
        bool is_copy = text[i] == '.';
        FACTS_DEVICE(&f, {0, stream, is_copy ? MEMCPY : KERNEL, is_copy ? "Memcpy DtoD" : name,
                          (int64_t)i * (10 + gap), 10});
    }
}

static const struct ks_sequence_fact *find(const char *text)
{
    for (size_t i = 0; i < f.facts.sequence_count; i++) {
        const struct ks_sequence_fact *fact = &f.facts.sequences[i];
        bool is_same = (size_t)fact->length == strlen(text);
        for (size_t k = 0; is_same && k < (size_t)fact->length; k++) {
            is_same = ks_trace_str(f.trace, fact->kernels[k]).ptr[0] == text[k];
        }
        if (is_same) {
            return fact;
        }
    }
    return NULL;
}

static void check(const char *text, int64_t count, int64_t total_ns, int64_t gap_ns)
{
    const struct ks_sequence_fact *fact = find(text);
    if (!fact) {
        fail_msg("no sequence %s", text);
    }
    assert_int_equal(fact->count, count);
    assert_int_equal(fact->total_ns, total_ns);
    assert_int_equal(fact->gap_ns, gap_ns);
}

static void test_worked_example(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    add_stream(7, "abcabxabc", 2);
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.sequence_count, 2);
    check("ab", 3, 60, 6);
    check("abc", 2, 60, 8);
    assert_true(ks_str_equal(f.facts.sequences[0].text, KS_STR("a > b > c")));
    facts_fixture_release(&f);
}

/* Occurrences do not overlap, and copies and other streams come between. */
static void test_breaks(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    add_stream(7, "aaaaa", 0);
    add_stream(8, "b.cbc.d", 0);
    add_stream(9, "bc", 0);
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.sequence_count, 2);
    check("aa", 2, 40, 0);
    check("bc", 2, 40, 0);
    facts_fixture_release(&f);
}

/* Of a long loop, windows of eight that follow each other. */
static void test_long_loop(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    add_stream(7, "abcdefghijklmnopqrst.abcdefghijklmnopqrst", 1);
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.sequence_count, 2);
    check("abcdefgh", 2, 160, 14);
    check("ijklmnop", 2, 160, 14);
    facts_fixture_release(&f);
}

static void test_fusible(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    for (int i = 0; i < 2; i++) {
        FACTS_DEVICE(
            &f,
            {0, 7, KERNEL, "void at::(anonymous namespace)::vectorized_elementwise_kernel<4>(int)",
             i * 100, 10},
            {0, 7, KERNEL, "ns::cunn_SoftMaxForward<4>", i * 100 + 10, 10},
            {0, 7, MEMSET, "Memset", i * 100 + 20, 1}, {0, 7, KERNEL, "sgemm", i * 100 + 30, 10},
            {0, 7, KERNEL, "elementwise_kernel", i * 100 + 40, 10},
            {0, 7, MEMSET, "Memset", i * 100 + 60, 1});
    }
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.sequence_count, 2);
    static const char *const texts[] = {"sgemm > elementwise_kernel",
                                        "vectorized_elementwise_kernel > cunn_SoftMaxForward"};
    for (size_t i = 0; i < 2; i++) {
        bool is_gemm = ks_str_contains(f.facts.sequences[i].text, KS_STR("gemm"));
        assert_int_equal(f.facts.sequences[i].is_fusible, !is_gemm);
        assert_true(ks_str_equal(f.facts.sequences[i].text, ks_str_from(texts[!is_gemm])));
    }
    facts_fixture_release(&f);
}

/* ------------------------------------------------------------------ twin */

enum { TEXT_MAX = 64 };

/* Occurrences of a window that do not overlap, from the left. */
static int64_t count_of(const char *text, const char *window, size_t length)
{
    int64_t count = 0;
    for (size_t i = 0; i + length <= strlen(text);) {
        bool is_it = memcmp(text + i, window, length) == 0;
        count += is_it;
        i += is_it ? length : 1;
    }
    return count;
}

static bool is_whole(const char *window, size_t length)
{
    return !memchr(window, '.', length);
}

/* A window one longer, at this place of the text, that occurs as often. */
static bool is_covered(const char *text, const char *window, size_t length, int64_t count)
{
    for (size_t i = 0; i + length + 1 <= strlen(text); i++) {
        bool holds =
            memcmp(text + i, window, length) == 0 || memcmp(text + i + 1, window, length) == 0;
        if (holds && is_whole(text + i, length + 1) &&
            count_of(text, text + i, length + 1) >= count) {
            return true;
        }
    }
    return false;
}

/* Checks all windows shorter than the longest, where nothing is left out. */
static void compare(const char *text, uint64_t seed)
{
    size_t expected = 0;
    for (size_t length = 2; length < KS_SEQUENCE_MAX; length++) {
        for (size_t i = 0; i + length <= strlen(text); i++) {
            char window[KS_SEQUENCE_MAX + 1] = "";
            memcpy(window, text + i, length);
            bool is_first = !memmem(text, i + length - 1, window, length);
            int64_t count = count_of(text, window, length);
            bool is_row = count >= 2 && is_first && is_whole(window, length) &&
                          !is_covered(text, window, length, count);
            expected += is_row;
            const struct ks_sequence_fact *fact = find(window);
            if (is_first && is_whole(window, length) && (fact != NULL) != is_row) {
                fail_msg("seed %llu: %s in %s", (unsigned long long)seed, window, text);
            }
            if (is_row) {
                assert_int_equal(fact->count, count);
                assert_int_equal(fact->total_ns, count * 10 * (int64_t)length);
                assert_int_equal(fact->gap_ns, count * 3 * ((int64_t)length - 1));
            }
        }
    }
    for (size_t i = 0; i < f.facts.sequence_count; i++) {
        expected += f.facts.sequences[i].length == KS_SEQUENCE_MAX;
    }
    assert_int_equal(f.facts.sequence_count, expected);
}

static void test_random(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct numbers numbers = {seed};
        char text[TEXT_MAX + 1] = "";
        size_t count = 1 + (size_t)numbers_below(&numbers, TEXT_MAX);
        for (size_t i = 0; i < count; i++) {
            text[i] = "aabbc."[numbers_below(&numbers, 6)];
        }
        facts_fixture_init(&f, seed % 2 ? 0 : 8, 0);
        add_stream(7, text, 3);
        facts_fixture_compute(&f, NULL);
        compare(text, seed);
        facts_fixture_release(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example), cmocka_unit_test(test_breaks),
        cmocka_unit_test(test_long_loop),      cmocka_unit_test(test_fusible),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
