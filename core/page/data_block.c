#include "page/data_block.h"

#include "base/err.h"
#include "base/text.h"

/* ------------------------------------------------------------------ base64 */

static void put_group(struct ks_data_block *block)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    char text[4];
    for (size_t i = 0; i < 3; i++) {
        bits = bits << 8 | (i < block->carry_count ? block->carry[i] : 0u);
    }
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = i <= block->carry_count ? digits[bits >> (18 - 6 * i) & 63] : '=';
    }
    ks_sink_put(block->sink, text, sizeof(text));
    block->carry_count = 0;
}

static bool write_base64(void *user, const char *bytes, size_t size)
{
    struct ks_data_block *block = user;
    for (size_t i = 0; i < size; i++) {
        block->carry[block->carry_count++] = (unsigned char)bytes[i];
        if (block->carry_count == sizeof(block->carry)) {
            put_group(block);
        }
    }
    return !block->sink->failed;
}

/* ------------------------------------------------------------------ the block */

enum ks_status ks_data_block_begin(struct ks_data_block *block, struct ks_sink *sink,
                                   const char *id, bool is_packed, struct ks_err *err)
{
    *block = (struct ks_data_block){.sink = sink};
    if (is_packed) {
        KS_TRY(ks_gzip_out_create(write_base64, block, &block->gzip, err));
    }
    ks_sink_text(sink, "<script type=\"application/json\" id=\"");
    ks_sink_text(sink, id);
    ks_sink_text(sink, is_packed ? "\" data-encoding=\"gzip\">" : "\">");
    return KS_OK;
}

bool ks_data_block_write(void *user, const char *bytes, size_t size)
{
    struct ks_data_block *block = user;
    if (block->gzip) {
        return ks_gzip_out_write(block->gzip, bytes, size);
    }
    ks_sink_put(block->sink, bytes, size);
    return !block->sink->failed;
}

enum ks_status ks_data_block_end(struct ks_data_block *block, enum ks_status status,
                                 struct ks_err *err)
{
    if (block->gzip && status == KS_OK) {
        status = ks_gzip_out_finish(block->gzip, err);
    }
    ks_gzip_out_destroy(block->gzip);
    block->gzip = NULL;
    if (status == KS_OK) {
        if (block->carry_count > 0) {
            put_group(block);
        }
        ks_sink_text(block->sink, "</script>\n");
    }
    return status;
}

void ks_data_block_text(struct ks_sink *sink, struct ks_str text)
{
    static const struct {
        char byte;
        const char *entity;
    } entities[] = {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}};
    for (size_t i = 0; i < text.len;) {
        size_t len = ks_utf8_sequence((const unsigned char *)text.ptr + i, text.len - i);
        const char *entity = len == 0 ? "\xEF\xBF\xBD" : NULL;
        for (size_t e = 0; len == 1 && e < KS_COUNT_OF(entities); e++) {
            entity = text.ptr[i] == entities[e].byte ? entities[e].entity : entity;
        }
        bool is_control = len == 1 && ((unsigned char)text.ptr[i] < 0x20 || text.ptr[i] == 0x7f);
        if (entity || is_control) {
            ks_sink_text(sink, entity ? entity : " ");
        } else {
            ks_sink_put(sink, text.ptr + i, len);
        }
        i += len > 0 ? len : 1;
    }
}
