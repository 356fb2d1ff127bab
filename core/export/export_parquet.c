/* Apache Parquet: one table, a row group for each batch of rows, a column chunk for each column.
 *
 * All columns are optional: INT64, DOUBLE, or BYTE_ARRAY as UTF-8. Numbers are PLAIN pages of the
 * values that are there; texts are a dictionary page and indices into it. Definition levels and
 * indices are the hybrid of runs and bit-packed groups of eight. Statistics let readers skip row
 * groups. The footer is collected as the groups go out: a hundred bytes a column and group.
 *
 * Layout and numbers: parquet.thrift and Encodings.md of apache/parquet-format 2.
 */
#include <stdio.h>

#include "base/err.h"
#include "export/column_batch.h"
#include "export/export.h"
#include "export/page_packer.h"
#include "export/sink.h"
#include "export/thrift_out.h"

enum { TYPE_INT64 = 2, TYPE_DOUBLE = 5, TYPE_BYTE_ARRAY = 6 };
enum { ENCODING_PLAIN = 0, ENCODING_RLE = 3, ENCODING_DICTIONARY = 8 };
enum { CODEC_NONE = 0, CODEC_ZSTD = 6 };
enum { PAGE_DATA = 0, PAGE_DICTIONARY = 2 };
enum { REPETITION_OPTIONAL = 1, CONVERTED_UTF8 = 0, FORMAT_VERSION = 2 };
enum { GROUP_SIZE = 8, RUN_MIN = 8 };

struct parquet {
    const struct ks_view *view;
    const char *table;
    struct ks_sink sink;
    struct ks_column_batch batch;
    struct ks_page_packer packer;
    struct ks_text page;   /* under way */
    struct ks_text header; /* of the page */
    struct ks_text groups; /* row groups for the footer */
    size_t group_count;
    int64_t row_count;
};

/* What the footer says about a column chunk. */
struct chunk {
    int64_t dictionary_offset; /* 0: there is none */
    int64_t data_offset;
    int64_t bytes;       /* as written, headers included */
    int64_t plain_bytes; /* the same before compression */
};

/* ------------------------------------------------------------------ runs and bits */

/* Numbers of `width` bits: runs of the same number, and groups of eight packed together, lowest bit
 * first. */
static void append_run(struct ks_text *text, uint64_t value, size_t count, unsigned width)
{
    char bytes[8];
    ks_varint_append(text, (uint64_t)count << 1);
    memcpy(bytes, &value, sizeof(bytes)); // little-endian, as the format
    ks_text_append(text, bytes, (width + 7) / 8);
}

static void append_packed(struct ks_text *text, const uint64_t *values, size_t count,
                          unsigned width)
{
    size_t groups = (count + GROUP_SIZE - 1) / GROUP_SIZE;
    uint64_t bits = 0;
    unsigned used = 0;
    ks_varint_append(text, (uint64_t)groups << 1 | 1);
    for (size_t i = 0; i < groups * GROUP_SIZE; i++) {
        bits |= (i < count ? values[i] : 0) << used;
        for (used += width; used >= 8; used -= 8) {
            char byte[1] = {(char)bits};
            ks_text_append(text, byte, 1);
            bits >>= 8;
        }
    }
}

static size_t run_length(const uint64_t *values, size_t count)
{
    size_t length = 1;
    while (length < count && values[length] == values[0]) {
        length++;
    }
    return length;
}

/* Packed groups but the last must be full, so a run begins at a multiple of eight behind them. */
static void append_hybrid(struct ks_text *text, const uint64_t *values, size_t count,
                          unsigned width)
{
    size_t at = 0;
    while (at < count && !text->failed) {
        size_t length = run_length(values + at, count - at);
        if (length >= RUN_MIN) {
            append_run(text, values[at], length, width);
            at += length;
            continue;
        }
        size_t begin = at;
        while (at < count && run_length(values + at, count - at) < 2 * RUN_MIN) {
            at += GROUP_SIZE;
        }
        at = at < count ? at : count;
        append_packed(text, values + begin, at - begin, width);
    }
}

