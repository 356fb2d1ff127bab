/* Messages of Protocol Buffers, written into a text. Being out of memory is remembered there. */
#ifndef KS_EXPORT_PROTO_OUT_H
#define KS_EXPORT_PROTO_OUT_H

#include "base/text.h"

enum { KS_PROTO_DEPTH_MAX = 8 };

struct ks_proto_out {
    struct ks_text *text;
    size_t starts[KS_PROTO_DEPTH_MAX]; /* of the messages that are open */
    size_t depth;
};

void ks_proto_init(struct ks_proto_out *out, struct ks_text *text);
/* A message that is a field of the one around it. */
void ks_proto_begin(struct ks_proto_out *out, unsigned field);
void ks_proto_end(struct ks_proto_out *out);
/* uint, int (not sint), bool and enum fields. */
void ks_proto_number(struct ks_proto_out *out, unsigned field, int64_t value);
void ks_proto_fixed64(struct ks_proto_out *out, unsigned field, uint64_t value);
void ks_proto_double(struct ks_proto_out *out, unsigned field, double value);
void ks_proto_text(struct ks_proto_out *out, unsigned field, struct ks_str text);

#endif
