/* Goal: only files of this user with mode 0600 are believed, a file is there whole or not at all,
 * and the folder stays below its size. Method: a folder of its own for each test, with files that
 * are wrong in one way each, and use that is set back in time. */
#include "cache/cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmocka_all.h"

#define NAME(digit) digit "123456789abcdef0123456789abcdef.kst"

static char root[] = "/tmp/kscope-cache-XXXXXX";
static char path[128];

static void set_up(struct ks_cache_folder *folder, const char *name, uint64_t bytes_max)
{
    snprintf(path, sizeof(path), "%s/%s/deep", root, name);
    assert_null(ks_cache_folder_open(folder, path, bytes_max));
}

static bool put(const struct ks_cache_folder *folder, const char *name, size_t size)
{
    struct ks_cache_draft draft;
    char bytes[1000] = {1};
    assert_true(ks_cache_draft_open(folder, &draft));
    assert_int_equal(write(draft.fd, bytes, size), size);
    return ks_cache_draft_publish(folder, &draft, name);
}

static bool has(const struct ks_cache_folder *folder, const char *name)
{
    int fd = ks_cache_folder_find(folder, name);
    if (fd >= 0) {
        (void)close(fd);
    }
    return fd >= 0;
}

static void set_age(const struct ks_cache_folder *folder, const char *name, time_t seconds)
{
    struct timespec times[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    assert_int_equal(utimensat(folder->fd, name, times, 0), 0);
}

static size_t count_files(void)
{
    size_t count = 0;
    DIR *dir = opendir(path);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(dir);
    return count;
}

static mode_t mode_of(const char *file)
{
    struct stat info;
    assert_int_equal(stat(file, &info), 0);
    return info.st_mode & 07777;
}

static void test_modes(void **state)
{
    (void)state;
    char file[256];
    struct ks_cache_folder folder;
    mode_t old = umask(0);
    set_up(&folder, "modes", 1 << 20);
    assert_true(put(&folder, NAME("a"), 10));
    (void)umask(old);
    snprintf(file, sizeof(file), "%s/%s", path, NAME("a"));
    assert_int_equal(mode_of(path), 0700);
    assert_int_equal(mode_of(file), 0600);
    assert_true(has(&folder, NAME("a")));
    assert_int_equal(chmod(file, 0644), 0);
    assert_false(has(&folder, NAME("a")));
    assert_int_equal(chmod(file, 0600), 0);
    assert_true(has(&folder, NAME("a")));
    if (geteuid() == 0) {
        assert_int_equal(chown(file, 1, 1), 0);
        assert_false(has(&folder, NAME("a")));
    }
    ks_cache_folder_close(&folder);
}

static void test_no_plain_file(void **state)
{
    (void)state;
    struct ks_cache_folder folder;
    set_up(&folder, "plain", 1 << 20);
    assert_true(put(&folder, NAME("a"), 10));
    assert_int_equal(symlinkat(NAME("a"), folder.fd, NAME("b")), 0);
    assert_false(has(&folder, NAME("b")));
    assert_int_equal(mkfifoat(folder.fd, NAME("c"), 0600), 0);
    assert_false(has(&folder, NAME("c")));
    assert_int_equal(mkdirat(folder.fd, NAME("d"), 0700), 0);
    assert_false(has(&folder, NAME("d")));
    assert_false(has(&folder, NAME("e")));
    ks_cache_folder_close(&folder);
}

static void test_folders_not_ours(void **state)
{
    (void)state;
    struct ks_cache_folder folder;
    char other[128];
    snprintf(other, sizeof(other), "%s/open", root);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(chmod(other, 0770), 0);
    assert_non_null(ks_cache_folder_open(&folder, other, 100));
    assert_int_equal(chmod(other, 0755), 0); // others may look, and see files of mode 0600
    assert_null(ks_cache_folder_open(&folder, other, 100));
    ks_cache_folder_close(&folder);
    assert_non_null(ks_cache_folder_open(&folder, "/tmp", 100));
    assert_non_null(ks_cache_folder_open(&folder, "/dev/null", 100));
    assert_non_null(ks_cache_folder_open(&folder, "/proc/kscope/none", 100));
    if (geteuid() == 0) {
        assert_int_equal(chown(other, 1, 1), 0);
        assert_non_null(ks_cache_folder_open(&folder, other, 100));
    }
    assert_true(folder.fd < 0);
}

static void test_default_path(void **state)
{
    (void)state;
    struct ks_cache_folder folder;
    char wanted[256];
    assert_int_equal(setenv("XDG_CACHE_HOME", root, 1), 0);
    snprintf(wanted, sizeof(wanted), "%s/kinetoscope", root);
    assert_null(ks_cache_folder_open(&folder, NULL, 100));
    assert_string_equal(folder.path, wanted);
    ks_cache_folder_close(&folder);
    assert_int_equal(setenv("XDG_CACHE_HOME", "relative", 1), 0);
    assert_int_equal(setenv("HOME", root, 1), 0);
    snprintf(wanted, sizeof(wanted), "%s/.cache/kinetoscope", root);
    assert_null(ks_cache_folder_open(&folder, NULL, 100));
    assert_string_equal(folder.path, wanted);
    ks_cache_folder_close(&folder);
    assert_int_equal(unsetenv("HOME"), 0);
    assert_non_null(ks_cache_folder_open(&folder, NULL, 100));
}

/* What was used last stays; a foreign file stays; what is larger than all never gets in. */
static void test_size(void **state)
{
    (void)state;
    struct ks_cache_folder folder;
    set_up(&folder, "size", 250);
    int fd = openat(folder.fd, "notes.txt", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "1234567890", 10), 10);
    (void)close(fd);
    assert_true(put(&folder, NAME("a"), 100));
    assert_true(put(&folder, NAME("b"), 100));
    set_age(&folder, NAME("a"), 50);
    set_age(&folder, NAME("b"), 30);
    assert_true(has(&folder, NAME("a"))); // used now
    assert_true(put(&folder, NAME("c"), 100));
    assert_true(has(&folder, NAME("a")));
    assert_false(has(&folder, NAME("b")));
    assert_true(has(&folder, NAME("c")));
    assert_false(put(&folder, NAME("d"), 251));
    assert_true(put(&folder, NAME("d"), 250));
    assert_false(has(&folder, NAME("a")));
    assert_false(has(&folder, NAME("c")));
    assert_true(has(&folder, NAME("d")));
    assert_int_equal(faccessat(folder.fd, "notes.txt", F_OK, 0), 0);
    assert_int_equal(count_files(), 2);
    ks_cache_folder_close(&folder);
}

