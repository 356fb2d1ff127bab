#include "store/chunk.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/read_at.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(ptr, size) ((void)(ptr), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(ptr, size) ((void)(ptr), (void)(size))
#endif

/* Where the bytes of a chunk come from.
 *
 * Without a limit they are cut from slabs of 4 MiB, which get huge pages: a first touch of fresh
 * 4 KiB pages costs more than filling them, so what a merge has consumed is used again for what it
 * writes. A slab is 64 blocks and a bitmap; a chunk takes 2^k blocks at a multiple of 2^k.
 * With a limit each chunk is mapped alone, so that the memory we count is the memory we hold. */
enum {
    BLOCK_SIZE = 64 * 1024,
    SLAB_BLOCKS = 64,
    SLAB_SIZE = SLAB_BLOCKS * BLOCK_SIZE,
    SMALL_SIZE_MAX = BLOCK_SIZE / 2, /* these come from ks_alloc: a tiny trace maps nothing */
};

enum place { PLACE_NONE, PLACE_SMALL, PLACE_SLAB, PLACE_PAGES };

struct pool_chunk {
    struct ks_chunk chunk; /* first: callers see only this */
    enum place place;
    size_t load_index; /* what the loader knows it by; of no use without one */
    uint32_t slab;
    uint32_t block;
    uint32_t block_count;
    struct pool_chunk *next_free;
    struct pool_chunk *next_made; /* all structs ever made, used or free */
};

static_assert(offsetof(struct pool_chunk, chunk) == 0, "a chunk pointer is a pool_chunk pointer");

struct slab {
    char *ptr;     /* NULL: given back by trim */
    uint64_t used; /* bit per block */
};

/* A range of the spill file that no chunk uses any more. */
struct extent {
    int64_t offset;
    int64_t size;
};

struct ks_chunk_pool {
    uint64_t bytes_max;
    uint64_t bytes_used; /* resident bytes of chunks */
    uint64_t bytes_peak;
    uint64_t bytes_spilled;
    bool is_shared;
    ks_chunk_load_cb load; /* NULL: chunks get their bytes from whoever makes them */
    void *load_user;
    pthread_mutex_t lock; /* only taken when shared or with a limit: else pins change nothing */

    struct ks_arena structs;
    struct pool_chunk *free_structs;
    struct pool_chunk *made_structs;
    struct slab *slabs;
    uint32_t slab_count;
    uint32_t slab_capacity;
    uint32_t slab_first_free; /* slabs before this one are full */

    struct ks_chunk *newest; /* resident and unpinned */
    struct ks_chunk *oldest;
    int spill_fd; /* -1: none yet */
    int64_t spill_end;
    struct extent *extents;
    size_t extent_count;
    size_t extent_capacity;
};

enum ks_status ks_chunk_pool_create(uint64_t bytes_max, struct ks_chunk_pool **out,
                                    struct ks_err *err)
{
    struct ks_chunk_pool *pool = ks_alloc(1, sizeof(*pool));
    if (!pool) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot create chunk pool: size=%zu",
                       sizeof(*pool));
    }
    pool->bytes_max = bytes_max;
    pool->spill_fd = -1;
    pthread_mutex_init(&pool->lock, NULL);
    ks_arena_init(&pool->structs);
    *out = pool;
    return KS_OK;
}

/* ------------------------------------------------------------------ memory */

/* All 2^k-block groups of a slab that start at a multiple of 2^k, one bit at each start. */
static uint64_t group_starts(uint32_t block_count)
{
    static const uint64_t starts[] = {
        UINT64_MAX,
        0x5555555555555555u,
        0x1111111111111111u,
        0x0101010101010101u,
        0x0001000100010001u,
        0x0000000100000001u,
        1,
    };
    return starts[__builtin_ctz(block_count)];
}

/* A bit stays set at each block from which `block_count` blocks on are all free. */
static uint64_t free_groups(uint64_t used, uint32_t block_count)
{
    uint64_t unused = ~used;
    for (uint32_t shift = 1; shift < block_count; shift *= 2) {
        unused &= unused >> shift;
    }
    return unused & group_starts(block_count);
}

