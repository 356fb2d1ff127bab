/* Goal: what the server of the page reads from a request is taken apart by narrow rules. Method:
 * tables of texts that are and are not ours, and numbers at the ends of their ranges. */
#include <string.h>

#include "cmocka_all.h"
#include "serve/request_check.h"

static void check_host(const struct ks_request_names *names, const char *host, bool expected)
{
    assert_int_equal(ks_request_host_is_ours(names, ks_str_from(host)), expected);
}

static void loopback_has_three_names(void **state)
{
    const struct ks_request_names names = {.port = 8080};
    (void)state;
    check_host(&names, "127.0.0.1:8080", true);
    check_host(&names, "[::1]:8080", true);
    check_host(&names, "localhost:8080", true);
    check_host(&names, "LocalHost:8080", true);
    check_host(&names, "127.0.0.1:8081", false);
    check_host(&names, "127.0.0.1", false);
    check_host(&names, "127.0.0.1:", false);
    check_host(&names, "127.0.0.1:08080", false);
    check_host(&names, "127.0.0.1:8080:8080", false);
    check_host(&names, "::1:8080", false);
    check_host(&names, "localhost.:8080", false);
    check_host(&names, "notlocalhost:8080", false);
    check_host(&names, "10.0.0.1:8080", false);
    check_host(&names, ":8080", false);
    check_host(&names, "", false);
}

static void the_usual_port_may_be_left_out(void **state)
{
    const struct ks_request_names names = {.port = 80};
    (void)state;
    check_host(&names, "127.0.0.1", true);
    check_host(&names, "[::1]", true);
    check_host(&names, "localhost:80", true);
    check_host(&names, "localhost:81", false);
}

static void a_forwarded_port_is_any(void **state)
{
    const struct ks_request_names names = {.any_port = true};
    (void)state;
    check_host(&names, "localhost", true);
    check_host(&names, "localhost:1", true);
    check_host(&names, "localhost:65535", true);
    check_host(&names, "localhost:0", false);
    check_host(&names, "localhost:65536", false);
    check_host(&names, "localhost:99999999999999999999", false);
}

static void other_addresses_are_named(void **state)
{
    const struct ks_request_names four = {.port = 1, .host = "10.1.2.3"};
    const struct ks_request_names six = {.port = 1, .host = "fe80::1"};
    const struct ks_request_names any = {.port = 1, .any_address = true, .host = "0.0.0.0"};
    (void)state;
    check_host(&four, "10.1.2.3:1", true);
    check_host(&four, "10.1.2.4:1", false);
    check_host(&six, "[fe80::1]:1", true);
    check_host(&six, "[FE80::1]:1", true);
    check_host(&six, "[fe80::2]:1", false);
    check_host(&any, "192.0.2.7:1", true);
    check_host(&any, "[2001:db8::1]:1", true);
    check_host(&any, "example.org:1", false);
    check_host(&any, "192.0.2.7.example.org:1", false);
    check_host(&any, "[example.org]:1", false);
}

static void an_origin_is_http_and_the_host(void **state)
{
    const struct ks_str host = KS_STR("127.0.0.1:8080");
    (void)state;
    assert_true(ks_request_origin_is_ours(host, KS_STR("http://127.0.0.1:8080")));
    assert_false(ks_request_origin_is_ours(host, KS_STR("https://127.0.0.1:8080")));
    assert_false(ks_request_origin_is_ours(host, KS_STR("http://127.0.0.1:8080/")));
    assert_false(ks_request_origin_is_ours(host, KS_STR("http://127.0.0.1:808")));
    assert_false(ks_request_origin_is_ours(host, KS_STR("http://localhost:8080")));
    assert_false(ks_request_origin_is_ours(host, KS_STR("null")));
    assert_false(ks_request_origin_is_ours(host, KS_STR("")));
}

#define SECRET "0123456789abcdef0123456789abcdef"

static bool holds(const char *cookies)
{
    const struct ks_secret secret = {SECRET};
    return ks_request_cookie_holds(ks_str_from(cookies), KS_STR("k_1"), &secret);
}

static void a_cookie_is_found_by_its_whole_name(void **state)
{
    (void)state;
    assert_true(holds("k_1=" SECRET));
    assert_true(holds("a=b; k_1=" SECRET));
    assert_true(holds("k_1=x; k_1=" SECRET ";"));
    assert_true(holds(";;  k_1=" SECRET "; a"));
    assert_false(holds("k_12=" SECRET));
    assert_false(holds("ak_1=" SECRET));
    assert_false(holds("k_1 =" SECRET));
    assert_false(holds("k_1=" SECRET "0"));
    assert_false(holds("k_1=\"" SECRET "\""));
    assert_false(holds("k_1="));
    assert_false(holds("k_1"));
    assert_false(holds(""));
}

