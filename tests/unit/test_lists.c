/* Goal: lists have sound columns, all sort keys of torch work, and tables fit. Method: every list
 * is walked; facts filled by hand are sorted and written. */
#include "show/lists.h"

#include <math.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cmocka_all.h"
#include "show/report.h"
#include "store/builder.h"

static void test_lists_are_sound(void **state)
{
    (void)state;
    for (size_t i = 0; ks_list_at(i); i++) {
        const struct ks_list *list = ks_list_at(i);
        assert_ptr_equal(ks_list_find(list->name), list);
        size_t count = 0;
        for (const struct ks_column *column = list->columns; column->key; column++) {
            assert_non_null(column->title);
            assert_ptr_equal(ks_list_sort_column(list, column->key), column);
            count++;
        }
        assert_true(count <= KS_LIST_COLUMNS_MAX);
        for (size_t name = 0; ks_list_sort_name(list, name); name++) {
            assert_non_null(ks_list_sort_column(list, ks_list_sort_name(list, name)));
        }
    }
    assert_null(ks_list_find("kernel"));
}

static void check_alias(const struct ks_list *list, const char *name, const char *key)
{
    const struct ks_column *column = ks_list_sort_column(list, name);
    assert_non_null(column);
    assert_string_equal(column->key, key);
}

static void test_sort_names(void **state)
{
    (void)state;
    check_alias(&ks_list_operators, "self_cpu_time_total", "self_cpu_ns");
    check_alias(&ks_list_operators, "cpu_time_total", "cpu_ns");
    check_alias(&ks_list_operators, "cpu_time", "cpu_mean_ns");
    check_alias(&ks_list_operators, "cuda_time_total", "device_ns");
    check_alias(&ks_list_operators, "self_device_time_total", "self_device_ns");
    check_alias(&ks_list_operators, "self_cpu_memory_usage", "self_cpu_bytes");
    check_alias(&ks_list_operators, "cuda_memory_usage", "device_bytes");
    check_alias(&ks_list_operators, "count", "calls");
    check_alias(&ks_list_operators, "self_cpu", "self_cpu_ns");
    check_alias(&ks_list_kernels, "cuda_time_total", "total_ns");
    check_alias(&ks_list_steps, "dur", "dur_ns");
    assert_null(ks_list_sort_column(&ks_list_operators, "cpu_tim"));
}

/* A sealed trace that holds only the names of three operators. */
struct fixture {
    struct ks_trace *trace;
    struct ks_facts facts;
    struct ks_findings findings;
    struct ks_operator_fact operators[3];
    struct ks_view view;
};

static struct ks_strid intern(struct ks_trace_builder *builder, const char *text)
{
    struct ks_strid id;
    assert_int_equal(ks_trace_builder_intern(builder, ks_str_from(text), &id, NULL), KS_OK);
    return id;
}

