#include "capture/sampler/self_memory.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Makes `fd` and `area` one memory, or leaves no file. */
static void map_file(struct ks_self_memory *memory)
{
    memory->fd = memfd_create("kscope-sampler", MFD_CLOEXEC);
    if (memory->fd < 0) {
        return;
    }
    void *area = MAP_FAILED;
    if (ftruncate(memory->fd, (off_t)memory->size) == 0) {
        area = mmap(NULL, memory->size, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
    }
    if (area == MAP_FAILED) {
        (void)close(memory->fd);
        memory->fd = -1;
        return;
    }
    memory->area = area;
}

static void map_anonymous(struct ks_self_memory *memory)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *area = mmap(NULL, memory->size, PROT_READ | PROT_WRITE, flags, -1, 0);
    memory->area = area == MAP_FAILED ? NULL : area;
}

bool ks_self_memory_init(struct ks_self_memory *memory, size_t size)
{
    *memory = (struct ks_self_memory){.size = size, .fd = -1};
    map_file(memory);
    if (!memory->area) {
        map_anonymous(memory);
    }
    if (!memory->area) {
        return false;
    }
    (void)madvise(memory->area, size, MADV_DONTFORK);
    return true;
}

void ks_self_memory_release(struct ks_self_memory *memory)
{
    if (memory->area) {
        (void)munmap(memory->area, memory->size);
    }
    if (memory->fd >= 0) {
        (void)close(memory->fd);
    }
    *memory = (struct ks_self_memory){.fd = -1};
}

static size_t read_own_process(struct ks_self_memory *memory, size_t at, const struct iovec *pieces,
                               int piece_count)
{
    struct iovec to = {memory->area + at, memory->size - at};
    ssize_t got = process_vm_readv(getpid(), &to, 1, pieces, (unsigned long)piece_count, 0);
    return got > 0 ? (size_t)got : 0;
}

size_t ks_self_memory_gather(struct ks_self_memory *memory, size_t at, const struct iovec *pieces,
                             int piece_count)
{
    size_t size = 0;
    for (int i = 0; i < piece_count; i++) {
        size += pieces[i].iov_len;
    }
    if (size == 0 || at > memory->size || size > memory->size - at ||
        piece_count > KS_SELF_MEMORY_PIECES_MAX) {
        return 0;
    }
    if (memory->fd < 0) {
        return read_own_process(memory, at, pieces, piece_count);
    }
    ssize_t got = pwritev(memory->fd, pieces, piece_count, (off_t)at);
    return got > 0 ? (size_t)got : 0;
}

bool ks_self_memory_read(struct ks_self_memory *memory, size_t at, uintptr_t from, size_t size)
{
    struct iovec piece = {(void *)from, size};
    return ks_self_memory_gather(memory, at, &piece, 1) == size;
}
