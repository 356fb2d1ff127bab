/* Goal: whichever allocation fails in a query, SQLite's own included, the answer is KS_ERR_NOMEM or
 * the right rows, and nothing is left behind. Method: SQLite gets its memory through base/alloc.h;
 * the allocations of a good run are counted, for some statements and all formats, and each of them
 * fails once, or from then on. Opening takes thousands, the same for all statements: they fail for
 * the first one only. */
#include <kscope/kscope.h>

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cmocka_all.h"
#include "report_view.h"
#include "sqlite_memory.h"

static const char trace_text[] =
    "{\"traceEvents\": ["
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":1,"
    "\"ts\":10,\"dur\":90},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
    "\"ts\":30,\"dur\":5,\"args\":{\"correlation\":7,\"External id\":1}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
    "\"ts\":36,\"dur\":5,\"args\":{\"correlation\":8,\"External id\":1}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaDeviceSynchronize\",\"pid\":1,\"tid\":1,"
    "\"ts\":44,\"dur\":35,\"args\":{\"correlation\":9,\"External id\":1}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ge\\u0007mm\",\"pid\":0,\"tid\":7,\"ts\":40,"
    "\"dur\":30,"
    "\"args\":{\"device\":0,\"stream\":7,\"correlation\":7,\"External id\":1}}]}";

static char trace_path[] = "/tmp/kscope-torture-query-XXXXXX";
static struct ks_report *report;

/* ------------------------------------------------------------------ the queries */

static const char *const statements[] = {
    "select * from slice order by dur_ns desc",
    "select s.name, g.name, t.text from gpu g join slice s on s.correlation = g.correlation "
    "join string t on t.id = g.name_id where g.ts_ns > 1 and g.name = 'ge' || char(7) || 'mm'",
    "select l.id, s.id, g.id from link l, slice s, gpu g where s.correlation = l.correlation and "
    "g.correlation = l.correlation",
    "select name, more from fact_inputs, fact_steps",
    "select json_extract(more, '$.where.device'), group_concat(call) from fact_syncs group by 1",
    "select name from pragma_table_info('slice')",
};

static bool keep(void *user, const char *bytes, size_t size)
{
    struct ks_text *text = user;
    ks_text_append(text, bytes, size);
    return !text->failed;
}

/* `out` has room for what is written, so that the test itself takes no memory. */
static enum ks_status ask(const char *sql, enum ks_query_format format, struct ks_text *out,
                          struct ks_err *err)
{
    struct ks_query_options options = {
        .sql = sql, .sql_size = strlen(sql), .style = {.format = format}};
    struct ks_query_result result;
    ks_text_reset(out);
    return ks_query_write(report, &options, keep, out, &result, err);
}

static int64_t opening_calls(void)
{
    struct ks_query_options options = {.sql = "", .style = {.format = KS_QUERY_JSON}};
    ks_alloc_fail_at(0, false);
    assert_int_equal(ks_query_check(&options, NULL), KS_ERR_USAGE);
    return ks_alloc_calls();
}

static void fail_each(const char *sql, enum ks_query_format format, int64_t from, bool for_ever)
{
    struct ks_text good;
    struct ks_text out;
    struct ks_err err = {0};
    ks_text_init(&good);
    ks_text_init(&out);
    assert_int_equal(ask(sql, format, &good, &err), KS_OK);
    assert_int_equal(ask(sql, format, &out, &err), KS_OK);
    ks_alloc_fail_at(0, false);
    assert_int_equal(ask(sql, format, &out, &err), KS_OK);
    int64_t calls = ks_alloc_calls();
    int64_t live = ks_alloc_live();
    int64_t failures = 0;
    assert_true(calls > from + 20);
    for (int64_t at = from; at <= calls; at++) {
        err = (struct ks_err){0};
        ks_alloc_fail_at(at, for_ever);
        enum ks_status status = ask(sql, format, &out, &err);
        ks_alloc_fail_at(0, false);
        if (status == KS_OK) { /* SQLite can do without some of its caches */
            assert_int_equal(out.len, good.len);
            assert_memory_equal(out.ptr, good.ptr, good.len);
        } else {
            failures++;
            if (status != KS_ERR_NOMEM) {
                fail_msg("allocation %d of %s: status %d, %s", (int)at, sql, (int)status,
                         err.message);
            }
            assert_int_equal(status, KS_ERR_NOMEM);
            assert_int_equal(err.status, KS_ERR_NOMEM);
            assert_non_null(strstr(err.message, "Cannot "));
        }
        assert_int_equal(ks_alloc_live(), live);
    }
    assert_true(failures > (calls - from) / 2);
    ks_text_release(&good);
    ks_text_release(&out);
}

