/* Goal: the text of a trace is handed on as it is, comes out sound when it was not, and loses what
 * it shall lose. Method: small texts are written to a file and compared with what comes out. */
#include "export/slim.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "base/text.h"
#include "cmocka_all.h"
#include "export/gzip_out.h"

static bool keep(void *user, const char *bytes, size_t size)
{
    struct ks_text *text = user;
    ks_text_append(text, bytes, size);
    return !text->failed;
}

static bool refuse(void *user, const char *bytes, size_t size)
{
    (void)user;
    (void)bytes;
    return size == 0;
}

/* What comes of `input`; the text is the caller's. */
static enum ks_status slim_text(struct ks_str input, const struct ks_slim *slim,
                                struct ks_text *out)
{
    char path[] = "/tmp/test_slim.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, input.ptr, input.len), input.len);
    close(fd);
    ks_text_init(out);
    enum ks_status status = ks_slim_write(path, slim, keep, out, NULL);
    unlink(path);
    ks_text_append(out, "", 1);
    return status;
}

static void check(struct ks_str input, const struct ks_slim *slim, const char *expected)
{
    struct ks_text out;
    assert_int_equal(slim_text(input, slim, &out), KS_OK);
    assert_string_equal(out.ptr, expected);
    ks_text_release(&out);
}

static void check_status(struct ks_str input, const struct ks_slim *slim, enum ks_status status)
{
    struct ks_text out;
    assert_int_equal(slim_text(input, slim, &out), status);
    ks_text_release(&out);
}

#define EVENT(text) KS_STR("{\"a\": 1, \"traceEvents\": [" text "], \"b\": [2]}")
#define CAME_OUT(text) "{\n\"a\": 1,\n\"traceEvents\": [\n" text "\n],\n\"b\": [2]\n}\n"

static void test_whole_text(void **state)
{
    (void)state;
    struct ks_slim all = {0};
    check(EVENT("{\"ph\":\"X\" , \"x\":1.50}"), &all, CAME_OUT("{\"ph\":\"X\" , \"x\":1.50}"));
    check(EVENT("{},{\"ph\":\"M\"}"), &all, CAME_OUT("{},\n{\"ph\":\"M\"}"));
    check(KS_STR("[{\"ph\":\"X\"}]"), &all, "[\n{\"ph\":\"X\"}\n]\n");
    check(KS_STR("[]"), &all, "[\n]\n");
    check(KS_STR("{\"traceEvents\":[]}"), &all, "{\n\"traceEvents\": [\n]\n}\n");
    check(KS_STR("\xEF\xBB\xBF[]\n\n"), &all, "[\n]\n");
}

static void test_damaged_text(void **state)
{
    (void)state;
    struct ks_slim all = {0};
    struct ks_slim strict = {.strict = true};
    const struct {
        struct ks_str input;
        const char *event;
    } cases[] = {
        {EVENT("{\"name\":\"a\tb\"}"), "{\"name\": \"a\\u0009b\"}"},
        {EVENT("{\"name\":\"a\xff\"}"), "{\"name\": \"a\xEF\xBF\xBD\"}"},
        {EVENT("{\"name\":\"nul\0\"}"), "{\"name\": \"nul\\u0000\"}"},
        {EVENT("{\"name\":\"C:\\dir\"}"), "{\"name\": \"C:\\\\dir\"}"},
        {EVENT("{\"name\":\"say \"x\"\", \"ts\":1}"), "{\"name\": \"say \\\"x\\\"\", \"ts\": 1}"},
        {EVENT("{\"ts\":NaN,\"args\":{\"x\":[Infinity,1]}}"),
         "{\"ts\": null, \"args\": {\"x\": [null, 1]}}"},
        {EVENT("{\"ph\":\"X\",},"), "{\"ph\": \"X\"}"},
        {EVENT("{\"ph\":\"X\"} {\"ph\":\"Y\"}"), "{\"ph\":\"X\"},\n{\"ph\":\"Y\"}"},
        {EVENT("{\"ph\":\"X\"}, {\"ph\": , {\"ph\":\"Y\"}"), "{\"ph\":\"X\"},\n{\"ph\":\"Y\"}"},
        {EVENT("7, \"text\", {\"ph\":\"Y\"}"), "{\"ph\":\"Y\"}"},
    };
    for (size_t i = 0; i < KS_COUNT_OF(cases); i++) {
        struct ks_text expected;
        ks_text_init(&expected);
        ks_text_printf(&expected, CAME_OUT("%s"), cases[i].event);
        ks_text_append(&expected, "", 1);
        check(cases[i].input, &all, expected.ptr);
        ks_text_release(&expected);
        check_status(cases[i].input, &strict, KS_ERR_FORMAT);
    }
}

