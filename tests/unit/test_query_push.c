/* Goal: conditions that are pushed down leave no row out, and spare reading the others. Method:
 * random conditions over random traces, compared with a loop over all rows in C; and the number of
 * rows that were looked at, for conditions whose answer is known. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmocka_all.h"
#include "numbers.h"
#include "query_fixture.h"
#include "store_fixture.h"

enum { ROWS = 1200, ROUNDS = 600, CONDITIONS_MAX = 4, CLAUSE_SIZE = 800 };

static struct ks_trace *trace;

/* ------------------------------------------------------------------ a row by hand */

/* Columns that conditions may name. -1 and 0 stand for NULL as in the store. */
enum subject { TIME, TRACK, NAME, NAME_ID, CATEGORY, CORRELATION, EXTERNAL, ROW_ID, SUBJECTS };

static const char *const subject_names[] = {"ts_ns",    "track_id",    "name",        "name_id",
                                            "category", "correlation", "external_id", "id"};

struct row {
    int64_t values[SUBJECTS]; /* names and categories by their number */
};

static struct row *rows;
static size_t row_count;

static void add_row(const struct row *row)
{
    rows = realloc(rows, (row_count + 1) * sizeof(*rows));
    assert_non_null(rows);
    rows[row_count] = *row;
    rows[row_count].values[ROW_ID] = (int64_t)row_count;
    row_count++;
}