static uint64_t group_mask(uint32_t block, uint32_t block_count)
{
    uint64_t ones = block_count == SLAB_BLOCKS ? UINT64_MAX : ((uint64_t)1 << block_count) - 1;
    return ones << block;
}

static bool take_from_slab(struct ks_chunk_pool *pool, uint32_t index, struct pool_chunk *c)
{
    struct slab *slab = &pool->slabs[index];
    uint64_t groups = slab->ptr ? free_groups(slab->used, c->block_count) : 0;
    if (groups == 0) {
        return false;
    }
    c->place = PLACE_SLAB;
    c->slab = index;
    c->block = (uint32_t)__builtin_ctzll(groups);
    slab->used |= group_mask(c->block, c->block_count);
    c->chunk.ptr = slab->ptr + (size_t)c->block * BLOCK_SIZE;
    ASAN_UNPOISON_MEMORY_REGION(c->chunk.ptr, c->chunk.size);
    return true;
}

static bool add_slab(struct ks_chunk_pool *pool)
{
    if (pool->slab_count == pool->slab_capacity) {
        uint32_t capacity = pool->slab_capacity == 0 ? 16 : pool->slab_capacity * 2;
        struct slab *slabs = ks_realloc(pool->slabs, capacity, sizeof(*slabs));
        if (!slabs) {
            return false;
        }
        pool->slabs = slabs;
        pool->slab_capacity = capacity;
    }
    char *ptr = ks_pages_map(SLAB_SIZE);
    if (!ptr) {
        return false;
    }
    ASAN_POISON_MEMORY_REGION(ptr, SLAB_SIZE);
    pool->slabs[pool->slab_count++] = (struct slab){.ptr = ptr};
    return true;
}

static bool alloc_in_slab(struct ks_chunk_pool *pool, struct pool_chunk *c)
{
    uint32_t block_count = 1;
    while ((size_t)block_count * BLOCK_SIZE < c->chunk.size) {
        block_count *= 2;
    }
    c->block_count = block_count;
    while (pool->slab_first_free < pool->slab_count &&
           (!pool->slabs[pool->slab_first_free].ptr ||
            pool->slabs[pool->slab_first_free].used == UINT64_MAX)) {
        pool->slab_first_free++;
    }
    for (uint32_t i = pool->slab_first_free; i < pool->slab_count; i++) {
        if (take_from_slab(pool, i, c)) {
            return true;
        }
    }
    return add_slab(pool) && take_from_slab(pool, pool->slab_count - 1, c);
}

static bool alloc_bytes(struct ks_chunk_pool *pool, struct pool_chunk *c)
{
    if (c->chunk.size <= SMALL_SIZE_MAX) {
        c->chunk.ptr = ks_alloc(1, c->chunk.size);
        c->place = PLACE_SMALL;
    } else if (pool->bytes_max == 0 && c->chunk.size <= SLAB_SIZE) {
        if (!alloc_in_slab(pool, c)) {
            return false;
        }
    } else {
        c->chunk.ptr = ks_pages_map(c->chunk.size);
        c->place = PLACE_PAGES;
    }
    if (!c->chunk.ptr) {
        c->place = PLACE_NONE;
        return false;
    }
    pool->bytes_used += c->chunk.size;
    if (pool->bytes_used > pool->bytes_peak) {
        pool->bytes_peak = pool->bytes_used;
    }
    return true;
}

static void free_bytes(struct ks_chunk_pool *pool, struct pool_chunk *c)
{
    switch (c->place) {
    case PLACE_NONE: return;
    case PLACE_SMALL: ks_free(c->chunk.ptr); break;
    case PLACE_PAGES: ks_pages_unmap(c->chunk.ptr, c->chunk.size); break;
    case PLACE_SLAB:
        pool->slabs[c->slab].used &= ~group_mask(c->block, c->block_count);
        if (c->slab < pool->slab_first_free) {
            pool->slab_first_free = c->slab;
        }
        ASAN_POISON_MEMORY_REGION(c->chunk.ptr, (size_t)c->block_count * BLOCK_SIZE);
        break;
    }
    c->chunk.ptr = NULL;
    c->place = PLACE_NONE;
    pool->bytes_used -= c->chunk.size;
}

