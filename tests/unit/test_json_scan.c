/* Goal: each vector scan stops where its scalar twin does. Method: texts made of the bytes that
 * matter, at every offset to the vector's width, with zero bytes behind the end. */
#include "read/json_scan.h"

#include <stdio.h>
#include <string.h>

#include "cmocka_all.h"
#include "numbers.h"
#include "read/json_arrays.h"

enum { TEXT_SIZE = 200, PAD = 64 };

/* `alphabet` bytes at random, mostly the first ones, so that scans get far. */
static void fill(char *text, size_t size, const char *alphabet, size_t count,
                 struct numbers *numbers)
{
    for (size_t i = 0; i < size; i++) {
        uint64_t pick = numbers_below(numbers, 40);
        text[i] = alphabet[pick < count ? pick : numbers_below(numbers, 3)];
    }
}

static void check_string(const char *p)
{
    assert_ptr_equal(ks_scan_string(p), ks_scan_string_scalar(p));
}

static void check_blanks(const char *p)
{
    assert_ptr_equal(ks_scan_blanks(p), ks_scan_blanks_scalar(p));
}

static void check_numbers(const char *p)
{
    assert_ptr_equal(ks_scan_numbers(p), ks_scan_numbers_scalar(p));
}

/* More digits than the vector form takes have no value. */
static void check_digits(const char *p)
{
    uint64_t fast = 0;
    uint64_t slow = 0;
    unsigned count = ks_scan_digits(p, &fast);
    assert_int_equal(count, ks_scan_digits_scalar(p, &slow));
    assert_true(count > KS_DIGITS_MAX || fast == slow);
}

static void run(const char *alphabet, size_t count, void (*check)(const char *), char first)
{
    struct numbers numbers = {3};
    for (int round = 0; round < 2000; round++) {
        char text[TEXT_SIZE + PAD] = {0};
        size_t size = (size_t)numbers_below(&numbers, TEXT_SIZE);
        fill(text, size, alphabet, count, &numbers);
        for (size_t at = 0; at < 17 && at < size; at++) {
            char kept = text[at];
            text[at] = first ? first : kept;
            check(text + at);
            text[at] = kept;
        }
    }
}

static void test_string(void **state)
{
    (void)state;
    static const char ALPHABET[] = "az \"\\\x1f\x7f\x80\xff\x01\t!";
    run(ALPHABET, sizeof(ALPHABET), check_string, '\0');
}

static void test_blanks(void **state)
{
    (void)state;
    static const char ALPHABET[] = " \n \t\r{\"\x0b\x0c\x80\x01";
    run(ALPHABET, sizeof(ALPHABET), check_blanks, '\0');
}

static void test_numbers(void **state)
{
    (void)state;
    static const char ALPHABET[] = "1, [], 09-./+e:\"\x80";
    run(ALPHABET, sizeof(ALPHABET), check_numbers, '[');
}

/* Where the quick form is this program's; elsewhere it is compared with itself. */
static void check_array(const char *p)
{
    assert_ptr_equal(ks_scan_array_choose()(p), ks_scan_array_scalar(p));
}

/* Mostly strings and what stands between them, so that scans get far. */
static size_t fill_strings(char *text, struct numbers *numbers)
{
    static const char *const WORDS[] = {"\"float\"", "\"\"", "\"long int\"", "\"[1, 2]\"",
                                        "\"a,b\""};
    size_t len = (size_t)sprintf(text, "[");
    while (len < 120 && numbers_below(numbers, 12) > 0) {
        len += (size_t)sprintf(text + len, "%s%s", len > 1 ? ", " : "",
                               WORDS[numbers_below(numbers, 5)]);
    }
    text[len++] = ']';
    return len;
}

static void test_arrays(void **state)
{
    (void)state;
    static const char NUMBERS[] = "1, [], 09-./+e:\"\x80";
    static const char ODD[] = "\"a,\", ] [\\\x1f\x7f\x80\n";
    run(NUMBERS, sizeof(NUMBERS), check_array, '[');
    struct numbers numbers = {4};
    int plain = 0;
    for (int round = 0; round < 200000; round++) {
        char text[TEXT_SIZE + PAD] = {0};
        size_t len = fill_strings(text, &numbers);
        for (uint64_t i = numbers_below(&numbers, 3); i > 0; i--) {
            text[1 + numbers_below(&numbers, len)] = ODD[numbers_below(&numbers, sizeof(ODD))];
        }
        check_array(text);
        plain += ks_scan_array_scalar(text) != NULL;
    }
    assert_true(plain > 50000 && plain < 150000);
}

static void test_digits(void **state)
{
    (void)state;
    static const char ALPHABET[] = "1790283645. /:-,\x80\xB9";
    run(ALPHABET, sizeof(ALPHABET), check_digits, '\0');
    char text[64 + PAD] = {0};
    for (size_t len = 0; len < 20; len++) {
        memset(text, '9', len);
        check_digits(text);
    }
}

/* Each byte alone, at each place of a vector. */
static void test_each_byte(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        for (size_t at = 0; at < 34; at++) {
            char text[64 + PAD] = {0};
            memset(text, 'x', 40);
            text[at] = (char)byte;
            check_string(text);
            memset(text, ' ', 40);
            text[at] = (char)byte;
            check_blanks(text);
            memset(text, '7', 40);
            text[0] = '[';
            text[at + 1] = (char)byte;
            text[40] = ']';
            check_numbers(text);
            check_digits(text + 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_string),  cmocka_unit_test(test_blanks),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_digits),
        cmocka_unit_test(test_arrays),  cmocka_unit_test(test_each_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
