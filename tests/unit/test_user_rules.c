/* Goal: a rule of a user is read as written, what is wrong with it is said with file and line,
 * its rows become findings as ours, and what a trace does to it is no failure. Method: heads by
 * hand, and statements over a trace of three steps of 1000 ns. */
#include "rules/user_rule.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

#define HEAD "-- id: team.rule\n-- title: A title\n-- fix: Do it\n"
#define RISK HEAD "-- impact: risk\n"

static struct ks_arena arena;
static struct ks_user_rule rule;

/* ------------------------------------------------------------------ loading */

static enum ks_status load(const char *text, struct ks_err *err)
{
    struct ks_query_limits limits = {0};
    struct ks_query *query = NULL;
    *err = (struct ks_err){0};
    KS_TRY(ks_user_rule_parse(&rule, "a.sql", ks_str_from(text), &arena, err));
    assert_int_equal(ks_query_open(NULL, NULL, 0, &limits, &query, err), KS_OK);
    enum ks_status status = ks_user_rule_bind(&rule, query, &arena, err);
    ks_query_close(query);
    return status;
}

static void check_good(const char *text)
{
    struct ks_err err;
    if (load(text, &err) != KS_OK) {
        fail_msg("%s\n%s", text, err.message);
    }
}

static void check_bad(const char *text, const char *words)
{
    struct ks_err err;
    assert_int_equal(load(text, &err), KS_ERR_USAGE);
    if (!strstr(err.message, words)) {
        fail_msg("%s\nsays %s, not %s", text, err.message, words);
    }
    assert_true(strncmp(err.message, "Cannot use rule: a.sql", 22) == 0);
}

static void test_heads(void **state)
{
    (void)state;
    check_good(RISK "select 1 as n");
    assert_string_equal(rule.rule.id, "team.rule");
    assert_string_equal(rule.rule.title, "A title");
    assert_int_equal(rule.rule.impact, KS_IMPACT_RISK);
    assert_false(rule.rule.has_severity);
    assert_int_equal(rule.sql_line, 5);
    check_good("\xEF\xBB\xBF" RISK "select 1 as n"); // a mark of an editor
    check_good("\n-- a remark: it has a colon\n" RISK
               "-- severity: high\n\nselect 1 as n;\n-- end\n");
    assert_true(rule.rule.has_severity);
    assert_int_equal(rule.rule.severity, KS_FINDING_HIGH);
    check_good("-- id: a.b\r\n-- title: t\r\n-- impact: memory\r\n-- fix: one\r\n--   two  \r\n"
               "-- code: if x:\n--       y()\n--   z()\nselect 1 as n");
    assert_string_equal(rule.fix.text.ptr, "one two");
    assert_string_equal(rule.code.text.ptr, "if x:\n    y()\nz()");
}

static void test_wrong_heads(void **state)
{
    (void)state;
    check_bad("", "a.sql:1: there is no SELECT");
    check_bad(HEAD, "a.sql:3: there is no SELECT");
    check_bad("select 1", "has no line `-- id:");
    check_bad("-- id: nodot\n-- title: t\n-- fix: f\nselect 1", "a.sql:1: an id has two parts");
    check_bad("-- id: A.b\n-- title: t\n-- fix: f\nselect 1", "a.sql:1: an id has two parts");
    check_bad("-- id: 1a.b\n-- title: t\n-- fix: f\nselect 1", "a.sql:1: an id has two parts");
    check_bad("-- id: a.b.c\n-- title: t\n-- fix: f\nselect 1", "a.sql:1: an id has two parts");
    check_bad("-- id: sync.host\n-- title: t\n-- fix: f\nselect 1",
              "a.sql:1: a rule of kscope has");
    check_bad("-- id: a.b\n-- fix: f\nselect 1", "no title");
    check_bad("-- id: a.b\n-- title: t\n-- fix:\nselect 1", "a.sql:3: its head has no fix");
    check_bad(HEAD "-- titel: t\nselect 1", "a.sql:4: this key is unknown");
    check_bad(HEAD "-- title: t\nselect 1", "a.sql:4: this key comes twice");
    check_bad(HEAD "-- impact: all\nselect 1", "a.sql:4: impact must be");
    check_bad(HEAD "-- severity: huge\nselect 1", "a.sql:4: severity must be");
    check_bad(RISK "select '\xff'", "a.sql:5: this is no UTF-8");
}

