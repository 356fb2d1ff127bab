#ifndef KS_BASE_READ_AT_H
#define KS_BASE_READ_AT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads `size` bytes of the file from `offset` on, however many calls that takes. Gives how many
 * were read: fewer only when the file ends there; -1: it cannot be read, and errno says why. */
ssize_t ks_read_at(int fd, void *to, size_t size, int64_t offset);

#endif
