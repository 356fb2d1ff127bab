#include "capture/monitor/kept_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "capture/shared/small_file.h"

bool ks_kept_path(char out[KS_KEPT_PATH_SIZE], const char *root, const char *folder,
                  const char *name)
{
    struct ks_small_text path = {.ptr = out, .size = KS_KEPT_PATH_SIZE};
    ks_small_text_put(&path, root);
    ks_small_text_put(&path, folder);
    ks_small_text_put(&path, name);
    return !path.is_cut;
}

void ks_kept_file_open(struct ks_kept_file *file, const char *root, const char *folder,
                       const char *name)
{
    char path[KS_KEPT_PATH_SIZE];
    struct stat about = {0};
    file->fd = ks_kept_path(path, root, folder, name) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file->fd >= 0) {
        (void)fstat(file->fd, &about);
    }
    file->device = about.st_dev;
    file->inode = about.st_ino;
}

static bool is_own(const struct ks_kept_file *file)
{
    struct stat about;
    return fstat(file->fd, &about) == 0 && about.st_dev == file->device &&
           about.st_ino == file->inode;
}

/* The kernel hands out texts of many lines by pages, so that a read that ends well within one has
 * come to the end of the file: no second one is needed to learn that. */
enum { SURELY_ALL = 2048 };

bool ks_kept_file_read(const struct ks_kept_file *file, char *text, size_t size)
{
    size_t len = 0;
    while (file->fd >= 0 && len + 1 < size) {
        ssize_t got = pread(file->fd, text + len, size - 1 - len, (off_t)len);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        len += (size_t)got;
        if (got < SURELY_ALL && len < SURELY_ALL) {
            break;
        }
    }
    text[len] = '\0';
    return len > 0;
}

void ks_kept_file_close(struct ks_kept_file *file)
{
    if (file->fd >= 0 && is_own(file)) {
        (void)close(file->fd);
    }
    file->fd = -1;
}