static void unmap_slab(struct slab *slab)
{
    if (slab->ptr) {
        ASAN_UNPOISON_MEMORY_REGION(slab->ptr, SLAB_SIZE);
        ks_pages_unmap(slab->ptr, SLAB_SIZE);
        slab->ptr = NULL;
    }
}

void ks_chunk_pool_trim(struct ks_chunk_pool *pool)
{
    for (uint32_t i = 0; i < pool->slab_count; i++) {
        if (pool->slabs[i].used == 0) {
            unmap_slab(&pool->slabs[i]);
        }
    }
}

/* ------------------------------------------------------------------ spill file */

static enum ks_status open_spill_file(struct ks_chunk_pool *pool, struct ks_err *err)
{
    const char *folder = getenv("TMPDIR");
    if (!folder || folder[0] == '\0') {
        folder = "/tmp";
    }
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        /* Not every file system has unnamed files: make a named one and take the name away. */
        char path[PATH_MAX];
        int len = snprintf(path, sizeof(path), "%s/kscope-XXXXXX", folder);
        if (len > 0 && (size_t)len < sizeof(path)) {
            fd = mkostemp(path, O_CLOEXEC);
        }
        if (fd >= 0) {
            (void)unlink(path);
        }
    }
    if (fd < 0) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET,
                       "Cannot open spill file: folder=\"%s\", reason=\"%s\"", folder,
                       strerror(errno));
    }
    pool->spill_fd = fd;
    return KS_OK;
}

/* First fit among what destroyed chunks left, else the end of the file. */
static int64_t take_extent(struct ks_chunk_pool *pool, int64_t size)
{
    for (size_t i = 0; i < pool->extent_count; i++) {
        struct extent *extent = &pool->extents[i];
        if (extent->size >= size) {
            int64_t offset = extent->offset;
            extent->offset += size;
            extent->size -= size;
            if (extent->size == 0) {
                *extent = pool->extents[--pool->extent_count];
            }
            return offset;
        }
    }
    int64_t offset = pool->spill_end;
    pool->spill_end += size;
    return offset;
}

/* Forgetting an extent for lack of memory only makes the file longer. */
static void give_extent(struct ks_chunk_pool *pool, int64_t offset, int64_t size)
{
    for (size_t i = 0; i < pool->extent_count; i++) {
        struct extent *extent = &pool->extents[i];
        if (extent->offset + extent->size == offset) {
            extent->size += size;
            return;
        }
        if (offset + size == extent->offset) {
            extent->offset = offset;
            extent->size += size;
            return;
        }
    }
    if (pool->extent_count == pool->extent_capacity) {
        size_t capacity = pool->extent_capacity == 0 ? 16 : pool->extent_capacity * 2;
        struct extent *extents = ks_realloc(pool->extents, capacity, sizeof(*extents));
        if (!extents) {
            return;
        }
        pool->extents = extents;
        pool->extent_capacity = capacity;
    }
    pool->extents[pool->extent_count++] = (struct extent){offset, size};
}

static enum ks_status write_all(int fd, const char *ptr, size_t size, int64_t offset,
                                struct ks_err *err)
{
    while (size > 0) {
        ssize_t n = pwrite(fd, ptr, size, offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET,
                           "Cannot write spill file: size=%zu, reason=\"%s\"", size,
                           n < 0 ? strerror(errno) : "nothing was written");
        }
        ptr += n;
        size -= (size_t)n;
        offset += n;
    }
    return KS_OK;
}

static enum ks_status read_all(int fd, char *ptr, size_t size, int64_t offset, struct ks_err *err)
{
    ssize_t got = ks_read_at(fd, ptr, size, offset);
    if (got >= 0 && (size_t)got == size) {
        return KS_OK;
    }
    return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot read spill file: size=%zu, reason=\"%s\"",
                   size, got < 0 ? strerror(errno) : "file is shorter than what was written");
}

/* ------------------------------------------------------------------ eviction */

static void list_remove(struct ks_chunk_pool *pool, struct ks_chunk *chunk)
{
    *(chunk->newer ? &chunk->newer->older : &pool->newest) = chunk->older;
    *(chunk->older ? &chunk->older->newer : &pool->oldest) = chunk->newer;
    chunk->newer = NULL;
    chunk->older = NULL;
}