static unsigned width_of(uint64_t max)
{
    return max == 0 ? 1 : 64 - (unsigned)__builtin_clzll(max);
}

/* ------------------------------------------------------------------ pages */

static enum ks_status fail_memory(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot make a page: no memory");
}

/* The header of the page under way; `encoding` is that of its values. */
static void describe_page(struct parquet *out, int type, int encoding, size_t values,
                          size_t packed_size)
{
    struct ks_thrift_out thrift;
    ks_text_reset(&out->header);
    ks_thrift_init(&thrift, &out->header);
    ks_thrift_item_begin(&thrift);
    ks_thrift_int(&thrift, 1, KS_THRIFT_I32, type);
    ks_thrift_int(&thrift, 2, KS_THRIFT_I32, (int64_t)out->page.len);
    ks_thrift_int(&thrift, 3, KS_THRIFT_I32, (int64_t)packed_size);
    ks_thrift_struct_begin(&thrift, type == PAGE_DICTIONARY ? 7 : 5);
    ks_thrift_int(&thrift, 1, KS_THRIFT_I32, (int64_t)values);
    ks_thrift_int(&thrift, 2, KS_THRIFT_I32, encoding);
    if (type == PAGE_DATA) {
        ks_thrift_int(&thrift, 3, KS_THRIFT_I32, ENCODING_RLE);
        ks_thrift_int(&thrift, 4, KS_THRIFT_I32, ENCODING_RLE);
    }
    ks_thrift_struct_end(&thrift);
    ks_thrift_struct_end(&thrift);
}

static enum ks_status put_page(struct parquet *out, int type, int encoding, size_t values,
                               struct chunk *chunk, struct ks_err *err)
{
    struct ks_str plain = {out->page.ptr, out->page.len};
    struct ks_str packed = {0};
    if (out->page.failed) {
        return fail_memory(err);
    }
    KS_TRY(ks_page_packer_pack(&out->packer, plain, &packed, err));
    describe_page(out, type, encoding, values, packed.len);
    if (out->header.failed) {
        return fail_memory(err);
    }
    *(type == PAGE_DICTIONARY ? &chunk->dictionary_offset : &chunk->data_offset) = out->sink.offset;
    ks_sink_put(&out->sink, out->header.ptr, out->header.len);
    ks_sink_put(&out->sink, packed.ptr, packed.len);
    chunk->bytes += (int64_t)(out->header.len + packed.len);
    chunk->plain_bytes += (int64_t)(out->header.len + plain.len);
    return KS_OK;
}

static void append_u32(struct ks_text *text, size_t value)
{
    uint32_t number = (uint32_t)value;
    ks_text_append(text, (const char *)&number, sizeof(number));
}

static enum ks_status put_dictionary(struct parquet *out, const struct ks_batch_column *column,
                                     struct chunk *chunk, struct ks_err *err)
{
    uint32_t count = ks_strpool_count(column->pool);
    ks_text_reset(&out->page);
    for (uint32_t i = 0; i < count && !out->page.failed; i++) {
        struct ks_str text = ks_strpool_get(column->pool, (struct ks_strid){i});
        append_u32(&out->page, text.len);
        ks_text_append_str(&out->page, text);
    }
    return put_page(out, PAGE_DICTIONARY, ENCODING_PLAIN, count, chunk, err);
}

/* Levels say which rows have a value: 1, or 0. */
static void append_levels(struct parquet *out, const struct ks_batch_column *column)
{
    struct ks_text *page = &out->page;
    size_t rows = out->batch.row_count;
    size_t begin = page->len;
    append_u32(page, 0);
    if (column->null_count == 0 || column->null_count == rows) {
        append_run(page, column->null_count == 0, rows, 1);
    } else {
        size_t groups = (rows + GROUP_SIZE - 1) / GROUP_SIZE;
        ks_varint_append(page, (uint64_t)groups << 1 | 1);
        ks_text_append(page, (const char *)column->valid, groups);
    }
    if (!page->failed) {
        uint32_t size = (uint32_t)(page->len - begin - sizeof(size));
        memcpy(page->ptr + begin, &size, sizeof(size));
    }
}

