/* The compact protocol: a field is its type and how far its id is from the one before, numbers are
 * zigzag varints, a struct ends in a zero. */
#include "export/thrift_out.h"

enum { SHORT_DELTA_MAX = 15, SHORT_LIST_MAX = 14, VARINT_SIZE_MAX = 10 };

void ks_varint_append(struct ks_text *text, uint64_t value)
{
    char bytes[VARINT_SIZE_MAX];
    size_t size = 0;
    while (value >= 0x80) {
        bytes[size++] = (char)(value | 0x80);
        value >>= 7;
    }
    bytes[size++] = (char)value;
    ks_text_append(text, bytes, size);
}

static void put_byte(struct ks_thrift_out *out, unsigned byte)
{
    char bytes[1] = {(char)byte};
    ks_text_append(out->text, bytes, 1);
}

static void put_field(struct ks_thrift_out *out, int id, enum ks_thrift_type type)
{
    int *last_id = &out->last_id[out->depth - 1];
    int delta = id - *last_id;
    KS_ASSERT(delta > 0 && delta <= SHORT_DELTA_MAX);
    *last_id = id;
    put_byte(out, (unsigned)delta << 4 | (unsigned)type);
}

void ks_thrift_init(struct ks_thrift_out *out, struct ks_text *text)
{
    out->text = text;
    out->depth = 0;
}

void ks_thrift_item_begin(struct ks_thrift_out *out)
{
    KS_ASSERT(out->depth < KS_THRIFT_DEPTH_MAX);
    out->last_id[out->depth++] = 0;
}

void ks_thrift_struct_begin(struct ks_thrift_out *out, int id)
{
    put_field(out, id, KS_THRIFT_STRUCT);
    ks_thrift_item_begin(out);
}

void ks_thrift_struct_end(struct ks_thrift_out *out)
{
    KS_ASSERT(out->depth > 0);
    out->depth--;
    put_byte(out, 0);
}

void ks_thrift_int_item(struct ks_thrift_out *out, int64_t value)
{
    ks_varint_append(out->text, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

void ks_thrift_int(struct ks_thrift_out *out, int id, enum ks_thrift_type type, int64_t value)
{
    put_field(out, id, type);
    ks_thrift_int_item(out, value);
}

void ks_thrift_binary_item(struct ks_thrift_out *out, struct ks_str bytes)
{
    ks_varint_append(out->text, bytes.len);
    ks_text_append_str(out->text, bytes);
}

void ks_thrift_binary(struct ks_thrift_out *out, int id, struct ks_str bytes)
{
    put_field(out, id, KS_THRIFT_BINARY);
    ks_thrift_binary_item(out, bytes);
}

void ks_thrift_list(struct ks_thrift_out *out, int id, enum ks_thrift_type type, size_t count)
{
    put_field(out, id, KS_THRIFT_LIST);
    if (count <= SHORT_LIST_MAX) {
        put_byte(out, (unsigned)count << 4 | (unsigned)type);
        return;
    }
    put_byte(out, 0xF0 | (unsigned)type);
    ks_varint_append(out->text, count);
}
