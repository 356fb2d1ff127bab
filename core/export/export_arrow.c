/* Apache Arrow's file format (Feather 2): one table, a record batch for each batch of rows.
 *
 * Columns are int64, float64 or UTF-8 and may be null. A file is a schema, batches, and a footer
 * with the schema once more and the place of each batch; each is a message, a small FlatBuffer with
 * the buffers of columns behind it. Of a column those are a bit for each row (none, when all have
 * a value), for texts where each ends, and the values. Buffers are compressed one by one by zstd;
 * the footer takes 24 bytes a batch.
 *
 * Layout and numbers: Schema.fbs, Message.fbs and File.fbs of Arrow's format 1 (metadata V5).
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "export/column_batch.h"
#include "export/export.h"
#include "export/flat_builder.h"
#include "export/page_packer.h"
#include "export/sink.h"

enum { METADATA_V5 = 4, HEADER_SCHEMA = 1, HEADER_BATCH = 3 };
enum { TYPE_INT = 2, TYPE_REAL = 3, TYPE_UTF8 = 5, PRECISION_DOUBLE = 2, CODEC_ZSTD = 1 };
enum { ALIGN = 8, BUFFERS_OF_COLUMN_MAX = 3 };

static const char magic[] = "ARROW1";

/* Structs of the format. */
struct node {
    int64_t row_count;
    int64_t null_count;
};

struct buffer {
    int64_t offset;
    int64_t size;
};

struct block {
    int64_t offset;
    int32_t metadata_size;
    int32_t padding;
    int64_t body_size;
};

struct arrow {
    const struct ks_view *view;
    const char *table;
    struct ks_sink sink;
    struct ks_column_batch batch;
    struct ks_page_packer packer;
    struct ks_flat_builder flat;
    struct ks_text raw;  /* a buffer under way */
    struct ks_text body; /* the buffers of a batch */
    struct node *nodes;  /* by column */
    struct buffer *buffers;
    size_t buffer_count;
    ks_flat_place *places; /* by column */
    struct block *blocks;
    size_t block_count;
    size_t block_capacity;
};

static enum ks_status fail_memory(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot make a record batch: no memory");
}

/* ------------------------------------------------------------------ the schema */

static ks_flat_place describe_type(struct ks_flat_builder *flat, enum ks_sql_type type)
{
    ks_flat_table_begin(flat);
    if (type == KS_SQL_INTEGER) {
        ks_flat_number(flat, 0, 4, 64);   // bits
        ks_flat_number(flat, 1, 1, true); // signed
    } else if (type == KS_SQL_REAL) {
        ks_flat_number(flat, 0, 2, PRECISION_DOUBLE);
    }
    return ks_flat_table_end(flat);
}

static ks_flat_place describe_column(struct ks_flat_builder *flat,
                                     const struct ks_batch_column *column)
{
    int type = column->type == KS_SQL_TEXT   ? TYPE_UTF8
               : column->type == KS_SQL_REAL ? TYPE_REAL
                                             : TYPE_INT;
    ks_flat_place name = ks_flat_text(flat, ks_str_from(column->name));
    ks_flat_place type_table = describe_type(flat, column->type);
    ks_flat_place children = ks_flat_places(flat, NULL, 0);
    ks_flat_table_begin(flat);
    ks_flat_refer(flat, 0, name);
    ks_flat_refer(flat, 3, type_table);
    ks_flat_refer(flat, 5, children);
    ks_flat_number(flat, 1, 1, true); // may be null
    ks_flat_number(flat, 2, 1, type);
    return ks_flat_table_end(flat);
}

static ks_flat_place describe_pair(struct ks_flat_builder *flat, const struct ks_table_fact *fact)
{
    ks_flat_place key = ks_flat_text(flat, ks_str_from(fact->key));
    ks_flat_place value = ks_flat_text(flat, ks_str_from(fact->value));
    ks_flat_table_begin(flat);
    ks_flat_refer(flat, 0, key);
    ks_flat_refer(flat, 1, value);
    return ks_flat_table_end(flat);
}

static ks_flat_place describe_schema(struct arrow *out)
{
    struct ks_flat_builder *flat = &out->flat;
    struct ks_table_fact facts[KS_TABLE_FACTS];
    ks_flat_place pairs[KS_TABLE_FACTS];
    ks_table_rows_facts(out->view, out->table, facts);
    for (size_t i = 0; i < KS_TABLE_FACTS; i++) {
        pairs[i] = describe_pair(flat, &facts[i]);
    }
    for (size_t i = 0; i < out->batch.column_count; i++) {
        out->places[i] = describe_column(flat, &out->batch.columns[i]);
    }
    ks_flat_place fields = ks_flat_places(flat, out->places, out->batch.column_count);
    ks_flat_place more = ks_flat_places(flat, pairs, KS_TABLE_FACTS);
    ks_flat_table_begin(flat); // little-endian is the default
    ks_flat_refer(flat, 1, fields);
    ks_flat_refer(flat, 2, more);
    return ks_flat_table_end(flat);
}