/* Moves the cells that hold a value to the front; gives how many. */
static size_t squeeze(const struct ks_column_batch *batch, struct ks_batch_column *column)
{
    size_t count = 0;
    for (size_t i = 0; i < batch->row_count; i++) {
        if (ks_batch_column_has(column, i)) {
            column->cells[count++] = column->cells[i];
        }
    }
    return count;
}

static enum ks_status put_chunk(struct parquet *out, struct ks_batch_column *column,
                                struct chunk *chunk, struct ks_err *err)
{
    bool is_text = column->type == KS_SQL_TEXT;
    if (is_text) {
        KS_TRY(put_dictionary(out, column, chunk, err));
    }
    size_t count = squeeze(&out->batch, column);
    ks_text_reset(&out->page);
    append_levels(out, column);
    if (is_text) {
        unsigned width = width_of(ks_strpool_count(column->pool) - 1);
        char byte[1] = {(char)width};
        ks_text_append(&out->page, byte, 1);
        append_hybrid(&out->page, column->cells, count, width);
    } else {
        ks_text_append(&out->page, (const char *)column->cells, count * sizeof(*column->cells));
    }
    return put_page(out, PAGE_DATA, is_text ? ENCODING_DICTIONARY : ENCODING_PLAIN,
                    out->batch.row_count, chunk, err);
}

/* ------------------------------------------------------------------ the footer */

static int type_of(const struct ks_batch_column *column)
{
    return column->type == KS_SQL_TEXT   ? TYPE_BYTE_ARRAY
           : column->type == KS_SQL_REAL ? TYPE_DOUBLE
                                         : TYPE_INT64;
}

static double real_of(uint64_t cell)
{
    double real;
    memcpy(&real, &cell, sizeof(real));
    return real;
}

static bool is_less(const struct ks_batch_column *column, uint64_t a, uint64_t b)
{
    return column->type == KS_SQL_REAL ? real_of(a) < real_of(b) : (int64_t)a < (int64_t)b;
}

/* Of the values, which stand at the front of the cells. A zero of reals may be of either sign, so
 * the smallest is written as -0 and the largest as +0, as the format asks. */
static void put_statistics(struct ks_thrift_out *thrift, const struct ks_batch_column *column,
                           size_t count)
{
    ks_thrift_struct_begin(thrift, 12);
    ks_thrift_int(thrift, 3, KS_THRIFT_I64, (int64_t)column->null_count);
    if (count > 0 && column->type != KS_SQL_TEXT) {
        uint64_t min = column->cells[0];
        uint64_t max = column->cells[0];
        for (size_t i = 1; i < count; i++) {
            min = is_less(column, column->cells[i], min) ? column->cells[i] : min;
            max = is_less(column, max, column->cells[i]) ? column->cells[i] : max;
        }
        if (column->type == KS_SQL_REAL) {
            double low = real_of(min) == 0.0 ? -0.0 : real_of(min);
            double high = real_of(max) == 0.0 ? 0.0 : real_of(max);
            memcpy(&min, &low, sizeof(min));
            memcpy(&max, &high, sizeof(max));
        }
        ks_thrift_binary(thrift, 5, (struct ks_str){(const char *)&max, sizeof(max)});
        ks_thrift_binary(thrift, 6, (struct ks_str){(const char *)&min, sizeof(min)});
    }
    ks_thrift_struct_end(thrift);
}

