#include "show/query_output.h"

#include <inttypes.h>
#include <math.h>

#include "base/err.h"
#include "show/ink.h"
#include "show/json_writer.h"
#include "show/query_table.h"

enum { FLUSH_BYTES = 32 * 1024 };

/* State of one output; a format uses what it needs. */
struct output {
    struct ks_query *query;
    const struct ks_query_style *style;
    ks_write_cb write;
    void *user;
    size_t column_count;
    struct ks_text text; /* what is to be handed on */
    struct ks_json json;
    struct ks_query_table_text table;
};

static enum ks_status hand_on(struct output *out, struct ks_err *err)
{
    if (out->text.failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write rows: no memory");
    }
    bool is_good = out->text.len == 0 || out->write(out->user, out->text.ptr, out->text.len);
    ks_text_reset(&out->text);
    return is_good
               ? KS_OK
               : ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot write rows: the receiver stopped");
}

/* ------------------------------------------------------------------ JSON */

static void json_blob(struct ks_json *json, struct ks_str bytes)
{
    struct ks_text hex;
    ks_text_init(&hex);
    for (size_t i = 0; i < bytes.len; i++) {
        ks_text_printf(&hex, "%02x", (unsigned char)bytes.ptr[i]);
    }
    json->failed = json->failed || hex.failed;
    ks_json_str(json, NULL, (struct ks_str){hex.ptr, hex.len});
    ks_text_release(&hex);
}

static void json_value(struct ks_json *json, const struct ks_sql_value *value)
{
    switch (value->type) {
    case KS_SQL_NULL: ks_json_null(json, NULL); break;
    case KS_SQL_INTEGER: ks_json_int(json, NULL, value->integer); break;
    case KS_SQL_REAL: ks_json_real(json, NULL, value->real); break;
    case KS_SQL_TEXT: ks_json_str(json, NULL, value->text); break;
    case KS_SQL_BLOB: json_blob(json, value->text); break;
    }
}

static void json_begin(struct output *out)
{
    ks_json_init(&out->json, out->write, out->user);
    ks_json_object_begin(&out->json, NULL);
    ks_json_text(&out->json, "schema", "kinetoscope.query/1");
    ks_json_array_begin(&out->json, "columns");
    for (size_t c = 0; c < out->column_count; c++) {
        ks_json_text(&out->json, NULL, ks_query_column_name(out->query, c));
    }
    ks_json_array_end(&out->json);
    ks_json_array_begin(&out->json, "rows");
}

static enum ks_status json_row(struct output *out, struct ks_err *err)
{
    enum ks_status status = KS_OK;
    ks_json_array_begin(&out->json, NULL);
    for (size_t c = 0; c < out->column_count && status == KS_OK; c++) {
        struct ks_sql_value value;
        status = ks_query_value(out->query, c, &value, err);
        json_value(&out->json, &value);
    }
    ks_json_array_end(&out->json);
    if (status == KS_OK && out->json.failed) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot write rows: the receiver stopped");
    }
    return status;
}

static enum ks_status json_end(struct output *out, const struct ks_query_result *result,
                               const struct ks_err *failure, struct ks_err *err)
{
    ks_json_array_end(&out->json);
    ks_json_int(&out->json, "row_count", (int64_t)result->row_count);
    ks_json_bool(&out->json, "truncated", result->is_cut);
    if (failure) {
        ks_json_object_begin(&out->json, "error");
        ks_json_text(&out->json, "code", ks_status_word(failure->status));
        ks_json_text(&out->json, "message", failure->message);
        ks_json_object_end(&out->json);
    }
    ks_json_object_end(&out->json);
    return ks_json_finish(&out->json, err);
}

/* ------------------------------------------------------------------ CSV */

/* Spreadsheets take what begins like this for a formula. */
static bool looks_like_formula(struct ks_str text)
{
    return text.len > 0 && memchr("=+-@\t\r", text.ptr[0], 6);
}

/* Valid UTF-8 without NUL; quoted when it must be, and when it is empty, which NULL is not. */
static void csv_text(struct ks_text *out, struct ks_str text)
{
    const unsigned char *bytes = (const unsigned char *)text.ptr;
    ks_text_append(out, "\"", 1);
    if (looks_like_formula(text)) {
        ks_text_append(out, "'", 1);
    }
    for (size_t i = 0; i < text.len;) {
        size_t len = bytes[i] == '\0' ? 0 : ks_utf8_sequence(bytes + i, text.len - i);
        if (len == 0) {
            ks_text_append(out, "\xEF\xBF\xBD", 3);
        } else {
            ks_text_append(out, bytes[i] == '"' ? "\"\"" : text.ptr + i, bytes[i] == '"' ? 2 : len);
        }
        i += len == 0 ? 1 : len;
    }
    ks_text_append(out, "\"", 1);
}

static void csv_value(struct ks_text *out, const struct ks_sql_value *value)
{
    char number[KS_JSON_REAL_SIZE];
    switch (value->type) {
    case KS_SQL_NULL: break;
    case KS_SQL_INTEGER: ks_text_printf(out, "%" PRId64, value->integer); break;
    case KS_SQL_REAL:
        ks_json_format_real(value->real, number);
        ks_text_append_str(out, isinf(value->real)
                                    ? (value->real > 0 ? KS_STR("Infinity") : KS_STR("-Infinity"))
                                    : ks_str_from(number));
        break;
    case KS_SQL_TEXT: csv_text(out, value->text); break;
    case KS_SQL_BLOB:
        for (size_t i = 0; i < value->text.len; i++) {
            ks_text_printf(out, "%02x", (unsigned char)value->text.ptr[i]);
        }
        break;
    }
}

