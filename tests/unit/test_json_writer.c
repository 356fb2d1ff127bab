/* Goal: what the writer gives is strict JSON, exact and safe. Method: documents by hand; numbers
 * that are known to be hard; every byte as a string; a receiver that stops. */
#include "show/json_writer.h"

#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "cmocka_all.h"
#include "numbers.h"

static bool collect(void *user, const char *bytes, size_t size)
{
    struct ks_text *text = user;
    ks_text_append(text, bytes, size);
    return true;
}

static void check_string(struct ks_str value, const char *expected)
{
    struct ks_text text;
    struct ks_json json;
    ks_text_init(&text);
    ks_json_init(&json, collect, &text);
    ks_json_str(&json, NULL, value);
    assert_int_equal(ks_json_finish(&json, NULL), KS_OK);
    ks_text_append(&text, "", 1);
    assert_int_equal(text.len, strlen(expected) + 2); /* line feed and NUL */
    assert_memory_equal(text.ptr, expected, strlen(expected));
    ks_text_release(&text);
}

static void test_strings(void **state)
{
    (void)state;
    check_string(KS_STR(""), "\"\"");
    check_string(KS_STR("aten::add"), "\"aten::add\"");
    check_string(KS_STR("a\"b\\c/"), "\"a\\\"b\\\\c/\"");
    check_string(KS_STR("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\"");
    check_string(KS_STR("\0x\x1f\x7f"), "\"\\u0000x\\u001f\\u007f\"");
    check_string(KS_STR("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
                 "\"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\"");
    /* Bytes that are no UTF-8: alone, cut, overlong, a surrogate. */
    check_string(KS_STR("a\xFFz"), "\"a\xEF\xBF\xBDz\"");
    check_string(KS_STR("\xE2\x82"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
    check_string(KS_STR("\xC0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
    check_string(KS_STR("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

static void check_real(double value, const char *expected)
{
    char text[KS_JSON_REAL_SIZE];
    ks_json_format_real(value, text);
    assert_string_equal(text, expected);
}

static void test_reals(void **state)
{
    (void)state;
    check_real(0.0, "0");
    check_real(-0.5, "-0.5");
    check_real(0.1, "0.1");
    check_real(1.0 / 3.0, "0.3333333333333333");
    check_real(2.048e9, "2048000000");
    check_real(1e300, "1e+300");
    check_real(5e-324, "4.94065645841247e-324");
    check_real((double)NAN, "null");
    check_real((double)INFINITY, "null");
    check_real(-(double)INFINITY, "null");
}

static void test_reals_read_back_equal(void **state)
{
    (void)state;
    struct numbers numbers = {7};
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = numbers_below(&numbers, UINT64_MAX);
        double value;
        memcpy(&value, &bits, sizeof(value));
        char text[KS_JSON_REAL_SIZE];
        ks_json_format_real(value, text);
        if (isfinite(value)) {
            double back = strtod(text, NULL);
            assert_memory_equal(&back, &value, sizeof(value));
        } else {
            assert_string_equal(text, "null");
        }
    }
}

static void test_document(void **state)
{
    (void)state;
    struct ks_text text;
    struct ks_json json;
    ks_text_init(&text);
    ks_json_init(&json, collect, &text);
    ks_json_object_begin(&json, NULL);
    ks_json_int(&json, "least", INT64_MIN);
    ks_json_int(&json, "corr", 9007199254740993);
    ks_json_array_begin(&json, "rows");
    for (int i = 0; i < 2; i++) {
        ks_json_object_begin(&json, NULL);
        ks_json_bool(&json, "on", i == 0);
        ks_json_array_begin(&json, "in");
        ks_json_int(&json, NULL, 1);
        ks_json_int(&json, NULL, 2);
        ks_json_array_end(&json);
        ks_json_object_end(&json);
    }
    ks_json_array_end(&json);
    ks_json_array_begin(&json, "none");
    ks_json_array_end(&json);
    ks_json_text(&json, "nothing", NULL);
    ks_json_real(&json, "nan", (double)NAN);
    ks_json_object_end(&json);
    assert_int_equal(ks_json_finish(&json, NULL), KS_OK);

    static const char expected[] = "{\n"
                                   "  \"least\": -9223372036854775808,\n"
                                   "  \"corr\": 9007199254740993,\n"
                                   "  \"rows\": [\n"
                                   "    {\"on\": true, \"in\": [1, 2]},\n"
                                   "    {\"on\": false, \"in\": [1, 2]}\n"
                                   "  ],\n"
                                   "  \"none\": [],\n"
                                   "  \"nothing\": null,\n"
                                   "  \"nan\": null\n"
                                   "}\n";
    assert_int_equal(text.len, sizeof(expected) - 1);
    assert_memory_equal(text.ptr, expected, sizeof(expected) - 1);
    ks_text_release(&text);
}

/* Accepts some calls, then no more. */
static bool refuse_later(void *user, const char *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    int *left = user;
    return (*left)-- > 0;
}

static void test_receiver_stops(void **state)
{
    (void)state;
    struct ks_json json;
    struct ks_err err = {0};
    int left = 1;
    ks_json_init(&json, refuse_later, &left);
    ks_json_array_begin(&json, NULL);
    for (int i = 0; i < 100000; i++) {
        ks_json_int(&json, NULL, i);
    }
    ks_json_array_end(&json);
    assert_int_equal(ks_json_finish(&json, &err), KS_ERR_IO);
    assert_int_equal(err.status, KS_ERR_IO);
    assert_int_equal(left, -1); /* asked no more after the refusal */
}

static void test_error_document(void **state)
{
    (void)state;
    struct ks_text text;
    struct ks_err failure = {KS_ERR_FORMAT, 84, "Cannot accept \"x\": fault=1"};
    ks_text_init(&text);
    assert_int_equal(ks_error_write_json(&failure, "a.json", collect, &text, NULL), KS_OK);
    static const char expected[] = "{\n"
                                   "  \"schema\": \"kinetoscope.error/1\",\n"
                                   "  \"error\": {\n"
                                   "    \"code\": \"format\",\n"
                                   "    \"message\": \"Cannot accept \\\"x\\\": fault=1\",\n"
                                   "    \"where\": \"a.json\",\n"
                                   "    \"offset\": 84\n"
                                   "  }\n"
                                   "}\n";
    assert_int_equal(text.len, sizeof(expected) - 1);
    assert_memory_equal(text.ptr, expected, sizeof(expected) - 1);
    ks_text_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings),        cmocka_unit_test(test_reals),
        cmocka_unit_test(test_document),       cmocka_unit_test(test_reals_read_back_equal),
        cmocka_unit_test(test_receiver_stops), cmocka_unit_test(test_error_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