static void put_chunk_facts(struct parquet *out, struct ks_thrift_out *thrift,
                            const struct ks_batch_column *column, const struct chunk *chunk)
{
    bool is_text = column->type == KS_SQL_TEXT;
    ks_thrift_item_begin(thrift);
    ks_thrift_int(thrift, 2, KS_THRIFT_I64,
                  is_text ? chunk->dictionary_offset : chunk->data_offset);
    ks_thrift_struct_begin(thrift, 3);
    ks_thrift_int(thrift, 1, KS_THRIFT_I32, type_of(column));
    ks_thrift_list(thrift, 2, KS_THRIFT_I32, is_text ? 3 : 2);
    ks_thrift_int_item(thrift, ENCODING_RLE);
    ks_thrift_int_item(thrift, ENCODING_PLAIN);
    if (is_text) {
        ks_thrift_int_item(thrift, ENCODING_DICTIONARY);
    }
    ks_thrift_list(thrift, 3, KS_THRIFT_BINARY, 1);
    ks_thrift_binary_item(thrift, ks_str_from(column->name));
    ks_thrift_int(thrift, 4, KS_THRIFT_I32, out->packer.is_plain ? CODEC_NONE : CODEC_ZSTD);
    ks_thrift_int(thrift, 5, KS_THRIFT_I64, (int64_t)out->batch.row_count);
    ks_thrift_int(thrift, 6, KS_THRIFT_I64, chunk->plain_bytes);
    ks_thrift_int(thrift, 7, KS_THRIFT_I64, chunk->bytes);
    ks_thrift_int(thrift, 9, KS_THRIFT_I64, chunk->data_offset);
    if (is_text) {
        ks_thrift_int(thrift, 11, KS_THRIFT_I64, chunk->dictionary_offset);
    }
    put_statistics(thrift, column, out->batch.row_count - column->null_count);
    ks_thrift_struct_end(thrift);
    ks_thrift_struct_end(thrift);
}

/* The batch as a row group. */
static enum ks_status put_group(struct parquet *out, struct ks_err *err)
{
    struct ks_thrift_out thrift;
    int64_t begin = out->sink.offset;
    int64_t plain_bytes = 0;
    ks_thrift_init(&thrift, &out->groups);
    ks_thrift_item_begin(&thrift);
    ks_thrift_list(&thrift, 1, KS_THRIFT_STRUCT, out->batch.column_count);
    for (size_t i = 0; i < out->batch.column_count; i++) {
        struct chunk chunk = {0};
        KS_TRY(put_chunk(out, &out->batch.columns[i], &chunk, err));
        put_chunk_facts(out, &thrift, &out->batch.columns[i], &chunk);
        plain_bytes += chunk.plain_bytes;
    }
    ks_thrift_int(&thrift, 2, KS_THRIFT_I64, plain_bytes);
    ks_thrift_int(&thrift, 3, KS_THRIFT_I64, (int64_t)out->batch.row_count);
    ks_thrift_int(&thrift, 5, KS_THRIFT_I64, begin);
    ks_thrift_int(&thrift, 6, KS_THRIFT_I64, out->sink.offset - begin);
    ks_thrift_struct_end(&thrift);
    out->group_count++;
    out->row_count += (int64_t)out->batch.row_count;
    return out->groups.failed ? fail_memory(err) : KS_OK;
}

static void put_schema(const struct parquet *out, struct ks_thrift_out *thrift)
{
    size_t count = out->batch.column_count;
    ks_thrift_list(thrift, 2, KS_THRIFT_STRUCT, count + 1);
    ks_thrift_item_begin(thrift);
    ks_thrift_binary(thrift, 4, KS_STR("schema"));
    ks_thrift_int(thrift, 5, KS_THRIFT_I32, (int64_t)count);
    ks_thrift_struct_end(thrift);
    for (size_t i = 0; i < count; i++) {
        const struct ks_batch_column *column = &out->batch.columns[i];
        ks_thrift_item_begin(thrift);
        ks_thrift_int(thrift, 1, KS_THRIFT_I32, type_of(column));
        ks_thrift_int(thrift, 3, KS_THRIFT_I32, REPETITION_OPTIONAL);
        ks_thrift_binary(thrift, 4, ks_str_from(column->name));
        if (column->type == KS_SQL_TEXT) {
            ks_thrift_int(thrift, 6, KS_THRIFT_I32, CONVERTED_UTF8);
            ks_thrift_struct_begin(thrift, 10);
            ks_thrift_struct_begin(thrift, 1); // STRING
            ks_thrift_struct_end(thrift);
            ks_thrift_struct_end(thrift);
        }
        ks_thrift_struct_end(thrift);
    }
}

static void put_pair(struct ks_thrift_out *thrift, const char *key, struct ks_str value)
{
    ks_thrift_item_begin(thrift);
    ks_thrift_binary(thrift, 1, ks_str_from(key));
    ks_thrift_binary(thrift, 2, value);
    ks_thrift_struct_end(thrift);
}

