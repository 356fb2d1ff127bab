/* Goal: steps over JSON text take what the grammar allows, say where it is broken, and never judge
 * before the window holds enough. Method: cases by hand; of each good value every beginning gives
 * MORE. */
#include "read/json_cursor.h"

#include <stdio.h>

#include "cmocka_all.h"

enum { WINDOW_SIZE = 4096 };

static char window[WINDOW_SIZE];

static struct ks_json_cursor open_text(const char *text)
{
    size_t len = strlen(text);
    assert_true(len + 64 < sizeof(window));
    memset(window, 0, sizeof(window));
    memcpy(window, text, len);
    return (struct ks_json_cursor){.at = window, .end = window + len};
}

/* A whole value: `rest` characters stay. `fault`: place of the first fault, -1 none. */
static void check_skip(const char *text, enum ks_json want, size_t rest, long fault)
{
    for (int exact = 0; exact < 2; exact++) {
        struct ks_json_cursor c = open_text(text);
        c.is_exact = exact;
        assert_int_equal(ks_json_skip(&c), want);
        if (want == KS_JSON_OK) {
            assert_int_equal(c.end - c.at, rest);
        }
        assert_int_equal(c.faults.first ? c.faults.first - window : -1, fault);
    }
}

static void test_skip(void **state)
{
    (void)state;
    check_skip("1,", KS_JSON_OK, 1, -1);
    check_skip("-0.5e+10}", KS_JSON_OK, 1, -1);
    check_skip(" \n\t\r true]", KS_JSON_OK, 1, -1);
    check_skip("null,", KS_JSON_OK, 1, -1);
    check_skip("\"a\\\"b\",", KS_JSON_OK, 1, -1);
    check_skip("[],", KS_JSON_OK, 1, -1);
    check_skip("{} ", KS_JSON_OK, 1, -1);
    check_skip("[[1, 2], [], [-3]]", KS_JSON_OK, 0, -1);
    check_skip("[\"a\", \"b\"]x", KS_JSON_OK, 1, -1);
    check_skip("{\"a\": [1, {\"b\": null}], \"c\": \"d\"}", KS_JSON_OK, 0, -1);
    check_skip("[1.5, 2]", KS_JSON_OK, 0, -1);
    check_skip("1e999,", KS_JSON_OK, 1, -1); // legal text, no value
    check_skip("[1.5,]", KS_JSON_OK, 0, 5);
    check_skip("{\"a\": 1,}", KS_JSON_OK, 0, 8);
    check_skip("[NaN, 1]", KS_JSON_OK, 0, 1);
    check_skip("{\"a\": -inf}", KS_JSON_OK, 0, 6);
    check_skip("[\"\x01\"]", KS_JSON_OK, 0, 2);
}

static void check_bad(const char *text, size_t at)
{
    struct ks_json_cursor c = open_text(text);
    c.is_exact = true;
    assert_int_equal(ks_json_skip(&c), KS_JSON_BAD);
    assert_int_equal(c.at - window, at);
}

static void test_bad(void **state)
{
    (void)state;
    check_bad("tru,", 0);
    check_bad("01,", 0);
    check_bad("1.,", 0);
    check_bad("-,", 0);
    check_bad("+1,", 0);
    check_bad(".5,", 0);
    check_bad("1e,", 0);
    check_bad("'a' ", 0);
    check_bad("[1,,2]", 3);
    check_bad("[1 2]", 3);
    check_bad("[1}", 2);
    check_bad("{1: 2}", 1);
    check_bad("{\"a\" 1}", 5);
    check_bad("{\"a\": }", 6);
    check_bad("{\"a\": 1 \"b\": 2}", 8);
    check_bad("{,}", 1);
    check_bad("]", 0);
}

static void test_more(void **state)
{
    (void)state;
    static const char *const VALUES[] = {
        "{\"a\": [1, {\"b\": null}], \"c\": \"d\\u00e9\\\\\"}",
        "[[1, 2], [], [-3]]",
        "[\"float\", \"long int\", \"\"]",
        "{\"a\": 1.5e3 , \"b\":true,\"c\":\"\"}",
        "\"a\\\"b\"",
    };
    for (size_t i = 0; i < KS_COUNT_OF(VALUES); i++) {
        size_t len = strlen(VALUES[i]);
        for (size_t cut = 0; cut < len; cut++) {
            for (int mode = 0; mode < 4; mode++) {
                struct ks_json_cursor c = open_text(VALUES[i]);
                c.end = window + cut;
                memset(window + cut, 0, len - cut);
                c.is_exact = mode & 1;
                c.lenient_quotes = mode & 2;
                c.is_open = true;
                assert_int_equal(ks_json_skip(&c), KS_JSON_MORE);
            }
        }
    }
}

