/* Goal: exports stay well-formed whatever names hold, and add up. Method: small traces by hand;
 * what is written is compared as a whole. */
#include "export/export.h"

#include <stdio.h>

#include "advise/findings.h"
#include "base/text.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

static bool keep(void *user, const char *bytes, size_t size)
{
    struct ks_text *text = user;
    ks_text_append(text, bytes, size);
    return !text->failed;
}

static bool refuse(void *user, const char *bytes, size_t size)
{
    (void)user;
    (void)bytes;
    (void)size;
    return false;
}

/* One operator of this name on one thread. */
static void open_named(struct facts_fixture *fixture, const char *name)
{
    facts_fixture_init(fixture, 0, 0);
    FACTS_HOST(fixture, {1, OP, name, 100, 50});
    facts_fixture_compute(fixture, NULL);
}

static struct ks_view view_of(const struct facts_fixture *fixture)
{
    return (struct ks_view){.trace = fixture->trace, .facts = &fixture->facts};
}

/* ------------------------------------------------------------------ CSV */

/* First field of the only row of `operators`. */
static void check_csv(const char *name, const char *field)
{
    struct facts_fixture fixture;
    open_named(&fixture, name);
    struct ks_view view = view_of(&fixture);
    struct ks_text text;
    ks_text_init(&text);
    assert_int_equal(
        ks_export_csv(&view, &(struct ks_export_options){.table = "operators"}, keep, &text, NULL),
        KS_OK);
    ks_text_append(&text, "", 1);
    const char *row = strstr(text.ptr, "\r\n");
    assert_non_null(row);
    row += 2;
    assert_memory_equal(row, field, strlen(field));
    assert_memory_equal(row + strlen(field), ",op,", 4);
    assert_string_equal(text.ptr + text.len - 3, "\r\n");
    ks_text_release(&text);
    facts_fixture_release(&fixture);
}

