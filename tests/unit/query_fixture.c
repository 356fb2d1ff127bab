#include "query_fixture.h"

#include <inttypes.h>

#include "cmocka_all.h"

static void append_value(struct ks_text *text, const struct ks_sql_value *value)
{
    switch (value->type) {
    case KS_SQL_NULL: ks_text_append_str(text, KS_STR("null")); break;
    case KS_SQL_INTEGER: ks_text_printf(text, "%" PRId64, value->integer); break;
    case KS_SQL_REAL: ks_text_printf(text, "%.15g", value->real); break;
    case KS_SQL_TEXT: ks_text_append_str(text, value->text); break;
    case KS_SQL_BLOB:
        ks_text_append_str(text, KS_STR("x'"));
        for (size_t i = 0; i < value->text.len; i++) {
            ks_text_printf(text, "%02x", (unsigned char)value->text.ptr[i]);
        }
        ks_text_append_str(text, KS_STR("'"));
        break;
    }
}

static enum ks_status read_rows(struct ks_query *query, struct query_answer *out)
{
    enum ks_status status;
    while ((status = ks_query_step(query, &out->err)) == KS_OK) {
        for (size_t c = 0; c < ks_query_column_count(query) && status == KS_OK; c++) {
            struct ks_sql_value value;
            status = ks_query_value(query, c, &value, &out->err);
            ks_text_append(&out->rows, "|", c > 0);
            append_value(&out->rows, &value);
        }
        if (status != KS_OK) {
            return status;
        }
        ks_text_append(&out->rows, "\n", 1);
        out->row_count++;
    }
    return status == KS_END ? KS_OK : status;
}

void query_ask(const struct ks_trace *trace, const struct ks_query_limits *limits, const char *sql,
               struct query_answer *out)
{
    static const struct ks_query_limits none = {0};
    struct ks_query *query = NULL;
    *out = (struct query_answer){0};
    ks_text_init(&out->rows);
    out->status = ks_query_open(trace, NULL, 0, limits ? limits : &none, &query, &out->err);
    if (out->status == KS_OK) {
        out->status = ks_query_prepare(query, ks_str_from(sql), &out->err);
    }
    if (out->status == KS_OK) {
        out->status = read_rows(query, out);
        out->visited = ks_query_rows_visited(query);
    }
    ks_query_close(query);
    ks_text_append(&out->rows, "", 1); // a NUL, for comparing
    assert_false(out->rows.failed);
}

void query_answer_release(struct query_answer *answer)
{
    ks_text_release(&answer->rows);
}

void query_expect(const struct ks_trace *trace, const char *sql, const char *rows)
{
    struct query_answer answer;
    query_ask(trace, NULL, sql, &answer);
    if (answer.status != KS_OK) {
        fail_msg("%s: %s", sql, answer.err.message);
    }
    assert_string_equal(answer.rows.ptr, rows);
    query_answer_release(&answer);
}

void query_expect_failure(const struct ks_trace *trace, const char *sql, enum ks_status status,
                          const char *words)
{
    struct query_answer answer;
    query_ask(trace, NULL, sql, &answer);
    if (answer.status != status || !strstr(answer.err.message, words)) {
        fail_msg("%s: status %d, %s", sql, (int)answer.status, answer.err.message);
    }
    query_answer_release(&answer);
}

uint64_t query_visited(const struct ks_trace *trace, const char *sql)
{
    struct query_answer answer;
    query_ask(trace, NULL, sql, &answer);
    assert_int_equal(answer.status, KS_OK);
    query_answer_release(&answer);
    return answer.visited;
}