static void put_facts(const struct parquet *out, struct ks_thrift_out *thrift)
{
    struct ks_table_fact facts[KS_TABLE_FACTS];
    ks_table_rows_facts(out->view, out->table, facts);
    ks_thrift_list(thrift, 5, KS_THRIFT_STRUCT, KS_TABLE_FACTS);
    for (size_t i = 0; i < KS_TABLE_FACTS; i++) {
        put_pair(thrift, facts[i].key, ks_str_from(facts[i].value));
    }
    char created_by[64] = "";
    snprintf(created_by, sizeof(created_by), "kinetoscope version %s", ks_version());
    ks_thrift_binary(thrift, 6, ks_str_from(created_by));
}

static enum ks_status put_footer(struct parquet *out, struct ks_err *err)
{
    struct ks_text *footer = &out->page;
    struct ks_thrift_out thrift;
    ks_text_reset(footer);
    ks_thrift_init(&thrift, footer);
    ks_thrift_item_begin(&thrift);
    ks_thrift_int(&thrift, 1, KS_THRIFT_I32, FORMAT_VERSION);
    put_schema(out, &thrift);
    ks_thrift_int(&thrift, 3, KS_THRIFT_I64, out->row_count);
    ks_thrift_list(&thrift, 4, KS_THRIFT_STRUCT, out->group_count);
    ks_text_append(footer, out->groups.ptr, out->groups.len);
    put_facts(out, &thrift);
    ks_thrift_list(&thrift, 7, KS_THRIFT_STRUCT, out->batch.column_count);
    for (size_t i = 0; i < out->batch.column_count; i++) {
        ks_thrift_item_begin(&thrift);
        ks_thrift_struct_begin(&thrift, 1); // values are in the order of their type
        ks_thrift_struct_end(&thrift);
        ks_thrift_struct_end(&thrift);
    }
    ks_thrift_struct_end(&thrift);
    size_t size = footer->len;
    append_u32(footer, size);
    ks_text_append_str(footer, KS_STR("PAR1"));
    if (footer->failed) {
        return fail_memory(err);
    }
    ks_sink_put(&out->sink, footer->ptr, footer->len);
    return ks_sink_finish(&out->sink, err);
}

/* ------------------------------------------------------------------ the file */

static enum ks_status write_groups(struct parquet *out, struct ks_table_rows *rows,
                                   struct ks_err *err)
{
    ks_sink_text(&out->sink, "PAR1");
    while (!out->sink.failed) {
        enum ks_status status = ks_column_batch_fill(&out->batch, rows, err);
        if (status == KS_END) {
            break;
        }
        KS_TRY(status);
        KS_TRY(put_group(out, err));
    }
    return put_footer(out, err);
}

static enum ks_status write_file(struct parquet *out, const struct ks_export_options *options,
                                 struct ks_table_rows *rows, struct ks_err *err)
{
    KS_TRY(ks_page_packer_init(&out->packer, options->uncompressed, err));
    KS_TRY(ks_column_batch_init(&out->batch, rows, KS_BATCH_ALL_COLUMNS, err));
    return write_groups(out, rows, err);
}

enum ks_status ks_export_parquet(const struct ks_view *view,
                                 const struct ks_export_options *options, ks_write_cb write,
                                 void *user, struct ks_err *err)
{
    struct ks_row_filter filter;
    struct ks_table_rows *rows = NULL;
    struct parquet out = {.view = view, .table = options->table ? options->table : "events"};
    KS_TRY(ks_row_filter_init(&filter, view, options, err));
    ks_sink_init(&out.sink, write, user);
    enum ks_status status =
        ks_table_rows_open(view, &filter, ks_table_rows_find(out.table), &rows, err);
    if (status == KS_OK) {
        status = write_file(&out, options, rows, err);
    }
    ks_column_batch_release(&out.batch);
    ks_page_packer_release(&out.packer);
    ks_text_release(&out.page);
    ks_text_release(&out.header);
    ks_text_release(&out.groups);
    ks_table_rows_close(rows);
    return status;
}
