/* Goal: names from inputs cannot act on a terminal, and keep to their width. Method: characters by
 * hand; random bytes at every width. */
#include "show/plain.h"

#include "cmocka_all.h"
#include "numbers.h"

static void check_plain(struct ks_str s, const char *expected)
{
    struct ks_text text;
    ks_text_init(&text);
    ks_plain_append(&text, s);
    ks_text_append(&text, "", 1);
    assert_string_equal(text.ptr, expected);
    ks_text_release(&text);
}

static void test_unsafe_characters(void **state)
{
    (void)state;
    check_plain(KS_STR("aten::mm"), "aten::mm");
    check_plain(KS_STR("a\033[31mb"), "a\\u001b[31mb");
    check_plain(KS_STR("a\r\n\tb\x7f"), "a\\u000d\\u000a\\u0009b\\u007f");
    check_plain(KS_STR("\xC2\x85"), "\\u0085");     /* C1: next line */
    check_plain(KS_STR("\xE2\x80\xAE"), "\\u202e"); /* right-to-left override */
    check_plain(KS_STR("\xE2\x81\xA6"), "\\u2066"); /* isolate */
    check_plain(KS_STR("\xEF\xBB\xBF"), "\\ufeff"); /* byte order mark */
    check_plain(KS_STR("\xFF\xC3"), "\\xff\\xc3");  /* no UTF-8 */
    check_plain(KS_STR("\xC3\xA9\xF0\x9F\x98\x80"), "\xC3\xA9\xF0\x9F\x98\x80");
}

static void check_fit(const char *s, size_t width, const char *expected)
{
    struct ks_text text;
    ks_text_init(&text);
    ks_plain_append_fit(&text, ks_str_from(s), width);
    ks_text_append(&text, "", 1);
    assert_string_equal(text.ptr, expected);
    ks_text_release(&text);
}

static void test_fit(void **state)
{
    (void)state;
    check_fit("0123456789", 10, "0123456789");
    check_fit("0123456789", 9, "0123..789");
    check_fit("0123456789", 8, "012..789");
    check_fit("0123456789", 5, "01..9");
    check_fit("0123456789", 3, "012");
    check_fit("0123456789", 0, "");
    check_fit("\xE4\xB8\xAD\xE4\xB8\xAD\xE4\xB8\xAD\xE4\xB8\xAD", 7, /* 8 columns */
              "\xE4\xB8\xAD..\xE4\xB8\xAD");
    check_fit("a\nb", 8, "a\\u000ab");
}

static void test_random_bytes_keep_to_the_width(void **state)
{
    (void)state;
    struct numbers numbers = {11};
    for (int i = 0; i < 20000; i++) {
        char bytes[48];
        size_t len = (size_t)numbers_below(&numbers, sizeof(bytes));
        for (size_t at = 0; at < len; at++) {
            bytes[at] = (char)numbers_below(&numbers, 256);
        }
        size_t width = (size_t)numbers_below(&numbers, 60);
        struct ks_text text;
        ks_text_init(&text);
        ks_plain_append_fit(&text, (struct ks_str){bytes, len}, width);
        assert_true(ks_plain_width((struct ks_str){text.ptr, text.len}) <= width);
        for (size_t at = 0; at < text.len; at++) {
            assert_true((unsigned char)text.ptr[at] >= 0x20 && text.ptr[at] != 0x7f);
        }
        ks_text_release(&text);
    }
}

static void test_huge_name(void **state)
{
    (void)state;
    static char huge[4 << 20];
    memset(huge, 'x', sizeof(huge));
    struct ks_text text;
    ks_text_init(&text);
    ks_plain_append_fit(&text, (struct ks_str){huge, sizeof(huge)}, 30);
    assert_int_equal(text.len, 30);
    assert_true(text.capacity < 4096);
    ks_text_release(&text);
}

static void check_kernel(const char *name, const char *expected)
{
    struct ks_str text = ks_plain_kernel(ks_str_from(name));
    assert_true(ks_str_equal(text, ks_str_from(expected)));
}

static void test_kernels(void **state)
{
    (void)state;
    check_kernel("gemm", "gemm");
    check_kernel("void gemm(int, float)", "gemm");
    check_kernel("void at::native::vec<4, add(x)>(int, at::X<(1)>)", "vec<4, add(x)>");
    check_kernel("void at::native::(anonymous namespace)::f<1>(int)", "f<1>");
    check_kernel("void f<{lambda(int)#1}>", "f<{lambda(int)#1}>");
    check_kernel("(x)", "(x)");
    check_kernel("x)", "x)");
    check_kernel("void ", "void ");
    check_kernel("", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unsafe_characters),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_random_bytes_keep_to_the_width),
        cmocka_unit_test(test_huge_name),
        cmocka_unit_test(test_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
