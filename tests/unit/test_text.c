/* Goal: text buffer, UTF-8 check, string compare, error messages and log lines. Method: tables by
 * hand; UTF-8 against a decoder that follows the definition; appends against one big buffer. */
#include "base/text.h"

#include <stdio.h>

#include "base/err.h"
#include "cmocka_all.h"
#include "numbers.h"

#define KS_LOG_DOMAIN "test"
#include "base/log.h"

static void test_append(void **state)
{
    (void)state;
    static char twin[200000];
    size_t len = 0;
    struct numbers numbers = {4};
    struct ks_text text;
    ks_text_init(&text);
    while (len < 150000) {
        if (numbers_below(&numbers, 3) == 0) {
            int number = (int)numbers_below(&numbers, 1000000);
            int width = (int)numbers_below(&numbers, 700);
            ks_text_printf(&text, "<%*d>", width, number);
            len += (size_t)snprintf(twin + len, sizeof(twin) - len, "<%*d>", width, number);
        } else {
            struct ks_str part = KS_STR("some bytes \0 more");
            part.len = (size_t)numbers_below(&numbers, part.len + 1);
            ks_text_append_str(&text, part);
            memcpy(twin + len, part.ptr, part.len);
            len += part.len;
        }
        assert_int_equal(text.len, len);
    }
    assert_false(text.failed);
    assert_memory_equal(text.ptr, twin, len);
    ks_text_reset(&text);
    assert_int_equal(text.len, 0);
    ks_text_append(&text, NULL, 0);
    ks_text_release(&text);
}

/* Decodes by the bit pattern, then asks whether the code point may be written so. */
static size_t utf8_twin(const unsigned char *ptr, size_t len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char c = ptr[0];
    size_t size = c < 0x80 ? 1 : c >> 5 == 6 ? 2 : c >> 4 == 14 ? 3 : c >> 3 == 30 ? 4 : 0;
    if (size <= 1 || size > len) {
        return size > len ? 0 : size;
    }
    uint32_t point = c & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((ptr[i] & 0xC0) != 0x80) {
            return 0;
        }
        point = point << 6 | (ptr[i] & 0x3Fu);
    }
    bool ok = point >= least[size] && point <= 0x10FFFF && (point < 0xD800 || point > 0xDFFF);
    return ok ? size : 0;
}

static void test_utf8(void **state)
{
    (void)state;
    assert_int_equal(ks_utf8_sequence((const unsigned char *)"", 0), 0);
    static const unsigned char tails[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0};
    for (unsigned c = 0; c < 256; c++) {
        for (size_t k = 0; k < 9 * 9 * 9; k++) {
            unsigned char bytes[4] = {(unsigned char)c, tails[k % 9], tails[k / 9 % 9],
                                      tails[k / 81]};
            for (size_t len = 1; len <= 4; len++) {
                assert_int_equal(ks_utf8_sequence(bytes, len), utf8_twin(bytes, len));
            }
        }
    }
}

static void check_order(const char *a, const char *b, int order)
{
    assert_int_equal(ks_str_compare(ks_str_from(a), ks_str_from(b)), order);
    assert_int_equal(ks_str_compare(ks_str_from(b), ks_str_from(a)), -order);
}

static void test_str(void **state)
{
    (void)state;
    check_order("", "", 0);
    check_order("", "a", -1);
    check_order("a", "b", -1);
    check_order("ab", "abc", -1);
    check_order("a\xFF", "ab", 1);
    assert_true(ks_str_equal_nocase(KS_STR("CPU_op"), KS_STR("cpu_OP")));
    assert_false(ks_str_equal_nocase(KS_STR("a"), KS_STR("ab")));
    assert_false(ks_str_equal_nocase(KS_STR("@"), KS_STR("`"))); // 0x20 apart, but no letters
    assert_false(ks_str_equal_nocase(KS_STR("["), KS_STR("{")));
    assert_true(ks_str_contains(KS_STR("cudaLaunchKernel"), KS_STR("Launch")));
    assert_false(ks_str_contains(KS_STR("cuda"), KS_STR("cudaLaunch")));
}

static void test_err(void **state)
{
    (void)state;
    assert_int_equal(ks_fail(NULL, KS_ERR_IO, 1, "unseen"), KS_ERR_IO);
    struct ks_err err = {0};
    assert_int_equal(ks_fail(&err, KS_ERR_FORMAT, 12, "Cannot read event: line=%d", 3),
                     KS_ERR_FORMAT);
    assert_int_equal(err.offset, 12);
    ks_err_prefix(&err, "a.json:");
    assert_string_equal(err.message, "a.json: Cannot read event: line=3");

    char prefix[2 * KS_ERR_MESSAGE_SIZE];
    memset(prefix, 'p', sizeof(prefix));
    prefix[KS_ERR_MESSAGE_SIZE - 10] = '\0';
    ks_err_prefix(&err, prefix);
    assert_int_equal(strlen(err.message), KS_ERR_MESSAGE_SIZE - 1);
    prefix[KS_ERR_MESSAGE_SIZE - 10] = 'p';
    prefix[sizeof(prefix) - 1] = '\0';
    ks_err_prefix(&err, prefix);
    assert_true(strlen(err.message) < KS_ERR_MESSAGE_SIZE);
    ks_err_prefix(NULL, "x");
}

static void keep_line(void *user, enum ks_log_level level, const char *domain, const char *text)
{
    snprintf(user, 100, "%d %s %s", (int)level, domain, text);
}

static void test_log(void **state)
{
    (void)state;
    char line[100] = "";
    const struct ks_log kept = {keep_line, line, KS_LOG_INFO};
    const struct ks_log *log = &kept;
    KS_LOG(log, KS_LOG_DEBUG, "too fine");
    assert_string_equal(line, "");
    KS_LOG(log, KS_LOG_WARN, "two\nlines %d", 2);
    assert_string_equal(line, "1 test two lines 2");
    const struct ks_log *none = NULL;
    KS_LOG(none, KS_LOG_WARN, "nobody listens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append), cmocka_unit_test(test_utf8), cmocka_unit_test(test_str),
        cmocka_unit_test(test_err),    cmocka_unit_test(test_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
