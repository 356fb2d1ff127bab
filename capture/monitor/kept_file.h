/* Files of the kernel that are read again and again: opened once, and read from their start, which
 * costs a third of opening each time. `root` stands before every path; "" is the machine itself. */
#ifndef KS_CAPTURE_MONITOR_KEPT_FILE_H
#define KS_CAPTURE_MONITOR_KEPT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KS_KEPT_PATH_SIZE = 512 };

struct ks_kept_file {
    int fd; /* -1: there is none */
    uint64_t device, inode;
};

/* `folder` and `name` are put behind `root` as they are: "/proc", "/stat". */
void ks_kept_file_open(struct ks_kept_file *file, const char *root, const char *folder,
                       const char *name);
/* As much of it as fits, ended by NUL; false, and "", when nothing can be read. */
bool ks_kept_file_read(const struct ks_kept_file *file, char *text, size_t size);
/* Programs that close whatever is open give the number to files of their own, which stay open. */
void ks_kept_file_close(struct ks_kept_file *file);

/* A path put together; false when it is too long. */
bool ks_kept_path(char out[KS_KEPT_PATH_SIZE], const char *root, const char *folder,
                  const char *name);

#endif
