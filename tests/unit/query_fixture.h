/* A query over a trace, as tests ask it: rows as lines of text, failures as a status. */
#ifndef KS_TESTS_QUERY_FIXTURE_H
#define KS_TESTS_QUERY_FIXTURE_H

#include "query/query.h"

struct query_answer {
    enum ks_status status; /* KS_OK: all rows came */
    struct ks_err err;
    struct ks_text rows; /* a line a row, cells with '|' between; NULL is "null", blobs x'..' */
    size_t row_count;
    uint64_t visited; /* rows of events that were looked at */
};

/* Runs the statement to its end. */
void query_ask(const struct ks_trace *trace, const struct ks_query_limits *limits, const char *sql,
               struct query_answer *out);
void query_answer_release(struct query_answer *answer);

/* The rows are exactly these lines. */
void query_expect(const struct ks_trace *trace, const char *sql, const char *rows);
/* It fails like this, with these words in the message. */
void query_expect_failure(const struct ks_trace *trace, const char *sql, enum ks_status status,
                          const char *words);
/* Rows of events that it looks at. */
uint64_t query_visited(const struct ks_trace *trace, const char *sql);

#endif
