/* An input as a file, for what is opened by its path. */
#ifndef KS_FUZZ_FILE_H
#define KS_FUZZ_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"

/* One file for all inputs: making one takes longer than reading it. */
static inline const char *fuzz_file(const uint8_t *bytes, size_t size)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        KS_ASSERT(fd >= 0);
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    KS_ASSERT(ftruncate(fd, (off_t)size) == 0 && pwrite(fd, bytes, size, 0) == (ssize_t)size);
    return path;
}

#endif
