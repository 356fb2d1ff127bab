/* Goal: rows of a run, and rows of many runs, come out ordered by (lane, start, longest first,
 * arrival). Method: random rows of several shapes against qsort with the arrival as last key. */
#include "store/sort.h"

#include <stdlib.h>

#include "cmocka_all.h"
#include "numbers.h"
#include "store/merge.h"

enum { ROWS_MAX = 6000, RUNS_MAX = 300 };

/* `aux` holds the place of arrival. */
static int compare(const void *left, const void *right)
{
    const struct ks_slice_row *a = left;
    const struct ks_slice_row *b = right;
    if (a->lane != b->lane) {
        return a->lane < b->lane ? -1 : 1;
    }
    if (a->start_ns != b->start_ns) {
        return a->start_ns < b->start_ns ? -1 : 1;
    }
    if (a->dur_ns != b->dur_ns) {
        return a->dur_ns > b->dur_ns ? -1 : 1;
    }
    if (a->order != b->order) {
        return a->order < b->order ? -1 : 1;
    }
    return a->aux < b->aux ? -1 : a->aux > b->aux;
}

enum shape { SHAPE_RANDOM, SHAPE_TIES, SHAPE_RISING, SHAPE_FALLING, SHAPE_STRETCHES, SHAPE_COUNT };

static void make_rows(struct ks_slice_row *rows, size_t count, enum shape shape,
                      struct numbers *numbers)
{
    int64_t clock = 0;
    for (size_t i = 0; i < count; i++) {
        struct ks_slice_row *row = &rows[i];
        *row = (struct ks_slice_row){.lane = 1, .aux = (int64_t)i};
        row->dur_ns = (int64_t)numbers_below(numbers, 3);
        row->order = (uint32_t)numbers_below(numbers, 2);
        switch (shape) {
        case SHAPE_RANDOM:
            row->lane = (uint32_t)numbers_below(numbers, 3);
            row->start_ns = (int64_t)(numbers_next(numbers) >> 2) * (row->lane == 1 ? -1 : 1);
            break;
        case SHAPE_TIES: row->start_ns = (int64_t)numbers_below(numbers, 8); break;
        case SHAPE_RISING: row->start_ns = (int64_t)i; break;
        case SHAPE_FALLING: row->start_ns = -(int64_t)i / 2; break;
        default:
            clock += (int64_t)numbers_below(numbers, 50);
            clock = numbers_below(numbers, 200) == 0 ? 0 : clock;
            row->start_ns = clock;
            break;
        }
    }
}

static void check_rows(const struct ks_slice_row *got, struct ks_slice_row *twin, size_t count)
{
    qsort(twin, count, sizeof(*twin), compare);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(got[i].aux, twin[i].aux);
    }
}

static void test_sort(void **state)
{
    (void)state;
    static struct ks_slice_row rows[ROWS_MAX];
    static struct ks_slice_row out[ROWS_MAX];
    struct numbers numbers = {10};
    struct ks_sorter sorter;
    ks_sorter_init(&sorter);
    for (int i = 0; i < 400; i++) {
        size_t count = (size_t)numbers_below(&numbers, i < 300 ? 100 : ROWS_MAX) + 1;
        make_rows(rows, count, (enum shape)(i % SHAPE_COUNT), &numbers);
        assert_int_equal(ks_sorter_reserve(&sorter, count, NULL), KS_OK);
        ks_sorter_sort(&sorter, (const char *)rows, sizeof(rows[0]), count, (char *)out);
        check_rows(out, rows, count);
    }
    ks_sorter_release(&sorter);
}

struct collected {
    struct ks_slice_row rows[ROWS_MAX];
    size_t count;
};

static enum ks_status collect(void *user, char *rows, size_t count, struct ks_err *err)
{
    (void)err;
    struct collected *collected = user;
    memcpy(&collected->rows[collected->count], rows, count * sizeof(collected->rows[0]));
    collected->count += count;
    return KS_OK;
}