#define LOAD(table)                                                                                \
    static void load_##table(void)                                                                 \
    {                                                                                              \
        struct ks_##table##_scan scan;                                                             \
        ks_##table##_scan_open(&scan, trace, KS_ALL_COLUMNS, 0,                                    \
                               ks_trace_rows(trace, KS_TABLE_##table));                            \
        row_count = 0;                                                                             \
        while (ks_##table##_scan_next(&scan, NULL) == KS_OK) {                                     \
            for (size_t i = 0; i < scan.count; i++) {                                              \
                struct row row = {{scan.col.start_ns[i], scan.col.lane[i], scan.col.name[i],       \
                                   scan.col.name[i], scan.col.category[i], scan.col.corr[i],       \
                                   scan.col.ext_id[i], 0}};                                        \
                add_row(&row);                                                                     \
            }                                                                                      \
        }                                                                                          \
        ks_##table##_scan_close(&scan);                                                            \
    }

LOAD(slice)
LOAD(gpu)

/* ------------------------------------------------------------------ random conditions */

enum sign { EQUAL, ABOVE, AT_LEAST, BELOW, AT_MOST, SIGNS };

static const char *const sign_texts[] = {"=", ">", ">=", "<", "<="};

/* `subject sign value`; the value is a double when `is_real`, never true when `is_null`. */
struct condition {
    enum subject subject;
    enum sign sign;
    int64_t value;
    double real;
    bool is_real;
    bool is_null;
};

static bool is_unknown(const struct condition *condition, int64_t value)
{
    switch (condition->subject) {
    case TRACK:
    case NAME:
    case NAME_ID:
    case CATEGORY: return value == 0;
    case CORRELATION:
    case EXTERNAL: return value == -1;
    default: return false;
    }
}

static int compare(const struct condition *condition, int64_t value)
{
    if (condition->is_real) {
        /* long double holds every int64. */
        long double left = (long double)value;
        long double right = (long double)condition->real;
        return (left > right) - (left < right);
    }
    return (value > condition->value) - (value < condition->value);
}

static bool holds(const struct condition *condition, const struct row *row)
{
    int64_t value = row->values[condition->subject];
    if (condition->is_null || is_unknown(condition, value)) {
        return false;
    }
    int order = compare(condition, value);
    switch (condition->sign) {
    case EQUAL: return order == 0;
    case ABOVE: return order > 0;
    case AT_LEAST: return order >= 0;
    case BELOW: return order < 0;
    default: return order <= 0;
    }
}

static void make_value(struct numbers *numbers, struct condition *condition)
{
    static const int64_t ends[] = {INT64_MIN, INT64_MAX, INT64_MIN + 1, INT64_MAX - 1, 0, -1};
    static const double reals[] = {1e300, -1e300, 9223372036854775807.0, -9223372036854775808.0,
                                   0.5};
    const struct row *row = &rows[numbers_below(numbers, row_count)];
    condition->value = row->values[condition->subject];
    switch (numbers_below(numbers, 12)) {
    case 0: condition->is_null = true; break;
    case 1: condition->value = ends[numbers_below(numbers, KS_COUNT_OF(ends))]; break;
    case 2:
    case 3:
        condition->is_real = true;
        condition->real = (double)condition->value + 0.5 * (double)numbers_below(numbers, 3);
        break;
    case 4:
        condition->is_real = true;
        condition->real = reals[numbers_below(numbers, KS_COUNT_OF(reals))];
        break;
    case 5: condition->value += (int64_t)numbers_below(numbers, 3) - 1; break;
    default: break;
    }
}

static struct condition make_condition(struct numbers *numbers)
{
    struct condition condition = {
        .subject = (enum subject)numbers_below(numbers, SUBJECTS),
        .sign = (enum sign)numbers_below(numbers, SIGNS),
    };
    if (numbers_below(numbers, 3) == 0) {
        condition.subject = TIME; // the one with ranges
    }
    if (condition.subject != TIME && numbers_below(numbers, 4) > 0) {
        condition.sign = EQUAL;
    }
    make_value(numbers, &condition);
    bool is_text = condition.subject == NAME || condition.subject == CATEGORY;
    if (is_text) { /* words that exist, by equality: the order of texts is not that of ids */
        condition.is_real = false;
        condition.sign = EQUAL;
        condition.value = rows[numbers_below(numbers, row_count)].values[condition.subject];
    }
    return condition;
}

static void append_condition(struct ks_text *sql, const struct condition *condition, bool is_text)
{
    ks_text_printf(sql, "%s %s ", subject_names[condition->subject], sign_texts[condition->sign]);
    if (condition->is_null) {
        ks_text_append_str(sql, KS_STR("null"));
    } else if (condition->subject == NAME) {
        struct ks_str name = ks_trace_str(trace, (struct ks_strid){(uint32_t)condition->value});
        ks_text_printf(sql, "'%.*s'", (int)name.len, name.ptr);
    } else if (condition->subject == CATEGORY) {
        ks_text_printf(sql, "'%s'", ks_category_name((enum ks_category)condition->value));
    } else if (condition->is_real) {
        ks_text_printf(
            sql, "%.17g%s", condition->real,
            fabs(condition->real) < 1e15 && floor(condition->real) == condition->real ? ".0" : "");
    } else if (condition->value == INT64_MIN) {
        ks_text_append_str(sql, KS_STR("(-9223372036854775807 - 1)"));
    } else {
        /* Text that is a number compares as the number. */
        const char *quote = is_text ? "'" : "";
        ks_text_printf(sql, "%s%" PRId64 "%s", quote, condition->value, quote);
    }
}

static void check_random(const char *table, uint64_t seed)
{
    struct numbers numbers = {seed};
    struct condition conditions[CONDITIONS_MAX];
    size_t count = 1 + numbers_below(&numbers, CONDITIONS_MAX);
    struct ks_text sql;
    struct ks_text expected;
    ks_text_init(&sql);
    ks_text_init(&expected);
    ks_text_printf(&sql, "select id from %s where ", table);
    for (size_t i = 0; i < count; i++) {
        conditions[i] = make_condition(&numbers);
        ks_text_append_str(&sql, i > 0 ? KS_STR(" and ") : KS_STR(""));
        append_condition(&sql, &conditions[i], numbers_below(&numbers, 8) == 0);
    }
    /* In half of the cases the order is asked for, and must not need sorting to be right. */
    ks_text_append_str(&sql, numbers_below(&numbers, 2) ? KS_STR(" order by track_id, ts_ns")
                                                        : KS_STR(""));
    ks_text_append(&sql, "", 1);
    for (size_t r = 0; r < row_count; r++) {
        bool fits = true;
        for (size_t i = 0; i < count; i++) {
            fits = fits && holds(&conditions[i], &rows[r]);
        }
        if (fits) {
            ks_text_printf(&expected, "%zu\n", r);
        }
    }
    ks_text_append(&expected, "", 1);
    struct query_answer answer;
    query_ask(trace, NULL, sql.ptr, &answer);
    if (answer.status != KS_OK || strcmp(answer.rows.ptr, expected.ptr) != 0) {
        fail_msg("seed %" PRIu64 ": %s: %s: got\n%swant\n%s", seed, sql.ptr, answer.err.message,
                 answer.rows.ptr, expected.ptr);
    }
    query_answer_release(&answer);
    ks_text_release(&sql);
    ks_text_release(&expected);
}

static void test_random_conditions(void **state)
{
    (void)state;
    load_slice();
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        check_random("slice", seed);
    }
    load_gpu();
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        check_random("gpu", seed + ROUNDS);
    }
}

/* ------------------------------------------------------------------ joins */