static void list_add(struct ks_chunk_pool *pool, struct ks_chunk *chunk)
{
    chunk->older = pool->newest;
    chunk->newer = NULL;
    *(pool->newest ? &pool->newest->newer : &pool->oldest) = chunk;
    pool->newest = chunk;
}

static enum ks_status evict(struct ks_chunk_pool *pool, struct ks_chunk *chunk, struct ks_err *err)
{
    if (chunk->dirty) {
        if (pool->spill_fd < 0) {
            KS_TRY(open_spill_file(pool, err));
        }
        if (chunk->spill_offset < 0) {
            chunk->spill_offset = take_extent(pool, (int64_t)chunk->size);
        }
        KS_TRY(write_all(pool->spill_fd, chunk->ptr, chunk->size, chunk->spill_offset, err));
        chunk->dirty = false;
        pool->bytes_spilled += chunk->size;
    }
    list_remove(pool, chunk);
    free_bytes(pool, (struct pool_chunk *)chunk);
    return KS_OK;
}

/* Makes room for `size` more bytes as far as unpinned chunks allow. */
static enum ks_status make_room(struct ks_chunk_pool *pool, size_t size, struct ks_err *err)
{
    while (pool->oldest && pool->bytes_used + size > pool->bytes_max) {
        KS_TRY(evict(pool, pool->oldest, err));
    }
    return KS_OK;
}

static enum ks_status make_resident(struct ks_chunk_pool *pool, struct pool_chunk *c,
                                    struct ks_err *err)
{
    if (pool->bytes_max > 0) {
        KS_TRY(make_room(pool, c->chunk.size, err));
    }
    if (!alloc_bytes(pool, c)) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot allocate chunk: size=%zu",
                       c->chunk.size);
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ chunks */

static void lock(struct ks_chunk_pool *pool)
{
    if (pool->bytes_max > 0 || pool->is_shared) {
        pthread_mutex_lock(&pool->lock);
    }
}

static void unlock(struct ks_chunk_pool *pool)
{
    if (pool->bytes_max > 0 || pool->is_shared) {
        pthread_mutex_unlock(&pool->lock);
    }
}

static struct pool_chunk *take_struct(struct ks_chunk_pool *pool)
{
    struct pool_chunk *c = pool->free_structs;
    if (c) {
        pool->free_structs = c->next_free;
        return c;
    }
    c = ks_new(&pool->structs, struct pool_chunk, 1);
    if (c) {
        c->next_made = pool->made_structs;
        pool->made_structs = c;
    }
    return c;
}

static void give_struct(struct ks_chunk_pool *pool, struct pool_chunk *c)
{
    c->next_free = pool->free_structs;
    pool->free_structs = c;
}

static enum ks_status create_locked(struct ks_chunk_pool *pool, size_t size, struct ks_chunk **out,
                                    struct ks_err *err)
{
    struct pool_chunk *c = take_struct(pool);
    if (!c) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot create chunk: size=%zu", size);
    }
    *c = (struct pool_chunk){
        .chunk = {.size = size, .spill_offset = -1, .pins = 1, .dirty = true},
        .next_made = c->next_made,
    };
    enum ks_status status = make_resident(pool, c, err);
    if (status != KS_OK) {
        give_struct(pool, c);
        return status;
    }
    *out = &c->chunk;
    return KS_OK;
}

enum ks_status ks_chunk_create_raw(struct ks_chunk_pool *pool, size_t size, struct ks_chunk **out,
                                   struct ks_err *err)
{
    KS_ASSERT(size > 0);
    lock(pool);
    enum ks_status status = create_locked(pool, size, out, err);
    unlock(pool);
    return status;
}

enum ks_status ks_chunk_create(struct ks_chunk_pool *pool, size_t size, struct ks_chunk **out,
                               struct ks_err *err)
{
    KS_TRY(ks_chunk_create_raw(pool, size, out, err));
    if (((struct pool_chunk *)*out)->place == PLACE_SLAB) {
        memset((*out)->ptr, 0, size); // only slabs hold used memory
    }
    return KS_OK;
}

