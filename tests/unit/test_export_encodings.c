/* Goal: the encodings under the binary formats have the bytes that their specifications give.
 * Method: small values by hand; whole files are read by other programs in tests/cli. */
#include "base/alloc.h"
#include "cmocka_all.h"
#include "export/flat_builder.h"
#include "export/proto_out.h"
#include "export/thrift_out.h"

static void check_bytes(struct ks_text *text, const char *bytes, size_t size)
{
    assert_false(text->failed);
    assert_int_equal(text->len, size);
    assert_memory_equal(text->ptr, bytes, size);
    ks_text_reset(text);
}

#define CHECK(text, literal) check_bytes(text, literal, sizeof(literal) - 1)

static void test_varint(void **state)
{
    (void)state;
    struct ks_text text;
    ks_text_init(&text);
    ks_varint_append(&text, 0);
    CHECK(&text, "\x00");
    ks_varint_append(&text, 127);
    CHECK(&text, "\x7F");
    ks_varint_append(&text, 300);
    CHECK(&text, "\xAC\x02");
    ks_varint_append(&text, UINT64_MAX);
    CHECK(&text, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01");
    ks_text_release(&text);
}

static void test_thrift(void **state)
{
    (void)state;
    struct ks_text text;
    struct ks_thrift_out out;
    ks_text_init(&text);
    ks_thrift_init(&out, &text);
    ks_thrift_item_begin(&out);
    ks_thrift_int(&out, 1, KS_THRIFT_I32, -1);
    ks_thrift_struct_begin(&out, 3);
    ks_thrift_binary(&out, 15, KS_STR("ab"));
    ks_thrift_struct_end(&out);
    ks_thrift_int(&out, 4, KS_THRIFT_I64, INT64_MIN);
    ks_thrift_struct_end(&out);
    CHECK(&text, "\x15\x01"
                 "\x2C\xF8\x02"
                 "ab\x00"
                 "\x16\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x00");
    ks_thrift_init(&out, &text);
    ks_thrift_item_begin(&out);
    ks_thrift_list(&out, 1, KS_THRIFT_I32, 14);
    ks_thrift_list(&out, 2, KS_THRIFT_I32, 15);
    CHECK(&text, "\x19\xE5\x19\xF5\x0F");
    ks_text_release(&text);
}

/* A length of one byte and one of two, inside of each other. */
static void test_proto(void **state)
{
    (void)state;
    char name[200];
    struct ks_text text;
    struct ks_proto_out out;
    memset(name, 'x', sizeof(name));
    ks_text_init(&text);
    ks_proto_init(&out, &text);
    ks_proto_begin(&out, 1);
    ks_proto_begin(&out, 2);
    ks_proto_number(&out, 16, 5);
    ks_proto_end(&out);
    ks_proto_text(&out, 3, (struct ks_str){name, sizeof(name)});
    ks_proto_fixed64(&out, 4, 1);
    ks_proto_end(&out);
    static const char head[] = "\x0A\xD9\x01\x12\x03\x80\x01\x05\x1A\xC8\x01";
    static const char tail[] = "\x21\x01\x00\x00\x00\x00\x00\x00";
    assert_int_equal(text.len, sizeof(head) - 1 + sizeof(name) + sizeof(tail));
    assert_memory_equal(text.ptr, head, sizeof(head) - 1);
    assert_memory_equal(text.ptr + sizeof(head) - 1, name, sizeof(name));
    assert_memory_equal(text.ptr + text.len - sizeof(tail), tail, sizeof(tail));
    ks_text_release(&text);
}

/* Root, vtable, table with a number and a text. */
static void test_flat(void **state)
{
    (void)state;
    struct ks_flat_builder flat;
    struct ks_str bytes;
    ks_flat_init(&flat);
    for (int round = 0; round < 2; round++) {
        ks_flat_reset(&flat);
        ks_flat_place name = ks_flat_text(&flat, KS_STR("hi"));
        ks_flat_table_begin(&flat);
        ks_flat_refer(&flat, 0, name);
        ks_flat_number(&flat, 2, 2, 7);
        assert_int_equal(ks_flat_finish(&flat, ks_flat_table_end(&flat), &bytes, NULL), KS_OK);
        assert_int_equal(bytes.len % 8, 0);
        const char *at = bytes.ptr;
        uint32_t root = 0;
        memcpy(&root, at, sizeof(root));
        int32_t back = 0;
        memcpy(&back, at + root, sizeof(back));
        uint16_t vtable[5];
        memcpy(vtable, at + root - back, sizeof(vtable));
        assert_int_equal(vtable[0], sizeof(vtable));
        assert_int_equal(vtable[3], 0);
        assert_int_equal(at[root + vtable[4]], 7);
        uint32_t distance = 0;
        memcpy(&distance, at + root + vtable[2], sizeof(distance));
        assert_memory_equal(at + root + vtable[2] + distance, "\x02\x00\x00\x00hi\x00", 7);
    }
    ks_flat_release(&flat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_varint),
        cmocka_unit_test(test_thrift),
        cmocka_unit_test(test_proto),
        cmocka_unit_test(test_flat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