static void test_cut_text(void **state)
{
    (void)state;
    struct ks_slim all = {0};
    const char *one = "{\n\"traceEvents\": [\n{\"ph\":\"X\"}\n]\n}\n";
    check(KS_STR("{\"traceEvents\":[{\"ph\":\"X\"}"), &all, one);
    check(KS_STR("{\"traceEvents\":[{\"ph\":\"X\"},"), &all, one);
    check(KS_STR("{\"traceEvents\":[{\"ph\":\"X\"},{\"ph"), &all, one);
    check(KS_STR("{\"traceEvents\":[{\"ph\":\"X\"}}"), &all, one);
    check(KS_STR("{\"traceEvents\":[{\"ph\":\"X\"}], \"x"), &all, one);
    check_status(KS_STR(""), &all, KS_ERR_FORMAT);
    check_status(KS_STR("{\"x\":1}"), &all, KS_ERR_FORMAT);
    check_status(KS_STR("hello"), &all, KS_ERR_FORMAT);
    check_status(KS_STR("{\"traceEvents\":{\"traceEvents\":[]}}"), &all, KS_ERR_UNSUPPORTED);
}

/* Every prefix of a text comes out sound or is refused; nothing hangs or reads too far. */
static void test_all_prefixes(void **state)
{
    (void)state;
    struct ks_str text = EVENT("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\\u00e9\\n\","
                               "\"args\":{\"stream\":7,\"x\":[1,{\"y\":null}]}},{\"ph\":\"M\"}");
    struct ks_slim slims[] = {{.strict = false}, {.anonymize = true}, {.drop_args = true}};
    for (size_t len = 0; len <= text.len; len++) {
        for (size_t i = 0; i < KS_COUNT_OF(slims); i++) {
            struct ks_text out;
            enum ks_status status = slim_text((struct ks_str){text.ptr, len}, &slims[i], &out);
            assert_true(status == KS_OK || status == KS_ERR_FORMAT);
            assert_true(status != KS_OK || strcmp(out.ptr + out.len - 4, "\n}\n") == 0);
            ks_text_release(&out);
        }
    }
}

static void test_huge_name(void **state)
{
    (void)state;
    struct ks_slim all = {0};
    struct ks_text input;
    struct ks_text out;
    ks_text_init(&input);
    ks_text_append_str(&input, KS_STR("[{\"name\":\""));
    for (size_t i = 0; i < 300000; i++) {
        ks_text_append_str(&input, KS_STR("0123456789"));
    }
    ks_text_append_str(&input, KS_STR("\"}]"));
    assert_int_equal(slim_text((struct ks_str){input.ptr, input.len}, &all, &out), KS_OK);
    assert_int_equal(out.len, input.len + strlen("\n\n\n") + 1);
    ks_text_release(&out);
    ks_text_release(&input);
}