static void test_allocations(void **state)
{
    (void)state;
    for (size_t i = 0; i < KS_COUNT_OF(statements); i++) {
        enum ks_query_format format = (enum ks_query_format)(i % 3);
        int64_t from = i == 0 ? 1 : opening_calls();
        fail_each(statements[i], format, from, false);
        fail_each(statements[i], format, from, true);
    }
}

/* ------------------------------------------------------------------ rules of users */

static char rule_path[] = "/tmp/kscope-torture-rule-XXXXXX.sql";
static const char rule_text[] =
    "-- id: team.rule\n-- title: A title\n-- fix: {name} takes {dur_ns}\n-- code: x = {n}\n"
    "select name, 'train.py' as file, 3 as line, dur_ns, 1 as n, 10 as saving_low_ns, "
    "20 as saving_high_ns from slice where dur_ns > 10 order by dur_ns desc";

/* Loads the rule and runs it; the findings go again. */
static enum ks_status judge(size_t *found, struct ks_err *err)
{
    struct ks_rules_options options = {.path = rule_path, .bytes_max = UINT64_MAX / 2};
    struct ks_rules *rules = NULL;
    enum ks_status status = ks_rules_open(&options, &rules, err);
    if (status == KS_OK) {
        status = ks_report_add_rules(report, rules, NULL, err);
        *found = ks_report_finding_count(report);
    }
    ks_report_show_findings(report, NULL);
    ks_rules_close(rules);
    return status;
}

/* Opening SQLite, which happens twice, takes most of the allocations: one in so many fails. */
static void test_rules(void **state)
{
    (void)state;
    enum { STRIDE = 7 };
    struct ks_err err = {0};
    size_t good = 0;
    assert_int_equal(judge(&good, &err), KS_OK);
    assert_true(good >= 2);
    ks_alloc_fail_at(0, false);
    assert_int_equal(judge(&good, &err), KS_OK);
    int64_t calls = ks_alloc_calls();
    int64_t live = ks_alloc_live();
    int64_t failures = 0;
    for (int64_t at = 1; at <= calls; at += STRIDE) {
        size_t found = 0;
        err = (struct ks_err){0};
        ks_alloc_fail_at(at, at % 2);
        enum ks_status status = judge(&found, &err);
        ks_alloc_fail_at(0, false);
        failures += status != KS_OK;
        if (status != KS_OK && status != KS_ERR_NOMEM && status != KS_ERR_LIMIT) {
            fail_msg("allocation %d: status %d, %s", (int)at, (int)status, err.message);
        }
        assert_int_equal(ks_alloc_live(), live);
    }
    assert_true(failures > calls / STRIDE / 2);
}

static int make_rule(void)
{
    int fd = mkstemps(rule_path, 4);
    ssize_t size = write(fd, rule_text, sizeof(rule_text) - 1);
    return close(fd) == 0 && size == (ssize_t)sizeof(rule_text) - 1 ? 0 : -1;
}

static int set_up(void **state)
{
    (void)state;
    const char *path = trace_path;
    struct ks_report_options options = {.paths = &path, .path_count = 1, .chunk_rows = 16};
    int fd = mkstemp(trace_path);
    ssize_t size = write(fd, trace_text, sizeof(trace_text) - 1);
    if (close(fd) != 0 || size != (ssize_t)sizeof(trace_text) - 1 ||
        sqlite3_config(SQLITE_CONFIG_MALLOC, &ks_sqlite_memory) != SQLITE_OK || make_rule() != 0) {
        return -1;
    }
    return ks_report_open(&options, &report, NULL) != KS_OK;
}

static int tear_down(void **state)
{
    (void)state;
    ks_report_close(report);
    return unlink(trace_path) | unlink(rule_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules),
                                       cmocka_unit_test(test_allocations)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