/* An array that is no good is as good in two windows as in one. */
static void test_more_loose_numbers(void **state)
{
    (void)state;
    static const char TEXT[] = "[[2,3, ] [], -]";
    for (size_t cut = 1; cut < sizeof(TEXT) - 1; cut++) {
        struct ks_json_cursor c = open_text(TEXT);
        c.end = window + cut;
        memset(window + cut, 0, sizeof(TEXT) - cut);
        assert_int_equal(ks_json_skip(&c), KS_JSON_MORE);
    }
}

static void check_depth(int depth, bool is_array, enum ks_json want)
{
    static char deep[WINDOW_SIZE - 256];
    size_t len = 0;
    for (int i = 0; i < depth; i++) {
        len += (size_t)snprintf(deep + len, sizeof(deep) - len, is_array ? "[" : "{\"\":");
    }
    deep[len++] = 't';
    memcpy(deep + len, "rue", 3);
    len += 3;
    for (int i = 0; i < depth; i++) {
        deep[len++] = is_array ? ']' : '}';
    }
    deep[len] = '\0';
    struct ks_json_cursor c = open_text(deep);
    assert_int_equal(ks_json_skip(&c), want);
}

static void test_depth(void **state)
{
    (void)state;
    check_depth(KS_JSON_DEPTH_MAX, true, KS_JSON_OK);
    check_depth(KS_JSON_DEPTH_MAX + 1, true, KS_JSON_BAD);
    check_depth(KS_JSON_DEPTH_MAX, false, KS_JSON_OK);
    check_depth(KS_JSON_DEPTH_MAX + 1, false, KS_JSON_BAD);
}

static void check_int(const char *text, bool found, int64_t want)
{
    struct ks_json_cursor c = open_text(text);
    int64_t value = 0;
    bool got = false;
    assert_int_equal(ks_json_int(&c, &value, &got), KS_JSON_OK);
    assert_int_equal(got, found);
    assert_true(!found || value == want);
    assert_int_equal(*c.at, ',');
}

static void test_int(void **state)
{
    (void)state;
    check_int("0,", true, 0);
    check_int("-0,", true, 0);
    check_int("7,", true, 7);
    check_int("-7,", true, -7);
    check_int("9007199254740993,", true, 9007199254740993);
    check_int("999999999999999999,", true, 999999999999999999);
    check_int("9223372036854775807,", true, INT64_MAX);
    check_int("-9223372036854775808,", true, INT64_MIN);
    check_int("18446744073709551615,", true, -1); // addresses use all 64 bits
    check_int("\"12\",", true, 12);
    check_int("12.0,", true, 12);
    check_int("1e3,", true, 1000);
    check_int("1e300,", false, 0);
    check_int("null,", false, 0);
    check_int("NaN,", false, 0);
    check_int("\"text\",", false, 0);
    check_int("\"12 \",", false, 0);
    check_int("[1, 2],", false, 0);
    check_int("{\"a\": 1},", false, 0);
    check_int("true,", false, 0);
}

static void check_double(const char *text, bool found, double want)
{
    struct ks_json_cursor c = open_text(text);
    double value = 0;
    bool got = false;
    assert_int_equal(ks_json_double(&c, &value, &got), KS_JSON_OK);
    assert_int_equal(got, found);
    assert_true(!found || memcmp(&value, &want, sizeof(value)) == 0);
    assert_int_equal(*c.at, ',');
}

static void test_double(void **state)
{
    (void)state;
    check_double("0,", true, 0.0);
    check_double("-0.0,", true, -0.0);
    check_double("0.1,", true, 0.1);
    check_double("33.333333333,", true, 33.333333333);
    check_double("999999.999999999,", true, 999999.999999999);
    check_double("1234567.5,", true, 1234567.5);
    check_double("0.1234567891,", true, 0.1234567891);
    check_double("1e-3,", true, 1e-3);
    check_double("123456789012345678901234567890,", true, 123456789012345678901234567890.0);
    check_double("\"2.5\",", true, 2.5);
    check_double("1e999,", false, 0);
    check_double("-Infinity,", false, 0);
    check_double("\"inf\",", false, 0);
    check_double("N/A,", false, 0);
    check_double("null,", false, 0);
}

