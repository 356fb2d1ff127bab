/* Goal: equal strings get equal ids, in order of first appearance. Method: random strings, many of
 * them alike at both ends, against a plain list. */
#include "store/strpool.h"

#include <stdio.h>
#include <stdlib.h>

#include "cmocka_all.h"
#include "numbers.h"

enum { STRINGS_MAX = 4000, LEN_MAX = 40 };

struct twin {
    char text[STRINGS_MAX][LEN_MAX];
    size_t len[STRINGS_MAX];
    size_t count;
};

static size_t twin_id(const struct twin *twin, struct ks_str s)
{
    for (size_t i = 0; i < twin->count; i++) {
        if (twin->len[i] == s.len && memcmp(twin->text[i], s.ptr, s.len) == 0) {
            return i;
        }
    }
    return twin->count;
}

/* Few letters and many lengths, so that strings repeat; long ones differ only in the middle. */
static struct ks_str some_text(struct numbers *numbers, char *text)
{
    size_t len = (size_t)numbers_below(numbers, LEN_MAX);
    for (size_t i = 0; i < len; i++) {
        text[i] = 'x';
    }
    size_t changes = len < 4 ? len : 2;
    for (size_t i = 0; i < changes; i++) {
        text[len / 2 - i / 2 * (len > 1)] = (char)('a' + (char)numbers_below(numbers, 8));
    }
    if (len > 0 && numbers_below(numbers, 4) == 0) {
        text[numbers_below(numbers, len)] = (char)numbers_below(numbers, 4);
    }
    return (struct ks_str){text, len};
}

static void test_random(void **state)
{
    (void)state;
    struct numbers numbers = {5};
    struct twin *twin = calloc(1, sizeof(*twin));
    assert_non_null(twin);
    twin->count = 1; // the empty string
    struct ks_strpool *pool = NULL;
    assert_int_equal(ks_strpool_create(&pool, NULL), KS_OK);
    for (int i = 0; i < 30000 && twin->count < STRINGS_MAX; i++) {
        char text[LEN_MAX];
        struct ks_str s = some_text(&numbers, text);
        size_t known = twin_id(twin, s);
        bool is_new = known == twin->count;
        struct ks_strid id = ks_strpool_find(pool, s);
        assert_int_equal(id.v, is_new ? 0 : known);
        assert_int_equal(ks_strpool_intern(pool, s, &id, NULL), KS_OK);
        assert_int_equal(id.v, known);
        if (is_new) {
            memcpy(twin->text[known], s.ptr, s.len);
            twin->len[known] = s.len;
            twin->count++;
        }
        assert_int_equal(ks_strpool_count(pool), twin->count);
    }
    for (uint32_t i = 0; i < twin->count; i++) {
        struct ks_str s = ks_strpool_get(pool, (struct ks_strid){i});
        assert_int_equal(s.len, twin->len[i]);
        assert_memory_equal(s.ptr, twin->text[i], s.len);
        assert_int_equal(s.ptr[s.len], '\0');
    }
    ks_strpool_destroy(pool);
    free(twin);
}

static void test_many(void **state)
{
    (void)state;
    struct ks_strpool *pool = NULL;
    assert_int_equal(ks_strpool_create(&pool, NULL), KS_OK);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 1; i <= 100000; i++) {
            char text[64];
            int len = snprintf(text, sizeof(text), "void at::native::kernel<%u>(float*)", i);
            struct ks_strid id;
            assert_int_equal(ks_strpool_intern(pool, (struct ks_str){text, (size_t)len}, &id, NULL),
                             KS_OK);
            assert_int_equal(id.v, i);
        }
    }
    ks_strpool_destroy(pool);
}

static void test_limits(void **state)
{
    (void)state;
    struct ks_strpool *pool = NULL;
    struct ks_strid id = {7};
    assert_int_equal(ks_strpool_create(&pool, NULL), KS_OK);
    assert_int_equal(ks_strpool_intern(pool, (struct ks_str){NULL, 0}, &id, NULL), KS_OK);
    assert_int_equal(id.v, 0);
    assert_int_equal(ks_strpool_get(pool, id).len, 0);

    char *text = calloc(1, KS_STR_LEN_MAX + 1);
    assert_non_null(text);
    struct ks_err err;
    assert_int_equal(ks_strpool_intern(pool, (struct ks_str){text, KS_STR_LEN_MAX}, &id, &err),
                     KS_OK);
    assert_int_equal(ks_strpool_intern(pool, (struct ks_str){text, KS_STR_LEN_MAX + 1}, &id, &err),
                     KS_ERR_LIMIT);
    assert_string_equal(err.message, "Cannot intern string: len=16777217");
    assert_int_equal(ks_strpool_count(pool), 2);
    free(text);
    ks_strpool_destroy(pool);
    ks_strpool_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
