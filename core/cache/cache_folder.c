#include "cache/cache_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "base/seed.h"

enum {
    FILES_MAX = 2000,         /* more are not looked through at each report */
    DRAFT_SECONDS_MAX = 3600, /* one this old belongs to nobody any more */
    FREE_PERCENT_MIN = 5,     /* of the disk, which stays free */
};

static const char draft_prefix[] = "draft-";

/* ------------------------------------------------------------------ opening */

/* False: there is no place to keep a cache. */
static bool find_path(char *out, size_t size, const char *path)
{
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int len = -1;
    if (path) {
        len = snprintf(out, size, "%s", path);
    } else if (cache && cache[0] == '/') { // others are to be ignored, says the specification
        len = snprintf(out, size, "%s/kinetoscope", cache);
    } else if (home && home[0] == '/') {
        len = snprintf(out, size, "%s/.cache/kinetoscope", home);
    }
    return len > 0 && (size_t)len < size;
}

/* Makes the folder and those above it; only what is missing. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    (void)mkdir(path, 0700);
}

static bool is_private(const struct stat *info, mode_t kind, mode_t forbidden)
{
    return (info->st_mode & S_IFMT) == kind && info->st_uid == geteuid() &&
           (info->st_mode & forbidden) == 0;
}

const char *ks_cache_folder_open(struct ks_cache_folder *folder, const char *path,
                                 uint64_t bytes_max)
{
    struct stat info;
    folder->fd = -1;
    folder->bytes_max = bytes_max;
    if (!find_path(folder->path, sizeof(folder->path), path)) {
        return "neither XDG_CACHE_HOME nor HOME names a folder";
    }
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0 && errno == ENOENT) {
        make_folders(folder->path);
        folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (folder->fd < 0) {
        return strerror(errno);
    }
    if (fstat(folder->fd, &info) != 0 || !is_private(&info, S_IFDIR, 0022)) {
        ks_cache_folder_close(folder);
        return "it belongs to someone else, or others may write to it";
    }
    return NULL;
}

void ks_cache_folder_close(struct ks_cache_folder *folder)
{
    if (folder->fd >= 0) {
        (void)close(folder->fd);
        folder->fd = -1;
    }
}

/* ------------------------------------------------------------------ finding */

int ks_cache_folder_find(const struct ks_cache_folder *folder, const char *name)
{
    struct stat info;
    int fd = openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &info) != 0 || !is_private(&info, S_IFREG, 0177)) {
        (void)close(fd);
        return -1;
    }
    (void)futimens(fd, NULL); // what was used last goes last
    return fd;
}

void ks_cache_folder_remove(const struct ks_cache_folder *folder, const char *name)
{
    (void)unlinkat(folder->fd, name, 0);
}

/* ------------------------------------------------------------------ drafts */

static bool has_room(const struct ks_cache_folder *folder)
{
    struct statvfs disk;
    return fstatvfs(folder->fd, &disk) == 0 &&
           disk.f_bavail >= disk.f_blocks / 100 * FREE_PERCENT_MIN;
}

static void make_name(char name[KS_CACHE_NAME_SIZE])
{
    snprintf(name, KS_CACHE_NAME_SIZE, "%s%016llx", draft_prefix,
             (unsigned long long)ks_seed_random());
}

