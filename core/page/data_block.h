/* One data block of a page: JSON in a script element that no browser runs, as text, or as base64 of
 * gzip of it. The JSON is that of ks_json_init_for_markup: no byte of it can end the element. */
#ifndef KS_PAGE_DATA_BLOCK_H
#define KS_PAGE_DATA_BLOCK_H

#include "export/gzip_out.h"
#include "export/sink.h"

struct ks_data_block {
    struct ks_sink *sink;
    struct ks_gzip_out *gzip; /* NULL: as text */
    unsigned char carry[3];   /* base64: bytes that make no group yet */
    size_t carry_count;
};

/* `id` is ours and needs no escape. End also after an error. */
enum ks_status ks_data_block_begin(struct ks_data_block *block, struct ks_sink *sink,
                                   const char *id, bool is_packed, struct ks_err *err)
    KS_MUST_CHECK;
/* A ks_write_cb that takes a JSON document; `user` is the block. */
bool ks_data_block_write(void *user, const char *bytes, size_t size);
enum ks_status ks_data_block_end(struct ks_data_block *block, enum ks_status status,
                                 struct ks_err *err) KS_MUST_CHECK;

/* Text between tags or in quotes: markup becomes entities, what is no UTF-8 becomes U+FFFD. */
void ks_data_block_text(struct ks_sink *sink, struct ks_str text);

#endif
