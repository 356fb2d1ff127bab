/* Makes each allocation of a call fail, one by one, once and from there on: the call must say that
 * there is no memory, and leave nothing behind. For builds in which allocations can fail. */
#ifndef KS_TESTS_FAIL_EACH_H
#define KS_TESTS_FAIL_EACH_H

#include <string.h>

#include "base/alloc.h"
#include "cmocka_all.h"

typedef enum ks_status (*fail_each_work)(const void *what, struct ks_err *err);

static inline void fail_each_of(fail_each_work call, const void *what, bool for_ever,
                                int64_t calls_min)
{
    struct ks_err err = {0};
    ks_alloc_fail_at(0, false);
    assert_int_equal(call(what, &err), KS_OK);
    int64_t calls = ks_alloc_calls();
    int64_t live = ks_alloc_live();
    assert_true(calls >= calls_min);
    for (int64_t at = 1; at <= calls; at++) {
        err = (struct ks_err){0};
        ks_alloc_fail_at(at, for_ever);
        enum ks_status status = call(what, &err);
        ks_alloc_fail_at(0, false);
        assert_int_equal(status, KS_ERR_NOMEM);
        assert_int_equal(err.status, KS_ERR_NOMEM);
        assert_non_null(strstr(err.message, "Cannot "));
        assert_int_equal(ks_alloc_live(), live);
    }
}

/* `call` with `what` succeeds with memory, and asks for some at least `calls_min` times. */
static inline void fail_each_allocation(fail_each_work call, const void *what, int64_t calls_min)
{
    fail_each_of(call, what, false, calls_min);
    fail_each_of(call, what, true, calls_min);
}

#endif