/* ------------------------------------------------------------------ messages */

static void put_i32(struct ks_sink *sink, size_t value)
{
    int32_t number = (int32_t)value;
    ks_sink_put(sink, (const char *)&number, sizeof(number));
}

/* Before each message: a mark, and the size of its metadata. */
static enum ks_status put_message(struct arrow *out, int type, ks_flat_place header,
                                  struct block *block, struct ks_err *err)
{
    struct ks_flat_builder *flat = &out->flat;
    struct ks_str metadata = {0};
    ks_flat_table_begin(flat);
    ks_flat_number(flat, 3, 8, (int64_t)out->body.len);
    ks_flat_refer(flat, 2, header);
    ks_flat_number(flat, 0, 2, METADATA_V5);
    ks_flat_number(flat, 1, 1, type);
    KS_TRY(ks_flat_finish(flat, ks_flat_table_end(flat), &metadata, err));
    *block = (struct block){.offset = out->sink.offset,
                            .metadata_size = (int32_t)(metadata.len + ALIGN),
                            .body_size = (int64_t)out->body.len};
    put_i32(&out->sink, UINT32_MAX);
    put_i32(&out->sink, metadata.len);
    ks_sink_put(&out->sink, metadata.ptr, metadata.len);
    ks_sink_put(&out->sink, out->body.ptr, out->body.len);
    return KS_OK;
}

static enum ks_status put_schema(struct arrow *out, struct ks_err *err)
{
    struct block block;
    ks_flat_reset(&out->flat);
    return put_message(out, HEADER_SCHEMA, describe_schema(out), &block, err);
}

/* ------------------------------------------------------------------ a batch */

/* Ends a buffer: its bytes, or their number and what zstd makes of them. One without bytes has no
 * number. */
static enum ks_status end_buffer(struct arrow *out, struct ks_str bytes, struct ks_err *err)
{
    static const char zeros[ALIGN] = "";
    struct ks_text *body = &out->body;
    struct buffer *buffer = &out->buffers[out->buffer_count++];
    buffer->offset = (int64_t)body->len;
    if (bytes.len > 0) {
        struct ks_str packed = {0};
        int64_t size = (int64_t)bytes.len;
        KS_TRY(ks_page_packer_pack(&out->packer, bytes, &packed, err));
        ks_text_append(body, (const char *)&size, out->packer.is_plain ? 0 : sizeof(size));
        ks_text_append_str(body, packed);
    }
    buffer->size = (int64_t)body->len - buffer->offset;
    ks_text_append(body, zeros, (ALIGN - body->len % ALIGN) % ALIGN);
    return body->failed ? fail_memory(err) : KS_OK;
}

static enum ks_status add_texts(struct arrow *out, const struct ks_batch_column *column,
                                struct ks_err *err)
{
    struct ks_text *raw = &out->raw;
    uint32_t end = 0; // a batch has some 64 MiB of text
    ks_text_reset(raw);
    ks_text_append(raw, (const char *)&end, sizeof(end));
    for (size_t i = 0; i < out->batch.row_count; i++) {
        struct ks_strid id = {(uint32_t)column->cells[i]};
        end += (uint32_t)ks_strpool_get(column->pool, id).len;
        ks_text_append(raw, (const char *)&end, sizeof(end));
    }
    if (raw->failed) {
        return fail_memory(err);
    }
    KS_TRY(end_buffer(out, (struct ks_str){raw->ptr, raw->len}, err));
    ks_text_reset(raw);
    for (size_t i = 0; i < out->batch.row_count; i++) {
        struct ks_strid id = {(uint32_t)column->cells[i]};
        ks_text_append_str(raw, ks_strpool_get(column->pool, id));
    }
    return raw->failed ? fail_memory(err)
                       : end_buffer(out, (struct ks_str){raw->ptr, raw->len}, err);
}

static enum ks_status add_column(struct arrow *out, size_t index, struct ks_err *err)
{
    const struct ks_batch_column *column = &out->batch.columns[index];
    size_t rows = out->batch.row_count;
    out->nodes[index] = (struct node){(int64_t)rows, (int64_t)column->null_count};
    struct ks_str valid = {(const char *)column->valid, (rows + 7) / 8};
    KS_TRY(end_buffer(out, column->null_count > 0 ? valid : KS_STR(""), err));
    if (column->type == KS_SQL_TEXT) {
        return add_texts(out, column, err);
    }
    struct ks_str values = {(const char *)column->cells, rows * sizeof(*column->cells)};
    return end_buffer(out, values, err);
}

