/* Structs in Thrift's compact protocol, as the metadata of Parquet has them. Fields must come in
 * the order of their ids. Being out of memory is remembered in the text. */
#ifndef KS_EXPORT_THRIFT_OUT_H
#define KS_EXPORT_THRIFT_OUT_H

#include "base/text.h"

enum { KS_THRIFT_DEPTH_MAX = 8 };

/* Types of fields and of items of a list. */
enum ks_thrift_type {
    KS_THRIFT_I16 = 4,
    KS_THRIFT_I32 = 5,
    KS_THRIFT_I64 = 6,
    KS_THRIFT_BINARY = 8,
    KS_THRIFT_LIST = 9,
    KS_THRIFT_STRUCT = 12,
};

struct ks_thrift_out {
    struct ks_text *text;
    int last_id[KS_THRIFT_DEPTH_MAX]; /* of the structs that are open */
    int depth;
};

void ks_thrift_init(struct ks_thrift_out *out, struct ks_text *text);
/* A struct that is the document, or an item of a list. */
void ks_thrift_item_begin(struct ks_thrift_out *out);
/* A struct that is a field of the one around it. */
void ks_thrift_struct_begin(struct ks_thrift_out *out, int id);
void ks_thrift_struct_end(struct ks_thrift_out *out);
/* I16, I32 and I64 are written in the same way. */
void ks_thrift_int(struct ks_thrift_out *out, int id, enum ks_thrift_type type, int64_t value);
void ks_thrift_binary(struct ks_thrift_out *out, int id, struct ks_str bytes);
/* `count` items of the type follow. */
void ks_thrift_list(struct ks_thrift_out *out, int id, enum ks_thrift_type type, size_t count);
/* Items of lists. */
void ks_thrift_int_item(struct ks_thrift_out *out, int64_t value);
void ks_thrift_binary_item(struct ks_thrift_out *out, struct ks_str bytes);

/* A number as a varint, seven bits a byte, lowest first. */
void ks_varint_append(struct ks_text *text, uint64_t value);

#endif