/* Both sides by an index, and by looking at all pairs ("+" keeps a column from being pushed). */
static void test_joins(void **state)
{
    (void)state;
    static const char *const columns[] = {"correlation", "external_id", "ts_ns", "name_id"};
    for (size_t i = 0; i < KS_COUNT_OF(columns); i++) {
        char fast[CLAUSE_SIZE];
        char slow[CLAUSE_SIZE];
        static const char *const format =
            "select count(*), sum(l.id * 31 + g.id) from link l join gpu g on %sg.%s = %sl.%s "
            "where l.id < 300";
        snprintf(fast, sizeof(fast), format, "", columns[i], "", columns[i]);
        snprintf(slow, sizeof(slow), format, "+", columns[i], "+", columns[i]);
        struct query_answer answer;
        query_ask(trace, NULL, slow, &answer);
        assert_int_equal(answer.status, KS_OK);
        query_expect(trace, fast, answer.rows.ptr);
        query_answer_release(&answer);
    }
}

static void test_joins_by_correlation_use_an_index(void **state)
{
    (void)state;
    uint64_t links = ks_trace_rows(trace, KS_TABLE_link);
    uint64_t gpus = ks_trace_rows(trace, KS_TABLE_gpu);
    struct query_answer answer;
    query_ask(trace, NULL,
              "select l.id, g.id from link l cross join gpu g on g.correlation = l.correlation",
              &answer);
    assert_int_equal(answer.status, KS_OK);
    /* Two looks through the column, one for the index, then rows that fit. */
    assert_true(answer.visited <= links + 3 * gpus + answer.row_count);
    assert_true(answer.row_count > 100);
    query_answer_release(&answer);

    /* No room for an index: the same rows by looking through the column each time. */
    struct ks_query_limits limits = {.bytes_max = 4 << 20};
    struct query_answer cramped;
    query_ask(trace, &limits,
              "select count(*) from link l cross join gpu g on g.correlation = l.correlation "
              "where l.id < 50",
              &cramped);
    assert_int_equal(cramped.status, KS_OK);
    query_answer_release(&cramped);
}

/* ------------------------------------------------------------------ what is looked at */

static void test_a_time_range_of_a_track_looks_at_its_rows_only(void **state)
{
    (void)state;
    size_t count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(trace, KS_TABLE_slice, &count);
    assert_true(count > 4);
    const struct ks_lane *lane = &lanes[2];
    load_slice();
    size_t middle = (size_t)(lane->row_begin + (lane->row_end - lane->row_begin) / 2);
    int64_t first_ns = rows[middle].values[TIME];
    int64_t last_ns = rows[middle + 20].values[TIME];
    uint64_t inside = 0;
    for (uint64_t r = lane->row_begin; r < lane->row_end; r++) {
        inside += rows[r].values[TIME] >= first_ns && rows[r].values[TIME] <= last_ns;
    }
    char sql[CLAUSE_SIZE];
    snprintf(sql, sizeof(sql),
             "select * from slice where track_id = %u and ts_ns between %" PRId64 " and %" PRId64,
             lane->track, first_ns, last_ns);
    assert_true(inside >= 21 && inside < row_count / 20);
    assert_int_equal(query_visited(trace, sql), inside);
}

static void check_visited(const char *sql, uint64_t expected)
{
    uint64_t visited = query_visited(trace, sql);
    if (visited != expected) {
        fail_msg("%s: looked at %" PRIu64 " rows, want %" PRIu64, sql, visited, expected);
    }
}

static void test_rows_looked_at(void **state)
{
    (void)state;
    uint64_t all = ks_trace_rows(trace, KS_TABLE_slice);
    size_t count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(trace, KS_TABLE_slice, &count);
    char sql[CLAUSE_SIZE];
    check_visited("select count(*) from slice", all);
    check_visited("select count(*) from slice where id = 17", 1);
    check_visited("select count(*) from slice where rowid = 17", 1);
    check_visited("select count(*) from slice where id = 1e18", 0);
    check_visited("select count(*) from slice where id = -1", 0);
    check_visited("select count(*) from slice where name = 'no such name'", 0);
    check_visited("select count(*) from slice where name = 'aten::mm'", all);
    check_visited("select count(*) from slice where category = 'no such category'", 0);
    check_visited("select count(*) from slice where ts_ns > 9e18", 0);
    check_visited("select count(*) from slice where ts_ns > 5 and ts_ns < 5", 0);
    check_visited("select count(*) from slice where ts_ns = 0.5", 0);
    check_visited("select count(*) from slice where ts_ns > null", 0);
    check_visited("select count(*) from slice where track_id = 99999", 0);
    check_visited("select count(*) from slice where track_id is null", all);
    check_visited("select count(*) from slice where +track_id = 99999", all);
    snprintf(sql, sizeof(sql), "select count(*) from slice where track_id in (%u, %u)",
             lanes[0].track, lanes[1].track);
    check_visited(sql, lanes[1].row_end);
    /* Stops with the first row: order by the start of one track needs no sorting. */
    snprintf(sql, sizeof(sql), "select id from slice where track_id = %u order by ts_ns limit 1",
             lanes[1].track);
    check_visited(sql, 1);
    check_visited("select id from slice order by track_id, ts_ns limit 3", 3);
    check_visited("select id from slice order by id limit 3", 3);
    snprintf(sql, sizeof(sql),
             "select id from slice where track_id = %u order by ts_ns desc limit 1",
             lanes[1].track);
    check_visited(sql, lanes[1].row_end - lanes[1].row_begin);
}

