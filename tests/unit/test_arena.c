/* Goal: arena memory is zeroed, aligned, apart from other memory, and comes back by rewind.
 * Method: random allocations, marks and rewinds against a list of what is live. */
#include "base/arena.h"

#include <string.h>

#include "cmocka_all.h"
#include "numbers.h"

enum { LIVE_MAX = 400, MARKS_MAX = 8 };

struct live {
    unsigned char *ptr;
    size_t size;
    unsigned char fill;
};

static void check_live(const struct live *live, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool is_same = true;
        for (size_t k = 0; k < live[i].size; k++) {
            is_same = is_same && live[i].ptr[k] == live[i].fill;
        }
        assert_true(is_same);
    }
}

static size_t some_size(struct numbers *numbers)
{
    uint64_t kind = numbers_below(numbers, 200);
    return (size_t)numbers_below(numbers, kind == 0 ? 2500000 : kind < 10 ? 10000 : 200);
}

static void test_random(void **state)
{
    (void)state;
    struct numbers numbers = {2};
    for (int round = 0; round < 10; round++) {
        struct live live[LIVE_MAX];
        size_t count = 0;
        struct ks_arena_mark marks[MARKS_MAX];
        size_t counts_at_mark[MARKS_MAX];
        size_t mark_count = 0;
        struct ks_arena arena;
        ks_arena_init(&arena);
        for (int step = 0; step < 600; step++) {
            uint64_t action = numbers_below(&numbers, 20);
            if (action == 0 && mark_count < MARKS_MAX) {
                counts_at_mark[mark_count] = count;
                marks[mark_count++] = ks_arena_mark(&arena);
            } else if (action == 1 && mark_count > 0) {
                check_live(live, count);
                mark_count = (size_t)numbers_below(&numbers, mark_count);
                ks_arena_rewind(&arena, marks[mark_count]);
                count = counts_at_mark[mark_count];
            } else if (count < LIVE_MAX) {
                size_t size = some_size(&numbers);
                unsigned char *ptr = ks_new(&arena, unsigned char, size);
                assert_non_null(ptr);
                assert_int_equal((uintptr_t)ptr % 16, 0);
                live[count] = (struct live){ptr, size, 0};
                check_live(&live[count], 1);
                live[count].fill = (unsigned char)(numbers_below(&numbers, 255) + 1);
                memset(ptr, live[count].fill, size);
                count++;
            }
        }
        check_live(live, count);
        ks_arena_release(&arena);
        assert_int_equal(arena.bytes_total, 0);
    }
}

static void test_limits(void **state)
{
    (void)state;
    struct ks_arena arena;
    ks_arena_init(&arena);
    assert_null(ks_arena_alloc(&arena, SIZE_MAX, 2));
    assert_null(ks_arena_alloc(&arena, SIZE_MAX / 2, 1));
    assert_non_null(ks_arena_alloc(&arena, 0, 8));
    char *copy = ks_arena_copy(&arena, "abc", 3);
    assert_string_equal(copy, "abc");
    assert_string_equal(ks_arena_copy(&arena, NULL, 0), "");
    ks_arena_release(&arena);
    ks_arena_release(&arena); // released memory can be released again
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