bool ks_cache_draft_open(const struct ks_cache_folder *folder, struct ks_cache_draft *draft)
{
    draft->name[0] = '\0';
    draft->fd = -1;
    if (!has_room(folder)) {
        return false;
    }
    draft->fd = openat(folder->fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (draft->fd < 0) { // not every file system has files without a name
        make_name(draft->name);
        draft->fd = openat(folder->fd, draft->name,
                           O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    return draft->fd >= 0 && fchmod(draft->fd, 0600) == 0; // whatever the umask is
}

void ks_cache_draft_drop(const struct ks_cache_folder *folder, struct ks_cache_draft *draft)
{
    if (draft->name[0]) {
        ks_cache_folder_remove(folder, draft->name);
    }
    if (draft->fd >= 0) {
        (void)close(draft->fd);
    }
    draft->name[0] = '\0';
    draft->fd = -1;
}

/* A link cannot take the place of another file, a rename can: so the draft gets a name first. */
static bool name_draft(const struct ks_cache_folder *folder, struct ks_cache_draft *draft)
{
    if (draft->name[0]) {
        return true;
    }
    char path[64];
    make_name(draft->name);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", draft->fd);
    if (linkat(AT_FDCWD, path, folder->fd, draft->name, AT_SYMLINK_FOLLOW) != 0) {
        draft->name[0] = '\0';
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------ size */

struct file {
    char name[KS_CACHE_NAME_SIZE];
    uint64_t bytes;
    int64_t used_ns;
};

struct files {
    struct file *list;
    size_t count;
    size_t capacity;
    uint64_t bytes;
};

static int compare_use(const void *a, const void *b)
{
    const struct file *x = a;
    const struct file *y = b;
    int by_use = (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
    return by_use ? by_use : strcmp(x->name, y->name);
}

/* Files of other names are none of ours, and stay. */
static bool is_ours(const char *name)
{
    size_t len = strlen(name);
    size_t digits = strspn(name, "0123456789abcdef");
    const char *end = name + digits;
    return len < KS_CACHE_NAME_SIZE && digits == 32 &&
           (strcmp(end, ".kst") == 0 ||
            (end[0] == '.' && strlen(end) > 6 && strcmp(name + len - 6, ".facts") == 0));
}

static bool is_old_draft(const char *name, const struct stat *info)
{
    return strncmp(name, draft_prefix, sizeof(draft_prefix) - 1) == 0 &&
           time(NULL) - info->st_mtim.tv_sec > DRAFT_SECONDS_MAX;
}

static void add_file(const struct ks_cache_folder *folder, const char *name, struct files *files)
{
    struct stat info;
    if (fstatat(folder->fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) {
        return;
    }
    if (is_old_draft(name, &info)) {
        ks_cache_folder_remove(folder, name);
        return;
    }
    struct ks_err ignored;
    if (!is_ours(name) || ks_grow(&files->list, files->count, &files->capacity,
                                  sizeof(*files->list), "files", &ignored) != KS_OK) {
        return;
    }
    struct file *file = &files->list[files->count++];
    memcpy(file->name, name, strlen(name) + 1); // is_ours has looked at its length
    file->bytes = (uint64_t)info.st_size;
    file->used_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    files->bytes += file->bytes;
}

static void list_files(const struct ks_cache_folder *folder, struct files *files)
{
    int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        add_file(folder, entry->d_name, files);
    }
    (void)closedir(dir);
}

static void shrink(const struct ks_cache_folder *folder)
{
    struct files files = {0};
    list_files(folder, &files);
    size_t left = files.count;
    if (left > 1) {
        qsort(files.list, files.count, sizeof(*files.list), compare_use);
    }
    for (size_t i = 0; i < files.count && (files.bytes > folder->bytes_max || left > FILES_MAX);
         i++) {
        ks_cache_folder_remove(folder, files.list[i].name);
        files.bytes -= files.list[i].bytes;
        left--;
    }
    ks_free(files.list);
}

bool ks_cache_draft_publish(const struct ks_cache_folder *folder, struct ks_cache_draft *draft,
                            const char *name)
{
    struct stat info;
    bool is_done = fstat(draft->fd, &info) == 0 && (uint64_t)info.st_size <= folder->bytes_max &&
                   name_draft(folder, draft) &&
                   renameat(folder->fd, draft->name, folder->fd, name) == 0;
    if (is_done) {
        draft->name[0] = '\0';
    }
    ks_cache_draft_drop(folder, draft);
    if (is_done) {
        shrink(folder);
    }
    return is_done;
}
