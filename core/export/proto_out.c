/* A field is its number and how its value is written, then the value: a varint, eight bytes, or a
 * length and so many bytes. */
#include "export/proto_out.h"

#include "export/thrift_out.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, ONE_BYTE_MAX = 0x7F };

void ks_proto_init(struct ks_proto_out *out, struct ks_text *text)
{
    out->text = text;
    out->depth = 0;
}

static void put_tag(struct ks_proto_out *out, unsigned field, unsigned wire)
{
    ks_varint_append(out->text, (uint64_t)field << 3 | wire);
}

/* Leaves a byte for the length, which is enough for nearly all. */
void ks_proto_begin(struct ks_proto_out *out, unsigned field)
{
    KS_ASSERT(out->depth < KS_PROTO_DEPTH_MAX);
    put_tag(out, field, WIRE_BYTES);
    ks_varint_append(out->text, 0);
    out->starts[out->depth++] = out->text->len;
}

void ks_proto_end(struct ks_proto_out *out)
{
    KS_ASSERT(out->depth > 0);
    struct ks_text *text = out->text;
    size_t start = out->starts[--out->depth];
    if (text->failed) {
        return;
    }
    size_t size = text->len - start;
    size_t end = text->len;
    ks_varint_append(text, size); // behind the message, to see how long it is
    size_t length_size = text->len - end;
    if (size > ONE_BYTE_MAX && !text->failed) {
        char length[10];
        memcpy(length, text->ptr + end, length_size);
        memmove(text->ptr + start - 1 + length_size, text->ptr + start, size);
        memcpy(text->ptr + start - 1, length, length_size);
        text->len = start - 1 + length_size + size;
    } else if (!text->failed) {
        text->ptr[start - 1] = (char)size;
        text->len = end;
    }
}

void ks_proto_number(struct ks_proto_out *out, unsigned field, int64_t value)
{
    put_tag(out, field, WIRE_VARINT);
    ks_varint_append(out->text, (uint64_t)value);
}

void ks_proto_fixed64(struct ks_proto_out *out, unsigned field, uint64_t value)
{
    put_tag(out, field, WIRE_FIXED64);
    ks_text_append(out->text, (const char *)&value, sizeof(value)); // little-endian
}

void ks_proto_double(struct ks_proto_out *out, unsigned field, double value)
{
    put_tag(out, field, WIRE_FIXED64);
    ks_text_append(out->text, (const char *)&value, sizeof(value));
}

void ks_proto_text(struct ks_proto_out *out, unsigned field, struct ks_str text)
{
    put_tag(out, field, WIRE_BYTES);
    ks_varint_append(out->text, text.len);
    ks_text_append_str(out->text, text);
}