static void test_statements(void **state)
{
    (void)state;
    check_bad(RISK "selekt 1", "a.sql: near \"selekt\": syntax error (line 5, column 1)");
    check_bad(RISK "select x from slice", "no such column: x (line 5, column 8)");
    check_bad(RISK "select 1 as n; select 2 as n", "more behind the first statement (line 5");
    check_bad(RISK "delete from slice", "table slice may not be modified");
    check_bad(RISK "select ? as n", "parameter");
    check_bad(HEAD "select 1 as n", "a.sql:4: a rule about time needs the columns saving_low_ns");
    check_bad(HEAD "select 1 as saving_low_ns", "needs the columns");
    check_bad(RISK "select 1 as saving_low_ns", "a.sql:5: only a rule with impact: time");
    check_bad(RISK "select 1 as line", "the column line needs the column file");
    check_bad(RISK "select 1 as n, 2 as N", "two columns are named N");
    check_bad("-- id: a.b\n-- title: t\n-- impact: risk\n-- fix: {m}\nselect 1 as n",
              "a.sql:4: the statement gives no column for {m}");
    check_bad("-- id: a.b\n-- title: t\n-- impact: risk\n-- fix: {n\nselect 1 as n",
              "a.sql:4: a brace has no partner");
    check_bad("-- id: a.b\n-- title: t\n-- impact: risk\n-- fix: n}\nselect 1 as n",
              "a.sql:4: a brace has no partner");
    check_bad(RISK "-- code: {m}\nselect 1 as n", "a.sql:5: the statement gives no column for {m}");
    check_good(HEAD "select 1 as saving_low_ns, 2 as SAVING_HIGH_NS");
    check_good("-- id: a.b\n-- title: t\n-- impact: risk\n-- fix: {n} {{m}}\nselect 1 as n");
}

/* ------------------------------------------------------------------ running */

static struct facts_fixture f;
static struct ks_findings found;
static struct ks_check checked;

static int start(void **state)
{
    (void)state;
    ks_arena_init(&arena);
    facts_fixture_init(&f, 0, 0);
    for (int64_t i = 0; i < 3; i++) {
        static const char *const names[] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"};
        FACTS_HOST(&f, {1, NOTE, names[i], 1000 * i, 1000}, {1, OP, "aten::mm", 1000 * i + 10, 200},
                   {1, OP, "aten::add", 1000 * i + 300, 100});
    }
    facts_fixture_compute(&f, NULL);
    return 0;
}

static int end(void **state)
{
    (void)state;
    facts_fixture_release(&f);
    ks_arena_release(&arena);
    return 0;
}

/* Runs the rule and settles what it finds. */
static void judge_within(const char *text, const struct ks_query_limits *limits)
{
    struct ks_query *query = NULL;
    struct ks_err err = {0};
    check_good(text);
    found = (struct ks_findings){0};
    ks_arena_init(&found.arena);
    assert_int_equal(ks_query_open(f.trace, NULL, 0, limits, &query, &err), KS_OK);
    assert_int_equal(ks_user_rule_run(&rule, query, &f.facts, &found, &checked, &err), KS_OK);
    ks_query_close(query);
    found.checks = &checked;
    found.check_count = 1;
    ks_findings_settle(&found, &f.facts);
}

static void judge(const char *text)
{
    struct ks_query_limits limits = {0};
    judge_within(text, &limits);
}

static void done(size_t count, enum ks_check_state state)
{
    assert_int_equal(found.count, count);
    assert_int_equal(checked.state, state);
    ks_findings_release(&found);
}

static void test_finding(void **state)
{
    (void)state;
    judge("-- id: team.mm\n-- title: Products\n-- severity: high\n"
          "-- fix: {op} takes {all_ns}, {of_step_share}, {n} times, {none}\n-- code: {{{op}}}\n"
          "select name as op, 50 as saving_low_ns, 99.6 as saving_high_ns, 2 as step, 1 as rank,\n"
          "  'train.py' as file, 7 as line, 4096 as bytes, count(*) as n, sum(dur_ns) as all_ns,\n"
          "  0.25 as of_step_share, null as none, 0.5 as x\n"
          "from slice where name = 'aten::mm' group by name");
    const struct ks_finding *finding = &found.list[0];
    assert_int_equal(found.count, 1);
    assert_string_equal(finding->fix_text, "aten::mm takes 600 ns, 25 %, 3 times, unknown");
    assert_string_equal(finding->fix_code, "{aten::mm}");
    assert_non_null(strstr(finding->verify, "team.mm must be gone"));
    assert_int_equal(finding->saving.low_ns, 50);
    assert_int_equal(finding->saving.high_ns, 100);
    assert_int_equal(ks_finding_severity(finding), KS_FINDING_HIGH);
    assert_int_equal(finding->where.steps[0], 2);
    assert_int_equal(finding->where.step_count, 1);
    assert_int_equal(finding->where.rank, 1);
    assert_int_equal(finding->where.device, KS_UNKNOWN);
    assert_int_equal(finding->where.line, 7);
    assert_true(ks_str_equal(finding->where.file, KS_STR("train.py")));
    assert_true(ks_str_equal(ks_trace_str(f.trace, finding->where.op), KS_STR("aten::mm")));
    assert_int_equal(finding->bytes, 4096);
    assert_int_equal(finding->evidence_count, 4);
    assert_true(facts_fixture_evidence(finding, "n") == 3);
    assert_true(facts_fixture_evidence(finding, "all_ns") == 600);
    assert_string_equal(finding->evidence[1].unit, "ns");
    assert_string_equal(finding->evidence[2].unit, "share");
    assert_string_equal(finding->evidence[3].unit, "number");
    assert_true(finding->is_primary);
    done(1, KS_CHECK_FOUND);
}