static int set_up(void **state)
{
    struct fixture *f = ks_alloc(1, sizeof(*f));
    struct ks_trace_builder *builder = NULL;
    struct ks_trace_options options = {0};
    struct ks_source *source = NULL;
    assert_int_equal(ks_trace_builder_create(&options, &builder, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_source_open(builder, KS_STR("a.json"), &source, NULL), KS_OK);
    source->rank = source->world_size = -1;
    f->operators[0] = (struct ks_operator_fact){.name = intern(builder, "aten::b"),
                                                .calls = 2,
                                                .cpu_ns = 900,
                                                .self_cpu_ns = 100,
                                                .self_cpu_bytes = KS_UNKNOWN};
    f->operators[1] = (struct ks_operator_fact){.name = intern(builder, "aten::a"),
                                                .calls = 2,
                                                .cpu_ns = 5000,
                                                .self_cpu_ns = 50,
                                                .self_cpu_bytes = 7};
    f->operators[2] = (struct ks_operator_fact){.name = intern(builder, "aten::c"),
                                                .calls = 1,
                                                .cpu_ns = 1000,
                                                .self_cpu_ns = 70,
                                                .self_cpu_bytes = 8};
    assert_int_equal(ks_trace_builder_source_close(builder, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_seal(builder, 0, &f->trace, NULL), KS_OK);
    f->facts.trace = f->trace;
    f->facts.operators = f->operators;
    f->facts.operator_count = 3;
    f->view = (struct ks_view){.trace = f->trace, .facts = &f->facts, .findings = &f->findings};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    ks_trace_destroy(f->trace);
    ks_free(f);
    return 0;
}

static void check_order(const struct ks_view *view, const char *sort, uint64_t a, uint64_t b,
                        uint64_t c)
{
    const struct ks_list *list = &ks_list_operators;
    uint64_t *order = ks_list_order(list, view, sort ? ks_list_sort_column(list, sort) : NULL);
    assert_non_null(order);
    assert_int_equal(order[0], a);
    assert_int_equal(order[1], b);
    assert_int_equal(order[2], c);
    ks_free(order);
}

static void test_order(void **state)
{
    const struct fixture *f = *state;
    check_order(&f->view, NULL, 0, 1, 2);
    check_order(&f->view, "cpu_ns", 1, 2, 0);
    check_order(&f->view, "name", 1, 0, 2);
    check_order(&f->view, "calls", 0, 1, 2);          /* equal ones stay as they were */
    check_order(&f->view, "cpu_mean_ns", 1, 2, 0);    /* 2500, 1000, 450 */
    check_order(&f->view, "self_cpu_bytes", 2, 1, 0); /* unknown last */
}

static bool collect(void *user, const char *bytes, size_t size)
{
    ks_text_append(user, bytes, size);
    return true;
}

static void check_table(const struct ks_view *view, struct ks_report_style style,
                        const char *expected)
{
    struct ks_text text;
    ks_text_init(&text);
    style.format = KS_REPORT_TABLE;
    assert_int_equal(ks_report_write_table(view, &style, collect, &text, NULL), KS_OK);
    ks_text_append(&text, "", 1);
    assert_string_equal(text.ptr, expected);
    ks_text_release(&text);
}

static void test_table(void **state)
{
    const struct fixture *f = *state;
    check_table(&f->view, (struct ks_report_style){.table = "operators", .sort = "cpu_time_total"},
                "operator  calls  self CPU      CPU  CPU a call  self CPU mem\n"
                "aten::a       2     50 ns  5.00 us     2.50 us           7 B\n"
                "aten::c       1     70 ns  1.00 us     1.00 us           8 B\n"
                "aten::b       2    100 ns   900 ns      450 ns             -\n");
    check_table(&f->view, (struct ks_report_style){.row_limit = 1, .sort = "name", .width = 44},
                "operator  calls  self CPU      CPU\n"
                "aten::a       2     50 ns  5.00 us\n"
                "1 of 3 rows; --all-rows shows all. 2 columns do not fit; --width N makes room\n");
    check_table(&f->view, (struct ks_report_style){.table = "steps"},
                "No steps were found in the trace.\n");
}

static void test_style_check(void **state)
{
    (void)state;
    struct ks_err err = {0};
    struct ks_report_style style = {.table = "operator"};
    assert_int_equal(ks_report_style_check(&style, &err), KS_ERR_USAGE);
    assert_non_null(strstr(err.message, "operators kernels steps"));
    style = (struct ks_report_style){.sort = "foo"};
    assert_int_equal(ks_report_style_check(&style, &err), KS_ERR_USAGE);
    assert_non_null(strstr(err.message, "Cannot sort operators by foo"));
    style = (struct ks_report_style){.table = "kernels", .sort = "count"};
    assert_int_equal(ks_report_style_check(&style, &err), KS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_are_sound),
        cmocka_unit_test(test_sort_names),
        cmocka_unit_test_setup_teardown(test_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_table, set_up, tear_down),
        cmocka_unit_test(test_style_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
