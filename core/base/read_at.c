#include "base/read_at.h"

#include <errno.h>
#include <unistd.h>

ssize_t ks_read_at(int fd, void *to, size_t size, int64_t offset)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(fd, (char *)to + done, size - done, offset + (off_t)done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -1;
        }
        if (got == 0) {
            break;
        }
        done += (size_t)got;
    }
    return (ssize_t)done;
}
