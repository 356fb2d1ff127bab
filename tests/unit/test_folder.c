/* Goal: folders give the traces in them, sorted, and nothing else. Method: one tree with every kind
 * of name. */
#include "read/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmocka_all.h"

static char root[64];

static const char *const FOLDERS[] = {"a", "a/deep", ".hidden", "empty", "folder.json"};
static const char *const FILES[] = {
    "b.json",     "a/z.json.gz", "a/deep/y.json.zst", "a/x.trace", "notes.txt",           ".c.json",
    "c.json.tmp", ".json",       ".hidden/d.json",    "json",      "folder.json/in.json",
};
/* What a scan gives: by path, links followed to files but not to folders. */
static const char *const FOUND[] = {
    "a/deep/y.json.zst", "a/x.trace", "a/z.json.gz", "b.json", "folder.json/in.json", "link.json",
};

static const char *path_of(const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    return path;
}

static int make_tree(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof(root), "/tmp/ks_test_folder_XXXXXX");
    if (!mkdtemp(root)) {
        return -1;
    }
    for (size_t i = 0; i < KS_COUNT_OF(FOLDERS); i++) {
        (void)mkdir(path_of(FOLDERS[i]), 0700);
    }
    for (size_t i = 0; i < KS_COUNT_OF(FILES); i++) {
        FILE *file = fopen(path_of(FILES[i]), "w");
        if (!file || fclose(file) != 0) {
            return -1;
        }
    }
    return symlink("b.json", path_of("link.json")) || symlink("..", path_of("a/loop")) ||
           symlink("nowhere", path_of("dangling.json"));
}

static int remove_tree(void **state)
{
    (void)state;
    (void)unlink(path_of("link.json"));
    (void)unlink(path_of("a/loop"));
    (void)unlink(path_of("dangling.json"));
    for (size_t i = 0; i < KS_COUNT_OF(FILES); i++) {
        (void)unlink(path_of(FILES[i]));
    }
    for (size_t i = KS_COUNT_OF(FOLDERS); i > 0; i--) {
        (void)rmdir(path_of(FOLDERS[i - 1]));
    }
    return rmdir(root);
}

static void check_found(const char *folder)
{
    struct ks_arena arena;
    ks_arena_init(&arena);
    struct ks_file_list files = {0};
    struct ks_err err = {0};
    assert_int_equal(ks_file_list_add(&files, folder, &arena, &err), KS_OK);
    assert_int_equal(files.count, KS_COUNT_OF(FOUND));
    for (size_t i = 0; i < files.count; i++) {
        assert_string_equal(files.list[i].path, path_of(FOUND[i]));
        assert_false(files.list[i].is_given);
    }
    ks_arena_release(&arena);
}

static void test_folder(void **state)
{
    (void)state;
    check_found(root);
    char slash[128];
    (void)snprintf(slash, sizeof(slash), "%s/", root);
    check_found(slash); // no second slash in the paths
}

/* Paths that are given are taken as they are, even when nothing is there: opening says why. */
static void test_given(void **state)
{
    (void)state;
    struct ks_arena arena;
    ks_arena_init(&arena);
    struct ks_file_list files = {0};
    struct ks_err err = {0};
    static const char *const GIVEN[] = {"notes.txt", "missing", "-"};
    for (size_t i = 0; i < KS_COUNT_OF(GIVEN); i++) {
        assert_int_equal(ks_file_list_add(&files, GIVEN[i], &arena, &err), KS_OK);
        assert_string_equal(files.list[i].path, GIVEN[i]);
        assert_true(files.list[i].is_given);
    }
    for (int i = 0; i < 100; i++) { // the list grows
        assert_int_equal(ks_file_list_add(&files, "x.json", &arena, &err), KS_OK);
    }
    assert_int_equal(files.count, 103);
    ks_arena_release(&arena);
}

static void test_empty(void **state)
{
    (void)state;
    struct ks_arena arena;
    ks_arena_init(&arena);
    struct ks_file_list files = {0};
    struct ks_err err = {0};
    assert_int_equal(ks_file_list_add(&files, path_of("empty"), &arena, &err), KS_ERR_IO);
    assert_int_equal(files.count, 0);
    ks_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_given),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
