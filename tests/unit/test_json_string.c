/* Goal: raw text of JSON strings becomes UTF-8, repaired as the reference cases say, and the first
 * fault is found at its byte. Method: cases by hand; random bytes always give UTF-8. */
#include "read/json_string.h"

#include "cmocka_all.h"
#include "numbers.h"

#define FFFD "\xEF\xBF\xBD"

/* Takes the string in quotes as a reader does, so that the flags are those it would have. */
static struct ks_json_str take(const char *text, size_t len)
{
    static char window[1024];
    memset(window, 0, sizeof(window));
    window[0] = '"';
    memcpy(window + 1, text, len);
    window[len + 1] = '"';
    struct ks_json_cursor c = {.at = window, .end = window + len + 2};
    struct ks_json_str raw;
    assert_int_equal(ks_json_string(&c, &raw), KS_JSON_OK);
    assert_ptr_equal(c.at, c.end);
    assert_int_equal(raw.len, len);
    assert_int_equal(c.faults.strings, ks_json_str_fault(&raw) ? 1 : 0);
    assert_ptr_equal(c.faults.first, ks_json_str_fault(&raw));
    return raw;
}

/* `fault`: place of the first fault, -1 for none. */
static void check(const char *text, const char *want, long fault)
{
    struct ks_json_str raw = take(text, strlen(text));
    const char *place = ks_json_str_fault(&raw);
    assert_int_equal(place ? place - raw.ptr : -1, fault);
    struct ks_text scratch;
    ks_text_init(&scratch);
    struct ks_str got = ks_json_str_decode(&raw, &scratch);
    assert_int_equal(got.len, strlen(want));
    assert_memory_equal(got.ptr, want, got.len);
    ks_text_release(&scratch);
}

static void test_valid(void **state)
{
    (void)state;
    check("", "", -1);
    check("aten::mm", "aten::mm", -1);
    check("a\\\"b\\\\c\\/d", "a\"b\\c/d", -1);
    check("\\b\\f\\n\\r\\t", "\b\f\n\r\t", -1);
    check("\\u00e9\\u20AC", "\xC3\xA9\xE2\x82\xAC", -1);
    check("\\ud83d\\ude00", "\xF0\x9F\x98\x80", -1);
    check("\xC3\xA9 \xF0\x9F\x98\x80", "\xC3\xA9 \xF0\x9F\x98\x80", -1);
    check("\x7f", "\x7f", -1);
}

/* One invalid escape, and the whole string is taken as it stands. */
static void test_literal(void **state)
{
    (void)state;
    check("C:\\work\\net.py", "C:\\work\\net.py", 2);
    check("\\n\\w", "\\n\\w", 2);
    check("\\x41", "\\x41", 0);
    check("\\u12", "\\u12", 0);
    check("\\u12g4", "\\u12g4", 0);
    check("\\\"\\q", "\\\"\\q", 2);
    check("\\\xff", "\\" FFFD, 0); // found by fuzzing: the byte behind a backslash
    check("\\\x01", "\\\x01", 0);
}

static void test_repaired(void **state)
{
    (void)state;
    check("a\x01z", "a\x01z", 1);
    check("a\tz", "a\tz", 1);
    check("a\nz", "a\nz", 1);
    check("m\xFFul", "m" FFFD "ul", 1);
    check("\xC3(", FFFD "(", 0);
    check("\xE2\x82", FFFD, 0); // one for the longest part that could begin a sequence
    check("\xE2\x82z", FFFD "z", 0);
    check("\xF0\x9F\x98", FFFD, 0);
    check("\xF0\x80\x80", FFFD FFFD FFFD, 0);
    check("\xC0\x80", FFFD FFFD, 0);          // overlong
    check("\xED\xA0\x80", FFFD FFFD FFFD, 0); // a surrogate
    check("\xF4\x90\x80\x80", FFFD FFFD FFFD FFFD, 0);
    check("\\ud800", FFFD, 0);
    check("x\\udc00y", "x" FFFD "y", 1);
    check("\\ud800\\ud83d\\ude00", FFFD "\xF0\x9F\x98\x80", 0);
    check("\\ud83d\\u0041", FFFD "A", 0);
    check("\\u00e9\xFF", "\xC3\xA9" FFFD, 6);
}

/* A zero byte inside is a control byte like any other. */
static void test_zero_byte(void **state)
{
    (void)state;
    struct ks_json_str raw = take("a\0b", 3);
    assert_ptr_equal(ks_json_str_fault(&raw), raw.ptr + 1);
    struct ks_text scratch;
    ks_text_init(&scratch);
    struct ks_str got = ks_json_str_decode(&raw, &scratch);
    assert_int_equal(got.len, 3);
    assert_memory_equal(got.ptr, "a\0b", 3);
    struct ks_json_str escaped = take("\\u0000", 6);
    got = ks_json_str_decode(&escaped, &scratch);
    assert_int_equal(got.len, 1);
    assert_int_equal(got.ptr[0], 0);
    ks_text_release(&scratch);
}

static void test_random(void **state)
{
    (void)state;
    static const char BYTES[] = "a\\u\\d8\xC3\xA9\xF0\x9F\x98\xED\x01n\xFF"
                                "0F";
    struct numbers numbers = {5};
    struct ks_text scratch;
    ks_text_init(&scratch);
    for (int round = 0; round < 20000; round++) {
        char text[40];
        size_t len = (size_t)numbers_below(&numbers, sizeof(text));
        for (size_t i = 0; i < len; i++) {
            text[i] = BYTES[numbers_below(&numbers, sizeof(BYTES) - 1)];
        }
        size_t tail = 0; // the closing quote must not be escaped
        while (tail < len && text[len - 1 - tail] == '\\') {
            tail++;
        }
        struct ks_json_str raw = take(text, len - tail);
        struct ks_str got = ks_json_str_decode(&raw, &scratch);
        bool is_same = got.len == raw.len && memcmp(got.ptr, raw.ptr, raw.len) == 0;
        for (size_t at = 0; at < got.len;) {
            size_t size = ks_utf8_sequence((const unsigned char *)got.ptr + at, got.len - at);
            assert_true(size > 0);
            at += size;
        }
        assert_true(is_same || raw.flags != 0);
    }
    ks_text_release(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid),    cmocka_unit_test(test_literal),
        cmocka_unit_test(test_repaired), cmocka_unit_test(test_zero_byte),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