static void secrets_are_random_and_an_empty_one_is_nobodys(void **state)
{
    struct ks_secret one = {{0}};
    struct ks_secret two = {{0}};
    (void)state;
    assert_false(ks_secret_equals(&one, one.text, KS_SECRET_LEN));
    assert_false(ks_secret_equals(&one, "", 0));
    assert_int_equal(ks_secret_make(&one, NULL), KS_OK);
    assert_int_equal(ks_secret_make(&two, NULL), KS_OK);
    assert_int_equal(strspn(one.text, "0123456789abcdef"), KS_SECRET_LEN);
    assert_string_not_equal(one.text, two.text);
    assert_true(ks_secret_equals(&one, one.text, KS_SECRET_LEN));
    assert_false(ks_secret_equals(&one, one.text, KS_SECRET_LEN - 1));
    for (size_t i = 0; i < KS_SECRET_LEN; i++) {
        struct ks_secret other = one;
        other.text[i] = other.text[i] == '0' ? '1' : '0';
        assert_false(ks_secret_equals(&one, other.text, KS_SECRET_LEN));
    }
}

static bool is_target(const char *text, const char *path, const char *query)
{
    struct ks_request_target target;
    return ks_request_target_parse(ks_str_from(text), &target) && strcmp(target.path, path) == 0 &&
           ks_str_equal(target.query, ks_str_from(query));
}

static void targets_are_plain(void **state)
{
    static const char *const bad[] = {"",
                                      "a",
                                      "*",
                                      "http://a/",
                                      "/%41",
                                      "/a b",
                                      "/a\\b",
                                      "/a#b",
                                      "/a;b",
                                      "/a?b?c",
                                      "/\xc3",
                                      "/\x7f",
                                      "/\t",
                                      "/a:b",
                                      "/~a",
                                      "/a+b",
                                      "/aaaaaaaaaabbbbbbbbbbccccccccccdd",
                                      NULL};
    struct ks_request_target target;
    (void)state;
    assert_true(is_target("/", "/", ""));
    assert_true(is_target("/page.js", "/page.js", ""));
    assert_true(is_target("/?", "/", ""));
    assert_true(is_target("/api/report?v=1", "/api/report", "v=1"));
    assert_true(is_target("/../x", "/../x", "")); /* a name like any other, of nothing */
    for (size_t i = 0; bad[i]; i++) {
        assert_false(ks_request_target_parse(ks_str_from(bad[i]), &target));
    }
    assert_false(ks_request_target_parse((struct ks_str){"/\0a", 3}, &target));
}

static bool is_tile(const char *query)
{
    struct ks_request_tile tile;
    return ks_request_tile_parse(ks_str_from(query), &tile);
}

static void tiles_are_numbers_in_their_ranges(void **state)
{
    struct ks_request_tile tile;
    int64_t version = 0;
    (void)state;
    assert_true(ks_request_tile_parse(KS_STR("v=2&start=-5&end=7&parts=16&tracks=0,255"), &tile));
    assert_int_equal(tile.version, 2);
    assert_int_equal(tile.start_ns, -5);
    assert_int_equal(tile.end_ns, 7);
    assert_int_equal(tile.parts, 16);
    assert_int_equal(tile.track_count, 2);
    assert_int_equal(tile.tracks[1], 255);
    assert_true(is_tile("v=1&start=0&end=9223372036854775807&parts=1&tracks=0"));
    assert_false(is_tile("v=1&start=0&end=9223372036854775808&parts=1&tracks=0"));
    assert_false(is_tile("v=1&start=0&end=1&parts=1&tracks=256"));
    assert_false(is_tile("v=1&start=0&end=1&parts=1&tracks=0,"));
    assert_false(is_tile("v=1&start=0&end=1&parts=1&tracks=,0"));
    assert_false(is_tile("v=1&start=0&end=1&parts=1&tracks=0&"));
    assert_false(is_tile("v=1&start=1&end=1&parts=1&tracks=0"));
    assert_false(is_tile("v=0&start=0&end=1&parts=1&tracks=0"));
    assert_false(is_tile("v=1&end=1&start=0&parts=1&tracks=0"));
    assert_true(ks_request_version_parse(KS_STR("v=12"), &version));
    assert_int_equal(version, 12);
    assert_false(ks_request_version_parse(KS_STR("v=012"), &version));
    assert_false(ks_request_version_parse(KS_STR("v=12 "), &version));
    assert_false(ks_request_version_parse(KS_STR("v=-1"), &version));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_has_three_names),
        cmocka_unit_test(the_usual_port_may_be_left_out),
        cmocka_unit_test(a_forwarded_port_is_any),
        cmocka_unit_test(other_addresses_are_named),
        cmocka_unit_test(an_origin_is_http_and_the_host),
        cmocka_unit_test(a_cookie_is_found_by_its_whole_name),
        cmocka_unit_test(secrets_are_random_and_an_empty_one_is_nobodys),
        cmocka_unit_test(targets_are_plain),
        cmocka_unit_test(tiles_are_numbers_in_their_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
