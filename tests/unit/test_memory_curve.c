/* Goal: peaks by kinds, and sizes of KV caches. Method: curves short enough to follow by hand; a
 * long one of random pieces against sums that are made anew at each step. */
#include <kscope/kscope.h>

#include <stdlib.h>

#include "cmocka_all.h"

static void check_kv(struct ks_kv_shape shape, uint64_t bytes)
{
    assert_true(ks_kv_bytes(&shape) == bytes);
}

static void test_kv_bytes(void **state)
{
    (void)state;
    check_kv((struct ks_kv_shape){2, 3, 5, 7, 11, 4}, 2 * 2 * 3 * 5 * 7 * 11 * 4);
    /* Llama 2 7B, 4096 tokens, half precision: 2 GiB. */
    check_kv((struct ks_kv_shape){32, 32, 128, 1, 4096, 2}, 2147483648);
    check_kv((struct ks_kv_shape){32, 32, 128, 1, 0, 2}, 0);
    check_kv((struct ks_kv_shape){UINT64_MAX, UINT64_MAX, 1, 1, 0, 2}, 0);
    check_kv((struct ks_kv_shape){UINT64_MAX / 2, 2, 1, 1, 1, 1}, UINT64_MAX);
}

static void test_peak_by_kind(void **state)
{
    (void)state;
    struct ks_memory_curve curve = {0};
    ks_memory_curve_change(&curve, 0, 100);
    ks_memory_curve_change(&curve, 1, 50);
    ks_memory_curve_change(&curve, 1, -50);
    ks_memory_curve_change(&curve, 2, 20);
    assert_true(curve.peak == 150 && curve.at_peak[0] == 100 && curve.at_peak[1] == 50);
    assert_true(curve.at_peak[2] == 0 && curve.total == 120 && curve.now[2] == 20);

    ks_memory_curve_move(&curve, 2, 1, 20);
    assert_true(curve.total == 120 && curve.now[1] == 20 && curve.now[2] == 0);
    ks_memory_curve_restart(&curve);
    assert_true(curve.peak == 120 && curve.at_peak[1] == 20);
}

static void test_blocks_and_shares(void **state)
{
    (void)state;
    struct ks_memory_curve curve = {.block = 512, .shares = {0, 4}};
    ks_memory_curve_change(&curve, 0, 1);
    ks_memory_curve_change(&curve, 0, 513);
    assert_true(curve.total == 512 + 1024);
    ks_memory_curve_change(&curve, 0, -513);
    ks_memory_curve_change(&curve, 1, 2049); // 513 of it are here
    assert_true(curve.total == 512 + 1024 && curve.now[1] == 1024);
    ks_memory_curve_move(&curve, 0, 1, 1);
    assert_true(curve.total == 512 + 1024);
    ks_memory_curve_change(&curve, 1, 0);
    assert_true(curve.total == 512 + 1024);
}

static void test_sums_stop_at_the_end(void **state)
{
    (void)state;
    struct ks_memory_curve curve = {0};
    ks_memory_curve_change(&curve, 0, INT64_MAX);
    ks_memory_curve_change(&curve, 1, INT64_MAX);
    assert_true(curve.total == INT64_MAX && curve.peak == INT64_MAX);
    ks_memory_curve_change(&curve, 2, INT64_MIN);
    assert_true(curve.now[2] == -INT64_MAX);
}

enum { PIECES = 200, CHANGES = 20000 };

static void test_random_pieces(void **state)
{
    (void)state;
    struct ks_memory_curve curve = {0};
    int64_t pieces[PIECES] = {0};
    int64_t peak = 0;
    srand(7);
    for (int i = 0; i < CHANGES; i++) {
        int at = rand() % PIECES;
        if (pieces[at] == 0) {
            pieces[at] = rand() % 1000 + 1;
            ks_memory_curve_change(&curve, (size_t)at % 3, pieces[at]);
        } else {
            ks_memory_curve_change(&curve, (size_t)at % 3, -pieces[at]);
            pieces[at] = 0;
        }
        int64_t total = 0;
        for (int k = 0; k < PIECES; k++) {
            total += pieces[k];
        }
        peak = total > peak ? total : peak;
        assert_true(curve.total == total && curve.peak == peak);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kv_bytes),          cmocka_unit_test(test_peak_by_kind),
        cmocka_unit_test(test_blocks_and_shares), cmocka_unit_test(test_sums_stop_at_the_end),
        cmocka_unit_test(test_random_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