static void check_saving(const char *low, const char *high, int64_t low_ns, int64_t high_ns)
{
    char text[300];
    snprintf(text, sizeof(text), HEAD "select %s as saving_low_ns, %s as saving_high_ns", low,
             high);
    judge(text);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.list[0].saving.low_ns, low_ns);
    assert_int_equal(found.list[0].saving.high_ns, high_ns);
    assert_int_equal(found.list[0].saving_in_trace.high_ns, high_ns);
    done(1, KS_CHECK_FOUND);
}

static void test_savings(void **state)
{
    (void)state;
    check_saving("10", "20", 10, 20);
    check_saving("-5", "20", 0, 20);
    check_saving("30", "20", 20, 20);
    check_saving("0", "5000", 0, 1000); // no more than a step
    check_saving("1e300", "1e300", 1000, 1000);
    check_saving("-9223372036854775807", "9223372036854775807", 0, 1000);
    judge(HEAD "select 0 as saving_low_ns, 0 as saving_high_ns"); // saves nothing: no finding
    assert_string_equal(checked.reason,
                        "other findings already account for the time that it could save");
    done(0, KS_CHECK_FINE);
    judge(HEAD "select 0 as saving_low_ns, 1 as saving_high_ns where 0");
    assert_string_equal(checked.reason, "the statement gives no row");
    done(0, KS_CHECK_FINE);
}

static void test_unusable_rows(void **state)
{
    (void)state;
    judge(HEAD "select null as saving_low_ns, 5 as saving_high_ns union all select 'x', 5");
    assert_non_null(strstr(checked.reason, "in 2 rows"));
    done(0, KS_CHECK_COULD_NOT);
    judge(HEAD "select null as saving_low_ns, 5 as saving_high_ns union all select 1, 5");
    assert_non_null(strstr(checked.reason, "in 1 rows"));
    done(1, KS_CHECK_FOUND);
    judge(HEAD "select 1e308 * 10 as saving_low_ns, 5 as saving_high_ns"); // infinite
    done(0, KS_CHECK_COULD_NOT);
}

static void test_many_rows(void **state)
{
    (void)state;
    judge(RISK "with recursive n(i) as (select 1 union all select i + 1 from n where i < 16) "
               "select i from n");
    assert_string_equal(checked.reason, "");
    done(16, KS_CHECK_FOUND);
    judge(RISK "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n");
    assert_string_equal(checked.reason, "only the first 16 rows became findings");
    done(16, KS_CHECK_FOUND);
}

static void test_odd_places(void **state)
{
    (void)state;
    judge(RISK "select -1 as rank, 'x' as device, 1e300 as stream, 'nobody' as op, 5 as module, "
               "null as step, '' as file, 0 as line, -2 as bytes, 1e300 as large");
    const struct ks_where *where = &found.list[0].where;
    assert_int_equal(where->rank, KS_UNKNOWN);
    assert_int_equal(where->device, KS_UNKNOWN);
    assert_int_equal(where->op.v, 0);
    assert_int_equal(where->module.v, 0);
    assert_int_equal(where->step_count, 0);
    assert_int_equal(where->file.len, 0);
    assert_int_equal(where->line, KS_UNKNOWN);
    assert_int_equal(found.list[0].bytes, KS_UNKNOWN);
    assert_true(found.list[0].evidence[0].value < 9.3e18);
    done(1, KS_CHECK_FOUND);
}

/* What the trace, or a limit, does to a statement. */
static void test_failures(void **state)
{
    (void)state;
    struct ks_query_limits short_time = {.ms_max = 1};
    judge(RISK "select sum(i) as s from (select 9223372036854775807 as i union all select 1)");
    assert_non_null(strstr(checked.reason, "integer overflow"));
    done(0, KS_CHECK_COULD_NOT);
    judge_within(RISK "with recursive n(i) as (select 1 union all select i + 1 from n) "
                      "select max(i) as i from n",
                 &short_time);
    assert_non_null(strstr(checked.reason, "took longer than 0.001 s"));
    done(0, KS_CHECK_COULD_NOT);
    judge_within(RISK "select 1 as i union all select count(*) from (with recursive n(i) as "
                      "(select 1 union all select i + 1 from n) select i from n)",
                 &short_time);
    done(0, KS_CHECK_COULD_NOT); // a part of the rows says less than none
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),      cmocka_unit_test(test_wrong_heads),
        cmocka_unit_test(test_statements), cmocka_unit_test(test_finding),
        cmocka_unit_test(test_savings),    cmocka_unit_test(test_unusable_rows),
        cmocka_unit_test(test_many_rows),  cmocka_unit_test(test_odd_places),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, start, end);
}
