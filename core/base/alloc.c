#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Huge pages are for what is far larger than the caches. A chunk of a table is not: its 4 KiB pages
 * are cleared just before they are filled, while 2 MiB at once go out to memory and come back. A
 * report of 105 MB that starts behind a large process took 0.21 s with them and 0.17 s without. */
enum { HUGE_PAGE_SIZE = 2 * 1024 * 1024, HUGE_FROM = 8 * HUGE_PAGE_SIZE };

#ifdef KS_FAULTS
static _Atomic int64_t calls;
static _Atomic int64_t fail_at;
static atomic_bool fail_for_ever;
static _Atomic int64_t live;

static bool must_fail(void)
{
    int64_t call = atomic_fetch_add(&calls, 1) + 1;
    int64_t at = atomic_load(&fail_at);
    return at != 0 && (call == at || (call > at && atomic_load(&fail_for_ever)));
}

static void count_live(int64_t change)
{
    atomic_fetch_add(&live, change);
}

void ks_alloc_fail_at(int64_t at, bool for_ever)
{
    atomic_store(&calls, 0);
    atomic_store(&fail_for_ever, for_ever);
    atomic_store(&fail_at, at);
}

int64_t ks_alloc_calls(void)
{
    return atomic_load(&calls);
}

int64_t ks_alloc_live(void)
{
    return atomic_load(&live);
}
#else
static bool must_fail(void)
{
    return false;
}

static void count_live(int64_t change)
{
    (void)change;
}

void ks_alloc_fail_at(int64_t at, bool for_ever)
{
    (void)at;
    (void)for_ever;
}

int64_t ks_alloc_calls(void)
{
    return 0;
}

int64_t ks_alloc_live(void)
{
    return 0;
}
#endif

void *ks_alloc(size_t count, size_t size)
{
    if (must_fail()) {
        return NULL;
    }
    /* calloc checks the product; asking for one byte at least makes NULL mean failure only. */
    void *ptr = count == 0 || size == 0 ? calloc(1, 1) : calloc(count, size);
    if (ptr) {
        count_live(1);
    }
    return ptr;
}

void *ks_realloc(void *ptr, size_t count, size_t size)
{
    size_t bytes = 0;
    if (must_fail() || __builtin_mul_overflow(count, size, &bytes)) {
        return NULL;
    }
    void *grown = realloc(ptr, bytes == 0 ? 1 : bytes);
    if (grown && !ptr) {
        count_live(1);
    }
    return grown;
}

void ks_free(void *ptr)
{
    if (ptr) {
        count_live(-1);
        free(ptr);
    }
}

static size_t round_to_pages(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) & ~(page - 1);
}

static void *map_bytes(size_t size)
{
    void *ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return ptr == MAP_FAILED ? NULL : ptr;
}

/* Maps more than asked for and gives back both ends, because only an aligned range can be made of
 * huge pages. A kernel without them just ignores the advice. */
static void *map_huge(size_t size)
{
    char *ptr = map_bytes(size + HUGE_PAGE_SIZE);
    if (!ptr) {
        return NULL;
    }
    size_t before = (size_t)(-(uintptr_t)ptr & (HUGE_PAGE_SIZE - 1));
    if (before > 0) {
        munmap(ptr, before);
    }
    munmap(ptr + before + size, HUGE_PAGE_SIZE - before);
    (void)madvise(ptr + before, size, MADV_HUGEPAGE);
    return ptr + before;
}

void *ks_pages_map(size_t size)
{
    if (must_fail() || size == 0 || size > SIZE_MAX / 2) {
        return NULL;
    }
    size = round_to_pages(size);
    void *ptr = size >= HUGE_FROM ? map_huge(size) : map_bytes(size);
    if (ptr) {
        count_live(1);
    }
    return ptr;
}

void ks_pages_unmap(void *ptr, size_t size)
{
    if (ptr) {
        count_live(-1);
        munmap(ptr, round_to_pages(size));
    }
}

void *ks_hash_alloc(size_t count, size_t size)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        return NULL;
    }
    return bytes >= HUGE_PAGE_SIZE ? ks_pages_map(bytes) : ks_alloc(count, size);
}

void ks_hash_free(void *ptr, size_t count, size_t size)
{
    if (count * size >= HUGE_PAGE_SIZE) {
        ks_pages_unmap(ptr, count * size);
    } else {
        ks_free(ptr);
    }
}
