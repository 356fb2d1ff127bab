/* Goal: the map finds what was added and nothing else, and refuses when it is full. Method: keys of
 * a small range against a plain array, until the map is full; then again after a reset. */
#include "capture/sampler/id_map.h"

#include <string.h>

#include "cmocka_all.h"

enum { LOG2 = 8, ROOM = (1 << LOG2) / 4 * 3, SIDE = 8 };

static uint32_t twin[SIDE][SIDE][SIDE];

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * UINT32_C(1664525) + UINT32_C(1013904223);
    return *seed >> 16;
}

static void check_all(const struct ks_id_map *map)
{
    for (uint32_t i = 0; i < SIDE * SIDE * SIDE; i++) {
        uint32_t a = i / (SIDE * SIDE), b = i / SIDE % SIDE, c = i % SIDE;
        assert_int_equal(ks_id_map_find(map, a, b, c), twin[a][b][c]);
    }
}

static void fill(struct ks_id_map *map, uint32_t *seed)
{
    uint32_t added = 0;
    while (!ks_id_map_is_full(map)) {
        uint32_t a = next_random(seed) % SIDE, b = next_random(seed) % SIDE;
        uint32_t c = next_random(seed) % SIDE;
        if (twin[a][b][c] == 0) {
            twin[a][b][c] = ++added;
            ks_id_map_add(map, a, b, c, added);
        }
    }
    assert_in_range(added, ROOM - 2, ROOM + 1);
}

static void test_against_an_array(void **state)
{
    (void)state;
    struct ks_id_map map;
    uint32_t seed = 1;
    assert_true(ks_id_map_init(&map, LOG2));
    for (int round = 0; round < 3; round++) {
        fill(&map, &seed);
        check_all(&map);
        ks_id_map_add(&map, SIDE, 0, 0, 1); // there is no room
        assert_int_equal(ks_id_map_find(&map, SIDE, 0, 0), 0);
        ks_id_map_reset(&map);
        memset(twin, 0, sizeof(twin));
        check_all(&map);
    }
    ks_id_map_release(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_an_array)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