static ks_flat_place describe_batch(struct arrow *out)
{
    struct ks_flat_builder *flat = &out->flat;
    ks_flat_place compression = 0;
    if (!out->packer.is_plain) {
        ks_flat_table_begin(flat);
        ks_flat_number(flat, 0, 1, CODEC_ZSTD);
        compression = ks_flat_table_end(flat);
    }
    ks_flat_place buffers =
        ks_flat_structs(flat, out->buffers, out->buffer_count, sizeof(*out->buffers));
    ks_flat_place nodes =
        ks_flat_structs(flat, out->nodes, out->batch.column_count, sizeof(*out->nodes));
    ks_flat_table_begin(flat);
    ks_flat_number(flat, 0, 8, (int64_t)out->batch.row_count);
    ks_flat_refer(flat, 1, nodes);
    ks_flat_refer(flat, 2, buffers);
    ks_flat_refer(flat, 3, compression);
    return ks_flat_table_end(flat);
}

static enum ks_status put_batch(struct arrow *out, struct ks_err *err)
{
    ks_text_reset(&out->body);
    out->buffer_count = 0;
    for (size_t i = 0; i < out->batch.column_count; i++) {
        KS_TRY(add_column(out, i, err));
    }
    KS_TRY(ks_grow(&out->blocks, out->block_count, &out->block_capacity, sizeof(*out->blocks),
                   "record batches", err));
    ks_flat_reset(&out->flat);
    return put_message(out, HEADER_BATCH, describe_batch(out), &out->blocks[out->block_count++],
                       err);
}

/* ------------------------------------------------------------------ the file */

static enum ks_status put_footer(struct arrow *out, struct ks_err *err)
{
    struct ks_flat_builder *flat = &out->flat;
    struct ks_str footer = {0};
    put_i32(&out->sink, UINT32_MAX); // the end, for who reads the file as a stream
    put_i32(&out->sink, 0);
    ks_flat_reset(flat);
    ks_flat_place schema = describe_schema(out);
    ks_flat_place dictionaries = ks_flat_structs(flat, NULL, 0, sizeof(struct block));
    ks_flat_place batches =
        ks_flat_structs(flat, out->blocks, out->block_count, sizeof(*out->blocks));
    ks_flat_table_begin(flat);
    ks_flat_refer(flat, 1, schema);
    ks_flat_refer(flat, 2, dictionaries);
    ks_flat_refer(flat, 3, batches);
    ks_flat_number(flat, 0, 2, METADATA_V5);
    KS_TRY(ks_flat_finish(flat, ks_flat_table_end(flat), &footer, err));
    ks_sink_put(&out->sink, footer.ptr, footer.len);
    put_i32(&out->sink, footer.len);
    ks_sink_text(&out->sink, magic);
    return ks_sink_finish(&out->sink, err);
}

static enum ks_status start(struct arrow *out, const struct ks_export_options *options,
                            const struct ks_table_rows *rows, struct ks_err *err)
{
    KS_TRY(ks_page_packer_init(&out->packer, options->uncompressed, err));
    KS_TRY(ks_column_batch_init(&out->batch, rows, KS_BATCH_ALL_COLUMNS, err));
    size_t count = out->batch.column_count;
    out->nodes = ks_alloc(count, sizeof(*out->nodes));
    out->buffers = ks_alloc(count * BUFFERS_OF_COLUMN_MAX, sizeof(*out->buffers));
    out->places = ks_alloc(count, sizeof(*out->places));
    return out->nodes && out->buffers && out->places ? KS_OK : fail_memory(err);
}

static enum ks_status write_file(struct arrow *out, struct ks_table_rows *rows, struct ks_err *err)
{
    ks_sink_put(&out->sink, magic, ALIGN - 1);
    ks_sink_put(&out->sink, "", 1);
    KS_TRY(put_schema(out, err));
    while (!out->sink.failed) {
        enum ks_status status = ks_column_batch_fill(&out->batch, rows, err);
        if (status == KS_END) {
            break;
        }
        KS_TRY(status);
        KS_TRY(put_batch(out, err));
    }
    return put_footer(out, err);
}

static void release(struct arrow *out)
{
    ks_column_batch_release(&out->batch);
    ks_page_packer_release(&out->packer);
    ks_flat_release(&out->flat);
    ks_text_release(&out->raw);
    ks_text_release(&out->body);
    ks_free(out->nodes);
    ks_free(out->buffers);
    ks_free(out->places);
    ks_free(out->blocks);
}

enum ks_status ks_export_arrow(const struct ks_view *view, const struct ks_export_options *options,
                               ks_write_cb write, void *user, struct ks_err *err)
{
    struct ks_row_filter filter;
    struct ks_table_rows *rows = NULL;
    struct arrow out = {.view = view, .table = options->table ? options->table : "events"};
    KS_TRY(ks_row_filter_init(&filter, view, options, err));
    ks_sink_init(&out.sink, write, user);
    enum ks_status status =
        ks_table_rows_open(view, &filter, ks_table_rows_find(out.table), &rows, err);
    if (status == KS_OK) {
        status = start(&out, options, rows, err);
    }
    if (status == KS_OK) {
        status = write_file(&out, rows, err);
    }
    ks_table_rows_close(rows);
    release(&out);
    return status;
}
