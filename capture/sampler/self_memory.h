/* Reads of this process's own memory that cannot fault: what is not mapped (any more) gives an
 * error. The kernel copies the pieces to a page of a memory file that is mapped here, one call for
 * all of them. On the machines we measured that takes a seventh of what process_vm_readv takes for
 * fifty pieces, which pins pages; the latter is the fallback where there are no memory files. */
#ifndef KS_CAPTURE_SAMPLER_SELF_MEMORY_H
#define KS_CAPTURE_SAMPLER_SELF_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum { KS_SELF_MEMORY_PIECES_MAX = 1024 }; /* the system's limit */

struct ks_self_memory {
    char *area; /* what was read lies here */
    size_t size;
    int fd; /* of the memory file; -1: process_vm_readv */
};

/* False: no memory. A child does not inherit the area. */
bool ks_self_memory_init(struct ks_self_memory *memory, size_t size);
void ks_self_memory_release(struct ks_self_memory *memory);

/* Copies pieces one behind the other to `area + at`; gives how many bytes arrived, which are fewer
 * than asked for when a piece cannot be read. */
size_t ks_self_memory_gather(struct ks_self_memory *memory, size_t at, const struct iovec *pieces,
                             int piece_count);
/* One piece, whole or not at all. */
bool ks_self_memory_read(struct ks_self_memory *memory, size_t at, uintptr_t from, size_t size);

#endif