void ks_chunk_pool_set_loader(struct ks_chunk_pool *pool, ks_chunk_load_cb load, void *user)
{
    KS_ASSERT(pool->bytes_max > 0);
    pool->load = load;
    pool->load_user = user;
}

enum ks_status ks_chunk_create_unloaded(struct ks_chunk_pool *pool, size_t size, size_t index,
                                        struct ks_chunk **out, struct ks_err *err)
{
    KS_ASSERT(pool->load);
    struct pool_chunk *c = take_struct(pool);
    if (!c) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot create chunk: size=%zu", size);
    }
    *c = (struct pool_chunk){
        .chunk = {.size = size, .spill_offset = -1},
        .load_index = index,
        .next_made = c->next_made,
    };
    *out = &c->chunk;
    return KS_OK;
}

void ks_chunk_destroy(struct ks_chunk_pool *pool, struct ks_chunk *chunk)
{
    if (!chunk) {
        return;
    }
    lock(pool);
    if (pool->bytes_max > 0 && chunk->pins == 0 && chunk->ptr) {
        list_remove(pool, chunk);
    }
    if (chunk->spill_offset >= 0) {
        give_extent(pool, chunk->spill_offset, (int64_t)chunk->size);
    }
    free_bytes(pool, (struct pool_chunk *)chunk);
    give_struct(pool, (struct pool_chunk *)chunk);
    unlock(pool);
}

static enum ks_status pin_locked(struct ks_chunk_pool *pool, struct ks_chunk *chunk,
                                 struct ks_err *err)
{
    if (chunk->pins > 0) {
        chunk->pins++;
        return KS_OK;
    }
    if (chunk->ptr) {
        list_remove(pool, chunk);
        chunk->pins = 1;
        return KS_OK;
    }
    struct pool_chunk *c = (struct pool_chunk *)chunk;
    KS_TRY(make_resident(pool, c, err));
    enum ks_status status =
        chunk->spill_offset >= 0
            ? read_all(pool->spill_fd, chunk->ptr, chunk->size, chunk->spill_offset, err)
            : pool->load(pool->load_user, c->load_index, chunk->ptr, chunk->size, err);
    if (status != KS_OK) {
        free_bytes(pool, c);
        return status;
    }
    chunk->pins = 1;
    return KS_OK;
}

enum ks_status ks_chunk_pin(struct ks_chunk_pool *pool, struct ks_chunk *chunk, struct ks_err *err)
{
    if (pool->bytes_max == 0) {
        return KS_OK; // nothing ever moves, so nobody needs to know
    }
    lock(pool);
    enum ks_status status = pin_locked(pool, chunk, err);
    unlock(pool);
    return status;
}

void ks_chunk_unpin(struct ks_chunk_pool *pool, struct ks_chunk *chunk, bool wrote)
{
    if (pool->bytes_max == 0) {
        return;
    }
    lock(pool);
    KS_ASSERT(chunk->pins > 0);
    chunk->dirty = chunk->dirty || wrote;
    if (--chunk->pins == 0) {
        list_add(pool, chunk);
    }
    unlock(pool);
}

void ks_chunk_pool_destroy(struct ks_chunk_pool *pool)
{
    if (!pool) {
        return;
    }
    for (struct pool_chunk *c = pool->made_structs; c; c = c->next_made) {
        free_bytes(pool, c);
    }
    for (uint32_t i = 0; i < pool->slab_count; i++) {
        unmap_slab(&pool->slabs[i]);
    }
    if (pool->spill_fd >= 0) {
        (void)close(pool->spill_fd);
    }
    ks_free(pool->slabs);
    ks_free(pool->extents);
    ks_arena_release(&pool->structs);
    pthread_mutex_destroy(&pool->lock);
    ks_free(pool);
}

void ks_chunk_pool_share(struct ks_chunk_pool *pool, bool is_shared)
{
    pool->is_shared = is_shared;
}

uint64_t ks_chunk_pool_bytes_max(const struct ks_chunk_pool *pool)
{
    return pool->bytes_max;
}

uint64_t ks_chunk_pool_bytes_spilled(const struct ks_chunk_pool *pool)
{
    return pool->bytes_spilled;
}

uint64_t ks_chunk_pool_bytes_peak(const struct ks_chunk_pool *pool)
{
    return pool->bytes_peak;
}