/* Cuts the rows into sorted runs of random length. */
static size_t make_runs(struct ks_chunk_pool *pool, const struct ks_slice_row *rows, size_t count,
                        struct ks_run *runs, struct numbers *numbers)
{
    struct ks_sorter sorter;
    ks_sorter_init(&sorter);
    size_t run_count = 0;
    size_t longest = count / 100 + 1 + (size_t)numbers_below(numbers, 60);
    for (size_t begin = 0; begin < count;) {
        size_t n = (size_t)numbers_below(numbers, longest) + 1;
        n = n < count - begin && run_count < RUNS_MAX - 1 ? n : count - begin;
        struct ks_run *run = &runs[run_count++];
        size_t size = n * sizeof(*rows);
        assert_int_equal(ks_sorter_reserve(&sorter, n, NULL), KS_OK);
        assert_int_equal(ks_chunk_create(pool, size, &run->chunk, NULL), KS_OK);
        char *out = run->chunk->ptr;
        ks_sorter_sort(&sorter, (const char *)&rows[begin], sizeof(*rows), n, out);
        run->rows = (uint32_t)n;
        run->first = ks_row_head_at(out);
        run->last = ks_row_head_at(out + (n - 1) * sizeof(*rows));
        ks_chunk_unpin(pool, run->chunk, true);
        begin += n;
    }
    ks_sorter_release(&sorter);
    return run_count;
}

static void check_merge(uint64_t bytes_max, size_t fan_in, enum shape shape, uint64_t seed)
{
    static struct ks_slice_row rows[ROWS_MAX];
    static struct collected collected;
    struct numbers numbers = {seed};
    struct ks_run runs[RUNS_MAX] = {0};
    struct ks_chunk_pool *pool = NULL;
    assert_int_equal(ks_chunk_pool_create(bytes_max, &pool, NULL), KS_OK);
    size_t count = (size_t)numbers_below(&numbers, ROWS_MAX) + 1;
    make_rows(rows, count, shape, &numbers);
    size_t run_count = make_runs(pool, rows, count, runs, &numbers);
    collected.count = 0;
    struct ks_merge merge = {pool, sizeof(rows[0]), fan_in, 2000, collect, &collected};
    assert_int_equal(ks_merge_runs(&merge, runs, run_count, NULL), KS_OK);
    assert_int_equal(collected.count, count);
    check_rows(collected.rows, rows, count);
    ks_chunk_pool_destroy(pool);
}

static void test_merge(void **state)
{
    (void)state;
    static const size_t fan_ins[] = {2, 3, 7, SIZE_MAX};
    uint64_t seed = 11;
    for (size_t f = 0; f < KS_COUNT_OF(fan_ins); f++) {
        for (int shape = 0; shape < SHAPE_COUNT; shape++) {
            check_merge(0, fan_ins[f], (enum shape)shape, seed++);
            check_merge(30000, fan_ins[f], (enum shape)shape, seed++);
        }
    }
}

static struct ks_run run_of(int64_t first, int64_t last)
{
    return (struct ks_run){
        .rows = 2, .first = {.lane = 1, .start_ns = first}, .last = {.lane = 1, .start_ns = last}};
}

static void check_depth(const struct ks_run *runs, size_t count, size_t depth)
{
    size_t got = 0;
    assert_int_equal(ks_merge_depth(runs, count, &got, NULL), KS_OK);
    assert_int_equal(got, depth);
}

static void test_depth(void **state)
{
    (void)state;
    const struct ks_run apart[] = {run_of(20, 30), run_of(0, 10), run_of(40, 40)};
    check_depth(apart, 3, 1);
    const struct ks_run chained[] = {run_of(0, 10), run_of(10, 20), run_of(20, 30)};
    check_depth(chained, 3, 1); // equal rows of a later run come later
    const struct ks_run against[] = {run_of(10, 20), run_of(0, 10)};
    check_depth(against, 2, 2);
    const struct ks_run nested[] = {run_of(0, 100), run_of(1, 2), run_of(3, 50), run_of(50, 60)};
    check_depth(nested, 4, 2);
    const struct ks_run all[] = {run_of(0, 100), run_of(1, 99), run_of(2, 98)};
    check_depth(all, 3, 3);
    check_depth(all, 1, 1);
    check_depth(NULL, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sort),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
