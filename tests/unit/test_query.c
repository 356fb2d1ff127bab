/* Goal: cells are what the store holds, with NULL for what it does not know; only a SELECT runs;
 * limits stop it, also inside a scan. Method: a trace by hand with every unknown, and statements
 * that try things. */
#include "query/query.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "cmocka_all.h"
#include "numbers.h"
#include "query_fixture.h"
#include "store/builder.h"
#include "store_fixture.h"

static struct ks_trace *trace; /* by hand */
static struct ks_trace *large; /* random rows */

/* ------------------------------------------------------------------ a trace by hand */

static const struct ks_str odd_name = {"a\0b\xff'", 5}; // a NUL, no UTF-8, a quote

struct hand {
    struct ks_trace_builder *builder;
    uint32_t process, thread, device, stream;
};

static struct ks_strid intern(struct hand *hand, struct ks_str text)
{
    struct ks_strid id = {0};
    assert_int_equal(ks_trace_builder_intern(hand->builder, text, &id, NULL), KS_OK);
    return id;
}

static void add_slices(struct hand *hand)
{
    const struct ks_slice_row known = {.lane = hand->thread,
                                       .start_ns = 10,
                                       .dur_ns = 5,
                                       .ext_id = 3,
                                       .corr = 7,
                                       .seq = 0,
                                       .aux = 1,
                                       .parent_aux = 2,
                                       .name = intern(hand, KS_STR("cudaLaunchKernel")).v,
                                       .dims = intern(hand, KS_STR("[[2, 3]]")).v,
                                       .types = intern(hand, KS_STR("[\"f\"]")).v,
                                       .concrete = intern(hand, KS_STR("[1]")).v,
                                       .category = KS_CATEGORY_RUNTIME,
                                       .flags = KS_SLICE_HIDDEN};
    const struct ks_slice_row unknown = {.lane = hand->thread,
                                         .start_ns = 20,
                                         .ext_id = -1,
                                         .corr = -1,
                                         .seq = -1,
                                         .aux = -1,
                                         .parent_aux = -1,
                                         .flags = KS_SLICE_UNFINISHED | KS_SLICE_ASYNC};
    struct ks_slice_row odd = unknown;
    odd.start_ns = 30;
    odd.name = intern(hand, odd_name).v;
    odd.category = KS_CATEGORY_CPU_OP;
    assert_int_equal(ks_trace_builder_slice(hand->builder, &known, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_slice(hand->builder, &unknown, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_slice(hand->builder, &odd, NULL), KS_OK);
}

static void add_gpus(struct hand *hand)
{
    struct ks_collective collective = {.name = intern(hand, KS_STR("allreduce")),
                                       .sequence = -1,
                                       .in_elements = 64,
                                       .out_elements = 32,
                                       .group_size = 2};
    uint32_t id = 0;
    assert_int_equal(ks_trace_builder_collective(hand->builder, &collective, &id, NULL), KS_OK);
    const struct ks_gpu_row known = {.lane = hand->device,
                                     .stream = hand->stream,
                                     .start_ns = 40,
                                     .dur_ns = 4,
                                     .corr = 7,
                                     .ext_id = 3,
                                     .bytes = 64,
                                     .name = intern(hand, KS_STR("ncclDevKernel")).v,
                                     .grid = intern(hand, KS_STR("[1, 1, 1]")).v,
                                     .block = intern(hand, KS_STR("[32, 1, 1]")).v,
                                     .collective = id,
                                     .occupancy = 0.5F,
                                     .blocks_per_sm = 1.5F,
                                     .warps_per_sm = 2.0F,
                                     .shared_bytes = 1024,
                                     .registers = 40,
                                     .category = KS_CATEGORY_KERNEL,
                                     .flags = KS_GPU_COMMUNICATION};
    const struct ks_gpu_row unknown = {.lane = hand->device,
                                       .stream = hand->stream,
                                       .start_ns = 50,
                                       .corr = -1,
                                       .ext_id = -1,
                                       .bytes = -1,
                                       .occupancy = NAN,
                                       .blocks_per_sm = NAN,
                                       .warps_per_sm = NAN,
                                       .category = KS_CATEGORY_MEMSET};
    assert_int_equal(ks_trace_builder_gpu(hand->builder, &known, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_gpu(hand->builder, &unknown, NULL), KS_OK);
}

static void add_others(struct hand *hand)
{
    const struct ks_memory_row memories[] = {
        {.lane = hand->process,
         .start_ns = 1,
         .bytes = -5,
         .addr = UINT64_MAX,
         .allocated = -1,
         .reserved = -1,
         .device = -1},
        {.lane = hand->process,
         .start_ns = 2,
         .bytes = INT64_MAX,
         .addr = 16,
         .allocated = 8,
         .reserved = 9,
         .device = 0,
         .device_type = 1,
         .flags = KS_MEMORY_OUT_OF_MEMORY},
    };
    const struct ks_mark_row marks[] = {
        {.lane = hand->thread,
         .start_ns = 1,
         .value = (double)NAN,
         .name = intern(hand, KS_STR("m")).v},
        {.lane = hand->thread,
         .start_ns = 2,
         .value = -0.5,
         .name = intern(hand, KS_STR("c")).v,
         .series = intern(hand, KS_STR("s")).v,
         .flags = KS_MARK_COUNTER},
    };
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(ks_trace_builder_memory(hand->builder, &memories[i], NULL), KS_OK);
        assert_int_equal(ks_trace_builder_mark(hand->builder, &marks[i], NULL), KS_OK);
    }
}

static void make_by_hand(void)
{
    struct hand hand = {0};
    struct ks_trace_options options = {0};
    struct ks_source *source = NULL;
    assert_int_equal(ks_trace_builder_create(&options, &hand.builder, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_source_open(hand.builder, KS_STR("a.json"), &source, NULL),
                     KS_OK);
    source->base_ns = 1700000000000000000;
    source->has_base = true;
    struct ks_track_key pid = {.number = 11};
    struct ks_track_key tid = {.text = intern(&hand, KS_STR("worker"))};
    assert_int_equal(ks_trace_builder_process(hand.builder, pid, &hand.process, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_thread(hand.builder, pid, tid, &hand.thread, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_stream(hand.builder, 3, 7, &hand.device, &hand.stream, NULL),
                     KS_OK);
    ks_trace_builder_track(hand.builder, hand.thread)->number = -1;
    add_slices(&hand);
    add_gpus(&hand);
    add_others(&hand);
    assert_int_equal(ks_trace_builder_seal(hand.builder, 0, &trace, NULL), KS_OK);
}

static void test_cells_of_slices(void **state)
{
    (void)state;
    query_expect(trace,
                 "select id, ts_ns, dur_ns, name, category, external_id, correlation, sequence, "
                 "aux, python_parent_id, input_shapes, input_types, concrete_inputs, "
                 "is_unfinished, is_async, is_hidden from slice where id = 0",
                 "0|9|5|cudaLaunchKernel|cuda_runtime|3|7|0|1|2|[[2, 3]]|[\"f\"]|[1]|0|0|1\n");
    query_expect(trace,
                 "select ts_ns, dur_ns, name_id, name, category, external_id, correlation, "
                 "sequence, aux, python_parent_id, input_shapes, input_types, concrete_inputs, "
                 "is_unfinished, is_async, is_hidden from slice where id = 1",
                 "19|0|null|null|null|null|null|null|null|null|null|null|null|1|1|0\n");
}

static void test_cells_of_gpus(void **state)
{
    (void)state;
    query_expect(trace,
                 "select ts_ns, dur_ns, name, category, device, stream, correlation, bytes, "
                 "launch_ns, launch_end_ns, grid, block, occupancy, blocks_per_sm, warps_per_sm, "
                 "shared_bytes, registers, is_communication, collective, collective_group, "
                 "collective_sequence, collective_in_elements, collective_out_elements, "
                 "collective_group_size from gpu where id = 0",
                 "39|4|ncclDevKernel|kernel|3|7|7|64|9|14|[1, 1, 1]|[32, 1, 1]|0.5|1.5|2|1024|40|1|"
                 "allreduce|null|null|64|32|2\n");
    query_expect(trace,
                 "select correlation, external_id, bytes, launch_ns, launch_end_ns, "
                 "launch_track_id, grid, block, occupancy, blocks_per_sm, warps_per_sm, registers, "
                 "collective, collective_sequence from gpu where id = 1",
                 "null|null|null|null|null|null|null|null|null|null|null|null|null|null\n");
    query_expect(trace, "select typeof(bytes), typeof(occupancy), typeof(name) from gpu",
                 "integer|real|text\nnull|null|null\n");
}

static void test_cells_of_others(void **state)
{
    (void)state;
    query_expect(trace,
                 "select bytes, printf('%x', address), allocated_bytes, reserved_bytes, "
                 "device, device_type, is_out_of_memory from memory",
                 "-5|ffffffffffffffff|null|null|null|0|0\n"
                 "9223372036854775807|10|8|9|0|1|1\n");
    query_expect(trace, "select address from memory", "-1\n16\n");
    query_expect(trace, "select name, series, value, is_counter from mark",
                 "m|null|null|0\nc|s|-0.5|1\n");
    query_expect(trace, "select name, kind, gpu_count, gpu_first_ns, gpu_end_ns from link",
                 "cudaLaunchKernel|kernel|1|39|43\n");
    query_expect(trace, "select kind, number, text from track order by id",
                 "process|11|null\nthread|null|worker\ndevice|3|null\nstream|7|null\n");
    query_expect(trace, "select path, rank, world_size, origin_ns, base_ns, backend from source",
                 "a.json|null|null|1700000000000000001|1700000000000000000|null\n");
    query_expect(trace, "select path from source where id = 0", "a.json\n");
    query_expect(trace, "select path from source where id = 1", "");
    query_expect(trace, "select path from source where id = '0'", "a.json\n");
    query_expect(trace, "select path from source where id = 0.0", "a.json\n");
}

static void test_ids_join(void **state)
{
    (void)state;
    query_expect(trace,
                 "select count(*), sum(t.text = s.name) from slice s "
                 "join string t on t.id = s.name_id",
                 "2|2\n");
    query_expect(trace,
                 "select p.kind from slice s join track t on t.id = s.track_id "
                 "join track p on p.id = t.parent_id where s.id = 0",
                 "process\n");
    query_expect(trace,
                 "select l.name from gpu g join slice l on l.track_id = g.launch_track_id and "
                 "l.ts_ns = g.launch_ns",
                 "cudaLaunchKernel\n");
    query_expect(trace, "select id from string where id in (0, -1, 4000000000, 1e19)", "");
    query_expect(trace, "select text from string where id = 1", "a.json\n");
    query_expect(trace, "select count(*) from string where text = 'allreduce'", "1\n");
    query_expect(trace, "select count(*) from string where text is null", "0\n");
}

/* Bytes go in and out as they are: as keys, and in comparisons. */
static void test_odd_names(void **state)
{
    (void)state;
    query_expect(trace, "select hex(name) from slice where id = 2", "610062FF27\n");
    query_expect(trace, "select id from slice where name = cast(x'610062ff27' as text)", "2\n");
    query_expect(trace, "select id from slice where +name = cast(x'610062ff27' as text)", "2\n");
    query_expect(trace, "select count(*) from string where text = cast(x'610062ff27' as text)",
                 "1\n");
    query_expect(trace, "select id from slice where name = cast(x'6100' as text)", "");
    query_expect(trace, "select id from slice where name = 'a'", "");
    query_expect(trace, "select id from slice where name = ''", "");
    query_expect(trace, "select id from slice where name = x'61'", "");
    struct query_answer answer;
    query_ask(trace, NULL, "select name from slice where id = 2", &answer);
    assert_memory_equal(answer.rows.ptr, odd_name.ptr, odd_name.len);
    query_answer_release(&answer);
}

/* ------------------------------------------------------------------ only a SELECT */

static void test_what_is_refused(void **state)
{
    (void)state;
    static const char *const statements[] = {
        "insert into slice(id) values (1)",
        "update slice set name = 'x'",
        "delete from slice",
        "drop table slice",
        "create table t(a)",
        "create temp table t(a)",
        "create view v as select 1",
        "create virtual table t using ks_scan(slice)",
        "alter table slice rename to x",
        "attach ':memory:' as x",
        "attach '/tmp/kscope-query-test.db' as x",
        "detach main",
        "vacuum",
        "vacuum into '/tmp/kscope-query-test.db'",
        "begin",
        "savepoint x",
        "pragma writable_schema = 1",
        "pragma journal_mode = wal",
        "pragma temp_store_directory = '/tmp'",
        "pragma hard_heap_limit = 0",
        "select load_extension('x')",
        "select fts3_tokenizer('simple')",
        "select writefile('/tmp/x', 'y')",
        "select readfile('/etc/passwd')",
        "select edit('x')",
        "select * from pragma_database_list",
        "select * from pragma_compile_options",
        "explain delete from slice",
        "with a as (select 1) delete from slice",
        "analyze",
        "reindex",
    };
    for (size_t i = 0; i < KS_COUNT_OF(statements); i++) {
        query_expect_failure(trace, statements[i], KS_ERR_USAGE, "Cannot run query: ");
    }
}

static void test_what_is_allowed(void **state)
{
    (void)state;
    query_expect(trace, "select 1", "1\n");
    query_expect(trace, "values (1, 'a'), (null, x'00ff')", "1|a\nnull|x'00ff'\n");
    query_expect(trace, " -- a comment\n select 2 ; ; /* another */ -- last", "2\n");
    query_expect(trace, "select name, type from pragma_table_info('slice') limit 2",
                 "id|INTEGER\nts_ns|INTEGER\n");
    query_expect(trace, "select count(*) > 7 from sqlite_schema", "1\n");
    query_expect(trace, "select value from json_each('[1, 2]')", "1\n2\n");
    query_expect(trace, "select fullkey from json_tree('{\"a\": [1]}')", "$\n$.a\n$.a[0]\n");
    query_expect(trace,
                 "with recursive c(x) as (select 1 union all select x + 1 from c where x < 3) "
                 "select x from c",
                 "1\n2\n3\n");
    query_expect(trace, "select ts_ns, row_number() over (order by ts_ns desc) from slice",
                 "29|1\n19|2\n9|3\n");
}

static void test_errors_say_where(void **state)
{
    (void)state;
    query_expect_failure(trace, "select nope from slice", KS_ERR_USAGE, "nope (line 1, column 8)");
    query_expect_failure(trace, "select\n  1,\n  \xC3\xA4\xC3\xA4 from slice", KS_ERR_USAGE,
                         "(line 3, column 3)");
    query_expect_failure(trace, "select '\xC3\xA4', nope", KS_ERR_USAGE, "(line 1, column 13)");
    query_expect_failure(trace, "select 1 from nowhere", KS_ERR_USAGE, "no such table: nowhere");
    query_expect_failure(trace, "selec 1", KS_ERR_USAGE, "syntax error");
    query_expect_failure(trace, "select (1", KS_ERR_USAGE, "incomplete input");
    query_expect_failure(trace, "select \"kernel\"", KS_ERR_USAGE, "no such column");
    query_expect_failure(trace, "select 1; select 2", KS_ERR_USAGE, "(line 1, column 11)");
    query_expect_failure(trace, "select 1; nonsense", KS_ERR_USAGE, "behind the first statement");
    query_expect_failure(trace, "", KS_ERR_USAGE, "it is empty");
    query_expect_failure(trace, "-- nothing", KS_ERR_USAGE, "it is empty");
    query_expect_failure(trace, "select ?", KS_ERR_USAGE, "parameter");
    query_expect_failure(trace, "select :name", KS_ERR_USAGE, "parameter");
    query_expect_failure(trace,
                         "select sum(x) from (select 9223372036854775807 as x union all "
                         "select 1)",
                         KS_ERR_USAGE, "integer overflow");
    query_expect_failure(trace, "select abs(-9223372036854775807 - 1)", KS_ERR_USAGE, "overflow");
}

static void test_a_nul_in_the_statement(void **state)
{
    (void)state;
    struct ks_query_limits limits = {0};
    struct ks_query *query = NULL;
    struct ks_err err = {0};
    assert_int_equal(ks_query_open(trace, NULL, 0, &limits, &query, &err), KS_OK);
    struct ks_str sql = {"select 1\0; drop table slice", 26};
    assert_int_equal(ks_query_prepare(query, sql, &err), KS_ERR_USAGE);
    assert_int_equal(err.offset, 8);
    ks_query_close(query);
}

/* Without a trace a statement can be checked, and all tables are empty. */
static void test_no_trace(void **state)
{
    (void)state;
    query_expect(NULL, "select count(*) from slice", "0\n");
    query_expect(NULL, "select * from gpu where track_id = 1 and name = 'x' and ts_ns > 3", "");
    query_expect(NULL, "select count(*) from string where id = 1 or text = 'x'", "0\n");
    query_expect(NULL, "select count(*) from track, source where track.id = 1", "0\n");
    query_expect_failure(NULL, "select nope from slice", KS_ERR_USAGE, "column 8");
}

/* ------------------------------------------------------------------ limits */

static void expect_limit(const struct ks_query_limits *limits, const char *sql,
                         enum ks_status status, const char *words)
{
    struct query_answer answer;
    query_ask(large, limits, sql, &answer);
    if (answer.status != status || !strstr(answer.err.message, words)) {
        fail_msg("%s: status %d, %s", sql, (int)answer.status, answer.err.message);
    }
    query_answer_release(&answer);
}

static const char *const endless =
    "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c";

static void test_time(void **state)
{
    (void)state;
    struct ks_query_limits limits = {.ms_max = 100};
    time_t start = time(NULL);
    expect_limit(&limits, endless, KS_ERR_LIMIT, "longer than 0.1 s");
    expect_limit(&limits, "select count(*) from slice a, slice b, slice c where a.id + b.id = -1",
                 KS_ERR_LIMIT, "longer than 0.1 s");
    assert_true(time(NULL) - start < 20);
    limits.ms_max = INT64_MAX;
    expect_limit(&limits, "select 1", KS_OK, "");
}

/* Says yes after so many questions. */
struct patience {
    int64_t questions;
    int64_t left;
};

static bool is_cancelled(void *user)
{
    struct patience *patience = user;
    patience->questions++;
    return patience->left-- <= 0;
}

static void test_cancelling(void **state)
{
    (void)state;
    struct patience patience = {.left = 50};
    struct ks_query_limits limits = {.is_cancelled = is_cancelled, .user = &patience};
    expect_limit(&limits, endless, KS_ERR_CANCELLED, "interrupted");
    assert_int_equal(patience.questions, 51); // never asked again
    patience = (struct patience){.left = 0};
    expect_limit(&limits, "select 1", KS_ERR_CANCELLED, "interrupted");
}

/* One step of SQLite's machine that looks through all rows for one that is not there. */
static void test_cancelling_inside_a_scan(void **state)
{
    (void)state;
    static const char *const sql = "select count(*) from slice where external_id = 123456789";
    struct patience patience = {.left = INT64_MAX};
    struct ks_query_limits limits = {.is_cancelled = is_cancelled, .user = &patience};
    struct query_answer answer;
    query_ask(large, &limits, sql, &answer);
    assert_int_equal(answer.status, KS_OK);
    assert_true(answer.visited > 3 * 4096);
    assert_true(patience.questions >= (int64_t)(answer.visited / 4096));
    query_answer_release(&answer);

    patience = (struct patience){.left = 2};
    query_ask(large, &limits, sql, &answer);
    assert_int_equal(answer.status, KS_ERR_CANCELLED);
    assert_true(answer.visited <= 2 * 4096);
    query_answer_release(&answer);
}

static void test_memory(void **state)
{
    (void)state;
    struct ks_query_limits limits = {.bytes_max = 8 << 20};
    expect_limit(&limits,
                 "select length(group_concat(a.name || b.name)) from slice a, slice b "
                 "where a.id < 100",
                 KS_ERR_LIMIT, "more than 8388608 bytes of memory");
    /* The limit ends with the query. */
    limits.bytes_max = 0;
    expect_limit(&limits, "select length(zeroblob(16000000) || '')", KS_OK, "");
    /* Sorting goes to a file instead. */
    limits.bytes_max = 16 << 20;
    expect_limit(&limits,
                 "select x from (select a.id * 7919 % 100003 as x from slice a, (values (1), (2), "
                 "(3), (4), (5), (6), (7), (8), (9), (10))) order by x limit 3",
                 KS_OK, "");
    /* Too little to begin with. */
    limits.bytes_max = 1;
    expect_limit(&limits, "select 1", KS_ERR_LIMIT, "memory");
}

static void test_sizes(void **state)
{
    (void)state;
    expect_limit(NULL, "select zeroblob(100000000)", KS_ERR_LIMIT, "too big");
    expect_limit(NULL, "select length(hex(zeroblob(20000000)))", KS_ERR_LIMIT, "too big");
    struct ks_text deep;
    ks_text_init(&deep);
    ks_text_append_str(&deep, KS_STR("select "));
    for (int i = 0; i < 100000; i++) {
        ks_text_append_str(&deep, KS_STR("("));
    }
    ks_text_append(&deep, "1", 2);
    query_expect_failure(large, deep.ptr, KS_ERR_USAGE, "Cannot run query: ");
    ks_text_reset(&deep);
    ks_text_append_str(&deep, KS_STR("select 1"));
    for (int i = 0; i < 300000; i++) {
        ks_text_append_str(&deep, KS_STR(" + 1"));
    }
    ks_text_append(&deep, "", 1);
    query_expect_failure(large, deep.ptr, KS_ERR_LIMIT, "the limit is 1000000");
    ks_text_release(&deep);
}

/* ------------------------------------------------------------------ main */

static int set_up(void **state)
{
    (void)state;
    struct fixture fixture;
    struct ks_trace_options options = {0};
    make_by_hand();
    fixture_init(&fixture, 3, 6000);
    enum ks_status status = fixture_build(&fixture, &options, 0, &large, NULL);
    fixture_release(&fixture);
    return status != KS_OK;
}

static int tear_down(void **state)
{
    (void)state;
    ks_trace_destroy(trace);
    ks_trace_destroy(large);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells_of_slices),
        cmocka_unit_test(test_cells_of_gpus),
        cmocka_unit_test(test_cells_of_others),
        cmocka_unit_test(test_ids_join),
        cmocka_unit_test(test_odd_names),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_what_is_allowed),
        cmocka_unit_test(test_errors_say_where),
        cmocka_unit_test(test_a_nul_in_the_statement),
        cmocka_unit_test(test_no_trace),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_cancelling),
        cmocka_unit_test(test_cancelling_inside_a_scan),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
