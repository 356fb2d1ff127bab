/* Goal: an array grows by one item at a time, keeps what it holds, and stays as it was when it
 * cannot grow. Method: many items are added and read again; then sizes that do not fit. */
#include "base/grow.h"

#include "base/alloc.h"
#include "cmocka_all.h"

static void test_keeps_items(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    int64_t *items = NULL;
    size_t count = 0;
    size_t capacity = 0;
    while (count < COUNT) {
        assert_int_equal(ks_grow(&items, count, &capacity, sizeof(*items), "items", NULL), KS_OK);
        assert_true(count < capacity);
        items[count] = (int64_t)count;
        count++;
    }
    assert_true(capacity < 3 * COUNT);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(items[i], i);
    }
    ks_free(items);
}

static void test_does_not_fit(void **state)
{
    (void)state;
    char *items = ks_alloc(1, 1);
    char *before = items;
    size_t capacity = 1;
    struct ks_err err = {0};
    assert_int_equal(ks_grow(&items, 1, &capacity, SIZE_MAX / 2 + 1, "items", &err), KS_ERR_NOMEM);
    assert_ptr_equal(items, before);
    assert_int_equal(capacity, 1);
    assert_string_equal(err.message, "Cannot keep items: count=1");
    ks_free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps_items),
        cmocka_unit_test(test_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