static void check_ascending(const char *sql)
{
    struct query_answer answer;
    query_ask(trace, NULL, sql, &answer);
    assert_int_equal(answer.status, KS_OK);
    assert_true(answer.row_count > 50);
    int64_t last = INT64_MIN;
    for (char *at = answer.rows.ptr; *at; at = strchr(at, '\n') + 1) {
        int64_t value = strtoll(at, NULL, 10);
        assert_true(value >= last);
        last = value;
    }
    query_answer_release(&answer);
}

/* Rows lie in the order of tracks first: over all tracks times must be sorted. */
static void test_order(void **state)
{
    (void)state;
    check_ascending("select ts_ns from slice order by ts_ns");
    check_ascending("select -ts_ns from slice order by ts_ns desc");
    check_ascending("select track_id from slice order by track_id");
    check_ascending("select ts_ns from slice where track_id in (1, 2, 3, 4, 5) order by ts_ns");
    check_ascending("select id from slice where track_id in (4, 2, 3) order by track_id, ts_ns");
    check_ascending("select ts_ns * 1000 + track_id from slice order by ts_ns, track_id");
    check_ascending("select id from slice where ts_ns > 100 order by id");
}

static void test_the_plan_can_be_seen(void **state)
{
    (void)state;
    struct query_answer answer;
    query_ask(trace, NULL,
              "explain query plan select name from gpu where track_id = 3 and ts_ns >= 10 and "
              "ts_ns < 20 and name = 'x' and category = 'kernel' and name like 'a%'",
              &answer);
    assert_int_equal(answer.status, KS_OK);
    assert_non_null(strstr(answer.rows.ptr, "track_id=? ts_ns>=? ts_ns<? name=? category=?"));
    query_answer_release(&answer);
    /* Equality that is not by bytes must be left to SQLite. */
    query_ask(trace, NULL,
              "explain query plan select 1 from gpu where name = 'ATEN::MM' collate nocase",
              &answer);
    assert_null(strstr(answer.rows.ptr, "name=?"));
    query_answer_release(&answer);
}

static void test_collation(void **state)
{
    (void)state;
    struct query_answer answer;
    query_ask(trace, NULL, "select count(*) from slice where name = 'aten::mm'", &answer);
    assert_int_not_equal(atoi(answer.rows.ptr), 0);
    query_expect(trace, "select count(*) from slice where name = 'ATEN::MM' collate nocase",
                 answer.rows.ptr);
    query_answer_release(&answer);
    query_expect(trace, "select count(*) from slice where name = 'ATEN::MM'", "0\n");
}

/* ------------------------------------------------------------------ main */

static int make_trace(uint32_t chunk_rows, uint64_t chunk_bytes_max)
{
    static struct fixture fixture;
    struct ks_trace_options options = {.chunk_rows = chunk_rows,
                                       .chunk_bytes_max = chunk_bytes_max};
    fixture_init(&fixture, 7, ROWS);
    enum ks_status status = fixture_build(&fixture, &options, 0, &trace, NULL);
    fixture_release(&fixture);
    return status != KS_OK;
}

static int make_whole(void **state)
{
    (void)state;
    return make_trace(0, 0);
}

/* Chunks so small that every range crosses some, most of them in a file. */
static int make_cut(void **state)
{
    (void)state;
    return make_trace(64, 256 * 1024);
}

static int drop(void **state)
{
    (void)state;
    ks_trace_destroy(trace);
    free(rows);
    rows = NULL;
    row_count = 0;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_conditions),
        cmocka_unit_test(test_joins),
        cmocka_unit_test(test_joins_by_correlation_use_an_index),
        cmocka_unit_test(test_a_time_range_of_a_track_looks_at_its_rows_only),
        cmocka_unit_test(test_rows_looked_at),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_the_plan_can_be_seen),
        cmocka_unit_test(test_collation),
    };
    int failed = cmocka_run_group_tests(tests, make_whole, drop);
    return failed + cmocka_run_group_tests(tests, make_cut, drop);
}
