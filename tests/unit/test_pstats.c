/* Goal: a profile gives the same rows whatever the windows are that it comes in, and what is cut is
 * shown as far as it goes. Method: a profile by hand that has each type, read with windows of every
 * size, strictly, and cut at each byte. */
#include <string.h>

#include "base/text.h"
#include "cmocka_all.h"
#include "dump_trace.h"
#include "pstats_bytes.h"
#include "read_bytes.h"

static const struct ks_str profile = {PSTATS_BYTES, sizeof(PSTATS_BYTES) - 1};

static void describe(const struct read_bytes_options *options, struct ks_str bytes,
                     struct ks_text *out)
{
    struct ks_trace *trace = NULL;
    struct ks_err err = {0};
    enum ks_status status = read_bytes(bytes, options, &trace, &err);
    if (status != KS_OK) {
        fail_msg("%s at %lld", err.message, (long long)err.offset);
    }
    assert_int_equal(dump_trace(trace, out, NULL), KS_OK);
    ks_trace_destroy(trace);
}

static void check_describes(const struct read_bytes_options *options, const struct ks_text *want)
{
    struct ks_text text;
    ks_text_init(&text);
    describe(options, profile, &text);
    assert_int_equal(text.len, want->len);
    assert_memory_equal(text.ptr, want->ptr, want->len);
    ks_text_release(&text);
}

static void test_windows_change_nothing(void **state)
{
    (void)state;
    struct ks_text want;
    ks_text_init(&want);
    describe(&(struct read_bytes_options){0}, profile, &want);
    for (size_t window = 1; window <= profile.len + 1; window++) {
        check_describes(&(struct read_bytes_options){.window = window}, &want);
    }
    check_describes(&(struct read_bytes_options){.strict = true}, &want);
    ks_text_release(&want);
}

static void check_path(const struct ks_trace *trace, uint32_t id, const struct ks_call_path *want)
{
    const struct ks_call_path *got = ks_trace_call_path(trace, id);
    assert_int_equal(got->parent, want->parent);
    assert_int_equal(got->first_line, want->first_line);
    assert_int_equal(got->calls, want->calls);
    assert_int_equal(got->recursive_calls, want->recursive_calls);
    assert_int_equal(got->total_ns, want->total_ns);
    assert_int_equal(got->child_ns, want->child_ns);
    assert_int_equal(got->kind, want->kind);
}

static void test_rows(void **state)
{
    (void)state;
    struct ks_trace *trace = NULL;
    static const struct ks_call_path want[] = {
        {.first_line = 1,
         .calls = 2,
         .recursive_calls = 1,
         .total_ns = 1000000000,
         .child_ns = 500000000,
         .kind = KS_CALL_SUM},
        {.first_line = 2,
         .calls = (int64_t)1 << 40,
         .total_ns = 1000000000,
         .child_ns = 1000000000,
         .kind = KS_CALL_SUM},
        {.parent = 2,
         .first_line = 1,
         .calls = 2,
         .recursive_calls = 1,
         .total_ns = 500000000,
         .kind = KS_CALL_SUM},
        {.parent = 1, .first_line = 1, .calls = 3, .kind = KS_CALL_COUNT},
    };
    assert_int_equal(read_bytes(profile, &(struct read_bytes_options){0}, &trace, NULL), KS_OK);
    assert_int_equal(ks_trace_call_path_count(trace), KS_COUNT_OF(want));
    for (uint32_t i = 0; i < KS_COUNT_OF(want); i++) {
        check_path(trace, i + 1, &want[i]);
    }
    ks_trace_destroy(trace);
}

static enum ks_status read_cut(const void *what, struct ks_err *err)
{
    const size_t *size = what;
    return read_bytes((struct ks_str){profile.ptr, *size}, &(struct read_bytes_options){0}, NULL,
                      err);
}

/* The first function ends at the 0 of its callers: what is cut before has nothing to show. */
static void test_cut(void **state)
{
    (void)state;
    const char *end = memmem(profile.ptr, profile.len, "r\x03\0\0\0", 5);
    size_t first = (size_t)(end - profile.ptr);
    for (size_t size = 6; size < profile.len; size++) {
        struct ks_err err = {0};
        enum ks_status status = read_cut(&size, &err);
        assert_int_equal(status, size < first ? KS_ERR_FORMAT : KS_OK);
        assert_int_equal(err.offset, size < first ? (int64_t)size : err.offset);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_change_nothing),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
