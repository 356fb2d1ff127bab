/* Goal: whichever allocation fails, building, sealing and reading a trace give KS_ERR_NOMEM, leave
 * nothing behind, and work when tried again. Method: count the allocations of a good run, then
 * fail each of them, once and for ever; without a limit and with chunks that spill. Then the disk
 * refuses to grow at each of many sizes. */
#include <signal.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "cmocka_all.h"
#include "store_fixture.h"

/* One whole life of a trace: status of the first thing that failed. */
static enum ks_status live(const struct fixture *fixture, const struct ks_trace_options *options,
                           struct ks_text *dump, struct ks_err *err)
{
    struct ks_trace *trace = NULL;
    enum ks_status status = fixture_build(fixture, options, 0, &trace, err);
    if (status == KS_OK) {
        ks_text_init(dump);
        status = fixture_dump(trace, dump, err);
        if (status != KS_OK) {
            ks_text_release(dump);
        }
        ks_trace_destroy(trace);
    }
    return status;
}

static void fail_each(const struct fixture *fixture, const struct ks_trace_options *options,
                      bool for_ever)
{
    struct ks_err err = {0};
    struct ks_text twin;
    int64_t live_before = ks_alloc_live();
    ks_alloc_fail_at(0, false);
    assert_int_equal(live(fixture, options, &twin, &err), KS_OK);
    int64_t calls = ks_alloc_calls();
    assert_true(calls > 50);

    int64_t survived = 0;
    for (int64_t at = 1; at <= calls; at++) {
        struct ks_text text;
        ks_alloc_fail_at(at, for_ever);
        enum ks_status status = live(fixture, options, &text, &err);
        ks_alloc_fail_at(0, false);
        if (status == KS_OK) {
            /* Something that can be done without, such as the list of free places in a file. */
            survived++;
            assert_int_equal(text.len, twin.len);
            assert_memory_equal(text.ptr, twin.ptr, twin.len);
            ks_text_release(&text);
        } else {
            assert_int_equal(status, KS_ERR_NOMEM);
            assert_int_equal(err.status, KS_ERR_NOMEM);
        }
        assert_int_equal(ks_alloc_live(), live_before + (twin.ptr ? 1 : 0));
    }
    assert_true(survived <= 5);
    ks_text_release(&twin);
    assert_int_equal(ks_alloc_live(), live_before);
}

static void test_allocations(void **state)
{
    (void)state;
    static const struct ks_trace_options modes[] = {{0, 0}, {0, 64}, {20000, 32}};
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        struct fixture fixture;
        fixture_init(&fixture, 50, i == 2 ? 120 : 400);
        fail_each(&fixture, &modes[i], false);
        fail_each(&fixture, &modes[i], true);
        fixture_release(&fixture);
    }
}

static void test_disk(void **state)
{
    (void)state;
    static const struct ks_trace_options options = {20000, 32};
    struct fixture fixture;
    struct ks_err err = {0};
    struct rlimit old;
    fixture_init(&fixture, 51, 900);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    int64_t live_before = ks_alloc_live();
    size_t failed = 0;
    for (rlim_t size = 0;; size += 7777) {
        struct ks_text text;
        struct rlimit limit = {size, old.rlim_max};
        setrlimit(RLIMIT_FSIZE, &limit);
        enum ks_status status = live(&fixture, &options, &text, &err);
        setrlimit(RLIMIT_FSIZE, &old);
        if (status == KS_OK) {
            ks_text_release(&text);
            break;
        }
        assert_int_equal(status, KS_ERR_IO);
        assert_int_equal(ks_alloc_live(), live_before);
        failed++;
    }
    assert_true(failed > 10);
    fixture_release(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