static void test_drafts(void **state)
{
    (void)state;
    struct ks_cache_folder folder;
    struct ks_cache_draft draft;
    set_up(&folder, "drafts", 1 << 20);
    assert_true(ks_cache_draft_open(&folder, &draft));
    assert_int_equal(write(draft.fd, "1", 1), 1);
    ks_cache_draft_drop(&folder, &draft);
    assert_int_equal(count_files(), 0);
    for (int i = 0; i < 2; i++) { // left behind by a crash where files cannot be without a name
        const char *name = i ? "draft-new" : "draft-old";
        (void)close(openat(folder.fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    }
    set_age(&folder, "draft-old", 7200);
    assert_true(put(&folder, NAME("a"), 10));
    assert_int_equal(faccessat(folder.fd, "draft-old", F_OK, 0), -1);
    assert_int_equal(faccessat(folder.fd, "draft-new", F_OK, 0), 0);
    assert_true(put(&folder, NAME("a"), 20)); // takes the place of the one that is there
    struct stat info;
    assert_int_equal(fstatat(folder.fd, NAME("a"), &info, 0), 0);
    assert_int_equal(info.st_size, 20);
    ks_cache_folder_close(&folder);
}

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_no_plain_file),
        cmocka_unit_test(test_folders_not_ours),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_drafts),
        cmocka_unit_test(test_default_path),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
