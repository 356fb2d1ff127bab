/* Goal: the map keeps each key apart and finds it again. Method: random puts and finds against a
 * plain list, with keys from a small range so that they repeat. */
#include "base/map.h"

#include "cmocka_all.h"
#include "numbers.h"

enum { KEYS_MAX = 3000 };

struct twin {
    uint64_t a[KEYS_MAX];
    uint64_t b[KEYS_MAX];
    uint64_t value[KEYS_MAX];
    size_t count;
};

static uint64_t *twin_find(struct twin *twin, uint64_t a, uint64_t b)
{
    for (size_t i = 0; i < twin->count; i++) {
        if (twin->a[i] == a && twin->b[i] == b) {
            return &twin->value[i];
        }
    }
    return NULL;
}

static void test_random(void **state)
{
    (void)state;
    static struct twin twin;
    struct numbers numbers = {3};
    struct ks_map map;
    ks_map_init(&map);
    assert_null(ks_map_find(&map, 0, 0));
    for (int i = 0; i < 12000; i++) {
        uint64_t a = numbers_below(&numbers, 60) << (numbers_below(&numbers, 2) * 58);
        uint64_t b = numbers_below(&numbers, 25);
        uint64_t *known = twin_find(&twin, a, b);
        uint64_t *found = ks_map_find(&map, a, b);
        assert_int_equal(found != NULL, known != NULL);
        if (found) {
            assert_int_equal(*found, *known);
        }
        if (numbers_below(&numbers, 2) == 0) {
            bool added = false;
            uint64_t *value = ks_map_put(&map, a, b, &added);
            assert_non_null(value);
            assert_int_equal(added, known == NULL);
            assert_int_equal(*value, known ? *known : 0);
            *value = numbers_next(&numbers);
            if (!known) {
                twin.a[twin.count] = a;
                twin.b[twin.count] = b;
                known = &twin.value[twin.count++];
            }
            *known = *value;
        }
        assert_int_equal(map.count, twin.count);
    }
    ks_map_release(&map);
    assert_null(ks_map_find(&map, 0, 0));
    assert_non_null(ks_map_put(&map, 1, 2, NULL)); // a released map can be filled again
    ks_map_release(&map);
}

/* Large ones take their memory by another way, and grow into it. */
static void test_many(void **state)
{
    (void)state;
    enum { KEYS = 200000 };
    struct ks_map map;
    ks_map_init(&map);
    for (uint64_t i = 0; i < KEYS; i++) {
        uint64_t *value = ks_map_put(&map, i, i / 7, NULL);
        assert_true(value && *value == 0);
        *value = i + 1;
    }
    for (uint64_t i = 0; i < KEYS; i++) {
        const uint64_t *value = ks_map_find(&map, i, i / 7);
        assert_true(value && *value == i + 1);
        assert_null(ks_map_find(&map, i, i / 7 + 1));
    }
    assert_int_equal(map.count, KEYS);
    ks_map_release(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
