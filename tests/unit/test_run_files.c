/* Goal: of the files in folders of runs just those of the wanted window are read, and recordings
 * with stacks go with the clean ones beside them. Method: lists of paths, one line each. */
#include <string.h>

#include "base/err.h"
#include "cmocka_all.h"
#include "read/run_folder.h"
#include "read/stacks.h"

#define CLEAN(stem) stem ".pt.trace.json.gz"
#define STACKS(stem) stem ".stacks.pt.trace.json.gz"

static struct ks_arena arena;

static struct ks_file_list list_of(const char *const *paths, bool is_given)
{
    struct ks_file_list files = {0};
    for (; *paths; paths++) {
        struct ks_file_entry entry = {*paths, is_given};
        assert_int_equal(ks_file_list_append(&files, &entry, &arena, NULL), KS_OK);
    }
    return files;
}

/* `expected` and `paths` end with NULL; order stays. */
static void check(int64_t window, const char *const *paths, const char *const *expected)
{
    struct ks_file_list files = list_of(paths, false);
    assert_int_equal(ks_run_folder_choose(&files, window, &arena, NULL), KS_OK);
    for (size_t i = 0; i < files.count; i++) {
        assert_non_null(expected[i]);
        assert_string_equal(files.list[i].path, expected[i]);
    }
    assert_null(expected[files.count]);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_windows(void **state)
{
    (void)state;
    check(0, LIST(CLEAN("d/rank0.pid5.window2"), CLEAN("d/rank0.pid5.window10")),
          LIST(CLEAN("d/rank0.pid5.window10")));
    check(2, LIST(CLEAN("d/rank0.pid5.window2"), CLEAN("d/rank0.pid5.window10")),
          LIST(CLEAN("d/rank0.pid5.window2")));
    check(0, LIST(STACKS("rank0.pid5.window1"), CLEAN("rank0.pid5.window2")),
          LIST(CLEAN("rank0.pid5.window2")));
    check(0, LIST("a.json", CLEAN("rank0.pid5.window2")),
          LIST("a.json", CLEAN("rank0.pid5.window2")));
    check(2, LIST("a.json", CLEAN("rank0.pid5.window2")), LIST(CLEAN("rank0.pid5.window2")));
}

static void test_other_processes_replace_nothing(void **state)
{
    (void)state;
    check(0, LIST(CLEAN("d/rank0.pid5.window1"), CLEAN("d/rank1.pid5.window2")),
          LIST(CLEAN("d/rank0.pid5.window1"), CLEAN("d/rank1.pid5.window2")));
    check(0, LIST(CLEAN("d/rank0.pid5.window1"), CLEAN("d/rank0.pid6.window2")),
          LIST(CLEAN("d/rank0.pid5.window1"), CLEAN("d/rank0.pid6.window2")));
    check(0, LIST(CLEAN("d/rank0.pid5.window1"), CLEAN("e/rank0.pid5.window2")),
          LIST(CLEAN("d/rank0.pid5.window1"), CLEAN("e/rank0.pid5.window2")));
    check(0, LIST(CLEAN("rank0.pid5.window1"), CLEAN("e/rank0.pid5.window2")),
          LIST(CLEAN("rank0.pid5.window1"), CLEAN("e/rank0.pid5.window2")));
}

static void test_given_files_stay(void **state)
{
    (void)state;
    struct ks_file_list files =
        list_of(LIST(CLEAN("rank0.pid5.window1"), CLEAN("rank0.pid5.window2")), true);
    assert_int_equal(ks_run_folder_choose(&files, 0, &arena, NULL), KS_OK);
    assert_int_equal(files.count, 2);
    assert_int_equal(ks_run_folder_choose(&files, 3, &arena, NULL), KS_ERR_USAGE);
}

/* How many of the files are taken for recordings with stacks. */
static size_t taken(const char *const *paths)
{
    struct ks_file_list files = list_of(paths, false);
    struct ks_stacks_list stacks = {.arena = &arena};
    size_t count = files.count;
    assert_int_equal(ks_stacks_list_take(&stacks, &files, NULL), KS_OK);
    assert_int_equal(files.count + stacks.count, count);
    return stacks.count;
}

static void test_stacks(void **state)
{
    (void)state;
    assert_int_equal(taken(LIST(CLEAN("d/x"), STACKS("d/x"))), 1);
    assert_int_equal(taken(LIST(STACKS("d/x"), CLEAN("d/x"), STACKS("d/y"), CLEAN("d/y"))), 2);
    assert_int_equal(taken(LIST(STACKS("d/x"))), 0);
    assert_int_equal(taken(LIST(CLEAN("d/y"), STACKS("d/x"))), 0);
    assert_int_equal(taken(LIST(CLEAN("e/x"), STACKS("d/x"))), 0);
    assert_int_equal(taken(LIST("d/x.pt.trace.json", STACKS("d/x"))), 0);
    assert_int_equal(taken(LIST(CLEAN("a.stacks.d/x"), CLEAN("a.d/x"))), 0);
}

static int release(void **state)
{
    (void)state;
    ks_arena_release(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_other_processes_replace_nothing),
        cmocka_unit_test(test_given_files_stay),
        cmocka_unit_test(test_stacks),
    };
    ks_arena_init(&arena);
    return cmocka_run_group_tests(tests, NULL, release);
}