static void check_time(const char *text, bool found, int64_t want)
{
    struct ks_json_cursor c = open_text(text);
    int64_t ns = 0;
    bool got = false;
    assert_int_equal(ks_json_time(&c, &ns, &got), KS_JSON_OK);
    assert_int_equal(got, found);
    assert_true(!found || ns == want);
    assert_int_equal(*c.at, ',');
}

static void test_time(void **state)
{
    (void)state;
    check_time("0,", true, 0);
    check_time("0.000,", true, 0);
    check_time("0.001,", true, 1);
    check_time("10.5,", true, 10500);
    check_time("-0.001,", true, -1);
    check_time("1764000000123456.789,", true, 1764000000123456789);
    check_time("9007199254740993.001,", true, 9007199254740993001);
    check_time("1.5e3,", true, 1500000);
    check_time("\"158.25\",", true, 158250);
    check_time("9223372036854776,", true, INT64_MAX); // does not fit
    check_time("-1e300,", true, -INT64_MAX);
    check_time("1e999,", false, 0);
    check_time("NaN,", false, 0);
    check_time("null,", false, 0);
}

static void check_unpadded(const char *text, int64_t want)
{
    struct ks_json_cursor c = open_text(text);
    int64_t ns = 0;
    bool found = false;
    assert_int_equal(ks_json_time_unpadded(&c, &ns, &found), KS_JSON_OK);
    assert_true(found);
    assert_int_equal(ns, want);
}

static void test_time_unpadded(void **state)
{
    (void)state;
    check_unpadded("5.7,", 5007);
    check_unpadded("5.45,", 5045);
    check_unpadded("5.120,", 5120);
    check_unpadded("-5.7,", -5007);
    check_unpadded("5,", 5000);
    check_unpadded("1.5e3,", 1500000);
    check_unpadded("9223372036854775.999,", 9223372036854775000); // no overflow by the part
}

/* lenient_quotes: the quote that ends a value has JSON behind it. */
static void check_quotes(const char *text, bool in_array, const char *want)
{
    struct ks_json_cursor c = open_text(text);
    c.lenient_quotes = true;
    c.in_array = in_array;
    struct ks_json_str raw;
    assert_int_equal(ks_json_string(&c, &raw), KS_JSON_OK);
    assert_int_equal(raw.len, strlen(want));
    assert_memory_equal(raw.ptr, want, raw.len);
    bool is_bare = memchr(want, '"', strlen(want)) != NULL;
    assert_int_equal(c.faults.strings, is_bare ? 1 : 0);
    assert_true(!is_bare || *c.faults.first == '"');
}

static void test_lenient_quotes(void **state)
{
    (void)state;
    check_quotes("\"plain\", \"ts\": 1", false, "plain");
    check_quotes("\"a\"b\", \"ts\": 1", false, "a\"b");
    check_quotes("\"say \"hi\", now\", \"ts\": 1", false, "say \"hi\", now");
    check_quotes("\"f(\"x\",\n \"y\"): {\"a\": 1}\", \"pid\": 1", false,
                 "f(\"x\",\n \"y\"): {\"a\": 1}");
    check_quotes("\"a\"b\"}, {", false, "a\"b");
    check_quotes("\"a\"b\", \"c\"]", true, "a\"b");
    check_quotes("\"a\"]}", true, "a");
}

/* At the end of an open window the guess waits. */
static void test_lenient_quotes_wait(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"\"a\"",        "\"a\" ", "\"a\",", "\"a\", \"b",
                                        "\"a\", \"b\"", "\"a\"}", "\"a\"] "};
    for (size_t i = 0; i < KS_COUNT_OF(TEXTS); i++) {
        struct ks_json_cursor c = open_text(TEXTS[i]);
        c.lenient_quotes = true;
        c.is_open = true;
        struct ks_json_str raw;
        assert_int_equal(ks_json_string(&c, &raw), KS_JSON_MORE);
    }
}

/* An event with bare quotes keeps its lists of strings. */
static void test_lenient_skip(void **state)
{
    (void)state;
    struct ks_json_cursor c = open_text("{\"t\": [\"float\", \"int\"], \"n\": [[1, 2]]} ");
    c.lenient_quotes = true;
    assert_int_equal(ks_json_skip(&c), KS_JSON_OK);
    assert_int_equal(c.end - c.at, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_skip),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_more),
        cmocka_unit_test(test_more_loose_numbers),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_int),
        cmocka_unit_test(test_double),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_time_unpadded),
        cmocka_unit_test(test_lenient_quotes),
        cmocka_unit_test(test_lenient_quotes_wait),
        cmocka_unit_test(test_lenient_skip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