static void test_filters(void **state)
{
    (void)state;
    struct ks_str events = EVENT("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"ts\":1,\"dur\":2},"
                                 "{\"ph\":\"X\",\"cat\":\"Kernel\",\"ts\":3},"
                                 "{\"ph\":\"M\"},{\"ph\":\"i\",\"cat\":\"mine\",\"ts\":5}");
    struct ks_slim keeps = {.pick = {.keep = "kernel,,mine"}};
    check(events, &keeps,
          CAME_OUT("{\"ph\":\"X\",\"cat\":\"Kernel\",\"ts\":3},\n{\"ph\":\"M\"},\n"
                   "{\"ph\":\"i\",\"cat\":\"mine\",\"ts\":5}"));
    struct ks_slim drops = {.pick = {.drop = "CPU_OP,mine"}};
    check(events, &drops, CAME_OUT("{\"ph\":\"X\",\"cat\":\"Kernel\",\"ts\":3},\n{\"ph\":\"M\"}"));
    struct ks_slim times = {.pick = {.has_time = true, .from_ns = 2000, .to_ns = 5000}};
    check(events, &times,
          CAME_OUT("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"ts\":1,\"dur\":2},\n"
                   "{\"ph\":\"X\",\"cat\":\"Kernel\",\"ts\":3},\n{\"ph\":\"M\"}"));
    check_status(EVENT("{\"traceEvents\":[]}"), &keeps, KS_ERR_UNSUPPORTED);
}

static void test_arguments_go(void **state)
{
    (void)state;
    struct ks_slim slim = {.drop_args = true};
    check(EVENT("{\"ph\":\"X\",\"args\":{\"Input Dims\":[[1]],\"External id\":3,\"mine\":0}}"),
          &slim, CAME_OUT("{\"ph\": \"X\", \"args\": {\"External id\": 3}}"));
    check(EVENT("{\"ph\":\"M\",\"args\":{\"mine\":0}}"), &slim,
          CAME_OUT("{\"ph\": \"M\", \"args\": {\"mine\": 0}}"));
    check(EVENT("{\"ph\":\"X\",\"args\":{}}"), &slim, CAME_OUT("{\"ph\": \"X\", \"args\": {}}"));
}

static void test_receiver_stops(void **state)
{
    (void)state;
    char path[] = "/tmp/test_slim.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "[]", 2), 2);
    close(fd);
    struct ks_slim all = {0};
    assert_int_equal(ks_slim_write(path, &all, refuse, NULL, NULL), KS_ERR_IO);
    unlink(path);
}

/* ------------------------------------------------------------------ gzip */

static void test_gzip_reads_back(void **state)
{
    (void)state;
    struct ks_text packed;
    struct ks_gzip_out *gzip = NULL;
    ks_text_init(&packed);
    assert_int_equal(ks_gzip_out_create(keep, &packed, &gzip, NULL), KS_OK);
    for (int i = 0; i < 1000; i++) {
        char line[32];
        int len = snprintf(line, sizeof(line), "line %d\n", i * i);
        assert_true(ks_gzip_out_write(gzip, line, (size_t)len));
    }
    assert_int_equal(ks_gzip_out_finish(gzip, NULL), KS_OK);
    ks_gzip_out_destroy(gzip);
    assert_true(packed.len > 18 && memcmp(packed.ptr, "\x1f\x8b\x08\0\0\0\0\0", 8) == 0);
    unsigned char plain[32768];
    z_stream stream = {.next_in = (unsigned char *)packed.ptr,
                       .avail_in = (unsigned)packed.len,
                       .next_out = plain,
                       .avail_out = sizeof(plain)};
    assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_memory_equal(plain, "line 0\nline 1\nline 4\n", 21);
    inflateEnd(&stream);
    ks_text_release(&packed);
}

static void test_gzip_receiver_stops(void **state)
{
    (void)state;
    struct ks_gzip_out *gzip = NULL;
    assert_int_equal(ks_gzip_out_create(refuse, NULL, &gzip, NULL), KS_OK);
    (void)ks_gzip_out_write(gzip, "x", 1);
    assert_int_equal(ks_gzip_out_finish(gzip, NULL), KS_ERR_IO);
    ks_gzip_out_destroy(gzip);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_text),      cmocka_unit_test(test_damaged_text),
        cmocka_unit_test(test_cut_text),        cmocka_unit_test(test_all_prefixes),
        cmocka_unit_test(test_huge_name),       cmocka_unit_test(test_filters),
        cmocka_unit_test(test_arguments_go),    cmocka_unit_test(test_receiver_stops),
        cmocka_unit_test(test_gzip_reads_back), cmocka_unit_test(test_gzip_receiver_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