static void test_csv_fields(void **state)
{
    (void)state;
    check_csv("aten::add", "aten::add");
    check_csv("a,b", "\"a,b\"");
    check_csv("say \"x\"", "\"say \"\"x\"\"\"");
    check_csv("two\nlines", "\"two\nlines\"");
    check_csv(" blank", "\" blank\"");
    check_csv("=1+1", "'=1+1");
    check_csv("@SUM(A1,A2)", "\"'@SUM(A1,A2)\"");
    check_csv("-x", "'-x");
    check_csv("a=b", "a=b");
    check_csv("bad\xff\x01\x7f", "bad\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    check_csv("\xC3\xA9", "\xC3\xA9");
}

static void test_csv_of_nothing(void **state)
{
    (void)state;
    struct facts_fixture fixture;
    facts_fixture_init(&fixture, 0, 0);
    facts_fixture_compute(&fixture, NULL);
    struct ks_view view = view_of(&fixture);
    struct ks_text text;
    ks_text_init(&text);
    assert_int_equal(
        ks_export_csv(&view, &(struct ks_export_options){.table = "copies"}, keep, &text, NULL),
        KS_OK);
    ks_text_append(&text, "", 1);
    assert_string_equal(text.ptr, "kind,calls,bytes,total_ns,bytes_per_s,zero_duration_calls\r\n");
    ks_text_release(&text);
    facts_fixture_release(&fixture);
}

static void test_csv_receiver_stops(void **state)
{
    (void)state;
    struct facts_fixture fixture;
    open_named(&fixture, "x");
    struct ks_view view = view_of(&fixture);
    struct ks_err err = {0};
    assert_int_equal(
        ks_export_csv(&view, &(struct ks_export_options){.table = "operators"}, refuse, NULL, &err),
        KS_ERR_IO);
    assert_int_equal(err.status, KS_ERR_IO);
    facts_fixture_release(&fixture);
}

/* ------------------------------------------------------------------ folded stacks */

static void check_folded(const struct facts_fixture *fixture, enum ks_export_weight weight,
                         const char *expected)
{
    struct ks_view view = view_of(fixture);
    struct ks_text text;
    ks_text_init(&text);
    assert_int_equal(
        ks_export_folded(&view, &(struct ks_export_options){.weight = weight}, keep, &text, NULL),
        KS_OK);
    ks_text_append(&text, "", 1);
    assert_string_equal(text.ptr, expected);
    ks_text_release(&text);
}

static void test_folded_stacks(void **state)
{
    (void)state;
    struct facts_fixture fixture;
    facts_fixture_init(&fixture, 0, 0);
    FACTS_HOST(&fixture, {1, PY, "train.py(1): main", 0, 100}, {1, NOTE, "ProfilerStep#1", 0, 40},
               {1, OP, "aten::linear", 10, 20, 5}, {1, OP, "aten::mm", 12, 10, 6},
               {1, CALL, "cudaLaunchKernel", 14, 3, 6, 9}, {1, NOTE, "ProfilerStep#2", 40, 60},
               {1, OP, "aten::linear", 50, 10, 7}, {2, OP, "aten::mm", 0, 1, 8});
    FACTS_DEVICE(&fixture, {0, 7, KERNEL, "gemm", 20, 1000, 9, 6});
    facts_fixture_compute(&fixture, NULL);
    check_folded(&fixture, KS_EXPORT_SELF_CPU,
                 "aten::mm 1\n"
                 "train.py(1): main;ProfilerStep* 70\n"
                 "train.py(1): main;ProfilerStep*;aten::linear 20\n"
                 "train.py(1): main;ProfilerStep*;aten::linear;aten::mm 7\n"
                 "train.py(1): main;ProfilerStep*;aten::linear;aten::mm;cudaLaunchKernel 3\n");
    check_folded(&fixture, KS_EXPORT_DEVICE,
                 "train.py(1): main;ProfilerStep*;aten::linear;aten::mm 1000\n");
    facts_fixture_release(&fixture);
}

/* Names that would be the same line are one line. */
static void test_folded_names(void **state)
{
    (void)state;
    struct facts_fixture fixture;
    facts_fixture_init(&fixture, 0, 0);
    FACTS_HOST(&fixture, {1, OP, "a;b", 0, 10}, {1, OP, "a:b", 10, 10}, {1, OP, "c\nd\xff", 20, 1},
               {1, OP, "", 30, 1});
    facts_fixture_compute(&fixture, NULL);
    check_folded(&fixture, KS_EXPORT_SELF_CPU, "(no name) 1\na:b 20\nc d\xEF\xBF\xBD 1\n");
    facts_fixture_release(&fixture);
}

/* A row that ends behind the one it began in is no child of it; of two that are as long, the later
 * one is the inner one. */
static void test_folded_overlap(void **state)
{
    (void)state;
    struct facts_fixture fixture;
    facts_fixture_init(&fixture, 0, 0);
    FACTS_HOST(&fixture, {1, OP, "out", 0, 100}, {1, OP, "a", 10, 20}, {1, OP, "b", 20, 20},
               {1, OP, "c", 22, 5});
    facts_fixture_compute(&fixture, NULL);
    check_folded(&fixture, KS_EXPORT_SELF_CPU, "out 70\nout;a 20\nout;b 15\nout;b;c 5\n");
    facts_fixture_release(&fixture);
}

static void test_folded_nothing(void **state)
{
    (void)state;
    struct facts_fixture fixture;
    facts_fixture_init(&fixture, 0, 0);
    facts_fixture_compute(&fixture, NULL);
    check_folded(&fixture, KS_EXPORT_SELF_CPU, "");
    check_folded(&fixture, KS_EXPORT_DEVICE, "");
    facts_fixture_release(&fixture);
}

/* ------------------------------------------------------------------ speedscope */

static void check_speedscope(const struct facts_fixture *fixture, const char *events,
                             const char *frames)
{
    struct ks_view view = view_of(fixture);
    struct ks_text text;
    ks_text_init(&text);
    assert_int_equal(
        ks_export_speedscope(&view, &(struct ks_export_options){0}, NULL, keep, &text, NULL),
        KS_OK);
    ks_text_append(&text, "", 1);
    struct ks_text found; /* "O0@10 C0@20 | ..." */
    ks_text_init(&found);
    for (const char *at = text.ptr; (at = strstr(at, "\"type\": \"")) != NULL; at++) {
        char type[16] = "";
        int frame = 0;
        long long when = 0;
        if (sscanf(at, "\"type\": \"%1[OC]\", \"frame\": %d, \"at\": %lld", type, &frame, &when) ==
            3) {
            ks_text_printf(&found, "%s%d@%lld ", type, frame, when);
        } else {
            ks_text_append_str(&found, KS_STR("| "));
        }
    }
    ks_text_append(&found, "", 1);
    assert_string_equal(found.ptr, events);
    assert_non_null(strstr(text.ptr, frames));
    ks_text_release(&found);
    ks_text_release(&text);
}

static void test_speedscope_nests(void **state)
{
    (void)state;
    struct facts_fixture fixture;
    facts_fixture_init(&fixture, 0, 0);
    /* b ends 1 ns late and is cut; d has little in common with c, which ends early for it. */
    FACTS_HOST(&fixture, {1, OP, "a", 0, 20}, {1, OP, "b", 10, 11}, {1, OP, "c", 30, 10},
               {1, OP, "d", 38, 12}, {1, OP, "a", 50, 0});
    FACTS_DEVICE(&fixture, {0, 7, KERNEL, "k", 5, 10}, {0, 8, KERNEL, "k", 6, 10},
                 {0, 7, KERNEL, "l", 14, 10});
    facts_fixture_compute(&fixture, NULL);
    check_speedscope(&fixture,
                     "| O0@0 O1@10 C1@20 C0@20 O2@30 C2@38 O3@38 C3@50 O0@50 C0@50 "
                     "| O4@5 C4@14 O5@14 C5@24 | O4@6 C4@16 ",
                     "{\"name\": \"a\"}, {\"name\": \"b\"}, {\"name\": \"c\"}");
    facts_fixture_release(&fixture);
}

static void test_speedscope_nothing(void **state)
{
    (void)state;
    struct facts_fixture fixture;
    facts_fixture_init(&fixture, 0, 0);
    facts_fixture_compute(&fixture, NULL);
    check_speedscope(&fixture, "", "\"frames\": []");
    facts_fixture_release(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv_fields),         cmocka_unit_test(test_csv_of_nothing),
        cmocka_unit_test(test_csv_receiver_stops), cmocka_unit_test(test_folded_stacks),
        cmocka_unit_test(test_folded_names),       cmocka_unit_test(test_folded_overlap),
        cmocka_unit_test(test_folded_nothing),     cmocka_unit_test(test_speedscope_nests),
        cmocka_unit_test(test_speedscope_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