static void csv_begin(struct output *out)
{
    for (size_t c = 0; c < out->column_count; c++) {
        ks_text_append(&out->text, ",", c > 0);
        csv_text(&out->text, ks_str_from(ks_query_column_name(out->query, c)));
    }
    ks_text_append(&out->text, "\n", 1);
}

static enum ks_status csv_row(struct output *out, struct ks_err *err)
{
    for (size_t c = 0; c < out->column_count; c++) {
        struct ks_sql_value value;
        KS_TRY(ks_query_value(out->query, c, &value, err));
        ks_text_append(&out->text, ",", c > 0);
        csv_value(&out->text, &value);
    }
    ks_text_append(&out->text, "\n", 1);
    return KS_OK;
}

/* ------------------------------------------------------------------ any format */

static enum ks_status begin(struct output *out, struct ks_err *err)
{
    switch (out->style->format) {
    case KS_QUERY_JSON: json_begin(out); break;
    case KS_QUERY_CSV: csv_begin(out); break;
    case KS_QUERY_TABLE: return ks_query_table_init(&out->table, out->query, out->style, err);
    }
    return KS_OK;
}

static enum ks_status write_row(struct output *out, struct ks_err *err)
{
    enum ks_status status = KS_OK;
    switch (out->style->format) {
    case KS_QUERY_JSON: return json_row(out, err);
    case KS_QUERY_CSV: status = csv_row(out, err); break;
    case KS_QUERY_TABLE: status = ks_query_table_row(&out->table, &out->text, err); break;
    }
    bool is_full = out->text.len >= FLUSH_BYTES || out->text.failed;
    return status == KS_OK && is_full ? hand_on(out, err) : status;
}

static enum ks_status end(struct output *out, const struct ks_query_result *result,
                          const struct ks_err *failure, struct ks_err *err)
{
    if (out->style->format == KS_QUERY_JSON) {
        return json_end(out, result, failure, err);
    }
    if (out->style->format == KS_QUERY_TABLE) {
        KS_TRY(ks_query_table_finish(&out->table, &out->text, err));
        if (result->is_cut) {
            ks_ink(&out->text, out->style->colour, KS_INK_FAINT);
            ks_text_printf(&out->text, "%" PRIu64 " rows; there are more than --limit allows",
                           result->row_count);
            ks_ink(&out->text, out->style->colour, KS_INK_END);
            ks_text_append(&out->text, "\n", 1);
        }
    }
    return hand_on(out, err);
}

/* Are there more rows than the limit? Not to know is to say yes. */
static bool has_more(struct ks_query *query)
{
    struct ks_err ignored = {0};
    return ks_query_step(query, &ignored) != KS_END;
}

static enum ks_status write_all(struct output *out, struct ks_query_result *result,
                                struct ks_err *err)
{
    uint64_t limit = out->style->row_limit;
    enum ks_status status = KS_OK;
    while (status == KS_OK) {
        status = write_row(out, err);
        result->row_count += status == KS_OK;
        if (status == KS_OK && limit > 0 && result->row_count == limit) {
            result->is_cut = has_more(out->query);
            return KS_OK;
        }
        status = status == KS_OK ? ks_query_step(out->query, err) : status;
    }
    return status == KS_END ? KS_OK : status;
}

enum ks_status ks_query_write_rows(struct ks_query *query, const struct ks_query_style *style,
                                   ks_write_cb write, void *user, struct ks_query_result *result,
                                   struct ks_err *err)
{
    struct output out = {.query = query,
                         .style = style,
                         .write = write,
                         .user = user,
                         .column_count = ks_query_column_count(query)};
    *result = (struct ks_query_result){0};
    enum ks_status status = ks_query_step(query, err);
    if (status != KS_OK && status != KS_END) {
        return status;
    }
    bool has_row = status == KS_OK;
    ks_text_init(&out.text);
    status = begin(&out, err);
    if (status == KS_OK) {
        struct ks_err failure = {.offset = KS_NO_OFFSET};
        status = has_row ? write_all(&out, result, &failure) : KS_OK;
        bool has_failed = status != KS_OK;
        enum ks_status ended = end(&out, result, has_failed ? &failure : NULL, err);
        result->has_output = ended == KS_OK;
        if (has_failed && err) {
            *err = failure;
        }
        status = has_failed ? status : ended;
    }
    ks_query_table_release(&out.table);
    ks_text_release(&out.text);
    return status;
}

/* ------------------------------------------------------------------ schema */

static void append_table(const struct ks_query *query, size_t index,
                         const struct ks_query_table *table, struct ks_text *out)
{
    static const char *const words[] = {
        [KS_SQL_INTEGER] = "INTEGER", [KS_SQL_REAL] = "REAL", [KS_SQL_TEXT] = "TEXT"};
    ks_text_printf(out, "%s### %s\n\n%s.\n\n| column | type | what it is |\n|---|---|---|\n",
                   index > 0 ? "\n" : "", table->name, table->meaning);
    for (size_t c = 0; c < table->column_count; c++) {
        const struct ks_sql_column *column = ks_query_table_column(query, index, c);
        ks_text_printf(out, "| %s | %s | %s |\n", column->name, words[column->type],
                       column->meaning);
    }
}

enum ks_status ks_query_write_schema(const struct ks_query *query, ks_write_cb write, void *user,
                                     struct ks_err *err)
{
    struct output out = {.write = write, .user = user};
    struct ks_query_table table;
    ks_text_init(&out.text);
    for (size_t i = 0; ks_query_table_at(query, i, &table); i++) {
        append_table(query, i, &table, &out.text);
    }
    enum ks_status status = hand_on(&out, err);
    ks_text_release(&out.text);
    return status;
}
